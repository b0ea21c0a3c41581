//! `modelmix curate`: selects a coreset.

mod copies;
pub(crate) mod gallery;
mod manifest;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use modelmix::curate::curate_within;
use modelmix::document::Document;
use modelmix::load::ArmSource;
use modelmix::simplex::Bounds;
use modelmix::{Curated, Curation};

use super::output::{Outputs, Section, report};
use super::solve::prepare;
use crate::args::CurateArgs;
use crate::error::Result;
use crate::files;
use crate::inputs::{self, Recorded};
use crate::terminal::{Cell, Table, Terminal, bar, bold, brief_cell, count_cell, dim, percents, spread};
use copies::Copies;
use manifest::{Kind, Manifest};

pub(crate) fn run(args: &CurateArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    gallery::check(&args.output, args.out.is_some() || args.copy_to.is_some())?;
    copies::check(args)?;
    let kind = args.out.as_deref().map(manifest::kind).transpose()?;
    let manifest = args.out.as_deref().zip(kind).map(|(out, kind)| (kind, manifest::files(out, kind)));
    let manifest_files = manifest.iter().flat_map(|(_, files)| files);
    manifest_files.clone().try_for_each(|path| files::check(path))?;
    files::check_distinct(manifest_files.chain(&args.output.html))?;
    let settings = Curation::default()
        .count(args.count)
        .proportions(args.proportions)
        .seed(args.objective.seed)
        .sweeps(args.sweeps)
        .pool(args.pool);
    let mut recorded = Recorded::load(&args.arms, &args.common, &terminal)?;
    recorded.choose_engine(&args.engine, &terminal)?;
    if let Some(file) = &args.objective.scores {
        recorded.arms = inputs::with_scores(recorded.arms, file)?;
    }
    let written = manifest.iter().flat_map(|(_, files)| files).chain(&args.output.html);
    let hashing = inputs::sources(&args.arms, &args.objective, &args.common, &recorded)?
        .protected_from(written)?
        .hash(terminal.keeps(&args.output) || args.out.is_some());
    let loss = prepare(&args.objective, &recorded, &terminal)?;
    let floors = inputs::by_arm("floor", &args.floor, &recorded.arms, Some(0.0))?;
    let caps = inputs::by_arm("cap", &args.cap, &recorded.arms, Some(1.0))?;
    let bounds = Bounds::by_arm(&recorded.arms.names(), floors, caps)?;
    if args.output.images.is_empty() {
        recorded.read_ids(&args.arms)?;
    }
    let images = recorded.find_images(&args.output.images, &args.arms)?;
    let names = gallery::names(&images, &recorded)?;
    copies::check_files(args, &recorded)?;
    let progress = terminal.progress("choosing rows", settings.steps());
    let curated = curate_within(&recorded.arms, &loss, &bounds, &settings, &|| progress.inc(1));
    progress.finish_and_clear();
    let mut document = curated?;
    let (engine, seed) = (terminal.engine_text(), args.objective.seed);
    document.provenance = hashing.provenance(engine, seed, loss.bandwidths(&recorded.arms, seed))?;
    terminal.document(&Document::Curate(document.clone()))?;
    print(&terminal, &document);
    let written = write(&terminal, args, document, manifest, &names, (&recorded, &images));
    terminal.print_after(written)
}

/// Writes the requested manifest, report and figures.
fn write(
    terminal: &Terminal,
    args: &CurateArgs,
    document: Curated,
    manifest: Option<(Kind, Vec<PathBuf>)>,
    names: &BTreeMap<String, Vec<String>>,
    (recorded, images): (&Recorded, &[ArmSource]),
) -> Result<()> {
    let copies =
        args.copy_to.as_deref().map(|folder| Copies::of(folder, args.link, &document, recorded)).transpose()?;
    let mut outputs = Outputs::default();
    if let Some((kind, files)) = manifest {
        let manifest = Manifest { document: &document, arms: &args.arms, names };
        let names = ["The manifest", "The description of the manifest"];
        for ((path, text), name) in files.iter().zip(manifest.texts(kind)?).zip(names) {
            outputs.add(path, name, text.as_bytes())?;
        }
    }
    let gallery = gallery::chosen(&args.output, &document, images, Some(recorded))?;
    let title = args.output.title.clone().unwrap_or_else(|| "A curated set".into());
    let section = Section { name: "curate".into(), curate: Some(document), gallery, ..Section::default() };
    outputs.add_report(&report(title, vec![section]), &args.output)?;
    if let Some(copies) = copies {
        copies.write()?;
        terminal.remark(format!(
            "The selected files are in {}",
            args.copy_to.as_deref().unwrap_or(Path::new("")).display()
        ));
    }
    outputs.commit(terminal).map(drop)
}

/// Prints the result in a sentence, then the arms, a comparison of the set, and the note on its bias.
fn print(terminal: &Terminal, document: &Curated) {
    terminal.say(bold(&document.sentence()));
    terminal.say("");
    let mut table = Table::new("Arms of the set", ["arm", "chosen", "share", "", "in the mixture", "samples"]).bars(3);
    let shares = percents(document.arms.iter().map(|arm| arm.share));
    let weights = percents(document.arms.iter().map(|arm| arm.weight));
    for ((arm, share), weight) in document.arms.iter().zip(shares).zip(weights) {
        let length = bar(arm.share, 20).into();
        table.row(vec![Cell::from(&arm.name), count_cell(arm.chosen), share, length, weight, count_cell(arm.samples)]);
    }
    terminal.table(table);
    terminal.say("");
    let header = ["", "loss", &document.score.name];
    // The score of a sum of terms is its loss.
    let shown = if document.score.is_loss() { 2 } else { 3 };
    let mut table = Table::new("Comparison of the set", header.into_iter().take(shown));
    let row = |cells: [Cell; 3]| cells.into_iter().take(shown).collect();
    let random = |[mean, std]: [f64; 2]| spread(mean, Some(std), "std");
    table.strong_row(row(["this set".into(), brief_cell(document.set.loss), brief_cell(document.set.score)]));
    table.row(row(["random sets".into(), random(document.random.loss), random(document.random.score)]));
    let mixture = &document.mixture;
    table.row(row(["mixture of all rows".into(), brief_cell(mixture.loss), brief_cell(mixture.score)]));
    terminal.table(table);
    terminal.say("");
    let kernels: Vec<String> = document.kernels.iter().map(|kernel| format!("; {kernel}")).collect();
    terminal.say(dim(&format!("objective {}{}; {}", document.objective, kernels.concat(), document.how())));
    terminal.say(&document.note);
}
