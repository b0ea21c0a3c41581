//! LaTeX for the package booktabs.

use super::{Table, plain};

/// The table as a `tabular`; strong cells are bold.
pub fn latex(table: &Table) -> String {
    let shown = table.shown();
    let sides: String = shown.iter().map(|&at| if table.is_left(at) { 'l' } else { 'r' }).collect();
    let header: Vec<String> = shown.iter().map(|&at| escaped(&table.header[at])).collect();
    let mut lines = vec![
        format!("\\begin{{tabular}}{{{sides}}}"),
        "\\toprule".into(),
        format!("{} \\\\", header.join(" & ")),
        "\\midrule".into(),
    ];
    for row in &table.rows {
        let cell = |&at: &usize| {
            let text = escaped(&row[at].text);
            if row[at].strong && !text.is_empty() { format!("\\textbf{{{text}}}") } else { text }
        };
        lines.push(format!("{} \\\\", shown.iter().map(cell).collect::<Vec<_>>().join(" & ")));
    }
    lines.extend(["\\bottomrule".into(), "\\end{tabular}".into()]);
    lines.join("\n")
}

/// Escapes text for LaTeX, and writes mathematical symbols in math mode.
pub(super) fn escaped(text: &str) -> String {
    let text = plain(text);
    let mut letters = text.chars().peekable();
    let mut written = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => written += "\\textbackslash{}",
            '{' | '}' | '$' | '&' | '%' | '#' | '_' => written.extend(['\\', letter]),
            '~' => written += "\\textasciitilde{}",
            '^' => written += "\\textasciicircum{}",
            '<' => written += "$<$",
            '>' => written += "$>$",
            '|' => written += "$|$",
            // After the end of a row, these would start an argument.
            '[' => written += "{[}",
            '*' => written += "{*}",
            // Two hyphens would become a dash.
            '-' if letters.peek() == Some(&'-') => written += "-{}",
            '–' => written += "--",
            '…' => written += "\\ldots{}",
            '×' => written += "$\\times$",
            '±' => written += "$\\pm$",
            '∞' => written += "$\\infty$",
            'λ' => written += "$\\lambda$",
            'κ' => written += "$\\kappa$",
            'σ' => written += "$\\sigma$",
            'α' => written += "$\\alpha$",
            '²' => written += "$^2$",
            '³' => written += "$^3$",
            '↑' => written += "$\\uparrow$",
            '↓' => written += "$\\downarrow$",
            '·' => written += "$\\cdot$",
            letter => written.push(letter),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn nothing_in_a_name_is_a_command() {
        let awkward = r"50%_off & {x^2} $~#\a|b*c <d> [e] f--g";
        let expected = r"50\%\_off \& \{x\textasciicircum{}2\} \$\textasciitilde{}\#\textbackslash{}a$|$b{*}c $<$d$>$ {[}e] f-{}-g";
        assert_eq!(escaped(awkward), expected);
        assert_eq!(escaped("55.0%–70.0% ± σ² × λ"), r"55.0\%--70.0\% $\pm$ $\sigma$$^2$ $\times$ $\lambda$");
        assert_eq!(escaped("a\u{7}b\u{202e}c"), "a b c");
    }

    /// Every ASCII character between two letters: the braces, dollars and commands that remain are balanced.
    #[test]
    fn every_ascii_character_leaves_balanced_text() {
        for letter in (0u8..128).map(char::from) {
            let text = escaped(&format!("x{letter}y"));
            let bare = text.replace("\\{", "").replace("\\}", "").replace("\\$", "");
            assert_eq!(bare.matches('{').count(), bare.matches('}').count(), "{text}");
            assert_eq!(bare.matches('$').count() % 2, 0, "{text}");
            for special in ['&', '%', '#', '_'] {
                let bare = text.replace(&format!("\\{special}"), "");
                assert!(!bare.contains(special), "{text}");
            }
        }
    }
}
