//! The result of a simulation, which `modelmix simulate --json` prints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Stopped;
use crate::certainty::Until;
use crate::kernel::Kernel;
use crate::objective::ScoreMeaning;
use crate::provenance::Provenance;
use crate::session::Selection;

/// The result of a simulation: how policies performed on recorded arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SimulationReport {
    /// The version of modelmix that computed it.
    pub version: String,
    /// The objective as written, including the bandwidth.
    pub objective: String,
    /// The kernel of its first quadratic term, with its bandwidth.
    pub kernel: Option<Kernel>,
    /// The score that corresponds to the loss.
    pub score: ScoreMeaning,
    /// The names of the arms.
    pub arms: Vec<String>,
    /// The number of runs per policy, with consecutive seeds.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seeds: usize,
    /// The first seed.
    pub seed: u64,
    /// The optimal weights and their loss, on all recorded samples.
    pub optimum: Optimum,
    /// The best single arm and its loss, on all recorded samples.
    pub best_single: SimulatedSingle,
    /// The gain: the loss of the best single arm minus that of the optimum.
    pub gain: f64,
    /// The number of known samples per arm, before the first round; absent if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<usize>,
    /// The early-stopping rule; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Which samples were kept; absent if all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<Selection>,
    /// A warning that must accompany the kept samples; absent if all were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The policies in the order given, as written.
    pub order: Vec<String>,
    /// The result of each policy.
    pub policies: BTreeMap<String, PolicyReport>,
    /// Provenance of the result; absent unless the caller filled it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

impl SimulationReport {
    /// The policies in the order given.
    pub fn in_order(&self) -> impl Iterator<Item = (&str, &PolicyReport)> {
        self.order.iter().filter_map(|name| Some((name.as_str(), self.policies.get(name)?)))
    }
}

/// The optimal mixture of all recorded samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Optimum {
    /// The optimal weight of each arm.
    pub weights: Vec<f64>,
    /// Their loss, including the constant.
    pub loss: f64,
}

/// The best single arm on all recorded samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedSingle {
    /// Its name.
    pub name: String,
    /// Its loss, including the constant.
    pub loss: f64,
}

/// The result of one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PolicyReport {
    /// The rounds at which results were recorded.
    pub rounds: Vec<usize>,
    /// L(P̂), the loss of the samples collected, including the constant.
    pub loss: Spread,
    /// L(n/t) under K and f of all recorded samples, minus that of the optimum.
    pub regret: Spread,
    /// n/t at each of the rounds, per arm: the mean over seeds.
    pub shares: Vec<Vec<f64>>,
    /// n/t at the end, per arm: the mean over seeds.
    pub weights: Vec<f64>,
    /// The rounds at which it reached shares of the gain.
    pub reached: Reached,
    /// When it would have stopped early; absent without early stopping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// The error of random Fourier features at the end, if sessions hold a capped number of samples: the mean over
    /// seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<SimulatedFeatures>,
    /// The results of the kept samples; absent if all are kept.
    #[serde(flatten)]
    pub kept: Option<KeptReport>,
}

/// The error of random Fourier features in sessions at their end, the mean over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedFeatures {
    /// D, the number of features per kernel.
    pub features: usize,
    /// The share of all pairs of samples whose κ was estimated by features.
    pub estimated: f64,
    /// The estimated error of the entry of K̂ with the largest error.
    pub entry: f64,
    /// The estimated bias of the loss at a session's weights; positive if it is too large.
    pub loss_bias: f64,
}

/// The results of the samples that the sessions of a policy kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptReport {
    /// The loss of the kept samples, including the constant.
    #[serde(rename = "kept_loss")]
    pub loss: Spread,
    /// The number of samples kept.
    #[serde(rename = "kept_samples")]
    pub samples: Spread,
    /// The median over seeds of the first round from which the loss of the kept samples stays at or below that of the
    /// optimal mixture of all recorded samples; absent if half of the seeds do not reach it.
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

/// The median over seeds of the first round from which L(n/t) keeps 90%, 95% or 99% of the gain until the last round;
/// `None` if half of the seeds do not reach it.
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
