//! Output of commands other than the terminal: reports, figures, galleries.

use std::path::{Path, PathBuf};

use modelmix::load::{self, ArmSource, Pictures};

use crate::args::{ArmsArgs, OutputArgs};
use crate::error::{Failure, Result};
use crate::files::{self, Batch};
use crate::inputs::Recorded;
use crate::terminal::Terminal;
use modelmix_cli::report::{Gallery, GalleryRow, Image, Report};
use modelmix_encode::resize::{Filter, Method, PassOrder, Workspace, resize};

pub(crate) use modelmix_cli::report::Section;

/// Maximum number of samples per arm in a gallery.
pub(crate) const SHOWN_SAMPLES: usize = 24;
/// The longest side of an image in a gallery of encoded samples, in pixels.
const LONGEST_THUMBNAIL: usize = 192;
/// Pixels of a PNG file per unit of the figure.
const PNG_SCALE: f32 = 2.0;

/// Checks before the work that all output can be written.
pub(crate) fn check(args: &OutputArgs) -> Result<()> {
    if let Some(html) = &args.html {
        files::check(html)?;
    }
    for folder in [&args.svg, &args.png].into_iter().flatten() {
        files::check_folder(folder)?;
    }
    if !args.images.is_empty() && !args.texts.is_empty() {
        return Err(Failure::input("a gallery shows --images or --texts, not both; give one of them"));
    }
    if !args.is_wanted() && (!args.images.is_empty() || !args.texts.is_empty()) {
        return Err(Failure::input("a gallery is part of the report; give --html FILE"));
    }
    Ok(())
}

/// Rejects a request for figures if the results have none.
pub(crate) fn check_figures(args: &OutputArgs, has_figures: bool) -> Result<()> {
    match args.svg.as_ref().or(args.png.as_ref()).filter(|_| !has_figures) {
        None => Ok(()),
        Some(folder) => Err(Failure::input(format!(
            "there are no figures to write into {}: scores are a table; give --html FILE instead",
            folder.display()
        ))),
    }
}

/// A section with its name and its gallery, read before the work so that errors are reported early;
/// [`with_weights`] adds the weights.
pub(crate) fn section(name: &str, args: &OutputArgs, arms_args: &ArmsArgs, recorded: &mut Recorded) -> Result<Section> {
    let arms: Vec<(String, f64)> = recorded.arms.names().into_iter().map(|name| (name, 0.0)).collect();
    let images = recorded.find_images(&args.images, arms_args)?;
    let mut gallery = gallery(&images, &args.texts, &arms)?;
    if args.html.is_some() && !matches!(gallery, Some(Gallery::Texts(_))) {
        let rows = recorded
            .samples
            .iter()
            .flat_map(|(name, samples)| (0..samples.len().min(SHOWN_SAMPLES)).map(move |row| (name.as_str(), row)));
        gallery = encoded_gallery(recorded, rows, gallery)?;
    }
    Ok(Section { name: name.into(), gallery, ..Section::default() })
}

/// A gallery of these rows of arms whose images or texts are known, and of the images of other arms; `None` if there are none.
pub(crate) fn encoded_gallery<'a>(
    recorded: &Recorded,
    rows: impl IntoIterator<Item = (&'a str, usize)>,
    others: Option<Gallery>,
) -> Result<Option<Gallery>> {
    let mut images: Vec<GalleryRow<Image>> = match others {
        Some(Gallery::Images(rows)) => rows,
        _ => Vec::new(),
    };
    let mut texts: Vec<GalleryRow<String>> = Vec::new();
    for (name, row) in rows {
        let Some(samples) = recorded.samples.get(name) else { continue };
        if let Some(text) = samples.text(row) {
            add_item(&mut texts, name, samples.len(), text.to_string());
        } else if let Some(Ok(image)) = samples.image(row) {
            // A file that has vanished since it was encoded is left out: it is no reason to lose the result.
            add_item(&mut images, name, samples.len(), thumbnail(&image)?);
        }
    }
    let order = recorded.arms.names();
    let place = |name: &String| order.iter().position(|arm| arm == name);
    images.sort_by_key(|row| place(&row.name));
    texts.sort_by_key(|row| place(&row.name));
    Ok(match (images.is_empty(), texts.is_empty()) {
        (false, _) => Some(Gallery::Images(images)),
        (true, false) => Some(Gallery::Texts(texts)),
        (true, true) => None,
    })
}

