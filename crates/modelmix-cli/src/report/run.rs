//! Parts of the page for a live run: what was asked, what failed, and what it cost.

use modelmix_live::status::{ArmStatus, RunStatus, duration};

use super::numbers::{self, Digits};
use super::page::{Block, Fact, Place, TableBlock};
use super::table::{Cell, Column, Row, Table};

pub(super) fn facts(document: &RunStatus) -> Vec<Fact> {
    let mut facts = vec![
        Fact::new("Pulls", numbers::count(document.pulls as usize)),
        Fact::new("Active", duration(document.seconds)),
    ];
    if document.cost.confirmed + document.cost.in_doubt > 0.0 {
        facts.push(Fact::new("Cost", numbers::brief(document.cost.confirmed)));
    }
    if document.cost.in_doubt > 0.0 {
        facts.push(Fact::new("In doubt", numbers::brief(document.cost.in_doubt)));
    }
    facts
}

/// One row per arm.
pub(super) fn blocks(document: &RunStatus, place: &Place) -> Vec<Block> {
    let at = &place.at;
    let has_cost = document.cost.confirmed + document.cost.in_doubt > 0.0;
    let costs = || document.arms.iter().flat_map(|arm| [arm.counts.cost, arm.counts.in_doubt]);
    let digits = Digits::of(costs(), std::iter::empty());
    let row = |(index, arm): (usize, &ArmStatus)| {
        let at = |field: &str| format!("{at}/arms/{index}/{field}");
        let failed: u64 = arm.counts.failures.values().sum();
        let mut cells = vec![
            Cell::count(arm.samples, at("samples")),
            Cell::count(arm.counts.requests as usize, at("requests")),
            Cell::text(numbers::count(failed as usize)),
            Cell::count(arm.counts.lost as usize, at("lost")),
            Cell::count(arm.counts.rejected as usize, at("rejected")),
        ];
        if has_cost {
            cells.push(Cell::number(arm.counts.cost, digits, at("cost")));
            cells.push(Cell::number(arm.counts.in_doubt, digits, at("in_doubt")));
        }
        Row::new(&arm.name, cells)
    };
    let mut columns = vec![
        Column::new("Samples"),
        Column::meaning("Requests", "requests that were sent, with further attempts"),
        Column::meaning("Failed", "requests without a usable answer"),
        Column::meaning("Lost", "pulls that ended without a sample"),
        Column::meaning("Rejected", "samples that were received and cannot be used"),
    ];
    if has_cost {
        columns.push(Column::meaning("Cost", "as the answers state it, in the currency of the prices"));
        columns
            .push(Column::meaning("In doubt", "reserved for requests that may have been charged and have no answer"));
    }
    let table = Table::new("Arm", columns, document.arms.iter().enumerate().map(row).collect());
    vec![Block::Table(TableBlock::new("What the run asked of each arm, and what became of it.".into(), table))]
}
