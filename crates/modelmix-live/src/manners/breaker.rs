//! Circuit breakers: an arm whose server fails again and again is left alone for a while.

use std::time::Duration;

use crate::arm::{Failure, FailureKind};

/// Consecutive failures of the server after which the circuit opens.
const FAILURES_TO_OPEN: u32 = 5;
/// How long it stays open at first; the time doubles with every probe that fails.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The circuit breaker of one arm. While it is open, no request leaves; then one does, and its answer closes the circuit or opens
/// it again.
#[derive(Clone, Debug)]
pub struct Breaker {
    failures: u32,
    open_until: Option<Duration>,
    pause: Duration,
    /// Whether the one request of a half-open circuit is under way.
    is_probing: bool,
    first_pause: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::with_pause(FIRST_PAUSE)
    }
}

impl Breaker {
    /// A closed circuit with another first pause.
    pub fn with_pause(pause: Duration) -> Self {
        Self { failures: 0, open_until: None, pause, is_probing: false, first_pause: pause }
    }

    /// The time from which a request may leave; `None` while the answer to a probe is awaited.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        match self.open_until {
            None => Some(now),
            Some(_) if self.is_probing => None,
            Some(until) => Some(until.max(now)),
        }
    }

    /// Whether the circuit is open, or one request probes it.
    pub fn is_open(&self) -> bool {
        self.open_until.is_some()
    }

    /// A request leaves.
    pub fn sent(&mut self) {
        self.is_probing = self.open_until.is_some();
    }

    /// The server answered, if only to say that the request is wrong.
    pub fn answered(&mut self) {
        *self = Self::with_pause(self.first_pause);
    }

    /// A request failed. Only failures of the server or of the way to it count: an answer with a 4xx status shows that the
    /// server works, and 429 asks for patience, which retries have.
    pub fn failed(&mut self, failure: &Failure, now: Duration) {
        let is_of_server = match failure.kind {
            FailureKind::NotSent | FailureKind::Timeout | FailureKind::Broken => true,
            FailureKind::Error => failure.status.is_none_or(|status| status >= 500),
            _ => false,
        };
        if !is_of_server {
            if failure.status == Some(429) || failure.status == Some(408) {
                self.is_probing = false;
                return;
            }
            return self.answered();
        }
        self.failures += 1;
        if self.is_probing {
            self.pause = (2 * self.pause).min(LONGEST_PAUSE.max(self.first_pause));
        }
        self.is_probing = false;
        if self.failures >= FAILURES_TO_OPEN {
            self.open_until = Some(now + self.pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: FailureKind, status: Option<u16>) -> Failure {
        Failure { status, ..Failure::permanent(kind, "") }
    }

    fn second(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn it_opens_probes_and_closes() {
        let mut breaker = Breaker::default();
        let broken = failure(FailureKind::Broken, None);
        for _ in 0..4 {
            breaker.sent();
            breaker.failed(&broken, second(0));
            assert_eq!(breaker.next(second(1)), Some(second(1)));
        }
        breaker.sent();
        breaker.failed(&failure(FailureKind::Error, Some(503)), second(10));
        assert_eq!(breaker.next(second(11)), Some(second(40)));
        // The probe fails: twice the pause.
        breaker.sent();
        assert_eq!(breaker.next(second(41)), None);
        breaker.failed(&broken, second(42));
        assert_eq!(breaker.next(second(42)), Some(second(102)));
        for _ in 0..20 {
            breaker.sent();
            breaker.failed(&broken, second(200));
        }
        assert_eq!(breaker.next(second(200)), Some(second(800)));
        breaker.sent();
        breaker.answered();
        assert_eq!(breaker.next(second(300)), Some(second(300)));
        assert!(!breaker.is_open());
    }

    #[test]
    fn answers_that_refuse_never_open_it() {
        for kind in [
            failure(FailureKind::Error, Some(400)),
            failure(FailureKind::Error, Some(401)),
            failure(FailureKind::Error, Some(429)),
            failure(FailureKind::Error, Some(408)),
            failure(FailureKind::Refusal, Some(200)),
            failure(FailureKind::Empty, Some(200)),
            failure(FailureKind::Invalid, Some(200)),
        ] {
            let mut breaker = Breaker::default();
            for _ in 0..100 {
                breaker.sent();
                breaker.failed(&kind, second(0));
            }
            assert!(!breaker.is_open(), "{kind:?}");
        }
    }
}
