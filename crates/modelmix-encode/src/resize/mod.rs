//! Resizing that equals other libraries bit for bit: Pillow's 8-bit and float filters, torch's interpolation, and
//! TensorFlow 1's bilinear rule. Which tool uses which method is in [`crate::preprocess`].

mod arithmetic;
mod dispatch;
mod filter;
mod four_products;
mod passes;
mod planes;
mod resample;
mod source;
mod transpose;
mod windows;

use serde::{Deserialize, Serialize};

pub use filter::{Filter, TorchFilter};
pub use planes::Planes;
pub use resample::{Workspace, resize};

pub(crate) use planes::Element;
pub(crate) use resample::{Region, deinterleave, resample, resample_bytes, torch_bilinear};
pub(crate) use source::Source;

/// The longest side of a resized image. Other libraries refuse such images, too, or run out of memory.
pub const MAX_SIDE: usize = 1 << 24;

/// In which order the two passes of a separable resize run. The order matters because values are rounded in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PassOrder {
    /// Along the rows first, unless the height is more than 100 times the width and shrinks: Pillow 12.
    #[serde(rename = "pillow-12")]
    Pillow12,
    /// Along the rows first, unless the height shrinks by more pixels than twice what the width shrinks by: Pillow 13.
    #[default]
    #[serde(rename = "pillow-13")]
    Pillow13,
}

impl PassOrder {
    /// Whether the pass along the columns runs first. Sizes are (height, width).
    fn vertical_first(self, from: (usize, usize), to: (usize, usize)) -> bool {
        let shrinks = |from: usize, to: usize| from as i128 - to as i128;
        let height = shrinks(from.0, to.0);
        let much = match self {
            Self::Pillow12 => from.0 > from.1.saturating_mul(100),
            Self::Pillow13 => height > 2 * shrinks(from.1, to.1),
        };
        height > 0 && much
    }
}

/// Whose arithmetic a resize follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "library", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Method {
    /// Pillow's `Image.resize` of 8-bit images: 22-bit fixed point, rounded to 8 bits after each pass.
    Pillow {
        /// The filter.
        filter: Filter,
        /// The order of the passes.
        passes: PassOrder,
    },
    /// Pillow's `Image.resize` of float images (mode `F`), channel by channel: sums in double precision, rounded to
    /// single precision after each pass, not clipped.
    PillowFloat {
        /// The filter.
        filter: Filter,
        /// The order of the passes.
        passes: PassOrder,
    },
    /// `resize_bilinear` of TensorFlow 1: corners at (0, 0), two neighbours, no antialiasing.
    #[serde(rename = "tensorflow-1")]
    TensorFlow1,
    /// torch's `interpolate` of float tensors with `align_corners=False`, as torch 2.15 computes it for three channels
    /// on a processor with AVX2. With antialiasing, torch's results that are one pixel wide are wrong, and these are not.
    Torch {
        /// The filter.
        filter: TorchFilter,
        /// Whether the filter widens when the image shrinks.
        antialias: bool,
    },
    /// torch's `interpolate` of 8-bit tensors with `antialias=True`, which torchvision's `resize` calls: 16-bit fixed
    /// point, rounded to 8 bits after each pass.
    #[serde(rename = "torch-8bit")]
    Torch8Bit {
        /// The filter.
        filter: TorchFilter,
    },
}

impl Method {
    /// Whether the method reads and writes 8-bit values.
    pub fn is_8bit(&self) -> bool {
        matches!(self, Self::Pillow { .. } | Self::Torch8Bit { .. })
    }
}
