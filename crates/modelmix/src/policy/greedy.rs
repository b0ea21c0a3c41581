//! The quadratic program without an exploration bonus. Often fast, but an arm that looks bad early may never be pulled
//! again.

use serde::{Deserialize, Serialize};

use super::{Choice, Evidence, Policy, WorkingSet, draw};
use crate::error::Result;
use crate::random::Random;
use crate::simplex::Bounds;

/// Samples from the weights of the quadratic program, without exploration.
///
/// One pull per arm first; then α = argmin L̂(α), and a random arm with probabilities α.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greedy {
    start: WorkingSet,
}

impl Policy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn choose(&self, evidence: &Evidence, random: &mut Random) -> Result<Choice<Self>> {
        if let Some(arm) = evidence.first_pulls(1, random) {
            return Ok(Choice::of(arm));
        }
        let support = evidence.choices(&evidence.candidates);
        let form = &evidence.form;
        let (solution, next) = self.start.solve(form, &Bounds::support(evidence.arms(), &support))?;
        let arm = draw(&solution.weights, form, &support, random);
        Ok(Choice { arm, next: next.map(|start| Self { start }) })
    }

    fn fits(&self, arms: usize) -> bool {
        self.start.fits(arms)
    }
}
