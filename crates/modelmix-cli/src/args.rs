//! The command-line arguments, typed. `inputs` and the library check what they mean together.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use modelmix::curate::Proportions;
use modelmix::metrics::{Metric, Preset};
use modelmix::mixture::{Allowance, Bandwidths};
use modelmix::{Certified, Gap, Objective, Retention, Selection};

use crate::values::{self, ArmNumber, Confidence, Policies};

mod about;
mod encoder;
mod engine;
mod live;
mod parts;

pub(crate) use about::{CompletionsArgs, Documented, ManArgs, SchemaArgs};
pub(crate) use encoder::{EncodeArgs, EncoderArgs, EncodersAction, EncodersArgs, OnError, RuntimeName};
pub(crate) use engine::{EngineArgs, PrecisionName};
pub(crate) use live::{BudgetArgs, ExportArgs, Exported, ProbeArgs, ResumeArgs, RunArgs, RunReportArgs, StatusArgs};
pub(crate) use parts::{AccumulateArgs, ColumnArgs, MethodName, SumArgs};

/// Finds the mixture of generative models that beats every single one of them.
#[derive(Debug, Parser)]
#[command(name = "modelmix", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 success, 1 a check failed, 2 invalid input or output that cannot be written, 3 a bug in modelmix, 130 interrupted.\n\
    An arm is one generative model. Arms are written [name=]path[:key]: each array of an .npz or .safetensors file is one arm; any other file is one arm."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Solve, score and simulate built-in samples of real generators, and write a report
    Demo(DemoArgs),
    /// Find the best mixture of recorded arms, offline
    Solve(SolveArgs),
    /// Encode images and texts as features, and write them to a file
    Encode(EncodeArgs),
    /// List encoders, show one, or download its weights
    Encoders(EncodersArgs),
    /// Compute RKE, Vendi, KID, FID, precision, recall, density and coverage of each arm and the mixture
    Score(ScoreArgs),
    /// Measure how fast bandit policies find the mixture, on recorded samples
    Simulate(SimulateArgs),
    /// Select the best N-sample subset (coreset), to publish or to train on
    Curate(CurateArgs),
    /// Plan how many samples to record for confidence intervals of a wanted width, from a pilot
    Plan(PlanArgs),
    /// Run experiments and compare measured with expected values
    Reproduce(ReproduceArgs),
    /// Sum features in parts, for data larger than memory or spread over machines; `solve` reads the sums
    Accumulate(AccumulateArgs),
    /// Ask real models behind commands and HTTP for samples, and find the best mixture with as few as possible
    Run(RunArgs),
    /// Go on with a run that was interrupted or that gets a larger budget
    Resume(ResumeArgs),
    /// Show what a run has done, and check its folder
    Status(StatusArgs),
    /// Copy the samples of a run, with features, a manifest and the mixture
    Export(ExportArgs),
    /// Send one request to every arm of a run, to see whether they answer
    Probe(ProbeArgs),
    /// Build a report from documents that other commands printed with --json
    Report(ReportArgs),
    /// Print the JSON Schema of a command's --json document
    Schema(SchemaArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write man pages, one per command
    Man(ManArgs),
}

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Print one JSON document and nothing else on standard output
    #[arg(long, help_heading = "Common options", conflicts_with_all = ["latex", "markdown", "csv"])]
    pub(crate) json: bool,
    /// Print only the tables, as LaTeX for the package booktabs
    #[arg(long, help_heading = "Common options", conflicts_with_all = ["markdown", "csv"])]
    pub(crate) latex: bool,
    /// Print only the tables, as Markdown
    #[arg(long, help_heading = "Common options", conflicts_with = "csv")]
    pub(crate) markdown: bool,
    /// Print only the tables, as CSV with all digits; an empty line separates tables
    #[arg(long, help_heading = "Common options")]
    pub(crate) csv: bool,
    /// Number of threads [default: all cores]. Results do not depend on it
    #[arg(long, value_name = "N", help_heading = "Common options", value_parser = values::count::<usize>(1))]
    pub(crate) threads: Option<usize>,
    /// Print no progress and no notes
    #[arg(long, short, help_heading = "Common options")]
    pub(crate) quiet: bool,
    /// TOML file of options, with the names of the flags; flags override it, as in --json=false. Its paths are relative to the file
    #[arg(long, value_name = "FILE", help_heading = "Common options")]
    pub(crate) config: Option<PathBuf>,
}

/// Recorded samples.
#[derive(Args, Clone, Debug)]
pub(crate) struct ArmsArgs {
    /// Samples of each model: features, one row per sample, or with --encoder a folder of images or a file of texts; [name=]path[:key]
    #[arg(required = true, value_name = "ARM")]
    pub(crate) arms: Vec<String>,
    /// Real samples, in the same forms: path[:key]
    #[arg(long, short, value_name = "PATH")]
    pub(crate) reference: Option<String>,
    #[command(flatten)]
    pub(crate) encoder: EncoderArgs,
}

