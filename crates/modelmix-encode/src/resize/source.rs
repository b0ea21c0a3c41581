//! Where samples come from: rows of interleaved channels in someone else's memory.

use super::planes::Element;
use crate::image::Image;
use crate::problem::Problem;

/// An image whose channels are interleaved. One plane of a planar image is a source with one channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a, S> {
    data: &'a [S],
    /// Samples from the start of one row to the start of the next.
    stride: usize,
    width: usize,
    height: usize,
    channels: usize,
}

impl<'a, S: Element> Source<'a, S> {
    /// The image of these samples, `None` if there are too few of them or a size is 0.
    pub(crate) fn new(data: &'a [S], stride: usize, width: usize, height: usize, channels: usize) -> Option<Self> {
        let row = width.checked_mul(channels)?;
        let needed = stride.checked_mul(height.checked_sub(1)?)?.checked_add(row)?;
        (row > 0 && row <= stride && needed <= data.len()).then_some(Self { data, stride, width, height, channels })
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn height(&self) -> usize {
        self.height
    }

    pub(crate) fn channels(&self) -> usize {
        self.channels
    }

    /// The samples from the first one of the first row on.
    pub(super) fn data(&self) -> &'a [S] {
        self.data
    }

    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// The samples of a row. Empty if there is no such row.
    #[inline(always)]
    pub(crate) fn row(&self, y: usize) -> &'a [S] {
        let start = y.saturating_mul(self.stride);
        self.data.get(start..).and_then(|rest| rest.get(..self.width * self.channels)).unwrap_or_default()
    }

    /// The part of the image that starts at (`left`, `top`), `None` if it is empty or reaches beyond the image.
    pub(crate) fn part(&self, left: usize, top: usize, width: usize, height: usize) -> Option<Self> {
        if left.checked_add(width)? > self.width || top.checked_add(height)? > self.height {
            return None;
        }
        let data = self.data.get(top * self.stride + left * self.channels..)?;
        Self::new(data, self.stride, width, height, self.channels)
    }
}

impl<'a> Source<'a, u8> {
    /// The pixels of an image.
    pub(crate) fn of(image: &'a Image) -> Result<Self, Problem> {
        Self::of_bytes(image.pixels(), image.width(), image.height(), 3)
    }

    /// The pixels of an image with this many channels.
    pub(crate) fn of_bytes(pixels: &'a [u8], width: usize, height: usize, channels: usize) -> Result<Self, Problem> {
        Self::new(pixels, width.saturating_mul(channels), width, height, channels)
            .ok_or_else(|| Problem::new("the image has no pixels; remove it"))
    }
}
