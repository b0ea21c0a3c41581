//! Other samples that might have been: draws of the gradient, and the weights and gains that they would have led to.

use super::centre::Centre;
use crate::compute::{Matrix, Stop};
use crate::error::Result;
use crate::influence::{GradientKind, Influences};
use crate::random::Random;
use crate::simplex::Bounds;

/// How many programs are solved for one set of bounds, and for all of them together.
pub(super) const DRAWS_PER_FACE: usize = 1000;
pub(super) const TOTAL_DRAWS: usize = 20_000;
/// No fewer than these, so that there are some beyond an interval's ends.
pub(super) const MIN_DRAWS: usize = 200;

/// What draws lead to.
pub(super) struct Draws {
    pub(super) centre: Centre,
    /// By arm, its weight in every draw, from small to large.
    weights: Vec<Vec<f64>>,
    /// By arm, its loss less the mixture's in every draw, less what it is at the centre, from small to large.
    gains: Vec<Vec<f64>>,
    /// How much better the best mixture of the samples looks on them than it is, on average.
    pub(super) optimism: f64,
    /// By arm: its unbiased loss alone.
    singles: Vec<f64>,
    /// The covariance of the gradient and, below it, of the arms' losses less the mixture's.
    covariance: Matrix,
}

impl Draws {
    /// So many around the unbiased optimum within the bounds.
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
        // The same numbers for the same samples: an interval is no more random than the weights.
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

    /// The weight of an arm below which so large a share of the draws lies.
    pub(super) fn weight_quantile(&self, arm: usize, share: f64) -> f64 {
        quantile(&self.weights[arm], share)
    }

    /// The share of draws in which an arm has more than the bounds make it have.
    pub(super) fn positive_share(&self, arm: usize, bounds: &Bounds) -> f64 {
        let floor = bounds.clamped(arm, 0.0);
        let without = self.weights[arm].partition_point(|&weight| weight <= floor);
        1.0 - without as f64 / self.weights[arm].len() as f64
    }

    /// The loss of an arm less the mixture's below which so large a share of the draws lies.
    pub(super) fn gain_quantile(&self, arm: usize, share: f64) -> f64 {
        self.gain_estimate(arm) + quantile(&self.gains[arm], share)
    }

    /// Its unbiased loss less the mixture's, which was optimised on the same samples.
    pub(super) fn gain_estimate(&self, arm: usize) -> f64 {
        self.singles[arm] - self.centre.value
    }

    /// The standard error of an arm's loss less the mixture's.
    pub(super) fn gain_error(&self, arm: usize) -> f64 {
        self.gain_covariance(arm, arm).max(0.0).sqrt()
    }

    /// That of the difference of two arms' losses.
    pub(super) fn loss_difference_error(&self, left: usize, right: usize) -> f64 {
        let variance = self.gain_covariance(left, left) + self.gain_covariance(right, right)
            - 2.0 * self.gain_covariance(left, right);
        variance.max(0.0).sqrt()
    }

    fn gain_covariance(&self, i: usize, j: usize) -> f64 {
        self.covariance.at(self.weights.len() + i, self.weights.len() + j)
    }
}

/// The value below which so large a share of the sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((share * sorted.len() as f64) as usize).min(sorted.len() - 1)]
}
