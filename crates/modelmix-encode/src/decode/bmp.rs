//! BMP and DIB: bitmaps of Windows and OS/2, with the layouts that Pillow reads and with its reading of them.

use super::bytes::Bytes;
use super::png::unpacked;
use super::{Format, Limits, with_capacity};
use crate::image::Image;
use crate::problem::Problem;

/// The length of the file header, which bitmaps inside other files do not have.
const FILE_HEADER: usize = 14;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Image, Problem> {
    let start = Bytes::new(bytes, 10).u32().ok_or_else(truncated)? as usize;
    bitmap(bytes, FILE_HEADER, start, limits)
}

/// Decodes a bitmap without the file header.
pub(super) fn decode_headless(bytes: &[u8], limits: &Limits) -> Result<Image, Problem> {
    bitmap(bytes, 0, 0, limits)
}

fn truncated() -> Problem {
    Format::Bmp.truncated()
}

/// How pixels are compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    /// Run lengths of 4-bit or 8-bit indices.
    RunLength {
        four_bits: bool,
    },
    /// None, with the bits of each channel given.
    BitFields,
}

/// A header, checked.
struct Header {
    width: usize,
    height: usize,
    top_down: bool,
    bits: usize,
    compression: Compression,
    /// The number of bytes and of entries of a palette.
    palette_entry: usize,
    colours: usize,
    /// Red, green, blue and alpha, if the channels' bits are given.
    masks: [u32; 4],
}

fn bitmap(bytes: &[u8], header_at: usize, start: usize, limits: &Limits) -> Result<Image, Problem> {
    let mut file = Bytes::new(bytes, header_at);
    let header_length = file.u32().ok_or_else(truncated)? as usize;
    let header = header(&mut file, header_length, limits)?;
    let palette_length = header.palette_entry.saturating_mul(header.colours);
    // A file that forgets its palette when it says where its pixels are.
    let forgotten = start == header_at + header_length && header.bits <= 8;
    let start = if forgotten { start.saturating_add(palette_length) } else { start };
    let layout = layout(&header, &mut file)?;
    let start = if start == 0 { file.at() } else { start };

    let indices;
    let (data, stride, used) = match header.compression {
        Compression::RunLength { four_bits } => {
            indices = run_lengths(&mut Bytes::new(bytes, start), four_bits, header.width, header.height)?;
            (&indices[..], header.width, header.width)
        }
        _ => {
            let stride = header.width.saturating_mul(header.bits).saturating_add(31) / 32 * 4;
            let used = header.width.saturating_mul(layout.bits()).div_ceil(8);
            (bytes.get(start..).unwrap_or_default(), stride, used)
        }
    };
    if used > stride {
        return Err(Format::Bmp.unsupported("a grey palette with fewer than 8 bits per pixel"));
    }
    // The last row need not be padded.
    let needed = stride.checked_mul(header.height - 1).and_then(|rows| rows.checked_add(used));
    if needed.is_none_or(|needed| needed > data.len()) {
        return Err(truncated());
    }
    let mut pixels = with_capacity(header.width * header.height * 3)?;
    for row in 0..header.height {
        let row = if header.top_down { row } else { header.height - 1 - row };
        layout.push_row(&data[row * stride..][..used], header.width, &mut pixels);
    }
    Image::new(header.width, header.height, pixels)
}

