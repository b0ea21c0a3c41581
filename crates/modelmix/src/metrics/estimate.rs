//! A value with its standard error, and the method of the standard error.

use serde::{Deserialize, Serialize};

use super::Pool;

/// The value of a metric and its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// The standard error, computed as [`ErrorBy`] says; NaN if a set is too small.
    #[serde(with = "or_null")]
    pub standard_error: f64,
    /// The method of the standard error.
    pub by: ErrorBy,
}

/// JSON has no NaN.
mod or_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Some(*value).filter(|value| value.is_finite()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
    }
}

/// Methods for standard errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorBy {
    /// Jackknife: every sample is left out in turn, set by set; the variances of the sets are added.
    Jackknife,
    /// Infinitesimal jackknife: the first-order influence of every sample, set by set; the variances of the sets are
    /// added.
    Influence,
    /// The variance of the averaged terms, with the other set fixed: over the samples for precision and density, over
    /// the reference for recall and coverage.
    Terms,
    /// The standard deviation over subsets of the samples, as tools print it: that of one subset, not of their mean.
    Subsets,
    /// The residuals of a line fitted to several sample sizes.
    Regression,
}

impl Estimate {
    /// The same estimate in another unit.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { value: factor * self.value, standard_error: factor.abs() * self.standard_error, by: self.by }
    }
}

/// The standard error of Σαᵢ·(mean of h over set i) for independent sets: √ Σ αᵢ² Var(h)/nᵢ, with the sample variance.
/// `values` has h of every sample, set by set.
pub(super) fn stratified_error(pool: &Pool<'_>, values: &[f64]) -> f64 {
    if pool.parts().iter().any(|part| part.rows.len() < 2) {
        return f64::NAN;
    }
    let mut first = 0;
    let mut variance = 0.0;
    for part in pool.parts() {
        let values = &values[first..first + part.rows.len()];
        first += part.rows.len();
        variance += part.share.powi(2) * mean_and_variance(values).1 / values.len() as f64;
    }
    variance.sqrt()
}

/// The mean and the mean squared deviation from it.
pub(super) fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count)
}
