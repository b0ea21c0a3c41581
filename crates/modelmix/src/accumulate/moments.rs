//! Sums of values and of their products over rows, as whole numbers: values are rounded to multiples of a quantum first. Sums of
//! whole numbers do not depend on how rows are split or ordered.

use crate::compute::{Engine, Matrix};
use crate::error::{Error, Result};
use crate::features::Rows;

/// Rows whose products are summed at once: their 16-bit columns stay in the cache.
const ROWS_PER_BLOCK: usize = 1 << 12;
/// Rounded values of columns up to this size have 16 bits: 8 standard deviations.
const LARGEST_COLUMN: f64 = i16::MAX as f64;
/// Sums of products of values up to this size are exact in double precision over a block: 2²⁰·2²⁰·2¹² = 2⁵².
const LARGEST_WIDE: f64 = (1_u64 << 20) as f64;
/// Larger rounded values are summed one by one, up to this size.
const LARGEST: f64 = (1_u64 << 40) as f64;
/// Quanta per standard deviation of a column: rounding adds 2⁻²⁴/12 of the variance, which is subtracted.
pub(super) const QUANTA_PER_DEVIATION: f64 = 4096.0;
/// The variance that rounding to whole numbers adds, and the least variance, in squared quanta, from which it is subtracted: values
/// of columns with less may be few, with rounding errors that are no noise.
const ROUNDING_VARIANCE: f64 = 1.0 / 12.0;
const LEAST_CORRECTED_VARIANCE: f64 = 256.0;
/// Quanta per length of a row, for directions: products of such numbers are exact in double precision, and so are their sums over
/// a block, 2¹⁹·2¹⁹·2¹² = 2⁵⁰.
pub(super) const QUANTA_PER_LENGTH: f64 = (1_u64 << 19) as f64;

/// The nearest whole number, ties to even, for values far below 2⁵¹; larger ones become some other number as large.
fn rounded(value: f64) -> f64 {
    /// 1.5·2⁵²: adding it rounds to a whole number. Compilers have vector instructions for this, unlike for `round`.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    (value + SHIFT) - SHIFT
}

/// The largest absolute value, with eight partial ones, which vector instructions find.
fn largest(values: &[f64]) -> f64 {
    let mut most = [0.0_f64; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (most, value) in most.iter_mut().zip(chunk) {
            *most = if value.abs() > *most { value.abs() } else { *most };
        }
    }
    rest.iter().chain(&most).fold(0.0, |most: f64, value| most.max(value.abs()))
}

/// How rows are turned into whole numbers.
pub(super) enum Rounding<'a> {
    /// (x − centre) divided by the quantum of the column.
    Columns { centre: &'a [f32], quanta: &'a [f64] },
    /// x/‖x‖ in units of 2⁻¹⁹.
    Directions,
}

/// Σy and Σyyᵀ over rows of whole numbers y.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MomentSums {
    pub(super) sums: Vec<i128>,
    /// The lower triangle of Σyyᵀ, column by column.
    pub(super) products: Vec<i128>,
}

