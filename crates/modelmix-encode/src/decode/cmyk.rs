//! JPEG of four channels (CMYK and YCCK): planes to RGB, with libjpeg's upsampling and Pillow's reading of ink.
//!
//! The decoder's own upsampling of four channels does not stop at the right edge of a plane, unlike that of three.

use libjpeg_turbo_rs::decode::color::ycck_to_cmyk_row;
use libjpeg_turbo_rs::{FrameHeader, RawImage};

use super::{Format, with_capacity};
use crate::image::Image;
use crate::problem::Problem;

/// The image of decoded planes. `luma` says that the first three are brightness and colour instead of inks.
pub(super) fn image(frame: &FrameHeader, raw: &RawImage, luma: bool) -> Result<Image, Problem> {
    let (width, height) = (frame.width(), frame.height());
    let uneven = || Format::Jpeg.unsupported("channels of uneven resolutions");
    let sampling = |axis: fn(usize, usize) -> usize| {
        let factors = frame.components.iter();
        factors.map(|channel| axis(channel.horizontal_sampling.into(), channel.vertical_sampling.into())).collect()
    };
    let (across, down): (Vec<usize>, Vec<usize>) = (sampling(|across, _| across), sampling(|_, down| down));
    let most = |factors: &[usize]| factors.iter().copied().max().unwrap_or(1);
    let (most_across, most_down) = (most(&across), most(&down));
    let mut planes = Vec::with_capacity(4);
    for channel in 0..4 {
        let (across, down) = (across[channel].max(1), down[channel].max(1));
        if most_across % across != 0 || most_down % down != 0 {
            return Err(uneven());
        }
        let plane = Plane {
            width: (width * across).div_ceil(most_across),
            height: (height * down).div_ceil(most_down),
            stride: *raw.plane_widths.get(channel).ok_or_else(uneven)?,
            samples: raw.planes.get(channel).ok_or_else(uneven)?,
        };
        if plane.width > plane.stride || plane.samples.len() < plane.stride * plane.height {
            return Err(uneven());
        }
        planes.push((plane, most_across / across, most_down / down));
    }

    let mut pixels = with_capacity(width * height * 3)?;
    let mut rows: [Vec<u8>; 4] = Default::default();
    let mut inks = vec![0; width * 4];
    for y in 0..height {
        for (row, (plane, across, down)) in rows.iter_mut().zip(&planes) {
            plane.row_into(row, y, *across, *down);
            row.resize(row.len().max(width), 0);
        }
        let [first, second, third, key] = &rows;
        if luma {
            ycck_to_cmyk_row(first, second, third, key, &mut inks, width);
        } else {
            for (x, ink) in inks.chunks_exact_mut(4).enumerate() {
                ink.copy_from_slice(&[first[x], second[x], third[x], key[x]]);
            }
        }
        push_rgb(&inks, &mut pixels);
    }
    Image::new(width, height, pixels)
}

/// Appends RGB of inks that are stored inverted, as Adobe's programs do. Pillow takes all CMYK files to be so.
fn push_rgb(inks: &[u8], pixels: &mut Vec<u8>) {
    // A key K and an ink C leave k − round(C·k / 255) with k = 255 − K; k and 255 − C are what is stored.
    let left = |stored: u8, key: u8| key - divided_by_255(u32::from(255 - stored) * u32::from(key));
    for ink in inks.chunks_exact(4) {
        let key = ink[3];
        pixels.extend([left(ink[0], key), left(ink[1], key), left(ink[2], key)]);
    }
}

/// A product of two bytes divided by 255, rounded to the nearest whole number.
fn divided_by_255(product: u32) -> u8 {
    let shifted = product + 128;
    (((shifted >> 8) + shifted) >> 8) as u8
}

/// The samples of one channel, at its own resolution.
struct Plane<'a> {
    width: usize,
    height: usize,
    stride: usize,
    samples: &'a [u8],
}

impl Plane<'_> {
    fn row(&self, y: usize) -> &[u8] {
        &self.samples[y.min(self.height - 1) * self.stride..][..self.width]
    }

    /// Row `y` of the image, from samples that are `across` and `down` times as far apart. Factors of 2 interpolate
    /// between neighbours with weights ¾ and ¼ (libjpeg's "fancy upsampling"); others repeat samples.
    fn row_into(&self, out: &mut Vec<u8>, y: usize, across: usize, down: usize) {
        out.clear();
        let current = self.row(y / down);
        // Of the two rows that a pair of rows of the image lies between, the other one.
        let neighbour = || if y.is_multiple_of(2) { self.row((y / 2).saturating_sub(1)) } else { self.row(y / 2 + 1) };
        match (across, down) {
            (2, 1) if self.width > 2 => {
                let sums = current.iter().map(|&sample| u32::from(sample)).collect::<Vec<_>>();
                interpolated(&sums, out, [1, 2], 2);
            }
            (2, 2) if self.width > 2 => {
                let pairs = current.iter().zip(neighbour());
                let sums = pairs.map(|(&near, &far)| 3 * u32::from(near) + u32::from(far)).collect::<Vec<_>>();
                interpolated(&sums, out, [8, 7], 4);
            }
            (1, 2) => {
                let rounding = if y.is_multiple_of(2) { 1 } else { 2 };
                let pairs = current.iter().zip(neighbour());
                out.extend(pairs.map(|(&near, &far)| ((3 * u32::from(near) + u32::from(far) + rounding) >> 2) as u8));
            }
            _ => out.extend(current.iter().flat_map(|&sample| std::iter::repeat_n(sample, across))),
        }
    }
}

/// Two values for each sum: with its left neighbour and with its right one, rounded by these terms, and divided by a
/// power of 2. The first and the last sum are their own outer neighbours.
fn interpolated(sums: &[u32], out: &mut Vec<u8>, rounding: [u32; 2], shift: u32) {
    for (at, &sum) in sums.iter().enumerate() {
        let left = sums[at.saturating_sub(1)];
        let right = sums[(at + 1).min(sums.len() - 1)];
        out.push(((3 * sum + left + rounding[0]) >> shift) as u8);
        out.push(((3 * sum + right + rounding[1]) >> shift) as u8);
    }
}
