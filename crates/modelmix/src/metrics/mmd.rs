//! The squared maximum mean discrepancy to a reference, and CMMD, its variant for CLIP features.

use super::pairs::{Pairs, Statistic};
use super::{ErrorBy, Estimate, Pool, check};
use crate::compute::{Engine, Set};
use crate::error::Result;
use crate::features::{Features, Rows};
use crate::kernel::Kernel;

/// MMD² as V-statistic and as U-statistic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mmd {
    /// With self-pairs (V-statistic): never below zero, too large by about 1/n.
    pub biased: Estimate,
    /// Without self-pairs (U-statistic): unbiased, and sometimes below zero if samples and reference are alike.
    pub unbiased: Estimate,
}

/// MMD² between samples and reference. Standard errors are jackknifed over both.
///
/// # Errors
/// If a set has fewer than two samples, if widths differ, or if the kernel is not defined on a row.
pub fn mmd(pool: &Pool<'_>, reference: &Features, kernel: &Kernel, engine: &Engine) -> Result<Mmd> {
    check::width(pool, reference)?;
    check::kernel(pool, Some(reference), kernel)?;
    pool.parts().iter().try_for_each(|part| check::rows("the samples", "mmd", part.rows, 2))?;
    check::rows("the reference", "mmd", reference.host()?, 2)?;
    let (sets, factors) = against(pool, reference.into());
    let pairs = Pairs::new(kernel, &sets, engine)?;
    let estimate = |statistic: Statistic| Estimate {
        value: pairs.form(statistic, &factors),
        standard_error: pairs.jackknife(statistic, &factors, |value| value),
        by: ErrorBy::Jackknife,
    };
    Ok(Mmd { biased: estimate(Statistic::V), unbiased: estimate(Statistic::U) })
}

/// The sets of a pool followed by the reference, and the coefficients that turn their means into MMD².
fn against<'a>(pool: &Pool<'a>, reference: Set<'a>) -> (Vec<Set<'a>>, Vec<f64>) {
    let sets = pool.parts().iter().map(|part| part.set).chain([reference]).collect();
    (sets, pool.parts().iter().map(|part| part.share).chain([-1.0]).collect())
}

/// The bandwidth in the definition of CMMD.
pub const CMMD_BANDWIDTH: f64 = 10.0;

/// CMMD: 1000 · the biased MMD² of rows scaled to length 1, with a Gaussian kernel of bandwidth 10. It is intended for
/// CLIP features.
///
/// # Errors
/// As [`mmd`], and if a row is all zeros.
pub fn cmmd(pool: &Pool<'_>, reference: &Features, engine: &Engine) -> Result<Estimate> {
    check::kernel(pool, Some(reference), &Kernel::Cosine { power: 1 })?;
    let parts: Vec<(Features, f64)> =
        pool.parts().iter().map(|part| Ok((unit_rows(part.rows)?, part.share))).collect::<Result<_>>()?;
    let pool = Pool::mixture(parts.iter().map(|(features, share)| (features, *share)))?;
    let kernel = Kernel::Gaussian { bandwidth: CMMD_BANDWIDTH };
    Ok(mmd(&pool, &unit_rows(reference.host()?)?, &kernel, engine)?.biased.scaled(1000.0))
}

/// Rows scaled to length 1.
fn unit_rows(rows: Rows<'_>) -> Result<Features> {
    let mut values = Vec::with_capacity(rows.values().len());
    for row in rows.iter() {
        let norm = row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        values.extend(row.iter().map(|&value| (f64::from(value) / norm) as f32));
    }
    Features::new(rows.width(), values)
}
