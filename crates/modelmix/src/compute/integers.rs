//! Gaussian kernel sums from products of 16-bit integers, which processors compute at about twice the rate of single
//! precision. `estimate` predicts their error from a few rows that are summed in single precision as well, and the engine
//! uses them only if it is small.
//!
//! The centre of its set is subtracted from every row, so that rows that are near have small products. For x in set g and
//! y in set h, with centres c: ‖x−y‖² = t_h(x) + t_g(y) − 2(x−c_g)·(y−c_h), where t_h(x) = ‖x−c_h‖² − ‖c_g−c_h‖²/2 is
//! computed in double precision before anything is rounded.

mod estimate;
mod micro;
mod quantise;

use std::cell::RefCell;
use std::ops::Range;

use self::micro::{Edge, IntegerMicro};
use self::quantise::{Measure, Measured, pack, pairs, part_pairs};
use super::dispatch::Instructions;
use super::leaves::Sums;
use super::row::ColumnSums;
use super::tiles::Leaf;
use super::{Run, parallel};
use crate::error::Result;
use crate::features::Rows;

use self::estimate::Probes;
pub(super) use self::estimate::is_exact_enough;
pub(super) use self::micro::{MAX_COLUMNS, MAX_ROWS, TileSums};

/// Bytes of a chunk of `x`, and of the part of a block of `y` that is processed at once: each half of a typical L2.
const CHUNK_BYTES: usize = 512 << 10;
/// The number of tiles of a panel before its sums in single precision are added to those in double precision.
const PANEL_TILES: usize = 16;
/// The number of rows per task that are measured.
const ROWS_PER_TASK: usize = 256;
/// The maximum number of rows of a set from which its centre is computed.
const MAX_CENTRE_ROWS: usize = 512;
/// The number of columns per task whose sums with chosen rows are computed.
const PROBED_COLUMNS: usize = 1024;
/// The exponent of pairs that do not exist.
const NO_PAIR: f32 = -1e30;

/// Instructions for products of 16-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerInstructions {
    /// `vpmaddwd` on 256 bits.
    Avx2,
    /// `vpdpwssd` on 512 bits.
    Vnni,
}

impl IntegerInstructions {
    /// Those beside the instructions of an engine, if they are faster than single precision. On 512 bits without VNNI
    /// they are not.
    pub(super) fn beside(instructions: Instructions) -> Option<Self> {
        match instructions {
            Instructions::Portable => None,
            Instructions::Avx2 => Some(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => is_x86_feature_detected!("avx512vnni").then_some(Self::Vnni),
            #[cfg(not(target_arch = "x86_64"))]
            Instructions::Avx512 => None,
        }
    }
}

/// A set of rows that are to be rounded to integers when they are packed.
pub(super) struct Side<'a> {
    rows: Rows<'a>,
    centre: Vec<f32>,
    measured: Vec<Measured>,
    /// What each row is multiplied by before it is rounded.
    scales: Vec<f32>,
    /// 1/scale, for columns.
    inverses: Vec<f32>,
    /// 2γ/scale, for rows. γ is in double precision: rounded once for all rows, it would bias all values alike.
    factors: Vec<f32>,
    /// −γ·t of every row, for every set.
    terms: Vec<Vec<f32>>,
}

/// Sets with their centres, scales and terms.
pub(super) struct Prepared<'a> {
    sides: Vec<Side<'a>>,
    bandwidth: f64,
}

