//! Images and texts given as inputs: opens the encoder, encodes with progress, and keeps the samples for galleries,
//! manifests and copies.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use modelmix::Features;
use modelmix::load::ArmSource;
use modelmix_encode::cache::Cache;
use modelmix_encode::encode::{self, Encoder, EncoderSettings, OnError, RunSettings, Skipped};
use modelmix_encode::runtime::Runtime;
use modelmix_encode::samples::{ImageSamples, SampleKind, Samples};
use modelmix_encode::weights::Environment;

use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{self, Common, EncoderArgs, RuntimeName};
use crate::error::{Failure, Result};
use crate::terminal::{Terminal, count, counted};

/// The number of skipped samples that a warning names.
const NAMED_PROBLEMS: usize = 3;

/// How samples that cannot be read are left out.
const SKIP_HINT: &str = "leave such samples out with --on-error skip";

/// The document of `encode --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EncodedSets {
    /// The version of modelmix.
    pub(crate) version: &'static str,
    /// The encoder, its preprocessing and its fingerprint.
    pub(crate) encoding: modelmix::Encoding,
    /// The number of features per sample.
    pub(crate) width: usize,
    /// The file of features.
    pub(crate) file: String,
    /// The sets of samples, in the order of the file.
    pub(crate) sets: Vec<EncodedSetSummary>,
}

/// One set of samples.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "encoded_set")]
pub(crate) struct EncodedSetSummary {
    /// The name of its array.
    pub(crate) name: String,
    /// The number of rows.
    pub(crate) samples: usize,
    /// The number of samples that could not be read.
    pub(crate) skipped: usize,
    /// The number of rows that were in the cache.
    pub(crate) cached: usize,
}

/// Samples of an arm that are not encoded yet.
pub(crate) struct SampleSet {
    pub(crate) name: String,
    samples: Samples,
    /// The path as given.
    path: PathBuf,
}

/// Samples of an arm and their features.
pub(crate) struct EncodedArm {
    pub(crate) name: String,
    pub(crate) features: Features,
    pub(crate) samples: ArmSamples,
    /// The path as given.
    pub(crate) path: PathBuf,
    /// The SHA-256 checksum of all samples, in hexadecimal digits.
    pub(crate) sha256: String,
    pub(crate) skipped: usize,
    pub(crate) cached: usize,
}

/// The samples behind the rows of an arm.
pub(crate) struct ArmSamples {
    samples: Samples,
    /// The index of the sample of each row.
    rows: Vec<usize>,
}

impl ArmSamples {
    /// The images of an arm in a folder or archive, found by the ids of its rows.
    pub(crate) fn by_id(arm: &str, source: &ArmSource, ids: &[String]) -> Result<Self> {
        let path = &source.path;
        let Some((_, images)) = ImageSamples::open(path, source.key.as_deref())?.pop() else {
            return Err(Failure::input(format!("{} has no images", path.display())));
        };
        let places: HashMap<&str, usize> = (0..images.len()).map(|index| (images.id(index), index)).collect();
        let place = |id: &String| {
            places.get(id.as_str()).copied().ok_or_else(|| {
                Failure::input(format!(
                    "{} does not have {id}, which is a sample of {arm}; give the folder that {arm} was encoded from",
                    path.display()
                ))
            })
        };
        let rows = ids.iter().map(place).collect::<Result<_>>()?;
        Ok(Self { samples: Samples::of_images(path.clone(), images), rows })
    }

    /// The ids of all rows.
    pub(crate) fn ids(&self) -> Vec<String> {
        (0..self.len()).map(|row| self.id(row)).collect()
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The id of a row.
    pub(crate) fn id(&self, row: usize) -> String {
        self.samples.id(self.rows[row])
    }

    /// The file of a row, if it is a file of its own.
    pub(crate) fn file(&self, row: usize) -> Option<PathBuf> {
        self.samples.file(self.rows[row])
    }

    pub(crate) fn text(&self, row: usize) -> Option<&str> {
        self.samples.text(self.rows[row])
    }

    /// The decoded image of a row; `None` for a text.
    pub(crate) fn image(&self, row: usize) -> Option<Result<modelmix_encode::Image>> {
        let image = self.samples.image(self.rows[row])?;
        Some(image.map_err(|problem| Failure::input(format!("{}: {problem}", self.id(row)))))
    }
}

/// An encoder that was opened, with its cache and settings.
pub(crate) struct Encoding<'a> {
    encoder: Encoder,
    cache: Option<Cache>,
    settings: RunSettings,
    terminal: &'a Terminal,
}

