//! Mixture-UCB-OGD, Algorithm 2 of the paper: one gradient step at the present proportions.

use serde::{Deserialize, Serialize};

use super::{Choice, Evidence, Policy, Widths};
use crate::error::Result;
use crate::random::Random;

/// Mixture-UCB-OGD (Algorithm 2): one optimistic gradient step per pull.
///
/// One pull per arm first, then the arm with the smallest (2/t)·(K̂n)_i + f̂_i − ε_i, with n and t of the collected
/// pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ogd {
    widths: Widths,
}

impl Ogd {
    /// Creates the policy with these constants.
    pub fn new(widths: Widths) -> Self {
        Self { widths }
    }
}

impl Policy for Ogd {
    fn name(&self) -> &'static str {
        "ogd"
    }

    fn choose(&self, evidence: &Evidence, random: &mut Random) -> Result<Choice<Self>> {
        if let Some(arm) = evidence.first_pulls(1, random) {
            return Ok(Choice::of(arm));
        }
        let index = |arm: usize| evidence.slope(arm) - self.widths.of(evidence, arm);
        Ok(Choice::of(random.smallest(&evidence.choices(&evidence.candidates), index)))
    }

    fn fits(&self, _: usize) -> bool {
        self.widths.are_valid()
    }
}
