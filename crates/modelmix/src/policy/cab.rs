//! Mixture-UCB-CAB, Algorithm 1 of the paper: solve the quadratic program with a bonus, draw from its weights.

use serde::{Deserialize, Serialize};

use super::{Evidence, Policy, Widths, draw};
use crate::error::Result;
use crate::random::Random;
use crate::simplex::{Bounds, Solver};

/// α = argmin L̂(α) − εᵀα, then an arm at random with probabilities α. One pull an arm first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cab {
    widths: Widths,
    solver: Solver,
}

impl Cab {
    /// With these constants.
    pub fn new(widths: Widths) -> Self {
        Self { widths, solver: Solver::default() }
    }
}

impl Policy for Cab {
    fn name(&self) -> &'static str {
        "cab"
    }

    fn choose(&mut self, evidence: &Evidence<'_>, random: &mut Random) -> Result<usize> {
        if let Some(arm) = evidence.first_pulls(1, random) {
            return Ok(arm);
        }
        let support = evidence.choices(evidence.candidates());
        let mut form = evidence.statistics().biased();
        for &arm in &support {
            form.linear_mut()[arm] -= self.widths.of(evidence, arm);
        }
        let solution = self.solver.solve(&form, &Bounds::support(evidence.arms(), &support))?;
        Ok(draw(&solution.weights, &form, &support, random))
    }

    fn fits(&self, _: usize) -> bool {
        self.widths.are_valid()
    }
}
