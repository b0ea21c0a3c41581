//! Sums over the collected samples alone, for sessions that also have known samples that they did not collect.

use serde::{Deserialize, Serialize};

use crate::statistics::{Statistics, retain, whole_samples};

/// The masses and the loss of the collected samples, next to the [`Statistics`] of all samples. All sums have the same weights
/// as those.
///
/// A session has a pool only while it has known samples that are not collected; otherwise the pool is all samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pool {
    /// Per held row.
    is_collected: Vec<bool>,
    /// Σw per arm of the collected samples, held or evicted.
    mass: Vec<f64>,
    /// Σκ over pairs of different collected samples, per pair of arms: both (a, b) and (b, a) count.
    pair_sums: Vec<f64>,
    /// Σκ(x, x) and Σf, per arm.
    self_sums: Vec<f64>,
    linear_sums: Vec<f64>,
}

impl Pool {
    /// The pool if all samples so far were collected.
    pub(super) fn of(statistics: &Statistics) -> Self {
        let (pairs, own, linear) = statistics.sums();
        Self {
            is_collected: vec![true; statistics.rows()],
            mass: (0..statistics.arms()).map(|arm| statistics.mass(arm)).collect(),
            pair_sums: pairs.to_vec(),
            self_sums: own.to_vec(),
            linear_sums: linear.to_vec(),
        }
    }

    pub(super) fn is_collected(&self, row: usize) -> bool {
        self.is_collected[row]
    }

    /// Whether all held rows are collected.
    pub(super) fn is_all(&self) -> bool {
        self.is_collected.iter().all(|&is_collected| is_collected)
    }

    /// Samples per arm, rounded to whole ones if they fade.
    pub(super) fn counts(&self) -> Vec<usize> {
        self.mass.iter().map(|&mass| whole_samples(mass)).collect()
    }

    /// The proportions n/t; all zero before the first collected sample.
    pub(super) fn shares(&self) -> Vec<f64> {
        let total: f64 = self.mass.iter().sum();
        self.mass.iter().map(|mass| if total > 0.0 { mass / total } else { 0.0 }).collect()
    }

    /// L(P̂) without the constant; `None` before the first collected sample.
    pub(super) fn loss(&self) -> Option<f64> {
        let total: f64 = self.mass.iter().sum();
        let quadratic: f64 = self.pair_sums.iter().chain(&self.self_sums).sum();
        let linear: f64 = self.linear_sums.iter().sum();
        (total > 0.0).then(|| quadratic / (total * total) + linear / total)
    }

    /// Adds a row: `kappa` against the rows of `statistics`, which does not have it yet, and `beyond` per arm against evicted
    /// samples that were collected.
    pub(super) fn push(
        &mut self,
        statistics: &Statistics,
        arm: usize,
        is_collected: bool,
        kappa: &[f64],
        beyond: Option<&[f64]>,
        (own, linear): (f64, f64),
    ) {
        self.is_collected.push(is_collected);
        if !is_collected {
            return;
        }
        let arms = self.mass.len();
        let mut sums = beyond.map_or_else(|| vec![0.0; arms], <[f64]>::to_vec);
        for (row, value) in kappa.iter().enumerate().filter(|(row, _)| self.is_collected[*row]) {
            sums[statistics.arm_of()[row]] += statistics.weight(row) * value;
        }
        for (other, sum) in sums.iter().enumerate() {
            self.pair_sums[arm * arms + other] += sum;
            self.pair_sums[other * arms + arm] += sum;
        }
        self.mass[arm] += 1.0;
        self.self_sums[arm] += own;
        self.linear_sums[arm] += linear;
    }

    /// Multiplies the weight of every sample by `factor`.
    pub(super) fn fade(&mut self, factor: f64) {
        self.mass.iter_mut().chain(&mut self.linear_sums).for_each(|value| *value *= factor);
        self.pair_sums.iter_mut().chain(&mut self.self_sums).for_each(|value| *value *= factor * factor);
    }

    /// Removes a row whose part in all sums remains. The last row takes its place.
    pub(super) fn evict(&mut self, row: usize) {
        self.is_collected.swap_remove(row);
    }

    /// Drops a row whose weight is negligible.
    pub(super) fn drop_faded(&mut self, statistics: &Statistics, row: usize) {
        if self.is_collected.swap_remove(row) {
            let mass = &mut self.mass[statistics.arm_of()[row]];
            *mass = (*mass - statistics.weight(row)).max(0.0);
        }
    }

    /// Removes a row and its part in all sums, before it is removed from `statistics`: `kappa` against all rows.
    pub(super) fn remove(&mut self, statistics: &Statistics, row: usize, kappa: &[f64]) {
        let (arms, arm) = (self.mass.len(), statistics.arm_of()[row]);
        if self.is_collected[row] {
            for (other, value) in kappa.iter().enumerate().filter(|(other, _)| *other != row) {
                if self.is_collected[other] {
                    let of = statistics.arm_of()[other];
                    self.pair_sums[arm * arms + of] -= value;
                    self.pair_sums[of * arms + arm] -= value;
                }
            }
            self.mass[arm] -= 1.0;
            self.self_sums[arm] -= statistics.self_terms()[row];
            self.linear_sums[arm] -= statistics.linear_terms()[row];
        }
        self.is_collected.swap_remove(row);
    }

    /// Forgets an arm; `keep` tells which rows stay.
    pub(super) fn forget(&mut self, arm: usize, keep: &[bool]) {
        let arms = self.mass.len();
        retain(&mut self.is_collected, keep);
        for other in 0..arms {
            self.pair_sums[arm * arms + other] = 0.0;
            self.pair_sums[other * arms + arm] = 0.0;
        }
        (self.mass[arm], self.self_sums[arm], self.linear_sums[arm]) = (0.0, 0.0, 0.0);
    }

    /// Checks the fit; a snapshot is untrusted input.
    pub(super) fn fits(&self, statistics: &Statistics) -> bool {
        let arms = statistics.arms();
        let sums = [&self.mass, &self.self_sums, &self.linear_sums];
        self.is_collected.len() == statistics.rows()
            && sums.iter().all(|list| list.len() == arms)
            && self.pair_sums.len() == arms * arms
            && sums.iter().flat_map(|list| list.iter()).chain(&self.pair_sums).all(|value| value.is_finite())
            && (0..arms)
                .all(|arm| self.mass[arm] >= 0.0 && self.mass[arm] <= statistics.mass(arm) * (1.0 + 1e-9) + 1e-6)
    }
}
