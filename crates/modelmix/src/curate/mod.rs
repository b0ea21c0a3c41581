//! A set to publish: of the samples at hand, the N rows whose empirical loss is the smallest found. The mixture's proportions
//! come first, then kernel herding and exchanges of rows; and the same without keeping to the proportions.
//!
//! What is minimised is the loss of the chosen rows themselves, each counting 1/N: L(S) = ΣΣκ/N² + Σf/N + constant, a row with
//! itself included. It is not an estimate: it is the objective of the distribution that the set is, as
//! [`Statistics::empirical_loss`](crate::Statistics::empirical_loss) has it, and for `mmd` a squared distance, never below 0. A statistic
//! without self-pairs is unbiased for rows that were drawn, and these were chosen; it is reported beside the loss as what other
//! tools will print of the set.

mod candidates;
mod evaluate;
mod herding;
mod quotas;
mod result;

use serde::{Deserialize, Serialize};

use crate::arms::RecordedArms;
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::mixture::{self, score};
use crate::objective::ScoreMeaning;
use crate::random::Random;
use crate::settings::setters;
use crate::simplex::Bounds;
use crate::text::nearest;
use candidates::Candidates;
use evaluate::{Evaluation, Terms};
use herding::Selection;
use quotas::Limits;

pub use result::{Curated, CuratedArm, CuratedMixture, CuratedRow, CuratedSet, RandomDraws, Tried};

/// What everyone who is handed a curated set must know.
pub const CURATION_NOTE: &str = "A curated set is no longer an i.i.d. mixture: its rows were chosen to fit the objective together, so its \
score flatters it and says nothing of the next sample; judge it by a metric or a reference that did not choose it.";

/// Which shares of the arms a curated set may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Proportions {
    /// Both are tried, and the better set is kept.
    #[default]
    Best,
    /// Those of the optimal mixture, rounded to whole rows.
    Mixture,
    /// Whatever makes the loss small, within floors and caps.
    Free,
}

impl Proportions {
    /// All of them.
    pub const ALL: [Proportions; 3] = [Proportions::Best, Proportions::Mixture, Proportions::Free];

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Proportions::Best => "best",
            Proportions::Mixture => "mixture",
            Proportions::Free => "free",
        }
    }
}

impl std::str::FromStr for Proportions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
            let hint = nearest(text, &Self::ALL.map(Proportions::name));
            let hint = hint.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            Error::setting("proportions", format!("\"{text}\""), format!("best, mixture or free{hint}"))
        })
    }
}

/// How rows are chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Curation {
    /// N, how many rows the set has; none comes twice.
    pub count: usize,
    /// Which shares of the arms it may have.
    pub proportions: Proportions,
    /// The seed of all that is drawn: the pool, and the sets that the chosen one is compared with.
    pub seed: u64,
    /// How often, at most, every chosen row is looked at for an exchange.
    pub sweeps: usize,
    /// Rows that are looked at, at most; of more samples than that a pool of so many is drawn.
    pub pool: usize,
    /// How many sets are drawn at random, for comparison.
    pub draws: usize,
}

impl Default for Curation {
    fn default() -> Self {
        Self { count: 1000, proportions: Proportions::Best, seed: 0, sweeps: 10, pool: 100_000, draws: 20 }
    }
}

setters! {
    Curation {
        /// Sets how many rows the set has.
        count: usize,
        /// Sets which shares of the arms the set may have.
        proportions: Proportions,
        /// Sets the seed of all that is drawn.
        seed: u64,
        /// Sets how often, at most, every chosen row is considered for an exchange.
        sweeps: usize,
        /// Sets the largest number of rows that are considered.
        pool: usize,
        /// Sets how many sets are drawn at random, for comparison.
        draws: usize,
    }
}

/// Chooses `settings.count` rows of the arms whose loss is as small as can be found.
///
/// ```
/// use modelmix::{Curation, Features, Inputs, Objective, RecordedArm, RecordedArms, curate};
/// // four kinds of things, some of them more often than others
/// let often = Features::from_rows([[0.0], [0.1], [0.2], [5.0]])?;
/// let seldom = Features::from_rows([[10.0], [10.1], [10.2], [15.0]])?;
/// let arms = RecordedArms::new(vec![RecordedArm::new("often", often), RecordedArm::new("seldom", seldom)])?;
/// let loss = Objective::rke().with_bandwidth(1.0).prepare(Inputs::new().arms(&arms))?;
/// let set = curate(&arms, &loss, &Curation::default().count(4))?;
/// assert!(set.set.score > 3.99); // one of each kind
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// As [`solve`](crate::solve()); an objective that is not a mean over pairs; fewer than two rows or more than there are.
pub fn curate(arms: &RecordedArms, loss: &Loss, settings: &Curation) -> Result<Curated> {
    curate_within(arms, loss, &Bounds::simplex(arms.len()), settings, &|| {})
}

