//! Which rows held are the oldest, where rows leave.

use serde::{Deserialize, Serialize};

use crate::statistics::retain;

/// No session comes near it, and sums of it with a batch do not overflow.
const MAX_SAMPLES_TOLD: u64 = 1 << 60;

/// When each row held was told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ages {
    /// Samples told.
    told: u64,
    /// By row held: how many samples had been told before it.
    arrived: Vec<u64>,
    /// Rows that left one by one.
    left: u64,
}

impl Ages {
    pub(super) fn push(&mut self) {
        self.arrived.push(self.told);
        self.told += 1;
    }

    /// The last row takes the place of the one that leaves.
    pub(super) fn swap_remove(&mut self, row: usize) {
        self.arrived.swap_remove(row);
        self.left += 1;
    }

    /// How many left that way.
    pub(super) fn count_left(&self) -> u64 {
        self.left
    }

    /// Keeps the rows that stay, in their order.
    pub(super) fn retain(&mut self, keep: &[bool]) {
        retain(&mut self.arrived, keep);
    }

    /// When each row held was told, and after them so many new ones.
    pub(super) fn arrivals(&self, new: usize) -> Vec<u64> {
        self.arrived.iter().copied().chain(self.told..self.told + new as u64).collect()
    }

    /// The oldest of the rows that are asked for.
    pub(super) fn oldest(&self, which: impl Fn(usize) -> bool) -> Option<usize> {
        (0..self.arrived.len()).filter(|&row| which(row)).min_by_key(|&row| self.arrived[row])
    }

    /// The rows from the oldest to the newest.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut rows: Vec<usize> = (0..self.arrived.len()).collect();
        rows.sort_unstable_by_key(|&row| self.arrived[row]);
        rows
    }

    /// A snapshot comes from outside and is not trusted.
    pub(super) fn fits(&self, rows: usize) -> bool {
        let mut sorted = self.arrived.clone();
        sorted.sort_unstable();
        self.arrived.len() == rows
            && self.told <= MAX_SAMPLES_TOLD
            && sorted.windows(2).all(|pair| pair[0] < pair[1])
            && sorted.last().is_none_or(|&last| last < self.told)
    }
}
