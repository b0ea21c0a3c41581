//! Recorded arms: named sets of features of one width, with optional scores per sample.

use std::collections::BTreeMap;

use crate::encoding::Encoding;
use crate::error::{Error, Result};
use crate::features::Features;
use crate::numbers::six_digits;
use crate::text::nearest;

/// The tolerance of the sum of given weights: they may be rounded to percents.
const WEIGHTS_TOLERANCE: f64 = 0.01 + 1e-9;

/// Recorded samples of one model: its name, their features, and optional scores per sample.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedArm {
    /// The model's name.
    pub name: String,
    /// The features, one row per sample.
    pub features: Features,
    /// Scores by name, one value per sample, for objectives such as `rke - 0.1*aesthetic`.
    pub scores: BTreeMap<String, Vec<f64>>,
}

impl RecordedArm {
    /// Creates an arm without scores.
    pub fn new(name: impl Into<String>, features: Features) -> Self {
        Self { name: name.into(), features, scores: BTreeMap::new() }
    }

    /// Adds a score with one value per sample.
    #[must_use]
    pub fn with_score(mut self, score: impl Into<String>, values: Vec<f64>) -> Self {
        self.scores.insert(score.into(), values);
        self
    }
}

/// One or more recorded arms with distinct names, features of the same width and at least two samples each.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedArms(Vec<RecordedArm>);

impl RecordedArms {
    /// Copies rows that are on a device to the host, for what reads them there.
    pub(crate) fn download(&self) -> Result<()> {
        self.iter().try_for_each(|arm| arm.features.host().map(drop))
    }

    /// Creates a list of arms after checking them.
    ///
    /// # Errors
    /// If there are no arms, if two have the same name, if widths or encoders differ, if an arm has fewer than two samples, or if
    /// scores are not finite or not one per sample.
    pub fn new(arms: Vec<RecordedArm>) -> Result<Self> {
        let Some(first) = arms.first() else {
            return Err(Error::missing("a mixture", "at least one arm; give the features of one model or more"));
        };
        for (index, arm) in arms.iter().enumerate() {
            let array = |problem: String| Error::Array { origin: format!("arm {}", arm.name), problem };
            if arms[..index].iter().any(|other| other.name == arm.name) {
                return Err(array("two arms have this name; rename one of them".into()));
            }
            // Files without an encoding say nothing, so an arm is compared with the first that has one.
            let other = arms.iter().find(|arm| arm.features.encoding().is_some()).unwrap_or(first);
            arm.features.check_comparable(
                &format!("arm {}", arm.name),
                &other.features,
                &format!("arm {}", other.name),
            )?;
            check_rows(&arm.features).map_err(|error| error.of(format!("arm {}", arm.name)))?;
            for (score, values) in &arm.scores {
                if values.len() != arm.features.len() {
                    return Err(array(format!(
                        "score {score} has {} values for {} samples; give one per sample",
                        values.len(),
                        arm.features.len()
                    )));
                }
                if let Some(row) = values.iter().position(|value| !value.is_finite()) {
                    return Err(array(format!(
                        "score {score} is {} at sample {row}; scores must be finite",
                        values[row]
                    )));
                }
            }
        }
        Ok(Self(arms))
    }

    /// Adds scores per sample: `scores[score][arm]` has one value per sample of the arm.
    ///
    /// # Errors
    /// If a name is not that of an arm, or if an arm has no values; otherwise as [`RecordedArms::new`].
    pub fn with_scores(self, scores: &BTreeMap<String, BTreeMap<String, Vec<f64>>>) -> Result<Self> {
        let names = self.names();
        for (score, by_arm) in scores {
            let what = format!("score {score}");
            if let Some(unknown) = by_arm.keys().find(|name| !names.contains(name)) {
                let problem =
                    format!("{what} is given for {unknown}, which is not an arm{}", unknown_name_hint(unknown, &names));
                return Err(Error::ByArm { what, arm: unknown.clone(), problem });
            }
            if let Some(missing) = names.iter().find(|name| !by_arm.contains_key(*name)) {
                let problem = format!("{what} is not given for {missing}; give it for every arm: {}", names.join(", "));
                return Err(Error::ByArm { what, arm: missing.clone(), problem });
            }
        }
        let scored = |mut arm: RecordedArm| {
            let own = scores.iter().filter_map(|(score, by_arm)| Some((score.clone(), by_arm.get(&arm.name)?.clone())));
            arm.scores.extend(own);
            arm
        };
        Self::new(self.0.into_iter().map(scored).collect())
    }

