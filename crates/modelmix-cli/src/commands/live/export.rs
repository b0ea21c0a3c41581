//! `modelmix export`: the collected samples of a run as files, features, a manifest and the mixture.

use std::io::Cursor;
use std::path::Path;

use modelmix::{Encoding, Features};
use modelmix_encode::store::{FeatureFile, FileType, NamedFeatures};
use modelmix_live::config::{Basis, described};
use modelmix_live::pool::{PoolSample, draw, pool};
use modelmix_live::status;
use modelmix_live::store::Reader;
use modelmix_live::store::payloads::Payloads;
use serde_json::json;

use crate::args::{ExportArgs, Exported};
use crate::error::{Failure, Result};
use crate::files::{self, Scratch};
use crate::terminal::{Cell, Table, Terminal, counted};
use modelmix_cli::tables;

pub(crate) fn run(args: &ExportArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    if args.out.exists() {
        return Err(Failure::input(format!("{} exists already; name a new folder", args.out.display())));
    }
    let parent = args.out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    files::check_folder(parent)?;
    let reader = Reader::open(&args.dir)?;
    let history = reader.history()?;
    let (config, _) = described(&history.description)?;
    let names: Vec<String> = config.arms.iter().map(|arm| arm.name.clone()).collect();
    let status = status::read(&args.dir, terminal.engine())?;
    let mut samples = pool(&history);
    if args.what == Exported::Mixture {
        let weights: Vec<f64> = status.arms.iter().map(|arm| arm.weight).collect();
        let arms: Vec<usize> = samples.iter().map(|sample| sample.arm).collect();
        let chosen = draw(&arms, &weights, args.count, args.seed).map_err(|sentence| named(&sentence, &names))?;
        samples = chosen.into_iter().map(|at| samples[at].clone()).collect();
    } else if args.count.is_some() {
        return Err(Failure::input("--count draws by the weights; give --what mixture with it"));
    }
    if samples.is_empty() {
        return Err(Failure::input(format!("the run in {} has no samples yet", args.dir.display())));
    }
    let prompts = Basis::described(&history.description, terminal.engine()).ok().and_then(|basis| basis.prompts);
    let scratch = Scratch::within(parent)?;
    let paths = write_samples(&samples, &names, &reader.payloads(), scratch.path(), args.link)?;
    let manifest = manifest(&samples, &names, &paths, |number| prompts.as_ref()?.text(number));
    let write = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        std::fs::write(&path, bytes).map_err(|error| Failure::Write(path, error))
    };
    write("manifest.csv", manifest.as_bytes())?;
    write("features.npz", &features(&samples, &names, &paths, &history.description)?)?;
    let mixture = json!({
        "weights": status.arms.iter().map(|arm| (arm.name.clone(), json!(arm.weight))).collect::<serde_json::Map<_, _>>(),
        "objective": status.report.objective,
        "samples": status.samples,
        "version": status.version,
    });
    write("mixture.json", format!("{mixture:#}\n").as_bytes())?;
    scratch.rename(&args.out)?;
    terminal.document(&json!({"command": "export", "folder": args.out, "samples": samples.len()}))?;
    terminal.say(format!(
        "{} in {}: samples, features.npz, manifest.csv and mixture.json",
        counted(samples.len(), "sample"),
        args.out.display()
    ));
    terminal.print_after(Ok(()))
}

/// The sentence of the library names arms by their index.
fn named(sentence: &str, names: &[String]) -> Failure {
    let found = names.iter().enumerate().fold(sentence.to_string(), |text, (at, name)| {
        text.replace(&format!("of arm {at},"), &format!("of arm {name},"))
    });
    Failure::input(found)
}

/// Copies or links the files of samples, and returns their paths in the folder; empty for samples without a file.
fn write_samples(
    samples: &[PoolSample],
    names: &[String],
    payloads: &Payloads,
    folder: &Path,
    link: bool,
) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for sample in samples {
        let Some(payload) = &sample.payload else {
            paths.push(String::new());
            continue;
        };
        let arm: String =
            names[sample.arm].chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
        let extension = match payload.extension.as_str() {
            "" => String::new(),
            extension => format!(".{extension}"),
        };
        // The index keeps arms apart whose names differ in other characters only.
        let name = format!("samples/{:02}-{arm}/{:06}-{}{extension}", sample.arm, sample.pull, sample.ordinal);
        let place = folder.join(&name);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent).map_err(|error| Failure::Write(parent.into(), error))?;
        }
        let source = payloads.path(payload);
        let written = match link {
            true => std::fs::hard_link(&source, &place),
            // Reading compares the checksum.
            false => std::fs::write(&place, payloads.read(payload)?),
        };
        written.map_err(|error| Failure::Write(place, error))?;
        paths.push(name);
    }
    Ok(paths)
}

/// One row per sample.
fn manifest<'a>(
    samples: &[PoolSample],
    names: &[String],
    paths: &[String],
    prompt: impl Fn(u64) -> Option<&'a str>,
) -> String {
    let scores: Vec<&String> = samples.first().map_or_else(Vec::new, |sample| sample.scores.keys().collect());
    let mut header = vec!["arm", "row", "file", "pull", "prompt", "seed", "cost", "sha256"];
    header.extend(scores.iter().map(|name| name.as_str()));
    let mut table = Table::new("The samples", header);
    let mut rows = vec![0; names.len()];
    for (sample, path) in samples.iter().zip(paths) {
        let text = |text: &str| Cell::from(text);
        let mut row = vec![text(&names[sample.arm]), rows[sample.arm].to_string().into(), text(path)];
        rows[sample.arm] += 1;
        row.push(sample.pull.to_string().into());
        row.push(text(sample.prompt.and_then(&prompt).unwrap_or_default()));
        row.push(sample.seed.to_string().into());
        row.push(sample.cost.to_string().into());
        row.push(text(sample.payload.as_ref().map_or("", |payload| &payload.sha256)));
        row.extend(
            scores.iter().map(|name| Cell::from(sample.scores.get(*name).map_or_else(String::new, f64::to_string))),
        );
        table.row(row);
    }
    tables::csv(&table)
}

/// The features by arm, with the paths as ids.
fn features(samples: &[PoolSample], names: &[String], paths: &[String], description: &str) -> Result<Vec<u8>> {
    let stored: serde_json::Value = serde_json::from_str(description).unwrap_or_default();
    let encoding = match stored["identity"]["encoder"].as_str() {
        Some(fingerprint) => Encoding::new("the encoder of the run", fingerprint),
        None => Encoding::new("the arms of the run", stored["id"].as_str().unwrap_or_default()),
    };
    let mut sets = Vec::new();
    for (arm, name) in names.iter().enumerate() {
        let of_arm = || samples.iter().zip(paths).filter(|(sample, _)| sample.arm == arm);
        let Some((first, _)) = of_arm().next() else { continue };
        let values = of_arm().flat_map(|(sample, _)| sample.features.iter().copied()).collect();
        let id = |(sample, path): (&PoolSample, &String)| match path.is_empty() {
            true => format!("{}-{}", sample.pull, sample.ordinal),
            false => path.clone(),
        };
        let features = Features::new(first.features.len(), values)?;
        sets.push(NamedFeatures { name: name.clone(), features, ids: of_arm().map(id).collect() });
    }
    let mut bytes = Cursor::new(Vec::new());
    let written = FeatureFile { encoding, sets }.write(FileType::Npz, &mut bytes);
    written.map_err(|error| Failure::Write("features.npz".into(), error))?;
    Ok(bytes.into_inner())
}
