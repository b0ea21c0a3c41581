//! When a session checks whether it may stop, and which arms it then needs to know better: an observer of the samples told.
//! What a check finds is left to `certainty`.

use serde::{Deserialize, Serialize};

use crate::certainty::{Judgement, MIN_SAMPLES_PER_ARM, Until, Verdict};
use crate::statistics::Statistics;

/// Samples per arm before the first check.
const SAMPLES_PER_ARM_BEFORE_FIRST_CHECK: usize = 20;
/// How many times as many samples there are at each check as at the one before; see `docs/certainty.md`.
const GROWTH_BETWEEN_CHECKS: f64 = 1.4;

/// What a check whether to stop found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StopCheck {
    /// What the session may be stopped by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Arms of which more samples would say more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<usize>,
}

/// When a session checks whether it may stop: at fixed numbers of samples, each time with a part of the chance of error,
/// δ/(k(k + 1)) at check k, which add up to δ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoppingRule {
    until: Until,
    checks: u32,
    next: usize,
    /// How many samples of each arm there should be before the next check.
    wanted: Vec<usize>,
    verdict: Option<Verdict>,
}

impl StoppingRule {
    pub(super) fn new(until: Until, arms: usize) -> Self {
        Self {
            until,
            checks: 0,
            next: SAMPLES_PER_ARM_BEFORE_FIRST_CHECK * arms,
            wanted: vec![MIN_SAMPLES_PER_ARM; arms],
            verdict: None,
        }
    }

    pub(super) fn until(&self) -> &Until {
        &self.until
    }

    pub(super) fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Whether these counts of samples are enough for a check to find anything.
    pub(super) fn has_enough_samples(counts: &[usize]) -> bool {
        counts.iter().all(|&count| count >= MIN_SAMPLES_PER_ARM)
    }

    /// Whether it is time for a check, with these counts of samples.
    pub(super) fn is_due(&self, counts: &[usize]) -> bool {
        self.verdict.is_none() && counts.iter().sum::<usize>() >= self.next
    }

    /// What a check finds; `mixture` is what is to be near the optimum, `None` if it cannot be found, and f of an arm's samples
    /// is known to range over `linear_range` (0 if only samples can tell). A program that cannot be solved proves nothing.
    pub(super) fn check(&self, statistics: &Statistics, mixture: Option<&[f64]>, linear_range: f64) -> StopCheck {
        let number = f64::from(self.checks) + 1.0;
        let error_chance = (1.0 - self.until.confidence) / (number * (number + 1.0));
        let judged = mixture
            .map(|mixture| self.until.judge(statistics, mixture, linear_range, error_chance).unwrap_or_default());
        let Judgement { verdict, undecided } = judged.unwrap_or_default();
        let unsure = (0..undecided.len()).filter(|&arm| undecided[arm]).collect();
        StopCheck { verdict, unsure }
    }

    /// Takes what a check found, with these counts of samples.
    pub(super) fn commit(&mut self, found: StopCheck, counts: &[usize]) {
        self.checks += 1;
        let samples: usize = counts.iter().sum();
        while self.next <= samples {
            self.next = self.next.saturating_add(((self.next as f64 * (GROWTH_BETWEEN_CHECKS - 1.0)) as usize).max(1));
        }
        for arm in found.unsure {
            self.wanted[arm] = self.wanted[arm].max(counts[arm].saturating_mul(2));
        }
        self.verdict = found.verdict;
    }

    /// The arm that is to be asked before any other with pull number `pull`, given how many samples of each there are or will be: a
    /// policy has no eyes for arms that it does not want, of which little is known, and nothing is certain without.
    pub(super) fn required_arm(&self, counts: &[usize], candidates: &[usize], pull: u64) -> Option<usize> {
        let total: usize = counts.iter().sum();
        if self.verdict.is_some() || total < MIN_SAMPLES_PER_ARM * counts.len() {
            return None;
        }
        // Beyond the least, every other pull is the policy's.
        let wanted = |arm: usize| if pull.is_multiple_of(2) { self.wanted[arm] } else { MIN_SAMPLES_PER_ARM };
        candidates.iter().copied().filter(|&arm| counts[arm] < wanted(arm)).min_by_key(|&arm| counts[arm])
    }

    /// A snapshot comes from outside and is not trusted.
    pub(super) fn fits(&self, arms: usize) -> bool {
        self.until.check().is_ok()
            && self.next > 0
            && self.wanted.len() == arms
            && self.verdict.as_ref().is_none_or(|verdict| verdict.mixture.len() == arms)
    }
}
