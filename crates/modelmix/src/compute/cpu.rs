//! The default engine: tiles on all cores with the best instruction set of the processor. Tasks depend only on the size
//! of the data and their results are added in a fixed order, so results do not depend on the number of threads.

mod backend;
mod sums;

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::dispatch::Instructions;
use super::lanes::{Map, is_centred};
use super::parallel::MAX_THREADS;
use super::row::{ColumnSums, SquaredNorms};
use super::tiles::{Leaf, Scratch, Side, Sweep, Task, block_rows};
use super::{Run, available_threads, parallel};
use crate::error::Result;
use crate::features::Rows;
use crate::kernel::Kernel;

/// The number of rows of the first set per task.
const ROWS_PER_TASK: usize = 2048;
/// The number of blocks into which the rows of a set are split for threads, unless blocks would be longer than a task.
const ROW_BLOCKS: usize = 16;
/// The maximum number of rows of a set from which the centre is computed.
const MAX_CENTRE_ROWS: usize = 512;
/// The number of rows per task for norms or neighbours.
const ROWS_PER_SHORT_TASK: usize = 256;

/// What kernel sums are computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Precision {
    /// Products of 16-bit integers if their error is small, otherwise single precision.
    #[default]
    Auto,
    /// Single precision, or more where that is not enough.
    Exact,
}

/// The default engine: kernel sums on the processor's cores, in single precision or, if that is exact enough, from
/// products of 16-bit integers.
#[derive(Clone, Debug)]
pub struct Cpu {
    threads: usize,
    instructions: Instructions,
    precision: Precision,
    /// What kernel sums were computed from so far, for reports. Clones share it.
    used: Arc<Used>,
}

/// Which products have been used: bits that are only ever set.
#[derive(Debug, Default)]
struct Used(AtomicU8);

impl Used {
    const INTEGERS: u8 = 1;
    const SINGLE: u8 = 2;
    const DOUBLE: u8 = 4;

    fn add(&self, products: u8) {
        self.0.fetch_or(products, Ordering::Relaxed);
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new()
    }
}

