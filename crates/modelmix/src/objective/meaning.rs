//! The name and direction of an objective's score, and warnings about terms that are minimised against their usual direction.

use serde::{Deserialize, Serialize};

use super::{Measure, Objective, Term};
use crate::metrics::more_is_better;

/// The name of the score of a sum of terms.
const LOSS_NAME: &str = "loss";

/// The factor of MMD² in reports, as its name "MMD² ×100" tells: with a bounded kernel it is often below 0.01.
pub(crate) const MMD_SCALE: f64 = 100.0;

/// The name of a score, and whether higher is better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ScoreMeaning {
    /// The name in reports: "RKE", "MMD² ×100", "KID"; "loss" if the objective has several terms.
    pub name: String,
    /// Whether higher is better.
    pub more_is_better: bool,
}

impl ScoreMeaning {
    /// The score of an objective. An objective of one term has the score of that term. A sum of several has the loss, since the
    /// score of one term does not tell which mixture is better.
    pub fn of(objective: &Objective) -> Self {
        match objective.terms() {
            [Term { weight, measure }] => {
                let (name, more_is_better) = match measure {
                    Measure::Rke { .. } => ("RKE", true),
                    Measure::Mmd { .. } => ("MMD² ×100", false),
                    Measure::Kid => ("KID", false),
                    Measure::Fid => ("FID", false),
                    Measure::Vendi { .. } => ("Vendi", true),
                    // Their sign tells the direction: the loss falls as a score with a negative weight rises.
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
    /// Warnings about terms that are minimised against their usual direction: precision with a plus, cost with a minus. Each
    /// names the term and the objective to write instead. Custom scores have no usual direction, unless they are named like a
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
        // Such an objective is refused elsewhere.
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
    /// Whether all terms are precision and density with plus signs; such an objective would be minimised by the worst samples.
    pub(crate) fn is_reversed_quality(&self) -> bool {
        let is_quality = |measure: &Measure| matches!(measure, Measure::Precision { .. } | Measure::Density { .. });
        self.terms.iter().all(|term| is_quality(&term.measure) && term.weight > 0.0)
    }
}

impl Measure {
    /// Whether higher is better for a linear measure; `None` for measures whose sign is checked elsewhere, and for scores of
    /// unknown direction.
    fn linear_direction(&self) -> Option<bool> {
        match self {
            Measure::Precision { .. } | Measure::Density { .. } => Some(true),
            Measure::Cost => Some(false),
            Measure::Score { name } => more_is_better(name),
            Measure::Rke { .. } | Measure::Mmd { .. } | Measure::Kid | Measure::Fid | Measure::Vendi { .. } => None,
        }
    }
}
