//! Early stopping: the tolerance, and whether the samples satisfy it. `session` decides when to check.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::suboptimality::SuboptimalityBound;
use crate::error::{Error, Result};
use crate::influence::Influences;
use crate::normal;
use crate::settings::setters;
use crate::statistics::Statistics;

/// The minimum number of samples per arm before a bound is computed.
pub const MIN_SAMPLES_PER_ARM: usize = 10;
/// The default confidence of bounds and stops.
pub(crate) const DEFAULT_CONFIDENCE: f64 = 0.95;
/// For an arm with less weight than this, only its gradient is used, not its curvature.
const MIN_WEIGHT_FOR_CURVATURE: f64 = 0.02;
/// The share of the error probability that is spent on the lower bound of the gain; see "The gain" in
/// `docs/certainty.md`.
const GAIN_ERROR_SHARE: f64 = 0.2;

/// A tolerance: how close to the optimum is close enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Gap {
    /// A share of the gain, which is the loss of the best single arm minus that of the best mixture: `5%` or
    /// `gain=0.05`.
    Share(f64),
    /// A difference of the loss: `loss=0.001`.
    Loss(f64),
}

/// The mixture that must be close to the optimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Certified {
    /// The weights of the report.
    #[default]
    Weights,
    /// The shares of the held samples, n/t.
    Shares,
}

/// When a session may stop: a tolerance and a confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Until {
    /// The tolerance.
    pub gap: Gap,
    /// The probability that the bound holds, over all checks of a session: 0.95.
    #[serde(default = "default_confidence")]
    pub confidence: f64,
    /// The mixture that must be within the tolerance.
    #[serde(default)]
    pub of: Certified,
}

setters! {
    Until {
        /// Sets the tolerance.
        gap: Gap,
        /// Sets the probability that the bound holds, over all checks of a session.
        confidence: f64,
        /// Sets the mixture that must be within the tolerance.
        of: Certified,
    }
}

/// A function, because serde needs one.
fn default_confidence() -> f64 {
    DEFAULT_CONFIDENCE
}

/// Why a session stopped: the certified mixture and its bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Verdict {
    /// The number of samples held at that time.
    pub samples: usize,
    /// The certified mixture, in the order of the arms.
    pub mixture: Vec<f64>,
    /// An upper bound on its distance to the optimum.
    pub within: f64,
}

impl Until {
    /// Creates a rule for the weights, with the default confidence.
    pub fn new(gap: Gap) -> Self {
        Self { gap, confidence: DEFAULT_CONFIDENCE, of: Certified::Weights }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let (Gap::Share(size) | Gap::Loss(size)) = self.gap;
        if !(size > 0.0 && size.is_finite()) {
            return Err(Error::setting("until", self.gap, "positive, such as 5% or loss=0.001"));
        }
        if matches!(self.gap, Gap::Share(share) if share >= 1.0) {
            let must = "less than 100% of the gain, which the best single arm already satisfies; 5% is usual";
            return Err(Error::setting("until", self.gap, must));
        }
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            return Err(Error::setting("confidence", self.confidence, "between 0 and 1, such as 0.95"));
        }
        Ok(())
    }

    /// Whether the held samples satisfy it, with an error probability of `error_chance`, if f of an arm's samples has
    /// this range.
    pub(crate) fn judge(
        &self,
        statistics: &Statistics,
        mixture: &[f64],
        range: f64,
        error_chance: f64,
    ) -> Result<Judgement> {
        let arms = mixture.len();
        if arms == 1 && has_enough_samples(statistics) {
            let verdict = Verdict { samples: statistics.len(), mixture: mixture.to_vec(), within: 0.0 };
            return Ok(Judgement { verdict: Some(verdict), undecided: vec![false] });
        }
        let Some(influences) = informative_influences(statistics, range) else { return Ok(Judgement::default()) };
        let unbiased = influences.form();
        let z = normal::quantile(1.0 - GAIN_ERROR_SHARE * error_chance);
        let strict = normal::quantile(1.0 - GAIN_ERROR_SHARE * error_chance / arms as f64);
        let (of_slopes, of_gains) =
            influences.widened_for(GAIN_ERROR_SHARE * error_chance / arms as f64).variances_by_arm(mixture);
        let mut undecided = vec![false; arms];
        // An arm is undecided if its own samples cause most of the uncertainty.
        let mut lower_bound = |arm: usize, variances: &[f64], least: f64, estimate: f64| {
            let parts = &variances[arm * arms..(arm + 1) * arms];
            let variance: f64 = parts.iter().sum();
            let is_unsure = estimate - strict * variance.sqrt() < least && estimate > least;
            undecided[arm] |= is_unsure && parts[arm] > 0.5 * variance;
            estimate - z * variance.sqrt()
        };
        // The weights were optimised on the samples, so they look better than they are by as much as they miss the
        // optimum.
        let gap = match self.gap {
            Gap::Share(share) if self.of == Certified::Weights => Gap::Share(share / (1.0 + share)),
            gap => gap,
        };
        let within = match gap {
            Gap::Loss(loss) => loss,
            Gap::Share(share) => {
                let gains: Vec<f64> = {
                    let value = unbiased.value(mixture);
                    (0..arms).map(|arm| unbiased.single(arm) - value).collect()
                };
                let half = 0.5 * gains.iter().copied().fold(f64::INFINITY, f64::min);
                let mut gain = f64::INFINITY;
                for (arm, &estimate) in gains.iter().enumerate() {
                    gain = gain.min(lower_bound(arm, &of_gains, half, estimate));
                }
                share * gain
            }
        };
        let gradient = unbiased.gradient(mixture);
        let mean: f64 = gradient.iter().zip(mixture).map(|(g, weight)| g * weight).sum();
        for arm in (0..arms).filter(|&arm| mixture[arm] < MIN_WEIGHT_FOR_CURVATURE) {
            lower_bound(arm, &of_slopes, -within.max(0.0), gradient[arm] - mean);
        }
        let distance = SuboptimalityBound::new(&influences, mixture, error_chance);
        // With many arms, a share of the gain is one of its lower bound, for which a part of the error probability is
        // reserved.
        let is_near = match gap {
            Gap::Share(_) if distance.is_linear_only() => {
                let rest = SuboptimalityBound::new(&influences, mixture, (1.0 - GAIN_ERROR_SHARE) * error_chance);
                within > 0.0 && rest.is_within(Gap::Loss(within))?
            }
            gap => distance.is_within(gap)?,
        };
        let within = if is_near { distance.bound()? } else { 0.0 };
        let verdict = Verdict { samples: statistics.len(), mixture: mixture.to_vec(), within };
        Ok(Judgement { verdict: is_near.then_some(verdict), undecided })
    }
}

