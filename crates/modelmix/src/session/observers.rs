//! Observers of incoming samples: early stopping, drift detection, and which samples are kept. Observers do not change what
//! policies see; their decisions on a batch are part of its event.

use serde::{Deserialize, Serialize};

use super::SessionSettings;
use super::bandwidth::Choice;
use super::drift::{DriftDetectors, Finding};
use super::event::Decisions;
use super::samples::{Batch, Samples, damaged};
use super::select::{KeptSet, Selection};
use super::stopping::{StopCheck, StoppingRule};
use crate::error::{Error, Result};
use crate::loss::Loss;

/// The observers of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Observers {
    /// When to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stopping: Option<StoppingRule>,
    /// Drift detection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) drift: Option<Box<DriftDetectors>>,
    /// Which samples are kept; `None` if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<KeptSet>,
}

/// What the observers found in a batch; nothing has changed yet.
pub(super) struct Observed {
    kept: Option<KeptSet>,
    findings: Option<Vec<Vec<Finding>>>,
    rang: Option<Vec<usize>>,
    stop_check: Option<StopCheck>,
    is_known: bool,
}

impl Observers {
    /// The observers in the settings; `loss` is `None` if the caller gives values, `dropping` is the name of the policy if it
    /// drops arms for good.
    pub(super) fn new(
        settings: &SessionSettings,
        arms: usize,
        loss: Option<&Loss>,
        dropping: Option<&str>,
    ) -> Result<Self> {
        if let Some(until) = &settings.until {
            until.check()?;
        }
        let stopping = settings.until.map(|until| StoppingRule::new(until, arms));
        let kept = match settings.select {
            Selection::All => None,
            Selection::BetterHalf => Some(KeptSet::default()),
        };
        let mut observers = Self { stopping, drift: None, kept };
        if let Some(policy) = dropping.filter(|_| observers.stopping.is_some()) {
            let given = format!("given to the policy {policy}");
            return Err(Error::setting(
                "until",
                given,
                "left out: this policy drops arms, so their bounds cannot improve",
            ));
        }
        if let Some(setting) = settings.retention.lossy_setting() {
            observers.check_samples_may_leave(&format!("a session with `{setting}`"))?;
        }
        if let Some(chance) = settings.alarm {
            observers.drift = Some(Box::new(DriftDetectors::new(chance, arms, settings.seed, loss)?));
        }
        Ok(observers)
    }

    /// Whether samples may be evicted or forgotten: early stopping and selection need all samples ever told.
    pub(super) fn check_samples_may_leave(&self, what: &str) -> Result<()> {
        let other = match (&self.stopping, &self.kept) {
            (None, None) => return Ok(()),
            (Some(_), _) => "until",
            (None, Some(_)) => "select",
        };
        let must = "left out: it needs all samples ever told";
        Err(Error::setting(other, format!("given to {what}"), must))
    }

    /// All work of the observers on a batch. `check_stop` checks whether the session may stop with the batch added, unless more
    /// of the same event follows. Decisions recorded earlier are used as they are.
    ///
    /// # Errors
    /// Decisions that are impossible for the observers of this session; errors of the engine.
    pub(super) fn evaluate(
        &self,
        samples: &Samples,
        batch: &Batch<'_>,
        (is_known, is_last): (bool, bool),
        loss: Option<&Loss>,
        decided: &Decisions,
        check_stop: impl FnOnce(&StoppingRule) -> StopCheck,
    ) -> Result<Observed> {
        let counts = counts_with(None, samples, batch);
        // A check is wasted while known samples of some arms are still to come.
        let is_due = |rule: &&StoppingRule| {
            is_last && rule.is_due(&counts) && (!is_known || StoppingRule::has_enough_samples(&counts))
        };
        let due = self.stopping.as_ref().filter(is_due);
        let can_be_decided = decided.kept.as_ref().is_none_or(|_| self.kept.is_some() && !is_known)
            && decided.bandwidth.is_none()
            && decided.stop_check.as_ref().is_none_or(|_| due.is_some() || !is_last)
            && decided
                .rang
                .as_ref()
                .is_none_or(|rang| !is_known && self.drift.as_ref().is_some_and(|detectors| detectors.has(rang)));
        if !can_be_decided {
            return Err(foreign_decisions());
        }
        let kept = self.kept.as_ref().map(|kept| kept.with_batch(samples, batch, is_known, decided.kept.as_deref()));
        let findings = match (&self.drift, loss) {
            (Some(detectors), Some(loss)) if !is_known => Some(detectors.evaluate(batch, loss)?),
            _ => None,
        };
        Ok(Observed {
            kept,
            findings,
            rang: decided.rang.clone(),
            stop_check: due.map(|rule| decided.stop_check.clone().unwrap_or_else(|| check_stop(rule))),
            is_known,
        })
    }

