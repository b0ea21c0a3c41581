//! Tests of the crate, in one binary.

