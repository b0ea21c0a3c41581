//! Where a session stands, as numbers for a person.

use serde::{Deserialize, Serialize};

use super::select::{Book, NOTE};
use super::{FeatureError, Session, Source};
use crate::certainty::{self, Verdict};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::policy::Policy;
use crate::quadratic::Quadratic;

/// The confidence of bounds, unless said otherwise.
const USUAL: f64 = 0.95;

/// Where a session stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionReport {
    /// The policy's name.
    pub policy: String,
    /// The kernels, bandwidths found, one for every quadratic term; none where values are told.
    pub kernels: Vec<Kernel>,
    /// Pulls that were answered.
    pub rounds: u64,
    /// Samples told, t, so far as they are remembered; those let go by a session that holds only so many count.
    pub samples: usize,
    /// The arms in the order given.
    pub arms: Vec<SessionArm>,
    /// L(P̂), the loss of the samples held, the constant included; nothing before the first.
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
    /// How far above the least loss of any mixture of the models the weights are at most, with the confidence of
    /// [`Until`](crate::Until) (95% where there is none), at this moment; nothing while an arm has fewer than
    /// [`LEAST_SAMPLES`](certainty::LEAST_SAMPLES).
    #[serde(default)]
    pub bound_on_weights: Option<f64>,
    /// The same of the proportions of the samples held.
    #[serde(default)]
    pub bound_on_shares: Option<f64>,
    /// Whether the session may stop ([`Session::is_done`]).
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

/// One arm of a [`SessionReport`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionArm {
    /// Its name.
    pub name: String,
    /// Samples held.
    pub samples: usize,
    /// Of these, samples kept, where some are discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<usize>,
    /// Samples in flight.
    pub pending: usize,
    /// Pulls given up.
    pub abandoned: u64,
    /// n/t.
    pub share: f64,
    /// Its weight in the best mixture of the samples held: the program on V-statistics, without a bonus.
    pub weight: f64,
    /// Its loss alone, the constant included; nothing before its first sample.
    pub loss: Option<f64>,
    /// The round in which its alarm rang, since its samples are not like its first ones; there only where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<u64>,
}

impl SessionReport {
    pub(super) fn new<P: Policy>(session: &Session<P>) -> Result<Self> {
        let state = &session.state;
        let statistics = &state.statistics;
        let arms = state.names.len();
        let (constant, kernels) = match &session.source {
            Source::Features(loss) => (loss.constant(), loss.kernels()),
            Source::Values => (0.0, Vec::new()),
        };
        let form = statistics.biased();
        let is_known = |arm: &usize| statistics.counts()[*arm] > 0;
        let known: Vec<usize> = (0..arms).filter(is_known).collect();
        let best = state.best()?;
        let miss = 1.0 - state.looks.as_ref().map_or(USUAL, |looks| looks.until().confidence);
        let spread = match (&state.looks, &session.source) {
            (Some(looks), _) => looks.range(),
            (None, Source::Features(loss)) => loss.linear_spread(),
            (None, Source::Values) => 0.0,
        };
        let bound = |mixture: &[f64]| certainty::bound(statistics, mixture, spread, miss);
        let (pending, shares) = (state.pending_samples(), statistics.proportions());
        let arm = |arm: usize| SessionArm {
            name: state.names[arm].clone(),
            samples: statistics.counts()[arm],
            kept: state.book.as_ref().map(|book| {
                let told = book.is_kept().iter().zip(statistics.arm_of());
                told.filter(|(kept, other)| **kept && **other == arm).count()
            }),
            pending: pending[arm],
            abandoned: state.abandoned[arm],
            share: shares[arm],
            weight: best.as_ref().map_or(0.0, |best| best.weights[arm]),
            loss: is_known(&arm).then(|| form.single(arm) + constant),
            changed: state.alarm.as_ref().and_then(|alarm| alarm.changed(arm)),
        };
        let feature_error = match (&session.source, &state.stream, &best) {
            (Source::Features(loss), Some(stream), Some(best)) => {
                FeatureError::new(state, stream, loss, &best.weights, best.value)?
            }
            _ => None,
        };
        Ok(Self {
            policy: state.policy.name().into(),
            kernels,
            rounds: state.answered,
            samples: statistics.len(),
            arms: (0..arms).map(arm).collect(),
            loss: statistics.realised().map(|loss| loss + constant),
            mixture_loss: best.as_ref().map(|best| best.value + constant),
            kept: state.book.as_ref().map(Book::count),
            kept_loss: session.kept_loss(),
            note: state.book.as_ref().map(|_| NOTE.into()),
            gap: best.as_ref().map(|best| best.gap),
            bound_on_weights: best.as_ref().map_or(Ok(None), |best| bound(&best.weights))?,
            bound_on_shares: bound(&shares)?,
            is_done: session.is_done(),
            verdict: session.verdict().cloned(),
            best_single: known.into_iter().min_by(|&a, &b| form.single(a).total_cmp(&form.single(b))),
            form,
            feature_error,
        })
    }

    /// The weights in the order of the arms.
    pub fn weights(&self) -> Vec<f64> {
        self.arms.iter().map(|arm| arm.weight).collect()
    }
}
