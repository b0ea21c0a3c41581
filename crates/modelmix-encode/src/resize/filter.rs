//! Filters: the weight of a source pixel as a function of its distance, in the formulas and the rounding of the library
//! that a filter comes from.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

/// A filter of Pillow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// The mean over the source area of a pixel.
    Box,
    /// A triangle over one pixel to each side.
    Bilinear,
    /// A sinc over one pixel to each side in a Hamming window.
    Hamming,
    /// Keys' cubic with a = −½, over two pixels to each side.
    Bicubic,
    /// A sinc over three pixels to each side in the window of a wider sinc.
    Lanczos,
}

impl Filter {
    /// All filters.
    pub const ALL: [Self; 5] = [Self::Box, Self::Bilinear, Self::Hamming, Self::Bicubic, Self::Lanczos];

    /// Up to which distance the weight is not zero.
    pub(super) fn support(self) -> f64 {
        match self {
            Self::Box => 0.5,
            Self::Bilinear | Self::Hamming => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    /// The weight at this distance, as libImaging's `Resample.c` defines it.
    pub(super) fn weight(self, distance: f64) -> f64 {
        let x = distance.abs();
        match self {
            // Closed on the right, so that a pixel at the boundary of two outputs counts once.
            Self::Box => f64::from(distance > -0.5 && distance <= 0.5),
            Self::Bilinear => (1.0 - x).max(0.0),
            Self::Hamming if x >= 1.0 => 0.0,
            Self::Hamming if x == 0.0 => 1.0,
            // The window's constants are single-precision literals in C; their sum is not 1.
            Self::Hamming => sinc(x) * (f64::from(0.54_f32) + f64::from(0.46_f32) * (x * PI).cos()),
            Self::Bicubic if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            Self::Bicubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5,
            Self::Bicubic => 0.0,
            Self::Lanczos if (-3.0..3.0).contains(&distance) => sinc(distance) * sinc(distance / 3.0),
            Self::Lanczos => 0.0,
        }
    }
}

/// sin(πx)/(πx).
fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    let angle = x * PI;
    angle.sin() / angle
}

/// A filter of torch's `interpolate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TorchFilter {
    /// A triangle over one pixel to each side.
    Bilinear,
    /// Keys' cubic over two pixels to each side: a = −¾ without antialiasing, −½ with it.
    Bicubic,
}

impl TorchFilter {
    /// Up to which distance the weight is not zero.
    pub(super) fn support(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
        }
    }

    /// The weight at this distance with antialiasing, in double precision: for 8-bit images.
    pub(super) fn antialiased(self, distance: f64) -> f64 {
        let x = distance.abs();
        match self {
            Self::Bilinear => (1.0 - x).max(0.0),
            Self::Bicubic if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            Self::Bicubic if x < 2.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            Self::Bicubic => 0.0,
        }
    }

    /// The weight at this distance with antialiasing, in single precision: for float images. The polynomials use fused
    /// multiply-adds, as torch's build for AVX2 does.
    pub(super) fn antialiased_single(self, distance: f32) -> f32 {
        let x = distance.abs();
        match self {
            Self::Bilinear => (1.0 - x).max(0.0),
            Self::Bicubic if x < 1.0 => (1.5_f32.mul_add(x, -2.5) * x).mul_add(x, 1.0),
            Self::Bicubic if x < 2.0 => ((-0.5_f32).mul_add(x, 2.5)).mul_add(x, -4.0).mul_add(x, 2.0),
            Self::Bicubic => 0.0,
        }
    }
}

/// The weights of four neighbours at −1, 0, 1 and 2 if the sample lies at `t` in 0..=1, for a = −¾. Which of the
/// operations are fused follows torch's build for AVX2.
pub(super) fn torch_cubic(t: f32) -> [f32; 4] {
    const A: f32 = -0.75;
    let near = |x: f32| (A + 2.0).mul_add(x, -(A + 3.0)) * x * x + 1.0;
    let far = |x: f32| A.mul_add(x, -5.0 * A).mul_add(x, 8.0 * A) * x - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far((1.0 - t) + 1.0)]
}
