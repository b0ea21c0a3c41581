//! The document of a curated set.

use serde::{Deserialize, Serialize};

use super::{ScoreMeaning, brief, count};
use crate::curate::{Curated, CuratedArm, NOTE, Proportions, RandomDraws, Tried};
use crate::kernel::Kernel;
use crate::mixture::TermValue;
use crate::objective::Objective;

/// Chosen rows, and what they are worth beside the mixture and sets drawn at random.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurateDocument {
    /// The version of modelmix that made it.
    pub version: String,
    /// The objective, as it was written.
    pub objective: String,
    /// The kernels of all quadratic terms, their bandwidths found.
    pub kernels: Vec<Kernel>,
    /// What `score` is: that of the first term.
    pub score: ScoreMeaning,
    /// What everyone who is handed the set must know.
    pub note: String,
    /// How many rows the set has.
    pub count: usize,
    /// How many rows were looked at: all samples, or a pool of them.
    pub candidates: usize,
    /// The seed of all that was drawn.
    pub seed: u64,
    /// How the set that was kept was found: in the mixture's proportions or free ones.
    pub proportions: Proportions,
    /// The arms in the order given.
    pub arms: Vec<CuratedArm>,
    /// The set.
    pub set: CuratedSet,
    /// The optimal mixture of all samples.
    pub mixture: CuratedMixture,
    /// Sets of the same size, drawn at random in the mixture's proportions.
    pub random: RandomDraws,
    /// All that was tried.
    pub tried: Vec<Tried>,
    /// The chosen rows, in the order chosen.
    pub rows: Vec<CuratedRow>,
}

/// The set of a [`CurateDocument`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CuratedSet {
    /// Its loss, as V-statistic.
    pub loss: f64,
    /// Its loss without self-pairs, which is not unbiased for rows that were chosen.
    pub unbiased_loss: f64,
    /// Its score.
    pub score: f64,
    /// What each term comes to.
    pub terms: Vec<TermValue>,
}

/// The mixture of a [`CurateDocument`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CuratedMixture {
    /// Its loss.
    pub loss: f64,
    /// Its score.
    pub score: f64,
    /// No mixture of these samples has a loss less than `loss − gap`.
    pub gap: f64,
}

/// A chosen row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CuratedRow {
    /// Its arm.
    pub arm: String,
    /// Its place among the arm's samples, counted from 0.
    pub row: usize,
}

impl CurateDocument {
    /// Of a curated set.
    pub fn new(curated: &Curated, objective: &Objective, seed: u64) -> Self {
        let score = |terms: &[TermValue], loss: f64| terms.first().map_or(loss, |term| term.score);
        let row = |&(arm, row): &(usize, usize)| CuratedRow { arm: curated.arms[arm].name.clone(), row };
        let mixture = &curated.mixture;
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            objective: curated.objective.clone(),
            kernels: curated.kernels.clone(),
            score: ScoreMeaning::of(objective),
            note: NOTE.into(),
            count: curated.rows.len(),
            candidates: curated.candidates,
            seed,
            proportions: curated.proportions,
            arms: curated.arms.clone(),
            set: CuratedSet {
                loss: curated.loss,
                unbiased_loss: curated.unbiased_loss,
                score: score(&curated.terms, curated.loss),
                terms: curated.terms.clone(),
            },
            mixture: CuratedMixture {
                loss: mixture.loss,
                score: score(&mixture.terms, mixture.loss),
                gap: mixture.gap,
            },
            random: curated.random.clone(),
            tried: curated.tried.clone(),
            rows: curated.rows.iter().map(row).collect(),
        }
    }

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
