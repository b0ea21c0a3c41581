//! Standard output and progress. Standard output is written at the end, after all files: text with tables, one document, or only
//! tables. Progress is drawn only if standard error is a terminal.

use std::cell::{OnceCell, RefCell};
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use modelmix::compute::{Cpu, Engine, Precision};

use modelmix::internals::numbers::brief;
pub(crate) use modelmix::internals::numbers::count;
pub(crate) use modelmix_cli::tables::{
    Cell, Table, bar, best_of, bold, brief_cell, count_cell, dim, interval, percent, percents, rounds, shares, spread,
};

use crate::args::{Common, EngineArgs, OutputArgs, PrecisionName};
use crate::engine::{self, Found};
use crate::error::{Failure, Result};
use crate::files;
use modelmix_cli::tables;

fn processor(threads: Option<usize>) -> Cpu {
    threads.map_or_else(Cpu::new, Cpu::with_threads)
}

/// A number of things, whose name gets an s unless there is one.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A number of bytes with a unit.
pub(crate) fn brief_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", brief(bytes as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} MB", brief(bytes as f64 / 1e6)),
        _ => format!("{} GB", brief(bytes as f64 / 1e9)),
    }
}

/// Format of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Sentences and tables.
    Text,
    /// One document.
    Json,
    /// Only tables.
    Latex,
    /// Only tables.
    Markdown,
    /// Only tables.
    Csv,
}

impl Format {
    fn of(common: &Common) -> Self {
        match common {
            Common { json: true, .. } => Format::Json,
            Common { latex: true, .. } => Format::Latex,
            Common { markdown: true, .. } => Format::Markdown,
            Common { csv: true, .. } => Format::Csv,
            _ => Format::Text,
        }
    }
}

/// Destination of output, and the engine whose progress is shown.
#[derive(Debug)]
pub(crate) struct Terminal {
    pub(crate) format: Format,
    quiet: bool,
    /// Buffer of standard output.
    text: RefCell<String>,
    /// Tables for standard output, if only tables are printed.
    tables: RefCell<Vec<Table>>,
    threads: Option<usize>,
    /// The engine on the processor.
    engine: Engine,
    /// The same without 16-bit integers, if the user asked for that.
    exact: OnceCell<Engine>,
    /// The engine on a GPU, if it was chosen.
    gpu: OnceCell<Engine>,
    /// Why a GPU is not used, if there is one.
    unused: OnceCell<String>,
    /// The progress bar of kernel pairs, if one is shown.
    pairs: Arc<Mutex<Option<ProgressBar>>>,
}

impl Terminal {
    pub(crate) fn new(common: &Common) -> Self {
        let pairs: Arc<Mutex<Option<ProgressBar>>> = Arc::default();
        let engine = observed(Engine::new(processor(common.threads)), &pairs);
        Self {
            format: Format::of(common),
            quiet: common.quiet,
            text: RefCell::default(),
            tables: RefCell::default(),
            threads: common.threads,
            engine,
            exact: OnceCell::new(),
            gpu: OnceCell::new(),
            unused: OnceCell::new(),
            pairs,
        }
    }

    /// Chooses the compute engine for this number of rows of all inputs and their width. An opened GPU is used from then on.
    pub(crate) fn choose_engine(&self, args: &EngineArgs, rows: usize, width: usize) -> Result<()> {
        if args.precision == PrecisionName::Exact {
            let exact = || Engine::new(processor(self.threads).with_precision(Precision::Exact));
            self.exact.get_or_init(|| observed(exact(), &self.pairs));
        }
        if self.gpu.get().is_none() && self.unused.get().is_none() {
            match engine::choose(args, self.threads, rows, width)? {
                Found::Gpu(engine) => {
                    let _ = self.gpu.set(observed(engine, &self.pairs));
                }
                Found::Processor(Some(reason)) => {
                    self.remark(format!("The GPU is not used: {reason}."));
                    let _ = self.unused.set(reason);
                }
                Found::Processor(None) => {}
            }
        }
        Ok(())
    }

    /// The compute engine of a command.
    pub(crate) fn engine(&self) -> &Engine {
        self.gpu.get().or(self.exact.get()).unwrap_or(&self.engine)
    }

    /// The engine for reports, and why it is not the GPU if there is one.
    pub(crate) fn engine_text(&self) -> String {
        let engine = self.engine().describe();
        self.unused.get().map_or_else(|| engine.clone(), |reason| format!("{engine}; GPU not used: {reason}"))
    }

    /// Whether results are stored in a document or a report, which contain their provenance.
    pub(crate) fn keeps(&self, output: &OutputArgs) -> bool {
        self.format == Format::Json || output.html.is_some()
    }

