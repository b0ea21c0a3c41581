//! `modelmix report`: builds a report from `--json` documents.

use std::io::Read;
use std::path::{Path, PathBuf};

use modelmix::document::Document;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::curate::gallery;
use super::output::{self, Outputs, Section};
use crate::args::ReportArgs;
use crate::error::{Failure, Result};
use crate::files;
use crate::schemas::Compared;
use crate::terminal::{Format, Terminal, bold, dim};
use modelmix_cli::report::{Comparison, compare};

pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    let documents = args.documents.iter().map(|path| Ok((path, read(path)?))).collect::<Result<Vec<_>>>()?;
    let comparison = args.compare.then(|| compare_two(&documents)).transpose()?;
    if comparison.is_none() && !matches!(terminal.format, Format::Text | Format::Json) {
        return Err(Failure::input(
            "a report has no table to print; give --html FILE, or compare two documents with --compare",
        ));
    }
    if comparison.is_none() && !args.output.is_wanted() {
        return Err(Failure::input("no output is requested; give --html FILE, --svg FOLDER or --png FOLDER"));
    }
    output::check(&args.output)?;
    files::check_not_inputs(&args.output.html, &args.documents)?;
    let mut sections: Vec<Section> = Vec::new();
    for (path, document) in documents {
        // Documents of the same data form a section, with at most one per kind. Compared runs have separate sections.
        let own = sections.iter().position(|section| comparison.is_none() && section.takes(&document));
        let own = own.unwrap_or_else(|| {
            sections.push(Section { name: name(path), ..Section::default() });
            sections.len() - 1
        });
        if let Some(section) = sections.get_mut(own) {
            match document {
                Document::Solve(document) => section.solve = Some(document),
                Document::Score(document) => section.score = Some(document),
                Document::Simulate(document) => section.simulate = Some(document),
                Document::Curate(document) => section.curate = Some(document),
                _ => {
                    let sentence = format!("{}: a report cannot show a document of this kind", path.display());
                    return Err(Failure::input(sentence));
                }
            }
        }
    }
    let has_figures =
        |section: &Section| section.solve.is_some() || section.simulate.is_some() || section.curate.is_some();
    output::check_figures(&args.output, sections.iter().any(has_figures))?;
    if let Some(section) = sections.first_mut() {
        let images = output::sources(&args.output.images)?;
        section.gallery = match &section.curate {
            Some(curate) if section.is_curated() => gallery::chosen(&args.output, curate, &images, None)?,
            _ => output::gallery(&images, &args.output.texts, &output::weights_of(section))?,
        };
    }
    let title = args
        .output
        .title
        .clone()
        .unwrap_or_else(|| if args.compare { "Comparison of two runs" } else { "modelmix" }.into());
    let mut report = output::report(title, sections);
    report.comparison.clone_from(&comparison);
    report.check()?;
    let mut outputs = Outputs::default();
    outputs.add_report(&report, &args.output)?;
    if let Some(comparison) = &comparison {
        print(&terminal, comparison);
        terminal.document(&Compared { result: comparison.clone() })?;
        return terminal.print_after(outputs.commit(&terminal)).map(drop);
    }
    let files = outputs.commit(&terminal)?;
    terminal.document(&json!({"command": "report", "version": env!("CARGO_PKG_VERSION"), "files": files}))?;
    terminal.print_after(Ok(()))
}

/// The name of a document: the stem of its file.
fn name(path: &Path) -> String {
    match path.file_stem() {
        Some(stem) if stem != "-" => stem.to_string_lossy().into_owned(),
        _ => "report".into(),
    }
}

/// The comparison of two documents.
fn compare_two(documents: &[(&PathBuf, Document)]) -> Result<Comparison> {
    let [(first_path, first), (second_path, second)] = documents else {
        let found = documents.len();
        return Err(Failure::input(format!("--compare needs two documents, not {found}")));
    };
    let (one, other) = (name(first_path), name(second_path));
    let (one, other) = match one == other {
        true => (first_path.display().to_string(), second_path.display().to_string()),
        false => (one, other),
    };
    Ok(compare([&one, &other], first, second)?)
}

/// Prints the changes in a sentence, then in tables.
fn print(terminal: &Terminal, comparison: &Comparison) {
    terminal.say(bold(&comparison.sentence));
    comparison.notes.iter().for_each(|note| terminal.say(note));
    for (run, command) in comparison.runs.iter().zip(&comparison.commands) {
        command.iter().for_each(|command| terminal.say(dim(&format!("{run}: {command}"))));
    }
    for table in comparison.tables() {
        terminal.say("");
        terminal.say(dim(&table.title));
        terminal.say("");
        terminal.table(table);
    }
    terminal.say("");
    terminal.say(dim(&comparison.noise));
}

fn read(path: &Path) -> Result<Document> {
    let is_standard = path.as_os_str() == "-";
    let name = if is_standard { "standard input".into() } else { path.display().to_string() };
    let unread = |error: std::io::Error| Failure::input(format!("cannot read {name}: {error}"));
    let text = if is_standard {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(unread)?;
        text
    } else {
        std::fs::read_to_string(path).map_err(unread)?
    };
    parse(&text).map_err(|problem| Failure::input(format!("{name}: {problem}")))
}

/// Parses a document, or returns the problem and its location.
fn parse(text: &str) -> Result<Document, String> {
    const IS: &str = "a document is the output of solve, score, simulate or curate with --json";
    let value: Value = serde_json::from_str(text).map_err(|error| format!("{error}; {IS}"))?;
    let field = |name: &str| value.get(name).and_then(Value::as_str).map(String::from);
    let Some(command) = field("command") else { return Err(format!("the field `command` is missing; {IS}")) };
    if let Some(version) = field("version").as_deref()
        && release(version).is_none_or(|found| Some(found) > release(env!("CARGO_PKG_VERSION")))
    {
        let own = env!("CARGO_PKG_VERSION");
        return Err(format!(
            "version is {version}, but this is modelmix {own}; update modelmix, or create the document again with `modelmix {command} --json`"
        ));
    }
    match command.as_str() {
        "solve" => of(value).map(Document::Solve),
        "score" => of(value).map(Document::Score),
        "simulate" => of(value).map(Document::Simulate),
        "curate" => of(value).map(Document::Curate),
        _ => Err(format!("command is {command}; {IS}")),
    }
}

/// Major and minor version, which determine whether a document is compatible.
fn release(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// Parses a document of a type; errors name the location of the problem.
fn of<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| match error.path().to_string().as_str() {
        "." => format!("{}; create the document again", error.inner()),
        place => format!("{place}: {}; create the document again", error.inner()),
    })
}
