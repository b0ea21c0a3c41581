//! What a person sees: tables, bars, progress. Standard output is written in the end, behind all files. Colours only on a terminal, progress only on standard error of one.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use console::Style;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use modelmix::compute::{Cpu, Engine};

pub(crate) use modelmix::internals::numbers::{count, percent, percents};

use crate::args::Common;
use crate::error::{Failure, Result};
use crate::files;

/// Where output goes, and the engine whose progress it shows.
#[derive(Debug)]
pub(crate) struct Terminal {
    json: bool,
    quiet: bool,
    /// What standard output will have.
    text: RefCell<String>,
    engine: Engine,
    /// The bar that kernel pairs are counted on, while there is one.
    pairs: Arc<Mutex<Option<ProgressBar>>>,
}

impl Terminal {
    pub(crate) fn new(common: &Common) -> Self {
        let pairs: Arc<Mutex<Option<ProgressBar>>> = Arc::default();
        let shown = Arc::clone(&pairs);
        let cpu = common.threads.map_or_else(Cpu::new, Cpu::with_threads);
        let engine = Engine::new(cpu).observed_by(move |pairs| {
            if let Some(bar) = &*shown.lock().unwrap_or_else(PoisonError::into_inner) {
                bar.inc(pairs);
            }
        });
        Self { json: common.json, quiet: common.quiet, text: RefCell::default(), engine, pairs }
    }

    /// The engine that a command computes on.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// `work` with a bar that its kernel pairs are counted on.
    pub(crate) fn with_pairs<R>(&self, what: &'static str, total: u64, work: impl FnOnce() -> R) -> R {
        let bar = |bar| *self.pairs.lock().unwrap_or_else(PoisonError::into_inner) = bar;
        let progress = self.progress(what, total);
        bar(Some(progress.clone()));
        let result = work();
        bar(None);
        progress.finish_and_clear();
        result
    }

    /// A line, or several, for standard output, unless a document is wanted.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        if !self.json {
            self.add(text.as_ref());
        }
    }

    fn add(&self, text: &str) {
        let mut all = self.text.borrow_mut();
        all.push_str(text);
        all.push('\n');
    }

    /// Prints everything, now that files are in place or could not be written: the result is not lost with them. Returns
    /// what became of the files, then what became of standard output.
    pub(crate) fn print_after<T>(&self, written: Result<T>) -> Result<T> {
        let printed = write_out(&self.text.take());
        let written = written?;
        printed.map(|()| written)
    }

    /// The document for standard output, if one is wanted.
    pub(crate) fn document(&self, document: &impl serde::Serialize) -> Result<()> {
        if !self.json {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| Failure::input(format!("the result cannot be written as JSON: {error}")))?;
        self.add(&text);
        Ok(())
    }

    /// What is being done, on standard error; not where there is to be quiet.
    pub(crate) fn remark(&self, text: impl AsRef<str>) {
        if !self.quiet && !self.json {
            // Whoever closed standard error does not want to know.
            let _ = writeln!(std::io::stderr(), "{}", text.as_ref());
        }
    }

    /// What may be wrong with the input, on standard error: with a document as well, but not if quiet.
    pub(crate) fn warn(&self, warnings: &[String]) {
        if !self.quiet {
            for warning in warnings {
                let _ = writeln!(std::io::stderr(), "modelmix: warning: {warning}");
            }
        }
    }

    /// Progress over so many steps, with rate and time left; drawn only on a terminal, and only when it takes a while.
    pub(crate) fn progress(&self, what: &'static str, total: u64) -> ProgressBar {
        if self.quiet || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(total.max(1)), ProgressDrawTarget::stderr_with_hz(8));
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3}%, {per_sec}, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(500));
        bar
    }
}

/// Text on standard output. A reader that has read enough is no failure; anything else that loses text is.
pub(crate) fn write_out(text: &str) -> Result<()> {
    let write = || {
        let mut out = std::io::stdout().lock();
        out.flush()?;
        // The standard library takes a standard output that is not open for writing for one that nobody reads.
        #[cfg(unix)]
        let mut out = std::fs::File::from(std::os::fd::AsFd::as_fd(&out).try_clone_to_owned()?);
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    };
    if text.is_empty() { Ok(()) } else { files::accept_closed(write()).map_err(Failure::output) }
}

/// A table without lines: the first column to the left, the others to the right, `marked` cells in bold.
pub(crate) struct Columns {
    table: Table,
}

impl Columns {
    pub(crate) fn new<S: AsRef<str>>(header: &[S]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(header.iter().map(|title| dim(title.as_ref())).collect::<Vec<_>>());
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((if index == 0 { 2 } else { 1 }, 1));
            column.set_cell_alignment(if index == 0 { CellAlignment::Left } else { CellAlignment::Right });
        }
        Self { table }
    }

    /// Another column to the left: names and bars.
    pub(crate) fn left(mut self, column: usize) -> Self {
        if let Some(column) = self.table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Left);
        }
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.table.add_row(cells);
    }

    pub(crate) fn text(&self) -> String {
        self.table.lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>().join("\n")
    }
}

/// In bold, where there are colours.
pub(crate) fn bold(text: &str) -> String {
    Style::new().bold().apply_to(text).to_string()
}

/// Less loud, where there are colours.
pub(crate) fn dim(text: &str) -> String {
    Style::new().dim().apply_to(text).to_string()
}

/// A share as a bar of up to `width` cells, in eighths.
pub(crate) fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * width as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}
