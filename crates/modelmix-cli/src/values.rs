//! Parsers of option values: text of the command line or of a file becomes types of the library.
//! Parsers of closed sets list their values for completions; error messages are those of the library.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use modelmix::compute::EngineChoice;
use modelmix::curate::Proportions;
use modelmix::internals::certainty;
use modelmix::internals::numbers::parse_bytes;
use modelmix::metrics::{Metric, Preset};
use modelmix::{Certified, Gap, PolicySpec, Selection};

/// A value that the command line rejects, with its error message.
#[derive(Debug)]
pub(crate) struct BadValue {
    /// The option without dashes, if the message starts with it.
    option: Option<String>,
    problem: String,
}

impl BadValue {
    /// For an option: "is 0, but it must be …".
    pub(crate) fn of(option: &str, problem: String) -> Self {
        Self { option: Some(option.into()), problem }
    }

    /// The message, for a value of the command line or of a file.
    pub(crate) fn sentence(&self, file: Option<&Path>) -> String {
        let dashes = if file.is_some() { "" } else { "--" };
        let option = self.option.as_ref().map_or(String::new(), |option| format!("{dashes}{option} "));
        let file = file.map_or(String::new(), |file| format!("{}: ", file.display()));
        format!("{file}{option}{}", self.problem)
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(None))
    }
}

impl std::error::Error for BadValue {}

/// The wanted half-width of the gain's interval, with its unit.
pub(crate) fn gain_error(text: &str) -> modelmix::Result<Gap> {
    text.parse().map_err(|error| match error {
        modelmix::Error::Setting { value, must, .. } => {
            modelmix::Error::Setting { what: "gain-error".into(), value, must }
        }
        error => error,
    })
}

/// An amount of GPU memory.
pub(crate) fn bytes(text: &str) -> Result<u64, BadValue> {
    parse_bytes(text).map_err(|problem| BadValue::of("gpu-memory", format!("cannot be used: {problem}")))
}

/// An amount of memory.
pub(crate) fn memory(text: &str) -> Result<u64, BadValue> {
    parse_bytes(text).map_err(|problem| BadValue::of("memory", format!("cannot be used: {problem}")))
}

/// A parser that lists the names that it accepts, or the prefixes of accepted values.
#[derive(Clone)]
pub(crate) struct Named<T> {
    names: Vec<&'static str>,
    parse: fn(&str) -> modelmix::Result<T>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Named<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}

fn named<T: FromStr<Err = modelmix::Error>>(names: impl IntoIterator<Item = &'static str>) -> Named<T> {
    Named { names: names.into_iter().collect(), parse: T::from_str }
}

pub(crate) fn metric() -> Named<Metric> {
    named(Metric::ALL.map(Metric::name))
}

pub(crate) fn preset() -> Named<Preset> {
    named(Preset::ALL.map(Preset::name))
}

pub(crate) fn selection() -> Named<Selection> {
    named(Selection::ALL.map(Selection::name))
}

pub(crate) fn proportions() -> Named<Proportions> {
    named(Proportions::ALL.map(Proportions::name))
}

pub(crate) fn certified() -> Named<Certified> {
    named(["weights", "shares"])
}

/// Engines; a device of CUDA may follow, as in cuda:1.
pub(crate) fn engine() -> Named<EngineChoice> {
    named(["auto", "cpu", "cuda"])
}

/// A parser of numbers whose error message contains the option's name.
#[derive(Clone)]
pub(crate) struct Number<T> {
    /// Returns the number, or a description of valid numbers.
    parse: fn(&str, u64) -> Result<T, String>,
    least: u64,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Number<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let option = argument.and_then(clap::Arg::get_long).unwrap_or_default().to_string();
        let Number { parse, least } = *self;
        let read = move |text: &str| {
            let shown = if text.parse::<f64>().is_ok() { text.to_string() } else { format!("\"{text}\"") };
            parse(text, least).map_err(|must| BadValue::of(&option, format!("is {shown}, but it must be {must}")))
        };
        read.parse_ref(command, argument, value)
    }
}

/// A whole number, at least `least` and at most the maximum of its type.
pub(crate) fn count<T: TryFrom<u64>>(least: u64) -> Number<T> {
    let parse = |text: &str, least: u64| {
        let most = if size_of::<T>() < size_of::<u64>() { u64::from(u32::MAX) } else { u64::MAX };
        let is_whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // Digits that exceed 64 bits are a number that is too large.
        let found = is_whole.then(|| text.parse::<u64>().unwrap_or(u64::MAX));
        let read =
            text.parse::<u64>().ok().filter(|number| *number >= least).and_then(|number| T::try_from(number).ok());
        read.ok_or_else(|| match found {
            Some(number) if number >= least => format!("a whole number, at most {most}"),
            _ if least == 0 => "a whole number, 0 or more".into(),
            _ => format!("a whole number, at least {least}"),
        })
    };
    Number { parse, least }
}

