//! Comparison of two runs of the same command: what changed, and whether beyond noise. It is a function of their documents.

mod inputs;
mod noise;
mod runs;

use modelmix::document::Document;
use modelmix::{Error, Result};
use schemars::JsonSchema;
use serde::Serialize;

pub(super) use inputs::same_data;
pub use inputs::{ComparedInput, Overlap};

/// Two runs side by side: the document of `modelmix report A B --compare --json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The version of modelmix that compared them.
    pub version: String,
    /// The command whose documents they are.
    pub of: String,
    /// Names of the first and the second run.
    pub runs: [String; 2],
    /// The command lines of both; null if they are not known.
    pub commands: [Option<String>; 2],
    /// The main result in one sentence.
    pub sentence: String,
    /// Whether the runs have samples in common.
    pub overlap: Overlap,
    /// How differences were tested, or why they were not.
    pub noise: String,
    /// Further remarks, such as losses that cannot be compared.
    pub notes: Vec<String>,
    /// Losses, scores and counts of the whole results.
    pub results: Vec<Difference>,
    /// Weights or shares, by arm.
    pub weights: Vec<Difference>,
    /// Scores, by arm or policy.
    pub scores: Vec<Difference>,
    /// Settings that differ.
    pub settings: Vec<ChangedSetting>,
    /// Input files, and in which run they were used.
    pub inputs: Vec<ComparedInput>,
}

/// A number of both runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// Whose number it is: an arm, a policy, "mixture".
    pub of: String,
    /// What the number is.
    pub what: String,
    /// In the first run; null if it is missing.
    pub first: Option<f64>,
    /// In the second run; null if it is missing.
    pub second: Option<f64>,
    /// Second minus first; null if one is missing.
    pub difference: Option<f64>,
    /// A 95% confidence interval for the difference; null if there is none.
    pub interval: Option<[f64; 2]>,
    /// The p-value of the hypothesis of no difference, adjusted for the number of tests (Holm); null if there is none.
    pub p_value: Option<f64>,
    /// Whether the difference is beyond noise; null if it was not tested.
    pub beyond_noise: Option<bool>,
}

/// A setting that is not the same in both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangedSetting {
    /// The setting.
    pub what: String,
    /// In the first run.
    pub first: String,
    /// In the second run.
    pub second: String,
}

impl Difference {
    fn of(of: impl Into<String>, what: impl Into<String>, first: Option<f64>, second: Option<f64>) -> Self {
        let difference = first.zip(second).map(|(first, second)| second - first);
        Self { of: of.into(), what: what.into(), first, second, difference, ..Self::default() }
    }
}

/// Compares two documents; `runs` are their names.
///
/// # Errors
/// Documents of different commands, or without an arm in common.
pub fn compare(runs: [&str; 2], first: &Document, second: &Document) -> Result<Comparison> {
    let refuse = |problem: String| {
        Err(Error::Array {
            origin: format!("{} and {}", runs[0], runs[1]),
            problem: problem + "; give two documents of one command on arms of the same names",
        })
    };
    let commands = [command(first), command(second)];
    if commands[0] != commands[1] {
        return refuse(format!("a document of {} cannot be compared with one of {}", commands[0], commands[1]));
    }
    let arms = [first.arms(), second.arms()];
    if !arms[0].iter().any(|arm| arms[1].contains(arm)) {
        return refuse(format!("they have no arm in common: {} and {}", arms[0].join(", "), arms[1].join(", ")));
    }
    let mut comparison = Comparison {
        version: modelmix::VERSION.into(),
        of: commands[0].into(),
        runs: runs.map(String::from),
        commands: [first, second].map(|document| document.provenance()?.command.clone()),
        sentence: String::new(),
        overlap: inputs::overlap(first, second),
        noise: String::new(),
        notes: Vec::new(),
        results: Vec::new(),
        weights: Vec::new(),
        scores: Vec::new(),
        settings: inputs::settings(first, second),
        inputs: inputs::inputs(first, second),
    };
    for (index, run) in runs.iter().enumerate() {
        let only: Vec<&str> = arms[index].iter().filter(|arm| !arms[1 - index].contains(arm)).copied().collect();
        if !only.is_empty() {
            comparison.notes.push(format!("Only {run} has {}.", only.join(", ")));
        }
    }
    match (first, second) {
        (Document::Solve(first), Document::Solve(second)) => runs::solves(&mut comparison, first, second),
        (Document::Score(first), Document::Score(second)) => runs::scores(&mut comparison, first, second),
        (Document::Simulate(first), Document::Simulate(second)) => runs::simulations(&mut comparison, first, second),
        (Document::Curate(first), Document::Curate(second)) => runs::curations(&mut comparison, first, second),
        _ => return refuse("documents of this kind cannot be compared".into()),
    }
    comparison.sentence = sentence(&comparison);
    Ok(comparison)
}

fn command(document: &Document) -> &'static str {
    match document {
        Document::Solve(_) => "solve",
        Document::Score(_) => "score",
        Document::Simulate(_) => "simulate",
        Document::Curate(_) => "curate",
        _ => "another command",
    }
}

/// The differences beyond noise, or that there are none, or that none was tested.
fn sentence(comparison: &Comparison) -> String {
    let all = || comparison.weights.iter().chain(&comparison.scores).chain(&comparison.results);
    let named = |one: &Difference| format!("{} of {}", one.what, one.of);
    let tested = all().filter(|one| one.beyond_noise.is_some()).count();
    let beyond: Vec<String> = all().filter(|one| one.beyond_noise == Some(true)).map(named).collect();
    let changed = all().filter(|one| one.difference.is_some_and(|difference| difference != 0.0)).count();
    match (tested, &beyond[..]) {
        (0, _) if changed == 0 => "No number differs.".into(),
        (0, _) => {
            let compared = all().filter(|one| one.difference.is_some()).count();
            format!("{changed} of {compared} numbers differ; differences were not tested.")
        }
        (tested, []) => format!("No difference is beyond noise ({tested} tested)."),
        (tested, beyond) if beyond.len() <= 4 => {
            format!("Beyond noise: {} ({} of {tested} differences tested).", beyond.join(", "), beyond.len())
        }
        (tested, beyond) => format!("{} of {tested} differences tested are beyond noise.", beyond.len()),
    }
}
