//! The comparison of two runs, as parts of the page and as tables for the terminal.

use super::compare::{ChangedSetting, ComparedInput, Comparison, Difference};
use super::names::plain;
use super::numbers::{Digits, brief, percent, percents};
use super::page::{Block, TableBlock};
use super::table::{Cell, Column, Row, Table};
use crate::tables;

/// The non-empty lists of differences of a comparison: field, title, and whether they are shares.
fn lists(comparison: &Comparison) -> Vec<(&'static str, &'static str, &[Difference], bool)> {
    let all: [(&'static str, &'static str, &[Difference], bool); 3] = [
        ("weights", "Weights", &comparison.weights, true),
        ("results", "Results", &comparison.results, false),
        ("scores", "Scores", &comparison.scores, false),
    ];
    all.into_iter().filter(|(_, _, list, _)| !list.is_empty()).collect()
}

/// The result of a test.
fn verdict(one: &Difference) -> &'static str {
    match one.beyond_noise {
        Some(true) => "beyond noise",
        Some(false) => "within noise",
        None => "not tested",
    }
}

/// The owner of a number, and its kind unless the whole list has the same.
fn name(one: &Difference, list: &[Difference]) -> String {
    let is_plain = list.iter().all(|other| other.what == list[0].what);
    if is_plain { plain(&one.of) } else { plain(&format!("{}, {}", one.of, one.what)) }
}

/// The weights of both runs in percent, rounded so that those of a run add up to 100%.
fn written_shares(list: &[Difference]) -> Vec<[String; 2]> {
    let written = |value: &dyn Fn(&Difference) -> Option<f64>| {
        let known: Vec<f64> = list.iter().filter_map(value).collect();
        let mut texts = percents(&known).into_iter();
        let text = |one| value(one).and_then(|_| texts.next()).unwrap_or_else(|| tables::MISSING.into());
        list.iter().map(text).collect::<Vec<String>>()
    };
    let both = written(&|one| one.first).into_iter().zip(written(&|one| one.second));
    both.map(|(first, second)| [first, second]).collect()
}

pub(super) fn blocks(comparison: &Comparison) -> Vec<Block> {
    let mut blocks: Vec<Block> = lists(comparison)
        .into_iter()
        .map(|(field, title, list, is_share)| {
            let table = differences(comparison, list, is_share, &format!("/comparison/{field}"));
            Block::Table(TableBlock::new(format!("{title} of both runs."), table))
        })
        .collect();
    let columns = || comparison.runs.iter().map(Column::new).collect::<Vec<_>>();
    if !comparison.settings.is_empty() {
        let row = |one: &ChangedSetting| {
            Row::new(&one.what, vec![Cell::text(plain(&one.first)), Cell::text(plain(&one.second))])
        };
        let table = Table::new("Setting", columns(), comparison.settings.iter().map(row).collect()).with_text();
        blocks.push(Block::Table(TableBlock::new("Settings that differ.".into(), table)));
    }
    if !comparison.inputs.is_empty() {
        let path = |path: &Option<String>| path.as_ref().map_or_else(Cell::missing, |path| Cell::text(plain(path)));
        let row = |one: &ComparedInput| {
            let sum = one.sha256.as_ref().map_or_else(Cell::missing, |sum| Cell::text(plain(sum)));
            Row::new(one.role.name(), vec![path(&one.first), path(&one.second), sum])
        };
        let mut columns = columns();
        columns.push(Column::new("SHA-256"));
        let table = Table::new("Input", columns, comparison.inputs.iter().map(row).collect()).with_text();
        blocks.push(Block::Table(TableBlock::new("Input files of both runs.".into(), table)));
    }
    blocks
}

