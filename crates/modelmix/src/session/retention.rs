//! Retention: which samples count, and how many are held. All, a capped number with sums of the others, a sliding window, or
//! exponential decay.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::SessionSettings;
use super::ages::Ages;
use super::stream::Stream;
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::settings::setters;

/// Which samples of a session count, and how many it holds.
///
/// Policies and reports use only the samples that count, so an arm whose samples are forgotten is pulled again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Retention {
    /// All samples count and are held.
    #[default]
    All,
    /// All samples count, but only a fixed number is held, so that the memory of a long session is bounded.
    Capped(Cap),
    /// The last N samples of all arms together count (a sliding window). Sums are exact, and memory is bounded.
    Window(usize),
    /// The weight of a sample halves after every N later samples of any arm (exponential decay).
    HalfLife {
        /// N, the half-life in samples.
        samples: f64,
        /// The cap on held samples; `None` to hold all that still count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<Cap>,
    },
}

/// How many samples a session holds, and how accurately it estimates the others.
///
/// All sums are exact until `hold` samples were told. Then each new sample evicts the oldest sample of the arm that holds most.
/// κ between samples that were held together is exact; κ between a new sample and evicted ones is estimated by random features,
/// of which there are enough that no entry of K̂ has a larger standard error than `error` from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Cap {
    /// Number of samples held.
    pub hold: usize,
    /// The largest standard error of an entry of K̂ that random features may cause.
    pub error: f64,
}

impl Default for Cap {
    fn default() -> Self {
        Self { hold: 1000, error: 0.02 }
    }
}

setters! {
    Cap {
        /// Sets the number of samples held.
        hold: usize,
        /// Sets the largest standard error of an entry of K̂ that random features may cause.
        error: f64,
    }
}

impl Retention {
    /// A half-life of `samples` samples, of which all that still count are held.
    pub fn half_life(samples: f64) -> Self {
        Self::HalfLife { samples, cap: None }
    }

    /// The same with a cap on the held samples; unchanged if `cap` is `None`.
    ///
    /// # Errors
    /// A window, which already bounds the number of held samples.
    pub fn with_cap(self, cap: Option<Cap>) -> Result<Self> {
        match (self, cap) {
            (kept, None) => Ok(kept),
            (Self::All | Self::Capped(_), Some(cap)) => Ok(Self::Capped(cap)),
            (Self::HalfLife { samples, .. }, cap) => Ok(Self::HalfLife { samples, cap }),
            (Self::Window(_), Some(_)) => {
                let must = "a half-life or all with `hold`: a window already bounds the samples held; use a half-life, or leave `hold` out";
                Err(Error::setting("retention", self, must))
            }
        }
    }

    /// The name of the setting that loses samples; `None` if none are lost.
    pub(super) fn lossy_setting(self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::Capped(_) | Self::HalfLife { cap: Some(_), .. } => Some("hold"),
            Self::Window(_) | Self::HalfLife { .. } => Some("retention"),
        }
    }

    fn check(self, settings: &SessionSettings, arms: usize, on_features: bool, policy: &str) -> Result<()> {
        let forgets = matches!(self, Self::Window(_) | Self::HalfLife { .. });
        if forgets && policy == "halving" {
            let must = "all with the policy halving, which needs all samples; use another policy";
            return Err(Error::setting("retention", self, must));
        }
        let least = (4 * arms).max(2 * settings.batch);
        let at_least = |what: &str| {
            let must = format!("a {what} of at least {least}: 4 samples per arm for {arms} arms, and 2 pulls");
            Err(Error::setting("retention", self, must))
        };
        match self {
            Self::Window(_) if !on_features => {
                let needs = "features, to evaluate κ of the samples that leave the window; use half-life instead";
                Err(Error::missing("a session with a window", needs))
            }
            Self::Window(samples) if samples < least => at_least("window"),
            Self::HalfLife { samples, .. } if !(samples.is_finite() && samples >= least as f64) => {
                at_least("half-life")
            }
            _ => Ok(()),
        }
    }
}

/// The text that [`Retention::from_str`] parses: `all`, `hold=1000`, `window=500` or `half-life=500, hold=1000, error=0.05`.
impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Capped(cap) => write!(f, "{cap}"),
            Self::Window(samples) => write!(f, "window={samples}"),
            Self::HalfLife { samples, cap: None } => write!(f, "half-life={samples}"),
            Self::HalfLife { samples, cap: Some(cap) } => write!(f, "half-life={samples}, {cap}"),
        }
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hold={}", self.hold)?;
        if self.error == Self::default().error { Ok(()) } else { write!(f, ", error={}", self.error) }
    }
}

impl FromStr for Retention {
    type Err = Error;

