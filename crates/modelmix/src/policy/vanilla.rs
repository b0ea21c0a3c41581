//! Vanilla-UCB, a baseline of the paper: upper confidence bounds of single arms, without mixtures.

use serde::{Deserialize, Serialize};

use super::{Choice, Evidence, Policy, Widths};
use crate::error::Result;
use crate::random::Random;

/// Vanilla-UCB: best-arm identification by upper confidence bounds.
///
/// One pull per arm first, then the arm with the smallest L̂(e_i) − ε_i = K̂_ii + f̂_i − ε_i.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vanilla {
    widths: Widths,
}

impl Vanilla {
    /// Creates the policy with these constants.
    pub fn new(widths: Widths) -> Self {
        Self { widths }
    }
}

impl Policy for Vanilla {
    fn name(&self) -> &'static str {
        "vanilla"
    }

    fn choose(&self, evidence: &Evidence, random: &mut Random) -> Result<Choice<Self>> {
        if let Some(arm) = evidence.first_pulls(1, random) {
            return Ok(Choice::of(arm));
        }
        let index = |arm: usize| evidence.form.single(arm) - self.widths.of(evidence, arm);
        Ok(Choice::of(random.smallest(&evidence.choices(&evidence.candidates), index)))
    }

    fn fits(&self, _: usize) -> bool {
        self.widths.are_valid()
    }
}
