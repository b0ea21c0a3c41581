//! Rate limits: the number of requests per time, evenly or in bursts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of requests per time, as in `60/min`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Rate {
    requests: u32,
    per: Duration,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("\"{text}\" is not a rate; write a number of requests per s, min or h, as in 60/min");
        let (requests, unit) = text.split_once('/').ok_or_else(refuse)?;
        let requests = requests.trim().parse().ok().filter(|&requests| requests > 0).ok_or_else(refuse)?;
        let seconds = match unit.trim() {
            "s" => 1,
            "min" => 60,
            "h" => 3600,
            _ => return Err(refuse()),
        };
        Ok(Self { requests, per: Duration::from_secs(seconds) })
    }
}

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.per.as_secs() {
            1 => "s",
            60 => "min",
            _ => "h",
        };
        write!(f, "{}/{unit}", self.requests)
    }
}

/// A token bucket that holds the requests of one second, at least one.
#[derive(Clone, Debug)]
pub struct RateLimit {
    rate: Option<Rate>,
    /// The number of requests that may leave at `updated`.
    tokens: f64,
    updated: Duration,
}

impl RateLimit {
    /// A full bucket; without a rate, requests never wait.
    pub fn new(rate: Option<Rate>) -> Self {
        let mut limit = Self { rate, tokens: 0.0, updated: Duration::ZERO };
        limit.tokens = limit.capacity();
        limit
    }

    fn per_second(&self) -> f64 {
        self.rate.map_or(f64::INFINITY, |rate| f64::from(rate.requests) / rate.per.as_secs_f64())
    }

    fn capacity(&self) -> f64 {
        self.per_second().max(1.0)
    }

    fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.updated).as_secs_f64();
        if self.rate.is_some() {
            self.tokens = (self.tokens + passed * self.per_second()).min(self.capacity());
        }
        self.updated = self.updated.max(now);
    }

    /// The time from which the next request may leave.
    pub fn next(&mut self, now: Duration) -> Duration {
        self.refill(now);
        // Sums of fractions of tokens are off by rounding.
        if self.rate.is_none() || self.tokens > 1.0 - 1e-9 {
            return now;
        }
        // One nanosecond more, since durations are rounded down.
        now + Duration::from_secs_f64((1.0 - self.tokens) / self.per_second()) + Duration::from_nanos(1)
    }

    /// A request leaves.
    pub fn take(&mut self, now: Duration) {
        self.refill(now);
        if self.rate.is_some() {
            self.tokens -= 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_written() {
        for text in ["60/min", "5/s", "1000/h"] {
            assert_eq!(text.parse::<Rate>().map(|rate| rate.to_string()), Ok(text.to_string()));
        }
        for text in ["60", "0/s", "-1/s", "1/day", "x/min", ""] {
            assert!(text.parse::<Rate>().is_err_and(|error| error.contains("60/min")), "{text}");
        }
    }

    #[test]
    fn requests_leave_at_the_rate() {
        for (rate, seconds) in [("60/min", 59.0), ("5/s", 11.0), ("30/min", 118.0)] {
            let mut limit = RateLimit::new(rate.parse().ok());
            let mut now = Duration::from_secs(7);
            for _ in 0..60 {
                now = limit.next(now);
                limit.take(now);
            }
            let taken = (now - Duration::from_secs(7)).as_secs_f64();
            assert!((taken - seconds).abs() < 1e-3, "{rate}: 60 requests took {taken} s");
        }
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut limit = RateLimit::new(None);
        for _ in 0..1000 {
            assert_eq!(limit.next(Duration::ZERO), Duration::ZERO);
            limit.take(Duration::ZERO);
        }
    }
}
