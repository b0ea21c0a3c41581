//! Named encoders as data: what they take, what they return, where their weights are. [`file::EncoderFile`] describes a
//! user's own model in the same terms. Nothing here reads weights; `weights` finds them, `runtime` runs them.

pub mod file;
pub mod output;
pub mod sentence;
mod table;

pub use file::EncoderFile;
pub use output::{Output, Pooling};
pub use sentence::SentenceSettings;
pub use table::ENCODERS;

use modelmix::internals::nearest_word;

use crate::preprocess::{Preprocessing, Tool, presets};
use crate::problem::Problem;
use crate::resize::PassOrder;

/// A named encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedEncoder {
    /// The name, as on the command line.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// The names of the model's input tensors. A model that lacks some of them is given the others.
    pub inputs: &'static [&'static str],
    /// Its uses, named after the tools that define them; the first is the default.
    pub presets: &'static [Preset],
    /// Where its weights are published, in order of preference. It is empty if nothing is published that can be used as
    /// it is.
    pub sources: &'static [Source],
    /// A command that exports the model to ONNX, for users of PyTorch.
    pub export: &'static str,
}

/// What an encoder takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Square RGB images.
    Image {
        /// The networks that share its preprocessing.
        family: Family,
        /// Their side in pixels.
        size: usize,
    },
    /// Texts.
    Text {
        /// The text put before every sample.
        prefix: &'static str,
        /// The maximum number of tokens, including special tokens.
        max_length: usize,
    },
}

/// Networks that tools preprocess images for in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The Inception-v3 of FID.
    Inception,
    /// DINOv2.
    Dinov2,
    /// CLIP.
    Clip,
    /// SwAV.
    Swav,
}

/// A use of an encoder, as one tool defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The tool, by its name on the command line.
    pub tool: &'static str,
    /// The number of features per sample.
    pub width: usize,
    /// Where the features are, in order of preference: exports of one model name their outputs differently.
    pub outputs: &'static [Place],
    /// Whether features are divided by their Euclidean norm.
    pub normalise: bool,
}

/// A tensor with features, and how it is pooled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the output tensor.
    pub tensor: &'static str,
    /// How it becomes one vector per sample.
    pub pooling: Pooling,
}

/// Where weights are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A repository on the Hugging Face hub.
    Hub {
        /// Its name: `owner/name`.
        repository: &'static str,
        /// A branch or a commit.
        revision: &'static str,
        /// Its files.
        files: &'static [WeightsFile],
    },
    /// A file at a fixed address, under the name that torch.hub stores it as.
    Address {
        /// The address of the file.
        url: &'static str,
        /// The file; its path is its name.
        file: WeightsFile,
    },
}

/// A file of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightsFile {
    /// The path in the repository.
    pub path: &'static str,
    /// What it is for.
    pub role: Role,
    /// The published SHA-256 in lower-case hexadecimal digits, or its first digits, as in names of torch.hub; `None` if unknown.
    pub sha256: Option<&'static str>,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The model.
    Model,
    /// Weights that the model refers to, next to it.
    Data,
    /// The `tokenizer.json`.
    Tokenizer,
    /// Settings of sentence-transformers, which not every repository has.
    Settings,
}

impl NamedEncoder {
    /// The encoder with this name.
    ///
    /// # Errors
    /// If there is none; the message has the nearest name.
    pub fn named(name: &str) -> Result<&'static NamedEncoder, Problem> {
        ENCODERS.iter().find(|encoder| encoder.name == name).ok_or_else(|| {
            let names: Vec<&str> = ENCODERS.iter().map(|encoder| encoder.name).collect();
            let similar = match nearest_word(name, &names) {
                Some(near) => vec![near],
                None => longer(name, &names),
            };
            let hint = if similar.is_empty() { String::new() } else { format!(" (did you mean {}?)", similar.join(", ")) };
            Problem::new(format!(
                "there is no encoder named {name:?}{hint}; `modelmix encoders` lists them, and the path of an .onnx file is one too"
            ))
        })
    }

    /// The preset of a tool; `None` for the default.
    ///
    /// # Errors
    /// If no preset of this encoder is named after the tool.
    pub fn preset(&self, tool: Option<&str>) -> Result<&'static Preset, Problem> {
        let presets = self.presets;
        let found = match tool.map(with_pass_order) {
            None => presets.first(),
            Some((tool, _)) => presets.iter().find(|preset| preset.tool == tool),
        };
        found.ok_or_else(|| {
            let tools: Vec<&str> = presets.iter().map(|preset| preset.tool).collect();
            let (name, tool, tools) = (self.name, tool.unwrap_or_default(), tools.join(", "));
            Problem::new(format!("{name} has no preset {tool:?}; use one of {tools}"))
        })
    }
}

