//! `modelmix reproduce`: experiments, what is expected of them and what is measured.

use modelmix::experiment::Stage;

use super::output::{self, Section};
use crate::args::{OutputArgs, ReproduceArgs};
use crate::error::{Failure, Result};
use crate::reproduction::{self, Options, Reproduced, Reproduction};
use crate::terminal::Terminal;

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
    let progress = terminal.progress("reproducing", 1);
    let all = reproduction::run(&args.experiments, &options, &mut |at| {
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
    let all = all?;
    terminal.document(&Reproduction::new(&all))?;
    terminal.say(reproduction::table(&all).trim_end());
    if all.iter().all(|one| matches!(one, Reproduced::Skipped { .. })) {
        terminal.print_after(Ok(()))?;
        return Err(Failure::input(
            "no experiment ran: all features are missing; give their folder with --features FOLDER",
        ));
    }
    let passed = reproduction::passed(&all);
    let written = output::write(&terminal, "Experiments".into(), all.iter().filter_map(section).collect(), &output);
    terminal.print_after(written)?;
    if passed { Ok(()) } else { Err(Failure::Check) }
}

/// An experiment that ran, as a section of the report.
fn section(one: &Reproduced) -> Option<Section> {
    let Reproduced::Ran(outcome) = one else { return None };
    Some(Section {
        name: outcome.name.clone(),
        note: Some(outcome.about.trim().to_string()),
        solve: outcome.solve.clone(),
        score: outcome.score.clone(),
        simulate: outcome.simulate.clone(),
        curate: None,
        gallery: None,
    })
}
