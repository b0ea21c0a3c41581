//! Minimises φ(α) + αᵀKα + fᵀα over mixture weights for a smooth convex φ, by Newton's method. The active-set solver
//! minimises the quadratic models exactly within the bounds. The caller provides φ and its derivatives.

use super::{Bounds, Solution, Solver};
use crate::error::{Error, Result};
use crate::quadratic::Quadratic;

/// The duality gap at which the search ends, relative to the scale of the gradient: near rounding error.
const GAP_TOLERANCE: f64 = 1e-12;
/// The share of the predicted decrease that a step must achieve (Armijo).
const ARMIJO_DECREASE: f64 = 1e-4;
/// The maximum slope at the end of a step, relative to the slope at its start.
const MAX_OVERSHOOT: f64 = 0.9;
/// The maximum number of steps of Newton's method; about ten are needed.
const MOST_STEPS: usize = 100;

/// A smooth convex function at one point. Only differences along Σα = 1 matter, so any constant may be added to all
/// entries of the gradient, and any a1ᵀ + 1aᵀ to the curvature.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    /// φ(α).
    pub value: f64,
    /// ∂φ/∂αᵢ.
    pub gradient: Vec<f64>,
    /// ∂²φ/∂αᵢ∂αⱼ in row-major order; positive semidefinite along Σα = 1.
    pub curvature: Vec<f64>,
    /// The magnitude of the terms of which the gradient's entries are sums, to estimate their rounding error.
    pub scale: f64,
}

impl Local {
    /// The function zero, for sums.
    pub fn zero(arms: usize) -> Self {
        Self { value: 0.0, gradient: vec![0.0; arms], curvature: vec![0.0; arms * arms], scale: 0.0 }
    }

    /// Adds `weight` times another function of the same arms.
    pub fn add(&mut self, weight: f64, other: &Local) {
        let pairs =
            self.gradient.iter_mut().zip(&other.gradient).chain(self.curvature.iter_mut().zip(&other.curvature));
        for (value, more) in pairs {
            *value += weight * more;
        }
        self.value += weight * other.value;
        self.scale += weight.abs() * other.scale;
    }

    fn add_form(&mut self, form: &Quadratic, weights: &[f64]) {
        let form = Local {
            value: form.value(weights),
            gradient: form.gradient(weights),
            curvature: form.quadratic().iter().map(|k| 2.0 * k).collect(),
            scale: form.quadratic().iter().chain(form.linear()).fold(0.0, |most, value| most.max(value.abs())),
        };
        self.add(1.0, &form);
    }

    fn is_finite(&self) -> bool {
        self.value.is_finite() && self.gradient.iter().chain(&self.curvature).all(|value| value.is_finite())
    }

    /// φ(α) + gradientᵀ(y − α) + ½(y − α)ᵀH(y − α) up to a constant, as a form in y.
    fn model(&self, weights: &[f64]) -> Quadratic {
        let arms = weights.len();
        let mut model = Quadratic::zeros(arms);
        for i in 0..arms {
            let mut turned = 0.0;
            for (j, weight) in weights.iter().enumerate() {
                let entry = 0.5 * (self.curvature[i * arms + j] + self.curvature[j * arms + i]);
                *model.at_mut(i, j) = 0.5 * entry;
                turned += entry * weight;
            }
            model.linear_mut()[i] = self.gradient[i] - turned;
        }
        model
    }

    /// The duality gap, max over all allowed mixtures y of gradientᵀ(α − y): by convexity, no value is below φ(α) minus
    /// this.
    fn gap(&self, weights: &[f64], bounds: &Bounds) -> f64 {
        // Relative to the mean, because a constant added to all entries cancels.
        let level = dot(&self.gradient, weights);
        let gradient: Vec<f64> = self.gradient.iter().map(|g| g - level).collect();
        let mut least = dot(&gradient, &bounds.floors);
        bounds.fill(&gradient, |arm, amount| least += gradient[arm] * amount);
        (dot(&gradient, weights) - least).max(0.0)
    }
}

