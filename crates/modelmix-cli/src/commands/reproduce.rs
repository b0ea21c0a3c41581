//! `modelmix reproduce`: runs experiments and compares measured with expected values.

use std::collections::BTreeMap;

use modelmix::compute::EngineChoice;
use modelmix::document::{InputFile, Provenance};
use modelmix::experiment::{Outcome, Stage};

use super::output::{self, Section};
use crate::args::{OutputArgs, ReproduceArgs};
use crate::error::{Failure, Result};
use crate::provenance::Sources;
use crate::reproduction::{self, Options, Reproduced, Reproduction};
use crate::terminal::{Format, Terminal};

pub(crate) fn run(args: &ReproduceArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    let output = OutputArgs {
        html: Some(args.html.clone()),
        svg: args.svg.clone(),
        png: args.png.clone(),
        ..OutputArgs::default()
    };
    output::check(&output)?;
    let options = Options {
        features: args.features.clone(),
        threads: args.common.threads.unwrap_or_else(modelmix::compute::available_threads),
    };
    let sources = sources(args)?;
    let mut files = Sources::default();
    sources.values().for_each(|own| files.add_all(own));
    let hashing = files.hash(true);
    let progress = terminal.progress("reproducing", 1);
    if matches!(args.engine.engine, EngineChoice::Cuda { .. }) {
        // A GPU that is asked for and missing is an error before anything runs.
        terminal.choose_engine(&args.engine, 0, 0)?;
    }
    let mut engine = |rows, width| {
        // Without such a request, choosing cannot fail.
        let _ = terminal.choose_engine(&args.engine, rows, width);
        terminal.engine().clone()
    };
    let all = reproduction::run(&args.experiments, &options, &mut engine, &mut |at| {
        progress.set_length(at.of as u64);
        progress.set_position(at.index as u64);
        let stage = match at.stage {
            Stage::Reading => "reading",
            Stage::Solving => "solving",
            Stage::Scoring { .. } => "scoring",
            Stage::Simulating { .. } => "simulating",
            _ => "running",
        };
        progress.set_message(format!("{}: {stage}", at.name));
    });
    progress.finish_and_clear();
    let mut all = all?;
    let provenance = hashing.provenance(terminal.engine_text(), None, Vec::new())?;
    for one in &mut all {
        if let (Reproduced::Ran(outcome), Some(whole)) = (one, &provenance) {
            let inputs = sources.get(&outcome.name).map_or_else(Vec::new, |own| own.with_checksums(&whole.inputs));
            set_provenance(outcome, whole, inputs);
        }
    }
    terminal.document(&Reproduction::new(&all, provenance))?;
    terminal.say(reproduction::table(&all).trim_end());
    if terminal.format != Format::Text {
        reproduction::tables(&all).into_iter().for_each(|table| terminal.table(table));
    }
    if all.iter().all(|one| matches!(one, Reproduced::Skipped { .. })) {
        terminal.print_after(Ok(()))?;
        return Err(Failure::input(
            "no experiment ran: all features are missing; give their folder with --features FOLDER",
        ));
    }
    let passed = reproduction::passed(&all);
    let mut outputs = output::Outputs::default();
    let sections = all.iter().map(section).collect();
    let report = output::report("Experiments".into(), sections).with_summary(reproduction::summary(&all));
    let written = outputs.add_report(&report, &output).and_then(|()| outputs.commit(&terminal));
    terminal.print_after(written)?;
    if passed { Ok(()) } else { Err(Failure::Check) }
}

/// The files of each experiment whose files all exist, by name.
fn sources(args: &ReproduceArgs) -> Result<BTreeMap<String, Sources>> {
    let plans = reproduction::plans(&args.experiments, args.features.as_deref())?;
    let there = plans.iter().filter(|plan| plan.missing().is_none());
    Ok(there.map(|plan| (plan.name().to_string(), reproduction::sources(plan))).collect())
}

/// Completes the provenance of an experiment and adds it to its documents.
fn set_provenance(outcome: &mut Outcome, whole: &Provenance, inputs: Vec<InputFile>) {
    let own = &mut outcome.provenance;
    (own.command, own.date, own.inputs) = (whole.command.clone(), whole.date.clone(), inputs);
    let own = Some(own.clone());
    if let Some(solve) = &mut outcome.solve {
        solve.provenance.clone_from(&own);
    }
    if let Some(score) = &mut outcome.score {
        score.provenance.clone_from(&own);
    }
    if let Some(simulate) = &mut outcome.simulate {
        simulate.provenance = own;
    }
}

/// An experiment as a section of the report.
fn section(one: &Reproduced) -> Section {
    match one {
        Reproduced::Ran(outcome) => Section {
            name: outcome.name.clone(),
            note: Some(outcome.about.trim().to_string()),
            solve: outcome.solve.clone(),
            score: outcome.score.clone(),
            simulate: outcome.simulate.clone(),
            checks: outcome.checks.clone(),
            ..Section::default()
        },
        Reproduced::Skipped { name, missing } => Section {
            name: name.clone(),
            note: Some(format!("Skipped: there are no features at {}.", missing.display())),
            ..Section::default()
        },
    }
}
