//! Settings of the engine, and the reasons why there may be none.

use std::path::PathBuf;

use crate::cache;

/// Which instructions the fused kernels use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tier {
    /// `mma.sync`, for compute capability 8.0 and later.
    Mma,
    /// `wgmma` and bulk tensor copies, for compute capability 9.0 (H100, H200).
    Wgmma,
}

/// How sums over pairs are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Precision {
    /// Fused kernels for many pairs if a check of sampled rows accepts their result, otherwise double precision.
    #[default]
    Checked,
    /// As `Checked`, for few pairs too. Tests use it: it is slower for few pairs and not more accurate.
    CheckedForAll,
    /// Double precision for everything, for published numbers.
    Double,
}

/// Settings of [`Cuda::open`](crate::Cuda::open). The default is right for most uses.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The maximum number of bytes of device memory for rows and results; all that is free if `None`. What CUDA and its
    /// libraries take for themselves is not counted. If it is too little for the fused kernels, sums are computed in
    /// double precision, whose results differ by rounding.
    pub memory: Option<u64>,
    /// The folder for compiled modules; `None` compiles them in every process.
    pub cache: Option<PathBuf>,
    /// The instructions to use; the best of the device if `None`.
    pub tier: Option<Tier>,
    /// The maximum number of blocks of threads of a fused kernel; one per multiprocessor if `None`. Results do not
    /// depend on it.
    pub blocks: Option<u32>,
    /// How sums are computed.
    pub precision: Precision,
    /// Whether cuBLAS and cuSOLVER are used if they are installed. Without them, kernels of this crate multiply matrices and
    /// the processor decomposes them, with the same accuracy and other rounding.
    pub libraries: bool,
    /// The maximum number of threads of the host that copy arrays and find clusters; all that are available if `None`.
    /// Results do not depend on it.
    pub threads: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: None,
            cache: cache::user_folder(),
            tier: None,
            blocks: None,
            precision: Precision::default(),
            libraries: true,
            threads: None,
        }
    }
}

impl Options {
    /// The same with a limit of device memory, in bytes.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// The same with another folder for compiled modules, or none.
    #[must_use]
    pub fn cache(self, folder: Option<PathBuf>) -> Self {
        Self { cache: folder, ..self }
    }

    /// The same with these instructions.
    #[must_use]
    pub fn tier(self, tier: Tier) -> Self {
        Self { tier: Some(tier), ..self }
    }

    /// The same with at most this number of blocks of threads.
    #[must_use]
    pub fn blocks(self, blocks: u32) -> Self {
        Self { blocks: Some(blocks), ..self }
    }

    /// The same with another precision.
    #[must_use]
    pub fn precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// The same with or without cuBLAS and cuSOLVER.
    #[must_use]
    pub fn libraries(self, libraries: bool) -> Self {
        Self { libraries, ..self }
    }

    /// The same with at most this number of threads of the host.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }
}

/// Why there is no engine on a GPU: one sentence, with the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The driver's library cannot be loaded.
    #[error("there is no NVIDIA driver (libcuda cannot be loaded); install one, or use the processor")]
    NoDriver,
    /// The driver is older than CUDA 12.
    #[error("the NVIDIA driver supports CUDA {major}.{minor}, but 12.0 is needed; install a newer driver")]
    OldDriver {
        /// The major version of CUDA that it supports.
        major: i32,
        /// The minor version.
        minor: i32,
    },
    /// The driver reports an error.
    #[error("the NVIDIA driver reports: {problem}")]
    Driver {
        /// Its message.
        problem: String,
    },
    /// The library that compiles kernels cannot be loaded.
    #[error(
        "the NVRTC library of CUDA cannot be loaded; install it (pip install nvidia-cuda-nvrtc) and name its folder in LD_LIBRARY_PATH"
    )]
    NoCompiler,
    /// There are fewer devices.
    #[error(
        "there is no CUDA device {device}: the driver finds {count}, counted from 0; name another, or use the processor"
    )]
    NoDevice {
        /// The device asked for.
        device: usize,
        /// The number of devices.
        count: usize,
    },
    /// The device lacks the instructions of the kernels.
    #[error("{device} has compute capability {major}.{minor}, but 8.0 is needed; use the processor")]
    OldDevice {
        /// The device's name.
        device: String,
        /// Its major compute capability.
        major: i32,
        /// Its minor compute capability.
        minor: i32,
    },
    /// The device does not have the instructions asked for.
    #[error("{device} has no {tier:?} instructions; leave the choice to the engine")]
    NoTier {
        /// The device's name.
        device: String,
        /// The instructions asked for.
        tier: Tier,
    },
    /// Kernels cannot be compiled or loaded.
    #[error("kernels cannot be prepared for {device}: {problem}")]
    Kernels {
        /// The device's name.
        device: String,
        /// The message of the compiler or the driver.
        problem: String,
    },
}

impl Unavailable {
    /// Whether the machine has no GPU of this kind at all, as opposed to one that cannot be used.
    pub fn is_absent(&self) -> bool {
        matches!(self, Unavailable::NoDriver | Unavailable::NoDevice { count: 0, .. })
    }
}
