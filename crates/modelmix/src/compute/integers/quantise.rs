//! Rows as 16-bit integers: the centre of their set is subtracted, and every row has a scale of its own.
//!
//! A scale is as large as possible, so that no value leaves 16 bits and no sum of products over one part of the columns
//! leaves 32 bits: by Cauchy–Schwarz, if the norm of each part is at most √2³¹ less what rounding can add to it.

use crate::compute::dispatch::Job;
use crate::compute::micro;
use crate::features::Rows;

/// The maximum number of columns whose products are summed in integers. Shorter parts allow larger scales.
const MAX_PART_COLUMNS: usize = 256;
/// 1.5·2²³: adding it to a number below 2²² rounds that to an integer, which is then in the low bits.
const ROUNDING_SHIFT: f32 = 12_582_912.0;

/// Pairs of columns of a row.
pub(super) fn pairs(width: usize) -> usize {
    width.div_ceil(2)
}

/// Pairs of columns of a part; parts are of equal size.
pub(super) fn part_pairs(width: usize) -> usize {
    pairs(width).div_ceil(width.div_ceil(MAX_PART_COLUMNS))
}

/// What is known of a row before it becomes integers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    /// ‖x − c‖².
    pub(super) squared_norm: f64,
    /// What the row is multiplied by before it is rounded.
    pub(super) scale: f32,
    /// The squared norm of what rounding takes away, in units of the features.
    pub(super) squared_residual: f64,
}

/// Measures rows of a set, and their terms for every set: ‖x − c‖² + 2(x − c)·Δ + ‖Δ‖²/2, with Δ the difference between
/// the centre of the own set and that of the other.
pub(super) struct Measure<'a> {
    pub(super) rows: Rows<'a>,
    pub(super) centre: &'a [f32],
    /// Δ and ‖Δ‖² for every set.
    pub(super) shifts: &'a [(Vec<f32>, f64)],
}

impl Job for Measure<'_> {
    type Output = (Vec<Measured>, Vec<f64>);

    #[inline(always)]
    unsafe fn run<M: micro::Micro>(self) -> Self::Output {
        let width = self.rows.width();
        let mut values = vec![0.0; width];
        let mut terms = Vec::with_capacity(self.rows.len() * self.shifts.len());
        let measured = self.rows.iter().map(|row| {
            for ((value, x), c) in values.iter_mut().zip(row).zip(self.centre) {
                *value = x - c;
            }
            let measured = measure(&values, 2 * part_pairs(width));
            terms.extend(self.shifts.iter().map(|(shift, squared)| {
                let along = if *squared > 0.0 { product(&values, shift) } else { 0.0 };
                measured.squared_norm + 2.0 * along + squared / 2.0
            }));
            measured
        });
        (measured.collect(), terms)
    }
}

#[inline(always)]
fn measure(values: &[f32], part: usize) -> Measured {
    let (mut squared_norm, mut largest_part) = (0.0f64, 0.0f64);
    for part in values.chunks(part) {
        let squared = product(part, part);
        squared_norm += squared;
        largest_part = largest_part.max(squared);
    }
    let largest = largest(values);
    // √2³¹, less what rounding can add: half a unit per value.
    let most = 46_340.0 - (part as f64).sqrt() / 2.0;
    let scale = (most / largest_part.sqrt()).min(32_767.0 / f64::from(largest)).min(1e30);
    let scale = (scale * (1.0 - 1e-6)) as f32;
    let squared_residual = residual(values, scale) / f64::from(scale).powi(2);
    Measured { squared_norm, scale, squared_residual }
}

#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = lane.max(value.abs());
        }
    }
    lanes.iter().chain(rest).fold(0.0, |most, value| most.max(value.abs()))
}

/// Σab in double precision.
#[inline(always)]
fn product(a: &[f32], b: &[f32]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let mut lanes = [0.0f64; 16];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..16 {
            lanes[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
    lanes.iter().sum::<f64>() + rest
}

/// The squared norm of what rounding takes away, in units of integers.
#[inline(always)]
fn residual(values: &[f32], scale: f32) -> f64 {
    let (chunks, rest) = values.as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    let left = |value: f32| {
        let scaled = value * scale;
        scaled - ((scaled + ROUNDING_SHIFT) - ROUNDING_SHIFT)
    };
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += left(value) * left(value);
        }
    }
    let rest: f64 = rest.iter().map(|&value| f64::from(left(value)).powi(2)).sum();
    lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>() + rest
}

/// Writes rows as panels of `WIDTH` rows, pair by pair: `[panel][pair][WIDTH]`. What is beyond the rows in the last panel is
/// arbitrary. `GROUP` rows are transposed at once; it divides `WIDTH`.
#[inline(always)]
pub(super) fn pack<const WIDTH: usize, const GROUP: usize>(
    rows: Rows<'_>,
    centre: &[f32],
    scales: &[f32],
    integers: &mut Vec<i32>,
    out: &mut [i32],
) {
    let steps = pairs(rows.width());
    // Zeros after the last column of an odd width.
    integers.clear();
    integers.resize(GROUP * steps, 0);
    for first in (0..rows.len()).step_by(GROUP) {
        let count = GROUP.min(rows.len() - first);
        for (index, integers) in integers.chunks_exact_mut(steps).enumerate().take(count) {
            round(rows.row(first + index), centre, scales[first + index], bytemuck::cast_slice_mut(integers));
        }
        let panel = &mut out[first / WIDTH * WIDTH * steps..][..WIDTH * steps];
        transpose::<WIDTH, GROUP>(integers, steps, first % WIDTH, panel);
    }
}

