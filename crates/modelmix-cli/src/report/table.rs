//! Tables of the page: rounded text, with the exact value and the JSON pointer of every number.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::names::plain;
use super::numbers::{self, Digits, MISSING_NUMBER};
use crate::tables::{self, Value};

/// A table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Table {
    /// Heading of the first column.
    pub(super) corner: &'static str,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    /// Whether the names of its rows are long.
    long: bool,
    /// Whether its cells are text, which may wrap.
    text: bool,
    /// The table as a CSV file to download.
    pub(super) download: Option<Download>,
}

/// A file that is embedded in the page.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Download {
    name: String,
    address: String,
}

/// A column's heading.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Column {
    pub(super) name: String,
    /// Explanation of the heading, as a tooltip.
    pub(super) hint: Option<String>,
}

impl Table {
    pub(super) fn new(corner: &'static str, columns: Vec<Column>, rows: Vec<Row>) -> Self {
        let long = rows.iter().any(|row| row.name.chars().count() > 18);
        Self { corner, columns, rows, long, text: false, download: None }
    }

    /// Allows cells to wrap.
    #[must_use]
    pub(super) fn with_text(mut self) -> Self {
        self.text = true;
        self
    }

    /// Offers the table as a CSV file of this name, with all digits and the collapsed rows.
    pub(super) fn offer(&mut self, name: String, folded: Option<&Table>) {
        let csv = self.csv(folded.map_or(&[], |folded| &folded.rows));
        let address = format!("data:text/csv;charset=utf-8;base64,{}", STANDARD.encode(csv));
        self.download = Some(Download { name, address });
    }

    /// Comma-separated values: one column per number of a cell. Collapsed rows precede rows that are set apart.
    fn csv(&self, folded: &[Row]) -> String {
        let mut table = tables::Table::new(
            "",
            std::iter::once(self.corner).chain(self.columns.iter().map(|column| column.name.as_str())),
        );
        let (apart, rows): (Vec<&Row>, Vec<&Row>) = self.rows.iter().partition(|row| row.apart && !folded.is_empty());
        for row in rows.into_iter().chain(folded).chain(apart) {
            let cells = row.cells.iter().map(|cell| {
                let text: String = cell.parts.iter().map(|part| part.text.as_str()).collect();
                tables::Cell::new(text, cell.parts.iter().filter_map(|part| part.exact.clone()).collect())
            });
            table.row(std::iter::once(tables::Cell::from(&row.name)).chain(cells).collect());
        }
        tables::csv(&table)
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
    /// Whether it is set apart from the others, as the mixture's row is.
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

/// A cell of a table: numbers, and text between them.
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
    /// The exact number.
    value: Option<String>,
    /// Its JSON pointer in the documents.
    at: Option<String>,
    /// Whether it is the error of the number before it.
    error: bool,
    /// Its value in CSV, with the suffix of the column name.
    #[serde(skip)]
    exact: Option<(String, Value)>,
}

impl Part {
    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), value: None, at: None, error: false, exact: None }
    }
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)], best: false }
    }

    pub(super) fn missing() -> Self {
        Self::text(MISSING_NUMBER)
    }

    /// A name before a number.
    pub(super) fn name(name: &str) -> Self {
        let exact = Some((String::new(), Value::Name(name.into())));
        Self { parts: vec![Part { exact, ..Part::text(format!("{} ", plain(name))) }], best: false }
    }

    /// A number with its rounded text.
    pub(super) fn written(text: String, value: f64, at: String) -> Self {
        let known = value.is_finite();
        let part = Part {
            value: known.then(|| value.to_string()),
            at: known.then_some(at),
            exact: Some((String::new(), Value::Number(value))),
            ..Part::text(text)
        };
        Self { parts: vec![part], best: false }
    }

    /// A number that is below the printed bound.
    pub(super) fn below(text: &str, value: f64) -> Self {
        let exact = Some((String::new(), Value::Number(value)));
        Self { parts: vec![Part { exact, ..Part::text(text) }], best: false }
    }

    pub(super) fn number(value: f64, digits: Digits, at: String) -> Self {
        Self::written(digits.write(value), value, at)
    }

    pub(super) fn percent(value: f64, at: String) -> Self {
        Self::written(numbers::percent(value), value, at)
    }

    /// Shares with sum 100%, each with its JSON pointer.
    pub(super) fn percents(shares: &[f64], at: impl Fn(usize) -> String) -> Vec<Self> {
        let cell = |(index, (text, &share)): (usize, (String, &f64))| Self::written(text, share, at(index));
        numbers::percents(shares).into_iter().zip(shares).enumerate().map(cell).collect()
    }

    pub(super) fn count(value: usize, at: String) -> Self {
        let mut cell = Self::written(numbers::count(value), value as f64, at);
        cell.parts[0].exact = Some((String::new(), Value::Count(value as u64)));
        cell
    }

    /// Adds the error.
    #[must_use]
    pub(super) fn within(mut self, error: f64, digits: Digits, at: String) -> Self {
        let text = format!("±\u{202f}{}", digits.write(error));
        let parts = Self::written(text, error, at).keyed(" error").parts;
        self.parts.extend(parts.into_iter().map(|part| Part { error: true, ..part }));
        self
    }

    /// Appends another number.
    #[must_use]
    pub(super) fn and(mut self, between: &str, other: Cell) -> Self {
        self.parts.push(Part::text(between));
        self.parts.extend(other.parts);
        self
    }

    /// The lower end of an interval.
    #[must_use]
    pub(super) fn low(self) -> Self {
        self.keyed(" low")
    }

    /// The upper end of an interval.
    #[must_use]
    pub(super) fn high(self) -> Self {
        self.keyed(" high")
    }

    /// Sets the suffix of the column name in CSV.
    #[must_use]
    pub(super) fn keyed(mut self, key: &str) -> Self {
        for (found, _) in self.parts.iter_mut().filter_map(|part| part.exact.as_mut()) {
            *found = key.into();
        }
        self
    }
}
