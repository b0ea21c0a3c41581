//! The analyses that `solve` is asked for, and how their results are printed.

use modelmix::Mixture;
use modelmix::internals::numbers::brief;
use modelmix::mixture::{
    Analyses, Budget, CheapestDocument, FrontDocument, SensitivityDocument, SubsetDocument, front_objective,
};

use crate::args::SolveArgs;
use crate::error::{Failure, Result};
use crate::inputs::{self, Recorded};
use crate::terminal::{
    Cell, Format, Table, Terminal, bar, best_of, bold, brief_cell, count_cell, dim, percent, percents, rounds, shares,
};
use modelmix_cli::tables::MISSING;

/// Maximum number of points of a front in the terminal.
const MAX_SHOWN_POINTS: usize = 12;

pub(crate) fn read(args: &SolveArgs, recorded: &Recorded, terminal: &Terminal) -> Result<Analyses> {
    let front = args.analyses.front.clone().map(|second| -> Result<_> {
        let second = inputs::with_shared_bandwidth(front_objective(second), &args.objective);
        let loss = inputs::loss(&second, &args.objective, recorded, terminal.engine())?;
        terminal.warn(&second.warnings());
        Ok(loss)
    });
    Ok(Analyses::default()
        .subsets(args.analyses.subsets)
        .budget(budget(args, recorded)?)
        .front(front.transpose()?)
        .bandwidths(args.analyses.bandwidths.clone())
        .without_intervals(args.no_intervals))
}

fn budget(args: &SolveArgs, recorded: &Recorded) -> Result<Option<Budget>> {
    let prices = &args.analyses;
    if prices.fees.is_empty() && prices.samples.is_none() && prices.within.is_none() {
        return Ok(None);
    }
    if prices.fees.is_empty() && args.objective.costs.is_empty() {
        let remedy = "give --fees ARM=FEE, or --costs ARM=COST with --samples N";
        return Err(Failure::input(format!("the cheapest mixture needs prices; {remedy}")));
    }
    let within = prices.within.unwrap_or_default();
    let names = recorded.arms.names();
    let fees = prices.fees.iter().map(|fee| (fee.arm.clone(), fee.number));
    let given = &args.objective.costs;
    let costs = (!given.is_empty()).then(|| inputs::by_arm("cost", given, &recorded.arms, None)).transpose()?;
    Ok(Some(Budget::by_arm(&names, fees, costs, prices.samples, within)?))
}

/// Prints the results below the table of the arms.
pub(crate) fn print(terminal: &Terminal, document: &Mixture) {
    if let Some(subsets) = &document.worth.subsets {
        print_subsets(terminal, document, subsets);
    }
    if let Some(cheapest) = &document.worth.cheapest {
        print_cheapest(terminal, cheapest);
    }
    if let Some(front) = &document.worth.front {
        print_front(terminal, document, front);
    }
    if let Some(sensitivity) = &document.worth.sensitivity {
        print_sensitivity(terminal, document, sensitivity);
    }
}

fn print_subsets(terminal: &Terminal, document: &Mixture, subsets: &[SubsetDocument]) {
    terminal.say("");
    terminal.say(bold("Best mixtures of few arms"));
    terminal.say("");
    let header = ["at most", document.score.name.as_str(), "gain kept", "", "mixture"];
    let mut table = Table::new("Best mixtures of few arms", header).bars(3).left(4);
    for subset in subsets {
        let kept = subset.gain_kept.map_or(MISSING.into(), percent);
        let size = format!("{} {}", subset.size, if subset.size == 1 { "arm" } else { "arms" });
        let size = count_cell(subset.size).saying(size);
        let length = bar(subset.gain_kept.unwrap_or(0.0), 10);
        table.row(vec![size, brief_cell(subset.score), kept, length.into(), shares(&subset.arms, &subset.weights)]);
    }
    terminal.table(table);
    if let Some(note) = document.subsets_note() {
        terminal.say("");
        terminal.say(dim(&note));
    }
    if subsets.iter().any(|subset| !subset.proved) {
        terminal.say("");
        let sizes: Vec<String> =
            subsets.iter().filter(|subset| !subset.proved).map(|subset| subset.size.to_string()).collect();
        terminal.say(dim(&format!("at most {} arms: optimality not proved", sizes.join(", "))));
    }
}

