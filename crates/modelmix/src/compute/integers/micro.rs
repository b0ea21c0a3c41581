//! Register tiles of products of 16-bit integers, and kernel values of a tile with their sums.
//!
//! Values lie in pairs of columns of the features, two in 32 bits, because the instructions multiply two pairs and add the
//! products. Sums of one call stay within 32 bits; `quantise` chooses scales so that they do.

/// Rows and columns of the largest tile, and lanes of the running sums of a row.
pub(in super::super) const MAX_ROWS: usize = 12;
pub(in super::super) const MAX_COLUMNS: usize = 32;

/// What a row or column adds to the exponent of its kernel values: `scale` times the product, and `term`.
#[derive(Clone, Copy)]
pub(super) struct Edge<'a> {
    pub(super) scales: &'a [f32],
    pub(super) terms: &'a [f32],
}

/// The running sums of rows, in lanes, and of the columns of a tile.
pub(in super::super) struct TileSums<'a> {
    pub(in super::super) rows: &'a mut [[f32; MAX_COLUMNS]; MAX_ROWS],
    pub(in super::super) columns: &'a mut [f64],
}

/// A register tile of `ROWS` × `COLUMNS`.
pub(super) trait IntegerMicro {
    const ROWS: usize;
    const COLUMNS: usize;

    /// Σ a·b over `steps` pairs, for `a` as `[step][ROWS]` and `b` as `[step][COLUMNS]`. Adds to `tile` (row-major), or
    /// overwrites it if `FIRST`.
    ///
    /// # Safety
    /// The processor must have the instruction set.
    unsafe fn products<const FIRST: bool>(steps: usize, a: &[i32], b: &[i32], tile: &mut [f32]);

