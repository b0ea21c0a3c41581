//! Upper confidence bounds on the suboptimality of a mixture: how far its loss can be above the minimum.

use super::centre::{Axes, with_gradient};
use super::until::Gap;
use crate::compute::Matrix;
use crate::error::Result;
use crate::influence::{GradientKind, Influences};
use crate::normal;
use crate::quadratic::Quadratic;
use crate::random::Random;
use crate::simplex::{Bounds, Solver};

/// Only curvature beyond this number of standard errors above zero is used. If the true curvature is smaller, the bound
/// is too small by a share of what the curvature subtracts: a second-order error, for which no part of the error
/// probability is reserved.
const CURVATURE_MARGIN: f64 = 2.0;
/// The number of noise directions that are examined.
const NOISE_DIRECTIONS: usize = 512;
/// The start of the search along a direction is this plus the square root of the dimension: normal noise is farther out
/// with a probability below 1e-30.
const NOISE_RADIUS_MARGIN: f64 = 14.0;
/// The minimum and maximum number of draws for a quantile.
const MIN_DRAWS: usize = 1000;
const MAX_DRAWS: usize = 8000;
/// The number of draws beyond an estimated quantile.
const DRAWS_BEYOND_QUANTILE: f64 = 20.0;
/// With more arms than this, only the linear bound is computed, which needs neither draws nor directions.
const MAX_ARMS_WITH_CURVATURE: usize = 48;

/// L(w) − min L is φ(h) = max over mixtures α of −hᵀ(α − w) − (α − w)ᵀK(α − w), with h = 2Kw + f the gradient at w.
///
/// The gradient is known up to normal noise, ĥ + ξ, and a smaller curvature makes φ larger. φ is convex in h. For fixed
/// w, the quantile 1 − δ of draws φ(ĥ + ξ) is therefore below the true value with probability at most δ: if it is
/// below, ĥ lies beyond a half-space of probability δ whose border touches the level set of φ at h, and which does not
/// depend on ĥ.
///
/// The same holds for φ minus a share of the gain over the best single arm b, φ(h) − s·min over b of (L(b) − L(w)): it
/// is jointly convex in the gradient and the differences of losses, whose noise is normal too.
pub(crate) struct SuboptimalityBound {
    weights: Vec<f64>,
    /// At most as curved as the loss, with the unbiased gradient at the weights.
    form: Quadratic,
    /// Per arm: the slope from the weights toward it, and its standard error.
    slopes: Vec<(f64, f64)>,
    /// Per arm: its loss minus that of the weights.
    gains: Vec<f64>,
    /// L with LLᵀ the covariance of the slopes toward all arms, then of the differences of losses.
    factor: Matrix,
    bounds: Bounds,
    /// The error probability δ.
    error_chance: f64,
}

impl SuboptimalityBound {
    /// Prepares a bound that holds with probability 1 − `error_chance`.
    pub(crate) fn new(influences: &Influences, weights: &[f64], error_chance: f64) -> Self {
        let influences = &influences.widened_for(error_chance);
        let unbiased = influences.form();
        let arms = weights.len();
        // With many arms, only the variances of the slopes are needed.
        let (variances, factor, form) = if arms > MAX_ARMS_WITH_CURVATURE {
            (influences.toward_variances(weights), Matrix::zeros(2 * arms, 0), Quadratic::zeros(arms))
        } else {
            let mut covariance = influences.joint_covariance(weights, GradientKind::Toward);
            // Rounding can make a variance of zero negative.
            (0..2 * arms).for_each(|at| *covariance.at_mut(at, at) = covariance.at(at, at).max(0.0));
            let axes = Axes::new(unbiased, influences.sizes());
            let errors = axes.errors(influences);
            let curved = axes.form(|index, curvature| (curvature - CURVATURE_MARGIN * errors[index]).max(0.0));
            let variances = (0..arms).map(|arm| covariance.at(arm, arm)).collect();
            (variances, covariance.factor(), with_gradient(&curved, unbiased, weights))
        };
        let gradient = unbiased.gradient(weights);
        let level: f64 = gradient.iter().zip(weights).map(|(slope, weight)| slope * weight).sum();
        let value = unbiased.value(weights);
        Self {
            form,
            weights: weights.to_vec(),
            slopes: (0..arms).map(|arm| (gradient[arm] - level, variances[arm].max(0.0).sqrt())).collect(),
            gains: (0..arms).map(|arm| unbiased.single(arm) - value).collect(),
            factor,
            bounds: Bounds::simplex(arms),
            error_chance,
        }
    }

    /// The bound without curvature, per arm: max over i of −ĥᵀ(eᵢ − w) + z·√((eᵢ − w)ᵀΓ(eᵢ − w)), with z the normal
    /// quantile of 1 − δ/m.
    fn linear_bound(&self) -> f64 {
        let z = normal::quantile(1.0 - self.error_chance / self.slopes.len() as f64);
        self.slopes.iter().map(|(slope, error)| z * error - slope).fold(0.0, f64::max)
    }

