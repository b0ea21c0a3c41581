//! Drift detection, one detector per arm: whether its later samples still come from where its first ones came from. An
//! observer of the samples told; recorded ones that were known beforehand are not shown to it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::samples::Batch;
use crate::error::{Error, Result};
use crate::features::Rows;
use crate::loss::{Linear, Loss, PreparedTerm};
use crate::random::Random;

/// Samples of an arm that later ones are compared with.
pub(super) const BASELINE_SAMPLES: usize = 32;
/// Bins that scores are put into, a third of them within the range of the first samples.
const BINS: usize = 96;
/// Exponents a of the bets f(p) = a·p^(a−1), each laid on p and on 1 − p.
const BETS: [f64; 3] = [0.5, 0.25, 0.1];
/// Streams of the session's seed.
const RANDOM_STREAM: u64 = 1 << 61;

/// Sequential tests of each arm: of its samples' mean κ with the first ones of the arm, where the objective has κ, and of their
/// f, where it has one that varies. Each has its part of the chance of a false alarm.
///
/// Both are scores of a sample. Where an arm's samples are independent draws of one distribution, so are the scores of all but the first, given these. The rank of each among those before it,
/// ties broken at random, is then uniform and independent of all others (a smoothed conformal p-value), and a capital that is bet on
/// ranks being high or low is a fair game: it ever becomes 1/δ with probability δ at most (Ville).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriftDetectors {
    /// δ, the chance of a false alarm of an arm, ever.
    chance: f64,
    /// What of a sample is watched.
    scores: Vec<DriftScore>,
    /// By arm and score.
    detectors: Vec<Vec<DriftDetector>>,
}

/// What of a sample is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum DriftScore {
    /// Its mean κ with the first samples of its arm.
    Kappa,
    /// Its f.
    Linear,
}

