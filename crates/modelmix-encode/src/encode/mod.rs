//! An encoder with its weights: images or texts → features.

mod open;
mod run;

pub use open::{EncoderSettings, open};
pub use run::{Encoded, OnError, RunSettings, Skipped, encode};

use modelmix::Encoding;

use crate::decode::{self, Limits};
use crate::encoders::Output;
use crate::image::Image;
use crate::preprocess::Preprocessing;
use crate::problem::Problem;
use crate::resize::Workspace;
use crate::runtime::{Input, Model, Output as TensorOutput, Values};
use crate::samples::{AnyRaw as Raw, SampleKind};
use crate::tokens::{Tokenizer, Tokens};

/// Samples that a thread takes at a time.
const SAMPLES_PER_BATCH: usize = 8;
/// Samples that a GPU takes at a time.
const SAMPLES_PER_GPU_BATCH: usize = 64;

/// The number of changes to what features are computed from: decoding, resizing, tokens. It is part of the name of caches, so
/// that no release reads features that another one would compute differently. Change it together with golden values.
pub const PIPELINE_REVISION: u32 = 1;

/// An encoder that is ready to run.
#[derive(Debug)]
pub struct Encoder {
    encoding: Encoding,
    width: usize,
    model: Model,
    output: Output,
    content: Content,
    is_on_gpu: bool,
}

#[derive(Debug)]
enum Content {
    Images {
        preprocessing: Preprocessing,
        /// The shape of the tensor that the network is first run on.
        probed: [usize; 3],
        input: String,
    },
    Texts {
        tokenizer: Box<Tokenizer>,
        inputs: Vec<String>,
    },
}

impl Encoder {
    /// What it is, as files of features state it.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// The number of features per sample.
    pub fn width(&self) -> usize {
        self.width
    }

    /// What it takes.
    pub fn kind(&self) -> SampleKind {
        match self.content {
            Content::Images { .. } => SampleKind::Images,
            Content::Texts { .. } => SampleKind::Texts,
        }
    }

    /// The preprocessing of images; `None` for an encoder of texts.
    pub fn preprocessing(&self) -> Option<&Preprocessing> {
        match &self.content {
            Content::Images { preprocessing, .. } => Some(preprocessing),
            Content::Texts { .. } => None,
        }
    }

    /// The name of its cache: the fingerprint, the runtime, since features of two runtimes differ in the last digits, and the
    /// [`PIPELINE_REVISION`].
    pub fn cache_name(&self) -> String {
        let runtime: String =
            self.model.describe().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        format!("{}-{runtime}-{PIPELINE_REVISION}", self.encoding.fingerprint)
    }

    /// The features of one image file or text file, read from memory. For many samples, [`encode`] is faster.
    ///
    /// # Errors
    /// If the bytes are not an image, or not UTF-8 for an encoder of texts, or if the network fails or returns features that are
    /// not finite.
    pub fn encode_file(&self, bytes: &[u8]) -> Result<Vec<f32>, Problem> {
        match self.kind() {
            SampleKind::Images => self.encode_image(&decode::decode(bytes, &Limits::default())?),
            SampleKind::Texts => match std::str::from_utf8(bytes) {
                Ok(text) => self.encode_text(text),
                Err(_) => {
                    Err(Problem::new("the sample is not a text in UTF-8; choose an encoder of images for images"))
                }
            },
        }
    }

    /// The features of one image.
    ///
    /// # Errors
    /// If the encoder takes texts, or if the network fails or returns features that are not finite.
    pub fn encode_image(&self, image: &Image) -> Result<Vec<f32>, Problem> {
        let Content::Images { preprocessing, input, .. } = &self.content else { return Err(wrong_kind()) };
        let shape = preprocessing.shape_of(image.width(), image.height())?;
        let mut values = vec![0.0; shape.iter().product()];
        preprocessing.apply_with(image, &mut values, &mut Workspace::default())?;
        self.finite(self.encode_images(input, &values, shape)?)
    }

    /// The features of one text.
    ///
    /// # Errors
    /// If the encoder takes images, or if the text has no tokens, or if the network fails or returns features that are not finite.
    pub fn encode_text(&self, text: &str) -> Result<Vec<f32>, Problem> {
        let Content::Texts { tokenizer, inputs } = &self.content else { return Err(wrong_kind()) };
        self.finite(self.encode_tokens(inputs, &tokens_of(tokenizer, text)?)?)
    }

