//! WebP: finds the bitstream of the first frame in the container; the crate `image-webp` decodes it.
//!
//! Alpha is dropped, so the chunks that hold it are never read.

use std::io::{Cursor, ErrorKind};

use image_webp::{DecodingError, WebPDecoder};

use super::bytes::Bytes;
use super::{Format, Limits, with_capacity};
use crate::image::Image;
use crate::problem::Problem;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Image, Problem> {
    let truncated = || Format::Webp.truncated();
    let mut container = Bytes::new(bytes, 4);
    let length = container.u32().ok_or_else(truncated)? as usize;
    // Bytes after the container are ignored.
    let end = length.checked_add(8).filter(|end| *end <= bytes.len()).ok_or_else(truncated)?;
    let mut chunks = Bytes::new(&bytes[..end], 12);

    let mut canvas = None;
    while chunks.at() < end {
        let (kind, data) = chunk(&mut chunks).ok_or_else(truncated)?;
        match kind {
            b"VP8X" => {
                let size = |at: usize| data.get(at..at + 3).map(|side| u24(side) + 1);
                let (width, height) = size(4).zip(size(7)).ok_or_else(truncated)?;
                canvas = Some(limits.check(width, height)?);
            }
            b"VP8 " | b"VP8L" => {
                let image = bitstream(kind, data, limits)?;
                return match canvas {
                    Some(size) if size != (image.width(), image.height()) => {
                        Err(Format::Webp.damaged("the image does not have the size of its canvas"))
                    }
                    _ => Ok(image),
                };
            }
            b"ANMF" => {
                let (width, height) = canvas.ok_or_else(|| Format::Webp.damaged("it has no canvas"))?;
                return frame(data, width, height, limits);
            }
            _ => {}
        }
    }
    Err(Format::Webp.damaged("it has no image"))
}

/// The next chunk: its kind and its contents.
fn chunk<'a>(chunks: &mut Bytes<'a>) -> Option<(&'a [u8; 4], &'a [u8])> {
    let kind = chunks.take(4)?.first_chunk()?;
    let length = chunks.u32()? as usize;
    let data = chunks.take(length)?;
    chunks.take_up_to(length % 2);
    Some((kind, data))
}

fn u24(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// The first frame of an animation on a black canvas: the canvas is transparent, and its colour below that is black.
fn frame(data: &[u8], width: usize, height: usize, limits: &Limits) -> Result<Image, Problem> {
    let truncated = || Format::Webp.truncated();
    let header = data.get(..16).ok_or_else(truncated)?;
    let (left, top) = (u24(&header[..3]) as usize * 2, u24(&header[3..6]) as usize * 2);
    let size = (u24(&header[6..9]) as usize + 1, u24(&header[9..12]) as usize + 1);
    let mut chunks = Bytes::new(data, 16);
    while chunks.at() < data.len() {
        let (kind @ (b"VP8 " | b"VP8L"), data) = chunk(&mut chunks).ok_or_else(truncated)? else { continue };
        let image = bitstream(kind, data, limits)?;
        if (image.width(), image.height()) != size || left + size.0 > width || top + size.1 > height {
            return Err(Format::Webp.damaged("the first frame does not fit on the canvas"));
        }
        if size == (width, height) {
            return Ok(image);
        }
        let mut pixels = with_capacity(width * height * 3)?;
        pixels.resize(width * height * 3, 0);
        for (row, source) in image.pixels().chunks_exact(size.0 * 3).enumerate() {
            let start = ((top + row) * width + left) * 3;
            pixels[start..][..source.len()].copy_from_slice(source);
        }
        return Image::new(width, height, pixels);
    }
    Err(Format::Webp.damaged("the first frame has no image"))
}

/// Decodes one lossy or lossless bitstream.
fn bitstream(kind: &[u8; 4], data: &[u8], limits: &Limits) -> Result<Image, Problem> {
    if let (b"VP8L", Some(&[_, a, b, c, d])) = (kind, data.first_chunk()) {
        // Two sides of 14 bits, less 1, after a byte; the crate takes 16384 to be 0.
        let sides = u64::from(u32::from_le_bytes([a, b, c, d]));
        let (width, height) = limits.check((sides & 0x3fff) + 1, (sides >> 14 & 0x3fff) + 1)?;
        if width.max(height) > 0x3fff {
            return Err(Format::Webp.unsupported(format_args!("a side of {} pixels", width.max(height))));
        }
    }
    // A file of nothing but this bitstream, so that the crate reads no other chunk.
    let mut file = with_capacity(data.len() + 21)?;
    let padding = data.len() % 2;
    file.extend(b"RIFF");
    file.extend(((data.len() + padding + 12) as u32).to_le_bytes());
    file.extend(b"WEBP");
    file.extend(kind);
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    file.extend(&[0][..padding]);

    let mut decoder = WebPDecoder::new(Cursor::new(&file[..])).map_err(problem)?;
    let (width, height) = decoder.dimensions();
    let (width, height) = limits.check(width.into(), height.into())?;
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    let mut pixels = with_capacity(width * height * channels)?;
    pixels.resize(width * height * channels, 0);
    decoder.read_image(&mut pixels).map_err(problem)?;
    if channels == 4 {
        pixels = pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    }
    Image::new(width, height, pixels)
}

fn problem(error: DecodingError) -> Problem {
    match error {
        DecodingError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => Format::Webp.truncated(),
        error => Format::Webp.damaged(error),
    }
}
