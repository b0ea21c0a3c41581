//! `modelmix solve`: finds the best mixture of recorded arms.

use modelmix::document::Document;
use modelmix::internals::numbers::brief;
use modelmix::mixture::{self, Analyses};
use modelmix::simplex::Bounds;
use modelmix::{Loss, Mixture};

mod streamed;

use super::analyses;
use super::output::{self, Section};
use crate::args::{ObjectiveArgs, SolveArgs};
use crate::error::Result;
use crate::inputs::{self, Recorded};
use crate::terminal::{
    Cell, Format, Table, Terminal, bar, bold, brief_cell, count, count_cell, dim, interval, percents,
};

pub(crate) fn run(args: &SolveArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    if streamed::is_wanted(args) {
        return streamed::run(args, &terminal);
    }
    output::check(&args.output)?;
    let mut recorded = Recorded::load(&args.arms, &args.common, &terminal)?;
    recorded.choose_engine(&args.engine, &terminal)?;
    if let Some(file) = &args.objective.scores {
        recorded.arms = inputs::with_scores(recorded.arms, file)?;
    }
    let sources =
        inputs::sources(&args.arms, &args.objective, &args.common, &recorded)?.protected_from(&args.output.html)?;
    let hashing = sources.hash(terminal.keeps(&args.output));
    let loss = prepare(&args.objective, &recorded, &terminal)?;
    let floors = inputs::by_arm("floor", &args.floor, &recorded.arms, Some(0.0))?;
    let caps = inputs::by_arm("cap", &args.cap, &recorded.arms, Some(1.0))?;
    let bounds = Bounds::by_arm(&recorded.arms.names(), floors, caps)?;
    let section = output::section("solve", &args.output, &args.arms, &mut recorded)?;
    let analyses = analyses::read(args, &recorded, &terminal)?;
    let mut document = solve(&recorded, &loss, &bounds, &analyses, &terminal)?;
    let (engine, seed) = (terminal.engine_text(), args.objective.seed);
    document.provenance = hashing.provenance(engine, seed, loss.bandwidths(&recorded.arms, seed))?;
    terminal.document(&Document::Solve(document.clone()))?;
    print(&terminal, &document, args.all_arms);
    analyses::print(&terminal, &document);
    let title = args.output.title.clone().unwrap_or_else(|| "The best mixture".into());
    let section = output::with_weights(Section { solve: Some(document), ..section });
    let written = output::write(&terminal, title, vec![section], &args.output);
    terminal.print_after(written).map(drop)
}

/// The objective with its inputs; prints its warnings on standard error.
pub(crate) fn prepare(args: &ObjectiveArgs, recorded: &Recorded, terminal: &Terminal) -> Result<Loss> {
    let objective = inputs::objective(args, recorded.reference.is_some());
    let loss = inputs::loss(&objective, args, recorded, terminal.engine())?;
    terminal.warn(&objective.warnings());
    Ok(loss)
}

/// Finds the best mixture, with progress.
pub(crate) fn solve(
    recorded: &Recorded,
    loss: &Loss,
    bounds: &Bounds,
    analyses: &Analyses,
    terminal: &Terminal,
) -> Result<Mixture> {
    let pairs = analyses.pairs(&recorded.arms, loss);
    let solve = || mixture::solve_with_analyses(&recorded.arms, loss, bounds, analyses);
    Ok(terminal.with_pairs("summing kernels", pairs, solve)?)
}

/// Prints the result in a sentence, then the arms by weight; most arms without weight are summarised unless `all` is set.
pub(crate) fn print(terminal: &Terminal, document: &Mixture, all: bool) {
    let headline = document.headline();
    terminal.say(bold(&headline.answer));
    terminal.say("");
    let has_intervals = document.arms.iter().any(|arm| arm.interval.is_some());
    let mut header = vec!["arm", "weight", ""];
    if has_intervals {
        header.push("95% interval");
    }
    let terms = document.term_names();
    header.extend(terms.iter().map(String::as_str));
    header.extend([document.score.name.as_str(), "adds", "samples"]);
    let mut table = Table::new("The best mixture", header).bars(2);
    let (mut listed, mut left_out) = document.listed_arms();
    if (all || terminal.format != Format::Text) && left_out > 0 {
        (listed, left_out) = ((0..document.arms.len()).collect(), 0);
        listed.sort_by(|&a, &b| document.arms[b].weight.total_cmp(&document.arms[a].weight));
    }
    let weights = percents(document.weights());
    for (arm, weight) in listed.iter().map(|&arm| (&document.arms[arm], &weights[arm])) {
        let mut row = vec![Cell::from(&arm.name), weight.clone(), bar(arm.weight, 20).into()];
        if has_intervals {
            row.push(interval(arm.interval));
        }
        if !terms.is_empty() {
            row.extend(arm.terms.iter().map(|term| brief_cell(term.score)));
        }
        row.extend([brief_cell(arm.score), brief_cell(arm.adds), count_cell(arm.samples)]);
        table.row(row);
    }
    if left_out > 0 {
        table.row(vec![dim(&format!("and {} arms with weight 0", count(left_out))).into()]);
    }
    let mut row = vec![Cell::from("mixture"), Cell::default(), Cell::default()];
    if has_intervals {
        row.push(Cell::default());
    }
    if !terms.is_empty() {
        row.extend(document.mixture.terms.iter().map(|term| brief_cell(term.score)));
    }
    let samples = document.arms.iter().map(|arm| arm.samples).sum();
    row.extend([brief_cell(document.mixture.score), Cell::default(), count_cell(samples)]);
    table.strong_row(row);
    terminal.table(table);
    terminal.say("");
    if let Some(certainty) = headline.certainty {
        terminal.say(certainty);
        terminal.say("");
    }
    if let Some(approximation) = &document.approximation {
        terminal.say(dim(&approximation.to_string()));
    }
    let kernels: Vec<String> = document.kernels.iter().map(ToString::to_string).collect();
    let kernels = if kernels.is_empty() { String::new() } else { format!("; {}", kernels.join("; ")) };
    terminal.say(dim(&format!(
        "objective {}{kernels}; loss {}; duality gap {}; \"adds\": loss increase without the arm",
        document.objective,
        brief(document.mixture.loss),
        if document.mixture.gap > 0.0 { format!("{:.0e}", document.mixture.gap) } else { "0".into() },
    )));
}
