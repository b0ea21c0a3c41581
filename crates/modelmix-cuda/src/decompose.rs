//! Eigenvalues and Cholesky factors by cuSOLVER, for matrices that are large enough; the processor has the others.

use modelmix::Result;
use modelmix::compute::{Eigen, Matrix, Run};

use crate::device::Queue;
use crate::moments::{matrix, upload};

/// The least number of rows for the device: copies and launches take longer than smaller matrices on the processor.
pub(crate) const MIN_ROWS: usize = 256;

/// Eigenvalues, ascending; `None` if there is no library, or if it does not converge.
pub(crate) fn eigenvalues(queue: &Queue<'_>, run: &Run, symmetric: &Matrix) -> Result<Option<Vec<f64>>> {
    run.check()?;
    let size = symmetric.rows();
    let (entries, values) = (upload(queue, symmetric)?, queue.allocate::<f64>("eigenvalues", size)?);
    // SAFETY: the matrix is square, and there is a place for every eigenvalue.
    match unsafe { queue.eigen(size, entries.at, values.at, false)? } {
        Some(0) => queue.values(&values).map(Some),
        _ => Ok(None),
    }
}

/// Eigenvalues and eigenvectors, as [`eigenvalues`].
pub(crate) fn eigen(queue: &Queue<'_>, run: &Run, symmetric: &Matrix) -> Result<Option<Eigen>> {
    run.check()?;
    let size = symmetric.rows();
    let (entries, values) = (upload(queue, symmetric)?, queue.allocate::<f64>("eigenvalues", size)?);
    // SAFETY: the matrix is square, and there is a place for every eigenvalue.
    match unsafe { queue.eigen(size, entries.at, values.at, true)? } {
        Some(0) => {
            let vectors = matrix(queue, &entries, size, size)?;
            Ok(Some(Eigen { values: queue.values(&values)?, vectors }))
        }
        _ => Ok(None),
    }
}

/// The Cholesky factor without pivoting; `None` if there is no library, or if the matrix is not far from singular, for
/// which pivoting finds the rank.
pub(crate) fn factor(queue: &Queue<'_>, run: &Run, symmetric: &Matrix) -> Result<Option<Matrix>> {
    run.check()?;
    let size = symmetric.rows();
    let entries = upload(queue, symmetric)?;
    // SAFETY: the matrix is square.
    if unsafe { queue.cholesky(size, entries.at)? } != Some(0) {
        return Ok(None);
    }
    let mut lower = matrix(queue, &entries, size, size)?;
    if !has_full_rank(&lower) {
        return Ok(None);
    }
    for column in 1..size {
        lower.column_mut(column)[..column].fill(0.0);
    }
    Ok(Some(lower))
}

/// Whether no pivot is close to rounding errors, or not a number.
fn has_full_rank(lower: &Matrix) -> bool {
    let pivots = || (0..lower.rows()).map(|index| lower.at(index, index).powi(2));
    let least = 1e3 * lower.rows() as f64 * f64::EPSILON * pivots().fold(0.0, f64::max);
    pivots().all(|pivot| pivot > least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pivots_near_rounding_errors_are_found() {
        let diagonal = |last: f64| {
            Matrix::from_fn(3, 3, |i, j| {
                if i != j {
                    0.0
                } else if i == 2 {
                    last
                } else {
                    1.0
                }
            })
        };
        assert!(has_full_rank(&diagonal(1e-5)));
        assert!(!has_full_rank(&diagonal(1e-7)));
        assert!(!has_full_rank(&diagonal(f64::NAN)));
    }
}