    /// The features, if they are finite.
    fn finite(&self, features: Vec<f32>) -> Result<Vec<f32>, Problem> {
        match features.iter().all(|value| value.is_finite()) {
            true => Ok(features),
            false => Err(Problem::new("the encoder returns features that are not finite; check its weights")),
        }
    }

    /// The number of samples that a thread takes at a time, out of this many samples. Small sets are divided among all threads.
    pub(crate) fn batch(&self, samples: usize, threads: usize) -> usize {
        if self.is_on_gpu { SAMPLES_PER_GPU_BATCH } else { (samples / (4 * threads)).clamp(1, SAMPLES_PER_BATCH) }
    }

    /// The number of samples that the network takes at a time. On a processor it is one: a core is busy with it, texts need no
    /// padding, and features do not depend on the samples beside them, not even in the last digit.
    fn network_batch(&self, samples: usize) -> usize {
        if self.is_on_gpu { samples.max(1) } else { 1 }
    }

    /// An empty batch for at most `capacity` samples.
    pub(crate) fn prepared(&self, capacity: usize) -> Prepared<'_, '_> {
        match &self.content {
            Content::Images { probed, .. } => {
                // Most preprocessings make tensors of one size.
                let values = Vec::with_capacity(capacity * probed.iter().product::<usize>());
                Prepared::Images { encoder: self, values, shapes: Vec::with_capacity(capacity) }
            }
            Content::Texts { .. } => Prepared::Texts { encoder: self, texts: Vec::with_capacity(capacity) },
        }
    }

    /// The features of preprocessed images: tensors of the same channels × height × width.
    ///
    /// # Errors
    /// If the network fails.
    fn encode_images(&self, input: &str, values: &[f32], shape: [usize; 3]) -> Result<Vec<f32>, Problem> {
        let [channels, height, width] = shape;
        let count = values.len() / (channels * height * width);
        let shape = [count, channels, height, width];
        let inputs = [Input { name: input, shape: &shape, values: Values::Floats(values) }];
        self.checked(self.pooled(self.model.run_for(&inputs, &self.outputs())?, None)?, count)
    }

    /// The features of tokens.
    ///
    /// # Errors
    /// If the network fails.
    fn encode_tokens(&self, inputs: &[String], tokens: &Tokens) -> Result<Vec<f32>, Problem> {
        let outputs = self.run_tokens(inputs, tokens)?;
        self.checked(self.pooled(outputs, Some(&tokens.mask))?, tokens.shape[0])
    }

    /// The outputs to compute: the one with the features, or the first.
    fn outputs(&self) -> Vec<&str> {
        let first = || self.model.outputs().first().map(|output| output.name.as_str());
        self.output.tensor.as_deref().or_else(first).into_iter().collect()
    }

    /// The number of features per sample, found by running the network once.
    fn probe(&self) -> Result<usize, Problem> {
        let (outputs, mask) = match &self.content {
            &Content::Images { probed: [channels, height, width], ref input, .. } => {
                let (shape, values) = ([1, channels, height, width], vec![0.0; channels * height * width]);
                let inputs = [Input { name: input, shape: &shape, values: Values::Floats(&values) }];
                (self.model.run_for(&inputs, &self.outputs())?, None)
            }
            Content::Texts { tokenizer, inputs } => {
                let tokens = tokenizer.batch(&["a"])?;
                (self.run_tokens(inputs, &tokens)?, Some(tokens.mask))
            }
        };
        Ok(self.pooled(outputs, mask.as_deref())?.1)
    }

    /// The chosen output of tokens.
    fn run_tokens(&self, inputs: &[String], tokens: &Tokens) -> Result<Vec<TensorOutput>, Problem> {
        let named = inputs.iter().map(|name| {
            let values = match name.as_str() {
                "attention_mask" => &tokens.mask,
                "token_type_ids" => &tokens.types,
                _ => &tokens.ids,
            };
            Input { name, shape: &tokens.shape, values: Values::Integers(values) }
        });
        self.model.run_for(&named.collect::<Vec<_>>(), &self.outputs())
    }