impl<'a> Prepared<'a> {
    /// Measures all rows of all sets.
    pub(super) fn new(
        threads: usize,
        instructions: Instructions,
        run: &Run,
        bandwidth: f64,
        sets: &[Rows<'a>],
    ) -> Result<Self> {
        // Powers of two are computed.
        let gamma = std::f64::consts::LOG2_E / (2.0 * bandwidth * bandwidth);
        let centres: Vec<Vec<f32>> = sets.iter().map(|set| centre(instructions, *set)).collect();
        let side = |own: usize| {
            let shifts: Vec<(Vec<f32>, f64)> = centres.iter().map(|other| shift(&centres[own], other)).collect();
            let rows = sets[own];
            let parts = parallel(threads, run.stop(), rows.len().div_ceil(ROWS_PER_TASK), |part| {
                let rows = rows.slice(part * ROWS_PER_TASK, ((part + 1) * ROWS_PER_TASK).min(rows.len()));
                Ok(instructions.run(Measure { rows, centre: &centres[own], shifts: &shifts }))
            })?;
            let (mut measured, mut terms) = (Vec::with_capacity(rows.len()), vec![Vec::new(); sets.len()]);
            for (part, part_terms) in parts {
                measured.extend(part);
                for (terms, set) in terms.iter_mut().zip(0..) {
                    terms.extend(part_terms.iter().skip(set).step_by(sets.len()).map(|term| exponent(gamma, *term)));
                }
            }
            let scales: Vec<f32> = measured.iter().map(|row: &Measured| row.scale).collect();
            let inverse = |scale: &f32, factor: f64| (factor / f64::from(*scale)) as f32;
            Ok(Side {
                rows,
                centre: centres[own].clone(),
                inverses: scales.iter().map(|scale| inverse(scale, 1.0)).collect(),
                factors: scales.iter().map(|scale| inverse(scale, 2.0 * gamma)).collect(),
                measured,
                scales,
                terms,
            })
        };
        let sides = (0..sets.len()).map(side).collect::<Result<_>>()?;
        Ok(Self { sides, bandwidth })
    }

    /// Whether no square of a value overflows single precision.
    pub(super) fn is_ordinary(&self) -> bool {
        let rows = self.sides.iter().flat_map(|side| &side.measured);
        let largest = rows.map(|row| row.squared_norm).fold(0.0, f64::max);
        (1e-30..1e30).contains(&largest)
    }

    /// Rows to be summed in single precision as well.
    pub(super) fn probes(&self) -> Probes {
        let width = self.sides[0].rows.width() as f64;
        let square = |side: &Side<'_>| side.measured.iter().map(|row| row.squared_norm).sum::<f64>();
        let typical = self.sides.iter().map(|side| square(side) / side.rows.len() as f64).fold(0.0, f64::max);
        let error = |row: &Measured| (2.0 * row.squared_residual * typical / width).sqrt() / self.bandwidth.powi(2);
        let sets = self.sides.iter().map(|side| {
            let errors = side.measured.iter().map(error).collect();
            (errors, side.measured.iter().map(|row| row.squared_norm).collect())
        });
        Probes::new(sets.collect())
    }

    /// Adds Σk over rows `x_range` of set `x` and rows `y_range` of set `y` to a leaf; for a set with itself, over pairs
    /// with the row before the column.
    pub(super) fn sweep(
        &self,
        instructions: IntegerInstructions,
        (x, y): (usize, usize),
        (x_range, y_range): (Range<usize>, Range<usize>),
        leaf: &mut Sums,
        scratch: &mut Scratch,
    ) {
        let parts = &mut [Part { set: x, side: &self.sides[x], rows: x_range, triangle: x == y, leaf }];
        self.sweep_parts(instructions, (y, y_range), parts, scratch);
    }

    /// Σk of some rows of every set over every set: `[set][other][row]`. In their own set, they are not paired with each
    /// other.
    pub(super) fn sums_of(
        &self,
        (instructions, threads): (IntegerInstructions, usize),
        run: &Run,
        chosen: &[Chosen],
    ) -> Result<Vec<Vec<Vec<f64>>>> {
        let sides: Vec<Side<'_>> = self.sides.iter().zip(chosen).map(|(side, chosen)| side.select(chosen)).collect();
        let mut sums: Vec<Vec<Vec<f64>>> = sides.iter().map(|_| Vec::new()).collect();
        for (other, (side, chosen)) in self.sides.iter().zip(chosen).enumerate() {
            let pieces = gaps(side.rows.len(), &chosen.rows);
            let parts = parallel(threads, run.stop(), pieces.len(), |piece| {
                run.check()?;
                let (columns, is_chosen) = &pieces[piece];
                let mut leaves: Vec<Sums> =
                    sides.iter().map(|side| Sums::new(0..side.rows.len(), columns.clone())).collect();
                let parts = leaves.iter_mut().zip(&sides).enumerate();
                let mut parts: Vec<Part<'_>> = parts
                    .filter(|(set, _)| !is_chosen || *set != other)
                    .map(|(set, (leaf, side))| Part { set, side, rows: 0..side.rows.len(), triangle: false, leaf })
                    .collect();
                Scratch::with(|scratch| {
                    self.sweep_parts(instructions, (other, columns.clone()), &mut parts, scratch);
                });
                Ok(leaves)
            })?;
            for (set, sums) in sums.iter_mut().enumerate() {
                let mut total = vec![0.0; sides[set].rows.len()];
                for leaves in &parts {
                    total.iter_mut().zip(&leaves[set].rows).for_each(|(total, sum)| *total += sum);
                }
                sums.push(total);
            }
        }
        Ok(sums)
    }

    fn sweep_parts(
        &self,
        instructions: IntegerInstructions,
        (y, columns): (usize, Range<usize>),
        parts: &mut [Part<'_>],
        scratch: &mut Scratch,
    ) {
        let sweep = Sweep { y: &self.sides[y], y_set: y, columns };
        match instructions {
            // SAFETY: engines have these instructions only if the processor has them.
            #[cfg(target_arch = "x86_64")]
            IntegerInstructions::Avx2 => unsafe { with_avx2(&sweep, parts, scratch) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            IntegerInstructions::Vnni => unsafe { with_vnni(&sweep, parts, scratch) },
            #[cfg(not(target_arch = "x86_64"))]
            _ => unreachable!("not available here: {}", (sweep.y_set, parts.len(), scratch.rows.len()).0),
        }
    }
}

impl Side<'_> {
    /// Some of its rows, as a set with the same centre.
    fn select<'a>(&self, chosen: &'a Chosen) -> Side<'a> {
        let of = |values: &[f32]| chosen.rows.iter().map(|&row| values[row]).collect::<Vec<f32>>();
        Side {
            rows: Rows::new(self.rows.width(), &chosen.values),
            centre: self.centre.clone(),
            measured: chosen.rows.iter().map(|&row| self.measured[row]).collect(),
            scales: of(&self.scales),
            inverses: of(&self.inverses),
            factors: of(&self.factors),
            terms: self.terms.iter().map(|terms| of(terms)).collect(),
        }
    }
}

