//! Expectations of an experiment: a closed set of quantities, requirements on each, and their comparison.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::plan::Results;
use crate::error::{Error, Result};
use crate::metrics::Metric;
use crate::text::nearest;

/// A quantity that an experiment measures, as written in its file.
///
/// ```
/// use modelmix::experiment::Quantity;
/// let quantity: Quantity = "rounds of adaptive to 95%".parse()?;
/// assert_eq!(quantity.to_string(), "rounds of adaptive to 95%");
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Quantity {
    /// `best single`: the name of the best single arm.
    BestSingle,
    /// `gain`: the loss of the best single arm minus that of the mixture.
    Gain,
    /// `weight of flow`: the weight of an arm in the best mixture.
    Weight(String),
    /// `score of mixture`: the score of the objective's first term, as reported.
    Score(Subject),
    /// `loss of mixture`: the whole objective.
    Loss(Subject),
    /// `fid of mixture`: a metric.
    Metric(Metric, Subject),
    /// `rounds of adaptive to 95%`: the median round from which this share of the gain is kept.
    Rounds(String, Percent),
    /// `regret of adaptive`: the loss of the final shares on all recorded samples, minus the optimum; the mean over
    /// seeds.
    Regret(String),
    /// `final loss of adaptive`: the loss of the samples collected at the end; the mean over seeds.
    FinalLoss(String),
    /// `share of digits by adaptive`: the share of pulls at the end; the mean over seeds.
    Share(String, String),
    /// `arms of sparse`: the number of arms pulled, with any seed, in the last tenth of the rounds.
    Arms(String),
}

/// The subject of a score.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Subject {
    /// The best mixture.
    Mixture,
    /// The best single arm by the objective.
    BestSingle,
    /// An arm.
    Arm(String),
}

/// The share of the gain that must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percent {
    /// 90%.
    Ninety,
    /// 95%.
    NinetyFive,
    /// 99%.
    NinetyNine,
}

/// A requirement on a quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Requirement {
    /// `{ value = 0.37, tolerance = 0.01 }`.
    Near {
        /// The expected value.
        value: f64,
        /// The maximum deviation.
        tolerance: f64,
    },
    /// `{ at_most = 400 }`.
    AtMost(f64),
    /// `{ at_least = 0.01 }`.
    AtLeast(f64),
    /// `{ below = "regret of vanilla" }`: below another quantity.
    Below(Quantity),
    /// `{ above = "recall of flow" }`: above another quantity.
    Above(Quantity),
    /// `"flow"`: this name.
    Is(String),
    /// `"never"`: it does not happen.
    Never,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Measured {
    /// A number.
    Number(f64),
    /// A name.
    Name(String),
    /// It did not happen.
    Never,
}

/// An expectation, its measured value, and whether it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// The quantity.
    pub what: Quantity,
    /// The requirement.
    pub expected: Requirement,
    /// The other quantity, if it was compared with one.
    pub against: Option<Measured>,
    /// The measured value.
    pub measured: Measured,
    /// Whether the requirement holds.
    pub passed: bool,
}

impl Check {
    pub(super) fn of(what: &Quantity, expected: &Requirement, results: &Results<'_>) -> Self {
        let measured = what.measure(results);
        let against = match expected {
            Requirement::Below(other) | Requirement::Above(other) => Some(other.measure(results)),
            _ => None,
        };
        let passed = expected.holds(&measured, against.as_ref());
        Self { what: what.clone(), expected: expected.clone(), against, measured, passed }
    }

    /// The requirement as text, with the number that it was compared with.
    pub fn requirement(&self) -> String {
        match &self.against {
            Some(other) => format!("{} ({other})", self.expected),
            None => self.expected.to_string(),
        }
    }
}

