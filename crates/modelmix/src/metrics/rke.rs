//! The Rényi kernel entropy (RKE) of order 2 and its mode count.

use super::pairs::{Pairs, Statistic};
use super::{ErrorBy, Estimate, Pool, check};
use crate::compute::{Engine, Set};
use crate::error::Result;
use crate::kernel::Kernel;

/// Diversity of samples: the RKE mode count and its entropy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rke {
    /// The mode count 1/Σ wₐw_b k²(xₐ, x_b), including each sample with itself: n²/ΣΣk² for one set. Between 1 and n.
    pub modes: Estimate,
    /// Its logarithm, the Rényi entropy of order 2.
    pub entropy: Estimate,
}

/// RKE with the kernel `kernel`, which is squared here. Identical samples, or a single one, have one mode.
///
/// Standard errors are jackknifed; NaN for a set of one sample.
///
/// # Errors
/// If the kernel is not defined on a row.
pub fn rke(pool: &Pool<'_>, kernel: &Kernel, engine: &Engine) -> Result<Rke> {
    kernel.check_unit()?;
    check::kernel(pool, None, kernel)?;
    let sets: Vec<Set<'_>> = pool.parts().iter().map(|part| part.set).collect();
    let shares: Vec<f64> = pool.parts().iter().map(|part| part.share).collect();
    let pairs = Pairs::new(&kernel.squared(), &sets, engine)?;
    let estimate = |of: fn(f64) -> f64| Estimate {
        value: of(pairs.form(Statistic::V, &shares)),
        standard_error: pairs.jackknife(Statistic::V, &shares, of),
        by: ErrorBy::Jackknife,
    };
    Ok(Rke { modes: estimate(|mean| 1.0 / mean), entropy: estimate(|mean| -mean.ln()) })
}
