//! Known weights: the Mixture Oracle and the One-Arm Oracle of the paper, equal shares, or any others.

use serde::{Deserialize, Serialize};

use super::{Choice, Evidence, Policy};
use crate::error::{Error, Result};
use crate::random::Random;

/// Pulls arms in given proportions: drawn at random, or tracked, so that n/t stays as close to them as whole samples
/// allow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    name: FixedName,
    weights: Vec<f64>,
    support: Vec<usize>,
    tracked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FixedName {
    Fixed,
    Uniform,
    MixtureOracle,
    OneArmOracle,
}

impl Fixed {
    /// Creates the policy from any weights, which are divided by their sum.
    ///
    /// # Errors
    /// If a weight is negative or not finite, or if all are zero.
    pub fn new(weights: &[f64], tracked: bool) -> Result<Self> {
        Self::named(FixedName::Fixed, weights, tracked)
    }

    /// Creates the policy with equal shares, tracked.
    pub fn uniform(arms: usize) -> Self {
        let share = 1.0 / arms as f64;
        Self { name: FixedName::Uniform, weights: vec![share; arms], support: (0..arms).collect(), tracked: true }
    }

    pub(super) fn named(name: FixedName, weights: &[f64], tracked: bool) -> Result<Self> {
        let total: f64 = weights.iter().sum();
        if !weights.iter().all(|&weight| weight.is_finite() && weight >= 0.0) || !total.is_finite() || total <= 0.0 {
            return Err(Error::setting(
                "weights",
                format!("{weights:?}"),
                "finite and not negative, with at least one positive",
            ));
        }
        let support = (0..weights.len()).filter(|&arm| weights[arm] > 0.0).collect();
        Ok(Self { name, weights: weights.iter().map(|weight| weight / total).collect(), support, tracked })
    }
}

impl Policy for Fixed {
    fn name(&self) -> &'static str {
        match self.name {
            FixedName::Fixed => "fixed",
            FixedName::Uniform => "uniform",
            FixedName::MixtureOracle => "mixture-oracle",
            FixedName::OneArmOracle => "one-arm-oracle",
        }
    }

    fn choose(&self, evidence: &Evidence, random: &mut Random) -> Result<Choice<Self>> {
        let open: Vec<usize> = self.support.iter().copied().filter(|arm| evidence.candidates.contains(arm)).collect();
        let open = if open.is_empty() { &self.support } else { &open };
        if self.tracked {
            let total: usize = (0..evidence.arms()).map(|arm| evidence.pooled(arm)).sum();
            // The quota method of Balinski and Young: among the arms that one more sample does not put ahead of their
            // share, choose the one that would first be a whole sample behind. No arm is ever off by a whole sample.
            let behind = |arm: &usize| (evidence.pooled(*arm) as f64) < self.weights[*arm] * (total + 1) as f64;
            let due: Vec<usize> = open.iter().copied().filter(behind).collect();
            let due = if due.is_empty() { open } else { &due };
            let arm = random.smallest(due, |arm| (evidence.pooled(arm) + 1) as f64 / self.weights[arm]);
            return Ok(Choice::of(arm));
        }
        let weights: Vec<f64> =
            (0..self.weights.len()).map(|arm| if open.contains(&arm) { self.weights[arm] } else { 0.0 }).collect();
        Ok(Choice::of(random.pick(&weights)))
    }

    fn fits(&self, arms: usize) -> bool {
        let positive = (0..self.weights.len()).filter(|&arm| self.weights[arm] > 0.0);
        self.weights.len() == arms
            && self.weights.iter().all(|&weight| weight.is_finite() && weight >= 0.0)
            && !self.support.is_empty()
            && positive.eq(self.support.iter().copied())
    }
}
