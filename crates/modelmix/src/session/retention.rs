//! Which samples count, and how many are held: all, so many with sums of the others, the last ones, or recent ones more.

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
/// Policies see, and reports are of, the samples that count: an arm whose samples are forgotten is asked again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Retention {
    /// All samples count and are held.
    #[default]
    All,
    /// All samples count; so many are held, so that a session runs without end in the same memory.
    Capped(Cap),
    /// The last so many samples count, of all arms together (a sliding window). Sums are exact, and memory is bounded.
    Window(usize),
    /// A sample counts half as much after so many later ones of any arm (exponential decay).
    HalfLife {
        /// Samples until a sample counts half as much.
        samples: f64,
        /// How many samples are held; `None` for all that still count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<Cap>,
    },
}

/// How many samples a session holds, and how well it knows the others.
///
/// Until `hold` samples were told, all is exact. From then on the oldest sample of the arm that holds most is evicted for each
/// new one. κ between samples that were held together is exact; κ between a new sample and evicted ones is estimated by
/// random features, of which there are so many that no entry of K̂ has a larger standard error than `error` for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Cap {
    /// Samples held one by one.
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
        /// Sets how many samples are held one by one.
        hold: usize,
        /// Sets the largest standard error of an entry of K̂ that random features may cause.
        error: f64,
    }
}

impl Retention {
    /// A half-life of so many samples, of which all that still count are held.
    pub fn half_life(samples: f64) -> Self {
        Self::HalfLife { samples, cap: None }
    }

    /// The same with a cap on the samples held; nothing changes without one.
    ///
    /// # Errors
    /// A window, which holds no more than itself.
    pub fn with_cap(self, cap: Option<Cap>) -> Result<Self> {
        match (self, cap) {
            (kept, None) => Ok(kept),
            (Self::All | Self::Capped(_), Some(cap)) => Ok(Self::Capped(cap)),
            (Self::HalfLife { samples, .. }, cap) => Ok(Self::HalfLife { samples, cap }),
            (Self::Window(_), Some(_)) => {
                let must = "left out beside `hold`: a window holds no more than itself; use half-life, or no `hold`";
                Err(Error::setting("retention", self, must))
            }
        }
    }

    /// The setting by which users lose samples; `None` if they lose none.
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
            let must = "left out with halving, which plans by all samples; use another policy";
            return Err(Error::setting("retention", self, must));
        }
        let least = (4 * arms).max(2 * settings.batch);
        let at_least = |what: &str| {
            let must = format!("a {what} of at least {least}: 4 samples for each of {arms} arms, and 2 pulls");
            Err(Error::setting("retention", self, must))
        };
        match self {
            Self::Window(_) if !on_features => {
                let needs =
                    "features, since κ between samples that leave and others must be known; use half-life instead";
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

/// As [`Retention::from_str`] reads it: `all`, `hold=1000`, `window=500` or `half-life=500, hold=1000, error=0.05`.
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

    /// Reads `all`, `window=N`, `half-life=N`, or `hold=N` with an `error` of its own; a half-life may have a `hold` too.
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

/// A [`Retention`] at work: which rows are the oldest, and what is left of evicted ones.
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
    /// Without ages no row ever leaves: sessions on values know κ by its place.
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
            let needs = "features, and one on values holds none; leave it out, or tell the session features";
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

    /// What every sample counts after one more, of what it did before.
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

    /// Whether samples may have left, so that nothing is known of all that were ever told.
    pub(super) fn loses_samples(&self) -> bool {
        !matches!(self, Self::All)
    }

    /// A snapshot comes from outside and is not trusted.
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
