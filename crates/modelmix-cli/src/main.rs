//! The command line of modelmix: arguments → validated plan → library → tables, JSON, figures and reports. No logic of its
//! own beyond that.

mod args;
mod commands;
mod config;
mod error;
mod files;
mod inputs;
mod panics;
mod provenance;
mod reproduction;
mod schemas;
mod terminal;
mod values;

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{ArgMatches, FromArgMatches};

use args::Cli;
use config::Configured;
use error::Failure;
use panics::Panic;

fn main() -> ExitCode {
    let interrupted = ctrlc::set_handler(|| {
        files::clean_up();
        // Behind the ^C that terminals show.
        let start = if std::io::stderr().is_terminal() { "\n" } else { "" };
        let _ = writeln!(std::io::stderr(), "{start}modelmix: interrupted; no unfinished file is left");
        std::process::exit(130);
    });
    if let Err(error) = interrupted {
        let _ = writeln!(std::io::stderr(), "modelmix: interrupts cannot be caught: {error}");
    }
    conclude(panics::catch_panic(run))
}

/// Says on standard error why a command ended, if it did not do everything asked for, and gives the exit code.
fn conclude(ended: Result<Result<(), Failure>, Panic>) -> ExitCode {
    match ended {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            if let Some(sentence) = failure.sentence() {
                let _ = writeln!(std::io::stderr(), "modelmix: {sentence}");
            }
            ExitCode::from(failure.exit_code())
        }
        Err(panic) => {
            let _ = writeln!(std::io::stderr(), "modelmix: {panic}");
            ExitCode::from(3)
        }
    }
}

fn run() -> Result<(), Failure> {
    let mut configured = config::configure(std::env::args_os().collect())?;
    let (cli, matches) = parse(&mut configured)?;
    commands::run(cli.command).map_err(|failure| configured.named(failure, &matches))
}

/// The arguments, checked. Help and version end the program here, and so does what the parser words itself.
fn parse(configured: &mut Configured) -> Result<(Cli, ArgMatches), Failure> {
    let command = &mut configured.command;
    let parsed = command
        .try_get_matches_from_mut(&configured.words)
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches).map_err(|error| error.format(command))?, matches)));
    let error = match parsed {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    // Values that the library or `values` refuse have a sentence of their own, and so has what a file gives.
    if let Some(failure) = configured.refusal(&error, error.source()) {
        return Err(failure);
    }
    let printed = error.print();
    if error.use_stderr() {
        // Bad input, also if nobody reads what is wrong with it.
        std::process::exit(2);
    }
    files::accept_closed(printed).map_err(Failure::output)?;
    // Help and version are what was asked for.
    std::process::exit(0);
}
