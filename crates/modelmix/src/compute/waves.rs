//! Sums over rows of cos 2πt and sin 2πt, with t = ω·(x − c), as whole numbers: each cosine and sine is rounded to a multiple of
//! 2⁻²¹ before it is added. Integers add up to the same bits in any order, so the sums do not depend on how rows are split among
//! blocks, threads or machines. Which frequencies and centres are used is decided in `fourier` and `accumulate`.

use super::dispatch::{Instructions, Job};
use super::lanes::{Arithmetic, fma};
use super::micro::Micro;
use super::{Run, parallel, reserve};
use crate::error::Result;
use crate::features::Rows;

/// The whole number that stands for 1.
pub(crate) const WAVE_UNIT: i64 = 1 << 21;

/// 1.5·2²³: adding it rounds to a whole number, which is then in the low bits.
const ROUNDING_SHIFT: f32 = 12_582_912.0;
/// sin 2πx on [−¼, ¼] by its Taylor series, the highest power first; the next term is below 1e-9.
const SINE: [f32; 7] = [3.819_952_6, -15.094_643, 42.058_693, -76.705_86, 81.605_25, -41.341_7, std::f32::consts::TAU];
/// Sums of this many values below 2²² do not leave 32 bits.
const ROWS_PER_FLUSH: usize = 512;
/// The largest register tile: rows are padded to a multiple of it.
const MAX_TILE_ROWS: usize = 12;
const MAX_TILE_COLUMNS: usize = 32;

/// Σ cos 2πω·(x − c) over the rows for each frequency, then Σ sin, in units of 1/[`WAVE_UNIT`].
///
/// `frequencies` has one row of the rows' width per frequency. On every processor with fused multiply-add, the result has the
/// same bits.
pub(super) fn wave_sums(
    threads: usize,
    instructions: Instructions,
    run: &Run,
    rows: Rows<'_>,
    centre: &[f32],
    frequencies: Rows<'_>,
) -> Result<Vec<i64>> {
    let (width, count) = (rows.width(), frequencies.len());
    assert!(centre.len() == width && frequencies.width() == width, "rows, centre and frequencies have one width");
    let padded = rows.len().next_multiple_of(MAX_TILE_ROWS);
    let mut centred: Vec<f32> = Vec::new();
    reserve(&mut centred, padded * width)?;
    for row in rows.iter() {
        centred.extend(row.iter().zip(centre).map(|(value, centre)| value - centre));
    }
    centred.resize(padded * width, 0.0);
    let panels = count.div_ceil(MAX_TILE_COLUMNS);
    let sums = parallel(threads, run.stop(), panels, |panel| {
        let first = panel * MAX_TILE_COLUMNS;
        let columns = frequencies.slice(first, (first + MAX_TILE_COLUMNS).min(count));
        Ok(instructions.run(Panel { rows: &centred, len: rows.len(), columns }))
    })?;
    let mut all = vec![0; 2 * count];
    for (panel, [cosines, sines]) in sums.into_iter().enumerate() {
        let first = panel * MAX_TILE_COLUMNS;
        let until = (first + MAX_TILE_COLUMNS).min(count);
        all[first..until].copy_from_slice(&cosines[..until - first]);
        all[count + first..count + until].copy_from_slice(&sines[..until - first]);
    }
    Ok(all)
}

/// All rows times some frequencies.
struct Panel<'a> {
    rows: &'a [f32],
    len: usize,
    columns: Rows<'a>,
}

impl Job for Panel<'_> {
    type Output = [[i64; MAX_TILE_COLUMNS]; 2];

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> Self::Output {
        let width = self.columns.width();
        let mut sums = [[0_i64; MAX_TILE_COLUMNS]; 2];
        let mut packed = vec![0.0_f32; width * M::COLUMNS];
        let mut tile = [0.0_f32; MAX_TILE_ROWS * MAX_TILE_COLUMNS];
        for left in (0..self.columns.len()).step_by(M::COLUMNS) {
            packed.fill(0.0);
            for column in left..(left + M::COLUMNS).min(self.columns.len()) {
                for (k, &value) in self.columns.row(column).iter().enumerate() {
                    packed[k * M::COLUMNS + column - left] = value;
                }
            }
            let mut partial = [[0_i32; MAX_TILE_COLUMNS]; 2];
            let mut unflushed = 0;
            for top in (0..self.len).step_by(M::ROWS) {
                let tile = &mut tile[..M::ROWS * M::COLUMNS];
                // SAFETY: the caller has enabled the instructions. Rows are padded to whole tiles.
                unsafe { M::accumulate::<false, true>(width, &self.rows[top * width..], width, &packed, tile) };
                let valid = M::ROWS.min(self.len - top);
                for turns in tile.chunks_exact(M::COLUMNS).take(valid) {
                    add_waves::<M>(turns, &mut partial);
                }
                unflushed += valid;
                if unflushed + M::ROWS > ROWS_PER_FLUSH {
                    flush(&mut partial, &mut sums, left);
                    unflushed = 0;
                }
            }
            flush(&mut partial, &mut sums, left);
        }
        sums
    }
}

