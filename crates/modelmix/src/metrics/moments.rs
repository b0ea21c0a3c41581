//! Means and covariances of sets and of mixtures: the Gaussians that Fréchet distances compare.

use super::Pool;
use crate::compute::{Engine, Matrix, Set};
use crate::error::{Error, Result};

/// The mean and the covariance of a distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    mean: Vec<f64>,
    covariance: Matrix,
}

impl Moments {
    /// Moments that are known.
    pub(crate) fn new(mean: Vec<f64>, covariance: Matrix) -> Result<Self> {
        let mut columns = (0..covariance.columns()).map(|column| covariance.column(column));
        if !mean.iter().chain(columns.by_ref().flatten()).all(|value| value.is_finite()) {
            let problem =
                "a covariance needs at least 2 samples of finite size; record more, or scale the features down";
            return Err(Error::Array { origin: "features".into(), problem: problem.into() });
        }
        Ok(Self { mean, covariance })
    }

    /// The moments of one set: the sample mean, and the covariance with the denominator n − 1.
    ///
    /// # Errors
    /// If there are fewer than two rows; those of the engine.
    pub fn of<'a>(rows: impl Into<Set<'a>>, engine: &Engine) -> Result<Self> {
        let set = rows.into();
        if set.len() < 2 {
            return Err(Error::Array {
                origin: "features".into(),
                problem: format!("a covariance needs at least 2 samples, but there is {}; record more", set.len()),
            });
        }
        let mean = engine.mean(set)?;
        let mut covariance = engine.scatter(set, &mean, None)?;
        covariance.scale(1.0 / (set.len() - 1) as f64);
        Ok(Self { mean, covariance })
    }

    /// The moments of a pool: μ = Σαᵢμᵢ and Σ = Σαᵢ(Σᵢ + μᵢμᵢᵀ) − μμᵀ, which is exact for the mixture of distributions
    /// with the moments of its parts.
    ///
    /// # Errors
    /// If a set has fewer than two rows.
    pub fn of_pool(pool: &Pool<'_>, engine: &Engine) -> Result<Self> {
        let parts = pool.parts().iter().map(|part| Ok((part.share, Self::of(part.set, engine)?)));
        let parts: Vec<(f64, Self)> = parts.collect::<Result<_>>()?;
        Ok(Self::mixed(parts.iter().map(|(share, moments)| (*share, moments))))
    }

    /// The moments of a mixture of parts with known moments; the shares sum to 1.
    ///
    /// # Panics
    /// If there are no parts, or if their widths differ.
    pub fn mixed<'a>(parts: impl IntoIterator<Item = (f64, &'a Moments)> + Clone) -> Self {
        let width = parts.clone().into_iter().next().expect("a mixture has parts").1.mean.len();
        let mut mean = vec![0.0; width];
        for (share, part) in parts.clone() {
            mean.iter_mut().zip(&part.mean).for_each(|(sum, value)| *sum += share * value);
        }
        let mut covariance = Matrix::zeros(width, width);
        for (share, part) in parts {
            covariance.add(share, &part.covariance);
            // Around the mean of the mixture, which avoids the cancellation in Σαᵢμᵢμᵢᵀ − μμᵀ.
            let away: Vec<f64> = part.mean.iter().zip(&mean).map(|(part, mean)| part - mean).collect();
            covariance.add_outer(share, &away, &away);
        }
        Self { mean, covariance }
    }

    /// The mean μ.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The covariance Σ.
    pub fn covariance(&self) -> &Matrix {
        &self.covariance
    }

    /// The number of features.
    pub fn width(&self) -> usize {
        self.mean.len()
    }
}
