//! `modelmix encode`: writes features of images and texts to a file.

use std::io::BufWriter;
use std::time::Instant;

use modelmix::load::ArmSource;
use modelmix_encode::store::{FeatureFile, FileType, NamedFeatures};
use serde::Serialize;

use crate::args::EncodeArgs;
use crate::encoding::{EncodedArm, EncodedSetSummary, EncodedSets, Encoding, SampleSet};
use crate::error::{Failure, Result};
use crate::files::{self, Batch};
use crate::terminal::{Cell, Table, Terminal, bold, count_cell, counted, dim};

/// A document with the name of its command.
#[derive(Serialize)]
#[serde(tag = "command", rename = "encode")]
struct Printed<'a> {
    #[serde(flatten)]
    result: &'a EncodedSets,
}

pub(crate) fn run(args: &EncodeArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    let file_type = FileType::of(&args.out)?;
    files::check(&args.out)?;
    let sources = args.samples.iter().map(|text| text.parse()).collect::<modelmix::Result<Vec<ArmSource>>>()?;
    files::check_not_inputs([&args.out], sources.iter().map(|source| &source.path))?;
    let mut encoder = args.encoder.clone();
    encoder.encoder_weights = encoder.encoder_weights.or_else(|| args.weights.clone());
    encoder.preprocessing = encoder.preprocessing.or_else(|| args.preset.clone());
    let encoding = Encoding::open(&encoder, None, &args.common, &terminal)?;
    let start = Instant::now();
    let mut sets: Vec<SampleSet> = Vec::new();
    for source in &sources {
        for set in encoding.sets(source)? {
            if sets.iter().any(|other| other.name == set.name) {
                let name = &set.name;
                return Err(Failure::input(format!(
                    "two sets have the name {name}; name them, as in other={}",
                    source.path.display()
                )));
            }
            sets.push(set);
        }
    }
    let arms = sets.into_iter().map(|set| encoding.encode(set)).collect::<Result<Vec<EncodedArm>>>()?;
    let seconds = start.elapsed().as_secs_f64();
    let document = document(args, &encoding, &arms);
    let encoding = document.encoding.clone();
    let set = |arm: EncodedArm| NamedFeatures { name: arm.name, ids: arm.samples.ids(), features: arm.features };
    let sets = arms.into_iter().map(set);
    let file = FeatureFile { encoding, sets: sets.collect() };
    let mut batch = Batch::default();
    batch.add_with(&args.out, |out| file.write(file_type, BufWriter::new(out)))?;
    let written = batch.commit();
    terminal.document(&Printed { result: &document })?;
    print(&terminal, &document, seconds);
    terminal.print_after(written).map(drop)
}

fn document(args: &EncodeArgs, encoding: &Encoding<'_>, arms: &[EncodedArm]) -> EncodedSets {
    let set = |arm: &EncodedArm| EncodedSetSummary {
        name: arm.name.clone(),
        samples: arm.samples.len(),
        skipped: arm.skipped,
        cached: arm.cached,
    };
    EncodedSets {
        version: modelmix::VERSION,
        encoding: encoding.encoder().encoding().clone(),
        width: encoding.encoder().width(),
        file: args.out.to_string_lossy().into_owned(),
        sets: arms.iter().map(set).collect(),
    }
}

fn print(terminal: &Terminal, document: &EncodedSets, seconds: f64) {
    let samples: usize = document.sets.iter().map(|set| set.samples).sum();
    let fresh = samples - document.sets.iter().map(|set| set.cached).sum::<usize>();
    let (verb, each) = if samples == 1 { ("is", "") } else { ("are", " each") };
    terminal.say(bold(&format!(
        "{} {verb} encoded as {}{each}, in {}.",
        counted(samples, "sample"),
        counted(document.width, "feature"),
        document.file
    )));
    terminal.say("");
    let mut table = Table::new("Encoded samples", ["set", "samples", "from the cache", "skipped"]);
    for set in &document.sets {
        table.row(vec![
            Cell::from(&set.name),
            count_cell(set.samples),
            count_cell(set.cached),
            count_cell(set.skipped),
        ]);
    }
    terminal.table(table);
    terminal.say("");
    let rate = if fresh > 0 && seconds > 0.0 {
        format!("; {:.1} samples per second", fresh as f64 / seconds)
    } else {
        String::new()
    };
    let runtime = document.encoding.runtime.as_deref().unwrap_or_default();
    terminal.say(dim(&format!("encoder {}; {runtime}{rate}", document.encoding)));
}
