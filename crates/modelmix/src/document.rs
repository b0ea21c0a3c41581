//! Results as the JSON documents that commands print with `--json` and that reports read: the JSON form of the result,
//! and the name of its command. Nothing is computed here.

use serde::{Deserialize, Serialize};

use crate::curate::Curated;
use crate::metrics::Scores;
use crate::mixture::{Mixture, SamplePlan};
use crate::simulate::SimulationReport;

/// The result of a command. The field `command` says which one.
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
    /// Of `plan`.
    Plan(SamplePlan),
}
