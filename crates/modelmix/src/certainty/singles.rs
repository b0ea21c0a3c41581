//! Tests whether a single arm is as good as the best mixture, one test per arm.

use crate::compute::{Matrix, Stop};
use crate::error::Result;
use crate::influence::Influences;
use crate::normal;
use crate::quadratic::Quadratic;
use crate::random::Random;
use crate::simplex::Bounds;

/// The number of draws of the minimum of several normal variables.
const NULL_DRAWS: usize = 2000;
/// Differences below this share of the values that are subtracted count as rounding error.
const ROUNDING: f64 = 1e-9;

/// The largest p-value of the tests that arm b alone is as good as the best mixture. To reject "some single arm is
/// optimal", every test must reject, so the largest p-value is one for the whole.
///
/// Arm b is optimal if and only if no step from it to another arm i lowers the loss: dᵢ = gᵢ − g_b ≥ 0 with g = 2Ke_b +
/// f. The test statistic is the minimum of d̂ᵢ/s.e. Its null distribution is that of the minimum of correlated normal
/// variables of mean 0: this is the case of all dᵢ = 0, and every other optimal arm makes small values less likely. An
/// arm that the bounds do not allow alone is compared by its loss: `apart` is how much worse it is, with standard error
/// `errors`.
pub(super) fn p_value(
    influences: &Influences,
    bounds: &Bounds,
    apart: &[f64],
    errors: &[f64],
    stop: &Stop,
) -> Result<f64> {
    let form = influences.form();
    let size = magnitude(form);
    let mut tests = Vec::new();
    let mut greatest = 0.0f64;
    for arm in 0..form.arms() {
        if bounds.allows_only(arm) {
            tests.push(Test::new(influences, bounds, arm, size));
        } else {
            greatest = greatest.max(normal::probability(-in_standard_errors(apart[arm], errors[arm], size)));
        }
    }
    // Only the largest counts, and the sum of probabilities bounds each, so few tests need draws.
    tests.sort_by(|a, b| b.bound.total_cmp(&a.bound));
    for test in tests {
        if test.bound <= greatest {
            break;
        }
        greatest = greatest.max(test.p_value(influences, stop)?);
    }
    Ok(greatest)
}

/// The magnitude of the values that are subtracted.
fn magnitude(form: &Quadratic) -> f64 {
    form.quadratic().iter().chain(form.linear()).fold(0.0, |size: f64, value| size.max(value.abs()))
}

/// A difference in standard errors; a difference that is only rounding error counts as zero.
fn in_standard_errors(difference: f64, error: f64, size: f64) -> f64 {
    if difference.abs() <= ROUNDING * size { 0.0 } else { difference / error }
}

/// The test that one arm alone is as good as the best mixture.
struct Test {
    arm: usize,
    /// The other arms that may have a positive weight, and the standard errors of the slopes toward them.
    others: Vec<usize>,
    errors: Vec<f64>,
    /// The smallest slope in standard errors.
    least: f64,
    /// The sum of the probabilities that a slope is this small: an upper bound on the p-value.
    bound: f64,
}

impl Test {
    fn new(influences: &Influences, bounds: &Bounds, arm: usize, size: f64) -> Self {
        let form = influences.form();
        // 2Kⱼ_b + fⱼ, the gradient at the arm alone
        let gradient = |other: usize| 2.0 * form.at(other, arm) + form.linear()[other];
        let others: Vec<usize> = bounds.usable().into_iter().filter(|&other| other != arm).collect();
        let slopes = influences.slopes(arm);
        let errors: Vec<f64> = others.iter().map(|&other| slopes.variances[other].max(0.0).sqrt()).collect();
        let least = others.iter().zip(&errors).map(|(&other, &error)| {
            let ratio = in_standard_errors(gradient(other) - gradient(arm), error, size);
            let skewness = slopes.third_moments[other] / error.powi(3);
            if skewness.is_finite() && ratio < 0.0 { without_skewness(ratio, skewness) } else { ratio }
        });
        let least = least.fold(f64::INFINITY, f64::min);
        let bound = if least >= 0.0 { 1.0 } else { (others.len() as f64 * normal::probability(least)).min(1.0) };
        Self { arm, others, errors, least, bound }
    }

    fn p_value(&self, influences: &Influences, stop: &Stop) -> Result<f64> {
        // In the tail, the sum of the probabilities is the better of the two bounds.
        if self.least >= 0.0 || self.bound <= 1.0 / (NULL_DRAWS + 1) as f64 {
            return Ok(self.bound);
        }
        let moving: Vec<usize> = (0..self.others.len()).filter(|&at| self.errors[at] > 0.0).collect();
        let arms: Vec<usize> = moving.iter().map(|&at| self.others[at]).collect();
        let covariance = influences.slope_covariance(self.arm, &arms);
        let factor = Matrix::from_fn(moving.len(), moving.len(), |i, j| {
            covariance.at(i, j) / (self.errors[moving[i]] * self.errors[moving[j]])
        })
        .factor();
        let mut random = Random::seeded(1);
        let mut below = 1;
        for _ in 0..NULL_DRAWS {
            stop.check()?;
            let normal: Vec<f64> = (0..factor.columns()).map(|_| random.normal()).collect();
            below += usize::from(factor.apply(&normal).into_iter().fold(f64::INFINITY, f64::min) <= self.least);
        }
        Ok(self.bound.min(below as f64 / (NULL_DRAWS + 1) as f64))
    }
}

/// Corrects the ratio of an estimate with skewness λ and its standard error, so that it is as normal as without
/// skewness (Hall's transformation): t + λt²/3 + λ²t³/27 + λ/6. The error of a skewed estimate is correlated with its
/// standard error, so one side of the ratio has a heavier tail.
fn without_skewness(ratio: f64, skewness: f64) -> f64 {
    let scaled = skewness * ratio / 3.0;
    ratio * (1.0 + scaled + scaled * scaled / 3.0) + skewness / 6.0
}