    /// Runs `work` with a progress bar that counts its kernel pairs.
    pub(crate) fn with_pairs<R>(&self, what: &'static str, total: u64, work: impl FnOnce() -> R) -> R {
        let bar = |bar| *self.pairs.lock().unwrap_or_else(PoisonError::into_inner) = bar;
        let progress = self.progress(what, total);
        bar(Some(progress.clone()));
        let result = work();
        bar(None);
        progress.finish_and_clear();
        result
    }

    /// Adds lines to standard output, unless the format is a document or only tables.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        if self.format == Format::Text {
            self.add(text.as_ref());
        }
    }

    /// Adds a table to standard output, unless the format is a document.
    pub(crate) fn table(&self, table: Table) {
        match self.format {
            Format::Text => self.add(&tables::text(&table)),
            Format::Json => {}
            Format::Latex | Format::Markdown | Format::Csv => self.tables.borrow_mut().push(table),
        }
    }

    /// The tables in the chosen format; several tables have titles and are separated by empty lines.
    fn written_tables(&self) -> String {
        let tables = self.tables.take();
        let several = tables.len() > 1;
        let title =
            |table: &Table| table.title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        let written = |table: &Table| match self.format {
            Format::Latex if several => format!("% {}\n{}\n", title(table), tables::latex(table)),
            Format::Latex => tables::latex(table) + "\n",
            Format::Markdown if several => format!("**{}**\n\n{}\n", title(table), tables::markdown(table)),
            Format::Markdown => tables::markdown(table) + "\n",
            _ => tables::csv(table),
        };
        tables.iter().map(written).collect::<Vec<_>>().join("\n")
    }

    fn add(&self, text: &str) {
        let mut all = self.text.borrow_mut();
        all.push_str(text);
        all.push('\n');
    }

    /// Prints the buffer after the files were written or could not be written, so that the result is not lost with them. Returns
    /// the error of the files, if any, otherwise that of standard output.
    pub(crate) fn print_after<T>(&self, written: Result<T>) -> Result<T> {
        let text = self.text.take() + &self.written_tables();
        let printed = write_out(&text);
        let written = written?;
        printed.map(|()| written)
    }

    /// Adds the document to standard output, if the format is JSON.
    pub(crate) fn document(&self, document: &impl serde::Serialize) -> Result<()> {
        if self.format != Format::Json {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| Failure::input(format!("the result cannot be written as JSON: {error}")))?;
        self.add(&text);
        Ok(())
    }

    /// Prints a progress note on standard error, unless quiet.
    pub(crate) fn remark(&self, text: impl AsRef<str>) {
        if !self.quiet && self.format == Format::Text {
            // A closed standard error is not an error.
            let _ = writeln!(std::io::stderr(), "{}", text.as_ref());
        }
    }

    /// Prints warnings about the input on standard error, also with a document, unless quiet.
    pub(crate) fn warn(&self, warnings: &[String]) {
        if !self.quiet {
            for warning in warnings {
                let _ = writeln!(std::io::stderr(), "modelmix: warning: {}", tables::plain_lines(warning));
            }
        }
    }

    /// Whether progress and notes are wanted.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && self.format == Format::Text
    }

    /// A progress bar over `total` steps, with rate and remaining time; drawn only on a terminal.
    pub(crate) fn progress(&self, what: &str, total: u64) -> ProgressBar {
        self.bar("{msg} {wide_bar} {percent:>3}%, {per_sec}, {eta} left", what, total)
    }

    /// A progress bar over the bytes of a download.
    pub(crate) fn download(&self, what: &str) -> ProgressBar {
        self.bar("{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left", what, 1)
    }

    fn bar(&self, template: &str, what: &str, total: u64) -> ProgressBar {
        if self.quiet || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(total.max(1)), ProgressDrawTarget::stderr_with_hz(8));
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_message(what.to_string());
        bar.enable_steady_tick(Duration::from_millis(500));
        bar
    }
}

/// An engine whose pairs the progress bar counts.
fn observed(engine: Engine, bar: &Arc<Mutex<Option<ProgressBar>>>) -> Engine {
    let bar = Arc::clone(bar);
    engine.observed_by(move |pairs| {
        if let Some(bar) = &*bar.lock().unwrap_or_else(PoisonError::into_inner) {
            bar.inc(pairs);
        }
    })
}

/// Writes text to standard output. A pipe that the reader closed is not an error; any other loss of text is.
pub(crate) fn write_out(text: &str) -> Result<()> {
    let write = || {
        let mut out = std::io::stdout().lock();
        out.flush()?;
        // The standard library ignores errors of a standard output that is not open for writing.
        #[cfg(unix)]
        let mut out = std::fs::File::from(std::os::fd::AsFd::as_fd(&out).try_clone_to_owned()?);
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    };
    if text.is_empty() { Ok(()) } else { files::accept_closed(write()).map_err(Failure::output) }
}
