//! The check of a result on the device: sums of sampled rows from differences, submitted after the fused kernels without
//! waiting for them. `guard` chooses the rows and judges.

use modelmix::Result;

use super::Fused;
use crate::device::{Grid, MAX_GRID, Totals};
use crate::exact::{Side, TILE_COLUMNS, TILE_ROWS, slices};
use crate::guard::{Errors, Sample, Sampled, sample};
use crate::modules::Module;
use crate::plan::Pairs;

/// The maximum number of slices of columns, which are a dimension of the grid.
const MAX_SLICES: usize = MAX_GRID as usize;

/// Columns per partial sum: one tile, since the kernel's values take most of the time of few columns and have a long delay;
/// more tiles if there would be too many slices. It depends on sizes alone, because it determines the order of additions.
fn slice_length(sizes: &[usize]) -> usize {
    let count = |length: usize| sizes.iter().map(|size| size.div_ceil(length)).sum::<usize>();
    let mut length = TILE_COLUMNS;
    while count(length) > MAX_SLICES && sizes.iter().any(|&size| size > length) {
        length *= 2;
    }
    length
}

/// A submitted check.
pub(super) struct Check<'a> {
    call: &'a Fused<'a>,
    pub(super) sample: Sample,
    /// `[set][sampled row]`: sums over the set, then magnitudes.
    totals: Totals<'a>,
}

impl<'a> Check<'a> {
    /// Submits the sums of at most `most` sampled rows. `terms` are those of all rows with their own group.
    pub(super) fn start(call: &'a Fused<'a>, terms: &[f32], exact: &Side, most: usize) -> Result<Self> {
        let (sizes, queue) = (call.sizes(), call.queue);
        let sample = sample(terms, &sizes, most);
        let rows = &sample.rows;
        let (x, own) = call.some(rows)?;
        let own = own.as_ref().map_or(0, |own| own.at);
        let (columns, set_slice) = slices(&sizes, slice_length(&sizes));
        let columns_at = queue.upload("slices of columns", &columns)?;
        let set_slice = queue.upload("slices of sets", &set_slice)?;
        let parts = [(); 2].map(|()| queue.allocate::<f64>("sampled sums", columns.len() * rows.len()));
        let [part, magnitudes] = parts;
        let (part, magnitudes) = (part?, magnitudes?);
        let totals = queue.totals(2 * sizes.len() * rows.len())?;
        let name = if call.function.is_product() { "check_product" } else { "check_distance" };
        let grid = Grid::two(rows.len().div_ceil(TILE_ROWS), columns.len(), 128);
        let (count, stride) = (rows.len() as i32, rows.len() as i64);
        // SAFETY: slices are inside the columns, there is a partial sum for every slice and sampled row, and a total for
        // every set and sampled row.
        unsafe {
            queue.launch(
                Module::Tiles,
                name,
                grid,
                &[
                    &x.at.at,
                    &count,
                    &x.norms_at(),
                    &exact.at.at,
                    &exact.norms_at(),
                    &columns_at.at,
                    &(call.width() as i32),
                    &call.function,
                    &own,
                    &part.at,
                    &magnitudes.at,
                    &stride,
                ],
            )?;
            let grid = Grid::two(rows.len(), sizes.len(), 64);
            let to = totals.at();
            queue.launch(Module::Tiles, "fold_check", grid, &[&part.at, &magnitudes.at, &count, &set_slice.at, &to])?;
        }
        Ok(Self { call, sample, totals })
    }

    /// The errors of `[set][row]`, the sums of all rows, and those of the sampled rows that are spread over all.
    pub(super) fn errors(&self, sums: &[f64]) -> Result<(Errors, Errors)> {
        self.call.queue.wait()?;
        let totals = self.totals.values();
        let (truths, magnitudes) = totals.split_at(totals.len() / 2);
        let (sizes, ends) = (self.call.sizes(), self.call.ends());
        let total = ends.last().copied().unwrap_or(0);
        let (mut sampled, mut spread) = (Vec::new(), Vec::new());
        let Sample { rows, is_spread } = &self.sample;
        for (index, &row) in rows.iter().enumerate() {
            let i = set_of(&ends, row);
            for j in (0..sizes.len()).filter(|&j| sizes[j] > 0 && (self.call.pairs == Pairs::All || i != j)) {
                let at = j * rows.len() + index;
                let (truth, magnitude) = (truths[at], magnitudes[at]);
                let of = Sampled { entry: (i, j), found: sums[j * total + row], truth, magnitude };
                sampled.push(of);
                if is_spread[index] {
                    spread.push(of);
                }
            }
        }
        let is_product = self.call.function.is_product();
        Ok((Errors::of(&sampled, is_product), Errors::of(&spread, is_product)))
    }
}

/// The set of a row, from the ends of sets.
pub(super) fn set_of(ends: &[usize], row: usize) -> usize {
    ends.partition_point(|&end| end <= row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_fit_into_a_grid() {
        assert_eq!(slice_length(&[10_000; 5]), TILE_COLUMNS);
        // The last number of rows with one tile per slice, and the next.
        assert_eq!(slice_length(&[MAX_SLICES * TILE_COLUMNS]), TILE_COLUMNS);
        assert_eq!(slice_length(&[MAX_SLICES * TILE_COLUMNS + 1]), 2 * TILE_COLUMNS);
        assert_eq!(slice_length(&[0]), TILE_COLUMNS);
        for sizes in [vec![3_000_000, 1], vec![20_000_000; 5], vec![33; 40_000], vec![i32::MAX as usize]] {
            let length = slice_length(&sizes);
            let count: usize = sizes.iter().map(|size| size.div_ceil(length)).sum();
            assert!(count <= MAX_SLICES && length.is_multiple_of(TILE_COLUMNS), "{count} slices of {length}");
        }
        // More sets than slices: the launch is refused.
        assert!(slice_length(&vec![20; 70_000]) < 100);
    }
}