impl Requirement {
    /// Whether the requirement holds for a measured value; `against` is the value of the other quantity, if any.
    fn holds(&self, measured: &Measured, against: Option<&Measured>) -> bool {
        // "Never" is later than everything else.
        let later = |value: Option<&Measured>| match value {
            Some(Measured::Number(number)) => Some(*number),
            Some(Measured::Never) => Some(f64::INFINITY),
            _ => None,
        };
        let value = later(Some(measured));
        match self {
            Requirement::Near { value: expected, tolerance } => {
                value.is_some_and(|value| (value - expected).abs() <= *tolerance)
            }
            Requirement::AtMost(bound) => value.is_some_and(|value| value <= *bound),
            Requirement::AtLeast(bound) => value.is_some_and(|value| value >= *bound),
            Requirement::Below(_) => value.zip(later(against)).is_some_and(|(value, other)| value < other),
            Requirement::Above(_) => value.zip(later(against)).is_some_and(|(value, other)| value > other),
            Requirement::Is(name) => matches!(measured, Measured::Name(found) if found == name),
            Requirement::Never => *measured == Measured::Never,
        }
    }
}

impl Quantity {
    /// The arm that it names.
    pub(super) fn arm(&self) -> Option<&str> {
        match self {
            Quantity::Weight(arm) | Quantity::Share(arm, _) => Some(arm),
            Quantity::Score(Subject::Arm(arm))
            | Quantity::Loss(Subject::Arm(arm))
            | Quantity::Metric(_, Subject::Arm(arm)) => Some(arm),
            _ => None,
        }
    }

    /// The policy that it names.
    pub(super) fn policy_mut(&mut self) -> Option<&mut String> {
        match self {
            Quantity::Rounds(policy, _)
            | Quantity::Regret(policy)
            | Quantity::FinalLoss(policy)
            | Quantity::Share(_, policy)
            | Quantity::Arms(policy) => Some(policy),
            _ => None,
        }
    }

    /// Whether it is a result of the offline solution; otherwise it is a metric or a result of a simulation.
    pub(super) fn is_offline(&self) -> bool {
        matches!(
            self,
            Quantity::BestSingle | Quantity::Gain | Quantity::Weight(_) | Quantity::Score(_) | Quantity::Loss(_)
        )
    }

    fn measure(&self, results: &Results<'_>) -> Measured {
        if let Quantity::BestSingle = self {
            return results.solve.map_or(Measured::Never, |solve| Measured::Name(solve.best_single.name.clone()));
        }
        self.number(results).map_or(Measured::Never, Measured::Number)
    }

    fn number(&self, results: &Results<'_>) -> Option<f64> {
        let simulated = |policy: &str| results.simulate.and_then(|simulate| simulate.policies.get(policy));
        match self {
            Quantity::BestSingle => None,
            Quantity::Gain => results.solve.map(|solve| solve.gain),
            Quantity::Weight(name) => results.solve?.arms.iter().find(|arm| arm.name == *name).map(|arm| arm.weight),
            Quantity::Score(subject) | Quantity::Loss(subject) => {
                let solve = results.solve?;
                let (terms, loss) = match subject {
                    Subject::Mixture => (&solve.mixture.terms, solve.mixture.loss),
                    Subject::BestSingle => (&solve.best_arm().terms, solve.best_single.loss),
                    Subject::Arm(name) => {
                        solve.arms.iter().find(|arm| arm.name == *name).map(|arm| (&arm.terms, arm.loss))?
                    }
                };
                if matches!(self, Quantity::Score(_)) { terms.first().map(|term| term.score) } else { Some(loss) }
            }
            Quantity::Metric(metric, subject) => {
                let table = results.score?;
                let arm = |name: &str| {
                    table.arms.iter().find(|arm| arm.name == name).map(|arm| arm.scores.get(metric.name()))
                };
                match subject {
                    Subject::Mixture => table.mixture.as_ref()?.scores.get(metric.name()),
                    Subject::BestSingle => arm(&results.solve?.best_single.name)?,
                    Subject::Arm(name) => arm(name)?,
                }
                .copied()
            }
            Quantity::Rounds(policy, percent) => {
                let reached = simulated(policy)?.reached;
                match percent {
                    Percent::Ninety => reached.percent_90,
                    Percent::NinetyFive => reached.percent_95,
                    Percent::NinetyNine => reached.percent_99,
                }
            }
            Quantity::Regret(policy) => simulated(policy)?.regret.mean.last().copied(),
            Quantity::FinalLoss(policy) => simulated(policy)?.loss.mean.last().copied(),
            Quantity::Share(arm, policy) => {
                let index = results.simulate?.arms.iter().position(|name| name == arm)?;
                simulated(policy)?.weights.get(index).copied()
            }
            Quantity::Arms(policy) => {
                let policy = simulated(policy)?;
                let (&end, last) = (policy.rounds.last()?, policy.shares.last()?);
                let start = policy.rounds.iter().rposition(|&round| 10 * round <= 9 * end);
                // Counts arms over all seeds in the last tenth; less than half a pull of one seed is rounding error.
                let least = 0.5 / results.simulate?.seeds as f64;
                let pulls = |arm: usize| {
                    let before = start.map_or(0.0, |at| policy.shares[at][arm] * policy.rounds[at] as f64);
                    last[arm] * end as f64 - before
                };
                Some((0..last.len()).filter(|&arm| pulls(arm) > least).count() as f64)
            }
        }
    }
}

