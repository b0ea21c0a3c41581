//! Sums over few pairs in double precision, from differences or products of the rows as they are. `strips` has sums over many.

use modelmix::Result;
use modelmix::compute::Run;

use crate::device::{ArgumentPointer, Buffer, Grid, Queue};
use crate::function::Function;
use crate::modules::{Form, Map, Module};
use crate::resident::{Loaded, addresses};

/// The number of columns per partial sum. It does not depend on the device, because it determines the order of additions.
pub(crate) const SLICE: usize = 1024;
/// Rows per tile of `tiles.cu`.
pub(crate) const TILE_ROWS: usize = 64;
/// Columns per tile of `tiles.cu`.
pub(crate) const TILE_COLUMNS: usize = 32;
/// The number of differences per launch and multiprocessor: about 15 ms on an H200 with tensor cores and 60 ms without, so
/// that the stop token is checked often enough.
const LAUNCH_WORK: usize = 2_000_000_000;
/// The same for devices whose double precision is a fraction of single precision.
const SLOW_LAUNCH_WORK: usize = 30_000_000;

/// Slices of rows whose sums are a centre.
pub(crate) const CENTRE_SLICES: usize = 16;
/// The maximum number of rows that a centre is computed from. Any point is valid, so a sample is enough.
const CENTRE_ROWS: i32 = 512;

/// Rows of sets as the tile kernels take them.
pub(crate) struct Side {
    pub(crate) at: Buffer<u64>,
    pub(crate) norms: Option<Buffer<f64>>,
    pub(crate) rows: usize,
    pub(crate) width: usize,
}

impl Side {
    /// All rows of some sets of one width, with their norms if the function needs them.
    pub(crate) fn new(queue: &Queue<'_>, sets: &[&Loaded], function: &Function) -> Result<Self> {
        let at = addresses(queue, sets, 0)?;
        let width = sets.first().map_or(1, |set| set.width);
        Self::at(queue, at, width, function)
    }

    /// Rows at addresses, none of them padding.
    pub(crate) fn at(queue: &Queue<'_>, at: Buffer<u64>, width: usize, function: &Function) -> Result<Self> {
        let rows = at.len;
        let norms = if function.is_cosine() { Some(norms(queue, &at, width)?) } else { None };
        Ok(Self { at, norms, rows, width })
    }

    pub(crate) fn norms_at(&self) -> u64 {
        self.norms.as_ref().map_or(0, |norms| norms.at)
    }
}

/// ‖x‖ of rows, in double precision.
pub(crate) fn norms(queue: &Queue<'_>, at: &Buffer<u64>, width: usize) -> Result<Buffer<f64>> {
    let norms = queue.allocate::<f64>("norms of rows", at.len)?;
    let grid = Grid::new(at.len.div_ceil(8), 256);
    // SAFETY: there is a norm for every address.
    unsafe { queue.launch(Module::Rows, "norms", grid, &[&at.at, &(at.len as i32), &(width as i32), &norms.at])? };
    Ok(norms)
}

/// The approximate mean of the first `rows` rows at addresses, and a zero for their extent.
pub(crate) fn centre(
    queue: &Queue<'_>,
    at: &Buffer<u64>,
    rows: usize,
    width: usize,
) -> Result<(Buffer<f32>, Buffer<u32>)> {
    let (first, count) = (queue.upload("the centre", &[0i32])?, queue.upload("the centre", &[rows as i32])?);
    let sums = queue.allocate::<f64>("the centre", CENTRE_SLICES * width)?;
    let (centre, extent) = (queue.allocate::<f32>("the centre", width)?, queue.allocate::<u32>("the extent", 1)?);
    let module = Module::Prepare(Form::Halves, Map::Gaussian);
    // SAFETY: there is one group, with sums for every slice and column.
    unsafe { centres(queue, module, at.at, (first.at, count.at, 1), width, (sums.at, centre.at, extent.at))? };
    Ok((centre, extent))
}

/// The approximate means of groups of rows at addresses, and a zero for their extent, by any module that prepares rows.
///
/// # Safety
/// `groups` must have the addresses of the first row and of the number of rows of every group, and their number; `out` those of sums
/// for every group, slice and column, of centres for every group and column, and of the extent.
pub(crate) unsafe fn centres(
    queue: &Queue<'_>,
    module: Module,
    at: u64,
    (first, rows, groups): (u64, u64, usize),
    width: usize,
    (sums, centre, extent): (u64, u64, u64),
) -> Result<()> {
    let (columns, width, slices) = (width.div_ceil(128), width as i32, CENTRE_SLICES as i32);
    let grid = Grid { blocks: (columns as u32, CENTRE_SLICES as u32, groups as u32), threads: 128, shared: 0 };
    // SAFETY: the caller promises the arrays.
    unsafe {
        queue.launch(module, "centre_slices", grid, &[&at, &first, &rows, &width, &CENTRE_ROWS, &sums])?;
        let arguments: &[&dyn ArgumentPointer] = &[&sums, &slices, &rows, &width, &CENTRE_ROWS, &centre, &extent];
        queue.launch(module, "centre_fold", Grid::two(columns, groups, 128), arguments)
    }
}

