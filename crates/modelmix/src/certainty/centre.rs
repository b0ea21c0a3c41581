//! The unbiased, convex program around which draws are made.

use crate::compute::Matrix;
use crate::error::Result;
use crate::influence::Influences;
use crate::normal;
use crate::quadratic::Quadratic;
use crate::simplex::{Bounds, Solver};

/// A direction is clearly curved upward if its curvature exceeds zero by this many standard errors.
const CLEAR_CURVATURE_ERRORS: f64 = 3.0;
/// Differences below this share of the values that are subtracted count as rounding error.
const ROUNDING: f64 = 1e-9;
/// Steps toward the unbiased optimum if its program is not convex.
const MAX_STEPS: usize = 50;

/// The curvature that is used for a loss. V-statistics include κ(x, x), so K̂ᵢᵢ is too large by (κ̄ − Kᵢᵢ)/n, which
/// biases the weights toward arms with many samples. U-statistics do not have this bias, but need not be convex;
/// directions in which they curve downward are treated as flat.
pub(super) struct Shape {
    /// Flat in directions in which the unbiased loss curves downward.
    convex: Quadratic,
    /// Flat also in directions that are not clearly curved upward: along these, the samples hardly determine the
    /// optimum.
    clear: Quadratic,
}

impl Shape {
    pub(super) fn new(influences: &Influences) -> Self {
        let axes = Axes::new(influences.form(), influences.sizes());
        let errors = axes.errors(influences);
        let clear = |index: usize, curvature: f64| {
            if curvature > CLEAR_CURVATURE_ERRORS * errors[index] { curvature } else { 0.0 }
        };
        Self { convex: axes.form(|_, curvature| curvature.max(0.0)), clear: axes.form(clear) }
    }
}

/// The best weights by U-statistics, and the program near them. A step with the convex shape and the unbiased gradient
/// never increases the unbiased loss; steps end when its gradient satisfies the optimality conditions.
pub(super) struct Centre {
    /// The weights after the last step.
    pub(super) weights: Vec<f64>,
    /// Their loss, without its constant.
    pub(super) value: f64,
    /// Convex, with the unbiased gradient at the weights.
    form: Quadratic,
    /// Its value at the weights.
    form_value: f64,
}

impl Centre {
    pub(super) fn new(influences: &Influences, shape: &Shape, bounds: &Bounds, start: &[f64]) -> Result<Self> {
        let unbiased = influences.form();
        let mut weights = start.to_vec();
        let mut solver = Solver::default();
        for _ in 0..MAX_STEPS {
            let next = solver.solve(&with_gradient(&shape.convex, unbiased, &weights), bounds)?.weights;
            let moved = weights.iter().zip(&next).map(|(old, new)| (old - new).abs()).fold(0.0, f64::max);
            weights = next;
            if moved < 1e-9 {
                break;
            }
        }
        let form = with_gradient(&shape.clear, unbiased, &weights);
        Ok(Self { value: unbiased.value(&weights), form_value: form.value(&weights), weights, form })
    }

    /// Whether these weights, the best for fewer arms, may be the best for all: no other arm's gradient is below the
    /// mixture's by more than errors explain, except with probability `tail`.
    pub(super) fn may_be_best(&self, influences: &Influences, bounds: &Bounds, tail: f64) -> bool {
        let weights = &self.weights;
        let gradient = influences.form().gradient(weights);
        let mean: f64 = gradient.iter().zip(weights).map(|(g, weight)| g * weight).sum();
        let variances = influences.toward_variances(weights);
        let limit = normal::quantile(tail / weights.len() as f64);
        bounds.usable().into_iter().all(|arm| gradient[arm] - mean >= limit * variances[arm].max(0.0).sqrt())
    }

    /// A solver that has solved the program at the weights.
    pub(super) fn solver(&self, bounds: &Bounds) -> Result<Solver> {
        let mut solver = Solver::default();
        solver.start_from(&self.weights);
        solver.solve(&self.form, bounds)?;
        Ok(solver)
    }

    /// Adds noise to the gradient and returns the best weights, and how far below the loss of the present ones their
    /// loss is.
    pub(super) fn perturbed_optimum(
        &self,
        noise: &[f64],
        bounds: &Bounds,
        solver: &mut Solver,
    ) -> Result<(Vec<f64>, f64)> {
        let linear: Vec<f64> = self.form.linear().iter().zip(noise).map(|(linear, noise)| linear + noise).collect();
        let found = solver.solve_again(&self.form, &linear, bounds)?;
        let change: f64 =
            noise.iter().zip(self.weights.iter().zip(&found)).map(|(z, (old, new))| z * (old - new)).sum();
        let below = self.form_value - self.form.value(&found) + change;
        Ok((found, below.max(0.0)))
    }
}

