//! The engine for every day: tiles on all cores with the best instructions that the processor has. Tasks are cut by the
//! size of the data alone and their results added in a fixed order, so that the number of threads does not show.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use super::balls::{BallCounts, Bounds, OverlapTiles, bound, distance_error};
use super::dispatch::Instructions;
use super::lanes::{Map, is_centred};
use super::leaves::{Sums, Values};
use super::neighbours::{Candidates, Measure};
use super::row::{ColumnSums, Products, RowPass, SquaredNorms};
use super::tiles::{Leaf, Scratch, Side, Sweep, Task, block_rows};
use super::{
    Backend, Balls, Neighbour, Overlaps, PairSums, Reference, available_threads, ball_counts, check_stopped, parallel,
};
use crate::features::{HalfRows, Rows};
use crate::kernel::Kernel;

/// Rows of the first set that one task takes.
const TASK_ROWS: usize = 2048;
/// Single values are to be as good as sums of so many.
const VALUE_TERMS: usize = 9;
/// Rows of a set, at most, that tell the centre.
const CENTRE_ROWS: usize = 512;
/// Rows that norms are taken of at a time.
const PART_ROWS: usize = 256;
/// Fewer new rows than this are passed over the rows held one by one; packing tiles would not pay.
const ROWS_FOR_TILES: usize = 4;

/// Kernel sums on the processor's cores.
#[derive(Clone, Debug)]
pub struct Cpu {
    threads: usize,
    instructions: Instructions,
    watch: Option<Watch>,
}

