//! How features were made: encoder, preprocessing and weights. Sets that different encoders made cannot be compared.

use serde::{Deserialize, Serialize};

/// The encoder that made features, and its preprocessing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Encoding {
    /// The encoder's name, such as `dinov2-vitl14`, or the name of its file.
    pub encoder: String,
    /// The tool whose preprocessing was applied, such as `dgm-eval`; absent if none has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The SHA-256 checksum of weights, preprocessing and choice of output, in hexadecimal digits. Features with the same
    /// fingerprint are comparable.
    pub fingerprint: String,
    /// The runtime that evaluated the network; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The version of modelmix that made the features; absent if another program did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Encoding {
    /// An encoding with this encoder and fingerprint.
    pub fn new(encoder: impl Into<String>, fingerprint: impl Into<String>) -> Self {
        let (encoder, fingerprint) = (encoder.into(), fingerprint.into());
        Self { encoder, preset: None, fingerprint, runtime: None, version: None }
    }
}

impl std::fmt::Display for Encoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.encoder)?;
        if let Some(preset) = &self.preset {
            write!(f, " with the preprocessing of {preset}")?;
        }
        let short: String = self.fingerprint.chars().take(8).collect();
        write!(f, " ({short})")
    }
}
