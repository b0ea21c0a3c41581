//! Sparse-Mixture-UCB-CAB, Algorithm 3 of the paper: every arm has a fee per round until it is unsubscribed
//! permanently.

use serde::{Deserialize, Serialize};

use super::{Choice, Evidence, Policy, Widths, WorkingSet, draw, is_size, is_subset};
use crate::error::Result;
use crate::quadratic::Quadratic;
use crate::random::Random;
use crate::simplex::{Bounds, minimize};

/// Sparse-Mixture-UCB-CAB (Algorithm 3): drops arms that are not worth their fee.
///
/// Mixture-UCB-CAB on the subscribed arms S. Before every pull, arms are unsubscribed while the cost without some arm,
/// C′, is at most the cost with it, C, both at the unfavourable ends of their widths (of answered samples). Each time
/// it is the arm whose removal increases the loss least:
///
/// C = min over S of L̂(α) − εᵀα + λ|S|, C′ = min over i of min over S∖{i} of L̂(α) + εᵀα + λ(|S| − 1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sparse {
    widths: Widths,
    /// λ, the fee per arm and round.
    fee: f64,
    /// The increase of λ per round while more than `keep` arms are subscribed; 0 for a fixed fee.
    fee_step: f64,
    /// The minimum number of arms.
    keep: usize,
    subscribed: Vec<usize>,
    start: WorkingSet,
}

impl Sparse {
    /// Creates the policy with a fixed fee λ per round and arm.
    pub fn with_fee(arms: usize, widths: Widths, fee: f64) -> Self {
        Self { widths, fee, fee_step: 0.0, keep: 1, subscribed: (0..arms).collect(), start: WorkingSet::default() }
    }

    /// Creates the policy that ends with `keep` arms: λ starts at 0 and grows by `fee_step` per round until they are
    /// left.
    pub fn with_arms(arms: usize, widths: Widths, keep: usize, fee_step: f64) -> Self {
        Self { fee_step, keep: keep.max(1), ..Self::with_fee(arms, widths, 0.0) }
    }

    /// The present λ.
    pub fn fee(&self) -> f64 {
        self.fee
    }

    /// The form L̂ + s·εᵀα with these widths.
    fn shifted(evidence: &Evidence, arms: &[usize], sign: f64, width: impl Fn(usize) -> f64) -> Quadratic {
        let mut form = evidence.form.clone();
        arms.iter().for_each(|&arm| form.linear_mut()[arm] += sign * width(arm));
        form
    }

    /// The arm to unsubscribe, if there is one. Nothing more is learned about an unsubscribed arm, so the widths are
    /// those of answered samples: pulls in flight may change anything, or never return.
    fn arm_to_drop(&self, evidence: &Evidence, arms: &[usize], random: &mut Random) -> Result<Option<usize>> {
        if arms.len() < 2 || self.subscribed.len() <= self.keep {
            return Ok(None);
        }
        let width = |arm: usize| self.widths.answered(evidence, arm);
        let lower = Self::shifted(evidence, arms, -1.0, width);
        let upper = Self::shifted(evidence, arms, 1.0, width);
        let with = minimize(&lower, &Bounds::support(evidence.arms(), arms))?.value + self.fee;
        let (arm, without) = Self::least_useful_arm(&upper, arms, random)?;
        Ok((without <= with).then_some(arm))
    }

    /// The least useful arm, and min L̂ + εᵀα without it.
    fn least_useful_arm(upper: &Quadratic, arms: &[usize], random: &mut Random) -> Result<(usize, f64)> {
        let best = minimize(upper, &Bounds::support(upper.arms(), arms))?;
        let without = |arm: usize| -> Result<f64> {
            // An arm without weight in the best mixture can be removed without changing it.
            if best.weights[arm] == 0.0 {
                return Ok(best.value);
            }
            let others: Vec<usize> = arms.iter().copied().filter(|&other| other != arm).collect();
            Ok(minimize(upper, &Bounds::support(upper.arms(), &others))?.value)
        };
        let values = arms.iter().map(|&arm| without(arm)).collect::<Result<Vec<f64>>>()?;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        // Arms that are equally useful differ by the solver's rounding error, which must not decide between them.
        let size = arms.iter().flat_map(|&i| arms.iter().map(move |&j| (i, j)));
        let size = size.fold(0.0f64, |size, (i, j)| size.max(upper.at(i, j).abs()).max(upper.linear()[i].abs()));
        let tied: Vec<usize> =
            (0..arms.len()).filter(|&position| values[position] <= least + 1e-12 * size).map(|at| arms[at]).collect();
        Ok((tied[random.below(tied.len())], least))
    }
}

impl Policy for Sparse {
    fn name(&self) -> &'static str {
        "sparse"
    }

    fn choose(&self, evidence: &Evidence, random: &mut Random) -> Result<Choice<Self>> {
        if let Some(arm) = evidence.first_pulls(1, random).filter(|arm| self.subscribed.contains(arm)) {
            return Ok(Choice::of(arm));
        }
        let mut next = self.clone();
        if next.subscribed.len() > next.keep {
            next.fee += next.fee_step;
        }
        loop {
            let known: Vec<usize> = next.subscribed.iter().copied().filter(|&arm| evidence.is_known(arm)).collect();
            let arms = if known.is_empty() { next.subscribed.clone() } else { known };
            if let Some(arm) = next.arm_to_drop(evidence, &arms, random)? {
                next.subscribed.retain(|&other| other != arm);
                continue;
            }
            let open = evidence.choices(&arms);
            let lower = Self::shifted(evidence, &arms, -1.0, |arm| next.widths.of(evidence, arm));
            let (solution, start) = next.start.solve(&lower, &Bounds::support(evidence.arms(), &open))?;
            next.start = start.unwrap_or(next.start);
            let arm = draw(&solution.weights, &lower, &open, random);
            return Ok(Choice { arm, next: (next != *self).then_some(next) });
        }
    }

    fn support(&self) -> Option<&[usize]> {
        Some(&self.subscribed)
    }

    fn fits(&self, arms: usize) -> bool {
        // The fee has grown from round to round.
        let fees = self.fee.is_finite() && self.fee >= 0.0 && is_size(self.fee_step);
        self.widths.are_valid() && fees && self.keep > 0 && is_subset(&self.subscribed, arms) && self.start.fits(arms)
    }
}
