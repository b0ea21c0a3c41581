//! Metrics of samples, of one set and of weighted mixtures.

mod moments;
mod pool;

pub use moments::Moments;
pub use pool::{Part, Pool};
