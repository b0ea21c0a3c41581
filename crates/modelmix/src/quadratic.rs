//! The quadratic form αᵀKα + fᵀα: the loss as a convex function of the mixture weights.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The quadratic form αᵀKα + fᵀα of m arms, with K symmetric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Rows", into = "Rows")]
pub struct Quadratic {
    quadratic: Vec<f64>,
    linear: Vec<f64>,
}

/// The form as data, with K as rows.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Rows {
    /// K̂ (V-statistics), one row per arm.
    quadratic: Vec<Vec<f64>>,
    /// f̂, one value per arm.
    linear: Vec<f64>,
}

impl From<Quadratic> for Rows {
    fn from(form: Quadratic) -> Self {
        Self { quadratic: form.rows(), linear: form.linear }
    }
}

impl TryFrom<Rows> for Quadratic {
    type Error = Error;

    fn try_from(rows: Rows) -> Result<Self> {
        let arms = rows.linear.len();
        if let Some(row) = rows.quadratic.iter().find(|row| row.len() != arms) {
            let problem = format!("K has a row of {} entries and f has {arms}; K must be {arms} × {arms}", row.len());
            return Err(Error::Program { problem });
        }
        Self::new(rows.quadratic.concat(), rows.linear)
    }
}

impl Quadratic {
    /// Creates a form from K, in row-major order, and f.
    ///
    /// # Errors
    /// If sizes do not match, if a value is not finite, or if K is not symmetric.
    pub fn new(quadratic: Vec<f64>, linear: Vec<f64>) -> Result<Self> {
        let arms = linear.len();
        if arms == 0 || quadratic.len() != arms * arms {
            return Err(Error::Program {
                problem: format!(
                    "K has {} entries and f has {arms}; K must be {arms} × {arms}, for at least one arm",
                    quadratic.len()
                ),
            });
        }
        if quadratic.iter().chain(&linear).any(|value| !value.is_finite()) {
            return Err(Error::Program { problem: "K or f has a value that is not finite".into() });
        }
        let scale = quadratic.iter().fold(0.0f64, |scale, value| scale.max(value.abs()));
        for i in 0..arms {
            for j in 0..i {
                let (left, right) = (quadratic[i * arms + j], quadratic[j * arms + i]);
                if (left - right).abs() > 1e-9 * scale {
                    return Err(Error::Program {
                        problem: format!("K is not symmetric: K[{i}][{j}] is {left} and K[{j}][{i}] is {right}"),
                    });
                }
            }
        }
        Ok(Self { quadratic, linear })
    }

    /// The form with all coefficients zero.
    pub(crate) fn zeros(arms: usize) -> Self {
        Self { quadratic: vec![0.0; arms * arms], linear: vec![0.0; arms] }
    }

    /// The number of arms, m.
    pub fn arms(&self) -> usize {
        self.linear.len()
    }

    /// K in row-major order.
    pub fn quadratic(&self) -> &[f64] {
        &self.quadratic
    }

    /// K as rows.
    pub fn rows(&self) -> Vec<Vec<f64>> {
        self.quadratic.chunks(self.arms()).map(<[f64]>::to_vec).collect()
    }

    /// The entry `K[i][j]`.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.quadratic[i * self.arms() + j]
    }

    pub(crate) fn at_mut(&mut self, i: usize, j: usize) -> &mut f64 {
        let arms = self.arms();
        &mut self.quadratic[i * arms + j]
    }

    /// The linear part f.
    pub fn linear(&self) -> &[f64] {
        &self.linear
    }

    pub(crate) fn linear_mut(&mut self) -> &mut [f64] {
        &mut self.linear
    }

    /// The value αᵀKα + fᵀα.
    pub fn value(&self, weights: &[f64]) -> f64 {
        let product = |row: &[f64]| -> f64 { row.iter().zip(weights).map(|(k, weight)| k * weight).sum() };
        self.quadratic
            .chunks(self.arms())
            .zip(&self.linear)
            .zip(weights)
            .filter(|(_, weight)| **weight != 0.0)
            .map(|((row, f), weight)| weight * (product(row) + f))
            .sum()
    }

    /// The value for one arm alone, K_ii + f_i.
    pub fn single(&self, arm: usize) -> f64 {
        self.at(arm, arm) + self.linear[arm]
    }

    /// The gradient 2Kα + f.
    pub fn gradient(&self, weights: &[f64]) -> Vec<f64> {
        self.quadratic
            .chunks(self.arms())
            .zip(&self.linear)
            .map(|(row, f)| f + 2.0 * row.iter().zip(weights).map(|(k, weight)| k * weight).sum::<f64>())
            .collect()
    }

    /// Adds `weight` times another form for the same arms.
    pub(crate) fn add(&mut self, weight: f64, other: &Quadratic) {
        let pairs = self.quadratic.iter_mut().zip(&other.quadratic).chain(self.linear.iter_mut().zip(&other.linear));
        for (value, more) in pairs {
            *value += weight * more;
        }
    }
}
