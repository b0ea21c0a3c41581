//! The `.parquet` format: one column of lists of floats, or float columns side by side; `strings` reads texts.
//!
//! It is parsed here instead of by the `parquet` crate: that one requests 16 GiB if 15 bytes claim a schema of 2³¹ − 1
//! children, overflows the stack on deeply nested groups, and trusts the sizes of pages. Features need only a small
//! part of the format: floats of 16, 32 and 64 bits, in three encodings and four compressions.

mod column;
mod footer;
mod lists;
mod page;
mod runs;
mod strings;
mod table;
mod thrift;
mod values;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

pub use self::strings::TextTable;
pub(super) use self::table::Table;

use self::footer::{Footer, Leaf};
use self::page::{Failure, Pages};
use self::values::{Cell, cells};
use super::payload::{Element, Origin};
use super::{listed, stem};
use crate::arms::check_rows;
use crate::error::{Error, Result};
use crate::features::Features;

/// The maximum size of a footer. A few thousand columns in a hundred row groups take a tenth of it.
const LONGEST_FOOTER: u64 = 64 << 20;

/// The number of values that any file may claim, and the number that each further byte may claim: equal values take
/// almost no space.
const MAX_VALUES_OF_ANY_FILE: u64 = 1 << 24;
const MAX_VALUES_PER_BYTE: u64 = 256;

/// An open `.parquet` file.
pub(super) struct Parquet {
    path: PathBuf,
    file: File,
    length: u64,
    footer: Footer,
    /// The leaves of the selectable arrays: each is a column of lists, or one array of all columns.
    arrays: Vec<Vec<usize>>,
    /// The names of the columns of lists; the file's stem for an array of all columns.
    pub(super) names: Vec<String>,
    /// Whether the arrays are columns of lists, which have names.
    pub(super) lists: bool,
}

impl Parquet {
    pub(super) fn open(path: &Path, file: File, length: u64) -> Result<Self> {
        let origin = Origin { path, array: None };
        let footer = read_footer(&file, length, &origin)?;
        let (arrays, lists) = arrays(&footer, &origin, &|_| false)?;
        let names = if lists {
            arrays.iter().map(|leaves| footer.leaves[leaves[0]].column.clone()).collect()
        } else {
            vec![stem(path)]
        };
        Ok(Self { path: path.into(), file, length, footer, arrays, names, lists })
    }

    pub(super) fn read(&self, index: usize) -> Result<Features> {
        let name = self.lists.then(|| self.names[index].as_str());
        let origin = Origin { path: &self.path, array: name };
        let leaves = &self.arrays[index];
        let mut left = MAX_VALUES_OF_ANY_FILE.max(self.length.saturating_mul(MAX_VALUES_PER_BYTE));
        let (width, values) = if self.lists {
            self.rows(leaves[0], &mut left, &origin)
        } else {
            self.columns(leaves, &mut left, &origin)
        }
        .map_err(|stop| stop.into_error(&origin))?;
        if values.is_empty() {
            return Err(origin.array("there are no rows; give at least 2 samples"));
        }
        let features = Features::new(width, values).map_err(|error| error.of(origin.name()))?;
        check_rows(&features).map_err(|error| error.of(origin.name()))?;
        Ok(features)
    }

