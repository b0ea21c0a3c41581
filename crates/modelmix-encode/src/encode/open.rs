//! Opens an encoder: finds its weights, chooses preprocessing and output, and states its fingerprint.

use std::path::{Path, PathBuf};

use modelmix::{Encoding, Error, Result};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Content, Encoder};
use crate::encoders::{self, EncoderFile, Kind, Output, Preset, SentenceSettings};
use crate::inception;
use crate::onnx::external;
use crate::preprocess::Preprocessing;
use crate::problem::Problem;
use crate::runtime::{Device, Element, Model, ModelSource, Options, Runtime};
use crate::tokens::Tokenizer;
use crate::torch_file;
use crate::weights::{Environment, Found, Location, digest, locate};

/// The names of the inputs of text models, which are given what the tokenizer returns.
const TOKEN_INPUTS: [&str; 3] = ["input_ids", "attention_mask", "token_type_ids"];

/// The side of the image with which a network is run once if it takes images of any size: the usual one.
const ANY_SIDE: usize = 224;

/// Which encoder to open, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EncoderSettings {
    /// The name of an encoder, or the path of an `.onnx` file.
    pub encoder: String,
    /// Its weights; they are looked for if `None`.
    pub weights: Option<PathBuf>,
    /// The tool whose preprocessing is used, as in `dgm-eval`, or `dgm-eval+pillow-12` for another version of Pillow; the
    /// encoder's first if `None`. For an `.onnx` file it is that of a named encoder: `clip-vit-b32/clean-fid`.
    pub preset: Option<String>,
    /// The tool whose preprocessing is used if the encoder has one of that name and `preset` is not given.
    pub fallback_preset: Option<String>,
    /// The runtime of the network.
    pub runtime: Runtime,
    /// The device of the network.
    pub device: Device,
    /// The library of onnxruntime; it is looked for if `None`.
    pub library: Option<PathBuf>,
    /// The threads of onnxruntime; all cores if `None`. With rten, the threads of a run count.
    pub threads: Option<usize>,
    /// Where weights are looked for.
    pub environment: Environment,
}

impl EncoderSettings {
    /// The settings of an encoder by name or path, with weights that are looked for in `environment`.
    pub fn new(encoder: impl Into<String>, environment: Environment) -> Self {
        Self {
            encoder: encoder.into(),
            weights: None,
            preset: None,
            fallback_preset: None,
            runtime: Runtime::default(),
            device: Device::default(),
            library: None,
            threads: None,
            environment,
        }
    }
}

/// Opens an encoder.
///
/// # Errors
/// If there is no encoder of this name, its weights are not on this machine or cannot be read, it has no such preset, or the
/// runtime cannot run it.
pub fn open(settings: &EncoderSettings) -> Result<Encoder> {
    let refused = |problem| Err(Error::Encoder { name: settings.encoder.clone(), problem });
    let extension = Path::new(&settings.encoder).extension().unwrap_or_default().to_ascii_lowercase();
    match (extension.to_str().unwrap_or_default(), &settings.weights) {
        ("onnx", None) => open_file(settings),
        ("onnx", Some(weights)) => refused(format!(
            "an .onnx file has its own weights, but {} is given as its weights; give one of them",
            weights.display()
        )),
        ("pt" | "pth", _) => refused(format!(
            "this is a file of PyTorch; if it has the weights of FID's Inception, give --encoder inception-v3-fid --encoder-weights {}, and export other models to .onnx",
            settings.encoder
        )),
        _ => open_named(settings),
    }
}

/// A network with its checksum.
struct Network {
    model: Model,
    /// The file, for messages.
    path: PathBuf,
    sha256: String,
}

impl Network {
    fn refused(&self, problem: Problem) -> Error {
        refused(&self.path, problem)
    }

    /// The names of its outputs.
    fn outputs(&self) -> Vec<&str> {
        self.model.outputs().iter().map(|output| output.name.as_str()).collect()
    }

