//! `reproduce`: finds experiments, runs each, and compares expected with measured values.
//! The rest of the command line handles arguments, colours, figures and exit codes.

use std::path::{Path, PathBuf};

use console::measure_text_width;
use modelmix::compute::Engine;
use modelmix::document::{InputRole, Provenance};
use modelmix::experiment::{Check, Measured, Outcome, Plan, Stage, check_names};
use modelmix::{Error, Experiment, Mixture, Result, Scores, SimulationReport};
use modelmix_cli::tables::{Cell, Table, brief_cell};
use schemars::JsonSchema;
use serde::Serialize;

use crate::provenance::Sources;

/// Settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// A folder with the features, instead of the folders that the experiments name.
    pub(crate) features: Option<PathBuf>,
    /// Number of threads; results do not depend on it.
    pub(crate) threads: usize,
}

/// Progress: the stage of one of the experiments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress<'a> {
    /// The experiment's name.
    pub(crate) name: &'a str,
    /// Its index, counted from 0.
    pub(crate) index: usize,
    /// Number of experiments.
    pub(crate) of: usize,
    /// The stage.
    pub(crate) stage: Stage,
}

/// The result of one experiment.
#[derive(Clone, Debug)]
pub(crate) enum Reproduced {
    /// It ran.
    Ran(Box<Outcome>),
    /// Its features are missing.
    Skipped {
        /// The experiment's name.
        name: String,
        /// The first file that is missing.
        missing: PathBuf,
    },
}

/// All experiments as one document: what `reproduce --json` prints.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "command", rename = "reproduce")]
pub(crate) struct Reproduction {
    /// The version of modelmix that ran them.
    version: String,
    /// Where the results come from, with the files of all experiments; each document has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    provenance: Option<Provenance>,
    /// Whether everything that ran is as expected.
    passed: bool,
    /// In the order of execution.
    experiments: Vec<ReproducedDocument>,
}

/// One experiment of a [`Reproduction`].
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant)]
enum ReproducedDocument {
    /// It ran.
    Ran {
        /// The experiment's name.
        name: String,
        /// Whether everything is as expected.
        passed: bool,
        /// What was expected, and what was measured.
        checks: Vec<Check>,
        /// The best mixture, as `solve` prints it; null if it was not asked for.
        solve: Option<Solved>,
        /// The scores, as `score` prints them; null if none were asked for.
        score: Option<Scored>,
        /// How the policies did, as `simulate` prints it; null if none was asked for.
        simulate: Option<Simulated>,
    },
    /// Its features are missing.
    Skipped {
        /// The experiment's name.
        name: String,
        /// The first file that is missing.
        skipped: PathBuf,
    },
}

#[derive(Serialize, JsonSchema)]
#[serde(tag = "command", rename = "solve")]
struct Solved {
    #[serde(flatten)]
    result: Mixture,
}

#[derive(Serialize, JsonSchema)]
#[serde(tag = "command", rename = "score")]
struct Scored {
    #[serde(flatten)]
    result: Scores,
}

#[derive(Serialize, JsonSchema)]
#[serde(tag = "command", rename = "simulate")]
struct Simulated {
    #[serde(flatten)]
    result: SimulationReport,
}

impl Reproduction {
    pub(crate) fn new(all: &[Reproduced], provenance: Option<Provenance>) -> Self {
        let document = |one: &Reproduced| match one {
            Reproduced::Ran(outcome) => ReproducedDocument::Ran {
                name: outcome.name.clone(),
                passed: outcome.passed(),
                checks: outcome.checks.clone(),
                solve: outcome.solve.clone().map(|result| Solved { result }),
                score: outcome.score.clone().map(|result| Scored { result }),
                simulate: outcome.simulate.clone().map(|result| Simulated { result }),
            },
            Reproduced::Skipped { name, missing } => {
                ReproducedDocument::Skipped { name: name.clone(), skipped: missing.clone() }
            }
        };
        let experiments = all.iter().map(document).collect();
        Self { version: modelmix::VERSION.into(), provenance, passed: passed(all), experiments }
    }
}

