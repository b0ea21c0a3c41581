//! Tables without borders for terminals: names left-aligned, numbers right-aligned. Colours only on a terminal.

use comfy_table::{CellAlignment, Table as Columns, presets};
use console::Style;

use super::Table;

/// The table as lines.
pub fn text(table: &Table) -> String {
    let mut columns = Columns::new();
    columns.load_style(presets::NOTHING);
    columns.set_header(table.header.iter().map(|title| dim(title)).collect::<Vec<_>>());
    for (index, column) in columns.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 2 } else { 1 }, 1));
        column.set_cell_alignment(if table.is_left(index) { CellAlignment::Left } else { CellAlignment::Right });
    }
    for row in &table.rows {
        let cells = row.iter().map(|cell| {
            let text = format!("{}{}", cell.text, cell.mark);
            if cell.strong { bold(&text) } else { text }
        });
        columns.add_row(cells.collect::<Vec<_>>());
    }
    columns.lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

/// Bold, if colours are enabled.
pub fn bold(text: &str) -> String {
    Style::new().bold().apply_to(plain_lines(text)).to_string()
}

/// Dimmed, if colours are enabled.
pub fn dim(text: &str) -> String {
    Style::new().dim().apply_to(plain_lines(text)).to_string()
}

/// Lines without control characters and bidirectional marks, which names may have.
pub fn plain_lines(text: &str) -> String {
    text.split('\n').map(crate::words::plain).collect::<Vec<_>>().join("\n")
}

/// A share as a bar of up to `width` cells, in eighths.
pub fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * width as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}
