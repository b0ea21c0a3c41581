//! What the score of an objective is called, and in which direction it is better.

use serde::{Deserialize, Serialize};

use super::{Measure, Objective, Term};

/// What the score of a sum of terms is called.
const LOSS_NAME: &str = "loss";

/// What MMD² is multiplied by when it is read, as its name "MMD² ×100" says: with a bounded kernel it is often below 0.01.
pub(crate) const MMD_SCALE: f64 = 100.0;

/// How a score is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ScoreMeaning {
    /// As people write it: "RKE", "MMD² ×100", "KID"; "loss" if the objective has several terms.
    pub name: String,
    /// Whether more of it is better.
    pub more_is_better: bool,
}

impl ScoreMeaning {
    /// Of an objective. One that is a single term reads as the score of that term; a sum of several reads as the loss, since no
    /// score of a part says which mixture is better.
    pub fn of(objective: &Objective) -> Self {
        match objective.terms() {
            [Term { weight, measure }] => {
                let (name, more_is_better) = match measure {
                    Measure::Rke { .. } => ("RKE", true),
                    Measure::Mmd { .. } => ("MMD² ×100", false),
                    Measure::Kid => ("KID", false),
                    Measure::Fid => ("FID", false),
                    Measure::Vendi { .. } => ("Vendi", true),
                    // Their sign says what is wanted: a loss falls as a score with a negative weight rises.
                    Measure::Precision { .. } | Measure::Density { .. } | Measure::Cost | Measure::Score { .. } => {
                        (measure.name(), *weight < 0.0)
                    }
                };
                Self { name: name.into(), more_is_better }
            }
            _ => Self { name: LOSS_NAME.into(), more_is_better: false },
        }
    }

    /// Whether it is the loss itself, so that a table of losses needs no column for it.
    pub fn is_loss(&self) -> bool {
        self.name == LOSS_NAME
    }

    /// Whether `one` is better than `other`.
    pub fn is_better(&self, one: f64, other: f64) -> bool {
        if self.more_is_better { one > other } else { one < other }
    }
}
