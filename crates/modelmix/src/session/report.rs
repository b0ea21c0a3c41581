//! Where a session stands, as numbers for a person.

use serde::{Deserialize, Serialize};

use super::select::{KeptSet, SELECTION_NOTE};
use super::state::State;
use super::{ChosenBandwidth, FeatureError, Session, Source};
use crate::certainty::{self, Verdict};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::policy::Policy;
use crate::quadratic::Quadratic;

/// Where a session stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SessionReport {
    /// The policy's name.
    pub policy: String,
    /// The objective, as it was written, with the bandwidth given; `None` if values are told.
    #[serde(default)]
    pub objective: Option<String>,
    /// The kernels, bandwidths found, one for every quadratic term; none if values are told, and none for a term whose bandwidth is
    /// open.
    pub kernels: Vec<Kernel>,
    /// The bandwidth that the session chose by the median rule; there only if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<ChosenBandwidth>,
    /// Whether the session still collects the samples from which it will choose a bandwidth; weights and losses are not known yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bandwidth_open: bool,
    /// Pulls that were answered.
    pub rounds: u64,
    /// Samples collected, t, so far as they are remembered; those evicted by a session with a cap count.
    pub samples: usize,
    /// Recorded samples that are known beside those collected; they count in everything but shares and loss.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub known: usize,
    /// The arms in the order given.
    pub arms: Vec<SessionArm>,
    /// L(P̂), the loss of the samples collected, the constant included; `None` before the first.
    pub loss: Option<f64>,
    /// L̂(α) of the weights below, the constant included; nothing before the first sample.
    pub mixture_loss: Option<f64>,
    /// Samples kept, where some are discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<usize>,
    /// L of the kept samples, the constant included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_loss: Option<f64>,
    /// What everyone who is handed the kept samples must know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How far from the optimum of K̂ and f̂ the weights can be.
    pub gap: Option<f64>,
    /// An upper bound of the weights' loss less the least loss of any mixture of the models, at this moment; `None` unless the
    /// report was asked for with bounds ([`SuboptimalityBounds::weights`]).
    #[serde(default)]
    pub bound_on_weights: Option<f64>,
    /// The same for the shares of the samples collected ([`SuboptimalityBounds::shares`]).
    #[serde(default)]
    pub bound_on_shares: Option<f64>,
    /// Whether the session may stop.
    #[serde(default)]
    pub is_done: bool,
    /// What it may be stopped by.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// The best single arm so far, as an index into `arms`.
    pub best_single: Option<usize>,
    /// K̂ and f̂ (V-statistics); arms without samples have zeros.
    pub form: Quadratic,
    /// What random features do to these numbers, once a session with a cap has let samples go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature_error: Option<FeatureError>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// How far above the least loss of any mixture of the models a mixture is at most, with the confidence of
/// [`Until`](crate::Until) (95% if there is none), at this moment. Known samples count, so that a session can be sure of its
/// weights before it has asked for anything.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SuboptimalityBounds {
    /// Of the weights that a report gives; `None` while an arm has fewer than
    /// [`MIN_SAMPLES_PER_ARM`](certainty::MIN_SAMPLES_PER_ARM).
    pub weights: Option<f64>,
    /// Of the proportions of the samples collected; also `None` before the first.
    pub shares: Option<f64>,
}

impl SuboptimalityBounds {
    pub(super) fn new<P: Policy>(session: &Session<P>) -> Result<Self> {
        if session.is_bandwidth_open() {
            return Ok(Self { weights: None, shares: None });
        }
        let (all, statistics) = (&session.state.samples.statistics, session.state.samples.certain());
        let rule = session.state.observers.stopping.as_ref();
        let error_chance = 1.0 - rule.map_or(certainty::DEFAULT_CONFIDENCE, |rule| rule.until().confidence);
        let range = session.state.linear_range;
        let bound = |mixture: &[f64]| certainty::bound(statistics, mixture, range, error_chance);
        let shares = session.shares();
        let best = session.state.best_mixture(all)?;
        Ok(Self {
            weights: best.map_or(Ok(None), |best| bound(&best.weights))?,
            shares: if shares.iter().any(|&share| share > 0.0) { bound(&shares)? } else { None },
        })
    }
}

