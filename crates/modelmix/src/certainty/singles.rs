//! Whether a single arm is as good as the best mixture: a test an arm.

use crate::compute::{Matrix, Stop};
use crate::error::Result;
use crate::influence::Influences;
use crate::normal;
use crate::quadratic::Quadratic;
use crate::random::Random;
use crate::simplex::Bounds;

/// How many draws of the least of several normal numbers are made.
const NULL_DRAWS: usize = 2000;
/// What is nothing beside the values that a difference is of.
const ROUNDING: f64 = 1e-9;

/// The greatest p-value of the tests that arm b alone is as good as the best mixture. To reject that "some single arm is
/// optimal", each of them must be rejected, so that the greatest is a p-value for all.
///
/// Arm b is optimal if and only if no step from it to another arm i lowers the loss: dᵢ = gᵢ − g_b ≥ 0 with g = 2Ke_b + f. The
/// test statistic is the least d̂ᵢ/s.e.; its law is that of the least of correlated normal numbers of mean 0, which all dᵢ = 0
/// gives and every other optimal arm makes less likely. An arm that the bounds do not allow alone is compared by its loss,
/// `apart` being how much worse it is, with standard error `errors`.
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
    // Only the greatest counts, and the sum of probabilities bounds each; so few of them are drawn for.
    tests.sort_by(|a, b| b.bound.total_cmp(&a.bound));
    for test in tests {
        if test.bound <= greatest {
            break;
        }
        greatest = greatest.max(test.p_value(influences, stop)?);
    }
    Ok(greatest)
}

/// How large the values are that differences are of.
fn magnitude(form: &Quadratic) -> f64 {
    form.quadratic().iter().chain(form.linear()).fold(0.0, |size: f64, value| size.max(value.abs()))
}

/// A difference in standard errors; what is rounding only is none.
fn in_standard_errors(difference: f64, error: f64, size: f64) -> f64 {
    if difference.abs() <= ROUNDING * size { 0.0 } else { difference / error }
}

/// The test that one arm alone is as good as the best mixture.
struct Test {
    arm: usize,
    /// The other arms that may have weight, and the standard errors of the slopes toward them.
    others: Vec<usize>,
    errors: Vec<f64>,
    /// The least slope in standard errors.
    least: f64,
    /// The sum of the probabilities that a slope is so small: no p-value is greater.
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
        // In the tail the sum of the probabilities is the better of two bounds.
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

/// A ratio of an estimate and its standard error as normal as that of an estimate without skewness λ (Hall's transformation):
/// t + λt²/3 + λ²t³/27 + λ/6. Where the two sides of an estimate differ, its error and its standard error go together, and
/// one side of the ratio has a heavier tail.
fn without_skewness(ratio: f64, skewness: f64) -> f64 {
    let scaled = skewness * ratio / 3.0;
    ratio * (1.0 + scaled + scaled * scaled / 3.0) + skewness / 6.0
}
