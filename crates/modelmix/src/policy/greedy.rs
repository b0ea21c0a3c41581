//! The quadratic program without a bonus. Often quick, but an arm that looks bad early may never be asked again.

use serde::{Deserialize, Serialize};

use super::{Evidence, Policy, draw};
use crate::error::Result;
use crate::random::Random;
use crate::simplex::{Bounds, Solver};

/// α = argmin L̂(α), then an arm at random with probabilities α. One pull an arm first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Greedy {
    solver: Solver,
}

impl Policy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn choose(&mut self, evidence: &Evidence<'_>, random: &mut Random) -> Result<usize> {
        if let Some(arm) = evidence.first_pulls(1, random) {
            return Ok(arm);
        }
        let support = evidence.choices(evidence.candidates());
        let form = evidence.statistics().biased();
        let solution = self.solver.solve(&form, &Bounds::support(evidence.arms(), &support))?;
        Ok(draw(&solution.weights, &form, &support, random))
    }
}
