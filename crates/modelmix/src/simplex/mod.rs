//! min αᵀKα + fᵀα over mixture weights: Σα = 1, floor ≤ α ≤ cap. A primal active-set method, exact up to rounding,
//! warm-started, and its answer carries a duality gap that proves how far from the optimum it can be. With a smooth convex
//! function beside the form, Newton's method on top of it.

mod bounds;
mod smooth;
mod solver;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::quadratic::Quadratic;

pub use bounds::Bounds;
pub use smooth::{Local, minimize_smooth};
pub use solver::Solver;

/// Weights with their proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
