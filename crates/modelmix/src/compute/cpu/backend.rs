//! The methods of the default engine, as tasks of tiles or passes over rows. If squares of values overflow single
//! precision, the plain loops of [`Reference`] are used.

use std::ops::Range;
use std::sync::Arc;

use super::{Cpu, Precision, ROWS_PER_SHORT_TASK, ROWS_PER_TASK, Used, add, blocks};
use crate::compute::balls::{BallCounts, Bounds, OverlapTiles, bound, distance_error};
use crate::compute::dispatch::Instructions;
use crate::compute::leaves::Values;
use crate::compute::neighbours::{Candidates, Measure};
use crate::compute::parallel::parallel_over;
use crate::compute::row::{Distances, Products, RowPass};
use crate::compute::tiles::{Task, block_rows};
use crate::compute::{
    Accuracy, Backend, Balls, Double, Factor, HostSet, Matrix, Neighbour, Overlaps, PairSums, Reference, Resident, Run,
    Set, Storage, Subsets, ball_counts, dense, parallel, subsets, waves, whole,
};
use crate::error::Result;
use crate::features::{Features, HalfRows, Rows};
use crate::kernel::Kernel;

/// Single values must be as accurate as sums of this many.
const VALUE_TERMS: usize = 9;
/// With fewer new rows than this, each is passed over the held rows; packing tiles would cost more.
const MIN_ROWS_FOR_TILES: usize = 4;
/// The number of new rows per task against all held rows: a batch of a session is one task.
const NEW_ROWS_PER_TASK: usize = 256;
/// The number of new rows per task for products or distances.
const PASS_ROWS_PER_TASK: usize = 16;

impl Cpu {
    /// One pass over the held rows for each new row.
    fn rows_one_by_one(
        &self,
        run: &Run,
        kernel: &Kernel,
        weight: f64,
        x: Rows<'_>,
        held: Set<'_>,
        out: &mut [f64],
    ) -> Result<()> {
        let len = held.len();
        let single = if held.half().is_none() { Some(held.rows()?) } else { None };
        for (index, out) in out.chunks_exact_mut(len).enumerate() {
            run.check()?;
            let row = x.row(index);
            let is_done = match (held.half(), &single) {
                (Some(held), _) => self.pass_half(kernel, weight, row, held, out),
                (None, Some(held)) => {
                    self.instructions.run(RowPass { kernel, weight, x: row, held: held.view(), out: &mut *out })
                }
                (None, None) => false,
            };
            if !is_done {
                Reference::rows(run, kernel, weight, x.slice(index, index + 1), held.rows()?.view(), out)?;
            }
        }
        Ok(())
    }

    fn pass_half(&self, kernel: &Kernel, weight: f64, x: &[f32], held: HalfRows<'_>, out: &mut [f64]) -> bool {
        self.instructions.run(RowPass { kernel, weight, x, held, out })
    }

    /// New rows in blocks that threads share. The held rows are used in place, and the new rows, which are usually
    /// fewer, are packed.
    pub(super) fn rows_in_tiles(
        &self,
        run: &Run,
        kernel: &Kernel,
        weight: f64,
        x: Rows<'_>,
        held: Rows<'_>,
        out: &mut [f64],
    ) -> Result<()> {
        let Some(prepared) = self.prepare(run, Some(kernel), &[held, x])? else {
            return Reference::rows(run, kernel, weight, x, held, out);
        };
        let task = prepared.task(0, 1, VALUE_TERMS);
        let length = block_rows(x.width()).min(NEW_ROWS_PER_TASK);
        let pieces = blocks(x.len(), length).zip(out.chunks_mut(length * held.len()));
        parallel_over(self.threads, run.stop(), pieces, |_, (y_range, out)| {
            let mut leaf = Values { stride: held.len(), first: y_range.start, weight, out };
            blocks(held.len(), ROWS_PER_TASK)
                .try_for_each(|x_range| self.sweep(run, &task, x_range, y_range.clone(), &mut leaf))
        })
    }

    fn nearest(&self, run: &Run, x: Rows<'_>, k: usize) -> Result<Vec<Neighbour>> {
        let Some(prepared) = self.prepare(run, None, &[x])? else { return Reference::nearest(run, x, k) };
        let task = Task { triangle: true, ..prepared.task(0, 0, 1) };
        let mut pieces: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        for columns in blocks(x.len(), block_rows(x.width())) {
            pieces.extend(blocks(columns.end, ROWS_PER_TASK).map(|rows| (rows, columns.clone())));
        }
        pieces.sort_by_key(|(rows, columns)| std::cmp::Reverse(rows.len() * columns.len()));
        // Every thread has its own candidates for all rows. The result is exact, so it does not depend on which thread
        // examined which pairs.
        let threads = self.threads.min(pieces.len());
        let parts = parallel(threads, run.stop(), threads, |thread| {
            let mut candidates = Candidates::new(x, k, &task.x.norms);
            for (rows, columns) in pieces.iter().skip(thread).step_by(threads) {
                self.sweep(run, &task, rows.clone(), columns.clone(), &mut candidates)?;
            }
            Ok(candidates)
        })?;
        let Some(candidates) = parts.into_iter().reduce(|mut all, part| {
            all.merge(part);
            all
        }) else {
            return Ok(Vec::new());
        };
        let parts = parallel(self.threads, run.stop(), x.len().div_ceil(ROWS_PER_SHORT_TASK), |part| {
            let rows = part * ROWS_PER_SHORT_TASK..((part + 1) * ROWS_PER_SHORT_TASK).min(x.len());
            Ok(self.instructions.run(Measure { candidates: &candidates, rows }))
        })?;
        let mut nearest = parts.concat();
        candidates.first_copies(&mut nearest);
        Ok(nearest)
    }
}

