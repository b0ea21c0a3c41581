//! Any result as the document that a command prints with `--json` and that reports read: the result's own JSON form, and the
//! name of the command that makes it. Nothing is computed here.

use serde::{Deserialize, Serialize};

use crate::curate::Curated;
use crate::metrics::Scores;
use crate::mixture::{Mixture, SamplePlan};
use crate::simulate::SimulationReport;

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
    /// Of `plan`.
    Plan(SamplePlan),
}
