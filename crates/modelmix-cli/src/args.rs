//! The arguments of the command line, typed. What they mean together is checked in `inputs` and by the library.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use modelmix::curate::Proportions;
use modelmix::metrics::{Metric, Preset};
use modelmix::mixture::{Allowance, Bandwidths};
use modelmix::{Certified, Gap, Objective, Retention, Selection};

use crate::values::{self, ArmNumber, Confidence, Policies};

/// Finds the mixture of generative models that beats every single one of them.
#[derive(Debug, Parser)]
#[command(name = "modelmix", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 everything asked for is done, 1 a check failed, 2 bad input or output that cannot be written, 3 a bug in modelmix, 130 interrupted.\n\
    Arms are given as [name=]path[:key]: an .npz or .safetensors file holds an arm an array, any other file is one arm."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Everything below on real generators' samples that ship inside, with a report
    Demo(DemoArgs),
    /// The best mixture of recorded arms, offline
    Solve(SolveArgs),
    /// RKE, Vendi, KID, FID, precision, recall, density, coverage: of each arm and of the mixture
    Score(ScoreArgs),
    /// How quickly policies find the mixture when every sample has to be asked for
    Simulate(SimulateArgs),
    /// Of the samples at hand, the rows that make the best set: to publish, or to train on
    Curate(CurateArgs),
    /// Runs experiments and compares what is measured with what is expected
    Reproduce(ReproduceArgs),
    /// A report from documents that other commands printed with --json
    Report(ReportArgs),
    /// The JSON Schema of what a command prints with --json
    Schema(SchemaArgs),
    /// A completion script for a shell
    Completions(CompletionsArgs),
    /// Man pages, one per command
    Man(ManArgs),
}

/// What every command knows.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Print one JSON document and nothing else on standard output
    #[arg(long, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// Threads to use; all cores where it is left out. Results do not depend on it
    #[arg(long, value_name = "N", help_heading = "Everywhere", value_parser = values::count::<usize>(1))]
    pub(crate) threads: Option<usize>,
    /// No progress and no remarks
    #[arg(long, short, help_heading = "Everywhere")]
    pub(crate) quiet: bool,
    /// TOML file of options, named as here; typed ones override it, as --json=false. Its paths are relative to the file
    #[arg(long, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) config: Option<PathBuf>,
}

/// Recorded samples.
#[derive(Args, Clone, Debug)]
pub(crate) struct ArmsArgs {
    /// Features of each model's samples: [name=]path[:key]
    #[arg(required = true, value_name = "ARM")]
    pub(crate) arms: Vec<String>,
    /// Features of real samples from the same encoder: path[:key]
    #[arg(long, short, value_name = "PATH")]
    pub(crate) reference: Option<String>,
}

/// What is to be minimised.
#[derive(Args, Clone, Debug)]
pub(crate) struct ObjectiveArgs {
    /// A sum of terms: rke, kid, mmd, fid, vendi, precision, density, cost, or a score of your own, as in "rke - 0.2*precision";
    /// kid where there is a reference, else rke
    #[arg(long, short, value_name = "TERMS", allow_hyphen_values = true)]
    pub(crate) objective: Option<Objective>,
    /// The kernel's bandwidth σ, for terms that name none; the median distance where it is left out
    #[arg(long, short, value_name = "SIGMA", allow_hyphen_values = true, value_parser = values::number())]
    pub(crate) bandwidth: Option<f64>,
    /// Price of a sample, for `cost`; for every arm
    #[arg(long, value_name = "ARM=COST", value_delimiter = ',', allow_hyphen_values = true)]
    #[arg(value_parser = values::arm_number("cost"))]
    pub(crate) costs: Vec<ArmNumber>,
    /// Scores of your own: a JSON file {"score": {"arm": [one value a sample]}}
    #[arg(long, value_name = "FILE")]
    pub(crate) scores: Option<PathBuf>,
    /// The seed of all that is drawn
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::count::<u64>(0))]
    pub(crate) seed: u64,
}

/// Files that are written beside the terminal.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OutputArgs {
    /// Write a report, one HTML file that needs no network
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub(crate) html: Option<PathBuf>,
    /// Write every figure as SVG into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Report")]
    pub(crate) svg: Option<PathBuf>,
    /// Write every figure as PNG into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Report")]
    pub(crate) png: Option<PathBuf>,
    /// The report's title
    #[arg(long, value_name = "TEXT", help_heading = "Report")]
    pub(crate) title: Option<String>,
    /// Images for the gallery, row for row those of the features: [name=]path[:key] of 8-bit arrays, or name=folder
    #[arg(long, value_name = "IMAGES", num_args = 1.., help_heading = "Report")]
    pub(crate) images: Vec<String>,
    /// Texts for the gallery: a JSON file {"arm": ["text", …]}, or name=file with a text a line
    #[arg(long, value_name = "TEXTS", num_args = 1.., help_heading = "Report")]
    pub(crate) texts: Vec<String>,
}

