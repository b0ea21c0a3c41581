//! Decoded images.

use crate::problem::Problem;

/// An image of 8-bit RGB pixels, as Pillow's `convert("RGB")` gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    width: usize,
    height: usize,
    /// Rows from top to bottom, red, green and blue interleaved.
    pixels: Vec<u8>,
}

impl Image {
    /// An image of these pixels: rows from top to bottom, red, green and blue interleaved.
    ///
    /// # Errors
    /// If a side is 0, or the number of bytes is not 3 × width × height.
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Result<Self, Problem> {
        let expected = width.checked_mul(height).and_then(|pixels| pixels.checked_mul(3));
        if expected != Some(pixels.len()) || pixels.is_empty() {
            let found = pixels.len();
            return Err(Problem::new(format!("{found} bytes are not an RGB image of {width} × {height} pixels")));
        }
        Ok(Self { width, height, pixels })
    }

    /// The width in pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The height in pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The pixels: rows from top to bottom, red, green and blue interleaved.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }
}
