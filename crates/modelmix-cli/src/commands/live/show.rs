//! The status of a run as a sentence and tables.

use modelmix::internals::numbers::brief;
use modelmix_live::status::RunStatus;
use serde::Serialize;

use crate::terminal::{Cell, Table, Terminal, bar, bold, brief_cell, count_cell, dim, interval, percents};

/// A status with the name of its command.
#[derive(Serialize)]
#[serde(tag = "command", rename = "status")]
pub(crate) struct Printed<'a> {
    #[serde(flatten)]
    pub(crate) result: &'a RunStatus,
}

/// Prints a status.
pub(super) fn print(terminal: &Terminal, status: &RunStatus) {
    terminal.say(bold(&status.headline()));
    if let Some(mixture) = &status.mixture {
        terminal.say(mixture.headline().answer);
    }
    terminal.say("");
    terminal.table(table(status));
    terminal.say("");
    for line in status.remarks() {
        terminal.say(line);
    }
    if let (Some(bound), false) = (status.report.bound_on_weights, status.report.is_done) {
        terminal.say(dim(&format!("the weights are within {} of the least loss, with 95% confidence", brief(bound))));
    }
}

/// One row per arm.
fn table(status: &RunStatus) -> Table {
    let has_cost = status.cost.confirmed + status.cost.in_doubt > 0.0;
    let has_intervals = status.arms.iter().any(|arm| arm.interval.is_some());
    let has_losses =
        status.arms.iter().any(|arm| arm.counts.lost + arm.counts.rejected > 0 || arm.counts.set_aside.is_some());
    let mut header = vec!["arm", "weight", ""];
    if has_intervals {
        header.push("95% interval");
    }
    header.extend(["samples", "requests", "failed"]);
    if has_losses {
        header.push("lost");
    }
    if has_cost {
        header.extend(["cost", "in doubt"]);
    }
    let mut table = Table::new("The arms", header).bars(2);
    let weights = percents(status.arms.iter().map(|arm| arm.weight).collect::<Vec<f64>>());
    for (arm, weight) in status.arms.iter().zip(weights) {
        let mut row = vec![Cell::from(&arm.name), weight, bar(arm.weight, 20).into()];
        if has_intervals {
            row.push(interval(arm.interval));
        }
        let failed: u64 = arm.counts.failures.values().sum();
        row.extend([count_cell(arm.samples), count_cell(arm.counts.requests as usize), count_cell(failed as usize)]);
        if has_losses {
            row.push(count_cell(arm.counts.lost as usize));
        }
        if has_cost {
            row.extend([brief_cell(arm.counts.cost), brief_cell(arm.counts.in_doubt)]);
        }
        table.row(row);
    }
    table
}
