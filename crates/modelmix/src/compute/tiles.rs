//! The tiling: rows of `x` against rows of `y`, block by block, with a leaf that reduces each tile while it is in L1.
//! No n × m matrix is ever stored.
//!
//! A block of `y` is stored depth by depth in panels of the micro-kernel's width. A chunk of `x` is copied row by row
//! with a stride that avoids cache aliasing. Both are centred in the process if the kernel allows it. The whole depth
//! of a tile is summed before the leaf receives it, in steps that bound both the rounding error and the panel's share
//! of L1.

use std::ops::Range;

use super::dispatch::Job;
use super::lanes::{Arithmetic, Map, needs_differences};
use super::micro::Micro;
use crate::features::Rows;
use crate::kernel::Kernel;

/// The depth summed in registers before it is added to the tile; less for squared differences, which are all positive.
pub(super) const PRODUCT_DEPTH: usize = 256;
const DIFFERENCE_DEPTH: usize = 64;
/// Bytes of a chunk of `x`, and of the part of a block of `y` that is processed at once: each half of a typical L2.
const CHUNK_BYTES: usize = 512 << 10;
/// The number of tiles of a panel before its sums in single precision are added to those in double precision.
const PANEL_TILES: usize = 16;
/// Bytes of a block of `y`.
const BLOCK_BYTES: usize = 5 << 19;
/// The number of values of the largest register tile, that of AVX-512: 12 rows of 32 columns.
const MAX_TILE_VALUES: usize = 12 * 32;

/// One side: its rows, and the term of each in the kernel.
pub(super) struct Side<'a> {
    pub(super) rows: Rows<'a>,
    pub(super) terms: Vec<f32>,
    /// Norms relative to the centre.
    pub(super) norms: Vec<f32>,
}

impl Side<'_> {
    pub(super) fn largest_norm(&self) -> f32 {
        self.norms.iter().fold(0.0, |most, &norm| most.max(norm))
    }
}

/// Everything that is the same for all tiles.
pub(super) struct Task<'a> {
    pub(super) x: &'a Side<'a>,
    pub(super) y: &'a Side<'a>,
    /// The vector that is subtracted from every row.
    pub(super) centre: Option<&'a [f32]>,
    /// The kernel whose values the leaf receives; `None` for squared distances.
    pub(super) kernel: Option<&'a Kernel>,
    /// The number of pairs of the shortest sum.
    pub(super) terms: usize,
    /// Only pairs with the row before the column, for a set with itself.
    pub(super) triangle: bool,
}

/// The position of a tile.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) rows: usize,
    pub(super) column: usize,
    pub(super) columns: usize,
}

/// A reduction of tiles. A panel is a sequence of tiles of the same rows.
pub(super) trait Leaf {
    /// Reduces a tile of kernel values (or squared distances), with rows `width` apart and `unit` as the factor of the
    /// values. Values beyond the rows and columns of the place are zero.
    fn tile<A: Arithmetic>(&mut self, tile: &mut [f32], width: usize, place: Place, unit: f64);

    /// Ends a panel of these rows.
    fn end_panel(&mut self, row: usize, rows: usize);
}

/// The number of rows of `y` per block, for features of this width.
pub(super) fn block_rows(width: usize) -> usize {
    (BLOCK_BYTES / (4 * width)).clamp(64, 1024) / 32 * 32
}

/// Scratch memory of a thread.
#[derive(Default)]
pub(super) struct Scratch {
    chunk: Vec<f32>,
    panels: [Vec<f32>; 2],
}

/// Rows `x_range` against rows `y_range`, which is at most one block.
pub(super) struct Sweep<'a, L> {
    pub(super) task: &'a Task<'a>,
    pub(super) x_range: Range<usize>,
    pub(super) y_range: Range<usize>,
    pub(super) leaf: &'a mut L,
    pub(super) scratch: &'a mut Scratch,
}

impl<L: Leaf> Job for Sweep<'_, L> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<M: Micro>(self) {
        let Sweep { task, x_range, y_range, leaf, scratch } = self;
        // SAFETY: as the caller guarantees.
        unsafe { sweep::<M, L>(task, x_range, y_range, leaf, scratch) }
    }
}

