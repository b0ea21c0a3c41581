//! Mixture-UCB-OGD, Algorithm 2 of the paper: one step down the gradient at the present proportions.

use serde::{Deserialize, Serialize};

use super::{Evidence, Policy, Widths};
use crate::error::Result;
use crate::random::Random;

/// The arm with the smallest (2/t)·(K̂n)_i + f̂_i − ε_i. One pull an arm first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ogd {
    widths: Widths,
}

impl Ogd {
    /// With these constants.
    pub fn new(widths: Widths) -> Self {
        Self { widths }
    }
}

impl Policy for Ogd {
    fn name(&self) -> &'static str {
        "ogd"
    }

    fn choose(&mut self, evidence: &Evidence<'_>, random: &mut Random) -> Result<usize> {
        if let Some(arm) = evidence.first_pulls(1, random) {
            return Ok(arm);
        }
        let form = evidence.statistics().biased();
        let gradient = |arm: usize| {
            2.0 / evidence.total() as f64 * evidence.weighted_row(&form, arm) + form.linear()[arm]
                - self.widths.of(evidence, arm)
        };
        Ok(random.smallest(&evidence.choices(evidence.candidates()), gradient))
    }

    fn fits(&self, _: usize) -> bool {
        self.widths.are_valid()
    }
}
