//! A `.parquet` file that is read by row group, in batches of bounded size: its features, and the columns that name the arm of
//! each row and its scores, in lockstep.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::column::{Column, Decode, Names, Numbers, STEP_VALUES, StepFailure};
use super::footer::{Footer, Group, Leaf};
use super::lists::{BATCH_VALUES, Floats, Lists, Place};
use super::page::Pages;
use super::{MAX_VALUES_OF_ANY_FILE, MAX_VALUES_PER_BYTE, arrays, read_footer};
use crate::error::{Error, Result};
use crate::features::Rows;
use crate::load::payload::{Element, Origin, narrow, widen};
use crate::load::shards::{ShardBatch, ShardColumns};
use crate::load::{listed, no_such_array, one_line, several_arrays_error};

/// A file whose footer was read.
pub(in crate::load) struct Table {
    path: PathBuf,
    footer: Footer,
    features: Picked,
    arm: Option<usize>,
    scores: Vec<(String, usize)>,
}

/// The leaves that are features.
enum Picked {
    /// A column of lists.
    List(usize),
    /// Float columns side by side.
    Columns(Vec<usize>),
}

impl Table {
    /// Reads the footer; `key` names the column of features, before `columns` does.
    pub(in crate::load) fn open(
        path: &Path,
        file: &File,
        length: u64,
        key: Option<&str>,
        columns: &ShardColumns,
    ) -> Result<Self> {
        let origin = Origin { path, array: None };
        let footer = read_footer(file, length, &origin)?;
        let named = |name: &str, kind: &str, fits: &dyn Fn(&Leaf) -> bool| {
            let is_it = |leaf: &Leaf| leaf.column == name && leaf.bare && leaf.repeated == 0 && fits(leaf);
            footer.leaves.iter().position(is_it).ok_or_else(|| {
                let mut names: Vec<String> = footer.leaves.iter().map(|leaf| one_line(&leaf.column)).collect();
                names.dedup();
                origin.file(format!(
                    "there is no column of {kind} named {name:?}; give the name of one of the columns {}",
                    listed(&names)
                ))
            })
        };
        let arm = columns.arm.as_deref().map(|name| named(name, "texts", &Leaf::is_text)).transpose()?;
        let scores =
            columns.scores.iter().map(|name| Ok((name.clone(), named(name, "numbers", &|leaf| leaf.number.is_ok())?)));
        let scores: Vec<(String, usize)> = scores.collect::<Result<_>>()?;
        let other = |leaf: usize| arm == Some(leaf) || scores.iter().any(|(_, score)| *score == leaf);

        let (found, are_lists) = arrays(&footer, &origin, &other)?;
        let features = match (key.or(columns.features.as_deref()), are_lists) {
            (None, false) => Picked::Columns(found.into_iter().next().unwrap_or_default()),
            (Some(name), false) => {
                return Err(
                    origin.file(format!("there is no column of lists of floats named {name:?}; leave out the name"))
                );
            }
            (name, true) => {
                let names: Vec<String> = found.iter().map(|leaves| footer.leaves[leaves[0]].column.clone()).collect();
                let at = match name {
                    None if names.len() > 1 => return Err(several_arrays_error(path, &names)),
                    None => Some(0),
                    Some(name) => names.iter().position(|other| other == name),
                };
                Picked::List(found[at.ok_or_else(|| origin.file(no_such_array(name.unwrap_or(""), &names)))?][0])
            }
        };
        let table = Self { path: path.into(), footer, features, arm, scores };
        table.check_claims(length)?;
        Ok(table)
    }

    /// Checks the numbers of values that the footer claims. All row groups together may claim what a file of this size would
    /// hold, because they may share their bytes.
    fn check_claims(&self, length: u64) -> Result<()> {
        let list = if let Picked::List(leaf) = self.features { Some(leaf) } else { None };
        for leaf in (0..self.footer.leaves.len()).filter(|&leaf| self.reads(leaf)) {
            let mut left = MAX_VALUES_OF_ANY_FILE.max(length.saturating_mul(MAX_VALUES_PER_BYTE));
            for (index, group) in self.footer.groups.iter().enumerate() {
                let place = Place { path: &self.path, group: index };
                let values = group.chunks[leaf].values;
                // A list has at least one value, which may be null.
                if values < group.rows || list != Some(leaf) && values != group.rows {
                    return Err(place.damaged("a row group does not have the rows that it claims"));
                }
                let damage = "it claims more values than a file of its size would hold";
                left = left.checked_sub(values).ok_or_else(|| place.damaged(damage))?;
            }
        }
        Ok(())
    }

