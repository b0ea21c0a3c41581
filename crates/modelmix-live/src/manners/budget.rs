//! Budgets in money, pulls and time. Money that may have been spent counts as spent, so that no budget is exceeded.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a run may spend; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// In the currency of the prices.
    pub money: Option<f64>,
    /// The number of pulls that send at least one request.
    pub pulls: Option<u64>,
    /// The time that the run is active, over all of its processes.
    pub time: Option<Duration>,
}

/// What a run has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ledger {
    /// Costs that answers stated.
    pub confirmed: f64,
    /// The reserved costs of requests without an answer: they may have been charged.
    pub in_doubt: f64,
    /// The reserved costs of requests in flight.
    pub reserved: f64,
    /// The pulls that sent at least one request.
    pub pulls: u64,
    /// The time that the run was active.
    pub time: Duration,
}

/// The limit that a run reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The money.
    Money,
    /// The pulls.
    Pulls,
    /// The time.
    Time,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Money => "money",
            Self::Pulls => "pulls",
            Self::Time => "time",
        })
    }
}

impl Ledger {
    /// What may have been spent.
    pub fn committed(&self) -> f64 {
        self.confirmed + self.in_doubt + self.reserved
    }
}

impl Budget {
    /// The limit that a request with this reserved cost would exceed. `is_new` says whether it is the first of its pull.
    pub fn exceeded(&self, ledger: &Ledger, reserve: f64, is_new: bool) -> Option<Limit> {
        // Sums of prices are off by rounding; a budget of 10 × 0.1 pays for ten requests.
        let money = |money: f64| ledger.committed() + reserve > money * (1.0 + 1e-12);
        if self.money.is_some_and(money) {
            Some(Limit::Money)
        } else if is_new && self.pulls.is_some_and(|pulls| ledger.pulls >= pulls) {
            Some(Limit::Pulls)
        } else if self.time.is_some_and(|time| ledger.time >= time) {
            Some(Limit::Time)
        } else {
            None
        }
    }

    /// The share of the most used limit that is used; `None` without limits.
    pub fn used(&self, ledger: &Ledger) -> Option<f64> {
        let shares = [
            self.money.map(|money| ledger.committed() / money),
            self.pulls.map(|pulls| ledger.pulls as f64 / pulls as f64),
            self.time.map(|time| ledger.time.as_secs_f64() / time.as_secs_f64()),
        ];
        shares.into_iter().flatten().reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_and_doubtful_money_counts() {
        let budget = Budget { money: Some(1.0), ..Budget::default() };
        let ledger = Ledger { confirmed: 0.3, in_doubt: 0.3, reserved: 0.3, ..Ledger::default() };
        assert_eq!(budget.exceeded(&ledger, 0.1, true), None);
        assert_eq!(budget.exceeded(&ledger, 0.11, true), Some(Limit::Money));
    }

    #[test]
    fn ten_times_a_tenth_is_one() {
        let budget = Budget { money: Some(1.0), ..Budget::default() };
        let mut ledger = Ledger::default();
        for _ in 0..10 {
            assert_eq!(budget.exceeded(&ledger, 0.1, true), None);
            ledger.confirmed += 0.1;
        }
        assert_eq!(budget.exceeded(&ledger, 0.1, true), Some(Limit::Money));
    }

    #[test]
    fn retries_are_no_new_pulls() {
        let budget = Budget { pulls: Some(2), ..Budget::default() };
        let ledger = Ledger { pulls: 2, ..Ledger::default() };
        assert_eq!(budget.exceeded(&ledger, 0.0, true), Some(Limit::Pulls));
        assert_eq!(budget.exceeded(&ledger, 0.0, false), None);
        assert_eq!(budget.used(&ledger), Some(1.0));
    }
}
