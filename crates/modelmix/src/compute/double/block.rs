//! Kernel values of a block of pairs in double precision: products by faer, then distances, then the kernel.

use std::ops::Range;
use std::sync::Arc;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};

use super::super::dense::widen;
use super::super::dispatch::{Instructions, Job};
use super::super::lanes::Arithmetic;
use super::super::micro::Micro;
use super::super::squared_distance;
use crate::features::Rows;
use crate::kernel::{Geometry, Kernel};

/// A squared distance below this share of the squared norms has lost digits, and is recomputed from differences.
const MIN_RELATIVE_DISTANCE: f64 = 1e-4;

/// A set with its norms, relative to a centre that all sets of a call share.
pub(super) struct Side<'a> {
    pub(super) rows: Rows<'a>,
    squared_norms: Vec<f64>,
    centre: Option<Arc<[f64]>>,
}

/// All sets centred on their common mean, if the kernel depends on distances.
pub(super) fn sides<'a>(kernel: &Kernel, sets: &[Rows<'a>]) -> Vec<Side<'a>> {
    let centre: Option<Arc<[f64]>> = (kernel.geometry() == Geometry::SquaredDistance).then(|| {
        let mut sum = vec![0.0f64; sets[0].width()];
        for row in sets.iter().flat_map(Rows::iter) {
            sum.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        let count = sets.iter().map(Rows::len).sum::<usize>().max(1) as f64;
        sum.into_iter().map(|sum| sum / count).collect()
    });
    let zero = vec![0.0; sets[0].width()];
    let squared_norm = |row: &[f32]| squared_norm(row, centre.as_deref().unwrap_or(&zero));
    sets.iter()
        .map(|&rows| Side { rows, squared_norms: rows.iter().map(squared_norm).collect(), centre: centre.clone() })
        .collect()
}

/// ‖x − centre‖², in eight sums that a processor adds at once.
fn squared_norm(row: &[f32], centre: &[f64]) -> f64 {
    let (pieces, rest) = row.as_chunks::<8>();
    let (centres, rest_centre) = centre.as_chunks::<8>();
    let mut sums = [0.0f64; 8];
    for (piece, centre) in pieces.iter().zip(centres) {
        for lane in 0..8 {
            sums[lane] += (f64::from(piece[lane]) - centre[lane]).powi(2);
        }
    }
    let last: f64 = rest.iter().zip(rest_centre).map(|(&value, centre)| (f64::from(value) - centre).powi(2)).sum();
    sums.iter().sum::<f64>() + last
}

/// The memory of blocks with the same rows, which are widened once.
pub(super) struct Blocks<'a> {
    kernel: &'a Kernel,
    instructions: Instructions,
    x: &'a Side<'a>,
    rows: Range<usize>,
    wide_rows: Mat<f64>,
    wide_columns: Mat<f64>,
    products: Mat<f64>,
}

impl<'a> Blocks<'a> {
    /// For these rows of `x`, and at most `columns` columns at a time.
    pub(super) fn new(
        kernel: &'a Kernel,
        instructions: Instructions,
        x: &'a Side<'a>,
        rows: Range<usize>,
        columns: usize,
    ) -> Self {
        let width = x.rows.width();
        let mut wide_rows = Mat::zeros(width, rows.len());
        widen(x.rows.slice(rows.start, rows.end), x.centre.as_deref(), &mut wide_rows);
        let (wide_columns, products) = (Mat::zeros(width, columns), Mat::zeros(rows.len(), columns));
        Self { kernel, instructions, x, rows, wide_rows, wide_columns, products }
    }