/// Whoever is told how many pairs have been summed, as it goes.
#[derive(Clone)]
struct Watch(Arc<dyn Fn(u64) + Send + Sync>);

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
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
    /// All cores of the machine.
    pub fn new() -> Self {
        Self::with_threads(available_threads())
    }

    /// A given number of threads (0 counts as 1). The results are the same to the last bit.
    pub fn with_threads(threads: usize) -> Self {
        let instructions = Instructions::available().last().copied().unwrap_or(Instructions::Portable);
        Self { threads: threads.max(1), instructions, watch: None }
    }

    /// The same with other instructions than the best; nothing where the processor does not have them.
    #[must_use]
    pub fn with_instructions(self, instructions: Instructions) -> Option<Self> {
        Instructions::available().contains(&instructions).then_some(Self { instructions, ..self })
    }

    /// The same, telling `watch` of every piece of a sum how many pairs it had, on whichever thread summed it.
    #[must_use]
    pub fn watched(self, watch: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self { watch: Some(Watch(Arc::new(watch))), ..self }
    }

    /// Which instructions it uses.
    pub fn instructions(&self) -> Instructions {
        self.instructions
    }

    /// One task on this thread, unless it has been stopped.
    fn sweep<L: Leaf>(&self, task: &Task<'_>, x_range: Range<usize>, y_range: Range<usize>, leaf: &mut L) {
        check_stopped();
        SCRATCH.with_borrow_mut(|scratch| self.instructions.run(Sweep { task, x_range, y_range, leaf, scratch }));
    }

    /// The sums of all tasks, in pieces (rows × block of columns) that threads share, in waves that bound the memory of
    /// their results; these are folded in a fixed order.
    fn sums(&self, tasks: &[Task<'_>], mut fold: impl FnMut(usize, &Range<usize>, &Range<usize>, Sums)) {
        let mut pieces = Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            let (rows, columns) = (task.x.rows.len(), task.y.rows.len());
            // Blocks of one size: in all tasks together at least sixteen for threads to share, and as large as may be, since
            // every block has the rows copied again.
            let share = columns.div_ceil(16usize.div_ceil(tasks.len()).max(1));
            let most = share.clamp(96, block_rows(task.y.rows.width()).max(96));
            let length = columns.div_ceil(columns.div_ceil(most).max(1)).next_multiple_of(32).max(32);
            for y_range in blocks(columns, length) {
                // A triangle's columns only meet the rows before them.
                let rows = if task.triangle { y_range.end.min(rows) } else { rows };
                pieces.extend(blocks(rows, TASK_ROWS).map(|x_range| (index, x_range, y_range.clone())));
            }
        }
        // The largest first, so that no thread is left alone with one at the end; the sort is stable.
        pieces.sort_by_key(|(_, x_range, y_range)| std::cmp::Reverse(x_range.len() * y_range.len()));
        for wave in pieces.chunks(8 * self.threads) {
            let results = parallel(self.threads, wave.len(), |piece| {
                let (index, x_range, y_range) = &wave[piece];
                let mut leaf = Sums::new(x_range.clone(), y_range.clone());
                self.sweep(&tasks[*index], x_range.clone(), y_range.clone(), &mut leaf);
                if let Some(Watch(watch)) = &self.watch {
                    watch((x_range.len() * y_range.len()) as u64);
                }
                leaf
            });
            for ((index, x_range, y_range), sums) in wave.iter().zip(results) {
                fold(*index, x_range, y_range, sums);
            }
        }
    }

    /// Blocks of rows in parallel, each against all columns; the results in order.
    fn by_rows<L: Leaf + Send>(&self, task: &Task<'_>, leaf: impl Fn(Range<usize>) -> L + Sync) -> Vec<L> {
        let rows = task.x.rows.len();
        // Every block has all columns packed again, so they are as long as leaves two for each thread. What is found is exact,
        // wherever rows are cut.
        let length = rows.div_ceil(2 * self.threads).next_multiple_of(12).clamp(96, TASK_ROWS);
        let blocks: Vec<Range<usize>> = blocks(rows, length).collect();
        parallel(self.threads, blocks.len(), |index| {
            let mut leaf = leaf(blocks[index].clone());
            for y_range in self::blocks(task.y.rows.len(), block_rows(task.y.rows.width())) {
                self.sweep(task, blocks[index].clone(), y_range, &mut leaf);
            }
            leaf
        })
    }

    /// Norms and terms of one side.
    fn side<'a>(&self, kernel: Option<&Kernel>, rows: Rows<'a>, centre: Option<&[f32]>) -> Side<'a> {
        let parts = parallel(self.threads, rows.len().div_ceil(PART_ROWS), |index| {
            let rows = rows.slice(index * PART_ROWS, ((index + 1) * PART_ROWS).min(rows.len()));
            self.instructions.run(SquaredNorms { rows, centre })
        });
        let squared: Vec<f64> = parts.concat();
        Side {
            rows,
            terms: squared.iter().map(|&norm| kernel.map_or(norm as f32, |kernel| Map::term(kernel, norm))).collect(),
            // Rounded up, since bounds are made of them.
            norms: squared.iter().map(|norm| (norm.sqrt() * (1.0 + 1e-6)) as f32).collect(),
        }
    }

    /// About the mean of all rows, where the kernel does not mind its being taken off. Any point will do: a sample tells.
    fn centre(&self, kernel: Option<&Kernel>, sets: &[Rows<'_>]) -> Option<Vec<f32>> {
        if !kernel.is_none_or(is_centred) {
            return None;
        }
        let mut sum = vec![0.0f64; sets[0].width()];
        let mut count = 0;
        for set in sets {
            let step = set.len().div_ceil(CENTRE_ROWS).max(1);
            add(&mut sum, 1.0, &self.instructions.run(ColumnSums { rows: *set, step }));
            count += set.len().div_ceil(step);
        }
        Some(sum.into_iter().map(|sum| (sum / count.max(1) as f64) as f32).collect())
    }

    /// Centre, norms and terms of all sets; nothing where squares of the values would leave single precision.
    fn prepare<'a>(&self, kernel: Option<&'a Kernel>, sets: &[Rows<'a>]) -> Option<Prepared<'a>> {
        let centre = self.centre(kernel, sets);
        let sides: Vec<Side<'a>> = sets.iter().map(|&set| self.side(kernel, set, centre.as_deref())).collect();
        let largest = sides.iter().map(Side::largest_norm).fold(0.0, f32::max);
        let is_ordinary = largest == 0.0 || (1e-15..1e15).contains(&largest);
        is_ordinary.then_some(Prepared { kernel, centre, sides })
    }
}

/// Sets that tasks can be made of.
struct Prepared<'a> {
    kernel: Option<&'a Kernel>,
    centre: Option<Vec<f32>>,
    sides: Vec<Side<'a>>,
}

