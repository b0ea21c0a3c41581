//! Tests of the crate, in one binary.

#![allow(clippy::unwrap_used, missing_docs)]

mod decode;
mod encode;
mod encoders;
mod fixtures;
mod generator;
mod inception;
mod listed;
mod models;
mod preprocess;
mod real_weights;
mod resize;
mod runtime;
mod samples;
mod texts;
mod tokens;
mod torch_file;
mod weights;
