//! Mixture-UCB-CAB, Algorithm 1 of the paper: solves the quadratic program with an exploration bonus and samples from
//! its weights.

use serde::{Deserialize, Serialize};

use super::{Choice, Evidence, Policy, Widths, WorkingSet, draw};
use crate::error::Result;
use crate::random::Random;
use crate::simplex::Bounds;

/// Mixture-UCB-CAB (Algorithm 1): samples from the weights of an optimistic quadratic program.
///
/// One pull per arm first; then α = argmin L̂(α) − εᵀα, and a random arm with probabilities α.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cab {
    widths: Widths,
    start: WorkingSet,
}

impl Cab {
    /// Creates the policy with these constants.
    pub fn new(widths: Widths) -> Self {
        Self { widths, start: WorkingSet::default() }
    }
}

impl Policy for Cab {
    fn name(&self) -> &'static str {
        "cab"
    }

    fn choose(&self, evidence: &Evidence, random: &mut Random) -> Result<Choice<Self>> {
        if let Some(arm) = evidence.first_pulls(1, random) {
            return Ok(Choice::of(arm));
        }
        let support = evidence.choices(&evidence.candidates);
        let mut form = evidence.form.clone();
        for &arm in &support {
            form.linear_mut()[arm] -= self.widths.of(evidence, arm);
        }
        let (solution, next) = self.start.solve(&form, &Bounds::support(evidence.arms(), &support))?;
        let arm = draw(&solution.weights, &form, &support, random);
        Ok(Choice { arm, next: next.map(|start| Self { start, ..self.clone() }) })
    }

    fn fits(&self, arms: usize) -> bool {
        self.widths.are_valid() && self.start.fits(arms)
    }
}
