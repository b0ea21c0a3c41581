//! What the score of an objective is called, in which direction it is better, and which terms are minimised against that.

use serde::{Deserialize, Serialize};

use super::{Measure, Objective, Term};
use crate::metrics::more_is_better;

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

impl Objective {
    /// Sentences about terms that are minimised against their usual direction: precision with a plus, cost with a minus. Each names
    /// the term and how to write the objective instead. Scores of your own have no usual direction, unless they have the name of a
    /// metric.
    ///
    /// ```
    /// use modelmix::Objective;
    /// let warnings = Objective::parse("rke + 0.2*precision")?.warnings();
    /// assert!(warnings[0].contains("write \"rke - 0.2*precision\""));
    /// assert!(Objective::parse("rke - 0.2*precision")?.warnings().is_empty());
    /// # Ok::<(), modelmix::Error>(())
    /// ```
    pub fn warnings(&self) -> Vec<String> {
        // This is refused.
        if self.is_reversed_quality() {
            return Vec::new();
        }
        let is_reversed = |term: &Term| match term.measure.linear_direction() {
            Some(more_is_better) => term.weight != 0.0 && (term.weight > 0.0) == more_is_better,
            None => false,
        };
        let mut usual = self.clone();
        usual.terms.iter_mut().filter(|term| is_reversed(term)).for_each(|term| term.weight = -term.weight);
        let warning = |term: &Term| {
            let name = term.measure.name();
            let (does, better) = if term.weight > 0.0 { ("minimises", "higher") } else { ("maximises", "lower") };
            format!("the objective \"{self}\" {does} {name}, but {better} {name} is better; write \"{usual}\"")
        };
        self.terms.iter().filter(|term| is_reversed(term)).map(warning).collect()
    }
}

impl Objective {
    /// Whether it is nothing but precision and density with plus signs, which nobody wants least of.
    pub(crate) fn is_reversed_quality(&self) -> bool {
        let is_quality = |measure: &Measure| matches!(measure, Measure::Precision { .. } | Measure::Density { .. });
        self.terms.iter().all(|term| is_quality(&term.measure) && term.weight > 0.0)
    }
}

impl Measure {
    /// Whether more of a linear measure is better; none for measures whose sign is checked elsewhere, and for scores of unknown
    /// direction.
    fn linear_direction(&self) -> Option<bool> {
        match self {
            Measure::Precision { .. } | Measure::Density { .. } => Some(true),
            Measure::Cost => Some(false),
            Measure::Score { name } => more_is_better(name),
            Measure::Rke { .. } | Measure::Mmd { .. } | Measure::Kid { .. } | Measure::Fid | Measure::Vendi { .. } => {
                None
            }
        }
    }
}
