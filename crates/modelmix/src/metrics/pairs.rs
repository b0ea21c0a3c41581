//! Sums of a kernel over all pairs of several sets, and every quadratic form βᵀK̂β of them with its jackknife: RKE has the
//! shares of the mixture as β, MMD² the same with −1 for the reference behind them.

use crate::compute::{Engine, Set};
use crate::error::Result;
use crate::kernel::Kernel;

/// Whether a sample is paired with itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    /// It is: biased, positive semidefinite.
    V,
    /// It is not: unbiased.
    U,
}

/// Sums by sample, and what makes means of them.
pub(super) struct Pairs {
    /// `[i][j][a]`: Σk of sample a of set i over set j, itself left out.
    toward: Vec<Vec<Vec<f64>>>,
    /// `[i][a]`: k of the sample with itself.
    own: Vec<Vec<f64>>,
    /// Σ of `toward`, by set and set.
    sums: Vec<Vec<f64>>,
    own_sums: Vec<f64>,
}

impl Pairs {
    pub(super) fn new(kernel: &Kernel, sets: &[Set<'_>], engine: &Engine) -> Result<Self> {
        let toward = engine.kernel_sums_among(kernel, sets)?;
        let own = |set: &Set<'_>| Ok(set.rows()?.view().iter().map(|row| kernel.of_self(row)).collect());
        let own = sets.iter().map(own).collect::<Result<Vec<Vec<f64>>>>()?;
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

    /// K̂ of two sets, with a sample of set i left out where `without` names one.
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

    /// The standard error of `of(βᵀK̂β)`: every sample left out in turn, the sets' variances added. Not a number where a
    /// set is too small to leave one out.
    pub(super) fn jackknife(&self, statistic: Statistic, factors: &[f64], of: impl Fn(f64) -> f64) -> f64 {
        let least = if statistic == Statistic::U { 3 } else { 2 };
        if self.own.iter().any(|own| own.len() < least) {
            return f64::NAN;
        }
        let form = self.form(statistic, factors);
        let mut variance = 0.0;
        for i in 0..factors.len() {
            // Only what has to do with set i changes.
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
