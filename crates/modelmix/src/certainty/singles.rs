//! Whether a single arm is as good as the best mixture: a test an arm.

use super::centre::only;
use crate::compute::Matrix;
use crate::influence::{Functional, Influences};
use crate::normal;
use crate::quadratic::Quadratic;
use crate::random::Random;
use crate::simplex::Bounds;
use crate::statistics::Statistics;

/// How many draws of the least of several normal numbers are made.
const DRAWS: usize = 2000;
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
    statistics: &Statistics,
    form: &Quadratic,
    influences: &Influences,
    bounds: &Bounds,
    apart: &[f64],
    errors: &[f64],
) -> f64 {
    let p_of = |arm: usize| {
        if bounds.allows_only(arm) {
            best_p(statistics, form, influences, bounds, arm)
        } else {
            normal::probability(-ratio(apart[arm], errors[arm], size(form)))
        }
    };
    (0..form.arms()).map(p_of).fold(0.0, f64::max)
}

/// How large the values are that differences are of.
fn size(form: &Quadratic) -> f64 {
    form.quadratic().iter().chain(form.linear()).fold(0.0, |size: f64, value| size.max(value.abs()))
}

/// A difference in standard errors; what is rounding only is none.
fn ratio(difference: f64, error: f64, size: f64) -> f64 {
    if difference.abs() <= ROUNDING * size { 0.0 } else { difference / error }
}

fn best_p(statistics: &Statistics, form: &Quadratic, influences: &Influences, bounds: &Bounds, arm: usize) -> f64 {
    let arms = form.arms();
    let single = only(arm, arms);
    let gradient = form.gradient(&single);
    let others: Vec<usize> = bounds.usable().into_iter().filter(|&other| other != arm).collect();
    let slopes: Vec<Functional> = others.iter().map(|&other| Functional::slope(arm, other, arms)).collect();
    let covariance = influences.covariance(&slopes);
    let count = others.len();
    let errors: Vec<f64> = (0..count).map(|at| covariance[at * count + at].max(0.0).sqrt()).collect();
    let least = others
        .iter()
        .zip(&errors)
        .zip(&slopes)
        .map(|((&other, &error), slope)| {
            let ratio = ratio(gradient[other] - gradient[arm], error, size(form));
            let skewness = influences.third_moment(statistics, slope) / error.powi(3);
            if skewness.is_finite() && ratio < 0.0 { straightened(ratio, skewness) } else { ratio }
        })
        .fold(f64::INFINITY, f64::min);
    if least >= 0.0 {
        return 1.0;
    }
    // In the tail the sum of the probabilities is the better of two bounds.
    let sum = count as f64 * normal::probability(least);
    let moving: Vec<usize> = (0..count).filter(|&at| errors[at] > 0.0).collect();
    let factor = Matrix::from_fn(moving.len(), moving.len(), |i, j| {
        covariance[moving[i] * count + moving[j]] / (errors[moving[i]] * errors[moving[j]])
    })
    .factor();
    let mut random = Random::seeded(1);
    let mut below = 1;
    for _ in 0..DRAWS {
        let normal: Vec<f64> = (0..factor.columns()).map(|_| random.normal()).collect();
        below += usize::from(factor.apply(&normal).into_iter().fold(f64::INFINITY, f64::min) <= least);
    }
    sum.min(below as f64 / (DRAWS + 1) as f64).min(1.0)
}

/// A ratio of an estimate and its standard error as normal as that of an estimate without skewness λ (Hall's transformation):
/// t + λt²/3 + λ²t³/27 + λ/6. Where the two sides of an estimate differ, its error and its standard error go together, and
/// one side of the ratio has a heavier tail.
fn straightened(ratio: f64, skewness: f64) -> f64 {
    let scaled = skewness * ratio / 3.0;
    ratio * (1.0 + scaled + scaled * scaled / 3.0) + skewness / 6.0
}
