//! Single values of pairs: kernels of new rows, products, distances, neighbours and balls.

use std::sync::{Mutex, PoisonError};

use modelmix::compute::{Neighbour, Resident, Run};
use modelmix::{Result, Rows};

use crate::device::{ArgumentPointer, Buffer, Grid, Pinned, Queue};
use crate::exact::{SLICE, Side, TILE_COLUMNS, TILE_ROWS, rows_per_launch, slices};
use crate::function::Function;
use crate::modules::Module;
use crate::resident::{Loaded, Source};

/// With at most this many new rows, one pass over the held rows computes all of them.
const FEW: usize = 4;
/// The dynamic shared memory in which the new rows of such a pass must fit.
const FEW_BYTES: usize = 47 << 10;
/// The number of values that are computed and copied back at once.
const VALUES_AT_ONCE: usize = 1 << 20;
/// The number of distances that are stored at once for neighbours: 256 MB.
const DISTANCES_AT_ONCE: usize = 1 << 25;

/// Buffers of [`Scratch`].
struct Buffers {
    pinned_rows: Pinned<f32>,
    rows: Buffer<f32>,
    pinned_values: Pinned<f64>,
    values: Buffer<f64>,
}

/// Buffers for new rows and their values, kept between calls: a session asks for one row at a time, and allocating
/// would take longer than the work.
#[derive(Default)]
pub(crate) struct Scratch(Mutex<Option<Buffers>>);

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scratch")
    }
}

impl Scratch {
    /// Calls `work` with buffers for `rows` values of rows and `values` results.
    fn with<T>(
        &self,
        queue: &Queue<'_>,
        rows: usize,
        values: usize,
        work: impl FnOnce(&mut Buffers) -> Result<T>,
    ) -> Result<T> {
        let mut buffers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut row_room, mut value_room) = (0, 0);
        if let Some(old) = &*buffers {
            (row_room, value_room) = (old.rows.len, old.values.len);
        }
        if buffers.is_none() || row_room < rows || value_room < values {
            // Half as much again, since a session's set grows row by row.
            let room = |room: usize, needed: usize| if room < needed { needed + needed / 2 } else { room };
            let (rows, values) = (room(row_room, rows), room(value_room, values));
            *buffers = None;
            *buffers = Some(Buffers {
                pinned_rows: Pinned::new(queue.device, rows)?,
                rows: queue.allocate("new rows", rows)?,
                pinned_values: Pinned::new(queue.device, values)?,
                values: queue.allocate("values of new rows", values)?,
            });
        }
        match &mut *buffers {
            Some(buffers) => work(buffers),
            None => Err(queue.device.problem("buffers are missing")),
        }
    }
}

/// New rows against rows held: adds `weight` times the function of every pair to what is there.
pub(crate) struct NewRows<'a> {
    pub(crate) queue: &'a Queue<'a>,
    pub(crate) scratch: &'a Scratch,
    pub(crate) run: &'a Run,
    pub(crate) function: &'a Function,
    pub(crate) weight: f64,
    /// Whether all is computed in double precision.
    pub(crate) is_precise: bool,
}

