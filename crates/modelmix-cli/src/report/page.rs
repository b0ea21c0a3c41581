//! The page: collects and numbers the parts of all sections for the template, which escapes all text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, HtmlEscape};
use modelmix::curate::CuratedArm;
use modelmix::{Curated, Error, Objective, Result};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::charts::{Chart, Key, Paint, Stroke};
use super::colours::{DARK, LIGHT, SERIES_COLOURS};
use super::figure::Drawing;
use super::gallery::{self, Gallery, GalleryRow, Image};
use super::names::plain;
use super::table::Table;
use super::{Comparison, Report, Section, checks, curated, numbers, provenance, run, scores, simulated, solved};

/// The only script of the page: it copies text to the clipboard.
const SCRIPT: &str = include_str!("copy.js");

#[derive(Serialize)]
struct Page {
    title: String,
    summary: Option<String>,
    version: &'static str,
    style: &'static str,
    light: String,
    dark: String,
    series: usize,
    comparison: Option<ComparisonView>,
    sections: Vec<SectionView>,
    /// The script, and its checksum for the content security policy.
    script: &'static str,
    script_checksum: String,
    /// The documents as JSON, escaped for a `script` element.
    documents: String,
}

#[derive(Serialize)]
struct SectionView {
    id: String,
    name: String,
    note: Option<String>,
    answer: Option<String>,
    /// Warnings that precede the numbers.
    warnings: Vec<String>,
    facts: Vec<Fact>,
    blocks: Vec<Block>,
}

/// The comparison of two runs.
#[derive(Serialize)]
struct ComparisonView {
    name: String,
    answer: String,
    notes: Vec<String>,
    commands: Vec<Copy>,
    blocks: Vec<Block>,
}

/// A term and its value.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fact {
    name: String,
    value: String,
}

impl Fact {
    pub(super) fn new(name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        Self { name: plain(name.as_ref()), value: plain(value.as_ref()) }
    }
}

/// A part of a section.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Block {
    Figure(FigureBlock),
    Table(TableBlock),
    Gallery(GalleryBlock),
    Copies(CopiesBlock),
    Provenance(ProvenanceBlock),
}

/// A text to copy.
#[derive(Serialize)]
pub(super) struct Copy {
    name: String,
    text: String,
}

impl Copy {
    pub(super) fn new(name: impl Into<String>, text: String) -> Self {
        Self { name: name.into(), text }
    }
}

/// The weights as text to copy.
#[derive(Serialize)]
pub(super) struct CopiesBlock {
    pub(super) copies: Vec<Copy>,
}

/// The provenance of the numbers.
#[derive(Serialize)]
pub(super) struct ProvenanceBlock {
    pub(super) name: String,
    pub(super) command: Option<Copy>,
    pub(super) facts: Vec<Fact>,
    pub(super) table: Option<Table>,
}

/// A chart with its legend, caption and values.
#[derive(Serialize)]
pub(super) struct FigureBlock {
    number: usize,
    caption: String,
    alternative: String,
    keys: Vec<KeyView>,
    /// The values of the weakest and the strongest colour.
    scale: Option<ScaleView>,
    panels: Vec<PanelView>,
    table_name: Option<String>,
    table: Option<Table>,
}

#[derive(Serialize)]
struct KeyView {
    name: String,
    class: String,
}

#[derive(Serialize)]
struct ScaleView {
    low: String,
    high: String,
}

#[derive(Serialize)]
struct PanelView {
    title: Option<String>,
    wide: DrawingView,
    narrow: Option<DrawingView>,
}

#[derive(Serialize)]
struct DrawingView {
    width: f64,
    height: f64,
    inner: String,
}

/// A table with a caption.
#[derive(Serialize)]
pub(super) struct TableBlock {
    number: usize,
    caption: String,
    table: Table,
    /// Definitions of its numbers.
    pub(super) settings: Vec<Fact>,
    /// Collapsed rows, and their description.
    pub(super) folded_name: Option<String>,
    pub(super) folded: Option<Table>,
}

/// A gallery of samples.
#[derive(Serialize)]
pub(super) struct GalleryBlock {
    number: usize,
    caption: String,
    rows: Vec<GalleryView>,
}