    /// φ(ĥ + ξ) with ξ = Lu, and its derivative along u.
    fn suboptimality_at(&self, along: &[f64], far: f64, solver: &mut Solver) -> Result<(f64, f64)> {
        let mut form = self.form.clone();
        form.linear_mut().iter_mut().zip(along).for_each(|(linear, noise)| *linear += far * noise);
        let found = solver.solve(&form, &self.bounds)?;
        let slope =
            along.iter().zip(self.weights.iter().zip(&found.weights)).map(|(noise, (w, a))| noise * (w - a)).sum();
        Ok(((form.value(&self.weights) - found.value).max(0.0), slope))
    }

    /// The value that φ exceeds with the error probability: a quantile of draws or, if that would need too many draws,
    /// by bisection.
    pub(crate) fn bound(&self) -> Result<f64> {
        let linear_bound = self.linear_bound();
        if self.is_linear_only() || linear_bound == 0.0 {
            return Ok(linear_bound);
        }
        let count = ((DRAWS_BEYOND_QUANTILE / self.error_chance) as usize).max(MIN_DRAWS);
        if count > MAX_DRAWS {
            let (mut low, mut high) = (0.0, linear_bound);
            while high - low > 0.02 * high {
                let middle = 0.5 * (low + high);
                (low, high) = if self.is_within(Gap::Loss(middle))? { (low, middle) } else { (middle, high) };
            }
            return Ok(high);
        }
        let (mut random, mut solver) = (Random::seeded(2), Solver::default());
        let mut drawn = Vec::with_capacity(count);
        for _ in 0..count {
            let normal: Vec<f64> = (0..self.factor.columns()).map(|_| random.normal()).collect();
            drawn.push(self.suboptimality_at(&self.factor.apply(&normal), 1.0, &mut solver)?.0);
        }
        drawn.sort_by(f64::total_cmp);
        // One standard error farther out, for the error of the draws themselves.
        let beyond = count as f64 * self.error_chance;
        let place = (count as f64 - beyond + (beyond * (1.0 - self.error_chance)).sqrt()) as usize;
        Ok(drawn[place.min(count - 1)].min(linear_bound))
    }

    /// Whether φ exceeds the allowed value with at most the error probability, however small that is. Along each of
    /// many directions the noise must be large enough, and its length has a chi-square distribution. The mean over
    /// directions is estimated with an error; two standard errors are added. With many arms, shares of the gain are not
    /// supported here.
    pub(crate) fn is_within(&self, gap: Gap) -> Result<bool> {
        if matches!(gap, Gap::Loss(allowed) if self.linear_bound() <= allowed) {
            return Ok(true);
        }
        let rank = self.factor.columns();
        let (mut random, mut solver) = (Random::seeded(3), Solver::default());
        let still = vec![0.0; 2 * self.weights.len()];
        if self.is_linear_only()
            || self.suboptimality_at(&still, 0.0, &mut solver)?.0 > self.allowed(gap, &still, 0.0).0
        {
            return Ok(false);
        }
        let pairs = NOISE_DIRECTIONS / 2;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..pairs {
            let normal: Vec<f64> = (0..rank).map(|_| random.normal()).collect();
            let length = normal.iter().map(|x| x * x).sum::<f64>().sqrt();
            let along = self.factor.apply(&normal.iter().map(|x| x / length).collect::<Vec<_>>());
            let opposite: Vec<f64> = along.iter().map(|x| -x).collect();
            let mut pair = 0.0;
            for along in [along, opposite] {
                let far = self.reach(&along, gap, &mut solver)?;
                pair += 0.5 * normal::chi_square_tail(rank, far * far);
            }
            (sum, squares) = (sum + pair, squares + pair * pair);
            // The sum only grows, so it cannot fall below the limit again.
            if sum > self.error_chance * pairs as f64 {
                return Ok(false);
            }
        }
        let mean = sum / pairs as f64;
        let error = ((squares / pairs as f64 - mean * mean).max(0.0) / pairs as f64).sqrt();
        Ok(mean + 2.0 * error <= self.error_chance)
    }

    /// Whether there are too many arms for any but the linear bound.
    pub(crate) fn is_linear_only(&self) -> bool {
        self.weights.len() > MAX_ARMS_WITH_CURVATURE
    }

    /// The allowed value of φ at this noise, and its derivative.
    fn allowed(&self, gap: Gap, along: &[f64], far: f64) -> (f64, f64) {
        match gap {
            Gap::Loss(loss) => (loss, 0.0),
            Gap::Share(share) => {
                let noise = &along[self.gains.len()..];
                let noisy = self.gains.iter().zip(noise).map(|(gain, noise)| (gain + far * noise, *noise));
                let least = noisy.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0.0));
                (share * least.0, share * least.1)
            }
        }
    }

    /// How far along a direction φ stays below the allowed value. The difference ψ is convex, and negative at the
    /// start, so Newton's method converges to its root from beyond.
    fn reach(&self, along: &[f64], gap: Gap, solver: &mut Solver) -> Result<f64> {
        let mut far = NOISE_RADIUS_MARGIN + (self.factor.columns() as f64).sqrt();
        for _ in 0..60 {
            let ((value, slope), (allowed, change)) =
                (self.suboptimality_at(along, far, solver)?, self.allowed(gap, along, far));
            let (above, rise) = (value - allowed, slope - change);
            if above <= 0.0 || rise <= 0.0 {
                break;
            }
            let step = above / rise;
            far -= step;
            if step < 1e-3 * far {
                break;
            }
        }
        Ok(far.max(0.0))
    }
}
