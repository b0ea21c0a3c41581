//! An encoder with its weights: images or texts → features.

mod open;
mod run;

pub use open::{EncoderSettings, open};
pub use run::{Encoded, OnError, RunSettings, Skipped, encode};

use modelmix::Encoding;

use crate::decode::Limits;
use crate::encoders::Output;
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
    Images { preprocessing: Preprocessing, size: TensorSize, input: String },
    Texts { tokenizer: Box<Tokenizer>, inputs: Vec<String> },
}

/// The size of the tensors of images.
#[derive(Clone, Copy, Debug)]
enum TensorSize {
    /// Every image becomes a tensor of these channels, height and width.
    Fixed([usize; 3]),
    /// The size depends on the image. This one is used to run the network once.
    Free([usize; 3]),
}

impl TensorSize {
    /// The number of values per image, if it is known.
    fn values(self) -> Option<usize> {
        match self {
            Self::Fixed(shape) => Some(shape.iter().product()),
            Self::Free(_) => None,
        }
    }
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

    /// The name of its cache: the fingerprint, and the runtime, since features of two runtimes differ in the last digits.
    pub fn cache_name(&self) -> String {
        let runtime: String =
            self.model.describe().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        format!("{}-{runtime}", self.encoding.fingerprint)
    }

    /// The number of samples that a thread takes at a time. Tensors of any size may be large, so a thread holds one of them.
    pub(crate) fn batch(&self) -> usize {
        match &self.content {
            Content::Images { size: TensorSize::Free(_), .. } => 1,
            _ if self.is_on_gpu => SAMPLES_PER_GPU_BATCH,
            _ => SAMPLES_PER_BATCH,
        }
    }

    /// The number of samples that the network takes at a time. On a processor it is one: a core is busy with it, texts need no
    /// padding, and features do not depend on the samples beside them, not even in the last digit.
    fn network_batch(&self, samples: usize) -> usize {
        if self.is_on_gpu { samples.max(1) } else { 1 }
    }

    /// An empty batch for at most `capacity` samples.
    pub(crate) fn prepared(&self, capacity: usize) -> Prepared<'_, '_> {
        match &self.content {
            Content::Images { size, .. } => {
                let values = Vec::with_capacity(capacity * size.values().unwrap_or(0));
                Prepared::Images { encoder: self, values, shapes: Vec::with_capacity(capacity) }
            }
            Content::Texts { .. } => Prepared::Texts { encoder: self, texts: Vec::with_capacity(capacity) },
        }
    }

    /// The features of preprocessed images: tensors of channels × height × width.
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

    /// The features of texts.
    ///
    /// # Errors
    /// If a text has no tokens, or the network fails.
    fn encode_texts(&self, tokenizer: &Tokenizer, inputs: &[String], texts: &[&str]) -> Result<Vec<f32>, Problem> {
        let tokens = tokenizer.batch(texts)?;
        let outputs = self.run_tokens(inputs, &tokens)?;
        self.checked(self.pooled(outputs, Some(&tokens.mask))?, texts.len())
    }

    /// The outputs to compute: the one with the features, or the first.
    fn outputs(&self) -> Vec<&str> {
        let first = || self.model.outputs().first().map(|output| output.name.as_str());
        self.output.tensor.as_deref().or_else(first).into_iter().collect()
    }

    /// The number of features per sample, found by running the network once.
    fn probe(&self) -> Result<usize, Problem> {
        let (outputs, mask) = match &self.content {
            Content::Images { size, input, .. } => {
                let (TensorSize::Fixed([channels, height, width]) | TensorSize::Free([channels, height, width])) =
                    *size;
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
    /// Tensors one after the other, with the shape of each.
    Images {
        encoder: &'e Encoder,
        values: Vec<f32>,
        shapes: Vec<[usize; 3]>,
    },
    Texts {
        encoder: &'e Encoder,
        texts: Vec<&'s str>,
    },
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
            (Prepared::Texts { texts, .. }, Raw::Text(text)) => {
                texts.push(text);
                Ok(())
            }
            _ => Err(wrong_kind()),
        }
    }

    /// The features of the batch.
    pub(crate) fn encode(self) -> Result<Vec<f32>, Problem> {
        match self {
            Prepared::Images { encoder, values, shapes } => match &encoder.content {
                Content::Images { input, .. } => {
                    let (mut rest, mut features) = (values.as_slice(), Vec::new());
                    for equal in shapes.chunk_by(|one, next| one == next) {
                        for part in equal.chunks(encoder.network_batch(equal.len())) {
                            let shape = part[0];
                            let (tensors, others) = rest.split_at(part.len() * shape.iter().product::<usize>());
                            features.extend(encoder.encode_images(input, tensors, shape)?);
                            rest = others;
                        }
                    }
                    Ok(features)
                }
                Content::Texts { .. } => Err(wrong_kind()),
            },
            Prepared::Texts { encoder, texts } => match &encoder.content {
                Content::Texts { tokenizer, inputs } => {
                    let parts = texts.chunks(encoder.network_batch(texts.len()));
                    let encoded = parts.map(|part| encoder.encode_texts(tokenizer, inputs, part));
                    Ok(encoded.collect::<Result<Vec<_>, _>>()?.concat())
                }
                Content::Images { .. } => Err(wrong_kind()),
            },
        }
    }
}

fn wrong_kind() -> Problem {
    Problem::new("the encoder does not take such samples; choose an encoder of images for images, of texts for texts")
}
