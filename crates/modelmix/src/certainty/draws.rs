//! Other samples that might have been: draws of the gradient, and the weights and gains that they would have led to.

use super::centre::{Centre, only};
use crate::compute::{Matrix, check_stopped};
use crate::error::Result;
use crate::influence::{Functional, Influences};
use crate::normal;
use crate::random::Random;
use crate::simplex::{Bounds, Solver};
use crate::statistics::Statistics;

/// How many programs are solved.
const DRAWS: usize = 1000;

/// What draws lead to.
pub(super) struct Draws {
    pub(super) centre: Centre,
    /// By arm, its weight in every draw, from small to large.
    weights: Vec<Vec<f64>>,
    /// By arm, its loss less the mixture's in every draw, less what it is at the centre, from small to large.
    gains: Vec<Vec<f64>>,
    /// How much better the best mixture of the samples looks on them than it is, on average.
    pub(super) optimism: f64,
    /// The covariance of the arms' losses less the mixture's.
    covariance: Vec<f64>,
}

impl Draws {
    /// Around the unbiased optimum within the bounds.
    pub(super) fn new(
        statistics: &Statistics,
        influences: &Influences,
        bounds: &Bounds,
        start: &[f64],
    ) -> Result<Self> {
        let centre = Centre::new(statistics, influences, bounds, start)?;
        let arms = start.len();
        let gradient = (0..arms).map(|arm| Functional::gradient(arm, &centre.weights));
        let gains = (0..arms).map(|arm| Functional::difference(&only(arm, arms), &centre.weights));
        let covariance = influences.covariance(&gradient.chain(gains).collect::<Vec<_>>());
        let size = 2 * arms;
        let factor = Matrix::from_fn(size, size, |i, j| covariance[i * size + j]).factor();
        // The same numbers for the same samples: an interval is no more random than the weights.
        let mut random = Random::seeded(0);
        let mut solver = Solver::default();
        let (mut weights, mut gains) = (vec![Vec::with_capacity(DRAWS); arms], vec![Vec::with_capacity(DRAWS); arms]);
        let mut optimism = 0.0;
        for _ in 0..DRAWS {
            check_stopped();
            let normal: Vec<f64> = (0..factor.columns()).map(|_| random.normal()).collect();
            let noise = factor.apply(&normal);
            let (found, below) = centre.moved(&noise[..arms], bounds, &mut solver)?;
            weights.iter_mut().zip(found).for_each(|(drawn, weight)| drawn.push(weight));
            gains.iter_mut().zip(&noise[arms..]).for_each(|(drawn, noise)| drawn.push(noise + below));
            optimism += below / DRAWS as f64;
        }
        weights.iter_mut().chain(&mut gains).for_each(|drawn| drawn.sort_by(f64::total_cmp));
        let covariance = (0..arms * arms).map(|at| covariance[(arms + at / arms) * size + arms + at % arms]).collect();
        Ok(Self { centre, weights, gains, optimism, covariance })
    }

    /// The weight of an arm below which so large a share of the draws lies.
    pub(super) fn weight(&self, arm: usize, share: f64) -> f64 {
        at(&self.weights[arm], share)
    }

    /// The share of draws in which an arm has more than the bounds make it have.
    pub(super) fn positive(&self, arm: usize, bounds: &Bounds) -> f64 {
        let floor = bounds.clamped(arm, 0.0);
        let without = self.weights[arm].partition_point(|&weight| weight <= floor);
        1.0 - without as f64 / self.weights[arm].len() as f64
    }

    /// Whether the optimum that draws are around, which is one of fewer arms, may be that of all: no other arm's gradient is
    /// below the mixture's by more than errors explain, all but so large a share of the time.
    pub(super) fn may_be_best(&self, influences: &Influences, bounds: &Bounds, tail: f64) -> bool {
        let weights = &self.centre.weights;
        let arms = weights.len();
        let gradient = self.centre.unbiased.gradient(weights);
        let covariance = influences.gradient_covariance(weights);
        let limit = normal::quantile(tail / arms as f64);
        bounds.usable().into_iter().all(|arm| {
            let direction: Vec<f64> =
                (0..arms).map(|other| f64::from(u8::from(other == arm)) - weights[other]).collect();
            let slope: f64 = gradient.iter().zip(&direction).map(|(g, v)| g * v).sum();
            let variance: f64 =
                (0..arms * arms).map(|at| direction[at / arms] * direction[at % arms] * covariance[at]).sum();
            slope >= limit * variance.max(0.0).sqrt()
        })
    }

    /// The loss of an arm less the mixture's below which so large a share of the draws lies.
    pub(super) fn gain(&self, arm: usize, share: f64) -> f64 {
        self.estimate(arm) + at(&self.gains[arm], share)
    }

    /// Its unbiased loss less the mixture's, which was optimised on the same samples.
    pub(super) fn estimate(&self, arm: usize) -> f64 {
        self.centre.unbiased.single(arm) - self.centre.value
    }

    /// The standard error of an arm's loss less the mixture's.
    pub(super) fn error(&self, arm: usize) -> f64 {
        self.between(arm, arm).max(0.0).sqrt()
    }

    /// That of the difference of two arms' losses.
    pub(super) fn error_between(&self, left: usize, right: usize) -> f64 {
        let variance = self.between(left, left) + self.between(right, right) - 2.0 * self.between(left, right);
        variance.max(0.0).sqrt()
    }

    fn between(&self, i: usize, j: usize) -> f64 {
        self.covariance[i * self.weights.len() + j]
    }
}

/// The value below which so large a share of the sorted values lies.
fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[((share * sorted.len() as f64) as usize).min(sorted.len() - 1)]
}
