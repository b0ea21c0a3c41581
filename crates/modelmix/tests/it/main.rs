//! The library's integration tests, one module per module of the library.

// A test that cannot continue should panic and say so.
#![allow(clippy::unwrap_used)]

mod accumulate;
mod analyses;
mod certainty;
mod compute;
#[path = "../conformance/mod.rs"]
mod conformance;
mod curate;
mod documents;
mod drift;
mod equations;
mod experiment;
mod faulty;
mod golden;
mod headline;
mod integers;
mod intervals;
mod kid;
mod load;
mod metrics;
mod objective;
mod plan;
mod policies;
mod properties;
mod reductions;
mod selection;
mod session;
mod shells;
mod simplex;
mod simulation;
mod smooth;
mod statistics;
mod stopping;
mod stream;
mod surface;
mod theory;
mod worlds;

use proptest::test_runner::{Config, RngSeed};

/// `cases` cases of a property, the same in every run.
fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(2025), ..Config::default() }
}
