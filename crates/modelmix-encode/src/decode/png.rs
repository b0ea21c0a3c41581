//! PNG: the crate `png` inflates and filters; this file reproduces how Pillow turns samples into RGB.

use std::io::{Cursor, ErrorKind};

use png::{BitDepth, ColorType, DecodeOptions, Decoder, DecodingError, InterlaceInfo, Reader, Transformations};

use super::{Format, Limits, push_grey, with_capacity};
use crate::image::Image;
use crate::problem::Problem;

/// The maximum expansion of one deflated byte: a match of 258 bytes takes 2 bits or more.
const LARGEST_EXPANSION: u64 = 1032;

/// The memory that chunks other than the image may take. No chunk that is read here comes near it.
const CHUNK_BYTES: usize = 1 << 24;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Image, Problem> {
    let compressed = checked_chunks(bytes)?;
    let mut options = DecodeOptions::default();
    options.set_ignore_checksums(true); // checked_chunks has verified those that matter
    options.set_ignore_text_chunk(true);
    options.set_ignore_iccp_chunk(true);
    let mut decoder = Decoder::new_with_options(Cursor::new(bytes), options);
    decoder.set_transformations(Transformations::IDENTITY);

    let info = decoder.read_header_info().map_err(problem)?;
    let (width, height) = limits.check(info.width.into(), info.height.into())?;
    // A header that the file cannot fulfil is rejected before memory is allocated for it.
    let claimed = info.raw_bytes() as u64;
    if claimed > compressed.saturating_mul(LARGEST_EXPANSION) {
        return Err(Format::Png.truncated());
    }
    let row = info.raw_row_length().saturating_mul(4);
    decoder.set_limits(png::Limits { bytes: CHUNK_BYTES.saturating_add(row) });
    let mut reader = decoder.read_info().map_err(problem)?;
    let info = reader.info();
    if let Some(frame) = info.frame_control
        && (frame.width, frame.height) != (info.width, info.height)
    {
        return Err(Format::Png.damaged("the first frame of the animation is not the whole image"));
    }

    let mut pixels = with_capacity(width * height * 3)?;
    let samples = Samples::of(&reader, width)?;
    if reader.info().interlaced {
        let size = reader.output_buffer_size().ok_or_else(|| Format::Png.truncated())?;
        let mut image = with_capacity(size)?;
        image.resize(size, 0);
        let stride = size / height;
        for _ in 0..interlaced_rows(width, height) {
            let row = reader.next_interlaced_row().map_err(problem)?.ok_or_else(|| Format::Png.truncated())?;
            if let InterlaceInfo::Adam7(pass) = row.interlace() {
                png::expand_interlaced_row(&mut image, stride, row.data(), pass, samples.pixel_bits());
            }
        }
        for row in image.chunks_exact(stride) {
            samples.push_row(row, &mut pixels);
        }
    } else if matches!(samples.kind, Kind::Rgb) && samples.bits == 8 {
        for _ in 0..height {
            let start = pixels.len();
            pixels.resize(start + width * 3, 0);
            reader.read_row(&mut pixels[start..]).map_err(problem)?;
        }
    } else {
        for _ in 0..height {
            let row = reader.next_row().map_err(problem)?.ok_or_else(|| Format::Png.truncated())?;
            samples.push_row(row.data(), &mut pixels);
        }
    }
    Image::new(width, height, pixels)
}

/// The number of rows of all passes of an interlaced image. Those without columns have no rows.
fn interlaced_rows(width: usize, height: usize) -> usize {
    // The first column and row of each pass, and the distance of its rows.
    const PASSES: [(usize, usize, usize); 7] =
        [(0, 0, 8), (4, 0, 8), (0, 4, 8), (2, 0, 4), (0, 2, 4), (1, 0, 2), (0, 1, 2)];
    let used = PASSES.iter().filter(|(left, top, _)| *left < width && *top < height);
    used.map(|(_, top, down)| (height - top).div_ceil(*down)).sum()
}