    /// Its input of images: the first one of the usual names, or the only one.
    fn image_input(&self, usual: &[&str]) -> Result<String> {
        let inputs = self.model.inputs();
        let known = inputs.iter().find(|input| usual.contains(&input.name.as_str()));
        match (known, inputs) {
            (Some(input), _) => Ok(input.name.clone()),
            (None, inputs) if inputs.iter().any(|input| TOKEN_INPUTS.contains(&input.name.as_str())) => {
                Err(self.refused(Problem::new(
                    "it takes the tokens of texts, but no tokenizer.json is next to it; put the model's tokenizer.json there",
                )))
            }
            (None, [only]) => Ok(only.name.clone()),
            (None, []) => {
                Err(self.refused(Problem::new("it has no inputs, so it encodes nothing; export the model again")))
            }
            (None, several) => {
                let names: Vec<&str> = several.iter().map(|input| input.name.as_str()).collect();
                Err(self.refused(Problem::new(format!(
                    "its inputs are {}, but an encoder of images takes one; export the model again",
                    names.join(", ")
                ))))
            }
        }
    }

    /// The shape of the tensor that the network is first run on.
    fn probed_shape(&self, preprocessing: &Preprocessing, input: &str) -> Result<[usize; 3]> {
        preprocessing.check().map_err(|problem| self.refused(problem))?;
        preprocessing.shape().or_else(|_| {
            // The size depends on the image: one of the size that the network takes, if it takes one size only.
            let info = self.model.inputs().iter().find(|info| info.name == input);
            let side = |axis: usize| info.and_then(|info| *info.shape.get(axis)?).unwrap_or(ANY_SIDE);
            preprocessing.shape_of(side(3), side(2)).map_err(|problem| self.refused(problem))
        })
    }

    /// Its inputs of texts, which must be what a tokenizer returns.
    fn text_inputs(&self) -> Result<Vec<String>> {
        let inputs = self.model.inputs();
        match inputs
            .iter()
            .find(|input| !TOKEN_INPUTS.contains(&input.name.as_str()) || input.element != Element::Integers)
        {
            None => Ok(inputs.iter().map(|input| input.name.clone()).collect()),
            Some(other) => Err(self.refused(Problem::new(format!(
                "its input {} is not one that a tokenizer returns ({}); export the model again",
                other.name,
                TOKEN_INPUTS.join(", ")
            )))),
        }
    }
}

/// What the fingerprint is made of.
#[derive(Serialize)]
struct Definition<'a> {
    weights: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    preprocessing: Option<&'a Preprocessing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Tokens<'a>>,
    output: &'a Output,
}

/// How texts become tokens.
#[derive(Serialize)]
struct Tokens<'a> {
    tokenizer: &'a str,
    prefix: &'a str,
    max_length: Option<usize>,
    lower_case: bool,
}

fn open_named(settings: &EncoderSettings) -> Result<Encoder> {
    let unnamed = |problem: Problem| Error::Encoder { name: settings.encoder.clone(), problem: problem.to_string() };
    let named = encoders::NamedEncoder::named(&settings.encoder).map_err(unnamed)?;
    let found = match locate(named, settings.weights.as_deref(), &settings.environment) {
        Location::Found(found) => found,
        Location::Missing(missing) => {
            let problem = format!("its weights are not on this machine; {}", missing.how_to_get);
            return Err(Error::Encoder { name: named.name.into(), problem });
        }
    };
    let fallback = settings.fallback_preset.as_deref();
    let fallback = fallback.filter(|tool| named.presets.iter().any(|preset| preset.tool == *tool));
    let asked = settings.preset.as_deref().or(fallback);
    let preset = named.preset(asked).map_err(unnamed)?;
    let network = load(&found.model, settings)?;
    match named.kind {
        Kind::Image { .. } => {
            let stated = asked.unwrap_or(preset.tool).to_string();
            let preprocessing = named.preprocessing(&stated).map_err(unnamed)?;
            let output = preset.output(&network.outputs()).map_err(|problem| network.refused(problem))?;
            let input = network.image_input(named.inputs)?;
            let name = Named { name: named.name, preset: Some(stated), width: Some(preset.width) };
            finish(name, network, output, Parts::Images { preprocessing, input }, settings)
        }
        Kind::Text { prefix, max_length } => open_texts(named, preset, &found, network, (prefix, max_length), settings),
    }
}