/// What a detector learns of a sample.
pub(super) enum Finding {
    /// It is one of the first ones; the scores of all of them, if it is the last.
    First(Option<Vec<f64>>),
    /// Its score.
    Score(f64),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DriftDetector {
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

impl DriftDetectors {
    pub(super) fn new(chance: f64, arms: usize, seed: u64, loss: Option<&Loss>) -> Result<Self> {
        let needs = "features, and one on values holds none; leave it out, or tell the session features";
        let loss = loss.ok_or_else(|| Error::missing("a session with an alarm", needs))?;
        let kappa = loss.terms().iter().any(|term| term.kappa.is_some()).then_some(DriftScore::Kappa);
        let varies = |term: &PreparedTerm| !matches!(term.linear, None | Some(Linear::Cost(_)));
        let linear = loss.terms().iter().any(varies).then_some(DriftScore::Linear);
        let scores: Vec<DriftScore> = kappa.into_iter().chain(linear).collect();
        if scores.is_empty() {
            return Err(Error::setting("alarm", chance, "left out: nothing of a sample is in this objective"));
        }
        if !(chance > 0.0 && chance < 1.0) {
            return Err(Error::setting(
                "alarm",
                chance,
                "between 0 and 1: the chance of a false alarm of an arm, such as 0.01",
            ));
        }
        let detector =
            |arm: usize, at: usize| DriftDetector::new(Random::stream(seed, RANDOM_STREAM + (2 * arm + at) as u64));
        let detectors = (0..arms).map(|arm| (0..scores.len()).map(|at| detector(arm, at)).collect()).collect();
        Ok(Self { chance, scores, detectors })
    }

    /// What is watched of the samples of a batch, evaluated; nothing changes yet.
    pub(super) fn evaluate(&self, batch: &Batch<'_>, loss: &Loss) -> Result<Vec<Vec<Finding>>> {
        let kappa = |x: &[f32], y: &[f32]| -> Result<Vec<f64>> {
            let mut values = Vec::new();
            loss.kappa_rows(Rows::new(batch.width, x), Rows::new(batch.width, y), &mut values)?;
            Ok(values)
        };
        let of = |(detector, score): (&DriftDetector, &DriftScore)| -> Result<Vec<Finding>> {
            let (mut first, mut seen) = (Cow::Borrowed(&detector.first), detector.seen);
            let mut findings = Vec::with_capacity(batch.len());
            for index in 0..batch.len() {
                if seen == BASELINE_SAMPLES {
                    findings.push(Finding::Score(match score {
                        DriftScore::Kappa => {
                            kappa(batch.row(index), &first)?.iter().sum::<f64>() / BASELINE_SAMPLES as f64
                        }
                        DriftScore::Linear => batch.linear[index],
                    }));
                    continue;
                }
                match score {
                    DriftScore::Kappa => first.to_mut().extend_from_slice(batch.row(index)),
                    DriftScore::Linear => first.to_mut().push(batch.linear[index] as f32),
                }
                seen += 1;
                let scores = match score {
                    _ if seen < BASELINE_SAMPLES => None,
                    DriftScore::Kappa => Some(mean_kappa_with_others(&kappa(&first, &first)?, BASELINE_SAMPLES)),
                    DriftScore::Linear => Some(first.iter().map(|&value| f64::from(value)).collect()),
                };
                findings.push(Finding::First(scores));
            }
            Ok(findings)
        };
        self.detectors[batch.arm].iter().zip(&self.scores).map(of).collect()
    }

    /// Takes what was evaluated of a batch that was told in this round, and says which of the arm's detectors ring. If that was
    /// decided before, the decision stands.
    pub(super) fn commit(
        &mut self,
        batch: &Batch<'_>,
        round: u64,
        findings: &[Vec<Finding>],
        decided: Option<&[usize]>,
    ) -> Vec<usize> {
        let chance = self.chance / self.scores.len() as f64;
        let mut rang = Vec::new();
        for (at, (detector, findings)) in self.detectors[batch.arm].iter_mut().zip(findings).enumerate() {
            let was_ringing = detector.changed.is_some();
            let rings = decided.map(|decided| decided.contains(&at));
            for (index, finding) in findings.iter().enumerate() {
                match finding {
                    Finding::First(scores) => {
                        match self.scores[at] {
                            DriftScore::Kappa => detector.first.extend_from_slice(batch.row(index)),
                            DriftScore::Linear => detector.first.push(batch.linear[index] as f32),
                        }
                        detector.seen += 1;
                        if let Some(scores) = scores {
                            detector.start_betting(scores);
                        }
                    }
                    Finding::Score(value) => {
                        if detector.bet(*value, chance) && rings != Some(false) {
                            detector.changed = Some(round);
                        }
                    }
                }
            }
            if rings == Some(true) {
                detector.changed = detector.changed.or(Some(round));
            }
            if !was_ringing && detector.changed.is_some() {
                rang.push(at);
            }
        }
        rang
    }

    /// Whether these detectors of an arm exist.
    pub(super) fn has(&self, detectors: &[usize]) -> bool {
        detectors.iter().all(|&at| at < self.scores.len())
    }

    /// The round in which an arm's alarm rang.
    pub(super) fn changed(&self, arm: usize) -> Option<u64> {
        self.detectors[arm].iter().filter_map(|detector| detector.changed).min()
    }

    /// Starts anew with an arm.
    pub(super) fn forget(&mut self, arm: usize) {
        for detector in &mut self.detectors[arm] {
            *detector = DriftDetector::new(detector.random.clone());
        }
    }

    /// A snapshot comes from outside and is not trusted.
    pub(super) fn fits(&self, arms: usize, width: Option<usize>) -> bool {
        let fits = |(detector, score): (&DriftDetector, &DriftScore)| {
            let begun = !detector.bins.is_empty();
            let values = if *score == DriftScore::Linear { 1 } else { width.unwrap_or(1) };
            detector.seen <= BASELINE_SAMPLES
                && begun == (detector.seen == BASELINE_SAMPLES)
                && Some(detector.first.len()) == detector.seen.checked_mul(values)
                && (detector.bins.len() == BINS || !begun)
                && detector.capitals.len() == 2 * BETS.len()
                && detector.bins.iter().try_fold(0u64, |sum, &count| sum.checked_add(count)) == Some(detector.scored)
                && detector.low.is_finite()
                && detector.step.is_finite()
                && detector.step > 0.0
                && detector.first.iter().all(|value| value.is_finite())
                && detector.capitals.iter().all(|value| value.is_finite() && *value >= 0.0)
        };
        let all_fit = |of_arm: &Vec<DriftDetector>| {
            of_arm.len() == self.scores.len() && of_arm.iter().zip(&self.scores).all(fits)
        };
        self.chance > 0.0
            && self.chance < 1.0
            && !self.scores.is_empty()
            && self.scores.len() <= 2
            && self.detectors.len() == arms
            && self.detectors.iter().all(all_fit)
    }
}

/// The mean κ of each row with the others.
fn mean_kappa_with_others(kappa: &[f64], rows: usize) -> Vec<f64> {
    let others = |row: usize| (0..rows).filter(move |&other| other != row);
    (0..rows).map(|row| others(row).map(|other| kappa[row * rows + other]).sum::<f64>() / (rows - 1) as f64).collect()
}

impl DriftDetector {
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

    fn is_betting(&self) -> bool {
        !self.bins.is_empty() && self.changed.is_none()
    }

    fn start_betting(&mut self, scores: &[f64]) {
        let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = if most > least { most - least } else { least.abs().max(1e-9) * 1e-6 };
        self.low = least - range;
        self.step = 3.0 * range / BINS as f64;
        self.bins = vec![0; BINS];
    }

    /// Bets on a score; whether the capital is then so large that the arm has changed.
    fn bet(&mut self, score: f64, chance: f64) -> bool {
        // A lot is drawn for every score, also once the alarm rang: how far the generator is then depends on no rounding.
        let lot = self.random.unit();
        if !self.is_betting() {
            return false;
        }
        // A cast takes what is below to 0.
        let bin = (((score - self.low) / self.step) as usize).min(BINS - 1);
        let unbet = reserve(self.scored);
        self.bins[bin] += 1;
        self.scored += 1;
        let above: u64 = self.bins[bin + 1..].iter().sum();
        let below: u64 = self.bins[..bin].iter().sum();
        let (equal, all) = (self.bins[bin] as f64, self.scored as f64);
        // Neither becomes zero: a lot is at least half a step of its grid away from its ends.
        let lot = (lot + f64::EPSILON / 4.0).min(1.0 - f64::EPSILON / 2.0);
        let ranks = [(above as f64 + lot * equal) / all, (below as f64 + (1.0 - lot) * equal) / all];
        let started = (unbet - reserve(self.scored)) / self.capitals.len() as f64;
        for (index, capital) in self.capitals.iter_mut().enumerate() {
            let (a, rank) = (BETS[index / 2], ranks[index % 2]);
            *capital = (*capital + started) * a * rank.powf(a - 1.0);
        }
        let capital = reserve(self.scored) + self.capitals.iter().sum::<f64>();
        capital >= 1.0 / chance
    }
}
