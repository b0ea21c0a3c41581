//! Features of images and texts, for modelmix: samples are read, decoded, preprocessed exactly as other tools do it, and
//! encoded by ONNX networks.
//!
//! ```text
//! samples ─► decode ─► preprocess ─► runtime ─► encode ─► store
//! files      pixels     tensors      networks   features   files
//! ```
//!
//! [`encoders`] lists named encoders, [`weights`] finds or downloads their weights, [`encode::open`] puts them together, and
//! [`encode::encode`] runs them over many samples, with a [`cache`].

pub mod cache;
pub mod decode;
pub mod encode;
pub mod encoders;
pub mod image;
pub mod inception;
pub mod onnx;
pub mod preprocess;
pub mod problem;
pub mod resize;
pub mod runtime;
pub mod samples;
pub mod store;
pub mod tokens;
pub mod torch_file;
pub mod weights;

pub use image::Image;
pub use preprocess::{Preprocessing, Tool};
pub use problem::Problem;

/// The examples of the crate's README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
