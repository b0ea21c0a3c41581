//! Sums of a kernel over pairs of subsets: values of strips of rows, times a matrix that says how often each row is in each
//! subset.

use modelmix::Result;
use modelmix::compute::Run;

use crate::device::{Buffer, Grid, Queue};
use crate::function::Function;
use crate::modules::Module;
use crate::plan::Pairs;
use crate::product::{Side, product};
use crate::resident::Source;
use crate::strips::Strips;

/// How often each row is in each subset: `[subset][row]`.
fn membership(rows: usize, subsets: &[&[usize]]) -> Vec<f64> {
    let mut members = vec![0.0; rows * subsets.len()];
    for (subset, indices) in subsets.iter().enumerate() {
        indices.iter().for_each(|&row| members[subset * rows + row] += 1.0);
    }
    members
}

/// Σ of the function over the pairs of each subset of the first set with that of the second, or with itself if there is one
/// set.
pub(crate) fn sums(
    queue: &Queue<'_>,
    run: &Run,
    function: &Function,
    sources: &[Source<'_>],
    subsets: &[&[&[usize]]],
) -> Result<Vec<f64>> {
    run.check()?;
    let count = subsets.first().map_or(0, |subsets| subsets.len());
    if count == 0 || sources.iter().any(|source| source.rows() == 0) {
        return Ok(vec![0.0; count]);
    }
    let send = |(source, subsets): (&Source<'_>, &&[&[usize]])| -> Result<Buffer<f64>> {
        let members = membership(source.rows(), subsets);
        let buffer = queue.allocate("members of subsets", members.len())?;
        queue.send(&buffer, 0, &members)?;
        Ok(buffer)
    };
    let members = sources.iter().zip(subsets).map(send).collect::<Result<Vec<_>>>()?;
    let pairs = if sources.len() == 1 { Pairs::All } else { Pairs::Between };
    let mut strips = Strips::new(queue, function, sources)?;
    let most = strips.longest();
    let toward = queue.allocate::<f64>("sums over subsets", most * count)?;
    let out = queue.zeros::<f64>("sums over subsets", count)?;
    strips.values(run, &pairs, |[(x_set, x_rows), (y_set, y_rows)], (values, pitch)| {
        // A pair of different strips of one set stands for two.
        let factor = if x_set == y_set && x_rows != y_rows { 2.0 } else { 1.0 };
        let member = |set: usize, first: usize| members[set].at + (first * size_of::<f64>()) as u64;
        let (x, y) = (member(x_set, x_rows.start), member(y_set, y_rows.start));
        let (x_stride, y_stride) = (sources[x_set].rows(), sources[y_set].rows());
        // SAFETY: values and members are matrices of these sizes; there is a sum for every row and subset.
        unsafe {
            let a = Side { at: values, stride: pitch, transposed: true };
            let b = Side { at: y, stride: y_stride, transposed: false };
            product(queue, (x_rows.len(), count, y_rows.len()), a, b, false, (toward.at, most))?;
            queue.launch(
                Module::Double,
                "line_products",
                Grid::new(count, 256),
                &[&toward.at, &(most as i64), &x, &(x_stride as i64), &(x_rows.len() as i32), &factor, &out.at],
            )
        }
    })?;
    queue.values(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_counted() {
        assert_eq!(membership(3, &[&[0, 2], &[], &[1, 1]]), [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
    }
}