impl NewRows<'_> {
    pub(crate) fn add(&self, x: Rows<'_>, held: &Source<'_>, out: &mut [f64]) -> Result<()> {
        self.run.check()?;
        if x.is_empty() || out.is_empty() {
            return Ok(());
        }
        let is_few = x.len() <= FEW && size_of_val(x.values()) <= FEW_BYTES;
        if is_few && !self.is_precise { self.few(x, held, out) } else { self.many(x, held, out) }
    }

    /// Tiles of values, in parts that come back through pinned memory.
    fn many(&self, x: Rows<'_>, held: &Source<'_>, out: &mut [f64]) -> Result<()> {
        let (queue, function) = (self.queue, self.function);
        let held = held.load(queue)?;
        let (columns, width) = (held.rows, x.width());
        let y = if self.is_quick() { None } else { Some(Side::new(queue, &[&held], function)?) };
        let rows_at_once = (VALUES_AT_ONCE / columns).clamp(1, rows_per_launch(queue, columns, width));
        let rows_at_once = if rows_at_once > TILE_ROWS { rows_at_once / TILE_ROWS * TILE_ROWS } else { rows_at_once };
        for (index, out) in out.chunks_mut(rows_at_once * columns).enumerate() {
            self.run.check()?;
            let first = index * rows_at_once;
            let x = x.slice(first, (first + rows_at_once).min(x.len()));
            self.scratch.with(queue, x.values().len(), out.len(), |buffers| {
                buffers.pinned_rows.values_mut()[..x.values().len()].copy_from_slice(x.values());
                // SAFETY: the pinned rows change after this call has waited, or failed: then nothing uses the copy.
                unsafe { queue.write_pinned(&buffers.rows, &buffers.pinned_rows, x.values().len())? };
                let Some(y) = &y else { return self.quick(x, &held, buffers, out) };
                let new = Loaded::at(buffers.rows.at, x.len(), width);
                let x = Side::new(queue, &[&new], function)?;
                values(queue, function, (&x, 0, x.rows), y, buffers.values.at)?;
                // SAFETY: the pinned memory is used by nothing else, and has a value for every pair.
                unsafe {
                    queue.fetch(&buffers.values, &mut buffers.pinned_values, out.len())?;
                    queue.take_shares(buffers.pinned_values.values().as_ptr(), out, &|out, values| {
                        self.weigh(out, values);
                    })
                }
            })?;
        }
        Ok(())
    }

    /// Values in single precision of new rows on the device, which writes them to the host itself.
    fn quick(&self, x: Rows<'_>, held: &Loaded, buffers: &mut Buffers, out: &mut [f64]) -> Result<()> {
        let queue = self.queue;
        let (rows, columns, width) = (x.len() as i32, held.rows as i32, x.width() as i32);
        let grid = Grid::two(held.rows.div_ceil(TILE_COLUMNS), x.len().div_ceil(TILE_ROWS), 128);
        let to = &mut buffers.pinned_values;
        let add = |out: &mut [f64], values: &[f32]| {
            out.iter_mut().zip(values).for_each(|(out, &value)| *out += self.weight * f64::from(value));
        };
        // SAFETY: the pinned memory has room for a value of every pair, is used by nothing else, and a number of double
        // precision may be read as two of single precision.
        unsafe {
            let (rows_at, values_at) = (buffers.rows.at, to.address());
            let arguments: &[&dyn ArgumentPointer] =
                &[&rows_at, &rows, &held.base, &columns, &width, self.function, &values_at];
            queue.launch(Module::Rows, "many", grid, arguments)?;
            queue.take_shares(to.values().as_ptr().cast::<f32>(), out, &add)
        }
    }

    /// Whether values are computed in single precision.
    fn is_quick(&self) -> bool {
        self.function.is_smooth() && !self.is_precise
    }

    fn weigh(&self, out: &mut [f64], values: &[f64]) {
        out.iter_mut().zip(values).for_each(|(out, value)| *out += self.weight * value);
    }

    /// At most [`FEW`] new rows: one copy and one launch.
    fn few(&self, x: Rows<'_>, held: &Source<'_>, out: &mut [f64]) -> Result<()> {
        let (queue, loaded) = (
            self.queue,
            match held {
                Source::Here(_) => None,
                Source::Host(_) => Some(held.load(self.queue)?),
            },
        );
        let (base, rows, is_half) = match (held, &loaded) {
            (Source::Here(set), _) => {
                let (base, is_half) = set.raw();
                (base, set.len(), is_half)
            }
            (_, Some(loaded)) => (loaded.base, loaded.rows, false),
            (Source::Host(_), None) => return Ok(()),
        };
        let values = x.values().len();
        self.scratch.with(queue, values, out.len(), |buffers| {
            buffers.pinned_rows.values_mut()[..values].copy_from_slice(x.values());
            // SAFETY: the pinned rows change after this call has waited, or failed: then nothing uses the copy.
            unsafe { queue.write_pinned(&buffers.rows, &buffers.pinned_rows, values)? };
            let (count, rows_i, width) = (x.len() as i32, rows as i32, x.width() as i32);
            let shared = size_of_val(x.values()) as u32;
            let grid = Grid { blocks: (rows.div_ceil(8) as u32, 1, 1), threads: 256, shared };
            let name = if is_half { "few_half" } else { "few_single" };
            // The values are written to the host: a copy would take as long as the launch.
            let to = buffers.pinned_values.address();
            // SAFETY: the held rows are at their address, the new ones fit into shared memory, and there is a place for
            // a value of every pair. `wait` ends the launch before the values are read.
            unsafe {
                queue.launch(
                    Module::Rows,
                    name,
                    grid,
                    &[&buffers.rows.at, &count, &base, &rows_i, &width, self.function, &to],
                )?;
            }
            queue.wait()?;
            self.weigh(out, buffers.pinned_values.values());
            Ok(())
        })
    }
}

