//! Arithmetic on arrays of 32-bit values, in plain Rust that compilers vectorise, for tiles and rows: the exponential,
//! and each kernel as a function of its geometry.

use crate::kernel::{Geometry, Kernel};

/// The differences between instruction sets: whether a fused multiply-add is an instruction (the library function that
/// replaces it elsewhere is slow), and how sixteen lanes are stored in registers.
///
/// # Safety
/// Implementations use instructions of their set: every call must be inlined into a function that enables them.
pub(super) trait Arithmetic {
    const FUSED: bool;
    /// Sixteen lanes.
    type Lanes: Copy;

    /// The same value in all lanes.
    unsafe fn splat(value: f32) -> Self::Lanes;
    unsafe fn load(values: &[f32; 16]) -> Self::Lanes;
    /// From half-precision bits.
    unsafe fn load_half(bits: &[u16; 16]) -> Self::Lanes;
    unsafe fn add(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;
    unsafe fn subtract(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;
    /// a·b + c.
    unsafe fn multiply_add(a: Self::Lanes, b: Self::Lanes, c: Self::Lanes) -> Self::Lanes;
    unsafe fn store(lanes: Self::Lanes, values: &mut [f32; 16]);
    /// 2^y of each lane, as [`exp2`].
    unsafe fn exp2(lanes: Self::Lanes) -> Self::Lanes;
}

/// a·b + c.
#[inline(always)]
pub(super) fn fma<A: Arithmetic>(a: f32, b: f32, c: f32) -> f32 {
    if A::FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// A minimax polynomial for 2^f on [−½, ½], the highest power first: 2e-9 without rounding errors.
const POWERS: [f32; 7] =
    [1.535_336_2e-4, 1.339_887_4e-3, 9.618_437e-3, 5.550_332_5e-2, 2.402_264_8e-1, std::f32::consts::LN_2, 1.0];

/// 1.5·2²³: adding it rounds to an integer, which is then in the low bits.
const ROUNDING_SHIFT: f32 = 12_582_912.0;

/// 2^y for y < 127, accurate to 1e-7 relative down to 2^−100; 0 below 2^−126. A polynomial for the fraction; the integer
/// part is added to the exponent bits.
#[inline(always)]
pub(super) fn exp2<A: Arithmetic>(y: f32) -> f32 {
    let clamped = if y > -126.0 { y } else { -126.0 };
    let shifted = clamped + ROUNDING_SHIFT;
    let fraction = clamped - (shifted - ROUNDING_SHIFT);
    let mut p = POWERS[0];
    for coefficient in &POWERS[1..] {
        p = fma::<A>(p, fraction, *coefficient);
    }
    let power = f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23));
    // Clamped values become 0, and values above 2^−102 do not change.
    power - f32::MIN_POSITIVE
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{exp2_256, exp2_512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{POWERS, ROUNDING_SHIFT};

    /// [`super::exp2`] of eight lanes.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(in super::super) fn exp2_256(y: __m256) -> __m256 {
        let round = _mm256_set1_ps(ROUNDING_SHIFT);
        let y = _mm256_max_ps(y, _mm256_set1_ps(-126.0));
        let shifted = _mm256_add_ps(y, round);
        let fraction = _mm256_sub_ps(y, _mm256_sub_ps(shifted, round));
        let mut p = _mm256_set1_ps(POWERS[0]);
        for coefficient in &POWERS[1..] {
            p = _mm256_fmadd_ps(p, fraction, _mm256_set1_ps(*coefficient));
        }
        let bits = _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted)));
        _mm256_sub_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(f32::MIN_POSITIVE))
    }

    /// 2^y of sixteen lanes; 0 if it underflows. The processor adds the integer part to the exponent, also below the normal range.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(in super::super) fn exp2_512(y: __m512) -> __m512 {
        // −∞ has no fraction.
        let y = _mm512_max_ps(y, _mm512_set1_ps(f32::MIN));
        let whole = _mm512_roundscale_ps::<0>(y);
        let fraction = _mm512_sub_ps(y, whole);
        let mut p = _mm512_set1_ps(POWERS[0]);
        for coefficient in &POWERS[1..] {
            p = _mm512_fmadd_ps(p, fraction, _mm512_set1_ps(*coefficient));
        }
        _mm512_scalef_ps(p, whole)
    }
}

