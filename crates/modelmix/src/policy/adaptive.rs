//! The default: an upper-confidence Frank-Wolfe step whose widths come from the data, so that there is nothing to tune.

use serde::{Deserialize, Serialize};

use super::{Choice, Evidence, Policy};
use crate::confidence::{adaptive_width, pooled_variances};
use crate::error::Result;
use crate::random::Random;

/// One pull per arm, then always the arm with the smallest
///
/// f̂_i + 2 Σ_j K̂_ij n_j / t − √(v_i ln⁺(t/(m n_i)) / n_i),
///
/// the slope of the loss toward arm i, less a width. n and t are those of the collected pool in the slope, and those of all
/// samples, known ones included, in the width. v_i is the variance of a sample's share in the slope, pooled a little over
/// arms; an arm with a fair part of the samples, t/m, has no width left, so that only neglected ones are looked at again (as in
/// MOSS). Pulls in flight count in n, not in K̂, f̂, v. How the rule was found is in `experiments/policies`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptive {}

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn choose(&self, evidence: &Evidence, random: &mut Random) -> Result<Choice<Self>> {
        if let Some(arm) = evidence.first_pulls(1, random) {
            return Ok(Choice::of(arm));
        }
        let variances = pooled_variances(&evidence.scatter, &evidence.answered);
        let (arms, total) = (evidence.known().len(), evidence.total());
        let index = |arm: usize| evidence.slope(arm) - adaptive_width(variances[arm], arms, total, evidence.count(arm));
        Ok(Choice::of(random.smallest(&evidence.choices(&evidence.candidates), index)))
    }
}
