//! Live runs: `run`, `resume`, `status`, `export` and `probe`.

mod export;
mod probe;
mod report;
mod screen;
mod show;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use modelmix::compute::Engine;
use modelmix_live::config::{Config, Plan, described};
use modelmix_live::runner::{self, Controls, End, RunSettings};
use modelmix_live::status::{self, RunStatus};
use modelmix_live::store::{Reader, Store, audit};

use crate::args::{BudgetArgs, ResumeArgs, RunArgs, RunReportArgs, StatusArgs};
use crate::error::{Failure, Result};
use crate::terminal::Terminal;
use crate::{files, interrupts};
use screen::Screen;

pub(crate) use export::run as export;
pub(crate) use probe::run as probe;

/// `modelmix run`.
pub(crate) fn run(args: &RunArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    check_report(&args.report)?;
    let config = with_budget(Config::read(&args.run)?, &args.budget);
    let base = args.run.parent().unwrap_or(Path::new("."));
    let plan = open(config, base, terminal.engine())?;
    let is_there = args.dir.join("run.db").exists();
    let store = match args.resume && is_there {
        true => Store::open(&args.dir)?,
        false => Store::create(&args.dir, &plan.description())?,
    };
    execute(&plan, store, &args.dir, &args.report, &terminal)
}

/// `modelmix resume`.
pub(crate) fn resume(args: &ResumeArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    check_report(&args.report)?;
    let description = Reader::open(&args.dir)?.history()?.description;
    let (config, base) = described(&description)?;
    let plan = open(with_budget(config, &args.budget), &base, terminal.engine())?;
    execute(&plan, Store::open(&args.dir)?, &args.dir, &args.report, &terminal)
}

/// `modelmix status`.
pub(crate) fn status(args: &StatusArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    check_report(&args.report)?;
    if !args.dir.join("run.db").exists() {
        Reader::open(&args.dir)?;
    }
    let mut findings = Vec::new();
    if !args.no_check {
        findings.extend(audit::audit(&args.dir).findings.into_iter().map(|finding| finding.message));
    }
    match status::read(&args.dir, terminal.engine()) {
        Ok(mut status) => {
            status.findings = findings;
            conclude(&status, &args.dir, &args.report, &terminal)?;
            match status.findings.is_empty() {
                true => Ok(()),
                false => Err(Failure::Check),
            }
        }
        // What the check found says more than the first error.
        Err(error) if !findings.is_empty() => {
            for finding in findings {
                terminal.say(finding);
            }
            terminal.print_after(Err(error.into()))
        }
        Err(error) => Err(error.into()),
    }
}

fn check_report(args: &RunReportArgs) -> Result<()> {
    args.html.as_deref().map_or(Ok(()), files::check)
}

/// Limits of the command line override those of the file.
fn with_budget(mut config: Config, args: &BudgetArgs) -> Config {
    config.budget.pulls = args.pulls.or(config.budget.pulls);
    config.budget.money = args.money.or(config.budget.money);
    config.budget.time = args.time.or(config.budget.time);
    config
}

fn open(config: Config, base: &Path, engine: &Engine) -> Result<Plan> {
    Ok(Plan::new(config, base, engine, &|name| std::env::var(name).ok())?)
}

/// Executes a run, prints its status and writes its report.
fn execute(plan: &Plan, store: Store, folder: &Path, report: &RunReportArgs, terminal: &Terminal) -> Result<()> {
    let controls = Arc::new(Controls::default());
    let interrupted = Arc::clone(&controls);
    interrupts::on_interrupt(move || interrupted.interrupt());
    let mut screen = Screen::new(plan, terminal, std::io::stderr().is_terminal(), Arc::clone(&controls));
    let ended = runner::run(plan, store, &RunSettings::default(), &controls, &mut screen);
    screen.close();
    interrupts::reset();
    let end = ended?;
    let status = status::read(folder, terminal.engine())?;
    conclude(&status, folder, report, terminal)?;
    match end {
        End::Interrupted => Err(Failure::Interrupted),
        End::NoArms | End::DiskFull => Err(Failure::Check),
        _ => Ok(()),
    }
}

/// Prints a status and writes the report.
fn conclude(status: &RunStatus, folder: &Path, report: &RunReportArgs, terminal: &Terminal) -> Result<()> {
    terminal.document(&show::Printed { result: status })?;
    show::print(terminal, status);
    let written = match &report.html {
        Some(html) => report::write(status, folder, html, report.title.as_deref(), terminal),
        None => Ok(()),
    };
    terminal.print_after(written)
}