/// Reads the rest of a header after its length, and the channels' bits after it.
fn header(file: &mut Bytes<'_>, length: usize, limits: &Limits) -> Result<Header, Problem> {
    if length == 12 {
        let size = file.u16().zip(file.u16()).ok_or_else(truncated)?;
        file.take(2).ok_or_else(truncated)?; // planes
        let bits = usize::from(file.u16().ok_or_else(truncated)?);
        let (width, height) = limits.check(size.0.into(), size.1.into())?;
        let colours = 1_usize.checked_shl(bits as u32).unwrap_or(0);
        let (compression, palette_entry) = (Compression::None, 3);
        return Ok(Header { width, height, top_down: false, bits, compression, palette_entry, colours, masks: [0; 4] });
    }
    if !matches!(length, 40 | 52 | 56 | 64 | 108 | 124) {
        return Err(Format::Bmp.unsupported(format_args!("a header of {length} bytes")));
    }
    let mut fields = Bytes::new(file.take(length - 4).ok_or_else(truncated)?, 0);
    let size = fields.u32().zip(fields.u32()).ok_or_else(truncated)?;
    // Negative heights are stored as two's complement.
    let top_down = size.1 >> 24 == 0xff;
    let rows = if top_down { 0x1_0000_0000 - u64::from(size.1) } else { size.1.into() };
    let columns = size.0.cast_signed();
    if columns < 0 {
        return Err(Format::Bmp.damaged(format_args!("its width is {columns} pixels")));
    }
    let (width, height) = limits.check(size.0.into(), rows)?;
    fields.take(2).ok_or_else(truncated)?; // planes
    let bits = usize::from(fields.u16().ok_or_else(truncated)?);
    let compression = fields.u32().ok_or_else(truncated)?;
    fields.take(12).ok_or_else(truncated)?; // the size of the data and the resolution
    let colours = fields.u32().ok_or_else(truncated)? as usize;
    let colours = if colours == 0 { 1_usize.checked_shl(bits as u32).unwrap_or(0) } else { colours };
    let compression = match compression {
        0 => Compression::None,
        1 => Compression::RunLength { four_bits: false },
        2 => Compression::RunLength { four_bits: true },
        3 => Compression::BitFields,
        other => return Err(Format::Bmp.unsupported(format_args!("compression method {other}"))),
    };
    let mut masks = [0; 4];
    if compression == Compression::BitFields {
        // Headers of 40 bytes are followed by the channels' bits, and longer ones hold them. Alpha came later.
        let inside = length >= 52;
        let channels = if length >= 56 { 4 } else { 3 };
        fields.take(if inside { 4 } else { 0 }).ok_or_else(truncated)?; // the number of important colours
        for mask in &mut masks[..channels] {
            *mask = if inside { fields.u32() } else { file.u32() }.ok_or_else(truncated)?;
        }
    }
    Ok(Header { width, height, top_down, bits, compression, palette_entry: 4, colours, masks })
}

/// How the bytes of a row become pixels.
enum Layout {
    /// Indices of 1, 4 or 8 bits.
    Palette(usize, Box<[[u8; 3]; 256]>),
    /// 5, 5 or 6, and 5 bits for red, green and blue.
    Packed { green_bits: u32 },
    /// The number of bytes of a pixel, and the places of red, green and blue.
    Bytes { size: usize, places: [usize; 3] },
}

/// The layout of a bitmap, with its palette, which is read here.
fn layout(header: &Header, file: &mut Bytes<'_>) -> Result<Layout, Problem> {
    let run_length = matches!(header.compression, Compression::RunLength { .. });
    let given = header.compression == Compression::BitFields;
    let bgr = |size| Layout::Bytes { size, places: [2, 1, 0] };
    let [red, green, blue, alpha] = header.masks;
    Ok(match header.bits {
        1 | 4 | 8 if !given => palette(header, file)?,
        16 | 24 | 32 if run_length => {
            return Err(Format::Bmp.unsupported(format_args!("run lengths of {} bits per pixel", header.bits)));
        }
        16 if !given || (red, green, blue) == (0x7c00, 0x3e0, 0x1f) => Layout::Packed { green_bits: 5 },
        16 if (red, green, blue) == (0xf800, 0x7e0, 0x1f) => Layout::Packed { green_bits: 6 },
        24 if !given || (red, green, blue) == (0xff_0000, 0xff00, 0xff) => bgr(3),
        32 if !given => bgr(4),
        32 => match (red, green, blue, alpha) {
            (0xff_0000, 0xff00, 0xff, 0 | 0xff00_0000) | (0, 0, 0, 0) => bgr(4),
            (0xff00_0000, 0xff_0000, 0xff00, 0 | 0xff) => Layout::Bytes { size: 4, places: [3, 2, 1] },
            (0xff00_0000, 0xff00, 0xff, 0 | 0xff_0000) => Layout::Bytes { size: 4, places: [3, 1, 0] },
            (0xff, 0xff00, 0xff_0000, 0xff00_0000) => Layout::Bytes { size: 4, places: [0, 1, 2] },
            _ => return Err(Format::Bmp.unsupported("a rare order of channels")),
        },
        1 | 4 | 8 | 16 | 24 => return Err(Format::Bmp.unsupported("a rare order of channels")),
        bits => return Err(Format::Bmp.unsupported(format_args!("{bits} bits per pixel"))),
    })
}

