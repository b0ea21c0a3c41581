//! Sparse-Mixture-UCB-CAB, Algorithm 3 of the paper: every arm costs a fee a round until it is unsubscribed for good.

use serde::{Deserialize, Serialize};

use super::{Evidence, Policy, Widths, draw, is_subset};
use crate::error::Result;
use crate::quadratic::Quadratic;
use crate::random::Random;
use crate::simplex::{Bounds, Solver, minimize};

/// Mixture-UCB-CAB on the subscribed arms S. Before every pull, while the cost without some arm, C′, is at most the cost
/// with it, C, both at the unfavourable end of their widths, the arm whose loss hurts least is unsubscribed:
///
/// C = min over S of L̂(α) − εᵀα + λ|S|, C′ = min over i of min over S∖{i} of L̂(α) + εᵀα + λ(|S| − 1).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sparse {
    widths: Widths,
    /// λ.
    fee: f64,
    /// How much λ grows a round while more than `keep` arms are subscribed; 0 for a fixed fee.
    fee_step: f64,
    /// Never fewer arms than this.
    keep: usize,
    subscribed: Vec<usize>,
    solver: Solver,
}

impl Sparse {
    /// With a fixed fee λ a round and arm.
    pub fn with_fee(arms: usize, widths: Widths, fee: f64) -> Self {
        Self { widths, fee, fee_step: 0.0, keep: 1, subscribed: (0..arms).collect(), solver: Solver::default() }
    }

    /// Down to `keep` arms: λ starts at 0 and grows by `fee_step` a round until so many are left.
    pub fn with_arms(arms: usize, widths: Widths, keep: usize, fee_step: f64) -> Self {
        Self { fee_step, keep: keep.max(1), ..Self::with_fee(arms, widths, 0.0) }
    }

    /// λ, as it is now.
    pub fn fee(&self) -> f64 {
        self.fee
    }

    /// The forms L̂ − εᵀα and L̂ + εᵀα.
    fn bounds_of_loss(&self, evidence: &Evidence<'_>, arms: &[usize]) -> (Quadratic, Quadratic) {
        let (mut lower, mut upper) = (evidence.statistics().biased(), evidence.statistics().biased());
        for &arm in arms {
            let width = self.widths.of(evidence, arm);
            lower.linear_mut()[arm] -= width;
            upper.linear_mut()[arm] += width;
        }
        (lower, upper)
    }

    /// The arm that can be spared best, and min L̂ + εᵀα without it.
    fn worst(upper: &Quadratic, arms: &[usize], random: &mut Random) -> Result<(usize, f64)> {
        let best = minimize(upper, &Bounds::support(upper.arms(), arms))?;
        let without = |arm: usize| -> Result<f64> {
            // An arm without weight in the best mixture can go without changing it.
            if best.weights[arm] == 0.0 {
                return Ok(best.value);
            }
            let others: Vec<usize> = arms.iter().copied().filter(|&other| other != arm).collect();
            Ok(minimize(upper, &Bounds::support(upper.arms(), &others))?.value)
        };
        let values = arms.iter().map(|&arm| without(arm)).collect::<Result<Vec<f64>>>()?;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        // Arms that can be spared equally well differ by the solver's rounding, which must not choose between them.
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

    fn choose(&mut self, evidence: &Evidence<'_>, random: &mut Random) -> Result<usize> {
        if let Some(arm) = evidence.first_pulls(1, random).filter(|arm| self.subscribed.contains(arm)) {
            return Ok(arm);
        }
        if self.subscribed.len() > self.keep {
            self.fee += self.fee_step;
        }
        loop {
            let known: Vec<usize> = self.subscribed.iter().copied().filter(|&arm| evidence.is_known(arm)).collect();
            let arms = if known.is_empty() { &self.subscribed } else { &known };
            let (lower, upper) = self.bounds_of_loss(evidence, arms);
            let open = evidence.choices(arms);
            if arms.len() > 1 && self.subscribed.len() > self.keep {
                let with = minimize(&lower, &Bounds::support(evidence.arms(), arms))?.value + self.fee;
                let (arm, without) = Self::worst(&upper, arms, random)?;
                if without <= with {
                    self.subscribed.retain(|&other| other != arm);
                    continue;
                }
            }
            let solution = self.solver.solve(&lower, &Bounds::support(evidence.arms(), &open))?;
            return Ok(draw(&solution.weights, &lower, &open, random));
        }
    }

    fn support(&self) -> Option<&[usize]> {
        Some(&self.subscribed)
    }

    fn fits(&self, arms: usize) -> bool {
        let fees = self.fee.is_finite() && self.fee >= 0.0 && self.fee_step.is_finite() && self.fee_step >= 0.0;
        self.widths.are_valid() && fees && self.keep > 0 && is_subset(&self.subscribed, arms)
    }
}
