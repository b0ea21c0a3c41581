//! The manifest of a curated set: its rows and their description. A CSV file has only the rows, and a JSON file next to it
//! has the description; a JSON manifest has both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use modelmix::Curated;
use modelmix::curate::{CuratedArm, CuratedRow};
use modelmix_cli::tables::field;
use serde_json::{Value, json};

use crate::args::ArmsArgs;
use crate::error::{Failure, Result};

/// Format of a manifest.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Json,
    Csv,
}

/// The format for a file name.
pub(super) fn kind(path: &Path) -> Result<Kind> {
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    match extension.as_ref().and_then(|extension| extension.to_str()) {
        Some("json") => Ok(Kind::Json),
        Some("csv") => Ok(Kind::Csv),
        _ => Err(Failure::input(format!("{}: a manifest must be a .json or .csv file; rename it", path.display()))),
    }
}

/// The files of a manifest: the requested one, and the description of a CSV file (`ids.csv.json` for `ids.csv`).
pub(super) fn files(path: &Path, kind: Kind) -> Vec<PathBuf> {
    match kind {
        Kind::Json => vec![path.into()],
        Kind::Csv => {
            let mut beside = path.as_os_str().to_os_string();
            beside.push(".json");
            vec![path.into(), beside.into()]
        }
    }
}

/// Contents of a manifest.
pub(super) struct Manifest<'a> {
    pub(super) document: &'a Curated,
    pub(super) arms: &'a ArmsArgs,
    /// File names by arm, one per row, if known.
    pub(super) names: &'a BTreeMap<String, Vec<String>>,
}

impl Manifest<'_> {
    /// The contents of each of its [`files`].
    pub(super) fn texts(&self, kind: Kind) -> Result<Vec<String>> {
        let mut about = self.about();
        match kind {
            Kind::Json => {
                about["rows"] = self.rows();
                Ok(vec![pretty(&about)?])
            }
            Kind::Csv => Ok(vec![self.csv(), pretty(&about)?]),
        }
    }

    fn file(&self, arm: &str, row: usize) -> Option<&String> {
        self.names.get(arm)?.get(row)
    }

    fn rows(&self) -> Value {
        let row = |row: &CuratedRow| match self.file(&row.arm, row.row) {
            Some(file) => json!({"arm": row.arm, "row": row.row, "file": file}),
            None => json!({"arm": row.arm, "row": row.row}),
        };
        self.document.rows.iter().map(row).collect()
    }

    /// Description of the rows: their source, how they were chosen, and the note on their bias.
    fn about(&self) -> Value {
        let document = self.document;
        let arm = |arm: &CuratedArm| json!({"name": arm.name, "chosen": arm.chosen, "samples": arm.samples});
        let arms: Value = document.arms.iter().map(arm).collect();
        json!({
            "modelmix": document.version,
            "note": document.note,
            "count": document.count,
            "objective": document.objective,
            "kernels": document.kernels,
            "files": self.arms.arms,
            "reference": self.arms.reference,
            "seed": document.seed,
            "provenance": document.provenance,
            "loss": {"set": document.set.loss, "mixture": document.mixture.loss, "random": document.random.loss},
            "arms": arms,
        })
    }

    /// A header and one line per row.
    fn csv(&self) -> String {
        let named = !self.names.is_empty();
        let mut text = String::from(if named { "arm,row,file\n" } else { "arm,row\n" });
        for row in &self.document.rows {
            text += &format!("{},{}", field(&row.arm), row.row);
            if named {
                let file = self.file(&row.arm, row.row).map_or(String::new(), |file| field(file));
                text += &format!(",{file}");
            }
            text.push('\n');
        }
        text
    }
}

fn pretty(value: &Value) -> Result<String> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::input(format!("the manifest cannot be written as JSON: {error}")))?;
    Ok(text + "\n")
}
