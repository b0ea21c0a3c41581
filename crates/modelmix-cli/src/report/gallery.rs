//! Galleries of samples: one row per arm, and one for the mixture.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use modelmix::{Error, Result};

/// Samples of all arms.
#[derive(Clone, Debug)]
pub enum Gallery {
    /// Images.
    Images(Vec<GalleryRow<Image>>),
    /// Texts.
    Texts(Vec<GalleryRow<String>>),
}

/// The samples of one arm.
#[derive(Clone, Debug)]
pub struct GalleryRow<T> {
    /// The arm.
    pub name: String,
    /// Its weight in the mixture.
    pub weight: f64,
    /// Some of its samples.
    pub items: Vec<T>,
    /// The number of samples that exist; `None` if unknown.
    pub of: Option<usize>,
}

impl<T> GalleryRow<T> {
    /// Samples of an arm with this weight in the mixture.
    pub fn new(name: impl Into<String>, weight: f64, items: Vec<T>) -> Self {
        Self { name: name.into(), weight, items, of: None }
    }

    /// Sets the number of samples that exist.
    #[must_use]
    pub fn of(mut self, total: usize) -> Self {
        self.of = Some(total);
        self
    }
}

/// An encoded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    kind: &'static str,
    bytes: Vec<u8>,
}

impl Image {
    /// From pixels in row-major order, with one channel (grey) or three (red, green, blue).
    ///
    /// # Errors
    /// A size that does not match the number of bytes.
    pub fn new(width: u32, height: u32, channels: u8, pixels: &[u8]) -> Result<Self> {
        let refuse = |problem: String| Error::Array { origin: "image".into(), problem };
        let colour = match channels {
            1 => png::ColorType::Grayscale,
            3 => png::ColorType::Rgb,
            _ => {
                return Err(refuse(format!(
                    "there are {channels} channels, but an image must have 1 (grey) or 3 (colour)"
                )));
            }
        };
        let size = u64::from(width).checked_mul(u64::from(height)).and_then(|area| area.checked_mul(channels.into()));
        if width == 0 || height == 0 || size != Some(pixels.len() as u64) {
            let found = pixels.len();
            return Err(refuse(format!(
                "there are {found} bytes for {width} × {height} pixels of {channels} channels; give width × height × channels bytes, at least 1"
            )));
        }
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(colour);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        let mut writer = encoder.write_header().map_err(|error| refuse(error.to_string()))?;
        writer.write_image_data(pixels).map_err(|error| refuse(error.to_string()))?;
        writer.finish().map_err(|error| refuse(error.to_string()))?;
        Ok(Self { kind: "image/png", bytes })
    }

    /// From the bytes of a PNG, JPEG, WebP or GIF file, detected by their first bytes.
    ///
    /// # Errors
    /// Bytes of another format.
    pub fn encoded(bytes: Vec<u8>) -> Result<Self> {
        let kind = match &bytes[..] {
            [0x89, b'P', b'N', b'G', ..] => "image/png",
            [0xff, 0xd8, 0xff, ..] => "image/jpeg",
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
            [b'G', b'I', b'F', b'8', ..] => "image/gif",
            _ => {
                let problem = "it is not a PNG, JPEG, WebP or GIF file; convert it to one of these formats".into();
                return Err(Error::Array { origin: "image".into(), problem });
            }
        };
        Ok(Self { kind, bytes })
    }

    pub(super) fn uri(&self) -> String {
        format!("data:{};base64,{}", self.kind, STANDARD.encode(&self.bytes))
    }
}

/// Samples of the mixture, as many as the longest row has: each position takes the next sample of the arm that is furthest behind
/// its weight.
pub(super) fn mixture<T: Clone>(rows: &[GalleryRow<T>]) -> Vec<T> {
    let count = rows.iter().map(|row| row.items.len()).max().unwrap_or(0);
    let open = |row: &GalleryRow<T>| row.weight.is_finite() && row.weight > 0.0 && !row.items.is_empty();
    let total: f64 = rows.iter().filter(|row| open(row)).map(|row| row.weight).sum();
    let mut taken = vec![0usize; rows.len()];
    let mut items = Vec::new();
    for place in 1..=count {
        let behind = |arm: usize| rows[arm].weight / total * place as f64 - taken[arm] as f64;
        let arms = (0..rows.len()).filter(|&arm| open(&rows[arm]) && taken[arm] < rows[arm].items.len());
        let Some(arm) = arms.max_by(|&a, &b| behind(a).total_cmp(&behind(b)).then(b.cmp(&a))) else { break };
        items.push(rows[arm].items[taken[arm]].clone());
        taken[arm] += 1;
    }
    items
}
