//! Gallery of the first chosen samples of a curated set.

use std::collections::BTreeMap;

use modelmix::Curated;
use modelmix::load::{self, ArmSource};
use modelmix_cli::report::{Gallery, GalleryRow};

use crate::args::OutputArgs;
use crate::commands::output::{self, SHOWN_SAMPLES};
use crate::encoding::ArmSamples;
use crate::error::Result;
use crate::inputs::Recorded;

/// The checks of other reports, except that images with file names may also be used for a manifest or copies only.
pub(super) fn check(args: &OutputArgs, names_files: bool) -> Result<()> {
    if names_files && !args.is_wanted() && args.texts.is_empty() {
        return Ok(());
    }
    output::check(args)
}

/// The files or ids of samples by arm, if they are known; empty if the images are arrays.
pub(super) fn names(images: &[ArmSource], recorded: &Recorded) -> Result<BTreeMap<String, Vec<String>>> {
    let name = |samples: &ArmSamples, row: usize| match samples.file(row) {
        Some(path) => path.to_string_lossy().into_owned(),
        None => samples.id(row),
    };
    let of_samples = |samples: &ArmSamples| (0..samples.len()).map(|row| name(samples, row)).collect();
    let mut names = recorded.ids.clone();
    names.extend(recorded.samples.iter().map(|(arm, samples)| (arm.clone(), of_samples(samples))));
    let pictures = load::picture_names(images)?;
    output::check_unknown_arms("images", &recorded.arms.names(), pictures.iter().map(|(name, _)| name))?;
    names.extend(pictures);
    Ok(names)
}

/// One row per arm: its first chosen samples, in the order chosen.
pub(crate) fn chosen(
    args: &OutputArgs,
    document: &Curated,
    images: &[ArmSource],
    recorded: Option<&Recorded>,
) -> Result<Option<Gallery>> {
    if !args.is_wanted() {
        return Ok(None);
    }
    let mut rows: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    document.rows.iter().for_each(|row| rows.entry(row.arm.clone()).or_default().push(row.row));
    let arms: Vec<String> = document.arms.iter().map(|arm| arm.name.clone()).collect();
    let mut gallery = None;
    if !images.is_empty() {
        let mut named = Vec::new();
        for (name, pictures) in load::chosen_pictures(images, &rows, SHOWN_SAMPLES)? {
            named.push((name, output::images(&pictures)?));
        }
        gallery = Some(Gallery::Images(shown("images", document, &arms, named)?));
    }
    if let (true, Some(recorded)) = (args.texts.is_empty(), recorded) {
        let first = rows.iter().flat_map(|(arm, rows)| rows.iter().take(SHOWN_SAMPLES).map(|&row| (arm.as_str(), row)));
        gallery = output::encoded_gallery(recorded, first, gallery)?;
        match &mut gallery {
            Some(Gallery::Images(shown)) => set_shares(shown, document),
            Some(Gallery::Texts(shown)) => set_shares(shown, document),
            None => {}
        }
    }
    if !args.texts.is_empty() {
        let sources: Vec<ArmSource> = output::sources(&args.texts)?;
        let mut named = load::texts(&sources, usize::MAX)?;
        for (name, texts) in &mut named {
            let chosen = rows.get(name).into_iter().flatten();
            *texts = chosen.filter_map(|&row| texts.get(row).cloned()).take(SHOWN_SAMPLES).collect();
        }
        gallery = Some(Gallery::Texts(shown("texts", document, &arms, named)?));
    }
    Ok(gallery)
}

/// Replaces weights by shares of the set, and numbers of samples by numbers of chosen ones.
fn set_shares<T>(shown: &mut [GalleryRow<T>], document: &Curated) {
    for row in shown {
        if let Some(arm) = document.arms.iter().find(|arm| arm.name == row.name) {
            (row.weight, row.of) = (arm.share, Some(arm.chosen));
        }
    }
}

fn shown<T: Clone>(
    what: &str,
    document: &Curated,
    arms: &[String],
    named: Vec<(String, Vec<T>)>,
) -> Result<Vec<GalleryRow<T>>> {
    output::check_unknown_arms(what, arms, named.iter().map(|(name, _)| name))?;
    let row = |arm: &modelmix::curate::CuratedArm| {
        let (_, items) = named.iter().find(|(name, items)| *name == arm.name && !items.is_empty())?;
        Some(GalleryRow::new(&arm.name, arm.share, items.clone()).of(arm.chosen))
    };
    Ok(document.arms.iter().filter_map(row).collect())
}
