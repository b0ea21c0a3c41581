//! Random features of the Gaussian kernel: φ with φ(x)·φ(y) ≈ k(x, y), so that a sum of k over many samples is one product
//! with the sum of their features. How many are needed for an error, and where the sums are kept, is left to `session`.

use crate::compute::Engine;
use crate::error::Result;
use crate::features::Rows;
use crate::random::Random;

/// The most features that a map may have.
pub const MOST_FEATURES: usize = 1 << 16;

/// Orthogonal random features (Yu et al., NeurIPS 2016) of exp(−‖x−y‖²/2σ²):
/// φ(x) = (cos ω_r·x, sin ω_r·x)/√R for r = 1, …, R, which are D = 2R features.
///
/// The frequencies ω are normal with variance 1/σ², which makes φ(x)·φ(y) unbiased; up to as many as x is wide are orthogonal to
/// each other, then the next block begins. φ(x)·φ(x) = 1 always. Independent frequencies have the variance (1 − k²)²/D;
/// orthogonal ones have less where x is wide.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianFeatures {
    width: usize,
    frequencies: Vec<f32>,
}

impl GaussianFeatures {
    /// At least `features` features of rows of this width, drawn from `random`.
    pub fn new(bandwidth: f64, width: usize, features: usize, random: &mut Random) -> Self {
        let count = features.div_ceil(2);
        let mut frequencies = Vec::with_capacity(count * width);
        let mut block: Vec<Vec<f64>> = Vec::new();
        for _ in 0..count {
            if block.len() == width {
                block.clear();
            }
            let (direction, length) = loop {
                let mut row: Vec<f64> = (0..width).map(|_| random.normal()).collect();
                // The length of a normal vector is independent of its direction, which is all that goes on.
                let length = dot(&row, &row).sqrt();
                // Gram and Schmidt, one after the other.
                for other in &block {
                    let along = dot(&row, other);
                    row.iter_mut().zip(other).for_each(|(value, other)| *value -= along * other);
                }
                let left = dot(&row, &row).sqrt();
                // So small a rest has probability below 1e-6 a row, and would be rounding more than direction.
                if left > 1e-7 * length {
                    row.iter_mut().for_each(|value| *value /= left);
                    break (row, length);
                }
            };
            frequencies.extend(direction.iter().map(|value| (value * length / bandwidth) as f32));
            block.push(direction);
        }
        Self { width, frequencies }
    }

    /// D.
    pub fn features(&self) -> usize {
        2 * self.frequencies.len() / self.width
    }

    /// How wide the rows are that it maps.
    pub fn width(&self) -> usize {
        self.width
    }

    /// φ of every row, D values each: all cosines, then all sines.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn map(&self, engine: &Engine, rows: Rows<'_>) -> Result<Vec<f64>> {
        let count = self.features() / 2;
        let scale = (1.0 / count as f64).sqrt();
        let phases = engine.products(rows, Rows::new(self.width, &self.frequencies))?;
        let mut features = vec![0.0; rows.len() * 2 * count];
        for (phases, features) in phases.chunks_exact(count).zip(features.chunks_exact_mut(2 * count)) {
            let (cosines, sines) = features.split_at_mut(count);
            for ((phase, cosine), sine) in phases.iter().zip(cosines).zip(sines) {
                let (s, c) = phase.sin_cos();
                (*cosine, *sine) = (scale * c, scale * s);
            }
        }
        Ok(features)
    }
}

/// x·y with eight sums in flight, in a fixed order.
pub(crate) fn dot(x: &[f64], y: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (x_chunks, x_rest) = x.as_chunks::<8>();
    let (y_chunks, y_rest) = y.as_chunks::<8>();
    for (x, y) in x_chunks.iter().zip(y_chunks) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f64>() + x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum::<f64>()
}

/// How many features make the standard error of every entry of K̂ at most `error`, where κ is a sum of Gaussian kernels with
/// these weights and a map each: D = Σw²/error², rounded up to an even number.
///
/// κ̂(x, y) has the variance Σw²(1 − k²)²/D over the draw of the frequencies, which is at most Σw²/D; and a mean over pairs has no
/// larger a deviation than its largest term.
pub fn features_for(error: f64, weights: &[f64]) -> usize {
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    let features = (squares / (error * error)).ceil().max(2.0);
    // A float that is too large becomes the largest integer.
    (features as usize).saturating_add(1) & !1
}
