//! Durations and amounts of memory in configurations: text with a unit, as in `90s` or `1GB`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use modelmix::internals::numbers::parse_bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A duration as text: `500ms`, `90s`, `30min`, `2h`, `1d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Span(pub Duration);

/// Units and their milliseconds.
const UNITS: [(&str, f64); 5] = [("ms", 1.0), ("min", 60e3), ("s", 1e3), ("h", 3600e3), ("d", 86400e3)];

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let read = |(unit, milliseconds): (&str, f64)| {
            let number: f64 = trimmed.strip_suffix(unit)?.trim().parse().ok()?;
            let total = number * milliseconds;
            (total > 0.0 && total < 1e15).then(|| Self(Duration::from_secs_f64(total / 1e3)))
        };
        UNITS
            .into_iter()
            .find_map(read)
            .ok_or_else(|| format!("\"{text}\" is not a duration; write a number with a unit, as in 90s, 30min or 2h"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_secs_f64() * 1e3;
        let (unit, size) = match milliseconds {
            ..1e3 => ("ms", 1.0),
            ..120e3 => ("s", 1e3),
            ..7200e3 => ("min", 60e3),
            ..172800e3 => ("h", 3600e3),
            _ => ("d", 86400e3),
        };
        write!(f, "{}{unit}", (milliseconds / size * 1e3).round() / 1e3)
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        // All digits, so that a configuration that is written and read again is the same.
        format!("{}ms", span.0.as_secs_f64() * 1e3)
    }
}

/// An amount of memory or disk as text: `200MB`, `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_bytes(text).map(Self)
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        format!("{}B", size.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, milliseconds) in
            [("500ms", 500), ("90s", 90_000), ("1.5 min", 90_000), ("2h", 7_200_000), ("1d", 86_400_000)]
        {
            let span: Result<Span, _> = text.parse();
            assert_eq!(span.clone().map(|span| span.0.as_millis()), Ok(milliseconds), "{text}");
            let again: Result<Span, _> = String::from(span.expect("just read")).parse();
            assert_eq!(again.map(|span| span.0.as_millis()), Ok(milliseconds), "{text}");
        }
        for text in ["", "5", "-1s", "0s", "s", "NaNs", "infs", "1e99d", "1 week"] {
            assert!(text.parse::<Span>().is_err_and(|error| error.contains("30min")), "{text}");
        }
    }

    #[test]
    fn durations_are_written_briefly() {
        for (text, written) in [("90s", "90s"), ("300s", "5min"), ("5h", "5h"), ("250ms", "250ms"), ("3d", "3d")] {
            assert_eq!(text.parse::<Span>().map(|span| span.to_string()), Ok(written.to_string()));
        }
    }
}