fn print_cheapest(terminal: &Terminal, cheapest: &CheapestDocument) {
    terminal.say("");
    terminal.say(bold(&cheapest.sentence()));
    if terminal.format != Format::Text {
        terminal.table(cheapest_table(cheapest));
    }
    terminal.say(dim(&format!(
        "loss {}, {} above the best (tolerance {}); fees {}, samples {}; no mixture within the tolerance costs less than {}",
        brief(cheapest.loss),
        brief(cheapest.above_best),
        brief(cheapest.within),
        brief(cheapest.fee),
        brief(cheapest.cost),
        brief(cheapest.total - cheapest.gap),
    )));
}

/// The cheapest mixture as a table; the text format prints it as a sentence.
fn cheapest_table(cheapest: &CheapestDocument) -> Table {
    let is_bought = cheapest.samples > 0.0;
    let header = ["arm", "weight", "samples per period"];
    let mut table = Table::new("The cheapest mixture", header.into_iter().take(if is_bought { 3 } else { 2 }));
    let weights = &cheapest.weights;
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let written = percents(weights.iter().copied());
    for arm in order {
        let mut row = vec![Cell::from(&cheapest.arms[arm]), written[arm].clone()];
        row.extend(is_bought.then(|| rounds(Some(weights[arm] * cheapest.samples))));
        table.row(row);
    }
    table
}

fn print_front(terminal: &Terminal, document: &Mixture, front: &FrontDocument) {
    terminal.say("");
    terminal.say(bold(&format!("{} against {}", document.score.name, front.score.name)));
    terminal.say("");
    let title = format!("{} against {}", document.score.name, front.score.name);
    let mut table =
        Table::new(title, ["λ", document.score.name.as_str(), front.score.name.as_str(), "mixture"]).left(3);
    let names: Vec<String> = document.arms.iter().map(|arm| arm.name.clone()).collect();
    let last = front.points.len() - 1;
    // Terminals show a few points; documents and files have all of them.
    let most = if terminal.format == Format::Text { MAX_SHOWN_POINTS - 1 } else { last.max(1) };
    let steps = last.clamp(1, most);
    let mut shown: Vec<usize> = (0..=steps).map(|step| (step * last + steps / 2) / steps).collect();
    shown.dedup();
    for point in shown.iter().map(|&index| &front.points[index]) {
        let multiplier = point.multiplier.map_or_else(|| brief_cell(f64::INFINITY).saying("∞"), brief_cell);
        let weights = shares(&names, &point.weights);
        table.row(vec![multiplier, brief_cell(point.score), brief_cell(point.second_score), weights]);
    }
    terminal.table(table);
    terminal.say("");
    let between = if front.exact { "; weights are linear between points" } else { "" };
    terminal.say(dim(&format!(
        "objective {} + λ·({}); {} of {} points{between}",
        document.objective,
        front.objective,
        shown.len(),
        front.points.len()
    )));
}

fn print_sensitivity(terminal: &Terminal, document: &Mixture, tried: &SensitivityDocument) {
    terminal.say("");
    terminal.say(bold(&tried.verdict));
    terminal.say("");
    let header = ["bandwidth", document.score.name.as_str(), "gain", "best single arm", "mixture"];
    let mut table = Table::new("Bandwidths", header).left(3).left(4);
    let names: Vec<String> = document.arms.iter().map(|arm| arm.name.clone()).collect();
    for point in &tried.points {
        let single = point.best_single_score;
        table.row(vec![
            brief_cell(point.bandwidth).marked(if point.bandwidth == tried.in_use { " *" } else { "" }),
            brief_cell(point.score),
            brief_cell(point.gain),
            best_of(&point.best_single, brief(single), single, "score"),
            shares(&names, &point.weights),
        ]);
    }
    terminal.table(table);
    terminal.say("");
    terminal.say(dim("* in use; losses and scores are not comparable between bandwidths, because the kernel differs"));
}