/// Values of `count` rows of `x`, from `first` on, with all rows of `y`, written to `to` in row-major order.
fn values(
    queue: &Queue<'_>,
    function: &Function,
    (x, first, count): (&Side, usize, usize),
    y: &Side,
    to: u64,
) -> Result<()> {
    let name = if function.is_product() { "values_product" } else { "values_distance" };
    let at = x.at.at + (first * size_of::<u64>()) as u64;
    let norms = x.norms.as_ref().map_or(0, |norms| norms.at + (first * size_of::<f64>()) as u64);
    let grid = Grid::two(y.rows.div_ceil(TILE_COLUMNS), count.div_ceil(TILE_ROWS), 128);
    // SAFETY: the caller has a place for a value of every pair.
    unsafe {
        queue.launch(
            Module::Tiles,
            name,
            grid,
            &[
                &at,
                &(count as i32),
                &norms,
                &y.at.at,
                &(y.rows as i32),
                &y.norms_at(),
                &(x.width as i32),
                function,
                &to,
            ],
        )
    }
}

/// The `k` nearest other rows of every row, from all distances.
pub(crate) fn neighbours(queue: &Queue<'_>, run: &Run, x: &Loaded, k: usize) -> Result<Vec<Neighbour>> {
    let rows: Vec<i32> = (0..x.rows as i32).collect();
    neighbours_of(queue, run, x, &rows, k)
}

/// The same of some of the rows.
pub(crate) fn neighbours_of(
    queue: &Queue<'_>,
    run: &Run,
    x: &Loaded,
    rows: &[i32],
    k: usize,
) -> Result<Vec<Neighbour>> {
    run.check()?;
    if rows.is_empty() || k == 0 {
        return Ok(Vec::new());
    }
    let all = Side::new(queue, &[x], &Function::DISTANCE)?;
    let at: Vec<u64> = rows.iter().map(|&row| x.row(row as usize)).collect();
    let some = Side::at(queue, queue.upload("addresses of rows", &at)?, x.width, &Function::DISTANCE)?;
    let own = queue.upload("indices of rows", rows)?;
    // Selecting reads every distance once per neighbour.
    let at_once = rows_per_launch(queue, x.rows, x.width + 8 * k);
    let at_once = at_once.min((DISTANCES_AT_ONCE / x.rows).max(1)).min(rows.len());
    let distances = queue.allocate::<f64>("distances of rows", at_once * x.rows)?;
    let near = queue.allocate::<f64>("distances of neighbours", at_once * k)?;
    let who = queue.allocate::<u32>("neighbours", at_once * k)?;
    let (mut near_values, mut who_values) = (vec![0.0; at_once * k], vec![0; at_once * k]);
    let mut neighbours = Vec::with_capacity(rows.len() * k);
    for first in (0..rows.len()).step_by(at_once) {
        run.check()?;
        let count = at_once.min(rows.len() - first);
        values(queue, &Function::DISTANCE, (&some, first, count), &all, distances.at)?;
        let (rows, columns, k_i) = (count as i32, x.rows as i32, k as i32);
        let own = own.at + (first * size_of::<i32>()) as u64;
        let grid = Grid::new(count.div_ceil(4), 128);
        // SAFETY: there are distances of every row of the launch, and a place for each of its neighbours.
        unsafe {
            queue.launch(
                Module::Tiles,
                "nearest",
                grid,
                &[&distances.at, &rows, &columns, &own, &k_i, &near.at, &who.at],
            )?;
        }
        queue.read(&near, 0, &mut near_values[..count * k])?;
        queue.read(&who, 0, &mut who_values[..count * k])?;
        let found = near_values.iter().zip(&who_values).take(count * k);
        neighbours.extend(found.map(|(&squared_distance, &row)| Neighbour { squared_distance, row }));
    }
    Ok(neighbours)
}

