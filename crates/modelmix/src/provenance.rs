//! Provenance of a result: the command, the version, the engine, the seed, the input files and the bandwidths. This is plain
//! data that the front ends fill in; this module does not read a clock, the environment or files.

use serde::{Deserialize, Serialize};

use crate::encoding::Encoding;
use crate::features::Features;
use crate::kernel::{Bandwidth, Kernel, KernelSpec, MEDIAN_ROWS};

/// The information needed to compute a result again, and to see whether two results use the same data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Provenance {
    /// The command line as typed, quoted for a shell; absent if no command made the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The version of modelmix.
    pub version: String,
    /// The engine that computed it: name, precision, instruction set and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The random seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// When the result was computed, in UTC (ISO 8601); absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// The inputs of the result: one entry per file, and one per data set in memory.
    #[serde(default)]
    pub inputs: Vec<InputFile>,
    /// How the features of the arms were made; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// The bandwidth of each kernel that has one, and its source.
    #[serde(default)]
    pub bandwidths: Vec<UsedBandwidth>,
}

impl Provenance {
    /// The provenance of a result of this version, with all other fields empty.
    pub fn new() -> Self {
        Self {
            command: None,
            version: crate::version::VERSION.into(),
            engine: None,
            seed: None,
            date: None,
            inputs: Vec::new(),
            encoding: None,
            bandwidths: Vec::new(),
        }
    }

    /// The SHA-256 checksums of all inputs with a role, sorted; `None` if there is no such input, or one without a checksum.
    pub fn checksums(&self, role: InputRole) -> Option<Vec<&str>> {
        let inputs = self.inputs.iter().filter(|input| input.role == role);
        let mut found = inputs.map(|input| input.sha256.as_deref()).collect::<Option<Vec<&str>>>()?;
        found.sort_unstable();
        (!found.is_empty()).then_some(found)
    }
}

impl Default for Provenance {
    fn default() -> Self {
        Self::new()
    }
}

/// A file, or a data set in memory, that a result was computed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct InputFile {
    /// Its role.
    pub role: InputRole,
    /// The path as written; absent if the data was in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The arguments that name it, such as `flow=specialists.npz:flow`; the name of an arm if the data was in memory.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The size in bytes; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The SHA-256 checksum in hexadecimal digits; absent if unknown, as for a pipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl InputFile {
    /// An input file with this path.
    pub fn new(role: InputRole, path: impl Into<String>) -> Self {
        Self { role, path: Some(path.into()), arguments: Vec::new(), bytes: None, sha256: None }
    }
}

/// The role of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum InputRole {
    /// Samples of arms.
    Arms,
    /// The reference.
    Reference,
    /// Scores per sample.
    Scores,
    /// A configuration file of the command.
    Config,
    /// The description of an experiment.
    Experiment,
}

impl InputRole {
    /// Its name, as in documents.
    pub fn name(self) -> &'static str {
        match self {
            InputRole::Arms => "arms",
            InputRole::Reference => "reference",
            InputRole::Scores => "scores",
            InputRole::Config => "config",
            InputRole::Experiment => "experiment",
        }
    }
}

/// A bandwidth, and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct UsedBandwidth {
    /// The term or the metric whose kernel it belongs to.
    pub of: String,
    /// σ.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    pub bandwidth: f64,
    /// Its source.
    pub rule: BandwidthRule,
    /// The number of samples in the median rule; absent if the bandwidth was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
    /// The seed that drew these samples; absent if the bandwidth was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// The source of a bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BandwidthRule {
    /// It was given.
    Given,
    /// The median distance between samples.
    Median,
}

impl UsedBandwidth {
    /// The bandwidth of the kernel of `of`, as written and as computed; `None` if the kernel has none. `sets` are the samples
    /// of the median rule with `seed`: the reference if there is one, otherwise the arms.
    pub fn found(of: &str, written: &KernelSpec, kernel: &Kernel, sets: &[&Features], seed: u64) -> Option<Self> {
        let (Kernel::Gaussian { bandwidth } | Kernel::Laplacian { bandwidth }) = *kernel else { return None };
        let is_auto = matches!(
            written,
            KernelSpec::Gaussian { bandwidth: Bandwidth::Auto } | KernelSpec::Laplacian { bandwidth: Bandwidth::Auto }
        );
        let share = (MEDIAN_ROWS / sets.len().max(1)).max(2);
        let samples = sets.iter().map(|set| set.len().min(share)).sum();
        Some(Self {
            of: of.into(),
            bandwidth,
            rule: if is_auto { BandwidthRule::Median } else { BandwidthRule::Given },
            samples: is_auto.then_some(samples),
            seed: is_auto.then_some(seed),
        })
    }

    /// The source as text.
    pub fn how(&self) -> String {
        match (self.rule, self.samples, self.seed) {
            (BandwidthRule::Median, Some(samples), Some(seed)) => {
                format!("median distance between {} samples, seed {seed}", crate::numbers::count(samples))
            }
            (BandwidthRule::Median, ..) => "median distance between samples".into(),
            (BandwidthRule::Given, ..) => "given".into(),
        }
    }
}
