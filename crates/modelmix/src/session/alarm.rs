//! An alarm for each arm: whether its later samples still come from where its first ones came from. Models behind an
//! interface are replaced without a word.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::random::Random;

/// Samples of an arm that later ones are compared with.
pub(super) const FIRST: usize = 32;
/// Bins that scores are put into, a third of them within the range of the first samples.
const BINS: usize = 96;
/// Exponents a of the bets f(p) = a·p^(a−1), each laid on p and on 1 − p.
const BETS: [f64; 3] = [0.5, 0.25, 0.1];
/// Streams of the session's seed.
const STREAM: u64 = 1 << 61;

/// A sequential test for each arm.
///
/// A sample's score is its mean κ with the first samples of its arm (f, where the objective has no κ). Where an arm's samples
/// are independent draws of one distribution, so are the scores of all but the first, given these. The rank of each among those before it,
/// ties broken at random, is then uniform and independent of all others (a smoothed conformal p-value), and a capital that is bet on
/// ranks being high or low is a fair game: it ever becomes 1/δ with probability δ at most (Ville).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Alarm {
    /// δ, the chance of a false alarm of an arm, ever.
    chance: f64,
    watches: Vec<Watch>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Watch {
    random: Random,
    /// The first samples, row after row, or their scores where there is no κ.
    first: Vec<f32>,
    /// How many of them there are.
    seen: usize,
    /// Where bins begin, and how wide they are.
    low: f64,
    step: f64,
    /// Scores by bin; empty until the first samples are complete.
    bins: Vec<u64>,
    scored: u64,
    /// Of each bet: what it has become of all its starts.
    capitals: Vec<f64>,
    /// The round of the alarm.
    changed: Option<u64>,
}

/// The part of the capital that is not yet bet after n scores: it falls so slowly that a change is found late, too.
fn reserve(scored: u64) -> f64 {
    1.0 / (std::f64::consts::E + scored as f64).ln()
}

impl Alarm {
    pub(super) fn new(chance: f64, arms: usize, seed: u64) -> Result<Self> {
        if !(chance > 0.0 && chance < 1.0) {
            return Err(Error::setting(
                "alarm",
                chance,
                "between 0 and 1: the chance of a false alarm of an arm, such as 0.01",
            ));
        }
        let watches = (0..arms).map(|arm| Watch::new(Random::stream(seed, STREAM + arm as u64))).collect();
        Ok(Self { chance, watches })
    }

    /// The first samples of an arm, while they are being collected or once they are complete.
    pub(super) fn first(&self, arm: usize) -> &[f32] {
        &self.watches[arm].first
    }

    /// Whether the first samples of an arm are complete and it has not changed, so that a sample needs a score.
    pub(super) fn wants_score(&self, arm: usize) -> bool {
        self.watches[arm].is_watching()
    }

    /// Whether a sample is one of the first of its arm.
    pub(super) fn wants_sample(&self, arm: usize) -> bool {
        self.watches[arm].seen < FIRST
    }

    /// Takes one of the first samples.
    pub(super) fn collect(&mut self, arm: usize, row: &[f32]) {
        let watch = &mut self.watches[arm];
        watch.first.extend_from_slice(row);
        watch.seen += 1;
    }

    /// With the scores of the first samples, each among the others, the range of bins is set.
    pub(super) fn begin(&mut self, arm: usize, scores: &[f64]) {
        self.watches[arm].begin(scores);
    }

    /// Takes the score of a sample that was told in this round.
    pub(super) fn score(&mut self, arm: usize, score: f64, round: u64) {
        self.watches[arm].score(score, round, self.chance);
    }

    /// The round in which an arm's alarm rang.
    pub(super) fn changed(&self, arm: usize) -> Option<u64> {
        self.watches[arm].changed
    }

    /// Starts anew with an arm.
    pub(super) fn forget(&mut self, arm: usize) {
        let random = self.watches[arm].random.clone();
        self.watches[arm] = Watch::new(random);
    }

    /// A snapshot comes from outside and is not trusted.
    pub(super) fn fits(&self, arms: usize, width: Option<usize>) -> bool {
        let fits = |watch: &Watch| {
            let begun = !watch.bins.is_empty();
            let values = width.unwrap_or(1);
            watch.seen <= FIRST
                && begun == (watch.seen == FIRST)
                && (watch.first.len() == watch.seen || Some(watch.first.len()) == watch.seen.checked_mul(values))
                && (watch.bins.len() == BINS || !begun)
                && watch.capitals.len() == 2 * BETS.len()
                && watch.bins.iter().try_fold(0u64, |sum, &count| sum.checked_add(count)) == Some(watch.scored)
                && watch.low.is_finite()
                && watch.step.is_finite()
                && watch.step > 0.0
                && watch.first.iter().all(|value| value.is_finite())
                && watch.capitals.iter().all(|value| value.is_finite() && *value >= 0.0)
        };
        self.chance > 0.0 && self.chance < 1.0 && self.watches.len() == arms && self.watches.iter().all(fits)
    }
}

impl Watch {
    fn new(random: Random) -> Self {
        Self {
            random,
            first: Vec::new(),
            seen: 0,
            low: 0.0,
            step: 1.0,
            bins: Vec::new(),
            scored: 0,
            capitals: vec![0.0; 2 * BETS.len()],
            changed: None,
        }
    }

    fn is_watching(&self) -> bool {
        !self.bins.is_empty() && self.changed.is_none()
    }

    fn begin(&mut self, scores: &[f64]) {
        let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = if most > least { most - least } else { least.abs().max(1e-9) * 1e-6 };
        self.low = least - range;
        self.step = 3.0 * range / BINS as f64;
        self.bins = vec![0; BINS];
    }

    fn score(&mut self, score: f64, round: u64, chance: f64) {
        if !self.is_watching() {
            return;
        }
        // A cast takes what is below to 0.
        let bin = (((score - self.low) / self.step) as usize).min(BINS - 1);
        let unbet = reserve(self.scored);
        self.bins[bin] += 1;
        self.scored += 1;
        let above: u64 = self.bins[bin + 1..].iter().sum();
        let below: u64 = self.bins[..bin].iter().sum();
        let (equal, all) = (self.bins[bin] as f64, self.scored as f64);
        let lot = self.random.unit();
        // Neither becomes zero: a lot is at least half a step of its grid away from its ends.
        let lot = (lot + f64::EPSILON / 4.0).min(1.0 - f64::EPSILON / 2.0);
        let ranks = [(above as f64 + lot * equal) / all, (below as f64 + (1.0 - lot) * equal) / all];
        let started = (unbet - reserve(self.scored)) / self.capitals.len() as f64;
        for (index, capital) in self.capitals.iter_mut().enumerate() {
            let (a, rank) = (BETS[index / 2], ranks[index % 2]);
            *capital = (*capital + started) * a * rank.powf(a - 1.0);
        }
        let capital = reserve(self.scored) + self.capitals.iter().sum::<f64>();
        if capital >= 1.0 / chance {
            self.changed = Some(round);
        }
    }
}
