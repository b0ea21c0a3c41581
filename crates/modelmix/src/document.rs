//! Any result as the document that a command prints with `--json` and that reports read: the result's own JSON form, and the
//! name of the command that makes it. Nothing is computed here.

use serde::{Deserialize, Serialize};

use crate::curate::Curated;
use crate::metrics::Scores;
use crate::mixture::Mixture;
use crate::simulate::SimulationReport;

pub use crate::provenance::{BandwidthRule, InputFile, InputRole, Provenance, UsedBandwidth};

/// A document; the field `command` says which.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "command", rename_all = "lowercase")]
#[non_exhaustive]
#[allow(clippy::large_enum_variant)]
pub enum Document {
    /// Of `solve`.
    Solve(Mixture),
    /// Of `score`.
    Score(Scores),
    /// Of `simulate`.
    Simulate(SimulationReport),
    /// Of `curate`.
    Curate(Curated),
}

impl Document {
    /// Where the result comes from, if it says so.
    pub fn provenance(&self) -> Option<&Provenance> {
        match self {
            Document::Solve(result) => result.provenance.as_ref(),
            Document::Score(result) => result.provenance.as_ref(),
            Document::Simulate(result) => result.provenance.as_ref(),
            Document::Curate(result) => result.provenance.as_ref(),
        }
    }

    /// The names of the arms, in the order given.
    pub fn arms(&self) -> Vec<&str> {
        match self {
            Document::Solve(result) => result.arms.iter().map(|arm| arm.name.as_str()).collect(),
            Document::Score(result) => result.arms.iter().map(|arm| arm.name.as_str()).collect(),
            Document::Simulate(result) => result.arms.iter().map(String::as_str).collect(),
            Document::Curate(result) => result.arms.iter().map(|arm| arm.name.as_str()).collect(),
        }
    }
}