impl OutputArgs {
    /// Whether anything is to be written.
    pub(crate) fn is_wanted(&self) -> bool {
        self.html.is_some() || self.svg.is_some() || self.png.is_some()
    }
}

/// What is asked beside the best mixture.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AnalysisArgs {
    /// The best mixture of at most 1, 2, … arms
    #[arg(long, help_heading = "Worth")]
    pub(crate) subsets: bool,
    /// The cheapest mixture that is nearly as good: price of using an arm at all for one period, for every arm; beside --costs
    #[arg(long, value_name = "ARM=FEE", value_delimiter = ',', help_heading = "Worth")]
    #[arg(value_parser = values::arm_number("fee"))]
    pub(crate) fees: Vec<ArmNumber>,
    /// How many samples are bought a period, for --costs
    #[arg(long, value_name = "N", help_heading = "Worth", value_parser = values::number())]
    pub(crate) samples: Option<f64>,
    /// How much worse than the best the cheapest mixture may be: a share of the gain (5%) or a difference of the loss
    /// (loss=0.001) [default: 5%]
    #[arg(long, value_name = "GAP", help_heading = "Worth")]
    pub(crate) within: Option<Allowance>,
    /// All mixtures between the best for the objective and the best for these terms, as in "precision"
    #[arg(long, value_name = "TERMS", allow_hyphen_values = true, help_heading = "Worth")]
    pub(crate) front: Option<Objective>,
    /// The best mixture with other bandwidths: auto for a quarter to four times that in use, or a list
    #[arg(long, value_name = "SIGMAS", help_heading = "Worth")]
    pub(crate) bandwidths: Option<Bandwidths>,
}