/// # Safety
/// Must be inlined into a function that enables the instructions of the micro-kernel.
#[inline(always)]
unsafe fn sweep<M: Micro, L: Leaf>(
    task: &Task<'_>,
    x_range: Range<usize>,
    y_range: Range<usize>,
    leaf: &mut L,
    scratch: &mut Scratch,
) {
    let width = task.x.rows.width();
    // Panels of `y`, uncentred and centred; each is packed when it is first needed.
    let mut packed = [false; 2];
    // Not a multiple of a page, so that the rows of a chunk do not map to the same cache lines.
    let stride = width.next_multiple_of(16) + 16;
    let chunk_rows = (CHUNK_BYTES / (4 * stride) / M::ROWS).max(1) * M::ROWS;
    let step_columns = (CHUNK_BYTES / (4 * width) / M::COLUMNS).clamp(1, PANEL_TILES) * M::COLUMNS;
    let y_norm = largest(&task.y.norms[y_range.clone()]);
    let most = largest(&task.x.norms[x_range.clone()]) * y_norm;
    let mut first = x_range.start;
    while first < x_range.end {
        let last = (first + chunk_rows).min(x_range.end);
        if task.triangle && first >= y_range.end {
            break;
        }
        let norms = largest(&task.x.norms[first..last]).max(y_norm).powi(2);
        let differences =
            task.kernel.is_some_and(|kernel| needs_differences(kernel, norms, width.min(PRODUCT_DEPTH), task.terms));
        let centre = task.centre.filter(|_| !differences);
        let which = usize::from(centre.is_some());
        if !packed[which] {
            pack_columns::<M>(task.y.rows.slice(y_range.start, y_range.end), centre, &mut scratch.panels[which]);
            packed[which] = true;
        }
        copy_rows::<M>(task.x.rows.slice(first, last), centre, stride, &mut scratch.chunk);
        let (map, unit) = task.kernel.map_or((Map::Distance, 1.0), |kernel| Map::new(kernel, differences, most));
        let mut from = y_range.start;
        while from < y_range.end {
            let until = (from + step_columns).min(y_range.end);
            let mut row = first;
            while row < last {
                let rows = M::ROWS.min(last - row);
                let a = &scratch.chunk[(row - first) * stride..];
                let mut column = from;
                while column < until {
                    let place = Place { row, rows, column, columns: M::COLUMNS.min(until - column) };
                    if !(task.triangle && place.row >= place.column + place.columns) {
                        let b = &scratch.panels[which][(column - y_range.start) * width..];
                        // SAFETY: the caller's function enables the instructions.
                        unsafe { tile::<M, L>(task, (a, stride), b, differences, (&map, unit), place, leaf) };
                    }
                    column += M::COLUMNS;
                }
                leaf.end_panel(row, rows);
                row += M::ROWS;
            }
            from = until;
        }
        first = last;
    }
}

/// One tile: sums of products or squared differences, the kernel, the leaf.
#[inline(always)]
unsafe fn tile<M: Micro, L: Leaf>(
    task: &Task<'_>,
    (a, stride): (&[f32], usize),
    b: &[f32],
    differences: bool,
    (map, unit): (&Map, f64),
    place: Place,
    leaf: &mut L,
) {
    #[repr(align(64))]
    struct Aligned([f32; MAX_TILE_VALUES]);
    let mut tile = Aligned([0.0; MAX_TILE_VALUES]);
    let tile = &mut tile.0[..M::ROWS * M::COLUMNS];
    let width = task.x.rows.width();
    let mut done = 0;
    while done < width {
        let depth = if differences { DIFFERENCE_DEPTH } else { PRODUCT_DEPTH }.min(width - done);
        let (a, b) = (&a[done..], &b[done * M::COLUMNS..]);
        // SAFETY: as the caller guarantees.
        unsafe {
            match (differences, done == 0) {
                (false, true) => M::accumulate::<false, true>(depth, a, stride, b, tile),
                (false, false) => M::accumulate::<false, false>(depth, a, stride, b, tile),
                (true, true) => M::accumulate::<true, true>(depth, a, stride, b, tile),
                (true, false) => M::accumulate::<true, false>(depth, a, stride, b, tile),
            }
        }
        done += depth;
    }
    // Missing columns of the last panel use the terms of earlier columns; their values are cleared below.
    let mut padded = [0.0f32; 32];
    let columns = if place.columns == M::COLUMNS {
        &task.y.terms[place.column..place.column + M::COLUMNS]
    } else {
        padded[..place.columns].copy_from_slice(&task.y.terms[place.column..place.column + place.columns]);
        &padded[..M::COLUMNS]
    };
    let mut rows = [0.0f32; 12];
    rows[..place.rows].copy_from_slice(&task.x.terms[place.row..place.row + place.rows]);
    // SAFETY: as the caller guarantees.
    unsafe { map.apply::<M>(tile, M::COLUMNS, &rows[..M::ROWS], columns) };
    if place.rows < M::ROWS || place.columns < M::COLUMNS || task.triangle && place.row + place.rows > place.column {
        for (index, values) in tile.chunks_exact_mut(M::COLUMNS).enumerate() {
            let start = if task.triangle { (place.row + index + 1).saturating_sub(place.column) } else { 0 };
            let start = if index < place.rows { start.min(M::COLUMNS) } else { M::COLUMNS };
            values[..start].fill(0.0);
            values[place.columns..].fill(0.0);
        }
    }
    leaf.tile::<M>(tile, M::COLUMNS, place, unit);
}