/// Runs all experiments of these files and folders, in order. Everything is read and checked before anything runs.
///
/// # Errors
/// Paths without experiments, invalid experiments, features that exist but cannot be used.
pub(crate) fn run(
    paths: &[PathBuf],
    options: &Options,
    engine: &mut dyn FnMut(usize, usize) -> Engine,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<Reproduced>> {
    let plans = plans(paths, options.features.as_deref())?;
    let of = plans.len();
    let mut all = Vec::with_capacity(of);
    for (index, plan) in plans.iter().enumerate() {
        all.push(match plan.missing() {
            Some(missing) => Reproduced::Skipped { name: plan.name().into(), missing: missing.into() },
            None => {
                let mut tell = |stage| progress(Progress { name: plan.name(), index, of, stage });
                let mut engine = |rows, width| Ok(engine(rows, width));
                Reproduced::Ran(Box::new(plan.run_on(options.threads, &mut engine, &mut tell)?))
            }
        });
    }
    Ok(all)
}

/// The files that an experiment reads: its own, those of the arms and the reference.
pub(crate) fn sources(plan: &Plan) -> Sources {
    let mut sources = Sources::default();
    let mut add = |role, path: &Path, key: Option<&String>| {
        let shown = path.display();
        sources.add(role, path, &key.map_or_else(|| shown.to_string(), |key| format!("{shown}:{key}")));
    };
    add(InputRole::Experiment, plan.path(), None);
    let (arms, reference) = plan.sources();
    arms.iter().for_each(|arm| add(InputRole::Arms, &arm.path, arm.key.as_ref()));
    reference.into_iter().for_each(|reference| add(InputRole::Reference, &reference.path, reference.key.as_ref()));
    sources
}

/// All experiments of these files and folders, validated.
pub(crate) fn plans(paths: &[PathBuf], features: Option<&Path>) -> Result<Vec<Plan>> {
    let experiments = find(paths)?.iter().map(Experiment::read).collect::<Result<Vec<_>>>()?;
    check_names(&experiments)?;
    experiments.iter().map(|experiment| experiment.check(features)).collect()
}

/// The given files, and every `.toml` file in the given folders and their subfolders; without duplicates, sorted by folder.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths {
        let metadata = std::fs::metadata(path).map_err(|source| Error::Io { path: path.clone(), source })?;
        if !metadata.is_dir() {
            found.push(path.clone());
            continue;
        }
        let before = found.len();
        search(path, &mut found)?;
        if found.len() == before {
            let problem = "there are no experiments (.toml files) in this folder; give another".into();
            return Err(Error::File { path: path.clone(), problem });
        }
    }
    let mut seen: Vec<PathBuf> = Vec::new();
    found.retain(|path| {
        let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
        let new = !seen.contains(&whole);
        seen.push(whole);
        new
    });
    Ok(found)
}