    /// The same for samples told while the bandwidth is open. `counts` are those of the samples used for confidence statements,
    /// once it is chosen. Of the observers, only a stopping rule is possible then.
    ///
    /// # Errors
    /// Decisions that are impossible for the observers of this session.
    pub(super) fn evaluate_first(
        &self,
        counts: Option<&[usize]>,
        is_known: bool,
        decided: &Decisions,
        check_stop: impl FnOnce() -> StopCheck,
    ) -> Result<Observed> {
        let due = counts.is_some_and(|counts| {
            self.stopping.as_ref().is_some_and(|rule| rule.is_due(counts)) && StoppingRule::has_enough_samples(counts)
        });
        if decided.kept.is_some()
            || decided.rang.is_some()
            || (decided.stop_check.is_some() && counts.is_some() && !due)
        {
            return Err(foreign_decisions());
        }
        let stop_check = due.then(|| decided.stop_check.clone().unwrap_or_else(check_stop));
        Ok(Observed { kept: None, findings: None, rang: None, stop_check, is_known })
    }

    /// Adds the findings of a batch that was told in this round, and returns the decisions. `counts` include the batch.
    pub(super) fn commit(&mut self, observed: Observed, batch: &Batch<'_>, round: u64, counts: &[usize]) -> Decisions {
        let mut decisions = Decisions::default();
        if let Some(kept) = observed.kept {
            decisions.kept = (!observed.is_known).then(|| kept.last_decisions(batch.len()).to_vec());
            self.kept = Some(kept);
        }
        if let (Some(detectors), Some(findings)) = (&mut self.drift, observed.findings) {
            decisions.rang = Some(detectors.commit(batch, round, &findings, observed.rang.as_deref()));
        }
        if let (Some(rule), Some(found)) = (&mut self.stopping, observed.stop_check) {
            decisions.stop_check = Some(found.clone());
            rule.commit(found, counts);
        }
        decisions
    }

    /// Checks the fit; a snapshot is untrusted input.
    pub(super) fn check(&self, samples: &Samples, arms: usize, has_loss: bool) -> Result<()> {
        let fits = self.stopping.as_ref().is_none_or(|rule| rule.fits(arms))
            && self.drift.as_ref().is_none_or(|detectors| has_loss && detectors.fits(arms, samples.width))
            && self.kept.as_ref().is_none_or(|kept| kept.fits(&samples.statistics))
            && (!samples.keeper.loses_samples() || (self.stopping.is_none() && self.kept.is_none()));
        if fits { Ok(()) } else { Err(damaged("its observers do not fit its samples")) }
    }
}

fn foreign_decisions() -> Error {
    let problem = "has decisions that this session cannot have made; it belongs to another session";
    Error::Event { event: "of samples".into(), problem: problem.into() }
}

/// Sample counts per arm for confidence statements, once a batch is added, or once the bandwidth is chosen with it. Only called
/// in sessions that hold all samples.
pub(super) fn counts_with(choice: Option<&Choice>, samples: &Samples, batch: &Batch<'_>) -> Vec<usize> {
    if let Some(choice) = choice {
        return choice.samples.certain().counts().to_vec();
    }
    let mut counts = samples.certain().counts().to_vec();
    counts[batch.arm] += batch.len();
    counts
}
