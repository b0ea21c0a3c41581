//! Which encoder a run uses, as it is written in its configuration.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::arm::command::WorkerSettings;
use crate::arm::http::EmbeddingsSettings;

/// What turns samples into features.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[non_exhaustive]
pub enum EncoderSettings {
    /// `"arm"`: the arms give features with their samples.
    Arm(ArmFeatures),
    /// An encoder in this process: `{name = "dinov2-vitl14"}`.
    Model(ModelSettings),
    /// A command that encodes: `{command = ["python3", "encode.py"]}`.
    Command(WorkerSettings),
    /// An encoder of texts behind an OpenAI-compatible server: `{embeddings = {base_url = …, model = …}}`.
    Embeddings(EmbeddingsTable),
}

/// The word that stands for features of the arms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ArmFeatures {
    /// Features come with the samples.
    #[serde(rename = "arm")]
    Arm,
}

/// The table of an encoder behind a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingsTable {
    /// The server and its model.
    pub embeddings: EmbeddingsSettings,
}

/// An encoder in this process: see `docs/encoders.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// The name of an encoder, as `modelmix encoders` lists them, or the path of an `.onnx` file.
    pub name: String,
    /// The tool whose preprocessing is used, as in `dgm-eval`. Default: the encoder's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The file of the weights. By default it is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<PathBuf>,
    /// The runtime of the network: `rten`, which is built in, or `onnxruntime`. Default: `rten`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The device of the network, as in `cuda:0`, with `onnxruntime`. Default: `cpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

impl ModelSettings {
    /// The settings of an encoder with default values.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), preset: None, weights: None, runtime: None, device: None }
    }
}

impl<'de> Deserialize<'de> for EncoderSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let has = |key: &str| value.get(key).is_some();
        // The key says which one is meant, so that messages are about its fields.
        if value.is_string() {
            let other = || {
                D::Error::custom(format!(
                    "encoder = {value} is not known; write encoder = \"arm\", or a table with name"
                ))
            };
            return serde_json::from_value(value.clone()).map(Self::Arm).map_err(|_| other());
        }
        match (has("name"), has("command"), has("embeddings")) {
            (true, false, false) => serde_json::from_value(value).map(Self::Model),
            (false, true, false) => serde_json::from_value(value).map(Self::Command),
            (false, false, true) => serde_json::from_value(value).map(Self::Embeddings),
            _ => return Err(D::Error::custom("the encoder needs exactly one of name, command and embeddings")),
        }
        .map_err(D::Error::custom)
    }
}
