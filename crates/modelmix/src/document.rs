//! Results as the JSON documents that commands print with `--json` and that reports read: the result as JSON with the name of
//! its command. This module computes nothing.

use serde::{Deserialize, Serialize};

use crate::curate::Curated;
use crate::metrics::Scores;
use crate::mixture::{Mixture, SamplePlan};
use crate::simulate::SimulationReport;

pub use crate::provenance::{BandwidthRule, InputFile, InputRole, Provenance, UsedBandwidth};

/// The result of a command. The field `command` names the command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "command", rename_all = "lowercase")]
#[non_exhaustive]
#[allow(clippy::large_enum_variant)]
pub enum Document {
    /// The result of `solve`.
    Solve(Mixture),
    /// The result of `score`.
    Score(Scores),
    /// The result of `simulate`.
    Simulate(SimulationReport),
    /// The result of `curate`.
    Curate(Curated),
    /// The result of `plan`.
    Plan(SamplePlan),
}

impl Document {
    /// The provenance of the result, if it has any.
    pub fn provenance(&self) -> Option<&Provenance> {
        match self {
            Document::Solve(result) => result.provenance.as_ref(),
            Document::Score(result) => result.provenance.as_ref(),
            Document::Simulate(result) => result.provenance.as_ref(),
            Document::Curate(result) => result.provenance.as_ref(),
            Document::Plan(result) => result.provenance.as_ref(),
        }
    }

    /// The names of the arms, in the order given.
    pub fn arms(&self) -> Vec<&str> {
        match self {
            Document::Solve(result) => result.arms.iter().map(|arm| arm.name.as_str()).collect(),
            Document::Score(result) => result.arms.iter().map(|arm| arm.name.as_str()).collect(),
            Document::Simulate(result) => result.arms.iter().map(String::as_str).collect(),
            Document::Curate(result) => result.arms.iter().map(|arm| arm.name.as_str()).collect(),
            Document::Plan(result) => {
                result.equal.iter().flat_map(|one| &one.arms).map(|arm| arm.name.as_str()).collect()
            }
        }
    }
}
