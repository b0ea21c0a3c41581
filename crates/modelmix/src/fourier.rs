//! Random Fourier features of the Gaussian kernel: φ with φ(x)·φ(y) ≈ k(x, y), so that a sum of k over many samples is
//! one product with the sum of their features. `session` decides how many are needed for an error and stores the sums.

use crate::compute::Engine;
use crate::error::Result;
use crate::features::Rows;
use crate::random::Random;

/// The maximum number of features of a map.
pub const MOST_FEATURES: usize = 1 << 16;

/// Orthogonal random features (Yu et al., NeurIPS 2016) of exp(−‖x−y‖²/2σ²):
/// φ(x) = (cos ω_r·x, sin ω_r·x)/√R for r = 1, …, R, which are D = 2R features.
///
/// The frequencies ω are normal with variance 1/σ², so φ(x)·φ(y) is unbiased. They come in blocks of at most the width
/// of x, and are orthogonal within a block. φ(x)·φ(x) = 1 always. Independent frequencies have the variance (1 −
/// k²)²/D; orthogonal ones have less if x is wide.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianFeatures {
    width: usize,
    frequencies: Vec<f32>,
}

impl GaussianFeatures {
    /// Draws at least `features` features for rows of this width from `random`.
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
                // The length of a normal vector is independent of its direction; only the direction changes below.
                let length = dot(&row, &row).sqrt();
                // Modified Gram-Schmidt.
                for other in &block {
                    let along = dot(&row, other);
                    row.iter_mut().zip(other).for_each(|(value, other)| *value -= along * other);
                }
                let left = dot(&row, &row).sqrt();
                // A remainder this small has a probability below 1e-6 per row, and its direction would be mostly
                // rounding error.
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

    /// The number of features, D.
    pub fn features(&self) -> usize {
        2 * self.frequencies.len() / self.width
    }

    /// The width of the rows that it maps.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The frequencies in turns instead of radians, one row per frequency: cos ω·x is cos 2πt with t the product with such a row.
    pub(crate) fn turns(&self) -> Vec<f32> {
        self.frequencies.iter().map(|frequency| (f64::from(*frequency) / std::f64::consts::TAU) as f32).collect()
    }

    /// Maps every row to D values: all cosines, then all sines.
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

/// x·y with eight partial sums, in a fixed order.
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

/// The number of features for which the standard error of every entry of K̂ is at most `error`, if κ is a sum of
/// Gaussian kernels with these weights and one map per kernel: D = Σw²/error², rounded up to an even number.
///
/// κ̂(x, y) has the variance Σw²(1 − k²)²/D over the draw of the frequencies, which is at most Σw²/D. The standard
/// error of a mean over pairs is not larger than that of its largest term.
pub fn features_for(error: f64, weights: &[f64]) -> usize {
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    let features = (squares / (error * error)).ceil().max(2.0);
    // A float that is too large becomes the largest integer.
    (features as usize).saturating_add(1) & !1
}