/// Minimises φ(α) + αᵀKα + fᵀα within the bounds, from the allowed mixture nearest to `start`. The value of the
/// solution is that of the sum, and its gap is valid if φ is convex. `smooth` is never called outside of the bounds.
///
/// ```
/// use modelmix::{Quadratic, simplex::{self, Bounds, Local}};
/// // Σα ln α + fᵀα, whose minimum is the softmax of −f.
/// let form = Quadratic::new(vec![0.0; 4], vec![0.0, 3.0f64.ln()])?;
/// let entropy = |weights: &[f64]| Ok(Local {
///     value: weights.iter().map(|a| a * a.ln()).sum(),
///     gradient: weights.iter().map(|a| a.ln() + 1.0).collect(),
///     curvature: vec![1.0 / weights[0], 0.0, 0.0, 1.0 / weights[1]],
///     scale: 1.0,
/// });
/// let best = simplex::minimize_smooth(&form, &Bounds::simplex(2), &[0.5, 0.5], &entropy)?;
/// assert!((best.weights[0] - 0.75).abs() < 1e-9 && best.gap < 1e-11);
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// If no mixture satisfies the bounds, if the function is not finite at the start, or if the curvature is not positive
/// semidefinite; the errors of `smooth`, such as a stop.
pub fn minimize_smooth(
    form: &Quadratic,
    bounds: &Bounds,
    start: &[f64],
    smooth: &dyn Fn(&[f64]) -> Result<Local>,
) -> Result<Solution> {
    let at = |weights: &[f64]| -> Result<Local> {
        let mut here = smooth(weights)?;
        here.add_form(form, weights);
        Ok(here)
    };
    let mut weights = bounds.nearest(start)?;
    let mut here = at(&weights)?;
    if !here.is_finite() {
        return Err(Error::Program {
            problem: "the loss is not finite at the mixture where the search starts; scale the features".into(),
        });
    }
    // Every visited point gives a lower bound on the minimum; the best one counts.
    let mut gap = here.gap(&weights, bounds);
    let mut bound = here.value - gap;
    let mut iterations = 0;
    while gap > GAP_TOLERANCE * here.scale && iterations < MOST_STEPS {
        iterations += 1;
        let target = Solver::default().solve(&here.model(&weights), bounds)?.weights;
        let Some((step, next)) = step(&weights, &target, &here, bounds, &at)? else { break };
        let own = next.gap(&step, bounds);
        bound = bound.max(next.value - own);
        // If the value no longer decreases, rounding errors determine the steps, and the gap tells whether they still
        // help.
        let idle = here.value - next.value <= 4.0 * f64::EPSILON * here.scale;
        let last = idle && own > 0.5 * gap;
        if !(last && own >= gap) {
            (weights, here) = (step, next);
            gap = own.min(here.value - bound).max(0.0);
        }
        if last {
            break;
        }
    }
    Ok(Solution { value: here.value, gap, weights, iterations })
}

/// The longest of the steps 1, ½, ¼, … toward `target` that decreases the value enough and does not end where the
/// function increases steeply again. The second condition matters at bounds where the slope is infinite, such as that
/// of a root at 0: a step that decreases the value may still end in a corner that later steps leave slowly.
fn step(
    weights: &[f64],
    target: &[f64],
    here: &Local,
    bounds: &Bounds,
    at: &dyn Fn(&[f64]) -> Result<Local>,
) -> Result<Option<(Vec<f64>, Local)>> {
    let direction: Vec<f64> = target.iter().zip(weights).map(|(target, weight)| target - weight).collect();
    let slope = dot(&here.gradient, &direction);
    let rounding = 16.0 * f64::EPSILON * here.scale;
    let mut length = 1.0;
    loop {
        // The full step is the target itself, so arms that it leaves out have a weight of exactly zero.
        let trial = if length == 1.0 {
            target.to_vec()
        } else {
            let between = |(weight, step): (&f64, &f64)| weight + length * step;
            let inside = weights.iter().zip(&direction).map(between);
            let limits = bounds.floors.iter().zip(&bounds.caps);
            inside.zip(limits).map(|(weight, (floor, cap))| weight.clamp(*floor, *cap)).collect()
        };
        let next = at(&trial)?;
        if next.is_finite()
            && next.value <= here.value + ARMIJO_DECREASE * length * slope + rounding
            && dot(&next.gradient, &direction) <= MAX_OVERSHOOT * slope.abs() + rounding
        {
            return Ok(Some((trial, next)));
        }
        length *= 0.5;
        // A step that promises less than the rounding error of the value is indistinguishable from none.
        if length * slope.abs() <= f64::EPSILON * here.scale {
            return Ok(None);
        }
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