/// `modelmix solve`.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: modelmix solve specialists.npz --reference reference.npy --objective kid --bandwidth 20"
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
    pub(crate) output: OutputArgs,
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
    /// Weights of the mixture to score beside the arms; they must sum to 1 [default: the optimum of the objective]
    #[arg(long, value_name = "ARM=WEIGHT", value_delimiter = ',', value_parser = values::arm_share("weight"))]
    pub(crate) weights: Vec<ArmNumber>,
    /// No mixture
    #[arg(long, conflicts_with = "weights")]
    pub(crate) no_mixture: bool,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArgs,
    /// The metrics, with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = values::metric())]
    pub(crate) metrics: Vec<Metric>,
    /// The definitions of another tool
    #[arg(long, value_name = "TOOL", value_parser = values::preset())]
    pub(crate) preset: Option<Preset>,
    /// The order of vendi; inf for the largest eigenvalue alone [default: 1]
    #[arg(long, value_name = "Q", value_parser = values::number())]
    pub(crate) order: Option<f64>,
    /// Up to which neighbour the balls of precision, recall, density and coverage reach [default: 5]
    #[arg(long, value_name = "K", value_parser = values::count::<usize>(1))]
    pub(crate) neighbours: Option<usize>,
    /// How many subsets KID has [default: 100]
    #[arg(long, value_name = "N", value_parser = values::count::<usize>(1))]
    pub(crate) subsets: Option<usize>,
    /// How many samples a subset of KID has [default: 1000, or fewer where there are fewer]
    #[arg(long, value_name = "N", value_parser = values::count::<usize>(2))]
    pub(crate) subset_size: Option<usize>,
    /// The seed of NumPy's generator that draws KID's subsets [default: 2020, or the preset's]
    #[arg(long, value_name = "N", value_parser = values::count::<u32>(0))]
    pub(crate) subset_seed: Option<u32>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
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
    /// Policies, with settings in parentheses: adaptive,"cab(sensitivity=0.03)",ogd,sparse,greedy,vanilla,halving,uniform,mixture-oracle,one-arm-oracle
    #[arg(long, value_name = "NAMES", num_args = 1.., default_value = "adaptive,greedy,one-arm-oracle,mixture-oracle")]
    #[arg(value_parser = values::policies(), hide_possible_values = true)]
    pub(crate) policy: Vec<Policies>,
    /// Pulls a run
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = values::count::<usize>(1))]
    pub(crate) rounds: usize,
    /// Runs a policy, with seeds one after another
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::count::<usize>(1))]
    pub(crate) seeds: usize,
    /// Samples a pull
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::count::<usize>(1))]
    pub(crate) batch: usize,
    /// Pulls that are out at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::count::<usize>(1))]
    pub(crate) in_flight: usize,
    /// Which samples are kept; better-half: those that lower the loss more than half of the samples so far would
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = values::selection())]
    pub(crate) select: Selection,
    /// A recorded sample comes once only; an arm that runs dry is an error
    #[arg(long)]
    pub(crate) no_replacement: bool,
    /// Recorded samples per arm known before the first round (warm start), not counted as rounds
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = values::count::<usize>(0))]
    pub(crate) known: usize,
    /// Samples that a session holds; of those let go, sums of random features are kept [default: all, or 1000 with --feature-error]
    #[arg(long, value_name = "N", value_parser = values::count::<usize>(0))]
    pub(crate) hold: Option<usize>,
    /// The standard error of an entry of K that features may cause [default: 0.02, with --hold]
    #[arg(long, value_name = "ERROR", value_parser = values::number())]
    pub(crate) feature_error: Option<f64>,
    /// What sessions forget: window=N counts the last N samples only, half-life=N counts a sample half as much after N later ones
    #[arg(long, value_name = "HOW")]
    pub(crate) forget: Option<Retention>,
    /// At how many rounds, evenly spaced, results are kept
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = values::count::<usize>(1))]
    pub(crate) checkpoints: usize,
    /// Early stopping: within a share of the gain (5%) or a difference of the loss (loss=0.001)
    #[arg(long, value_name = "GAP")]
    pub(crate) until: Option<Gap>,
    /// With what confidence they may
    #[arg(long, value_name = "SHARE", default_value = "95%", requires = "until")]
    pub(crate) confidence: Confidence,
    /// What is to be so near: the weights found, or the shares of the samples
    #[arg(long, value_name = "WHAT", default_value = "weights", requires = "until", value_parser = values::certified())]
    pub(crate) certify: Certified,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix curate`.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: modelmix curate specialists.npz --reference reference.npy --objective kid --count 500 --out manifest.csv\n\
    A curated set is no longer an i.i.d. mixture: its score flatters it."
)]
pub(crate) struct CurateArgs {
    #[command(flatten)]
    pub(crate) arms: ArmsArgs,
    /// How many rows to choose; none comes twice
    #[arg(long, short = 'n', value_name = "N", value_parser = values::count::<usize>(2))]
    pub(crate) count: usize,
    /// Write the manifest, the list of the chosen rows: FILE.json, or FILE.csv with its description in FILE.csv.json
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArgs,
    /// The arms' shares in the set: those of the best mixture, free ones, or the better of both
    #[arg(long, value_name = "WHICH", default_value = "best", value_parser = values::proportions())]
    pub(crate) proportions: Proportions,
    /// Smallest weight of an arm, such as flux=0.1 or flux=10%
    #[arg(long, value_name = "ARM=SHARE", value_delimiter = ',', value_parser = values::arm_share("floor"))]
    pub(crate) floor: Vec<ArmNumber>,
    /// Largest weight of an arm, such as flux=0.6 or flux=60%
    #[arg(long, value_name = "ARM=SHARE", value_delimiter = ',', value_parser = values::arm_share("cap"))]
    pub(crate) cap: Vec<ArmNumber>,
    /// How often, at most, every chosen row is looked at for an exchange
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::count::<usize>(0))]
    pub(crate) sweeps: usize,
    /// Rows that are looked at, at most; of more samples a pool of so many is drawn
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = values::count::<usize>(1))]
    pub(crate) pool: usize,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix demo`.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Where the report goes
    #[arg(long, value_name = "FILE", default_value = "modelmix-demo.html")]
    pub(crate) html: PathBuf,
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
    /// Where the features of experiments are that do not ship with them
    #[arg(long, value_name = "FOLDER")]
    pub(crate) features: Option<PathBuf>,
    /// Where the report with all figures goes, one HTML file that needs no network
    #[arg(long, value_name = "FILE", default_value = "modelmix-experiments.html")]
    pub(crate) html: PathBuf,
    /// Write every figure as SVG into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) svg: Option<PathBuf>,
    /// Write every figure as PNG into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) png: Option<PathBuf>,
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
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix schema`.
#[derive(Args, Debug)]
#[command(after_help = "Example: modelmix schema solve > solve.schema.json")]
pub(crate) struct SchemaArgs {
    /// The command whose document it describes
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Documented,
}

/// A document that has a schema: those that commands print, and a session's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Documented {
    /// The best mixture
    Solve,
    /// Scores of arms and of a mixture
    Score,
    /// How policies did
    Simulate,
    /// A curated set
    Curate,
    /// Experiments, expected against measured
    Reproduce,
    /// The report of a session, which Rust and Python give
    Session,
}

/// `modelmix completions`.
#[derive(Args, Debug)]
#[command(after_help = "Example: modelmix completions bash > ~/.local/share/bash-completion/completions/modelmix")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// `modelmix man`.
#[derive(Args, Debug)]
#[command(after_help = "Example: modelmix man --folder ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder that the pages are written into
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) folder: PathBuf,
}
