//! The work of the fused kernels on the device: rows centred, scaled and split, tiles of products on tensor cores,
//! partial sums folded in double precision in the order of blocks.

use std::cell::RefCell;
use std::ops::Range;

use modelmix::Result;

use super::arrangement::Arrangement;
use super::tensor::tensor_map;
use super::{Fused, MAX_HALVES_WIDTH};
use crate::device::{ArgumentPointer, Buffer, Coming, Grid, Queue, Window, bytes_of_two};
use crate::exact::{CENTRE_SLICES, centres};
use crate::layout::BLOCK;
use crate::modules::{Form, Module};
use crate::options::Tier;
use crate::plan::{SQUARE, Square};

/// Multiplications per multiprocessor after which the stop token is checked: about 20 ms on an H200.
const WAIT_WORK: u64 = 30_000_000_000;
/// The alignment of arrays: 128 bytes for the tensor copies.
const ALIGNMENT: usize = 256;
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
    /// Where arrays of [`Prepared::parts`] are.
    at: u64,
    hi: Halves,
    lo: Halves,
    mid: Halves,
    weights: u64,
    terms: u64,
    residual: u64,
    centre: u64,
    slice_sums: u64,
    between: u64,
    extent: u64,
    scale: u64,
    row_part: u64,
    column_part: u64,
    _memory: Buffer<u8>,
    /// The rows that are split, if these do not fit into memory as a whole.
    shown: RefCell<Vec<Range<usize>>>,
    pub(crate) out: Buffer<f64>,
    own: Buffer<f32>,
}

/// A part of all split rows: as a whole, or those of two sides of a square at a time.
enum Halves {
    /// At this address.
    Whole(u64),
    Window(Window),
}

impl Halves {
    /// Rows at this address, or in a window of their own.
    fn new(queue: &Queue<'_>, at: u64, (rows, pitch): (usize, usize), is_window: bool) -> Result<Self> {
        if !is_window {
            return Ok(Halves::Whole(at));
        }
        Ok(Halves::Window(Window::new(queue, "kernel sums", rows * pitch, SQUARE * pitch)?))
    }

    fn at(&self) -> u64 {
        match self {
            Halves::Whole(at) => *at,
            Halves::Window(window) => window.at,
        }
    }

    /// Puts rows into memory.
    fn show(&self, queue: &Queue<'_>, rows: &[Range<usize>], pitch: usize) -> Result<()> {
        match self {
            Halves::Whole(_) => Ok(()),
            Halves::Window(window) => {
                let bytes: Vec<Range<usize>> = rows.iter().map(|rows| rows.start * pitch..rows.end * pitch).collect();
                window.show(queue, &bytes)
            }
        }
    }
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

/// Whether split rows are in memory for one square at a time: if memory is short, and if there are more than two strips.
fn is_window(call: &Fused<'_>, rows: usize) -> bool {
    call.is_tight && rows > 2 * SQUARE
}

impl<'a> Prepared<'a> {
    /// The number of bytes of the arrays that only the device uses, in the order of [`Prepared::new`].
    fn parts(call: &Fused<'_>, form: Form, arranged: &Arrangement) -> [usize; 14] {
        let Arrangement { layout, plan, .. } = arranged;
        let (width, rows, groups) = (call.width(), layout.rows(), layout.groups());
        let (pitch, small_pitch) = pitches(form, width);
        let (row_part, column_part) = plan.largest();
        // Windows have memory of their own.
        let split = if is_window(call, rows) { 0 } else { rows };
        let mid = if form == Form::Mixed { split * small_pitch } else { 0 };
        let terms = 4 * groups * rows;
        let sums = 8 * groups * CENTRE_SLICES * width;
        [
            8 * rows,
            split * pitch,
            split * small_pitch,
            mid,
            4 * rows,
            terms,
            terms,
            4 * groups * width,
            sums,
            8 * groups * groups,
            4,
            16,
            4 * row_part,
            4 * column_part,
        ]
    }