    /// Parses `all`, `window=N`, `half-life=N`, or `hold=N` with an optional `error`; a half-life may also have a `hold`.
    fn from_str(text: &str) -> Result<Self> {
        let must = "window=N or half-life=N, in samples, hold=N, or all";
        let parts: Option<Vec<(&str, &str)>> =
            text.split(',').map(|part| part.split_once('=').map(|(name, value)| (name.trim(), value.trim()))).collect();
        let read = || match parts.as_deref() {
            None if text.trim() == "all" => Some(Self::All),
            Some([("window", samples)]) => Some(Self::Window(samples.parse().ok()?)),
            Some([("half-life", samples), cap @ ..]) => {
                let cap = if cap.is_empty() { None } else { Some(Cap::read(cap)?) };
                Some(Self::HalfLife { samples: samples.parse().ok()?, cap })
            }
            Some(cap) => Some(Self::Capped(Cap::read(cap)?)),
            None => None,
        };
        read().ok_or_else(|| Error::setting("retention", format!("\"{text}\""), must))
    }
}

impl Cap {
    fn read(parts: &[(&str, &str)]) -> Option<Self> {
        match parts {
            [("hold", hold)] => Some(Self::default().hold(hold.parse().ok()?)),
            [("hold", hold), ("error", error)] => Some(Self { hold: hold.parse().ok()?, error: error.parse().ok()? }),
            _ => None,
        }
    }
}

/// The state of a [`Retention`]: the order of the rows, and the sums of evicted ones.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum RetentionState {
    All,
    Capped {
        ages: Ages,
        stream: Box<Stream>,
    },
    Window {
        samples: usize,
        ages: Ages,
    },
    /// Without ages no row is ever evicted: sessions on values identify κ by position.
    HalfLife {
        samples: f64,
        ages: Option<Ages>,
        stream: Option<Box<Stream>>,
    },
}

impl RetentionState {
    pub(super) fn new(settings: &SessionSettings, arms: usize, loss: Option<&Loss>, policy: &str) -> Result<Self> {
        let retention = settings.retention;
        let stream = |cap: Cap| -> Result<Box<Stream>> {
            let needs = "features, but a session on values has none; leave `hold` out, or tell the session features";
            let loss = loss.ok_or_else(|| Error::missing("a session with `hold`", needs))?;
            Ok(Box::new(Stream::new(cap, settings.seed, arms, settings.batch, loss)?))
        };
        let state = match retention {
            Retention::All => Self::All,
            Retention::Capped(cap) => Self::Capped { ages: Ages::default(), stream: stream(cap)? },
            Retention::Window(samples) => Self::Window { samples, ages: Ages::default() },
            Retention::HalfLife { samples, cap } => {
                let ages = loss.is_some().then(Ages::default);
                Self::HalfLife { samples, ages, stream: cap.map(stream).transpose()? }
            }
        };
        retention.check(settings, arms, loss.is_some(), policy)?;
        Ok(state)
    }

    /// The factor by which the weight of every sample falls per new sample.
    pub(super) fn factor(&self) -> Option<f64> {
        match self {
            Self::HalfLife { samples, .. } => Some((-1.0 / samples).exp2()),
            _ => None,
        }
    }

    pub(super) fn ages(&self) -> Option<&Ages> {
        match self {
            Self::All => None,
            Self::Capped { ages, .. } | Self::Window { ages, .. } => Some(ages),
            Self::HalfLife { ages, .. } => ages.as_ref(),
        }
    }

    pub(super) fn ages_mut(&mut self) -> Option<&mut Ages> {
        match self {
            Self::All => None,
            Self::Capped { ages, .. } | Self::Window { ages, .. } => Some(ages),
            Self::HalfLife { ages, .. } => ages.as_mut(),
        }
    }

    pub(super) fn stream(&self) -> Option<&Stream> {
        match self {
            Self::Capped { stream, .. } => Some(stream),
            Self::HalfLife { stream, .. } => stream.as_deref(),
            _ => None,
        }
    }

    pub(super) fn stream_mut(&mut self) -> Option<&mut Stream> {
        match self {
            Self::Capped { stream, .. } => Some(stream),
            Self::HalfLife { stream, .. } => stream.as_deref_mut(),
            _ => None,
        }
    }

    /// Whether samples may have been lost, so that sums are not over all samples ever told.
    pub(super) fn loses_samples(&self) -> bool {
        !matches!(self, Self::All)
    }

    /// Checks the fit; a snapshot is untrusted input.
    pub(super) fn fits(
        &self,
        arms: usize,
        batch: usize,
        width: Option<usize>,
        rows: usize,
        loss: Option<&Loss>,
    ) -> bool {
        let settings_fit = match self {
            Self::All | Self::Capped { .. } => true,
            Self::Window { samples, .. } => *samples > 0 && loss.is_some(),
            Self::HalfLife { samples, ages, .. } => {
                samples.is_finite() && *samples >= 1.0 && ages.is_some() == loss.is_some()
            }
        };
        settings_fit
            && self.ages().is_none_or(|ages| ages.fits(rows))
            && self.stream().is_none_or(|stream| self.ages().is_some() && stream.fits(arms, batch, width, loss))
    }
}
