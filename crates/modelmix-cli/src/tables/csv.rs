//! Comma-separated values (RFC 4180) with all digits: one column per number of a cell.

use super::{Cell, MISSING, Table, Value, plain};

/// The table with all digits. Bars are left out; a share is a number from 0 to 1.
pub fn csv(table: &Table) -> String {
    let mut columns: Vec<(String, Vec<String>)> = Vec::new();
    for at in table.shown() {
        let cells = || table.rows.iter().map(|row| &row[at]);
        let name = plain(&table.header[at]).trim_end_matches([' ', '\u{a0}', '↑', '↓']).to_string();
        let mut parts: Vec<&String> = Vec::new();
        for (part, _) in cells().flat_map(|cell| &cell.values) {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        if parts.is_empty() {
            columns.push((name, cells().map(|cell| plain(&cell.text)).collect()));
            continue;
        }
        for part in parts {
            columns.push((plain(&format!("{name}{part}")), cells().map(|cell| written(cell, part)).collect()));
        }
    }
    let names: Vec<String> = columns.iter().map(|(name, _)| field(name)).collect();
    let mut text = names.join(",") + "\n";
    for row in 0..table.rows.len() {
        let values: Vec<String> = columns.iter().map(|(_, values)| field(&values[row])).collect();
        text += &(values.join(",") + "\n");
    }
    text
}

fn written(cell: &Cell, part: &str) -> String {
    if cell.values.is_empty() {
        return if part.is_empty() && cell.text != MISSING { plain(&cell.text) } else { String::new() };
    }
    match cell.values.iter().find(|(found, _)| found == part) {
        Some((_, Value::Number(number))) if !number.is_nan() => exact(*number),
        Some((_, Value::Count(count))) => count.to_string(),
        Some((_, Value::Name(name))) => plain(name),
        _ => String::new(),
    }
}

/// A field, quoted if necessary.
pub fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

/// The shortest text that parses to the same number, in Python's format.
pub fn exact(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) || number == 0.0 {
        let text = number.to_string();
        return if text.contains('.') { text } else { text + ".0" };
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::{exact, field};

    /// Values of Python's `repr`.
    #[test]
    fn numbers_are_written_as_python_writes_them() {
        let written = [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-0.374_652_118_4, "-0.3746521184"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (2.220446049250313e-16, "2.220446049250313e-16"),
            (1e-300, "1e-300"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e100, "1.5e+100"),
            (1.0 / 3.0, "0.3333333333333333"),
            (f64::INFINITY, "inf"),
        ];
        for (number, text) in written {
            assert_eq!(exact(number), text);
        }
    }

    #[test]
    fn fields_are_quoted_if_they_have_to_be() {
        assert_eq!(field("a b"), "a b");
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"a\""), "\"say \"\"a\"\"\"");
        assert_eq!(field("two\nlines"), "\"two\nlines\"");
    }
}
