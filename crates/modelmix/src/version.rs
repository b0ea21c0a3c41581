//! The version of this crate, which is part of every result.

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
