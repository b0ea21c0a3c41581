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

    /// Adds to `tile`, or where `FIRST` writes into it (row by row, `COLUMNS` apart), for each of `ROWS` rows of `a`, `stride` apart, and each of the
    /// `COLUMNS` columns of `b`, stored depth by depth: Σ a·b, or Σ (a − b)² where `DISTANCE`.
    ///
    /// # Safety
    /// The processor must have the instruction set, and the slices must reach as far as `depth` says.
    unsafe fn accumulate<const DISTANCE: bool, const FIRST: bool>(
        depth: usize,
        a: &[f32],
        stride: usize,
        b: &[f32],
        tile: &mut [f32],
    );
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
    type Lanes = [f32; 16];

    #[inline(always)]
    unsafe fn zeros() -> [f32; 16] {
        [0.0; 16]
    }

    #[inline(always)]
    unsafe fn load(values: &[f32; 16]) -> [f32; 16] {
        *values
    }

    #[inline(always)]
    unsafe fn load_half(bits: &[u16; 16]) -> [f32; 16] {
        bits.map(|bits| half::f16::from_bits(bits).to_f32())
    }

    #[inline(always)]
    unsafe fn subtract(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|lane| a[lane] - b[lane])
    }

    #[inline(always)]
    unsafe fn multiply_add(a: [f32; 16], b: [f32; 16], c: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|lane| fma::<Self>(a[lane], b[lane], c[lane]))
    }

    #[inline(always)]
    unsafe fn store(lanes: [f32; 16]) -> [f32; 16] {
        lanes
    }
}

impl Micro for Portable {
    const ROWS: usize = 4;
    const COLUMNS: usize = if cfg!(target_arch = "aarch64") { 16 } else { 8 };

    #[inline(always)]
    unsafe fn accumulate<const DISTANCE: bool, const FIRST: bool>(
        depth: usize,
        a: &[f32],
        stride: usize,
        b: &[f32],
        tile: &mut [f32],
    ) {
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
            *value = if FIRST { *sum } else { *value + sum };
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

    // SAFETY, of every block: arrays of sixteen values are read or written whole, and the caller has the instructions.
    impl Arithmetic for Avx2 {
        const FUSED: bool = true;
        type Lanes = [__m256; 2];

        #[inline(always)]
        unsafe fn zeros() -> Self::Lanes {
            unsafe { [_mm256_setzero_ps(); 2] }
        }

        #[inline(always)]
        unsafe fn load(values: &[f32; 16]) -> Self::Lanes {
            unsafe { [_mm256_loadu_ps(values.as_ptr()), _mm256_loadu_ps(values.as_ptr().add(8))] }
        }

        #[inline(always)]
        unsafe fn load_half(bits: &[u16; 16]) -> Self::Lanes {
            let at = bits.as_ptr().cast::<__m128i>();
            unsafe { [_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at.add(1)))] }
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
        unsafe fn store(lanes: Self::Lanes) -> [f32; 16] {
            let mut values = [0.0; 16];
            unsafe {
                _mm256_storeu_ps(values.as_mut_ptr(), lanes[0]);
                _mm256_storeu_ps(values.as_mut_ptr().add(8), lanes[1]);
            }
            values
        }
    }

    impl Micro for Avx2 {
        const ROWS: usize = 6;
        const COLUMNS: usize = 16;

        #[inline(always)]
        unsafe fn accumulate<const DISTANCE: bool, const FIRST: bool>(
            depth: usize,
            a: &[f32],
            stride: usize,
            b: &[f32],
            tile: &mut [f32],
        ) {
            check::<Self>(depth, a, stride, b, tile);
            // SAFETY: `check` has seen that all that is read and written lies in the slices; the caller has AVX2 and FMA.
            unsafe { avx2::<DISTANCE, FIRST>(depth, a.as_ptr(), stride, b.as_ptr(), tile.as_mut_ptr()) }
        }
    }

    /// 12 × 32: twenty-four sums, two columns and a broadcast row fill twenty-seven of thirty-two registers.
    pub(in super::super) struct Avx512;

    // SAFETY, of every block: as for AVX2.
    impl Arithmetic for Avx512 {
        const FUSED: bool = true;
        type Lanes = __m512;

        #[inline(always)]
        unsafe fn zeros() -> __m512 {
            unsafe { _mm512_setzero_ps() }
        }

        #[inline(always)]
        unsafe fn load(values: &[f32; 16]) -> __m512 {
            unsafe { _mm512_loadu_ps(values.as_ptr()) }
        }

        #[inline(always)]
        unsafe fn load_half(bits: &[u16; 16]) -> __m512 {
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(bits.as_ptr().cast())) }
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
        unsafe fn store(lanes: __m512) -> [f32; 16] {
            let mut values = [0.0; 16];
            unsafe { _mm512_storeu_ps(values.as_mut_ptr(), lanes) };
            values
        }
    }

    impl Micro for Avx512 {
        const ROWS: usize = 12;
        const COLUMNS: usize = 32;

        #[inline(always)]
        unsafe fn accumulate<const DISTANCE: bool, const FIRST: bool>(
            depth: usize,
            a: &[f32],
            stride: usize,
            b: &[f32],
            tile: &mut [f32],
        ) {
            check::<Self>(depth, a, stride, b, tile);
            // SAFETY: `check` has seen that all that is read and written lies in the slices; the caller has AVX-512F.
            unsafe { avx512::<DISTANCE, FIRST>(depth, a.as_ptr(), stride, b.as_ptr(), tile.as_mut_ptr()) }
        }
    }

    // Never inlined: among the registers of a caller, the compiler runs out of those that point to rows.

    #[target_feature(enable = "avx2,fma")]
    #[inline(never)]
    unsafe fn avx2<const DISTANCE: bool, const FIRST: bool>(
        depth: usize,
        a: *const f32,
        stride: usize,
        b: *const f32,
        tile: *mut f32,
    ) {
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
                _mm256_storeu_ps(at, if FIRST { sum } else { _mm256_add_ps(_mm256_loadu_ps(at), sum) });
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline(never)]
    unsafe fn avx512<const DISTANCE: bool, const FIRST: bool>(
        depth: usize,
        a: *const f32,
        stride: usize,
        b: *const f32,
        tile: *mut f32,
    ) {
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
                _mm512_storeu_ps(at, if FIRST { sum } else { _mm512_add_ps(_mm512_loadu_ps(at), sum) });
            }
        }
    }
}
