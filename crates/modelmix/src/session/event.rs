//! Events: every change of a session as data. Replaying the events of a session restores it, on any processor and in any later
//! release.

use serde::{Deserialize, Serialize};

use super::stopping::StopCheck;
use super::{Values, encode};
use crate::error::{Error, Result};
use crate::features::Features;
use crate::loss::Scores;
use crate::policy::AnyPolicy;

/// A change of a session.
///
/// Events contain the decisions as well as the input. Applying an event uses its decisions and computes only sums, so that
/// another processor or release, whose arithmetic rounds differently, restores the same choices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Event<P = AnyPolicy> {
    /// An arm was asked for samples.
    Asked(Asked<P>),
    /// An arm answered.
    Told(Told),
    /// A pull was abandoned.
    Abandoned {
        /// The pull's id.
        pull: u64,
    },
    /// All samples of an arm were forgotten.
    Forgotten {
        /// The arm, as an index.
        arm: usize,
    },
    /// Known samples were added, which the session had not asked for.
    Known(Known),
}

/// A pull, and the state of the policy after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Asked<P = AnyPolicy> {
    /// The pull's id; pulls are numbered from 0.
    pub pull: u64,
    /// The arm, as an index.
    pub arm: usize,
    /// Number of samples asked for.
    pub count: usize,
    /// The policy after the choice; `None` if it did not change.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub policy: Option<P>,
    /// Number of words drawn from the session's random generator after the choice; `None` if the choice drew none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<u64>,
}

fn none<P>() -> Option<P> {
    None
}

/// The answer to a pull.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Told {
    /// The pull's id.
    pub pull: u64,
    /// The samples.
    pub answer: Answer,
    /// The decisions on the samples; those that are missing are made when the event is applied.
    #[serde(default, skip_serializing_if = "Decisions::is_empty")]
    pub decisions: Decisions,
}

/// Known samples of an arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Known {
    /// The arm, as an index.
    pub arm: usize,
    /// The samples.
    pub answer: Answer,
    /// Whether they belong to the collected pool.
    #[serde(default, skip_serializing_if = "KnownAs::is_evidence")]
    pub known_as: KnownAs,
    /// The decisions on the samples; those that are missing are made when the event is applied.
    #[serde(default, skip_serializing_if = "Decisions::is_empty")]
    pub decisions: Decisions,
}

/// How known samples are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum KnownAs {
    /// Only as evidence for K̂, f̂ and their widths.
    #[default]
    Evidence,
    /// Also as part of the collected pool: its shares, its loss and its number of samples.
    Collected,
}

impl KnownAs {
    fn is_evidence(&self) -> bool {
        *self == Self::Evidence
    }
}

/// Samples as they were told to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Answer {
    /// As features.
    Features {
        /// Number of columns.
        width: usize,
        /// The values, row by row.
        #[serde(with = "encode")]
        values: Vec<f32>,
        /// The scores that the objective needs, one value per sample.
        #[serde(default, skip_serializing_if = "Scores::is_empty")]
        scores: Scores,
    },
    /// As values of κ and f, for sessions on values.
    Values(Vec<SampleValues>),
}

/// One sample of [`Answer::Values`]; see [`Values`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleValues {
    /// κ(new, each earlier sample), in the order told.
    #[serde(with = "encode")]
    pub kappa: Vec<f64>,
    /// κ(new, new).
    pub own: f64,
    /// f(new).
    pub linear: f64,
}

/// The decisions of a session on incoming samples. Each depends on floating-point numbers, so it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Decisions {
    /// Whether each sample is kept, if the session keeps only some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Vec<bool>>,
    /// Which of the arm's drift detectors raised an alarm, as indices 0 and 1; `None` without drift detection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rang: Option<Vec<usize>>,
    /// The result of a stopping check, if one was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_check: Option<StopCheck>,
    /// The bandwidth, if it was chosen with these samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<f64>,
}

impl Decisions {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether they fit this number of samples in a session with this number of arms.
    pub(super) fn fit(&self, samples: usize, arms: usize) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.len() == samples)
            && self.stop_check.as_ref().is_none_or(|stop_check| {
                stop_check.unsure.iter().all(|&arm| arm < arms)
                    && stop_check.verdict.as_ref().is_none_or(|verdict| verdict.mixture.len() == arms)
            })
    }
}

impl Answer {
    /// Features without scores.
    pub fn features(features: &Features) -> Self {
        Self::scored(features, &Scores::new())
    }

    /// Features with the scores that the objective needs.
    pub fn scored(features: &Features, scores: &Scores) -> Self {
        Self::Features { width: features.width(), values: features.values().to_vec(), scores: scores.clone() }
    }

    /// Values of κ and f.
    pub fn values(samples: &[Values<'_>]) -> Self {
        let sample =
            |values: &Values<'_>| SampleValues { kappa: values.kappa.to_vec(), own: values.own, linear: values.linear };
        Self::Values(samples.iter().map(sample).collect())
    }
}

impl<P> Event<P> {
    /// The answer to a pull; its decisions are made when it is performed.
    pub fn told(pull: u64, answer: Answer) -> Self {
        Self::Told(Told { pull, answer, decisions: Decisions::default() })
    }

    /// Known samples of an arm; the decisions on them are made when the event is performed.
    pub fn known(arm: usize, answer: Answer, known_as: KnownAs) -> Self {
        Self::Known(Known { arm, answer, known_as, decisions: Decisions::default() })
    }

    /// A short description of the event.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Asked(asked) => format!("asked (pull {})", asked.pull),
            Self::Told(told) => format!("told (pull {})", told.pull),
            Self::Abandoned { pull } => format!("abandoned (pull {pull})"),
            Self::Forgotten { arm } => format!("forgotten (arm {arm})"),
            Self::Known(known) => format!("known (arm {})", known.arm),
        }
    }

    /// Compares recorded decisions with recomputed ones.
    pub(super) fn compare(&self, taken: &Decisions, found: &Decisions) -> Result<()> {
        if found == taken {
            return Ok(());
        }
        self.error(format!("has the decisions {taken:?}, but recomputed they are {found:?}"))
    }

    pub(super) fn error<T>(&self, problem: impl Into<String>) -> Result<T> {
        Err(Error::Event { event: self.name(), problem: problem.into() })
    }
}
