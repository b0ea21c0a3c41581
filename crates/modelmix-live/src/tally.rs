//! Counts and costs of a stored run.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arm::FailureKind;
use crate::manners::Ledger;
use crate::store::history::{History, PullState, StoredPull};

/// What happened to the requests and pulls of an arm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmCounts {
    /// Requests that were sent.
    pub requests: u64,
    /// Pulls that gave at least one sample.
    pub answered: u64,
    /// Pulls that ended without a sample after at least one request.
    pub lost: u64,
    /// Failed requests by reason.
    pub failures: BTreeMap<FailureKind, u64>,
    /// Samples that were received and cannot be used.
    pub rejected: u64,
    /// Costs that answers stated.
    pub cost: f64,
    /// Reserved costs of requests without an answer.
    pub in_doubt: f64,
    /// Requests in doubt.
    pub doubts: u64,
    /// Why the arm is not asked any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<String>,
}

/// The counts and costs of a stored run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Tally {
    /// Per arm.
    pub arms: Vec<ArmCounts>,
    /// The pulls per arm that have a place in the order of prompts.
    pub asked: Vec<u64>,
    /// What was spent. Attempts without an outcome are in doubt.
    pub ledger: Ledger,
}

impl Tally {
    /// Counts a history.
    pub fn new(history: &History, arms: usize) -> Self {
        let mut tally =
            Self { arms: vec![ArmCounts::default(); arms], asked: vec![0; arms], ledger: Ledger::default() };
        for pull in history.pulls.iter().filter(|pull| pull.arm < arms) {
            tally.count(pull);
        }
        for set_aside in history.set_aside.iter().filter(|set_aside| set_aside.arm < arms) {
            tally.arms[set_aside.arm].set_aside = Some(set_aside.reason.clone());
        }
        tally.ledger.confirmed = history.confirmed;
        tally.ledger.in_doubt = history.in_doubt;
        tally.ledger.time = active_time(history);
        tally
    }

    fn count(&mut self, pull: &StoredPull) {
        let counts = &mut self.arms[pull.arm];
        // Arms that were not available were asked and abandoned at once.
        let was_skipped = pull.state == PullState::Abandoned && pull.attempts.is_empty();
        if !was_skipped {
            self.asked[pull.arm] += 1;
            self.ledger.pulls += 1;
        }
        counts.requests += pull.attempts.len() as u64;
        match pull.state {
            PullState::Told => counts.answered += 1,
            PullState::Abandoned if !was_skipped => counts.lost += 1,
            _ => {}
        }
        for attempt in &pull.attempts {
            let Some(outcome) = &attempt.outcome else { continue };
            if let Some(failure) = &outcome.failure {
                *counts.failures.entry(failure.kind).or_default() += 1;
            }
            match outcome.cost {
                Some(cost) => counts.cost += cost,
                None => {
                    counts.in_doubt += attempt.reserved;
                    counts.doubts += 1;
                }
            }
        }
        counts.rejected += pull.samples.iter().filter(|sample| sample.rejected.is_some()).count() as u64;
    }
}

/// The time in which processes executed the run: from each start to the last thing that was committed before the next start.
fn active_time(history: &History) -> Duration {
    let is_start = |what: &str| what == "started" || what == "resumed";
    let starts: Vec<u64> = history.lifecycle.iter().filter(|row| is_start(&row.what)).map(|row| row.at).collect();
    let times = history.lifecycle.iter().map(|row| row.at);
    let of_pull = |pull: &StoredPull| {
        let attempts = pull.attempts.iter().flat_map(|attempt| {
            [Some(attempt.sent_at), attempt.outcome.as_ref().map(|outcome| outcome.at)].into_iter().flatten()
        });
        attempts.chain([pull.asked_at]).chain(pull.ended_at).collect::<Vec<u64>>()
    };
    let times: Vec<u64> = times.chain(history.pulls.iter().flat_map(of_pull)).collect();
    let segment = |(at, &start): (usize, &u64)| {
        let next = starts.get(at + 1).copied().unwrap_or(u64::MAX);
        let last = times.iter().copied().filter(|&time| time >= start && time < next).max().unwrap_or(start);
        last - start
    };
    Duration::from_millis(starts.iter().enumerate().map(segment).sum())
}