impl Prepared<'_> {
    /// Set `x` against set `y`, each pair once where they are the same. `terms` is how many pairs the shortest sum has.
    fn task(&self, x: usize, y: usize, terms: usize) -> Task<'_> {
        let Prepared { kernel, centre, sides } = self;
        // Neighbours are looked for from every row; sums need each pair once.
        let triangle = x == y && kernel.is_some();
        Task { x: &sides[x], y: &sides[y], centre: centre.as_deref(), kernel: *kernel, terms, triangle }
    }
}

/// 0..len in pieces.
fn blocks(len: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(length).map(move |start| start..(start + length).min(len))
}

// Values whose squares leave single precision are left to plain loops.
impl Backend for Cpu {
    fn kernel_sums(&self, kernel: &Kernel, x: Rows<'_>, y: Rows<'_>) -> PairSums {
        let Some(prepared) = self.prepare(Some(kernel), &[x, y]) else { return Reference.kernel_sums(kernel, x, y) };
        let mut sums = PairSums { rows: vec![0.0; x.len()], columns: vec![0.0; y.len()] };
        self.sums(&[prepared.task(0, 1, x.len().min(y.len()))], |_, x_range, y_range, part| {
            add(&mut sums.rows[x_range.clone()], part.unit, &part.rows);
            add(&mut sums.columns[y_range.clone()], part.unit, &part.columns);
        });
        sums
    }