fn largest(norms: &[f32]) -> f64 {
    norms.iter().fold(0.0f32, |most, &norm| most.max(norm)).into()
}

/// Grows the buffer; existing values are old and finite.
fn grow(values: &mut Vec<f32>, len: usize) {
    if values.len() < len {
        values.resize(len, 0.0);
    }
}

/// Copies rows of `x`, centred and `stride` apart; values in missing rows of the last panel are arbitrary.
#[inline(always)]
fn copy_rows<M: Micro>(rows: Rows<'_>, centre: Option<&[f32]>, stride: usize, chunk: &mut Vec<f32>) {
    grow(chunk, rows.len().next_multiple_of(M::ROWS) * stride);
    for (row, copy) in rows.iter().zip(chunk.chunks_exact_mut(stride)) {
        match centre {
            None => copy[..row.len()].copy_from_slice(row),
            Some(centre) => {
                copy.iter_mut().zip(row.iter().zip(centre)).for_each(|(copy, (value, centre))| *copy = value - centre)
            }
        }
    }
}

/// Packs rows of `y` as panels of columns, depth by depth; values in missing columns of the last panel are arbitrary.
#[inline(always)]
fn pack_columns<M: Micro>(rows: Rows<'_>, centre: Option<&[f32]>, panels: &mut Vec<f32>) {
    /// The number of rows and depths that are transposed at once, in registers. More rows a page apart would exceed the
    /// associativity of the cache.
    const TURNED_ROWS: usize = 4;
    const TURNED_DEPTH: usize = 16;
    let width = rows.width();
    let whole = width / TURNED_DEPTH * TURNED_DEPTH;
    grow(panels, rows.len().next_multiple_of(M::COLUMNS) * width);
    for first in (0..rows.len()).step_by(TURNED_ROWS) {
        let group: [&[f32]; TURNED_ROWS] = std::array::from_fn(|index| rows.row((first + index).min(rows.len() - 1)));
        let panel = &mut panels[first / M::COLUMNS * M::COLUMNS * width..][..M::COLUMNS * width];
        let column = first % M::COLUMNS;
        let steps = panel[..whole * M::COLUMNS].chunks_exact_mut(TURNED_DEPTH * M::COLUMNS).enumerate();
        for (step, lines) in steps {
            let start = step * TURNED_DEPTH;
            let part = |values: &[f32]| -> [f32; TURNED_DEPTH] {
                values[start..start + TURNED_DEPTH].try_into().expect("a whole step")
            };
            let centre = centre.map_or([0.0; TURNED_DEPTH], part);
            let block = group.map(|row| {
                let row = part(row);
                std::array::from_fn::<f32, TURNED_DEPTH, _>(|depth| row[depth] - centre[depth])
            });
            for (depth, line) in lines.chunks_exact_mut(M::COLUMNS).enumerate() {
                let values: [f32; TURNED_ROWS] = std::array::from_fn(|index| block[index][depth]);
                line[column..column + TURNED_ROWS].copy_from_slice(&values);
            }
        }
        for (depth, line) in panel.chunks_exact_mut(M::COLUMNS).enumerate().skip(whole) {
            let centre = centre.map_or(0.0, |centre| centre[depth]);
            let values: [f32; TURNED_ROWS] = std::array::from_fn(|index| group[index][depth] - centre);
            line[column..column + TURNED_ROWS].copy_from_slice(&values);
        }
    }
}