#[inline(always)]
fn round(row: &[f32], centre: &[f32], scale: f32, out: &mut [i16]) {
    for ((out, x), c) in out.iter_mut().zip(row).zip(centre) {
        *out = ((x - c) * scale + ROUNDING_SHIFT).to_bits() as i16;
    }
}

/// `GROUP` rows of `steps` pairs as columns of a panel, from this column on.
#[inline(always)]
fn transpose<const WIDTH: usize, const GROUP: usize>(rows: &[i32], steps: usize, column: usize, panel: &mut [i32]) {
    const STEPS_AT_ONCE: usize = 8;
    let whole = steps / STEPS_AT_ONCE * STEPS_AT_ONCE;
    let lines = panel[..whole * WIDTH].chunks_exact_mut(STEPS_AT_ONCE * WIDTH);
    for (index, lines) in lines.enumerate() {
        let block: [[i32; STEPS_AT_ONCE]; GROUP] = std::array::from_fn(|row| {
            let start = row * steps + index * STEPS_AT_ONCE;
            rows[start..start + STEPS_AT_ONCE].try_into().expect("a whole block")
        });
        for (step, line) in lines.chunks_exact_mut(WIDTH).enumerate() {
            let values: [i32; GROUP] = std::array::from_fn(|row| block[row][step]);
            line[column..column + GROUP].copy_from_slice(&values);
        }
    }
    for (step, line) in panel.chunks_exact_mut(WIDTH).enumerate().skip(whole) {
        for row in 0..GROUP {
            line[column + row] = rows[row * steps + step];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{measure, part_pairs, round};

    /// Rows whose integers are as large as they may be: equal values, single large values, and in between.
    fn extreme_rows(width: usize) -> Vec<Vec<f32>> {
        let sign = |column: usize| if column.is_multiple_of(3) { -1.0 } else { 1.0 };
        vec![
            vec![1.0; width],
            (0..width).map(sign).collect(),
            (0..width).map(|column| if column == width / 2 { -7.0 } else { 0.0 }).collect(),
            (0..width).map(|column| if column % 2 == 0 { 3.0 } else { 1e-3 }).collect(),
            (0..width).map(|column| (column as f32 + 1.0).recip()).collect(),
            (0..width).map(|column| 1e-20 * (1.0 + column as f32)).collect(),
            (0..width).map(|column| sign(column) * 1e15).collect(),
        ]
    }

    fn integers(values: &[f32]) -> Vec<i16> {
        let mut integers = vec![0; values.len()];
        let scale = measure(values, 2 * part_pairs(values.len())).scale;
        round(values, &vec![0.0; values.len()], scale, &mut integers);
        integers
    }

    #[test]
    fn no_sum_over_a_part_leaves_32_bits() {
        let mut largest = 0;
        for width in [32, 33, 64, 255, 256, 257, 512, 1000, 2049] {
            let rows: Vec<Vec<i16>> = extreme_rows(width).iter().map(|row| integers(row)).collect();
            for (a, b) in rows.iter().flat_map(|a| rows.iter().map(move |b| (a, b))) {
                let part = 2 * part_pairs(width);
                for (a, b) in a.chunks(part).zip(b.chunks(part)) {
                    // Every partial sum is at most the sum of absolute values.
                    let sum: i64 = a.iter().zip(b).map(|(&a, &b)| (i64::from(a) * i64::from(b)).abs()).sum();
                    assert!(sum <= i64::from(i32::MAX), "width {width}: {sum}");
                    largest = largest.max(sum);
                }
            }
        }
        // Scales leave nothing unused.
        assert!(largest > i64::from(i32::MAX) / 10 * 9, "{largest}");
    }

    #[test]
    fn integers_are_values_to_half_a_unit() {
        for width in [32, 257, 1000] {
            for values in extreme_rows(width) {
                let measured = measure(&values, 2 * part_pairs(width));
                let scale = f64::from(measured.scale);
                let left = values.iter().zip(integers(&values)).map(|(&value, integer)| {
                    let left = f64::from(value) * scale - f64::from(integer);
                    assert!(left.abs() <= 0.5 + 1e-2, "{value} × {scale} became {integer}");
                    left * left
                });
                let residual = left.sum::<f64>() / scale.powi(2);
                let squared: f64 = values.iter().map(|&value| f64::from(value).powi(2)).sum();
                assert!((measured.squared_norm / squared - 1.0).abs() < 1e-12);
                assert!((measured.squared_residual - residual).abs() <= 1e-3 * residual + 1e-12 * squared);
            }
        }
    }

    /// A row equal to its centre has no scale of its own.
    #[test]
    fn zeros_stay_zeros() {
        let measured = measure(&[0.0; 40], 40);
        assert!(measured.scale.is_finite() && measured.squared_residual == 0.0);
        assert_eq!(integers(&[0.0; 40]), [0; 40]);
    }
}