fn differences(comparison: &Comparison, list: &[Difference], is_share: bool, at: &str) -> Table {
    let has_interval = list.iter().any(|one| one.interval.is_some());
    let has_p = list.iter().any(|one| one.p_value.is_some());
    let is_tested = list.iter().any(|one| one.beyond_noise.is_some());
    let mut columns: Vec<Column> = comparison.runs.iter().map(Column::new).collect();
    columns.push(Column::meaning("Difference", "second minus first"));
    if has_interval {
        columns.push(Column::meaning("95% interval", "of the difference"));
    }
    if has_p {
        columns.push(Column::meaning("p-value", "H₀: no difference; adjusted for the number of tests"));
    }
    if is_tested {
        columns.push(Column::new("Noise"));
    }
    let written = is_share.then(|| written_shares(list));
    let row = |(index, one): (usize, &Difference)| {
        let values = [one.first, one.second, one.difference].into_iter().flatten();
        let digits = Digits::of(values.clone(), one.interval.iter().map(|[low, high]| (high - low) / 4.0));
        let number = |value: Option<f64>, field: &str| match value {
            None => Cell::missing(),
            Some(value) if is_share => Cell::percent(value, format!("{at}/{index}/{field}")),
            Some(value) => Cell::number(value, digits, format!("{at}/{index}/{field}")),
        };
        let mut cells =
            vec![number(one.first, "first"), number(one.second, "second"), number(one.difference, "difference")];
        if let Some(written) = &written {
            for (cell, text) in cells.iter_mut().zip(&written[index]) {
                cell.parts[0].text.clone_from(text);
            }
        }
        if has_interval {
            cells.push(one.interval.map_or_else(Cell::missing, |[low, high]| {
                number(Some(low), "interval/0").low().and(" to ", number(Some(high), "interval/1").high())
            }));
        }
        if has_p {
            let p = |p: f64| match p < 0.001 {
                true => Cell::below("<\u{202f}0.001", p),
                false => Cell::written(brief(p), p, format!("{at}/{index}/p_value")),
            };
            cells.push(one.p_value.map_or_else(Cell::missing, p));
        }
        if is_tested {
            let mut cell = Cell::text(verdict(one));
            cell.best = one.beyond_noise == Some(true);
            cells.push(cell);
        }
        Row::new(name(one, list), cells)
    };
    Table::new(if is_share { "Arm" } else { "Quantity" }, columns, list.iter().enumerate().map(row).collect())
}

impl Comparison {
    /// The tables that terminals print.
    pub fn tables(&self) -> Vec<tables::Table> {
        let mut made: Vec<tables::Table> =
            lists(self).into_iter().map(|(_, title, list, is_share)| self.table(title, list, is_share)).collect();
        if !self.settings.is_empty() {
            let mut table =
                tables::Table::new("Settings that differ", ["setting", &self.runs[0], &self.runs[1]]).left(1).left(2);
            for one in &self.settings {
                table.row(vec![one.what.as_str().into(), one.first.as_str().into(), one.second.as_str().into()]);
            }
            made.push(table);
        }
        if !self.inputs.is_empty() {
            let header = ["input", &self.runs[0], &self.runs[1], "SHA-256"];
            let mut table = tables::Table::new("Input files", header).left(1).left(2).left(3);
            for one in &self.inputs {
                let path = |path: &Option<String>| path.as_deref().unwrap_or(tables::MISSING).into();
                let sum = one.sha256.as_deref().map_or(tables::MISSING, |sum| sum.get(..12).unwrap_or(sum));
                let whole = one.sha256.clone().map_or(tables::Value::Missing, tables::Value::Name);
                let sum = tables::Cell::new(sum, vec![(String::new(), whole)]);
                table.row(vec![one.role.name().into(), path(&one.first), path(&one.second), sum]);
            }
            made.push(table);
        }
        made
    }

    fn table(&self, title: &str, list: &[Difference], is_share: bool) -> tables::Table {
        let is_tested = list.iter().any(|one| one.beyond_noise.is_some());
        let has_interval = list.iter().any(|one| one.interval.is_some());
        let has_p = list.iter().any(|one| one.p_value.is_some());
        let mut header =
            vec![if is_share { "arm" } else { "quantity" }, self.runs[0].as_str(), self.runs[1].as_str(), "difference"];
        header.extend(has_interval.then_some("95% interval"));
        header.extend(has_p.then_some("p-value"));
        header.extend(is_tested.then_some("noise"));
        let last = header.len() - 1;
        let mut table = tables::Table::new(title, header);
        if is_tested {
            table = table.left(last);
        }
        let text = |value: f64| if is_share { percent(value) } else { brief(value) };
        let written = is_share.then(|| written_shares(list));
        for (index, one) in list.iter().enumerate() {
            let number = |value: Option<f64>| {
                let cell = tables::brief_cell(value);
                value.filter(|value| value.is_finite()).map_or(cell.clone(), |value| cell.saying(text(value)))
            };
            let mut row = vec![name(one, list).into(), number(one.first), number(one.second), number(one.difference)];
            if let Some(written) = &written {
                for (cell, text) in row[1..3].iter_mut().zip(&written[index]) {
                    cell.text.clone_from(text);
                }
            }
            if has_interval {
                let cell = tables::interval(one.interval);
                row.push(
                    one.interval
                        .map_or(cell.clone(), |[low, high]| cell.saying(format!("{} to {}", text(low), text(high)))),
                );
            }
            if has_p {
                let cell = tables::brief_cell(one.p_value);
                row.push(if one.p_value.is_some_and(|p| p < 0.001) { cell.saying("<0.001") } else { cell });
            }
            if is_tested {
                let cell = tables::Cell::from(verdict(one));
                row.push(if one.beyond_noise == Some(true) { cell.strong() } else { cell });
            }
            table.row(row);
        }
        table
    }
}
