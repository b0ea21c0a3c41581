//! Tables in GitHub's Markdown.

use super::{Table, plain};

/// The table; strong cells are bold.
pub fn markdown(table: &Table) -> String {
    let shown = table.shown();
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let mut lines = vec![
        line(shown.iter().map(|&at| escaped(&table.header[at])).collect()),
        line(shown.iter().map(|&at| if table.is_left(at) { ":--".into() } else { "--:".into() }).collect()),
    ];
    for row in &table.rows {
        let cell = |&at: &usize| {
            let text = escaped(&row[at].text);
            if row[at].strong && !text.is_empty() { format!("**{text}**") } else { text }
        };
        lines.push(line(shown.iter().map(cell).collect()));
    }
    lines.join("\n")
}

/// Escapes text for Markdown and HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut written = String::new();
    for letter in plain(text).chars() {
        if "\\`*_{}[]<>|#~".contains(letter) {
            written.push('\\');
        }
        written.push(letter);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn nothing_in_a_name_is_markup() {
        let awkward = r"50%_off & {x^2} $~#\a|b*c <d>";
        assert_eq!(escaped(awkward), r"50%\_off & \{x^2\} $\~\#\\a\|b\*c \<d\>");
    }
}