/// The first form with the gradient of the second at a point.
pub(super) fn with_gradient(form: &Quadratic, other: &Quadratic, weights: &[f64]) -> Quadratic {
    let mut form = form.clone();
    let differences: Vec<f64> =
        other.gradient(weights).iter().zip(form.gradient(weights)).map(|(other, own)| other - own).collect();
    form.linear_mut().iter_mut().zip(differences).for_each(|(linear, difference)| *linear += difference);
    form
}

/// K along the directions Σ = 0, as Σ λ a aᵀ.
pub(super) struct Axes {
    /// λ, the curvature along each `direction`.
    pub(super) curvatures: Vec<f64>,
    /// v with vᵀKv = λ.
    pub(super) directions: Vec<Vec<f64>>,
    /// a.
    forms: Vec<Vec<f64>>,
}

impl Axes {
    /// Arms with few samples are separated: with S = diag(√n) the axes are the eigenvectors of SKS. The directions Su
    /// of large curvature then contain little of such arms, and are estimated accurately.
    pub(super) fn new(form: &Quadratic, counts: &[usize]) -> Self {
        let arms = form.arms();
        let total: usize = counts.iter().sum();
        let scale: Vec<f64> = counts.iter().map(|&count| (count as f64 / total.max(1) as f64).sqrt()).collect();
        // (I − s sᵀ) SKS (I − s sᵀ): s has length 1, and Su has the sum sᵀu.
        let scaled = |i: usize, j: usize| scale[i] * form.at(i, j) * scale[j];
        let means: Vec<f64> = (0..arms).map(|i| (0..arms).map(|j| scaled(i, j) * scale[j]).sum()).collect();
        let mean: f64 = means.iter().zip(&scale).map(|(mean, s)| mean * s).sum();
        let eigen = Matrix::from_fn(arms, arms, |i, j| {
            scaled(i, j) - means[i] * scale[j] - scale[i] * means[j] + mean * scale[i] * scale[j]
        })
        .eigen();
        let columns = |map: &dyn Fn(f64, f64) -> f64| {
            let column = |at: usize| eigen.vectors.column(at).iter().zip(&scale).map(|(&u, &s)| map(u, s)).collect();
            (0..arms).map(column).collect()
        };
        Self { directions: columns(&|u, s| u * s), forms: columns(&|u, s| u / s), curvatures: eigen.values }
    }

    /// The standard error of the curvature along each direction.
    pub(super) fn errors(&self, influences: &Influences) -> Vec<f64> {
        influences.curvature_variances(&self.directions).into_iter().map(|variance| variance.max(0.0).sqrt()).collect()
    }

    /// A form with other curvatures, and no linear part.
    pub(super) fn form(&self, curvature: impl Fn(usize, f64) -> f64) -> Quadratic {
        let arms = self.curvatures.len();
        let mut form = Quadratic::zeros(arms);
        for (index, a) in self.forms.iter().enumerate() {
            let value = curvature(index, self.curvatures[index]);
            for i in 0..arms {
                for j in 0..arms {
                    *form.at_mut(i, j) += value * a[i] * a[j];
                }
            }
        }
        form
    }
}

/// Per arm: the arms that are indistinguishable from it, including itself. Exchanging them changes no loss, up to
/// rounding.
pub(super) fn indistinguishable_arms(form: &Quadratic, weights: &[f64]) -> Vec<Vec<usize>> {
    let arms = weights.len();
    let gradient = form.gradient(weights);
    let size = form.quadratic().iter().chain(&gradient).fold(0.0, |size: f64, value| size.max(value.abs()));
    let curvature = |i: usize, j: usize| form.at(i, i) + form.at(j, j) - 2.0 * form.at(i, j);
    let is_alike = |i: usize, j: usize| {
        (gradient[j] - gradient[i]).abs() <= ROUNDING * size && curvature(i, j).abs() <= ROUNDING * size
    };
    (0..arms).map(|arm| (0..arms).filter(|&other| is_alike(arm, other)).collect()).collect()
}
