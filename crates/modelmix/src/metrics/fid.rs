//! FID, the Fréchet distance between Gaussians, and its extrapolation to infinitely many samples.

use super::estimate::stratified_error;
use super::pool::Part;
use super::{ErrorBy, Estimate, Moments, Pool, check};
use crate::compute::{Engine, Matrix, negligible};
use crate::error::{Error, Result};
use crate::features::Features;
use crate::random::Random;

/// A Gaussian prepared for Fréchet distances to it: shared computations are done once.
#[derive(Clone, Debug)]
pub struct Frechet {
    moments: Moments,
    /// L with LLᵀ = Σ.
    factor: Matrix,
    engine: Engine,
}

impl Frechet {
    /// Prepares distances to this Gaussian.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn to(moments: Moments, engine: &Engine) -> Result<Self> {
        let factor = engine.factor(moments.covariance())?;
        Ok(Self { moments, factor, engine: engine.clone() })
    }

    /// Lᵀ Σ′ L, whose eigenvalues are those of ΣΣ′.
    fn middle(&self, covariance: &Matrix) -> Result<Matrix> {
        self.engine.product(self.factor.transposed(), &self.engine.product(covariance, &self.factor)?)
    }

    /// The distance ‖μ − μ′‖² + tr(Σ + Σ′) − 2 tr(ΣΣ′)^½. Covariances may be singular: the root is that of LᵀΣ′L, which
    /// is symmetric, so neither imaginary parts nor a small constant on the diagonal occur.
    ///
    /// # Errors
    /// Those of the engine.
    ///
    /// # Panics
    /// If the widths differ.
    pub fn distance(&self, other: &Moments) -> Result<f64> {
        let eigenvalues = self.engine.eigenvalues(&self.middle(other.covariance())?)?;
        let zero = negligible(&eigenvalues);
        let root: f64 = eigenvalues.iter().filter(|&&value| value > zero).map(|value| value.sqrt()).sum();
        let apart: f64 = self.moments.mean().iter().zip(other.mean()).map(|(a, b)| (a - b).powi(2)).sum();
        let traces = self.moments.covariance().trace() + other.covariance().trace();
        Ok((apart + traces - 2.0 * root).max(0.0))
    }

    /// R with RRᵀ = L (LᵀΣ′L)^−½ Lᵀ, the derivative of 2 tr(ΣΣ′)^½ by Σ′ where it is defined.
    fn transport(&self, other: &Moments) -> Result<Matrix> {
        let eigen = self.engine.eigen(&self.middle(other.covariance())?)?;
        let zero = negligible(&eigen.values);
        let mut turned = self.engine.product(&self.factor, &eigen.vectors)?;
        for (column, &value) in eigen.values.iter().enumerate() {
            let factor = if value > zero { value.powf(-0.25) } else { 0.0 };
            turned.column_mut(column).iter_mut().for_each(|entry| *entry *= factor);
        }
        Ok(turned)
    }
}

/// A reference prepared for FID: shared computations are done once.
#[derive(Clone, Debug)]
pub struct FidReference<'a> {
    features: &'a Features,
    frechet: Frechet,
}

impl<'a> FidReference<'a> {
    /// Prepares a reference.
    ///
    /// # Errors
    /// If there are fewer than two rows.
    pub fn new(features: &'a Features, engine: &Engine) -> Result<Self> {
        check::rows("the reference", "fid", features.host()?, 2)?;
        Ok(Self { features, frechet: Frechet::to(Moments::of(features, engine)?, engine)? })
    }

    fn moments(&self, pool: &Pool<'_>, engine: &Engine) -> Result<Moments> {
        check::width(pool, self.features)?;
        pool.parts().iter().try_for_each(|part| check::rows("the samples", "fid", part.rows, 2))?;
        Moments::of_pool(pool, engine)
    }

    /// [`fid`] between a pool and this reference.
    ///
    /// # Errors
    /// As [`fid`].
    pub fn distance(&self, pool: &Pool<'_>, engine: &Engine) -> Result<f64> {
        self.frechet.distance(&self.moments(pool, engine)?)
    }