    /// The rows of the output with the features, and their width.
    fn pooled(&self, outputs: Vec<TensorOutput>, mask: Option<&[i64]>) -> Result<(Vec<f32>, usize), Problem> {
        let Some(found) = outputs.into_iter().next() else {
            return Err(Problem::new("the network did not return the output with the features; export it again"));
        };
        self.output.features(&found.shape, found.values, mask)
    }

    /// Rows of the expected number and width.
    fn checked(&self, (rows, width): (Vec<f32>, usize), count: usize) -> Result<Vec<f32>, Problem> {
        if width != self.width || rows.len() != count * width {
            return Err(Problem::new(format!(
                "the network returned {} values with {width} per sample, but {count} samples of {} were expected; export it again",
                rows.len(),
                self.width
            )));
        }
        Ok(rows)
    }
}

/// A batch that is being prepared.
pub(crate) enum Prepared<'e, 's> {
    /// The tensors of images, one after the other, and the shape of each.
    Images { encoder: &'e Encoder, values: Vec<f32>, shapes: Vec<[usize; 3]> },
    /// Texts and their tokens.
    Texts { encoder: &'e Encoder, texts: Vec<(&'s str, Tokens)> },
}

impl<'s> Prepared<'_, 's> {
    /// Decodes and preprocesses a sample. A sample that fails leaves the batch as it was.
    pub(crate) fn add(&mut self, raw: &Raw<'s>, workspace: &mut Workspace) -> Result<(), Problem> {
        match (self, raw) {
            (Prepared::Images { encoder, values, shapes }, Raw::Image(raw)) => {
                let Content::Images { preprocessing, .. } = &encoder.content else { return Err(wrong_kind()) };
                let image = raw.image(&Limits::default())?;
                let shape = preprocessing.shape_of(image.width(), image.height())?;
                let start = values.len();
                values.resize(start + shape.iter().product::<usize>(), 0.0);
                if let Err(problem) = preprocessing.apply_with(&image, &mut values[start..], workspace) {
                    values.truncate(start);
                    return Err(problem);
                }
                shapes.push(shape);
                Ok(())
            }
            (Prepared::Texts { encoder, texts }, Raw::Text(text)) => {
                let Content::Texts { tokenizer, .. } = &encoder.content else { return Err(wrong_kind()) };
                texts.push((text, tokens_of(tokenizer, text)?));
                Ok(())
            }
            _ => Err(wrong_kind()),
        }
    }

    /// The features of the batch.
    pub(crate) fn encode(self) -> Result<Vec<f32>, Problem> {
        match self {
            Prepared::Images { encoder, values, shapes } => {
                let Content::Images { input, .. } = &encoder.content else { return Err(wrong_kind()) };
                let (mut rows, mut rest) = (Vec::with_capacity(shapes.len() * encoder.width), values.as_slice());
                for same in shapes.chunk_by(|one, other| one == other) {
                    for part in same.chunks(encoder.network_batch(same.len())) {
                        let (tensors, after) = rest.split_at(part.len() * part[0].iter().product::<usize>());
                        rows.append(&mut encoder.encode_images(input, tensors, part[0])?);
                        rest = after;
                    }
                }
                Ok(rows)
            }
            Prepared::Texts { encoder, texts } => {
                let Content::Texts { tokenizer, inputs } = &encoder.content else { return Err(wrong_kind()) };
                let mut rows = Vec::with_capacity(texts.len() * encoder.width);
                for part in texts.chunks(encoder.network_batch(texts.len())) {
                    let mut encoded = match part {
                        [(_, tokens)] => encoder.encode_tokens(inputs, tokens)?,
                        // Several texts are padded to the longest.
                        several => {
                            let texts: Vec<&str> = several.iter().map(|(text, _)| *text).collect();
                            encoder.encode_tokens(inputs, &tokenizer.batch(&texts)?)?
                        }
                    };
                    rows.append(&mut encoded);
                }
                Ok(rows)
            }
        }
    }
}

/// The tokens of one text; at least one.
fn tokens_of(tokenizer: &Tokenizer, text: &str) -> Result<Tokens, Problem> {
    let tokens = tokenizer.batch(&[text])?;
    match tokens.ids.is_empty() {
        true => Err(Problem::new("the text has no tokens; remove it, or use a tokenizer that adds special tokens")),
        false => Ok(tokens),
    }
}

fn wrong_kind() -> Problem {
    Problem::new("the encoder does not take such samples; choose an encoder of images for images, of texts for texts")
}
