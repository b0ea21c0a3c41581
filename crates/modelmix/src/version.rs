//! The version of this crate, which every result carries.

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
