//! `modelmix score`: computes metrics of each arm and of a mixture.

use std::collections::BTreeMap;

use modelmix::document::Document;
use modelmix::internals::arms::weights_by_arm;
use modelmix::internals::numbers;
use modelmix::metrics::{Preset, ScoreSettings, more_is_better, score_watched};
use modelmix::mixture::{SolveSettings, solve_with};
use modelmix::objective::Bandwidth;
use modelmix::{KernelSpec, Scores};

use super::output::{self, Section};
use crate::args::ScoreArgs;
use crate::error::Result;
use crate::inputs::{self, Recorded};
use crate::terminal::{Cell, Table, Terminal, dim, spread};

pub(crate) fn run(args: &ScoreArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    output::check(&args.output)?;
    output::check_figures(&args.output, false)?;
    let settings = settings(args);
    let mut recorded = Recorded::load_with_preset(&args.arms, args.preset.map(Preset::name), &args.common, &terminal)?;
    recorded.choose_engine(&args.engine, &terminal)?;
    if let Some(file) = &args.objective.scores {
        recorded.arms = inputs::with_scores(recorded.arms, file)?;
    }
    let settings = if recorded.reference.is_none() && args.metrics.is_empty() && args.preset.is_none() {
        settings.without_reference()
    } else {
        settings
    };
    let sources =
        inputs::sources(&args.arms, &args.objective, &args.common, &recorded)?.protected_from(&args.output.html)?;
    let hashing = sources.hash(terminal.keeps(&args.output));
    let weights = if args.no_mixture || recorded.arms.len() == 1 && args.weights.is_empty() {
        None
    } else if args.weights.is_empty() {
        // The metrics rke and mmd use the bandwidth too.
        let objective = inputs::written(&args.objective, recorded.reference.is_some());
        let objective = inputs::with_shared_bandwidth(objective, &args.objective);
        let loss = inputs::loss(&objective, &args.objective, &recorded, terminal.engine())?;
        Some(solve_with(&recorded.arms, &loss, &SolveSettings::new().intervals(false))?.weights())
    } else {
        let given = args.weights.iter().map(|given| (given.arm.clone(), given.number));
        Some(weights_by_arm(&recorded.arms.names(), given)?)
    };
    let section = output::section("score", &args.output, &args.arms, &mut recorded)?;
    let mut document = score(&recorded, &settings, weights.as_deref(), &terminal)?;
    let bandwidths = document.bandwidths(&settings, &recorded.arms, recorded.reference.as_deref());
    document.provenance = hashing.provenance(terminal.engine_text(), args.objective.seed, bandwidths)?;
    terminal.document(&Document::Score(document.clone()))?;
    print(&terminal, &document);
    let title = args.output.title.clone().unwrap_or_else(|| "Scores".into());
    let section = output::with_weights(Section { score: Some(document), ..section });
    let written = output::write(&terminal, title, vec![section], &args.output);
    terminal.print_after(written).map(drop)
}

fn settings(args: &ScoreArgs) -> ScoreSettings {
    let mut settings = args.preset.map_or_else(ScoreSettings::default, Preset::settings);
    if !args.metrics.is_empty() {
        settings.metrics = args.metrics.clone();
    }
    if let Some(bandwidth) = args.objective.bandwidth {
        settings.kernel = KernelSpec::Gaussian { bandwidth: Bandwidth::Fixed(bandwidth) };
    }
    settings.seed = args.objective.seed;
    settings.extrapolation.seed = args.objective.seed;
    settings.order = args.order.unwrap_or(settings.order);
    settings.neighbourhoods.neighbours = args.neighbours.unwrap_or(settings.neighbourhoods.neighbours);
    settings.kid.subsets = args.subsets.unwrap_or(settings.kid.subsets);
    settings.kid.size = args.subset_size.or(settings.kid.size);
    settings.kid.seed = args.subset_seed.unwrap_or(settings.kid.seed);
    settings
}

/// Computes all scores, with progress.
pub(crate) fn score(
    recorded: &Recorded,
    settings: &ScoreSettings,
    weights: Option<&[f64]>,
    terminal: &Terminal,
) -> Result<Scores> {
    let steps = recorded.arms.len() as u64 + u64::from(weights.is_some()) + 1;
    let progress = terminal.progress("scoring", steps);
    let done = || progress.inc(1);
    let (reference, engine) = (recorded.reference.as_deref(), terminal.engine());
    let scores = score_watched(&recorded.arms, reference, settings, weights, engine, &done);
    progress.finish_and_clear();
    Ok(scores?)
}

/// Prints one row per arm, with the best value of every column marked.
pub(crate) fn print(terminal: &Terminal, document: &Scores) {
    let metrics: Vec<&str> = document.settings.metrics.iter().map(|metric| metric.name()).collect();
    type Row<'a> = (&'a str, &'a BTreeMap<String, f64>, &'a BTreeMap<String, Option<f64>>);
    let mut rows: Vec<Row<'_>> =
        document.arms.iter().map(|arm| (arm.name.as_str(), &arm.scores, &arm.errors)).collect();
    if let Some(mixture) = &document.mixture {
        rows.push(("mixture", &mixture.scores, &mixture.errors));
    }
    let mut header = vec!["arm".to_string()];
    header.extend(metrics.iter().map(|metric| arrow(metric)));
    let mut table = Table::new("Scores", header);
    for (index, &(name, scores, errors)) in rows.iter().enumerate() {
        let is_mixture = index == document.arms.len();
        let mut cells = vec![if is_mixture { Cell::from(name).strong() } else { name.into() }];
        for &metric in &metrics {
            let value = scores[metric];
            let cell = match scores.get(&format!("{metric}_std")) {
                Some(&std) => spread(value, Some(std), "std"),
                None => spread(value, errors.get(metric).copied().flatten(), "error"),
            };
            let better = more_is_better(metric).unwrap_or(true);
            let best = rows
                .iter()
                .all(|(_, others, _)| if better { others[metric] <= value } else { others[metric] >= value });
            cells.push(if best { cell.marked(" *").strong() } else { cell.marked("  ") });
        }
        table.row(cells);
    }
    terminal.table(table);
    terminal.say("");
    if let Some(mixture) = &document.mixture {
        let mut weights: Vec<(&String, f64)> = mixture.weights.iter().map(|(name, &weight)| (name, weight)).collect();
        weights.retain(|(_, weight)| *weight > 0.0);
        weights.sort_by(|a, b| b.1.total_cmp(&a.1));
        let written = numbers::percents(&weights.iter().map(|(_, weight)| *weight).collect::<Vec<_>>());
        let weights: Vec<String> =
            weights.iter().zip(&written).map(|((name, _), share)| format!("{name} {share}")).collect();
        terminal.say(dim(&format!(
            "mixture: {}; effective sample size {:.0}",
            weights.join(", "),
            mixture.effective_samples
        )));
    }
    let kernel = document.settings.kernel.map_or(String::new(), |kernel| format!("; kernel of rke and mmd: {kernel}"));
    let note = "* best; ±: standard error; for kid the standard deviation between subsets";
    terminal.say(dim(&format!("{note}{kernel}")));
}

/// The name of a metric with an arrow towards better values.
fn arrow(metric: &str) -> String {
    match more_is_better(metric) {
        Some(true) => format!("{metric} ↑"),
        Some(false) => format!("{metric} ↓"),
        None => metric.to_string(),
    }
}
