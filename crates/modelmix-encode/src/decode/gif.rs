//! GIF: the first frame on its screen, as Pillow shows it.
//!
//! Without a palette, indices are grey values. The screen has the index of the frame's transparent colour, or index 0 if it has none, where the frame does not
//! cover it. Transparent pixels show the palette's colour. A frame that extends beyond the screen enlarges it.

use super::bytes::Bytes;
use super::{Format, Limits, with_capacity};
use crate::image::Image;
use crate::problem::Problem;

/// The longest code in bits.
const LONGEST_CODE: u32 = 12;

/// The number of codes that the table holds.
const CODES: usize = 1 << LONGEST_CODE;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Image, Problem> {
    let truncated = || Format::Gif.truncated();
    let mut file = Bytes::new(bytes, 6);
    let screen = file.u16().zip(file.u16()).ok_or_else(truncated)?;
    let flags = file.u8().ok_or_else(truncated)?;
    file.take(2).ok_or_else(truncated)?; // the background colour, which Pillow does not use here; the aspect ratio
    let global = palette(&mut file, flags).ok_or_else(truncated)?;

    let transparent = first_image(&mut file)?;
    let place = file.u16().zip(file.u16()).ok_or_else(truncated)?;
    let size = file.u16().zip(file.u16()).ok_or_else(truncated)?;
    let (left, top) = (usize::from(place.0), usize::from(place.1));
    let (columns, rows) = (usize::from(size.0), usize::from(size.1));
    let flags = file.u8().ok_or_else(truncated)?;
    let local = palette(&mut file, flags).ok_or_else(truncated)?;
    let palette = local.or(global).unwrap_or_else(|| Box::new(std::array::from_fn(|grey| [grey as u8; 3])));
    let width = u64::from(screen.0).max((left + columns) as u64);
    let height = u64::from(screen.1).max((top + rows) as u64);
    let (width, height) = limits.check(width, height)?;
    if columns == 0 || rows == 0 {
        return Err(Format::Gif.damaged("its first frame is empty"));
    }

    let indices = frame_indices(&mut file, columns * rows)?;
    let mut pixels = with_capacity(width * height * 3)?;
    if (columns, rows) != (width, height) {
        let outside = palette[usize::from(transparent.unwrap_or(0))];
        (0..width * height).for_each(|_| pixels.extend(outside));
    } else {
        pixels.resize(width * height * 3, 0);
    }
    let order = if flags & 0x40 != 0 { interlaced_rows(rows) } else { (0..rows).collect() };
    for (indices, row) in indices.chunks_exact(columns).zip(order) {
        let start = ((top + row) * width + left) * 3;
        for (pixel, &index) in pixels[start..][..columns * 3].chunks_exact_mut(3).zip(indices) {
            pixel.copy_from_slice(&palette[usize::from(index)]);
        }
    }
    Image::new(width, height, pixels)
}

/// A palette of 256 colours; those that a file does not define are black.
type Palette = Box<[[u8; 3]; 256]>;

/// The palette that follows flags. The outer option is `None` if the file is truncated, the inner one if there is none.
fn palette(file: &mut Bytes<'_>, flags: u8) -> Option<Option<Palette>> {
    if flags & 0x80 == 0 {
        return Some(None);
    }
    let colours = file.take(6 << (flags & 7))?;
    let mut palette = Box::new([[0; 3]; 256]);
    for (entry, colour) in palette.iter_mut().zip(colours.chunks_exact(3)) {
        entry.copy_from_slice(colour);
    }
    // Pillow takes a ramp of grey values to be no palette.
    let is_ramp = colours.chunks_exact(3).enumerate().all(|(index, colour)| colour == [index as u8; 3]);
    Some((!is_ramp).then_some(palette))
}

/// Skips extensions up to the first image; returns the index of the transparent colour, if there is one.
fn first_image(file: &mut Bytes<'_>) -> Result<Option<u8>, Problem> {
    let truncated = || Format::Gif.truncated();
    let mut transparent = None;
    loop {
        match file.u8().ok_or_else(truncated)? {
            b',' => return Ok(transparent),
            b';' => return Err(Format::Gif.damaged("it has no image")),
            b'!' => {
                let label = file.u8().ok_or_else(truncated)?;
                let mut block = data_block(file);
                if let (0xf9, Some(control)) = (label, block) {
                    let [flags, _, _, index, ..] = *control else {
                        return Err(Format::Gif.damaged("a graphic control extension is too short"));
                    };
                    if flags & 1 != 0 {
                        transparent = Some(index);
                    }
                }
                // A comment without text is not followed by an end of its own.
                if label != 0xfe {
                    block = data_block(file);
                }
                while block.is_some() {
                    block = data_block(file);
                }
            }
            // Bytes between blocks are skipped.
            _ => {}
        }
    }
}