    /// Adds the kernel values of a tile, 2^(terms + scales · product), to the sums. If `TRIANGLE`, only those in columns
    /// c > r + `shift`.
    ///
    /// # Safety
    /// The processor must have the instruction set.
    unsafe fn finish<const TRIANGLE: bool>(
        tile: &[f32],
        rows: Edge<'_>,
        columns: Edge<'_>,
        shift: isize,
        sums: TileSums<'_>,
    );
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Vnni};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::super::super::lanes::{exp2_256, exp2_512};
    use super::{Edge, IntegerMicro, TileSums};

    /// AVX-512 with VNNI, 12 × 32: as the tile of single precision.
    pub(in super::super) struct Vnni;

    impl IntegerMicro for Vnni {
        const ROWS: usize = 12;
        const COLUMNS: usize = 32;

        #[target_feature(enable = "avx512f,avx512vnni")]
        #[inline(never)]
        unsafe fn products<const FIRST: bool>(steps: usize, a: &[i32], b: &[i32], tile: &mut [f32]) {
            assert!(a.len() >= steps * 12 && b.len() >= steps * 32 && tile.len() >= 12 * 32);
            let (mut a, mut b, tile) = (a.as_ptr(), b.as_ptr(), tile.as_mut_ptr());
            let mut sums = [[_mm512_setzero_si512(); 2]; 12];
            for _ in 0..steps {
                // SAFETY, of both blocks: `assert!` has checked that all places are within the slices.
                unsafe {
                    let columns = [_mm512_loadu_si512(b.cast()), _mm512_loadu_si512(b.add(16).cast())];
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let value = _mm512_set1_epi32(*a.add(row));
                        sums[0] = _mm512_dpwssd_epi32(sums[0], value, columns[0]);
                        sums[1] = _mm512_dpwssd_epi32(sums[1], value, columns[1]);
                    }
                    (a, b) = (a.add(12), b.add(32));
                }
            }
            for (index, sum) in sums.as_flattened().iter().enumerate() {
                unsafe {
                    let (sum, at) = (_mm512_cvtepi32_ps(*sum), tile.add(16 * index));
                    _mm512_storeu_ps(at, if FIRST { sum } else { _mm512_add_ps(sum, _mm512_loadu_ps(at)) });
                }
            }
        }

        #[target_feature(enable = "avx512f,avx512dq")]
        #[inline(never)]
        unsafe fn finish<const TRIANGLE: bool>(
            tile: &[f32],
            rows: Edge<'_>,
            columns: Edge<'_>,
            shift: isize,
            sums: TileSums<'_>,
        ) {
            assert!(tile.len() >= 12 * 32 && rows.scales.len() >= 12 && rows.terms.len() >= 12);
            assert!(columns.scales.len() >= 32 && columns.terms.len() >= 32 && sums.columns.len() >= 32);
            // SAFETY: `assert!` has checked that all places are within the slices.
            unsafe {
                let load =
                    |values: &[f32]| [_mm512_loadu_ps(values.as_ptr()), _mm512_loadu_ps(values.as_ptr().add(16))];
                let (scales, terms) = (load(columns.scales), load(columns.terms));
                let mut by_column = [_mm512_setzero_ps(); 2];
                for (row, lanes) in sums.rows.iter_mut().enumerate() {
                    let scale = _mm512_set1_ps(*rows.scales.get_unchecked(row));
                    let term = _mm512_set1_ps(*rows.terms.get_unchecked(row));
                    let mut by_row = _mm512_loadu_ps(lanes.as_ptr());
                    for half in 0..2 {
                        let products = _mm512_loadu_ps(tile.as_ptr().add(32 * row + 16 * half));
                        let products = _mm512_mul_ps(products, scales[half]);
                        let mut values = exp2_512(_mm512_fmadd_ps(products, scale, _mm512_add_ps(term, terms[half])));
                        if TRIANGLE {
                            let first = (row as isize + shift + 1 - 16 * half as isize).clamp(0, 16);
                            values = _mm512_maskz_mov_ps((0xffff_u32 << first) as u16, values);
                        }
                        by_row = _mm512_add_ps(by_row, values);
                        by_column[half] = _mm512_add_ps(by_column[half], values);
                    }
                    _mm512_storeu_ps(lanes.as_mut_ptr(), by_row);
                }
                let at = sums.columns.as_mut_ptr();
                for (half, sum) in by_column.into_iter().enumerate() {
                    let parts = [_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps::<1>(sum)];
                    for (index, part) in parts.into_iter().enumerate() {
                        let at = at.add(16 * half + 8 * index);
                        _mm512_storeu_pd(at, _mm512_add_pd(_mm512_loadu_pd(at), _mm512_cvtps_pd(part)));
                    }
                }
            }
        }
    }

    /// AVX2, 6 × 16.
    pub(in super::super) struct Avx2;

    impl IntegerMicro for Avx2 {
        const ROWS: usize = 6;
        const COLUMNS: usize = 16;

        #[target_feature(enable = "avx2")]
        #[inline(never)]
        unsafe fn products<const FIRST: bool>(steps: usize, a: &[i32], b: &[i32], tile: &mut [f32]) {
            assert!(a.len() >= steps * 6 && b.len() >= steps * 16 && tile.len() >= 6 * 16);
            let (mut a, mut b, tile) = (a.as_ptr(), b.as_ptr(), tile.as_mut_ptr());
            let mut sums = [[_mm256_setzero_si256(); 2]; 6];
            for _ in 0..steps {
                // SAFETY, of both blocks: `assert!` has checked that all places are within the slices.
                unsafe {
                    let columns = [_mm256_loadu_si256(b.cast()), _mm256_loadu_si256(b.add(8).cast())];
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let value = _mm256_set1_epi32(*a.add(row));
                        sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(value, columns[0]));
                        sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(value, columns[1]));
                    }
                    (a, b) = (a.add(6), b.add(16));
                }
            }
            for (index, sum) in sums.as_flattened().iter().enumerate() {
                unsafe {
                    let (sum, at) = (_mm256_cvtepi32_ps(*sum), tile.add(8 * index));
                    _mm256_storeu_ps(at, if FIRST { sum } else { _mm256_add_ps(sum, _mm256_loadu_ps(at)) });
                }
            }
        }

        #[target_feature(enable = "avx2,fma")]
        #[inline(never)]
        unsafe fn finish<const TRIANGLE: bool>(
            tile: &[f32],
            rows: Edge<'_>,
            columns: Edge<'_>,
            shift: isize,
            sums: TileSums<'_>,
        ) {
            assert!(tile.len() >= 6 * 16 && rows.scales.len() >= 6 && rows.terms.len() >= 6);
            assert!(columns.scales.len() >= 16 && columns.terms.len() >= 16 && sums.columns.len() >= 16);
            // SAFETY: `assert!` has checked that all places are within the slices.
            unsafe {
                let load = |at: *const f32| [_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8))];
                let (scales, terms) = (load(columns.scales.as_ptr()), load(columns.terms.as_ptr()));
                let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let mut by_column = [_mm256_setzero_ps(); 2];
                for (row, lanes) in sums.rows.iter_mut().take(6).enumerate() {
                    let scale = _mm256_set1_ps(*rows.scales.get_unchecked(row));
                    let term = _mm256_set1_ps(*rows.terms.get_unchecked(row));
                    let products = load(tile.as_ptr().add(16 * row));
                    for half in 0..2 {
                        let product = _mm256_mul_ps(products[half], scales[half]);
                        let mut values = exp2_256(_mm256_fmadd_ps(product, scale, _mm256_add_ps(term, terms[half])));
                        if TRIANGLE {
                            let first = (row as isize + shift - 8 * half as isize).clamp(-1, 8) as i32;
                            let counts = _mm256_cmpgt_epi32(places, _mm256_set1_epi32(first));
                            values = _mm256_and_ps(values, _mm256_castsi256_ps(counts));
                        }
                        let lanes = lanes.as_mut_ptr().add(8 * half);
                        _mm256_storeu_ps(lanes, _mm256_add_ps(_mm256_loadu_ps(lanes), values));
                        by_column[half] = _mm256_add_ps(by_column[half], values);
                    }
                }
                let parts = by_column.map(|sum| [_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum)]);
                for (index, part) in parts.as_flattened().iter().enumerate() {
                    let at = sums.columns.as_mut_ptr().add(4 * index);
                    _mm256_storeu_pd(at, _mm256_add_pd(_mm256_loadu_pd(at), _mm256_cvtps_pd(*part)));
                }
            }
        }
    }
}
