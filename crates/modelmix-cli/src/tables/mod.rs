//! Tables as data, with the numbers behind their text, and their writers: text for terminals, LaTeX, Markdown and CSV. Python's
//! `to_latex`, `to_markdown` and `to_csv` write the same.

mod cells;
mod csv;
mod latex;
mod markdown;
mod text;

pub use cells::{best_of, brief_cell, count_cell, interval, percent, percents, rounds, shares, spread};
pub use csv::{csv, exact, field};
pub use latex::latex;
pub use markdown::markdown;
pub use text::{bar, bold, dim, text};

/// What stands for a number that does not exist.
pub const MISSING: &str = "–";

/// A table; the first column is names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows, for outputs that have several tables.
    pub title: String,
    /// The headings of the columns.
    pub header: Vec<String>,
    /// Columns to the left, besides the first.
    left: Vec<usize>,
    /// Columns of bars, which only terminals show.
    bars: Vec<usize>,
    /// The rows, each with one cell per column.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell: its text, and the numbers and names behind it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What people read, rounded.
    pub text: String,
    /// What stands after the text in terminals only.
    pub mark: &'static str,
    /// Whether it is stressed.
    pub strong: bool,
    /// Values in full, each with what a CSV file adds to the column's name.
    pub values: Vec<(String, Value)>,
}

/// A value behind the text of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A whole number.
    Count(u64),
    /// A name.
    Name(String),
    /// None: there is no such value.
    Missing,
}

impl Table {
    /// A table without rows.
    pub fn new<S: Into<String>>(title: impl Into<String>, header: impl IntoIterator<Item = S>) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { title: title.into(), header, ..Self::default() }
    }

    /// Another column to the left: names and lists.
    #[must_use]
    pub fn left(mut self, column: usize) -> Self {
        self.left.push(column);
        self
    }

    /// A column of bars.
    #[must_use]
    pub fn bars(mut self, column: usize) -> Self {
        self.bars.push(column);
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Adds a row in which all is stressed.
    pub fn strong_row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells.into_iter().map(Cell::strong).collect());
    }

    fn is_left(&self, column: usize) -> bool {
        column == 0 || self.left.contains(&column) || self.bars.contains(&column)
    }

    /// The columns that documents have: all but bars.
    fn shown(&self) -> Vec<usize> {
        (0..self.header.len()).filter(|column| !self.bars.contains(column)).collect()
    }
}

impl Cell {
    /// Text with these values behind it.
    pub fn new(text: impl Into<String>, values: Vec<(String, Value)>) -> Self {
        Self { text: text.into(), values, ..Self::default() }
    }

    /// Stressed.
    #[must_use]
    pub fn strong(mut self) -> Self {
        self.strong = true;
        self
    }

    /// With a mark after it, in terminals only.
    #[must_use]
    pub fn marked(mut self, mark: &'static str) -> Self {
        self.mark = mark;
        self
    }

    /// With another text for the same values.
    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_string().into()
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

/// Text without control characters and marks that change the direction of the text.
fn plain(text: &str) -> String {
    crate::words::plain(text).trim().into()
}
