//! What a session forgets, where models may change: samples beyond a window, or old ones little by little.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::SessionSettings;
use crate::error::{Error, Result};

/// How a session forgets. Policies then see, and reports are of, what is remembered: an arm whose samples are forgotten is asked
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forget {
    /// Only the last so many samples count, of all arms together. Sums are exact, and memory is bounded.
    Window(usize),
    /// A sample counts half as much after so many later ones of any arm, a quarter after twice as many, and so on.
    HalfLife(f64),
}

impl Forget {
    /// Whether a session of so many arms, with these settings, can forget so.
    pub(super) fn check(self, settings: &SessionSettings, arms: usize, on_features: bool, policy: &str) -> Result<()> {
        if policy == "halving" {
            return Err(Error::setting(
                "forget",
                self,
                "left out with halving, which plans by all samples; use another policy",
            ));
        }
        let least = (4 * arms).max(2 * settings.batch);
        match self {
            Forget::Window(_) if !on_features => {
                let needs =
                    "features, since κ between samples that leave and others must be known; use half-life instead";
                Err(Error::missing("a session with a window", needs))
            }
            Forget::Window(_) if settings.stream.is_some() => {
                let must = "left out beside `hold`: a window holds no more than itself; use half-life, or no `hold`";
                Err(Error::setting("forget", self, must))
            }
            Forget::Window(samples) if samples < least => {
                let must = format!("a window of at least {least}: 4 samples for each of {arms} arms, and 2 pulls");
                Err(Error::setting("forget", self, must))
            }
            Forget::HalfLife(samples) if !(samples.is_finite() && samples >= least as f64) => {
                let must = format!("a half-life of at least {least}: 4 samples for each of {arms} arms, and 2 pulls");
                Err(Error::setting("forget", self, must))
            }
            _ => Ok(()),
        }
    }

    /// A snapshot comes from outside and is not trusted.
    pub(super) fn fits(self) -> bool {
        match self {
            Forget::Window(samples) => samples > 0,
            Forget::HalfLife(samples) => samples.is_finite() && samples >= 1.0,
        }
    }

    /// What a sample counts after one more, of what it did before; nothing where samples do not fade.
    pub(super) fn factor(self) -> Option<f64> {
        match self {
            Forget::Window(_) => None,
            Forget::HalfLife(samples) => Some((-1.0 / samples).exp2()),
        }
    }

    /// How many samples are held.
    pub(super) fn window(self) -> Option<usize> {
        match self {
            Forget::Window(samples) => Some(samples),
            Forget::HalfLife(_) => None,
        }
    }
}

impl fmt::Display for Forget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Forget::Window(samples) => write!(f, "window={samples}"),
            Forget::HalfLife(samples) => write!(f, "half-life={samples}"),
        }
    }
}

impl FromStr for Forget {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || Err(Error::setting("forget", format!("\"{text}\""), "window=N or half-life=N, in samples"));
        match text.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
            Some(("window", value)) => value.parse().map_or_else(|_| refuse(), |samples| Ok(Forget::Window(samples))),
            Some(("half-life", value)) => {
                value.parse().map_or_else(|_| refuse(), |samples| Ok(Forget::HalfLife(samples)))
            }
            _ => refuse(),
        }
    }
}
