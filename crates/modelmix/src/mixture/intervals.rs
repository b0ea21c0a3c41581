//! How sure the weights are: intervals from how uncertain the gradient is.

use crate::compute::{Matrix, check_stopped};
use crate::error::Result;
use crate::quadratic::Quadratic;
use crate::random::Random;
use crate::simplex::{Bounds, Solver};
use crate::statistics::Statistics;

/// How many programs are solved.
const DRAWS: usize = 1000;
/// The share of draws beyond each end of an interval.
const TAIL: f64 = 0.025;

/// A 95% interval for each weight.
///
/// Had other samples been drawn, the gradient at the optimum would have been another. To first order it is normal with the
/// covariance of [`Statistics::gradient_covariance`]; every draw of it, added to the linear part, gives the weights that it
/// would have led to, and the middle 95% of those make the interval. An arm that is at 0, and would stay there in most
/// draws, has an interval that begins at 0. It is an approximation that needs samples enough for means to be normal.
pub(super) fn weight_intervals(
    statistics: &Statistics,
    form: &Quadratic,
    bounds: &Bounds,
    weights: &[f64],
) -> Result<Vec<[f64; 2]>> {
    let arms = weights.len();
    let covariance = statistics.gradient_covariance(weights);
    let factor = Matrix::from_fn(arms, arms, |i, j| covariance[i * arms + j]).factor();
    // The same numbers for the same samples: an interval is no more random than the weights.
    let mut random = Random::seeded(0);
    let mut solver = Solver::default();
    let mut drawn = vec![Vec::with_capacity(DRAWS); arms];
    for _ in 0..DRAWS {
        check_stopped();
        let normal: Vec<f64> = (0..factor.columns()).map(|_| random.normal()).collect();
        let mut moved = form.clone();
        moved.linear_mut().iter_mut().zip(factor.apply(&normal)).for_each(|(linear, noise)| *linear += noise);
        let weights = solver.solve(&moved, bounds)?.weights;
        drawn.iter_mut().zip(weights).for_each(|(drawn, weight)| drawn.push(weight));
    }
    let interval = |mut drawn: Vec<f64>| {
        drawn.sort_by(f64::total_cmp);
        let end = |share: f64| drawn[((share * DRAWS as f64) as usize).min(DRAWS - 1)];
        [end(TAIL), end(1.0 - TAIL)]
    };
    Ok(drawn.into_iter().map(interval).collect())
}
