//! Micro-kernels: a small tile of inner products or squared distances in registers, for each instruction set.
//! Everything around them is written once, in plain Rust, and compiled for each set; see `tiles`.

use super::lanes::{Arithmetic, fma};

/// A register tile of `ROWS` × `COLUMNS`.
///
/// # Safety
/// Implementations use instructions of their set: every call must be inlined into a function that has them enabled.
pub(super) trait Micro: Arithmetic {
    const ROWS: usize;
    const COLUMNS: usize;

    /// Adds to `tile` (row by row, `COLUMNS` apart), for each of `ROWS` rows of `a`, `stride` apart, and each of the
    /// `COLUMNS` columns of `b`, stored depth by depth: Σ a·b, or Σ (a − b)² where `DISTANCE`.
    ///
    /// # Safety
    /// The processor must have the instruction set, and the slices must reach as far as `depth` says.
    unsafe fn accumulate<const DISTANCE: bool>(depth: usize, a: &[f32], stride: usize, b: &[f32], tile: &mut [f32]);
}

/// The least that `a`, `b` and the tile must hold.
#[inline(always)]
fn check<M: Micro>(depth: usize, a: &[f32], stride: usize, b: &[f32], tile: &[f32]) {
    assert!(
        a.len() >= (M::ROWS - 1) * stride + depth
            && b.len() >= depth * M::COLUMNS
            && tile.len() >= M::ROWS * M::COLUMNS
    );
}

/// Plain Rust, vectorised by the compiler for whatever the target has: NEON on 64-bit ARM, SSE2 on x86-64.
pub(super) struct Portable;

impl Arithmetic for Portable {
    const FUSED: bool = cfg!(target_arch = "aarch64");
}

impl Micro for Portable {
    const ROWS: usize = 4;
    const COLUMNS: usize = if cfg!(target_arch = "aarch64") { 16 } else { 8 };

