//! Arguments of commands about the program: schemas, completions, man pages.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `modelmix schema`.
#[derive(Args, Debug)]
#[command(after_help = "Example: modelmix schema solve > solve.schema.json")]
pub(crate) struct SchemaArgs {
    /// Command that prints the document
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
    /// Results of simulated policies
    Simulate,
    /// A curated set
    Curate,
    /// How many samples to record
    Plan,
    /// Experiments, expected against measured
    Reproduce,
    /// Two runs side by side: report --compare --json
    Compare,
    /// The report of a session, from Rust or Python
    Session,
    /// Sets of samples that were encoded
    Encode,
    /// Sums over parts of the samples
    Accumulate,
    /// What a live run has done
    Status,
}

/// `modelmix completions`.
#[derive(Args, Debug)]
#[command(after_help = "Example: modelmix completions bash > ~/.local/share/bash-completion/completions/modelmix")]
pub(crate) struct CompletionsArgs {
    /// Shell
    pub(crate) shell: clap_complete::Shell,
}

/// `modelmix man`.
#[derive(Args, Debug)]
#[command(after_help = "Example: modelmix man --folder ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Output folder
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) folder: PathBuf,
}
