//! When a session may stop: what is asked for, and whether samples warrant it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::centre::only;
use super::distance::Distance;
use crate::error::{Error, Result};
use crate::influence::{Functional, Influences};
use crate::normal;
use crate::statistics::Statistics;

/// The least number of samples of every arm before a bound is given.
pub const LEAST_SAMPLES: usize = 10;
/// An arm with less weight than this is known by its gradient, not by its curvature.
const LITTLE: f64 = 0.02;
/// The part of a chance of error that the gain's lower bound takes.
const FOR_GAIN: f64 = 0.2;
/// Samples an arm before the first look, and how many times as many there are at each look than at the one before.
const FIRST: usize = 20;
const GROWTH: f64 = 1.4;

/// How far from the optimum is near enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub enum Gap {
    /// So large a share of the gain, the best single arm's loss less that of the best mixture: `5%`.
    Share(f64),
    /// So much of the loss: `0.001`.
    Loss(f64),
}

/// What is to be near the optimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
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
pub struct Until {
    /// How near.
    pub gap: Gap,
    /// With what probability, over all looks of a session: 0.95.
    #[serde(default = "usual")]
    pub confidence: f64,
    /// Of what.
    #[serde(default)]
    pub of: Certified,
}

fn usual() -> f64 {
    0.95
}

/// What a session was stopped by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Samples held at that time.
    pub samples: usize,
    /// The mixture that is near the optimum.
    pub mixture: Vec<f64>,
    /// By how much it misses it at most.
    pub within: f64,
}

impl Until {
    /// A gap with the usual confidence, of the weights.
    pub fn new(gap: Gap) -> Self {
        Self { gap, confidence: usual(), of: Certified::Weights }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let (Gap::Share(size) | Gap::Loss(size)) = self.gap;
        if !(size > 0.0 && size.is_finite()) {
            return Err(Error::setting("until", self.gap, "more than nothing, such as 5% or 0.001"));
        }
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            return Err(Error::setting("confidence", self.confidence, "between 0 and 1, such as 0.95"));
        }
        Ok(())
    }

    /// Whether the samples held warrant it, with a chance of error of `miss`; f of an arm's samples is known to range so far.
    fn judge(&self, statistics: &Statistics, mixture: &[f64], range: f64, miss: f64) -> Result<Judgement> {
        let Some(influences) = enough(statistics, range) else { return Ok(Judgement::default()) };
        if mixture.len() == 1 {
            let verdict = Verdict { samples: statistics.len(), mixture: mixture.to_vec(), within: 0.0 };
            return Ok(Judgement { verdict: Some(verdict), in_the_way: vec![false] });
        }
        let unbiased = statistics.unbiased();
        let arms = mixture.len();
        let z = normal::quantile(1.0 - FOR_GAIN * miss);
        let strict = normal::quantile(1.0 - FOR_GAIN * miss / arms as f64);
        let surely = influences.clone().at_chance(FOR_GAIN * miss / arms as f64);
        let mut in_the_way = vec![false; arms];
        // An arm whose own samples are most of what is uncertain.
        let mut blame = |arm: usize, functional: &Functional, least: f64, estimate: f64| {
            let parts = surely.variance_by_arm(functional);
            let variance: f64 = parts.iter().sum();
            let is_unsure = estimate - strict * variance.sqrt() < least && estimate > least;
            in_the_way[arm] |= is_unsure && parts[arm] > 0.5 * variance;
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
                let ahead: Vec<f64> = (0..arms).map(|arm| unbiased.single(arm) - unbiased.value(mixture)).collect();
                let half = 0.5 * ahead.iter().copied().fold(f64::INFINITY, f64::min);
                let mut gain = f64::INFINITY;
                for (arm, &ahead) in ahead.iter().enumerate() {
                    gain = gain.min(blame(arm, &Functional::difference(&only(arm, arms), mixture), half, ahead));
                }
                share * gain
            }
        };
        let gradient = unbiased.gradient(mixture);
        let mean: f64 = gradient.iter().zip(mixture).map(|(g, weight)| g * weight).sum();
        for arm in (0..arms).filter(|&arm| mixture[arm] < LITTLE) {
            blame(arm, &Functional::toward(&only(arm, arms), mixture), -within.max(0.0), gradient[arm] - mean);
        }
        let distance = Distance::new(statistics, &influences, mixture, miss);
        // With many arms a share of the gain is one of its lower bound, for which a part of the chance of error was set aside.
        let is_near = match gap {
            Gap::Share(_) if distance.is_many() => {
                let rest = Distance::new(statistics, &influences, mixture, (1.0 - FOR_GAIN) * miss);
                within > 0.0 && rest.is_within(Gap::Loss(within))?
            }
            gap => distance.is_within(gap)?,
        };
        let within = if is_near { distance.bound()? } else { 0.0 };
        let verdict = Verdict { samples: statistics.len(), mixture: mixture.to_vec(), within };
        Ok(Judgement { verdict: is_near.then_some(verdict), in_the_way })
    }
}

