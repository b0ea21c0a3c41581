//! min αᵀKα + fᵀα over mixture weights: Σα = 1, floor ≤ α ≤ cap. A primal active-set method, exact up to rounding,
//! warm-started, and its answer carries a duality gap that proves how far from the optimum it can be. With a smooth convex
//! function beside the form, Newton's method on top of it. On top of both: the best few arms, and the cheapest mixture that is
//! nearly as good.

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

/// Weights up to this are what rounding leaves of none.
pub(crate) const NEGLIGIBLE_WEIGHT: f64 = 1e-13;

/// The weights without dust, which the largest takes.
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

/// Weights with their proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Solution {
    /// α, which adds up to 1.
    pub weights: Vec<f64>,
    /// αᵀKα + fᵀα, and the smooth function where there is one.
    pub value: f64,
    /// max over all allowed mixtures y of gradientᵀ(α − y): no mixture has a value less than `value − gap`.
    pub gap: f64,
    /// How often the set of free arms was changed or refined; with a smooth function, how many steps were taken.
    pub iterations: usize,
}

/// Solves one problem from scratch.
///
/// ```
/// use modelmix::{Quadratic, simplex::{self, Bounds}};
/// // two arms, each diverse where the other is not: half of each
/// let form = Quadratic::new(vec![1.0, 0.2, 0.2, 1.0], vec![0.0, 0.0])?;
/// let best = simplex::minimize(&form, &Bounds::simplex(2))?;
/// assert_eq!(best.weights, [0.5, 0.5]);
/// assert!((best.value - 0.6).abs() < 1e-15 && best.gap < 1e-15);
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// Bounds that no mixture fits, or a direction in which K is not positive semidefinite (noticed where it is met).
pub fn minimize(form: &Quadratic, bounds: &Bounds) -> Result<Solution> {
    Solver::default().solve(form, bounds)
}
