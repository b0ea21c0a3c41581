//! When a failed request is sent again, and after what time.

use std::time::Duration;

use modelmix::internals::random::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arm::{Charge, Failure};

/// What happens to a request whose answer is missing: after a crash, a timeout or a broken connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// It is sent again: the arm has no side effects, and the same seed gives the same sample.
    Pure,
    /// It is sent again with the same idempotency key, so that the server charges it once.
    Idempotent,
    /// It is never sent again. It stays in doubt, with its reserved cost.
    AtMostOnce,
}

impl Delivery {
    /// Whether a request that failed like this may be sent again.
    pub fn may_resend(self, failure: &Failure) -> bool {
        failure.is_temporary && (self != Self::AtMostOnce || failure.charge != Charge::Doubt)
    }
}

/// Exponential backoff with full jitter: a uniform time up to a limit that doubles with every attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The limit after the first attempt.
    pub base: Duration,
    /// The largest limit.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The time to wait after this attempt, counted from 1. A server that asks for a longer time is obeyed.
    pub fn delay(&self, attempt: u32, retry_after: Option<Duration>, random: &mut Random) -> Duration {
        let limit = self.base.saturating_mul(1_u32 << (attempt - 1).min(30)).min(self.longest);
        let jitter = limit.mul_f64(random.unit());
        match retry_after {
            // All clients that were told the same time would come back together.
            Some(asked) => asked + jitter.min(self.base),
            None => jitter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::FailureKind;

    #[test]
    fn jitter_is_uniform_below_a_limit_that_doubles() {
        let backoff = Backoff::default();
        let mut random = Random::seeded(1);
        for (attempt, limit) in [(1, 1.0), (2, 2.0), (4, 8.0), (7, 60.0), (40, 60.0)] {
            let delays: Vec<f64> =
                (0..4000).map(|_| backoff.delay(attempt, None, &mut random).as_secs_f64() / limit).collect();
            assert!(delays.iter().all(|delay| (0.0..=1.0).contains(delay)));
            // The mean of 4,000 uniform numbers has a standard deviation of 0.0046; false alarms have a chance below 1e-5.
            let mean = delays.iter().sum::<f64>() / 4000.0;
            assert!((mean - 0.5).abs() < 0.021, "attempt {attempt}: mean {mean}");
        }
    }

    #[test]
    fn the_server_is_obeyed() {
        let asked = Duration::from_secs(30);
        let mut random = Random::seeded(2);
        for _ in 0..100 {
            let delay = Backoff::default().delay(1, Some(asked), &mut random);
            assert!(delay >= asked && delay <= asked + Duration::from_secs(1));
        }
    }

    #[test]
    fn what_may_be_sent_again() {
        let reset = Failure::permanent(FailureKind::Broken, "reset").temporary().in_doubt();
        let busy = Failure::permanent(FailureKind::Error, "503").temporary();
        let wrong = Failure::permanent(FailureKind::Error, "401");
        for (delivery, expected) in [
            (Delivery::Pure, [true, true, false]),
            (Delivery::Idempotent, [true, true, false]),
            (Delivery::AtMostOnce, [false, true, false]),
        ] {
            assert_eq!([&reset, &busy, &wrong].map(|failure| delivery.may_resend(failure)), expected);
        }
    }
}
