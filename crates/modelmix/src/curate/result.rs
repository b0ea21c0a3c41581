//! The result of `curate`, which `modelmix curate --json` prints, and its headline.

use serde::{Deserialize, Serialize};

use super::Proportions;
use crate::kernel::Kernel;
use crate::mixture::TermValue;
use crate::numbers::{brief, count};
use crate::objective::ScoreMeaning;
use crate::provenance::Provenance;

/// A coreset: the chosen rows, and their loss compared with the mixture and with random sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Curated {
    /// The version of modelmix that computed it.
    pub version: String,
    /// The objective as written, including the bandwidth.
    pub objective: String,
    /// The kernels with their bandwidths, one per quadratic term.
    pub kernels: Vec<Kernel>,
    /// The meaning of `score` of the set, the mixture and the random sets.
    pub score: ScoreMeaning,
    /// A warning that must accompany the set.
    pub note: String,
    /// The number of rows of the set.
    pub count: usize,
    /// The number of candidate rows: all samples, or a pool of them.
    pub candidates: usize,
    /// The random seed.
    pub seed: u64,
    /// The proportions with which the best set was found.
    pub proportions: Proportions,
    /// The arms in the order given.
    pub arms: Vec<CuratedArm>,
    /// The set.
    pub set: CuratedSet,
    /// The optimal mixture of all samples, which determines the proportions.
    pub mixture: CuratedMixture,
    /// Sets of the same size, drawn at random in the mixture's proportions.
    pub random: RandomDraws,
    /// All sets that were tried, including the best one.
    pub tried: Vec<Tried>,
    /// The chosen rows, in the order chosen; a row that was exchanged has the position of the one it replaced.
    pub rows: Vec<CuratedRow>,
    /// Provenance of the result; absent unless the caller filled it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// An arm of a [`Curated`] set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CuratedArm {
    /// Its name.
    pub name: String,
    /// The number of samples that it has.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub samples: usize,
    /// Its weight in the optimal mixture.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub weight: f64,
    /// The number of its samples that were chosen.
    pub chosen: usize,
    /// Its share in the set.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub share: f64,
}

/// The loss and the score of a curated set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CuratedSet {
    /// L(S), as V-statistic, the constant included.
    pub loss: f64,
    /// The loss as U-statistic, which tools print that leave out self-pairs. It is biased for rows that were chosen.
    pub unbiased_loss: f64,
    /// Its score.
    pub score: f64,
    /// The value of each term of the objective.
    pub terms: Vec<TermValue>,
}

/// The optimal mixture that a curated set is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CuratedMixture {
    /// Its loss.
    pub loss: f64,
    /// Its score.
    pub score: f64,
    /// The duality gap: no mixture of these samples has a loss below `loss − gap`.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    pub gap: f64,
}

/// A chosen row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CuratedRow {
    /// Its arm.
    pub arm: String,
    /// Its index among the arm's samples, counted from 0.
    pub row: usize,
}

/// A set that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// Its proportions.
    pub proportions: Proportions,
    /// Its loss before any exchange: after herding, or that of the set from which it started.
    pub before: f64,
    /// Its loss.
    pub loss: f64,
    /// The number of rows exchanged.
    pub exchanges: usize,
    /// Whether no single exchange improves it.
    pub settled: bool,
}

/// Sets of the same size drawn at random, with as many rows per arm as the mixture's proportions give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RandomDraws {
    /// The number of sets drawn.
    pub draws: usize,
    /// Mean and sample standard deviation of their losses.
    pub loss: [f64; 2],
    /// Mean and sample standard deviation of their scores.
    pub score: [f64; 2],
}

impl Curated {
    /// The result in one sentence.
    pub fn sentence(&self) -> String {
        let samples = self.arms.iter().map(|arm| arm.samples).sum();
        format!(
            "Chose {} of {} rows: a loss of {} instead of {} for rows drawn at random; the best mixture of all rows has {}.",
            count(self.count),
            count(samples),
            brief(self.set.loss),
            brief(self.random.loss[0]),
            brief(self.mixture.loss)
        )
    }

    /// A description of how the set was found.
    pub fn how(&self) -> String {
        let exchanges: usize = self.tried.iter().map(|tried| tried.exchanges).sum();
        let samples: usize = self.arms.iter().map(|arm| arm.samples).sum();
        let pool = if self.candidates < samples {
            format!(" from a pool of {} random rows", count(self.candidates))
        } else {
            String::new()
        };
        let name = |proportions: Proportions| match proportions {
            Proportions::Free => "free proportions",
            Proportions::Best | Proportions::Mixture => "the mixture's proportions",
        };
        let other = self.tried.iter().find(|tried| tried.proportions != self.proportions);
        let own = self.tried.iter().find(|tried| tried.proportions == self.proportions);
        // Losses of sets of the same rows differ by rounding.
        let is_tie = |other: &Tried| own.is_some_and(|own| other.loss - own.loss <= 1e-9 * own.loss.abs());
        let than = other.map_or(String::new(), |other| match is_tie(other) {
            true => format!("; {} did as well", name(other.proportions)),
            false => format!(", which did better than {}", name(other.proportions)),
        });
        let plural = if exchanges == 1 { "" } else { "s" };
        let exchanges = count(exchanges);
        format!("chosen{pool} by herding and {exchanges} exchange{plural} of rows, in {}{than}", name(self.proportions))
    }
}
