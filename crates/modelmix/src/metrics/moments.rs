//! Means and covariances, of one set and of mixtures: the Gaussians that Fréchet distances compare.

use super::Pool;
use crate::compute::{Engine, Matrix, Set};
use crate::error::{Error, Result};

/// A mean and a covariance.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    mean: Vec<f64>,
    covariance: Matrix,
}

impl Moments {
    /// Of one set: the sample mean, and the covariance with n − 1 in its denominator.
    ///
    /// # Errors
    /// Fewer than two rows; those of the engine.
    pub fn of<'a>(rows: impl Into<Set<'a>>, engine: &Engine) -> Result<Self> {
        let set = rows.into();
        if set.len() < 2 {
            return Err(Error::Array {
                origin: "features".into(),
                problem: format!("a covariance needs at least 2 samples, and there is {}; record more", set.len()),
            });
        }
        let mean = engine.mean(set)?;
        let mut covariance = engine.scatter(set, &mean, None)?;
        covariance.scale(1.0 / (set.len() - 1) as f64);
        Ok(Self { mean, covariance })
    }

    /// Of a pool: μ = Σαᵢμᵢ and Σ = Σαᵢ(Σᵢ + μᵢμᵢᵀ) − μμᵀ, which is exact for the mixture of distributions with its
    /// parts' moments.
    ///
    /// # Errors
    /// A set with fewer than two rows.
    pub fn of_pool(pool: &Pool<'_>, engine: &Engine) -> Result<Self> {
        let parts = pool.parts().iter().map(|part| Ok((part.share, Self::of(part.set, engine)?)));
        let parts: Vec<(f64, Self)> = parts.collect::<Result<_>>()?;
        Ok(Self::mixed(parts.iter().map(|(share, moments)| (*share, moments))))
    }

    /// Of a mixture of parts whose moments are known; the shares add up to 1.
    ///
    /// # Panics
    /// Where there are no parts, or parts of different widths.
    pub fn mixed<'a>(parts: impl IntoIterator<Item = (f64, &'a Moments)> + Clone) -> Self {
        let width = parts.clone().into_iter().next().expect("a mixture has parts").1.mean.len();
        let mut mean = vec![0.0; width];
        for (share, part) in parts.clone() {
            mean.iter_mut().zip(&part.mean).for_each(|(sum, value)| *sum += share * value);
        }
        let mut covariance = Matrix::zeros(width, width);
        for (share, part) in parts {
            covariance.add(share, &part.covariance);
            // Around the mixture's mean, which does not cancel as Σαᵢμᵢμᵢᵀ − μμᵀ does.
            let away: Vec<f64> = part.mean.iter().zip(&mean).map(|(part, mean)| part - mean).collect();
            covariance.add_outer(share, &away, &away);
        }
        Self { mean, covariance }
    }

    /// μ.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Σ.
    pub fn covariance(&self) -> &Matrix {
        &self.covariance
    }

    /// How many features there are.
    pub fn width(&self) -> usize {
        self.mean.len()
    }
}
