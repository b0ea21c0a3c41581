//! Coresets: the N recorded rows with the smallest empirical loss found. Kernel herding and exchanges of rows select
//! them, in the proportions of the optimal mixture and also with free proportions.
//!
//! The loss of the chosen rows themselves is minimised, with weight 1/N each: L(S) = ΣΣκ/N² + Σf/N + constant,
//! including each row with itself. It is not an estimate: it is the objective of the set as a distribution, as in
//! [`Statistics::empirical_loss`](crate::Statistics::empirical_loss), and for `mmd` a squared distance, never below 0.
//! The U-statistic is unbiased for rows that were drawn at random, but these were chosen. It is reported in addition,
//! because other tools print it.

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

/// A warning that must accompany every curated set.
pub const CURATION_NOTE: &str = "A curated set is no longer an i.i.d. mixture: its rows were chosen together to fit the objective, so \
its score is optimistically biased; evaluate it with a metric or a reference that was not used to choose it.";

/// The proportions of the arms in a curated set.
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
    /// Free proportions, within floors and caps.
    Free,
}

impl Proportions {
    /// All variants.
    pub const ALL: [Proportions; 3] = [Proportions::Best, Proportions::Mixture, Proportions::Free];

    /// The name in settings.
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

/// Settings of [`curate`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Curation {
    /// N, the number of rows to select; no row is selected twice.
    pub count: usize,
    /// The proportions of the arms.
    pub proportions: Proportions,
    /// The random seed, for the pool and for the random sets that the chosen one is compared with.
    pub seed: u64,
    /// The maximum number of passes over the chosen rows for exchanges.
    pub sweeps: usize,
    /// The maximum number of candidate rows; if there are more samples, a pool of this size is drawn.
    pub pool: usize,
    /// The number of random sets for comparison.
    pub draws: usize,
}

impl Default for Curation {
    fn default() -> Self {
        Self { count: 1000, proportions: Proportions::Best, seed: 0, sweeps: 10, pool: 100_000, draws: 20 }
    }
}

setters! {
    Curation {
        /// Sets the number of rows to select.
        count: usize,
        /// Sets the proportions of the arms.
        proportions: Proportions,
        /// Sets the random seed.
        seed: u64,
        /// Sets the maximum number of passes over the chosen rows for exchanges.
        sweeps: usize,
        /// Sets the maximum number of candidate rows.
        pool: usize,
        /// Sets the number of random sets for comparison.
        draws: usize,
    }
}

/// Selects a coreset: `settings.count` rows of the arms with a loss as small as can be found.
///
/// ```
/// use modelmix::{Curation, Features, Inputs, Objective, RecordedArm, RecordedArms, curate};
/// // Four kinds of samples, some of them more frequent than others.
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
/// As [`solve`](crate::solve()), if the objective is not a mean over pairs, and if fewer than two rows or more than
/// there are must be chosen.
pub fn curate(arms: &RecordedArms, loss: &Loss, settings: &Curation) -> Result<Curated> {
    curate_within(arms, loss, &Bounds::simplex(arms.len()), settings, &|| {})
}

/// [`curate`] with a smallest and a largest share per arm, which the set satisfies in whole rows. `done` is called
/// after each of at most [`Curation::steps`] steps.
///
/// # Errors
/// As [`curate`], if the number of bounds is not that of the arms, and if no set of this size satisfies them.
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
    arms.download()?;
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
        // Continues from the set in the mixture's proportions, without keeping them.
        start.map(|start| attempt(Proportions::Free, start, &limits)).transpose()?;
    }
    let (found, rows) = best.expect("at least one set was tried");
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
            let must = format!("at least 2 and at most {samples}, the number of samples; no row is chosen twice");
            return Err(Error::setting("count", self.count, must));
        }
        let least = self.count.saturating_mul(2).min(samples);
        if self.pool < least {
            let must = format!("at least {least}, so that {} rows can be chosen from it", self.count);
            return Err(Error::setting("pool", self.pool, must));
        }
        if self.draws < 2 {
            return Err(Error::setting("draws", self.draws, "at least 2, for a mean and a standard deviation"));
        }
        Ok(())
    }

    /// The maximum number of steps: rows chosen, and rows considered for an exchange.
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
            // Stream 0 is used by the pool.
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
