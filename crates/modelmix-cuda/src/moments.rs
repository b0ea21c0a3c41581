//! Means, scatter matrices, projections and products of matrices in double precision. Rows are taken in chunks of a fixed size, so
//! that sets need not fit into the memory of the device and bits do not depend on it.

use std::ops::Range;

use modelmix::Result;
use modelmix::compute::{Factor, Matrix, Run};

use crate::device::{Buffer, Grid, Queue};
use crate::modules::Module;
use crate::product::{Side, product};
use crate::resident::{Loaded, Source};

/// The number of rows in double precision at a time: 128 MB at a width of 2048.
const CHUNK: usize = 8192;
/// The number of rows per partial sum of a mean.
const MEAN_ROWS: usize = 128;

fn chunks(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(CHUNK).map(move |first| first..(first + CHUNK).min(rows))
}

/// The mean of all rows.
pub(crate) fn mean(queue: &Queue<'_>, run: &Run, x: &Source<'_>) -> Result<Vec<f64>> {
    run.check()?;
    let (rows, width) = (x.rows(), x.width());
    let sums = queue.zeros::<f64>("the mean", width)?;
    let part = queue.allocate::<f64>("the mean", CHUNK.min(rows).div_ceil(MEAN_ROWS) * width)?;
    for chunk in chunks(rows) {
        run.check()?;
        let piece = x.piece(queue, chunk)?;
        let slices = piece.rows.div_ceil(MEAN_ROWS);
        let (count, width_i, length) = (piece.rows as i32, width as i32, MEAN_ROWS as i32);
        // SAFETY: there is a partial sum for every slice and column.
        unsafe {
            let grid = Grid::two(width.div_ceil(128), slices, 128);
            queue.launch(Module::Double, "column_sums", grid, &[&piece.base, &count, &width_i, &length, &part.at])?;
            queue.launch(
                Module::Double,
                "add_parts",
                Grid::new(width.div_ceil(128), 128),
                &[&part.at, &(slices as i32), &(width as i64), &width_i, &sums.at],
            )?;
        }
    }
    let mut mean = queue.values(&sums)?;
    mean.iter_mut().for_each(|sum| *sum /= rows as f64);
    Ok(mean)
}

/// Rows in double precision about a centre, one after the other, times the roots of weights from an address on, if it is not 0.
fn widen(queue: &Queue<'_>, piece: &Loaded, centre: &Buffer<f64>, weights: u64, to: &Buffer<f64>) -> Result<()> {
    let (rows, width, none) = (piece.rows as i32, piece.width as i32, 0u64);
    let grid = Grid::new(piece.rows.div_ceil(8), 256);
    // SAFETY: the buffer has room for the rows of a chunk, and there is a weight for every row.
    unsafe {
        queue.launch(
            Module::Double,
            "rows_double",
            grid,
            &[&piece.base, &rows, &width, &none, &centre.at, &weights, &to.at, &none],
        )
    }
}

/// Σ w (x − centre)(x − centre)ᵀ over rows.
pub(crate) fn scatter(
    queue: &Queue<'_>,
    run: &Run,
    x: &Source<'_>,
    centre: &[f64],
    weights: Option<&[f64]>,
) -> Result<Matrix> {
    run.check()?;
    let (rows, width) = (x.rows(), x.width());
    let centre = queue.upload("the centre", centre)?;
    let weights = weights.map(|weights| queue.upload("weights of rows", weights)).transpose()?;
    let exact = queue.allocate::<f64>("rows in double precision", CHUNK.min(rows) * width)?;
    let sum = queue.zeros::<f64>("a scatter matrix", width * width)?;
    for chunk in chunks(rows) {
        run.check()?;
        let piece = x.piece(queue, chunk.clone())?;
        let of_chunk = weights.as_ref().map_or(0, |weights| weights.at + (chunk.start * size_of::<f64>()) as u64);
        widen(queue, &piece, &centre, of_chunk, &exact)?;
        let side = |transposed| Side { at: exact.at, stride: width, transposed };
        // SAFETY: rows are columns of a matrix of `width` rows.
        unsafe { product(queue, (width, width, piece.rows), side(false), side(true), true, (sum.at, width))? };
    }
    // SAFETY: the matrix is square.
    unsafe {
        let grid = Grid::two(width, width.div_ceil(256), 256);
        queue.launch(Module::Double, "mirror", grid, &[&sum.at, &(width as i32)])?;
    }
    matrix(queue, &sum, width, width)
}