thread_local! {
    /// Buffers that outlive a task, so that a thread allocates them once.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Cpu {
    /// Notes for reports that numbers were computed in double precision.
    pub(super) fn note_double(&self) {
        self.used.add(Used::DOUBLE);
    }

    /// Creates an engine on all cores of the machine.
    pub fn new() -> Self {
        Self::with_threads(available_threads())
    }

    /// Creates an engine with this number of threads (0 counts as 1, and more than 1,024 as 1,024). Results are the
    /// same to the last bit.
    pub fn with_threads(threads: usize) -> Self {
        let instructions = Instructions::available().last().copied().unwrap_or(Instructions::Portable);
        let threads = threads.clamp(1, MAX_THREADS);
        Self { threads, instructions, precision: Precision::Auto, used: Arc::default() }
    }

    /// Computes kernel sums with this precision.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// Uses these instructions instead of the best; `None` if the processor does not have them.
    #[must_use]
    pub fn with_instructions(self, instructions: Instructions) -> Option<Self> {
        Instructions::available().contains(&instructions).then_some(Self { instructions, ..self })
    }

    /// The instruction set in use.
    pub fn instructions(&self) -> Instructions {
        self.instructions
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs one task on this thread, unless the run is stopped.
    fn sweep<L: Leaf>(
        &self,
        run: &Run,
        task: &Task<'_>,
        x_range: Range<usize>,
        y_range: Range<usize>,
        leaf: &mut L,
    ) -> Result<()> {
        run.check()?;
        SCRATCH.with_borrow_mut(|scratch| self.instructions.run(Sweep { task, x_range, y_range, leaf, scratch }));
        Ok(())
    }

    /// Blocks of rows in parallel, each against all columns. Results are added in order, and few are waiting at a time.
    /// Every block packs all columns again, so blocks are long. They depend only on the size of the data, because sums
    /// of weights would depend on where they are split.
    fn by_rows<L: Leaf + Send>(
        &self,
        run: &Run,
        task: &Task<'_>,
        leaf: impl Fn(Range<usize>) -> L + Sync,
        mut fold: impl FnMut(L),
    ) -> Result<()> {
        let rows = task.x.rows.len();
        let length = rows.div_ceil(ROW_BLOCKS).next_multiple_of(12).clamp(96, ROWS_PER_TASK);
        let blocks: Vec<Range<usize>> = blocks(rows, length).collect();
        for wave in blocks.chunks(8 * self.threads) {
            let leaves = parallel(self.threads, run.stop(), wave.len(), |index| {
                let mut leaf = leaf(wave[index].clone());
                for y_range in self::blocks(task.y.rows.len(), block_rows(task.y.rows.width())) {
                    self.sweep(run, task, wave[index].clone(), y_range, &mut leaf)?;
                }
                Ok(leaf)
            })?;
            leaves.into_iter().for_each(&mut fold);
        }
        Ok(())
    }

    /// Norms and terms of one side.
    fn side<'a>(&self, run: &Run, kernel: Option<&Kernel>, rows: Rows<'a>, centre: Option<&[f32]>) -> Result<Side<'a>> {
        let parts = parallel(self.threads, run.stop(), rows.len().div_ceil(ROWS_PER_SHORT_TASK), |index| {
            let rows = rows.slice(index * ROWS_PER_SHORT_TASK, ((index + 1) * ROWS_PER_SHORT_TASK).min(rows.len()));
            Ok(self.instructions.run(SquaredNorms { rows, centre }))
        })?;
        let squared: Vec<f64> = parts.concat();
        Ok(Side {
            rows,
            terms: squared.iter().map(|&norm| kernel.map_or(norm as f32, |kernel| Map::term(kernel, norm))).collect(),
            // Rounded up, because they are used in bounds.
            norms: squared.iter().map(|norm| (norm.sqrt() * (1.0 + 1e-6)) as f32).collect(),
        })
    }

    /// The approximate mean of all rows, if the kernel is invariant to shifts. Any point is valid, so a sample of the
    /// rows is enough.
    fn centre(&self, kernel: Option<&Kernel>, sets: &[Rows<'_>]) -> Option<Vec<f32>> {
        if !kernel.is_none_or(is_centred) {
            return None;
        }
        let mut sum = vec![0.0f64; sets[0].width()];
        let mut count = 0;
        for set in sets {
            let step = set.len().div_ceil(MAX_CENTRE_ROWS).max(1);
            add(&mut sum, 1.0, &self.instructions.run(ColumnSums { rows: *set, step }));
            count += set.len().div_ceil(step);
        }
        Some(sum.into_iter().map(|sum| (sum / count.max(1) as f64) as f32).collect())
    }

    /// Centre, norms and terms of all sets; `None` if squares of the values would overflow single precision.
    fn prepare<'a>(&self, run: &Run, kernel: Option<&'a Kernel>, sets: &[Rows<'a>]) -> Result<Option<Prepared<'a>>> {
        let centre = self.centre(kernel, sets);
        let side = |&set: &Rows<'a>| self.side(run, kernel, set, centre.as_deref());
        let sides = sets.iter().map(side).collect::<Result<Vec<_>>>()?;
        let largest = sides.iter().map(Side::largest_norm).fold(0.0, f32::max);
        let is_ordinary = largest == 0.0 || (1e-15..1e15).contains(&largest);
        Ok(is_ordinary.then_some(Prepared { kernel, centre, sides }))
    }
}

/// Prepared sets, from which tasks are made.
struct Prepared<'a> {
    kernel: Option<&'a Kernel>,
    centre: Option<Vec<f32>>,
    sides: Vec<Side<'a>>,
}

impl Prepared<'_> {
    /// Set `x` against set `y`; if they are the same, each pair once. `terms` is the number of pairs of the shortest
    /// sum.
    fn task(&self, x: usize, y: usize, terms: usize) -> Task<'_> {
        let Prepared { kernel, centre, sides } = self;
        // Neighbours are searched from every row; sums need each pair only once.
        let triangle = x == y && kernel.is_some();
        Task { x: &sides[x], y: &sides[y], centre: centre.as_deref(), kernel: *kernel, terms, triangle }
    }
}

/// 0..len in blocks.
fn blocks(len: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(length).map(move |start| start..(start + length).min(len))
}

fn add(sums: &mut [f64], unit: f64, more: &[f64]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += unit * more);
}
