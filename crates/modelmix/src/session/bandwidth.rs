//! The bandwidth of a session that starts without one. It is chosen from the first samples by the median rule and then never
//! changes. Until then samples are held without κ; once it is chosen, all sums are computed from them.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::event::Decisions;
use super::fold::{Origin, Update};
use super::pulls::Pulls;
use super::samples::{Batch, Refusal, Samples};
use super::stopping::StopCheck;
use super::{Retention, Selection, Session, SessionSettings, Source};
use crate::error::{Error, Result};
use crate::features::Features;
use crate::loss::{Loss, SessionLoss};
use crate::numbers::{brief, count};
use crate::policy::Policy;
use crate::statistics::{Statistics, retain};

/// Samples per arm before the bandwidth is chosen, known ones included: the median of their distances then has a standard error
/// of a few per cent. Replaying a journal depends on this value, so it must not change.
const FIRST_SAMPLES_PER_ARM: usize = 10;
/// Failures of an arm after which the choice no longer waits for it.
const MAX_FAILURES: u64 = 3;

/// A bandwidth that a session has chosen by the median rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ChosenBandwidth {
    /// σ.
    #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
    pub bandwidth: f64,
    /// Number of samples at that time, known ones included. The median rule uses at most 500 of them.
    pub samples: usize,
    /// Of these, known samples that were not collected.
    pub known: usize,
    /// Number of pulls answered at that time.
    pub round: u64,
}

impl fmt::Display for ChosenBandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bandwidth, samples, round, .. } = self;
        let (bandwidth, samples) = (brief(*bandwidth), count(*samples));
        write!(f, "bandwidth {bandwidth}: median rule over {samples} samples, fixed at round {round}")
    }
}

/// The state of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum BandwidthState {
    Open,
    Chosen(ChosenBandwidth),
}

impl BandwidthState {
    /// `None` if the loss has all its bandwidths.
    ///
    /// # Errors
    /// Settings that need the bandwidth from the first sample on.
    pub(super) fn new(loss: &SessionLoss, settings: &SessionSettings) -> Result<Option<Self>> {
        if !loss.is_open() {
            return Ok(None);
        }
        let other = match (settings.retention, settings.select, settings.alarm) {
            (Retention::All, Selection::All, None) => return Ok(Some(Self::Open)),
            (Retention::All, Selection::All, Some(_)) => "an alarm",
            (Retention::All, ..) => "select",
            _ => "hold or retention",
        };
        let must = "a number, such as the median distance of a few samples (median_bandwidth in Python)";
        Err(Error::setting("the bandwidth", format!("not given for a session with {other}"), must))
    }

    /// The arm to ask while the bandwidth is open: the one with the fewest samples, held or in flight.
    pub(super) fn required_arm(self, samples: &Samples, pulls: &Pulls) -> Option<usize> {
        let pending = pulls.samples();
        let held = samples.statistics.counts();
        let least = || pulls.candidates().into_iter().min_by_key(|&arm| held[arm] + pending[arm]);
        if self == Self::Open { least() } else { None }
    }

    /// Checks the fit; a snapshot is untrusted input.
    pub(super) fn fits(this: Option<Self>, loss: Option<&SessionLoss>, samples: &Samples) -> bool {
        let choice_fits = match this {
            None => loss.is_none_or(|loss| !loss.is_open()),
            Some(Self::Open) => loss.is_some_and(SessionLoss::is_open) && samples.independent.is_none(),
            Some(Self::Chosen(chosen)) => {
                loss.is_some_and(|loss| loss.is_open() && loss.with_bandwidth(chosen.bandwidth).is_ok())
                    && chosen.known <= chosen.samples
            }
        };
        choice_fits && (this.is_none() || !samples.keeper.loses_samples())
    }
}

