//! A compute engine of `modelmix` on NVIDIA GPUs.
//!
//! [`Cuda::open`] finds a device and says why if there is none; the engine is a [`modelmix::compute::Backend`]. The
//! crate builds without CUDA: the driver and NVRTC are loaded when a device is opened.
//!
//! Sums over many pairs are computed by a fused kernel. Rows are centred per set and split, x = hi + lo with hi in
//! half precision and lo in half or 8-bit precision; tensor cores compute hi·hi + hi·lo + lo·hi; the kernel is applied in
//! registers; and partial sums are written once and added in double precision in a fixed order. Sampled rows of every
//! result are recomputed from differences. If only rows far from all others deviate, the farthest are computed in double
//! precision. Otherwise, sets are split into clusters with centres of their own, and if that is not enough, all pairs are
//! computed in double precision.
//!
//! Products in double precision are computed by cuBLAS and large matrices are decomposed by cuSOLVER, if these are
//! installed; otherwise by a kernel of this crate and by the processor.

mod backend;
mod cache;
mod choose;
mod cluster;
mod compile;
mod decompose;
mod device;
#[cfg(test)]
mod emulate;
mod exact;
mod foreign;
mod function;
mod fused;
mod guard;
mod layout;
mod modules;
mod moments;
mod near;
mod options;
mod plan;
mod product;
mod progress;
mod resident;
mod strips;
mod subsets;
mod values;

pub use backend::Cuda;
pub use choose::{Chosen, Work, choose};
pub use foreign::DeviceRows;
pub use options::{Options, Precision, Tier, Unavailable};

#[doc(hidden)]
pub use modules::compile_all;
