//! How far above the least loss a mixture can be, as far as samples tell.

use super::centre::{Axes, with_gradient};
use crate::compute::{Matrix, check_stopped};
use crate::error::Result;
use crate::influence::Influences;
use crate::normal;
use crate::quadratic::Quadratic;
use crate::random::Random;
use crate::simplex::{Bounds, Solver};
use crate::statistics::Statistics;

/// Curvature counts as far as it is so many standard errors above zero.
const CURVED: f64 = 2.0;
/// How many directions of noise are looked along.
const DIRECTIONS: usize = 512;
/// How far along each: noise that is farther has a probability below 1e-30 in few dimensions.
const FAR: f64 = 14.0;
/// How many draws a quantile is taken of.
const DRAWS: usize = 400;

/// L(w) − min L is φ(h) = max over mixtures α of −hᵀ(α − w) − (α − w)ᵀK(α − w), with h = 2Kw + f the gradient at w.
///
/// The gradient is known up to normal noise, ĥ + ξ, and less curvature makes φ larger. φ is convex in h. So a share 1 − δ of draws
/// φ(ĥ + ξ) lies below the truth with probability δ at most, w being fixed: where it does, ĥ lies beyond a half-space of
/// probability δ whose border touches the level set of φ at h, and which does not depend on ĥ.
pub(crate) struct Distance {
    weights: Vec<f64>,
    /// Not more curved than the loss, with the unbiased gradient at the weights.
    form: Quadratic,
    /// L with LLᵀ the covariance of the gradient, relative to its mean over the weights.
    factor: Matrix,
    bounds: Bounds,
}

impl Distance {
    pub(crate) fn new(statistics: &Statistics, influences: &Influences, weights: &[f64]) -> Self {
        let unbiased = statistics.unbiased();
        let arms = weights.len();
        let covariance = influences.gradient_covariance(weights);
        let row = |i: usize| -> f64 { (0..arms).map(|j| covariance[i * arms + j] * weights[j]).sum() };
        let rows: Vec<f64> = (0..arms).map(row).collect();
        let mean: f64 = rows.iter().zip(weights).map(|(row, weight)| row * weight).sum();
        let entry = |i: usize, j: usize| covariance[i * arms + j] - rows[i] - rows[j] + mean;
        // What rounding leaves of a variance of nothing may be negative.
        let factor =
            Matrix::from_fn(arms, arms, |i, j| if i == j { entry(i, j).max(0.0) } else { entry(i, j) }).factor();
        let axes = Axes::new(&unbiased, statistics.counts());
        let curved = axes.form(|index, curvature| (curvature - CURVED * axes.error(index, influences)).max(0.0));
        Self {
            form: with_gradient(&curved, &unbiased, weights),
            weights: weights.to_vec(),
            factor,
            bounds: Bounds::simplex(arms),
        }
    }

    /// φ(ĥ + ξ) with ξ = Lu, and its derivative along u.
    fn at(&self, along: &[f64], far: f64, solver: &mut Solver) -> Result<(f64, f64)> {
        let mut form = self.form.clone();
        form.linear_mut().iter_mut().zip(along).for_each(|(linear, noise)| *linear += far * noise);
        let found = solver.solve(&form, &self.bounds)?;
        let slope =
            along.iter().zip(self.weights.iter().zip(&found.weights)).map(|(noise, (w, a))| noise * (w - a)).sum();
        Ok(((form.value(&self.weights) - found.value).max(0.0), slope))
    }

    /// What φ exceeds with probability `miss`, by draws.
    pub(crate) fn quantile(&self, miss: f64) -> Result<f64> {
        let count = ((20.0 / miss) as usize).clamp(DRAWS, 20 * DRAWS);
        let (mut random, mut solver) = (Random::seeded(2), Solver::default());
        let mut drawn = Vec::with_capacity(count);
        for _ in 0..count {
            check_stopped();
            let normal: Vec<f64> = (0..self.factor.columns()).map(|_| random.normal()).collect();
            drawn.push(self.at(&self.factor.apply(&normal), 1.0, &mut solver)?.0);
        }
        drawn.sort_by(f64::total_cmp);
        Ok(drawn[(((1.0 - miss) * count as f64) as usize).min(count - 1)])
    }

    /// Whether φ exceeds `allowed` with a probability of no more than `miss`, however small that is: along each of many
    /// directions the noise must be so large, which has a chi-square law.
    pub(crate) fn is_within(&self, allowed: f64, miss: f64) -> Result<bool> {
        let rank = self.factor.columns();
        let (mut random, mut solver) = (Random::seeded(3), Solver::default());
        if self.at(&vec![0.0; self.weights.len()], 0.0, &mut solver)?.0 > allowed {
            return Ok(false);
        }
        let mut left = miss * DIRECTIONS as f64;
        for _ in 0..DIRECTIONS / 2 {
            check_stopped();
            let normal: Vec<f64> = (0..rank).map(|_| random.normal()).collect();
            let length = normal.iter().map(|x| x * x).sum::<f64>().sqrt();
            let along = self.factor.apply(&normal.iter().map(|x| x / length).collect::<Vec<_>>());
            let opposite: Vec<f64> = along.iter().map(|x| -x).collect();
            for along in [along, opposite] {
                let far = self.reach(&along, allowed, &mut solver)?;
                left -= if far < FAR { normal::chi_square_tail(rank, far * far) } else { 0.0 };
            }
            // What is spent does not come back.
            if left < 0.0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How far along a direction φ stays below `allowed`: Newton's method on √φ, which is nearly straight, within a bracket.
    fn reach(&self, along: &[f64], allowed: f64, solver: &mut Solver) -> Result<f64> {
        let (mut low, mut high) = (0.0, FAR);
        let (mut far, target) = (FAR / 4.0, allowed.sqrt());
        let mut is_bracketed = false;
        for _ in 0..40 {
            let (value, slope) = self.at(along, far, solver)?;
            let root = value.sqrt();
            if value > allowed {
                (high, is_bracketed) = (far, true);
            } else {
                low = far;
            }
            if (root - target).abs() <= 1e-3 * target {
                break;
            }
            let next = far - (root - target) * 2.0 * root / slope;
            far = if next > low && next < high {
                next
            } else if is_bracketed {
                0.5 * (low + high)
            } else {
                FAR
            };
            if low >= FAR || high - low < 1e-3 * high {
                break;
            }
        }
        Ok(if low >= FAR { FAR } else { far })
    }
}
