//! Tables of the page: every number with its full value and its place in the documents beside the rounded text.

use serde::Serialize;

use super::names::plain;
use super::numbers::{self, Digits, MISSING_NUMBER};

/// A table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Table {
    /// What its rows are.
    pub(super) corner: &'static str,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    /// Whether its rows' names need room.
    long: bool,
}

/// A column's heading.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Column {
    pub(super) name: String,
    /// What the heading means, for those who hover or hear it.
    pub(super) hint: Option<String>,
}

impl Table {
    pub(super) fn new(corner: &'static str, columns: Vec<Column>, rows: Vec<Row>) -> Self {
        let long = rows.iter().any(|row| row.name.chars().count() > 18);
        Self { corner, columns, rows, long }
    }
}

impl Column {
    pub(super) fn new(name: impl AsRef<str>) -> Self {
        Self { name: plain(name.as_ref()), hint: None }
    }

    pub(super) fn meaning(name: impl AsRef<str>, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..Self::new(name) }
    }
}

/// A row with its heading.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// Whether it stands apart from the others, as the mixture's row does.
    pub(super) apart: bool,
    pub(super) cells: Vec<Cell>,
}

impl Row {
    pub(super) fn new(name: impl AsRef<str>, cells: Vec<Cell>) -> Self {
        Self { name: plain(name.as_ref()), apart: false, cells }
    }

    pub(super) fn apart(name: impl AsRef<str>, cells: Vec<Cell>) -> Self {
        Self { apart: true, ..Self::new(name, cells) }
    }
}

/// What stands in a place of a table: numbers, and text between them.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Cell {
    pub(super) parts: Vec<Part>,
    /// Whether it is the best of its column.
    pub(super) best: bool,
}

/// A number or a text.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Part {
    pub(super) text: String,
    /// The number in full.
    value: Option<String>,
    /// Its place in the documents, as a JSON pointer.
    at: Option<String>,
    /// Whether it says how well the number before it is known.
    error: bool,
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part { text: text.into(), value: None, at: None, error: false }], best: false }
    }

    pub(super) fn missing() -> Self {
        Self::text(MISSING_NUMBER)
    }

    fn part(text: String, value: f64, at: String) -> Part {
        let known = value.is_finite();
        Part { text, value: known.then(|| value.to_string()), at: known.then_some(at), error: false }
    }

    pub(super) fn number(value: f64, digits: Digits, at: String) -> Self {
        Self { parts: vec![Self::part(digits.write(value), value, at)], best: false }
    }

    pub(super) fn percent(value: f64, at: String) -> Self {
        Self { parts: vec![Self::part(numbers::percent(value), value, at)], best: false }
    }

    /// Shares of a whole, which add up to 100%, each with its place.
    pub(super) fn percents(shares: &[f64], at: impl Fn(usize) -> String) -> Vec<Self> {
        let cell = |(index, (text, &share)): (usize, (String, &f64))| Self {
            parts: vec![Self::part(text, share, at(index))],
            best: false,
        };
        numbers::percents(shares).into_iter().zip(shares).enumerate().map(cell).collect()
    }

    pub(super) fn count(value: usize, at: String) -> Self {
        Self { parts: vec![Self::part(numbers::count(value), value as f64, at)], best: false }
    }

    /// With how well it is known.
    #[must_use]
    pub(super) fn within(mut self, error: f64, digits: Digits, at: String) -> Self {
        let part = Self::part(format!("±\u{202f}{}", digits.write(error)), error, at);
        self.parts.push(Part { error: true, ..part });
        self
    }

    /// With another number after it.
    #[must_use]
    pub(super) fn and(mut self, between: &str, other: Cell) -> Self {
        self.parts.push(Part { text: between.into(), value: None, at: None, error: false });
        self.parts.extend(other.parts);
        self
    }
}
