//! A user's own model: an ONNX file and a small settings file next to it, `model.encoder.toml` or `model.encoder.json`
//! for `model.onnx`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Output;
use crate::preprocess::Preprocessing;
use modelmix::{Error, Result};

/// The maximum size of a settings file.
const LARGEST_FILE: u64 = 1 << 20;

/// An ONNX model with what is needed to use it.
///
/// ```toml
/// # model.encoder.toml, next to model.onnx
/// preset = "dinov2-vitl14/dgm-eval"
/// output = { tensor = "last_hidden_state", pooling = "cls" }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncoderFile {
    /// The model. It is the file that the settings belong to, and not one of them.
    #[serde(skip)]
    pub model: PathBuf,
    /// The preprocessing of a named encoder and a tool, as in `clip-vit-b32/clean-fid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The preprocessing of images in full, instead of a preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preprocessing: Option<Preprocessing>,
    /// The output with the features; default: the first output, pooled as settings of sentence-transformers say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// The `tokenizer.json` of a model of texts, relative to the model; default: the one next to it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    /// The maximum number of tokens of a text, including special tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// The text put before every sample.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
}

impl EncoderFile {
    /// The model at `path` with the settings next to it; with defaults if there are none.
    ///
    /// # Errors
    /// If the model is not a file, or the settings cannot be read, have unknown keys, or contradict each other.
    pub fn open(path: &Path) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(|source| Error::Io { path: path.into(), source })?;
        if !metadata.is_file() {
            let problem = "this is not a file; give an .onnx file".into();
            return Err(Error::File { path: path.into(), problem });
        }
        let beside = |extension: &str| path.with_extension(format!("encoder.{extension}"));
        let mut found: Option<Self> = None;
        for (extension, settings) in [("toml", beside("toml")), ("json", beside("json"))] {
            if !settings.exists() {
                continue;
            }
            if found.is_some() {
                let problem = format!("there is also {}; remove one of them", beside("toml").display());
                return Err(Error::File { path: settings, problem });
            }
            found = Some(read(&settings, extension)?);
        }
        let mut file = found.unwrap_or_default();
        file.model = path.into();
        let folder = path.parent().unwrap_or(Path::new(""));
        file.tokenizer = match file.tokenizer.take() {
            Some(named) => Some(folder.join(named)),
            None => tokenizer_beside(path),
        };
        Ok(file)
    }

    /// Whether the model takes texts: if it has a tokenizer.
    pub fn is_of_texts(&self) -> bool {
        self.tokenizer.is_some()
    }
}

/// The `tokenizer.json` next to a model, or in the folder above if the model is in a folder `onnx`, as on the hub.
pub(crate) fn tokenizer_beside(model: &Path) -> Option<PathBuf> {
    let folder = model.parent()?;
    let above = folder.file_name().filter(|name| *name == "onnx").and_then(|_| folder.parent());
    [Some(folder), above].into_iter().flatten().map(|folder| folder.join("tokenizer.json")).find(|path| path.is_file())
}

fn read(path: &Path, extension: &str) -> Result<EncoderFile> {
    let refused = |problem: String| Error::File { path: path.into(), problem };
    let io = |source| Error::Io { path: path.into(), source };
    let length = std::fs::metadata(path).map_err(io)?.len();
    if length > LARGEST_FILE {
        return Err(refused(format!("{length} bytes are more than the {LARGEST_FILE} allowed; write only settings")));
    }
    let bytes = std::fs::read(path).map_err(io)?;
    let text = str::from_utf8(&bytes).map_err(|_| refused("this is not UTF-8; save it as text".into()))?;
    let keys = "preset, preprocessing, output, tokenizer, max_length and prefix";
    let unread = |error: String| {
        let error: String = error.lines().collect::<Vec<_>>().join(" ").chars().take(300).collect();
        refused(format!("the settings cannot be read ({error}); the keys are {keys}"))
    };
    let file: EncoderFile = match extension {
        "toml" => toml::from_str(text).map_err(|error| unread(error.message().to_string()))?,
        _ => serde_json::from_str(text).map_err(|error| unread(error.to_string()))?,
    };
    if file.preset.is_some() && file.preprocessing.is_some() {
        return Err(refused("there are a preset and a preprocessing; give one of them".into()));
    }
    if file.max_length == Some(0) {
        return Err(refused("max_length is 0, but a text has at least one token; leave it out or raise it".into()));
    }
    Ok(file)
}
