//! Experiments as data: a TOML file says what to mix, what to minimise, what to simulate and what is expected.
//!
//! ```toml
//! name = "specialists-mmd"
//! about = "Small generators of clothing images, by likeness to real ones"
//! features = "../../data/fashion"      # where arms and reference are, seen from this file
//! arms = ["specialists.npz"]           # as on the command line: [name=]path[:key]
//! reference = "reference.npy"
//! objective = "mmd"
//! bandwidth = 20
//! metrics = ["fid", "recall"]          # of every arm and of the mixture
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
//! An [`Experiment`] is what was written; [`Experiment::check`] makes a [`Plan`] of it, in which everything is right that can
//! be known without reading features; [`Plan::run`] reads them, computes, and compares with what is expected ([`Outcome`]).

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

/// What a TOML file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The file that it comes from.
    pub path: PathBuf,
    /// Its name, which no other has; outputs may be named after it.
    pub name: String,
    /// What is asked, in words.
    pub about: String,
    /// Where the files of arms and of the reference are, seen from the file's own folder; that folder where it is empty.
    pub features: PathBuf,
    /// The arms, each as [`ArmSource`](crate::load::ArmSource) reads it.
    pub arms: Vec<String>,
    /// The reference, `path[:key]`.
    pub reference: Option<String>,
    /// How many of the first samples of each arm and of the reference to use; all where it is left out.
    pub samples: Option<usize>,
    /// What is minimised.
    pub objective: Objective,
    /// The bandwidth of every quadratic term that names no kernel; the median distance where it is left out.
    pub bandwidth: Option<f64>,
    /// What a sample of each arm costs.
    pub costs: Option<Vec<f64>>,
    /// Whether the best mixture is found offline.
    pub offline: bool,
    /// What every arm and the mixture are scored by.
    pub metrics: Vec<Metric>,
    /// What is simulated.
    pub simulate: Option<Simulation>,
    /// What is expected, in the order written. A quantity may stand several times.
    pub expected: Vec<(Quantity, Requirement)>,
}

/// No two experiments may have the same name, since their outputs are named after them.
///
/// # Errors
/// The two files.
pub fn check_names(experiments: &[Experiment]) -> Result<()> {
    for (index, experiment) in experiments.iter().enumerate() {
        if let Some(other) = experiments[..index].iter().find(|other| other.name == experiment.name) {
            let problem = format!(
                "the name \"{}\" is taken by {}; name each experiment differently",
                experiment.name,
                other.path.display()
            );
            return Err(Error::File { path: experiment.path.clone(), problem });
        }
    }
    Ok(())
}
