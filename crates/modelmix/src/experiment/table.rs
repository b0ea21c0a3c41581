//! TOML tables with error messages that contain the file, the line and the fix.
//! `spec` defines the meaning of the keys.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Result};
use crate::text::nearest;

/// A table of a document with known keys.
pub(super) struct Table<'a> {
    source: Source<'a>,
    /// Empty for the document itself, otherwise as in `[simulate]`.
    name: String,
    entries: Vec<Entry<'a>>,
}

/// One `key = value`.
struct Entry<'a> {
    key: String,
    at: usize,
    value: Spanned<DeValue<'a>>,
}

/// A document and the file that contains it.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl<'a> Source<'a> {
    /// Parses the document.
    pub(super) fn parse(self, known: &[&str]) -> Result<Table<'a>> {
        let document = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, format!("this is not TOML: {}", error.message()))
        })?;
        Table::new(self, String::new(), document.into_inner(), Some(known))
    }

    /// The error for a problem at a byte of the document.
    fn error(self, at: usize, problem: impl std::fmt::Display) -> Error {
        let before = self.text.as_bytes().get(..at).unwrap_or(self.text.as_bytes());
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        self.refuse(format!("line {line}: {problem}"))
    }

    /// The error for a problem with the document as a whole.
    pub(super) fn refuse(self, problem: impl Into<String>) -> Error {
        Error::File { path: self.path.into(), problem: problem.into() }
    }
}

impl<'a> Table<'a> {
    /// The keys in the order written. If the known keys are given, no others are allowed.
    fn new(source: Source<'a>, name: String, table: DeTable<'a>, known: Option<&[&str]>) -> Result<Self> {
        let mut entries: Vec<Entry<'a>> = table
            .into_iter()
            .map(|(key, value)| Entry { at: key.span().start, key: key.into_inner().into_owned(), value })
            .collect();
        entries.sort_by_key(|entry| entry.at);
        let table = Self { source, name, entries };
        if let Some(known) = known
            && let Some(Entry { key, at, .. }) = table.entries.iter().find(|entry| !known.contains(&entry.key.as_str()))
        {
            let hint = match nearest(key, known) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            let place = if table.name.is_empty() { String::new() } else { format!(" in {}", table.name) };
            return Err(source.error(*at, format!("unknown key \"{key}\"{place} ({hint})")));
        }
        Ok(table)
    }

    /// The error for the value of a key.
    pub(super) fn error(&self, key: &str, problem: impl std::fmt::Display) -> Error {
        let at = self.entries.iter().find(|entry| entry.key == key).map_or(0, |entry| entry.at);
        self.source.error(at, format!("{key}: {problem}"))
    }

    /// The error for a missing key.
    pub(super) fn missing(&self, key: &str, as_in: &str) -> Error {
        let place = if self.name.is_empty() { String::new() } else { format!(" in {}", self.name) };
        self.source.refuse(format!("the key {key} is missing{place}; write it as in {as_in}"))
    }

    /// The keys in the order written.
    pub(super) fn keys(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.key.clone()).collect()
    }

    fn value(&self, key: &str) -> Option<&DeValue<'a>> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| entry.value.get_ref())
    }

    /// The value of a key as `read` interprets it, or an error that it `must` be something else.
    fn read<T>(&self, key: &str, must: &str, read: impl Fn(&DeValue<'a>) -> Option<T>) -> Result<Option<T>> {
        self.value(key)
            .map(|value| {
                read(value).ok_or_else(|| self.error(key, format!("{} is given, but {must} is needed", kind(value))))
            })
            .transpose()
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>> {
        self.read(key, "a string in quotes", text)
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<f64>> {
        self.read(key, "a finite number", number)
    }

    pub(super) fn count(&self, key: &str) -> Result<Option<usize>> {
        self.read(key, "a whole number that is not negative", |value| match value {
            DeValue::Integer(integer) => usize::from_str_radix(integer.as_str(), integer.radix()).ok(),
            _ => None,
        })
    }

    pub(super) fn truth(&self, key: &str) -> Result<Option<bool>> {
        self.read(key, "true or false", |value| match value {
            DeValue::Boolean(truth) => Some(*truth),
            _ => None,
        })
    }

    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        self.read(key, "a list of strings, as in [\"one\", \"two\"],", |value| list(value, text))
    }

    /// A string or a list of strings; empty if the key is absent.
    pub(super) fn text_or_texts(&self, key: &str) -> Result<Vec<String>> {
        let read = |value: &DeValue<'_>| text(value).map(|one| vec![one]).or_else(|| list(value, text));
        Ok(self.read(key, "a string or a list of strings", read)?.unwrap_or_default())
    }

    pub(super) fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>> {
        self.read(key, "a list of finite numbers, as in [0.5, 2],", |value| list(value, number))
    }

    /// A nested table. Without `known`, any keys are allowed.
    pub(super) fn table(&self, key: &str, known: Option<&[&str]>) -> Result<Option<Table<'a>>> {
        let found = self.read(key, "a table", |value| match value {
            DeValue::Table(table) => Some(table.clone()),
            _ => None,
        })?;
        found.map(|table| Table::new(self.source, format!("[{key}]"), table, known)).transpose()
    }

    pub(super) fn is_table(&self, key: &str) -> bool {
        matches!(self.value(key), Some(DeValue::Table(_)))
    }
}

fn text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    }
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(float) => float.as_str().parse().ok(),
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok(),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|n| n as f64),
        _ => None,
    }
    .filter(|number: &f64| number.is_finite())
}

fn list<T>(value: &DeValue<'_>, read: impl Fn(&DeValue<'_>) -> Option<T>) -> Option<Vec<T>> {
    match value {
        DeValue::Array(array) => array.iter().map(|value| read(value.get_ref())).collect(),
        _ => None,
    }
}

/// A description of a value for messages.
fn kind(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => {
            let short: String = text.chars().take(60).flat_map(char::escape_debug).collect();
            format!("the string \"{short}\"")
        }
        DeValue::Integer(integer) => format!("the number {integer}"),
        DeValue::Float(float) => format!("the number {float}"),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}
