//! JPEG: libjpeg-turbo's arithmetic, so that pixels equal those of Pillow, which is built on it.

use libjpeg_turbo_rs::{ColorSpace, DecodeLimits, Decoder, JpegError, PixelFormat, probe};

use super::{Format, Limits, cmyk};
use crate::image::Image;
use crate::problem::Problem;

/// The maximum number of scans. Encoders write at most a few dozen; every scan passes over the whole image, so a small
/// file of many scans would take very long.
const MAX_SCANS: usize = 500;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Image, Problem> {
    let most = DecodeLimits { max_pixels: u64::MAX, max_scans: MAX_SCANS, ..DecodeLimits::default() };
    let mut decoder = Decoder::new_with_limits(bytes, most).map_err(problem)?;
    let header = decoder.header();
    let (width, height) = limits.check(header.width() as u64, header.height() as u64)?;
    if header.precision != 8 {
        return Err(Format::Jpeg.unsupported(format_args!("samples of {} bits", header.precision)));
    }
    if !matches!(header.components.len(), 1 | 3 | 4) {
        return Err(Format::Jpeg.unsupported(format_args!("{} channels", header.components.len())));
    }
    if !ends(bytes) {
        return Err(Format::Jpeg.truncated());
    }
    if header.components.len() == 4 {
        let header = header.clone();
        let luma = probe(bytes).map_err(problem)?.color_space == ColorSpace::Ycck;
        return cmyk::image(&header, &decoder.decode_raw().map_err(problem)?, luma);
    }
    decoder.set_output_format(PixelFormat::Rgb);
    decoder.set_block_smoothing(true); // libjpeg's default, for progressive images that lack scans
    let decoded = decoder.decode_image().map_err(problem)?;
    Image::new(width, height, decoded.data)
}

/// Whether the end of the image follows its first scan. Pillow refuses files without it: the last block may be cut.
fn ends(bytes: &[u8]) -> bool {
    const SCAN: u8 = 0xda;
    const END: [u8; 2] = [0xff, 0xd9];
    let mut at = 2;
    while let Some(&[before, marker, high, low]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        at += match (before, marker) {
            // Thumbnails in earlier segments have an end of their own, so it is searched after the start of a scan.
            (0xff, SCAN) => return bytes[at..].windows(2).rev().any(|pair| pair == END),
            (0xff, 0xff) => 1,
            (0xff, 0x01 | 0xd0..=0xd8) => 2,
            (0xff, 1..) => 2 + usize::from(u16::from_be_bytes([high, low])),
            _ => 1,
        };
    }
    false
}

fn problem(error: JpegError) -> Problem {
    match error {
        JpegError::UnexpectedEof => Format::Jpeg.truncated(),
        JpegError::Unsupported(feature) => Format::Jpeg.unsupported(format_args!("a rare variant ({feature})")),
        error => Format::Jpeg.damaged(error),
    }
}
