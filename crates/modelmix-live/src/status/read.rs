//! The status of a run from its folder, also while another process executes it.

use std::path::Path;

use modelmix::Ranges;
use modelmix::compute::Engine;

use super::{ArmStatus, Bias, Cost, Doubt, RunStatus, State, collected, mixture};
use crate::config::Basis;
use crate::pool::pool;
use crate::problem::Result;
use crate::store::history::{History, PullState};
use crate::store::{self, Reader};
use crate::tally::{ArmCounts, Tally};

/// Reads the status of a run. Nothing is changed, and no keys are needed.
///
/// # Errors
/// A folder without a run, a damaged database, or inputs that cannot be read any more.
pub fn read(folder: &Path, engine: &Engine) -> Result<RunStatus> {
    let reader = Reader::open(folder)?;
    let history = reader.history()?;
    let basis = Basis::described(&history.description, engine)?;
    of_history(folder, &basis, &history, engine)
}

/// The status of a run with this history.
pub(super) fn of_history(folder: &Path, basis: &Basis, history: &History, engine: &Engine) -> Result<RunStatus> {
    let mut session = basis.session.clone();
    for event in &history.events {
        session.apply(event)?;
    }
    let names = session.arms().to_vec();
    let tally = Tally::new(history, names.len());
    let told = pool(history).into_iter().map(|sample| (sample.arm, sample.features, sample.scores));
    let collected = collected(&names, told)?;
    let mixture = match &collected {
        Some(collected) => mixture(basis, collected, &session, engine)?,
        None => None,
    };
    let report = session.report_with_bounds()?;
    let last = history.lifecycle.last();
    let state = match (store::running_process(folder), last) {
        (Some(_), _) => State::Running,
        (None, Some(row)) if row.what == "ended" && row.note != "interrupted" && row.note != "disk full" => {
            State::Ended
        }
        _ => State::Interrupted,
    };
    let weights = mixture.as_ref().map_or_else(|| report.weights(), |mixture| mixture.weights());
    let interval = |arm: usize| mixture.as_ref().and_then(|mixture| mixture.arms[arm].interval);
    let counts: Vec<&ArmCounts> = tally.arms.iter().collect();
    let is_open = |state: PullState| !matches!(state, PullState::Told | PullState::Abandoned);
    // Ranges do not depend on the bandwidth, which may not be known yet.
    let objective =
        basis.objective.clone().with_bandwidth(report.bandwidth.as_ref().map_or(1.0, |chosen| chosen.bandwidth));
    let ranges: Option<Ranges> = objective.prepare(basis.inputs(engine)?).and_then(|loss| loss.ranges()).ok();
    Ok(RunStatus {
        version: modelmix::VERSION.into(),
        title: basis.config.title.clone(),
        folder: folder.display().to_string(),
        state,
        end: last.filter(|row| row.what == "ended" && state != State::Running).map(|row| row.note.clone()),
        seconds: tally.ledger.time.as_secs_f64(),
        pulls: tally.ledger.pulls,
        samples: report.samples,
        in_flight: history.pulls.iter().filter(|pull| is_open(pull.state)).count(),
        cost: Cost::new(&tally.ledger, basis.config.budget.money),
        bias: Bias::new(&counts, &weights, ranges),
        doubts: doubts(history, &names),
        arms: names
            .iter()
            .enumerate()
            .map(|(arm, name)| ArmStatus {
                name: name.clone(),
                weight: weights[arm],
                interval: interval(arm),
                samples: report.arms[arm].samples,
                counts: tally.arms[arm].clone(),
            })
            .collect(),
        report,
        mixture,
        findings: Vec::new(),
    })
}

fn doubts(history: &History, names: &[String]) -> Vec<Doubt> {
    let mut found = Vec::new();
    for pull in &history.pulls {
        for attempt in &pull.attempts {
            let message = match &attempt.outcome {
                Some(outcome) if outcome.cost.is_some() => continue,
                Some(outcome) => outcome.failure.as_ref().map_or_else(String::new, |failure| failure.message.clone()),
                None => "there is no answer yet".into(),
            };
            found.push(Doubt {
                pull: pull.pull,
                attempt: attempt.attempt,
                arm: names.get(pull.arm).cloned().unwrap_or_default(),
                reserved: attempt.reserved,
                message,
            });
        }
    }
    found
}
