//! Parts of the page for further analyses: best mixtures of few arms, the cheapest mixture, the Pareto front, and the
//! sensitivity to the bandwidth.

use modelmix::Mixture;
use modelmix::mixture::{CheapestDocument, FrontDocument, SensitivityDocument, SubsetDocument};
use modelmix::objective::ScoreMeaning;

use super::charts;
use super::names::plain;
use super::numbers::{Digits, brief, percent};
use super::page::{Block, FigureBlock, Place, TableBlock};
use super::table::{Cell, Column, Row, Table};

pub(super) fn blocks(document: &Mixture, place: &Place) -> Vec<Block> {
    let results = &document.worth;
    let mut blocks = Vec::new();
    if let Some(subsets) = &results.subsets {
        blocks.push(subsets_block(document, subsets, place));
    }
    if let Some(cheapest) = &results.cheapest {
        blocks.push(cheapest_block(cheapest, place));
    }
    if let Some(front) = &results.front {
        blocks.push(front_block(document, front, place));
    }
    if let Some(tried) = &results.sensitivity {
        blocks.push(bandwidths_block(document, tried, place));
    }
    blocks
}

fn subsets_block(document: &Mixture, subsets: &[SubsetDocument], place: &Place) -> Block {
    let at = &place.at;
    let none = std::iter::empty;
    let score_digits = Digits::of(subsets.iter().map(|subset| subset.score), none());
    let loss_digits = Digits::of(subsets.iter().map(|subset| subset.loss), none());
    let arrow = if document.score.more_is_better { "↑" } else { "↓" };
    let columns = vec![
        Column::new(format!("{}\u{a0}{arrow}", document.score.name)),
        Column::new("Loss\u{a0}↓"),
        Column::meaning("Gain kept", "share of the best mixture's gain over the best single arm"),
        Column::new("Mixture"),
    ];
    let rows = subsets.iter().enumerate().map(|(index, subset)| {
        let at = |field: &str| format!("{at}/subsets/{index}/{field}");
        let cells = vec![
            Cell::number(subset.score, score_digits, at("score")),
            Cell::number(subset.loss, loss_digits, at("loss")),
            subset.gain_kept.map_or_else(Cell::missing, |kept| Cell::percent(kept, at("gain_kept"))),
            shares(&subset.arms, &subset.weights, &at("weights")),
        ];
        let name = format!("{}{}", subset.size, if subset.proved { "" } else { " (optimality not proved)" });
        Row::new(name, cells)
    });
    let table = Table::new("Arms", columns, rows.collect());
    let note = document.subsets_note().map_or(String::new(), |note| format!(" Note: {}.", plain(&note)));
    let caption = format!("Best mixture of at most 1, 2, … arms, and the share of the gain that it keeps.{note}");
    match charts::gain_kept(document) {
        None => Block::Table(TableBlock::new(caption, table)),
        Some(chart) => {
            let kept: Vec<String> = subsets
                .iter()
                .map(|subset| format!("{}: {}", subset.size, subset.gain_kept.map_or("–".into(), percent)))
                .collect();
            let alternative = format!("Bar chart of the gain kept by number of arms. {}.", kept.join(", "));
            Block::Figure(
                FigureBlock::new(place, &chart, caption, alternative).with_table("Best mixtures of few arms", table),
            )
        }
    }
}

/// Arms and shares, each with its JSON pointer.
fn shares(arms: &[String], weights: &[f64], at: &str) -> Cell {
    let mut order: Vec<usize> = (0..arms.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let written = Cell::percents(weights, |index| format!("{at}/{index}"));
    let mut cells = order.into_iter().map(|index| {
        let name = Cell::text(format!("{} ", plain(&arms[index])));
        name.and("", written[index].clone().keyed(&format!(" {}", plain(&arms[index]))))
    });
    let first = cells.next().unwrap_or_else(Cell::missing);
    cells.fold(first, |all, cell| all.and(", ", cell))
}

/// A name with an arrow towards better values.
fn arrowed(score: &ScoreMeaning) -> String {
    format!("{}\u{a0}{}", score.name, if score.more_is_better { "↑" } else { "↓" })
}

/// One column per arm.
fn arm_columns(document: &Mixture) -> impl Iterator<Item = Column> + '_ {
    document.arms.iter().map(|arm| Column::new(&arm.name))
}

