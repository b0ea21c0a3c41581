//! Evicted samples: a session with a cap keeps only sums of their random features, so that memory and the time per round stay
//! constant.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::retention::Cap;
use crate::error::{Error, Result};
use crate::features::Rows;
use crate::fourier::{GaussianFeatures, MOST_FEATURES, dot, features_for};
use crate::kernel::Kernel;
use crate::loss::Loss;
use crate::random::Random;

/// Random streams of the session's seed for the feature maps; the policy has stream 0, simulated arms the next.
const RANDOM_STREAM: u64 = 1 << 62;

/// The sums of evicted samples.
///
/// Their features are summed per group: the collected samples of each arm and, if any were evicted, the known samples of each
/// arm that were not collected.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stream {
    pub(super) cap: Cap,
    seed: u64,
    /// D, per quadratic term.
    features: usize,
    /// The origin of the features, so that large values do not round: the first evicted sample; empty before.
    centre: Vec<f32>,
    /// Σφ over the evicted samples: by group, then by term, D values each. The first groups are the arms' collected samples,
    /// the others their known ones. Empty before the first eviction.
    sums: Vec<f64>,
    #[serde(skip)]
    maps: OnceLock<Vec<GaussianFeatures>>,
}

/// Σκ̂ between a row and the evicted samples, per arm.
pub(super) struct EvictedSums {
    pub(super) all: Vec<f64>,
    /// For the collected samples.
    pub(super) collected: Vec<f64>,
}

/// Features of some rows: by term, then by row.
pub(super) struct Mapped {
    rows: usize,
    values: Vec<Vec<f64>>,
}

/// Weight and bandwidth of every quadratic term.
fn gaussians(loss: &Loss) -> Result<Vec<(f64, f64)>> {
    let quadratic = loss.terms().iter().filter_map(|term| Some((term, term.kappa?)));
    quadratic
        .map(|(term, kappa)| match kappa {
            Kernel::Gaussian { bandwidth } => Ok((term.weight, bandwidth)),
            other => Err(Error::setting(
                &format!("the kernel of {} in a session with `hold`", term.measure),
                other,
                "gaussian, the only kernel with random features; name a gaussian kernel or leave `hold` out",
            )),
        })
        .collect()
}

impl Stream {
    pub(super) fn new(cap: Cap, seed: u64, arms: usize, batch: usize, loss: &Loss) -> Result<Self> {
        let Cap { hold, error } = cap;
        let least = (4 * arms).max(2 * batch);
        if hold < least {
            let must = format!("at least {least}: 4 samples per arm for {arms} arms, and 2 pulls of {batch}");
            return Err(Error::setting("hold", hold, must));
        }
        let weights: Vec<f64> = gaussians(loss)?.iter().map(|(weight, _)| *weight).collect();
        let scale = weights.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
        let features = if weights.is_empty() { 0 } else { features_for(error, &weights) };
        if !(error.is_finite() && error > 0.0) || features > MOST_FEATURES {
            let least = scale / (MOST_FEATURES as f64).sqrt();
            let must = format!("a number of at least {least:.4}, which needs {MOST_FEATURES} features");
            return Err(Error::setting("feature_error", error, must));
        }
        Ok(Self { cap, seed, features, centre: Vec::new(), sums: Vec::new(), maps: OnceLock::new() })
    }

    /// D.
    pub(super) fn features(&self) -> usize {
        self.features
    }

    /// Whether any sample was evicted.
    pub(super) fn has_begun(&self) -> bool {
        !self.centre.is_empty()
    }

    fn maps(&self, loss: &Loss, width: usize) -> &[GaussianFeatures] {
        self.maps.get_or_init(|| {
            let draw = |(index, (_, bandwidth)): (usize, (f64, f64))| {
                let mut random = Random::stream(self.seed, RANDOM_STREAM + index as u64);
                GaussianFeatures::new(bandwidth, width, self.features, &mut random)
            };
            gaussians(loss).unwrap_or_default().into_iter().enumerate().map(draw).collect()
        })
    }

    /// φ of rows, for every quadratic term.
    pub(super) fn map(&self, loss: &Loss, rows: Rows<'_>) -> Result<Mapped> {
        let centre: &[f32] = if self.has_begun() { &self.centre } else { rows.row(0) };
        let centred: Vec<f32> =
            rows.iter().flat_map(|row| row.iter().zip(centre).map(|(value, centre)| value - centre)).collect();
        let centred = Rows::new(rows.width(), &centred);
        let maps = self.maps(loss, rows.width());
        let values = maps.iter().map(|map| map.map(loss.engine(), centred)).collect::<Result<_>>()?;
        Ok(Mapped { rows: rows.len(), values })
    }