    fn kernel_sums_among(&self, kernel: &Kernel, sets: &[Rows<'_>]) -> Vec<Vec<Vec<f64>>> {
        let Some(prepared) = self.prepare(Some(kernel), sets) else { return Reference.kernel_sums_among(kernel, sets) };
        let pairs: Vec<(usize, usize)> = (0..sets.len()).flat_map(|i| (i..sets.len()).map(move |j| (i, j))).collect();
        let tasks: Vec<Task<'_>> =
            pairs.iter().map(|&(i, j)| prepared.task(i, j, sets[i].len().min(sets[j].len()))).collect();
        let mut sums: Vec<Vec<Vec<f64>>> =
            sets.iter().map(|set| sets.iter().map(|_| vec![0.0; set.len()]).collect()).collect();
        self.sums(&tasks, |index, x_range, y_range, part| {
            // Each pair was met once, and counts for both of its rows.
            let (i, j) = pairs[index];
            add(&mut sums[i][j][x_range.clone()], part.unit, &part.rows);
            add(&mut sums[j][i][y_range.clone()], part.unit, &part.columns);
        });
        sums
    }

    fn kernel_rows(&self, kernel: &Kernel, weight: f64, x: Rows<'_>, held: Rows<'_>, out: &mut [f64]) {
        if held.is_empty() {
            return;
        }
        if x.len() < ROWS_FOR_TILES {
            for (index, out) in out.chunks_exact_mut(held.len()).enumerate() {
                let x = x.slice(index, index + 1);
                let pass = RowPass { kernel, weight, x: x.row(0), held, out: &mut *out };
                if !self.instructions.run(pass) {
                    Reference.kernel_rows(kernel, weight, x, held, out);
                }
            }
            return;
        }
        // The rows held pass by as they are, and the new ones, which are fewer as a rule, are packed.
        let Some(prepared) = self.prepare(Some(kernel), &[held, x]) else {
            return Reference.kernel_rows(kernel, weight, x, held, out);
        };
        let task = prepared.task(0, 1, VALUE_TERMS);
        for y_range in blocks(x.len(), block_rows(x.width())) {
            let mut leaf = Values { stride: held.len(), weight, out };
            self.sweep(&task, 0..held.len(), y_range, &mut leaf);
        }
    }

    fn kernel_rows_half(&self, kernel: &Kernel, weight: f64, x: Rows<'_>, held: HalfRows<'_>, out: &mut [f64]) {
        if held.is_empty() {
            return;
        }
        if x.len() >= ROWS_FOR_TILES {
            let widened = held.widened();
            return self.kernel_rows(kernel, weight, x, Rows::new(held.width(), &widened), out);
        }
        for (index, out) in out.chunks_exact_mut(held.len()).enumerate() {
            let pass = RowPass { kernel, weight, x: x.row(index), held, out: &mut *out };
            if !self.instructions.run(pass) {
                let widened = held.widened();
                let held = Rows::new(held.width(), &widened);
                Reference.kernel_rows(kernel, weight, x.slice(index, index + 1), held, out);
            }
        }
    }

    fn products(&self, x: Rows<'_>, held: Rows<'_>) -> Vec<f64> {
        self.instructions.run(Products { x, held })
    }

    fn on_one_thread(&self) -> Arc<dyn Backend> {
        Arc::new(Self { threads: 1, ..self.clone() })
    }

    fn neighbours(&self, x: Rows<'_>, k: usize) -> Vec<Neighbour> {
        let Some(prepared) = self.prepare(None, &[x]) else { return Reference.neighbours(x, k) };
        let task = Task { triangle: true, ..prepared.task(0, 0, 1) };
        let mut pieces: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        for columns in blocks(x.len(), block_rows(x.width())) {
            pieces.extend(blocks(columns.end, TASK_ROWS).map(|rows| (rows, columns.clone())));
        }
        pieces.sort_by_key(|(rows, columns)| std::cmp::Reverse(rows.len() * columns.len()));
        // Every thread has candidates of its own for all rows. What is found is exact, so that it does not matter who
        // looked where.
        let threads = self.threads.min(pieces.len());
        let parts = parallel(threads, threads, |thread| {
            let mut candidates = Candidates::new(x, k, &task.x.norms);
            for (rows, columns) in pieces.iter().skip(thread).step_by(threads) {
                self.sweep(&task, rows.clone(), columns.clone(), &mut candidates);
            }
            candidates
        });
        let Some(candidates) = parts.into_iter().reduce(|mut all, part| {
            all.merge(part);
            all
        }) else {
            return Vec::new();
        };
        let parts = parallel(self.threads, x.len().div_ceil(PART_ROWS), |part| {
            let rows = part * PART_ROWS..((part + 1) * PART_ROWS).min(x.len());
            self.instructions.run(Measure { candidates: &candidates, rows })
        });
        parts.concat()
    }

    fn ball_counts(&self, points: Rows<'_>, centres: Rows<'_>, squared_radii: &[f64]) -> Vec<u32> {
        // A point or two are measured directly: packing all centres for them would not pay.
        let prepared = if points.len() < ROWS_FOR_TILES { None } else { self.prepare(None, &[points, centres]) };
        let Some(prepared) = prepared else { return ball_counts(points, centres, squared_radii) };
        let task = prepared.task(0, 1, 1);
        let largest = task.x.largest_norm();
        let bounds = |sign: f32| -> Vec<f32> {
            let error = |norm: f32| distance_error(points.width(), largest, norm);
            squared_radii.iter().zip(&task.y.norms).map(|(&radius, &norm)| bound(radius, error(norm), sign)).collect()
        };
        let (sure, maybe) = (bounds(-1.0), bounds(1.0));
        let leaves = self.by_rows(&task, |range| BallCounts {
            points,
            centres,
            first_row: range.start,
            squared_radii,
            sure: &sure,
            maybe: &maybe,
            counts: vec![0; range.len()],
        });
        leaves.into_iter().flat_map(|leaf| leaf.counts).collect()
    }

    fn overlaps(&self, x: Balls<'_>, weights: &[f64], y: Balls<'_>) -> Overlaps {
        let Some(prepared) = self.prepare(None, &[x.centres, y.centres]) else {
            return Reference.overlaps(x, weights, y);
        };
        let task = prepared.task(0, 1, 1);
        let x_bounds = Bounds::new(&x, &task.x.norms, task.y.largest_norm());
        let y_bounds = Bounds::new(&y, &task.y.norms, task.x.largest_norm());
        let rows = x.centres.len();
        let leaves = self.by_rows(&task, |_| OverlapTiles {
            x,
            weights,
            y,
            x_bounds: &x_bounds,
            y_bounds: &y_bounds,
            overlaps: Overlaps::none(rows, y.centres.len()),
        });
        let mut all = Overlaps::none(rows, y.centres.len());
        for OverlapTiles { overlaps, .. } in leaves {
            all.counts.iter_mut().zip(overlaps.counts).for_each(|(sum, count)| *sum += count);
            add(&mut all.masses, 1.0, &overlaps.masses);
            all.held.iter_mut().zip(overlaps.held).for_each(|(any, held)| *any |= held);
        }
        all
    }

    fn threads(&self) -> usize {
        self.threads
    }
}

fn add(sums: &mut [f64], unit: f64, more: &[f64]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += unit * more);
}
