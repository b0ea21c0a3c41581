//! ONNX models run by rten, which is built in, or by an installed onnxruntime: one interface for both.
//! Inputs are checked here, and models with a fixed batch size are run as often as the samples need.

mod batches;
mod library;
mod onnxruntime;
mod rten;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::problem::Problem;

/// The program that executes models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// rten, which is built in and runs on processors only.
    #[default]
    Rten,
    /// An installed onnxruntime, on processors or GPUs.
    OnnxRuntime,
}

impl Runtime {
    /// Every runtime.
    pub const ALL: [Self; 2] = [Self::Rten, Self::OnnxRuntime];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rten => "rten",
            Self::OnnxRuntime => "onnxruntime",
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Runtime {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        Self::ALL
            .into_iter()
            .find(|runtime| runtime.name() == text)
            .ok_or_else(|| Problem::new(format!("\"{text}\" is not a runtime; use rten or onnxruntime")))
    }
}

/// What a model runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// The NVIDIA GPU with this number, counted from 0.
    Cuda(u16),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl FromStr for Device {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        match text {
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(0)),
            _ => text.strip_prefix("cuda:").and_then(|number| number.parse().ok()).map(Self::Cuda),
        }
        .ok_or_else(|| Problem::new(format!("\"{text}\" is not a device; use cpu, cuda, or cuda:1 for the second GPU")))
    }
}

/// How a model is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The number of threads; 0 for one per core.
    pub threads: usize,
    /// What it runs on.
    pub device: Device,
    /// The library of onnxruntime, or a folder that holds it. If `None`, it is looked for.
    pub library: Option<PathBuf>,
}

impl Options {
    fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }
}

/// Where a model comes from.
#[derive(Clone, Debug)]
pub enum ModelSource {
    /// An `.onnx` file. Data files that it names lie beside it.
    Path(PathBuf),
    /// The content of an `.onnx` file without data files.
    Bytes(Vec<u8>),
}

/// The type of the elements of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// Floats of 16, 32 or 64 bits; they are converted from and to 32 bits.
    Floats,
    /// Integers of 32 or 64 bits; they are converted from 64 bits.
    Integers,
    /// A type that cannot be passed or received, by name.
    Other(String),
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// The sizes of its dimensions; `None` for one that may differ from run to run. Empty if the model does not say.
    pub shape: Vec<Option<usize>>,
    /// The type of its elements.
    pub element: Element,
}

/// The elements of an input, in row-major order.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Pixels, or other floats.
    Floats(&'a [f32]),
    /// Tokens and masks.
    Integers(&'a [i64]),
}

impl Values<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Integers(values) => values.len(),
        }
    }
}

/// An input of one run.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The name of the model's input.
    pub name: &'a str,
    /// The sizes of its dimensions; the first is the number of samples.
    pub shape: &'a [usize],
    /// Its elements.
    pub values: Values<'a>,
}

/// An output of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The name of the model's output.
    pub name: String,
    /// The sizes of its dimensions.
    pub shape: Vec<usize>,
    /// Its elements in row-major order, converted to 32-bit floats.
    pub values: Vec<f32>,
}

/// A program that can run one model.
trait Session: Send + Sync {
    /// The outputs with these names, in this order. Inputs fit the model.
    fn run(&self, inputs: &[Input<'_>], outputs: &[&str]) -> Result<Vec<Output>, Problem>;

    /// The runtime, its version and the device.
    fn describe(&self) -> String;
}

/// A model that is ready to run. Threads can share it.
pub struct Model {
    session: Box<dyn Session>,
    inputs: Vec<TensorInfo>,
    outputs: Vec<TensorInfo>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("session", &self.session.describe())
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish()
    }
}

impl Model {
    /// Opens a model.
    ///
    /// # Errors
    /// If the model is damaged or needs what the runtime lacks, or if onnxruntime is not installed.
    pub fn open(source: &ModelSource, runtime: Runtime, options: &Options) -> Result<Self, Problem> {
        let (session, inputs, outputs) = match runtime {
            Runtime::Rten => rten::open(source, options)?,
            Runtime::OnnxRuntime => onnxruntime::open(source, options)?,
        };
        if let Some(info) = inputs.iter().chain(&outputs).find(|info| info.shape.contains(&Some(0))) {
            return Err(Problem::new(format!(
                "its tensor {} has a dimension of size 0, so it cannot take samples; export the model again",
                info.name
            )));
        }
        Ok(Self { session, inputs, outputs })
    }

    /// The inputs, in the model's order.
    pub fn inputs(&self) -> &[TensorInfo] {
        &self.inputs
    }

    /// The outputs, in the model's order.
    pub fn outputs(&self) -> &[TensorInfo] {
        &self.outputs
    }

