//! The engine for published numbers: every kernel value in double precision, from products of blocks, at a half
//! to a quarter of the speed of [`Cpu`]. Neighbours and balls are computed by [`Cpu`], which is exact for them.

mod block;

use std::ops::Range;
use std::sync::Arc;

use block::{Blocks, Side, sides};

use super::parallel::parallel_over;
use super::{
    Accuracy, Backend, Balls, Cpu, Factor, Matrix, Neighbour, Overlaps, PairSums, Resident, Run, Set, Storage, Subsets,
    available_threads, parallel, subsets,
};
use crate::error::Result;
use crate::features::{Features, Rows};
use crate::kernel::Kernel;

/// The number of rows and columns of a block: its values take 1 MB.
const BLOCK_ROWS: usize = 256;
const BLOCK_COLUMNS: usize = 512;
/// The number of tasks of a call, for threads to share, unless the data have fewer blocks or tasks would be too long.
const MIN_TASKS: usize = 128;
/// The maximum number of columns of a task. Its rows are converted once for all of them.
const MAX_TASK_COLUMNS: usize = 8 * BLOCK_COLUMNS;

/// The engine for published numbers: kernel sums in double precision on the processor's cores.
#[derive(Clone, Debug)]
pub struct Double {
    cpu: Cpu,
}

impl Default for Double {
    fn default() -> Self {
        Self::new()
    }
}

impl Double {
    /// Creates an engine on all cores of the machine.
    pub fn new() -> Self {
        Self::with_threads(available_threads())
    }

    /// Creates an engine with this number of threads (0 counts as 1). Results are the same to the last bit.
    pub fn with_threads(threads: usize) -> Self {
        Self::on(Cpu::with_threads(threads))
    }

    /// Uses the threads of another engine, which computes neighbours and balls.
    pub(super) fn on(cpu: Cpu) -> Self {
        Self { cpu }
    }

