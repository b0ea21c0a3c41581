//! How requests are sent: retries, rates, circuit breakers and budgets. Pure state that is told the time, so that tests need no
//! clock. Times are durations since any fixed moment.

mod breaker;
mod budget;
mod rate;
mod retry;

pub use breaker::Breaker;
pub use budget::{Budget, Ledger, Limit};
pub use rate::{Rate, RateLimit};
pub use retry::{Backoff, Delivery};
