//! Arguments that choose the compute engine.

use clap::{Args, ValueEnum};
use modelmix::compute::EngineChoice;

use crate::values;

/// The compute engine.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct EngineArgs {
    /// Compute engine, or a device such as cuda:1; auto uses a GPU if there is one and the work is large
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = "Common options", value_parser = values::engine())]
    pub(crate) engine: EngineChoice,
    /// Maximum GPU memory, such as 8GB [default: all that is free]
    #[arg(long, value_name = "SIZE", help_heading = "Common options", value_parser = values::bytes)]
    pub(crate) gpu_memory: Option<u64>,
    /// Precision of kernel sums; auto uses 16-bit integers, or half precision on a GPU, if their error is small
    #[arg(long, value_enum, value_name = "NAME", default_value_t, help_heading = "Common options")]
    pub(crate) precision: PrecisionName,
}

/// What kernel sums are computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrecisionName {
    // 16-bit integers on the processor and split half precision on a GPU, if their estimated error is small. (These are
    // not doc comments, which would be printed in the help, in its long form.)
    #[default]
    Auto,
    // Single precision or better on the processor, double precision on a GPU
    Exact,
}
