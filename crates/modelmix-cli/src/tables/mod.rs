//! Tables as data, with exact values, and their writers: text for terminals, LaTeX, Markdown and CSV. Python's
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
pub use text::{bar, bold, dim, plain_lines, text};

/// Text of a missing number.
pub const MISSING: &str = "–";

/// A table; the first column contains names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Title, for outputs that have several tables.
    pub title: String,
    /// The headings of the columns.
    pub header: Vec<String>,
    /// Left-aligned columns other than the first.
    left: Vec<usize>,
    /// Columns of bars, printed in terminals only.
    bars: Vec<usize>,
    /// The rows, each with one cell per column.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell: its text and its exact values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Rounded text.
    pub text: String,
    /// Suffix of the text, in terminals only.
    pub mark: &'static str,
    /// Whether it is emphasised.
    pub strong: bool,
    /// Exact values, each with the suffix of its column name in CSV.
    pub values: Vec<(String, Value)>,
}

/// An exact value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A whole number.
    Count(u64),
    /// A name.
    Name(String),
    /// A missing value.
    Missing,
}

impl Table {
    /// A table without rows.
    pub fn new<S: Into<String>>(title: impl Into<String>, header: impl IntoIterator<Item = S>) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { title: title.into(), header, ..Self::default() }
    }

    /// Left-aligns another column, for names and lists.
    #[must_use]
    pub fn left(mut self, column: usize) -> Self {
        self.left.push(column);
        self
    }

    /// Marks a column of bars.
    #[must_use]
    pub fn bars(mut self, column: usize) -> Self {
        self.bars.push(column);
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Adds a row with all cells emphasised.
    pub fn strong_row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells.into_iter().map(Cell::strong).collect());
    }

    fn is_left(&self, column: usize) -> bool {
        column == 0 || self.left.contains(&column) || self.bars.contains(&column)
    }

    /// The columns of all formats other than text: all but bars.
    fn shown(&self) -> Vec<usize> {
        (0..self.header.len()).filter(|column| !self.bars.contains(column)).collect()
    }
}

impl Cell {
    /// Text with these values. Control characters and bidirectional marks become spaces.
    pub fn new(text: impl AsRef<str>, values: Vec<(String, Value)>) -> Self {
        Self { text: crate::words::plain(text.as_ref()), values, ..Self::default() }
    }

    /// Emphasises the cell.
    #[must_use]
    pub fn strong(mut self) -> Self {
        self.strong = true;
        self
    }

    /// Adds a suffix, in terminals only.
    #[must_use]
    pub fn marked(mut self, mark: &'static str) -> Self {
        self.mark = mark;
        self
    }

    /// Replaces the text and keeps the values.
    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }
}

impl From<String> for Cell {
    /// Text that may have a style; names are given as references, and have none.
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text, Vec::new())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        Self::new(text, Vec::new())
    }
}

/// Text without control characters and bidirectional marks.
fn plain(text: &str) -> String {
    crate::words::plain(text).trim().into()
}