/// A kernel as a function of single-precision geometry, with one additional term per row and per column.
///
/// Powers are computed from values divided by `unit`, and sums are multiplied by `unit`^degree afterwards, so that they
/// do not overflow.
#[derive(Clone, Copy, Debug)]
pub(super) enum Map {
    /// 2^(row + column + factor·product): −g‖x‖² − g‖y‖² + 2g x·y.
    GaussianOfProduct { factor: f32 },
    /// 2^(factor·squared distance).
    GaussianOfDistance { factor: f32 },
    /// 2^(factor·√squared distance).
    LaplacianOfDistance { factor: f32 },
    /// (factor·product + offset)^degree.
    Polynomial { factor: f32, offset: f32, degree: u32 },
    /// (row·column·product)^degree, at most 1.
    Cosine { degree: u32 },
    /// row + column − 2·product: ‖x−y‖², not below 0.
    Distance,
}

impl Map {
    /// The map of a kernel, and the factor for sums of its values. `direct` means that squared distances are computed
    /// directly; `largest` bounds |x·y|.
    pub(super) fn new(kernel: &Kernel, direct: bool, largest: f64) -> (Self, f64) {
        let log2_e = std::f64::consts::LOG2_E;
        match *kernel {
            Kernel::Gaussian { bandwidth } => {
                let g = log2_e / (2.0 * bandwidth * bandwidth);
                let map = if direct {
                    Map::GaussianOfDistance { factor: -g as f32 }
                } else {
                    Map::GaussianOfProduct { factor: 2.0 * (g as f32) }
                };
                (map, 1.0)
            }
            Kernel::Laplacian { bandwidth } => (Map::LaplacianOfDistance { factor: (-log2_e / bandwidth) as f32 }, 1.0),
            Kernel::Polynomial { scale, offset, degree } => {
                // (γ x·y + c)^p = γ^p (x·y + c/γ)^p, in a unit that is a power of two: for the kernel of KID only the
                // product is rounded, and random rounding errors average out in sums.
                let shift = offset / scale;
                let unit = (largest + shift).log2().ceil().exp2();
                // All values are zero, so their powers are zero in any unit.
                let unit = if unit > 0.0 && unit.is_finite() { unit } else { 1.0 };
                let map = Map::Polynomial { factor: (1.0 / unit) as f32, offset: (shift / unit) as f32, degree };
                (map, (scale * unit).powi(degree as i32))
            }
            Kernel::Cosine { power } => (Map::Cosine { degree: power }, 1.0),
        }
    }

    /// The term of a row, from its squared norm (relative to the centre).
    pub(super) fn term(kernel: &Kernel, squared_norm: f64) -> f32 {
        match *kernel {
            // With exactly the g that multiplies the products: its rounding error then scales with the distance, which
            // it hardly changes, and not with the norms.
            Kernel::Gaussian { bandwidth } => {
                let g = (std::f64::consts::LOG2_E / (2.0 * bandwidth * bandwidth)) as f32;
                (-squared_norm * f64::from(g)) as f32
            }
            Kernel::Cosine { .. } => (1.0 / squared_norm.sqrt()) as f32,
            Kernel::Laplacian { .. } | Kernel::Polynomial { .. } => 0.0,
        }
    }

    /// Turns geometry into kernel values, in place: rows of `width` values, each with its own term. The width is a multiple
    /// of sixteen.
    ///
    /// # Safety
    /// Must be inlined into a function that enables the instructions of `A`.
    #[inline(always)]
    pub(super) unsafe fn apply<A: Arithmetic>(&self, values: &mut [f32], width: usize, rows: &[f32], columns: &[f32]) {
        let columns = &columns[..width];
        let values = values.chunks_exact_mut(width).zip(rows);
        match *self {
            Map::GaussianOfProduct { factor } => {
                for (values, row) in values {
                    for (values, columns) in values.as_chunks_mut().0.iter_mut().zip(columns.as_chunks().0) {
                        // SAFETY: as the caller guarantees. Rounding can make a squared distance slightly negative, and
                        // y slightly positive; that error is no larger than in the other direction.
                        unsafe {
                            let terms = A::add(A::splat(*row), A::load(columns));
                            A::store(A::exp2(A::multiply_add(A::splat(factor), A::load(values), terms)), values);
                        }
                    }
                }
            }
            Map::GaussianOfDistance { factor } => {
                for (values, _) in values {
                    for values in values.as_chunks_mut().0 {
                        // SAFETY: as the caller guarantees.
                        unsafe {
                            let zero = A::splat(0.0);
                            A::store(A::exp2(A::multiply_add(A::splat(factor), A::load(values), zero)), values);
                        }
                    }
                }
            }
            Map::LaplacianOfDistance { factor } => {
                for (values, _) in values {
                    values.iter_mut().for_each(|value| *value = exp2::<A>(factor * value.sqrt()));
                }
            }
            Map::Polynomial { factor, offset, degree } => {
                for (values, _) in values {
                    values.iter_mut().for_each(|value| *value = fma::<A>(factor, *value, offset));
                    power(values, degree);
                }
            }
            Map::Cosine { degree } => {
                for (values, row) in values {
                    for (value, column) in values.iter_mut().zip(columns) {
                        *value = (*value * row * column).clamp(-1.0, 1.0);
                    }
                    power(values, degree);
                }
            }
            Map::Distance => {
                for (values, row) in values {
                    for (value, column) in values.iter_mut().zip(columns) {
                        let squared = fma::<A>(-2.0, *value, row + column);
                        *value = if squared > 0.0 { squared } else { 0.0 };
                    }
                }
            }
        }
    }
}

