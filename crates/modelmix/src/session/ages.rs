//! The age of each held row, for sessions that evict or drop rows.

use serde::{Deserialize, Serialize};

use crate::statistics::retain;

/// No session comes near it, and adding a batch to it does not overflow.
const MAX_SAMPLES_TOLD: u64 = 1 << 60;

/// The order in which held rows were told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ages {
    /// Number of samples told.
    told: u64,
    /// Per held row: the number of samples told before it.
    arrived: Vec<u64>,
    /// Number of rows removed by [`Ages::swap_remove`].
    left: u64,
}

impl Ages {
    pub(super) fn push(&mut self) {
        self.arrived.push(self.told);
        self.told += 1;
    }

    /// Removes a row; the last row takes its place.
    pub(super) fn swap_remove(&mut self, row: usize) {
        self.arrived.swap_remove(row);
        self.left += 1;
    }

    /// The number of rows removed by [`Ages::swap_remove`].
    pub(super) fn count_left(&self) -> u64 {
        self.left
    }

    /// Keeps only the rows that stay, in their order.
    pub(super) fn retain(&mut self, keep: &[bool]) {
        retain(&mut self.arrived, keep);
    }

    /// The arrival number of each held row, followed by those of `new` ones.
    pub(super) fn arrivals(&self, new: usize) -> Vec<u64> {
        self.arrived.iter().copied().chain(self.told..self.told + new as u64).collect()
    }

    /// The oldest of the given rows.
    pub(super) fn oldest(&self, which: impl Fn(usize) -> bool) -> Option<usize> {
        (0..self.arrived.len()).filter(|&row| which(row)).min_by_key(|&row| self.arrived[row])
    }

    /// The rows from oldest to newest.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut rows: Vec<usize> = (0..self.arrived.len()).collect();
        rows.sort_unstable_by_key(|&row| self.arrived[row]);
        rows
    }

    /// Checks the fit; a snapshot is untrusted input.
    pub(super) fn fits(&self, rows: usize) -> bool {
        let mut sorted = self.arrived.clone();
        sorted.sort_unstable();
        self.arrived.len() == rows
            && self.told <= MAX_SAMPLES_TOLD
            && sorted.windows(2).all(|pair| pair[0] < pair[1])
            && sorted.last().is_none_or(|&last| last < self.told)
    }
}
