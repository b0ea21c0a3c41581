//! Drift detection, one detector per arm: whether later samples come from the same distribution as the first ones. The
//! detectors observe the samples told; known samples are not shown to them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::samples::Batch;
use crate::error::{Error, Result};
use crate::features::Rows;
use crate::loss::{Linear, Loss, PreparedTerm};
use crate::random::Random;

/// Samples per arm that later samples are compared with.
pub(super) const BASELINE_SAMPLES: usize = 32;
/// Bins for the scores, a third of them within the range of the first samples.
const BINS: usize = 96;
/// Exponents a of the bets f(p) = a·p^(a−1), each placed on p and on 1 − p.
const BETS: [f64; 3] = [0.5, 0.25, 0.1];
/// Random streams of the session's seed.
const RANDOM_STREAM: u64 = 1 << 61;

/// Sequential tests per arm: one of the mean κ of each sample with the arm's first samples, if the objective has κ, and one of
/// f, if the objective has an f that varies. The false-alarm probability is divided between the tests.
///
/// Each test is a sequential test of exchangeability. If an arm's samples are independent draws of one distribution, so are the
/// scores of all but the first samples, given these. The rank of each score among those before it, ties broken at random, is then
/// uniform and independent of all others (a smoothed conformal p-value). Capital that is bet on high or low ranks is a fair game: it
/// ever reaches 1/δ with probability at most δ (Ville).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriftDetectors {
    /// δ, the false-alarm probability per arm over the whole session.
    chance: f64,
    /// The monitored scores of a sample.
    scores: Vec<DriftScore>,
    /// Per arm and score.
    detectors: Vec<Vec<DriftDetector>>,
}

/// A monitored score of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum DriftScore {
    /// Its mean κ with the first samples of its arm.
    Kappa,
    /// Its f.
    Linear,
}

/// What a detector learns from a sample.
pub(super) enum Finding {
    /// It is one of the first samples; with the scores of all of them, if it is the last.
    First(Option<Vec<f64>>),
    /// Its score.
    Score(f64),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DriftDetector {
    random: Random,
    /// The first samples, row by row, or their f.
    first: Vec<f32>,
    /// The number of first samples.
    seen: usize,
    /// Start of the bins, and their width.
    low: f64,
    step: f64,
    /// Scores per bin; empty until the first samples are complete.
    bins: Vec<u64>,
    scored: u64,
    /// Per bet: its capital, summed over all starts.
    capitals: Vec<f64>,
    /// The round of the alarm.
    changed: Option<u64>,
}

/// The share of the capital not yet bet after n scores. It falls slowly, so that a late change is found too.
fn reserve(scored: u64) -> f64 {
    1.0 / (std::f64::consts::E + scored as f64).ln()
}

impl DriftDetectors {
    pub(super) fn new(chance: f64, arms: usize, seed: u64, loss: Option<&Loss>) -> Result<Self> {
        let needs = "features, but a session on values has none; leave `alarm` out, or tell the session features";
        let loss = loss.ok_or_else(|| Error::missing("a session with an alarm", needs))?;
        let kappa = loss.terms().iter().any(|term| term.kappa.is_some()).then_some(DriftScore::Kappa);
        let varies = |term: &PreparedTerm| !matches!(term.linear, None | Some(Linear::Cost(_)));
        let linear = loss.terms().iter().any(varies).then_some(DriftScore::Linear);
        let scores: Vec<DriftScore> = kappa.into_iter().chain(linear).collect();
        if scores.is_empty() {
            return Err(Error::setting("alarm", chance, "left out: no term of this objective depends on the samples"));
        }
        if !(chance > 0.0 && chance < 1.0) {
            return Err(Error::setting(
                "alarm",
                chance,
                "between 0 and 1: the false-alarm probability per arm, such as 0.01",
            ));
        }
        let detector =
            |arm: usize, at: usize| DriftDetector::new(Random::stream(seed, RANDOM_STREAM + (2 * arm + at) as u64));
        let detectors = (0..arms).map(|arm| (0..scores.len()).map(|at| detector(arm, at)).collect()).collect();
        Ok(Self { chance, scores, detectors })
    }

    /// Evaluates the monitored scores of a batch; changes nothing yet.
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

    /// Adds an evaluated batch that was told in this round, and returns which of the arm's detectors raise an alarm. A decision
    /// recorded earlier is used as it is.
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

    /// The round of an arm's alarm.
    pub(super) fn changed(&self, arm: usize) -> Option<u64> {
        self.detectors[arm].iter().filter_map(|detector| detector.changed).min()
    }

    /// Resets the detectors of an arm.
    pub(super) fn forget(&mut self, arm: usize) {
        for detector in &mut self.detectors[arm] {
            *detector = DriftDetector::new(detector.random.clone());
        }
    }

    /// Checks the fit; a snapshot is untrusted input.
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

    /// Bets on a score; returns whether the capital is now large enough to conclude that the arm has changed.
    fn bet(&mut self, score: f64, chance: f64) -> bool {
        // A random number is drawn for every score, also after the alarm, so that the state of the generator never depends on
        // rounding.
        let lot = self.random.unit();
        if !self.is_betting() {
            return false;
        }
        // The cast saturates at 0.
        let bin = (((score - self.low) / self.step) as usize).min(BINS - 1);
        let unbet = reserve(self.scored);
        self.bins[bin] += 1;
        self.scored += 1;
        let above: u64 = self.bins[bin + 1..].iter().sum();
        let below: u64 = self.bins[..bin].iter().sum();
        let (equal, all) = (self.bins[bin] as f64, self.scored as f64);
        // Neither is ever zero: a random number is at least half a grid step away from both ends.
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
