//! Part of the page that compares expected with measured values of an experiment.

use modelmix::experiment::{Check, Measured};

use super::names::plain;
use super::numbers::brief;
use super::page::{Block, Fact, TableBlock};
use super::table::{Cell, Column, Row, Table};

/// The number of expectations that were met.
pub(super) fn fact(checks: &[Check]) -> Fact {
    let met = checks.iter().filter(|check| check.passed).count();
    Fact::new("Expectations", format!("{met} of {} met", checks.len()))
}

/// One row per expectation; those that were not met are bold. `at` is the section, as a JSON pointer.
pub(super) fn block(checks: &[Check], at: &str) -> Block {
    let row = |(index, check): (usize, &Check)| {
        let measured = match &check.measured {
            Measured::Number(number) => Cell::written(brief(*number), *number, format!("{at}/checks/{index}/measured")),
            other => Cell::text(plain(&other.to_string())),
        };
        let mut result = Cell::text(if check.passed { "✓ as expected" } else { "✗ not as expected" });
        result.best = !check.passed;
        let cells = vec![result, measured, Cell::text(plain(&check.requirement()))];
        Row::new(check.what.to_string(), cells)
    };
    let columns = vec![Column::new("Result"), Column::new("Measured"), Column::new("Expected")];
    let table = Table::new("Quantity", columns, checks.iter().enumerate().map(row).collect()).with_text();
    let failed = checks.iter().filter(|check| !check.passed).count();
    let caption = match failed {
        0 => "Expected and measured values: all as expected.".to_string(),
        failed => format!("Expected and measured values: {failed} of {} not as expected.", checks.len()),
    };
    Block::Table(TableBlock::new(caption, table))
}
