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

#[cfg(test)]
mod tests {
    use super::shell_word;

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
