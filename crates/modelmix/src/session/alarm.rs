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

/// Sequential tests of each arm: of its samples' mean κ with the first ones of the arm, where the objective has κ, and of their
/// f, where it has one that varies. Each has its part of the chance of a false alarm.
///
/// Both are scores of a sample. Where an arm's samples are independent draws of one distribution, so are the scores of all but the first, given these. The rank of each among those before it,
/// ties broken at random, is then uniform and independent of all others (a smoothed conformal p-value), and a capital that is bet on
/// ranks being high or low is a fair game: it ever becomes 1/δ with probability δ at most (Ville).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Alarm {
    /// δ, the chance of a false alarm of an arm, ever.
    chance: f64,
    /// What of a sample is watched.
    scores: Vec<Score>,
    /// By arm and score.
    watches: Vec<Vec<Watch>>,
}

/// What of a sample is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Score {
    /// Its mean κ with the first samples of its arm.
    Kappa,
    /// Its f.
    Linear,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Watch {
    random: Random,
    /// The first samples, row after row, or f of them.
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
    pub(super) fn new(chance: f64, arms: usize, seed: u64, scores: Vec<Score>) -> Result<Self> {
        if !(chance > 0.0 && chance < 1.0) {
            return Err(Error::setting(
                "alarm",
                chance,
                "between 0 and 1: the chance of a false alarm of an arm, such as 0.01",
            ));
        }
        let watch = |arm: usize, at: usize| Watch::new(Random::stream(seed, STREAM + (2 * arm + at) as u64));
        let watches = (0..arms).map(|arm| (0..scores.len()).map(|at| watch(arm, at)).collect()).collect();
        Ok(Self { chance, scores, watches })
    }

    /// Shows a sample of an arm, told in this round; `kappa` are the values of κ between two lists of rows.
    pub(super) fn show(
        &mut self,
        arm: usize,
        round: u64,
        row: &[f32],
        linear: f64,
        kappa: impl Fn(&[f32], &[f32]) -> Result<Vec<f64>>,
    ) -> Result<()> {
        let chance = self.chance / self.scores.len() as f64;
        for (watch, score) in self.watches[arm].iter_mut().zip(&self.scores) {
            if watch.seen < FIRST {
                let mut first = watch.first.clone();
                match score {
                    Score::Kappa => first.extend_from_slice(row),
                    Score::Linear => first.push(linear as f32),
                }
                let scores = || -> Result<Vec<f64>> {
                    Ok(match score {
                        Score::Kappa => among(&kappa(&first, &first)?, FIRST),
                        Score::Linear => first.iter().map(|&value| f64::from(value)).collect(),
                    })
                };
                let scores = (watch.seen + 1 == FIRST).then(scores).transpose()?;
                watch.first = first;
                watch.seen += 1;
                if let Some(scores) = scores {
                    watch.begin(&scores);
                }
            } else if watch.is_watching() {
                let value = match score {
                    Score::Kappa => kappa(row, &watch.first)?.iter().sum::<f64>() / FIRST as f64,
                    Score::Linear => linear,
                };
                watch.score(value, round, chance);
            }
        }
        Ok(())
    }

    /// The round in which an arm's alarm rang.
    pub(super) fn changed(&self, arm: usize) -> Option<u64> {
        self.watches[arm].iter().filter_map(|watch| watch.changed).min()
    }

    /// Starts anew with an arm.
    pub(super) fn forget(&mut self, arm: usize) {
        for watch in &mut self.watches[arm] {
            *watch = Watch::new(watch.random.clone());
        }
    }

    /// A snapshot comes from outside and is not trusted.
    pub(super) fn fits(&self, arms: usize, width: Option<usize>) -> bool {
        let fits = |(watch, score): (&Watch, &Score)| {
            let begun = !watch.bins.is_empty();
            let values = if *score == Score::Linear { 1 } else { width.unwrap_or(1) };
            watch.seen <= FIRST
                && begun == (watch.seen == FIRST)
                && Some(watch.first.len()) == watch.seen.checked_mul(values)
                && (watch.bins.len() == BINS || !begun)
                && watch.capitals.len() == 2 * BETS.len()
                && watch.bins.iter().try_fold(0u64, |sum, &count| sum.checked_add(count)) == Some(watch.scored)
                && watch.low.is_finite()
                && watch.step.is_finite()
                && watch.step > 0.0
                && watch.first.iter().all(|value| value.is_finite())
                && watch.capitals.iter().all(|value| value.is_finite() && *value >= 0.0)
        };
        let all_fit =
            |of_arm: &Vec<Watch>| of_arm.len() == self.scores.len() && of_arm.iter().zip(&self.scores).all(fits);
        self.chance > 0.0
            && self.chance < 1.0
            && !self.scores.is_empty()
            && self.scores.len() <= 2
            && self.watches.len() == arms
            && self.watches.iter().all(all_fit)
    }
}

/// The mean κ of each row with the others.
fn among(kappa: &[f64], rows: usize) -> Vec<f64> {
    let others = |row: usize| (0..rows).filter(move |&other| other != row);
    (0..rows).map(|row| others(row).map(|other| kappa[row * rows + other]).sum::<f64>() / (rows - 1) as f64).collect()
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
