//! Parts of the page for `solve`: facts, weights, values of each arm, and K.

use modelmix::mixture::TermValue;
use modelmix::{Kernel, Mixture};

use super::charts;
use super::numbers::{self, Digits, brief, percent};
use super::page::{Block, Fact, FigureBlock, Place, TableBlock};
use super::table::{Cell, Column, Row, Table};
use super::{analyses, weights as copies};

/// A kernel as text.
pub(super) fn kernel(kernel: &Kernel) -> String {
    match *kernel {
        Kernel::Gaussian { bandwidth } => format!("Gaussian, bandwidth {}", numbers::tick(bandwidth)),
        Kernel::Laplacian { bandwidth } => format!("Laplacian, bandwidth {}", numbers::tick(bandwidth)),
        Kernel::Polynomial { scale, offset, degree } => {
            format!("polynomial, ({} x·y + {})^{degree}", numbers::tick(scale), numbers::tick(offset))
        }
        Kernel::Cosine { power: 1 } => "cosine".into(),
        Kernel::Cosine { power } => format!("cosine, power {power}"),
        other => other.to_string(),
    }
}

pub(super) fn facts(document: &Mixture) -> Vec<Fact> {
    let samples: usize = document.arms.iter().map(|arm| arm.samples).sum();
    let mut facts = vec![Fact::new("Objective", &document.objective)];
    let kernels: Vec<String> = document.kernels.iter().map(kernel).collect();
    if !kernels.is_empty() {
        facts.push(Fact::new("Kernel", kernels.join("; ")));
    }
    let arms = if document.arms.len() == 1 { "arm" } else { "arms" };
    facts.push(Fact::new("Samples", format!("{} of {} {arms}", numbers::count(samples), document.arms.len())));
    facts.push(Fact::new("Gain in loss", gain(document)));
    facts.extend(document.p_value.map(|p| Fact::new("p-value (H₀: some single model is as good)", p_value(p))));
    facts.extend(document.approximation.as_ref().map(|known| Fact::new("Computed from", known.to_string())));
    facts.push(Fact::new("Duality gap", brief(document.mixture.gap)));
    facts
}

/// The gain, with its interval.
fn gain(document: &Mixture) -> String {
    let interval =
        document.gain_interval.map(|[low, high]| format!(" (95% interval {} to {})", brief(low), brief(high)));
    brief(document.gain) + &interval.unwrap_or_default()
}

/// A p-value as text.
fn p_value(p: f64) -> String {
    if p < 0.001 { "p < 0.001".into() } else { format!("p = {}", brief(p)) }
}

pub(super) fn blocks(document: &Mixture, place: &Place) -> Vec<Block> {
    let mut blocks = vec![weights(document, place), arms(document, place), copies::block(document)];
    blocks.extend(terms(document, place));
    blocks.extend(kernel_means(document, place));
    blocks.extend(analyses::blocks(document, place));
    blocks
}

fn weights(document: &Mixture, place: &Place) -> Block {
    let (listed, left_out) = document.listed_arms();
    let weights = numbers::percents(&document.weights());
    let share = |&arm: &usize| {
        let (name, weight) = (&document.arms[arm].name, &weights[arm]);
        match document.arms[arm].interval {
            Some([low, high]) => format!("{name} {weight} ({} to {})", percent(low), percent(high)),
            None => format!("{name} {weight}"),
        }
    };
    let mut shares: Vec<String> = listed.iter().map(share).collect();
    if left_out > 0 {
        shares.push(unused(left_out));
    }
    let lines = if document.arms.iter().any(|arm| arm.interval.is_some()) {
        " Thin lines: 95% confidence intervals."
    } else {
        ""
    };
    Block::Figure(FigureBlock::new(
        place,
        &charts::weights(document),
        format!("Weights of the best mixture.{lines}{}", left_out_note(left_out)),
        format!("Bar chart of the weights. {}.", shares.join(", ")),
    ))
}

/// "57 arms with weight 0".
fn unused(count: usize) -> String {
    format!("{} arms with weight 0", numbers::count(count))
}

/// The note of a caption about arms that are not drawn.
fn left_out_note(count: usize) -> String {
    if count > 0 { format!(" {} are not drawn.", unused(count)) } else { String::new() }
}

/// The terms of the objective as a figure, if there are several.
fn terms(document: &Mixture, place: &Place) -> Option<Block> {
    let chart = charts::terms(document)?;
    let names = document.term_names();
    let values: Vec<String> = names
        .iter()
        .zip(&document.mixture.terms)
        .map(|(name, term)| format!("{name} {}", brief(term.score)))
        .chain([format!("loss {}", brief(document.mixture.loss))])
        .collect();
    let caption = format!(
        "Terms of the objective as scores, and the loss (minimised): each arm alone and the mixture.{}",
        left_out_note(document.listed_arms().1)
    );
    let alternative = format!("Bar charts, one per term and one of the loss. Mixture: {}.", values.join(", "));
    Some(Block::Figure(FigureBlock::new(place, &chart, caption, alternative)))
}

