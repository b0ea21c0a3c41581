//! When a session checks whether it may stop, and which arms need more samples for that: an observer of the samples told. The
//! check itself is in `certainty`.

use serde::{Deserialize, Serialize};

use crate::certainty::{Judgement, MIN_SAMPLES_PER_ARM, Until, Verdict};
use crate::statistics::Statistics;

/// Samples per arm before the first check.
const SAMPLES_PER_ARM_BEFORE_FIRST_CHECK: usize = 20;
/// The ratio between the numbers of samples at consecutive checks; see `docs/certainty.md`.
const GROWTH_BETWEEN_CHECKS: f64 = 1.4;

/// The result of a stopping check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StopCheck {
    /// The verdict that allows stopping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Arms whose additional samples would reduce the uncertainty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<usize>,
}

/// When a session checks whether it may stop: at fixed numbers of samples, each time with a part of the error probability,
/// δ/(k(k + 1)) at check k, which add up to δ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoppingRule {
    until: Until,
    checks: u32,
    next: usize,
    /// Samples per arm before the next check.
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

    /// Whether these sample counts are enough for a check to find anything.
    pub(super) fn has_enough_samples(counts: &[usize]) -> bool {
        counts.iter().all(|&count| count >= MIN_SAMPLES_PER_ARM)
    }

    /// Whether a check is due, with these sample counts.
    pub(super) fn is_due(&self, counts: &[usize]) -> bool {
        self.verdict.is_none() && counts.iter().sum::<usize>() >= self.next
    }

    /// Runs a check. `mixture` is the candidate for a mixture near the optimum, `None` if it cannot be found; f of an arm's
    /// samples has the known range `linear_range` (0 if it is known only from samples). A program that cannot be solved proves
    /// nothing.
    pub(super) fn check(&self, statistics: &Statistics, mixture: Option<&[f64]>, linear_range: f64) -> StopCheck {
        let number = f64::from(self.checks) + 1.0;
        let error_chance = (1.0 - self.until.confidence) / (number * (number + 1.0));
        let judged = mixture
            .map(|mixture| self.until.judge(statistics, mixture, linear_range, error_chance).unwrap_or_default());
        let Judgement { verdict, undecided } = judged.unwrap_or_default();
        let unsure = (0..undecided.len()).filter(|&arm| undecided[arm]).collect();
        StopCheck { verdict, unsure }
    }

    /// Adds the result of a check, with these sample counts.
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

    /// The arm to ask before any other at pull number `pull`, given the samples of each arm, told or in flight. A policy does
    /// not sample arms that it does not want, but a bound needs samples of every arm.
    pub(super) fn required_arm(&self, counts: &[usize], candidates: &[usize], pull: u64) -> Option<usize> {
        let total: usize = counts.iter().sum();
        if self.verdict.is_some() || total < MIN_SAMPLES_PER_ARM * counts.len() {
            return None;
        }
        // Above the minimum, every other pull is the policy's.
        let wanted = |arm: usize| if pull.is_multiple_of(2) { self.wanted[arm] } else { MIN_SAMPLES_PER_ARM };
        candidates.iter().copied().filter(|&arm| counts[arm] < wanted(arm)).min_by_key(|&arm| counts[arm])
    }

    /// Checks the fit; a snapshot is untrusted input.
    pub(super) fn fits(&self, arms: usize) -> bool {
        self.until.check().is_ok()
            && self.next > 0
            && self.wanted.len() == arms
            && self.verdict.as_ref().is_none_or(|verdict| verdict.mixture.len() == arms)
    }
}
