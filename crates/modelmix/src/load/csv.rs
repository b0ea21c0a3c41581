//! The `.csv` and `.tsv` formats: one line per sample, one number per cell, and an optional header line.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use ::csv::{ByteRecord, ReaderBuilder, Terminator, Trim};

use super::payload::Origin;
use super::{one_line, stem};
use crate::arms::check_rows;
use crate::error::{Error, Result};
use crate::features::Features;

/// An opened `.csv` or `.tsv` file.
pub(super) struct Csv {
    path: PathBuf,
    file: File,
    delimiter: u8,
    /// The file's stem.
    pub(super) name: String,
}

impl Csv {
    pub(super) fn open(path: &Path, file: File, delimiter: u8) -> Self {
        Self { path: path.into(), file, delimiter, name: stem(path) }
    }

    pub(super) fn read(&mut self) -> Result<Features> {
        let origin = Origin { path: &self.path, array: None };
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .delimiter(self.delimiter)
            .terminator(Terminator::Any(b'\n'))
            .from_reader(BufReader::new(&self.file).chain(b"\n".as_slice()));
        let mut record = ByteRecord::new();
        let mut values = Vec::new();
        // The width, and the line that determined it.
        let mut first: Option<(usize, u64)> = None;
        let mut rows = 0;
        while reader.read_byte_record(&mut record).map_err(|error| read_error(error, &origin))? {
            // The position of the record includes the blank lines before it; this one is just after its end.
            let line = reader.position().line() - 1;
            if record.len() == 1 && record[0].is_empty() {
                continue;
            }
            let (width, above) = *first.get_or_insert((record.len(), line));
            if record.len() != width {
                return Err(origin.array(format!(
                    "line {line} has {} values, but line {above} has {width}; give every line the same columns",
                    record.len()
                )));
            }
            if line == above && is_header(&record, line, &origin)? {
                continue;
            }
            values
                .try_reserve(width)
                .map_err(|_| origin.array("the values do not fit into memory; save fewer rows"))?;
            for (column, cell) in record.iter().enumerate() {
                let value = number(cell).ok_or_else(|| not_a_number_error(line, column, cell, &origin))?;
                let narrowed = value as f32;
                if !narrowed.is_finite() {
                    let origin = format!("{} (line {line})", origin.name());
                    return Err(Error::NotFinite { origin, row: rows, column, value });
                }
                values.push(narrowed);
            }
            rows += 1;
        }
        if rows == 0 {
            return Err(origin.array("there are no rows; give one line of numbers per sample"));
        }
        let width = first.map_or(0, |(width, _)| width);
        let features = Features::new(width, values).map_err(|error| error.of(origin.name()))?;
        check_rows(&features).map_err(|error| error.of(origin.name()))?;
        Ok(features)
    }
}

fn number(cell: &[u8]) -> Option<f64> {
    str::from_utf8(cell).ok()?.parse().ok()
}

/// Whether the first line is a header: if a cell is not a number, or if the line counts its columns from 0, as pandas
/// does for columns without names. Ambiguous lines are rejected, so that no sample is silently lost.
fn is_header(record: &ByteRecord, line: u64, origin: &Origin<'_>) -> Result<bool> {
    if record.iter().all(|cell| number(cell).is_some()) {
        let counts = record.iter().enumerate().all(|(column, cell)| cell == column.to_string().as_bytes());
        return Ok(counts && record.len() > 2);
    }
    if let Some(column) = record.iter().position(<[u8]>::is_empty) {
        return Err(origin.array(format!(
            "line {line}, column {} is empty, like the name of an index column; write the file without one, as in frame.to_csv(path, index=False)",
            column + 1
        )));
    }
    let value = record.iter().find(|cell| number(cell).is_some() && !cell.iter().all(u8::is_ascii_digit));
    let text = record.iter().position(|cell| number(cell).is_none());
    match (value, text) {
        (Some(_), Some(column)) => Err(not_a_number_error(line, column, &record[column], origin)),
        _ => Ok(true),
    }
}

fn not_a_number_error(line: u64, column: usize, cell: &[u8], origin: &Origin<'_>) -> Error {
    let text = String::from_utf8_lossy(cell);
    let (found, remedy) = if cell.is_empty() {
        ("empty".to_string(), "fill it or remove the line")
    } else {
        let joined = text.split([';', ' ', '\t', ',']).all(|part| part.is_empty() || part.parse::<f64>().is_ok());
        let remedy = if joined {
            "separate values with commas, or with tabs in a .tsv file"
        } else {
            "keep columns of numbers only"
        };
        (format!("\"{}\", which is not a number", one_line(text.chars().take(40).collect::<String>())), remedy)
    };
    origin.array(format!("line {line}, column {} is {found}; {remedy}", column + 1))
}

fn read_error(error: ::csv::Error, origin: &Origin<'_>) -> Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => origin.io(error),
        other => {
            origin.file(format!("the lines cannot be read ({}); write the file again", one_line(format!("{other:?}"))))
        }
    }
}
