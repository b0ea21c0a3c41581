//! The library's integration tests, one module a room of the house.

// A test that cannot go on should stop there and say so.
#![allow(clippy::unwrap_used)]

mod load;
mod simplex;
mod simulation;
mod theory;
