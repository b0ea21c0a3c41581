//! Σ yᵢyⱼ over rows of 16-bit whole numbers, exact, for moments that merge. Which numbers those are is decided in `accumulate`.
//!
//! Processors multiply pairs of 16-bit integers and add the products to 32-bit sums, at about four times the rate of double precision.
//! By Cauchy–Schwarz, no 32-bit sum overflows over rows in which no column has a sum of squares of 2³¹ or more; sums over such
//! runs of rows are added in 64 bits.

use super::dispatch::Instructions;
use super::{Run, parallel};
use crate::error::Result;

/// Numbers of rows whose products are added in 32 bits: the first that fits. Two rows always do.
const RUN_ROWS: [usize; 3] = [256, 64, 16];
const LEAST_RUN_ROWS: usize = 2;
/// Tiles of the widest instructions: rows are columns of the left side.
const MAX_TILE: usize = 12 * 32;

/// The lower triangle of Σ yyᵀ, column by column. Values are from −32767 to 32767.
///
/// # Errors
/// If it is stopped.
pub(super) fn whole_products(
    threads: usize,
    instructions: Instructions,
    run: &Run,
    rows: &[i16],
    width: usize,
) -> Result<Vec<i64>> {
    debug_assert!(rows.iter().all(|&value| value != i16::MIN), "two products of such values leave 32 bits");
    let kernel = Kernel::of(instructions);
    let (height, across) = kernel.shape();
    let fit = |length: &usize| rows.chunks(length * width).all(|run| fits(run, width));
    let run_rows = RUN_ROWS.into_iter().find(fit).unwrap_or(LEAST_RUN_ROWS);
    let left = Panels::new(rows, width, height);
    let right = Panels::new(rows, width, across);
    let columns = parallel(threads, run.stop(), right.count(), |panel| {
        let from = panel * across;
        let until = (from + across).min(width);
        // Values of rows `from`.. in these columns.
        let mut sums = vec![0_i64; (until - from) * (width - from)];
        let mut tile = [0_i64; MAX_TILE];
        for top in from / height..left.count() {
            run.check()?;
            tile.fill(0);
            for first in (0..left.steps).step_by(run_rows / 2) {
                let steps = (run_rows / 2).min(left.steps - first);
                kernel.add(steps, left.steps_from(top, first), right.steps_from(panel, first), &mut tile);
            }
            for row in (top * height).max(from)..((top + 1) * height).min(width) {
                for column in from..until.min(row + 1) {
                    sums[(column - from) * (width - from) + row - from] =
                        tile[(row - top * height) * across + column - from];
                }
            }
        }
        Ok(sums)
    })?;
    let mut all = Vec::with_capacity(width * (width + 1) / 2);
    for (panel, sums) in columns.iter().enumerate() {
        let from = panel * across;
        for (column, values) in sums.chunks_exact(width - from).enumerate() {
            all.extend_from_slice(&values[column..]);
        }
    }
    Ok(all)
}

/// Whether no 32-bit sum of products over these rows overflows.
fn fits(rows: &[i16], width: usize) -> bool {
    let mut squares = vec![0_i64; width];
    for row in rows.chunks_exact(width) {
        squares.iter_mut().zip(row).for_each(|(sum, &value)| *sum += i64::from(i32::from(value) * i32::from(value)));
    }
    squares.iter().all(|&sum| sum < 1 << 31)
}

/// The columns of rows, side by side in panels: per pair of rows, both values of each column in 32 bits.
struct Panels {
    values: Vec<i32>,
    width: usize,
    steps: usize,
}

impl Panels {
    fn new(rows: &[i16], columns: usize, width: usize) -> Self {
        let steps = (rows.len() / columns).div_ceil(2);
        let count = columns.div_ceil(width);
        let mut values = vec![0_i32; count * steps * width];
        for (step, pair) in rows.chunks(2 * columns).enumerate() {
            let (first, second) = pair.split_at(columns);
            for panel in 0..count {
                let from = panel * width;
                let until = (from + width).min(columns);
                let into = &mut values[(panel * steps + step) * width..];
                for (value, &low) in into.iter_mut().zip(&first[from..until]) {
                    *value = i32::from(low) & 0xffff;
                }
                for (value, &high) in into.iter_mut().zip(second.get(from..until).unwrap_or_default()) {
                    *value |= i32::from(high) << 16;
                }
            }
        }
        Self { values, width, steps }
    }

    fn count(&self) -> usize {
        self.values.len() / (self.steps * self.width).max(1)
    }

    fn steps_from(&self, panel: usize, step: usize) -> &[i32] {
        &self.values[(panel * self.steps + step) * self.width..]
    }
}

/// The instructions of a tile.
#[derive(Clone, Copy)]
enum Kernel {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Kernel {
    fn of(instructions: Instructions) -> Self {
        match instructions {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 if is_x86_feature_detected!("avx512vnni") => Kernel::Vnni,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 | Instructions::Avx512 => Kernel::Avx2,
            _ => Kernel::Portable,
        }
    }

