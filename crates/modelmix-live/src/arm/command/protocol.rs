//! The lines of the protocol: what a worker writes, as data. `docs/live-protocol.md` is the specification.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::settings::Launch;
use crate::arm::{Content, Sample};

/// The version of the protocol.
const VERSION: u64 = 1;
/// The maximum size of a file that a worker names.
const LARGEST_FILE: u64 = 256 << 20;

/// A request without its id.
pub(crate) type Body = Map<String, Value>;

/// The first line of a worker.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Hello {
    /// The version of the protocol.
    modelmix: u64,
    /// The maximum number of samples per request.
    #[serde(default = "one")]
    pub(crate) max_batch: usize,
    /// The maximum number of requests that are answered at the same time.
    #[serde(default = "one")]
    pub(crate) max_in_flight: usize,
    /// What the worker calls itself.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// What identifies the model and its settings.
    #[serde(default)]
    pub(crate) fingerprint: Option<String>,
}

fn one() -> usize {
    1
}

impl Hello {
    /// Reads and checks the first line.
    pub(super) fn parse(line: &[u8], launch: &Launch) -> Result<Self, String> {
        let hello: Self = serde_json::from_slice(line).map_err(|error| {
            format!(
                "wrote {} first, which is not its hello ({error}); write {{\"modelmix\": 1}} first, and other output to stderr",
                super::quoted(launch, line)
            )
        })?;
        if hello.modelmix != VERSION {
            return Err(format!("speaks version {} of the protocol; update it to version {VERSION}", hello.modelmix));
        }
        if hello.max_batch == 0 || hello.max_in_flight == 0 {
            return Err("states a max_batch or max_in_flight of 0 in its hello; state at least 1".into());
        }
        Ok(hello)
    }
}

/// The id of a reply, whatever else it has.
#[derive(Deserialize)]
pub(super) struct Id {
    pub(super) id: u64,
}

/// A reply to any request. Unknown fields are ignored, so that later versions can add some.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ReplyLine {
    #[serde(default)]
    pub(crate) samples: Option<Vec<SampleLine>>,
    /// The features of an encoded sample.
    #[serde(default)]
    pub(crate) features: Option<Vec<f32>>,
    /// The score of a sample.
    #[serde(default)]
    pub(crate) value: Option<f64>,
    #[serde(default)]
    pub(crate) error: Option<String>,
    #[serde(default)]
    pub(crate) retry: bool,
    #[serde(default)]
    pub(crate) refused: bool,
    #[serde(default)]
    pub(crate) cost: Option<f64>,
}

impl ReplyLine {
    /// Reads a reply.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| format!("its reply is not as specified ({error})"))
    }
}

/// One sample of a reply.
#[derive(Debug, Deserialize)]
pub(crate) struct SampleLine {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    base64: Option<String>,
    #[serde(default)]
    features: Option<Vec<f32>>,
}

impl SampleLine {
    /// The sample. Relative files are in `folder`.
    pub(crate) fn into_sample(self, folder: &Path) -> Result<Sample, String> {
        if let Some(features) = &self.features {
            check_features(features)?;
        }
        let content = match (self.text, self.file, self.base64) {
            (Some(text), None, None) => Content::Text(text),
            (None, Some(file), None) => Content::File(read_file(&folder.join(file))?),
            (None, None, Some(text)) => {
                let bytes = STANDARD.decode(text).map_err(|error| format!("has wrong base64 ({error})"))?;
                Content::File(filled(bytes)?)
            }
            (None, None, None) => match self.features {
                Some(features) => return Ok(Content::Features(features).into()),
                None => return Err("has none of text, file, base64 and features".into()),
            },
            _ => return Err("has more than one of text, file and base64".into()),
        };
        Ok(Sample { content, features: self.features })
    }
}

/// Whether features can be used.
pub(crate) fn check_features(features: &[f32]) -> Result<(), String> {
    if features.is_empty() {
        return Err("has an empty list of features".into());
    }
    match features.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(format!("has a feature (number {at}) that is not finite in 32 bits")),
        None => Ok(()),
    }
}

fn filled(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if bytes.is_empty() { Err("has no bytes".into()) } else { Ok(bytes) }
}

/// The content of a file that a worker names.
fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error| format!("names the file {}, which cannot be read ({error})", path.display());
    // Checked before the file is opened, because opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(format!("names {}, which is not a regular file", path.display()));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(unreadable)?.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(format!("names the file {}, which is larger than {} MiB", path.display(), LARGEST_FILE >> 20));
    }
    filled(bytes)
}
