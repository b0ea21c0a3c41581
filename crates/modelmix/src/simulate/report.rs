//! What came of a simulation, as data: the document that `modelmix simulate --json` prints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Stopped;
use crate::certainty::Until;
use crate::kernel::Kernel;
use crate::objective::ScoreMeaning;
use crate::provenance::Provenance;
use crate::session::Selection;

/// How policies did on recorded arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SimulationReport {
    /// The version of modelmix that computed it.
    pub version: String,
    /// The objective, as it was written, with the bandwidth given.
    pub objective: String,
    /// The kernel of its first quadratic term, its bandwidth found.
    pub kernel: Option<Kernel>,
    /// What the loss reads as.
    pub score: ScoreMeaning,
    /// The arms' names.
    pub arms: Vec<String>,
    /// How many runs each policy had, with consecutive seeds.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seeds: usize,
    /// The first seed.
    pub seed: u64,
    /// The optimal weights and their loss, on all recorded samples.
    pub optimum: Optimum,
    /// The best single arm and its loss, on all recorded samples.
    pub best_single: SimulatedSingle,
    /// The best single arm's loss less the optimum's.
    pub gain: f64,
    /// Recorded samples per arm that sessions knew before the first round; absent if they knew none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<usize>,
    /// When runs might have stopped; absent if that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Which samples were kept; absent if all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<Selection>,
    /// What everyone who is handed the kept samples must know; absent if all were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The policies in the order given, as users write them.
    pub order: Vec<String>,
    /// How each of them did.
    pub policies: BTreeMap<String, PolicyReport>,
    /// Where it comes from; absent if nobody filled it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

impl SimulationReport {
    /// The policies in the order given.
    pub fn in_order(&self) -> impl Iterator<Item = (&str, &PolicyReport)> {
        self.order.iter().filter_map(|name| Some((name.as_str(), self.policies.get(name)?)))
    }
}

/// The optimum of a [`SimulationReport`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Optimum {
    /// By arm.
    pub weights: Vec<f64>,
    /// Their loss, the constant included.
    pub loss: f64,
}

/// The best single arm of a [`SimulationReport`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedSingle {
    /// Its name.
    pub name: String,
    /// Its loss, the constant included.
    pub loss: f64,
}

/// How one policy did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PolicyReport {
    /// The rounds at which results were recorded.
    pub rounds: Vec<usize>,
    /// L(P̂), the loss of the samples collected, the constant included.
    pub loss: Spread,
    /// L(n/t) under K and f of all recorded samples, less the optimum.
    pub regret: Spread,
    /// n/t at each of the rounds, by arm: the mean over seeds.
    pub shares: Vec<Vec<f64>>,
    /// n/t at the end, by arm: the mean over seeds.
    pub weights: Vec<f64>,
    /// When it had found the mixture.
    pub reached: Reached,
    /// When it was sure of it; absent if that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// What random features did at the end, if sessions hold only so many samples: the mean over seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<SimulatedFeatures>,
    /// How the kept samples did; absent if all are kept.
    #[serde(flatten)]
    pub kept: Option<KeptReport>,
}

/// What random features did to sessions at their end, the mean over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptReport {
    /// The loss of the kept samples, the constant included.
    #[serde(rename = "kept_loss")]
    pub loss: Spread,
    /// How many samples were kept.
    #[serde(rename = "kept_samples")]
    pub samples: Spread,
    /// The median over seeds of the first round from which on the kept samples' loss is at most that of the optimal mixture of
    /// all recorded samples, up to the last round; absent if half of the seeds do not get there.
    #[serde(rename = "kept_reached", default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<f64>,
}

/// A quantity over rounds: mean and sample standard deviation over seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The means.
    pub mean: Vec<f64>,
    /// The standard deviations; zero for a single seed.
    pub std: Vec<f64>,
}

/// The median over seeds of the first round from which on L(n/t) keeps so many percent of the gain, up to the last round;
/// nothing where half of the seeds do not get there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
