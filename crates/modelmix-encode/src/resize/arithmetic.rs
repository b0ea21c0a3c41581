//! How the samples of a window are summed: the precision, the order and the rounding of each library.

use super::planes::Element;

/// The arithmetic of a pass from samples `S` to samples `Output`.
pub(super) trait Arithmetic<S>: Copy {
    /// The type of weights.
    type Weight: Copy;
    /// The type of sums.
    type Sum: Copy;
    /// The type of results.
    type Output: Element;

    /// The sum of no samples.
    fn zero(self) -> Self::Sum;

    /// Adds a tap of a window of `taps` taps to the sums of several outputs.
    fn add<const L: usize>(
        self,
        sums: &mut [Self::Sum; L],
        tap: usize,
        taps: usize,
        weight: Self::Weight,
        samples: &[S; L],
    );

    /// The result of a sum.
    fn finish(self, sum: Self::Sum) -> Self::Output;

    /// The result if there is nothing to resize.
    fn copy(sample: S) -> Self::Output;

    /// The pixel of a window that is the tap number `tap`.
    #[inline(always)]
    fn pixel(tap: usize) -> usize {
        tap
    }
}

/// Fixed point: sums of 8-bit pixels times integers, rounded half up and clipped to 8 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    /// Bits of the fraction of the weights.
    pub(super) bits: u32,
}

impl Arithmetic<u8> for Fixed {
    type Weight = i32;
    type Sum = i32;
    type Output = u8;

    #[inline(always)]
    fn zero(self) -> i32 {
        (1 << self.bits) >> 1
    }

    #[inline(always)]
    fn add<const L: usize>(self, sums: &mut [i32; L], _: usize, _: usize, weight: i32, samples: &[u8; L]) {
        for (sum, &sample) in sums.iter_mut().zip(samples) {
            *sum = sum.wrapping_add(weight.wrapping_mul(i32::from(sample)));
        }
    }

    #[inline(always)]
    fn finish(self, sum: i32) -> u8 {
        (sum >> self.bits).clamp(0, 255) as u8
    }

    #[inline(always)]
    fn copy(sample: u8) -> u8 {
        sample
    }
}

/// Sums in double precision, rounded to single precision: Pillow's mode `F`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Double;

impl<S: Element> Arithmetic<S> for Double {
    type Weight = f64;
    type Sum = f64;
    type Output = f32;

    #[inline(always)]
    fn zero(self) -> f64 {
        0.0
    }

    #[inline(always)]
    fn add<const L: usize>(self, sums: &mut [f64; L], _: usize, _: usize, weight: f64, samples: &[S; L]) {
        for (sum, &sample) in sums.iter_mut().zip(samples) {
            *sum += f64::from(sample.single()) * weight;
        }
    }

    #[inline(always)]
    fn finish(self, sum: f64) -> f32 {
        sum as f32
    }

    #[inline(always)]
    fn copy(sample: S) -> f32 {
        sample.single()
    }
}

/// a + (b − a)·w: TensorFlow 1's bilinear rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lerp;

impl<S: Element> Arithmetic<S> for Lerp {
    type Weight = f32;
    type Sum = f32;
    type Output = f32;

    #[inline(always)]
    fn zero(self) -> f32 {
        0.0
    }

    #[inline(always)]
    fn add<const L: usize>(self, sums: &mut [f32; L], tap: usize, _: usize, weight: f32, samples: &[S; L]) {
        for (sum, &sample) in sums.iter_mut().zip(samples) {
            let sample = sample.single();
            *sum = if tap == 0 { sample } else { *sum + (sample - *sum) * weight };
        }
    }

    #[inline(always)]
    fn finish(self, sum: f32) -> f32 {
        sum
    }

    #[inline(always)]
    fn copy(sample: S) -> f32 {
        sample.single()
    }
}

/// torch's sums for float tensors with antialiasing. After the first product, its build for AVX2 adds whole groups of
/// four products unfused and the rest with fused multiply-adds.
#[derive(Clone, Copy, Debug)]
pub(super) struct TorchAntialiased;

impl<S: Element> Arithmetic<S> for TorchAntialiased {
    type Weight = f32;
    type Sum = f32;
    type Output = f32;

    #[inline(always)]
    fn zero(self) -> f32 {
        0.0
    }

    #[inline(always)]
    fn add<const L: usize>(self, sums: &mut [f32; L], tap: usize, taps: usize, weight: f32, samples: &[S; L]) {
        if tap == 0 {
            for (sum, &sample) in sums.iter_mut().zip(samples) {
                *sum = sample.single() * weight;
            }
        } else if tap <= (taps - 1) / 4 * 4 {
            for (sum, &sample) in sums.iter_mut().zip(samples) {
                *sum += sample.single() * weight;
            }
        } else {
            for (sum, &sample) in sums.iter_mut().zip(samples) {
                *sum = sample.single().mul_add(weight, *sum);
            }
        }
    }

    #[inline(always)]
    fn finish(self, sum: f32) -> f32 {
        sum
    }

    #[inline(always)]
    fn copy(sample: S) -> f32 {
        sample.single()
    }
}

/// torch's sums of four pixels for float tensors without antialiasing. Its build for AVX2 starts with the product of
/// the second pixel and adds the others with fused multiply-adds.
#[derive(Clone, Copy, Debug)]
pub(super) struct TorchCubic;

impl<S: Element> Arithmetic<S> for TorchCubic {
    type Weight = f32;
    type Sum = f32;
    type Output = f32;

    #[inline(always)]
    fn zero(self) -> f32 {
        0.0
    }

    #[inline(always)]
    fn add<const L: usize>(self, sums: &mut [f32; L], tap: usize, _: usize, weight: f32, samples: &[S; L]) {
        for (sum, &sample) in sums.iter_mut().zip(samples) {
            let sample = sample.single();
            *sum = if tap == 0 { sample * weight } else { sample.mul_add(weight, *sum) };
        }
    }

    #[inline(always)]
    fn finish(self, sum: f32) -> f32 {
        sum
    }

    #[inline(always)]
    fn copy(sample: S) -> f32 {
        sample.single()
    }

    #[inline(always)]
    fn pixel(tap: usize) -> usize {
        match tap {
            0 => 1,
            1 => 0,
            _ => tap,
        }
    }
}
