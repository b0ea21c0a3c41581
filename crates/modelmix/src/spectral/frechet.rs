//! The Fréchet distance of a mixture to a reference, as a spectral function of the weights.

use std::sync::Arc;

use super::{Function, Part, Spectral};
use crate::compute::{Engine, Matrix, Set};
use crate::error::Result;
use crate::metrics::Moments;

impl Spectral {
    /// The Fréchet distance to a reference:
    /// ‖μα − μr‖² + tr Σα + tr Σr − 2 tr (LᵀΣαL)^½ with Σr = LLᵀ, for mixtures of sets of samples.
    ///
    /// Features are centred on the mean of the reference, which does not change the distance. Then
    /// ‖μα‖² + tr Σα = Σαᵢ(tr Σᵢ + ‖μᵢ‖²) is linear in α, because the −‖μα‖² of tr Σα cancels the other.
    /// M(α) = LᵀΣαL with Σα = Σαᵢ(Σᵢ + μᵢμᵢᵀ) − μαμαᵀ is concave in the Loewner order, and −tr √· is convex and
    /// decreasing. The distance is therefore convex.
    ///
    /// # Errors
    /// If a set has fewer than two samples; those of the engine.
    ///
    /// # Panics
    /// If there are no sets, or if a set has another width than the reference.
    pub fn frechet(reference: &Moments, sets: &[Set<'_>], engine: &Engine) -> Result<Self> {
        let moments = sets.iter().map(|rows| Ok((Moments::of(*rows, engine)?, rows.len())));
        Self::frechet_of(reference, &moments.collect::<Result<Vec<_>>>()?, engine)
    }

    /// The same, from the moments and the number of samples of each set.
    pub(crate) fn frechet_of(reference: &Moments, sets: &[(Moments, usize)], engine: &Engine) -> Result<Self> {
        let factor = engine.factor(reference.covariance())?;
        let part = |(moments, count): &(Moments, usize)| {
            let mean: Vec<f64> =
                moments.mean().iter().zip(reference.mean()).map(|(mean, about)| mean - about).collect();
            let matrix: Matrix =
                engine.product(factor.transposed(), &engine.product(moments.covariance(), &factor)?)?;
            Ok(Part {
                linear: moments.covariance().trace() + mean.iter().map(|value| value * value).sum::<f64>(),
                vector: factor.apply_transposed(&mean),
                rank: count - 1,
                matrix: Arc::new(matrix),
            })
        };
        Ok(Self {
            parts: sets.iter().map(part).collect::<Result<_>>()?,
            size: factor.columns(),
            function: Function::Root,
            constant: reference.covariance().trace(),
            engine: engine.clone(),
        })
    }
}