/// Whether these sample counts are enough for a choice. The choice does not wait for an arm that fails; the samples of other
/// arms replace it.
fn are_enough(counts: &[usize], abandoned: &[u64]) -> bool {
    let is_ready = |(&count, &failures): (&usize, &u64)| count >= FIRST_SAMPLES_PER_ARM || failures >= MAX_FAILURES;
    counts.iter().zip(abandoned).all(is_ready) && counts.iter().sum::<usize>() >= FIRST_SAMPLES_PER_ARM * counts.len()
}

/// Sums over the samples that the bandwidth does not depend on; confidence statements use only these. Samples collected before
/// the choice are excluded. A session has these sums only if it has such samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IndependentSums {
    pub(super) statistics: Statistics,
    /// Whether each of the first rows is excluded; all later rows count.
    is_left_out: Vec<bool>,
}

impl IndependentSums {
    fn counts_row(&self, row: usize) -> bool {
        !self.is_left_out.get(row).copied().unwrap_or(false)
    }

    /// Adds a row of all samples, with κ against the rows before it.
    pub(super) fn push(&mut self, arm: usize, kappa: &[f64], own: f64, linear: f64) {
        if self.counts_row(kappa.len()) {
            let others = kappa.iter().enumerate().filter(|(row, _)| self.counts_row(*row));
            let others: Vec<f64> = others.map(|(_, &value)| value).collect();
            self.statistics.add(arm, &others, own, linear);
        }
    }

    /// Forgets all samples of an arm; `keep` tells which rows of all samples stay.
    pub(super) fn forget(&mut self, arm: usize, keep: &[bool]) {
        self.statistics.forget(arm);
        let first = self.is_left_out.len();
        retain(&mut self.is_left_out, &keep[..first]);
    }

    pub(super) fn fits(&self, all: &Statistics) -> bool {
        let left_out = self.is_left_out.iter().filter(|&&is_left_out| is_left_out).count();
        self.statistics.check().is_ok()
            && self.is_left_out.len() <= all.rows()
            && self.statistics.arms() == all.arms()
            && self.statistics.rows() + left_out == all.rows()
    }
}

/// A chosen bandwidth, and the state of the session with it.
pub(super) struct Choice {
    pub(super) chosen: ChosenBandwidth,
    pub(super) loss: SessionLoss,
    pub(super) samples: Samples,
}

impl Samples {
    /// The sums for confidence statements.
    pub(super) fn certain(&self) -> &Statistics {
        self.independent.as_ref().map_or(&self.statistics, |sums| &sums.statistics)
    }

    /// All samples followed by a batch, with sums recomputed with the κ of this loss.
    fn with_kappa(&self, loss: &Loss, batch: &Batch<'_>) -> Result<Self, Refusal> {
        let (held, arms) = (self.statistics.rows(), self.statistics.arms());
        let rows = held + batch.len();
        let kind = |row: usize| match row.checked_sub(held) {
            None => (self.statistics.arm_of()[row], self.is_collected(row)),
            Some(_) => (batch.arm, batch.is_collected),
        };
        let linear = |row: usize| match row.checked_sub(held) {
            None => self.statistics.linear_terms()[row],
            Some(row) => batch.linear[row],
        };
        let is_left_out: Vec<bool> = (0..rows).map(|row| kind(row).1).collect();
        let independent = is_left_out
            .contains(&true)
            .then(|| Box::new(IndependentSums { statistics: Statistics::new(arms), is_left_out }));
        let mut samples = Self::new(arms, self.held.emptied(), Some(batch.width), self.keeper.clone());
        samples.independent = independent;
        let mut first = 0;
        while first < rows {
            let (arm, is_collected) = kind(first);
            let most = rows.min(first + samples.rows_per_step());
            let end = (first..most).find(|&row| kind(row) != (arm, is_collected)).unwrap_or(most);
            let values: Vec<f32> = (first..end).flat_map(|row| self.row(batch, row)).collect();
            let linear = (first..end).map(linear).collect();
            let step = samples.evaluate(loss, arm, is_collected, (batch.width, Cow::Owned(values)), linear)?;
            samples.make_room(loss, &step)?;
            samples.commit(&step);
            first = end;
        }
        Ok(samples)
    }

