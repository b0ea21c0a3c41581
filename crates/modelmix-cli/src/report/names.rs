//! Names of arms, policies and sections, which are untrusted: shortens them and makes them safe for XML, links and file
//! names.

use std::collections::BTreeSet;

pub(super) use crate::words::{is_unseen, plain};

/// As [`plain`], for a chart label, in which a dollar sign would start a formula.
pub(super) fn label(name: &str) -> String {
    plain(name).replace('$', "\\$")
}

/// Names of at most `most` characters, shortened in the middle. If two would be equal, all are numbered.
pub(super) fn short(names: &[String], most: usize) -> Vec<String> {
    let cut: Vec<String> = names.iter().map(|name| shorten(name, most)).collect();
    let distinct: BTreeSet<&String> = cut.iter().collect();
    if distinct.len() == cut.len() {
        return cut;
    }
    names
        .iter()
        .enumerate()
        .map(|(index, name)| format!("{} {}", index + 1, shorten(name, most.saturating_sub(3))))
        .collect()
}

/// A name of at most `most` characters.
pub(super) fn shorten(name: &str, most: usize) -> String {
    let characters: Vec<char> = plain(name).trim().chars().collect();
    if characters.len() <= most {
        return characters.into_iter().collect();
    }
    let tail = most.saturating_sub(1) * 2 / 5;
    let head = most.saturating_sub(1 + tail);
    let (start, end) = (&characters[..head], &characters[characters.len() - tail..]);
    start.iter().chain(&['…']).chain(end).collect()
}

/// A name for links and file names.
pub(super) fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().take(60) {
        if c.is_ascii_alphanumeric() || c == '_' {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "section".into() } else { slug.into() }
}

/// Escapes a key for a JSON pointer (RFC 6901).
pub(super) fn pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