/// The objective and its settings.
#[derive(Args, Clone, Debug)]
pub(crate) struct ObjectiveArgs {
    /// Loss to minimise, a sum of terms: rke, mmd, kid, fid, vendi, precision, density, cost or a score of your own, as in
    /// "rke - 0.2*precision" [default: mmd with a reference, otherwise rke]
    #[arg(long, short, value_name = "TERMS", allow_hyphen_values = true)]
    pub(crate) objective: Option<Objective>,
    /// Bandwidth σ of the kernels of rke and mmd, unless a term states its own [default: median distance]
    #[arg(long, short, value_name = "SIGMA", allow_hyphen_values = true, value_parser = values::number())]
    pub(crate) bandwidth: Option<f64>,
    /// Price per sample, one per arm: for the term `cost`, for the cheapest mixture and for plans
    #[arg(long, value_name = "ARM=COST", value_delimiter = ',', allow_hyphen_values = true)]
    #[arg(value_parser = values::arm_number("cost"))]
    pub(crate) costs: Vec<ArmNumber>,
    /// Your own scores: a JSON file {"score": {"arm": [one value per sample]}}
    #[arg(long, value_name = "FILE")]
    pub(crate) scores: Option<PathBuf>,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::count::<u64>(0))]
    pub(crate) seed: u64,
}

/// Files to write.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OutputArgs {
    /// Write a report: one self-contained HTML file
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub(crate) html: Option<PathBuf>,
    /// Write every figure as SVG into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Report")]
    pub(crate) svg: Option<PathBuf>,
    /// Write every figure as PNG into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Report")]
    pub(crate) png: Option<PathBuf>,
    /// Title of the report
    #[arg(long, value_name = "TEXT", help_heading = "Report")]
    pub(crate) title: Option<String>,
    /// Images for the gallery, in the order of the rows: [name=]path[:key] of 8-bit arrays, or name=folder
    #[arg(long, value_name = "IMAGES", num_args = 1.., help_heading = "Report")]
    pub(crate) images: Vec<String>,
    /// Texts for the gallery: a JSON file {"arm": ["text", …]}, or name=file with one text per line
    #[arg(long, value_name = "TEXTS", num_args = 1.., help_heading = "Report")]
    pub(crate) texts: Vec<String>,
}

impl OutputArgs {
    /// Whether any file was requested.
    pub(crate) fn is_wanted(&self) -> bool {
        self.html.is_some() || self.svg.is_some() || self.png.is_some()
    }
}

/// Further analyses of the best mixture.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AnalysisArgs {
    /// Best mixture of at most 1, 2, … arms
    #[arg(long, help_heading = "Analyses")]
    pub(crate) subsets: bool,
    /// Cheapest mixture that is nearly as good: fixed cost per period of using an arm, one per arm; added to --costs
    #[arg(long, value_name = "ARM=FEE", value_delimiter = ',', help_heading = "Analyses")]
    #[arg(value_parser = values::arm_number("fee"))]
    pub(crate) fees: Vec<ArmNumber>,
    /// Samples bought per period, for --costs
    #[arg(long, value_name = "N", help_heading = "Analyses", value_parser = values::number())]
    pub(crate) samples: Option<f64>,
    /// Tolerance of the cheapest mixture: a share of the gain (5%) or a difference of the loss (loss=0.001) [default: 5%]
    #[arg(long, value_name = "GAP", help_heading = "Analyses")]
    pub(crate) within: Option<Allowance>,
    /// Pareto front between the objective and these terms, as in "precision"
    #[arg(long, value_name = "TERMS", allow_hyphen_values = true, help_heading = "Analyses")]
    pub(crate) front: Option<Objective>,
    /// Sensitivity to the bandwidth: a list, or auto for a quarter to four times the one in use
    #[arg(long, value_name = "SIGMAS", help_heading = "Analyses")]
    pub(crate) bandwidths: Option<Bandwidths>,
}

