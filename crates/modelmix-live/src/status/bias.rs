//! How far missing samples could bias a run: refusals, empty answers and time-outs are not missing at random.

use modelmix::Ranges;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tally::ArmCounts;

/// A bound on the change of the loss of a mixture if the missing samples were known, for any such samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bias {
    /// The share of the requested samples that are missing, per arm.
    pub missing: Vec<f64>,
    /// The share in the best mixture.
    pub share: f64,
    /// The loss of the best mixture would change by at most this much; absent if the kernel or a score has no bounded range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

impl Bias {
    /// The bound for a mixture; `None` if no samples are missing.
    ///
    /// With a share s of the mixture's samples missing, its true distribution is (1 − s)P + sQ for the observed P and an unknown
    /// Q. The pairs with both samples observed have the share (1 − s)², so the mean of κ changes by at most Δκ(1 − (1 − s)²), and that of f by at
    /// most sΔf.
    pub fn new(arms: &[&ArmCounts], weights: &[f64], ranges: Option<Ranges>) -> Option<Self> {
        let missing: Vec<f64> = arms.iter().map(|counts| share(counts)).collect();
        if missing.iter().all(|&share| share == 0.0) {
            return None;
        }
        let share: f64 = weights.iter().zip(&missing).map(|(weight, missing)| weight * missing).sum();
        let loss = ranges.map(|ranges| {
            let linear = ranges.linear.1 - ranges.linear.0;
            ranges.kappa_width() * (1.0 - (1.0 - share).powi(2)) + linear * share
        });
        Some(Self { missing, share, loss: loss.filter(|loss| loss.is_finite()) })
    }
}

/// The share of an arm's pulls that ended without samples.
fn share(counts: &ArmCounts) -> f64 {
    let ended = counts.answered + counts.lost;
    if ended == 0 { 0.0 } else { counts.lost as f64 / ended as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(answered: u64, lost: u64) -> ArmCounts {
        ArmCounts { answered, lost, ..ArmCounts::default() }
    }

    #[test]
    fn nothing_missing_is_no_bias() {
        assert_eq!(Bias::new(&[&counts(10, 0), &counts(0, 0)], &[0.5, 0.5], None), None);
    }

    /// A worst case by hand: half of the mixture's samples are missing and differ from all others, κ from 0 to 1.
    #[test]
    fn the_bound_is_reached() {
        let ranges = Ranges { kappa: (0.0, 1.0), linear: (0.0, 2.0) };
        let bias = Bias::new(&[&counts(5, 5), &counts(10, 0)], &[1.0, 0.0], Some(ranges)).expect("some are missing");
        // Observed samples are identical, κ = 1; missing ones are orthogonal to them and to each other: E[κ] = 1/4.
        let (observed, true_value) = (1.0, 0.25);
        assert_eq!(bias.share, 0.5);
        assert_eq!(bias.loss, Some(observed - true_value + 0.5 * 2.0));
        let other = Bias::new(&[&counts(5, 5), &counts(10, 0)], &[0.0, 1.0], Some(ranges)).expect("some are missing");
        assert_eq!((other.share, other.loss), (0.0, Some(0.0)));
    }
}
