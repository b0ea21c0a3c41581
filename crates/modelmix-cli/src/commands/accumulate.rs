//! `modelmix accumulate`: sums over parts of the rows, in files that merge.

use std::path::{Path, PathBuf};

use modelmix::Objective;
use modelmix::accumulate::{Accumulator, Method, Plan};
use modelmix::load::ArmSource;
use serde::Serialize;

use crate::args::AccumulateArgs;
use crate::error::{Failure, Result};
use crate::files;
use crate::inputs;
use crate::streaming::{self, Accumulated, Checkpoint, Extent, Input, Settings};
use crate::terminal::{Cell, Table, Terminal, bold, brief_size, count, count_cell, dim};
use crate::values::Task;

/// A document with the name of its command.
#[derive(Serialize)]
#[serde(tag = "command", rename = "accumulate")]
struct Printed<'a> {
    #[serde(flatten)]
    result: &'a Accumulated,
}

pub(crate) fn run(args: &AccumulateArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    files::check(&args.out)?;
    let sources = args.shards.iter().map(|text| text.parse()).collect::<modelmix::Result<Vec<ArmSource>>>()?;
    files::check_not_inputs([&args.out], sources.iter().map(|source| &source.path))?;
    if !streaming::is_sums(&args.out.to_string_lossy().parse()?) {
        return Err(Failure::input(format!(
            "--out is {}, but files of sums are recognised by their ending; name it, as in sums.acc",
            args.out.display()
        )));
    }
    let (sums, checkpoint) = if sources.iter().all(streaming::is_sums) {
        let paths: Vec<PathBuf> = sources.into_iter().map(|source| source.path).collect();
        (merge(args, &paths, &terminal)?, Checkpoint::none())
    } else {
        accumulate(args, &terminal)?
    };
    let bytes = sums.to_bytes();
    let document = document(args, &sums, bytes.len());
    files::write(&args.out, &bytes)?;
    let removed = checkpoint.remove();
    terminal.document(&Printed { result: &document })?;
    print(args, &terminal, &document);
    terminal.print_after(removed)
}

/// The checkpoint beside the output.
fn partial(out: &Path) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_os_string();
    name.push(".partial");
    out.with_file_name(name)
}

fn settings<'a>(args: &'a AccumulateArgs, objective: Objective) -> Settings<'a> {
    Settings {
        sums: &args.sums,
        task: args.task.unwrap_or(Task::WHOLE),
        objective,
        costs: args.costs.iter().map(|given| (given.arm.clone(), given.number)).collect(),
        seed: args.seed,
        threads: args.common.threads,
    }
}

fn objective(args: &AccumulateArgs, has_reference: bool) -> Objective {
    inputs::with_bandwidth(args.objective.clone().unwrap_or_else(|| Objective::usual(has_reference)), args.bandwidth)
}

/// Sums shards.
fn accumulate(args: &AccumulateArgs, terminal: &Terminal) -> Result<(Accumulator, Checkpoint)> {
    let input = Input::open(&args.shards, args.reference.as_deref(), &args.columns)?;
    files::check_not_inputs([&args.out], &input.paths())?;
    let settings = settings(args, objective(args, args.reference.is_some()));
    let open = |extent, plan: Option<&Plan>| Checkpoint::open(&partial(&args.out), &input, (extent, plan), &settings);
    if args.survey {
        let mut checkpoint = open(Extent::Part, None)?;
        return Ok((streaming::survey(&input, Extent::Part, &settings, &mut checkpoint, terminal)?, checkpoint));
    }
    let Some(file) = &args.plan else {
        if args.task.is_some() {
            return Err(Failure::input(
                "--task K/N shares one pass among tasks, so give --survey, and then --plan with the plan of all surveys",
            ));
        }
        input.choose_engine(&args.engine, &settings, terminal)?;
        let mut checkpoint = open(Extent::Whole, None)?;
        return Ok((streaming::both_passes(&input, &settings, &mut checkpoint, terminal)?, checkpoint));
    };
    let sums = &args.sums;
    let fixed = [
        (sums.method.is_some(), "--method"),
        (sums.random_features.is_some(), "--random-features"),
        (sums.approximation_error.is_some(), "--approximation-error"),
        (sums.sampled_rows.is_some_and(|_| args.task.is_none()), "--sampled-rows"),
        (args.seed != 0, "--seed"),
    ];
    refuse_options(&fixed, "the plan says what is summed")?;
    let plan = streaming::plan_of(file)?;
    if !plan.method().sums_all_rows() {
        return Err(Failure::input(format!(
            "the plan {} has all rows that it needs, so nothing is left to sum; solve it: modelmix solve {}",
            file.display(),
            file.display()
        )));
    }
    match plan.method() == Method::Pairs {
        true => input.choose_engine_for_pairs(&args.engine, terminal)?,
        false => input.choose_engine(&args.engine, &settings, terminal)?,
    }
    let planned: Objective = plan.objective().unwrap_or_default().parse()?;
    let reference = input.whole_reference(&planned)?;
    let mut checkpoint = open(Extent::Part, Some(&plan))?;
    Ok((streaming::sum(&plan, &settings, &input, reference, &mut checkpoint, terminal)?, checkpoint))
}