    /// Σκ̂ between one of the mapped rows and the evicted samples, whose weights are multiplied by `scale`.
    pub(super) fn sums_with_evicted(
        &self,
        loss: &Loss,
        mapped: &Mapped,
        row: usize,
        arms: usize,
        scale: f64,
    ) -> EvictedSums {
        let mut collected = vec![0.0; arms];
        let mut known = vec![0.0; arms];
        let terms = mapped.values.len();
        for (term, (weight, values)) in mapped.weighted(loss).enumerate() {
            let phi = &values[row * self.features..][..self.features];
            for (place, sums) in self.sums.chunks_exact(self.features.max(1)).enumerate() {
                if place % terms == term {
                    let group = place / terms;
                    let sum = if group < arms { &mut collected[group] } else { &mut known[group - arms] };
                    *sum += scale * weight * dot(phi, sums);
                }
            }
        }
        EvictedSums { all: collected.iter().zip(&known).map(|(sum, more)| sum + more).collect(), collected }
    }

    /// Adds the features of a mapped row that is evicted with this weight.
    pub(super) fn absorb(&mut self, row: &[f32], mapped: (&Mapped, usize), weight: f64, group: usize, arms: usize) {
        let (mapped, at) = mapped;
        if self.centre.is_empty() {
            self.centre = row.to_vec();
        }
        let (terms, features) = (mapped.values.len(), self.features);
        let groups = if group < arms { arms } else { 2 * arms };
        if self.sums.len() < groups * terms * features {
            self.sums.resize(groups * terms * features, 0.0);
        }
        for (term, values) in mapped.values.iter().enumerate() {
            let sums = &mut self.sums[(group * terms + term) * features..][..features];
            let phi = &values[at * features..][..features];
            sums.iter_mut().zip(phi).for_each(|(sum, value)| *sum += weight * value);
        }
    }

    /// Multiplies the weights of all evicted samples by `factor`.
    pub(super) fn fade(&mut self, factor: f64) {
        self.sums.iter_mut().for_each(|sum| *sum *= factor);
    }

    /// Forgets the evicted samples of an arm.
    pub(super) fn forget(&mut self, arm: usize, arms: usize, terms: usize) {
        for (place, sums) in self.sums.chunks_exact_mut(self.features.max(1)).enumerate() {
            if place / terms.max(1) % arms == arm {
                sums.fill(0.0);
            }
        }
    }

    /// Checks the fit; a snapshot is untrusted input.
    pub(super) fn fits(&self, arms: usize, batch: usize, width: Option<usize>, loss: Option<&Loss>) -> bool {
        let Some(expected) = loss.and_then(|loss| Self::new(self.cap, self.seed, arms, batch, loss).ok()) else {
            return false;
        };
        let terms = loss.map_or(0, |loss| loss.terms().iter().filter(|term| term.kappa.is_some()).count());
        let begun = self.has_begun();
        let set = terms * arms * self.features;
        let sets = self.sums.len().checked_div(set).unwrap_or(1);
        self.features == expected.features
            && (!begun || Some(self.centre.len()) == width)
            && if begun { [1, 2].contains(&sets) && self.sums.len() == sets * set } else { self.sums.is_empty() }
            && self.centre.iter().all(|value| value.is_finite())
            && self.sums.iter().all(|value| value.is_finite())
    }
}

impl Mapped {
    /// The terms' weights, and φ of all rows.
    fn weighted<'a>(&'a self, loss: &'a Loss) -> impl Iterator<Item = (f64, &'a [f64])> {
        let weights = loss.terms().iter().filter(|term| term.kappa.is_some()).map(|term| term.weight);
        weights.zip(self.values.iter().map(Vec::as_slice))
    }

    /// Σκ̂ between each row and the rows of each group (`group_of[b]` < `groups`), without a row's own pair: row by row.
    pub(super) fn sums_toward(&self, loss: &Loss, group_of: &[usize], groups: usize) -> Vec<f64> {
        let mut toward = vec![0.0; self.rows * groups];
        for (weight, values) in self.weighted(loss) {
            let features = values.len() / self.rows.max(1);
            let mut sums = vec![0.0; groups * features];
            for (phi, &group) in values.chunks_exact(features).zip(group_of) {
                let sums = &mut sums[group * features..][..features];
                sums.iter_mut().zip(phi).for_each(|(sum, value)| *sum += value);
            }
            for ((phi, toward), &own) in
                values.chunks_exact(features).zip(toward.chunks_exact_mut(groups)).zip(group_of)
            {
                for (group, toward) in toward.iter_mut().enumerate() {
                    *toward += weight * dot(phi, &sums[group * features..][..features]);
                }
                toward[own] -= weight * dot(phi, phi);
            }
        }
        toward
    }
}
