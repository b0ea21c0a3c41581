//! Where a session stands, as numbers for a person.

use serde::{Deserialize, Serialize};

use super::{Session, Source};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::policy::Policy;
use crate::quadratic::Quadratic;
use crate::simplex::{self, Bounds};

/// Where a session stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionReport {
    /// The policy's name.
    pub policy: String,
    /// The kernels, bandwidths found, one for every quadratic term; none where values are told.
    pub kernels: Vec<Kernel>,
    /// Pulls that were answered.
    pub rounds: u64,
    /// Samples held, t.
    pub samples: usize,
    /// The arms in the order given.
    pub arms: Vec<SessionArm>,
    /// L(P̂), the loss of the samples held, the constant included; nothing before the first.
    pub loss: Option<f64>,
    /// L̂(α) of the weights below, the constant included; nothing before the first sample.
    pub mixture_loss: Option<f64>,
    /// How far from the optimum of K̂ and f̂ the weights can be.
    pub gap: Option<f64>,
    /// The best single arm so far, as an index into `arms`.
    pub best_single: Option<usize>,
    /// K̂ and f̂ (V-statistics); arms without samples have zeros.
    pub form: Quadratic,
}

/// One arm of a [`SessionReport`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionArm {
    /// Its name.
    pub name: String,
    /// Samples held.
    pub samples: usize,
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
        let kept: Vec<usize> =
            state.policy.support().map_or(known.clone(), |support| support.iter().copied().filter(is_known).collect());
        let support = if kept.is_empty() { &known } else { &kept };
        let best =
            if known.is_empty() { None } else { Some(simplex::minimize(&form, &Bounds::support(arms, support))?) };
        let (pending, shares) = (state.pending_samples(), statistics.proportions());
        let arm = |arm: usize| SessionArm {
            name: state.names[arm].clone(),
            samples: statistics.counts()[arm],
            pending: pending[arm],
            abandoned: state.abandoned[arm],
            share: shares[arm],
            weight: best.as_ref().map_or(0.0, |best| best.weights[arm]),
            loss: is_known(&arm).then(|| form.single(arm) + constant),
        };
        Ok(Self {
            policy: state.policy.name().into(),
            kernels,
            rounds: state.answered,
            samples: statistics.len(),
            arms: (0..arms).map(arm).collect(),
            loss: statistics.realised().map(|loss| loss + constant),
            mixture_loss: best.as_ref().map(|best| best.value + constant),
            gap: best.as_ref().map(|best| best.gap),
            best_single: known.into_iter().min_by(|&a, &b| form.single(a).total_cmp(&form.single(b))),
            form,
        })
    }

    /// The weights in the order of the arms.
    pub fn weights(&self) -> Vec<f64> {
        self.arms.iter().map(|arm| arm.weight).collect()
    }
}
