//! The Rényi kernel entropy (RKE) of order 2 and its mode count.

use super::pairs::{Pairs, Statistic};
use super::{ErrorBy, Estimate, Pool, check};
use crate::compute::{Engine, Set};
use crate::error::Result;
use crate::kernel::Kernel;

/// The maximum rounding error of a published number, as a share of its standard error: two digits of the standard error
/// and all digits of the number that it leaves certain are then those of double precision.
const MAX_ERROR_SHARE: f64 = 0.01;

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

/// [`rke`] with the engine as given, if that cannot be seen in the published number; otherwise, and if there is no
/// standard error, in double precision.
///
/// # Errors
/// As [`rke`].
pub(super) fn rke_to_standard_error(pool: &Pool<'_>, kernel: &Kernel, engine: &Engine) -> Result<Rke> {
    let found = rke(pool, kernel, engine)?;
    let Estimate { value, standard_error, .. } = found.modes;
    let bound = value * engine.accuracy().entry * sensitivity(kernel, value);
    let exact = engine.precise();
    // A standard error that is NaN needs double precision too.
    let is_enough = bound <= MAX_ERROR_SHARE * standard_error || exact.accuracy() == engine.accuracy();
    if is_enough { Ok(found) } else { rke(pool, kernel, &exact) }
}

/// A bound on Σs/Σκ, which turns the accuracy of an engine into the relative error of the mode count, with κ = k² and s
/// as in [`Accuracy`](crate::compute::Accuracy).
///
/// For kernels of distances, κ = exp(−u) with s ≤ max(κ, −κ ln κ). The latter is concave, so by Jensen's inequality its
/// mean is at most that of the mean κ = 1/modes: the bound is 1 + ln modes. For the cosine kernel of power p, κ = c²ᵖ
/// with |c| ≤ 1 and s ≤ 2p|c|²ᵖ⁻¹, whose mean is at most 2p κ^(1 − 1/2p).
fn sensitivity(kernel: &Kernel, modes: f64) -> f64 {
    match *kernel {
        Kernel::Cosine { power } => 1.0 + 2.0 * f64::from(power) * modes.powf(0.5 / f64::from(power.max(1))),
        _ => 1.0 + modes.ln(),
    }
}
