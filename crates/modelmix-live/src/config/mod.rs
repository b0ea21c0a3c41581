//! The configuration of a run: what the user wrote in TOML. [`Plan`] is what was checked.

mod plan;
mod prompts;

use std::collections::BTreeMap;
use std::path::Path;

use modelmix::Gap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arm::command::CommandSettings;
use crate::arm::http::{ChatSettings, HttpSettings, ImagesSettings};
use crate::arm::onnx::OnnxSettings;
use crate::arm::replay::ReplaySettings;
use crate::encoder::EncoderSettings;
use crate::manners::{Delivery, Rate};
use crate::problem::{Problem, Result};
use crate::score::ScoreSettings;
use crate::units::{Size, Span};

pub use plan::{Basis, LiveArm, Plan, described};
pub(crate) use prompts::hex;
pub use prompts::{PromptSettings, Prompts};

/// A run as it is written in a TOML file. Paths are relative to the file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The title of reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The loss to minimise, as in `rke - 0.2*valid`; `mmd` with a reference by default, otherwise `rke`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// The bandwidth of the kernels, unless a term states its own; the median distance by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<f64>,
    /// Features of real samples: `path[:key]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The policy that chooses arms.
    #[serde(default = "default_policy")]
    pub policy: String,
    /// The random seed.
    #[serde(default)]
    pub seed: u64,
    /// Samples per pull.
    #[serde(default = "default_batch")]
    pub batch: usize,
    /// Early stopping: within a share of the gain (`5%`) or a difference of the loss (`loss=0.001`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub until: Option<Gap>,
    /// The confidence of early stopping; 0.95 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Pulls at the same time.
    #[serde(default = "default_in_flight")]
    pub max_in_flight: usize,
    /// Whether samples count in the order of the pulls, so that a run of pure arms does not depend on timing. It is slower if
    /// arms differ in speed.
    #[serde(default)]
    pub ordered: bool,
    /// What the run may spend.
    #[serde(default)]
    pub budget: BudgetSettings,
    /// Disk space below which nothing is asked any more; 200MB by default.
    #[serde(default = "default_free_space")]
    pub min_free_space: Size,
    /// The prompts: a file, or a list of texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<PromptSettings>,
    /// Features that were recorded earlier, for a warm start: `[name=]path[:key]` per arm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<String>,
    /// What turns samples into features; not needed if the arms return features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoder: Option<EncoderSettings>,
    /// Scores of samples by name, for the objective.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, ScoreSettings>,
    /// The arms.
    #[serde(default, rename = "arm")]
    pub arms: Vec<ArmSettings>,
}

/// What a run may spend. Reserved and doubtful costs count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetSettings {
    /// Money, in the currency of the prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
    /// The number of pulls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulls: Option<u64>,
    /// The time that the run is active, as in `2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
}

/// One `[[arm]]`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ArmSettings {
    /// Its name.
    pub name: String,
    /// What happens to requests without an answer. By default `pure` for arms on this machine and servers without prices and keys,
    /// otherwise `at-most-once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// The number of further attempts after a temporary failure.
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// The rate of requests, as in `60/min`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Requests at the same time; as many as the run allows by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<usize>,
    /// Consecutive pulls that fail for good after which the arm is set aside.
    #[serde(default = "default_set_aside")]
    pub set_aside_after: u32,
    /// The price per sample for the term `cost` of the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// What it is.
    #[serde(flatten)]
    pub kind: ArmKind,
}

/// The kinds of arms.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ArmKind {
    /// A command that stays alive and answers requests in lines of JSON.
    Command(CommandSettings),
    /// A language model behind an OpenAI-compatible server.
    OpenaiChat(ChatSettings),
    /// An image model behind an OpenAI-compatible server.
    OpenaiImages(ImagesSettings),
    /// Any model behind HTTP.
    Http(HttpSettings),
    /// An ONNX model that turns random numbers into samples.
    Onnx(OnnxSettings),
    /// Recorded features.
    Replay(ReplaySettings),
}

fn default_policy() -> String {
    "adaptive".into()
}

fn default_batch() -> usize {
    1
}

fn default_in_flight() -> usize {
    4
}

fn default_free_space() -> Size {
    Size(200_000_000)
}

fn default_retries() -> u32 {
    4
}

fn default_set_aside() -> u32 {
    5
}

/// The keys that a resumed run may change: they do not change what is asked.
const FREE_KEYS: [&str; 4] = ["title", "budget", "max_in_flight", "min_free_space"];
/// The same keys of an arm.
const FREE_KEYS_OF_ARMS: [&str; 4] = ["retries", "rate", "max_in_flight", "set_aside_after"];

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// A file that cannot be read, is not TOML, or has unknown keys or wrong values. The message has the line.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).map_err(|source| Problem::File { path: path.to_path_buf(), source })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses a configuration; `origin` names it in messages.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| {
            let at = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            let line = at.map_or_else(String::new, |line| format!(", line {line}"));
            Problem::Config(format!("{origin}{line}: {}", error.message().replace('\n', " ")))
        })
    }

    /// The first key in which two configurations of a run differ, except for those that a resumed run may change.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let fixed = |config: &Self| {
            let mut value = serde_json::to_value(config).unwrap_or_default();
            if let Some(table) = value.as_object_mut() {
                table.retain(|key, _| !FREE_KEYS.contains(&key.as_str()));
                let arms = table.get_mut("arm").and_then(|arms| arms.as_array_mut());
                for arm in arms.into_iter().flatten().filter_map(|arm| arm.as_object_mut()) {
                    arm.retain(|key, _| !FREE_KEYS_OF_ARMS.contains(&key.as_str()));
                }
            }
            value
        };
        first_difference("", &fixed(self), &fixed(other))
    }
}

/// The path of the first difference between two documents.
fn first_difference(path: &str, one: &serde_json::Value, other: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    let inner = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            let null = Value::Null;
            keys.into_iter().find_map(|key| {
                first_difference(&inner(key), one.get(key).unwrap_or(&null), other.get(key).unwrap_or(&null))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            one.iter().zip(other).enumerate().find_map(|(at, (one, other))| {
                let name = one.get("name").and_then(Value::as_str).map_or_else(|| at.to_string(), str::to_string);
                first_difference(&inner(&name), one, other)
            })
        }
        (one, other) => (one != other).then(|| path.to_string()),
    }
}