#[inline(always)]
fn flush(partial: &mut [[i32; MAX_TILE_COLUMNS]; 2], sums: &mut [[i64; MAX_TILE_COLUMNS]; 2], left: usize) {
    for (partial, sums) in partial.iter_mut().zip(sums) {
        for (sum, part) in sums[left..].iter_mut().zip(partial.iter_mut()) {
            *sum += i64::from(*part);
            *part = 0;
        }
    }
}

/// Adds the rounded cosine and sine of each number of turns.
#[inline(always)]
fn add_waves<A: Arithmetic>(turns: &[f32], sums: &mut [[i32; MAX_TILE_COLUMNS]; 2]) {
    let [cosines, sines] = sums;
    for ((&turns, cosine), sine) in turns.iter().zip(cosines).zip(sines) {
        let (c, s) = wave::<A>(turns);
        *cosine += whole::<A>(c);
        *sine += whole::<A>(s);
    }
}

/// The nearest whole number of units of 1/[`WAVE_UNIT`].
#[inline(always)]
fn whole<A: Arithmetic>(value: f32) -> i32 {
    fma::<A>(value, WAVE_UNIT as f32, ROUNDING_SHIFT).to_bits() as i32 - ROUNDING_SHIFT.to_bits() as i32
}

/// cos 2πt and sin 2πt, accurate to 2e-7 plus the rounding of t.
#[inline(always)]
fn wave<A: Arithmetic>(turns: f32) -> (f32, f32) {
    let whole = (turns + ROUNDING_SHIFT) - ROUNDING_SHIFT;
    // In [−½, ½]; clamped, because numbers of turns above 2²² have no fraction. Unlike `clamp`, this maps NaN to a number.
    #[allow(clippy::manual_clamp, reason = "NaN must become a number")]
    let fraction = (turns - whole).max(-0.5).min(0.5);
    let distance = fraction.abs();
    let cosine = sine_of_turns::<A>(0.25 - distance);
    let sine = sine_of_turns::<A>(distance.min(0.5 - distance));
    (cosine, if fraction < 0.0 { -sine } else { sine })
}

/// sin 2πx for |x| ≤ ¼.
#[inline(always)]
fn sine_of_turns<A: Arithmetic>(x: f32) -> f32 {
    let square = x * x;
    let mut p = SINE[0];
    for coefficient in &SINE[1..] {
        p = fma::<A>(p, square, *coefficient);
    }
    p * x
}

#[cfg(test)]
mod tests {
    use super::super::Stop;
    use super::*;
    use crate::random::Random;

    fn rows(len: usize, width: usize, seed: u64) -> Vec<f32> {
        let mut random = Random::seeded(seed);
        (0..len * width).map(|_| random.normal() as f32).collect()
    }

    #[test]
    fn sums_are_those_of_double_precision() {
        let (len, width, count) = (701, 13, 45);
        let (x, w, centre) = (rows(len, width, 1), rows(count, width, 2), rows(1, width, 3));
        let run = Run::new(Stop::default());
        for instructions in Instructions::available() {
            let sums = wave_sums(2, instructions, &run, Rows::new(width, &x), &centre, Rows::new(width, &w))
                .expect("no error");
            for (at, frequency) in w.chunks_exact(width).enumerate() {
                let (mut cosine, mut sine) = (0.0, 0.0);
                for row in x.chunks_exact(width) {
                    let parts = row.iter().zip(&centre).zip(frequency);
                    let turns: f64 = parts.map(|((x, c), w)| f64::from(x - c) * f64::from(*w)).sum();
                    cosine += (std::f64::consts::TAU * turns).cos();
                    sine += (std::f64::consts::TAU * turns).sin();
                }
                // Rounding errors of some 5e-6 per row are independent.
                let found = [sums[at], sums[count + at]].map(|sum| sum as f64 / WAVE_UNIT as f64);
                assert!((found[0] - cosine).abs() < 1e-3 && (found[1] - sine).abs() < 1e-3, "{at}");
            }
        }
    }

    #[test]
    fn bits_do_not_depend_on_blocks_threads_or_instructions() {
        let (len, width, count) = (997, 21, 70);
        let (x, w, centre) = (rows(len, width, 4), rows(count, width, 5), rows(1, width, 6));
        let run = Run::new(Stop::default());
        let fused: Vec<Instructions> =
            Instructions::available().into_iter().filter(|&set| set != Instructions::Portable).collect();
        let sums = |instructions, threads, from: usize, until: usize| {
            let rows = Rows::new(width, &x).slice(from, until);
            wave_sums(threads, instructions, &run, rows, &centre, Rows::new(width, &w)).expect("no error")
        };
        let Some(&first) = fused.first() else { return };
        let whole = sums(first, 1, 0, len);
        for &instructions in &fused {
            for cut in [1, 5, 12, 511, 512, 996] {
                let mut parts = sums(instructions, 2, 0, cut);
                parts.iter_mut().zip(sums(instructions, 1, cut, len)).for_each(|(sum, more)| *sum += more);
                assert_eq!(parts, whole, "{instructions:?}, {cut}");
            }
        }
    }

    #[test]
    fn huge_numbers_of_turns_stay_in_range() {
        for turns in [1e7_f32, -3e9, f32::MAX, f32::INFINITY, f32::NAN] {
            let (cosine, sine) = wave::<super::super::micro::Portable>(turns);
            assert!(!(cosine.abs() > 1.000_001 || sine.abs() > 1.000_001), "{turns}");
        }
    }
}
