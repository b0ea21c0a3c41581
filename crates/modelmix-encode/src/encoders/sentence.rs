//! The settings that sentence-transformers stores next to weights: pooling, normalisation, length, case, padding.
//! They win over the table of named encoders, because they are what sentence-transformers itself follows.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Pooling;
use modelmix::{Error, Result};

/// The maximum size of a settings file; real ones have a few kilobytes.
const LARGEST_FILE: u64 = 16 << 20;

/// The longest text, in tokens, that is taken as a limit. transformers writes 10³⁰ for "no limit".
const LARGEST_LENGTH: f64 = 1e9;

/// What the files next to a model say; `None` for what they do not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentenceSettings {
    /// How vectors of tokens become one.
    pub pooling: Option<Pooling>,
    /// Whether features are divided by their norm.
    pub normalise: Option<bool>,
    /// The maximum number of tokens, including special tokens: the stated one, or the limit of the tokenizer and the network.
    pub max_length: Option<usize>,
    /// Whether sentence-transformers saved the model, so that it takes texts of `max_length`, even if that is only a limit.
    pub is_sentence_model: bool,
    /// Whether texts are put into lower case before they are tokenized.
    pub lower_case: bool,
    /// The padding token.
    pub pad_token: Option<String>,
}

#[derive(Deserialize)]
struct Module {
    path: String,
    r#type: String,
}

#[derive(Deserialize)]
struct PoolingConfig {
    #[serde(default)]
    pooling_mode: Option<Modes>,
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
    #[serde(default)]
    pooling_mode_max_tokens: bool,
    #[serde(default)]
    pooling_mode_mean_sqrt_len_tokens: bool,
    #[serde(default)]
    pooling_mode_weightedmean_tokens: bool,
    #[serde(default)]
    pooling_mode_lasttoken: bool,
}

/// One mode, or several whose vectors are joined.
#[derive(Deserialize)]
#[serde(untagged)]
enum Modes {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
struct SentenceConfig {
    #[serde(default)]
    max_seq_length: Option<f64>,
    #[serde(default)]
    do_lower_case: bool,
}

#[derive(Deserialize)]
struct TokenizerConfig {
    #[serde(default)]
    model_max_length: Option<f64>,
    #[serde(default)]
    pad_token: Option<Token>,
}

/// A token, as a string or with its properties.
#[derive(Deserialize)]
#[serde(untagged)]
enum Token {
    Plain(String),
    Described { content: String },
}

#[derive(Deserialize)]
struct ModelConfig {
    #[serde(default)]
    max_position_embeddings: Option<f64>,
}

impl SentenceSettings {
    /// Reads the files in the root folder of a model. Files that do not exist say nothing.
    ///
    /// # Errors
    /// If a file cannot be read or is not what its name says, or if the model uses a module or a pooling that is not
    /// supported.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut settings = Self::default();
        if let Some(modules) = json::<Vec<Module>>(folder, "modules.json")? {
            settings.normalise = Some(false);
            for module in modules {
                match module.r#type.rsplit('.').next().unwrap_or_default() {
                    "Transformer" => {}
                    "Pooling" => {
                        let name = format!("{}/config.json", module.path);
                        settings.pooling = pooling(folder, &name)?;
                    }
                    "Normalize" => settings.normalise = Some(true),
                    other => {
                        let problem = format!(
                            "the model has a module {other:?}, but only Transformer, Pooling and Normalize are supported; encode with sentence-transformers and give its features"
                        );
                        return Err(Error::File { path: folder.join("modules.json"), problem });
                    }
                }
            }
        }
        if let Some(config) = json::<SentenceConfig>(folder, "sentence_bert_config.json")? {
            settings.max_length = config.max_seq_length.and_then(length);
            settings.is_sentence_model = true;
            settings.lower_case = config.do_lower_case;
        }
        let tokenizer = json::<TokenizerConfig>(folder, "tokenizer_config.json")?;
        let of_tokenizer = tokenizer.as_ref().and_then(|config| length(config.model_max_length?));
        settings.pad_token = tokenizer.and_then(|config| config.pad_token).map(|token| match token {
            Token::Plain(content) | Token::Described { content } => content,
        });
        if settings.max_length.is_none() {
            let model = json::<ModelConfig>(folder, "config.json")?;
            let of_model = model.and_then(|config| length(config.max_position_embeddings?));
            settings.max_length = [of_tokenizer, of_model].into_iter().flatten().min();
        }
        Ok(settings)
    }

    /// The maximum number of tokens for a model that usually takes `usual`: that of sentence-transformers, if it saved the
    /// model; otherwise the usual one, unless the tokenizer or the network takes less.
    pub fn max_length_or(&self, usual: usize) -> usize {
        match self.max_length {
            Some(length) if self.is_sentence_model => length,
            Some(limit) => usual.min(limit),
            None => usual,
        }
    }
}

/// The pooling of a configuration.
fn pooling(folder: &Path, name: &str) -> Result<Option<Pooling>> {
    let Some(config) = json::<PoolingConfig>(folder, name)? else {
        return Ok(None);
    };
    let modes: Vec<String> = match config.pooling_mode {
        Some(Modes::One(mode)) => vec![mode],
        Some(Modes::Several(modes)) => modes,
        None => [
            ("cls", config.pooling_mode_cls_token),
            ("mean", config.pooling_mode_mean_tokens),
            ("max", config.pooling_mode_max_tokens),
            ("mean_sqrt_len_tokens", config.pooling_mode_mean_sqrt_len_tokens),
            ("weightedmean", config.pooling_mode_weightedmean_tokens),
            ("lasttoken", config.pooling_mode_lasttoken),
        ]
        .into_iter()
        .filter(|(_, chosen)| *chosen)
        .map(|(mode, _)| mode.to_string())
        .collect(),
    };
    match modes.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["cls"] => Ok(Some(Pooling::Cls)),
        ["mean"] => Ok(Some(Pooling::Mean)),
        _ => {
            let problem = format!(
                "the pooling is {modes:?}, but only cls or mean is supported; encode with sentence-transformers and give its features"
            );
            Err(Error::File { path: folder.join(name), problem })
        }
    }
}

/// A limit in tokens, if it is one.
fn length(tokens: f64) -> Option<usize> {
    (1.0..=LARGEST_LENGTH).contains(&tokens).then_some(tokens as usize)
}

/// A JSON file of the folder; `None` if there is no such file.
fn json<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>> {
    let path = folder.join(name);
    let io = |source| Error::Io { path: path.clone(), source };
    let length = match std::fs::metadata(&path) {
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        metadata => metadata.map_err(io)?.len(),
    };
    let refused = |problem: String| Error::File { path: path.clone(), problem };
    if length > LARGEST_FILE {
        return Err(refused(format!("{length} bytes are more than a settings file has; download the model again")));
    }
    let bytes = std::fs::read(&path).map_err(io)?;
    let read = serde_json::from_slice(&bytes);
    read.map(Some)
        .map_err(|error| refused(format!("this is not what {name} contains ({error}); download the model again")))
}
