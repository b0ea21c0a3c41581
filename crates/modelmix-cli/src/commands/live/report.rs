//! The report of a run: its mixture, its counts, and what was really generated.

use std::path::Path;

use modelmix_encode::decode::{Limits, decode};
use modelmix_live::pool::pool;
use modelmix_live::status::RunStatus;
use modelmix_live::store::Reader;

use super::super::output::{SHOWN_SAMPLES, Section, thumbnail};
use crate::error::Result;
use crate::files;
use crate::terminal::Terminal;
use modelmix_cli::report::{Gallery, GalleryRow, Image, Report};

/// Writes the report.
pub(super) fn write(
    status: &RunStatus,
    folder: &Path,
    html: &Path,
    title: Option<&str>,
    terminal: &Terminal,
) -> Result<()> {
    let name = folder.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned());
    let title = title.map(str::to_string).or_else(|| status.title.clone()).unwrap_or_else(|| format!("The run {name}"));
    let section = Section {
        name,
        solve: status.mixture.clone(),
        run: Some(status.clone()),
        gallery: gallery(status, folder)?,
        ..Section::default()
    };
    let report = Report { title, sections: vec![section], ..Report::default() };
    files::write(html, report.html()?.as_bytes())?;
    terminal.remark(format!("The report is in {}", html.display()));
    Ok(())
}

/// The first samples of every arm.
fn gallery(status: &RunStatus, folder: &Path) -> Result<Option<Gallery>> {
    let reader = Reader::open(folder)?;
    let (history, payloads) = (reader.history()?, reader.payloads());
    let mut images: Vec<GalleryRow<Image>> = Vec::new();
    let mut texts: Vec<GalleryRow<String>> = Vec::new();
    for (at, arm) in status.arms.iter().enumerate() {
        let (mut of_arm, mut said) = (Vec::new(), Vec::new());
        for sample in pool(&history).into_iter().filter(|sample| sample.arm == at) {
            // A file that is missing or damaged is a finding of `status`, and no reason to lose the report.
            let Some(bytes) = sample.payload.as_ref().and_then(|payload| payloads.read(payload).ok()) else { continue };
            if sample.payload.is_some_and(|payload| payload.extension == "txt") {
                said.push(String::from_utf8_lossy(&bytes).into_owned());
            } else if let Ok(image) = decode(&bytes, &Limits::default()) {
                of_arm.push(thumbnail(&image)?);
            }
            if of_arm.len().max(said.len()) == SHOWN_SAMPLES {
                break;
            }
        }
        if !of_arm.is_empty() {
            images.push(GalleryRow::new(&arm.name, arm.weight, of_arm).of(arm.samples));
        }
        if !said.is_empty() {
            texts.push(GalleryRow::new(&arm.name, arm.weight, said).of(arm.samples));
        }
    }
    Ok(match (images.is_empty(), texts.is_empty()) {
        (false, _) => Some(Gallery::Images(images)),
        (true, false) => Some(Gallery::Texts(texts)),
        (true, true) => None,
    })
}
