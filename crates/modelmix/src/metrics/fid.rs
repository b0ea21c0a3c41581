//! The Fréchet distance of Gaussians, FID, and its extrapolation to samples without end.

use super::estimate::stratified_error;
use super::{ErrorBy, Estimate, Moments, Pool, check};
use crate::compute::{Backend, Matrix, negligible};
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::random::Random;

/// Rows whose quadratic forms are taken at a time.
const CHUNK: usize = 512;

/// One side of Fréchet distances, with what all distances to it share.
#[derive(Clone, Debug)]
pub struct Frechet {
    moments: Moments,
    /// L with LLᵀ = Σ.
    factor: Matrix,
    threads: usize,
}

impl Frechet {
    /// Distances to this Gaussian.
    pub fn to(moments: Moments, backend: &dyn Backend) -> Self {
        let factor = moments.covariance().factor();
        Self { moments, factor, threads: backend.threads() }
    }

    /// Lᵀ Σ′ L, whose eigenvalues are those of ΣΣ′.
    fn middle(&self, covariance: &Matrix) -> Matrix {
        self.factor.transposed_product(&covariance.product(&self.factor, self.threads), self.threads)
    }

    /// ‖μ − μ′‖² + tr(Σ + Σ′) − 2 tr(ΣΣ′)^½. Covariances may be singular: the root is that of LᵀΣ′L, which is symmetric, so
    /// that no imaginary part and no small constant on the diagonal is needed.
    ///
    /// # Panics
    /// Where the widths differ.
    pub fn distance(&self, other: &Moments) -> f64 {
        let eigenvalues = self.middle(other.covariance()).eigenvalues();
        let zero = negligible(&eigenvalues);
        let root: f64 = eigenvalues.iter().filter(|&&value| value > zero).map(|value| value.sqrt()).sum();
        let apart: f64 = self.moments.mean().iter().zip(other.mean()).map(|(a, b)| (a - b).powi(2)).sum();
        let traces = self.moments.covariance().trace() + other.covariance().trace();
        (apart + traces - 2.0 * root).max(0.0)
    }

    /// The derivative of 2 tr(ΣΣ′)^½ by Σ′: L (LᵀΣ′L)^−½ Lᵀ, where it is defined.
    fn transport(&self, other: &Moments) -> Matrix {
        let eigen = self.middle(other.covariance()).eigen();
        let zero = negligible(&eigen.values);
        let mut turned = self.factor.product(&eigen.vectors, self.threads);
        for (column, &value) in eigen.values.iter().enumerate() {
            let factor = if value > zero { value.powf(-0.25) } else { 0.0 };
            turned.column_mut(column).iter_mut().for_each(|entry| *entry *= factor);
        }
        turned.product_transposed(&turned, self.threads)
    }
}

/// A reference with what all distances to it share.
#[derive(Clone, Debug)]
pub struct FidReference<'a> {
    features: &'a Features,
    frechet: Frechet,
}

impl<'a> FidReference<'a> {
    /// Prepares a reference.
    ///
    /// # Errors
    /// Fewer than two rows.
    pub fn new(features: &'a Features, backend: &dyn Backend) -> Result<Self> {
        check::rows("the reference", "fid", features.view(), 2)?;
        Ok(Self { features, frechet: Frechet::to(Moments::of(features.view(), backend)?, backend) })
    }

    fn moments(&self, pool: &Pool<'_>, backend: &dyn Backend) -> Result<Moments> {
        check::width(pool, self.features)?;
        pool.parts().iter().try_for_each(|part| check::rows("the samples", "fid", part.rows, 2))?;
        Moments::of_pool(pool, backend)
    }

    /// [`fid`] of a pool.
    ///
    /// # Errors
    /// As [`fid`].
    pub fn distance(&self, pool: &Pool<'_>, backend: &dyn Backend) -> Result<f64> {
        Ok(self.frechet.distance(&self.moments(pool, backend)?))
    }

