//! From the tensor that a model returns to one feature vector per sample: which vector is taken, and its length.
//! Running the model is the runtime's part.

use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// The smallest norm that vectors are divided by, as in torch's `normalize`, so that a zero vector stays zero.
const SMALLEST_NORM: f32 = 1e-12;

/// How one vector per sample is made of the vectors of its tokens or patches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// The tensor has one vector per sample already: shape `[n, d]`, or `[n, d, 1, 1]`.
    #[default]
    Tensor,
    /// The vector of the first token or patch, the class token: shape `[n, t, d]`.
    Cls,
    /// The mean over tokens that are not padding: shape `[n, t, d]`.
    Mean,
}

/// Which output of a model is the feature, and what is done to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The name of the output tensor; `None` for the only one, or the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// How the vectors of tokens or patches become one.
    #[serde(default)]
    pub pooling: Pooling,
    /// Whether vectors are divided by their Euclidean norm.
    #[serde(default)]
    pub normalise: bool,
}

impl Output {
    /// The features of a tensor: `n × d` values in row-major order, and d. `mask` has one value per sample and token: 0
    /// for padding. Without a mask, every token counts.
    ///
    /// # Errors
    /// If the shape is not that of the pooling, does not match the number of values or the mask, or a sample has no
    /// token that counts.
    pub fn features(
        &self,
        shape: &[usize],
        values: Vec<f32>,
        mask: Option<&[i64]>,
    ) -> Result<(Vec<f32>, usize), Problem> {
        let count = shape.iter().try_fold(1_usize, |product, &side| product.checked_mul(side));
        if count != Some(values.len()) {
            let found = values.len();
            return Err(Problem::new(format!(
                "an output of shape {shape:?} has {found} values; export the model again"
            )));
        }
        let (mut features, width) = match (self.pooling, shape) {
            (Pooling::Tensor, &[_, width] | &[_, width, 1, 1]) => (values, width),
            (Pooling::Cls, &[_, tokens, width]) if tokens > 0 => (cls(&values, tokens, width), width),
            (Pooling::Mean, &[samples, tokens, width]) => (mean(&values, [samples, tokens, width], mask)?, width),
            _ => return Err(self.unfit(shape)),
        };
        if width == 0 {
            return Err(Problem::new("the output has vectors of length 0; choose another output tensor"));
        }
        if self.normalise {
            features.chunks_exact_mut(width).for_each(normalise);
        }
        Ok((features, width))
    }

    /// The problem that a tensor of this shape cannot be pooled as chosen.
    fn unfit(&self, shape: &[usize]) -> Problem {
        let (pooling, wanted) = match self.pooling {
            Pooling::Tensor => ("tensor", "[samples, width]"),
            Pooling::Cls => ("cls", "[samples, tokens, width]"),
            Pooling::Mean => ("mean", "[samples, tokens, width]"),
        };
        let other = match shape.len() {
            2 => "; use pooling tensor",
            3 => "; use pooling cls or mean",
            _ => "; choose another output tensor",
        };
        Problem::new(format!("pooling {pooling} needs an output of shape {wanted}, but it has shape {shape:?}{other}"))
    }
}

/// The vector of the first token of each sample.
fn cls(values: &[f32], tokens: usize, width: usize) -> Vec<f32> {
    // Rows of width 0 have no chunks; the caller refuses them.
    let samples = values.chunks_exact((tokens * width).max(1));
    samples.flat_map(|sample| &sample[..width]).copied().collect()
}

/// The mean over the tokens of each sample whose mask is not 0, summed in double precision.
fn mean(values: &[f32], [samples, tokens, width]: [usize; 3], mask: Option<&[i64]>) -> Result<Vec<f32>, Problem> {
    if let Some(mask) = mask.filter(|mask| mask.len() != samples * tokens) {
        return Err(Problem::new(format!(
            "the model returned {tokens} vectors for each of {samples} texts, but the texts have {} tokens in all; choose an output with one vector per token",
            mask.len()
        )));
    }
    let mut features = Vec::with_capacity(samples * width);
    let mut sum = vec![0.0_f64; width];
    for sample in 0..samples {
        sum.fill(0.0);
        let mut counted = 0_usize;
        for token in 0..tokens {
            let at = sample * tokens + token;
            if mask.is_none_or(|mask| mask[at] != 0) {
                counted += 1;
                let vector = &values[at * width..(at + 1) * width];
                sum.iter_mut().zip(vector).for_each(|(sum, &value)| *sum += f64::from(value));
            }
        }
        if counted == 0 {
            let problem = "a text has no tokens; remove it, or use a tokenizer that adds special tokens";
            return Err(Problem::new(problem));
        }
        features.extend(sum.iter().map(|sum| (sum / counted as f64) as f32));
    }
    Ok(features)
}

/// Divides a vector by its Euclidean norm, which is at least 10⁻¹².
pub fn normalise(vector: &mut [f32]) {
    let squares: f64 = vector.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
    let norm = (squares.sqrt() as f32).max(SMALLEST_NORM);
    vector.iter_mut().for_each(|value| *value /= norm);
}
