//! The command line of modelmix: arguments → validated plan → library → tables, JSON, figures and reports. It contains no other
//! logic.

mod args;
mod commands;
mod config;
mod encoding;
mod engine;
mod error;
mod files;
mod inputs;
mod interrupts;
mod panics;
mod provenance;
mod reproduction;
mod schemas;
mod streaming;
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

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let interrupted = ctrlc::set_handler(|| {
        if interrupts::handle() {
            return;
        }
        files::clean_up();
        // After the ^C that terminals echo.
        let start = if std::io::stderr().is_terminal() { "\n" } else { "" };
        let _ = writeln!(std::io::stderr(), "{start}modelmix: interrupted; no unfinished file is left");
        std::process::exit(130);
    });
    if let Err(error) = interrupted {
        let _ = writeln!(std::io::stderr(), "modelmix: interrupts cannot be caught: {error}");
    }
    conclude(panics::catch_panic(run))
}

/// Prints the error message of a failed command, if there is one, and returns the exit code.
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

/// The parsed arguments. Help, version and usage errors of the parser exit here.
fn parse(configured: &mut Configured) -> Result<(Cli, ArgMatches), Failure> {
    let command = &mut configured.command;
    let parsed = command
        .try_get_matches_from_mut(&configured.words)
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches).map_err(|error| error.format(command))?, matches)));
    let error = match parsed {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    // Values that the library or `values` rejects, and options of a file, have their own error messages.
    if let Some(failure) = configured.refusal(&error, error.source()) {
        return Err(failure);
    }
    let printed = error.print();
    if error.use_stderr() {
        // Bad input, even if standard error is closed.
        std::process::exit(2);
    }
    files::accept_closed(printed).map_err(Failure::output)?;
    // Help and version are successes.
    std::process::exit(0);
}
