//! Micro-kernels: a small tile of inner products or squared distances in registers. Written once, for the lanes of each
//! instruction set; `tiles` contains everything around it.

use super::lanes::{Arithmetic, exp2, fma};

/// Lanes of a vector.
const LANES: usize = 16;

/// A register tile of `ROWS` × `COLUMNS`.
pub(super) trait Micro: Arithmetic {
    const ROWS: usize;
    const COLUMNS: usize;

    /// Computes, for each of `ROWS` rows of `a`, `stride` apart, and each of the `COLUMNS` columns of `b`, stored depth
    /// by depth, Σ a·b, or Σ (a − b)² if `DISTANCE`. Adds to `tile` (row-major, `COLUMNS` apart), or overwrites it if
    /// `FIRST`.
    ///
    /// # Safety
    /// The processor must have the instruction set.
    unsafe fn accumulate<const DISTANCE: bool, const FIRST: bool>(
        depth: usize,
        a: &[f32],
        stride: usize,
        b: &[f32],
        tile: &mut [f32],
    );
}

/// The micro-kernel itself, for `R` rows and `V` vectors of columns.
///
/// # Safety
/// Must be inlined into a function that enables the instructions of `A`.
#[inline(always)]
unsafe fn accumulate<A: Arithmetic, const R: usize, const V: usize, const DISTANCE: bool, const FIRST: bool>(
    depth: usize,
    a: &[f32],
    stride: usize,
    b: &[f32],
    tile: &mut [f32],
) {
    assert!(a.len() >= (R - 1) * stride + depth && b.len() >= depth * V * LANES && tile.len() >= R * V * LANES);
    // SAFETY, of all blocks: instructions as the caller guarantees; `assert!` has checked that all reads are within the
    // slices.
    let mut sums = unsafe { [[A::splat(0.0); V]; R] };
    let lines = b.as_chunks::<LANES>().0;
    for k in 0..depth {
        let columns: [A::Lanes; V] =
            std::array::from_fn(|vector| unsafe { A::load(lines.get_unchecked(k * V + vector)) });
        for (row, sums) in sums.iter_mut().enumerate() {
            let value = unsafe { A::splat(*a.get_unchecked(row * stride + k)) };
            for (sum, &column) in sums.iter_mut().zip(&columns) {
                *sum = unsafe {
                    if DISTANCE {
                        let difference = A::subtract(column, value);
                        A::multiply_add(difference, difference, *sum)
                    } else {
                        A::multiply_add(value, column, *sum)
                    }
                };
            }
        }
    }
    for (&sum, values) in sums.as_flattened().iter().zip(tile.as_chunks_mut::<LANES>().0) {
        unsafe { A::store(if FIRST { sum } else { A::add(A::load(values), sum) }, values) };
    }
}

/// Plain Rust, vectorised by the compiler for the target: NEON on 64-bit ARM, SSE2 on x86-64.
pub(super) struct Portable;

impl Arithmetic for Portable {
    const FUSED: bool = cfg!(target_arch = "aarch64");
    type Lanes = [f32; LANES];

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::Lanes {
        [value; LANES]
    }

    #[inline(always)]
    unsafe fn load(values: &[f32; LANES]) -> Self::Lanes {
        *values
    }

    #[inline(always)]
    unsafe fn load_half(bits: &[u16; LANES]) -> Self::Lanes {
        bits.map(|bits| half::f16::from_bits(bits).to_f32())
    }

