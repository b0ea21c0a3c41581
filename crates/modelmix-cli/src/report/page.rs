//! The page: what the parts have to say, numbered and handed to the template, which escapes all text by itself.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, HtmlEscape};
use modelmix::{Error, Objective, Result};
use serde::Serialize;

use super::charts::{Chart, Key, Paint, Stroke};
use super::colours::{DARK, LIGHT, SERIES_COLOURS};
use super::figure::Drawing;
use super::gallery::{self, Gallery, GalleryRow, Image};
use super::names::plain;
use super::table::Table;
use super::{Report, Section, curated, numbers, scores, simulated, solved};

#[derive(Serialize)]
struct Page {
    title: String,
    version: &'static str,
    style: &'static str,
    light: String,
    dark: String,
    series: usize,
    sections: Vec<SectionView>,
    /// The documents, safe inside a `script` element.
    documents: String,
}

#[derive(Serialize)]
struct SectionView {
    id: String,
    name: String,
    note: Option<String>,
    answer: Option<String>,
    /// What a reader must know before the numbers.
    warnings: Vec<String>,
    facts: Vec<Fact>,
    blocks: Vec<Block>,
}

/// A word and what it is.
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
}

/// A chart with its legend, its caption and its numbers.
#[derive(Serialize)]
pub(super) struct FigureBlock {
    number: usize,
    caption: String,
    alternative: String,
    keys: Vec<KeyView>,
    /// What the palest and the strongest colour stand for.
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

/// A table that is read as such.
#[derive(Serialize)]
pub(super) struct TableBlock {
    number: usize,
    caption: String,
    table: Table,
    /// How its numbers were defined.
    pub(super) settings: Vec<Fact>,
    /// Rows that are shown on demand, and what they are.
    pub(super) folded_name: Option<String>,
    pub(super) folded: Option<Table>,
}

/// Samples to look at.
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
    apart: bool,
    images: Vec<String>,
    texts: Vec<String>,
}

/// Where a part of the page has its name and its numbers from.
pub(super) struct Place {
    /// Starts the names of what is drawn; no other section has the same.
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

    /// With a table that is shown on demand.
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

/// A text with its lines as they are.
fn lines(text: &str) -> String {
    text.trim().lines().map(plain).collect::<Vec<_>>().join("\n")
}

fn gallery(gallery: &Gallery, is_chosen: bool) -> Block {
    let images = |items: Vec<Image>| (items.iter().map(Image::uri).collect(), Vec::new());
    let texts = |items: Vec<String>| (Vec::new(), items.iter().map(|text| lines(text)).collect());
    let (whole, caption) = if is_chosen {
        ("the set", "The first samples chosen of every arm, and of the set: as many of each arm as its share says.")
    } else {
        ("the mixture", "Samples of every arm, and of the mixture: as many of each arm as its share says.")
    };
    let rows = match gallery {
        Gallery::Images(rows) => gallery_rows(rows, whole, images),
        Gallery::Texts(rows) => gallery_rows(rows, whole, texts),
    };
    Block::Gallery(GalleryBlock { number: 0, caption: caption.into(), rows })
}

fn gallery_rows<T: Clone>(
    rows: &[GalleryRow<T>],
    whole: &str,
    show: impl Fn(Vec<T>) -> (Vec<String>, Vec<String>),
) -> Vec<GalleryView> {
    let view = |name: &str, share: Option<String>, items: Vec<T>| {
        let (images, texts) = show(items);
        GalleryView { name: plain(name), apart: share.is_none(), share, images, texts }
    };
    let shares = numbers::percents(&rows.iter().map(|row| row.weight).collect::<Vec<_>>());
    let mut views: Vec<GalleryView> =
        rows.iter().zip(shares).map(|(row, share)| view(&row.name, Some(share), row.items.clone())).collect();
    let mixed = gallery::mixture(rows);
    if !mixed.is_empty() {
        views.push(view(whole, None, mixed));
    }
    views
}

/// What a reader must know about an objective.
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
    blocks.extend(section.gallery.as_ref().map(|shown| gallery(shown, section.is_curated())));
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

/// Figures and tables are numbered through the page, galleries as figures.
fn number(sections: &mut [SectionView]) {
    let (mut figures, mut tables) = (0, 0);
    for block in sections.iter_mut().flat_map(|section| &mut section.blocks) {
        let (count, number) = match block {
            Block::Figure(block) => (&mut figures, &mut block.number),
            Block::Gallery(block) => (&mut figures, &mut block.number),
            Block::Table(block) => (&mut tables, &mut block.number),
        };
        *count += 1;
        *number = *count;
    }
}

/// A name as HTML that may be broken after the signs that names are joined with.
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
    number(&mut sections);
    let refuse = |problem: String| Error::Array { origin: format!("report {}", report.title), problem };
    let documents = serde_json::to_string(report).map_err(|error| refuse(error.to_string()))?;
    let page = Page {
        title: plain(&report.title),
        version: env!("CARGO_PKG_VERSION"),
        style: include_str!("style.css"),
        light: LIGHT.css(),
        dark: DARK.css(),
        series: SERIES_COLOURS,
        sections,
        // Within JSON these stand in strings only, so that nothing in them can end the element.
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
