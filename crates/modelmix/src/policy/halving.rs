//! Successive Halving, a baseline of the paper, in the fixed-budget form of Karnin, Koren and Somekh (2013).

use serde::{Deserialize, Serialize};

use super::{Evidence, Policy, is_subset};
use crate::error::Result;
use crate::random::Random;

/// ⌈log₂ m⌉ phases share the budget of T samples equally; in each, all arms left get the same number of samples, and the
/// better half by K̂_ii + f̂_i goes on. What is left of the budget, and all after it, goes to the winner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Halving {
    budget: usize,
    phases: usize,
    arms: Vec<usize>,
    /// Samples that every arm left must have been asked for before the present phase ends.
    quota: usize,
}

impl Halving {
    /// For `arms` arms and a budget of so many samples.
    pub fn new(arms: usize, budget: usize) -> Self {
        let phases = arms.next_power_of_two().trailing_zeros() as usize;
        let mut policy = Self { budget, phases, arms: (0..arms).collect(), quota: 0 };
        policy.raise_quota();
        policy
    }

    /// ⌊T / (|S|·⌈log₂ m⌉)⌋ more samples for every arm left, at least one.
    fn raise_quota(&mut self) {
        self.quota = self.quota.saturating_add((self.budget / (self.arms.len() * self.phases.max(1))).max(1));
    }
}

impl Policy for Halving {
    fn name(&self) -> &'static str {
        "halving"
    }

    fn choose(&mut self, evidence: &Evidence<'_>, random: &mut Random) -> Result<usize> {
        loop {
            let due: Vec<usize> = self.arms.iter().copied().filter(|&arm| evidence.count(arm) < self.quota).collect();
            let open: Vec<usize> = due.iter().copied().filter(|arm| evidence.candidates().contains(arm)).collect();
            if self.arms.len() == 1 {
                return Ok(self.arms[0]);
            }
            if !open.is_empty() {
                return Ok(random.smallest(&open, |arm| evidence.count(arm) as f64));
            }
            // All that could be asked has been. Arms without any answer are judged last, since nothing is known of them.
            let keep = self.arms.len().div_ceil(2);
            let known: Vec<usize> = self.arms.iter().copied().filter(|&arm| evidence.is_known(arm)).collect();
            if known.len() < keep {
                let open = evidence.choices(&self.arms);
                return Ok(random.smallest(&open, |arm| evidence.count(arm) as f64));
            }
            let form = evidence.statistics().biased();
            let mut left = known;
            let mut best = Vec::with_capacity(keep);
            while best.len() < keep {
                let arm = random.smallest(&left, |arm| form.single(arm));
                left.retain(|&other| other != arm);
                best.push(arm);
            }
            best.sort_unstable();
            self.arms = best;
            self.raise_quota();
        }
    }

    fn support(&self) -> Option<&[usize]> {
        Some(&self.arms)
    }

    fn fits(&self, arms: usize) -> bool {
        is_subset(&self.arms, arms) && self.phases <= usize::BITS as usize
    }
}