#[derive(Serialize)]
struct GalleryView {
    name: String,
    share: Option<String>,
    /// How many samples are shown, if not all.
    shown: Option<String>,
    apart: bool,
    images: Vec<String>,
    texts: Vec<String>,
}

/// Location of a part of the page.
pub(super) struct Place {
    /// Prefix of the element ids, unique per section.
    pub(super) slug: String,
    /// The document, as a JSON pointer.
    pub(super) at: String,
}

impl FigureBlock {
    pub(super) fn new(place: &Place, chart: &Chart<'_>, caption: String, alternative: String) -> Self {
        let panels = chart.views(&format!("{}-{}", place.slug, chart.name));
        let view =
            |drawing: Drawing| DrawingView { width: drawing.width, height: drawing.height, inner: drawing.inner };
        Self {
            number: 0,
            caption,
            alternative: plain(&alternative),
            keys: chart.keys.iter().map(key).collect(),
            scale: None,
            panels: panels
                .into_iter()
                .map(|panel| PanelView {
                    title: panel.title.as_deref().map(plain),
                    wide: view(panel.wide),
                    narrow: panel.narrow.map(view),
                })
                .collect(),
            table_name: None,
            table: None,
        }
    }

    #[must_use]
    pub(super) fn with_scale(mut self, low: f64, high: f64) -> Self {
        self.scale = Some(ScaleView { low: numbers::brief(low), high: numbers::brief(high) });
        self
    }

    #[must_use]
    pub(super) fn with_table(mut self, name: &str, table: Table) -> Self {
        (self.table_name, self.table) = (Some(name.into()), Some(table));
        self
    }
}

impl TableBlock {
    pub(super) fn new(caption: String, table: Table) -> Self {
        Self { number: 0, caption, table, settings: Vec::new(), folded_name: None, folded: None }
    }

    /// Adds a collapsed table.
    #[must_use]
    pub(super) fn with_folded(mut self, name: String, table: Table) -> Self {
        (self.folded_name, self.folded) = (Some(name), Some(table));
        self
    }
}

fn key(key: &Key) -> KeyView {
    let colour = match key.paint {
        Paint::Series(index) => format!("series-{}", index % SERIES_COLOURS),
        Paint::Ink => "ink".into(),
        Paint::Rest => "rest".into(),
    };
    let stroke = match key.stroke {
        Stroke::Solid => "solid",
        Stroke::Dashed => "dashed",
        Stroke::Dotted => "dotted",
        Stroke::Area => "area",
    };
    KeyView { name: plain(&key.name), class: format!("{colour} {stroke}") }
}

/// A text with its line breaks.
fn lines(text: &str) -> String {
    text.trim().lines().map(plain).collect::<Vec<_>>().join("\n")
}

fn gallery(gallery: &Gallery, curated: Option<&Curated>) -> Block {
    let images = |items: Vec<Image>| (items.iter().map(Image::uri).collect(), Vec::new());
    let texts = |items: Vec<String>| (Vec::new(), items.iter().map(|text| lines(text)).collect());
    let (whole, mut caption) = if curated.is_some() {
        ("set", "The first chosen samples of each arm, and of the set in its proportions.".to_string())
    } else {
        ("mixture", "Samples of each arm, and of the mixture in its proportions.".into())
    };
    caption += &curated.map(|set| left_out(gallery, set)).unwrap_or_default();
    let rows = match gallery {
        Gallery::Images(rows) => gallery_rows(rows, whole, images),
        Gallery::Texts(rows) => gallery_rows(rows, whole, texts),
    };
    Block::Gallery(GalleryBlock { number: 0, caption, rows })
}