/// One arm of a [`SessionReport`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SessionArm {
    /// Its name.
    pub name: String,
    /// Samples collected.
    pub samples: usize,
    /// Recorded samples that are known beside those collected.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub known: usize,
    /// Of these, samples kept, where some are discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<usize>,
    /// Samples in flight.
    pub pending: usize,
    /// Pulls given up.
    pub abandoned: u64,
    /// Its share of the samples collected, n/t.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub share: f64,
    /// Its weight in the best mixture of the samples held: the program on V-statistics, without a bonus.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub weight: f64,
    /// Its loss alone, the constant included; nothing before its first sample.
    pub loss: Option<f64>,
    /// The round in which its alarm rang, since its samples are not like its first ones; there only where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<u64>,
}

impl SessionReport {
    pub(super) fn new<P: Policy>(session: &Session<P>) -> Result<Self> {
        let State { names, policy, pulls, samples, observers, .. } = &session.state;
        let (statistics, arms) = (&samples.statistics, names.len());
        let (constant, kernels, objective) = match &session.source {
            Source::Features(loss) => {
                let is_open = session.is_bandwidth_open();
                let kernels = if is_open { loss.kernels_before_choice() } else { loss.loss().kernels() };
                (loss.loss().constant(), kernels, Some(loss.objective().to_string()))
            }
            Source::Values => (0.0, Vec::new(), None),
        };
        let form = statistics.biased();
        let is_open = session.is_bandwidth_open();
        let is_known = |arm: &usize| statistics.counts()[*arm] > 0 && !is_open;
        let best = if is_open { None } else { session.state.best_mixture(statistics)? };
        let (pending, shares, collected) = (pulls.samples(), samples.shares(), samples.collected());
        let known = |arm: usize| statistics.counts()[arm].saturating_sub(collected[arm]);
        let kept_set = observers.kept.as_ref();
        let arm = |arm: usize| SessionArm {
            name: names[arm].clone(),
            samples: collected[arm],
            known: known(arm),
            kept: kept_set.map(|kept_set| {
                let told = kept_set.is_kept().iter().zip(statistics.arm_of());
                told.filter(|(kept, other)| **kept && **other == arm).count()
            }),
            pending: pending[arm],
            abandoned: pulls.abandoned[arm],
            share: shares[arm],
            weight: best.as_ref().map_or(0.0, |best| best.weights[arm]),
            loss: is_known(&arm).then(|| form.single(arm) + constant),
            changed: observers.drift.as_ref().and_then(|alarm| alarm.changed(arm)),
        };
        let feature_error = match (&session.source, samples.keeper.stream(), &best) {
            (Source::Features(loss), Some(stream), Some(best)) => {
                FeatureError::new(samples, stream, loss.loss(), &best.weights, best.value)?
            }
            _ => None,
        };
        Ok(Self {
            policy: policy.name().into(),
            objective,
            kernels,
            bandwidth: session.chosen_bandwidth(),
            is_bandwidth_open: is_open,
            rounds: pulls.answered,
            samples: collected.iter().sum(),
            known: (0..arms).map(known).sum(),
            arms: (0..arms).map(arm).collect(),
            loss: session.empirical_loss(),
            mixture_loss: best.as_ref().map(|best| best.value + constant),
            kept: kept_set.map(KeptSet::count),
            kept_loss: session.kept_loss(),
            note: kept_set.map(|_| SELECTION_NOTE.into()),
            gap: best.as_ref().map(|best| best.gap),
            bound_on_weights: None,
            bound_on_shares: None,
            is_done: session.is_done(),
            verdict: session.verdict().cloned(),
            best_single: (0..arms).filter(is_known).min_by(|&a, &b| form.single(a).total_cmp(&form.single(b))),
            form,
            feature_error,
        })
    }

    /// The weights in the order of the arms.
    pub fn weights(&self) -> Vec<f64> {
        self.arms.iter().map(|arm| arm.weight).collect()
    }
}
