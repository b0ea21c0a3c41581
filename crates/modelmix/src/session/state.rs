//! The mutable state of a session, in parts that each maintain their own invariants.

use serde::{Deserialize, Serialize};

use super::SessionSettings;
use super::bandwidth::BandwidthState;
use super::observers::Observers;
use super::pulls::Pulls;
use super::retention::RetentionState;
use super::samples::{Batch, Samples, damaged};
use super::stopping::StopCheck;
use super::store::Store;
use crate::certainty::Certified;
use crate::error::{Error, Result};
use crate::loss::{Loss, SessionLoss};
use crate::policy::{Evidence, Policy};
use crate::random::Random;
use crate::simplex::{self, Bounds, Solution};
use crate::statistics::Statistics;

/// The largest number of samples per pull, so that products with it do not overflow.
const MAX_BATCH: usize = u32::MAX as usize;

/// The mutable state of a session; together with the loss it is the session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State<P> {
    pub(super) names: Vec<String>,
    pub(super) batch: usize,
    pub(super) policy: P,
    pub(super) random: Random,
    pub(super) pulls: Pulls,
    pub(super) samples: Samples,
    pub(super) observers: Observers,
    /// The known range of f per arm; 0 if it is known only from samples.
    pub(super) linear_range: f64,
    /// The state of the bandwidth choice; `None` if the loss has its bandwidths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bandwidth: Option<BandwidthState>,
}

impl<P: Policy> State<P> {
    /// `loss` is `None` if the caller gives values.
    pub(super) fn new(
        names: Vec<String>,
        policy: P,
        loss: Option<&SessionLoss>,
        settings: &SessionSettings,
    ) -> Result<Self> {
        if names.is_empty() {
            return Err(Error::missing("a session", "at least one arm"));
        }
        if let Some((index, name)) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            return Err(Error::setting(&format!("the name of arm {index}"), name, "different from every other arm's"));
        }
        if settings.batch == 0 || settings.batch > MAX_BATCH {
            let must = format!("between 1 and {MAX_BATCH} samples per pull");
            return Err(Error::setting("batch", settings.batch, must));
        }
        let arms = names.len();
        let bandwidth = loss.map_or(Ok(None), |loss| BandwidthState::new(loss, settings))?;
        let loss = loss.map(SessionLoss::loss);
        let dropping = policy.support().map(|_| policy.name());
        let observers = Observers::new(settings, arms, loss, dropping)?;
        let keeper = RetentionState::new(settings, arms, loss, policy.name())?;
        let width = loss.and_then(Loss::width);
        Ok(Self {
            batch: settings.batch,
            policy,
            random: Random::seeded(settings.seed),
            pulls: Pulls::new(arms),
            samples: Samples::new(arms, Store::new(settings.storage), width, keeper),
            observers,
            linear_range: loss.map_or(0.0, Loss::linear_spread),
            bandwidth,
            names,
        })
    }

    /// What the policy sees.
    pub(super) fn evidence(&self) -> Evidence {
        let mut evidence = Evidence::of(&self.samples.statistics, &self.pulls.samples(), &self.pulls.candidates());
        if self.samples.pool.is_some() {
            evidence.collected = self.samples.collected();
        }
        evidence
    }

    /// The arm to ask instead of the policy's choice, because the bandwidth choice or the stopping rule needs its samples.
    pub(super) fn required_arm(&self) -> Option<usize> {
        let first = self.bandwidth.and_then(|bandwidth| bandwidth.required_arm(&self.samples, &self.pulls));
        if first.is_some() {
            return first;
        }
        let rule = self.observers.stopping.as_ref()?;
        let pending = self.pulls.samples();
        let counts = self.samples.certain().counts().iter().zip(&pending).map(|(held, more)| held + more);
        rule.required_arm(&counts.collect::<Vec<_>>(), &self.pulls.candidates(), self.pulls.asked)
    }

    /// The best mixture by these sums; `None` before the first sample.
    pub(super) fn best_mixture(&self, statistics: &Statistics) -> Result<Option<Solution>> {
        let arms = self.names.len();
        let is_known = |arm: &usize| statistics.counts()[*arm] > 0;
        let known: Vec<usize> = (0..arms).filter(is_known).collect();
        if known.is_empty() {
            return Ok(None);
        }
        let kept: Vec<usize> =
            self.policy.support().map_or(known.clone(), |support| support.iter().copied().filter(is_known).collect());
        let support = if kept.is_empty() { &known } else { &kept };
        simplex::minimize(&statistics.biased(), &Bounds::support(arms, support)).map(Some)
    }

    /// Checks whether the session may stop once a batch is added. A problem that cannot be solved, for example if κ is not a
    /// kernel, proves nothing.
    pub(super) fn check_stop(&self, batch: &Batch<'_>) -> StopCheck {
        // Checks are rare, so each may copy the sums.
        let (mut statistics, mut independent) = (self.samples.statistics.clone(), self.samples.independent.clone());
        for (index, kappa) in batch.kappa.iter().enumerate() {
            let (own, linear) = (batch.own[index], batch.linear[index]);
            if let Some(independent) = &mut independent {
                independent.push(batch.arm, kappa, own, linear);
            }
            statistics.add(batch.arm, kappa, own, linear);
        }
        let mut collected = self.samples.collected();
        collected[batch.arm] += if batch.is_collected { batch.len() } else { 0 };
        self.judge(&statistics, independent.as_ref().map_or(&statistics, |sums| &sums.statistics), &collected)
    }

    /// Checks whether the session may stop, by sums over all samples, sums over the samples for confidence statements, and the
    /// counts of the collected ones.
    pub(super) fn judge(&self, all: &Statistics, certain: &Statistics, collected: &[usize]) -> StopCheck {
        let Some(rule) = &self.observers.stopping else { return StopCheck::default() };
        let mixture = match rule.until().of {
            Certified::Weights => self.best_mixture(all).ok().flatten().map(|best| best.weights),
            Certified::Shares => {
                let total: usize = collected.iter().sum();
                (total > 0).then(|| collected.iter().map(|&count| count as f64 / total as f64).collect())
            }
        };
        rule.check(certain, mixture.as_deref(), self.linear_range)
    }

    /// Checks the state; a snapshot is untrusted input, and every part checks itself.
    pub(super) fn check(&self, loss: Option<&SessionLoss>) -> Result<()> {
        let arms = self.names.len();
        let is_named = arms > 0 && (1..arms).all(|arm| !self.names[..arm].contains(&self.names[arm]));
        if !is_named || self.batch == 0 || self.batch > MAX_BATCH {
            return Err(damaged("its arms or its batch size are invalid"));
        }
        if !self.pulls.fits(arms, self.batch) {
            return Err(damaged("its pulls do not fit each other"));
        }
        if !self.policy.fits(arms) {
            return Err(damaged("its policy does not fit its arms"));
        }
        if self.policy.support().is_some() && self.observers.stopping.is_some() {
            return Err(damaged("its policy drops arms, but it has a stopping rule"));
        }
        if !(self.linear_range.is_finite() && self.linear_range >= 0.0) {
            return Err(damaged("the range of its scores is invalid"));
        }
        if !BandwidthState::fits(self.bandwidth, loss, &self.samples) {
            return Err(damaged("its bandwidth does not fit its samples or its objective"));
        }
        let loss = loss.map(SessionLoss::loss);
        self.samples.check(arms, self.batch, loss)?;
        self.observers.check(&self.samples, arms, loss.is_some())
    }
}
