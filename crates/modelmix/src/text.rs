//! The grammar that objectives and policies share: names, numbers, signs and `name(key=value, …)`.

use crate::error::{Error, Result};

/// A cursor over a text. Its position is part of error messages.
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// `name(key=value, …)`: a name and its arguments, each with its position.
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) at: usize,
    arguments: Vec<(&'a str, &'a str, usize)>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn error(&self, at: usize, problem: impl Into<String>) -> Error {
        let at = self.text[..at].chars().count() + 1;
        Error::Parse { text: self.text.into(), at, problem: problem.into() }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    pub(crate) fn is_done(&mut self) -> bool {
        self.rest().is_empty()
    }

    /// Consumes `symbol` if it is next.
    pub(crate) fn take(&mut self, symbol: char) -> bool {
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len_utf8();
        }
        found
    }

    /// Consumes the longest run of characters that satisfy `accept`.
    fn run(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|symbol| !accept(symbol)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Consumes a decimal number if one is next.
    pub(crate) fn number(&mut self) -> Result<Option<f64>> {
        let rest = self.rest();
        if !rest.starts_with(|symbol: char| symbol.is_ascii_digit() || symbol == '.') {
            return Ok(None);
        }
        let start = self.at;
        let mut end = rest.find(|symbol: char| !symbol.is_ascii_digit() && symbol != '.').unwrap_or(rest.len());
        if rest[end..].starts_with(['e', 'E']) {
            let exponent = &rest[end + 1..];
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let digits =
                exponent[sign..].find(|symbol: char| !symbol.is_ascii_digit()).unwrap_or(exponent.len() - sign);
            if digits > 0 {
                end += 1 + sign + digits;
            }
        }
        self.at += end;
        let number: f64 =
            rest[..end].parse().map_err(|_| self.error(start, format!("\"{}\" is not a number", &rest[..end])))?;
        if !number.is_finite() {
            return Err(self.error(start, "the number is too large"));
        }
        Ok(Some(number))
    }

    /// Consumes a name and its arguments, if there are any.
    pub(crate) fn call(&mut self, expected: &str) -> Result<Call<'a>> {
        self.rest();
        let at = self.at;
        let name =
            self.run(|symbol| symbol.is_alphanumeric() || symbol == '_' || symbol == '-' && expected != "a term");
        if !name.starts_with(|symbol: char| symbol.is_alphabetic() || symbol == '_') {
            return Err(self.error(at, format!("{expected} is expected here")));
        }
        let mut arguments = Vec::new();
        if self.take('(') && !self.take(')') {
            loop {
                self.rest();
                let at = self.at;
                let key = self.run(|symbol| symbol.is_alphanumeric() || symbol == '_');
                if key.is_empty() || !self.take('=') {
                    return Err(self.error(self.at, "key=value is expected inside the parentheses"));
                }
                let value = self.run(|symbol| !matches!(symbol, ',' | ')' | '(')).trim_end();
                if value.is_empty() {
                    return Err(self.error(self.at, format!("a value for {key} is expected here")));
                }
                arguments.push((key, value, at));
                if self.take(')') {
                    break;
                }
                if !self.take(',') {
                    return Err(self.error(self.at, "\",\" or \")\" is expected here"));
                }
            }
        }
        Ok(Call { name, at, arguments })
    }
}

impl<'a> Call<'a> {
    /// Removes the argument of this name from the list.
    pub(crate) fn argument(&mut self, key: &str) -> Option<(&'a str, usize)> {
        let found = self.arguments.iter().position(|(name, ..)| *name == key)?;
        let (_, value, at) = self.arguments.remove(found);
        Some((value, at))
    }

    /// Removes a number from the list.
    pub(crate) fn number(&mut self, reader: &Reader<'_>, key: &str) -> Result<Option<f64>> {
        self.argument(key)
            .map(|(value, at)| match value.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(number),
                _ => Err(reader.error(at, format!("{key} must be a number, not \"{value}\""))),
            })
            .transpose()
    }

    /// Removes a whole number from the list.
    pub(crate) fn count(&mut self, reader: &Reader<'_>, key: &str) -> Result<Option<usize>> {
        self.argument(key)
            .map(|(value, at)| {
                value
                    .parse::<usize>()
                    .map_err(|_| reader.error(at, format!("{key} must be a whole number, not \"{value}\"")))
            })
            .transpose()
    }

    /// Checks that all arguments were consumed.
    pub(crate) fn finish(self, reader: &Reader<'_>, known: &[&str]) -> Result<()> {
        match self.arguments.first() {
            None => Ok(()),
            Some((key, _, at)) if known.is_empty() => {
                Err(reader.error(*at, format!("{} takes no settings, but {key} was given", self.name)))
            }
            Some((key, _, at)) if known.contains(key) => Err(reader.error(*at, format!("{key} is given twice"))),
            Some((key, _, at)) => {
                let hint = nearest(key, known).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
                Err(reader.error(*at, format!("{} has no setting {key}{hint}; it has {}", self.name, known.join(", "))))
            }
        }
    }
}

/// The known name nearest to a misspelt one, if any is near: at most two edits, and fewer than half of its letters.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().collect();
    known
        .iter()
        .map(|candidate| (edits(&word, &candidate.chars().collect::<Vec<_>>()), *candidate))
        .filter(|(edits, candidate)| *edits <= 2 && 2 * edits < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// The Levenshtein distance, computed row by row.
fn edits(left: &[char], right: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let substitute = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn misspelt_words_find_their_neighbour() {
        let known = ["rke", "mmd", "kid", "precision", "density", "cost"];
        assert_eq!(nearest("precison", &known), Some("precision"));
        assert_eq!(nearest("kdi", &known), None, "three letters, two edits: no better than a guess");
        assert_eq!(nearest("rkee", &known), Some("rke"));
        assert_eq!(nearest("aesthetic", &known), None);
    }
}
