//! `modelmix curate`: the rows that make the best set.

pub(crate) mod gallery;
mod manifest;

use std::collections::BTreeMap;
use std::path::PathBuf;

use modelmix::curate::curate_within;
use modelmix::document::Document;
use modelmix::internals::numbers::brief;
use modelmix::simplex::Bounds;
use modelmix::{Curated, Curation};

use super::output::{Outputs, Section};
use super::solve::prepare;
use crate::args::CurateArgs;
use crate::error::Result;
use crate::files;
use crate::inputs::{self, Recorded};
use crate::terminal::{Columns, Terminal, bar, bold, count, dim, percents};
use manifest::{Kind, Manifest};

pub(crate) fn run(args: &CurateArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    gallery::check(&args.output, args.out.is_some())?;
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
    let mut recorded = Recorded::load(&args.arms)?;
    if let Some(file) = &args.objective.scores {
        recorded.arms = inputs::with_scores(recorded.arms, file)?;
    }
    let loss = prepare(&args.objective, &recorded, &terminal)?;
    let floors = inputs::by_arm("floor", &args.floor, &recorded.arms, Some(0.0))?;
    let caps = inputs::by_arm("cap", &args.cap, &recorded.arms, Some(1.0))?;
    let bounds = Bounds::by_arm(&recorded.arms.names(), floors, caps)?;
    let names = gallery::names(&args.output, &recorded)?;
    let progress = terminal.progress("choosing rows", settings.steps());
    let curated = curate_within(&recorded.arms, &loss, &bounds, &settings, &|| progress.inc(1));
    progress.finish_and_clear();
    let document = curated?;
    terminal.document(&Document::Curate(document.clone()))?;
    print(&terminal, &document);
    let written = write(&terminal, args, document, manifest, &names);
    terminal.print_after(written)
}

/// Writes the manifest, the report and the figures that are wanted.
fn write(
    terminal: &Terminal,
    args: &CurateArgs,
    document: Curated,
    manifest: Option<(Kind, Vec<PathBuf>)>,
    names: &BTreeMap<String, Vec<String>>,
) -> Result<()> {
    let mut outputs = Outputs::default();
    if let Some((kind, files)) = manifest {
        let manifest = Manifest { document: &document, arms: &args.arms, names };
        for (path, text) in files.iter().zip(manifest.texts(kind)?) {
            outputs.add(path, "The manifest", text.as_bytes())?;
        }
    }
    let gallery = gallery::chosen(&args.output, &document)?;
    let title = args.output.title.clone().unwrap_or_else(|| "A curated set".into());
    let section = Section { name: "curate".into(), curate: Some(document), gallery, ..Section::default() };
    outputs.add_report(title, vec![section], &args.output)?;
    outputs.commit(terminal).map(drop)
}

/// The answer in a sentence, then the arms, what the set is compared with, and what it is not.
fn print(terminal: &Terminal, document: &Curated) {
    terminal.say(bold(&document.sentence()));
    terminal.say("");
    let mut columns = Columns::new(&["arm", "chosen", "share", "", "in the mixture", "samples"]).left(3);
    let shares = percents(&document.arms.iter().map(|arm| arm.share).collect::<Vec<_>>());
    let weights = percents(&document.arms.iter().map(|arm| arm.weight).collect::<Vec<_>>());
    for ((arm, share), weight) in document.arms.iter().zip(shares).zip(weights) {
        columns.row(vec![arm.name.clone(), count(arm.chosen), share, bar(arm.share, 20), weight, count(arm.samples)]);
    }
    terminal.say(columns.text());
    terminal.say("");
    let header = ["", "loss", &document.score.name];
    // The score of a sum of terms is its loss.
    let shown = if document.score.is_loss() { 2 } else { 3 };
    let mut columns = Columns::new(&header[..shown]);
    let mut row = |cells: [String; 3]| columns.row(cells.into_iter().take(shown).collect());
    let spread = |[mean, std]: [f64; 2]| format!("{} ± {}", brief(mean), brief(std));
    let random = &document.random;
    row([bold("this set"), bold(&brief(document.set.loss)), bold(&brief(document.set.score))]);
    row(["drawn at random".into(), spread(random.loss), spread(random.score)]);
    let mixture = &document.mixture;
    row(["the mixture of all rows".into(), brief(mixture.loss), brief(mixture.score)]);
    terminal.say(columns.text());
    terminal.say("");
    terminal.say(dim(&format!("objective {}; {}", document.objective, document.how())));
    terminal.say(&document.note);
}