    /// Reads a column of lists: one row per list.
    fn rows(&self, leaf: usize, left: &mut u64, origin: &Origin<'_>) -> Result<(usize, Vec<f32>), ReadFailure> {
        let (column, element) = self.leaf(leaf);
        let mut values = Vec::new();
        // The width of the first row, once known; the number of rows started; where the last of them started.
        let (mut width, mut rows, mut start) = (None, 0_usize, 0);
        let ended = |width: &mut Option<usize>, rows: usize, length: usize| {
            let width = *width.get_or_insert(length);
            if rows == 0 || length == width {
                return Ok(());
            }
            Err(ReadFailure::Said(origin.array(format!(
                "row {} has {length} values, but row 0, the first, has {width}; every sample needs the same features",
                rows - 1
            ))))
        };
        for group in &self.footer.groups {
            let chunk = &group.chunks[leaf];
            let before = rows;
            cells(Pages::new(&self.file, chunk), (chunk, column, element), left, |Cell { first, value }| {
                if first {
                    if rows > 0 {
                        ended(&mut width, rows, values.len() - start)?;
                    }
                    (rows, start) = (rows + 1, values.len());
                } else if rows == before {
                    return Err(ReadFailure::Failed(Failure::Damage("a row group begins within a row")));
                }
                let value = value.map_err(|level| {
                    let row = rows - 1;
                    let (what, remedy) = match level {
                        level if level + 1 == column.listed => ("is an empty list", "drop the row"),
                        level if level < column.listed => ("is null", "drop the row"),
                        _ => ("holds a null", "drop the row or fill the null"),
                    };
                    ReadFailure::Said(origin.array(format!("row {row} (counted from 0) {what}; {remedy}")))
                })?;
                push(&mut values, value, origin, |at| (rows - 1, at - start))
            })?;
            if (rows - before) as u64 != group.rows {
                return Err(ReadFailure::Failed(Failure::Damage("a row group does not have the rows that it claims")));
            }
        }
        ended(&mut width, rows, values.len() - start)?;
        Ok((width.unwrap_or(0), values))
    }

    /// Reads float columns side by side: one feature per column.
    fn columns(&self, leaves: &[usize], left: &mut u64, origin: &Origin<'_>) -> Result<(usize, Vec<f32>), ReadFailure> {
        let mut values: Vec<f32> = Vec::new();
        let mut above = 0;
        for group in &self.footer.groups {
            // Stored separately until all are read, because a claimed number of rows is verified only by reading them.
            let mut columns = Vec::with_capacity(leaves.len());
            for (at, &leaf) in leaves.iter().enumerate() {
                let (column, element) = self.leaf(leaf);
                let chunk = &group.chunks[leaf];
                let mut read = Vec::new();
                cells(Pages::new(&self.file, chunk), (chunk, column, element), left, |Cell { value, .. }| {
                    let value = value.map_err(|_| {
                        let row = above + read.len();
                        let name = super::one_line(&column.column);
                        ReadFailure::Said(origin.array(format!(
                            "row {row} (counted from 0) of column {name} is null; drop the row or fill the null"
                        )))
                    })?;
                    push(&mut read, value, origin, |row| (above + row, at))
                })?;
                if read.len() as u64 != group.rows {
                    return Err(ReadFailure::Failed(Failure::Damage(
                        "a row group does not have the rows that it claims",
                    )));
                }
                columns.push(read);
            }
            let rows = columns.first().map_or(0, Vec::len);
            values.try_reserve_exact(rows * leaves.len()).map_err(|_| too_large(origin))?;
            for row in 0..rows {
                values.extend(columns.iter().map(|column| column[row]));
            }
            above += rows;
        }
        Ok((leaves.len(), values))
    }

    fn leaf(&self, index: usize) -> (&Leaf, Element) {
        let leaf = &self.footer.leaves[index];
        (leaf, leaf.element.expect("only leaves of floats are picked"))
    }
}

/// Reads the footer, and checks what it says against the file.
fn read_footer(mut file: &File, length: u64, origin: &Origin<'_>) -> Result<Footer> {
    let none = |problem: &str| origin.file(format!("this is not a Parquet file: {problem}; write or copy it again"));
    let mut tail = [0; 8];
    let Some(before) = length.checked_sub(12) else {
        return Err(none(&format!("its {length} bytes are fewer than the format needs")));
    };
    let mut head = [0; 4];
    file.read_exact(&mut head).map_err(|error| origin.io(error))?;
    file.seek(SeekFrom::Start(before + 4)).map_err(|error| origin.io(error))?;
    file.read_exact(&mut tail).map_err(|error| origin.io(error))?;
    let [size @ .., m0, m1, m2, m3] = tail;
    if [m0, m1, m2, m3] == *b"PARE" {
        return Err(origin.file("the file is encrypted; write it without encryption"));
    }
    if head != *b"PAR1" || [m0, m1, m2, m3] != *b"PAR1" {
        return Err(none("it does not begin and end with the magic number"));
    }
    let size = u64::from(u32::from_le_bytes(size));
    if size > before || size > LONGEST_FOOTER {
        return Err(none(&format!(
            "the footer claims {size} bytes, but {before} are there and {LONGEST_FOOTER} are allowed"
        )));
    }
    let mut bytes = vec![0; size as usize];
    file.seek(SeekFrom::Start(before + 4 - size)).map_err(|error| origin.io(error))?;
    file.read_exact(&mut bytes).map_err(|error| origin.io(error))?;
    footer::footer(&bytes, before + 4 - size).map_err(|damage| {
        origin.file(format!("the footer cannot be used: {damage}; write it again as one plain Parquet file"))
    })
}

