//! Arms that are ONNX models in this process: random numbers go in, images or features come out.

use std::path::{Path, PathBuf};

use modelmix::internals::random::Random;
use modelmix_encode::Image;
use modelmix_encode::runtime::{Element, Input, Model, ModelSource, Options, Output, Runtime, TensorInfo, Values};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::command::amount;
use super::{Arm, Content, Failure, FailureKind, Reply, Request, Sample};

/// The least truncation: with less, most of the draws would be discarded.
const LEAST_TRUNCATION: f64 = 0.01;
/// The maximum number of random numbers per sample.
const LARGEST_LATENT: usize = 1 << 24;

/// An ONNX model that turns standard normal numbers into samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnnxSettings {
    /// The `.onnx` file.
    pub model: PathBuf,
    /// The shape of the random input of one sample, as in `[64]`. Default: what the model states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latent: Option<Vec<usize>>,
    /// A factor of the random numbers: less than 1 gives typical samples of less diversity.
    #[serde(default = "default_scale")]
    pub scale: f64,
    /// Random numbers of a larger absolute value are drawn again, before `scale` applies. Default: none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncation: Option<f64>,
    /// What the model returns.
    #[serde(default)]
    pub output: OnnxOutput,
    /// The output of the model that is used. Default: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// The values of black and white in images.
    #[serde(default = "default_range")]
    pub range: [f32; 2],
    /// The threads per call.
    #[serde(default = "default_threads")]
    #[schemars(range(min = 1))]
    pub threads: usize,
    /// What a sample costs, in the currency of the run. Default: 0.
    #[serde(default)]
    pub price_per_sample: f64,
}

/// What an ONNX model returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnnxOutput {
    /// Images of the shape (n, channels, height, width) or (n, height, width, channels), with 1 or 3 channels.
    #[default]
    Image,
    /// One row of features per sample.
    Features,
}

fn default_scale() -> f64 {
    1.0
}

fn default_range() -> [f32; 2] {
    [0.0, 1.0]
}

fn default_threads() -> usize {
    1
}

impl OnnxSettings {
    /// The settings of a model with default values.
    pub fn new(model: impl Into<PathBuf>) -> Self {
        Self {
            model: model.into(),
            latent: None,
            scale: default_scale(),
            truncation: None,
            output: OnnxOutput::default(),
            tensor: None,
            range: default_range(),
            threads: default_threads(),
            price_per_sample: 0.0,
        }
    }
}

/// An ONNX model that generates samples.
#[derive(Debug)]
pub struct OnnxArm {
    model: Model,
    input: String,
    output: String,
    /// The shape of the input of one sample.
    latent: Vec<usize>,
    settings: OnnxSettings,
}

/// Opens the model.
///
/// # Errors
/// One sentence with the fix: a model that cannot be read, more than one input, an unknown shape, a number out of range.
pub fn open(
    settings: &OnnxSettings,
    base: &Path,
    _environment: &dyn Fn(&str) -> Option<String>,
) -> Result<OnnxArm, String> {
    check(settings)?;
    let path = base.join(&settings.model);
    let in_file = |problem: String| format!("{}: {problem}", path.display());
    if !path.is_file() {
        return Err(in_file("there is no such file; correct model".into()));
    }
    let options = Options { threads: settings.threads, ..Options::default() };
    let model = Model::open(&ModelSource::Path(path.clone()), Runtime::Rten, &options)
        .map_err(|problem| in_file(problem.to_string()))?;
    let [input] = model.inputs() else {
        let names = names(model.inputs());
        return Err(in_file(format!("it has the inputs {names}, but a generator here has one; export it again")));
    };
    if input.element != Element::Floats {
        let name = &input.name;
        return Err(in_file(format!("its input {name} does not take floats; export it with 32-bit floats")));
    }
    let latent = latent(input, settings.latent.as_deref()).map_err(in_file)?;
    let output = match &settings.tensor {
        None => model.outputs().first(),
        Some(tensor) => model.outputs().iter().find(|output| output.name == *tensor),
    };
    let output = output.map(|output| output.name.clone()).ok_or_else(|| {
        let names = names(model.outputs());
        in_file(format!("it has no output {}; choose tensor from {names}", settings.tensor.as_deref().unwrap_or("")))
    })?;
    let input = input.name.clone();
    Ok(OnnxArm { model, input, output, latent, settings: settings.clone() })
}