/// Adds a sample to the row of its arm.
fn add_item<T>(rows: &mut Vec<GalleryRow<T>>, name: &str, samples: usize, item: T) {
    match rows.iter_mut().find(|row| row.name == name) {
        Some(row) => row.items.push(item),
        None => rows.push(GalleryRow::new(name, 0.0, vec![item]).of(samples)),
    }
}

/// A small copy of an image, so that reports of photographs stay small.
pub(crate) fn thumbnail(image: &modelmix_encode::Image) -> Result<Image> {
    let longest = image.width().max(image.height());
    if longest <= LONGEST_THUMBNAIL {
        return Ok(Image::new(image.width() as u32, image.height() as u32, 3, image.pixels())?);
    }
    let side = |side: usize| (side * LONGEST_THUMBNAIL / longest).max(1);
    let (height, width) = (side(image.height()), side(image.width()));
    let method = Method::Pillow { filter: Filter::Bicubic, passes: PassOrder::default() };
    let planes = resize(image, height, width, method, &mut Workspace::default());
    let planes = planes.map_err(|problem| Failure::input(problem.to_string()))?;
    let value = |channel, y, x: usize| planes.row(channel, y)[x] as u8;
    let pixel = |y, x| [value(0, y, x), value(1, y, x), value(2, y, x)];
    let pixels: Vec<u8> = (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(y, x))).collect();
    Ok(Image::new(width as u32, height as u32, 3, &pixels)?)
}

/// Adds the weights of the section's documents to its gallery.
pub(crate) fn with_weights(mut section: Section) -> Section {
    fn set_weights<T>(rows: &mut [GalleryRow<T>], weights: &[(String, f64)]) {
        for row in rows {
            row.weight = weights.iter().find(|(name, _)| *name == row.name).map_or(0.0, |(_, weight)| *weight);
        }
    }
    let weights = weights_of(&section);
    match &mut section.gallery {
        Some(Gallery::Images(rows)) => set_weights(rows, &weights),
        Some(Gallery::Texts(rows)) => set_weights(rows, &weights),
        None => {}
    }
    section
}

/// The weights in a section's documents.
pub(crate) fn weights_of(section: &Section) -> Vec<(String, f64)> {
    if let Some(solve) = &section.solve {
        return solve.arms.iter().map(|arm| (arm.name.clone(), arm.weight)).collect();
    }
    if let Some(score) = &section.score {
        let weight = |name: &str| {
            score.mixture.as_ref().and_then(|mixture| mixture.weights.get(name).copied()).unwrap_or_default()
        };
        return score.arms.iter().map(|arm| (arm.name.clone(), weight(&arm.name))).collect();
    }
    let Some(simulate) = &section.simulate else { return Vec::new() };
    simulate.arms.iter().cloned().zip(simulate.optimum.weights.iter().copied()).collect()
}

/// Samples of each arm, with its weight in the mixture.
pub(crate) fn gallery(
    image_sources: &[ArmSource],
    texts: &[String],
    arms: &[(String, f64)],
) -> Result<Option<Gallery>> {
    if !image_sources.is_empty() {
        let mut named = Vec::new();
        for (name, pictures) in load::pictures(image_sources, SHOWN_SAMPLES)? {
            named.push((name, images(&pictures)?));
        }
        return Ok(Some(Gallery::Images(rows("images", arms, named)?)));
    }
    if !texts.is_empty() {
        let named = load::texts(&sources(texts)?, SHOWN_SAMPLES)?;
        return Ok(Some(Gallery::Texts(rows("texts", arms, named)?)));
    }
    Ok(None)
}

/// Parses the values of --images or --texts.
pub(crate) fn sources(texts: &[String]) -> Result<Vec<ArmSource>> {
    Ok(texts.iter().map(|text| text.parse()).collect::<modelmix::Result<_>>()?)
}

