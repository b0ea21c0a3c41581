//! Sums of a kernel over many subsets of the same rows. If they overlap much, every pair is evaluated once, in however
//! many subsets it is; otherwise every subset is evaluated separately.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};

use super::{Backend, Run, Subsets, parallel};
use crate::error::Result;
use crate::features::Rows;
use crate::kernel::Kernel;

/// The number of rows whose values against all others are stored at once. All others are copied for each block, so
/// smaller blocks are inefficient.
const BLOCK_ROWS: usize = 256;

/// [`Backend::subset_sums`] from values of `backend`, which must not start threads. The choice depends on sizes only.
pub(super) fn sums(
    backend: &dyn Backend,
    threads: usize,
    run: &Run,
    kernel: &Kernel,
    x: Subsets<'_>,
    y: Option<Subsets<'_>>,
) -> Result<Vec<f64>> {
    let (rows, width) = (x.rows.len() as f64, x.rows.width() as f64);
    let columns = y.map_or(0.5 * rows, |y| y.rows.len() as f64);
    let pairs = |index: usize, subset: &[usize]| {
        let rows = subset.len() as f64;
        rows * y.map_or(0.5 * rows, |y| y.subsets[index].len() as f64)
    };
    let of_subsets: f64 = x.subsets.iter().enumerate().map(|(index, subset)| pairs(index, subset)).sum();
    if of_subsets * width < rows * columns * (width + x.subsets.len() as f64) {
        separately(backend, threads, run, kernel, x, y)
    } else {
        together(backend, threads, run, kernel, x, y)
    }
}

/// [`Backend::subset_sums`], every subset by itself, on one thread each.
///
/// # Errors
/// Those of the engine.
pub fn separately(
    backend: &dyn Backend,
    threads: usize,
    run: &Run,
    kernel: &Kernel,
    x: Subsets<'_>,
    y: Option<Subsets<'_>>,
) -> Result<Vec<f64>> {
    let (x_rows, y_rows) = (x.rows.rows()?, y.map(|y| y.rows.rows()).transpose()?);
    let x_rows = x_rows.view();
    let gather = |rows: Rows<'_>, subset: &[usize]| -> Vec<f32> {
        subset.iter().flat_map(|&row| rows.row(row).iter().copied()).collect()
    };
    parallel(threads, run.stop(), x.subsets.len(), |index| {
        if x.subsets[index].is_empty() || y.is_some_and(|y| y.subsets[index].is_empty()) {
            return Ok(0.0);
        }
        let values = gather(x_rows, x.subsets[index]);
        let samples = Rows::new(x_rows.width(), &values);
        if let (Some(y), Some(y_rows)) = (y, &y_rows) {
            let values = gather(y_rows.view(), y.subsets[index]);
            let others = Rows::new(x_rows.width(), &values);
            return Ok(backend.kernel_sums(run, kernel, samples.into(), others.into())?.rows.iter().sum());
        }
        let sums = backend.kernel_sums_among(run, kernel, &[samples.into()])?;
        Ok(sums[0][0].iter().sum::<f64>() + samples.iter().map(|row| kernel.of_self(row)).sum::<f64>())
    })
}

/// All pairs once: a product of their values with the membership matrix gives the sums of all subsets.
fn together(
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