    /// [`fid_estimate`] of a pool.
    ///
    /// # Errors
    /// As [`fid`].
    pub fn estimate(&self, pool: &Pool<'_>, backend: &dyn Backend) -> Result<Estimate> {
        let to_pool = Frechet::to(self.moments(pool, backend)?, backend);
        let value = self.frechet.distance(&to_pool.moments);
        // Where sample x of either side gains weight, the distance changes by h(x) less its mean:
        // h(x) = 2(μ − μ′)·x + (x − μ)ᵀ(I − T)(x − μ), T the derivative of the root.
        let influences = |pool: &Pool<'_>, own: &Moments, other: &Frechet| -> f64 {
            let transport = other.transport(own);
            let toward: Vec<f64> =
                own.mean().iter().zip(other.moments.mean()).map(|(own, other)| 2.0 * (own - other)).collect();
            let values: Vec<f64> = pool
                .parts()
                .iter()
                .flat_map(|part| influence(part.rows, own.mean(), &toward, &transport, backend.threads()))
                .collect();
            stratified_error(pool, &values)
        };
        let from_pool = influences(pool, &to_pool.moments, &self.frechet);
        let from_reference = influences(&Pool::of(self.features), &self.frechet.moments, &to_pool);
        Ok(Estimate { value, standard_error: from_pool.hypot(from_reference), by: ErrorBy::Influence })
    }

    /// [`fid_infinity`] of a pool.
    ///
    /// # Errors
    /// As [`fid_infinity`].
    pub fn infinity(&self, pool: &Pool<'_>, extrapolation: &Extrapolation, backend: &dyn Backend) -> Result<Estimate> {
        let Extrapolation { points, smallest, seed } = *extrapolation;
        check::width(pool, self.features)?;
        let most = pool.largest_draw();
        let least = smallest.unwrap_or((most / 2).min(5000));
        if points < 3 {
            return Err(Error::setting("the number of points of an extrapolation", points, "at least 3"));
        }
        if least < 2 || least + points > most + 1 {
            return Err(Error::setting(
                "the smallest sample of an extrapolation",
                least,
                format!(
                    "at least 2, and so that {points} sizes fit up to the {most} samples that can be drawn; record more samples or use fewer points"
                ),
            ));
        }
        let mut seeds = Random::seeded(seed);
        let mut line = Vec::with_capacity(points);
        for point in 0..points {
            let size = least + (most - least) * point / (points - 1);
            let drawn = pool.draw(size, seeds.below(usize::MAX) as u64)?;
            line.push((1.0 / size as f64, self.frechet.distance(&Moments::of(drawn.view(), backend)?)));
        }
        let (value, standard_error) = intercept(&line);
        Ok(Estimate { value, standard_error, by: ErrorBy::Regression })
    }
}

/// FID: the Fréchet distance between Gaussians of the samples' and the reference's moments. A mixture's is exact from the
/// moments of its sets. Zero for identical sets; too large by about c/n for n samples (see [`fid_infinity`]).
///
/// # Errors
/// Fewer than two samples in a set, another width.
pub fn fid(pool: &Pool<'_>, reference: &Features, backend: &dyn Backend) -> Result<f64> {
    check::width(pool, reference)?;
    FidReference::new(reference, backend)?.distance(pool, backend)
}

/// [`fid`] with a standard error from every sample's influence. To first order, so that it says nothing of the bias.
///
/// # Errors
/// As [`fid`].
pub fn fid_estimate(pool: &Pool<'_>, reference: &Features, backend: &dyn Backend) -> Result<Estimate> {
    check::width(pool, reference)?;
    FidReference::new(reference, backend)?.estimate(pool, backend)
}

/// toward·z + zᵀ(I − T)z for every row, z = x − centre.
fn influence(rows: Rows<'_>, centre: &[f64], toward: &[f64], transport: &Matrix, threads: usize) -> Vec<f64> {
    let mut values = Vec::with_capacity(rows.len());
    for first in (0..rows.len()).step_by(CHUNK) {
        let count = CHUNK.min(rows.len() - first);
        let z = Matrix::from_fn(rows.width(), count, |column, row| {
            f64::from(rows.row(first + row)[column]) - centre[column]
        });
        let turned = transport.product(&z, threads);
        values.extend((0..count).map(|row| -> f64 {
            let entries = z.column(row).iter().zip(turned.column(row)).zip(toward);
            entries.map(|((z, turned), toward)| z * (toward + z - turned)).sum()
        }));
    }
    values
}

/// How a distance is extrapolated to samples without end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extrapolation {
    /// How many sizes of sample are measured.
    pub points: usize,
    /// The smallest of them; half of what there is where nothing else is said, and 5,000 where that is less.
    pub smallest: Option<usize>,
    /// The seed of the subsets.
    pub seed: u64,
}

impl Default for Extrapolation {
    fn default() -> Self {
        Self { points: 15, smallest: None, seed: 0 }
    }
}

/// FID∞: FID at several sizes of sample, evenly spaced and drawn without replacement, is fitted by a line in 1/n, whose value
/// at 1/n = 0 is given (Chong and Forsyth, 2020). The reference is used whole, and its own bias stays. The standard error is
/// that of the line, whose points share samples; take it as a lower limit.
///
/// # Errors
/// As [`fid`]; fewer than two sizes, or a smallest one that is not smaller than the sample.
pub fn fid_infinity(
    pool: &Pool<'_>,
    reference: &Features,
    extrapolation: &Extrapolation,
    backend: &dyn Backend,
) -> Result<Estimate> {
    check::width(pool, reference)?;
    FidReference::new(reference, backend)?.infinity(pool, extrapolation, backend)
}

/// Where the least-squares line meets x = 0, and its standard error.
fn intercept(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let (x_mean, y_mean) =
        points.iter().fold((0.0, 0.0), |(x_sum, y_sum), (x, y)| (x_sum + x / count, y_sum + y / count));
    let spread: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let slope = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum::<f64>() / spread;
    let value = y_mean - slope * x_mean;
    let residuals: f64 = points.iter().map(|(x, y)| (y - value - slope * x).powi(2)).sum();
    let variance = residuals / (count - 2.0) * (1.0 / count + x_mean.powi(2) / spread);
    (value, variance.sqrt())
}
