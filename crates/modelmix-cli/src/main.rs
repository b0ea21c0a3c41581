//! The command line of modelmix: arguments → validated plan → library → tables, JSON, figures and reports. No logic of its
//! own beyond that.

mod args;
mod commands;
mod config;
mod error;
mod files;
mod inputs;
mod reproduction;
mod terminal;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;

use args::Cli;
use error::Failure;

fn main() -> ExitCode {
    // A panic is a bug of ours: it is told in one sentence, without a trace of what it did inside.
    std::panic::set_hook(Box::new(|_| {}));
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
    match std::panic::catch_unwind(run) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            if let Some(sentence) = failure.sentence() {
                let _ = writeln!(std::io::stderr(), "modelmix: {sentence}");
            }
            ExitCode::from(failure.exit_code())
        }
        Err(panic) => {
            let what = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            let _ = writeln!(
                std::io::stderr(),
                "modelmix: this is a bug in modelmix ({}); please report it with the command that you typed",
                what.unwrap_or("no more is known")
            );
            ExitCode::from(3)
        }
    }
}

fn run() -> Result<(), Failure> {
    let words = config::expand(std::env::args_os().collect())?;
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are what was asked for; anything else is bad input.
            let asked = !error.use_stderr();
            error.print().map_err(Failure::output)?;
            if asked {
                return Ok(());
            }
            std::process::exit(2);
        }
    };
    if let Some(common) = cli.command.common()
        && common.threads == Some(0)
    {
        return Err(Failure::input("threads is 0, but it must be at least 1; leave it out for all cores"));
    }
    commands::run(cli.command)
}
