//! The Rust examples of the README and of the pages in `docs/`, compiled and run as documentation tests. The crate of the library
//! cannot include these files, because they are not part of the published package.

/// The README.
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// Long sessions and drift.
#[doc = include_str!("../../../docs/streams.md")]
pub struct Streams;

/// The engine on GPUs.
#[doc = include_str!("../../../docs/gpu.md")]
pub struct Gpu;
