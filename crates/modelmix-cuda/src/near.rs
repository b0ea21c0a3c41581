//! Nearest rows with tensor cores: candidates from products in half precision with bounds, measured in double precision.
//! Rows with too many candidates are in doubt and computed from all distances, so the result is exact.

use std::sync::{Mutex, PoisonError};

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
/// Rows per bound of distances.
const BLOCK: usize = 64;
/// Tiles are listed in squares of this many, whose rows the second-level cache holds.
const CACHED: usize = 8;
/// The maximum number of approximate distances that are stored at once: 2 GB.
const NEAR_AT_ONCE: usize = 1 << 29;
/// The number of neighbours that a thread takes at once.
const PART: usize = 16 << 10;
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

/// Neighbours of rows in one array of 64-bit words, which is copied at once: distances, two indices of rows per word, and
/// two marks of rows in doubt per word.
#[derive(Clone, Copy)]
struct List {
    rows: usize,
    k: usize,
}

impl List {
    fn first_who(self) -> usize {
        self.rows * self.k
    }

    fn first_doubt(self) -> usize {
        self.first_who() + self.first_who().div_ceil(2)
    }

    fn len(self) -> usize {
        self.first_doubt() + self.rows.div_ceil(2)
    }

    fn who_at(self, base: u64) -> u64 {
        base + (self.first_who() * size_of::<f64>()) as u64
    }

    fn doubt_at(self, base: u64) -> u64 {
        base + (self.first_doubt() * size_of::<f64>()) as u64
    }

    fn neighbour(self, words: &[f64], index: usize) -> Neighbour {
        Neighbour { squared_distance: words[index], row: half(&words[self.first_who()..], index) }
    }

    fn is_in_doubt(self, words: &[f64], row: usize) -> bool {
        half(&words[self.first_doubt()..], row) != 0
    }
}

/// A number of 32 bits of an array of these.
fn half(words: &[f64], index: usize) -> u32 {
    (words[index / 2].to_bits() >> (32 * (index % 2))) as u32
}

/// The `k` ≤ [`MAX_NEAR`] nearest other rows of every row; there must be more than `k` rows.
pub(crate) fn neighbours(queue: &Queue<'_>, run: &Run, x: &Loaded, k: usize) -> Result<Vec<Neighbour>> {
    run.check()?;
    let halves = Halves::new(queue, x)?;
    let padded = halves.squares.len;
    let mirror = padded * padded <= NEAR_AT_ONCE;
    let at_once = if mirror { padded } else { (NEAR_AT_ONCE / padded / TILE * TILE).max(TILE) };
    let near = queue.allocate::<f32>("approximate distances", at_once * padded)?;
    let list = List { rows: at_once.min(x.rows), k };
    let lists = queue.zeros::<f64>("neighbours", list.len())?;
    // For every row, the least upper bound of its distances to each block of rows.
    let least = queue.allocate::<f32>("bounds of distances", at_once * (padded / BLOCK))?;
    let mut found: Vec<Neighbour> = Vec::new();
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
                &[
                    &halves.hi.at,
                    &pitch,
                    &tiles_at.at,
                    &squares,
                    &halves.rests.at,
                    &(x.rows as i32),
                    &width,
                    &(first as i32),
                    &mirror,
                    &near.at,
                    &stride,
                    &least.at,
                ],
            )?;
            queue.launch(
                Module::Near,
                "near_select",
                Grid::new(count.div_ceil(8), 256),
                &[
                    &near.at,
                    &stride,
                    &least.at,
                    &halves.at.at,
                    &(count as i32),
                    &(x.rows as i32),
                    &(first as i32),
                    &width,
                    &squares,
                    &halves.rests.at,
                    &(k as i32),
                    &lists.at,
                    &list.who_at(lists.at),
                    &list.doubt_at(lists.at),
                ],
            )?;
        }
        // Memory is used for the first time while the device is busy.
        found.resize(x.rows * k, Neighbour { squared_distance: 0.0, row: 0 });
        let values = queue.results(&lists, &queue.mark()?)?;
        let words: &[f64] = &values;
        let of_rows = &mut found[first * k..(first + count) * k];
        let parts: Vec<Mutex<&mut [Neighbour]>> = of_rows.chunks_mut(PART).map(Mutex::new).collect();
        queue.device.share(parts.len(), parts.len(), &|part| {
            let mut own = parts[part].lock().unwrap_or_else(PoisonError::into_inner);
            for (index, neighbour) in own.iter_mut().enumerate() {
                *neighbour = list.neighbour(words, part * PART + index);
            }
        });
        doubted.extend((0..count).filter(|&row| list.is_in_doubt(words, row)).map(|row| (first + row) as i32));
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
    fn words_hold_two_numbers() {
        let list = List { rows: 3, k: 1 };
        let pair = |low: u64, high: u64| f64::from_bits(low | high << 32);
        let words = [0.5, 1.5, 2.5, pair(7, 8), pair(9, 0), pair(0, 1), pair(0, 0)];
        assert_eq!(list.len(), words.len());
        let rows = [0, 1, 2];
        assert_eq!(rows.map(|row| list.neighbour(&words, row).row), [7, 8, 9]);
        assert_eq!(rows.map(|row| list.neighbour(&words, row).squared_distance), [0.5, 1.5, 2.5]);
        assert_eq!(rows.map(|row| list.is_in_doubt(&words, row)), [false, true, false]);
    }

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