    /// The number of bytes of all buffers.
    pub(crate) fn bytes(call: &Fused<'_>, form: Form, arranged: &Arrangement) -> u64 {
        let parts: usize =
            Self::parts(call, form, arranged).iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum();
        let rows: usize = call.sizes().iter().sum();
        let windows = if is_window(call, arranged.layout.rows()) {
            let (pitch, small_pitch) = pitches(form, call.width());
            let small = if form == Form::Mixed { 2 } else { 1 };
            bytes_of_two(SQUARE * pitch) + small * bytes_of_two(SQUARE * small_pitch)
        } else {
            0
        };
        (parts + windows + rows * (8 * call.sets.len() + 4) + 8 * arranged.plan.tiles.len()) as u64
    }

    pub(crate) fn new(call: &'a Fused<'a>, form: Form, arranged: &'a Arrangement, base: &Buffer<u64>) -> Result<Self> {
        let (queue, rows) = (call.queue, arranged.layout.rows());
        let (pitch, small_pitch) = pitches(form, call.width());
        let (what, is_window) = ("kernel sums", is_window(call, rows));
        // One allocation: each takes as long as a small launch.
        let parts = Self::parts(call, form, arranged);
        let memory = queue.allocate::<u8>(what, parts.iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum())?;
        let mut end = memory.at;
        let places = parts.map(|bytes| {
            let place = end;
            end += bytes.next_multiple_of(ALIGNMENT) as u64;
            place
        });
        let [
            at,
            hi,
            lo,
            mid,
            weights,
            terms,
            residual,
            centre,
            slice_sums,
            between,
            extent,
            scale,
            row_part,
            column_part,
        ] = places;
        let grid = Grid::new(rows.div_ceil(256), 256);
        // SAFETY: targets are rows with an address, or padding; there is an address for every padded row.
        unsafe {
            queue.launch(Module::Rows, "place", grid, &[&base.at, &arranged.target.at, &(rows as i32), &at])?;
        }
        Ok(Self {
            form,
            pitch,
            small_pitch,
            at,
            hi: Halves::new(queue, hi, (rows, pitch), is_window)?,
            lo: Halves::new(queue, lo, (rows, small_pitch), is_window)?,
            mid: Halves::new(queue, mid, (rows, small_pitch), is_window && form == Form::Mixed)?,
            shown: RefCell::default(),
            weights,
            terms,
            residual,
            centre,
            slice_sums,
            between,
            extent,
            scale,
            row_part,
            column_part,
            out: queue.zeros(what, call.sets.len() * base.len)?,
            own: queue.allocate(what, base.len)?,
            call,
            arranged,
            _memory: memory,
        })
    }

    /// Centres, scale, split rows and terms.
    pub(crate) fn prepare(&self) -> Result<()> {
        let (queue, kernel) = (self.call.queue, self.call.kernel);
        let module = Module::Prepare(self.form, kernel.map);
        let (rows, groups, width) = (self.arranged.layout.rows(), self.arranged.layout.groups(), self.call.width());
        let (rows_i, groups_i, width_i) = (rows as i32, groups as i32, width as i32);
        let rate = kernel.rate;
        let gain = gain(self.form, self.pitch);
        // SAFETY: buffers have the sizes that `prepare.cu` states, for this number of rows, groups and columns.
        unsafe {
            let of_groups = (self.arranged.group_first.at, self.arranged.group_rows.at, groups);
            centres(queue, module, self.at, of_groups, width, (self.slice_sums, self.centre, self.extent))?;
            let grid = Grid::new(8 * queue.device.multiprocessors as usize, 256);
            queue.launch(
                module,
                "extent",
                grid,
                &[&self.at, &rows_i, &width_i, &self.centre, &self.arranged.block_group.at, &self.extent],
            )?;
            queue.launch(module, "choose_scale", Grid::new(1, 1), &[&self.extent, &rate, &gain, &self.scale])?;
            if matches!(self.hi, Halves::Whole(_)) {
                self.split(0..rows)?;
            }
            let is_narrow = width <= MAX_HALVES_WIDTH;
            let grid = Grid::two(groups, groups, 32);
            queue.launch(module, "centre_pairs", grid, &[&self.centre, &width_i, &self.between])?;
            queue.launch(
                module,
                if is_narrow { "terms_narrow" } else { "terms" },
                Grid::new(rows.div_ceil(if is_narrow { 16 } else { 8 }), 256),
                &[
                    &self.at,
                    &rows_i,
                    &groups_i,
                    &width_i,
                    &self.centre,
                    &self.between,
                    &self.arranged.block_group.at,
                    &rate,
                    &kernel.offset,
                    &self.terms,
                    &self.residual,
                ],
            )
        }
    }