/// Radii, and weights of the other side, for [`balls`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Radii<'a> {
    /// Squared radii of the rows' own balls, and weights of the columns in them.
    pub(crate) rows: Option<(&'a [f64], &'a [f64])>,
    /// Squared radii of the columns' balls.
    pub(crate) columns: Option<&'a [f64]>,
}

/// For every row of `x`, the number of balls of `y` that contain it, and the weight of the rows of `y` in its own ball.
pub(crate) fn balls(
    queue: &Queue<'_>,
    run: &Run,
    x: &Loaded,
    y: &Loaded,
    radii: Radii<'_>,
) -> Result<(Vec<u32>, Vec<f64>)> {
    run.check()?;
    if x.rows == 0 || y.rows == 0 {
        return Ok((vec![0; x.rows], vec![0.0; x.rows]));
    }
    let (x_side, y_side) = (Side::new(queue, &[x], &Function::DISTANCE)?, Side::new(queue, &[y], &Function::DISTANCE)?);
    let (columns, _) = slices(&[y.rows], SLICE);
    let columns_at = queue.upload("slices of columns", &columns)?;
    let row_radii = radii.rows.map(|(radii, _)| queue.upload("radii", radii)).transpose()?;
    let weights = radii.rows.map(|(_, weights)| queue.upload("weights", weights)).transpose()?;
    let column_radii = radii.columns.map(|radii| queue.upload("radii", radii)).transpose()?;
    let counts = queue.zeros::<u32>("counts of balls", x.rows)?;
    let at_once = rows_per_launch(queue, y.rows, x.width).min(x.rows);
    let masses = queue.zeros::<f64>("weights in balls", columns.len() * at_once)?;
    let mut sums = vec![0.0; x.rows];
    let address = |buffer: &Option<Buffer<f64>>| buffer.as_ref().map_or(0, |buffer| buffer.at);
    let offset = |address: u64, bytes: usize| if address == 0 { 0 } else { address + bytes as u64 };
    for first in (0..x.rows).step_by(at_once) {
        run.check()?;
        let count = at_once.min(x.rows - first);
        let at = x_side.at.at + (first * size_of::<u64>()) as u64;
        let radii_at = offset(address(&row_radii), first * size_of::<f64>());
        let counts_at = counts.at + (first * size_of::<u32>()) as u64;
        let grid = Grid::two(count.div_ceil(TILE_ROWS), columns.len(), 128);
        // SAFETY: slices are inside the columns; every row has a radius and a count, every column a radius and a weight
        // if they are given, and there is a mass for every slice and row of the launch.
        unsafe {
            queue.launch(
                Module::Tiles,
                "balls",
                grid,
                &[
                    &at,
                    &(count as i32),
                    &radii_at,
                    &y_side.at.at,
                    &address(&column_radii),
                    &address(&weights),
                    &columns_at.at,
                    &(x.width as i32),
                    &counts_at,
                    &masses.at,
                    &(at_once as i64),
                ],
            )?;
        }
        if radii.rows.is_some() {
            let part = queue.values(&masses)?;
            for (row, sum) in sums[first..first + count].iter_mut().enumerate() {
                *sum = (0..columns.len()).map(|slice| part[slice * at_once + row]).sum();
            }
        } else {
            queue.wait()?;
        }
    }
    Ok((queue.values(&counts)?, sums))
}
