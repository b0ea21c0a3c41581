//! Minimises αᵀKα + fᵀα over mixture weights: Σα = 1, floor ≤ α ≤ cap. A primal active-set method, exact up to
//! rounding, with warm starts; the solution has a duality gap that bounds its distance to the optimum. Newton's method
//! adds a smooth convex function. Built on both: the best subsets of arms, and the cheapest mixture within a loss
//! limit.

mod bounds;
mod cheapest;
mod path;
mod smooth;
mod solver;
mod subsets;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::quadratic::Quadratic;

pub use bounds::Bounds;
pub use cheapest::{CheapestMixture, Prices, cheapest};
pub(crate) use path::{Forms, ObjectivePair, trace};
pub use path::{Waypoint, path};
pub use smooth::{Local, minimize_smooth};
pub use solver::Solver;
pub use subsets::{Subset, eliminate, subsets};

/// Weights up to this are rounding errors of zero.
pub(crate) const NEGLIGIBLE_WEIGHT: f64 = 1e-13;

/// Sets negligible weights to zero and adds them to the largest weight.
fn without_negligible(mut weights: Vec<f64>, bounds: &Bounds) -> Vec<f64> {
    let mut dust = 0.0;
    for (weight, floor) in weights.iter_mut().zip(&bounds.floors) {
        if *floor == 0.0 && *weight <= NEGLIGIBLE_WEIGHT {
            dust += std::mem::take(weight);
        }
    }
    if let Some(arm) = (0..weights.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b])) {
        weights[arm] = (weights[arm] + dust).min(bounds.caps[arm]);
    }
    weights
}

/// Optimal weights with a duality gap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Solution {
    /// α, which sums to 1.
    pub weights: Vec<f64>,
    /// αᵀKα + fᵀα, plus the smooth function if there is one.
    pub value: f64,
    /// The duality gap, max over all allowed mixtures y of gradientᵀ(α − y): no mixture has a value below `value −
    /// gap`.
    pub gap: f64,
    /// The number of changes and refinements of the set of free arms; with a smooth function, the number of steps.
    pub iterations: usize,
}

/// Finds the weights that minimise a quadratic form within bounds.
///
/// ```
/// use modelmix::{Quadratic, simplex::{self, Bounds}};
/// // Two arms, each diverse where the other is not: half of each.
/// let form = Quadratic::new(vec![1.0, 0.2, 0.2, 1.0], vec![0.0, 0.0])?;
/// let best = simplex::minimize(&form, &Bounds::simplex(2))?;
/// assert_eq!(best.weights, [0.5, 0.5]);
/// assert!((best.value - 0.6).abs() < 1e-15 && best.gap < 1e-15);
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// If no mixture satisfies the bounds, or if K is found not to be positive semidefinite in some direction.
pub fn minimize(form: &Quadratic, bounds: &Bounds) -> Result<Solution> {
    Solver::default().solve(form, bounds)
}
