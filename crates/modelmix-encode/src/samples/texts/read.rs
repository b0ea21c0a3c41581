//! Reads the texts of one file, as a stream.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use modelmix::internals::nearest_word;
use modelmix::internals::texts::{Part, TextTable, document, line};
use modelmix::{Error, Result};

use super::{DEFAULT_FIELD, TextSamples, stem};
use crate::problem::Problem;
use crate::samples::names::{listed, shortened};

/// The maximum size of a file.
pub(super) const LARGEST_FILE: u64 = 4 << 30;

/// The maximum size of one text. Books are smaller; a missing quote or line end makes larger ones.
const LARGEST_TEXT: usize = 16 << 20;

/// A record that no table has; it is put behind the last one.
const END_OF_TABLE: &[u8] = b"\n\0end of the table\0\n";

/// A file, for messages.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) path: &'a Path,
}

impl Place<'_> {
    pub(super) fn refused(&self, problem: impl Into<String>) -> Error {
        Error::File { path: self.path.into(), problem: problem.into() }
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path.into(), source }
    }

    /// Opens the file; also returns its length.
    pub(super) fn open(&self) -> Result<(File, u64)> {
        // Checked before the file is opened, because opening a pipe would wait for its writer.
        let metadata = std::fs::metadata(self.path).map_err(|error| self.io(error))?;
        if !metadata.is_file() {
            return Err(self.refused("this is not a regular file; give a file of texts"));
        }
        let length = metadata.len();
        if length > LARGEST_FILE {
            return Err(self.refused(format!("{length} bytes are more than the 4 GiB allowed; split the file")));
        }
        Ok((File::open(self.path).map_err(|error| self.io(error))?, length))
    }

    /// Rejects arms without texts.
    pub(super) fn not_empty(&self, arm: Option<&str>, texts: TextSamples) -> Result<TextSamples> {
        if !texts.is_empty() {
            return Ok(texts);
        }
        let arm = arm.map_or(String::new(), |arm| format!(" in {:?}", shortened(arm)));
        Err(self.refused(format!("there are no texts{arm}; give at least one")))
    }
}

/// Reads one file.
#[derive(Clone, Copy)]
pub(super) struct Texts<'a> {
    pub(super) place: Place<'a>,
    /// The largest number of bytes of text that a file of this size has.
    pub(super) limit: u64,
}

