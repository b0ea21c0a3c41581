//! Sums per arm only, for quadratic forms that do not need sums per sample.

use super::Statistics;
use crate::error::{Error, Result};
use crate::quadratic::Quadratic;

/// Counts, Σκ per pair of arms (self-terms separately), and Σf.
pub(crate) struct Totals {
    counts: Vec<usize>,
    pair_sums: Vec<f64>,
    self_sums: Vec<f64>,
    linear_sums: Vec<f64>,
}

impl Totals {
    /// Creates sums of zero for arms with these numbers of samples.
    pub(crate) fn new(counts: Vec<usize>) -> Self {
        let arms = counts.len();
        Self { counts, pair_sums: vec![0.0; arms * arms], self_sums: vec![0.0; arms], linear_sums: vec![0.0; arms] }
    }

    /// Adds, for each sample of arm `i`, Σκ over the other samples of arm `j`.
    pub(crate) fn add_pairs(&mut self, i: usize, j: usize, sums: &[f64]) {
        let arms = self.counts.len();
        add(&mut self.pair_sums[i * arms + j], sums);
    }

    /// Adds κ(x, x) of an arm's samples.
    pub(crate) fn add_own(&mut self, arm: usize, values: &[f64]) {
        add(&mut self.self_sums[arm], values);
    }

    /// Adds f of an arm's samples.
    pub(crate) fn add_linear(&mut self, arm: usize, values: &[f64]) {
        add(&mut self.linear_sums[arm], values);
    }

    /// Checks that all sums are finite.
    ///
    /// # Errors
    /// If a sum is not finite; the message names its arm.
    pub(crate) fn check(&self, name: impl Fn(usize) -> String) -> Result<()> {
        let arms = self.counts.len();
        let is_finite = |arm: &usize| {
            let pairs = &self.pair_sums[arm * arms..(arm + 1) * arms];
            pairs.iter().chain([&self.self_sums[*arm], &self.linear_sums[*arm]]).all(|value| value.is_finite())
        };
        (0..arms).find(|arm| !is_finite(arm)).map_or(Ok(()), |arm| Err(not_finite(&name(arm))))
    }

    /// K̂ and f̂ with self-pairs (V-statistics) and without (U-statistics).
    pub(crate) fn forms(&self) -> (Quadratic, Quadratic) {
        let mut pair_sums = self.pair_sums.clone();
        make_symmetric(&mut pair_sums, self.counts.len());
        let statistics = Statistics {
            counts: self.counts.clone(),
            pair_sums,
            self_sums: self.self_sums.clone(),
            linear_sums: self.linear_sums.clone(),
            ..Statistics::new(self.counts.len())
        };
        (statistics.biased(), statistics.unbiased())
    }
}

/// Adds values in the order given.
fn add(sum: &mut f64, values: &[f64]) {
    values.iter().for_each(|value| *sum += value);
}

/// κ is symmetric, so the two sums of a pair of arms differ by rounding only; the solver needs them equal.
pub(super) fn make_symmetric(pair_sums: &mut [f64], arms: usize) {
    for i in 0..arms {
        for j in 0..i {
            let mean = (pair_sums[i * arms + j] + pair_sums[j * arms + i]) / 2.0;
            pair_sums[i * arms + j] = mean;
            pair_sums[j * arms + i] = mean;
        }
    }
}

/// The error for values of an arm that are not finite.
pub(super) fn not_finite(arm: &str) -> Error {
    let problem = format!(
        "κ or f of a sample of arm {arm} is not finite; its features are too large for this kernel, or the bandwidth too small; scale the features down, or give a larger bandwidth"
    );
    Error::Program { problem }
}