/// Verifies the checksums of the chunks that pixels depend on, and returns the number of bytes of compressed pixels.
fn checked_chunks(bytes: &[u8]) -> Result<u64, Problem> {
    let mut compressed = 0;
    let mut at = 8;
    while let Some(&[a, b, c, d, ref kind @ ..]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let kind: [u8; 4] = *kind;
        let data = bytes.get(at + 8..).unwrap_or_default();
        if kind == *b"IEND" {
            break;
        }
        if kind == *b"IDAT" {
            compressed += data.len().min(length) as u64;
        }
        let Some(sum) = data.get(length..).and_then(|rest| rest.first_chunk::<4>()) else { break };
        if matches!(&kind, b"IHDR" | b"PLTE" | b"IDAT") {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&kind);
            hasher.update(&data[..length]);
            if hasher.finalize() != u32::from_be_bytes(*sum) {
                let kind = String::from_utf8_lossy(&kind).into_owned();
                return Err(Format::Png.damaged(format_args!("the checksum of a chunk {kind} is wrong")));
            }
        }
        at += 12 + length;
    }
    Ok(compressed)
}

/// What the samples of a pixel are.
enum Kind {
    Grey,
    GreyAlpha,
    Rgb,
    Rgba,
    /// Positions in a palette; those after its end are black.
    Palette(Box<[[u8; 3]; 256]>),
}

/// The layout of a row of samples.
struct Samples {
    kind: Kind,
    bits: usize,
    width: usize,
}

impl Samples {
    fn of(reader: &Reader<Cursor<&[u8]>>, width: usize) -> Result<Self, Problem> {
        let (color, depth) = reader.output_color_type();
        let kind = match color {
            ColorType::Grayscale => Kind::Grey,
            ColorType::GrayscaleAlpha => Kind::GreyAlpha,
            ColorType::Rgb => Kind::Rgb,
            ColorType::Rgba => Kind::Rgba,
            ColorType::Indexed => {
                let mut palette = Box::new([[0; 3]; 256]);
                let colours = reader.info().palette.as_deref().unwrap_or_default();
                for (entry, colour) in palette.iter_mut().zip(colours.chunks_exact(3)) {
                    entry.copy_from_slice(colour);
                }
                Kind::Palette(palette)
            }
        };
        let bits = match depth {
            BitDepth::One => 1,
            BitDepth::Two => 2,
            BitDepth::Four => 4,
            BitDepth::Eight => 8,
            BitDepth::Sixteen => 16,
        };
        Ok(Self { kind, bits, width })
    }

    /// The number of bits of a pixel.
    fn pixel_bits(&self) -> u8 {
        let channels = match self.kind {
            Kind::Grey | Kind::Palette(_) => 1,
            Kind::GreyAlpha => 2,
            Kind::Rgb => 3,
            Kind::Rgba => 4,
        };
        channels * self.bits as u8
    }

    /// Appends a row as RGB pixels.
    fn push_row(&self, row: &[u8], pixels: &mut Vec<u8>) {
        // Samples of 16 bits start with their high byte, which is the one that counts.
        let bytes = self.bits.div_ceil(8);
        match &self.kind {
            // Pillow reads grey values of 16 bits as they are and clips them when it converts them.
            Kind::Grey if self.bits == 16 => {
                push_grey(pixels, row.chunks_exact(2).map(|value| if value[0] > 0 { 255 } else { value[1] }));
            }
            Kind::Grey if self.bits == 8 => push_grey(pixels, row.iter().copied()),
            Kind::Grey => {
                let scale = 255 / ((1 << self.bits) - 1) as u8;
                push_grey(pixels, unpacked(row, self.bits, self.width).map(|value| value * scale));
            }
            Kind::GreyAlpha => push_grey(pixels, row.chunks_exact(2 * bytes).map(|value| value[0])),
            Kind::Rgb => pixels.extend(row.chunks_exact(bytes).map(|sample| sample[0])),
            Kind::Rgba => {
                pixels.extend(row.chunks_exact(4 * bytes).flat_map(|pixel| [pixel[0], pixel[bytes], pixel[2 * bytes]]));
            }
            Kind::Palette(palette) => {
                pixels.extend(unpacked(row, self.bits, self.width).flat_map(|index| palette[usize::from(index)]));
            }
        }
    }
}

/// The first `count` values of 1, 2, 4 or 8 bits, packed into bytes with the first one in the highest bits.
pub(super) fn unpacked(row: &[u8], bits: usize, count: usize) -> impl Iterator<Item = u8> {
    let per_byte = 8 / bits;
    let mask = (0xff_u16 >> (8 - bits)) as u8;
    row.iter().flat_map(move |&byte| (1..=per_byte).map(move |place| (byte >> (8 - place * bits)) & mask)).take(count)
}

fn problem(error: DecodingError) -> Problem {
    match error {
        DecodingError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => Format::Png.truncated(),
        error => Format::Png.damaged(error),
    }
}
