//! Sums of a kernel over pairs of subsets: values of strips of rows, times a matrix that says how often each row is in each
//! subset; and whether every subset is computed by itself, because these have few of all pairs.

use modelmix::Result;
use modelmix::compute::{Run, Subsets};

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

/// How many times as many pairs of all rows than of subsets are computed together: one call per subset has a cost of its own.
const MAX_SHARE: f64 = 8.0;

/// Whether every subset is to be computed by itself. The choice depends on sizes only.
pub(crate) fn are_separate(x: Subsets<'_>, y: Option<Subsets<'_>>) -> bool {
    let y = y.unwrap_or(x);
    let all = x.rows.len() as f64 * y.rows.len() as f64;
    let of_subsets: f64 = x.subsets.iter().zip(y.subsets).map(|(x, y)| x.len() as f64 * y.len() as f64).sum();
    all > MAX_SHARE * of_subsets
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
    use modelmix::compute::Backend;
    use modelmix::internals::compute::subset_sums_separately;
    use modelmix::{Kernel, Rows};

    use super::*;

    /// The choice, and the sums of subsets by themselves on an engine of the processor.
    #[test]
    fn few_pairs_of_many_are_computed_by_themselves() {
        let values: Vec<f32> = (0..60 * 2).map(|value| ((value * 37) % 19) as f32 / 9.0).collect();
        let rows = Rows::new(2, &values);
        let lists: [&[usize]; 3] = [&[0, 3, 59], &[7, 7], &[]];
        let x = Subsets { rows: rows.into(), subsets: &lists };
        let all: Vec<usize> = (0..60).collect();
        assert!(are_separate(x, None) && are_separate(x, Some(x)));
        assert!(!are_separate(Subsets { rows: rows.into(), subsets: &[&all, &all] }, None));
        let (run, kernel, plain) = (Run::default(), Kernel::Gaussian { bandwidth: 1.3 }, modelmix::compute::Reference);
        for y in [None, Some(x)] {
            let found = subset_sums_separately(&plain, 1, &run, &kernel, x, y).expect("sums");
            let truth = plain.subset_sums(&run, &kernel, x, y).expect("sums");
            assert!(found.iter().zip(&truth).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {truth:?}");
        }
    }

    #[test]
    fn members_are_counted() {
        assert_eq!(membership(3, &[&[0, 2], &[], &[1, 1]]), [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
    }
}
