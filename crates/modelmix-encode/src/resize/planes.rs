//! Images with one plane per channel, and the types of their samples.

use super::source::Source;

/// A type of samples.
pub trait Element: Copy + Default + Send + Sync + 'static {
    /// The value in single precision.
    fn single(self) -> f32;
}

impl Element for u8 {
    #[inline(always)]
    fn single(self) -> f32 {
        f32::from(self)
    }
}

impl Element for f32 {
    #[inline(always)]
    fn single(self) -> f32 {
        self
    }
}

/// An image of several channels, one plane after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Planes<T> {
    pub(super) channels: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    /// Samples from the start of one row to the start of the next; at least the width.
    pub(super) stride: usize,
    pub(super) data: Vec<T>,
}

impl<T: Element> Planes<T> {
    /// Planes of zeros. Rows start at multiples of `align` samples.
    pub(crate) fn zeros(channels: usize, height: usize, width: usize, align: usize) -> Self {
        let stride = width.next_multiple_of(align);
        Self { channels, height, width, stride, data: vec![T::default(); channels * height * stride] }
    }

    /// The number of planes.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The number of rows of a plane.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The number of columns of a plane.
    pub fn width(&self) -> usize {
        self.width
    }

    /// A row of a plane. Empty if there is no such row.
    pub fn row(&self, channel: usize, y: usize) -> &[T] {
        let start = (channel * self.height + y) * self.stride;
        self.data.get(start..start + self.width).unwrap_or_default()
    }

    /// A row of a plane, to write to. Empty if there is no such row.
    pub(crate) fn row_mut(&mut self, channel: usize, y: usize) -> &mut [T] {
        let start = (channel * self.height + y) * self.stride;
        self.data.get_mut(start..start + self.width).unwrap_or_default()
    }

    /// A row of each of three planes, to write to. `None` if there are not three planes or there is no such row.
    pub(super) fn rgb_row_mut(&mut self, y: usize) -> Option<[&mut [T]; 3]> {
        if self.channels != 3 || y >= self.height {
            return None;
        }
        let (start, end) = (y * self.stride, y * self.stride + self.width);
        let mut planes = self.data.chunks_mut((self.height * self.stride).max(1));
        let (red, green, blue) = (planes.next()?, planes.next()?, planes.next()?);
        Some([red.get_mut(start..end)?, green.get_mut(start..end)?, blue.get_mut(start..end)?])
    }

    /// One plane as an image of one channel, `None` if there is no such plane.
    pub(crate) fn plane(&self, channel: usize) -> Option<Source<'_, T>> {
        let size = self.height * self.stride;
        let data = self.data.get(channel * size..)?;
        Source::new(data, self.stride, self.width, self.height, 1)
    }

    /// The planes of several images of the same size, one after the other.
    pub(crate) fn stack(images: Vec<Self>) -> Self {
        let mut images = images.into_iter();
        let Some(mut stacked) = images.next() else { return Self::zeros(0, 0, 0, 1) };
        for image in images {
            stacked.channels += image.channels;
            stacked.data.extend(image.data);
        }
        stacked
    }

    /// All rows, plane by plane.
    pub fn rows(&self) -> impl Iterator<Item = &[T]> {
        let rows = (0..self.channels).flat_map(|channel| (0..self.height).map(move |y| (channel, y)));
        rows.map(|(channel, y)| self.row(channel, y))
    }
}

impl Planes<u8> {
    /// The same values in single precision.
    pub(crate) fn single(&self) -> Planes<f32> {
        let mut floats = Planes::zeros(self.channels, self.height, self.width, 1);
        for channel in 0..self.channels {
            for y in 0..self.height {
                let row = floats.row_mut(channel, y).iter_mut().zip(self.row(channel, y));
                row.for_each(|(place, &value)| *place = f32::from(value));
            }
        }
        floats
    }
}