    /// The runtime, its version and the device, as in "rten 0.27.0 on cpu".
    pub fn describe(&self) -> String {
        self.session.describe()
    }

    /// The number of samples that one run of the model takes, if the model fixes it.
    ///
    /// [`Model::run`] takes any number of samples nevertheless; multiples of this one are the fastest.
    pub fn fixed_batch(&self) -> Option<usize> {
        self.inputs.iter().find_map(|input| input.shape.first().copied().flatten())
    }

    /// Runs the model and returns all of its outputs.
    ///
    /// # Errors
    /// If the inputs do not fit the model, or an operator fails.
    pub fn run(&self, inputs: &[Input<'_>]) -> Result<Vec<Output>, Problem> {
        let outputs: Vec<&str> = self.outputs.iter().map(|output| output.name.as_str()).collect();
        self.run_for(inputs, &outputs)
    }

    /// Runs the model and returns the outputs with these names, in this order. What only other outputs need is not
    /// computed by rten.
    ///
    /// # Errors
    /// If the model has no such output, the inputs do not fit the model, or an operator fails.
    pub fn run_for(&self, inputs: &[Input<'_>], outputs: &[&str]) -> Result<Vec<Output>, Problem> {
        for output in outputs {
            if !self.outputs.iter().any(|known| known.name == *output) {
                return Err(Problem::new(format!(
                    "the model has no output {output}; its outputs are {}",
                    names(&self.outputs)
                )));
            }
        }
        for input in inputs {
            self.check(input)?;
        }
        for expected in &self.inputs {
            if !inputs.iter().any(|input| input.name == expected.name) {
                let given = inputs.iter().map(|input| input.name).collect::<Vec<_>>().join(", ");
                return Err(Problem::new(format!(
                    "the model needs the input {}, but only {given} were given; name the model's inputs in the encoder's settings",
                    expected.name
                )));
            }
        }
        match self.fixed_batch() {
            Some(batch) => batches::run(&*self.session, &self.inputs, inputs, outputs, batch),
            None => self.session.run(inputs, outputs),
        }
    }

    /// Whether an input fits the model, except for its number of samples.
    fn check(&self, input: &Input<'_>) -> Result<(), Problem> {
        let Some(expected) = self.inputs.iter().find(|known| known.name == input.name) else {
            let known = names(&self.inputs);
            return Err(Problem::new(format!("the model has no input {}; its inputs are {known}", input.name)));
        };
        let count = input.shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
        if count != Some(input.values.len()) || input.values.len() == 0 {
            return Err(Problem::new(format!(
                "the input {} has {} elements, which do not fill the shape {:?}",
                input.name,
                input.values.len(),
                input.shape
            )));
        }
        let fits = expected.shape.is_empty()
            || (expected.shape.len() == input.shape.len()
                && expected
                    .shape
                    .iter()
                    .zip(input.shape)
                    .skip(1)
                    .all(|(fixed, &size)| fixed.is_none_or(|fixed| fixed == size)));
        if !fits {
            return Err(Problem::new(format!(
                "the model's input {} has shape {}, but {:?} was given; choose the preprocessing that the model was exported for",
                input.name,
                shape(&expected.shape),
                input.shape
            )));
        }
        match (&expected.element, input.values) {
            (Element::Floats, Values::Floats(_)) | (Element::Integers, Values::Integers(_)) => Ok(()),
            (Element::Other(element), _) => Err(Problem::new(format!(
                "the model's input {} takes elements of type {element}; export it with 32-bit floats",
                input.name
            ))),
            (Element::Floats, _) => Err(Problem::new(format!(
                "the model's input {} takes floats, but integers were given; the model may be one for images",
                input.name
            ))),
            (Element::Integers, _) => Err(Problem::new(format!(
                "the model's input {} takes integers, but floats were given; the model may be one for texts",
                input.name
            ))),
        }
    }
}

fn names(tensors: &[TensorInfo]) -> String {
    tensors.iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// A shape as text: "[n, 3, 224, 224]".
fn shape(sizes: &[Option<usize>]) -> String {
    let sizes: Vec<String> =
        sizes.iter().map(|size| size.map_or_else(|| "n".to_owned(), |size| size.to_string())).collect();
    format!("[{}]", sizes.join(", "))
}

/// The first line of another program's message, without its full stop and not too long: part of a sentence.
fn first_line(message: &str) -> String {
    const LONGEST: usize = 400;
    let line = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given");
    let line = line.trim_end_matches('.');
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// What opening a model gives: a session, the inputs and the outputs.
type Opened = (Box<dyn Session>, Vec<TensorInfo>, Vec<TensorInfo>);