    /// [`fid_estimate`] between a pool and this reference.
    ///
    /// # Errors
    /// As [`fid`].
    pub fn estimate(&self, pool: &Pool<'_>, engine: &Engine) -> Result<Estimate> {
        let to_pool = Frechet::to(self.moments(pool, engine)?, engine)?;
        let value = self.frechet.distance(&to_pool.moments)?;
        // If sample x of either side gains weight, the distance changes by h(x) minus its mean: h(x) = 2(μ − μ′)·x + (x
        // − μ)ᵀ(I − T)(x − μ), with T the derivative of the root.
        let influences = |pool: &Pool<'_>, own: &Moments, other: &Frechet| -> Result<f64> {
            let transport = other.transport(own)?;
            let toward: Vec<f64> =
                own.mean().iter().zip(other.moments.mean()).map(|(own, other)| 2.0 * (own - other)).collect();
            let of_part = |part: &Part<'_>| influence(part, own.mean(), &toward, &transport, engine);
            let values = pool.parts().iter().map(of_part).collect::<Result<Vec<_>>>()?.concat();
            Ok(stratified_error(pool, &values))
        };
        let from_pool = influences(pool, &to_pool.moments, &self.frechet)?;
        let from_reference = influences(&Pool::mixture([(self.features, 1.0)])?, &self.frechet.moments, &to_pool)?;
        Ok(Estimate { value, standard_error: from_pool.hypot(from_reference), by: ErrorBy::Influence })
    }

    /// [`fid_infinity`] between a pool and this reference.
    ///
    /// # Errors
    /// As [`fid_infinity`].
    pub fn infinity(&self, pool: &Pool<'_>, extrapolation: &Extrapolation, engine: &Engine) -> Result<Estimate> {
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
                    "at least 2, and small enough for {points} sizes up to the {most} samples that can be drawn; record more samples or use fewer points"
                ),
            ));
        }
        let mut seeds = Random::seeded(seed);
        let mut line = Vec::with_capacity(points);
        for point in 0..points {
            let size = least + (most - least) * point / (points - 1);
            let drawn = engine.hold(&pool.draw(size, seeds.below(usize::MAX) as u64)?)?;
            line.push((1.0 / size as f64, self.frechet.distance(&Moments::of(&*drawn, engine)?)?));
        }
        let (value, standard_error) = intercept(&line);
        Ok(Estimate { value, standard_error, by: ErrorBy::Regression })
    }
}

/// FID: the Fréchet distance between Gaussians with the moments of the samples and of the reference. For a mixture it
/// is exact, computed from the moments of its sets. It is zero for identical sets, and biased upward by about c/n for n
/// samples (see [`fid_infinity`]).
///
/// # Errors
/// If a set has fewer than two samples, or if widths differ.
pub fn fid(pool: &Pool<'_>, reference: &Features, engine: &Engine) -> Result<f64> {
    check::width(pool, reference)?;
    FidReference::new(reference, engine)?.distance(pool, engine)
}

/// [`fid`] with a standard error from the influence of every sample. It is of first order and does not include the
/// bias.
///
/// # Errors
/// As [`fid`].
pub fn fid_estimate(pool: &Pool<'_>, reference: &Features, engine: &Engine) -> Result<Estimate> {
    check::width(pool, reference)?;
    FidReference::new(reference, engine)?.estimate(pool, engine)
}

/// toward·z + zᵀ(I − RRᵀ)z for every row, with z = x − centre.
fn influence(part: &Part<'_>, centre: &[f64], toward: &[f64], transport: &Matrix, engine: &Engine) -> Result<Vec<f64>> {
    let along = engine.projections(part.set, centre, transport, &vec![1.0; transport.columns()])?;
    let value = |(row, along): (&[f32], f64)| {
        let entries = row.iter().zip(centre).zip(toward);
        let own: f64 =
            entries.map(|((&x, centre), toward)| (f64::from(x) - centre, toward)).map(|(z, t)| z * (t + z)).sum();
        own - along
    };
    Ok(part.rows.iter().zip(along).map(value).collect())
}

/// Settings of [`fid_infinity`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extrapolation {
    /// The number of sample sizes that are measured.
    pub points: usize,
    /// The smallest of them; default: half of the samples, or 5,000 if that is less.
    pub smallest: Option<usize>,
    /// The seed of the subsets.
    pub seed: u64,
}

impl Default for Extrapolation {
    fn default() -> Self {
        Self { points: 15, smallest: None, seed: 0 }
    }
}

/// FID∞: FID at several evenly spaced sample sizes, drawn without replacement, is fitted by a line in 1/n, and the
/// value at 1/n = 0 is returned (Chong and Forsyth, 2020). The whole reference is used, and its own bias remains. The
/// standard error is that of the line; its points share samples, so it is a lower limit.
///
/// # Errors
/// As [`fid`], if there are too few sizes, or if the smallest size is not smaller than the sample.
pub fn fid_infinity(
    pool: &Pool<'_>,
    reference: &Features,
    extrapolation: &Extrapolation,
    engine: &Engine,
) -> Result<Estimate> {
    check::width(pool, reference)?;
    FidReference::new(reference, engine)?.infinity(pool, extrapolation, engine)
}

/// The intercept of the least-squares line, and its standard error.
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
