//! The Rust examples of the README and of the pages in `docs/`, compiled and run as documentation tests. The library's own
//! crate cannot include these files: they lie outside of what is published.

/// The README.
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// Sessions that run without end.
#[doc = include_str!("../../../docs/streams.md")]
pub struct Streams;