/// What a look finds.
#[derive(Default)]
struct Judgement {
    verdict: Option<Verdict>,
    /// Arms of which more samples would say more.
    in_the_way: Vec<bool>,
}

/// How far above the least loss a mixture can be, all but a share `miss` of the time; nothing while an arm has few samples, or
/// κ between all of them is zero. f of an arm's samples is known to range so far.
pub(crate) fn bound(statistics: &Statistics, mixture: &[f64], range: f64, miss: f64) -> Result<Option<f64>> {
    let Some(influences) = enough(statistics, range) else { return Ok(None) };
    Distance::new(statistics, &influences, mixture, miss).bound().map(Some)
}

/// The samples' influences, where there are enough of them.
fn enough(statistics: &Statistics, range: f64) -> Option<Influences> {
    let is_enough =
        statistics.counts().iter().all(|&count| count >= LEAST_SAMPLES) && Influences::is_telling(statistics);
    if is_enough { Influences::ranging(statistics, range) } else { None }
}

/// The looks of a session: at fixed numbers of samples, each with its part of the chance of error, δ/(k(k + 1)) at look k,
/// which add up to δ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Looks {
    until: Until,
    looks: u32,
    next: usize,
    /// How many samples of each arm there should be before the next look.
    wanted: Vec<usize>,
    verdict: Option<Verdict>,
    /// How far f of an arm's samples is known to range; 0 where only samples can tell.
    range: f64,
}

impl Looks {
    pub(crate) fn new(until: Until, arms: usize) -> Self {
        Self { until, looks: 0, next: FIRST * arms, wanted: vec![LEAST_SAMPLES; arms], verdict: None, range: 0.0 }
    }

    /// Says how far f of an arm's samples is known to range.
    pub(crate) fn set_range(&mut self, range: f64) {
        self.range = range;
    }

    pub(crate) fn range(&self) -> f64 {
        self.range
    }

    pub(crate) fn until(&self) -> &Until {
        &self.until
    }

    pub(crate) fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Whether it is time for a look.
    pub(crate) fn is_due(&self, samples: usize) -> bool {
        self.verdict.is_none() && samples >= self.next
    }

    /// Looks; `mixture` is what is to be near the optimum, nothing where it cannot be found; a program that cannot be solved proves
    /// nothing.
    pub(crate) fn look(&mut self, statistics: &Statistics, mixture: Option<&[f64]>) {
        while self.next <= statistics.len() {
            self.looks += 1;
            self.next = self.next.saturating_add(((self.next as f64 * (GROWTH - 1.0)) as usize).max(1));
        }
        let look = f64::from(self.looks);
        let miss = (1.0 - self.until.confidence) / (look * (look + 1.0));
        let judged = mixture.map(|mixture| self.until.judge(statistics, mixture, self.range, miss).unwrap_or_default());
        let Judgement { verdict, in_the_way } = judged.unwrap_or_default();
        self.verdict = verdict;
        for (arm, _) in in_the_way.iter().enumerate().filter(|(_, is_in_the_way)| **is_in_the_way) {
            self.wanted[arm] = self.wanted[arm].max(2 * statistics.counts()[arm]);
        }
    }

    /// The arm that is to be asked before any other with pull number `pull`, given how many samples of each there are or will be: a
    /// policy has no eyes for arms that it does not want, of which little is known, and nothing is certain without.
    pub(crate) fn wants(&self, counts: &[usize], candidates: &[usize], pull: u64) -> Option<usize> {
        let total: usize = counts.iter().sum();
        if self.verdict.is_some() || total < LEAST_SAMPLES * counts.len() {
            return None;
        }
        // Beyond the least, every other pull is the policy's.
        let wanted = |arm: usize| if pull.is_multiple_of(2) { self.wanted[arm] } else { LEAST_SAMPLES };
        candidates.iter().copied().filter(|&arm| counts[arm] < wanted(arm)).min_by_key(|&arm| counts[arm])
    }

    /// A snapshot comes from outside and is not trusted.
    pub(crate) fn is_sound(&self, arms: usize) -> bool {
        self.until.check().is_ok()
            && self.next > 0
            && self.range.is_finite()
            && self.range >= 0.0
            && self.wanted.len() == arms
            && self.verdict.as_ref().is_none_or(|verdict| verdict.mixture.len() == arms)
    }
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::Share(share) => write!(f, "{}%", 100.0 * share),
            Gap::Loss(loss) => write!(f, "{loss}"),
        }
    }
}

impl FromStr for Gap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|size| *size > 0.0 && size.is_finite());
        let gap = match text.strip_suffix('%') {
            Some(percent) => number(percent).map(|percent| Gap::Share(percent / 100.0)),
            None => number(text).map(Gap::Loss),
        };
        gap.ok_or_else(|| {
            Error::setting("until", format!("\"{text}\""), "a share of the gain, such as 5%, or a loss, such as 0.001")
        })
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