impl Backend for Cpu {
    fn describe(&self) -> String {
        const INTEGERS_AND_SINGLE: u8 = Used::INTEGERS | Used::SINGLE;
        const INTEGERS_AND_DOUBLE: u8 = Used::INTEGERS | Used::DOUBLE;
        const SINGLE_AND_DOUBLE: u8 = Used::SINGLE | Used::DOUBLE;
        let instructions = match self.instructions {
            Instructions::Portable => "portable",
            Instructions::Avx2 => "AVX2",
            Instructions::Avx512 => "AVX-512",
        };
        let products = match self.used.get() {
            Used::INTEGERS => "16-bit products",
            0 | Used::SINGLE => "single precision",
            Used::DOUBLE => "double precision",
            INTEGERS_AND_SINGLE => "16-bit products and single precision",
            INTEGERS_AND_DOUBLE => "16-bit products and double precision",
            SINGLE_AND_DOUBLE => "single and double precision",
            _ => "16-bit products, single and double precision",
        };
        let threads = if self.threads == 1 { "1 thread".into() } else { format!("{} threads", self.threads) };
        format!("cpu, {products} ({instructions}, {threads})")
    }

    fn accuracy(&self) -> Accuracy {
        // Integers are used if their estimated errors are at most 3e-7 and 1e-5; estimates can be too small by a factor of
        // about two.
        let row_sum = if self.precision == Precision::Exact { 1e-6 } else { 2e-5 };
        Accuracy { entry: 1e-6, row_sum }
    }

    fn precise(&self) -> Arc<dyn Backend> {
        Arc::new(Double::on(self.clone()))
    }