impl MomentSums {
    pub(super) fn new(width: usize) -> Self {
        Self { sums: vec![0; width], products: vec![0; width * (width + 1) / 2] }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, more)| *sum += more);
        self.products.iter_mut().zip(&other.products).for_each(|(sum, more)| *sum += more);
    }

    /// Adds rows.
    ///
    /// # Errors
    /// If a value is too far from the others to be summed, or a row without a direction; those of the engine.
    pub(super) fn add(&mut self, engine: &Engine, rows: Rows<'_>, rounding: &Rounding<'_>) -> Result<()> {
        match rounding {
            Rounding::Columns { centre, quanta } => self.add_columns(engine, rows, centre, quanta),
            Rounding::Directions => self.add_directions(engine, rows),
        }
    }

    fn add_columns(&mut self, engine: &Engine, rows: Rows<'_>, centre: &[f32], quanta: &[f64]) -> Result<()> {
        let width = rows.width();
        let per_quantum: Vec<f64> = quanta.iter().map(|quantum| 1.0 / quantum).collect();
        let mut whole = vec![0.0; width];
        let mut block: Vec<i16> = Vec::with_capacity(width * ROWS_PER_BLOCK.min(rows.len()));
        // Rows that are farther out.
        let mut wide: Vec<f32> = Vec::new();
        for first in (0..rows.len()).step_by(ROWS_PER_BLOCK) {
            block.clear();
            wide.clear();
            for at in first..(first + ROWS_PER_BLOCK).min(rows.len()) {
                for (value, ((x, centre), scale)) in
                    whole.iter_mut().zip(rows.row(at).iter().zip(centre).zip(&per_quantum))
                {
                    *value = rounded((f64::from(*x) - f64::from(*centre)) * scale);
                }
                let largest = largest(&whole);
                if largest <= LARGEST_COLUMN {
                    // Exact; through 32 bits, for which there are vector instructions.
                    block.extend(whole.iter().map(|&value| value as i32 as i16));
                } else if largest <= LARGEST_WIDE {
                    self.sums.iter_mut().zip(&whole).for_each(|(sum, &value)| *sum += value as i128);
                    wide.extend(whole.iter().map(|&value| value as f32));
                } else if largest <= LARGEST {
                    self.add_one(&whole);
                } else {
                    let problem = format!(
                        "a row has a value {:.1e} standard deviations from the middle of the sampled rows, too far to be summed; remove the row, or give another method",
                        largest / QUANTA_PER_DEVIATION
                    );
                    return Err(Error::Array { origin: "features".into(), problem });
                }
            }
            let mut partial = vec![0_i64; width];
            for row in block.chunks_exact(width) {
                partial.iter_mut().zip(row).for_each(|(sum, &value)| *sum += i64::from(value));
            }
            self.sums.iter_mut().zip(partial).for_each(|(sum, part)| *sum += i128::from(part));
            let products = engine.whole_products(&block, width)?;
            self.products.iter_mut().zip(products).for_each(|(sum, part)| *sum += i128::from(part));
            if !wide.is_empty() {
                self.add_scatter(engine, Rows::new(width, &wide))?;
            }
        }
        Ok(())
    }

    /// Adds products of whole numbers that are exact in double precision.
    fn add_scatter(&mut self, engine: &Engine, rows: Rows<'_>) -> Result<()> {
        let width = rows.width();
        let scatter = engine.scatter(rows, &vec![0.0; width], None)?;
        let mut at = 0;
        for column in 0..width {
            for value in &scatter.column(column)[column..] {
                self.products[at] += *value as i128;
                at += 1;
            }
        }
        Ok(())
    }

    fn add_directions(&mut self, engine: &Engine, rows: Rows<'_>) -> Result<()> {
        let width = rows.width();
        for first in (0..rows.len()).step_by(ROWS_PER_BLOCK) {
            let until = (first + ROWS_PER_BLOCK).min(rows.len());
            let mut block: Vec<f32> = Vec::with_capacity(width * (until - first));
            let mut partial = vec![0.0; width];
            for at in first..until {
                let row = rows.row(at);
                let length = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
                if length == 0.0 {
                    let problem = "a row is zero, and has no direction for the cosine kernel; remove the row";
                    return Err(Error::Array { origin: "features".into(), problem: problem.into() });
                }
                let scale = QUANTA_PER_LENGTH / length;
                for (sum, x) in partial.iter_mut().zip(row) {
                    let value = rounded(f64::from(*x) * scale);
                    *sum += value;
                    // Whole numbers up to 2²⁴ are exact in single precision.
                    block.push(value as f32);
                }
            }
            self.sums.iter_mut().zip(partial).for_each(|(sum, part)| *sum += part as i128);
            self.add_scatter(engine, Rows::new(width, &block))?;
        }
        Ok(())
    }

    fn add_one(&mut self, whole: &[f64]) {
        let whole: Vec<i128> = whole.iter().map(|&value| value as i128).collect();
        self.sums.iter_mut().zip(&whole).for_each(|(sum, value)| *sum += value);
        let mut at = 0;
        for (column, value) in whole.iter().enumerate() {
            for other in &whole[column..] {
                self.products[at] += value * other;
                at += 1;
            }
        }
    }

    /// Σyyᵀ − Σy Σyᵀ/n, in quanta: exact until it is rounded once, and without the variance that rounding to quanta has added.
    pub(super) fn scatter(&self, count: u64) -> Matrix {
        let n = count as f64;
        let width = self.sums.len();
        let means: Vec<f64> = self.sums.iter().map(|&sum| sum as f64 / n).collect();
        // Σ(y − ȳ)(z − z̄) = Σ(y − a)(z − b) − n(ȳ − a)(z̄ − b) with whole numbers a, b near the means, so that nothing cancels.
        let near: Vec<i128> = means.iter().map(|mean| mean.round_ties_even() as i128).collect();
        let mut scatter = Matrix::zeros(width, width);
        let mut at = 0;
        for column in 0..width {
            for row in column..width {
                let (a, b) = (near[row], near[column]);
                let about = self.products[at] - a * self.sums[column] - b * self.sums[row] + a * b * i128::from(count);
                let (da, db) = (means[row] - a as f64, means[column] - b as f64);
                let mut value = about as f64 - n * da * db;
                if row == column && value >= LEAST_CORRECTED_VARIANCE * n {
                    value -= ROUNDING_VARIANCE * n;
                }
                *scatter.at_mut(row, column) = value;
                *scatter.at_mut(column, row) = value;
                at += 1;
            }
        }
        scatter
    }

    /// Σyyᵀ, in squared quanta.
    pub(super) fn second_moment(&self) -> Matrix {
        let width = self.sums.len();
        let mut matrix = Matrix::zeros(width, width);
        let mut at = 0;
        for column in 0..width {
            for row in column..width {
                *matrix.at_mut(row, column) = self.products[at] as f64;
                *matrix.at_mut(column, row) = self.products[at] as f64;
                at += 1;
            }
        }
        matrix
    }
}
