//! What an objective's score is called, and which way it is good.

use serde::{Deserialize, Serialize};

use super::{Measure, Objective};

/// How a score is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreMeaning {
    /// As people write it: "RKE", "KID ×100".
    pub name: String,
    /// Whether more of it is better.
    pub more_is_better: bool,
}

impl ScoreMeaning {
    /// Of an objective: of its first term.
    pub fn of(objective: &Objective) -> Self {
        let measure = objective.terms().first().map(|term| &term.measure);
        let more = matches!(
            measure,
            Some(Measure::Rke { .. } | Measure::Vendi { .. } | Measure::Precision { .. } | Measure::Density { .. })
        );
        let name = match measure {
            Some(Measure::Rke { .. }) => "RKE".into(),
            Some(Measure::Mmd { .. }) => "MMD²".into(),
            Some(Measure::Kid { .. }) => "KID ×100".into(),
            Some(Measure::Fid) => "FID".into(),
            Some(Measure::Vendi { .. }) => "Vendi".into(),
            Some(other) => other.name().to_string(),
            None => "loss".into(),
        };
        Self { name, more_is_better: more }
    }
}