impl OnnxArm {
    /// The random numbers of a request: those of a sample do not depend on the number of samples after it.
    fn draw(&self, request: &Request) -> Vec<f32> {
        let mut random = Random::seeded(request.seed);
        let limit = self.settings.truncation.unwrap_or(f64::INFINITY);
        let one = || {
            loop {
                let value = random.normal();
                if value.abs() <= limit {
                    return (value * self.settings.scale) as f32;
                }
            }
        };
        std::iter::repeat_with(one).take(request.count * self.latent.iter().product::<usize>()).collect()
    }

    fn samples(&self, request: &Request) -> Result<Vec<Sample>, String> {
        let shape: Vec<usize> = std::iter::once(request.count).chain(self.latent.iter().copied()).collect();
        let latents = self.draw(request);
        let inputs = [Input { name: &self.input, shape: &shape, values: Values::Floats(&latents) }];
        let outputs = self.model.run_for(&inputs, &[&self.output]).map_err(|problem| problem.to_string())?;
        let output = outputs.into_iter().next().ok_or("it returned nothing; export it again")?;
        let count = output.shape.first().copied().unwrap_or(0);
        if count != request.count || output.values.is_empty() {
            return Err(format!(
                "it returned the shape {:?} for {} samples; export it with a free first dimension",
                output.shape, request.count
            ));
        }
        if let Some(value) = output.values.iter().find(|value| !value.is_finite()) {
            return Err(format!("it returned the value {value}; check its weights"));
        }
        match self.settings.output {
            OnnxOutput::Features => {
                let rows = output.values.chunks_exact(output.values.len() / count);
                Ok(rows.map(|row| Content::Features(row.to_vec()).into()).collect())
            }
            OnnxOutput::Image => images(&output, self.settings.range),
        }
    }
}

impl Arm for OnnxArm {
    fn reserve(&self, request: &Request) -> f64 {
        self.settings.price_per_sample * request.count as f64
    }

    fn call(&self, request: &Request) -> Result<Reply, Failure> {
        let samples = self.samples(request).map_err(|problem| {
            let message = format!("{}: {problem}", self.settings.model.display());
            Failure::permanent(FailureKind::Invalid, message)
        })?;
        Ok(Reply { cost: self.settings.price_per_sample * samples.len() as f64, samples })
    }
}

fn check(settings: &OnnxSettings) -> Result<(), String> {
    amount("price_per_sample", settings.price_per_sample)?;
    if !settings.scale.is_finite() || settings.scale <= 0.0 {
        return Err(format!("scale = {} is not a factor; give a positive number, as in 0.7", settings.scale));
    }
    if let Some(truncation) = settings.truncation.filter(|limit| limit.is_nan() || *limit < LEAST_TRUNCATION) {
        return Err(format!("truncation = {truncation} is too small; give at least {LEAST_TRUNCATION}, as in 2.0"));
    }
    let [black, white] = settings.range;
    if !(black.is_finite() && white.is_finite() && (white - black).is_normal()) {
        return Err(format!("range = [{black}, {white}] is not a range; give [0, 1] or [-1, 1]"));
    }
    if settings.threads == 0 {
        return Err("threads = 0 is not possible; give at least 1".into());
    }
    Ok(())
}

