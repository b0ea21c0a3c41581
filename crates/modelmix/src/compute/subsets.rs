//! Sums of a kernel over many subsets of the same rows: every pair is evaluated once, in however many subsets it is.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};

use super::{Backend, Run, Subsets, parallel};
use crate::error::Result;
use crate::kernel::Kernel;

/// The number of rows whose values against all others are stored at once. All others are copied for each block, so
/// smaller blocks are inefficient.
const BLOCK_ROWS: usize = 256;

/// [`Backend::subset_sums`] from values of `backend`, which must not start threads.
pub(super) fn sums(
    backend: &dyn Backend,
    threads: usize,
    run: &Run,
    kernel: &Kernel,
    x: Subsets<'_>,
    y: Option<Subsets<'_>>,
) -> Result<Vec<f64>> {
    let Subsets { rows: held, subsets: held_subsets } = y.unwrap_or(x);
    let (x_rows, held) = (x.rows.rows()?, held.rows()?);
    let (x_rows, held) = (x_rows.view(), held.view());
    let members = membership(held.len(), held_subsets);
    let own = y.is_some().then(|| membership(x_rows.len(), x.subsets));
    let own = own.as_ref().unwrap_or(&members);
    let subsets = x.subsets.len();
    let parts = parallel(threads, run.stop(), x_rows.len().div_ceil(BLOCK_ROWS), |block| {
        let first = block * BLOCK_ROWS;
        let until = (first + BLOCK_ROWS).min(x_rows.len());
        let rows = until - first;
        let mut sums = vec![0.0; subsets];
        // For one set, pairs with rows before the block are already counted: the rest counts twice, the block itself
        // once.
        let runs: &[(usize, usize, f64)] =
            if y.is_some() { &[(0, held.len(), 1.0)] } else { &[(first, until, 1.0), (until, held.len(), 2.0)] };
        for &(start, end, factor) in runs.iter().filter(|(start, end, _)| start < end) {
            let mut values = vec![0.0; rows * (end - start)];
            backend.kernel_rows(
                run,
                kernel,
                1.0,
                x_rows.slice(first, until),
                held.slice(start, end).into(),
                &mut values,
            )?;
            let values = MatRef::from_row_major_slice(&values, rows, end - start);
            let mut toward = Mat::zeros(rows, subsets);
            let members = members.subrows(start, end - start);
            matmul(toward.as_mut(), Accum::Replace, values, members, 1.0, Par::Seq);
            for (subset, sum) in sums.iter_mut().enumerate() {
                let own = &own.col_as_slice(subset)[first..until];
                *sum +=
                    factor * own.iter().zip(toward.col_as_slice(subset)).map(|(own, value)| own * value).sum::<f64>();
            }
        }
        Ok(sums)
    })?;
    let mut sums = vec![0.0; subsets];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    Ok(sums)
}

/// How often each row occurs in each subset.
fn membership(rows: usize, subsets: &[&[usize]]) -> Mat<f64> {
    let mut members = Mat::zeros(rows, subsets.len());
    for (subset, indices) in subsets.iter().enumerate() {
        indices.iter().for_each(|&row| members[(row, subset)] += 1.0);
    }
    members
}
