//! The ids of a curated set as a file: a header that says what they are, and a row each.

use std::collections::BTreeMap;
use std::path::Path;

use modelmix::Curated;
use serde_json::json;

use crate::args::ArmsArgs;
use crate::error::{Failure, Result};

/// How a manifest is written.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Json,
    Csv,
}

/// What a file's name promises.
pub(super) fn kind(path: &Path) -> Result<Kind> {
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    match extension.as_ref().and_then(|extension| extension.to_str()) {
        Some("json") => Ok(Kind::Json),
        Some("csv") => Ok(Kind::Csv),
        _ => Err(Failure::input(format!("{}: a manifest is a .json or a .csv file; name it so", path.display()))),
    }
}

/// What goes into it.
pub(super) struct Manifest<'a> {
    pub(super) document: &'a Curated,
    pub(super) arms: &'a ArmsArgs,
    /// Names of files by arm, row for row, where they are known.
    pub(super) names: &'a BTreeMap<String, Vec<String>>,
}

impl Manifest<'_> {
    pub(super) fn text(&self, kind: Kind) -> Result<String> {
        match kind {
            Kind::Json => self.json(),
            Kind::Csv => Ok(self.csv()),
        }
    }

    fn file(&self, arm: &str, row: usize) -> Option<&String> {
        self.names.get(arm)?.get(row)
    }

    fn json(&self) -> Result<String> {
        let document = self.document;
        let rows: Vec<serde_json::Value> = document
            .rows
            .iter()
            .map(|row| match self.file(&row.arm, row.row) {
                Some(file) => json!({"arm": row.arm, "row": row.row, "file": file}),
                None => json!({"arm": row.arm, "row": row.row}),
            })
            .collect();
        let arms: Vec<serde_json::Value> = document
            .arms
            .iter()
            .map(|arm| json!({"name": arm.name, "chosen": arm.chosen, "samples": arm.samples}))
            .collect();
        let manifest = json!({
            "modelmix": document.version,
            "note": document.note,
            "objective": document.objective,
            "kernels": document.kernels,
            "files": self.arms.arms,
            "reference": self.arms.reference,
            "seed": document.seed,
            "loss": {"set": document.set.loss, "mixture": document.mixture.loss, "random": document.random.loss},
            "arms": arms,
            "rows": rows,
        });
        let text = serde_json::to_string_pretty(&manifest)
            .map_err(|error| Failure::input(format!("the manifest cannot be written as JSON: {error}")))?;
        Ok(text + "\n")
    }

    /// Remarks behind `#`, which readers of CSV can be told to skip, then a header and a line a row.
    fn csv(&self) -> String {
        let document = self.document;
        let plain = |text: &str| text.replace(['\n', '\r'], " ");
        let kernels: Vec<String> = document.kernels.iter().map(ToString::to_string).collect();
        let [mean, std] = document.random.loss;
        let mut text = format!(
            "# modelmix {}: {} rows\n# {}\n# objective: {}; {}; seed {}\n# files: {}\n# reference: {}\n# loss: {} (optimal mixture {}, random draws {mean} ± {std})\n",
            document.version,
            document.count,
            document.note,
            document.objective,
            kernels.join("; "),
            document.seed,
            plain(&self.arms.arms.join(" ")),
            plain(self.arms.reference.as_deref().unwrap_or("none")),
            document.set.loss,
            document.mixture.loss,
        );
        let named = !self.names.is_empty();
        text += if named { "arm,row,file\n" } else { "arm,row\n" };
        for row in &document.rows {
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

/// In quotes where it has to be, or where it would read as a remark.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r', '#']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}
