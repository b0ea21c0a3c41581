//! The default: an upper-confidence Frank-Wolfe step whose widths come from the data, so that there is nothing to tune.

use serde::{Deserialize, Serialize};

use super::{Evidence, Policy};
use crate::confidence::{adaptive_width, pooled_variances};
use crate::error::Result;
use crate::random::Random;

/// Two pulls an arm, then always the arm with the smallest
///
/// f̂_i + (2 Σ_j K̂_ij n_j + K̂_ii)/(t + 1) − √(2 v_i ln(t/n_i) / n_i),
///
/// which is, up to a constant, what the loss would change by with one more sample of arm i, less a width. v_i is the
/// variance of a sample's share in the gradient, pooled a little over arms. Pulls in flight count in n, not in K̂, f̂, v.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Adaptive {}

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn choose(&mut self, evidence: &Evidence<'_>, random: &mut Random) -> Result<usize> {
        if let Some(arm) = evidence.first_pulls(2, random) {
            return Ok(arm);
        }
        let statistics = evidence.statistics();
        let form = statistics.biased();
        let variances = pooled_variances(&statistics.gradient_scatter(), statistics.counts());
        let total = evidence.total();
        let index = |arm: usize| {
            let gradient =
                form.linear()[arm] + (2.0 * evidence.weighted_row(&form, arm) + form.at(arm, arm)) / (total + 1) as f64;
            gradient - adaptive_width(variances[arm], total, evidence.count(arm))
        };
        Ok(random.smallest(&evidence.choices(evidence.candidates()), index))
    }
}
