//! The evidence that a policy sees: estimates and counts as plain data, independent of how samples are stored and
//! weighted.

use serde::{Deserialize, Serialize};

use crate::quadratic::Quadratic;
use crate::random::Random;
use crate::statistics::Statistics;

/// The evidence from which a policy chooses an arm. All lists have one entry per arm, except `candidates`.
///
/// There are three counts. *Answered* samples are those from which K̂ and f̂ are estimated. *Pending* samples are in
/// flight: they will have to be paid for. *Collected* samples form the pool whose proportions count; known samples are
/// answered, but not collected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evidence {
    /// K̂ and f̂, V-statistics; arms without samples have zeros.
    pub form: Quadratic,
    /// Σ(g_a − ḡ)² over the samples of each arm ([`Statistics::gradient_scatter`]).
    pub scatter: Vec<f64>,
    /// The number of samples from which K̂ and f̂ are estimated.
    pub answered: Vec<usize>,
    /// The number of samples in flight.
    pub pending: Vec<usize>,
    /// The number of answered samples in the collected pool.
    pub collected: Vec<usize>,
    /// The arms that may be pulled now; never empty.
    pub candidates: Vec<usize>,
}

impl Evidence {
    /// The evidence if all samples are collected.
    pub fn of(statistics: &Statistics, pending: &[usize], candidates: &[usize]) -> Self {
        debug_assert!(pending.len() == statistics.arms() && !candidates.is_empty());
        Self {
            form: statistics.biased(),
            scatter: statistics.gradient_scatter(),
            answered: statistics.counts().to_vec(),
            pending: pending.to_vec(),
            collected: statistics.counts().to_vec(),
            candidates: candidates.to_vec(),
        }
    }

    /// The number of arms, m.
    pub fn arms(&self) -> usize {
        self.answered.len()
    }

    /// n_i of an arm's estimates, including samples in flight.
    pub fn count(&self, arm: usize) -> usize {
        self.answered[arm] + self.pending[arm]
    }

    /// The number of samples of an arm in the pool, including those in flight.
    pub fn pooled(&self, arm: usize) -> usize {
        self.collected[arm] + self.pending[arm]
    }

    /// Whether any sample of the arm was answered, so that K̂ and f̂ include it.
    pub fn is_known(&self, arm: usize) -> bool {
        self.answered[arm] > 0
    }

    /// The arms that K̂ and f̂ include.
    pub fn known(&self) -> Vec<usize> {
        (0..self.arms()).filter(|&arm| self.is_known(arm)).collect()
    }

    /// t, the number of samples of all known arms, including those in flight.
    pub fn total(&self) -> usize {
        (0..self.arms()).filter(|&arm| self.is_known(arm)).map(|arm| self.count(arm)).sum()
    }

    /// Those of the given arms that may be pulled now and are known; all of the given arms if there are none.
    pub fn choices(&self, arms: &[usize]) -> Vec<usize> {
        let may: Vec<usize> =
            arms.iter().copied().filter(|&arm| self.is_known(arm) && self.candidates.contains(&arm)).collect();
        if may.is_empty() { arms.to_vec() } else { may }
    }

    /// The initial rounds: the arm to pull until each has `pulls` samples answered or in flight, fewest first; also
    /// while no arm that may be pulled has answered. With a single arm there is no choice.
    pub fn first_pulls(&self, pulls: usize, random: &mut Random) -> Option<usize> {
        if self.arms() == 1 {
            return Some(0);
        }
        let waiting = self.candidates.iter().any(|&arm| self.count(arm) < pulls);
        let unknown = !self.candidates.iter().any(|&arm| self.is_known(arm));
        (waiting || unknown).then(|| random.smallest(&self.candidates, |arm| self.count(arm) as f64))
    }

    /// The slope of L̂ toward an arm at the proportions of the pool, f̂_i + 2·Σ_j K̂_ij n_j/t over the known arms.
    ///
    /// An empty pool has no proportions; then it is the loss of this arm alone, K̂_ii + f̂_i.
    pub fn slope(&self, arm: usize) -> f64 {
        let known = || (0..self.arms()).filter(|&other| self.is_known(other));
        let total: usize = known().map(|other| self.pooled(other)).sum();
        if total == 0 {
            return self.form.single(arm);
        }
        let row: f64 = known().map(|other| self.form.at(arm, other) * self.pooled(other) as f64).sum();
        2.0 / total as f64 * row + self.form.linear()[arm]
    }
}
