//! `modelmix solve` for data that is read in parts, and for files of sums.

use std::path::PathBuf;

use modelmix::accumulate::{Accumulator, Method, needs_whole_reference};
use modelmix::document::{Document, InputRole};
use modelmix::internals::arms::by_arm;
use modelmix::internals::numbers::brief;
use modelmix::load::ArmSource;
use modelmix::mixture::SolveSettings;
use modelmix::simplex::Bounds;

use crate::args::SolveArgs;
use crate::commands::output::{self, Section};
use crate::error::{Failure, Result};
use crate::files;
use crate::inputs;
use crate::provenance::Sources;
use crate::streaming::{self, Checkpoint, Extent, Input, Settings};
use crate::terminal::Terminal;
use crate::values::Task;

/// Whether the arguments ask for data in parts.
pub(super) fn is_wanted(args: &SolveArgs) -> bool {
    let is_sums = |text: &String| text.parse().is_ok_and(|source: ArmSource| streaming::is_sums(&source));
    args.sums.is_used() || args.columns.is_used() || args.checkpoint.is_some() || args.arms.arms.iter().any(is_sums)
}

pub(super) fn run(args: &SolveArgs, terminal: &Terminal) -> Result<()> {
    output::check(&args.output)?;
    files::check_distinct(args.output.html.iter().chain(&args.checkpoint))?;
    check_options(args)?;
    let sources = args.arms.arms.iter().map(|text| text.parse()).collect::<modelmix::Result<Vec<ArmSource>>>()?;
    let provenance = provenance(args, &sources)?.protected_from(args.output.html.iter().chain(&args.checkpoint))?;
    let hashing = provenance.sizes(terminal.keeps(&args.output));
    let objective = inputs::objective(&args.objective, args.arms.reference.is_some());
    let settings = Settings {
        sums: &args.sums,
        task: Task::WHOLE,
        objective,
        costs: args.objective.costs.iter().map(|given| (given.arm.clone(), given.number)).collect(),
        seed: args.objective.seed,
        threads: args.common.threads,
    };
    let (sums, checkpoint) = if sources.iter().all(streaming::is_sums) {
        let sums = of_files(args, sources, settings, terminal)?;
        terminal.choose_engine(&args.engine, sums.rows_to_solve(), sums.width().unwrap_or(1))?;
        (sums, Checkpoint::none())
    } else {
        let input = Input::open(&args.arms.arms, args.arms.reference.as_deref(), &args.columns)?;
        input.choose_engine(&args.engine, &settings, terminal)?;
        files::check_not_inputs(args.output.html.iter().chain(&args.checkpoint), &input.paths())?;
        terminal.warn(&settings.objective.warnings());
        let mut checkpoint = match &args.checkpoint {
            Some(path) => Checkpoint::open(path, &input, (Extent::Whole, None), &settings)?,
            None => Checkpoint::none(),
        };
        (streaming::both_passes(&input, &settings, &mut checkpoint, terminal)?, checkpoint)
    };
    terminal.warn(&sums.warnings());
    let names = sums.arms();
    let numbers = |what, given: &[crate::values::ArmNumber], default| {
        let given = given.iter().map(|given| (given.arm.clone(), given.number));
        by_arm(what, &names, given, Some(default))
    };
    let bounds = Bounds::by_arm(&names, numbers("floor", &args.floor, 0.0)?, numbers("cap", &args.cap, 1.0)?)?;
    let settings = SolveSettings::new().bounds(bounds).intervals(!args.no_intervals);
    let rows = sums.rows_to_solve() as u64;
    let plan_seed = sums.current_plan().seed();
    let sums = sums.on_engine(terminal.engine().clone());
    let mut document = terminal.with_pairs("summing kernels", rows * rows / 2, || sums.solve_with(&settings))?;
    let stated = document.approximation.as_ref().and_then(|approximation| approximation.gain_error);
    if let (Some(wanted), Some(stated)) = (args.sums.approximation_error, stated)
        && stated > wanted
    {
        terminal.warn(&[format!(
            "the standard error of the gain is {}, above the {} wanted, because the sample expected less; give --random-features",
            brief(stated),
            brief(wanted)
        )]);
    }
    document.provenance = hashing.provenance(terminal.engine_text(), plan_seed, Vec::new())?;
    terminal.document(&Document::Solve(document.clone()))?;
    super::print(terminal, &document, args.all_arms);
    let title = args.output.title.clone().unwrap_or_else(|| "The best mixture".into());
    let section = Section { name: "solve".into(), solve: Some(document), ..Section::default() };
    let written = output::write(terminal, title, vec![output::with_weights(section)], &args.output);
    terminal.print_after(written.and_then(|_| checkpoint.remove()))
}

