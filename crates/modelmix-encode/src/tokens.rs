//! Texts as token ids: a Hugging Face `tokenizer.json`, truncated and padded as transformers does.

use std::path::Path;

use tokenizers::normalizers::{Lowercase, NormalizerWrapper, Sequence};
use tokenizers::{PostProcessor, TruncationDirection, TruncationParams, TruncationStrategy};

use crate::problem::Problem;
use modelmix::{Error, Result};

/// The maximum size of a `tokenizer.json`. Those of models with 250,000 tokens take 17 MB.
const LARGEST_FILE: u64 = 256 << 20;

/// Names of padding tokens, for files that do not say which one is used.
const PAD_TOKENS: [&str; 3] = ["[PAD]", "<pad>", "<|endoftext|>"];

/// Token ids of a batch of texts, padded to the longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// One id per text and token, in row-major order.
    pub ids: Vec<i64>,
    /// 1 for tokens of the text and special tokens, 0 for padding.
    pub mask: Vec<i64>,
    /// The segment of each token: 0 for a single text, in most models.
    pub types: Vec<i64>,
    /// The number of texts, and the number of tokens of the longest one.
    pub shape: [usize; 2],
}

/// A tokenizer with its settings: maximum length, padding token, and text put before each sample.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    tokenizer: tokenizers::Tokenizer,
    pad: i64,
    prefix: String,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`. Texts are truncated to `max_length` tokens, including special tokens; `None` keeps them
    /// whole. The truncation and the padded length in the file are ignored, as in transformers.
    ///
    /// # Errors
    /// If the file cannot be read, is larger than 256 MiB, is not a tokenizer, or adds more special tokens than
    /// `max_length` allows.
    pub fn open(path: &Path, max_length: Option<usize>) -> Result<Self> {
        let io = |source| Error::Io { path: path.into(), source };
        let refused = |problem: String| Error::File { path: path.into(), problem };
        let metadata = std::fs::metadata(path).map_err(io)?;
        if !metadata.is_file() || metadata.len() > LARGEST_FILE {
            let problem =
                format!("this is not a file of at most {LARGEST_FILE} bytes; give the model's tokenizer.json");
            return Err(refused(problem));
        }
        let bytes = std::fs::read(path).map_err(io)?;
        let mut tokenizer = parse(&bytes).map_err(|problem| {
            refused(format!(
                "this is not a tokenizer ({problem}); give the tokenizer.json that transformers' save_pretrained writes"
            ))
        })?;
        let pad = tokenizer.get_padding().map(|padding| padding.pad_id);
        let pad = pad.or_else(|| PAD_TOKENS.iter().find_map(|token| tokenizer.token_to_id(token)));
        tokenizer.with_padding(None);
        let special = tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
        if let Some(max_length) = max_length.filter(|&max_length| max_length <= special) {
            return Err(refused(format!(
                "the maximum length is {max_length} tokens, but {special} are special tokens of every text; allow at least {}",
                special + 1
            )));
        }
        let truncation = max_length.map(|max_length| TruncationParams {
            max_length,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
            direction: TruncationDirection::Right,
        });
        tokenizer.with_truncation(truncation).map_err(|error| refused(one_line(&error.to_string())))?;
        Ok(Self { tokenizer, pad: pad.unwrap_or(0).into(), prefix: String::new() })
    }

    /// The same tokenizer with `prefix` put before every text, as e5's `query: `.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The same tokenizer with this padding token, as `tokenizer_config.json` names it; unknown tokens change nothing.
    #[must_use]
    pub fn with_pad_token(mut self, token: &str) -> Self {
        if let Some(id) = self.tokenizer.token_to_id(token) {
            self.pad = id.into();
        }
        self
    }

    /// The same tokenizer with texts in lower case, as `do_lower_case` in `sentence_bert_config.json` asks for.
    ///
    /// # Errors
    /// If the tokenizer cannot be changed.
    pub fn with_lower_case(mut self) -> Result<Self, Problem> {
        let lower = NormalizerWrapper::from(Lowercase);
        let normalizer = match self.tokenizer.get_normalizer().cloned() {
            Some(then) => NormalizerWrapper::from(Sequence::new(vec![lower, then])),
            None => lower,
        };
        let changed = self.tokenizer.with_normalizer(Some(normalizer));
        changed.map_err(|error| {
            let error = one_line(&error.to_string());
            Problem::new(format!("the tokenizer cannot put texts into lower case ({error}); give another one"))
        })?;
        Ok(self)
    }

    /// The id of the padding token.
    pub fn pad(&self) -> i64 {
        self.pad
    }

    /// The ids of these texts, in their order, padded on the right to the longest.
    ///
    /// # Errors
    /// If a text cannot be tokenized: some tokenizers have no token for unknown characters.
    pub fn batch(&self, texts: &[&str]) -> Result<Tokens, Problem> {
        let mut rows = Vec::with_capacity(texts.len());
        for &text in texts {
            let prefixed;
            let text = if self.prefix.is_empty() {
                text
            } else {
                prefixed = [&self.prefix, text].concat();
                prefixed.as_str()
            };
            // Offsets in the text are not needed, so the faster call is enough.
            rows.push(guarded(|| self.tokenizer.encode_fast(text, true)).map_err(|problem| {
                let shown: String = text.chars().take(40).collect();
                let remedy = "remove it, or use another tokenizer";
                Problem::new(format!("the text {shown:?} cannot be tokenized ({problem}); {remedy}"))
            })?);
        }
        let longest = rows.iter().map(|row| row.get_ids().len()).max().unwrap_or(0);
        let padded = |fill: i64, numbers: &dyn Fn(&tokenizers::Encoding) -> &[u32]| {
            let mut all = Vec::with_capacity(rows.len() * longest);
            for row in &rows {
                all.extend(numbers(row).iter().map(|&number| i64::from(number)));
                all.resize(all.len() + longest - row.get_ids().len(), fill);
            }
            all
        };
        Ok(Tokens {
            ids: padded(self.pad, &|row| row.get_ids()),
            mask: padded(0, &|row| row.get_attention_mask()),
            types: padded(0, &|row| row.get_type_ids()),
            shape: [rows.len(), longest],
        })
    }
}

/// Parses a tokenizer.
fn parse(bytes: &[u8]) -> Result<tokenizers::Tokenizer, String> {
    let mut json: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| one_line(&error.to_string()))?;
    // Ids are never turned back into text, and the crate panics on decoders that it does not know.
    if let Some(fields) = json.as_object_mut() {
        fields.insert("decoder".into(), serde_json::Value::Null);
    }
    guarded(|| tokenizers::Tokenizer::from_bytes(json.to_string()))
}

/// Calls the crate `tokenizers`, whose panics on inconsistent files become errors.
fn guarded<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| one_line(&error.to_string())),
        Err(_) => Err("its parts contradict each other".into()),
    }
}

/// The message of another crate on one line of bounded length, because it may quote a forged file.
fn one_line(words: &str) -> String {
    words.chars().take(200).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
