//! Inputs of two runs: settings that differ, files, and whether samples are the same.

use std::collections::BTreeMap;

use modelmix::document::{Document, InputFile, InputRole, Provenance};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::ChangedSetting;

/// Whether two runs have samples of arms in common, by the checksums of their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// All files are the same.
    Same,
    /// Some files are the same.
    Some,
    /// No file is the same.
    None,
    /// A document does not state its input files.
    Unknown,
}

/// A file, and in which runs it was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComparedInput {
    /// What it was used for.
    pub role: InputRole,
    /// The SHA-256 checksum; null if it is not known.
    pub sha256: Option<String>,
    /// The path in the first run; null if it was not used there.
    pub first: Option<String>,
    /// The path in the second run; null if it was not used there.
    pub second: Option<String>,
}

pub(super) fn overlap(first: &Document, second: &Document) -> Overlap {
    let sums = |document: &'static InputRole, of: &Document| {
        of.provenance()
            .and_then(|provenance| provenance.checksums(*document))
            .map(|sums| sums.into_iter().map(String::from).collect::<Vec<_>>())
    };
    match (sums(&InputRole::Arms, first), sums(&InputRole::Arms, second)) {
        (Some(one), Some(other)) if one == other => Overlap::Same,
        (Some(one), Some(other)) if one.iter().any(|sum| other.contains(sum)) => Overlap::Some,
        (Some(_), Some(_)) => Overlap::None,
        _ => Overlap::Unknown,
    }
}

/// Whether the references are the same file; `None` if that is unknown or a run has none.
pub(super) fn same_reference(first: Option<&Provenance>, second: Option<&Provenance>) -> Option<bool> {
    let sums = |provenance: Option<&Provenance>| {
        let sums = provenance?.checksums(InputRole::Reference)?;
        Some(sums.into_iter().map(String::from).collect::<Vec<_>>())
    };
    Some(sums(first)? == sums(second)?)
}

/// Whether two documents have the same arms and, if they state their files, the same files.
pub(in crate::report) fn same_data(first: &Document, second: &Document) -> bool {
    let sorted = |document: &Document| {
        let mut arms: Vec<String> = document.arms().into_iter().map(String::from).collect();
        arms.sort();
        arms
    };
    let counts = samples(first).zip(samples(second)).is_none_or(|(one, other)| one == other);
    let is_same_file = matches!(overlap(first, second), Overlap::Same | Overlap::Unknown);
    let reference = same_reference(first.provenance(), second.provenance());
    sorted(first) == sorted(second) && counts && is_same_file && reference != Some(false)
}

/// Number of samples per arm, if the document states it.
fn samples(document: &Document) -> Option<BTreeMap<&str, usize>> {
    match document {
        Document::Solve(result) => Some(result.arms.iter().map(|arm| (arm.name.as_str(), arm.samples)).collect()),
        Document::Score(result) => Some(result.arms.iter().map(|arm| (arm.name.as_str(), arm.samples)).collect()),
        Document::Curate(result) => Some(result.arms.iter().map(|arm| (arm.name.as_str(), arm.samples)).collect()),
        _ => None,
    }
}

/// Settings of the documents and of their provenance that differ.
pub(super) fn settings(first: &Document, second: &Document) -> Vec<ChangedSetting> {
    let (one, other) = (listed(first), listed(second));
    let mut names: Vec<&String> = one.iter().chain(&other).map(|(name, _)| name).collect();
    let mut seen: Vec<&String> = Vec::new();
    names.retain(|name| {
        !seen.contains(name) && {
            seen.push(name);
            true
        }
    });
    let of = |settings: &[(String, String)], name: &String| {
        settings.iter().find(|(found, _)| found == name).map_or("–".into(), |(_, value)| value.clone())
    };
    let changed = |name: &String| {
        let (first, second) = (of(&one, name), of(&other, name));
        (first != second).then(|| ChangedSetting { what: name.clone(), first, second })
    };
    names.into_iter().filter_map(changed).collect()
}

/// All settings of a document, as text.
fn listed(document: &Document) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = Vec::new();
    let mut add = |what: &str, value: String| settings.push((what.into(), value));
    let kernels = |kernels: &[modelmix::Kernel]| kernels.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    match document {
        Document::Solve(result) => {
            add("objective", result.objective.clone());
            add("kernels", kernels(&result.kernels));
        }
        Document::Simulate(result) => {
            add("objective", result.objective.clone());
            add("kernel", kernels(result.kernel.as_slice()));
            add("seeds", format!("{} from {}", result.seeds, result.seed));
            add("known samples per arm", result.known.unwrap_or(0).to_string());
        }
        Document::Curate(result) => {
            add("objective", result.objective.clone());
            add("kernels", kernels(&result.kernels));
            add("count", result.count.to_string());
        }
        Document::Score(result) => {
            let definitions = serde_json::to_value(&result.settings).unwrap_or_default();
            for (name, value) in definitions.as_object().into_iter().flatten() {
                let text = value.as_str().map_or_else(|| Value::to_string(value), String::from);
                add(&name.replace('_', " "), text);
            }
        }
        _ => {}
    }
    if let Some(provenance) = document.provenance() {
        add("version", provenance.version.clone());
        let some = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".into());
        add("engine", some(&provenance.engine));
        add("seed", provenance.seed.map_or("–".into(), |seed| seed.to_string()));
        for used in &provenance.bandwidths {
            add(&format!("rule for the bandwidth of {}", used.of), used.how());
        }
    }
    settings
}

/// All input files, those of the first run first.
pub(super) fn inputs(first: &Document, second: &Document) -> Vec<ComparedInput> {
    let of = |document: &Document| -> Vec<InputFile> {
        document.provenance().map_or_else(Vec::new, |provenance| provenance.inputs.clone())
    };
    let name = |input: &InputFile| {
        Some(input.path.clone().unwrap_or_else(|| format!("{} (in memory)", input.arguments.join(", "))))
    };
    let mut inputs: Vec<ComparedInput> = Vec::new();
    for input in of(first) {
        inputs.push(ComparedInput {
            role: input.role,
            sha256: input.sha256.clone(),
            first: name(&input),
            second: None,
        });
    }
    for input in of(second) {
        let is_same = |known: &&mut ComparedInput| {
            known.role == input.role && known.second.is_none() && known.sha256.is_some() && known.sha256 == input.sha256
        };
        match inputs.iter_mut().find(is_same) {
            Some(known) => known.second = name(&input),
            None => inputs.push(ComparedInput {
                role: input.role,
                sha256: input.sha256.clone(),
                first: None,
                second: name(&input),
            }),
        }
    }
    inputs
}
