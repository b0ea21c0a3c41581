//! Where the centre of an image is: the rounding rules of the tools.

use serde::{Deserialize, Serialize};

/// How half the difference between the sizes of an image and of its crop is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// To the nearest whole number, halves to even ones; down to pad: torchvision's `CenterCrop`.
    HalfToEven,
    /// Towards zero: image processors of `transformers` on torchvision.
    TowardsZero,
    /// Down: image processors of `transformers` on Pillow.
    Down,
}

impl Rounding {
    /// The first pixel of the central crop. Negative if the crop is larger than the image.
    pub(super) fn offset(self, size: usize, crop: usize) -> isize {
        // Sides are far below isize::MAX.
        let difference = size as isize - crop as isize;
        match self {
            Self::Down => difference.div_euclid(2),
            Self::HalfToEven if difference > 0 => {
                let down = difference / 2;
                down + difference % 2 * (down % 2)
            }
            Self::HalfToEven | Self::TowardsZero => difference / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rounding::{Down, HalfToEven, TowardsZero};

    /// From `round((n - c) / 2)` and `-((c - n) // 2)`, `int((n - c) / 2.0)`, and `(n - c) // 2` in Python.
    #[test]
    fn rounds_like_the_tools() {
        for (size, crop, even, zero, down) in [
            (225, 224, 0, 0, 0),
            (226, 224, 1, 1, 1),
            (227, 224, 2, 1, 1),
            (229, 224, 2, 2, 2),
            (231, 224, 4, 3, 3),
            (224, 224, 0, 0, 0),
            (223, 224, 0, 0, -1),
            (221, 224, -1, -1, -2),
            (220, 224, -2, -2, -2),
        ] {
            assert_eq!(HalfToEven.offset(size, crop), even, "{size} {crop}");
            assert_eq!(TowardsZero.offset(size, crop), zero, "{size} {crop}");
            assert_eq!(Down.offset(size, crop), down, "{size} {crop}");
        }
    }
}
