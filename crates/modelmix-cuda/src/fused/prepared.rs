//! The work of the fused kernels on the device: rows centred, scaled and split, tiles of products on tensor cores,
//! partial sums folded in double precision in the order of blocks.

use std::ops::Range;

use modelmix::Result;

use super::Fused;
use super::arrangement::Arrangement;
use super::tensor::tensor_map;
use crate::device::{ArgumentPointer, Buffer, Coming, Grid};
use crate::layout::BLOCK;
use crate::modules::{Form, Module};
use crate::options::Tier;
use crate::plan::Square;

/// Slices of rows whose sums are a centre.
const CENTRE_SLICES: usize = 16;
/// The maximum number of rows that a centre is computed from. Any point is valid, so a sample is enough.
const CENTRE_ROWS: usize = 512;
/// Multiplications per multiprocessor after which the stop token is checked: about 20 ms on an H200.
const WAIT_WORK: u64 = 30_000_000_000;
/// Dynamic shared memory of `pairs_sm90.cu` and `pairs_mma.cu`.
const WGMMA_SHARED: u32 = 4 * 49_152 + 16_384 + 4_096 + 64 + 1_024;
const MMA_SHARED: u32 = 3 * 4 * 128 * 64;

/// Everything on the device for one layout.
pub(crate) struct Prepared<'a> {
    call: &'a Fused<'a>,
    arranged: &'a Arrangement,
    form: Form,
    pitch: usize,
    small_pitch: usize,
    at: Buffer<u64>,
    hi: Buffer<u8>,
    lo: Buffer<u8>,
    mid: Buffer<u8>,
    weights: Buffer<f32>,
    terms: Buffer<f32>,
    residual: Buffer<f32>,
    centre: Buffer<f32>,
    slice_sums: Buffer<f64>,
    between: Buffer<f64>,
    extent: Buffer<u32>,
    scale: Buffer<f64>,
    row_part: Buffer<f32>,
    column_part: Buffer<f32>,
    pub(crate) out: Buffer<f64>,
    own: Buffer<f32>,
}

/// Bytes of a row of hi, and of one of lo and mid: multiples of 128, the depth of a slot.
fn pitches(form: Form, width: usize) -> (usize, usize) {
    let pitch = (2 * width).next_multiple_of(128);
    match form {
        Form::Halves => (pitch, pitch),
        Form::Mixed => (pitch, width.next_multiple_of(128)),
    }
}

/// What products are multiplied by. Tensor cores cut their sums off after every step of 16 columns, by half a unit in the
/// last place on average: 2⁻²⁴ · 0.72 of a sum that grows in proportion, so half of it per step over all steps. With
/// small bandwidths this bias is most of the error of entries.
fn gain(form: Form, pitch: usize) -> f64 {
    const PER_STEP: f64 = 0.5 * 0.72 / (1u64 << 24) as f64;
    let steps = pitch / 32 * if form == Form::Halves { 3 } else { 1 };
    1.0 + PER_STEP * steps as f64
}

impl<'a> Prepared<'a> {
    /// The number of bytes of all buffers, without small ones.
    pub(crate) fn bytes(call: &Fused<'_>, form: Form, arranged: &Arrangement) -> u64 {
        let Arrangement { layout, plan, .. } = arranged;
        let (pitch, small_pitch) = pitches(form, call.width());
        let small = if form == Form::Mixed { 2 * small_pitch } else { small_pitch };
        let (rows, groups, sets) = (layout.rows(), layout.groups(), call.sets.len());
        let (row_part, column_part) = plan.largest();
        let per_row = pitch + small + 24 + 8 * groups + 8 * sets;
        (rows * per_row + 4 * (row_part + column_part) + 8 * plan.tiles.len()) as u64
    }

    pub(crate) fn new(call: &'a Fused<'a>, form: Form, arranged: &'a Arrangement, base: &Buffer<u64>) -> Result<Self> {
        let Arrangement { layout, plan, .. } = arranged;
        let (queue, width) = (call.queue, call.width());
        let (pitch, small_pitch) = pitches(form, width);
        let (rows, groups) = (layout.rows(), layout.groups());
        let (row_part, column_part) = plan.largest();
        let what = "kernel sums";
        let at = queue.allocate(what, rows)?;
        let grid = Grid::new(rows.div_ceil(256), 256);
        // SAFETY: targets are rows with an address, or padding; there is an address for every padded row.
        unsafe {
            queue.launch(Module::Rows, "place", grid, &[&base.at, &arranged.target.at, &(rows as i32), &at.at])?;
        }
        Ok(Self {
            form,
            pitch,
            small_pitch,
            at,
            hi: queue.allocate(what, rows * pitch)?,
            lo: queue.allocate(what, rows * small_pitch)?,
            mid: queue.allocate(what, if form == Form::Mixed { rows * small_pitch } else { 0 })?,
            weights: queue.allocate(what, rows)?,
            terms: queue.allocate(what, groups * rows)?,
            residual: queue.allocate(what, groups * rows)?,
            centre: queue.allocate(what, groups * width)?,
            slice_sums: queue.allocate(what, groups * CENTRE_SLICES * width)?,
            between: queue.allocate(what, groups * groups)?,
            extent: queue.allocate(what, 1)?,
            scale: queue.allocate(what, 2)?,
            row_part: queue.allocate(what, row_part)?,
            column_part: queue.allocate(what, column_part)?,
            out: queue.zeros(what, call.sets.len() * base.len)?,
            own: queue.allocate(what, base.len)?,
            call,
            arranged,
        })
    }

