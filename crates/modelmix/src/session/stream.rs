//! Sessions without end: so many samples are held, and of those let go only sums of random features are kept, so that memory
//! and the time of a round stay constant.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::features::Rows;
use crate::fourier::{GaussianFeatures, MOST_FEATURES, dot, features_for};
use crate::kernel::Kernel;
use crate::loss::Loss;
use crate::random::Random;

/// How much a session holds.
///
/// Until `hold` samples were told, all is exact. From then on the oldest sample of the arm that holds most is let go for each
/// new one. κ between samples that were held together is exact; κ between a new sample and those let go is estimated by
/// random features, of which there are so many that no entry of K̂ has a larger standard error than `error` for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamSettings {
    /// Samples held one by one.
    pub hold: usize,
    /// The largest standard error of an entry of K̂ that features may cause.
    pub error: f64,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self { hold: 1000, error: 0.02 }
    }
}

/// Streams of the session's seed that the maps are drawn from; the policy has stream 0, simulated arms the next.
const STREAM: u64 = 1 << 62;

/// What is kept of samples that were let go.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stream {
    pub(super) settings: StreamSettings,
    seed: u64,
    /// D, of every quadratic term.
    features: usize,
    /// What features are measured from, so that large values do not round: the first sample let go; empty before.
    centre: Vec<f32>,
    /// Σφ over the samples let go: term after term, arm after arm, D values each. Empty before the first.
    sums: Vec<f64>,
    #[serde(skip)]
    maps: OnceLock<Vec<GaussianFeatures>>,
}

/// Features of some rows: term after term, row after row.
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
                &format!("the kernel of {} in a session that holds so many samples", term.measure),
                other,
                "gaussian, the one kernel that has random features here; name a gaussian kernel or leave `hold` out",
            )),
        })
        .collect()
}

impl Stream {
    pub(super) fn new(settings: StreamSettings, seed: u64, arms: usize, batch: usize, loss: &Loss) -> Result<Self> {
        let StreamSettings { hold, error } = settings;
        let least = (4 * arms).max(2 * batch);
        if hold < least {
            let must = format!("at least {least}: 4 samples for each of {arms} arms, and 2 pulls of {batch}");
            return Err(Error::setting("hold", hold, must));
        }
        let weights: Vec<f64> = gaussians(loss)?.iter().map(|(weight, _)| *weight).collect();
        let scale = weights.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
        let features = if weights.is_empty() { 0 } else { features_for(error, &weights) };
        if !(error.is_finite() && error > 0.0) || features > MOST_FEATURES {
            let least = scale / (MOST_FEATURES as f64).sqrt();
            let must = format!("a number of at least {least:.4}, which takes {MOST_FEATURES} features");
            return Err(Error::setting("feature_error", error, must));
        }
        Ok(Self { settings, seed, features, centre: Vec::new(), sums: Vec::new(), maps: OnceLock::new() })
    }

    /// D.
    pub(super) fn features(&self) -> usize {
        self.features
    }

    /// Whether any sample was let go.
    pub(super) fn has_begun(&self) -> bool {
        !self.centre.is_empty()
    }

    fn maps(&self, loss: &Loss, width: usize) -> &[GaussianFeatures] {
        self.maps.get_or_init(|| {
            let draw = |(index, (_, bandwidth)): (usize, (f64, f64))| {
                let mut random = Random::stream(self.seed, STREAM + index as u64);
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

    /// Σκ̂ between one of the mapped rows and the samples let go, by arm.
    pub(super) fn beyond(&self, loss: &Loss, mapped: &Mapped, row: usize, arms: usize) -> Vec<f64> {
        let mut sums = vec![0.0; arms];
        if self.sums.is_empty() {
            return sums;
        }
        for (term, (weight, values)) in mapped.weighted(loss).enumerate() {
            let phi = &values[row * self.features..][..self.features];
            for (arm, sum) in sums.iter_mut().enumerate() {
                *sum += weight * dot(phi, &self.sums[(term * arms + arm) * self.features..][..self.features]);
            }
        }
        sums
    }

    /// Takes a mapped row that is let go and counts so much.
    pub(super) fn absorb(&mut self, row: &[f32], mapped: &Mapped, weight: f64, arm: usize, arms: usize) {
        if self.centre.is_empty() {
            self.centre = row.to_vec();
            self.sums = vec![0.0; mapped.values.len() * arms * self.features];
        }
        for (term, phi) in mapped.values.iter().enumerate() {
            let sums = &mut self.sums[(term * arms + arm) * self.features..][..self.features];
            sums.iter_mut().zip(phi).for_each(|(sum, value)| *sum += weight * value);
        }
    }

    /// All that was let go counts `factor` times what it did.
    pub(super) fn fade(&mut self, factor: f64) {
        self.sums.iter_mut().for_each(|sum| *sum *= factor);
    }

    /// Forgets what was let go of an arm.
    pub(super) fn forget(&mut self, arm: usize, arms: usize) {
        for (place, sums) in self.sums.chunks_exact_mut(self.features.max(1)).enumerate() {
            if place % arms == arm {
                sums.fill(0.0);
            }
        }
    }

    /// A snapshot comes from outside and is not trusted.
    pub(super) fn fits(&self, arms: usize, batch: usize, width: Option<usize>, loss: Option<&Loss>) -> bool {
        let Some(expected) = loss.and_then(|loss| Self::new(self.settings, self.seed, arms, batch, loss).ok()) else {
            return false;
        };
        let terms = loss.map_or(0, |loss| loss.terms().iter().filter(|term| term.kappa.is_some()).count());
        let begun = self.has_begun();
        self.features == expected.features
            && (!begun || Some(self.centre.len()) == width)
            && self.sums.len() == if begun { terms * arms * self.features } else { 0 }
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

    /// Σκ̂ between each row and the rows of each group (`group_of[b]` < `groups`), a row with itself left out: row after row.
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
