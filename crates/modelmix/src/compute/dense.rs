//! Dense matrices in double precision: products, scatter matrices of rows, eigenvalues, factors. A thin layer over
//! faer. Threads share pieces that depend only on sizes, so results do not depend on the number of threads.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt_pivoting;
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatRef, Par, Side};

use super::{Run, parallel, spectrum};
use crate::error::Result;
use crate::features::Rows;

/// The number of rows from which eigenvalues are computed by way of a band; smaller matrices stay in the cache.
const MIN_ROWS_FOR_BANDS: usize = 600;
/// The number of columns of a result per task.
const COLUMNS_PER_TASK: usize = 256;
/// The side of the pieces of a scatter matrix.
const SCATTER_PIECE_SIDE: usize = 512;
/// The number of rows that are converted to double precision at once.
const ROWS_PER_CHUNK: usize = 256;
/// The number of rows per task if the scatter matrix has few pieces.
const ROWS_PER_TASK: usize = 4096;

/// A dense matrix in double precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix(Mat<f64>);

/// One side of a matrix product.
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a> {
    /// The matrix.
    pub matrix: &'a Matrix,
    /// Whether to use its transpose.
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
    /// U, one column per eigenvalue.
    pub vectors: Matrix,
}

impl Matrix {
    /// The matrix of zeros.
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self(Mat::zeros(rows, columns))
    }

    /// Creates a matrix from a function of row and column.
    pub fn from_fn(rows: usize, columns: usize, entry: impl FnMut(usize, usize) -> f64) -> Self {
        Self(Mat::from_fn(rows, columns, entry))
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.0.nrows()
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.0.ncols()
    }

    /// An entry.
    #[inline]
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.0[(row, column)]
    }

    /// A mutable entry.
    #[inline]
    pub fn at_mut(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.0[(row, column)]
    }

    /// A column.
    pub fn column(&self, column: usize) -> &[f64] {
        self.0.col_as_slice(column)
    }

    /// A mutable column.
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

    /// Multiplies every entry by `factor`.
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

    /// Eigenvalues of a symmetric matrix, ascending; only its lower triangle is read.
    ///
    /// # Panics
    /// If the iteration does not converge, which requires entries that are not finite.
    pub fn eigenvalues(&self) -> Vec<f64> {
        if self.rows() == 0 {
            return Vec::new();
        }
        if self.rows() >= MIN_ROWS_FOR_BANDS {
            return spectrum::eigenvalues(self.0.as_ref());
        }
        self.0.self_adjoint_eigenvalues(Side::Lower).expect("a finite symmetric matrix has eigenvalues")
    }

    /// Eigenvalues and eigenvectors of a symmetric matrix; only its lower triangle is read.
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

    /// L with L·Lᵀ = A for a positive semidefinite matrix, by pivoted Cholesky factorization; the number of columns is
    /// the rank of A, up to rounding. Only the lower triangle is read.
    ///
    /// # Panics
    /// If a diagonal entry is negative or NaN.
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

/// The threshold below which an eigenvalue of a positive semidefinite matrix is rounding error.
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

/// Σₖ wₖ (uₖ·(x − centre))² for every row, with uₖ the columns of `directions`.
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
    // A large matrix has enough pieces to share; for a small one the rows are split.
    let part = if pieces.len() >= 6 { rows.len() } else { ROWS_PER_TASK };
    let tasks: Vec<(usize, usize, usize)> = (0..rows.len())
        .step_by(part.max(1))
        .flat_map(|first| pieces.iter().map(move |&(i, j)| (first, i, j)))
        .collect();
    let mut result = Matrix::zeros(width, width);
    // In waves, so that few results are stored at a time.
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

/// A piece of the scatter matrix over some rows; on the diagonal, its lower triangle.
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

/// Rows in double precision, centred: one column per row.
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