    /// Centres, scale, split rows and terms.
    pub(crate) fn prepare(&self) -> Result<()> {
        let (queue, kernel) = (self.call.queue, self.call.kernel);
        let module = Module::Prepare(self.form, kernel.map);
        let (rows, groups, width) = (self.arranged.layout.rows(), self.arranged.layout.groups(), self.call.width());
        let (rows_i, groups_i, width_i) = (rows as i32, groups as i32, width as i32);
        let (slices, most) = (CENTRE_SLICES as i32, CENTRE_ROWS as i32);
        let columns = width.div_ceil(128);
        let rate = kernel.rate;
        let gain = gain(self.form, self.pitch);
        // SAFETY: buffers have the sizes that `prepare.cu` states, for this number of rows, groups and columns.
        unsafe {
            let grid = Grid { blocks: (columns as u32, CENTRE_SLICES as u32, groups as u32), threads: 128, shared: 0 };
            let sums = self.slice_sums.at;
            queue.launch(
                module,
                "centre_slices",
                grid,
                &[&self.at.at, &self.arranged.group_first.at, &self.arranged.group_rows.at, &width_i, &most, &sums],
            )?;
            queue.launch(
                module,
                "centre_fold",
                Grid::two(columns, groups, 128),
                &[&sums, &slices, &self.arranged.group_rows.at, &width_i, &most, &self.centre.at, &self.extent.at],
            )?;
            let grid = Grid::new(8 * queue.device.multiprocessors as usize, 256);
            queue.launch(
                module,
                "extent",
                grid,
                &[&self.at.at, &rows_i, &width_i, &self.centre.at, &self.arranged.block_group.at, &self.extent.at],
            )?;
            queue.launch(module, "choose_scale", Grid::new(1, 1), &[&self.extent.at, &rate, &gain, &self.scale.at])?;
            let (pitch, small_pitch) = (self.pitch as i32, self.small_pitch as i32);
            queue.launch(
                module,
                "split",
                Grid::new(rows.div_ceil(8), 256),
                &[
                    &self.at.at,
                    &rows_i,
                    &width_i,
                    &pitch,
                    &small_pitch,
                    &self.centre.at,
                    &self.arranged.block_group.at,
                    &self.scale.at,
                    &self.hi.at,
                    &self.lo.at,
                    &self.mid.at,
                    &self.weights.at,
                ],
            )?;
            let grid = Grid::two(groups, groups, 32);
            queue.launch(module, "centre_pairs", grid, &[&self.centre.at, &width_i, &self.between.at])?;
            queue.launch(
                module,
                "terms",
                Grid::new(rows.div_ceil(8), 256),
                &[
                    &self.at.at,
                    &rows_i,
                    &groups_i,
                    &width_i,
                    &self.centre.at,
                    &self.between.at,
                    &self.arranged.block_group.at,
                    &rate,
                    &kernel.offset,
                    &self.terms.at,
                    &self.residual.at,
                ],
            )
        }
    }

    /// Submits all squares, one after the other. The stop token is checked whenever enough work is submitted.
    pub(crate) fn multiply(&self, unit: usize) -> Result<()> {
        let plan = &self.arranged.plan;
        let (queue, run) = (self.call.queue, self.call.run);
        let per_tile = (unit * unit * self.call.width().next_multiple_of(64)) as u64;
        let limit = (WAIT_WORK * u64::from(queue.device.multiprocessors) / per_tile).max(1) as usize;
        let mut submitted = 0;
        for square in &plan.squares {
            for first in square.tiles.clone().step_by(limit) {
                let tiles = first..square.tiles.end.min(first + limit);
                if submitted > 0 && submitted + tiles.len() > limit {
                    queue.wait()?;
                    self.call.progress.reach(tiles.start as u64, plan.tiles.len() as u64);
                    submitted = 0;
                }
                run.check()?;
                submitted += tiles.len();
                self.launch(square, tiles.start, tiles.len())?;
            }
            self.fold(square)?;
        }
        Ok(())
    }