/// The number of chosen samples that the gallery omits, and the arms without samples.
fn left_out(gallery: &Gallery, set: &Curated) -> String {
    let rows: Vec<(&String, usize)> = match gallery {
        Gallery::Images(rows) => rows.iter().map(|row| (&row.name, row.items.len())).collect(),
        Gallery::Texts(rows) => rows.iter().map(|row| (&row.name, row.items.len())).collect(),
    };
    let shown: usize = rows.iter().map(|(_, count)| count).sum();
    let mut text = String::new();
    if shown < set.count {
        let (shown, count) = (numbers::count(shown), numbers::count(set.count));
        text = format!(
            " {shown} of the {count} chosen samples are shown; {} are left out.",
            numbers::count(set.count - rows.iter().map(|(_, count)| count).sum::<usize>())
        );
    }
    let is_missing = |arm: &&CuratedArm| arm.chosen > 0 && !rows.iter().any(|(name, _)| **name == arm.name);
    let missing: Vec<String> = set.arms.iter().filter(is_missing).map(|arm| plain(&arm.name)).collect();
    if !missing.is_empty() {
        text += &format!(" No samples to show for {}.", missing.join(", "));
    }
    text
}

fn gallery_rows<T: Clone>(
    rows: &[GalleryRow<T>],
    whole: &str,
    show: impl Fn(Vec<T>) -> (Vec<String>, Vec<String>),
) -> Vec<GalleryView> {
    let view = |name: &str, share: Option<String>, items: Vec<T>, of: Option<usize>| {
        let shown = of.filter(|&of| of > items.len());
        let shown = shown.map(|of| format!("{} of {} shown", numbers::count(items.len()), numbers::count(of)));
        let (images, texts) = show(items);
        GalleryView { name: plain(name), apart: share.is_none(), share, shown, images, texts }
    };
    let shares = numbers::percents(&rows.iter().map(|row| row.weight).collect::<Vec<_>>());
    let mut views: Vec<GalleryView> =
        rows.iter().zip(shares).map(|(row, share)| view(&row.name, Some(share), row.items.clone(), row.of)).collect();
    let mixed = gallery::mixture(rows);
    if !mixed.is_empty() {
        views.push(view(whole, None, mixed, None));
    }
    views
}

/// Warnings about an objective.
fn warnings_of(objective: &str) -> Vec<String> {
    Objective::parse(objective).map(|objective| objective.warnings()).unwrap_or_default()
}

fn section(section: &Section, index: usize, slug: &str) -> SectionView {
    let place = |document: &str| Place { slug: slug.into(), at: format!("/sections/{index}/{document}") };
    let (mut answer, mut warnings, mut facts, mut blocks) = (None, Vec::new(), Vec::new(), Vec::new());
    if let Some(document) = &section.solve {
        answer = Some(document.headline().answer);
        warnings = document.warnings.clone();
        facts = solved::facts(document);
        blocks.extend(solved::blocks(document, &place("solve")));
    }
    if let Some(document) = &section.score {
        blocks.extend(scores::blocks(document, &place("score")));
    }
    if let Some(document) = &section.simulate {
        if section.solve.is_none() {
            answer = simulated::sentence(document);
            warnings = warnings_of(&document.objective);
            facts = simulated::facts(document);
        }
        blocks.extend(simulated::blocks(document, &place("simulate")));
    }
    if !section.checks.is_empty() {
        facts.push(checks::fact(&section.checks));
        blocks.insert(0, checks::block(&section.checks, &format!("/sections/{index}")));
    }
    if let Some(document) = &section.run {
        let headline = document.headline();
        answer = Some(answer.map_or_else(|| headline.clone(), |answer| format!("{answer} {headline}")));
        warnings.extend(document.remarks());
        facts.extend(run::facts(document));
        blocks.extend(run::blocks(document, &place("run")));
    }
    let mut note = section.note.clone();
    if let Some(document) = &section.curate {
        if section.solve.is_none() && section.simulate.is_none() {
            answer = Some(document.sentence());
            warnings = warnings_of(&document.objective);
            facts = curated::facts(document);
        }
        note = Some(note.map_or(document.note.clone(), |note| format!("{note} {}", document.note)));
        blocks.extend(curated::blocks(document, &place("curate")));
    }
    let chosen = section.curate.as_ref().filter(|_| section.is_curated());
    blocks.extend(section.gallery.as_ref().map(|shown| gallery(shown, chosen)));
    blocks.extend(provenance::blocks(section, &format!("/sections/{index}")));
    SectionView {
        id: slug.into(),
        name: plain(&section.name),
        note: note.as_deref().map(plain),
        answer: answer.as_deref().map(plain),
        warnings: warnings.iter().map(|warning| plain(warning)).collect(),
        facts,
        blocks,
    }
}