/// The layout of indices, with their palette; colours that it does not define are black.
fn palette(header: &Header, file: &mut Bytes<'_>) -> Result<Layout, Problem> {
    if !(1..=65_536).contains(&header.colours) {
        return Err(Format::Bmp.unsupported(format_args!("a palette of {} colours", header.colours)));
    }
    let entries = file.take_up_to(header.palette_entry * header.colours);
    let mut palette = Box::new([[0; 3]; 256]);
    for (entry, colour) in palette.iter_mut().zip(entries.chunks(header.palette_entry)) {
        if let [blue, green, red, ..] = *colour {
            *entry = [red, green, blue];
        }
    }
    // Pillow takes a palette that is a ramp of grey values to say that the pixels are grey values themselves: of
    // 1 bit if there are at most two, and otherwise of 8 bits.
    let step = if header.colours == 2 { 255 } else { 1 };
    let colour = |index: usize| entries.get(index * header.palette_entry..)?.get(..3);
    let is_grey = (0..header.colours).all(|index| colour(index) == Some(&[(index * step) as u8; 3][..]));
    if !is_grey && entries.len() > 256 * header.palette_entry {
        return Err(Format::Bmp.unsupported(format_args!("a palette of {} colours", header.colours)));
    }
    let run_length = matches!(header.compression, Compression::RunLength { .. });
    Ok(match is_grey {
        false if run_length => Layout::Palette(8, palette),
        false => Layout::Palette(header.bits, palette),
        true if header.colours <= 2 && run_length => {
            Layout::Palette(8, Box::new(std::array::from_fn(|value| [if value == 0 { 0 } else { 255 }; 3])))
        }
        true if header.colours <= 2 => {
            Layout::Palette(1, Box::new(std::array::from_fn(|value| [(value * 255) as u8; 3])))
        }
        true => Layout::Palette(8, Box::new(std::array::from_fn(|grey| [grey as u8; 3]))),
    })
}

impl Layout {
    /// The number of bits of a pixel.
    fn bits(&self) -> usize {
        match self {
            Layout::Palette(bits, _) => *bits,
            Layout::Packed { .. } => 16,
            Layout::Bytes { size, .. } => size * 8,
        }
    }

    /// Appends a row as RGB pixels.
    fn push_row(&self, row: &[u8], width: usize, pixels: &mut Vec<u8>) {
        match self {
            Layout::Palette(bits, palette) => {
                pixels.extend(unpacked(row, *bits, width).flat_map(|index| palette[usize::from(index)]));
            }
            Layout::Packed { green_bits } => {
                let widened = |value: u32, bits: u32| ((value & ((1 << bits) - 1)) * 255 / ((1 << bits) - 1)) as u8;
                pixels.extend(row.chunks_exact(2).flat_map(|pixel| {
                    let value = u32::from(u16::from_le_bytes([pixel[0], pixel[1]]));
                    [widened(value >> (5 + green_bits), 5), widened(value >> 5, *green_bits), widened(value, 5)]
                }));
            }
            Layout::Bytes { size, places } => {
                pixels.extend(row.chunks_exact(*size).flat_map(|pixel| places.map(|place| pixel[place])));
            }
        }
    }
}

/// Expands run lengths to one index per byte, with Pillow's reading of positions: an end of line at the start of a row
/// does not skip it, and a run does not continue in the next row.
fn run_lengths(file: &mut Bytes<'_>, four_bits: bool, width: usize, height: usize) -> Result<Vec<u8>, Problem> {
    let total = width * height;
    let mut indices = with_capacity(total)?;
    let mut column = 0;
    while indices.len() < total {
        let Some((count, value)) = file.u8().zip(file.u8()) else { break };
        match (count, value) {
            (0, 0) => {
                let missing = indices.len().next_multiple_of(width) - indices.len();
                indices.resize(indices.len() + missing, 0);
                column = 0;
            }
            (0, 1) => break,
            (0, 2) => {
                let Some((right, up)) = file.u8().zip(file.u8()) else { break };
                let skipped = (usize::from(right) + usize::from(up) * width).min(total - indices.len());
                indices.resize(indices.len() + skipped, 0);
                column = indices.len() % width;
            }
            (0, literal) => {
                let count = usize::from(literal).min(total - indices.len());
                let data = file.take_up_to(if four_bits { count.div_ceil(2) } else { count });
                let before = indices.len();
                if four_bits {
                    indices.extend(unpacked(data, 4, count));
                } else {
                    indices.extend(data);
                }
                if indices.len() < before + count {
                    break;
                }
                column += usize::from(literal);
                // Literal indices end at an even position in the file.
                file.take_up_to(file.at() % 2);
            }
            (run, value) => {
                let run = usize::from(run).min(width.saturating_sub(column)).min(total - indices.len());
                let pair = if four_bits { [value >> 4, value & 15] } else { [value; 2] };
                indices.extend(pair.iter().cycle().take(run));
                column += run;
            }
        }
    }
    if indices.len() < total { Err(truncated()) } else { Ok(indices) }
}