impl<'a> Encoding<'a> {
    /// Opens the encoder of the arguments. `preset` is a tool whose preprocessing is used if the encoder has one of that name
    /// and no other is given.
    pub(crate) fn open(
        args: &EncoderArgs,
        preset: Option<&str>,
        common: &Common,
        terminal: &'a Terminal,
    ) -> Result<Self> {
        let Some(name) = &args.encoder else {
            return Err(Failure::input(
                "images and texts need an encoder; give --encoder NAME (modelmix encoders lists them)",
            ));
        };
        let environment = Environment::of_process();
        let mut settings = EncoderSettings::new(name, environment.clone());
        settings.weights.clone_from(&args.encoder_weights);
        settings.preset = args.preprocessing.clone();
        settings.fallback_preset = preset.map(str::to_string);
        settings.runtime = match args.runtime {
            RuntimeName::Rten => Runtime::Rten,
            RuntimeName::Onnxruntime => Runtime::OnnxRuntime,
        };
        settings.device = args.device;
        settings.threads = common.threads;
        let encoder = encode::open(&settings)?;
        let cache = match (&args.cache, args.no_cache) {
            (_, true) => None,
            (Some(folder), _) => Some(folder.clone()),
            (None, _) => environment.cache().map(|folder| folder.join("features")),
        };
        let cache = cache.map(|folder| Cache::open(&folder, &encoder.cache_name(), encoder.width())).transpose();
        let cache = match cache {
            // The user did not ask for the usual folder, so a read-only home is no reason to stop.
            Err(error) if args.cache.is_none() => {
                terminal.warn(&[format!("features are not cached: {error}")]);
                None
            }
            cache => cache?,
        };
        let mut settings = RunSettings::default();
        settings.threads = common.threads;
        settings.on_error = match args.on_error {
            args::OnError::Refuse => OnError::Refuse,
            args::OnError::Skip => OnError::Skip,
        };
        Ok(Self { encoder, cache, settings, terminal })
    }

    pub(crate) fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The sets of samples of a source, which are encoded later, so that wrong inputs are found before the work.
    pub(crate) fn sets(&self, source: &ArmSource) -> Result<Vec<SampleSet>> {
        let mut sets: Vec<SampleSet> = Vec::new();
        for (name, samples) in Samples::open_with_problems(source)? {
            let samples = samples.with_skip_hint(SKIP_HINT);
            if self.settings.on_error == OnError::Refuse {
                samples.check()?;
            }
            sets.push(SampleSet { name, samples, path: source.path.clone() });
        }
        let wanted = self.encoder.kind();
        match sets.iter().find(|set| set.samples.kind() != wanted) {
            None => Ok(sets),
            Some(set) => Err(Failure::input(format!(
                "{} has {}, but {} encodes {}; choose another encoder",
                source.path.display(),
                set.samples.kind().name(),
                self.encoder.encoding().encoder,
                wanted.name()
            ))),
        }
    }

    /// The set of samples of a source that must have one.
    pub(crate) fn one_set(&self, source: &ArmSource) -> Result<SampleSet> {
        let mut sets = self.sets(source)?;
        match (sets.pop(), sets.is_empty()) {
            (Some(set), true) => Ok(set),
            _ => {
                let path = source.path.display();
                Err(Failure::input(format!("{path} has several sets of samples; pick one, as in {path}:name")))
            }
        }
    }

    /// Encodes a set.
    pub(crate) fn encode(&self, set: SampleSet) -> Result<EncodedArm> {
        let SampleSet { name, samples, path } = set;
        let what = match samples.kind() {
            SampleKind::Images => "encoding images",
            SampleKind::Texts => "encoding texts",
        };
        let progress = self.terminal.progress(&format!("{what} of {name}"), samples.len() as u64);
        let encoded = encode::encode(&self.encoder, &samples, &self.settings, self.cache.as_ref(), &|done| {
            progress.inc(done as u64);
        });
        progress.finish_and_clear();
        let encoded = encoded?;
        if let Some(problem) = &encoded.cache_problem {
            self.terminal.warn(&[format!("new features of {name} are not in the cache: {problem}")]);
        }
        if !encoded.skipped.is_empty() {
            // Problems of texts name their lines.
            let named = |skipped: &Skipped| match samples.kind() {
                SampleKind::Images => format!("{}: {}", skipped.id, skipped.problem),
                SampleKind::Texts => skipped.problem.to_string(),
            };
            let named: Vec<String> = encoded.skipped.iter().take(NAMED_PROBLEMS).map(named).collect();
            let more = encoded.skipped.len().saturating_sub(NAMED_PROBLEMS);
            let more = if more > 0 { format!("; and {} more", count(more)) } else { String::new() };
            let (skipped, all) = (encoded.skipped.len(), samples.len());
            let verb = if skipped == 1 { "was" } else { "were" };
            self.terminal.warn(&[format!(
                "{} of {} of {name} {verb} skipped ({}{more})",
                count(skipped),
                counted(all, "sample"),
                named.join("; "),
            )]);
        }
        Ok(EncodedArm {
            name,
            features: encoded.features,
            samples: ArmSamples { samples, rows: encoded.rows },
            path,
            sha256: hex(&encoded.digest),
            skipped: encoded.skipped.len(),
            cached: encoded.cached,
        })
    }
}

/// Whether a file is a table, whose columns may be features or texts.
pub(crate) fn is_table(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    extension == "csv" || extension == "tsv" || extension == "parquet"
}

/// Whether a source has images or texts, which need an encoder.
pub(crate) fn needs_encoder(source: &ArmSource, args: &EncoderArgs) -> Option<SampleKind> {
    // Without an encoder, a column of a table is a column of features.
    if args.encoder.is_none() && is_table(&source.path) {
        return None;
    }
    SampleKind::at(&source.path, source.key.as_deref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
