//! Image files to pixels: exactly those of Pillow's `Image.open(file).convert("RGB")`.
//!
//! Each format has a file. This one recognises the format by the first bytes, checks the size that the header claims
//! before anything is allocated, and turns a panic of a decoder into a problem.

mod bmp;
mod bytes;
mod cmyk;
mod gif;
mod jpeg;
mod png;
mod webp;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::image::Image;
use crate::problem::Problem;

/// The number of bytes of the largest pixel: four samples of 16 bits.
const MOST_PIXEL_BYTES: u64 = 8;

/// Limits on images that are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of pixels of an image. The default is the number above which Pillow raises
    /// `DecompressionBombError`.
    pub pixels: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { pixels: 178_956_970 }
    }
}

impl Limits {
    /// Checks the size that a header claims, and returns it.
    pub(crate) fn check(&self, width: u64, height: u64) -> Result<(usize, usize), Problem> {
        if width == 0 || height == 0 {
            return Err(Problem::new(format!("the image has {width} × {height} pixels; save it again")));
        }
        // Products with the number of bytes of a pixel do not overflow.
        let most = self.pixels.min(isize::MAX as u64 / MOST_PIXEL_BYTES);
        if width.saturating_mul(height) > most {
            return Err(Problem::new(format!(
                "the image claims {width} × {height} pixels, more than the {most} allowed; scale it down"
            )));
        }
        Ok((width as usize, height as usize))
    }
}

/// The formats of image files that are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Png,
    Jpeg,
    Webp,
    Gif,
    Bmp,
    /// A bitmap without the file header of BMP.
    Dib,
}

impl Format {
    fn of(bytes: &[u8]) -> Option<Self> {
        Some(match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Format::Png,
            [0xff, 0xd8, 0xff, ..] => Format::Jpeg,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Format::Webp,
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Format::Gif,
            [b'B', b'M', ..] => Format::Bmp,
            [12 | 40 | 52 | 56 | 64 | 108 | 124, 0, 0, 0, ..] => Format::Dib,
            _ => return None,
        })
    }

    /// A file that its format forbids.
    fn damaged(self, reason: impl Display) -> Problem {
        // The reason may be the message of another crate, which may quote the file.
        let reason: String = reason.to_string().chars().filter(|letter| !letter.is_control()).take(120).collect();
        Problem::new(format!("the {} file is damaged ({reason}); write or copy it again", self.name()))
    }

    /// A file that ends before its image does.
    fn truncated(self) -> Problem {
        Problem::new(format!("the {} file is truncated; write or copy it again", self.name()))
    }

    /// A file that uses a rare variant of its format, which Pillow does not read either.
    fn unsupported(self, variant: impl Display) -> Problem {
        Problem::new(format!("the {} file has {variant}, which is not supported; save it as PNG", self.name()))
    }

    fn name(self) -> &'static str {
        match self {
            Format::Png => "PNG",
            Format::Jpeg => "JPEG",
            Format::Webp => "WebP",
            Format::Gif => "GIF",
            Format::Bmp | Format::Dib => "BMP",
        }
    }
}

/// Decodes an image file to the pixels of Pillow's `convert("RGB")`.
///
/// PNG, JPEG, WebP, GIF and BMP are recognised by their first bytes. Alpha is dropped, not blended. EXIF orientation
/// and colour profiles are ignored. Grey values of 16 bits are clipped at 255, and other samples of 16 bits keep their
/// high byte. Animations give their first frame. Bytes after the image are ignored.
///
/// # Errors
/// If the format is unknown, the image is larger than `limits`, or the file is truncated or damaged.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Image, Problem> {
    let format = Format::of(bytes).ok_or_else(|| unknown(bytes))?;
    let decoded = || match format {
        Format::Png => png::decode(bytes, limits),
        Format::Jpeg => jpeg::decode(bytes, limits),
        Format::Webp => webp::decode(bytes, limits),
        Format::Gif => gif::decode(bytes, limits),
        Format::Bmp => bmp::decode(bytes, limits),
        Format::Dib => bmp::decode_headless(bytes, limits),
    };
    // The decoders of other crates see hostile bytes. Nothing of them outlives the call, so no broken state is seen.
    catch_unwind(AssertUnwindSafe(decoded)).unwrap_or_else(|_| Err(format.damaged("its decoder failed")))
}

/// The MIME type of an image file, by its first bytes; `None` for formats that browsers do not show or that are not
/// decoded.
pub fn mime(bytes: &[u8]) -> Option<&'static str> {
    Some(match Format::of(bytes)? {
        Format::Png => "image/png",
        Format::Jpeg => "image/jpeg",
        Format::Webp => "image/webp",
        Format::Gif => "image/gif",
        Format::Bmp => "image/bmp",
        Format::Dib => return None,
    })
}

/// First bytes of other formats, their position and the name of the format.
const OTHER_FORMATS: [(usize, &[u8], &str); 16] = [
    (0, b"II*\0", "a TIFF image"),
    (0, b"MM\0*", "a TIFF image"),
    (0, b"8BPS", "a Photoshop file"),
    (0, b"\xff\x0a", "a JPEG XL image"),
    (0, b"\0\0\0\x0cJXL ", "a JPEG XL image"),
    (0, b"\0\0\0\x0cjP  ", "a JPEG 2000 image"),
    (0, b"\xff\x4f\xff\x51", "a JPEG 2000 image"),
    (4, b"ftypavi", "an AVIF image"),
    (4, b"ftyphei", "a HEIC image"),
    (4, b"ftypmif1", "a HEIF image"),
    (4, b"ftyp", "a video"),
    (0, b"P5", "a PGM image"),
    (0, b"P6", "a PPM image"),
    (0, b"\x76\x2f\x31\x01", "an OpenEXR image"),
    (0, b"%PDF", "a PDF document"),
    (0, b"<", "an SVG image or a web page"),
];

/// The problem of a file whose format is not decoded.
fn unknown(bytes: &[u8]) -> Problem {
    if bytes.is_empty() {
        return Problem::new("the file is empty; write or copy it again");
    }
    let found =
        OTHER_FORMATS.iter().find(|(at, start, _)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(start)));
    let found = found.map_or("not an image of a known format", |(_, _, name)| name);
    Problem::new(format!("the file is {found}; save it as PNG, JPEG, WebP, GIF or BMP"))
}

/// An empty buffer with a capacity of `length` bytes. Memory that is not written is not used.
fn with_capacity(length: usize) -> Result<Vec<u8>, Problem> {
    let mut buffer = Vec::new();
    match buffer.try_reserve_exact(length) {
        Ok(()) => Ok(buffer),
        Err(_) => Err(Problem::new(format!("{length} bytes of pixels do not fit into memory; scale the image down"))),
    }
}

/// Appends grey values as RGB pixels.
fn push_grey(pixels: &mut Vec<u8>, values: impl Iterator<Item = u8>) {
    pixels.extend(values.flat_map(|value| [value; 3]));
}
