//! Sums of a kernel over all pairs of several sets, and quadratic forms βᵀK̂β with their jackknife: for RKE, β are the
//! shares of the mixture; for MMD², the same followed by −1 for the reference.

use crate::compute::{Engine, Set};
use crate::error::Result;
use crate::kernel::Kernel;

/// Whether samples are paired with themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    /// V-statistic, with self-pairs: biased, positive semidefinite.
    V,
    /// U-statistic, without self-pairs: unbiased.
    U,
}

/// Sums per sample, from which means are computed.
pub(super) struct Pairs {
    /// `[i][j][a]`: Σk of sample a of set i over set j, without the sample itself.
    toward: Vec<Vec<Vec<f64>>>,
    /// `[i][a]`: k of the sample with itself.
    own: Vec<Vec<f64>>,
    /// Σ of `toward`, per pair of sets.
    sums: Vec<Vec<f64>>,
    own_sums: Vec<f64>,
}

impl Pairs {
    pub(super) fn new(kernel: &Kernel, sets: &[Set<'_>], engine: &Engine) -> Result<Self> {
        let toward = engine.kernel_sums_among(kernel, sets)?;
        let own = sets.iter().map(|set| set.self_values(kernel)).collect::<Result<Vec<Vec<f64>>>>()?;
        Ok(Self {
            sums: toward.iter().map(|sets| sets.iter().map(|sums| sums.iter().sum()).collect()).collect(),
            own_sums: own.iter().map(|own| own.iter().sum()).collect(),
            toward,
            own,
        })
    }

    fn count(&self, set: usize) -> f64 {
        self.own[set].len() as f64
    }

    /// K̂ of two sets, without one sample of set i if `without` is given.
    fn mean(&self, statistic: Statistic, i: usize, j: usize, without: Option<usize>) -> f64 {
        let mut sum = self.sums[i][j];
        let mut own = self.own_sums[i];
        let mut count = self.count(i);
        if let Some(sample) = without {
            let pairs = self.toward[i][j][sample];
            sum -= if i == j { 2.0 * pairs } else { pairs };
            own -= self.own[i][sample];
            count -= 1.0;
        }
        match (i == j, statistic) {
            (false, _) => sum / (count * self.count(j)),
            (true, Statistic::V) => (sum + own) / (count * count),
            (true, Statistic::U) => sum / (count * (count - 1.0)),
        }
    }

    /// βᵀK̂β.
    pub(super) fn form(&self, statistic: Statistic, factors: &[f64]) -> f64 {
        let row = |i: usize| -> f64 {
            (0..factors.len()).map(|j| factors[i] * factors[j] * self.mean(statistic, i, j, None)).sum()
        };
        (0..factors.len()).map(row).sum()
    }

    /// The standard error of `of(βᵀK̂β)`: every sample is left out in turn, and the variances of the sets are added.
    /// NaN if a set is too small.
    pub(super) fn jackknife(&self, statistic: Statistic, factors: &[f64], of: impl Fn(f64) -> f64) -> f64 {
        let least = if statistic == Statistic::U { 3 } else { 2 };
        if self.own.iter().any(|own| own.len() < least) {
            return f64::NAN;
        }
        let form = self.form(statistic, factors);
        let mut variance = 0.0;
        for i in 0..factors.len() {
            // Only entries that involve set i change.
            let part = |without: Option<usize>| -> f64 {
                let others =
                    |j: usize| if i == j { 1.0 } else { 2.0 } * factors[j] * self.mean(statistic, i, j, without);
                factors[i] * (0..factors.len()).map(others).sum::<f64>()
            };
            let rest = form - part(None);
            let values: Vec<f64> = (0..self.own[i].len()).map(|sample| of(rest + part(Some(sample)))).collect();
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            variance += (count - 1.0) / count * values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        }
        variance.sqrt()
    }
}