/// Refuses options that would be ignored.
fn refuse_options(options: &[(bool, &str)], because: &str) -> Result<()> {
    match options.iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, option)) => Err(Failure::input(format!("{because}; leave out {option}"))),
    }
}

/// Merges sums; with an objective, surveys become a plan.
fn merge(args: &AccumulateArgs, paths: &[PathBuf], terminal: &Terminal) -> Result<Accumulator> {
    let has_objective = args.objective.is_some() || args.bandwidth.is_some();
    let sums = &args.sums;
    let of_shards = [
        (args.survey, "--survey"),
        (args.plan.is_some(), "--plan"),
        (args.task.is_some(), "--task"),
        (args.columns.arm_column.is_some() || !args.columns.score_columns.is_empty(), "options of columns"),
        (sums.sampled_rows.is_some(), "--sampled-rows"),
        (args.seed != 0, "--seed"),
    ];
    refuse_options(&of_shards, "files of sums are merged, and their rows are not read")?;
    let of_plan = [
        (!args.costs.is_empty(), "--costs"),
        (sums.method.is_some(), "--method"),
        (sums.random_features.is_some(), "--random-features"),
        (sums.approximation_error.is_some(), "--approximation-error"),
        (args.reference.is_some(), "--reference"),
    ];
    if !has_objective {
        refuse_options(&of_plan, "a plan is made with --objective, and without it sums are only merged")?;
    }
    let merged = streaming::merged(paths, || Ok(None), terminal)?;
    let is_survey = merged.current_plan().method() == Method::Survey;
    if !has_objective {
        return Ok(merged);
    }
    if !is_survey {
        return Err(Failure::input(format!(
            "{} has an objective already, {}; leave out --objective and --bandwidth",
            paths[0].display(),
            merged.current_plan().objective().unwrap_or_default()
        )));
    }
    let objective = objective(args, merged.reference_count() > 0);
    let reference = match &args.reference {
        Some(text) if modelmix::accumulate::needs_whole_reference(&objective) => {
            Some(streaming::whole_reference(text, &args.columns)?)
        }
        _ => None,
    };
    let settings = settings(args, objective);
    let planned = streaming::plan(&merged, &settings, Vec::new(), reference.clone(), terminal)?;
    if planned.needs_second_pass {
        return Ok(Accumulator::new(&planned.plan, reference)?);
    }
    Ok(merged.with_plan(&planned.plan, reference)?)
}

fn document(args: &AccumulateArgs, sums: &Accumulator, bytes: usize) -> Accumulated {
    let plan = sums.current_plan();
    Accumulated {
        version: modelmix::VERSION,
        file: args.out.to_string_lossy().into_owned(),
        bytes: bytes as u64,
        method: plan.method(),
        objective: plan.objective().map(String::from),
        random_features: plan.features(),
        width: sums.width(),
        arms: sums.counts(),
        reference: sums.reference_count(),
        shards: sums.shards().len() + sums.reference_shards().len(),
    }
}

fn print(args: &AccumulateArgs, terminal: &Terminal, document: &Accumulated) {
    let rows = document.arms.values().sum::<u64>() + document.reference;
    let (size, file) = (brief_size(document.bytes), &document.file);
    let next = match (document.method, rows) {
        (Method::Survey, _) => format!("{} rows are surveyed in {file}, {size}.", count(rows as usize)),
        (_, 0) if args.task.is_some() => format!("No shards are left for this task; {file} has only the plan, {size}."),
        (_, 0) => format!("The plan is in {file}, {size}."),
        _ => format!("{} rows are summed in {file}, {size}.", count(rows as usize)),
    };
    terminal.say(bold(&next));
    terminal.say("");
    let mut table = Table::new("Rows", ["set", "rows"]);
    for (arm, rows) in &document.arms {
        table.row(vec![Cell::from(arm), count_cell(*rows as usize)]);
    }
    if document.reference > 0 {
        table.row(vec![Cell::from("reference"), count_cell(document.reference as usize)]);
    }
    if rows > 0 {
        terminal.table(table);
        terminal.say("");
    }
    let features = match document.random_features {
        0 => String::new(),
        features => format!("; {} random Fourier features per kernel", count(features)),
    };
    let objective = document.objective.as_deref().map_or(String::new(), |objective| format!("objective {objective}"));
    let text = format!("{objective}{features}");
    if !text.is_empty() {
        terminal.say(dim(&text));
    }
}