fn arms(document: &Mixture, place: &Place) -> Block {
    let (score, at) = (&document.score, &place.at);
    let intervals = document.arms.iter().any(|arm| arm.interval.is_some());
    let adds = document.arms.iter().any(|arm| arm.adds.is_some());
    let scores = || document.arms.iter().map(|arm| arm.score).chain([document.mixture.score]);
    let losses = || document.arms.iter().map(|arm| arm.loss).chain([document.mixture.loss]);
    let none = std::iter::empty;
    let (score_digits, loss_digits) = (Digits::of(scores(), none()), Digits::of(losses(), none()));
    let add_digits = Digits::of(document.arms.iter().filter_map(|arm| arm.adds), none());

    let better = if score.more_is_better { "higher is better" } else { "lower is better" };
    let arrow = if score.more_is_better { "↑" } else { "↓" };
    let mut columns = vec![Column::new("Weight")];
    if intervals {
        columns.push(Column::new("95% interval"));
    }
    let terms = document.term_names();
    let of_term = |term: usize| {
        let values = document.arms.iter().map(|arm| &arm.terms).chain([&document.mixture.terms]);
        Digits::of(values.filter_map(|terms| terms.get(term)).map(|term| term.score), none())
    };
    let term_digits: Vec<Digits> = (0..terms.len()).map(of_term).collect();
    let term_cells = |values: &[TermValue], at: &str| -> Vec<Cell> {
        let cell = |(index, digits): (usize, &Digits)| match values.get(index) {
            Some(term) => Cell::number(term.score, *digits, format!("{at}/terms/{index}/score")),
            None => Cell::missing(),
        };
        term_digits.iter().enumerate().map(cell).collect()
    };
    columns.extend(terms.iter().map(|name| Column::meaning(name.clone(), format!("{name} of the arm alone"))));
    if !score.is_loss() {
        columns.push(Column::meaning(
            format!("{}\u{a0}{arrow}", score.name),
            format!("{} of the arm alone, {better}", score.name),
        ));
    }
    columns.push(Column::meaning("Loss\u{a0}↓", "objective of the arm alone, lower is better"));
    if adds {
        columns.push(Column::meaning("Adds", "leave-one-out: loss increase of the best mixture without the arm"));
    }
    columns.push(Column::new("Samples"));

    let (listed, left_out) = document.listed_arms();
    let weights = Cell::percents(&document.weights(), |arm| format!("{at}/arms/{arm}/weight"));
    let row = |index: usize| {
        let arm = &document.arms[index];
        let at = |field: &str| format!("{at}/arms/{index}/{field}");
        let mut cells = vec![weights[index].clone()];
        if intervals {
            cells.push(arm.interval.map_or_else(Cell::missing, |[low, high]| {
                Cell::percent(low, at("interval/0")).low().and(" to ", Cell::percent(high, at("interval/1")).high())
            }));
        }
        cells.extend(term_cells(&arm.terms, at("").trim_end_matches('/')));
        if !score.is_loss() {
            cells.push(Cell::number(arm.score, score_digits, at("score")));
        }
        cells.push(Cell::number(arm.loss, loss_digits, at("loss")));
        if adds {
            cells.push(arm.adds.map_or_else(Cell::missing, |adds| Cell::number(adds, add_digits, at("adds"))));
        }
        cells.push(Cell::count(arm.samples, at("samples")));
        Row::new(&arm.name, cells)
    };
    let mut rows: Vec<Row> = listed.iter().map(|&arm| row(arm)).collect();
    let mut cells = vec![Cell::text("100%")];
    if intervals {
        cells.push(Cell::missing());
    }
    cells.extend(term_cells(&document.mixture.terms, &format!("{at}/mixture")));
    if !score.is_loss() {
        cells.push(Cell::number(document.mixture.score, score_digits, format!("{at}/mixture/score")));
    }
    cells.push(Cell::number(document.mixture.loss, loss_digits, format!("{at}/mixture/loss")));
    if adds {
        cells.push(Cell::missing());
    }
    cells.push(Cell::missing());
    rows.push(Row::apart("mixture", cells));
    let what = if adds { " “Adds”: loss increase of the best mixture without the arm." } else { "" };
    let caption = format!("Each arm alone, and the mixture.{what}");
    let block = TableBlock::new(caption, Table::new("Arm", columns.clone(), rows));
    if left_out == 0 {
        return Block::Table(block);
    }
    let rest = (0..document.arms.len()).filter(|arm| !listed.contains(arm)).map(row).collect();
    Block::Table(block.with_folded(unused(left_out), Table::new("Arm", columns, rest)))
}

fn kernel_means(document: &Mixture, place: &Place) -> Option<Block> {
    let chart = charts::kernel_means(document)?;
    let at = &place.at;
    let values = || document.form.quadratic().iter().copied().filter(|value| value.is_finite());
    let digits = Digits::of(values(), std::iter::empty());
    let k = document.form.rows();
    let rows = k.iter().enumerate().map(|(index, row)| {
        let cell =
            |(other, &value): (usize, &f64)| Cell::number(value, digits, format!("{at}/quadratic/{index}/{other}"));
        Row::new(format!("{} {}", index + 1, document.arms[index].name), row.iter().enumerate().map(cell).collect())
    });
    let columns = document
        .arms
        .iter()
        .enumerate()
        .map(|(index, arm)| Column::meaning((index + 1).to_string(), &arm.name))
        .collect();
    let table = Table::new("Arm", columns, rows.collect());
    let (low, high) =
        values().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let count = document.arms.len();
    Some(Block::Figure(
        FigureBlock::new(
            place,
            &chart,
            "Similarity of the arms: K, the mean of the objective’s kernel over pairs of samples, one from the row’s arm and \
             one from the column’s. A stronger colour means more similar samples; on the diagonal, it means that the arm has \
             low diversity."
                .into(),
            format!("Heat map of K, {count} by {count}, from {} to {}.", brief(low), brief(high)),
        )
        .with_scale(low, high)
        .with_table("Values of K", table),
    ))
}