/// The first images, encoded.
pub(crate) fn images(pictures: &Pictures) -> Result<Vec<Image>> {
    let shown = match pictures {
        Pictures::Raw { height, width, channels, pixels, .. } => pixels
            .chunks_exact(height * width * channels)
            .take(SHOWN_SAMPLES)
            .map(|pixels| Image::new(*width as u32, *height as u32, *channels as u8, pixels))
            .collect::<modelmix::Result<_>>()?,
        Pictures::Encoded(files) => files
            .iter()
            .take(SHOWN_SAMPLES)
            .map(|file| Image::encoded(file.bytes.clone()))
            .collect::<modelmix::Result<_>>()?,
    };
    Ok(shown)
}

/// Checks that all samples of a gallery belong to an arm.
pub(crate) fn check_unknown_arms<'a>(
    what: &str,
    arms: &[String],
    mut shown: impl Iterator<Item = &'a String>,
) -> Result<()> {
    match shown.find(|name| !arms.contains(name)) {
        None => Ok(()),
        Some(unknown) => Err(Failure::input(format!(
            "{what} are given for {unknown}, which is not an arm; the arms are {}",
            arms.join(", ")
        ))),
    }
}

/// One row per arm that has samples; the report adds the row of the mixture.
fn rows<T: Clone>(what: &str, arms: &[(String, f64)], named: Vec<(String, Vec<T>)>) -> Result<Vec<GalleryRow<T>>> {
    let known: Vec<String> = arms.iter().map(|(name, _)| name.clone()).collect();
    check_unknown_arms(what, &known, named.iter().map(|(name, _)| name))?;
    let mut rows: Vec<GalleryRow<T>> = Vec::new();
    for (name, weight) in arms {
        if let Some((_, items)) = named.iter().find(|(arm, _)| arm == name) {
            let items = items.iter().take(SHOWN_SAMPLES).cloned().collect();
            rows.push(GalleryRow::new(name, *weight, items));
        }
    }
    Ok(rows)
}

/// The files of a command, which are moved to their places together before anything is printed.
#[derive(Default)]
pub(crate) struct Outputs {
    batch: Batch,
    /// Description of each file.
    kinds: Vec<&'static str>,
}

impl Outputs {
    pub(crate) fn add(&mut self, path: &Path, kind: &'static str, bytes: &[u8]) -> Result<()> {
        self.batch.add(path, bytes)?;
        self.kinds.push(kind);
        Ok(())
    }

    /// Adds the requested report and figures.
    pub(crate) fn add_report(&mut self, report: &Report, args: &OutputArgs) -> Result<()> {
        if let Some(html) = &args.html {
            self.add(html, "The report", report.html()?.as_bytes())?;
        }
        for folder in [&args.svg, &args.png].into_iter().flatten() {
            self.batch.add_folder(folder)?;
        }
        if args.svg.is_some() || args.png.is_some() {
            for figure in report.figures()? {
                if let Some(folder) = &args.svg {
                    self.add(&folder.join(format!("{}.svg", figure.name)), "A figure", figure.svg.as_bytes())?;
                }
                if let Some(folder) = &args.png {
                    let path = folder.join(format!("{}.png", figure.name));
                    self.add(&path, "A figure", &figure.png(PNG_SCALE)?)?;
                }
            }
        }
        Ok(())
    }

    /// Moves all files to their places, prints and returns the places.
    pub(crate) fn commit(self, terminal: &Terminal) -> Result<Vec<PathBuf>> {
        let places = self.batch.commit()?;
        for (path, kind) in places.iter().zip(self.kinds) {
            terminal.remark(format!("{kind} is in {}", path.display()));
        }
        Ok(places)
    }
}

/// Writes the requested report and figures, and returns the paths.
pub(crate) fn write(
    terminal: &Terminal,
    title: String,
    sections: Vec<Section>,
    args: &OutputArgs,
) -> Result<Vec<PathBuf>> {
    let mut outputs = Outputs::default();
    outputs.add_report(&report(title, sections), args)?;
    outputs.commit(terminal)
}

/// A report of these sections.
pub(crate) fn report(title: String, sections: Vec<Section>) -> Report {
    Report { title, sections, ..Report::default() }
}