/// The address of a part of a buffer, 0 if there is none.
fn part_at(buffer: &Option<Buffer<f64>>, first: usize) -> u64 {
    buffer.as_ref().map_or(0, |buffer| buffer.at + (first * size_of::<f64>()) as u64)
}

/// Consecutive columns of sets in slices: (first, last) of each, and the first slice of every set.
pub(crate) fn slices(sizes: &[usize], length: usize) -> (Vec<[i32; 2]>, Vec<i32>) {
    let (mut slices, mut set_slice, mut first) = (Vec::new(), vec![0], 0);
    for &size in sizes {
        let end = first + size;
        slices.extend((first..end).step_by(length).map(|start| [start as i32, (start + length).min(end) as i32]));
        set_slice.push(slices.len() as i32);
        first = end;
    }
    (slices, set_slice)
}

/// The number of rows per launch against `columns` columns: a multiple of a tile.
pub(crate) fn rows_per_launch(queue: &Queue<'_>, columns: usize, width: usize) -> usize {
    let work = if queue.device.has_fast_double { LAUNCH_WORK } else { SLOW_LAUNCH_WORK };
    let work = work.saturating_mul(queue.device.multiprocessors as usize);
    (work / columns.saturating_mul(width).max(1)).next_multiple_of(TILE_ROWS).clamp(TILE_ROWS, 1 << 20)
}

/// Columns of sums: rows of sets in slices.
pub(crate) struct Columns<'a> {
    pub(crate) side: &'a Side,
    /// (first, last) of every slice.
    pub(crate) slices: &'a [[i32; 2]],
    /// The first slice of every set, and the number of slices.
    pub(crate) set_slice: &'a [i32],
    /// For every row, a column that does not count: the row itself.
    pub(crate) own: Option<&'a Buffer<i32>>,
}

/// For every set of columns, the sums of all rows: `[set][row]`, one after the other. `advance` is called with the number
/// of rows that are done.
pub(crate) fn sums(
    queue: &Queue<'_>,
    run: &Run,
    function: &Function,
    x: &Side,
    columns: &Columns<'_>,
    advance: impl Fn(usize),
) -> Result<Vec<f64>> {
    let Columns { side: y, slices, set_slice, own } = *columns;
    let sets = set_slice.len() - 1;
    let rows_at_once = rows_per_launch(queue, y.rows, x.width).min(x.rows.next_multiple_of(TILE_ROWS)).max(1);
    let slices_at = queue.upload("slices of columns", slices)?;
    let firsts = queue.upload("slices of sets", set_slice)?;
    let part = queue.allocate::<f64>("partial sums", slices.len() * rows_at_once)?;
    let out = queue.zeros::<f64>("sums of rows", sets * x.rows)?;
    for first in (0..x.rows).step_by(rows_at_once) {
        run.check()?;
        let count = rows_at_once.min(x.rows - first);
        let at = x.at.at + (first * size_of::<u64>()) as u64;
        let (width, stride, none) = (x.width as i32, rows_at_once as i64, 0u64);
        let own = own.map_or(0, |own| own.at + (first * size_of::<i32>()) as u64);
        let to = out.at + (first * size_of::<f64>()) as u64;
        let grid = Grid::two(count.div_ceil(TILE_ROWS), slices.len(), 128);
        let rows = count as i32;
        // SAFETY: slices are inside the columns of `y`; there is a partial sum for every slice and row of the launch,
        // and a sum for every set and row.
        unsafe {
            queue.launch(
                Module::Tiles,
                if function.is_product() { "sums_product" } else { "sums_distance" },
                grid,
                &[
                    &at,
                    &rows,
                    &part_at(&x.norms, first),
                    &y.at.at,
                    &y.norms_at(),
                    &slices_at.at,
                    &width,
                    function,
                    &own,
                    &part.at,
                    &none,
                    &stride,
                ],
            )?;
            let grid = Grid::two(count.div_ceil(128), sets, 128);
            let out_stride = x.rows as i64;
            queue.launch(
                Module::Tiles,
                "fold_slices",
                grid,
                &[&part.at, &(count as i32), &stride, &firsts.at, &to, &out_stride],
            )?;
        }
        queue.wait()?;
        advance(count);
    }
    queue.values(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_every_column_once() {
        let (slices, set_slice) = slices(&[3000, 0, 1, 1024], SLICE);
        assert_eq!(slices, [[0, 1024], [1024, 2048], [2048, 3000], [3000, 3001], [3001, 4025]]);
        assert_eq!(set_slice, [0, 3, 3, 4, 5]);
    }
}
