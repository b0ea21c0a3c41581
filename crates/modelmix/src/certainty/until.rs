//! When a session may stop: what is asked for, and whether samples warrant it. When to look is left to `session`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::suboptimality::SuboptimalityBound;
use crate::error::{Error, Result};
use crate::influence::Influences;
use crate::normal;
use crate::settings::setters;
use crate::statistics::Statistics;

/// The least number of samples of every arm before a bound is given.
pub const MIN_SAMPLES_PER_ARM: usize = 10;
/// The confidence of bounds and stops, unless said otherwise.
pub(crate) const DEFAULT_CONFIDENCE: f64 = 0.95;
/// An arm with less weight than this is known by its gradient, not by its curvature.
const MIN_WEIGHT_FOR_CURVATURE: f64 = 0.02;
/// The part of the chance of error that is spent on the gain's lower bound; see "The gain" in `docs/certainty.md`.
const GAIN_ERROR_SHARE: f64 = 0.2;

/// How far from the optimum is near enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Gap {
    /// A share of the gain, which is the best single arm's loss less that of the best mixture: `5%` or `gain=0.05`.
    Share(f64),
    /// A difference of the loss: `loss=0.001`.
    Loss(f64),
}

/// What is to be near the optimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Certified {
    /// The weights that a report gives.
    #[default]
    Weights,
    /// The proportions of the samples held, n/t.
    Shares,
}

/// When a session may stop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Until {
    /// How near.
    pub gap: Gap,
    /// With what probability, over all looks of a session: 0.95.
    #[serde(default = "default_confidence")]
    pub confidence: f64,
    /// Of what.
    #[serde(default)]
    pub of: Certified,
}

setters! {
    Until {
        /// Sets how far from the optimum is near enough.
        gap: Gap,
        /// Sets the probability that the bound holds, over all checks of a session.
        confidence: f64,
        /// Sets what is to be near the optimum.
        of: Certified,
    }
}

/// As a function, which serde asks for.
fn default_confidence() -> f64 {
    DEFAULT_CONFIDENCE
}

/// What a session was stopped by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Verdict {
    /// Samples held at that time.
    pub samples: usize,
    /// The mixture that is near the optimum, in the order of the arms.
    pub mixture: Vec<f64>,
    /// By how much it misses it at most.
    pub within: f64,
}

impl Until {
    /// A gap with the usual confidence, of the weights.
    pub fn new(gap: Gap) -> Self {
        Self { gap, confidence: DEFAULT_CONFIDENCE, of: Certified::Weights }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let (Gap::Share(size) | Gap::Loss(size)) = self.gap;
        if !(size > 0.0 && size.is_finite()) {
            return Err(Error::setting("until", self.gap, "positive, such as 5% or loss=0.001"));
        }
        if matches!(self.gap, Gap::Share(share) if share >= 1.0) {
            let must = "less than 100% of the gain, which the best single arm is within already; 5% is usual";
            return Err(Error::setting("until", self.gap, must));
        }
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            return Err(Error::setting("confidence", self.confidence, "between 0 and 1, such as 0.95"));
        }
        Ok(())
    }

    /// Whether the samples held warrant it, with a chance of error of `error_chance`; f of an arm's samples is known to range so far.
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
        // An arm is undecided if its own samples are most of what is uncertain.
        let mut lower_bound = |arm: usize, variances: &[f64], least: f64, estimate: f64| {
            let parts = &variances[arm * arms..(arm + 1) * arms];
            let variance: f64 = parts.iter().sum();
            let is_unsure = estimate - strict * variance.sqrt() < least && estimate > least;
            undecided[arm] |= is_unsure && parts[arm] > 0.5 * variance;
            estimate - z * variance.sqrt()
        };
        // Weights were optimised on the samples, which makes them look better than they are by as much as they miss.
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
        // With many arms a share of the gain is one of its lower bound, for which a part of the chance of error was set aside.
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

/// What a check whether to stop finds.
#[derive(Default)]
pub(crate) struct Judgement {
    pub(crate) verdict: Option<Verdict>,
    /// Arms of which more samples would say more.
    pub(crate) undecided: Vec<bool>,
}

/// How far above the least loss a mixture can be, all but a share `error_chance` of the time; nothing while an arm has few samples, or
/// κ between all of them is zero. f of an arm's samples is known to range so far.
pub(crate) fn bound(statistics: &Statistics, mixture: &[f64], range: f64, error_chance: f64) -> Result<Option<f64>> {
    let Some(influences) = informative_influences(statistics, range) else { return Ok(None) };
    SuboptimalityBound::new(&influences, mixture, error_chance).bound().map(Some)
}

/// Whether every arm has the least number of samples, and they have told anything of κ.
fn has_enough_samples(statistics: &Statistics) -> bool {
    statistics.counts().iter().all(|&count| count >= MIN_SAMPLES_PER_ARM) && Influences::has_kernel_signal(statistics)
}

/// The samples' influences, if there are enough of them and they differ in anything. Samples that are all the same, in every
/// arm, leave unknown how far a rare one is from them; so nothing is certain unless the range is known.
fn informative_influences(statistics: &Statistics, range: f64) -> Option<Influences<'_>> {
    if !has_enough_samples(statistics) {
        return None;
    }
    Influences::with_range(statistics, range).filter(Influences::has_varied)
}

/// Reads `95%` or `0.95`.
///
/// # Errors
/// What is not between 0 and 1.
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
    /// The text from which [`Gap::from_str`] reads the same number, to the last bit.
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
        // A number alone could be either, and they differ by orders of magnitude.
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