    #[inline(always)]
    unsafe fn add(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes {
        std::array::from_fn(|lane| a[lane] + b[lane])
    }

    #[inline(always)]
    unsafe fn subtract(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes {
        std::array::from_fn(|lane| a[lane] - b[lane])
    }

    #[inline(always)]
    unsafe fn multiply_add(a: Self::Lanes, b: Self::Lanes, c: Self::Lanes) -> Self::Lanes {
        std::array::from_fn(|lane| fma::<Self>(a[lane], b[lane], c[lane]))
    }

    #[inline(always)]
    unsafe fn store(lanes: Self::Lanes, values: &mut [f32; LANES]) {
        *values = lanes;
    }

    #[inline(always)]
    unsafe fn exp2(lanes: Self::Lanes) -> Self::Lanes {
        lanes.map(exp2::<Self>)
    }
}

impl Micro for Portable {
    // As many sums as fit in half of the registers.
    const ROWS: usize = if cfg!(target_arch = "aarch64") { 4 } else { 2 };
    const COLUMNS: usize = LANES;

    #[inline(never)]
    unsafe fn accumulate<const DISTANCE: bool, const FIRST: bool>(
        depth: usize,
        a: &[f32],
        stride: usize,
        b: &[f32],
        tile: &mut [f32],
    ) {
        // SAFETY: only instructions of the target's baseline.
        unsafe { accumulate::<Self, { Self::ROWS }, 1, DISTANCE, FIRST>(depth, a, stride, b, tile) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::super::lanes::{exp2_256, exp2_512};
    use super::{Arithmetic, LANES, Micro};

    /// 6 × 16: twelve registers of sums, two of columns and a broadcast row fill fifteen of sixteen.
    pub(in super::super) struct Avx2;

    // SAFETY, of every block: arrays of sixteen values are read or written whole, and the caller guarantees the
    // instructions.
    impl Arithmetic for Avx2 {
        const FUSED: bool = true;
        type Lanes = [__m256; 2];

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self::Lanes {
            unsafe { [_mm256_set1_ps(value); 2] }
        }

        #[inline(always)]
        unsafe fn load(values: &[f32; LANES]) -> Self::Lanes {
            unsafe { [_mm256_loadu_ps(values.as_ptr()), _mm256_loadu_ps(values.as_ptr().add(8))] }
        }

        #[inline(always)]
        unsafe fn load_half(bits: &[u16; LANES]) -> Self::Lanes {
            let at = bits.as_ptr().cast::<__m128i>();
            unsafe { [_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at.add(1)))] }
        }

        #[inline(always)]
        unsafe fn add(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes {
            unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
        }

        #[inline(always)]
        unsafe fn subtract(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes {
            unsafe { [_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])] }
        }

        #[inline(always)]
        unsafe fn multiply_add(a: Self::Lanes, b: Self::Lanes, c: Self::Lanes) -> Self::Lanes {
            unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
        }

        #[inline(always)]
        unsafe fn store(lanes: Self::Lanes, values: &mut [f32; LANES]) {
            unsafe {
                _mm256_storeu_ps(values.as_mut_ptr(), lanes[0]);
                _mm256_storeu_ps(values.as_mut_ptr().add(8), lanes[1]);
            }
        }

        #[inline(always)]
        unsafe fn exp2(lanes: Self::Lanes) -> Self::Lanes {
            unsafe { [exp2_256(lanes[0]), exp2_256(lanes[1])] }
        }
    }

    impl Micro for Avx2 {
        const ROWS: usize = 6;
        const COLUMNS: usize = LANES;

        #[inline(always)]
        unsafe fn accumulate<const DISTANCE: bool, const FIRST: bool>(
            depth: usize,
            a: &[f32],
            stride: usize,
            b: &[f32],
            tile: &mut [f32],
        ) {
            // Never inlined: within a caller, the compiler runs out of registers for the row pointers.
            #[target_feature(enable = "avx2,fma")]
            #[inline(never)]
            unsafe fn apart<const DISTANCE: bool, const FIRST: bool>(
                depth: usize,
                a: &[f32],
                stride: usize,
                b: &[f32],
                tile: &mut [f32],
            ) {
                // SAFETY: this function enables the instructions.
                unsafe { super::accumulate::<Avx2, 6, 1, DISTANCE, FIRST>(depth, a, stride, b, tile) }
            }
            // SAFETY: as the caller guarantees.
            unsafe { apart::<DISTANCE, FIRST>(depth, a, stride, b, tile) }
        }
    }

    /// 12 × 32: twenty-four registers of sums, two of columns and a broadcast row fill twenty-seven of thirty-two.
    pub(in super::super) struct Avx512;

    // SAFETY, of every block: as for AVX2.
    impl Arithmetic for Avx512 {
        const FUSED: bool = true;
        type Lanes = __m512;

        #[inline(always)]
        unsafe fn splat(value: f32) -> __m512 {
            unsafe { _mm512_set1_ps(value) }
        }

        #[inline(always)]
        unsafe fn load(values: &[f32; LANES]) -> __m512 {
            unsafe { _mm512_loadu_ps(values.as_ptr()) }
        }

        #[inline(always)]
        unsafe fn load_half(bits: &[u16; LANES]) -> __m512 {
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(bits.as_ptr().cast())) }
        }

        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_add_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn subtract(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_sub_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn multiply_add(a: __m512, b: __m512, c: __m512) -> __m512 {
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }

        #[inline(always)]
        unsafe fn store(lanes: __m512, values: &mut [f32; LANES]) {
            unsafe { _mm512_storeu_ps(values.as_mut_ptr(), lanes) };
        }

        #[inline(always)]
        unsafe fn exp2(lanes: __m512) -> __m512 {
            unsafe { exp2_512(lanes) }
        }
    }

    impl Micro for Avx512 {
        const ROWS: usize = 12;
        const COLUMNS: usize = 2 * LANES;

        #[inline(always)]
        unsafe fn accumulate<const DISTANCE: bool, const FIRST: bool>(
            depth: usize,
            a: &[f32],
            stride: usize,
            b: &[f32],
            tile: &mut [f32],
        ) {
            // Never inlined, as for AVX2.
            #[target_feature(enable = "avx512f")]
            #[inline(never)]
            unsafe fn apart<const DISTANCE: bool, const FIRST: bool>(
                depth: usize,
                a: &[f32],
                stride: usize,
                b: &[f32],
                tile: &mut [f32],
            ) {
                // SAFETY: this function enables the instructions.
                unsafe { super::accumulate::<Avx512, 12, 2, DISTANCE, FIRST>(depth, a, stride, b, tile) }
            }
            // SAFETY: as the caller guarantees.
            unsafe { apart::<DISTANCE, FIRST>(depth, a, stride, b, tile) }
        }
    }
}
