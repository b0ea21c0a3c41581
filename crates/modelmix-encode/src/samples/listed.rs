//! Images that a program lists one by one: files from anywhere, bytes of image files, and pixels in memory.

use std::path::PathBuf;

use super::folder::read_file;
use super::{Content, ImageSamples, Raw, Source};
use crate::problem::Problem;

/// An image of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedImage(Listed);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Listed {
    File(PathBuf),
    Held(Raw),
}

impl ListedImage {
    /// An image file, which is read when it is needed.
    pub fn file_at(path: PathBuf) -> Self {
        Self(Listed::File(path))
    }

    /// The bytes of an image file.
    pub fn encoded(bytes: Vec<u8>) -> Self {
        Self(Listed::Held(Raw(Content::File(bytes))))
    }

    /// Pixels: rows from top to bottom of 1 (grey), 3 (red, green, blue) or 4 (and alpha) interleaved values.
    ///
    /// # Errors
    /// If a side is 0, the number of channels is another one, or the number of bytes is not their product.
    pub fn pixels(width: usize, height: usize, channels: usize, pixels: Vec<u8>) -> Result<Self, Problem> {
        let expected = width.checked_mul(height).and_then(|count| count.checked_mul(channels));
        if !matches!(channels, 1 | 3 | 4) || pixels.is_empty() || expected != Some(pixels.len()) {
            let found = pixels.len();
            return Err(Problem::new(format!(
                "{found} bytes are not an image of {width} × {height} pixels with {channels} channels; give 1, 3 or 4 channels"
            )));
        }
        Ok(Self(Listed::Held(Raw(Content::Pixels { width, height, channels, pixels }))))
    }

    pub(super) fn file(&self) -> Option<PathBuf> {
        match &self.0 {
            Listed::File(path) => Some(path.clone()),
            Listed::Held(_) => None,
        }
    }

    pub(super) fn read(&self) -> Result<Raw, Problem> {
        match &self.0 {
            Listed::File(path) => read_file(path).map(|bytes| Raw(Content::File(bytes))),
            Listed::Held(raw) => Ok(raw.clone()),
        }
    }
}

impl ImageSamples {
    /// Images that a program lists, each with its id, in this order.
    ///
    /// # Errors
    /// If the list is empty.
    pub fn listed(images: Vec<(String, ListedImage)>) -> Result<Self, Problem> {
        if images.is_empty() {
            return Err(Problem::new("there are no images; give at least one"));
        }
        let (ids, images) = images.into_iter().unzip();
        Ok(Self { ids, source: Source::Listed(images) })
    }
}