fn search(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let io = |source| Error::Io { path: folder.into(), source };
    let mut entries = std::fs::read_dir(folder).map_err(io)?.collect::<std::io::Result<Vec<_>>>().map_err(io)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // Links to folders are not followed, to avoid cycles.
        if entry.file_type().map_err(io)?.is_dir() {
            search(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") && path.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether all experiments that ran are as expected.
pub(crate) fn passed(all: &[Reproduced]) -> bool {
    all.iter().all(|one| match one {
        Reproduced::Ran(outcome) => outcome.passed(),
        Reproduced::Skipped { .. } => true,
    })
}

/// All experiments as text, with expected and measured values, and a summary.
pub(crate) fn table(all: &[Reproduced]) -> String {
    let blocks: Vec<String> = all.iter().map(block).collect();
    format!("{}\n{}\n", blocks.join("\n"), summary(all))
}

/// One experiment as text: one line per expectation, with aligned columns.
pub(crate) fn block(one: &Reproduced) -> String {
    let outcome = match one {
        Reproduced::Skipped { name, missing } => {
            let missing = missing.display();
            return format!(
                "- {name}\n  skipped: features not found at {missing}; give their folder with --features FOLDER\n"
            );
        }
        Reproduced::Ran(outcome) => outcome,
    };
    let first_line = outcome.about.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut text = format!("{} {}: {}\n", mark(outcome.passed()), outcome.name, plain(first_line.trim()));
    if let Some(solve) = &outcome.solve {
        text += &format!("  {}\n", solve.headline().answer);
    }
    let cells: Vec<[String; 3]> = outcome
        .checks
        .iter()
        .map(|check| [check.what.to_string(), check.requirement(), check.measured.to_string()])
        .collect();
    let heading = ["quantity".to_string(), "expected".into(), "measured".into()];
    let width = |column: usize| {
        cells.iter().chain([&heading]).map(|row| measure_text_width(&row[column])).max().unwrap_or_default()
    };
    let widths = [width(0), width(1), width(2)];
    if !cells.is_empty() {
        text += &format!("    {}\n", row(&heading, widths).trim_end());
    }
    for (check, cells) in outcome.checks.iter().zip(&cells) {
        text += &format!("  {} {}  {}\n", mark(check.passed), row(cells, widths), word(check));
    }
    text
}

/// The summary in one sentence.
pub(crate) fn summary(all: &[Reproduced]) -> String {
    let outcomes = || {
        all.iter().filter_map(|one| match one {
            Reproduced::Ran(outcome) => Some(outcome),
            Reproduced::Skipped { .. } => None,
        })
    };
    let (ran, skipped) = (outcomes().count(), all.len() - outcomes().count());
    let checks: Vec<&Check> = outcomes().flat_map(|outcome| &outcome.checks).collect();
    let met = checks.iter().filter(|check| check.passed).count();
    let mut text = format!(
        "{} of {} expectations met in {ran} {}",
        met,
        checks.len(),
        if ran == 1 { "experiment" } else { "experiments" }
    );
    if skipped > 0 {
        text += &format!("; {skipped} skipped because features are missing");
    }
    let failed: Vec<&str> =
        outcomes().filter(|outcome| !outcome.passed()).map(|outcome| outcome.name.as_str()).collect();
    if !failed.is_empty() {
        text += &format!("; not as expected: {}", failed.join(", "));
    }
    text + "."
}

/// Expected and measured values, one table per experiment that ran.
pub(crate) fn tables(all: &[Reproduced]) -> Vec<Table> {
    let table = |one: &Reproduced| {
        let Reproduced::Ran(outcome) = one else { return None };
        let header = ["quantity", "expected", "measured", "result"];
        let mut table = Table::new(&outcome.name, header).left(1).left(3);
        for check in &outcome.checks {
            let measured = match &check.measured {
                Measured::Number(number) => brief_cell(*number).saying(check.measured.to_string()),
                other => other.to_string().into(),
            };
            let result = if check.passed { "as expected" } else { "not as expected" };
            let result = if check.passed { Cell::from(result) } else { Cell::from(result).strong() };
            table.row(vec![check.what.to_string().into(), check.requirement().into(), measured, result]);
        }
        Some(table)
    };
    all.iter().filter_map(table).collect()
}

fn mark(passed: bool) -> char {
    if passed { '✓' } else { '✗' }
}

/// The mark as text, for readers who cannot see it.
fn word(check: &Check) -> &'static str {
    if check.passed { "as expected" } else { "NOT as expected" }
}

fn row(cells: &[String; 3], widths: [usize; 3]) -> String {
    let padded = |column: usize| {
        let blanks = widths[column].saturating_sub(measure_text_width(&cells[column]));
        format!("{}{}", cells[column], " ".repeat(blanks))
    };
    [padded(0), padded(1), padded(2)].join("  ")
}

/// Text without control characters.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Options, Reproduced, block, find, passed, plans, run, summary, table};

    /// Three real generators, a few samples, one expectation.
    fn experiment(name: &str, expected: &str) -> String {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion").canonicalize().unwrap();
        format!(
            "name = \"{name}\"\nabout = \"Is it so?\\nYes.\"\nfeatures = '{}'\narms = [\"categories.npz\"]\nobjective = \"rke\"\n\
             bandwidth = 20\nsamples = 50\n[expected]\n{expected}\n",
            data.display()
        )
    }

    const RIGHT: &str = "\"best single\" = \"bag\"\n\"gain\" = { at_least = 0 }";
    const WRONG: &str = "\"best single\" = \"coat\"\n\"gain\" = { at_least = 0 }";

    fn folder(files: &[(&str, String)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn engine(_: usize, _: usize) -> modelmix::compute::Engine {
        modelmix::compute::Cpu::with_threads(1).into()
    }

    fn options() -> Options {
        Options { features: None, threads: 1 }
    }

    fn reproduce(folder: &tempfile::TempDir) -> Vec<Reproduced> {
        run(&[folder.path().into()], &options(), &mut engine, &mut |_| {}).unwrap()
    }

    #[test]
    fn experiments_are_found_in_order_and_once() {
        let folder = folder(&[
            ("b.toml", String::new()),
            ("a/z.toml", String::new()),
            ("a/notes.md", String::new()),
            ("c.toml", String::new()),
        ]);
        let at = |name: &str| folder.path().join(name);
        let all = vec![at("a/z.toml"), at("b.toml"), at("c.toml")];
        assert_eq!(find(&[folder.path().into()]).unwrap(), all);
        assert_eq!(
            find(&[at("b.toml"), folder.path().join("a/../b.toml"), at("a")]).unwrap(),
            [at("b.toml"), at("a/z.toml")]
        );
        let error = find(&[at("nothing")]).unwrap_err().to_string();
        assert!(error.starts_with("cannot read ") && error.contains("nothing"), "{error}");
        std::fs::create_dir(at("empty")).unwrap();
        let error = find(&[at("empty")]).unwrap_err().to_string();
        assert!(error.contains("there are no experiments (.toml files) in this folder"), "{error}");
    }

    #[test]
    fn expected_stands_beside_measured() {
        let folder = folder(&[("right.toml", experiment("right", RIGHT)), ("wrong.toml", experiment("wrong", WRONG))]);
        let mut told = Vec::new();
        let all = run(&[folder.path().into()], &options(), &mut engine, &mut |at| {
            told.push(format!("{} {}/{} {:?}", at.name, at.index, at.of, at.stage));
        })
        .unwrap();
        assert_eq!(told, ["right 0/2 Reading", "right 0/2 Solving", "wrong 1/2 Reading", "wrong 1/2 Solving"]);
        assert!(passed(&all[..1]) && !passed(&all));
        let lines: Vec<String> = block(&all[1]).lines().map(str::to_string).collect();
        assert_eq!(lines[0], "✗ wrong: Is it so?");
        assert!(lines[1].starts_with("  Mix "), "{}", lines[1]);
        assert_eq!(lines[2], "    quantity     expected    measured");
        assert_eq!(lines[3], "  ✗ best single  coat        bag       NOT as expected");
        assert!(
            lines[4].starts_with("  ✓ gain         at least 0  0.") && lines[4].ends_with("  as expected"),
            "{}",
            lines[4]
        );
        assert_eq!(summary(&all[..1]), "2 of 2 expectations met in 1 experiment.");
        assert_eq!(summary(&all), "3 of 4 expectations met in 2 experiments; not as expected: wrong.");
        assert_eq!(table(&all), format!("{}\n{}\n{}\n", block(&all[0]), block(&all[1]), summary(&all)));
    }

    #[test]
    fn what_has_no_features_is_skipped() {
        let folder = folder(&[("right.toml", experiment("right", RIGHT))]);
        let options = Options { features: Some(PathBuf::from("/nowhere")), ..options() };
        let all = run(&[folder.path().into()], &options, &mut engine, &mut |_| {}).unwrap();
        assert!(passed(&all));
        assert_eq!(
            block(&all[0]),
            "- right\n  skipped: features not found at /nowhere/categories.npz; give their folder with --features FOLDER\n"
        );
        assert_eq!(summary(&all), "0 of 0 expectations met in 0 experiments; 1 skipped because features are missing.");
    }

    #[test]
    fn nothing_runs_before_everything_is_right() {
        let folder = folder(&[("a.toml", experiment("same", RIGHT)), ("b.toml", experiment("same", RIGHT))]);
        let error = plans(&[folder.path().into()], None).unwrap_err().to_string();
        assert!(error.contains("b.toml: the name \"same\" is also used by"), "{error}");
        std::fs::write(folder.path().join("b.toml"), experiment("b", "\"gian\" = { at_least = 0 }")).unwrap();
        let error = plans(&[folder.path().into()], None).unwrap_err().to_string();
        assert!(error.contains("no such quantity"), "{error}");
        std::fs::remove_file(folder.path().join("b.toml")).unwrap();
        assert!(passed(&reproduce(&folder)));
    }
}