/// The result of a stopping check.
#[derive(Default)]
pub(crate) struct Judgement {
    pub(crate) verdict: Option<Verdict>,
    /// Arms of which more samples would reduce the uncertainty.
    pub(crate) undecided: Vec<bool>,
}

/// An upper bound on how far the loss of a mixture is above the minimum, which holds with probability 1 −
/// `error_chance`. `None` if an arm has too few samples, or if κ between all of them is zero. f of an arm's samples has
/// this range.
pub(crate) fn bound(statistics: &Statistics, mixture: &[f64], range: f64, error_chance: f64) -> Result<Option<f64>> {
    let Some(influences) = informative_influences(statistics, range) else { return Ok(None) };
    SuboptimalityBound::new(&influences, mixture, error_chance).bound().map(Some)
}

/// Whether every arm has the minimum number of samples, and κ carries information.
fn has_enough_samples(statistics: &Statistics) -> bool {
    statistics.counts().iter().all(|&count| count >= MIN_SAMPLES_PER_ARM) && Influences::has_kernel_signal(statistics)
}

/// The influences of the samples, if there are enough samples and they differ in some value. If the samples of every
/// arm are all the same, the distance of a rare value is unknown, so nothing is certain unless the range is known.
fn informative_influences(statistics: &Statistics, range: f64) -> Option<Influences<'_>> {
    if !has_enough_samples(statistics) {
        return None;
    }
    Influences::with_range(statistics, range).filter(Influences::has_varied)
}

/// Parses `95%` or `0.95`.
///
/// # Errors
/// If it is not between 0 and 1.
pub fn parse_confidence(text: &str) -> Result<f64> {
    let text = text.trim();
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    number
        .ok()
        .filter(|confidence| 0.0 < *confidence && *confidence < 1.0)
        .ok_or_else(|| Error::setting("confidence", format!("\"{text}\""), "between 0 and 1, such as 95% or 0.95"))
}

impl FromStr for Certified {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "weights" => Ok(Self::Weights),
            "shares" => Ok(Self::Shares),
            other => Err(Error::setting("certify", format!("\"{other}\""), "weights or shares")),
        }
    }
}

impl fmt::Display for Certified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Certified::Weights => "weights",
            Certified::Shares => "shares",
        })
    }
}

impl fmt::Display for Gap {
    /// Writes the text from which [`Gap::from_str`] reads the same number, to the last bit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Gap::Share(share) => {
                let percent = format!("{:.12}", 100.0 * share);
                let percent = percent.trim_end_matches('0').trim_end_matches('.');
                match percent.parse::<f64>() {
                    Ok(number) if number / 100.0 == share => write!(f, "{percent}%"),
                    _ => write!(f, "gain={share}"),
                }
            }
            Gap::Loss(loss) => write!(f, "loss={loss}"),
        }
    }
}

impl FromStr for Gap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|size| *size > 0.0 && size.is_finite());
        let gap = match (text.strip_suffix('%'), text.split_once('=').map(|(name, value)| (name.trim(), value))) {
            (Some(percent), None) => number(percent).map(|percent| Gap::Share(percent / 100.0)),
            (None, Some(("gain", share))) => number(share).map(Gap::Share),
            (None, Some(("loss", loss))) => number(loss).map(Gap::Loss),
            _ => None,
        };
        // A bare number could mean either, and the two differ by orders of magnitude.
        let must = match number(text) {
            Some(size) => format!(
                "a number with its meaning: {} for that share of the gain, or loss={text} for a difference of the loss",
                if size < 1.0 { Gap::Share(size) } else { Gap::Share(size / 100.0) }
            ),
            None => "a share of the gain, such as 5%, or a difference of the loss, such as loss=0.001".to_string(),
        };
        gap.ok_or_else(|| Error::setting("until", format!("\"{text}\""), must))
    }
}

impl TryFrom<String> for Gap {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Gap> for String {
    fn from(gap: Gap) -> Self {
        gap.to_string()
    }
}