/// Some rows of a set: their indices, in ascending order, and their values.
pub(super) struct Chosen {
    pub(super) rows: Vec<usize>,
    pub(super) values: Vec<f32>,
}

impl Chosen {
    pub(super) fn new(set: Rows<'_>, rows: Vec<usize>) -> Self {
        let values = rows.iter().flat_map(|&row| set.row(row)).copied().collect();
        Self { rows, values }
    }
}

/// All columns, in blocks that threads share, and whether a block is one of the chosen rows; those are blocks by themselves.
fn gaps(columns: usize, chosen: &[usize]) -> Vec<(Range<usize>, bool)> {
    let mut all = Vec::new();
    let mut start = 0;
    for &row in chosen.iter().chain([&columns]) {
        let blocks = (start..row).step_by(PROBED_COLUMNS).map(|first| first..(first + PROBED_COLUMNS).min(row));
        all.extend(blocks.map(|block| (block, false)));
        if row < columns {
            all.push((row..row + 1, true));
        }
        start = row + 1;
    }
    all
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2(sweep: &Sweep<'_>, parts: &mut [Part<'_>], scratch: &mut Scratch) {
    // SAFETY: this function enables the instructions.
    unsafe { sweep.run::<micro::Avx2, 6, 16, 2>(parts, scratch) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
fn with_vnni(sweep: &Sweep<'_>, parts: &mut [Part<'_>], scratch: &mut Scratch) {
    // SAFETY: this function enables the instructions.
    unsafe { sweep.run::<micro::Vnni, 12, 32, 4>(parts, scratch) }
}

/// −γ·t, finite: beyond this all values are 0.
fn exponent(gamma: f64, term: f64) -> f32 {
    (-gamma * term).max(NO_PAIR.into()) as f32
}

/// The mean of some rows.
fn centre(instructions: Instructions, rows: Rows<'_>) -> Vec<f32> {
    let step = rows.len().div_ceil(MAX_CENTRE_ROWS).max(1);
    let count = rows.len().div_ceil(step).max(1) as f64;
    instructions.run(ColumnSums { rows, step }).into_iter().map(|sum| (sum / count) as f32).collect()
}

/// The difference between two centres, and its squared norm.
fn shift(own: &[f32], other: &[f32]) -> (Vec<f32>, f64) {
    let shift: Vec<f32> = own.iter().zip(other).map(|(own, other)| own - other).collect();
    let squared = shift.iter().map(|&value| f64::from(value).powi(2)).sum();
    (shift, squared)
}

/// Buffers of a thread.
#[derive(Default)]
pub(super) struct Scratch {
    integers: Vec<i32>,
    rows: Vec<i32>,
    columns: Vec<i32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Scratch {
    /// Calls a function with the buffers of this thread, which outlive the call.
    pub(super) fn with<R>(work: impl FnOnce(&mut Self) -> R) -> R {
        SCRATCH.with_borrow_mut(work)
    }
}

/// Values from the first one at a multiple of a cache line.
fn aligned(values: &mut Vec<i32>, len: usize) -> &mut [i32] {
    const LINE: usize = 16;
    if values.len() < len + LINE {
        values.resize(len + LINE, 0);
    }
    let start = values.as_ptr().align_offset(4 * LINE).min(LINE);
    &mut values[start..start + len]
}

/// A block of columns: rows of one set, that rows of others are paired with.
struct Sweep<'a> {
    y: &'a Side<'a>,
    y_set: usize,
    columns: Range<usize>,
}

/// Rows of a set, whose sums over the columns are added to a leaf.
struct Part<'a> {
    set: usize,
    side: &'a Side<'a>,
    rows: Range<usize>,
    /// Whether only pairs count in which the row is before the column.
    triangle: bool,
    leaf: &'a mut Sums,
}