/// The next block of data; `None` if it is empty, which ends a sequence of blocks.
fn data_block<'a>(file: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let length = file.u8()?;
    (length > 0).then(|| file.take_up_to(length.into())).filter(|block| !block.is_empty())
}

/// The rows of an interlaced image in the order of the file.
fn interlaced_rows(rows: usize) -> Vec<usize> {
    let passes = [(0, 8), (4, 8), (2, 4), (1, 2)];
    passes.iter().flat_map(|&(first, step)| (first..rows).step_by(step)).collect()
}

/// Decompresses `count` indices of colours (LZW with codes of growing length).
fn frame_indices(file: &mut Bytes<'_>, count: usize) -> Result<Vec<u8>, Problem> {
    let damaged = || Format::Gif.damaged("its compressed data has an invalid code");
    let bits = u32::from(file.u8().ok_or_else(|| Format::Gif.truncated())?);
    if bits > LONGEST_CODE {
        return Err(Format::Gif.damaged("its codes are longer than 12 bits"));
    }
    let clear = 1_usize << bits;
    let mut codes = Codes { file, block: &[], held: 0, length: 0 };
    let mut indices: Vec<u8> = with_capacity(count)?;
    // The string of a code after the two special ones is in the output already: it starts where the string of the code
    // before it starts, and is one index longer.
    let mut strings = vec![(0_usize, 0_usize); CODES];
    let (mut next, mut width) = (clear + 2, bits + 1);
    let mut previous: Option<(usize, usize)> = None;
    while indices.len() < count {
        let code = codes.next(width).ok_or_else(|| Format::Gif.truncated())?;
        if code == clear {
            (next, width, previous) = (clear + 2, bits + 1, None);
            continue;
        }
        if code == clear + 1 {
            return Err(Format::Gif.truncated());
        }
        let string = indices.len();
        match previous {
            _ if code < clear => indices.push(code as u8),
            Some((start, length)) if code == next => repeat(&mut indices, start, length + 1, count),
            Some(_) if code < next => {
                let (start, length) = *strings.get(code).ok_or_else(damaged)?;
                repeat(&mut indices, start, length, count);
            }
            _ => return Err(damaged()),
        }
        if let Some((start, length)) = previous
            && next < CODES
        {
            strings[next] = (start, length + 1);
            if next == (1 << width) - 1 && width < LONGEST_CODE {
                width += 1;
            }
            next += 1;
        }
        previous = Some((string, indices.len() - string));
    }
    Ok(indices)
}

/// Appends a part of the output that starts earlier, and may extend into itself, until the output has `most` indices.
fn repeat(indices: &mut Vec<u8>, start: usize, length: usize, most: usize) {
    let length = length.min(most - indices.len());
    let end = start + length;
    if end <= indices.len() {
        indices.extend_from_within(start..end);
    } else {
        (start..end).for_each(|at| indices.push(indices[at]));
    }
}

/// Codes in blocks of bytes, the lowest bits first.
struct Codes<'a, 'b> {
    file: &'b mut Bytes<'a>,
    block: &'a [u8],
    /// Bits that were read and not used yet, and their number.
    held: u32,
    length: u32,
}

impl Codes<'_, '_> {
    /// The next code; `None` if the blocks end before it.
    fn next(&mut self, width: u32) -> Option<usize> {
        while self.length < width {
            if self.block.is_empty() {
                let length = self.file.u8()?;
                self.block = self.file.take(length.into()).filter(|block| !block.is_empty())?;
            }
            let (&byte, rest) = self.block.split_first()?;
            self.block = rest;
            self.held |= u32::from(byte) << self.length;
            self.length += 8;
        }
        let code = self.held & ((1 << width) - 1);
        self.held >>= width;
        self.length -= width;
        Some(code as usize)
    }
}
