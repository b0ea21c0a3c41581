//! Arguments of data that is read in parts, because it is larger than memory or spread over machines.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use modelmix::Objective;
use modelmix::accumulate::Method;

use super::{ArmNumber, Common, EngineArgs};
use crate::values::{self, Task};

/// Which columns of .parquet files are read.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ColumnArgs {
    /// Column of .parquet files that names the arm of each row; then no file is named
    #[arg(long, value_name = "COLUMN", help_heading = "Large data")]
    pub(crate) arm_column: Option<String>,
    /// Column of .parquet files with a list of floats per row [default: the only one]
    #[arg(long, value_name = "COLUMN", help_heading = "Large data")]
    pub(crate) features_column: Option<String>,
    /// Columns of .parquet files with one score per row, for terms of these names
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Large data")]
    pub(crate) score_columns: Vec<String>,
}

impl ColumnArgs {
    /// Whether any of them is given.
    pub(crate) fn is_used(&self) -> bool {
        self.arm_column.is_some() || self.features_column.is_some() || !self.score_columns.is_empty()
    }
}

/// What is summed over the rows.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SumArgs {
    /// What is summed: pairs of all rows in memory (rows), or on disk (pairs), pairs of sampled rows, or random Fourier features of all rows
    /// [default: rows up to 100,000 rows, then features, or sample for kernels that have none]
    #[arg(long, value_name = "NAME", value_enum, help_heading = "Large data")]
    pub(crate) method: Option<MethodName>,
    /// Sampled rows per arm, for bandwidths, intervals and --method sample [default: 2000]
    #[arg(long, value_name = "N", help_heading = "Large data", value_parser = values::count::<usize>(2))]
    pub(crate) sampled_rows: Option<usize>,
    /// Random Fourier features per kernel [default: 4096, or what --approximation-error needs]
    #[arg(long, value_name = "N", help_heading = "Large data", value_parser = values::count::<usize>(2))]
    pub(crate) random_features: Option<usize>,
    /// Largest standard error of the gain that random features or sampling may cause
    #[arg(long, value_name = "ERROR", help_heading = "Large data", value_parser = values::number())]
    pub(crate) approximation_error: Option<f64>,
    /// Memory budget, such as 4GB: files are read in parts, and sums replace rows that do not fit
    #[arg(long, value_name = "SIZE", help_heading = "Large data", value_parser = values::memory)]
    pub(crate) memory: Option<u64>,
}

impl SumArgs {
    /// Whether any of them is given.
    pub(crate) fn is_used(&self) -> bool {
        self.method.is_some()
            || self.sampled_rows.is_some()
            || self.random_features.is_some()
            || self.approximation_error.is_some()
            || self.memory.is_some()
    }
}

/// What is summed over the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodName {
    // All pairs of rows, which are held in memory
    Rows,
    // Pairs of sampled rows
    Sample,
    // Random Fourier features, moments and scores of all rows
    Features,
    // All pairs of rows, two blocks at a time
    Pairs,
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Self {
        match name {
            MethodName::Rows => Method::Rows,
            MethodName::Sample => Method::Sample,
            MethodName::Features => Method::Features,
            MethodName::Pairs => Method::Pairs,
        }
    }
}

/// `modelmix accumulate`.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example, both passes at once:\n  \
    modelmix accumulate flux=flux/ sdxl=sdxl/ --reference coco/ --objective mmd --out sums.acc\n  \
    modelmix solve sums.acc\n\
    Example, 16 tasks on as many machines, with the same answer (K is the number of the task):\n  \
    modelmix accumulate flux=flux/ sdxl=sdxl/ --reference coco/ --task K/16 --survey --out survey-K.acc\n  \
    modelmix accumulate survey-*.acc --objective mmd --out plan.acc\n  \
    modelmix accumulate flux=flux/ sdxl=sdxl/ --reference coco/ --task K/16 --plan plan.acc --out part-K.acc\n  \
    modelmix solve part-*.acc"
)]
pub(crate) struct AccumulateArgs {
    /// Features, one row per sample: .parquet, .npy, .npz or .safetensors files or folders of them, [name=]path[:key]; or .acc files to merge
    #[arg(required = true, value_name = "SHARD")]
    pub(crate) shards: Vec<String>,
    /// Features of real samples, in the same forms; tasks of one run may all give it, and it counts once
    #[arg(long, short, value_name = "PATH")]
    pub(crate) reference: Option<String>,
    /// File of sums to write; an interrupted run goes on from FILE.partial
    #[arg(long, value_name = "FILE.acc")]
    pub(crate) out: PathBuf,
    /// Loss to minimise, as in `solve` [default: mmd with a reference, otherwise rke]
    #[arg(long, short, value_name = "TERMS", allow_hyphen_values = true, conflicts_with_all = ["survey", "plan"])]
    pub(crate) objective: Option<Objective>,
    /// Bandwidth σ of the kernels of rke and mmd, unless a term states its own [default: median distance of sampled rows]
    #[arg(long, short, value_name = "SIGMA", allow_hyphen_values = true, value_parser = values::number())]
    #[arg(conflicts_with_all = ["survey", "plan"])]
    pub(crate) bandwidth: Option<f64>,
    /// Price per sample, one per arm, for the term `cost`
    #[arg(long, value_name = "ARM=COST", value_delimiter = ',', allow_hyphen_values = true)]
    #[arg(value_parser = values::arm_number("cost"), conflicts_with_all = ["survey", "plan"])]
    pub(crate) costs: Vec<ArmNumber>,
    /// Random seed of the sample and of random features
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::count::<u64>(0))]
    pub(crate) seed: u64,
    /// Only count and sample rows: the first of two passes
    #[arg(long, conflicts_with = "plan")]
    pub(crate) survey: bool,
    /// Sum what the plan in this file says: that of merged surveys, or of any other part
    #[arg(long, value_name = "FILE.acc")]
    pub(crate) plan: Option<PathBuf>,
    /// Sum the share of task K of N, as in 3/16: every task is given the same shards and options, and another K
    #[arg(long, value_name = "K/N")]
    pub(crate) task: Option<Task>,
    #[command(flatten)]
    pub(crate) columns: ColumnArgs,
    #[command(flatten)]
    pub(crate) sums: SumArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}
