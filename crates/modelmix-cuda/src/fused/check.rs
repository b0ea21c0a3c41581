//! The check of a result on the device: sums of sampled rows from differences, submitted after the fused kernels without
//! waiting for them. `guard` chooses the rows and judges.

use modelmix::Result;

use super::Fused;
use crate::device::{Grid, Totals};
use crate::exact::{Side, TILE_COLUMNS, TILE_ROWS, slices};
use crate::guard::{Errors, SAMPLES, Sampled, sample};
use crate::modules::Module;
use crate::plan::Pairs;

/// Columns per partial sum: one tile, since the kernel's values take most of the time of few columns and have a long delay.
const SLICE: usize = TILE_COLUMNS;

/// A submitted check.
pub(super) struct Check<'a> {
    call: &'a Fused<'a>,
    /// The sampled rows, counted over all sets.
    pub(super) rows: Vec<usize>,
    /// `[set][sampled row]`: sums over the set, then magnitudes.
    totals: Totals<'a>,
    /// The end of every set.
    ends: Vec<usize>,
}

impl<'a> Check<'a> {
    /// Submits the sums of sampled rows. `terms` are those of all rows with their own group.
    pub(super) fn start(call: &'a Fused<'a>, terms: &[f32], exact: &Side) -> Result<Self> {
        let (sizes, queue) = (call.sizes(), call.queue);
        let rows = sample(terms, SAMPLES);
        let mut end = 0;
        let ends: Vec<usize> = sizes
            .iter()
            .map(|size| {
                end += size;
                end
            })
            .collect();
        let address = |&row: &usize| {
            let set = set_of(&ends, row);
            call.sets[set].row(row + sizes[set] - ends[set])
        };
        let at = queue.upload("sampled rows", &rows.iter().map(address).collect::<Vec<_>>())?;
        let x = Side::at(queue, at, call.width(), &call.function)?;
        let own = queue.upload("sampled rows", &rows.iter().map(|&row| row as i32).collect::<Vec<_>>())?;
        let own = if call.pairs == Pairs::All { own.at } else { 0 };
        let (columns, set_slice) = slices(&sizes, SLICE);
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
        Ok(Self { call, rows, totals, ends })
    }

    /// The errors of `[set][row]`, the sums of all rows.
    pub(super) fn errors(&self, sums: &[f64]) -> Result<Errors> {
        self.call.queue.wait()?;
        let totals = self.totals.values();
        let (truths, magnitudes) = totals.split_at(totals.len() / 2);
        let (sizes, total) = (self.call.sizes(), self.ends.last().copied().unwrap_or(0));
        let mut sampled = Vec::new();
        for (index, &row) in self.rows.iter().enumerate() {
            let i = set_of(&self.ends, row);
            for j in (0..sizes.len()).filter(|&j| sizes[j] > 0 && (self.call.pairs == Pairs::All || i != j)) {
                let at = j * self.rows.len() + index;
                let (truth, magnitude) = (truths[at], magnitudes[at]);
                sampled.push(Sampled { entry: (i, j), found: sums[j * total + row], truth, magnitude });
            }
        }
        Ok(Errors::of(&sampled, self.call.function.is_product()))
    }
}

/// The set of a row.
fn set_of(ends: &[usize], row: usize) -> usize {
    ends.partition_point(|&end| end <= row)
}
