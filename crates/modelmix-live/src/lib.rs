//! Live runs of modelmix: a session whose arms are real models behind commands, HTTP and networks, with a durable store, budgets
//! and resumption.
//!
//! ```text
//! config ─► plan ─► runner ─► arm ─► payload ─► encoder ─► scores ─► session ─► status
//! TOML      checked  asks      a model  a file     features   numbers   events     numbers
//!                      └──────────── store: every step is committed before the next ────────────┘
//! ```
//!
//! [`Config`](config::Config) is what the user wrote, [`Plan`](config::Plan) is checked, and [`run`](runner::run) executes it.

pub mod arm;
pub mod config;
pub mod encoder;
pub mod manners;
pub mod pool;
pub mod problem;
pub mod runner;
pub mod score;
pub mod secret;
pub mod status;
pub mod store;
pub mod tally;
pub mod units;

pub use problem::{Problem, Result};

/// The examples of the crate's README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
