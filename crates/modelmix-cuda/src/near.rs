//! Nearest rows with tensor cores: candidates from products in half precision with bounds, measured in double precision.
//! Rows with too many candidates are in doubt and computed from all distances, so the result is exact.

use modelmix::Result;
use modelmix::compute::{Neighbour, Run};

use crate::device::{Buffer, Grid, Queue};
use crate::exact::centre;
use crate::modules::{Form, Map, Module};
use crate::resident::{Loaded, addresses};
use crate::values;

/// The maximum number of neighbours, `MOST` of `near.cu`.
pub(crate) const MAX_NEAR: usize = 8;
/// Rows and columns per tile of `near.cu`.
const TILE: usize = 128;
/// Tiles are listed in squares of this many, whose rows the second-level cache holds.
const CACHED: usize = 8;
/// The maximum number of approximate distances that are stored at once: 2 GB.
const NEAR_AT_ONCE: usize = 1 << 29;
/// Dynamic shared memory of `near_squares`.
const SHARED: u32 = 4 * 2 * 128 * 64;

/// Tiles of some rows of tiles with all columns; `mirror` leaves out those below the diagonal.
fn tiles(rows: std::ops::Range<usize>, columns: usize, mirror: bool) -> Vec<[u32; 2]> {
    let mut tiles = Vec::new();
    for r0 in rows.clone().step_by(CACHED) {
        for c0 in (0..columns).step_by(CACHED) {
            for i in r0..(r0 + CACHED).min(rows.end) {
                let start = if mirror { c0.max(i) } else { c0 };
                tiles.extend((start..(c0 + CACHED).min(columns)).map(|j| [i as u32, j as u32]));
            }
        }
    }
    tiles
}

/// Rows in half precision.
struct Halves {
    at: Buffer<u64>,
    hi: Buffer<u8>,
    pitch: usize,
    squares: Buffer<f32>,
    rests: Buffer<f32>,
}

impl Halves {
    fn new(queue: &Queue<'_>, x: &Loaded) -> Result<Self> {
        let (rows, width) = (x.rows.next_multiple_of(TILE), x.width);
        let pitch = (2 * width).next_multiple_of(64);
        let groups = queue.zeros::<i32>("the centre", rows / 64)?;
        let halves = Self {
            at: addresses(queue, &[x], rows)?,
            hi: queue.allocate("rows in half precision", rows * pitch)?,
            pitch,
            squares: queue.allocate("squares of rows", rows)?,
            rests: queue.allocate("squares of rows", rows)?,
        };
        let (centre, extent) = centre(queue, &halves.at, x.rows, width)?;
        let module = Module::Prepare(Form::Halves, Map::Gaussian);
        let (at, rows_i, width_i) = (halves.at.at, rows as i32, width as i32);
        // SAFETY: buffers have the sizes that `prepare.cu` and `near.cu` state, for one group and these rows.
        unsafe {
            let grid = Grid::new(8 * queue.device.multiprocessors as usize, 256);
            queue.launch(module, "extent", grid, &[&at, &rows_i, &width_i, &centre.at, &groups.at, &extent.at])?;
            queue.launch(
                Module::Near,
                "halves",
                Grid::new(rows.div_ceil(8), 256),
                &[
                    &at,
                    &rows_i,
                    &width_i,
                    &(pitch as i32),
                    &centre.at,
                    &extent.at,
                    &halves.hi.at,
                    &halves.squares.at,
                    &halves.rests.at,
                ],
            )?;
        }
        Ok(halves)
    }
}

/// The `k` ≤ [`MAX_NEAR`] nearest other rows of every row; there must be more than `k` rows.
pub(crate) fn neighbours(queue: &Queue<'_>, run: &Run, x: &Loaded, k: usize) -> Result<Vec<Neighbour>> {
    run.check()?;
    let halves = Halves::new(queue, x)?;
    let padded = halves.squares.len;
    let mirror = padded * padded <= NEAR_AT_ONCE;
    let at_once = if mirror { padded } else { (NEAR_AT_ONCE / padded / TILE * TILE).max(TILE) };
    let near = queue.allocate::<f32>("approximate distances", at_once * padded)?;
    let distances = queue.allocate::<f64>("distances of neighbours", at_once * k)?;
    let who = queue.allocate::<u32>("neighbours", at_once * k)?;
    let doubt = queue.allocate::<u32>("rows in doubt", at_once)?;
    let mut found: Vec<Neighbour> = Vec::with_capacity(x.rows * k);
    let mut doubted: Vec<i32> = Vec::new();
    for first in (0..x.rows).step_by(at_once) {
        run.check()?;
        let rows = at_once.min(padded - first);
        let tiles = tiles(first / TILE..(first + rows) / TILE, padded / TILE, mirror);
        let tiles_at = queue.upload("tiles", &tiles)?;
        let count = at_once.min(x.rows - first);
        let (pitch, width, stride) = (halves.pitch as i32, x.width as i32, padded as i64);
        // SAFETY: tiles are inside the padded rows, and there is a place for the distances of every row of the launch and
        // for its neighbours.
        unsafe {
            let grid = Grid { blocks: (tiles.len() as u32, 1, 1), threads: 256, shared: SHARED };
            let (squares, mirror) = (halves.squares.at, i32::from(mirror));
            queue.launch(
                Module::Near,
                "near_squares",
                grid,
                &[&halves.hi.at, &pitch, &tiles_at.at, &squares, &(first as i32), &mirror, &near.at, &stride],
            )?;
            queue.launch(
                Module::Near,
                "near_select",
                Grid::new(count.div_ceil(4), 128),
                &[
                    &near.at,
                    &stride,
                    &halves.at.at,
                    &(count as i32),
                    &(x.rows as i32),
                    &(first as i32),
                    &width,
                    &squares,
                    &halves.rests.at,
                    &(k as i32),
                    &distances.at,
                    &who.at,
                    &doubt.at,
                ],
            )?;
        }
        let (distances, who, doubt) = (queue.values(&distances)?, queue.values(&who)?, queue.values(&doubt)?);
        let pairs = distances.into_iter().zip(who).take(count * k);
        found.extend(pairs.map(|(squared_distance, row)| Neighbour { squared_distance, row }));
        doubted.extend((0..count).filter(|&row| doubt[row] != 0).map(|row| (first + row) as i32));
    }
    for (row, nearest) in doubted.iter().zip(values::neighbours_of(queue, run, x, &doubted, k)?.chunks_exact(k)) {
        let row = *row as usize;
        found[row * k..(row + 1) * k].copy_from_slice(nearest);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_every_pair() {
        for (rows, columns, mirror) in [(0..20, 20, true), (3..11, 20, false), (0..1, 1, true)] {
            let tiles = tiles(rows.clone(), columns, mirror);
            for i in rows.clone() {
                for j in 0..columns {
                    let count = tiles.iter().filter(|tile| **tile == [i as u32, j as u32]).count();
                    assert_eq!(count, usize::from(!mirror || i <= j), "{i} {j}");
                }
            }
        }
    }
}
