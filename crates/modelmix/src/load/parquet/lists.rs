//! Columns of lists of floats as rows of one width, a batch at a time.

use std::path::Path;

use super::column::{Column, Numbers, STEP_VALUES, StepFailure};
use super::footer::Leaf;
use super::page::Failure;
use super::table::Batch;
use crate::error::{Error, Result};
use crate::features::first_not_finite;
use crate::load::payload::Origin;

/// The number of values per batch: 16 MiB. A batch has at least one row.
pub(super) const BATCH_VALUES: usize = 4 << 20;

/// A row group, for messages.
pub(super) struct Place<'a> {
    pub(super) path: &'a Path,
    pub(super) group: usize,
}

impl Place<'_> {
    pub(super) fn name(&self) -> String {
        format!("{}, row group {}", self.path.display(), self.group)
    }

    /// The rows are valid but cannot be used as features.
    pub(super) fn array(&self, problem: String) -> Error {
        Error::Array { origin: self.name(), problem }
    }

    /// The file is damaged or forged.
    pub(super) fn damaged(&self, damage: &str) -> Error {
        let remedy = "write it again with pyarrow.parquet.write_table's defaults";
        let problem = format!("row group {} cannot be read: {damage}; {remedy}", self.group);
        Error::File { path: self.path.into(), problem }
    }

    pub(super) fn failed(&self, failure: Failure) -> Error {
        match failure {
            Failure::Io(error) => Origin { path: self.path, array: None }.io(error),
            Failure::Damage(damage) => self.damaged(damage),
        }
    }
}

/// Floats of lists; those of 64 bits are kept for messages.
pub(super) enum Floats<'a> {
    Single(Column<'a, Numbers<f32>>),
    Double(Column<'a, Numbers<f64>>, Vec<f64>),
}

impl Floats<'_> {
    fn step(&mut self, most: usize, values: &mut Vec<f32>) -> Result<usize, StepFailure> {
        match self {
            Floats::Single(column) => column.step(most, values),
            Floats::Double(column, read) => {
                read.clear();
                let count = column.step(most, read)?;
                values.extend(read.iter().map(|&value| value as f32));
                Ok(count)
            }
        }
    }

    /// Where rows begin in the last step, counted from its first value.
    fn starts(&self) -> &[usize] {
        match self {
            Floats::Single(column) => &column.starts,
            Floats::Double(column, _) => &column.starts,
        }
    }

    fn starts_mut(&mut self) -> &mut Vec<usize> {
        match self {
            Floats::Single(column) => &mut column.starts,
            Floats::Double(column, _) => &mut column.starts,
        }
    }
}

/// A column of lists as rows of one width.
pub(super) struct Lists<'a> {
    floats: Floats<'a>,
    leaf: &'a Leaf,
    /// The number of values of the first row, once known.
    width: Option<usize>,
    /// The number of rows that have begun, and the number of values of the last of them.
    begun: u64,
    length: usize,
    /// The number of values of the rows that were returned, which are removed by the next call.
    returned: usize,
}

impl<'a> Lists<'a> {
    pub(super) fn new(floats: Floats<'a>, leaf: &'a Leaf) -> Self {
        Self { floats, leaf, width: None, begun: 0, length: 0, returned: 0 }
    }

    /// Replaces the rows that were returned last by the next ones; returns their number, which is 0 at the end. `done` rows
    /// were returned before.
    pub(super) fn fill(&mut self, batch: &mut Batch, done: u64, place: &Place<'_>) -> Result<usize> {
        let values = &mut batch.values;
        values.drain(..std::mem::take(&mut self.returned));
        loop {
            let most = match self.width {
                Some(width) => ((BATCH_VALUES / width).max(1) * width).saturating_sub(values.len()),
                None => STEP_VALUES,
            };
            if most == 0 {
                break;
            }
            let before = values.len();
            let count = self.floats.step(most, values).map_err(|failure| self.failed(failure, place))?;
            if count == 0 {
                if self.begun > 0 {
                    self.end_row(self.length, place)?;
                }
                break;
            }
            self.place_rows(count, place)?;
            if let Some(at) = first_not_finite(&values[before..]) {
                // Rows have one width, or this is the first.
                let (row, column) = match self.width {
                    Some(width) => (done as usize + (before + at) / width, (before + at) % width),
                    None => (0, before + at),
                };
                let value = match &self.floats {
                    Floats::Single(_) => values[before + at].into(),
                    Floats::Double(_, read) => read[at],
                };
                return Err(Error::NotFinite { origin: place.name(), row, column, value });
            }
        }
        let Some(width) = self.width else { return Ok(0) };
        batch.width = width;
        let rows = values.len() / width;
        self.returned = rows * width;
        Ok(rows)
    }

    /// Assigns the values of a step to rows, whose lengths are checked.
    fn place_rows(&mut self, count: usize, place: &Place<'_>) -> Result<()> {
        let mut from = 0;
        let starts = std::mem::take(self.floats.starts_mut());
        for &start in &starts {
            self.length += start - from;
            from = start;
            if self.begun > 0 {
                self.end_row(self.length, place)?;
            } else if start > 0 {
                return Err(place.damaged("a row group begins within a row"));
            }
            self.begun += 1;
            self.length = 0;
        }
        *self.floats.starts_mut() = starts;
        self.length += count - from;
        if self.begun == 0 {
            return Err(place.damaged("a row group begins within a row"));
        }
        if self.width.is_some_and(|width| self.length > width) {
            let length = self.length + self.rest_of_row(place)?;
            self.end_row(length, place)?;
        }
        Ok(())
    }

    /// The number of values until the next row begins.
    fn rest_of_row(&mut self, place: &Place<'_>) -> Result<usize> {
        let (mut rest, mut values) = (0, Vec::new());
        loop {
            values.clear();
            let count = self.floats.step(STEP_VALUES, &mut values).map_err(|failure| self.failed(failure, place))?;
            match self.floats.starts().first() {
                Some(start) => return Ok(rest + start),
                None if count == 0 => return Ok(rest),
                None => rest += count,
            }
        }
    }

    /// Checks the length of the last row that began.
    fn end_row(&mut self, length: usize, place: &Place<'_>) -> Result<()> {
        let width = *self.width.get_or_insert(length);
        if length == width {
            return Ok(());
        }
        let row = self.begun - 1;
        Err(place.array(format!(
            "row {row} has {length} values, but row 0, the first, has {width}; every sample needs the same features"
        )))
    }

    fn failed(&self, failure: StepFailure, place: &Place<'_>) -> Error {
        let (at, level) = match failure {
            StepFailure::Failed(failure) => return place.failed(failure),
            StepFailure::Null { at, level } => (at, level),
        };
        let begun = self.begun + self.floats.starts().iter().filter(|start| **start <= at).count() as u64;
        let (what, remedy) = match level {
            level if level + 1 == self.leaf.listed => ("is an empty list", "drop the row"),
            level if level < self.leaf.listed => ("is null", "drop the row"),
            _ => ("holds a null", "drop the row or fill the null"),
        };
        place.array(format!("row {} (counted from 0) {what}; {remedy}", begun.saturating_sub(1)))
    }
}
