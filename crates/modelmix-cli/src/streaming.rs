//! Features that are read in parts: shards → survey → plan → sums. Progress, memory and checkpoints belong here; what is summed
//! belongs to the library.

mod blocks;
mod checkpoint;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use modelmix::accumulate::{
    Accumulator, DEFAULT_SAMPLE, EXACT_ROWS, Method, Plan, PlanSettings, Planned, Role, SurveySettings, threads_within,
};
use modelmix::compute::available_threads;
use modelmix::load::{self, ArmSource, Shard, ShardColumns};
use modelmix::{Features, Objective};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{ColumnArgs, EngineArgs, SumArgs};
use crate::error::{Failure, Result};
use crate::terminal::{Terminal, count};
use crate::values::Task;
pub(crate) use checkpoint::Checkpoint;

/// The extension of files of sums.
const EXTENSION: &str = "acc";
/// Bytes of an accumulator and of its bookkeeping per row that is held, besides its features: thrice, since rows are copied to be
/// solved.
const COPIES_OF_HELD_ROWS: u64 = 3;
const BYTES_PER_HELD_ROW: u64 = 64;

/// Whether the source is a file of sums.
pub(crate) fn is_sums(source: &ArmSource) -> bool {
    source.path.extension().is_some_and(|extension| extension == EXTENSION)
}

/// The document of `accumulate --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Accumulated {
    /// The version of modelmix.
    pub(crate) version: &'static str,
    /// The file of sums.
    pub(crate) file: String,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// What was summed: survey, rows, sample, pairs or features.
    pub(crate) method: Method,
    /// The objective with its bandwidths; `null` for a survey.
    pub(crate) objective: Option<String>,
    /// The number of random Fourier features per kernel; 0 without them.
    pub(crate) random_features: usize,
    /// The number of columns of the features.
    pub(crate) width: Option<usize>,
    /// The rows per arm.
    pub(crate) arms: BTreeMap<String, u64>,
    /// The rows of the reference.
    pub(crate) reference: u64,
    /// The number of shards of arms and of the reference that are included.
    pub(crate) shards: usize,
}

/// The shards of a command.
pub(crate) struct Input {
    pub(crate) arms: Vec<Shard>,
    pub(crate) reference: Vec<Shard>,
    sources: Vec<String>,
    columns: ShardColumns,
    /// The number of columns of the features.
    width: usize,
    /// The number of arms, if a column names them as many as the first rows have.
    arm_count: usize,
}

impl Input {
    /// Finds shards; only headers are read.
    pub(crate) fn open(arms: &[String], reference: Option<&str>, columns: &ColumnArgs) -> Result<Self> {
        let sources = arms.iter().map(|text| text.parse()).collect::<modelmix::Result<Vec<ArmSource>>>()?;
        if let Some(sums) = sources.iter().find(|source| is_sums(source)) {
            return Err(Failure::input(format!(
                "{} is a file of sums, and the others are not; give one kind",
                sums.path.display()
            )));
        }
        let mut of_arms = ShardColumns::new().scores(&columns.score_columns);
        of_arms.features.clone_from(&columns.features_column);
        of_arms.arm.clone_from(&columns.arm_column);
        let reference_shards = match reference {
            Some(reference) => reference_shards(reference, columns)?,
            None => Vec::new(),
        };
        let arms_shards = load::shards(&sources, &of_arms)?;
        check_once(&arms_shards)?;
        check_once(&reference_shards)?;
        let (width, arm_count) = first_rows(&arms_shards)?;
        Ok(Self {
            arms: arms_shards,
            reference: reference_shards,
            sources: arms.iter().map(String::as_str).chain(reference).map(String::from).collect(),
            columns: of_arms,
            width,
            arm_count,
        })
    }

    /// Chooses the compute engine by the pairs of rows that will be evaluated.
    pub(crate) fn choose_engine(&self, args: &EngineArgs, settings: &Settings<'_>, terminal: &Terminal) -> Result<()> {
        match settings.sums.method.map(Method::from) {
            Some(Method::Pairs) => self.choose_engine_for_pairs(args, terminal),
            _ if settings.holds_all(self) => self.choose_engine_for_pairs(args, terminal),
            _ => terminal.choose_engine(args, 0, self.width),
        }
    }

    /// Chooses the compute engine for all pairs of rows.
    pub(crate) fn choose_engine_for_pairs(&self, args: &EngineArgs, terminal: &Terminal) -> Result<()> {
        terminal.choose_engine(args, usize::try_from(self.rows()).unwrap_or(usize::MAX), self.width)
    }

    /// The number of rows, as files claim.
    fn rows(&self) -> u64 {
        self.arms.iter().chain(&self.reference).map(Shard::rows).sum()
    }

