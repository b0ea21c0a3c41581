//! Experiments as data: a TOML file specifies arms, objective, simulations and expected results.
//!
//! ```toml
//! name = "specialists-mmd"
//! about = "Small generators of clothing images, by similarity to real ones"
//! features = "../../data/fashion"      # folder of arms and reference, relative to this file
//! arms = ["specialists.npz"]           # as on the command line: [name=]path[:key]
//! reference = "reference.npy"
//! objective = "mmd"
//! bandwidth = 20
//! metrics = ["fid", "recall"]          # computed for every arm and the mixture
//!
//! [simulate]
//! policies = ["adaptive", "vanilla(sensitivity=0.03)"]
//! rounds = 1000
//!
//! [expected]
//! "best single" = "flow"
//! "weight of tops_gan" = { value = 0.374, tolerance = 0.001 }
//! "fid of mixture" = { below = "fid of flow" }
//! "rounds of adaptive to 95%" = { at_most = 400 }
//! "regret of adaptive" = { below = "regret of vanilla" }
//! ```
//!
//! An [`Experiment`] is the parsed file. [`Experiment::check`] turns it into a [`Plan`], in which everything is valid
//! that can be checked without reading features. [`Plan::run`] reads them, computes, and compares with the expected
//! results ([`Outcome`]).

mod expected;
mod plan;
mod spec;
mod table;

use std::path::PathBuf;

pub use expected::{Check, Measured, Percent, Quantity, Requirement, Subject};
pub use plan::{Outcome, Plan, Stage};

use crate::error::{Error, Result};
use crate::metrics::Metric;
use crate::objective::Objective;
use crate::simulate::Simulation;

/// An experiment as written in a TOML file.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The file that it was read from.
    pub path: PathBuf,
    /// Its unique name; outputs may be named after it.
    pub name: String,
    /// A description of the experiment.
    pub about: String,
    /// The folder of the arms and the reference, relative to the folder of the file; empty for that folder itself.
    pub features: PathBuf,
    /// The arms, each as [`ArmSource`](crate::load::ArmSource) parses it.
    pub arms: Vec<String>,
    /// The reference, `path[:key]`.
    pub reference: Option<String>,
    /// The number of samples to use, from the start of each arm and of the reference; default: all.
    pub samples: Option<usize>,
    /// The objective.
    pub objective: Objective,
    /// The bandwidth of every quadratic term that names no kernel; default: the median distance.
    pub bandwidth: Option<f64>,
    /// The cost per sample of each arm.
    pub costs: Option<Vec<f64>>,
    /// Whether the best mixture is found offline.
    pub offline: bool,
    /// The metrics of every arm and of the mixture.
    pub metrics: Vec<Metric>,
    /// The simulation.
    pub simulate: Option<Simulation>,
    /// The expectations, in the order written. A quantity may occur several times.
    pub expected: Vec<(Quantity, Requirement)>,
}

/// Checks that experiments have different names, because their outputs are named after them.
///
/// # Errors
/// If two have the same name; the message contains both files.
pub fn check_names(experiments: &[Experiment]) -> Result<()> {
    for (index, experiment) in experiments.iter().enumerate() {
        if let Some(other) = experiments[..index].iter().find(|other| other.name == experiment.name) {
            let problem = format!(
                "the name \"{}\" is also used by {}; rename one of them",
                experiment.name,
                other.path.display()
            );
            return Err(Error::File { path: experiment.path.clone(), problem });
        }
    }
    Ok(())
}