    /// Splits some rows, which start at a multiple of a block.
    fn split(&self, rows: Range<usize>) -> Result<()> {
        let (queue, first) = (self.call.queue, rows.start);
        let module = Module::Prepare(self.form, self.call.kernel.map);
        let (pitch, small_pitch) = (self.pitch as i32, self.small_pitch as i32);
        let offset = |at: u64, bytes: usize| at + (first * bytes) as u64;
        let block_group = self.arranged.block_group.at + (first / BLOCK * size_of::<i32>()) as u64;
        let mid = if self.form == Form::Mixed { offset(self.mid.at(), self.small_pitch) } else { self.mid.at() };
        // SAFETY: buffers have the sizes that `prepare.cu` states, and these rows of windows are in memory.
        unsafe {
            queue.launch(
                module,
                "split",
                Grid::new(rows.len().div_ceil(8), 256),
                &[
                    &offset(self.at, size_of::<u64>()),
                    &(rows.len() as i32),
                    &(self.call.width() as i32),
                    &pitch,
                    &small_pitch,
                    &self.centre,
                    &block_group,
                    &self.scale,
                    &offset(self.hi.at(), self.pitch),
                    &offset(self.lo.at(), self.small_pitch),
                    &mid,
                    &offset(self.weights, size_of::<f32>()),
                ],
            )
        }
    }

    /// Puts the split rows of a square into memory, unless all are.
    fn show(&self, square: &Square) -> Result<()> {
        if matches!(self.hi, Halves::Whole(_)) {
            return Ok(());
        }
        let mut wanted = vec![square.rows.clone()];
        if !square.is_diagonal() {
            wanted.push(square.columns.clone());
        }
        let queue = self.call.queue;
        self.hi.show(queue, &wanted, self.pitch)?;
        self.lo.show(queue, &wanted, self.small_pitch)?;
        self.mid.show(queue, &wanted, self.small_pitch)?;
        let before = self.shown.replace(wanted.clone());
        wanted.into_iter().filter(|rows| !before.contains(rows)).try_for_each(|rows| self.split(rows))
    }

    /// Submits all squares, one after the other. The stop token is checked whenever enough work is submitted.
    pub(crate) fn multiply(&self, unit: usize) -> Result<()> {
        let plan = &self.arranged.plan;
        let (queue, run) = (self.call.queue, self.call.run);
        let per_tile = (unit * unit * self.call.width().next_multiple_of(64)) as u64;
        let limit = (WAIT_WORK * u64::from(queue.device.multiprocessors) / per_tile).max(1) as usize;
        let mut submitted = 0;
        for square in &plan.squares {
            self.show(square)?;
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
        let column_part = if square.is_diagonal() { self.row_part } else { self.column_part };
        let [_, module] = Module::fused(queue.device.tier, self.form, map);
        // SAFETY: tensor maps and buffers cover all padded rows, tiles are inside the square, and partial sums have
        // room for the square.
        unsafe {
            match queue.device.tier {
                Tier::Wgmma => {
                    let hi = tensor_map(queue.device, self.hi.at(), self.pitch, self.arranged.layout.rows())?;
                    let lo = tensor_map(queue.device, self.lo.at(), self.small_pitch, self.arranged.layout.rows())?;
                    let mid = if self.form == Form::Mixed { self.mid.at() } else { self.lo.at() };
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
                            &self.scale,
                            &self.terms,
                            &self.arranged.block_group.at,
                            &self.weights,
                            &rows,
                            &row0,
                            &column0,
                            &self.row_part,
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
                            &self.hi.at(),
                            &self.lo.at(),
                            &(self.pitch as i32),
                            &tiles,
                            &self.scale,
                            &self.terms,
                            &self.arranged.block_group.at,
                            &self.weights,
                            &rows,
                            &row0,
                            &column0,
                            &self.row_part,
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
        self.fold_side(self.row_part, &square.rows, &square.columns)?;
        if square.is_diagonal() {
            return Ok(());
        }
        self.fold_side(self.column_part, &square.columns, &square.rows)
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
                    &self.residual,
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
                &[&self.terms, &(rows as i32), &block_group, &target, &self.own.at];
            queue.launch(module, "own_terms", grid, arguments)?;
        }
        queue.coming(&self.own)
    }
}
