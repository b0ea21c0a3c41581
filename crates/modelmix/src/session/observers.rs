//! What looks on while samples come in: when to stop, whether arms drift, which samples are kept. Observers do not change what
//! policies see; what they decide on a batch is part of its event.

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

/// The observers that a session has.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Observers {
    /// When to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stopping: Option<StoppingRule>,
    /// Whether an arm has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) drift: Option<Box<DriftDetectors>>,
    /// Which samples are kept; `None` if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<KeptSet>,
}

/// What observers found of a batch; nothing has changed yet.
pub(super) struct Observed {
    kept: Option<KeptSet>,
    findings: Option<Vec<Vec<Finding>>>,
    rang: Option<Vec<usize>>,
    stop_check: Option<StopCheck>,
    is_known: bool,
}

impl Observers {
    /// Those that are asked for; `loss` is `None` if the caller gives values, `policy` is one's name if it drops arms for good.
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
            return Err(Error::setting("until", given, "left out: of arms that are dropped, nothing more is learned"));
        }
        if let Some(setting) = settings.retention.lossy_setting() {
            observers.check_samples_may_leave(&format!("a session with `{setting}`"))?;
        }
        if let Some(chance) = settings.alarm {
            observers.drift = Some(Box::new(DriftDetectors::new(chance, arms, settings.seed, loss)?));
        }
        Ok(observers)
    }

    /// Whether samples may leave: when to stop and which ones to keep are about all samples ever told.
    pub(super) fn check_samples_may_leave(&self, what: &str) -> Result<()> {
        let other = match (&self.stopping, &self.kept) {
            (None, None) => return Ok(()),
            (Some(_), _) => "until",
            (None, Some(_)) => "select",
        };
        let must = "left out there: it is about all samples ever told";
        Err(Error::setting(other, format!("given to {what}"), must))
    }

    /// What observers find of a batch: all work that they have with it. `check_stop` checks whether the session may stop, with the
    /// batch taken, unless more of the same event is to come; decisions that were taken before stand.
    ///
    /// # Errors
    /// Decisions that no observer of this session can have taken now; what the engine fails with.
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
        // A check while recorded samples of some arms are still to come would be wasted.
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

    /// The same for samples that are told while the bandwidth is open; `counts` are those of the samples that certainty is about, once
    /// it is chosen. Of the observers, only a stopping rule is possible then.
    ///
    /// # Errors
    /// Decisions that no observer of this session can have taken now.
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

    /// Takes what was found of a batch that was told in this round, and says what was decided. `counts` are with the batch.
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

    /// A snapshot comes from outside and is not trusted.
    pub(super) fn check(&self, samples: &Samples, arms: usize, has_loss: bool) -> Result<()> {
        let fits = self.stopping.as_ref().is_none_or(|rule| rule.fits(arms))
            && self.drift.as_ref().is_none_or(|detectors| has_loss && detectors.fits(arms, samples.width))
            && self.kept.as_ref().is_none_or(|kept| kept.fits(&samples.statistics))
            && (!samples.keeper.loses_samples() || (self.stopping.is_none() && self.kept.is_none()));
        if fits { Ok(()) } else { Err(damaged("what watches its samples does not fit them")) }
    }
}

fn foreign_decisions() -> Error {
    let problem = "carries decisions that this session cannot have taken on it; it belongs to another session";
    Error::Event { event: "of samples".into(), problem: problem.into() }
}

/// Samples of each arm that certainty is about, once a batch was taken, or once the bandwidth was chosen with it. Only sessions that
/// hold all samples ask.
pub(super) fn counts_with(choice: Option<&Choice>, samples: &Samples, batch: &Batch<'_>) -> Vec<usize> {
    if let Some(choice) = choice {
        return choice.samples.certain().counts().to_vec();
    }
    let mut counts = samples.certain().counts().to_vec();
    counts[batch.arm] += batch.len();
    counts
}