/// Any number; the library checks its range.
pub(crate) fn number() -> Number<f64> {
    Number { parse: |text, _| text.parse().map_err(|_| "a number".into()), least: 0 }
}

/// Policies, separated by commas.
#[derive(Clone, Debug)]
pub(crate) struct Policies(pub(crate) Vec<PolicySpec>);

impl FromStr for Policies {
    type Err = modelmix::Error;

    fn from_str(text: &str) -> modelmix::Result<Self> {
        split_list(text).iter().map(|policy| policy.parse()).collect::<modelmix::Result<_>>().map(Policies)
    }
}

pub(crate) fn policies() -> Named<Policies> {
    named(PolicySpec::NAMES)
}

/// A confidence: 95% or 0.95.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confidence(pub(crate) f64);

impl FromStr for Confidence {
    type Err = modelmix::Error;

    fn from_str(text: &str) -> modelmix::Result<Self> {
        certainty::parse_confidence(text).map(Confidence)
    }
}

/// A number given for an arm: ARM=NUMBER.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArmNumber {
    pub(crate) arm: String,
    pub(crate) number: f64,
}

/// A parser of numbers by arm; `what` names them in error messages.
pub(crate) fn arm_number(what: &'static str) -> impl TypedValueParser<Value = ArmNumber> {
    move |text: &str| by_arm(what, text, |value| value.parse().ok(), "flux=1", "a finite number")
}

/// A parser of shares by arm, which may be percentages.
pub(crate) fn arm_share(what: &'static str) -> impl TypedValueParser<Value = ArmNumber> {
    let share = |value: &str| match value.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse().ok().map(|percent: f64| percent / 100.0),
        None => value.parse().ok(),
    };
    move |text: &str| by_arm(what, text, share, "flux=0.6 or flux=60%", "a share, such as 0.6 or 60%")
}

fn by_arm(
    what: &str,
    text: &str,
    read: impl Fn(&str) -> Option<f64>,
    example: &str,
    must: &str,
) -> Result<ArmNumber, BadValue> {
    let bad = |problem: String| BadValue { option: None, problem };
    let (arm, value) = text
        .rsplit_once('=')
        .ok_or_else(|| bad(format!("\"{text}\" is not a valid {what}; write ARM=NUMBER, such as {example}")))?;
    let number = read(value)
        .filter(|number| number.is_finite())
        .ok_or_else(|| bad(format!("the {what} of {arm} is \"{value}\", but it must be {must}")))?;
    Ok(ArmNumber { arm: arm.into(), number })
}

/// Splits text at commas outside of parentheses.
fn split_list(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0usize);
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    parts.into_iter().map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}

/// The share of the work of one task of several: every task is given all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    index: usize,
    of: usize,
}

impl Task {
    /// All of the work.
    pub(crate) const WHOLE: Self = Self { index: 0, of: 1 };

    /// Whether the piece of work with this number is its own.
    pub(crate) fn has(self, at: usize) -> bool {
        at % self.of == self.index
    }
}

impl FromStr for Task {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self { index: index - 1, of }),
            _ => Err(BadValue::of(
                "task",
                format!("is \"{text}\", but it must be a task, from 1, and their number, as in 3/16"),
            )),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_parentheses_do_not_split() {
        assert_eq!(split_list("adaptive,cab(sensitivity=0.1, beta=2)"), ["adaptive", "cab(sensitivity=0.1, beta=2)"]);
        assert_eq!(split_list(" ogd ,,"), ["ogd"]);
    }

    /// The parsers accept every value that completions offer.
    #[test]
    fn every_name_that_is_listed_is_read() {
        fn check<T>(parser: &Named<T>) {
            for name in &parser.names {
                assert!((parser.parse)(name).is_ok(), "{name}");
            }
        }
        check(&metric());
        check(&preset());
        check(&selection());
        check(&proportions());
        check(&certified());
        // Some policies have settings without a default; their names are still known.
        let refused = |name: &&str| (policies().parse)(name).err().map(|error| error.to_string());
        for sentence in policies().names.iter().filter_map(refused) {
            assert!(!sentence.contains("there is no policy"), "{sentence}");
        }
    }
}
