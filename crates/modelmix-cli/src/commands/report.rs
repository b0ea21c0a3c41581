//! `modelmix report`: a report from documents that were printed before.

use std::io::Read;
use std::path::Path;

use modelmix::document::Document;
use serde_json::json;

use super::curate::gallery;
use super::output::{self, Section};
use crate::args::ReportArgs;
use crate::error::{Failure, Result};
use crate::terminal::Terminal;

pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    if !args.output.is_wanted() {
        return Err(Failure::input("nothing is to be written; give --html FILE, --svg FOLDER or --png FOLDER"));
    }
    output::check(&args.output)?;
    let mut sections: Vec<Section> = Vec::new();
    for path in &args.documents {
        let document = read(path)?;
        let name = match path.file_stem() {
            Some(stem) if stem != "-" => stem.to_string_lossy().into_owned(),
            _ => "report".into(),
        };
        // Documents of one run stand together: one of each kind makes a section.
        let taken = |section: &Section| match &document {
            Document::Solve(_) => section.solve.is_some(),
            Document::Score(_) => section.score.is_some(),
            Document::Simulate(_) => section.simulate.is_some(),
            Document::Curate(_) => section.curate.is_some(),
            _ => false,
        };
        if sections.last().is_none_or(taken) {
            sections.push(Section { name, ..Section::default() });
        }
        if let Some(section) = sections.last_mut() {
            match document {
                Document::Solve(document) => section.solve = Some(document),
                Document::Score(document) => section.score = Some(document),
                Document::Simulate(document) => section.simulate = Some(document),
                Document::Curate(document) => section.curate = Some(document),
                _ => {
                    let sentence = format!("{}: reports show no documents of this kind", path.display());
                    return Err(Failure::input(sentence));
                }
            }
        }
    }
    if let Some(section) = sections.first_mut() {
        section.gallery = match &section.curate {
            Some(curate) if section.is_curated() => gallery::chosen(&args.output, curate)?,
            _ => output::gallery(&args.output, &output::weights_of(section))?,
        };
    }
    let title = args.output.title.clone().unwrap_or_else(|| "modelmix".into());
    let files = output::write(&terminal, title, sections, &args.output)?;
    terminal.document(&json!({"command": "report", "version": env!("CARGO_PKG_VERSION"), "files": files}))
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
    serde_json::from_str(&text).map_err(|error| {
        Failure::input(format!(
            "{name}: {error}; a document is what solve, score, simulate or curate print with --json"
        ))
    })
}
