//! Parts of the page for a curated set: rows per arm, the loss of the set, and the list of rows.

use modelmix::Curated;

use super::charts;
use super::numbers::{self, Digits, percents};
use super::page::{Block, Fact, FigureBlock, Place, TableBlock};
use super::solved::kernel;
use super::table::{Cell, Column, Row, Table};

/// Maximum number of rows in the table; the JSON and the manifest contain all.
const MAX_SHOWN_ROWS: usize = 24;

pub(super) fn facts(document: &Curated) -> Vec<Fact> {
    let mut facts = vec![Fact::new("Objective", &document.objective)];
    let kernels: Vec<String> = document.kernels.iter().map(kernel).collect();
    if !kernels.is_empty() {
        facts.push(Fact::new("Kernel", kernels.join("; ")));
    }
    let samples: usize = document.arms.iter().map(|arm| arm.samples).sum();
    facts.push(Fact::new("Chosen", format!("{} of {} rows", numbers::count(document.count), numbers::count(samples))));
    if document.candidates < samples {
        facts.push(Fact::new("Candidates", format!("{} random rows", numbers::count(document.candidates))));
    }
    facts
}

pub(super) fn blocks(document: &Curated, place: &Place) -> Vec<Block> {
    vec![shares(document, place), comparison(document, place), rows(document, place)]
}

fn shares(document: &Curated, place: &Place) -> Block {
    let at = &place.at;
    let (chosen, weights): (Vec<f64>, Vec<f64>) = document.arms.iter().map(|arm| (arm.share, arm.weight)).unzip();
    let shares = Cell::percents(&chosen, |arm| format!("{at}/arms/{arm}/share"));
    let weights = Cell::percents(&weights, |arm| format!("{at}/arms/{arm}/weight"));
    let cells = |(index, arm): (usize, &modelmix::curate::CuratedArm)| {
        let at = |field: &str| format!("{at}/arms/{index}/{field}");
        let cells = vec![
            Cell::count(arm.chosen, at("chosen")),
            shares[index].clone(),
            weights[index].clone(),
            Cell::count(arm.samples, at("samples")),
        ];
        Row::new(&arm.name, cells)
    };
    let columns = vec![
        Column::new("Chosen"),
        Column::meaning("Share", "share of the set"),
        Column::meaning("In the mixture", "weight in the best mixture of all samples"),
        Column::new("Samples"),
    ];
    let table = Table::new("Arm", columns, document.arms.iter().enumerate().map(cells).collect());
    let named: Vec<String> =
        document.arms.iter().zip(percents(&chosen)).map(|(arm, share)| format!("{} {share}", arm.name)).collect();
    let block = FigureBlock::new(
        place,
        &charts::chosen(document),
        format!("Share of each arm in the set, {}.", document.how()),
        format!("Bar chart of the shares. {}.", named.join(", ")),
    );
    Block::Figure(block.with_table("Values of the shares", table))
}

fn comparison(document: &Curated, place: &Place) -> Block {
    let (at, random) = (&place.at, &document.random);
    let none = std::iter::empty;
    let losses = [document.set.loss, document.mixture.loss, random.loss[0]];
    let scores = [document.set.score, document.mixture.score, random.score[0]];
    let losses = Digits::of(losses.into_iter().chain([random.loss[1]]), none());
    let scores = Digits::of(scores.into_iter().chain([random.score[1]]), none());
    let spread = |[mean, std]: [f64; 2], digits: Digits, field: &str| {
        Cell::number(mean, digits, format!("{at}/random/{field}/0")).within(
            std,
            digits,
            format!("{at}/random/{field}/1"),
        )
    };
    let pair = |loss: f64, score: f64, field: &str| {
        vec![
            Cell::number(loss, losses, format!("{at}/{field}/loss")),
            Cell::number(score, scores, format!("{at}/{field}/score")),
        ]
    };
    let mut rows = vec![
        Row::new("this set", pair(document.set.loss, document.set.score, "set")),
        Row::new("random sets", vec![spread(random.loss, losses, "loss"), spread(random.score, scores, "score")]),
        Row::apart("mixture of all rows", pair(document.mixture.loss, document.mixture.score, "mixture")),
    ];
    let arrow = if document.score.more_is_better { "↑" } else { "↓" };
    let mut columns = vec![
        Column::meaning("Loss\u{a0}↓", "loss of the chosen rows with equal weights; lower is better"),
        Column::meaning(format!("{}\u{a0}{arrow}", document.score.name), "score of the chosen rows"),
    ];
    // The score of a sum of terms is its loss.
    if document.score.is_loss() {
        columns.truncate(1);
        rows.iter_mut().for_each(|row| row.cells.truncate(1));
    }
    Block::Table(TableBlock::new(
        format!(
            "Loss of the set, compared with random sets of the same size in the mixture’s proportions (mean of {} ± standard \
             deviation) and with the best mixture of all rows. A chosen set can have a lower loss than the mixture, because \
             its rows were chosen for that.",
            random.draws
        ),
        Table::new("Set", columns, rows),
    ))
}

fn rows(document: &Curated, place: &Place) -> Block {
    let at = &place.at;
    let row = |(index, row): (usize, &modelmix::curate::CuratedRow)| {
        let cells =
            vec![Cell::text(super::names::plain(&row.arm)), Cell::count(row.row, format!("{at}/rows/{index}/row"))];
        Row::new(numbers::count(index + 1), cells)
    };
    let shown = document.rows.iter().enumerate().take(MAX_SHOWN_ROWS).map(row).collect();
    let caption = if document.rows.len() > MAX_SHOWN_ROWS {
        format!(
            "The first {MAX_SHOWN_ROWS} chosen rows, in the order chosen; the JSON in this page contains all {}.",
            numbers::count(document.count)
        )
    } else {
        "The chosen rows, in the order chosen.".into()
    };
    let table = Table::new("Rank", vec![Column::new("Arm"), Column::meaning("Row", "counted from 0")], shown);
    Block::Table(TableBlock::new(caption, table))
}