fn open_texts(
    named: &encoders::NamedEncoder,
    preset: &Preset,
    found: &Found,
    network: Network,
    (prefix, max_length): (&str, usize),
    settings: &EncoderSettings,
) -> Result<Encoder> {
    let Some(tokenizer) = &found.tokenizer else {
        let problem = "its tokenizer.json is missing; put it next to the model".into();
        return Err(Error::Encoder { name: named.name.into(), problem });
    };
    let sentence = SentenceSettings::read(&found.folder)?;
    let mut output = preset.output(&network.outputs()).map_err(|problem| network.refused(problem))?;
    if let (Some(pooling), true) = (sentence.pooling, preset.tool == "sentence-transformers") {
        output.pooling = pooling;
        output.normalise = sentence.normalise.unwrap_or(output.normalise);
    }
    let max_length = Some(sentence.max_length_or(max_length));
    let parts = text_parts(tokenizer, prefix, max_length, &sentence)?;
    let name = Named { name: named.name, preset: Some(preset.tool.into()), width: Some(preset.width) };
    finish(name, network, output, parts, settings)
}

/// A user's own model.
fn open_file(settings: &EncoderSettings) -> Result<Encoder> {
    let path = PathBuf::from(&settings.encoder);
    let file = EncoderFile::open(&path)?;
    let network = load(&file.model, settings)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let mut output = file.output.clone().unwrap_or_default();
    let outputs = network.outputs();
    if let Some(tensor) = output.tensor.as_ref().filter(|tensor| !outputs.contains(&tensor.as_str())) {
        let problem =
            Problem::new(format!("it has no output {tensor}; its outputs are {}", encoders::listed(&outputs)));
        return Err(network.refused(problem));
    }
    if let Some(tokenizer) = &file.tokenizer {
        if settings.preset.is_some() {
            return Err(network.refused(Problem::new("it encodes texts, which have no preprocessing; leave it out")));
        }
        let sentence = SentenceSettings::read(tokenizer.parent().unwrap_or(Path::new("")))?;
        if file.output.is_none() {
            output.pooling = sentence.pooling.unwrap_or(output.pooling);
            output.normalise = sentence.normalise.unwrap_or(output.normalise);
        }
        let max_length = file.max_length.or(sentence.max_length);
        let parts = text_parts(tokenizer, &file.prefix, max_length, &sentence)?;
        return finish(Named { name: &name, preset: None, width: None }, network, output, parts, settings);
    }
    let input = network.image_input(&["pixel_values", "image", "input"])?;
    let preset = settings.preset.as_ref().or(file.preset.as_ref());
    let preprocessing = match (&file.preprocessing, preset) {
        (Some(preprocessing), None) => preprocessing.clone(),
        (_, Some(preset)) => like(preset).map_err(|problem| network.refused(problem))?,
        (None, None) => {
            return Err(network.refused(Problem::new(
                "nothing says how its images are preprocessed; name the preprocessing of an encoder and a tool, as in clip-vit-b32/clean-fid, or write a settings file next to it (docs/encoders.md)",
            )));
        }
    };
    let name = Named { name: &name, preset: preset.cloned(), width: None };
    finish(name, network, output, Parts::Images { preprocessing, input }, settings)
}

/// The preprocessing of a named encoder: `clip-vit-b32/clean-fid`, or `clip-vit-b32` for its default.
fn like(text: &str) -> Result<Preprocessing, Problem> {
    let (name, tool) = text.split_once('/').map_or((text, None), |(name, tool)| (name, Some(tool)));
    let named = encoders::NamedEncoder::named(name).map_err(|problem| {
        let form = "the preprocessing of an own model is that of a named encoder, as in clip-vit-b32/clean-fid";
        Problem::new(format!("{form}; {problem}"))
    })?;
    named.preprocessing(tool.unwrap_or(named.preset(None)?.tool))
}

/// The parts of an encoder that depend on what it takes.
enum Parts {
    Images { preprocessing: Preprocessing, input: String },
    Texts { tokenizer: Box<Tokenizer>, sha256: String, prefix: String, max_length: Option<usize>, lower_case: bool },
}

fn text_parts(path: &Path, prefix: &str, max_length: Option<usize>, sentence: &SentenceSettings) -> Result<Parts> {
    let mut tokenizer = Tokenizer::open(path, max_length)?.with_prefix(prefix);
    if let Some(token) = &sentence.pad_token {
        tokenizer = tokenizer.with_pad_token(token);
    }
    if sentence.lower_case {
        tokenizer = tokenizer.with_lower_case().map_err(|problem| refused(path, problem))?;
    }
    let bytes = std::fs::read(path).map_err(|source| Error::Io { path: path.into(), source })?;
    let lower_case = sentence.lower_case;
    let tokenizer = Box::new(tokenizer);
    Ok(Parts::Texts { tokenizer, sha256: hex(&Sha256::digest(bytes)), prefix: prefix.into(), max_length, lower_case })
}