    /// The held features and those of a batch per arm, without arms that have none; `None` if all samples are equal.
    fn by_arm(&self, batch: &Batch<'_>) -> Result<Option<Vec<Features>>> {
        let held = self.statistics.rows();
        let mut values = vec![Vec::new(); self.statistics.arms()];
        let mut differ = false;
        let first = self.row(batch, 0);
        for row in 0..held + batch.len() {
            let arm = self.statistics.arm_of().get(row).copied().unwrap_or(batch.arm);
            let features = self.row(batch, row);
            differ |= features != first;
            values[arm].extend(features);
        }
        let sets = values.into_iter().filter(|values| !values.is_empty());
        if differ {
            sets.map(|values| Features::new(batch.width, values)).collect::<Result<_>>().map(Some)
        } else {
            Ok(None)
        }
    }
}

impl<P: Policy> Session<P> {
    /// The bandwidth that the session has chosen by the median rule; `None` before the choice, or if the objective has its
    /// bandwidths.
    pub fn chosen_bandwidth(&self) -> Option<ChosenBandwidth> {
        match self.state.bandwidth {
            Some(BandwidthState::Chosen(chosen)) => Some(chosen),
            _ => None,
        }
    }

    /// Whether the session still collects the first samples, from which it will choose a bandwidth. Until then the loss is
    /// unknown.
    pub fn is_bandwidth_open(&self) -> bool {
        self.state.bandwidth == Some(BandwidthState::Open)
    }

    /// Evaluates samples told while the bandwidth is open. The bandwidth is chosen once the last required samples arrive; a
    /// decision recorded earlier is used instead.
    pub(super) fn evaluate_first<'a>(
        &self,
        origin: Origin,
        batch: Batch<'a>,
        decided: &Decisions,
        is_last: bool,
    ) -> Result<Update<'a>> {
        let state = &self.state;
        let Source::Features(loss) = &self.source else {
            return Err(Error::missing("a session without a bandwidth", "features, but this session takes values"));
        };
        let mut counts = state.samples.statistics.counts().to_vec();
        counts[batch.arm] += batch.len();
        let bandwidth = match decided.bandwidth {
            _ if !is_last => None,
            Some(bandwidth) => Some(bandwidth),
            None if are_enough(&counts, &state.pulls.abandoned) => {
                let sets = state.samples.by_arm(&batch)?;
                sets.map(|sets| loss.median(&sets.iter().collect::<Vec<_>>())).transpose()?
            }
            None => None,
        };
        let is_known = origin.is_known();
        let Some(bandwidth) = bandwidth else {
            let observed = state.observers.evaluate_first(None, is_known, decided, StopCheck::default)?;
            return Ok(Update { origin, batch, observed, choice: None });
        };
        let loss = loss.with_bandwidth(bandwidth)?;
        let samples = state.samples.with_kappa(loss.loss(), &batch).map_err(|refusal| match refusal {
            Refusal::Work(error) => error,
            Refusal::Samples(problem) => Error::Known { arm: state.names[batch.arm].clone(), problem },
        })?;
        let (all, collected) = (samples.statistics.len(), samples.collected().iter().sum::<usize>());
        let round = state.pulls.answered + u64::from(!is_known);
        let chosen = ChosenBandwidth { bandwidth, samples: all, known: all.saturating_sub(collected), round };
        let judge = || state.judge(&samples.statistics, samples.certain(), &samples.collected());
        let observed = state.observers.evaluate_first(Some(samples.certain().counts()), is_known, decided, judge)?;
        Ok(Update { origin, batch, observed, choice: Some(Box::new(Choice { chosen, loss, samples })) })
    }
}
