//! The command line of modelmix: arguments → validated plan → library → tables, JSON, figures and reports. No logic of its
//! own beyond that.

mod args;
mod commands;
mod config;
mod error;
mod files;
mod inputs;
mod panics;
mod reproduction;
mod schemas;
mod terminal;
mod values;

use std::error::Error;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::FromArgMatches;

use args::Cli;
use error::Failure;
use values::BadValue;

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
    match panics::catch_panic(run) {
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
    let cli = parse(std::env::args_os().collect())?;
    if let Some(common) = cli.command.common()
        && common.threads == Some(0)
    {
        return Err(Failure::input("threads is 0, but it must be at least 1; leave it out for all cores"));
    }
    commands::run(cli.command)
}

/// The arguments, checked. Help and version end the program here, and so does what the parser words itself.
fn parse(words: Vec<OsString>) -> Result<Cli, Failure> {
    let mut configured = config::configure(&words)?;
    let parsed = configured
        .command
        .try_get_matches_from_mut(words)
        .and_then(|matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut configured.command)));
    let error = match parsed {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    // Values that the library or `values` refuse have a sentence of their own.
    if let Some(source) = error.source().filter(|source| source.is::<modelmix::Error>() || source.is::<BadValue>()) {
        let file = configured.source_of(&error).map_or(String::new(), |file| format!("{}: ", file.display()));
        return Err(Failure::input(format!("{file}{source}")));
    }
    error.print().map_err(Failure::output)?;
    // Help and version are what was asked for; anything else is bad input.
    std::process::exit(if error.use_stderr() { 2 } else { 0 });
}