fn front_block(document: &Mixture, front: &FrontDocument, place: &Place) -> Block {
    let at = &place.at;
    let none = std::iter::empty;
    let first = Digits::of(front.points.iter().map(|point| point.score), none());
    let second = Digits::of(front.points.iter().map(|point| point.second_score), none());
    let mut columns = vec![Column::new(arrowed(&document.score)), Column::new(arrowed(&front.score))];
    columns.extend(arm_columns(document));
    let rows = front.points.iter().enumerate().map(|(index, point)| {
        let at = |field: &str| format!("{at}/front/points/{index}/{field}");
        let mut cells = vec![
            Cell::number(point.score, first, at("score")),
            Cell::number(point.second_score, second, at("second_score")),
        ];
        cells.extend(Cell::percents(&point.weights, |arm| at(&format!("weights/{arm}"))));
        Row::new(point.multiplier.map_or("∞".into(), brief), cells)
    });
    let table = Table::new("λ", columns, rows.collect());
    let caption = format!(
        "Pareto front of {} and {}: the mixtures that minimise {} + λ·({}) for λ ≥ 0.{}",
        plain(&document.score.name),
        plain(&front.score.name),
        plain(&document.objective),
        plain(&front.objective),
        if front.exact { " Weights are linear between points." } else { "" }
    );
    match charts::front(document) {
        None => Block::Table(TableBlock::new(caption, table)),
        Some(chart) => {
            let ends: Vec<String> = [front.points.first(), front.points.last()]
                .into_iter()
                .flatten()
                .map(|point| format!("{} and {}", brief(point.score), brief(point.second_score)))
                .collect();
            let alternative = format!("Line from {}.", ends.join(" to "));
            Block::Figure(
                FigureBlock::new(place, &chart, caption, alternative).with_table("Mixtures on the front", table),
            )
        }
    }
}

fn bandwidths_block(document: &Mixture, tried: &SensitivityDocument, place: &Place) -> Block {
    let at = &place.at;
    let none = std::iter::empty;
    let scores = Digits::of(tried.points.iter().map(|point| point.score), none());
    let gains = Digits::of(tried.points.iter().map(|point| point.gain), none());
    let mut columns =
        vec![Column::new(arrowed(&document.score)), Column::new("Gain in loss"), Column::new("Best single arm")];
    columns.extend(arm_columns(document));
    let rows = tried.points.iter().enumerate().map(|(index, point)| {
        let at = |field: &str| format!("{at}/sensitivity/points/{index}/{field}");
        let mut cells = vec![
            Cell::number(point.score, scores, at("score")),
            Cell::number(point.gain, gains, at("gain")),
            Cell::name(&point.best_single)
                .and("", Cell::number(point.best_single_score, scores, at("best_single_score")).keyed(" score")),
        ];
        cells.extend(Cell::percents(&point.weights, |arm| at(&format!("weights/{arm}"))));
        let name = brief(point.bandwidth);
        if point.bandwidth == tried.in_use {
            Row::apart(format!("{name} (in use)"), cells)
        } else {
            Row::new(name, cells)
        }
    });
    let table = Table::new("Bandwidth", columns, rows.collect());
    let caption = format!(
        "Sensitivity to the bandwidth: the best mixture per bandwidth, and its gain relative to the loss of the best single arm. {}",
        plain(&tried.verdict)
    );
    match charts::sensitivity(document) {
        None => Block::Table(TableBlock::new(caption, table)),
        Some(chart) => {
            let alternative = "Stacked areas of the weights and a line of the gain, by bandwidth.".into();
            Block::Figure(
                FigureBlock::new(place, &chart, caption, alternative).with_table("Values per bandwidth", table),
            )
        }
    }
}

fn cheapest_block(cheapest: &CheapestDocument, place: &Place) -> Block {
    let at = |field: &str| format!("{}/cheapest/{field}", place.at);
    let digits = Digits::Decimals(2);
    let number = |value: f64, field: &str| Cell::number(value, digits, at(field));
    let columns = vec![Column::new("Fees"), Column::new("Samples"), Column::new("Total"), Column::new("Mixture")];
    let rows = vec![
        Row::new(
            "cheapest",
            vec![
                number(cheapest.fee, "fee"),
                number(cheapest.cost, "cost"),
                number(cheapest.total, "total"),
                shares(&cheapest.arms, &cheapest.weights, &at("weights")),
            ],
        ),
        Row::apart(
            "best",
            vec![
                Cell::missing(),
                Cell::missing(),
                number(cheapest.total_of_best, "total_of_best"),
                Cell::text("as above"),
            ],
        ),
    ];
    let caption = format!(
        "Cheapest mixture within the tolerance: its loss is {} above the minimum (tolerance {}). Prices are per period.",
        brief(cheapest.above_best),
        brief(cheapest.within)
    );
    Block::Table(TableBlock::new(caption, Table::new("Mixture", columns, rows)))
}