    /// Number of arms; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How the features of the arms were made; `None` if unknown.
    pub fn encoding(&self) -> Option<&Encoding> {
        self.0.iter().find_map(|arm| arm.features.encoding())
    }

    /// Checks that a reference, named for messages, has the width and the encoder of the arms.
    ///
    /// # Errors
    /// If width or encoder differ.
    pub fn check_reference(&self, reference: &Features, name: &str) -> Result<()> {
        let first = &self.0[0];
        let other = self.0.iter().find(|arm| arm.features.encoding().is_some()).unwrap_or(first);
        reference.check_comparable(name, &other.features, &format!("arm {}", other.name))
    }

    /// Width of the features of every arm.
    pub fn width(&self) -> usize {
        self.0[0].features.width()
    }

    /// Iterates over the arms in the order given.
    pub fn iter(&self) -> std::slice::Iter<'_, RecordedArm> {
        self.0.iter()
    }

    /// Names of the arms in the order given.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|arm| arm.name.clone()).collect()
    }
}

impl std::ops::Index<usize> for RecordedArms {
    type Output = RecordedArm;

    fn index(&self, index: usize) -> &RecordedArm {
        &self.0[index]
    }
}

impl<'a> IntoIterator for &'a RecordedArms {
    type Item = &'a RecordedArm;
    type IntoIter = std::slice::Iter<'a, RecordedArm>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Returns numbers given by arm name in the order of `names`. An arm without a number gets `default`, if there is one.
/// `what` names the quantity in messages, such as "cost".
///
/// ```
/// let names = ["left".to_string(), "right".to_string()];
/// let costs = modelmix::internals::arms::by_arm("cost", &names, [("right".into(), 2.0)], Some(1.0))?;
/// assert_eq!(costs, [1.0, 2.0]);
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// If a name is unknown or repeated, if a number is not finite, or if an arm has neither a number nor a default.
pub fn by_arm(
    what: &str,
    names: &[String],
    given: impl IntoIterator<Item = (String, f64)>,
    default: Option<f64>,
) -> Result<Vec<f64>> {
    let refuse = |arm: &str, problem: String| Error::ByArm { what: what.into(), arm: arm.into(), problem };
    let mut values: Vec<Option<f64>> = vec![None; names.len()];
    for (name, value) in given {
        let Some(arm) = names.iter().position(|known| *known == name) else {
            return Err(refuse(&name, format!("there is no arm {name}{}", unknown_name_hint(&name, names))));
        };
        if !value.is_finite() {
            return Err(Error::setting(&format!("the {what} of {name}"), value, "a finite number"));
        }
        if values[arm].replace(value).is_some() {
            return Err(refuse(&name, format!("the {what} of {name} is given twice; give it once")));
        }
    }
    let found = |(name, value): (&String, Option<f64>)| {
        let missing =
            || format!("arm {name} has no {what}; give one for every arm, 0 if it has none: {}", names.join(", "));
        value.or(default).ok_or_else(|| refuse(name, missing()))
    };
    names.iter().zip(values).map(found).collect()
}

/// Weights by arm, 0 for those not named, that sum to 1. They may be rounded to percents: a sum between 0.99 and 1.01 will do.
///
/// # Errors
/// As [`by_arm`], and weights that sum to something else.
pub fn weights_by_arm(names: &[String], given: impl IntoIterator<Item = (String, f64)>) -> Result<Vec<f64>> {
    let weights = by_arm("weight", names, given, Some(0.0))?;
    let sum: f64 = weights.iter().sum();
    // Negative weights are refused where they are used.
    if (sum - 1.0).abs() > WEIGHTS_TOLERANCE && weights.iter().all(|&weight| weight >= 0.0) && sum > 0.0 {
        return Err(Error::setting(
            "the sum of the weights",
            six_digits(sum),
            "1, as weights are shares of the mixture",
        ));
    }
    Ok(weights)
}

/// The end of a message about an unknown arm name.
fn unknown_name_hint(unknown: &str, names: &[String]) -> String {
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let hint = nearest(unknown, &known).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
    format!("{hint}; the arms are {}", known.join(", "))
}

/// Checks that there are two rows: estimates over pairs need at least two.
pub(crate) fn check_rows(features: &Features) -> Result<()> {
    if features.len() < 2 {
        return Err(Error::Array {
            origin: "features".into(),
            problem: "there is 1 row; at least 2 samples are needed to compare pairs".into(),
        });
    }
    Ok(())
}
