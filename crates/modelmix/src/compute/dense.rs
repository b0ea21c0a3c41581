//! Dense matrices in double precision: products, scatter matrices of rows, eigenvalues, factors. A thin wall around faer;
//! threads share pieces that are cut by sizes alone, so that their number does not show in the results.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt_pivoting;
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatRef, Par, Side};

use super::{Run, parallel};
use crate::error::Result;
use crate::features::Rows;

/// Columns of a result that one task computes.
const COLUMNS_PER_TASK: usize = 256;
/// Side of the pieces of a scatter matrix.
const SCATTER_PIECE_SIDE: usize = 512;
/// Rows that are widened to double precision at a time.
const ROWS_PER_CHUNK: usize = 256;
/// Rows of one task where the scatter matrix has few pieces.
const ROWS_PER_TASK: usize = 4096;

/// A dense matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix(Mat<f64>);

/// One side of a matrix product.
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a> {
    /// The matrix.
    pub matrix: &'a Matrix,
    /// Whether its transpose is meant.
    pub transposed: bool,
}

impl<'a> From<&'a Matrix> for Factor<'a> {
    fn from(matrix: &'a Matrix) -> Self {
        Self { matrix, transposed: false }
    }
}

impl<'a> Factor<'a> {
    fn view(self) -> MatRef<'a, f64> {
        if self.transposed { self.matrix.0.transpose() } else { self.matrix.0.as_ref() }
    }
}

/// A symmetric matrix as UΛUᵀ.
#[derive(Clone, Debug)]
pub struct Eigen {
    /// Λ, ascending.
    pub values: Vec<f64>,
    /// U, a column a value.
    pub vectors: Matrix,
}

impl Matrix {
    /// All zeros.
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self(Mat::zeros(rows, columns))
    }

    /// From its entries.
    pub fn from_fn(rows: usize, columns: usize, entry: impl FnMut(usize, usize) -> f64) -> Self {
        Self(Mat::from_fn(rows, columns, entry))
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.0.nrows()
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.0.ncols()
    }

    /// An entry.
    #[inline]
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.0[(row, column)]
    }

    /// An entry, to be changed.
    #[inline]
    pub fn at_mut(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.0[(row, column)]
    }

    /// A column.
    pub fn column(&self, column: usize) -> &[f64] {
        self.0.col_as_slice(column)
    }

    /// A column, to be changed.
    pub fn column_mut(&mut self, column: usize) -> &mut [f64] {
        self.0.col_as_slice_mut(column)
    }

    /// Adds `factor` · `other`.
    pub fn add(&mut self, factor: f64, other: &Matrix) {
        for column in 0..self.columns() {
            let more = other.column(column);
            self.column_mut(column).iter_mut().zip(more).for_each(|(value, more)| *value += factor * more);
        }
    }

    /// Adds `factor` · x yᵀ.
    pub fn add_outer(&mut self, factor: f64, x: &[f64], y: &[f64]) {
        for (column, &y) in y.iter().enumerate() {
            self.column_mut(column).iter_mut().zip(x).for_each(|(value, &x)| *value += factor * x * y);
        }
    }

    /// Multiplies every entry.
    pub fn scale(&mut self, factor: f64) {
        for column in 0..self.columns() {
            self.column_mut(column).iter_mut().for_each(|value| *value *= factor);
        }
    }

    /// The sum of the diagonal.
    pub fn trace(&self) -> f64 {
        (0..self.rows().min(self.columns())).map(|index| self.at(index, index)).sum()
    }

    /// The sum of products of entries, tr(AᵀB).
    pub fn inner(&self, other: &Matrix) -> f64 {
        let product = |column| self.column(column).iter().zip(other.column(column)).map(|(a, b)| a * b).sum::<f64>();
        (0..self.columns()).map(product).sum()
    }

    /// A·x.
    pub fn apply(&self, x: &[f64]) -> Vec<f64> {
        let mut result = vec![0.0; self.rows()];
        for (column, &factor) in x.iter().enumerate() {
            result.iter_mut().zip(self.column(column)).for_each(|(sum, value)| *sum += factor * value);
        }
        result
    }

    /// Aᵀ·x.
    pub fn apply_transposed(&self, x: &[f64]) -> Vec<f64> {
        (0..self.columns()).map(|column| self.column(column).iter().zip(x).map(|(a, b)| a * b).sum()).collect()
    }

    /// A·B, on this thread.
    pub(crate) fn times(&self, other: &Matrix) -> Matrix {
        let mut product = Mat::zeros(self.rows(), other.columns());
        matmul(product.as_mut(), Accum::Replace, self.0.as_ref(), other.0.as_ref(), 1.0, Par::Seq);
        Matrix(product)
    }

    /// Aᵀ·B, on this thread.
    pub(crate) fn transposed_times(&self, other: &Matrix) -> Matrix {
        let mut product = Mat::zeros(self.columns(), other.columns());
        matmul(product.as_mut(), Accum::Replace, self.0.transpose(), other.0.as_ref(), 1.0, Par::Seq);
        Matrix(product)
    }

    /// Aᵀ, as one side of [`Engine::product`](super::Engine::product).
    pub fn transposed(&self) -> Factor<'_> {
        Factor { matrix: self, transposed: true }
    }

    /// Eigenvalues of a symmetric matrix, ascending; its lower triangle is read.
    ///
    /// # Panics
    /// Where the iteration does not end, which needs entries that are not finite.
    pub fn eigenvalues(&self) -> Vec<f64> {
        if self.rows() == 0 {
            return Vec::new();
        }
        self.0.self_adjoint_eigenvalues(Side::Lower).expect("a finite symmetric matrix has eigenvalues")
    }

    /// Eigenvalues and eigenvectors of a symmetric matrix; its lower triangle is read.
    ///
    /// # Panics
    /// As [`Matrix::eigenvalues`].
    pub fn eigen(&self) -> Eigen {
        if self.rows() == 0 {
            return Eigen { values: Vec::new(), vectors: Matrix::zeros(0, 0) };
        }
        let eigen = self.0.self_adjoint_eigen(Side::Lower).expect("a finite symmetric matrix has eigenvalues");
        Eigen { values: eigen.S().column_vector().iter().copied().collect(), vectors: Matrix(eigen.U().to_owned()) }
    }

    /// L with L·Lᵀ = A for a positive semidefinite matrix, by Cholesky's method with pivots: as many columns as A has rank, up
    /// to rounding. The lower triangle is read.
    ///
    /// # Panics
    /// Where an entry of the diagonal is negative or not a number.
    pub fn factor(&self) -> Matrix {
        let size = self.rows();
        if (0..size).all(|index| self.at(index, index) == 0.0) {
            return Matrix::zeros(size, 0);
        }
        let mut lower = self.0.clone();
        let (mut order, mut inverse) = (vec![0usize; size], vec![0usize; size]);
        let parameters = Default::default();
        let mut memory =
            MemBuffer::new(llt_pivoting::factor::cholesky_in_place_scratch::<usize, f64>(size, Par::Seq, parameters));
        let stack = MemStack::new(&mut memory);
        let (info, permutation) = llt_pivoting::factor::cholesky_in_place(
            lower.as_mut(),
            &mut order,
            &mut inverse,
            Par::Seq,
            stack,
            parameters,
        )
        .expect("the diagonal of a positive semidefinite matrix is not negative");
        let rows = permutation.arrays().0;
        let mut factor = Matrix::zeros(size, info.rank);
        for column in 0..info.rank {
            for row in column..size {
                *factor.at_mut(rows[row], column) = lower[(row, column)];
            }
        }
        factor
    }
}

