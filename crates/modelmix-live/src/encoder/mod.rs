//! Encoders of live runs: a sample → features, one at a time, from any thread.

mod embeddings;
mod settings;

use std::fmt::Write;
use std::path::Path;

use modelmix_encode::encode::{self, Encoder};
use modelmix_encode::runtime::Runtime;
use modelmix_encode::samples::SampleKind;
use modelmix_encode::weights::Environment;
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use settings::{ArmFeatures, EmbeddingsTable, EncoderSettings, ModelSettings};

use crate::arm::Content;
use crate::arm::command::{Body, Launch, ReplyLine, WorkerSettings, Workers, check_features, evaluate, sample_body};
pub use crate::problem::EvaluationProblem;
use embeddings::EmbeddingsEncoder;

/// The maximum size of a file among the arguments of a command that is part of its fingerprint: a program text, no weights.
const LARGEST_SCRIPT: u64 = 1 << 20;

/// An encoder that is ready. Threads share it.
#[derive(Debug)]
pub struct LiveEncoder {
    kind: Kind,
    fingerprint: String,
}

#[derive(Debug)]
enum Kind {
    Arm,
    Model(Box<Encoder>),
    Command(Workers),
    Embeddings(Box<EmbeddingsEncoder>),
}

impl LiveEncoder {
    /// Opens an encoder; a command is started.
    ///
    /// # Errors
    /// One sentence with the fix: no such encoder, weights that are not on this machine, a command that does not start, a key that is
    /// not set.
    pub fn open(
        settings: &EncoderSettings,
        base: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        match settings {
            EncoderSettings::Arm(ArmFeatures::Arm) => Ok(Self { kind: Kind::Arm, fingerprint: "arm".into() }),
            EncoderSettings::Model(settings) => {
                let encoder = open_model(settings, base)?;
                let fingerprint = encoder.encoding().fingerprint.clone();
                Ok(Self { kind: Kind::Model(Box::new(encoder)), fingerprint })
            }
            EncoderSettings::Command(settings) => {
                let workers = Workers::new(Launch::check(settings, base, environment)?);
                let hello = workers.hello().map_err(|problem| problem.message().to_owned())?;
                let fingerprint = hello.fingerprint.unwrap_or_else(|| digest(settings, &workers.launch().folder));
                Ok(Self { kind: Kind::Command(workers), fingerprint })
            }
            EncoderSettings::Embeddings(EmbeddingsTable { embeddings }) => {
                let encoder = EmbeddingsEncoder::open(embeddings, environment)?;
                let fingerprint = encoder.fingerprint();
                Ok(Self { kind: Kind::Embeddings(Box::new(encoder)), fingerprint })
            }
        }
    }

    /// The features of a sample. Features of an arm are returned as they are if they are what the run uses.
    ///
    /// # Errors
    /// If the sample cannot be encoded, or the encoder fails.
    pub fn encode(&self, content: &Content) -> Result<Vec<f32>, EvaluationProblem> {
        let unusable = |problem: &str| Err(EvaluationProblem::Sample(problem.into()));
        match (&self.kind, content) {
            (Kind::Arm, Content::Features(features)) => Ok(features.clone()),
            (Kind::Arm, _) => unusable("the arm gave no features with its sample; choose another encoder"),
            (_, Content::Features(_)) => {
                unusable("the arm gave features and no sample to encode; write encoder = \"arm\" if all arms do")
            }
            (Kind::Model(encoder), content) => {
                let features = match content {
                    Content::Text(text) => encoder.encode_text(text),
                    Content::Pixels(image) => encoder.encode_image(image),
                    Content::File(bytes) => encoder.encode_file(bytes),
                    Content::Features(_) => return unusable("features are not encoded"),
                };
                features
                    .map_err(|problem| EvaluationProblem::Sample(format!("{}: {problem}", encoder.encoding().encoder)))
            }
            (Kind::Embeddings(encoder), Content::Text(text)) => encoder.encode(text),
            (Kind::Embeddings(encoder), Content::File(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => encoder.encode(text),
                Err(_) => unusable("the sample is not a text in UTF-8, as embeddings need; choose another encoder"),
            },
            (Kind::Embeddings(_), Content::Pixels(_)) => {
                unusable("the sample is an image, but embeddings are those of texts; choose another encoder")
            }
            (Kind::Command(workers), content) => {
                let body = Body::from_iter([("encode".to_owned(), Value::Object(sample_body(content)?))]);
                evaluate(workers, &body, |ReplyLine { features, .. }| {
                    let features = features.ok_or("its reply has neither features nor an error; write one of them")?;
                    check_features(&features).map(|()| features)
                })
            }
        }
    }

    /// Whether the features are those that arms give with their samples.
    pub fn is_arm(&self) -> bool {
        matches!(self.kind, Kind::Arm)
    }

    /// What it takes; `None` if that is not known.
    pub fn kind(&self) -> Option<SampleKind> {
        match &self.kind {
            Kind::Model(encoder) => Some(encoder.kind()),
            Kind::Embeddings(_) => Some(SampleKind::Texts),
            Kind::Arm | Kind::Command(_) => None,
        }
    }

    /// What identifies the encoder: features with the same fingerprint are comparable.
    pub fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    /// What encoding cost in this process, in the currency of the run: that of embeddings with a price.
    pub fn cost(&self) -> f64 {
        match &self.kind {
            Kind::Embeddings(encoder) => encoder.cost(),
            Kind::Arm | Kind::Model(_) | Kind::Command(_) => 0.0,
        }
    }

    /// Ends work in progress, for good.
    pub fn interrupt(&self) {
        match &self.kind {
            Kind::Command(workers) => workers.interrupt(),
            Kind::Embeddings(encoder) => encoder.interrupt(),
            Kind::Arm | Kind::Model(_) => {}
        }
    }
}

fn open_model(settings: &ModelSettings, base: &Path) -> Result<Encoder, String> {
    let is_file = Path::new(&settings.name).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"));
    let name = if is_file { base.join(&settings.name).to_string_lossy().into_owned() } else { settings.name.clone() };
    let mut encoder = encode::EncoderSettings::new(name, Environment::of_process());
    encoder.preset.clone_from(&settings.preset);
    encoder.weights = settings.weights.as_ref().map(|weights| base.join(weights));
    if let Some(runtime) = &settings.runtime {
        encoder.runtime = runtime.parse::<Runtime>().map_err(|problem| problem.to_string())?;
    }
    if let Some(device) = &settings.device {
        encoder.device = device.parse().map_err(|problem: modelmix_encode::Problem| problem.to_string())?;
    }
    encode::open(&encoder).map_err(|error| error.to_string())
}

/// What identifies a command that does not say it: its arguments, and the content of those that are small files.
fn digest(settings: &WorkerSettings, folder: &Path) -> String {
    let mut hasher = Sha256::new();
    for argument in &settings.command {
        hasher.update((argument.len() as u64).to_le_bytes());
        hasher.update(argument);
        let path = folder.join(argument);
        let is_script = path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= LARGEST_SCRIPT);
        if let Some(content) = is_script.then(|| std::fs::read(path).ok()).flatten() {
            hasher.update(Sha256::digest(content));
        }
    }
    hasher.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