    /// The files that are read.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.arms.iter().chain(&self.reference).map(|shard| shard.path().to_path_buf()).collect()
    }

    /// The arms in the order of the sources; empty if a column names them.
    pub(crate) fn arm_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for arm in self.arms.iter().filter_map(Shard::arm) {
            if !names.iter().any(|known| known == arm) {
                names.push(arm.into());
            }
        }
        names
    }

    /// The number of rows of the smallest arm, if it is known.
    fn smallest_arm(&self) -> Option<u64> {
        let mut rows: BTreeMap<&str, u64> = BTreeMap::new();
        for shard in &self.arms {
            *rows.entry(shard.arm()?).or_default() += shard.rows();
        }
        let reference: u64 = self.reference.iter().map(Shard::rows).sum();
        rows.into_values().chain((reference > 0).then_some(reference)).min()
    }

    /// The whole reference in memory, if a term needs its nearest-neighbour balls.
    pub(crate) fn whole_reference(&self, objective: &Objective) -> Result<Option<Features>> {
        match self.needs_whole_reference(objective) {
            true => whole(&self.reference).map(Some),
            false => Ok(None),
        }
    }

    fn needs_whole_reference(&self, objective: &Objective) -> bool {
        !self.reference.is_empty() && modelmix::accumulate::needs_whole_reference(objective)
    }

    /// The bytes of the reference, if it is held.
    fn reference_bytes(&self, objective: &Objective) -> u64 {
        let rows: u64 = self.reference.iter().map(Shard::rows).sum();
        if self.needs_whole_reference(objective) { rows.saturating_mul(4 * self.width as u64) } else { 0 }
    }
}

fn reference_shards(reference: &str, columns: &ColumnArgs) -> Result<Vec<Shard>> {
    let mut of_features = ShardColumns::new();
    of_features.features.clone_from(&columns.features_column);
    Ok(load::shards(&[reference.parse()?], &of_features)?)
}

/// A reference that is held as a whole: a file, or all files of a folder in their order.
pub(crate) fn whole_reference(reference: &str, columns: &ColumnArgs) -> Result<Features> {
    whole(&reference_shards(reference, columns)?)
}

fn whole(shards: &[Shard]) -> Result<Features> {
    let (mut values, mut width) = (Vec::new(), 0);
    for shard in shards {
        shard.read(|batch| {
            width = batch.rows.width();
            values.extend_from_slice(batch.rows.values());
            Ok(())
        })?;
    }
    Ok(Features::new(width, values)?)
}

/// The number of columns and of arms, from the first shard if only its rows tell.
fn first_rows(shards: &[Shard]) -> Result<(usize, usize)> {
    let none = || Failure::input("there are no rows; give at least one");
    let first = shards.first().ok_or_else(none)?;
    let names: BTreeSet<&str> = shards.iter().filter_map(Shard::arm).collect();
    if let (Some(width), false) = (first.width(), names.is_empty()) {
        return Ok((width, names.len()));
    }
    let (mut width, mut arms) = (None, BTreeSet::new());
    let read = first.read(|batch| {
        width = Some(batch.rows.width());
        arms.insert(batch.arm.to_string());
        // One batch tells the width.
        if names.is_empty() { Ok(()) } else { Err(modelmix::Error::Stopped) }
    });
    match (width, read) {
        (Some(width), Ok(())) => Ok((width, arms.len())),
        (Some(width), Err(modelmix::Error::Stopped)) => Ok((width, names.len())),
        (_, Err(error)) => Err(error.into()),
        (None, Ok(())) => Err(none()),
    }
}

/// Checks that no file is given twice under different names, which would count its rows twice.
fn check_once(shards: &[Shard]) -> Result<()> {
    let mut places: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    for path in shards.iter().map(Shard::path) {
        let Ok(place) = path.canonicalize() else { continue };
        let known = *places.entry(place).or_insert(path);
        if known != path {
            let (known, path) = (known.display(), path.display());
            return Err(Failure::input(format!(
                "{known} and {path} are the same file, whose rows count once; leave one out"
            )));
        }
    }
    Ok(())
}

/// Everything that decides what sums are, except the data.
pub(crate) struct Settings<'a> {
    pub(crate) sums: &'a SumArgs,
    pub(crate) task: Task,
    pub(crate) objective: Objective,
    pub(crate) costs: BTreeMap<String, f64>,
    pub(crate) seed: u64,
    pub(crate) threads: Option<usize>,
}