    /// Rows and columns of a tile.
    fn shape(self) -> (usize, usize) {
        match self {
            Kernel::Portable => (4, 8),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => (6, 16),
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni => (12, 32),
        }
    }

    /// Adds Σ a·b over pairs of rows to a tile, for `a` as `[step][rows]` and `b` as `[step][columns]`.
    fn add(self, steps: usize, a: &[i32], b: &[i32], tile: &mut [i64; MAX_TILE]) {
        match self {
            Kernel::Portable => portable(steps, a, b, tile),
            // SAFETY: `Kernel::of` has found the instructions.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { x86::avx2(steps, a, b, tile) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni => unsafe { x86::vnni(steps, a, b, tile) },
        }
    }
}

fn portable(steps: usize, a: &[i32], b: &[i32], tile: &mut [i64; MAX_TILE]) {
    let halves = |pair: i32| (i32::from(pair as i16), pair >> 16);
    for (a, b) in a.chunks_exact(4).zip(b.chunks_exact(8)).take(steps) {
        for (sums, &a) in tile.chunks_exact_mut(8).zip(a) {
            let a = halves(a);
            for (sum, &b) in sums.iter_mut().zip(b) {
                let b = halves(b);
                *sum += i64::from(a.0 * b.0 + a.1 * b.1);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::MAX_TILE;

    /// 12 × 32.
    #[target_feature(enable = "avx512f,avx512vnni")]
    #[inline(never)]
    pub(super) fn vnni(steps: usize, a: &[i32], b: &[i32], tile: &mut [i64; MAX_TILE]) {
        assert!(a.len() >= steps * 12 && b.len() >= steps * 32);
        let (mut a, mut b) = (a.as_ptr(), b.as_ptr());
        let mut sums = [[_mm512_setzero_si512(); 2]; 12];
        for _ in 0..steps {
            // SAFETY: `assert!` has checked that all places are within the slices.
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
        for (into, sum) in tile.chunks_exact_mut(16).zip(sums.as_flattened()) {
            let halves = [_mm512_castsi512_si256(*sum), _mm512_extracti64x4_epi64::<1>(*sum)];
            for (into, half) in into.chunks_exact_mut(8).zip(halves) {
                let at = into.as_mut_ptr().cast::<__m512i>();
                // SAFETY: a chunk has 8 places.
                unsafe {
                    let sum = _mm512_add_epi64(_mm512_loadu_si512(at), _mm512_cvtepi32_epi64(half));
                    _mm512_storeu_si512(at, sum);
                }
            }
        }
    }

    /// 6 × 16.
    #[target_feature(enable = "avx2")]
    #[inline(never)]
    pub(super) fn avx2(steps: usize, a: &[i32], b: &[i32], tile: &mut [i64; MAX_TILE]) {
        assert!(a.len() >= steps * 6 && b.len() >= steps * 16);
        let (mut a, mut b) = (a.as_ptr(), b.as_ptr());
        let mut sums = [[_mm256_setzero_si256(); 2]; 6];
        for _ in 0..steps {
            // SAFETY: `assert!` has checked that all places are within the slices.
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
        for (into, sum) in tile.chunks_exact_mut(8).zip(sums.as_flattened()) {
            let halves = [_mm256_castsi256_si128(*sum), _mm256_extracti128_si256::<1>(*sum)];
            for (into, half) in into.chunks_exact_mut(4).zip(halves) {
                let at = into.as_mut_ptr().cast::<__m256i>();
                // SAFETY: a chunk has 4 places.
                unsafe {
                    let sum = _mm256_add_epi64(_mm256_loadu_si256(at), _mm256_cvtepi32_epi64(half));
                    _mm256_storeu_si256(at, sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Stop;
    use super::*;
    use crate::random::Random;

    fn by_hand(rows: &[i16], width: usize) -> Vec<i64> {
        let mut all = Vec::new();
        for column in 0..width {
            for row in column..width {
                let products = rows.chunks_exact(width).map(|y| i64::from(y[row]) * i64::from(y[column]));
                all.push(products.sum());
            }
        }
        all
    }

    #[test]
    fn sums_are_exact_for_every_instruction_set_size_and_value() {
        let mut random = Random::seeded(3);
        let run = Run::new(Stop::default());
        for (count, width) in [(1, 1), (2, 33), (3, 12), (255, 31), (513, 65), (700, 100)] {
            // Small values add up in 32 bits; the largest ones must not.
            for largest in [3, 2000, 32_767] {
                let value = |random: &mut Random| random.below(2 * largest + 1) as i32 - largest as i32;
                let mut rows: Vec<i16> = (0..count * width).map(|_| value(&mut random) as i16).collect();
                if largest == 32_767 {
                    rows.iter_mut().step_by(width).for_each(|first| *first = 32_767);
                }
                let expected = by_hand(&rows, width);
                for instructions in Instructions::available() {
                    for threads in [1, 3] {
                        let found = whole_products(threads, instructions, &run, &rows, width).expect("no error");
                        assert_eq!(found, expected, "{count} × {width}, {largest}, {instructions:?}");
                    }
                }
            }
        }
    }
}