    /// Calls `each(column, values by row)` for every column of a block.
    pub(super) fn values(&mut self, y: &Side<'_>, columns: Range<usize>, mut each: impl FnMut(usize, &[f64])) {
        let Self { kernel, instructions, x, rows, wide_rows, wide_columns, products } = self;
        widen(y.rows.slice(columns.start, columns.end), y.centre.as_deref(), wide_columns);
        matmul(
            products.as_mut().subcols_mut(0, columns.len()),
            Accum::Replace,
            wide_rows.transpose(),
            wide_columns.subcols(0, columns.len()),
            1.0,
            Par::Seq,
        );
        let norms = &x.squared_norms[rows.clone()];
        for column in 0..columns.len() {
            let y_norm = y.squared_norms[columns.start + column];
            let values = products.col_as_slice_mut(column);
            match kernel.geometry() {
                Geometry::Product => {}
                Geometry::Cosine => {
                    values.iter_mut().zip(norms).for_each(|(value, norm)| *value /= norm.sqrt() * y_norm.sqrt());
                }
                Geometry::SquaredDistance => {
                    let mut close = false;
                    for (value, norm) in values.iter_mut().zip(norms) {
                        *value = norm + y_norm - 2.0 * *value;
                        close |= *value < MIN_RELATIVE_DISTANCE * (norm + y_norm);
                    }
                    if close {
                        for (row, (value, norm)) in values.iter_mut().zip(norms).enumerate() {
                            if *value < MIN_RELATIVE_DISTANCE * (norm + y_norm) {
                                let pair = (x.rows.row(rows.start + row), y.rows.row(columns.start + column));
                                *value = squared_distance(pair.0, pair.1);
                            }
                        }
                    }
                }
            }
            match **kernel {
                Kernel::Gaussian { bandwidth } => {
                    instructions.run(Exponentials { factor: -0.5 / (bandwidth * bandwidth), values });
                }
                Kernel::Laplacian { bandwidth } => {
                    values.iter_mut().for_each(|value| *value = value.sqrt());
                    instructions.run(Exponentials { factor: -1.0 / bandwidth, values });
                }
                _ => values.iter_mut().for_each(|value| *value = kernel.of(*value)),
            }
            each(column, values);
        }
    }
}

/// Replaces every value by exp(factor · value). With the function of the C library, one value at a time, sums of rows of
/// width 64 took about 20 times as long.
pub(super) struct Exponentials<'a> {
    pub(super) factor: f64,
    pub(super) values: &'a mut [f64],
}

impl Job for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<M: Micro>(self) {
        self.values.iter_mut().for_each(|value| *value = exp::<M>(self.factor * *value));
    }
}

/// exp(x) for x < 700, within 2e-16 of the value plus 1e-307: below −708 it is 0. The Taylor polynomial of degree 13 on
/// [−½ ln 2, ½ ln 2], whose remainder is 4e-18; the integer part of x/ln 2 is added to the exponent bits.
#[inline(always)]
fn exp<A: Arithmetic>(x: f64) -> f64 {
    /// 1.5·2⁵²: adding it rounds to an integer, which is then in the low bits.
    const ROUNDING_SHIFT: f64 = 6_755_399_441_055_744.0;
    const SMALLEST: f64 = -708.0;
    /// ln 2 in two parts; the first has 33 bits, so that its product with the integer part is exact.
    const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
    /// 1/13!, …, 1/0!.
    const COEFFICIENTS: [f64; 14] = [
        1.605_904_383_682_161_3e-10,
        2.087_675_698_786_81e-9,
        2.505_210_838_544_172e-8,
        2.755_731_922_398_589e-7,
        2.755_731_922_398_589e-6,
        2.480_158_730_158_73e-5,
        1.984_126_984_126_984e-4,
        1.388_888_888_888_889e-3,
        8.333_333_333_333_333e-3,
        4.166_666_666_666_666_4e-2,
        1.666_666_666_666_666_6e-1,
        0.5,
        1.0,
        1.0,
    ];
    let fma = |a: f64, b: f64, c: f64| if A::FUSED { a.mul_add(b, c) } else { a * b + c };
    let clamped = if x > SMALLEST { x } else { SMALLEST };
    let shifted = fma(clamped, std::f64::consts::LOG2_E, ROUNDING_SHIFT);
    let integer = shifted - ROUNDING_SHIFT;
    let fraction = fma(integer, -LN_2[1], fma(integer, -LN_2[0], clamped));
    let mut p = COEFFICIENTS[0];
    for coefficient in &COEFFICIENTS[1..] {
        p = fma(p, fraction, *coefficient);
    }
    let power = f64::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 52));
    if x > SMALLEST { power } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{Exponentials, Instructions};

    #[test]
    fn exponentials_are_those_of_the_library() {
        let xs: Vec<f64> = (0..200_000).map(|index| 5.0 - 0.003_571 * f64::from(index)).chain([0.0, -0.0]).collect();
        for instructions in Instructions::available() {
            let mut values: Vec<f64> = xs.iter().map(|x| -2.0 * x).collect();
            instructions.run(Exponentials { factor: -0.5, values: &mut values });
            for (x, value) in xs.iter().zip(values) {
                let expected = x.exp();
                assert!(
                    (value - expected).abs() <= 3e-16 * expected + 1e-307,
                    "{instructions:?} {x} {value} {expected}"
                );
            }
        }
    }
}