impl Settings<'_> {
    /// The number of threads that fit into the budget if each has an accumulator of this size. Beside them, one has all sums, and its
    /// bytes are copied twice when they are written to a file; `held` bytes are in memory all the time.
    fn threads_with(&self, bytes: u64, held: u64) -> Result<usize> {
        let threads = self.threads.unwrap_or_else(available_threads);
        match self.sums.memory {
            Some(memory) => Ok(threads_within(memory, bytes, bytes.saturating_mul(2).saturating_add(held), threads)?),
            None => Ok(threads),
        }
    }

    /// Whether all rows are held: as asked for, or because they are few and fit.
    fn holds_all(&self, input: &Input) -> bool {
        match self.sums.method {
            Some(method) => Method::from(method) == Method::Rows,
            None => {
                self.sums.approximation_error.is_none()
                    && self.sums.random_features.is_none()
                    && input.rows() <= EXACT_ROWS
                    && self.threads_holding_all(input).is_ok()
            }
        }
    }

    /// The number of threads that fit if all rows are held and solved. Held once, whatever the number of threads, they are copied to
    /// be solved.
    fn threads_holding_all(&self, input: &Input) -> Result<usize> {
        let row = 4 * input.width as u64 + BYTES_PER_HELD_ROW;
        let bytes = COPIES_OF_HELD_ROWS.saturating_mul(input.rows()).saturating_mul(row);
        self.threads_with(0, bytes.saturating_add(input.reference_bytes(&self.objective)))
    }

    /// The number of sampled rows per arm.
    fn sample(&self, input: &Input, extent: Extent) -> usize {
        if extent == Extent::Whole && self.holds_all(input) {
            return usize::try_from(input.rows()).unwrap_or(usize::MAX);
        }
        self.sums.sampled_rows.unwrap_or(DEFAULT_SAMPLE)
    }

    pub(crate) fn plan_settings(&self, arms: Vec<String>, reference: Option<Features>) -> PlanSettings {
        PlanSettings::default()
            .method(self.sums.method.map(Method::from))
            .features(self.sums.random_features)
            .error(self.sums.approximation_error)
            .costs(self.costs.clone())
            .arms(arms)
            .reference(reference)
            .memory(self.sums.memory)
            .threads(self.threads)
    }
}

/// How much of the data the shards of a survey are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// A part, whose survey must merge with those of other parts: it depends on options alone.
    Part,
}

/// A first pass over all rows, which counts and samples them.
pub(crate) fn survey(
    input: &Input,
    extent: Extent,
    settings: &Settings<'_>,
    checkpoint: &mut Checkpoint,
    terminal: &Terminal,
) -> Result<Accumulator> {
    let sample = settings.sample(input, extent);
    let holds_all = sample as u64 >= input.rows();
    let expected = input.smallest_arm().filter(|_| extent == Extent::Whole && !holds_all);
    let settings_of_survey = SurveySettings::default()
        .seed(settings.seed)
        .sample(sample)
        .expected_rows(expected)
        .scores(input.columns.scores.clone());
    let empty = Accumulator::survey(&settings_of_survey);
    let mut survey = checkpoint.resume(empty, terminal)?;
    let threads = match holds_all {
        true => settings.threads_holding_all(input)?,
        false => {
            let bytes = survey.survey_bytes(input.arm_count, input.width);
            settings.threads_with(bytes, input.reference_bytes(&settings.objective))?
        }
    };
    pass(&mut survey, input, (settings.task, threads), "reading rows", checkpoint, terminal)?;
    Ok(survey)
}

/// The plan for a survey, which is printed.
pub(crate) fn plan(
    survey: &Accumulator,
    settings: &Settings<'_>,
    arms: Vec<String>,
    reference: Option<Features>,
    terminal: &Terminal,
) -> Result<Planned> {
    let planned = survey.plan(&settings.objective, &settings.plan_settings(arms, reference))?;
    let passes = if planned.needs_second_pass { "; rows are read a second time" } else { "" };
    terminal.remark(format!("Plan for {} rows: {}{passes}.", count(planned.rows as usize), planned.text));
    terminal.warn(&planned.warnings);
    Ok(planned)
}

/// The pass that sums what a plan says.
pub(crate) fn sum(
    plan: &Plan,
    settings: &Settings<'_>,
    input: &Input,
    reference: Option<Features>,
    checkpoint: &mut Checkpoint,
    terminal: &Terminal,
) -> Result<Accumulator> {
    let engine = terminal.engine().clone();
    let held = reference.as_ref().map_or(0, |reference| 4 * reference.values().len() as u64);
    let empty = Accumulator::with_engine(plan, reference, engine)?;
    let mut sums = checkpoint.resume(empty, terminal)?;
    let threads = settings.threads_with(plan.bytes(), held)?;
    pass(&mut sums, input, (settings.task, threads), "summing rows", checkpoint, terminal)?;
    if plan.method() == Method::Pairs {
        let added = blocks::add_pairs(&mut sums, input, settings.task, settings.sums.memory, checkpoint, terminal);
        added.and(checkpoint.write(&sums))?;
    }
    Ok(sums)
}

