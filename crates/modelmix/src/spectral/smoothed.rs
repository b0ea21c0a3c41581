//! A spectral function that is smooth on all mixtures of some arms, with its gradient and curvature.

use std::sync::Arc;

use super::{Function, Part, Spectral};
use crate::compute::{Eigen, Matrix};
use crate::error::Result;
use crate::simplex::Local;

/// ε, relative to the mean eigenvalue.
const SMOOTHING: f64 = 1e-14;
/// If two eigenvalues differ by less than this, relatively, the derivative between them replaces their divided
/// difference.
const EQUAL_EIGENVALUES: f64 = 1e-4;

/// A smooth lower bound F̃ ≤ F with finite slopes everywhere: h(λ + ε) instead of h(λ), minus the most that this can add.
///
/// Roots and entropies have infinite slopes at 0. Directions that no arm spans are removed first. Eigenvalues at or
/// near 0 then occur only if a mixture leaves arms out, and F̃ equals F up to rounding everywhere else.
#[derive(Clone, Debug)]
pub struct Smoothed {
    spectral: Spectral,
    usable: Vec<usize>,
    epsilon: f64,
    /// The smallest eigenvalue used in curvatures, which may be infinite although slopes are finite.
    least: f64,
    excess: f64,
}

impl Spectral {
    /// F̃ on mixtures of the `usable` arms, all of which have a positive weight in the mixture `inside`.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn smoothed(&self, usable: &[usize], inside: &[f64]) -> Result<Smoothed> {
        let spectral = self.spanned(usable, inside)?;
        let mean = spectral.matrix(inside).trace() / spectral.size.max(1) as f64;
        let epsilon = if spectral.function.has_infinite_slope_at_zero() { SMOOTHING * mean } else { 0.0 };
        // h(λ + ε) − h(λ) ≤ ε·h′(λ + ε) by convexity, and h′ increases up to λ = 1, the trace. The root decreases.
        let steepest = match spectral.function {
            Function::Root => 0.0,
            function => function.slope(1.0 + epsilon).max(0.0),
        };
        Ok(Smoothed {
            usable: usable.to_vec(),
            epsilon,
            least: SMOOTHING * mean,
            excess: if epsilon > 0.0 { spectral.size as f64 * epsilon * steepest } else { 0.0 },
            spectral,
        })
    }

    /// The same function of mixtures of some arms, on the subspace that they span.
    fn spanned(&self, usable: &[usize], inside: &[f64]) -> Result<Spectral> {
        self.engine.check()?;
        if self.size == 0 {
            return Ok(self.clone());
        }
        let matrix = self.matrix(inside);
        let values = self.engine.eigenvalues(&matrix)?;
        let rounding = 8.0 * f64::EPSILON * values[values.len() - 1].max(0.0);
        let kept = values.iter().filter(|&&value| value > rounding).count().min(self.rank(usable));
        if kept == self.size {
            return Ok(self.clone());
        }
        let vectors = self.engine.eigen(&matrix)?.vectors;
        let first = self.size - kept;
        let basis = Matrix::from_fn(self.size, kept, |row, column| vectors.at(row, first + column));
        let part = |(arm, part): (usize, &Part)| {
            Ok(Part {
                matrix: match usable.contains(&arm) {
                    true => Arc::new(self.in_basis(&part.matrix, &basis)?),
                    false => part.matrix.clone(),
                },
                vector: if part.vector.is_empty() { Vec::new() } else { basis.apply_transposed(&part.vector) },
                ..part.clone()
            })
        };
        let parts = self.parts.iter().enumerate().map(part).collect::<Result<_>>()?;
        Ok(Spectral { parts, size: kept, ..self.clone() })
    }

    /// UᵀCU.
    fn in_basis(&self, matrix: &Matrix, basis: &Matrix) -> Result<Matrix> {
        self.engine.product(basis.transposed(), &self.engine.product(matrix, basis)?)
    }
}

