//! Recorded arms: named sets of features of one width, with whatever scores a caller gives per sample.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::features::Features;

/// A model's recorded output: its name, the features of its samples, and any scores given per sample.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedArm {
    /// The model's name.
    pub name: String,
    /// One row a sample.
    pub features: Features,
    /// Scores by name, one value a sample, for objectives such as `rke - 0.1*aesthetic`.
    pub scores: BTreeMap<String, Vec<f64>>,
}

impl RecordedArm {
    /// An arm without scores of its own.
    pub fn new(name: impl Into<String>, features: Features) -> Self {
        Self { name: name.into(), features, scores: BTreeMap::new() }
    }

    /// The same arm with a score for every sample.
    #[must_use]
    pub fn with_score(mut self, score: impl Into<String>, values: Vec<f64>) -> Self {
        self.scores.insert(score.into(), values);
        self
    }
}

/// One or more recorded arms that may be compared: distinct names, one width, at least two samples each.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedArms(Vec<RecordedArm>);

impl RecordedArms {
    /// Checks the arms once, at the door.
    ///
    /// # Errors
    /// No arms, two of the same name, different widths, fewer than two samples, scores that are not finite or not one a
    /// sample.
    pub fn new(arms: Vec<RecordedArm>) -> Result<Self> {
        let Some(first) = arms.first() else {
            return Err(Error::missing("a mixture", "at least one arm; give the features of one model or more"));
        };
        for (index, arm) in arms.iter().enumerate() {
            let array = |problem: String| Error::Array { origin: format!("arm {}", arm.name), problem };
            if arms[..index].iter().any(|other| other.name == arm.name) {
                return Err(array("the name is taken by an earlier arm; name each arm differently".into()));
            }
            if arm.features.width() != first.features.width() {
                return Err(Error::Width {
                    origin: format!("arm {}", arm.name),
                    found: arm.features.width(),
                    other: format!("arm {}", first.name),
                    expected: first.features.width(),
                });
            }
            check_rows(&arm.features).map_err(|error| error.of(format!("arm {}", arm.name)))?;
            for (score, values) in &arm.scores {
                if values.len() != arm.features.len() {
                    return Err(array(format!(
                        "score {score} has {} values for {} samples; give one a sample",
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

    /// How many arms there are; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The common width of their features.
    pub fn width(&self) -> usize {
        self.0[0].features.width()
    }

    /// The arms in the order given.
    pub fn iter(&self) -> std::slice::Iter<'_, RecordedArm> {
        self.0.iter()
    }

    /// Their names in the order given.
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

/// A set needs two rows before anything can be said about pairs.
pub(crate) fn check_rows(features: &Features) -> Result<()> {
    if features.len() < 2 {
        return Err(Error::Array {
            origin: "features".into(),
            problem: "there is 1 row; at least 2 samples are needed to compare pairs".into(),
        });
    }
    Ok(())
}