    fn for_concurrent_callers(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Self { threads: 1, ..self.clone() }))
    }

    fn hold(&self, features: &Features) -> Result<Box<dyn Resident>> {
        features.host()?;
        Ok(Box::new(HostSet::shared(features)))
    }

    fn empty(&self, width: usize, storage: Storage) -> Result<Box<dyn Resident>> {
        Ok(Box::new(HostSet::empty(width, storage)))
    }

    fn kernel_sums(&self, run: &Run, kernel: &Kernel, x: Set<'_>, y: Set<'_>) -> Result<PairSums> {
        let (x, y) = (x.rows()?, y.rows()?);
        let mut sums = self.pair_sums(run, kernel, &[x.view(), y.view()], &[(0, 1)])?;
        Ok(sums.remove(0))
    }

    fn kernel_sums_among(&self, run: &Run, kernel: &Kernel, sets: &[Set<'_>]) -> Result<Vec<Vec<Vec<f64>>>> {
        let rows = sets.iter().map(|set| set.rows()).collect::<Result<Vec<_>>>()?;
        let sets: Vec<Rows<'_>> = rows.iter().map(|rows| rows.view()).collect();
        let pairs: Vec<(usize, usize)> = (0..sets.len()).flat_map(|i| (i..sets.len()).map(move |j| (i, j))).collect();
        let mut sums: Vec<Vec<Vec<f64>>> =
            sets.iter().map(|set| sets.iter().map(|_| vec![0.0; set.len()]).collect()).collect();
        for ((i, j), part) in pairs.iter().copied().zip(self.pair_sums(run, kernel, &sets, &pairs)?) {
            // Each pair was evaluated once, and counts for both of its rows.
            add(&mut sums[i][j], 1.0, &part.rows);
            add(&mut sums[j][i], 1.0, &part.columns);
        }
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
        if held.is_empty() || x.is_empty() {
            return Ok(());
        }
        if x.len() < MIN_ROWS_FOR_TILES {
            return self.rows_one_by_one(run, kernel, weight, x, held, out);
        }
        self.rows_in_tiles(run, kernel, weight, x, held.rows()?.view(), out)
    }

    fn products(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> Result<Vec<f64>> {
        let held = held.rows()?;
        let parts = parallel(self.threads, run.stop(), x.len().div_ceil(PASS_ROWS_PER_TASK), |part| {
            let x = x.slice(part * PASS_ROWS_PER_TASK, ((part + 1) * PASS_ROWS_PER_TASK).min(x.len()));
            Ok(self.instructions.run(Products { x, held: held.view() }))
        })?;
        Ok(parts.concat())
    }

    fn distances(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> Result<Vec<f64>> {
        let held = held.rows()?;
        let parts = parallel(self.threads, run.stop(), x.len().div_ceil(PASS_ROWS_PER_TASK), |part| {
            let x = x.slice(part * PASS_ROWS_PER_TASK, ((part + 1) * PASS_ROWS_PER_TASK).min(x.len()));
            Ok(self.instructions.run(Distances { x, held: held.view() }))
        })?;
        Ok(parts.concat())
    }

    fn neighbours(&self, run: &Run, x: Set<'_>, k: usize) -> Result<Vec<Neighbour>> {
        self.nearest(run, x.rows()?.view(), k)
    }

    fn ball_counts(&self, run: &Run, points: Set<'_>, balls: Balls<'_>) -> Result<Vec<u32>> {
        let (points, centres) = (points.rows()?, balls.centres.rows()?);
        let (points, centres, squared_radii) = (points.view(), centres.view(), balls.squared_radii);
        // A few points are measured directly: packing all centres for them would cost more.
        let is_few = points.len() < MIN_ROWS_FOR_TILES;
        let prepared = if is_few { None } else { self.prepare(run, None, &[points, centres])? };
        let Some(prepared) = prepared else { return ball_counts(run, points, centres, squared_radii) };
        let task = prepared.task(0, 1, 1);
        let largest = task.x.largest_norm();
        let bounds = |sign: f32| -> Vec<f32> {
            let error = |norm: f32| distance_error(points.width(), largest, norm);
            squared_radii.iter().zip(&task.y.norms).map(|(&radius, &norm)| bound(radius, error(norm), sign)).collect()
        };
        let (sure, maybe) = (bounds(-1.0), bounds(1.0));
        let leaf = |range: Range<usize>| BallCounts {
            points,
            centres,
            first_row: range.start,
            squared_radii,
            sure: &sure,
            maybe: &maybe,
            counts: vec![0; range.len()],
        };
        let mut counts = Vec::with_capacity(points.len());
        self.by_rows(run, &task, leaf, |leaf| counts.extend(leaf.counts))?;
        Ok(counts)
    }

    fn overlaps(&self, run: &Run, x: Balls<'_>, weights: &[f64], y: Balls<'_>) -> Result<Overlaps> {
        let (x_rows, y_rows) = (x.centres.rows()?, y.centres.rows()?);
        let (x, y) = ((x_rows.view(), x.squared_radii), (y_rows.view(), y.squared_radii));
        let Some(prepared) = self.prepare(run, None, &[x.0, y.0])? else {
            return Reference::overlapping(run, x, weights, y);
        };
        let task = prepared.task(0, 1, 1);
        let x_bounds = Bounds::new(x, &task.x.norms, task.y.largest_norm());
        let y_bounds = Bounds::new(y, &task.y.norms, task.x.largest_norm());
        let columns = y.0.len();
        let leaf = |range: Range<usize>| OverlapTiles {
            x,
            weights,
            y,
            x_bounds: &x_bounds,
            y_bounds: &y_bounds,
            first_row: range.start,
            overlaps: Overlaps::none(range.len(), columns),
        };
        let mut all = Overlaps::none(0, columns);
        self.by_rows(run, &task, leaf, |OverlapTiles { overlaps, .. }| {
            all.counts.extend(overlaps.counts);
            add(&mut all.masses, 1.0, &overlaps.masses);
            all.held.iter_mut().zip(overlaps.held).for_each(|(any, held)| *any |= held);
        })?;
        Ok(all)
    }

    fn mean(&self, run: &Run, x: Set<'_>) -> Result<Vec<f64>> {
        dense::mean(run, x.rows()?.view())
    }

    fn scatter(&self, run: &Run, x: Set<'_>, centre: &[f64], weights: Option<&[f64]>) -> Result<Matrix> {
        self.note_double();
        dense::scatter(self.threads, run, x.rows()?.view(), centre, weights)
    }

    fn whole_products(&self, run: &Run, rows: &[i16], width: usize) -> Result<Vec<i64>> {
        whole::whole_products(self.threads, self.instructions, run, rows, width)
    }

    fn wave_sums(&self, run: &Run, x: Rows<'_>, centre: &[f32], frequencies: Rows<'_>) -> Result<Vec<i64>> {
        waves::wave_sums(self.threads, self.instructions, run, x, centre, frequencies)
    }

    fn projections(
        &self,
        run: &Run,
        x: Set<'_>,
        centre: &[f64],
        directions: &Matrix,
        weights: &[f64],
    ) -> Result<Vec<f64>> {
        dense::projections(self.threads, run, x.rows()?.view(), centre, directions, weights)
    }

    fn subset_sums(&self, run: &Run, kernel: &Kernel, x: Subsets<'_>, y: Option<Subsets<'_>>) -> Result<Vec<f64>> {
        subsets::sums(&Self { threads: 1, ..self.clone() }, self.threads, run, kernel, x, y)
    }

    fn product(&self, run: &Run, a: Factor<'_>, b: Factor<'_>) -> Result<Matrix> {
        self.note_double();
        dense::product(self.threads, run, a, b)
    }
}