fn names(tensors: &[TensorInfo]) -> String {
    tensors.iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The shape of the input of one sample: what the model states, completed by the settings.
fn latent(input: &TensorInfo, given: Option<&[usize]>) -> Result<Vec<usize>, String> {
    let stated = input.shape.get(1..).unwrap_or_default();
    let latent: Option<Vec<usize>> = match given {
        Some(given) => Some(given.to_vec()),
        None => stated.iter().copied().collect(),
    };
    let Some(latent) = latent.filter(|latent| !latent.is_empty() || given.is_some()) else {
        let name = &input.name;
        return Err(format!("it does not state the shape of its input {name}; give it, as in latent = [64]"));
    };
    let is_stated = |(size, stated): (&usize, &Option<usize>)| stated.is_none_or(|stated| *size == stated);
    let fits = latent.len() == stated.len() && latent.iter().zip(stated).all(is_stated);
    if !input.shape.is_empty() && !fits {
        let sizes: Vec<String> =
            stated.iter().map(|size| size.map_or_else(|| "any".into(), |size| size.to_string())).collect();
        let name = &input.name;
        return Err(format!("latent = {latent:?} does not fit: its input {name} takes [n, {}]", sizes.join(", ")));
    }
    let count = latent.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
    match count {
        Some(1..=LARGEST_LATENT) => Ok(latent),
        _ => Err(format!("latent = {latent:?} is not a shape of 1 to {LARGEST_LATENT} numbers; correct it")),
    }
}

/// The images in an output.
fn images(output: &Output, range: [f32; 2]) -> Result<Vec<Sample>, String> {
    let unusable = || {
        let shape = &output.shape;
        format!(
            "it returned the shape {shape:?}, which is no image of 1 or 3 channels; set output = \"features\" for features"
        )
    };
    // The position of a value in an image is row × the first stride + column × the second + channel × the third.
    let (height, width, channels, strides) = match output.shape[..] {
        [_, channels @ (1 | 3), height, width] => (height, width, channels, [width, 1, height * width]),
        [_, height, width, channels @ (1 | 3)] => (height, width, channels, [width * channels, channels, 1]),
        _ => return Err(unusable()),
    };
    let image = |values: &[f32]| {
        let at = |row: usize, column: usize, channel: usize| {
            // Grey values are those of all three channels.
            let channel = if channels == 1 { 0 } else { channel };
            level(values[row * strides[0] + column * strides[1] + channel * strides[2]], range)
        };
        let pixels = (0..height)
            .flat_map(|row| (0..width).flat_map(move |column| (0..3).map(move |channel| (row, column, channel))))
            .map(|(row, column, channel)| at(row, column, channel));
        Image::new(width, height, pixels.collect()).map_err(|problem| problem.to_string())
    };
    let size = height * width * channels;
    output.values.chunks_exact(size).map(|values| Ok(Content::Pixels(image(values)?).into())).collect()
}

/// The nearest of 256 levels, ties to even, as `numpy.rint` rounds.
fn level(value: f32, [black, white]: [f32; 2]) -> u8 {
    // A float is cast to the nearest value of the range of bytes.
    (255.0 * ((value - black) / (white - black))).round_ties_even() as u8
}

#[cfg(test)]
mod tests {
    use super::{Content, Output, images, level};

    #[test]
    fn levels_are_rounded_as_numpy_does() {
        // numpy.rint(255 * x) in float32, clipped; and numpy.rint(255 * ((2 * x - 1) + 1) / 2), in which two ties are lost.
        let cases = [
            (0.0, 0, 0),
            (1.0, 255, 255),
            (0.5, 128, 128),
            (0.1, 26, 25),
            (0.3, 76, 76),
            (0.9, 230, 230),
            (-3.0, 0, 0),
            (7.0, 255, 255),
            (2.5 / 255.0, 2, 2),
            (3.5 / 255.0, 4, 3),
        ];
        for (value, expected, shifted) in cases {
            assert_eq!(level(value, [0.0, 1.0]), expected, "{value}");
            assert_eq!(level(2.0 * value - 1.0, [-1.0, 1.0]), shifted, "{value} from -1 to 1");
        }
    }

    #[test]
    fn both_layouts_give_the_same_pixels() {
        // Two images of 2 × 2 pixels, whose values are those of their bytes: image, row, column, channel.
        let value = |image: usize, row: usize, column: usize, channel: usize| {
            (100 * image + 20 * row + 10 * column + channel) as f32 / 255.0
        };
        let indices = |first: usize, second: usize, third: usize| {
            let all = (0..2).flat_map(move |image| (0..first).map(move |a| (image, a)));
            let all = all.flat_map(move |(image, a)| (0..second).map(move |b| (image, a, b)));
            all.flat_map(move |(image, a, b)| (0..third).map(move |c| (image, a, b, c)))
        };
        let planar = indices(3, 2, 2).map(|(image, channel, row, column)| value(image, row, column, channel)).collect();
        let interleaved =
            indices(2, 2, 3).map(|(image, row, column, channel)| value(image, row, column, channel)).collect();
        let read = |shape: [usize; 4], values: Vec<f32>| {
            images(&Output { name: "image".into(), shape: shape.to_vec(), values }, [0.0, 1.0])
        };
        let planar = read([2, 3, 2, 2], planar);
        assert_eq!(planar, read([2, 2, 2, 3], interleaved));
        let pixels = planar.map(|samples| match &samples[1].content {
            Content::Pixels(image) => image.pixels().to_vec(),
            _ => Vec::new(),
        });
        assert_eq!(pixels, Ok(vec![100, 101, 102, 110, 111, 112, 120, 121, 122, 130, 131, 132]));
        assert!(read([2, 6, 2, 1], vec![0.0; 24]).is_ok(), "2 images of 6 × 2 grey pixels");
        assert!(read([2, 2, 2, 2], vec![0.0; 16]).is_err_and(|problem| problem.contains("features")));
    }
}
