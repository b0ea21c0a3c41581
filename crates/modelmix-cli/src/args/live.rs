//! Arguments of live runs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use modelmix_live::units::Span;

use super::{Common, EngineArgs};
use crate::values;

/// `modelmix run`.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "Example: modelmix run stories.toml --dir stories\n\
    Ctrl-C waits for pulls in flight and ends the run; a second one does not wait. `modelmix resume` goes on.")]
pub(crate) struct RunArgs {
    /// TOML file of the run: arms, encoder, objective, prompts and budget
    #[arg(value_name = "CONFIG")]
    pub(crate) run: PathBuf,
    /// Folder of the run: its database and its samples
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: PathBuf,
    /// Go on with the run in the folder, or start it if there is none
    #[arg(long)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    #[command(flatten)]
    pub(crate) report: RunReportArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix resume`.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "Example: modelmix resume stories --pulls 500")]
pub(crate) struct ResumeArgs {
    /// Folder of the run
    #[arg(value_name = "FOLDER")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    #[command(flatten)]
    pub(crate) report: RunReportArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix status`.
#[derive(Args, Debug)]
#[command(after_help = "Example: modelmix status stories --html stories.html")]
pub(crate) struct StatusArgs {
    /// Folder of the run
    #[arg(value_name = "FOLDER")]
    pub(crate) dir: PathBuf,
    /// Leave out the check of all files of samples against their checksums
    #[arg(long)]
    pub(crate) no_check: bool,
    #[command(flatten)]
    pub(crate) report: RunReportArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix export`.
#[derive(Args, Debug)]
#[command(after_help = "Example: modelmix export stories --out set --what mixture --count 500")]
pub(crate) struct ExportArgs {
    /// Folder of the run
    #[arg(value_name = "FOLDER")]
    pub(crate) dir: PathBuf,
    /// New folder for samples/, features.npz, manifest.csv and mixture.json
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// Which samples
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub(crate) what: Exported,
    /// Number of samples drawn by the weights, without replacement [default: as many as the weights allow]
    #[arg(long, value_name = "N", value_parser = values::count::<usize>(1))]
    pub(crate) count: Option<usize>,
    /// Random seed of the draw
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::count::<u64>(0))]
    pub(crate) seed: u64,
    /// Link files instead of copying them
    #[arg(long)]
    pub(crate) link: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What is exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Exported {
    /// All collected samples
    #[default]
    Pool,
    /// A set drawn by the weights of the best mixture
    Mixture,
}

/// `modelmix probe`.
#[derive(Args, Debug)]
#[command(after_help = "Example: modelmix probe stories.toml\n\
    One request per arm leaves and may be charged. Nothing is stored.")]
pub(crate) struct ProbeArgs {
    /// TOML file of the run
    #[arg(value_name = "CONFIG")]
    pub(crate) run: PathBuf,
    /// Arms to probe, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) arms: Vec<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Limits that override those of the configuration.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct BudgetArgs {
    /// Number of pulls
    #[arg(long, value_name = "N", value_parser = values::count::<u64>(1))]
    pub(crate) pulls: Option<u64>,
    /// Money, in the currency of the prices
    #[arg(long, value_name = "AMOUNT", value_parser = values::number())]
    pub(crate) money: Option<f64>,
    /// Time that the run is active, such as 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) time: Option<Span>,
}

/// The report of a run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RunReportArgs {
    /// Write a report with what was generated: one self-contained HTML file
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub(crate) html: Option<PathBuf>,
    /// Title of the report
    #[arg(long, value_name = "TEXT", help_heading = "Report")]
    pub(crate) title: Option<String>,
}
