//! What the runner knows of each arm: its limits, its circuit breaker and its counts.

use std::time::Duration;

use crate::arm::{Failure, FailureKind};
use crate::config::LiveArm;
use crate::manners::{Breaker, RateLimit};
use crate::tally::ArmCounts;

/// An arm during a run.
pub(super) struct ArmState {
    pub(super) counts: ArmCounts,
    pub(super) rate: RateLimit,
    pub(super) breaker: Breaker,
    /// Requests at work.
    pub(super) in_flight: usize,
    /// Pulls that were asked, which is the place in the order of prompts.
    pub(super) asked: u64,
    /// Consecutive pulls that failed for good.
    failed_in_row: u32,
    most_in_flight: usize,
    set_aside_after: u32,
}

impl ArmState {
    pub(super) fn new(arm: &LiveArm, breaker_pause: Duration) -> Self {
        Self {
            counts: ArmCounts::default(),
            rate: RateLimit::new(arm.settings.rate),
            breaker: Breaker::with_pause(breaker_pause),
            in_flight: 0,
            asked: 0,
            failed_in_row: 0,
            most_in_flight: arm.settings.max_in_flight.unwrap_or(usize::MAX),
            set_aside_after: arm.settings.set_aside_after,
        }
    }

    /// The time from which its next request may leave; `None` if that depends on answers.
    pub(super) fn next(&mut self, now: Duration) -> Option<Duration> {
        if self.in_flight >= self.most_in_flight {
            return None;
        }
        let after_pause = self.breaker.next(now)?;
        Some(self.rate.next(now).max(after_pause))
    }

    /// Whether asking it is pointless now.
    pub(super) fn is_unavailable(&self, now: Duration) -> bool {
        self.counts.set_aside.is_some() || self.breaker.next(now) != Some(now)
    }

    pub(super) fn sent(&mut self, now: Duration) {
        self.rate.take(now);
        self.breaker.sent();
        self.in_flight += 1;
        self.counts.requests += 1;
    }

    /// A request was answered with samples.
    pub(super) fn answered(&mut self) {
        self.in_flight -= 1;
        self.breaker.answered();
    }

    /// A request failed. Returns the pause if the circuit has opened.
    pub(super) fn failed(&mut self, failure: &Failure, now: Duration) -> Option<Duration> {
        self.in_flight -= 1;
        *self.counts.failures.entry(failure.kind).or_default() += 1;
        self.breaker.failed(failure, now);
        let until = self.breaker.next(now)?;
        (until > now).then(|| until - now)
    }

    /// A pull ended with a sample.
    pub(super) fn told(&mut self) {
        self.counts.answered += 1;
        self.failed_in_row = 0;
    }

    /// A pull ended without a sample. Returns whether the arm is to be set aside.
    pub(super) fn lost(&mut self, kind: Option<FailureKind>) -> bool {
        self.counts.lost += 1;
        // These are answers, if not samples.
        if !matches!(kind, Some(FailureKind::Refusal | FailureKind::Empty)) {
            self.failed_in_row += 1;
        }
        self.set_aside_after > 0 && self.failed_in_row >= self.set_aside_after && self.counts.set_aside.is_none()
    }
}