    fn launch(&self, square: &Square, first: usize, count: usize) -> Result<()> {
        let (queue, map) = (self.call.queue, self.call.kernel.map);
        let tiles = self.arranged.tiles.at + (first * size_of::<[u32; 2]>()) as u64;
        let rows = self.arranged.layout.rows() as i64;
        let (row0, column0) = (square.rows.start as i32, square.columns.start as i32);
        let (row_stride, column_stride) = (square.rows.len() as i64, square.columns.len() as i64);
        let column_part = if square.is_diagonal() { self.row_part.at } else { self.column_part.at };
        let [_, module] = Module::fused(queue.device.tier, self.form, map);
        // SAFETY: tensor maps and buffers cover all padded rows, tiles are inside the square, and partial sums have
        // room for the square.
        unsafe {
            match queue.device.tier {
                Tier::Wgmma => {
                    let hi = tensor_map(queue.device, self.hi.at, self.pitch, self.arranged.layout.rows())?;
                    let lo = tensor_map(queue.device, self.lo.at, self.small_pitch, self.arranged.layout.rows())?;
                    let mid = if self.form == Form::Mixed { self.mid.at } else { self.lo.at };
                    let mid = tensor_map(queue.device, mid, self.small_pitch, self.arranged.layout.rows())?;
                    let most = self.call.blocks.unwrap_or(u32::MAX).min(queue.device.multiprocessors);
                    let blocks = (most / 2 * 2).clamp(2, 2 * count as u32);
                    let grid = Grid { blocks: (blocks, 1, 1), threads: 384, shared: WGMMA_SHARED };
                    queue.launch(
                        module,
                        "pairs",
                        grid,
                        &[
                            &hi,
                            &lo,
                            &mid,
                            &tiles,
                            &(count as i32),
                            &((self.pitch / 128) as i32),
                            &((self.small_pitch / 128) as i32),
                            &self.scale.at,
                            &self.terms.at,
                            &self.arranged.block_group.at,
                            &self.weights.at,
                            &rows,
                            &row0,
                            &column0,
                            &self.row_part.at,
                            &row_stride,
                            &column_part,
                            &column_stride,
                        ],
                    )
                }
                Tier::Mma => {
                    let grid = Grid { blocks: (count as u32, 1, 1), threads: 256, shared: MMA_SHARED };
                    queue.launch(
                        module,
                        "pairs_mma",
                        grid,
                        &[
                            &self.hi.at,
                            &self.lo.at,
                            &(self.pitch as i32),
                            &tiles,
                            &self.scale.at,
                            &self.terms.at,
                            &self.arranged.block_group.at,
                            &self.weights.at,
                            &rows,
                            &row0,
                            &column0,
                            &self.row_part.at,
                            &row_stride,
                            &column_part,
                            &column_stride,
                        ],
                    )
                }
            }
        }
    }

    /// Adds the partial sums of a square to those of rows: of its rows, and of its columns.
    fn fold(&self, square: &Square) -> Result<()> {
        self.fold_side(self.row_part.at, &square.rows, &square.columns)?;
        if square.is_diagonal() {
            return Ok(());
        }
        self.fold_side(self.column_part.at, &square.columns, &square.rows)
    }

    fn fold_side(&self, part: u64, rows: &Range<usize>, columns: &Range<usize>) -> Result<()> {
        let (queue, sets) = (self.call.queue, self.call.sets.len());
        let module = Module::Prepare(self.form, self.call.kernel.map);
        let out_stride = (self.out.len / sets.max(1)) as i64;
        // SAFETY: there is a partial sum for every row and block of columns of the square, and a sum for every set and
        // target.
        unsafe {
            queue.launch(
                module,
                "fold",
                Grid::two(rows.len().div_ceil(128), sets, 128),
                &[
                    &part,
                    &(rows.len() as i64),
                    &(rows.start as i32),
                    &(rows.len() as i32),
                    &((columns.start / BLOCK) as i32),
                    &((columns.end / BLOCK) as i32),
                    &(self.arranged.layout.rows() as i32),
                    &self.arranged.set_group.at,
                    &self.arranged.group_first.at,
                    &self.arranged.group_rows.at,
                    &self.residual.at,
                    &self.arranged.target.at,
                    &out_stride,
                    &self.out.at,
                ],
            )
        }
    }

    /// Submits the term of every row with its own group: its squared distance to the centre, up to a factor.
    pub(crate) fn own_terms(&self) -> Result<Coming<'a>> {
        let (queue, rows) = (self.call.queue, self.arranged.layout.rows());
        let (block_group, target) = (self.arranged.block_group.at, self.arranged.target.at);
        let module = Module::Prepare(self.form, self.call.kernel.map);
        let grid = Grid::new(rows.div_ceil(256), 256);
        // SAFETY: there is a term for every group and padded row, and a place for every target.
        unsafe {
            let arguments: &[&dyn ArgumentPointer] =
                &[&self.terms.at, &(rows as i32), &block_group, &target, &self.own.at];
            queue.launch(module, "own_terms", grid, arguments)?;
        }
        queue.coming(&self.own)
    }
}
