//! Tables without borders for terminals: names left-aligned, numbers right-aligned. Colours only on a terminal.

use console::{Alignment, Style, measure_text_width, pad_str};

use super::Table;

/// The table as lines.
pub fn text(table: &Table) -> String {
    let header = table.header.iter().map(|title| dim(title)).collect();
    let row = |row: &Vec<super::Cell>| {
        let cells = row.iter().map(|cell| {
            let text = format!("{}{}", cell.text, cell.mark);
            if cell.strong { bold(&text) } else { text }
        });
        cells.collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(table.rows.iter().map(row)).collect();
    aligned(&rows, |column| table.is_left(column)).join("\n")
}

/// Rows of cells as lines with columns of equal width, in which the codes of styles have none.
fn aligned(rows: &[Vec<String>], is_left: impl Fn(usize) -> bool) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| measure_text_width(cell)).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            let alignment = if is_left(column) { Alignment::Left } else { Alignment::Right };
            let before = if column == 0 { "  " } else { " " };
            format!("{before}{} ", pad_str(cell, width, alignment, None))
        });
        cells.collect::<String>().trim_end().to_string()
    };
    rows.iter().map(line).collect()
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

#[cfg(test)]
mod tests {
    use console::{Style, strip_ansi_codes};

    use super::aligned;

    #[test]
    fn styles_do_not_move_columns() {
        let plain = vec![vec!["arm".to_string(), "weight".into()], vec!["tops".into(), "37.8%".into()]];
        let dim = |cell: &String| Style::new().dim().force_styling(true).apply_to(cell).to_string();
        let styled = vec![plain[0].iter().map(dim).collect(), plain[1].clone()];
        let lines = aligned(&styled, |column| column == 0);
        assert_ne!(lines, aligned(&plain, |column| column == 0));
        let stripped: Vec<String> = lines.iter().map(|line| strip_ansi_codes(line).into_owned()).collect();
        assert_eq!(stripped, ["  arm   weight", "  tops   37.8%"]);
    }
}