/// Options that need all rows in memory.
fn check_options(args: &SolveArgs) -> Result<()> {
    let analyses = &args.analyses;
    let used = [
        (args.arms.encoder.encoder.is_some(), "--encoder", "encode the samples first, with `modelmix encode`"),
        (args.objective.scores.is_some(), "--scores", "give --score-columns of .parquet files"),
        (analyses.subsets, "--subsets", "leave it out"),
        (!analyses.fees.is_empty(), "--fees", "leave it out"),
        (analyses.samples.is_some(), "--samples", "leave it out"),
        (analyses.within.is_some(), "--within", "leave it out"),
        (analyses.front.is_some(), "--front", "leave it out"),
        (analyses.bandwidths.is_some(), "--bandwidths", "leave it out"),
        (!args.output.images.is_empty(), "--images", "leave it out"),
        (!args.output.texts.is_empty(), "--texts", "leave it out"),
    ];
    match used.into_iter().find(|(is_used, ..)| *is_used) {
        None => Ok(()),
        Some((_, option, fix)) => Err(Failure::input(format!(
            "{option} needs all rows in memory, but the data is read in parts; {fix}, or leave out the options for large data"
        ))),
    }
}

/// Merges files of sums; surveys are planned if that needs no second pass.
fn of_files(
    args: &SolveArgs,
    sources: Vec<ArmSource>,
    settings: Settings<'_>,
    terminal: &Terminal,
) -> Result<Accumulator> {
    let columns = &args.columns;
    if args.checkpoint.is_some() || columns.arm_column.is_some() || !columns.score_columns.is_empty() {
        return Err(Failure::input(
            "files of sums are not read in parts; leave out --checkpoint, --arm-column and --score-columns",
        ));
    }
    let paths: Vec<PathBuf> = sources.into_iter().map(|source| source.path).collect();
    let whole = || args.arms.reference.as_deref().map(|text| streaming::whole_reference(text, columns)).transpose();
    let merged = streaming::merged(&paths, whole, terminal)?;
    let plan = merged.current_plan();
    let check_reference = |is_needed: bool| match &args.arms.reference {
        Some(_) if !is_needed => Err(Failure::input(
            "the files of sums include what they need of the reference, and only precision and density need all of it; leave out --reference",
        )),
        _ => Ok(()),
    };
    if plan.method() != Method::Survey {
        let given = &args.objective;
        let options = [
            (given.objective.is_some(), "--objective"),
            (given.bandwidth.is_some(), "--bandwidth"),
            (!given.costs.is_empty(), "--costs"),
            (given.seed != 0, "--seed"),
            (args.sums.is_used(), "the options for large data"),
        ];
        if let Some((_, option)) = options.into_iter().find(|(is_used, _)| *is_used) {
            return Err(Failure::input(format!(
                "the sums are those of the objective {}, which a file of sums states with all settings; leave out {option}",
                plan.objective().unwrap_or_default()
            )));
        }
        check_reference(plan.needs_whole_reference())?;
        return Ok(merged);
    }
    if args.objective.seed != 0 {
        return Err(Failure::input("the seed of surveys is the one that they were made with; leave out --seed"));
    }
    let objective = inputs::objective(&args.objective, merged.reference_count() > 0);
    terminal.warn(&objective.warnings());
    let is_needed = needs_whole_reference(&objective);
    check_reference(is_needed)?;
    let whole = if is_needed { whole()? } else { None };
    let settings = Settings { objective, ..settings };
    let planned = streaming::plan(&merged, &settings, Vec::new(), whole.clone(), terminal)?;
    if planned.needs_second_pass {
        return Err(Failure::input(
            "these are surveys, and their plan sums all rows, which takes a second pass: make the plan with `modelmix accumulate survey-*.acc --objective TERMS --out plan.acc`, and sum with --plan plan.acc; or give --method sample",
        ));
    }
    Ok(merged.with_plan(&planned.plan, whole)?)
}

fn provenance(args: &SolveArgs, sources: &[ArmSource]) -> Result<Sources> {
    let mut read = Sources::new(None, Default::default());
    for (source, argument) in sources.iter().zip(&args.arms.arms) {
        read.add(InputRole::Arms, &source.path, argument);
    }
    if let Some(argument) = &args.arms.reference {
        read.add(InputRole::Reference, &argument.parse::<ArmSource>()?.path, argument);
    }
    if let Some(file) = &args.common.config {
        read.add(InputRole::Config, file, &file.to_string_lossy());
    }
    Ok(read)
}
