//! Parametric bootstrap: draws of the gradient, and the weights and gains that result from them.

use super::centre::Centre;
use crate::compute::{Matrix, Stop};
use crate::error::Result;
use crate::influence::{GradientKind, Influences};
use crate::random::Random;
use crate::simplex::Bounds;

/// The number of programs that are solved for one set of bounds, and for all of them together.
pub(super) const DRAWS_PER_FACE: usize = 1000;
pub(super) const TOTAL_DRAWS: usize = 20_000;
/// The minimum number of draws, so that some lie beyond the ends of an interval.
pub(super) const MIN_DRAWS: usize = 200;

/// Weights and gains of all draws.
pub(super) struct Draws {
    pub(super) centre: Centre,
    /// Per arm: its weight in every draw, sorted.
    weights: Vec<Vec<f64>>,
    /// Per arm: its loss minus that of the mixture in every draw, relative to the centre, sorted.
    gains: Vec<Vec<f64>>,
    /// The mean optimism: how much better the best mixture of the samples scores on them than in truth.
    pub(super) optimism: f64,
    /// Per arm: its unbiased loss alone.
    singles: Vec<f64>,
    /// The covariance of the gradient, then of the losses of the arms minus that of the mixture.
    covariance: Matrix,
}

impl Draws {
    /// Makes `count` draws around the unbiased optimum within the bounds.
    pub(super) fn new(
        centre: Centre,
        influences: &Influences,
        bounds: &Bounds,
        count: usize,
        stop: &Stop,
    ) -> Result<Self> {
        let arms = centre.weights.len();
        let covariance = influences.joint_covariance(&centre.weights, GradientKind::Gradient);
        let factor = covariance.factor();
        // A fixed seed: intervals are deterministic, like the weights.
        let mut random = Random::seeded(0);
        let mut solver = centre.solver(bounds)?;
        let (mut weights, mut gains) = (vec![Vec::with_capacity(count); arms], vec![Vec::with_capacity(count); arms]);
        let mut optimism = 0.0;
        for _ in 0..count {
            stop.check()?;
            let normal: Vec<f64> = (0..factor.columns()).map(|_| random.normal()).collect();
            let noise = factor.apply(&normal);
            let (found, below) = centre.perturbed_optimum(&noise[..arms], bounds, &mut solver)?;
            weights.iter_mut().zip(found).for_each(|(drawn, weight)| drawn.push(weight));
            gains.iter_mut().zip(&noise[arms..]).for_each(|(drawn, noise)| drawn.push(noise + below));
            optimism += below / count as f64;
        }
        weights.iter_mut().chain(&mut gains).for_each(|drawn| drawn.sort_by(f64::total_cmp));
        let singles = (0..arms).map(|arm| influences.form().single(arm)).collect();
        Ok(Self { centre, singles, weights, gains, optimism, covariance })
    }

    /// The quantile of an arm's weight over the draws.
    pub(super) fn weight_quantile(&self, arm: usize, share: f64) -> f64 {
        quantile(&self.weights[arm], share)
    }

    /// The share of draws in which an arm's weight is above its floor.
    pub(super) fn positive_share(&self, arm: usize, bounds: &Bounds) -> f64 {
        let floor = bounds.clamped(arm, 0.0);
        let without = self.weights[arm].partition_point(|&weight| weight <= floor);
        1.0 - without as f64 / self.weights[arm].len() as f64
    }

    /// The quantile, over the draws, of an arm's loss minus that of the mixture.
    pub(super) fn gain_quantile(&self, arm: usize, share: f64) -> f64 {
        self.gain_estimate(arm) + quantile(&self.gains[arm], share)
    }

    /// The unbiased loss of an arm minus that of the mixture, which was optimised on the same samples.
    pub(super) fn gain_estimate(&self, arm: usize) -> f64 {
        self.singles[arm] - self.centre.value
    }

    /// The standard error of an arm's loss minus that of the mixture.
    pub(super) fn gain_error(&self, arm: usize) -> f64 {
        self.gain_covariance(arm, arm).max(0.0).sqrt()
    }

    /// The standard error of the difference of two arms' losses.
    pub(super) fn loss_difference_error(&self, left: usize, right: usize) -> f64 {
        let variance = self.gain_covariance(left, left) + self.gain_covariance(right, right)
            - 2.0 * self.gain_covariance(left, right);
        variance.max(0.0).sqrt()
    }

    fn gain_covariance(&self, i: usize, j: usize) -> f64 {
        self.covariance.at(self.weights.len() + i, self.weights.len() + j)
    }
}

/// The quantile of sorted values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((share * sorted.len() as f64) as usize).min(sorted.len() - 1)]
}