/// Numbers figures and tables through the page, galleries as figures, and makes every table downloadable.
fn number<'a>(parts: impl Iterator<Item = (&'a str, &'a mut Vec<Block>)>) {
    let (mut figures, mut tables) = (0, 0);
    for (slug, block) in parts.flat_map(|(slug, blocks)| blocks.iter_mut().map(move |block| (slug, block))) {
        let (count, number, table, folded, kind) = match block {
            Block::Figure(block) => (&mut figures, &mut block.number, block.table.as_mut(), None, "figure"),
            Block::Gallery(block) => (&mut figures, &mut block.number, None, None, "figure"),
            Block::Table(block) => {
                (&mut tables, &mut block.number, Some(&mut block.table), block.folded.as_ref(), "table")
            }
            Block::Provenance(block) => {
                block.table.iter_mut().for_each(|table| table.offer(format!("{slug}-inputs.csv"), None));
                continue;
            }
            Block::Copies(_) => continue,
        };
        *count += 1;
        *number = *count;
        table.into_iter().for_each(|table| table.offer(format!("{slug}-{kind}-{count}.csv"), folded));
    }
}

fn comparison(comparison: &Comparison) -> ComparisonView {
    let [first, second] = &comparison.runs;
    let command = |(run, command): (&String, &Option<String>)| Some(Copy::new(plain(run), plain(command.as_ref()?)));
    ComparisonView {
        name: plain(&format!("{first} and {second}")),
        answer: plain(&comparison.sentence),
        notes: comparison.notes.iter().chain([&comparison.noise]).map(|note| plain(note)).collect(),
        commands: comparison.runs.iter().zip(&comparison.commands).filter_map(command).collect(),
        blocks: super::comparison::blocks(comparison),
    }
}

/// A name as HTML with line-break opportunities after separators.
fn breaks(name: &str) -> Value {
    let mut html = String::new();
    for c in name.chars() {
        html += &HtmlEscape(c.encode_utf8(&mut [0; 4])).to_string();
        if matches!(c, '_' | '-' | '/' | ',' | '(' | '=' | ':' | '@') {
            html += "<wbr>";
        }
    }
    Value::from_safe_string(html)
}

pub(super) fn render(report: &Report) -> Result<String> {
    let slugs = report.slugs();
    let mut sections: Vec<SectionView> =
        report.sections.iter().zip(&slugs).enumerate().map(|(index, (one, slug))| section(one, index, slug)).collect();
    let mut compared = report.comparison.as_ref().map(comparison);
    let blocks = compared.iter_mut().map(|view| ("comparison", &mut view.blocks));
    number(blocks.chain(sections.iter_mut().map(|view| (view.id.as_str(), &mut view.blocks))));
    let refuse = |problem: String| Error::Array { origin: format!("report {}", report.title), problem };
    let documents = serde_json::to_string(report).map_err(|error| refuse(error.to_string()))?;
    let page = Page {
        title: plain(&report.title),
        summary: report.summary.as_deref().map(plain),
        comparison: compared,
        script: SCRIPT,
        script_checksum: STANDARD.encode(Sha256::digest(SCRIPT)),
        version: env!("CARGO_PKG_VERSION"),
        style: include_str!("style.css"),
        light: LIGHT.css(),
        dark: DARK.css(),
        series: SERIES_COLOURS,
        sections,
        // In JSON these characters occur in strings only; escaped, they cannot end the element.
        documents: documents.replace('<', r"\u003c").replace('>', r"\u003e").replace('&', r"\u0026"),
    };
    let mut templates = Environment::new();
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    templates.add_filter("breaks", breaks);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    templates.set_syntax(syntax.map_err(|error| refuse(error.to_string()))?);
    let template =
        templates.template_from_str(include_str!("template.html")).map_err(|error| refuse(error.to_string()))?;
    template.render(Serde(page)).map_err(|error| refuse(error.to_string()))
}
