//! Arms that replay recorded features, to try a configuration without a model.

use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use modelmix::Features;
use modelmix::internals::random::Random;
use modelmix::load::{self, ArmSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::command::amount;
use super::{Arm, Content, Failure, FailureKind, Reply, Request};
use crate::units::Span;

/// Recorded features, drawn at random.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaySettings {
    /// The features of one arm: `path[:key]`.
    pub path: String,
    /// Whether a row may be drawn more than once. If not, the arm fails for good after its last row; pulls of all arms count, since
    /// pull n gets the n-th rows of a random order.
    #[serde(default = "default_with_replacement")]
    pub with_replacement: bool,
    /// The seed of the order without replacement.
    #[serde(default)]
    pub seed: u64,
    /// The time that a request takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// What a sample costs, in the currency of the run. Default: 0.
    #[serde(default)]
    pub cost_per_sample: f64,
}

fn default_with_replacement() -> bool {
    true
}

impl ReplaySettings {
    /// The settings of an arm with default values.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), with_replacement: true, seed: 0, delay: None, cost_per_sample: 0.0 }
    }
}

/// Recorded features as an arm.
#[derive(Debug)]
pub struct ReplayArm {
    path: String,
    features: Features,
    /// The order of rows without replacement.
    order: Option<Vec<usize>>,
    delay: Option<Duration>,
    cost_per_sample: f64,
    is_interrupted: Mutex<bool>,
    interrupted: Condvar,
}

/// Reads the features.
///
/// # Errors
/// One sentence with the fix: a file that cannot be read, more than one array, a number out of range.
pub fn open(
    settings: &ReplaySettings,
    base: &Path,
    _environment: &dyn Fn(&str) -> Option<String>,
) -> Result<ReplayArm, String> {
    let cost_per_sample = amount("cost_per_sample", settings.cost_per_sample)?;
    let source = ArmSource::within(base, &settings.path).map_err(|error| error.to_string())?;
    let arms = load::arms(&[source]).map_err(|error| error.to_string())?;
    let features = match arms.iter().as_slice() {
        [arm] => arm.features.clone(),
        _ => {
            let (path, names) = (&settings.path, arms.names());
            let first = names.first().map_or("key", String::as_str);
            return Err(format!("{path} has the arrays {}; choose one, as in {path}:{first}", names.join(", ")));
        }
    };
    let length = features.len();
    let order = (!settings.with_replacement).then(|| Random::seeded(settings.seed).sample(length, length));
    Ok(ReplayArm {
        path: settings.path.clone(),
        features,
        order,
        delay: settings.delay.map(|Span(delay)| delay),
        cost_per_sample,
        is_interrupted: Mutex::new(false),
        interrupted: Condvar::new(),
    })
}

impl ReplayArm {
    /// The rows of a request; fewer than asked for if the last ones are reached.
    fn rows(&self, request: &Request) -> Vec<usize> {
        match &self.order {
            None => {
                let mut random = Random::seeded(request.seed);
                (0..request.count).map(|_| random.below(self.features.len())).collect()
            }
            Some(order) => {
                let pull = usize::try_from(request.pull).unwrap_or(usize::MAX);
                order.iter().copied().skip(pull.saturating_mul(request.count)).take(request.count).collect()
            }
        }
    }

    /// Waits for the delay; whether it passed without an interrupt.
    fn wait(&self, delay: Duration) -> bool {
        let state = self.is_interrupted.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, _) = self
            .interrupted
            .wait_timeout_while(state, delay, |is_interrupted| !*is_interrupted)
            .unwrap_or_else(PoisonError::into_inner);
        !*state
    }
}

impl Arm for ReplayArm {
    fn reserve(&self, request: &Request) -> f64 {
        self.cost_per_sample * request.count as f64
    }

    fn call(&self, request: &Request) -> Result<Reply, Failure> {
        if let Some(delay) = self.delay
            && !self.wait(delay)
        {
            let message = format!("the replay of {} was interrupted", self.path);
            return Err(Failure::permanent(FailureKind::Broken, message).temporary());
        }
        let rows = self.rows(request);
        if rows.is_empty() {
            let message = format!(
                "all {} rows of {} were used up to pull {}; record more, or set with_replacement = true",
                self.features.len(),
                self.path,
                request.pull
            );
            return Err(Failure::permanent(FailureKind::Empty, message));
        }
        let cost = self.cost_per_sample * rows.len() as f64;
        let samples = rows.into_iter().map(|row| Content::Features(self.features.row(row).to_vec()).into());
        Ok(Reply { samples: samples.collect(), cost })
    }

    fn interrupt(&self) {
        *self.is_interrupted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.interrupted.notify_all();
    }
}
