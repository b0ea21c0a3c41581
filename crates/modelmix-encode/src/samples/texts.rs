//! Texts as samples, from `.txt`, `.jsonl`, `.json`, `.csv`, `.tsv` and `.parquet` files.
//!
//! Files are read as streams, so that memory holds the texts once. JSON and Parquet are parsed by the library.

mod read;

use std::path::Path;

use modelmix::Result;
use modelmix::internals::texts::TextTable;

use self::read::{LARGEST_FILE, Place, Texts};
use crate::problem::Problem;

/// The field of a JSON object that is its text, unless another one is named.
const DEFAULT_FIELD: &str = "text";

/// The bytes of text that any file may have, and the number per byte of the file: compressed dictionaries repeat texts
/// at almost no cost.
const TEXT_OF_ANY_FILE: u64 = 64 << 20;
const TEXT_PER_BYTE: u64 = 1000;

/// Texts of one arm, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextSamples {
    /// All texts, joined.
    joined: String,
    /// Where each text ends.
    ends: Vec<usize>,
    /// The line of each text, counted from 1; empty if the ids are rows, counted from 0.
    lines: Vec<u64>,
    blank_lines: usize,
    /// The samples that could not be read, whose texts are empty, in order.
    problems: Vec<(usize, Problem)>,
}

impl TextSamples {
    /// Reads the texts of a file.
    ///
    /// A `.txt` file has one text per line; lines without any character but white space are left out, and counted by
    /// [`blank_lines`](Self::blank_lines). A `.jsonl` file has one JSON value per line: a string, or an object whose
    /// field `key` (default `text`) is a string. A `.json` file is a list of such values, or an object of lists, one per
    /// arm, of which `key` picks one. `.csv` and `.tsv` files have a header, and `key` is the column; so it is in
    /// `.parquet` files. Texts are UTF-8, with or without a byte order mark. Empty strings in JSON and in tables are
    /// samples.
    ///
    /// Texts are named after the file's stem, or after the arms of a `.json` file.
    ///
    /// # Errors
    /// If the file cannot be read, is larger than 4 GiB, is not UTF-8, contains something else, no texts, or a text of
    /// more than 16 MiB, if there is no such field or column, or if a table is given without a column.
    pub fn open(path: &Path, key: Option<&str>) -> Result<Vec<(String, TextSamples)>> {
        let arms = read(path, key)?;
        match arms.iter().find_map(|(_, texts)| texts.first_problem()) {
            None => Ok(arms),
            Some((_, problem)) => Err(Place { path }.refused(problem.to_string())),
        }
    }

    /// The number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The id of text `i`: the line, counted from 1, in `.txt` and `.jsonl` files; the row, counted from 0, in others.
    pub fn id(&self, i: usize) -> String {
        self.lines.get(i).map_or_else(|| i.to_string(), u64::to_string)
    }

    /// Text `i`.
    ///
    /// # Panics
    /// If there is no text `i`, as for slices.
    pub fn text(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.joined[start..self.ends[i]]
    }

    /// Where text `i` is, for messages.
    pub(super) fn place(&self, i: usize) -> String {
        self.lines.get(i).map_or_else(|| format!("row {i} (counted from 0)"), |line| format!("line {line}"))
    }

    /// The first text that could not be read.
    pub(super) fn first_problem(&self) -> Option<(usize, &Problem)> {
        self.problems.first().map(|(index, problem)| (*index, problem))
    }

    /// Why text `i` could not be read; `None` if it was.
    pub(super) fn problem(&self, i: usize) -> Option<&Problem> {
        let found = self.problems.binary_search_by_key(&i, |(index, _)| *index).ok()?;
        Some(&self.problems[found].1)
    }

    /// The number of lines of a `.txt` file that were left out because they are empty or white space.
    pub fn blank_lines(&self) -> usize {
        self.blank_lines
    }
}

/// Reads the texts of a file as [`TextSamples::open`] does, but keeps lines and rows that cannot be read as samples with a
/// problem.
pub(super) fn read(path: &Path, key: Option<&str>) -> Result<Vec<(String, TextSamples)>> {
    let place = Place { path };
    let extension = extension(path);
    if !["txt", "jsonl", "json", "csv", "tsv", "parquet"].contains(&extension.as_str()) {
        return Err(
            place.refused("the file type is not known; texts come from .txt, .jsonl, .json, .csv, .tsv or .parquet")
        );
    }
    let (file, length) = place.open()?;
    let limit = TEXT_OF_ANY_FILE.max(length.saturating_mul(TEXT_PER_BYTE)).min(LARGEST_FILE);
    let texts = Texts { place, limit };
    let arms = match (extension.as_str(), key) {
        ("json", _) => return texts.json(file, key),
        ("txt", Some(key)) => {
            return Err(place.refused(format!("a .txt file has lines without names; leave out the name {key:?}")));
        }
        ("txt", None) => texts.lines(file, |_, line| {
            let blank = line.trim().is_empty();
            Ok((!blank).then(|| line.into()))
        })?,
        ("jsonl", _) => texts.json_lines(file, key.unwrap_or(DEFAULT_FIELD))?,
        ("csv", _) => texts.table(file, b',', key)?,
        ("tsv", _) => texts.table(file, b'\t', key)?,
        _ => texts.parquet(key)?,
    };
    Ok(vec![(stem(path), place.not_empty(None, arms)?)])
}

impl<T: AsRef<str>> FromIterator<T> for TextSamples {
    /// Texts in memory; their ids are rows, counted from 0.
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut samples = Self::default();
        for text in texts {
            samples.joined.push_str(text.as_ref());
            samples.ends.push(samples.joined.len());
        }
        samples
    }
}

/// Whether a file has texts, as opposed to features or images; `key` is the field or column named with it.
///
/// `.txt`, `.jsonl` and `.json` files always have texts. A `.csv` or `.tsv` file has them if a column is named, because
/// features in such files have no names; a `.parquet` file if the named column is one of texts, or there is no such
/// column and no column that could hold features.
pub fn holds_texts(path: &Path, key: Option<&str>) -> bool {
    match (extension(path).as_str(), key) {
        ("txt" | "jsonl" | "json", _) | ("csv" | "tsv", Some(_)) => true,
        ("parquet", Some(key)) => TextTable::open(path).is_ok_and(|table| {
            let columns = table.columns();
            match columns.iter().find(|(name, _)| *name == key) {
                Some((_, texts)) => *texts,
                None => columns.iter().all(|(_, texts)| *texts) && !columns.is_empty(),
            }
        }),
        _ => false,
    }
}

/// The file's extension in lower case.
fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

/// The file's name without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
