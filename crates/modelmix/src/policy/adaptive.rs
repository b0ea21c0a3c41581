//! The default policy: an upper-confidence Frank-Wolfe step with widths estimated from the data. It has no constants to
//! tune.

use serde::{Deserialize, Serialize};

use super::{Choice, Evidence, Policy};
use crate::confidence::{adaptive_width, pooled_variances};
use crate::error::Result;
use crate::random::Random;

/// The default policy: upper confidence bounds on the slope of the loss, estimated from the data.
///
/// One pull per arm first, then always the arm with the smallest
///
/// f̂_i + 2 Σ_j K̂_ij n_j / t − √(v_i ln⁺(t/(m n_i)) / n_i),
///
/// which is the slope of the loss toward arm i minus a confidence width. In the slope, n and t count the collected
/// pool; in the width, they count all samples, including known ones. v_i is the variance of a sample's contribution to
/// the slope, partially pooled over arms. An arm with its equal share of the samples, t/m, has width zero, so only
/// neglected arms are explored again (as in MOSS). Pulls in flight count in n, but not in K̂, f̂ and v.
/// `experiments/policies` describes how the rule was found.
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