impl Smoothed {
    /// F̃ without its constant at a mixture of the usable arms. With M = UΛUᵀ, Aᵢ = Uᵀ(Cᵢ + (vᵢ − v)(vᵢ − v)ᵀ)U and uᵢ
    /// = Uᵀ(vᵢ − v), along Σα = 1:
    ///
    /// ∂F/∂αᵢ = bᵢ + Σₖ h′(λₖ)·Aᵢ,ₖₖ,
    /// ∂²F/∂αᵢ∂αⱼ = Σₖₗ h′\[λₖ, λₗ\]·Aᵢ,ₖₗ·Aⱼ,ₖₗ − 2 Σₖ h′(λₖ)·uᵢ,ₖ·uⱼ,ₖ,
    ///
    /// with divided differences h′\[·,·\] (Daleckii and Krein). ∂M/∂αᵢ is the matrix in Aᵢ minus vvᵀ, which is the same
    /// for all arms.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn local(&self, weights: &[f64]) -> Result<Local> {
        let Smoothed { spectral, usable, .. } = self;
        let arms = weights.len();
        let mut local = Local::zero(arms);
        let linear = |arm: usize| spectral.parts[arm].linear;
        for &arm in usable {
            local.value += weights[arm] * linear(arm);
            local.gradient[arm] = linear(arm);
            local.scale = local.scale.max(linear(arm).abs());
        }
        spectral.engine.check()?;
        if spectral.size == 0 {
            return Ok(local);
        }
        let Eigen { values, vectors } = spectral.engine.eigen(&spectral.matrix(weights))?;
        let values: Vec<f64> = values.iter().map(|value| value.max(0.0) + self.epsilon).collect();
        let slopes: Vec<f64> = values.iter().map(|&value| spectral.function.slope(value)).collect();
        local.value += values.iter().map(|&value| spectral.function.value(value)).sum::<f64>() - self.excess;
        let bends = self.divided_differences(&values);
        let away = spectral.deviations(weights);
        let turned_away: Vec<Vec<f64>> = usable
            .iter()
            .map(|&arm| if away[arm].is_empty() { Vec::new() } else { vectors.apply_transposed(&away[arm]) })
            .collect();
        let mut turned: Vec<Matrix> = Vec::with_capacity(usable.len());
        for (i, &arm) in usable.iter().enumerate() {
            let mut matrix = spectral.in_basis(&spectral.parts[arm].matrix, &vectors)?;
            matrix.add_outer(1.0, &turned_away[i], &turned_away[i]);
            let slope: f64 = slopes.iter().enumerate().map(|(k, slope)| slope * matrix.at(k, k)).sum();
            local.gradient[arm] += slope;
            local.scale = local.scale.max(slope.abs());
            turned.push(matrix);
            let mut bent = bends.clone();
            for k in 0..spectral.size {
                bent.column_mut(k).iter_mut().zip(turned[i].column(k)).for_each(|(bend, value)| *bend *= value);
            }
            for (j, &other) in usable[..=i].iter().enumerate() {
                let own: f64 =
                    turned_away[i].iter().zip(&turned_away[j]).zip(&slopes).map(|((x, y), g)| x * y * g).sum();
                let curvature = bent.inner(&turned[j]) - 2.0 * own;
                local.curvature[arm * arms + other] = curvature;
                local.curvature[other * arms + arm] = curvature;
            }
        }
        Ok(local)
    }

    /// h′\[λₖ, λₗ\].
    fn divided_differences(&self, values: &[f64]) -> Matrix {
        let function = self.spectral.function;
        let values: Vec<f64> = values.iter().map(|value| value.max(self.least)).collect();
        let slopes: Vec<f64> = values.iter().map(|&value| function.slope(value)).collect();
        Matrix::from_fn(values.len(), values.len(), |k, l| {
            let (x, y) = (values[k], values[l]);
            if (x - y).abs() <= EQUAL_EIGENVALUES * x.max(y) {
                function.curvature(0.5 * (x + y))
            } else {
                (slopes[k] - slopes[l]) / (x - y)
            }
        })
    }
}
