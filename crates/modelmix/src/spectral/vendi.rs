//! The Vendi score of a mixture, as a spectral function of the weights.

use std::sync::Arc;

use super::{Function, Part, Spectral};
use crate::compute::{Engine, Matrix, Set};
use crate::error::{Error, Result};
use crate::features::Rows;
use crate::kernel::Kernel;
use crate::objective::check_order;

/// The maximum number of samples, over all sets, whose kernel matrix is factored: with 1,500 samples a mixture of five
/// arms takes a minute, and the time grows with the cube.
pub const MOST_ROWS: usize = 2000;

impl Spectral {
    /// The negative Tsallis entropy (tr ρ^q − 1)/(q − 1) of ρ(α) = Σαᵢρᵢ, or Σλ ln λ for order 1, where ρᵢ is the mean
    /// of φ(x)φ(x)ᵀ over a set and φ(x)·φ(y) = k(x, y). It is convex in ρ, which is linear in α, and a decreasing
    /// function of the Vendi score (tr ρ^q)^(1/(1−q)), so both have the same optimal weights.
    ///
    /// The plain cosine kernel has φ(x) = x/‖x‖. For other kernels, and if there are fewer samples than features, φ(x)
    /// are the rows of a factor of the kernel matrix of the samples.
    ///
    /// # Errors
    /// If the order is not smooth, if the kernel is not 1 on equal rows or not defined on a row, or if there are more
    /// than [`MOST_ROWS`] samples and their kernel matrix is needed.
    ///
    /// # Panics
    /// If there are no sets, or if their widths differ.
    pub fn vendi(order: f64, kernel: &Kernel, sets: &[Set<'_>], engine: &Engine) -> Result<Self> {
        check_order(order)?;
        kernel.check_unit()?;
        sets.iter().try_for_each(|set| kernel.check(set.rows()?.view()))?;
        let samples: usize = sets.iter().map(Set::len).sum();
        let width = sets[0].width();
        let matrices = if *kernel == (Kernel::Cosine { power: 1 }) && width <= samples {
            sets.iter().map(|set| second_moment(*set, engine)).collect::<Result<Vec<_>>>()?
        } else if samples <= MOST_ROWS {
            factored(kernel, sets, engine)?
        } else {
            return Err(Error::setting(
                "the number of samples of all arms together",
                samples,
                format!(
                    "at most {MOST_ROWS} for vendi with this kernel ({kernel}), whose matrix has one row per sample; use the cosine kernel, rke (which is order 2 and needs no matrix), or fewer samples"
                ),
            ));
        };
        Self::vendi_of(
            order,
            matrices.into_iter().zip(sets).map(|(matrix, rows)| (matrix, rows.len())).collect(),
            engine,
        )
    }

    /// The same, from the mean of φφᵀ and the number of samples of each set.
    pub(crate) fn vendi_of(order: f64, sets: Vec<(Matrix, usize)>, engine: &Engine) -> Result<Self> {
        check_order(order)?;
        let function = Function::Tsallis(order);
        let part = |(matrix, rank)| Part { matrix: Arc::new(matrix), rank, vector: Vec::new(), linear: 0.0 };
        Ok(Self {
            size: sets[0].0.rows(),
            parts: sets.into_iter().map(part).collect(),
            function,
            constant: function.constant(),
            engine: engine.clone(),
        })
    }
}

/// The mean of xxᵀ/‖x‖².
fn second_moment(set: Set<'_>, engine: &Engine) -> Result<Matrix> {
    let rows = set.rows()?;
    let samples = set.len() as f64;
    let weight = |row: &[f32]| 1.0 / (samples * row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>());
    let weights: Vec<f64> = rows.view().iter().map(weight).collect();
    engine.scatter(set, &vec![0.0; set.width()], Some(&weights))
}

/// The means of φφᵀ, with φ the rows of R and RRᵀ = K over all samples.
fn factored(kernel: &Kernel, sets: &[Set<'_>], engine: &Engine) -> Result<Vec<Matrix>> {
    let width = sets[0].width();
    let mut pooled: Vec<f32> = Vec::new();
    for set in sets {
        pooled.extend_from_slice(set.rows()?.view().values());
    }
    let pooled = Rows::new(width, &pooled);
    let samples = pooled.len();
    let mut values = vec![0.0; samples * samples];
    // In single precision, rounding would leave eigenvalues of 1e-7, which small orders count as modes.
    engine.precise().kernel_rows(kernel, 1.0, pooled, pooled, &mut values)?;
    let factor = engine.factor(&Matrix::from_fn(samples, samples, |row, column| values[row * samples + column]))?;
    engine.check()?;
    let mut first = 0;
    sets.iter()
        .map(|rows| {
            let own = Matrix::from_fn(rows.len(), factor.columns(), |row, column| factor.at(first + row, column));
            first += rows.len();
            let mut mean = engine.product(own.transposed(), &own)?;
            mean.scale(1.0 / rows.len() as f64);
            Ok(mean)
        })
        .collect()
}