    fn reads(&self, leaf: usize) -> bool {
        let is_feature = match &self.features {
            Picked::List(list) => *list == leaf,
            Picked::Columns(leaves) => leaves.contains(&leaf),
        };
        is_feature || self.arm == Some(leaf) || self.scores.iter().any(|(_, score)| *score == leaf)
    }

    /// The number of rows of each row group.
    pub(in crate::load) fn groups(&self) -> impl Iterator<Item = u64> {
        self.footer.groups.iter().map(|group| group.rows)
    }

    /// The width of the features, unless only reading tells.
    pub(in crate::load) fn width(&self) -> Option<usize> {
        match &self.features {
            Picked::List(_) => None,
            Picked::Columns(leaves) => Some(leaves.len()),
        }
    }

    /// Reads a row group of the file; `arm` is the arm of all rows, unless a column names them.
    pub(in crate::load) fn read(
        &self,
        file: &File,
        group: usize,
        arm: Option<&str>,
        each: &mut dyn FnMut(ShardBatch<'_>) -> Result<()>,
    ) -> Result<()> {
        let place = Place { path: &self.path, group };
        let rows = self.footer.groups[group].rows;
        let group = &self.footer.groups[group];
        let mut features = match &self.features {
            Picked::List(leaf) => {
                Source::List(Box::new(Lists::new(self.column(file, group, *leaf), &self.footer.leaves[*leaf])))
            }
            Picked::Columns(leaves) => {
                Source::Columns(leaves.iter().map(|&leaf| self.numbers(file, group, leaf)).collect(), Vec::new())
            }
        };
        let mut arms = self.arm.map(|leaf| (leaf, self.with(file, group, leaf, Names::default())));
        let mut scores: Vec<_> =
            self.scores.iter().map(|(name, leaf)| (name, *leaf, self.numbers(file, group, *leaf))).collect();

        let mut batch = Batch::default();
        let mut done = 0_u64;
        loop {
            let count = match &mut features {
                Source::List(lists) => lists.fill(&mut batch, done, &place)?,
                Source::Columns(columns, column) => {
                    let most =
                        (BATCH_VALUES / columns.len()).max(1).min(usize::try_from(rows - done).unwrap_or(usize::MAX));
                    self.side_by_side(columns, column, (done, most), &mut batch, &place)?
                }
            };
            if count == 0 {
                break;
            }
            batch.arms.clear();
            if let Some((leaf, column)) = &mut arms {
                column.rows(count, &mut batch.arms).map_err(|failure| self.failed(failure, *leaf, done, &place))?;
            }
            batch.scores.clear();
            for (name, leaf, column) in &mut scores {
                let mut values = Vec::new();
                column.rows(count, &mut values).map_err(|failure| self.failed(failure, *leaf, done, &place))?;
                if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                    let (row, value, name) = (done + at as u64, values[at], one_line(name));
                    return Err(place.array(format!(
                        "row {row} (counted from 0) of column {name} is {value}, but scores must be finite; drop the row or fill it"
                    )));
                }
                batch.scores.insert(name.to_string(), values);
            }
            let names = arms.as_ref().map(|(_, column)| column.decoder.names.as_slice());
            batch.emit(count, arm.unwrap_or_default(), names, each)?;
            done += count as u64;
        }
        let mut all = done == rows;
        let (mut names, mut numbers) = (Vec::new(), Vec::new());
        let failed = |failure: StepFailure| self.failed((0, failure), 0, done, &place);
        if let Some((_, column)) = &mut arms {
            all &= column.ended(&mut names).map_err(failed)?;
        }
        for (_, _, column) in &mut scores {
            all &= column.ended(&mut numbers).map_err(failed)?;
        }
        if let Source::Columns(columns, _) = &mut features {
            for column in columns {
                all &= column.ended(&mut numbers).map_err(failed)?;
            }
        }
        if all { Ok(()) } else { Err(place.damaged("a row group does not have the rows that it claims")) }
    }