impl Texts<'_> {
    /// Appends a text; `at` names its place.
    fn push(&self, to: &mut TextSamples, text: &str, at: impl Fn() -> String) -> Result<()> {
        if text.len() > LARGEST_TEXT {
            let remedy = "split it, and check that no quote or line end is missing";
            return Err(self.place.refused(format!("{} is a text of more than 16 MiB; {remedy}", at())));
        }
        if (to.joined.len() + text.len()) as u64 > self.limit {
            return Err(self.place.refused(format!("the texts take more than {} bytes; split the file", self.limit)));
        }
        let reserved = to.joined.try_reserve(text.len()).and_then(|()| to.ends.try_reserve(1));
        reserved.map_err(|_| self.place.refused("the texts do not fit into memory; split the file"))?;
        to.joined.push_str(text);
        to.ends.push(to.joined.len());
        Ok(())
    }

    /// Appends what was read as a sample: a text, or the problem of one that cannot be read.
    fn add(&self, to: &mut TextSamples, read: Result<Cow<'_, str>, String>, at: impl Fn() -> String) -> Result<()> {
        let text = read.unwrap_or_else(|problem| {
            to.problems.push((to.len(), Problem::new(problem)));
            Cow::default()
        });
        self.push(to, &text, at)
    }

    /// Reads lines; `text` returns the text of a line, `None` if it is blank, or its problem.
    pub(super) fn lines(
        &self,
        file: File,
        text: impl Fn(u64, &str) -> Result<Option<Cow<'_, str>>, String>,
    ) -> Result<TextSamples> {
        let mut reader = self.without_mark(file)?;
        let mut samples = TextSamples::default();
        let mut bytes = Vec::new();
        for number in 1.. {
            bytes.clear();
            // Two more bytes for the line end, and one to see that a line is too long.
            let most = LARGEST_TEXT as u64 + 3;
            reader.by_ref().take(most).read_until(b'\n', &mut bytes).map_err(|error| self.place.io(error))?;
            if bytes.is_empty() {
                break;
            }
            let whole = bytes.strip_suffix(b"\n").map(|line| line.strip_suffix(b"\r").unwrap_or(line));
            let line = whole.unwrap_or(&bytes);
            let at = || format!("line {number}");
            if line.len() > LARGEST_TEXT {
                let remedy = "end lines with a line feed, one text per line";
                return Err(self.place.refused(format!("{} has more than 16 MiB; {remedy}", at())));
            }
            let read = match str::from_utf8(line) {
                Ok(line) => text(number, line).transpose(),
                Err(_) => Some(Err(format!("{} is not UTF-8; save the texts as UTF-8", at()))),
            };
            match read {
                Some(read) => {
                    self.add(&mut samples, read, at)?;
                    samples.lines.push(number);
                }
                None => samples.blank_lines += 1,
            }
        }
        Ok(samples)
    }

    pub(super) fn json_lines(&self, file: File, field: &str) -> Result<TextSamples> {
        let mut samples = self.lines(file, |number, json| {
            if json.trim().is_empty() {
                return Ok(None);
            }
            let text = line(json, field).map_err(|error| {
                // The parser counts the lines of the value, which has one.
                let error = shortened(&error.to_string()).replace(" at line 1 column ", " at column ");
                format!(
                    "line {number} is neither a text in quotes nor an object with a text named {field:?} ({error}); write one of them per line, or name another field"
                )
            })?;
            Ok(Some(text.into()))
        })?;
        // They separate values and are no samples.
        samples.blank_lines = 0;
        Ok(samples)
    }

    pub(super) fn json(&self, file: File, key: Option<&str>) -> Result<Vec<(String, TextSamples)>> {
        let mut reader = self.without_mark(file)?;
        let begins = first_byte(&mut reader).map_err(|error| self.place.io(error))?;
        let of_arms = begins == Some(b'{');
        let (field, picked) = if of_arms { (DEFAULT_FIELD, key) } else { (key.unwrap_or(DEFAULT_FIELD), None) };
        let mut arms: Vec<(String, TextSamples)> = Vec::new();
        // The document's error cannot carry this one, so it is kept here.
        let mut refused = None;
        let read = document(reader, field, |part| match part {
            Part::Arm(name) => {
                arms.push((name, TextSamples::default()));
                Ok(())
            }
            Part::Text(text) => {
                if arms.is_empty() {
                    arms.push((stem(self.place.path), TextSamples::default()));
                }
                let Some((name, samples)) = arms.last_mut() else { return Ok(()) };
                if picked.is_some_and(|picked| picked != name) {
                    return Ok(());
                }
                let index = samples.len();
                let pushed = self.push(samples, &text, || format!("text {index} of {:?}", shortened(name)));
                pushed.map_err(|error| {
                    refused = Some(error);
                    String::new()
                })
            }
        });
        if let Some(error) = refused {
            return Err(error);
        }
        read.map_err(|error| {
            let error_text = shortened(&error.to_string());
            match error.classify() {
                serde_json::error::Category::Io => self.place.io(error.into()),
                _ => self.place.refused(format!(
                    "it is neither an object of lists of texts, as in {{\"arm\": [\"a text\"]}}, nor a list of texts ({error_text}); write it as one, or name the field of the texts"
                )),
            }
        })?;
        if let Some(picked) = picked {
            let names: Vec<String> = arms.iter().map(|(name, _)| name.clone()).collect();
            arms.retain(|(name, _)| name == picked);
            if arms.is_empty() {
                return Err(self.place.refused(unknown("arm", picked, &names)));
            }
        }
        let mut names: Vec<&str> = arms.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let name = shortened(twice[0]);
            return Err(self.place.refused(format!("two arms are named {name:?}; rename one of them")));
        }
        if arms.is_empty() {
            self.place.not_empty(None, TextSamples::default())?;
        }
        let named = of_arms;
        arms.into_iter()
            .map(|(name, texts)| {
                let texts = self.place.not_empty(named.then_some(name.as_str()), texts)?;
                Ok((name, texts))
            })
            .collect()
    }

    pub(super) fn table(&self, file: File, delimiter: u8, key: Option<&str>) -> Result<TextSamples> {
        let reader = self.without_mark(file)?;
        // Records end with a line feed, so that lines can be counted; the last one gets one, and a carriage return before
        // it is removed from the last cell. A last record follows, which is part of a cell if a quote is not closed.
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .terminator(csv::Terminator::Any(b'\n'))
            .from_reader(reader.chain(END_OF_TABLE));
        let mut record = csv::ByteRecord::new();
        let unread = |error: csv::Error| match error.into_kind() {
            csv::ErrorKind::Io(error) => self.place.io(error),
            other => self.place.refused(format!("the lines cannot be read ({other:?}); write the file again")),
        };
        reader.read_byte_record(&mut record).map_err(unread)?;
        self.check_quotes(&record, &reader)?;
        if is_end(&record) {
            return Err(self.place.refused("there are no lines; give a header and one line per text"));
        }
        let header: Vec<String> = record.iter().map(|name| String::from_utf8_lossy(name).trim().to_string()).collect();
        let key = key.ok_or_else(|| self.no_column(&header))?;
        let named: Vec<usize> = (0..header.len()).filter(|&column| header[column] == key).collect();
        let column = match named[..] {
            [column] => column,
            [] => return Err(self.place.refused(unknown("column", key, &header))),
            _ => {
                let count = named.len();
                return Err(self.place.refused(format!("{count} columns are named {key:?}; rename all but one")));
            }
        };
        let mut samples = TextSamples::default();
        while reader.read_byte_record(&mut record).map_err(unread)? && !is_end(&record) {
            self.check_quotes(&record, &reader)?;
            // Empty lines are skipped by the reader, unless they end with a carriage return.
            if record.len() == 1 && record[0] == *b"\r" {
                continue;
            }
            // The position is behind the record and its line feed.
            let number = reader.position().line().saturating_sub(1 + line_feeds(record.iter()));
            let at = || format!("line {number}");
            let is_last = column + 1 == record.len();
            let read = match record.get(column) {
                None => Err(format!(
                    "{} ends before cell {}, which is column {key:?}; give every line the same columns",
                    at(),
                    column + 1
                )),
                Some(cell) => str::from_utf8(cell.strip_suffix(b"\r").filter(|_| is_last).unwrap_or(cell))
                    .map(Cow::from)
                    .map_err(|_| format!("{} is not UTF-8; save the texts as UTF-8", at())),
            };
            self.add(&mut samples, read, at)?;
        }
        Ok(samples)
    }

    /// Refuses a record whose last cell has the end of the table in it, because its quote is not closed.
    fn check_quotes<R: Read>(&self, record: &csv::ByteRecord, reader: &csv::Reader<R>) -> Result<()> {
        let Some(last) = record.iter().next_back().filter(|last| last.len() > 1 && last.ends_with(END_OF_TABLE)) else {
            return Ok(());
        };
        let line = reader.position().line().saturating_sub(line_feeds(std::iter::once(last)));
        let remedy = "close it, and double the quotes within a text";
        Err(self.place.refused(format!("line {line}: a quote is not closed; {remedy}")))
    }

    pub(super) fn parquet(&self, key: Option<&str>) -> Result<TextSamples> {
        let table = TextTable::open(self.place.path)?;
        let columns = table.columns();
        let texts: Vec<String> = columns.iter().filter(|(_, texts)| *texts).map(|(name, _)| name.to_string()).collect();
        let key = key.ok_or_else(|| self.no_column(&texts))?;
        if !texts.iter().any(|name| name == key) {
            let problem = match columns.iter().any(|(name, _)| *name == key) {
                true => format!("column {key:?} is not one of texts; give one of {}", listed(&texts)),
                false => unknown("column of texts", key, &texts),
            };
            return Err(self.place.refused(problem));
        }
        let mut samples = TextSamples::default();
        table.read(key, |text| {
            let row = samples.len();
            self.push(&mut samples, text, || format!("row {row} (counted from 0)"))
        })?;
        Ok(samples)
    }

    fn no_column(&self, columns: &[String]) -> Error {
        let (path, columns) = (self.place.path.display(), listed(columns));
        self.place
            .refused(format!("the column of the texts is missing; name it, as in {path}:COLUMN, one of {columns}"))
    }

    /// The file behind its byte order mark, if it has one.
    fn without_mark(&self, file: File) -> Result<BufReader<File>> {
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let marked = reader.fill_buf().map_err(|error| self.place.io(error))?.starts_with(b"\xef\xbb\xbf");
        reader.consume(if marked { 3 } else { 0 });
        Ok(reader)
    }
}

/// Whether a record is the one that follows those of the file.
fn is_end(record: &csv::ByteRecord) -> bool {
    record.len() == 1 && record[0] == *END_OF_TABLE.trim_ascii()
}

/// The number of line feeds in cells.
fn line_feeds<'a>(cells: impl Iterator<Item = &'a [u8]>) -> u64 {
    cells.map(|cell| cell.iter().filter(|&&byte| byte == b'\n').count() as u64).sum()
}

/// The first byte that is not white space, which is left in the reader.
fn first_byte(reader: &mut impl BufRead) -> std::io::Result<Option<u8>> {
    loop {
        let bytes = reader.fill_buf()?;
        let spaces = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        match bytes.get(spaces) {
            Some(&byte) => return Ok(Some(byte)),
            None if bytes.is_empty() => return Ok(None),
            None => reader.consume(spaces),
        }
    }
}

/// The message that something has not this name, with the names that exist.
fn unknown(what: &str, key: &str, names: &[String]) -> String {
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let hint = nearest_word(key, &known).map_or(String::new(), |near| format!(" (did you mean {near:?}?)"));
    format!("there is no {what} named {key:?}{hint}; give one of {}", listed(names))
}