/// What is stated about an encoder.
struct Named<'a> {
    name: &'a str,
    /// The preprocessing as it was chosen.
    preset: Option<String>,
    /// The number of features per sample, if it is known.
    width: Option<usize>,
}

/// Puts the parts together, and runs the network once to know its width.
fn finish(
    Named { name, preset, width }: Named<'_>,
    network: Network,
    output: Output,
    parts: Parts,
    settings: &EncoderSettings,
) -> Result<Encoder> {
    let definition = match &parts {
        Parts::Images { preprocessing, .. } => {
            Definition { weights: &network.sha256, preprocessing: Some(preprocessing), tokens: None, output: &output }
        }
        Parts::Texts { sha256, prefix, max_length, lower_case, .. } => Definition {
            weights: &network.sha256,
            preprocessing: None,
            tokens: Some(Tokens { tokenizer: sha256, prefix, max_length: *max_length, lower_case: *lower_case }),
            output: &output,
        },
    };
    let text = serde_json::to_vec(&definition).map_err(|error| network.refused(Problem::new(error.to_string())))?;
    let mut encoding = Encoding::new(name, hex(&Sha256::digest(text)));
    encoding.preset = preset;
    encoding.runtime = Some(network.model.describe());
    encoding.version = Some(modelmix::VERSION.into());
    let content = match parts {
        Parts::Images { preprocessing, input } => {
            let probed = network.probed_shape(&preprocessing, &input)?;
            Content::Images { preprocessing, probed, input }
        }
        Parts::Texts { tokenizer, .. } => Content::Texts { tokenizer, inputs: network.text_inputs()? },
    };
    let path = network.path.clone();
    let is_on_gpu = settings.device != Device::Cpu;
    let mut encoder = Encoder { encoding, width: 0, model: network.model, output, content, is_on_gpu };
    encoder.width = encoder.probe().map_err(|problem| refused(&path, problem))?;
    if let Some(width) = width.filter(|&width| width != encoder.width) {
        let problem = format!(
            "it returns {} features per sample, but {name} has {width}; the file has other weights",
            encoder.width
        );
        return Err(Error::File { path, problem });
    }
    Ok(encoder)
}

/// Opens the network in a file: ONNX, or the tensors of the FID Inception.
fn load(path: &Path, settings: &EncoderSettings) -> Result<Network> {
    // Threads call rten at the same time, each with samples of its own; onnxruntime runs one call at a time, on all cores.
    let threads = match settings.runtime {
        Runtime::Rten => 1,
        Runtime::OnnxRuntime => settings.threads.unwrap_or(0),
    };
    let options = Options { threads, device: settings.device, library: settings.library.clone() };
    let is_onnx = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"));
    let (source, sha256) = if is_onnx {
        (ModelSource::Path(path.into()), checksum(path)?)
    } else {
        // Files of different tools with the same tensors make the same network, and have the same fingerprint.
        let bytes = inception::onnx(&torch_file::tensors(path)?).map_err(|problem| refused(path, problem))?;
        let sha256 = hex(&Sha256::digest(&bytes));
        (ModelSource::Bytes(bytes), sha256)
    };
    let model = Model::open(&source, settings.runtime, &options).map_err(|problem| refused(path, problem))?;
    Ok(Network { model, path: path.into(), sha256 })
}

/// The SHA-256 checksum of an ONNX file and of the data files beside it.
fn checksum(path: &Path) -> Result<String> {
    let model = external::read(path).map_err(|problem| refused(path, problem))?;
    let data_files = external::data_files_beside(path, &model).map_err(|problem| refused(path, problem))?;
    let mut hasher = Sha256::new();
    hasher.update(&model);
    for file in data_files {
        digest::add_file(&mut hasher, &file).map_err(|source| Error::Io { path: file, source })?;
    }
    Ok(hex(&hasher.finalize()))
}

fn refused(path: &Path, problem: Problem) -> Error {
    Error::File { path: path.into(), problem: problem.to_string() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