/// Below this an eigenvalue of a positive semidefinite matrix is rounding.
pub fn negligible(eigenvalues: &[f64]) -> f64 {
    let largest = eigenvalues.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    eigenvalues.len() as f64 * f64::EPSILON * largest
}

/// A·B, one panel of columns per task.
pub(super) fn product(threads: usize, run: &Run, a: Factor<'_>, b: Factor<'_>) -> Result<Matrix> {
    let (a, b) = (a.view(), b.view());
    let panels = parallel(threads, run.stop(), b.ncols().div_ceil(COLUMNS_PER_TASK), |index| {
        let first = index * COLUMNS_PER_TASK;
        let b = b.subcols(first, COLUMNS_PER_TASK.min(b.ncols() - first));
        let mut panel = Mat::zeros(a.nrows(), b.ncols());
        matmul(panel.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
        Ok(panel)
    })?;
    let mut result = Matrix::zeros(a.nrows(), b.ncols());
    for (index, panel) in panels.iter().enumerate() {
        for column in 0..panel.ncols() {
            result.column_mut(index * COLUMNS_PER_TASK + column).copy_from_slice(panel.col_as_slice(column));
        }
    }
    Ok(result)
}

/// The mean of rows.
pub(super) fn mean(run: &Run, rows: Rows<'_>) -> Result<Vec<f64>> {
    run.check()?;
    let mut mean = vec![0.0; rows.width()];
    for row in rows.iter() {
        mean.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
    }
    mean.iter_mut().for_each(|sum| *sum /= rows.len() as f64);
    Ok(mean)
}

/// Σₖ wₖ (uₖ·(x − centre))² of every row, uₖ the columns of `directions`.
pub(super) fn projections(
    threads: usize,
    run: &Run,
    rows: Rows<'_>,
    centre: &[f64],
    directions: &Matrix,
    weights: &[f64],
) -> Result<Vec<f64>> {
    let parts = parallel(threads, run.stop(), rows.len().div_ceil(ROWS_PER_CHUNK), |index| {
        let rows = rows.slice(index * ROWS_PER_CHUNK, ((index + 1) * ROWS_PER_CHUNK).min(rows.len()));
        let mut away = Mat::zeros(rows.width(), rows.len());
        widen(rows, Some(centre), &mut away);
        let mut along = Mat::zeros(directions.columns(), rows.len());
        matmul(along.as_mut(), Accum::Replace, directions.0.transpose(), away.as_ref(), 1.0, Par::Seq);
        let form = |row: usize| -> f64 {
            along.col_as_slice(row).iter().zip(weights).map(|(along, weight)| weight * along * along).sum()
        };
        Ok((0..rows.len()).map(form).collect::<Vec<f64>>())
    })?;
    Ok(parts.concat())
}

/// Σ w (x − centre)(x − centre)ᵀ over rows, w ≥ 0, up to the rounding of double precision. Both triangles are filled.
pub(super) fn scatter(
    threads: usize,
    run: &Run,
    rows: Rows<'_>,
    centre: &[f64],
    weights: Option<&[f64]>,
) -> Result<Matrix> {
    let width = rows.width();
    let pieces: Vec<(usize, usize)> =
        (0..width.div_ceil(SCATTER_PIECE_SIDE)).flat_map(|i| (0..=i).map(move |j| (i, j))).collect();
    // A large matrix has pieces enough to share; a small one is computed of rows in parts.
    let part = if pieces.len() >= 6 { rows.len() } else { ROWS_PER_TASK };
    let tasks: Vec<(usize, usize, usize)> = (0..rows.len())
        .step_by(part.max(1))
        .flat_map(|first| pieces.iter().map(move |&(i, j)| (first, i, j)))
        .collect();
    let mut result = Matrix::zeros(width, width);
    // In waves, so that few results are held at a time.
    for wave in tasks.chunks(4 * threads) {
        let sums = parallel(threads, run.stop(), wave.len(), |task| {
            let (first, i, j) = wave[task];
            let until = (first + part).min(rows.len());
            scatter_piece(run, rows, centre, weights, first..until, i * SCATTER_PIECE_SIDE, j * SCATTER_PIECE_SIDE)
        })?;
        for (&(_, i, j), sum) in wave.iter().zip(sums) {
            for column in 0..sum.ncols() {
                let into =
                    &mut result.column_mut(j * SCATTER_PIECE_SIDE + column)[i * SCATTER_PIECE_SIDE..][..sum.nrows()];
                into.iter_mut().zip(sum.col_as_slice(column)).for_each(|(value, more)| *value += more);
            }
        }
    }
    for column in 0..width {
        for row in 0..column {
            *result.at_mut(row, column) = result.at(column, row);
        }
    }
    Ok(result)
}

/// A piece of the scatter matrix over some rows; on the diagonal its lower triangle.
fn scatter_piece(
    run: &Run,
    rows: Rows<'_>,
    centre: &[f64],
    weights: Option<&[f64]>,
    range: std::ops::Range<usize>,
    top: usize,
    left: usize,
) -> Result<Mat<f64>> {
    let height = SCATTER_PIECE_SIDE.min(rows.width() - top);
    let across = SCATTER_PIECE_SIDE.min(rows.width() - left);
    let mut sum = Mat::zeros(height, across);
    let mut a = Mat::zeros(height, ROWS_PER_CHUNK);
    // On the diagonal both sides are the same.
    let mut b = Mat::zeros(if top == left { 0 } else { across }, ROWS_PER_CHUNK);
    for first in range.clone().step_by(ROWS_PER_CHUNK) {
        run.check()?;
        let count = ROWS_PER_CHUNK.min(range.end - first);
        for index in 0..count {
            let row = rows.row(first + index);
            let factor = weights.map_or(1.0, |weights| weights[first + index].sqrt());
            let part = |from: usize, into: &mut [f64]| {
                for (value, (&x, &centre)) in into.iter_mut().zip(row[from..].iter().zip(&centre[from..])) {
                    *value = factor * (f64::from(x) - centre);
                }
            };
            part(top, a.col_as_slice_mut(index));
            part(left, b.col_as_slice_mut(index));
        }
        let a = a.subcols(0, count);
        let b = if top == left { a } else { b.subcols(0, count) };
        if top == left {
            triangular::matmul(
                sum.as_mut(),
                BlockStructure::TriangularLower,
                Accum::Add,
                a,
                BlockStructure::Rectangular,
                b.transpose(),
                BlockStructure::Rectangular,
                1.0,
                Par::Seq,
            );
        } else {
            matmul(sum.as_mut(), Accum::Add, a, b.transpose(), 1.0, Par::Seq);
        }
    }
    Ok(sum)
}

/// Rows in double precision, about a centre: a column a row.
pub(super) fn widen(rows: Rows<'_>, centre: Option<&[f64]>, into: &mut Mat<f64>) {
    for (index, row) in rows.iter().enumerate() {
        let column = into.col_as_slice_mut(index);
        match centre {
            None => column.iter_mut().zip(row).for_each(|(value, &x)| *value = f64::from(x)),
            Some(centre) => {
                column.iter_mut().zip(row.iter().zip(centre)).for_each(|(value, (&x, c))| *value = f64::from(x) - c);
            }
        }
    }
}
