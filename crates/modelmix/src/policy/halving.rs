//! Successive Halving, a baseline of the paper, in the fixed-budget form of Karnin, Koren and Somekh (2013).

use serde::{Deserialize, Serialize};

use super::{Choice, Evidence, Policy, is_subset};
use crate::error::Result;
use crate::random::Random;

/// Successive Halving: best-arm identification with a fixed budget.
///
/// ⌈log₂ m⌉ phases share the budget of T samples equally. In each phase all remaining arms get the same number of
/// samples, and the better half by K̂_ii + f̂_i continues. The rest of the budget, and all later samples, go to the
/// winner. A phase ends when its samples have been answered; known samples do not count toward the budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halving {
    budget: usize,
    phases: usize,
    arms: Vec<usize>,
    /// The number of answered samples that every remaining arm needs before the present phase ends.
    quota: usize,
}

impl Halving {
    /// Creates the policy for `arms` arms and a budget of `budget` samples.
    pub fn new(arms: usize, budget: usize) -> Self {
        let phases = arms.next_power_of_two().trailing_zeros() as usize;
        let mut policy = Self { budget, phases, arms: (0..arms).collect(), quota: 0 };
        policy.raise_quota();
        policy
    }

    /// Ends the phases that can end, and returns the arm to pull.
    fn advance(&mut self, evidence: &Evidence, random: &mut Random) -> usize {
        loop {
            if self.arms.len() == 1 {
                return self.arms[0];
            }
            let may_be_asked = |arm: &usize| evidence.candidates.contains(arm);
            let fewest = |arms: &[usize], random: &mut Random| {
                let open: Vec<usize> = arms.iter().copied().filter(may_be_asked).collect();
                (!open.is_empty()).then(|| random.smallest(&open, |arm| evidence.pooled(arm) as f64))
            };
            let due: Vec<usize> = self.arms.iter().copied().filter(|&arm| evidence.pooled(arm) < self.quota).collect();
            if let Some(arm) = fewest(&due, random) {
                return arm;
            }
            // All samples of the phase are answered or in flight. The phase is decided by answers, so it waits for
            // those in flight. Meanwhile the arms that do answer are pulled, until they have answered twice the quota.
            let of = |test: &dyn Fn(usize) -> bool| -> Vec<usize> {
                self.arms.iter().copied().filter(|&arm| test(arm)).collect()
            };
            let answering = of(&|arm| evidence.collected[arm] >= self.quota);
            let waiting = of(&|arm| evidence.collected[arm] < self.quota && evidence.pending[arm] > 0);
            let patient = answering.iter().any(|&arm| evidence.collected[arm] / 2 < self.quota);
            if !waiting.is_empty() && (patient || answering.is_empty()) {
                let open = if answering.is_empty() { &waiting } else { &answering };
                if let Some(arm) = fewest(open, random).or_else(|| fewest(&self.arms, random)) {
                    return arm;
                }
            }
            // Arms without any answer rank last, because nothing is known about them.
            let keep = self.arms.len().div_ceil(2);
            let mut left: Vec<usize> = self.arms.iter().copied().filter(|&arm| evidence.is_known(arm)).collect();
            if left.len() < keep {
                let open = evidence.choices(&self.arms);
                return random.smallest(&open, |arm| evidence.pooled(arm) as f64);
            }
            let mut best = Vec::with_capacity(keep);
            while best.len() < keep {
                let arm = random.smallest(&left, |arm| evidence.form.single(arm));
                left.retain(|&other| other != arm);
                best.push(arm);
            }
            best.sort_unstable();
            self.arms = best;
            self.raise_quota();
        }
    }

    /// Raises the quota by ⌊T / (|S|·⌈log₂ m⌉)⌋ samples for every remaining arm, at least one.
    fn raise_quota(&mut self) {
        self.quota = self.quota.saturating_add((self.budget / (self.arms.len() * self.phases.max(1))).max(1));
    }
}

impl Policy for Halving {
    fn name(&self) -> &'static str {
        "halving"
    }

    fn choose(&self, evidence: &Evidence, random: &mut Random) -> Result<Choice<Self>> {
        let mut next = self.clone();
        let arm = next.advance(evidence, random);
        Ok(Choice { arm, next: (next != *self).then_some(next) })
    }

    fn support(&self) -> Option<&[usize]> {
        Some(&self.arms)
    }

    fn fits(&self, arms: usize) -> bool {
        is_subset(&self.arms, arms) && self.phases <= usize::BITS as usize
    }
}