/// Both passes: an accumulator that can be solved.
pub(crate) fn both_passes(
    input: &Input,
    settings: &Settings<'_>,
    checkpoint: &mut Checkpoint,
    terminal: &Terminal,
) -> Result<Accumulator> {
    let reference = input.whole_reference(&settings.objective)?;
    if let Some(plan) = checkpoint.plan() {
        // The first pass was finished before the interruption.
        let objective = plan.objective().unwrap_or_default();
        let (method, rows) = (plan.method().name(), count(plan.surveyed_rows() as usize));
        terminal.remark(format!("The first pass is done. Its plan: {method} for {objective}, from {rows} rows."));
        return sum(&plan, settings, input, reference, checkpoint, terminal);
    }
    let survey = survey(input, Extent::Whole, settings, checkpoint, terminal)?.on_engine(terminal.engine().clone());
    let planned = plan(&survey, settings, input.arm_names(), reference.clone(), terminal)?;
    if !planned.needs_second_pass {
        return Ok(survey.with_plan(&planned.plan, reference)?);
    }
    drop(survey);
    sum(&planned.plan, settings, input, reference, checkpoint, terminal)
}

/// The shards of a task.
fn share(task: Task, shards: &[Shard]) -> Vec<Shard> {
    shards.iter().enumerate().filter(|(at, _)| task.has(*at)).map(|(_, shard)| shard.clone()).collect()
}

/// Adds all shards that are not yet included, with a progress bar in rows and checkpoints.
fn pass(
    sums: &mut Accumulator,
    input: &Input,
    work: (Task, usize),
    what: &str,
    checkpoint: &mut Checkpoint,
    terminal: &Terminal,
) -> Result<()> {
    let (task, threads) = work;
    let (arms, reference) = (share(task, &input.arms), share(task, &input.reference));
    let rows = arms.iter().chain(&reference).map(Shard::rows).sum();
    let bar = terminal.progress(what, rows);
    let included = sums.shards().values().chain(sums.reference_shards().values()).sum::<u64>();
    bar.inc(included);
    bar.reset_eta();
    let done = add(sums, (&arms, &reference), threads, &bar, checkpoint);
    bar.finish_and_clear();
    // Also after a failure: the shards that were summed are not read again.
    let written = checkpoint.write(sums);
    done.and(written)
}

fn add(
    sums: &mut Accumulator,
    (arms, reference): (&[Shard], &[Shard]),
    threads: usize,
    bar: &ProgressBar,
    checkpoint: &mut Checkpoint,
) -> Result<()> {
    let mut failed = None;
    for (role, shards) in [(Role::Reference, reference), (Role::Arms, arms)] {
        let added = sums.add_shards(shards, role, threads, |sums, rows| {
            bar.inc(rows);
            checkpoint.write_if_due(sums).map_err(|failure| {
                failed = Some(failure);
                modelmix::Error::Stopped
            })
        });
        match failed.take() {
            Some(failure) => return Err(failure),
            None => added?,
        }
    }
    Ok(())
}

/// Reads files of sums and merges them, in the order given. `reference` reads the whole reference, which only precision and density
/// need.
pub(crate) fn merged(
    paths: &[PathBuf],
    reference: impl Fn() -> Result<Option<Features>>,
    terminal: &Terminal,
) -> Result<Accumulator> {
    let bar = terminal.progress("merging sums", paths.len() as u64);
    let mut whole: Option<Accumulator> = None;
    for path in paths {
        let named = |error: modelmix::Error| Failure::input(format!("{}: {error}", path.display()));
        let bytes = read(path)?;
        match &mut whole {
            None => {
                let first = Accumulator::from_bytes(&bytes, None).map_err(named)?;
                let reference = if first.current_plan().needs_whole_reference() { reference()? } else { None };
                whole = Some(match reference {
                    None => first,
                    reference => Accumulator::from_bytes(&bytes, reference).map_err(named)?,
                });
            }
            Some(whole) => {
                let part = whole.like_from_bytes(&bytes).map_err(named)?;
                whole.merge(&part).map_err(named)?;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    whole.ok_or_else(|| Failure::input("there are no files of sums; give at least one"))
}

/// The plan of a file of sums.
pub(crate) fn plan_of(path: &Path) -> Result<Plan> {
    let named = |error: modelmix::Error| Failure::input(format!("{}: {error}", path.display()));
    let sums = Accumulator::from_bytes(&read(path)?, None).map_err(named)?;
    if sums.current_plan().method() == Method::Survey {
        return Err(Failure::input(format!(
            "{} is a survey and has no plan yet; make one: modelmix accumulate survey-*.acc --objective TERMS --out plan.acc",
            path.display()
        )));
    }
    Ok(sums.current_plan().clone())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))
}
