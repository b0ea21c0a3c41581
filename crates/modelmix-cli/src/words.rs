//! Sanitises untrusted text for display, and quotes words for a shell.

/// A name without control characters and bidirectional marks.
pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
}

/// Whether a character is invisible and affects the text around it.
pub(crate) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

/// Quotes a text as one word for a POSIX shell; invisible characters use the syntax of bash and zsh.
pub fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into();
    }
    if !text.chars().any(is_unseen) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = String::from("$'");
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => word.extend(['\\', letter]),
            letter if is_unseen(letter) => word += &format!("\\U{:08x}", u32::from(letter)),
            letter => word.push(letter),
        }
    }
    word + "'"
}

/// The words of a command line that [`shell_word`] quoted, still quoted.
pub(crate) fn shell_words(line: &str) -> Vec<&str> {
    let (mut words, mut start, mut quote, mut before) = (Vec::new(), 0, "", '\0');
    let mut letters = line.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            ("", ' ') => {
                words.push(&line[start..at]);
                start = at + 1;
            }
            ("", '\'') => quote = if before == '$' { "$'" } else { "'" },
            ("" | "$'", '\\') => drop(letters.next()),
            (_, '\'') => quote = "",
            _ => {}
        }
        before = letter;
    }
    words.push(&line[start..]);
    words
}

#[cfg(test)]
mod tests {
    use super::{shell_word, shell_words};

    #[test]
    fn quoted_words_are_found_again() {
        let texts = [
            "modelmix",
            "it's a",
            "",
            "--objective=rke - 0.2*precision",
            "a\nb's \\\u{202e} c",
            "$HOME 'x' \"y\"",
            "end",
        ];
        let words: Vec<String> = texts.iter().map(|text| shell_word(text)).collect();
        assert_eq!(shell_words(&words.join(" ")), words);
    }

    #[test]
    fn words_are_quoted_if_they_have_to_be() {
        for (text, word) in [
            ("data/a.npz:flow", "data/a.npz:flow"),
            ("--floor=a=0.05", "--floor=a=0.05"),
            ("", "''"),
            ("rke - 0.2*precision", "'rke - 0.2*precision'"),
            ("it's", r"'it'\''s'"),
            ("$HOME `ls` \"x\"", "'$HOME `ls` \"x\"'"),
            ("a\nb's\\\u{202e}", "$'a\\U0000000ab\\'s\\\\\\U0000202e'"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}
