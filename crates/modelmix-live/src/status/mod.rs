//! What a run has done, as a document: counts, costs, the session's report, the best mixture with its intervals, and how far missing
//! samples could bias it.

mod bias;
mod read;
mod words;

use modelmix::compute::Engine;
use modelmix::session::SessionReport;
use modelmix::{Mixture, RecordedArm, RecordedArms, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Basis;
use crate::manners::Ledger;
use crate::problem::Result;
use crate::tally::ArmCounts;

pub use bias::Bias;
pub use read::read;
pub use words::duration;

/// The status of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RunStatus {
    /// The release that made this document.
    pub version: String,
    /// The title of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The folder of the run.
    pub folder: String,
    /// `running`, `ended` or `interrupted`.
    pub state: State,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// The time that the run was active, in seconds.
    pub seconds: f64,
    /// Pulls that sent at least one request.
    pub pulls: u64,
    /// Collected samples.
    pub samples: usize,
    /// Pulls in flight, or waiting.
    pub in_flight: usize,
    /// What was spent.
    pub cost: Cost,
    /// The arms, in the order of the configuration.
    pub arms: Vec<ArmStatus>,
    /// Requests that may have been charged and have no answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// How far missing samples could bias the loss; absent if none are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<Bias>,
    /// The session's report.
    pub report: SessionReport,
    /// The best mixture of the collected samples, with intervals; absent before every arm has samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixture: Option<Mixture>,
    /// What is wrong with the folder of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// A process executes it.
    Running,
    /// It reached its end; a larger budget resumes it.
    Ended,
    /// It was interrupted, or its process died; it can be resumed.
    Interrupted,
}

/// Money, in the currency of the prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Costs that answers stated.
    pub confirmed: f64,
    /// Reserved costs of requests without an answer.
    pub in_doubt: f64,
    /// Reserved costs of requests in flight.
    pub reserved: f64,
    /// The limit, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
}

impl Cost {
    /// The costs of a ledger.
    pub fn new(ledger: &Ledger, budget: Option<f64>) -> Self {
        Self { confirmed: ledger.confirmed, in_doubt: ledger.in_doubt, reserved: ledger.reserved, budget }
    }
}

/// The status of an arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmStatus {
    /// Its name.
    pub name: String,
    /// Its weight in the best mixture.
    pub weight: f64,
    /// The confidence interval of the weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Collected samples.
    pub samples: usize,
    /// Requests, failures and costs.
    #[serde(flatten)]
    pub counts: ArmCounts,
}

/// A request that may have been charged and has no answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Doubt {
    /// The pull.
    pub pull: u64,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// The arm.
    pub arm: String,
    /// The cost that stays reserved.
    pub reserved: f64,
    /// Why there is no answer.
    pub message: String,
}

/// The best mixture of the collected samples of a session, with intervals. `None` before every arm has two samples, and while the
/// session has no bandwidth.
///
/// # Errors
/// As [`modelmix::solve`].
pub fn mixture(basis: &Basis, collected: &RecordedArms, session: &Session, engine: &Engine) -> Result<Option<Mixture>> {
    let report = session.report()?;
    if report.is_bandwidth_open || collected.len() < session.arms().len() {
        return Ok(None);
    }
    let mut objective = basis.objective.clone();
    if let Some(chosen) = &report.bandwidth {
        objective = objective.with_bandwidth(chosen.bandwidth);
    }
    let loss = objective.prepare(basis.inputs(engine)?.arms(collected))?;
    Ok(Some(modelmix::solve(collected, &loss)?))
}

/// The collected samples of arms with at least two, by arm: rows of features, and scores by name. `None` without such arms.
///
/// # Errors
/// Features of different widths.
pub fn collected(
    names: &[String],
    samples: impl IntoIterator<Item = (usize, Vec<f32>, std::collections::BTreeMap<String, f64>)>,
) -> Result<Option<RecordedArms>> {
    let mut rows: Vec<(usize, Vec<f32>)> = vec![(0, Vec::new()); names.len()];
    let mut scores: Vec<std::collections::BTreeMap<String, Vec<f64>>> = vec![Default::default(); names.len()];
    for (arm, features, of_sample) in samples {
        rows[arm].0 = features.len();
        rows[arm].1.extend(features);
        for (name, value) in of_sample {
            scores[arm].entry(name).or_default().push(value);
        }
    }
    let mut arms = Vec::new();
    for ((name, (width, values)), scores) in names.iter().zip(rows).zip(scores) {
        // Recorded arms have pairs of samples.
        if values.len() < 2 * width.max(1) {
            continue;
        }
        let arm = RecordedArm::new(name.clone(), modelmix::Features::new(width, values)?);
        arms.push(scores.into_iter().fold(arm, |arm, (name, values)| arm.with_score(name, values)));
    }
    if arms.is_empty() { Ok(None) } else { Ok(Some(RecordedArms::new(arms)?)) }
}