impl Sweep<'_> {
    /// `ROWS` and `COLUMNS` are those of the micro-kernel; `GROUP` divides both.
    ///
    /// # Safety
    /// Must be inlined into a function that enables the instructions of the micro-kernel.
    #[inline(always)]
    unsafe fn run<M: IntegerMicro, const ROWS: usize, const COLUMNS: usize, const GROUP: usize>(
        &self,
        parts: &mut [Part<'_>],
        scratch: &mut Scratch,
    ) {
        const {
            assert!(
                M::ROWS == ROWS && M::COLUMNS == COLUMNS && ROWS.is_multiple_of(GROUP) && COLUMNS.is_multiple_of(GROUP)
            )
        }
        let Self { y, ref columns, .. } = *self;
        let steps = pairs(y.rows.width());
        let chunk_rows = (CHUNK_BYTES / (4 * steps) / ROWS).max(1) * ROWS;
        let step_columns = (CHUNK_BYTES / (4 * steps) / COLUMNS).clamp(1, PANEL_TILES) * COLUMNS;
        let Scratch { integers, rows: packed_rows, columns: packed_columns } = scratch;
        let panels = aligned(packed_columns, columns.len().next_multiple_of(COLUMNS) * steps);
        let y_rows = y.rows.slice(columns.start, columns.end);
        pack::<COLUMNS, GROUP>(y_rows, &y.centre, &y.scales[columns.clone()], integers, panels);
        for part in parts {
            let side = part.side;
            for first in part.rows.clone().step_by(chunk_rows) {
                if part.triangle && first >= columns.end {
                    break;
                }
                let last = (first + chunk_rows).min(part.rows.end);
                let chunk = aligned(packed_rows, (last - first).next_multiple_of(ROWS) * steps);
                let rows = side.rows.slice(first, last);
                pack::<ROWS, GROUP>(rows, &side.centre, &side.scales[first..last], integers, chunk);
                for from in columns.clone().step_by(step_columns) {
                    let until = (from + step_columns).min(columns.end);
                    for row in (first..last).step_by(ROWS) {
                        let count = ROWS.min(last - row);
                        let a = &chunk[(row - first) * steps..];
                        // SAFETY: as the caller guarantees.
                        unsafe { self.panel::<M>(part, a, panels, row..row + count, from..until) };
                        part.leaf.end_panel(row, count);
                    }
                }
            }
        }
    }

    /// Some rows against the columns of a step.
    #[inline(always)]
    unsafe fn panel<M: IntegerMicro>(
        &self,
        part: &mut Part<'_>,
        a: &[i32],
        panels: &[i32],
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        #[repr(align(64))]
        struct Tile([f32; MAX_ROWS * MAX_COLUMNS]);
        let mut tile = Tile([0.0; MAX_ROWS * MAX_COLUMNS]);
        let tile = &mut tile.0;
        let (steps, length) = (pairs(self.y.rows.width()), part_pairs(self.y.rows.width()));
        let side = part.side;
        let padded_rows = Padded::<MAX_ROWS>::new(&side.factors[rows.clone()], &side.terms[self.y_set][rows.clone()]);
        let (inverses, terms) = (&self.y.inverses, &self.y.terms[part.set]);
        for column in columns.clone().step_by(M::COLUMNS) {
            let end = (column + M::COLUMNS).min(columns.end);
            if part.triangle && rows.start >= end {
                continue;
            }
            let b = &panels[(column - self.columns.start) * steps..];
            // SAFETY, of all blocks: as the caller guarantees.
            unsafe { M::products::<true>(length.min(steps), a, b, tile) };
            for done in (length..steps).step_by(length) {
                let count = length.min(steps - done);
                unsafe { M::products::<false>(count, &a[done * M::ROWS..], &b[done * M::COLUMNS..], tile) };
            }
            let padded;
            let edge = if end - column == M::COLUMNS {
                Edge { scales: &inverses[column..end], terms: &terms[column..end] }
            } else {
                padded = Padded::<MAX_COLUMNS>::new(&inverses[column..end], &terms[column..end]);
                padded.edge()
            };
            let sums = part.leaf.of_tile(column);
            if part.triangle && column < rows.end {
                let shift = rows.start as isize - column as isize;
                unsafe { M::finish::<true>(tile, padded_rows.edge(), edge, shift, sums) };
            } else {
                unsafe { M::finish::<false>(tile, padded_rows.edge(), edge, 0, sums) };
            }
        }
    }
}

/// Scales and terms of up to `N` rows or columns; those that do not exist have kernel values of 0.
struct Padded<const N: usize> {
    scales: [f32; N],
    terms: [f32; N],
}

impl<const N: usize> Padded<N> {
    fn new(scales: &[f32], terms: &[f32]) -> Self {
        let mut padded = Self { scales: [0.0; N], terms: [NO_PAIR; N] };
        padded.scales[..scales.len()].copy_from_slice(scales);
        padded.terms[..terms.len()].copy_from_slice(terms);
        padded
    }

    fn edge(&self) -> Edge<'_> {
        Edge { scales: &self.scales, terms: &self.terms }
    }
}