const QUANTITY_FORMS: &str = "best single, gain, weight of ARM, score of mixture, loss of best single, fid of ARM (or another metric), \
    rounds of POLICY to 90%, regret of POLICY, final loss of POLICY, share of ARM by POLICY, arms of POLICY";

impl FromStr for Quantity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |at: usize, problem: String| Error::Parse {
            text: text.into(),
            at: text[..at].chars().count() + 1,
            problem,
        };
        let whole = || refuse(0, format!("no such quantity; there are {QUANTITY_FORMS}"));
        match text {
            "best single" => return Ok(Quantity::BestSingle),
            "gain" => return Ok(Quantity::Gain),
            _ => {}
        }
        let (word, of) = text.split_once(" of ").ok_or_else(whole)?;
        let start = text.len() - of.len();
        if of.trim().is_empty() {
            return Err(refuse(start, "a name is expected here".into()));
        }
        let subject = || match of {
            "mixture" => Subject::Mixture,
            "best single" => Subject::BestSingle,
            arm => Subject::Arm(arm.into()),
        };
        Ok(match word {
            "weight" => Quantity::Weight(of.into()),
            "score" => Quantity::Score(subject()),
            "loss" => Quantity::Loss(subject()),
            "regret" => Quantity::Regret(of.into()),
            "final loss" => Quantity::FinalLoss(of.into()),
            "arms" => Quantity::Arms(of.into()),
            "rounds" => {
                let (policy, percent) = of
                    .rsplit_once(" to ")
                    .ok_or_else(|| refuse(start, "a share of the gain is expected, as in adaptive to 95%".into()))?;
                let percent = match percent {
                    "90%" => Percent::Ninety,
                    "95%" => Percent::NinetyFive,
                    "99%" => Percent::NinetyNine,
                    _ => return Err(refuse(text.len() - percent.len(), "90%, 95% or 99% is expected here".into())),
                };
                Quantity::Rounds(policy.into(), percent)
            }
            "share" => {
                let (arm, policy) = of
                    .rsplit_once(" by ")
                    .ok_or_else(|| refuse(start, "a policy is expected, as in flow by adaptive".into()))?;
                Quantity::Share(arm.into(), policy.into())
            }
            metric => match metric.parse() {
                Ok(metric) => Quantity::Metric(metric, subject()),
                Err(_) => {
                    let words = ["weight", "score", "loss", "regret", "final loss", "arms", "rounds", "share"];
                    let metrics = Metric::ALL.map(Metric::name);
                    let near = nearest(metric, &words).or_else(|| nearest(metric, &metrics));
                    return Err(near.map_or_else(whole, |near| {
                        refuse(0, format!("there is no quantity {metric} (did you mean {near}?)"))
                    }));
                }
            },
        })
    }
}