    fn with<'a, D: Decode>(&'a self, file: &'a File, group: &'a Group, leaf: usize, decoder: D) -> Column<'a, D> {
        let chunk = &group.chunks[leaf];
        Column::new(Pages::new(file, chunk), chunk, &self.footer.leaves[leaf], decoder)
    }

    fn numbers<'a>(&'a self, file: &'a File, group: &'a Group, leaf: usize) -> Column<'a, Numbers<f64>> {
        let element = self.footer.leaves[leaf].number.expect("only leaves of numbers are picked");
        self.with(file, group, leaf, Numbers::new(element, widen))
    }

    fn column<'a>(&'a self, file: &'a File, group: &'a Group, leaf: usize) -> Floats<'a> {
        match self.footer.leaves[leaf].element.expect("only leaves of floats are picked") {
            element @ Element::F64 => {
                Floats::Double(self.with(file, group, leaf, Numbers::new(element, widen)), Vec::new())
            }
            element => Floats::Single(self.with(file, group, leaf, Numbers::new(element, narrow))),
        }
    }

    /// Replaces the values of `batch` by rows that are made of one value per column; returns their number.
    fn side_by_side(
        &self,
        columns: &mut [Column<'_, Numbers<f64>>],
        column: &mut Vec<f64>,
        (done, rows): (u64, usize),
        batch: &mut Batch,
        place: &Place<'_>,
    ) -> Result<usize> {
        let Picked::Columns(leaves) = &self.features else { return Ok(0) };
        let width = columns.len();
        // Memory grows as rows arrive, because their number is only claimed.
        let rows = rows.min(STEP_VALUES);
        batch.values.clear();
        batch.values.resize(rows * width, 0.0);
        batch.width = width;
        for (at, (reader, &leaf)) in columns.iter_mut().zip(leaves).enumerate() {
            column.clear();
            reader.rows(rows, column).map_err(|failure| self.failed(failure, leaf, done, place))?;
            for (row, &value) in column.iter().enumerate() {
                let narrowed = value as f32;
                if !narrowed.is_finite() {
                    return Err(Error::NotFinite { origin: place.name(), row: done as usize + row, column: at, value });
                }
                batch.values[row * width + at] = narrowed;
            }
        }
        Ok(rows)
    }

    /// The error of a column without lists, after `done` rows and those before it.
    fn failed(&self, (before, failure): (usize, StepFailure), leaf: usize, done: u64, place: &Place<'_>) -> Error {
        match failure {
            StepFailure::Failed(failure) => place.failed(failure),
            StepFailure::Null { at, .. } => {
                let (row, name) = (done + (before + at) as u64, one_line(&self.footer.leaves[leaf].column));
                place.array(format!(
                    "row {row} (counted from 0) of column {name} is null; drop the row or fill the null"
                ))
            }
        }
    }
}

/// The readers of features.
enum Source<'a> {
    List(Box<Lists<'a>>),
    /// One per column, and the values of one column.
    Columns(Vec<Column<'a, Numbers<f64>>>, Vec<f64>),
}

/// Rows that were read, with the arm and the scores of each.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) width: usize,
    /// Rows in row-major order; the last one may be incomplete.
    pub(super) values: Vec<f32>,
    /// The index of the arm of each row, if a column names it.
    arms: Vec<usize>,
    scores: BTreeMap<String, Vec<f64>>,
    /// The rows by arm.
    grouped: Vec<f32>,
}

impl Batch {
    /// Passes the first `rows` rows to `each`, by arm if there are `names` of several.
    fn emit(
        &mut self,
        rows: usize,
        arm: &str,
        names: Option<&[String]>,
        each: &mut dyn FnMut(ShardBatch<'_>) -> Result<()>,
    ) -> Result<()> {
        let width = self.width;
        let all = Rows::new(width, &self.values[..rows * width]);
        let first = self.arms.first().copied().unwrap_or(0);
        let Some(names) = names.filter(|_| self.arms.iter().any(|&index| index != first)) else {
            let arm = names.and_then(|names| names.get(first)).map_or(arm, String::as_str);
            return each(ShardBatch { arm, rows: all, scores: std::mem::take(&mut self.scores) });
        };
        // A stable order, so that rows of one arm stay in the order of the file.
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by_key(|&row| self.arms[row]);
        self.grouped.clear();
        self.grouped.reserve(rows * width);
        for &row in &order {
            self.grouped.extend_from_slice(all.row(row));
        }
        let grouped = Rows::new(width, &self.grouped);
        let mut from = 0;
        for rows in order.chunk_by(|&one, &other| self.arms[one] == self.arms[other]) {
            let scores =
                self.scores.iter().map(|(name, values)| (name.clone(), rows.iter().map(|&row| values[row]).collect()));
            let (arm, scores) = (names[self.arms[rows[0]]].as_str(), scores.collect());
            each(ShardBatch { arm, rows: grouped.slice(from, from + rows.len()), scores })?;
            from += rows.len();
        }
        Ok(())
    }
}
