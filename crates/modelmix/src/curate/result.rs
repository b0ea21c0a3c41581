//! A curated set as data: the document that `modelmix curate --json` prints, and its headline.

use serde::{Deserialize, Serialize};

use super::Proportions;
use crate::kernel::Kernel;
use crate::mixture::TermValue;
use crate::numbers::{brief, count};
use crate::objective::ScoreMeaning;
use crate::provenance::Provenance;

/// The chosen rows, and what they are worth beside the mixture and sets drawn at random.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Curated {
    /// The version of modelmix that computed it.
    pub version: String,
    /// The objective, as it was written, with the bandwidth given.
    pub objective: String,
    /// The kernels, bandwidths found, one for every quadratic term.
    pub kernels: Vec<Kernel>,
    /// What `score` is, of the set, the mixture and random draws.
    pub score: ScoreMeaning,
    /// What everyone who is handed the set must know.
    pub note: String,
    /// How many rows the set has.
    pub count: usize,
    /// How many rows were candidates: all samples, or a pool of them.
    pub candidates: usize,
    /// The random seed.
    pub seed: u64,
    /// How the set that was kept was found: in the mixture's proportions or free ones.
    pub proportions: Proportions,
    /// The arms in the order given.
    pub arms: Vec<CuratedArm>,
    /// The set.
    pub set: CuratedSet,
    /// The optimal mixture of all samples, which gives the proportions.
    pub mixture: CuratedMixture,
    /// Sets of the same size, drawn at random in the mixture's proportions.
    pub random: RandomDraws,
    /// All that was tried, the set that was kept among it.
    pub tried: Vec<Tried>,
    /// The chosen rows, in the order chosen; a row that came in by an exchange has the place of the other.
    pub rows: Vec<CuratedRow>,
    /// Where it comes from; absent if nobody filled it in.
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
    /// How many samples it has.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub samples: usize,
    /// Its weight in the optimal mixture.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub weight: f64,
    /// How many of its samples were chosen.
    pub chosen: usize,
    /// Its share in the set.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub share: f64,
}

/// The set of a [`Curated`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CuratedSet {
    /// L(S), as V-statistic, the constant included.
    pub loss: f64,
    /// The same as U-statistic: what tools print that leave out self-pairs. It is not unbiased for rows that were chosen.
    pub unbiased_loss: f64,
    /// Its score.
    pub score: f64,
    /// The value of each term of the objective.
    pub terms: Vec<TermValue>,
}

/// The optimal mixture of a [`Curated`].
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
    /// Its place among the arm's samples, counted from 0.
    pub row: usize,
}

/// A set that was found on the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// In which proportions.
    pub proportions: Proportions,
    /// Its loss before any exchange: after herding, or that of the set that it started from.
    pub before: f64,
    /// Its loss.
    pub loss: f64,
    /// How many rows were exchanged.
    pub exchanges: usize,
    /// Whether no single exchange makes it better any more.
    pub settled: bool,
}

/// How sets of the same size do that are drawn at random: from every arm as many rows as the mixture's proportions say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RandomDraws {
    /// How many were drawn.
    pub draws: usize,
    /// Mean and sample standard deviation of their losses.
    pub loss: [f64; 2],
    /// The same of their scores.
    pub score: [f64; 2],
}

impl Curated {
    /// The answer in one sentence.
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

    /// How the set was found, in words.
    pub fn how(&self) -> String {
        let exchanges: usize = self.tried.iter().map(|tried| tried.exchanges).sum();
        let samples: usize = self.arms.iter().map(|arm| arm.samples).sum();
        let pool = if self.candidates < samples {
            format!(" of a pool of {} rows, drawn at random", count(self.candidates))
        } else {
            String::new()
        };
        let name = |proportions: Proportions| match proportions {
            Proportions::Free => "free proportions",
            Proportions::Best | Proportions::Mixture => "the mixture's proportions",
        };
        let other = self.tried.iter().find(|tried| tried.proportions != self.proportions);
        let own = self.tried.iter().find(|tried| tried.proportions == self.proportions);
        // Sets of the same rows differ by rounding.
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