/// The same with a smallest and a largest share for each arm, which the set keeps to the row; `done` is called after each of at
/// most [`Curation::steps`] steps.
///
/// # Errors
/// As [`curate`], and bounds for another number of arms, or that no set of so many rows keeps.
pub fn curate_within(
    arms: &RecordedArms,
    loss: &Loss,
    bounds: &Bounds,
    settings: &Curation,
    done: &dyn Fn(),
) -> Result<Curated> {
    loss.check_means()?;
    settings.check(arms)?;
    let limits = Limits::new(arms, bounds, settings.count)?;
    let mixture = mixture::solve_without_intervals(arms, loss, bounds)?;
    let quotas = limits.quotas(&mixture.form)?;
    let terms = Terms::new(arms, loss)?;
    let candidates = Candidates::new(arms, loss, &terms, &quotas.least, settings)?;
    let mut tried: Vec<Tried> = Vec::new();
    let mut best: Option<(Evaluation, Vec<(usize, usize)>)> = None;
    let mut kept = Proportions::Mixture;
    let mut attempt = |proportions: Proportions, mut set: Selection, limits: &Limits| -> Result<Selection> {
        let before = terms.evaluate(&candidates.rows(&set.chosen))?.loss;
        let (exchanges, settled) = set.refine(&candidates, limits, settings.sweeps, done)?;
        let rows = candidates.rows(&set.chosen);
        let found = terms.evaluate(&rows)?;
        tried.push(Tried { proportions, before, loss: found.loss, exchanges, settled });
        if best.as_ref().is_none_or(|(best, _)| found.loss < best.loss) {
            (best, kept) = (Some((found, rows)), proportions);
        }
        Ok(set)
    };
    let mut start = None;
    if settings.proportions != Proportions::Free {
        let herded = Selection::herd(&candidates, &quotas, settings.count, done)?;
        start = Some(attempt(Proportions::Mixture, herded, &quotas)?);
    }
    if settings.proportions != Proportions::Mixture {
        let herded = Selection::herd(&candidates, &limits, settings.count, done)?;
        attempt(Proportions::Free, herded, &limits)?;
        // The set in the mixture's proportions, once more without keeping to them.
        start.map(|start| attempt(Proportions::Free, start, &limits)).transpose()?;
    }
    let (found, rows) = best.expect("one way at least was tried");
    let counts = |arm: usize| rows.iter().filter(|(other, _)| *other == arm).count();
    let curated = |(index, arm): (usize, &mixture::MixtureArm)| CuratedArm {
        name: arm.name.clone(),
        samples: arm.samples,
        weight: arm.weight,
        chosen: counts(index),
        share: counts(index) as f64 / settings.count as f64,
    };
    let row = |&(arm, row): &(usize, usize)| CuratedRow { arm: mixture.arms[arm].name.clone(), row };
    Ok(Curated {
        version: crate::version::VERSION.into(),
        objective: loss.objective().to_string(),
        kernels: loss.kernels(),
        score: ScoreMeaning::of(loss.objective()),
        note: CURATION_NOTE.into(),
        count: rows.len(),
        candidates: candidates.len(),
        seed: settings.seed,
        proportions: kept,
        arms: mixture.arms.iter().enumerate().map(curated).collect(),
        set: CuratedSet {
            loss: found.loss,
            unbiased_loss: found.unbiased_loss,
            score: score(&found.terms, found.loss),
            terms: found.terms,
        },
        mixture: CuratedMixture { loss: mixture.mixture.loss, score: mixture.mixture.score, gap: mixture.mixture.gap },
        random: random_draws(arms, &terms, &quotas.least, settings)?,
        tried,
        rows: rows.iter().map(row).collect(),
        provenance: None,
    })
}

impl Curation {
    fn check(&self, arms: &RecordedArms) -> Result<()> {
        let samples: usize = arms.iter().map(|arm| arm.features.len()).sum();
        if self.count < 2 || self.count > samples {
            let must = format!("at least 2 and at most {samples}, the samples that there are; no row is chosen twice");
            return Err(Error::setting("count", self.count, must));
        }
        let least = self.count.saturating_mul(2).min(samples);
        if self.pool < least {
            let must = format!("at least {least}, so that {} rows can be chosen of it", self.count);
            return Err(Error::setting("pool", self.pool, must));
        }
        if self.draws < 2 {
            return Err(Error::setting("draws", self.draws, "at least 2, for a mean and a deviation"));
        }
        Ok(())
    }

    /// How many steps there will be at most: rows chosen, and rows looked at for an exchange.
    pub fn steps(&self) -> u64 {
        let ways = match self.proportions {
            Proportions::Best => (2, 3),
            Proportions::Mixture | Proportions::Free => (1, 1),
        };
        let looks = (self.sweeps as u64).saturating_mul(ways.1).saturating_add(ways.0);
        (self.count as u64).saturating_mul(looks)
    }
}

fn random_draws(arms: &RecordedArms, terms: &Terms<'_>, quotas: &[usize], settings: &Curation) -> Result<RandomDraws> {
    let drawn: Vec<Evaluation> = (0..settings.draws as u64)
        .map(|draw| {
            // Stream 0 is the pool's.
            let mut random = Random::stream(settings.seed, draw + 1);
            let rows = arms.iter().zip(quotas).enumerate().flat_map(|(index, (arm, &quota))| {
                random.sample(arm.features.len(), quota).into_iter().map(move |row| (index, row)).collect::<Vec<_>>()
            });
            terms.evaluate(&rows.collect::<Vec<_>>())
        })
        .collect::<Result<_>>()?;
    let spread = |value: &dyn Fn(&Evaluation) -> f64| {
        let mean = drawn.iter().map(value).sum::<f64>() / drawn.len() as f64;
        let squares: f64 = drawn.iter().map(|one| (value(one) - mean).powi(2)).sum();
        [mean, (squares / (drawn.len() - 1) as f64).sqrt()]
    };
    Ok(RandomDraws {
        draws: drawn.len(),
        loss: spread(&|one| one.loss),
        score: spread(&|one| score(&one.terms, one.loss)),
    })
}