/// The first names that a name is the start of, as `dinov2` of `dinov2-vits14`.
fn longer<'a>(name: &str, names: &[&'a str]) -> Vec<&'a str> {
    const MAX_HINTS: usize = 4;
    let name = name.to_ascii_lowercase();
    names.iter().copied().filter(|known| !name.is_empty() && known.starts_with(&name)).take(MAX_HINTS).collect()
}

/// Names of tensors for a message.
pub(crate) fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

impl NamedEncoder {
    /// How a tool preprocesses images for this encoder: `dgm-eval`, or `dgm-eval+pillow-12` for the passes of Pillow 12.
    ///
    /// # Errors
    /// If the encoder takes texts, or the tool does not use it, or it does not resize with Pillow but a version is given.
    pub fn preprocessing(&self, tool: &str) -> Result<Preprocessing, Problem> {
        let Kind::Image { family, size } = self.kind else {
            return Err(Problem::new(format!("{} encodes texts, which have no preprocessing of images", self.name)));
        };
        self.preset(Some(tool))?;
        let (name, order) = with_pass_order(tool);
        let tool: Tool = name.parse()?;
        let preprocessing = match family {
            Family::Inception => presets::inception(tool),
            Family::Dinov2 => presets::dinov2(tool),
            Family::Clip => presets::clip(tool, size),
            Family::Swav => presets::swav(tool),
        }?;
        match order {
            None => Ok(preprocessing),
            Some(_) if !preprocessing.has_pass_order() => {
                let remedy = "leave out what follows the plus sign";
                Err(Problem::new(format!("{name} does not resize images for {} with Pillow; {remedy}", self.name)))
            }
            Some(order) => Ok(preprocessing.with_pass_order(order)),
        }
    }

    /// What users should know about the published weights, in a sentence.
    pub fn remark(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Image { family: Family::Dinov2, .. } if !self.sources.is_empty() => Some(
                "the published ONNX files are exports of Hugging Face's implementation, which interpolates the positions of \
                 patches slightly differently; for exactly the features of dgm-eval, mixture-ucb and torch-fidelity, use the export",
            ),
            _ => None,
        }
    }
}

/// The name of a tool, and the order of passes that follows it: `dgm-eval+pillow-12`.
fn with_pass_order(text: &str) -> (&str, Option<PassOrder>) {
    let order = |version: &str| match version {
        "pillow-12" => Some(PassOrder::Pillow12),
        "pillow-13" => Some(PassOrder::Pillow13),
        _ => None,
    };
    match text.split_once('+').map(|(tool, version)| (tool, order(version))) {
        Some((tool, Some(order))) => (tool, Some(order)),
        _ => (text, None),
    }
}

impl Preset {
    /// The output to use of a model with these output tensors.
    ///
    /// # Errors
    /// If none of them is known to have the features.
    pub fn output(&self, tensors: &[&str]) -> Result<Output, Problem> {
        let known = self.outputs.iter().find(|place| tensors.contains(&place.tensor));
        match (known, self.outputs) {
            (Some(place), _) => Ok(self.output_at(place)),
            // Models that are built here, not exported, have a single output.
            (None, []) => Ok(Output { tensor: None, pooling: Pooling::Tensor, normalise: self.normalise }),
            (None, places) => {
                let wanted: Vec<&str> = places.iter().map(|place| place.tensor).collect();
                Err(Problem::new(format!(
                    "the model's outputs are {}, but features are expected in {}; export the model again, or name its output in a settings file",
                    listed(tensors),
                    wanted.join(" or ")
                )))
            }
        }
    }

    fn output_at(&self, place: &Place) -> Output {
        Output { tensor: Some(place.tensor.into()), pooling: place.pooling, normalise: self.normalise }
    }
}

impl Source {
    /// Its files.
    pub fn files(&self) -> &[WeightsFile] {
        match self {
            Source::Hub { files, .. } => files,
            Source::Address { file, .. } => std::slice::from_ref(file),
        }
    }
}