/// Why reading stopped.
enum ReadFailure {
    Failed(Failure),
    Said(Error),
}

impl From<Failure> for ReadFailure {
    fn from(failure: Failure) -> Self {
        ReadFailure::Failed(failure)
    }
}

impl ReadFailure {
    fn into_error(self, origin: &Origin<'_>) -> Error {
        match self {
            ReadFailure::Said(error) => error,
            ReadFailure::Failed(Failure::Io(error)) => origin.io(error),
            ReadFailure::Failed(Failure::Damage(damage)) => origin.file(format!(
                "the column cannot be read: {damage}; write it again with pyarrow.parquet.write_table's defaults"
            )),
        }
    }
}

fn too_large(origin: &Origin<'_>) -> ReadFailure {
    ReadFailure::Said(origin.array("the values do not fit into memory; save fewer rows"))
}

/// Appends a value, or returns an error with its position if it is not finite.
fn push(
    values: &mut Vec<f32>,
    value: f64,
    origin: &Origin<'_>,
    place: impl FnOnce(usize) -> (usize, usize),
) -> Result<(), ReadFailure> {
    let narrowed = value as f32;
    if !narrowed.is_finite() {
        let (row, column) = place(values.len());
        return Err(ReadFailure::Said(Error::NotFinite { origin: origin.name(), row, column, value }));
    }
    if values.len() == values.capacity() {
        values.try_reserve(1).map_err(|_| too_large(origin))?;
    }
    values.push(narrowed);
    Ok(())
}

/// Which leaves are features: columns of lists if there are any, otherwise all columns; and whether they are lists. Leaves
/// for which `other` is true are something else.
fn arrays(footer: &Footer, origin: &Origin<'_>, other: &dyn Fn(usize) -> bool) -> Result<(Vec<Vec<usize>>, bool)> {
    let leaves = &footer.leaves;
    // Leaves of one top-level column are adjacent.
    let alone = |leaf: usize| {
        let same = |other: Option<&Leaf>| other.is_some_and(|other| other.top == leaves[leaf].top);
        !same(leaf.checked_sub(1).map(|before| &leaves[before])) && !same(leaves.get(leaf + 1))
    };
    let lists: Vec<Vec<usize>> = (0..leaves.len())
        .filter(|&leaf| leaves[leaf].element.is_ok() && leaves[leaf].repeated == 1 && alone(leaf))
        .map(|leaf| vec![leaf])
        .collect();
    if !lists.is_empty() {
        return Ok((lists, true));
    }
    let is_float = |leaf: &&Leaf| leaf.bare && leaf.repeated == 0 && leaf.element.is_ok();
    let rest: Vec<usize> = (0..leaves.len()).filter(|&leaf| !other(leaf)).collect();
    if rest.iter().all(|&leaf| is_float(&&leaves[leaf])) && !rest.is_empty() {
        return Ok((vec![rest], false));
    }
    let others: Vec<String> = rest
        .iter()
        .map(|&leaf| &leaves[leaf])
        .filter(|leaf| !is_float(leaf))
        .map(|leaf| format!("{} ({})", super::one_line(&leaf.column), leaf.element.err().unwrap_or("nested")))
        .collect();
    let floats = rest.len() - others.len();
    let problem = if rest.is_empty() {
        "the table has no columns of features; write a column of lists of floats, or one column per feature".to_string()
    } else if floats == 0 {
        format!("no column holds floats or lists of floats, but {}; write a column of lists of floats", listed(&others))
    } else {
        format!(
            "there are {floats} float columns and others, {}; keep only the float columns, as in table.drop_columns([...])",
            listed(&others)
        )
    };
    Err(Error::Array { origin: origin.name(), problem })
}
