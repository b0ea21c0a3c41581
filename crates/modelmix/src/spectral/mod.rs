//! Losses that are functions of the eigenvalues of a mixture: Fréchet distances and Vendi scores. Both have the form
//!
//! F(α) = bᵀα + tr h(M(α)) + constant, M(α) = Σαᵢ(Cᵢ + vᵢvᵢᵀ) − vvᵀ, v = Σαᵢvᵢ,
//!
//! with h convex. Without vectors M is linear in α, and F is convex like every tr h(linear). With vectors M is concave
//! in the Loewner order, and F is convex if h decreases. `simplex` minimises F.

mod frechet;
mod function;
mod smoothed;
mod vendi;

use std::sync::Arc;

use crate::compute::{Engine, Matrix};
use crate::error::Result;
use function::Function;
pub use smoothed::Smoothed;
pub use vendi::MOST_ROWS;

/// A Fréchet distance or Vendi objective F as a function of the mixture weights.
#[derive(Clone, Debug)]
pub struct Spectral {
    parts: Vec<Part>,
    /// The number of rows and columns of M.
    size: usize,
    function: Function,
    constant: f64,
    engine: Engine,
}

/// The contribution of an arm to F.
#[derive(Clone, Debug)]
struct Part {
    /// Cᵢ, a positive semidefinite matrix.
    matrix: Arc<Matrix>,
    /// An upper bound on the rank of Cᵢ, from the number of samples.
    rank: usize,
    /// vᵢ; empty if M is linear.
    vector: Vec<f64>,
    /// bᵢ.
    linear: f64,
}

impl Spectral {
    /// The number of arms.
    pub fn arms(&self) -> usize {
        self.parts.len()
    }

    /// F(α).
    ///
    /// # Errors
    /// Those of the engine.
    pub fn value(&self, weights: &[f64]) -> Result<f64> {
        Ok(self.value_without_constant(weights)? + self.constant)
    }

    /// F(α) without its constant, which could dominate it numerically.
    pub(crate) fn value_without_constant(&self, weights: &[f64]) -> Result<f64> {
        let linear: f64 = self.parts.iter().zip(weights).map(|(part, weight)| weight * part.linear).sum();
        Ok(linear + self.trace(weights)?)
    }

    /// The score: the Fréchet distance itself, or the Vendi score.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn score(&self, weights: &[f64]) -> Result<f64> {
        Ok(self.score_of(self.value_without_constant(weights)?))
    }

    pub(crate) fn score_of(&self, value_without_constant: f64) -> f64 {
        self.function.vendi(value_without_constant).unwrap_or(value_without_constant + self.constant)
    }

    pub(crate) fn constant(&self) -> f64 {
        self.constant
    }

    /// tr h(M).
    fn trace(&self, weights: &[f64]) -> Result<f64> {
        self.engine.check()?;
        let arms: Vec<usize> = (0..self.arms()).filter(|&arm| weights[arm] != 0.0).collect();
        if self.size == 0 {
            return Ok(0.0);
        }
        // Eigenvalues beyond the rank are zero; the roots of their rounding errors would be visible.
        let values = self.engine.eigenvalues(&self.matrix(weights))?;
        Ok(values.iter().rev().take(self.rank(&arms)).map(|&value| self.function.value(value)).sum())
    }

    /// M(α) as Σαᵢ(Cᵢ + (vᵢ − v)(vᵢ − v)ᵀ), which avoids cancellation.
    fn matrix(&self, weights: &[f64]) -> Matrix {
        let away = self.deviations(weights);
        let mut sum = Matrix::zeros(self.size, self.size);
        for ((part, away), &weight) in self.parts.iter().zip(&away).zip(weights) {
            if weight != 0.0 {
                sum.add(weight, &part.matrix);
                sum.add_outer(weight, away, away);
            }
        }
        sum
    }

    /// vᵢ − v.
    fn deviations(&self, weights: &[f64]) -> Vec<Vec<f64>> {
        let mut centre = vec![0.0; self.parts[0].vector.len()];
        for (part, weight) in self.parts.iter().zip(weights) {
            centre.iter_mut().zip(&part.vector).for_each(|(sum, value)| *sum += weight * value);
        }
        let away = |part: &Part| part.vector.iter().zip(&centre).map(|(value, centre)| value - centre).collect();
        self.parts.iter().map(away).collect()
    }

    /// An upper bound on the rank of a mixture of these arms.
    fn rank(&self, arms: &[usize]) -> usize {
        let own: usize = arms.iter().map(|&arm| self.parts[arm].rank).sum();
        let between = if self.parts[0].vector.is_empty() { 0 } else { arms.len().saturating_sub(1) };
        (own + between).min(self.size)
    }
}