/// `modelmix solve`.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: modelmix solve specialists.npz --reference reference.npy --objective mmd --bandwidth 20"
)]
pub(crate) struct SolveArgs {
    #[command(flatten)]
    pub(crate) arms: ArmsArgs,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArgs,
    /// Smallest weight of an arm, such as flux=0.1 or flux=10%
    #[arg(long, value_name = "ARM=SHARE", value_delimiter = ',', value_parser = values::arm_share("floor"))]
    pub(crate) floor: Vec<ArmNumber>,
    /// Largest weight of an arm, such as flux=0.6 or flux=60%
    #[arg(long, value_name = "ARM=SHARE", value_delimiter = ',', value_parser = values::arm_share("cap"))]
    pub(crate) cap: Vec<ArmNumber>,
    /// Leave out confidence intervals and the p-value
    #[arg(long)]
    pub(crate) no_intervals: bool,
    /// List every arm, also if many have weight 0
    #[arg(long)]
    pub(crate) all_arms: bool,
    #[command(flatten)]
    pub(crate) analyses: AnalysisArgs,
    #[command(flatten)]
    pub(crate) columns: ColumnArgs,
    #[command(flatten)]
    pub(crate) sums: SumArgs,
    /// File of sums so far, from which an interrupted run goes on; removed at the end
    #[arg(long, value_name = "FILE", help_heading = "Large data")]
    pub(crate) checkpoint: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix score`.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: modelmix score specialists.npz --reference reference.npy --preset torch-fidelity"
)]
pub(crate) struct ScoreArgs {
    #[command(flatten)]
    pub(crate) arms: ArmsArgs,
    /// Weights of the mixture to score, with sum 1 [default: the optimum of the objective]
    #[arg(long, value_name = "ARM=WEIGHT", value_delimiter = ',', value_parser = values::arm_share("weight"))]
    pub(crate) weights: Vec<ArmNumber>,
    /// Score the arms only
    #[arg(long, conflicts_with = "weights")]
    pub(crate) no_mixture: bool,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArgs,
    /// Metrics, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = values::metric())]
    pub(crate) metrics: Vec<Metric>,
    /// Use the definitions of another tool
    #[arg(long, value_name = "TOOL", value_parser = values::preset())]
    pub(crate) preset: Option<Preset>,
    /// Order of the Vendi score; inf uses the largest eigenvalue only [default: 1]
    #[arg(long, value_name = "Q", value_parser = values::number())]
    pub(crate) order: Option<f64>,
    /// k for the k-nearest-neighbour radii of precision, recall, density and coverage [default: 5]
    #[arg(long, value_name = "K", value_parser = values::count::<usize>(1))]
    pub(crate) neighbours: Option<usize>,
    /// Number of subsets for KID [default: 100]
    #[arg(long, value_name = "N", value_parser = values::count::<usize>(1))]
    pub(crate) subsets: Option<usize>,
    /// Samples per subset for KID [default: 1000, or all if there are fewer]
    #[arg(long, value_name = "N", value_parser = values::count::<usize>(2))]
    pub(crate) subset_size: Option<usize>,
    /// Seed of NumPy's generator for KID's subsets [default: 2020, or the preset's]
    #[arg(long, value_name = "N", value_parser = values::count::<u32>(0))]
    pub(crate) subset_seed: Option<u32>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix simulate`.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: modelmix simulate truncated.npz --objective rke --bandwidth 20 --policy adaptive,cab,vanilla --rounds 2000"
)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) arms: ArmsArgs,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArgs,
    /// Policies, separated by commas: adaptive, cab, ogd, sparse, greedy, vanilla, halving, uniform, fixed, mixture-oracle,
    /// one-arm-oracle; with settings as in "cab(sensitivity=0.03)" or "fixed(weights=0.5 0.3 0.2)"
    #[arg(long, value_name = "NAMES", num_args = 1.., default_value = "adaptive,greedy,one-arm-oracle,mixture-oracle")]
    #[arg(value_parser = values::policies(), hide_possible_values = true)]
    pub(crate) policy: Vec<Policies>,
    /// Pulls per run
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = values::count::<usize>(1))]
    pub(crate) rounds: usize,
    /// Runs per policy, with consecutive seeds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::count::<usize>(1))]
    pub(crate) seeds: usize,
    /// Samples per pull
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::count::<usize>(1))]
    pub(crate) batch: usize,
    /// Concurrent pulls
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::count::<usize>(1))]
    pub(crate) in_flight: usize,
    /// Samples to keep; better-half keeps those that reduce the loss more than the median sample so far
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = values::selection())]
    pub(crate) select: Selection,
    /// Draw recorded samples without replacement; an exhausted arm is an error
    #[arg(long)]
    pub(crate) no_replacement: bool,
    /// Warm start: recorded samples per arm that are known before the first round
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = values::count::<usize>(0))]
    pub(crate) known: usize,
    /// Samples held in memory; evicted ones are summarised by random Fourier features [default: all, or 1000 with --feature-error]
    #[arg(long, value_name = "N", value_parser = values::count::<usize>(0))]
    pub(crate) hold: Option<usize>,
    /// Standard error of an entry of K caused by random features [default: 0.02, with --hold]
    #[arg(long, value_name = "ERROR", value_parser = values::number())]
    pub(crate) feature_error: Option<f64>,
    /// Drift: window=N (sliding window of N samples) or half-life=N (exponential decay)
    #[arg(long, value_name = "HOW")]
    pub(crate) forget: Option<Retention>,
    /// Number of evenly spaced rounds at which results are recorded
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = values::count::<usize>(1))]
    pub(crate) checkpoints: usize,
    /// Early stopping: within a share of the gain (5%) or a difference of the loss (loss=0.001)
    #[arg(long, value_name = "GAP")]
    pub(crate) until: Option<Gap>,
    /// Confidence of --until
    #[arg(long, value_name = "SHARE", default_value = "95%", requires = "until")]
    pub(crate) confidence: Confidence,
    /// What --until certifies: the computed weights, or the shares of the collected samples
    #[arg(long, value_name = "WHAT", default_value = "weights", requires = "until", value_parser = values::certified())]
    pub(crate) certify: Certified,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix curate`.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: modelmix curate specialists.npz --reference reference.npy --objective mmd --count 500 --out manifest.csv\n\
    A curated set is not an i.i.d. mixture: its score is optimistically biased. Evaluate it on held-out data."
)]
pub(crate) struct CurateArgs {
    #[command(flatten)]
    pub(crate) arms: ArmsArgs,
    /// Number of rows to select, without repetition
    #[arg(long, short = 'n', value_name = "N", value_parser = values::count::<usize>(2))]
    pub(crate) count: usize,
    /// Write the selected rows: FILE.json, or FILE.csv with a description in FILE.csv.json
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Copy the selected image files into this new folder, with one folder per arm
    #[arg(long, value_name = "FOLDER")]
    pub(crate) copy_to: Option<PathBuf>,
    /// With --copy-to, link the files instead of copying them
    #[arg(long, requires = "copy_to")]
    pub(crate) link: bool,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArgs,
    /// Shares of the arms in the set: those of the best mixture, unconstrained, or the better of both
    #[arg(long, value_name = "WHICH", default_value = "best", value_parser = values::proportions())]
    pub(crate) proportions: Proportions,
    /// Smallest weight of an arm, such as flux=0.1 or flux=10%
    #[arg(long, value_name = "ARM=SHARE", value_delimiter = ',', value_parser = values::arm_share("floor"))]
    pub(crate) floor: Vec<ArmNumber>,
    /// Largest weight of an arm, such as flux=0.6 or flux=60%
    #[arg(long, value_name = "ARM=SHARE", value_delimiter = ',', value_parser = values::arm_share("cap"))]
    pub(crate) cap: Vec<ArmNumber>,
    /// Maximum number of exchange passes over the selected rows
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::count::<usize>(0))]
    pub(crate) sweeps: usize,
    /// Maximum number of candidate rows; a random subset of this size is used if there are more
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = values::count::<usize>(1))]
    pub(crate) pool: usize,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix demo`.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// File of the report
    #[arg(long, value_name = "FILE", default_value = "modelmix-demo.html")]
    pub(crate) html: PathBuf,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix reproduce`.
#[derive(Args, Debug)]
#[command(after_help = "Example: modelmix reproduce experiments/fashion experiments/text --svg figures")]
pub(crate) struct ReproduceArgs {
    /// Experiments (.toml), or folders of them
    #[arg(required = true, value_name = "EXPERIMENT")]
    pub(crate) experiments: Vec<PathBuf>,
    /// Folder with the features of experiments whose data is not in the repository
    #[arg(long, value_name = "FOLDER")]
    pub(crate) features: Option<PathBuf>,
    /// File of the report: one self-contained HTML file
    #[arg(long, value_name = "FILE", default_value = "modelmix-experiments.html")]
    pub(crate) html: PathBuf,
    /// Write every figure as SVG into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) svg: Option<PathBuf>,
    /// Write every figure as PNG into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) png: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix report`.
#[derive(Args, Debug)]
#[command(after_help = "Example: modelmix solve … --json > solve.json; modelmix report solve.json --html report.html")]
pub(crate) struct ReportArgs {
    /// Documents of solve, score, simulate and curate; - for standard input
    #[arg(required = true, value_name = "DOCUMENT")]
    pub(crate) documents: Vec<PathBuf>,
    /// Set two documents side by side: what changed, and whether beyond noise
    #[arg(long)]
    pub(crate) compare: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix plan`.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: modelmix plan categories.npz --objective rke --bandwidth 20 --gain-error 5%"
)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) arms: ArmsArgs,
    /// Half-width of the 95% interval of the gain: a share of the gain (5%) or a difference of the loss (loss=0.001);
    /// required unless --weight-error is given
    #[arg(long, value_name = "ERROR", value_parser = values::gain_error)]
    pub(crate) gain_error: Option<Gap>,
    /// Half-width of the widest 95% interval of a weight, such as 0.05
    #[arg(long, value_name = "ERROR", value_parser = values::number())]
    pub(crate) weight_error: Option<f64>,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}
