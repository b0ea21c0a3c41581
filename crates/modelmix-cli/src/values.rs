//! Values of options, typed: what is on the command line or in a file becomes the library's own types while it is parsed.
//! Parsers of closed sets know all their values, so that completions list them; refusals are the library's sentences.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use modelmix::curate::Proportions;
use modelmix::internals::certainty;
use modelmix::metrics::{Metric, Preset};
use modelmix::{Certified, PolicySpec, Selection};

/// A value that the command line itself refuses, in a sentence.
#[derive(Debug)]
pub(crate) struct BadValue(String);

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadValue {}

/// A parser that knows the names that it takes, or the names that what it takes may begin with.
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

/// Policies with commas between them.
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

/// A parser of numbers by arm; `what` they are is for the refusals.
pub(crate) fn arm_number(what: &'static str) -> impl TypedValueParser<Value = ArmNumber> {
    move |text: &str| {
        let (arm, value) = text
            .rsplit_once('=')
            .ok_or_else(|| BadValue(format!("\"{text}\" is no {what}; write ARM=NUMBER, as in flux=1")))?;
        let number =
            value.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| {
                BadValue(format!("the {what} of {arm} is \"{value}\", but it must be a finite number"))
            })?;
        Ok::<_, BadValue>(ArmNumber { arm: arm.into(), number })
    }
}

/// Texts with commas between them, but not those in parentheses.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_parentheses_do_not_split() {
        assert_eq!(split_list("adaptive,cab(sensitivity=0.1, beta=2)"), ["adaptive", "cab(sensitivity=0.1, beta=2)"]);
        assert_eq!(split_list(" ogd ,,"), ["ogd"]);
    }

    /// What completions offer must be taken.
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
        // Some policies have settings without a default; their names are known all the same.
        let refused = |name: &&str| (policies().parse)(name).err().map(|error| error.to_string());
        for sentence in policies().names.iter().filter_map(refused) {
            assert!(!sentence.contains("there is no policy"), "{sentence}");
        }
    }
}