impl TryFrom<String> for Quantity {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        quantity.to_string()
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::BestSingle => write!(f, "best single"),
            Quantity::Gain => write!(f, "gain"),
            Quantity::Weight(arm) => write!(f, "weight of {arm}"),
            Quantity::Score(subject) => write!(f, "score of {subject}"),
            Quantity::Loss(subject) => write!(f, "loss of {subject}"),
            Quantity::Metric(metric, subject) => write!(f, "{metric} of {subject}"),
            Quantity::Rounds(policy, percent) => write!(f, "rounds of {policy} to {percent}"),
            Quantity::Regret(policy) => write!(f, "regret of {policy}"),
            Quantity::FinalLoss(policy) => write!(f, "final loss of {policy}"),
            Quantity::Share(arm, policy) => write!(f, "share of {arm} by {policy}"),
            Quantity::Arms(policy) => write!(f, "arms of {policy}"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Mixture => "mixture",
            Subject::BestSingle => "best single",
            Subject::Arm(arm) => arm,
        })
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Percent::Ninety => "90%",
            Percent::NinetyFive => "95%",
            Percent::NinetyNine => "99%",
        })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Requirement::Near { value, tolerance } => write!(f, "{value} ± {tolerance}"),
            Requirement::AtMost(bound) => write!(f, "at most {bound}"),
            Requirement::AtLeast(bound) => write!(f, "at least {bound}"),
            Requirement::Below(other) => write!(f, "below {other}"),
            Requirement::Above(other) => write!(f, "above {other}"),
            Requirement::Is(name) => f.write_str(name),
            Requirement::Never => f.write_str("never"),
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measured::Number(number) => f.write_str(&five_digits(*number)),
            Measured::Name(name) => f.write_str(name),
            Measured::Never => f.write_str("never"),
        }
    }
}

/// Formats a number with up to five significant digits, without an exponent if that is short.
fn five_digits(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e6).contains(&size) {
        return format!("{number:.4e}");
    }
    let text = format!("{number:.*}", (4 - size.log10().floor() as i32).max(0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Measured, Percent, Quantity, Requirement, five_digits};

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 7.5, 399.5, 0.886, 0.378_912_345, -0.044_878_58, 268.578_1, 1e-5, 123_456.0].map(five_digits);
        let expected = ["0", "7.5", "399.5", "0.886", "0.37891", "-0.044879", "268.58", "1.0000e-5", "123456"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn requirements_hold_up_to_their_bounds_and_not_beyond() {
        let (number, never) = (Measured::Number, Measured::Never);
        let near = Requirement::Near { value: 0.5, tolerance: 0.25 };
        for (value, holds) in [(0.25, true), (0.75, true), (0.76, false), (0.24, false), (f64::NAN, false)] {
            assert_eq!(near.holds(&number(value), None), holds, "{value}");
        }
        assert!(
            Requirement::AtMost(2.0).holds(&number(2.0), None) && !Requirement::AtMost(2.0).holds(&number(2.1), None)
        );
        assert!(
            Requirement::AtLeast(2.0).holds(&number(2.0), None) && !Requirement::AtLeast(2.0).holds(&number(1.9), None)
        );
        let other = Quantity::Gain;
        let below = Requirement::Below(other.clone());
        assert!(below.holds(&number(1.0), Some(&number(2.0))) && !below.holds(&number(2.0), Some(&number(2.0))));
        let above = Requirement::Above(other);
        assert!(above.holds(&number(3.0), Some(&number(2.0))) && !above.holds(&number(2.0), Some(&number(2.0))));
        // "Never" is later than any round.
        assert!(!Requirement::AtMost(1e9).holds(&never, None) && below.holds(&number(1.0), Some(&never)));
        assert!(Requirement::Never.holds(&never, None) && !Requirement::Never.holds(&number(1.0), None));
        assert!(!near.holds(&Measured::Name("flow".into()), None));
    }

    #[test]
    fn quantities_are_read_as_they_are_written() {
        for text in [
            "best single",
            "gain",
            "weight of a b",
            "score of mixture",
            "loss of best single",
            "kid_full of flow",
            "rounds of cab(beta=4, sensitivity=0.1) to 99%",
            "regret of cab",
            "final loss of cab",
            "share of day by day by cab",
            "arms of sparse(keep=2)",
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap().to_string(), text);
        }
        let rounds = Quantity::Rounds("cab".into(), Percent::NinetyFive);
        assert_eq!("rounds of cab to 95%".parse::<Quantity>().unwrap(), rounds);
        for (text, words) in [
            ("wieght of flow", "did you mean weight?"),
            ("fdi of flow", "no such quantity; there are best single"),
            ("precison of flow", "did you mean precision?"),
            ("rounds of cab", "a share of the gain is expected"),
            ("rounds of cab to 50%", "90%, 95% or 99%"),
            ("share of flow", "a policy is expected"),
            ("weight of ", "a name is expected"),
            ("", "no such quantity"),
        ] {
            let error = text.parse::<Quantity>().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
