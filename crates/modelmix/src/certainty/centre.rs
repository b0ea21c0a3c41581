//! The program around which draws are made: unbiased, and convex.

use crate::compute::{Eigen, Matrix};
use crate::error::Result;
use crate::influence::{Functional, Influences};
use crate::quadratic::Quadratic;
use crate::simplex::{Bounds, Solver};
use crate::statistics::Statistics;

/// A direction bends up where its curvature is so many standard errors above zero.
const CLEARLY: f64 = 3.0;
/// Steps toward the unbiased optimum where its program is not convex.
const STEPS: usize = 50;

/// The best weights by U-statistics, and the program near them.
///
/// V-statistics have κ(x, x) in them, which makes K̂ᵢᵢ too large by (κ̄ − Kᵢᵢ)/n and draws weights toward arms of many samples;
/// U-statistics do not. They need not be convex, so directions in which they bend down are taken for flat, with the
/// gradient as it is: a step then never raises the unbiased loss, and steps end where its gradient says so. For draws, so
/// are directions that do not clearly bend up: along those the samples say little about where the optimum is.
pub(super) struct Centre {
    /// K̂ and f̂ as U-statistics.
    pub(super) unbiased: Quadratic,
    /// The weights that they lead to.
    pub(super) weights: Vec<f64>,
    /// The loss of these, without its constant.
    pub(super) value: f64,
    /// Convex, with the unbiased gradient at the weights.
    form: Quadratic,
}

impl Centre {
    pub(super) fn new(
        statistics: &Statistics,
        influences: &Influences,
        bounds: &Bounds,
        start: &[f64],
    ) -> Result<Self> {
        let unbiased = statistics.unbiased();
        let eigen = tangent(&unbiased).eigen();
        let convex = without(&unbiased, &eigen, |_, value| value < 0.0);
        let mut weights = start.to_vec();
        let mut solver = Solver::default();
        for _ in 0..STEPS {
            let next = solver.solve(&with_gradient(&convex, &unbiased, &weights), bounds)?.weights;
            let moved = weights.iter().zip(&next).map(|(old, new)| (old - new).abs()).fold(0.0, f64::max);
            weights = next;
            if moved < 1e-9 {
                break;
            }
        }
        let flat = |index: usize, value: f64| {
            let curvature = Functional::curvature(eigen.vectors.column(index));
            value < CLEARLY * influences.covariance(&[curvature])[0].max(0.0).sqrt()
        };
        let form = with_gradient(&without(&unbiased, &eigen, flat), &unbiased, &weights);
        Ok(Self { value: unbiased.value(&weights), unbiased, weights, form })
    }

    /// With noise added to the gradient: the best weights, and how far below the present ones' loss they get.
    pub(super) fn moved(&self, noise: &[f64], bounds: &Bounds, solver: &mut Solver) -> Result<(Vec<f64>, f64)> {
        let mut form = self.form.clone();
        form.linear_mut().iter_mut().zip(noise).for_each(|(linear, noise)| *linear += noise);
        let found = solver.solve(&form, bounds)?;
        Ok((found.weights, (form.value(&self.weights) - found.value).max(0.0)))
    }
}

/// The first form with the second's gradient at a point.
fn with_gradient(form: &Quadratic, other: &Quadratic, weights: &[f64]) -> Quadratic {
    let mut form = form.clone();
    let differences: Vec<f64> =
        other.gradient(weights).iter().zip(form.gradient(weights)).map(|(other, own)| other - own).collect();
    form.linear_mut().iter_mut().zip(differences).for_each(|(linear, difference)| *linear += difference);
    form
}

/// The form with some of its directions Σ = 0 made flat.
fn without(form: &Quadratic, eigen: &Eigen, is_flat: impl Fn(usize, f64) -> bool) -> Quadratic {
    let arms = form.arms();
    let mut form = form.clone();
    for (index, &value) in eigen.values.iter().enumerate().filter(|(index, value)| is_flat(*index, **value)) {
        let vector = eigen.vectors.column(index);
        for i in 0..arms {
            for j in 0..arms {
                *form.at_mut(i, j) -= value * vector[i] * vector[j];
            }
        }
    }
    form
}

/// K on the directions Σ = 0: (I − 11ᵀ/m) K (I − 11ᵀ/m).
pub(super) fn tangent(form: &Quadratic) -> Matrix {
    let arms = form.arms();
    let means: Vec<f64> = form.quadratic().chunks(arms).map(|row| row.iter().sum::<f64>() / arms as f64).collect();
    let mean = means.iter().sum::<f64>() / arms as f64;
    Matrix::from_fn(arms, arms, |i, j| form.at(i, j) - means[i] - means[j] + mean)
}

/// All weight on one arm.
pub(super) fn only(arm: usize, arms: usize) -> Vec<f64> {
    (0..arms).map(|other| f64::from(u8::from(other == arm))).collect()
}
