//! What came of a simulation, as data.

use serde::{Deserialize, Serialize};

use super::Stopped;
use crate::certainty::Until;
use crate::kernel::Kernel;
use crate::session::Selection;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationReport {
    /// The objective, as it was written.
    pub objective: String,
    /// The kernels, bandwidths found, one for every quadratic term.
    pub kernels: Vec<Kernel>,
    /// The arms' names.
    pub arms: Vec<String>,
    /// The optimal weights on all recorded samples.
    pub optimum: Vec<f64>,
    /// Their loss, the constant included.
    pub optimal_loss: f64,
    /// The best single arm.
    pub best_single: usize,
    /// Its loss, the constant included.
    pub best_single_loss: f64,
    /// `best_single_loss − optimal_loss`.
    pub gain: f64,
    /// Which samples were kept.
    #[serde(default)]
    pub select: Selection,
    /// Recorded samples of every arm that sessions knew before the first round.
    #[serde(default)]
    pub known: usize,
    /// One for each policy, in the order given.
    pub policies: Vec<PolicyReport>,
    /// When runs might have stopped, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
}

/// How one policy did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyReport {
    /// The policy, as users write it.
    pub policy: String,
    /// The rounds at which results were kept.
    pub rounds: Vec<usize>,
    /// L(P̂), the loss of the samples collected, the constant included.
    pub loss: Spread,
    /// L(n/t) under K and f of all recorded samples, less the optimum.
    pub regret: Spread,
    /// n/t at each of the rounds, by arm: the mean over seeds.
    pub shares: Vec<Vec<f64>>,
    /// n/t at the end: the mean over seeds.
    pub weights: Vec<f64>,
    /// When it had found the mixture.
    pub reached: Reached,
    /// When it was sure of it; nothing where that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// What features did at the end, where sessions hold only so many samples: the mean over seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<SimulatedFeatures>,
    /// How the kept samples did, where some are discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptReport>,
}

/// What random features did to sessions at their end, the mean over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedFeatures {
    /// D, how many features a kernel has.
    pub features: usize,
    /// The share of all pairs of samples whose κ came from features.
    pub estimated: f64,
    /// How far the entry of K̂ that is most in error is estimated to be off.
    pub entry: f64,
    /// By how much the loss at a session's weights is estimated to be too large.
    pub loss_bias: f64,
}

/// How the samples did that a policy's sessions kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptReport {
    /// Their loss, the constant included.
    pub loss: Spread,
    /// How many they were.
    pub samples: Spread,
    /// The median over seeds of the first round from which on their loss is at most that of the optimal mixture of all recorded
    /// samples, up to the last round; nothing where half of the seeds do not get there.
    pub reached: Option<f64>,
}

/// A quantity over rounds: mean and sample standard deviation over seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The means.
    pub mean: Vec<f64>,
    /// The standard deviations; zero for a single seed.
    pub std: Vec<f64>,
}

/// The median over seeds of the first round from which on L(n/t) keeps so many percent of the gain, up to the last round;
/// nothing where half of the seeds do not get there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// 90%.
    #[serde(rename = "90")]
    pub percent_90: Option<f64>,
    /// 95%.
    #[serde(rename = "95")]
    pub percent_95: Option<f64>,
    /// 99%.
    #[serde(rename = "99")]
    pub percent_99: Option<f64>,
}