/// x^degree of an array of values; common exponents have specialised loops.
#[inline(always)]
fn power(values: &mut [f32], degree: u32) {
    match degree {
        1 => {}
        2 => values.iter_mut().for_each(|value| *value *= *value),
        3 => values.iter_mut().for_each(|value| *value = *value * *value * *value),
        6 => values.iter_mut().for_each(|value| {
            let cube = *value * *value * *value;
            *value = cube * cube;
        }),
        _ => values.iter_mut().for_each(|value| *value = value.powi(degree as i32)),
    }
}

/// Whether distances must be computed from differences: if the kernel is steep at zero, or if rounding errors of
/// products would be visible. A pair has an error of about γ·u·‖x‖‖y‖ times the square root of the depth that is summed
/// in one run (a quarter of it for rows that are alike, and less for others). Errors of pairs are independent, so a sum
/// over `terms` of them has a smaller one.
pub(super) fn needs_differences(kernel: &Kernel, norms: f64, depth: usize, terms: usize) -> bool {
    const UNIT_ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;
    match kernel {
        Kernel::Gaussian { bandwidth } => {
            let roundings = ((depth as f64).sqrt() / 4.0).max(1.0);
            let error = norms * UNIT_ROUNDOFF * roundings / (2.0 * bandwidth * bandwidth);
            error > (1e-7 * (terms as f64).sqrt()).min(3e-7)
        }
        Kernel::Laplacian { .. } => true,
        Kernel::Polynomial { .. } | Kernel::Cosine { .. } => false,
    }
}

/// Whether a kernel depends only on distances, so that rows may be shifted.
pub(super) fn is_centred(kernel: &Kernel) -> bool {
    kernel.geometry() == Geometry::SquaredDistance
}

#[cfg(test)]
mod tests {
    use super::super::dispatch::{Instructions, Job};
    use super::super::micro::Micro;
    use super::exp2;

    struct WorstError;

    impl Job for WorstError {
        type Output = f64;

        #[inline(always)]
        unsafe fn run<M: Micro>(self) -> f64 {
            let errors = (0..2_000_000).map(|step| {
                let y = (-100.0 * f64::from(step) / 2_000_000.0) as f32;
                let mut lanes = [0.0; 16];
                // SAFETY: as the caller guarantees.
                unsafe { M::store(M::exp2(M::splat(y)), &mut lanes) };
                let error = |value: f32| (f64::from(value) / f64::from(y).exp2() - 1.0).abs();
                error(exp2::<M>(y)).max(error(lanes[0])).max(error(lanes[15]))
            });
            for (y, power) in [(0.0, 1.0), (-1.0, 0.5), (-200.0, 0.0), (-1e30, 0.0), (f32::NEG_INFINITY, 0.0)] {
                let mut lanes = [1.0; 16];
                // SAFETY: as the caller guarantees.
                unsafe { M::store(M::exp2(M::splat(y)), &mut lanes) };
                assert_eq!(lanes, [power; 16], "{y}");
            }
            assert_eq!((exp2::<M>(0.0), exp2::<M>(-1.0)), (1.0, 0.5));
            assert_eq!((exp2::<M>(-200.0), exp2::<M>(f32::NEG_INFINITY)), (0.0, 0.0));
            errors.fold(0.0, f64::max)
        }
    }

    #[test]
    fn the_exponential_is_good_to_1e_7() {
        for instructions in Instructions::available() {
            let worst = instructions.run(WorstError);
            // Without a fused multiply-add, every step of the polynomial rounds twice.
            let allowed = if instructions == Instructions::Portable { 1.5e-7 } else { 1e-7 };
            assert!(worst < allowed, "{instructions:?}: {worst}");
        }
    }
}