    /// Sums of blocks, in waves, added in a fixed order: `fold(pair, rows, columns, sums by row, sums by column)`.
    fn sums(
        &self,
        run: &Run,
        kernel: &Kernel,
        sides: &[Side<'_>],
        pairs: &[(usize, usize)],
        mut fold: impl FnMut(usize, Range<usize>, Range<usize>, &PairSums),
    ) -> Result<()> {
        let pairs_of_rows = |&(i, j): &(usize, usize)| sides[i].rows.len() * sides[j].rows.len();
        let blocks = pairs.iter().map(pairs_of_rows).sum::<usize>() / (BLOCK_ROWS * BLOCK_COLUMNS);
        let most = (blocks / MIN_TASKS * BLOCK_COLUMNS).clamp(BLOCK_COLUMNS, MAX_TASK_COLUMNS);
        let mut tasks = Vec::new();
        for (pair, &(i, j)) in pairs.iter().enumerate() {
            for rows in ranges(sides[i].rows.len(), BLOCK_ROWS) {
                for columns in ranges(sides[j].rows.len(), most) {
                    // For a set with itself, each pair is evaluated once, with the row before the column.
                    if i != j || rows.start < columns.end {
                        tasks.push((pair, rows.clone(), columns));
                    }
                }
            }
        }
        for wave in tasks.chunks(64 * self.cpu.threads()) {
            let sums = parallel(self.cpu.threads(), run.stop(), wave.len(), |index| {
                let (pair, rows, columns) = &wave[index];
                let (i, j) = pairs[*pair];
                let mut sums = PairSums { rows: vec![0.0; rows.len()], columns: vec![0.0; columns.len()] };
                let longest = BLOCK_COLUMNS.min(columns.len());
                let mut blocks = Blocks::new(kernel, self.cpu.instructions(), &sides[i], rows.clone(), longest);
                for first in columns.clone().step_by(BLOCK_COLUMNS) {
                    let block = first..(first + BLOCK_COLUMNS).min(columns.end);
                    if i == j && rows.start >= block.end {
                        continue;
                    }
                    run.check()?;
                    blocks.values(&sides[j], block, |column, values| {
                        // For a set with itself, only rows before the column.
                        let before = if i == j { (first + column).saturating_sub(rows.start) } else { values.len() };
                        let values = &values[..before.min(values.len())];
                        sums.columns[first - columns.start + column] += values.iter().sum::<f64>();
                        add(&mut sums.rows, values);
                    });
                }
                run.advance((rows.len() * columns.len()) as u64);
                Ok(sums)
            })?;
            for ((pair, rows, columns), sums) in wave.iter().zip(sums) {
                fold(*pair, rows.clone(), columns.clone(), &sums);
            }
        }
        Ok(())
    }
}

/// 0..len in blocks.
fn ranges(len: usize, length: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    (0..len).step_by(length).map(move |start| start..(start + length).min(len))
}

fn add(sums: &mut [f64], more: &[f64]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

impl Backend for Double {
    fn describe(&self) -> String {
        let threads =
            if self.cpu.threads() == 1 { "1 thread".into() } else { format!("{} threads", self.cpu.threads()) };
        format!("cpu, double precision ({threads})")
    }

    fn accuracy(&self) -> Accuracy {
        Accuracy { entry: 1e-11, row_sum: 1e-11 }
    }

    fn precise(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    fn for_concurrent_callers(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Self::with_threads(1)))
    }

    fn hold(&self, features: &Features) -> Result<Box<dyn Resident>> {
        self.cpu.hold(features)
    }

    fn empty(&self, width: usize, storage: Storage) -> Result<Box<dyn Resident>> {
        self.cpu.empty(width, storage)
    }

    fn kernel_sums(&self, run: &Run, kernel: &Kernel, x: Set<'_>, y: Set<'_>) -> Result<PairSums> {
        self.cpu.note_double();
        let (x, y) = (x.rows()?, y.rows()?);
        let (x, y) = (x.view(), y.view());
        let mut sums = PairSums { rows: vec![0.0; x.len()], columns: vec![0.0; y.len()] };
        self.sums(run, kernel, &sides(kernel, &[x, y]), &[(0, 1)], |_, rows, columns, part| {
            add(&mut sums.rows[rows], &part.rows);
            add(&mut sums.columns[columns], &part.columns);
        })?;
        Ok(sums)
    }

    fn kernel_sums_among(&self, run: &Run, kernel: &Kernel, sets: &[Set<'_>]) -> Result<Vec<Vec<Vec<f64>>>> {
        self.cpu.note_double();
        let rows = sets.iter().map(|set| set.rows()).collect::<Result<Vec<_>>>()?;
        let sets: Vec<Rows<'_>> = rows.iter().map(|rows| rows.view()).collect();
        let pairs: Vec<(usize, usize)> = (0..sets.len()).flat_map(|i| (i..sets.len()).map(move |j| (i, j))).collect();
        let mut sums: Vec<Vec<Vec<f64>>> =
            sets.iter().map(|set| sets.iter().map(|_| vec![0.0; set.len()]).collect()).collect();
        self.sums(run, kernel, &sides(kernel, &sets), &pairs, |pair, rows, columns, part| {
            let (i, j) = pairs[pair];
            add(&mut sums[i][j][rows], &part.rows);
            add(&mut sums[j][i][columns], &part.columns);
        })?;
        Ok(sums)
    }

    fn kernel_rows(
        &self,
        run: &Run,
        kernel: &Kernel,
        weight: f64,
        x: Rows<'_>,
        held: Set<'_>,
        out: &mut [f64],
    ) -> Result<()> {
        self.cpu.note_double();
        if x.is_empty() || held.is_empty() {
            return Ok(());
        }
        let held = held.rows()?;
        let held = held.view();
        let sides = sides(kernel, &[x, held]);
        let pieces = ranges(x.len(), BLOCK_ROWS).zip(out.chunks_mut(BLOCK_ROWS * held.len()));
        parallel_over(self.cpu.threads(), run.stop(), pieces, |_, (rows, out)| {
            let longest = BLOCK_COLUMNS.min(held.len());
            let mut blocks = Blocks::new(kernel, self.cpu.instructions(), &sides[0], rows, longest);
            for columns in ranges(held.len(), BLOCK_COLUMNS) {
                run.check()?;
                let first = columns.start;
                blocks.values(&sides[1], columns, |column, values| {
                    for (row, value) in values.iter().enumerate() {
                        out[row * held.len() + first + column] += weight * value;
                    }
                });
            }
            Ok(())
        })
    }

    fn products(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> Result<Vec<f64>> {
        self.cpu.note_double();
        let held = held.rows()?;
        let kernel = Kernel::Polynomial { scale: 1.0, offset: 0.0, degree: 1 };
        let mut products = vec![0.0; x.len() * held.view().len()];
        self.kernel_rows(run, &kernel, 1.0, x, held.view().into(), &mut products)?;
        Ok(products)
    }

    fn distances(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> Result<Vec<f64>> {
        self.cpu.distances(run, x, held)
    }

    fn neighbours(&self, run: &Run, x: Set<'_>, k: usize) -> Result<Vec<Neighbour>> {
        self.cpu.neighbours(run, x, k)
    }

    fn ball_counts(&self, run: &Run, points: Set<'_>, balls: Balls<'_>) -> Result<Vec<u32>> {
        self.cpu.ball_counts(run, points, balls)
    }

    fn overlaps(&self, run: &Run, x: Balls<'_>, weights: &[f64], y: Balls<'_>) -> Result<Overlaps> {
        self.cpu.overlaps(run, x, weights, y)
    }

    fn mean(&self, run: &Run, x: Set<'_>) -> Result<Vec<f64>> {
        self.cpu.mean(run, x)
    }

    fn scatter(&self, run: &Run, x: Set<'_>, centre: &[f64], weights: Option<&[f64]>) -> Result<Matrix> {
        self.cpu.scatter(run, x, centre, weights)
    }

    fn projections(
        &self,
        run: &Run,
        x: Set<'_>,
        centre: &[f64],
        directions: &Matrix,
        weights: &[f64],
    ) -> Result<Vec<f64>> {
        self.cpu.projections(run, x, centre, directions, weights)
    }

    fn subset_sums(&self, run: &Run, kernel: &Kernel, x: Subsets<'_>, y: Option<Subsets<'_>>) -> Result<Vec<f64>> {
        self.cpu.note_double();
        subsets::sums(&Self::with_threads(1), self.cpu.threads(), run, kernel, x, y)
    }

    fn product(&self, run: &Run, a: Factor<'_>, b: Factor<'_>) -> Result<Matrix> {
        self.cpu.product(run, a, b)
    }
}