/// Σₖ wₖ (uₖ·(x − centre))² for every row, with uₖ the columns of `directions`.
pub(crate) fn projections(
    queue: &Queue<'_>,
    run: &Run,
    x: &Source<'_>,
    centre: &[f64],
    directions: &Matrix,
    weights: &[f64],
) -> Result<Vec<f64>> {
    run.check()?;
    let (rows, width, count) = (x.rows(), x.width(), directions.columns());
    if count == 0 {
        return Ok(vec![0.0; rows]);
    }
    let centre = queue.upload("the centre", centre)?;
    let weights = queue.upload("weights of directions", weights)?;
    let directions = upload(queue, directions)?;
    let exact = queue.allocate::<f64>("rows in double precision", CHUNK.min(rows) * width)?;
    let along = queue.allocate::<f64>("projections of rows", CHUNK.min(rows) * count)?;
    let out = queue.allocate::<f64>("projections of rows", rows)?;
    for chunk in chunks(rows) {
        run.check()?;
        let piece = x.piece(queue, chunk.clone())?;
        widen(queue, &piece, &centre, 0, &exact)?;
        let to = out.at + (chunk.start * size_of::<f64>()) as u64;
        // SAFETY: directions and rows are columns of matrices of `width` rows; there is a projection for every pair and a
        // sum for every row.
        unsafe {
            let a = Side { at: directions.at, stride: width, transposed: true };
            let b = Side { at: exact.at, stride: width, transposed: false };
            product(queue, (count, piece.rows, width), a, b, false, (along.at, count))?;
            queue.launch(
                Module::Double,
                "weighted_squares",
                Grid::new(piece.rows.div_ceil(8), 256),
                &[&along.at, &(piece.rows as i32), &(count as i32), &weights.at, &to],
            )?;
        }
    }
    queue.values(&out)
}

/// A·B.
pub(crate) fn matrix_product(queue: &Queue<'_>, run: &Run, a: Factor<'_>, b: Factor<'_>) -> Result<Matrix> {
    run.check()?;
    let size = |factor: Factor<'_>| {
        let (rows, columns) = (factor.matrix.rows(), factor.matrix.columns());
        if factor.transposed { (columns, rows) } else { (rows, columns) }
    };
    let ((m, k), (_, n)) = (size(a), size(b));
    if m == 0 || n == 0 || k == 0 {
        return Ok(Matrix::zeros(m, n));
    }
    let is_same = std::ptr::eq(a.matrix, b.matrix);
    let left = upload(queue, a.matrix)?;
    let right = if is_same { None } else { Some(upload(queue, b.matrix)?) };
    let to = queue.allocate::<f64>("a product of matrices", m * n)?;
    let side = |factor: Factor<'_>, at| Side { at, stride: factor.matrix.rows(), transposed: factor.transposed };
    // SAFETY: the matrices have these sizes.
    unsafe {
        let right = right.as_ref().unwrap_or(&left);
        product(queue, (m, n, k), side(a, left.at), side(b, right.at), false, (to.at, m))?;
    }
    matrix(queue, &to, m, n)
}

/// A matrix on the device, column by column.
pub(crate) fn upload(queue: &Queue<'_>, matrix: &Matrix) -> Result<Buffer<f64>> {
    let mut values = Vec::with_capacity(matrix.rows() * matrix.columns());
    (0..matrix.columns()).for_each(|column| values.extend_from_slice(matrix.column(column)));
    let buffer = queue.allocate("a matrix", values.len())?;
    queue.send(&buffer, 0, &values)?;
    Ok(buffer)
}

/// A matrix of the device.
pub(crate) fn matrix(queue: &Queue<'_>, buffer: &Buffer<f64>, rows: usize, columns: usize) -> Result<Matrix> {
    let mut matrix = Matrix::zeros(rows, columns);
    let values = queue.results(buffer, &queue.mark()?)?;
    if rows > 0 {
        for (column, values) in values.chunks_exact(rows).enumerate() {
            matrix.column_mut(column).copy_from_slice(values);
        }
    }
    Ok(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_every_row_once() {
        for rows in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let all: Vec<usize> = chunks(rows).flatten().collect();
            assert_eq!(all, (0..rows).collect::<Vec<_>>());
            assert!(chunks(rows).all(|chunk| chunk.len() <= CHUNK));
        }
    }
}