    #[inline(always)]
    unsafe fn accumulate<const DISTANCE: bool>(depth: usize, a: &[f32], stride: usize, b: &[f32], tile: &mut [f32]) {
        check::<Self>(depth, a, stride, b, tile);
        let mut sums = [[0.0f32; Self::COLUMNS]; Self::ROWS];
        for (k, columns) in b[..depth * Self::COLUMNS].as_chunks::<{ Self::COLUMNS }>().0.iter().enumerate() {
            let values: [f32; Self::ROWS] = std::array::from_fn(|row| a[row * stride + k]);
            for (value, sums) in values.into_iter().zip(&mut sums) {
                for (sum, &column) in sums.iter_mut().zip(columns) {
                    let (left, right) = if DISTANCE { (value - column, value - column) } else { (value, column) };
                    *sum = fma::<Self>(left, right, *sum);
                }
            }
        }
        for (value, sum) in tile.iter_mut().zip(sums.as_flattened()) {
            *value += sum;
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Arithmetic, Micro, check};

    /// 6 × 16: twelve sums, two columns and a broadcast row fill fifteen of sixteen registers.
    pub(in super::super) struct Avx2;

    impl Arithmetic for Avx2 {
        const FUSED: bool = true;

        #[inline(always)]
        fn widen(bits: &[u16; 16]) -> [f32; 16] {
            // SAFETY: sixteen values of two bytes are read and sixteen of four written; the caller has F16C.
            unsafe {
                let halves = _mm256_loadu_si256(bits.as_ptr().cast());
                let mut values = [0.0f32; 16];
                _mm256_storeu_ps(values.as_mut_ptr(), _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
                _mm256_storeu_ps(values.as_mut_ptr().add(8), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
                values
            }
        }
    }

    impl Micro for Avx2 {
        const ROWS: usize = 6;
        const COLUMNS: usize = 16;

        #[inline(always)]
        unsafe fn accumulate<const DISTANCE: bool>(
            depth: usize,
            a: &[f32],
            stride: usize,
            b: &[f32],
            tile: &mut [f32],
        ) {
            check::<Self>(depth, a, stride, b, tile);
            // SAFETY: `check` has seen that all that is read and written lies in the slices; the caller has AVX2 and FMA.
            unsafe { avx2::<DISTANCE>(depth, a.as_ptr(), stride, b.as_ptr(), tile.as_mut_ptr()) }
        }
    }

    /// 12 × 32: twenty-four sums, two columns and a broadcast row fill twenty-seven of thirty-two registers.
    pub(in super::super) struct Avx512;

    impl Arithmetic for Avx512 {
        const FUSED: bool = true;

        #[inline(always)]
        fn widen(bits: &[u16; 16]) -> [f32; 16] {
            // SAFETY: sixteen values of two bytes are read and sixteen of four written; the caller has AVX-512F.
            unsafe {
                let mut values = [0.0f32; 16];
                _mm512_storeu_ps(values.as_mut_ptr(), _mm512_cvtph_ps(_mm256_loadu_si256(bits.as_ptr().cast())));
                values
            }
        }
    }

    impl Micro for Avx512 {
        const ROWS: usize = 12;
        const COLUMNS: usize = 32;

        #[inline(always)]
        unsafe fn accumulate<const DISTANCE: bool>(
            depth: usize,
            a: &[f32],
            stride: usize,
            b: &[f32],
            tile: &mut [f32],
        ) {
            check::<Self>(depth, a, stride, b, tile);
            // SAFETY: `check` has seen that all that is read and written lies in the slices; the caller has AVX-512F.
            unsafe { avx512::<DISTANCE>(depth, a.as_ptr(), stride, b.as_ptr(), tile.as_mut_ptr()) }
        }
    }

    // Never inlined: among the registers of a caller, the compiler runs out of those that point to rows.

    #[target_feature(enable = "avx2,fma")]
    #[inline(never)]
    unsafe fn avx2<const DISTANCE: bool>(depth: usize, a: *const f32, stride: usize, b: *const f32, tile: *mut f32) {
        let mut sums = [[_mm256_setzero_ps(); 2]; Avx2::ROWS];
        for k in 0..depth {
            // SAFETY: the caller has checked how far `a` and `b` reach.
            let columns = unsafe { [_mm256_loadu_ps(b.add(k * 16)), _mm256_loadu_ps(b.add(k * 16 + 8))] };
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let value = _mm256_set1_ps(unsafe { *a.add(row * stride + k) });
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = if DISTANCE {
                        let difference = _mm256_sub_ps(column, value);
                        _mm256_fmadd_ps(difference, difference, *sum)
                    } else {
                        _mm256_fmadd_ps(value, column, *sum)
                    };
                }
            }
        }
        for (index, &sum) in sums.as_flattened().iter().enumerate() {
            // SAFETY: the caller has checked that the tile has room for all sums.
            unsafe {
                let at = tile.add(8 * index);
                _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), sum));
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline(never)]
    unsafe fn avx512<const DISTANCE: bool>(depth: usize, a: *const f32, stride: usize, b: *const f32, tile: *mut f32) {
        let mut sums = [[_mm512_setzero_ps(); 2]; Avx512::ROWS];
        for k in 0..depth {
            // SAFETY: the caller has checked how far `a` and `b` reach.
            let columns = unsafe { [_mm512_loadu_ps(b.add(k * 32)), _mm512_loadu_ps(b.add(k * 32 + 16))] };
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let value = _mm512_set1_ps(unsafe { *a.add(row * stride + k) });
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = if DISTANCE {
                        let difference = _mm512_sub_ps(column, value);
                        _mm512_fmadd_ps(difference, difference, *sum)
                    } else {
                        _mm512_fmadd_ps(value, column, *sum)
                    };
                }
            }
        }
        for (index, &sum) in sums.as_flattened().iter().enumerate() {
            // SAFETY: the caller has checked that the tile has room for all sums.
            unsafe {
                let at = tile.add(16 * index);
                _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), sum));
            }
        }
    }
}
