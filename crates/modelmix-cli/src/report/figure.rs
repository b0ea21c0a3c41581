//! Charts as SVG, for the page or for a file, and as PNG. The font is part of the program, so that images do not depend on the
//! machine.

use std::sync::Arc;

use kuva::backend::svg::SvgBackend;
use kuva::render::render::Scene;
use modelmix::{Error, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, fontdb};

/// The font family with which kuva measures labels.
pub(super) const FONT_FAMILY: &str = "DejaVu Sans";

static FONT_FILE: &[u8] = include_bytes!("fonts/DejaVuSans-subset.ttf");

/// A chart as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// File name without extension.
    pub name: String,
    /// The chart as SVG.
    pub svg: String,
}

impl Figure {
    /// The chart as PNG, with `scale` pixels per unit of the SVG; 2 is good for screens, 4 for print.
    ///
    /// # Errors
    /// A scale that is not positive or gives an image that is too large.
    pub fn png(&self, scale: f32) -> Result<Vec<u8>> {
        let refuse = |problem: String| Error::Array { origin: format!("figure {}", self.name), problem };
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(FONT_FILE.to_vec());
        if !self.svg.chars().all(in_font) {
            fonts.load_system_fonts();
        }
        let options =
            usvg::Options { font_family: FONT_FAMILY.into(), fontdb: Arc::new(fonts), ..usvg::Options::default() };
        let tree = usvg::Tree::from_str(&self.svg, &options).map_err(|error| refuse(error.to_string()))?;
        let size = tree.size();
        let (width, height) = ((size.width() * scale).ceil(), (size.height() * scale).ceil());
        let mut picture = Some((width, height))
            .filter(|(width, height)| (1.0..=20_000.0).contains(width) && (1.0..=20_000.0).contains(height))
            .and_then(|(width, height)| Pixmap::new(width as u32, height as u32))
            .ok_or_else(|| {
                refuse(format!(
                    "an image of {width} × {height} pixels cannot be drawn; choose a scale between 0.5 and 8"
                ))
            })?;
        resvg::render(&tree, Transform::from_scale(scale, scale), &mut picture.as_mut());
        picture.encode_png().map_err(|error| refuse(error.to_string()))
    }
}

/// Whether the built-in font has this character.
fn in_font(c: char) -> bool {
    matches!(c, '\0'..='\u{24f}' | '\u{370}'..='\u{52f}' | '\u{2010}'..='\u{2026}' | '\u{2070}'..='\u{209c}' | '\u{2190}'..='\u{21ff}' | '\u{2200}'..='\u{22ff}')
}

/// A drawn chart: the contents of the `<svg>` element, and its size.
pub(super) struct Drawing {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) inner: String,
}

impl Drawing {
    /// Renders a scene; `id` makes the element ids unique in the page.
    pub(super) fn new(scene: &Scene, id: &str) -> Self {
        let svg = SvgBackend::new().render_scene(scene);
        let start = svg.find('>').map_or(0, |end| end + 1);
        let end = svg.rfind("</svg>").unwrap_or(svg.len());
        let inner = with_id(&svg[start..end], id);
        Self { width: scene.width, height: scene.height, inner: tidy(&inner) }
    }

    /// The drawing as a standalone file.
    pub(super) fn file(&self, ink: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             font-family=\"{FONT_FAMILY}, Verdana, sans-serif\" fill=\"{ink}\">{}</svg>\n",
            self.inner,
            w = self.width,
            h = self.height
        )
    }
}

/// kuva numbers its clip paths with a global counter; here they are named after the chart, so that the same documents give the
/// same bytes.
fn with_id(svg: &str, id: &str) -> String {
    let mut text = svg.to_string();
    for (number, found) in clip_ids(svg).into_iter().enumerate() {
        for (before, after) in [("id=\"", '"'), ("clip-path=\"url(#", ')')] {
            text = text.replace(&format!("{before}{found}{after}"), &format!("{before}{id}-clip-{number}{after}"));
        }
    }
    text
}

fn clip_ids(svg: &str) -> Vec<String> {
    svg.split("<clipPath id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(String::from).collect()
}

/// Rounds coordinates to two decimals and removes comments.
fn tidy(svg: &str) -> String {
    let mut text = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(open) = rest.find('<') {
        text.push_str(&rest[..open]);
        let close = rest[open..].find('>').map_or(rest.len(), |close| open + close + 1);
        let tag = &rest[open..close];
        if !tag.starts_with("<!--") {
            round_numbers(tag, &mut text);
        }
        rest = &rest[close..];
    }
    text.push_str(rest);
    text
}

fn round_numbers(tag: &str, text: &mut String) {
    let mut rest = tag;
    while let Some(point) = rest.find('.') {
        let start = rest[..point].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |before| before + 1);
        let end = rest[point + 1..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| point + 1 + end);
        text.push_str(&rest[..start]);
        match rest[start..end].parse::<f64>() {
            Ok(number) if end - point > 3 => {
                let rounded = format!("{number:.2}");
                text.push_str(rounded.trim_end_matches('0').trim_end_matches('.'));
            }
            _ => text.push_str(&rest[start..end]),
        }
        rest = &rest[end..];
    }
    text.push_str(rest);
}
