//! The only door to threads, vector instructions and, later, GPUs: sums of kernels over pairs of rows, and neighbours.
//! What a kernel or an objective means is left to others.

mod balls;
mod cpu;
mod dense;
mod dispatch;
mod double;
mod lanes;
mod leaves;
mod micro;
mod neighbours;
mod parallel;
mod reference;
mod row;
mod subsets;
mod tiles;

use std::fmt::Debug;
use std::sync::Arc;

use crate::features::{HalfRows, Rows};
use crate::kernel::Kernel;

pub use cpu::Cpu;
pub use dense::{Eigen, Matrix, negligible};
pub use dispatch::Instructions;
pub use double::Double;
pub use parallel::{available_threads, stoppable};
pub(crate) use parallel::{check_stopped, parallel};
pub use reference::Reference;

/// Sums of a kernel over all pairs of two sets, by row and by column.
#[derive(Clone, Debug, PartialEq)]
pub struct PairSums {
    /// For every row of the first set, the sum over the second.
    pub rows: Vec<f64>,
    /// For every row of the second set, the sum over the first.
    pub columns: Vec<f64>,
}

/// Another row of the set, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// ‖x − y‖², exact up to the rounding of double precision.
    pub squared_distance: f64,
    /// Which row it is.
    pub row: u32,
}

/// Points that have balls around them: a sample with the regions that k-NN measures are about.
#[derive(Clone, Copy, Debug)]
pub struct Balls<'a> {
    /// The centres.
    pub centres: Rows<'a>,
    /// Their squared radii. A ball is open: what is at its radius is outside.
    pub squared_radii: &'a [f64],
}

/// How the balls of two sets hold each other's centres.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlaps {
    /// For every row of the first set, how many balls of the second hold it.
    pub counts: Vec<u32>,
    /// For every ball of the second set, the weights of the rows of the first that it holds, added.
    pub masses: Vec<f64>,
    /// For every row of the second set, whether a ball of the first holds it.
    pub held: Vec<bool>,
}

/// What a compute engine can do. Results must not depend on the number of threads, to the last bit.
///
/// All sets of one call have the same width; callers have checked that, and that the kernel is defined on every row.
pub trait Backend: Debug + Send + Sync {
    /// Σ k(x, y) over all pairs of two sets.
    fn kernel_sums(&self, kernel: &Kernel, x: Rows<'_>, y: Rows<'_>) -> PairSums;

    /// Σ k over all pairs among several sets: `[i][j]` has for every row of set i its sum over set j. A row is not paired
    /// with itself.
    fn kernel_sums_among(&self, kernel: &Kernel, sets: &[Rows<'_>]) -> Vec<Vec<Vec<f64>>>;

    /// The same for one set.
    fn kernel_sums_within(&self, kernel: &Kernel, x: Rows<'_>) -> Vec<f64> {
        self.kernel_sums_among(kernel, &[x]).concat().concat()
    }

    /// Adds `weight` · k(x, row) to `out`, for every new row `x` against every row held: new row after new row.
    fn kernel_rows(&self, kernel: &Kernel, weight: f64, x: Rows<'_>, held: Rows<'_>, out: &mut [f64]);

    /// The same against rows held in half precision.
    fn kernel_rows_half(&self, kernel: &Kernel, weight: f64, x: Rows<'_>, held: HalfRows<'_>, out: &mut [f64]) {
        let widened = held.widened();
        self.kernel_rows(kernel, weight, x, Rows::new(held.width(), &widened), out);
    }

    /// x·row for every row `x` against every row held, x after x: what random features are made of.
    fn products(&self, x: Rows<'_>, held: Rows<'_>) -> Vec<f64> {
        let product = |x: &[f32], row: &[f32]| x.iter().zip(row).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
        x.iter().flat_map(|x| held.iter().map(move |row| product(x, row))).collect()
    }

    /// For every row its `k` nearest other rows of the set, the nearest first (1 ≤ k < rows): `k` after `k`.
    fn neighbours(&self, x: Rows<'_>, k: usize) -> Vec<Neighbour>;

    /// For every point, how many of the balls around `centres` hold it: ‖point − centre‖² < `squared_radii`, strictly.
    fn ball_counts(&self, points: Rows<'_>, centres: Rows<'_>, squared_radii: &[f64]) -> Vec<u32>;

    /// How two sets' balls hold each other's centres, the first set's rows counting `weights`: one pass over all pairs.
    fn overlaps(&self, x: Balls<'_>, weights: &[f64], y: Balls<'_>) -> Overlaps;

    /// Σ w (x − centre)(x − centre)ᵀ over rows, in double precision; w ≥ 0.
    fn scatter(&self, x: Rows<'_>, centre: &[f64], weight: &(dyn Fn(usize) -> f64 + Sync)) -> Matrix {
        dense::scatter(self.threads(), x, centre, weight)
    }

    /// Σk over the pairs of each subset of `x` with the one of `y` that has its number; over the ordered pairs of each
    /// subset of `x` with itself, self-pairs included, where there is no `y`. Every pair of rows is evaluated once.
    fn subset_sums(
        &self,
        kernel: &Kernel,
        x: Rows<'_>,
        x_subsets: &[&[usize]],
        y: Option<(Rows<'_>, &[&[usize]])>,
    ) -> Vec<f64> {
        let evaluate = |x: Rows<'_>, held: Rows<'_>, out: &mut [f64]| self.kernel_rows(kernel, 1.0, x, held, out);
        subsets::sums(self.threads(), evaluate, x, x_subsets, y)
    }

    /// All values of the kernel within a set, in runs of `rows` rows: the first row of each run, and its values against all.
    fn kernel_blocks(&self, kernel: &Kernel, x: Rows<'_>, rows: usize, each: &mut dyn FnMut(usize, &[f64])) {
        let starts: Vec<usize> = (0..x.len()).step_by(rows.max(1)).collect();
        for wave in starts.chunks(4 * self.threads()) {
            let blocks = parallel(self.threads(), wave.len(), |index| {
                let run = x.slice(wave[index], (wave[index] + rows).min(x.len()));
                let mut values = vec![0.0; run.len() * x.len()];
                self.kernel_rows(kernel, 1.0, run, x, &mut values);
                values
            });
            wave.iter().zip(&blocks).for_each(|(&first, values)| each(first, values));
        }
    }

    /// How many threads it uses.
    fn threads(&self) -> usize;

    /// The same engine on one thread, for callers that have threads of their own.
    fn on_one_thread(&self) -> Arc<dyn Backend>;
}

impl Neighbour {
    #[inline(always)]
    fn of(rows: Rows<'_>, row: usize, other: usize) -> Self {
        Self { squared_distance: squared_distance(rows.row(row), rows.row(other)), row: other as u32 }
    }
}

impl Overlaps {
    fn none(x: usize, y: usize) -> Self {
        Self { counts: vec![0; x], masses: vec![0.0; y], held: vec![false; y] }
    }

    /// Counts a pair: whether the ball of x holds y, and that of y holds x.
    fn add(&mut self, (x, y): (usize, usize), weight: f64, (in_x, in_y): (bool, bool)) {
        if in_y {
            self.counts[x] += 1;
            self.masses[y] += weight;
        }
        self.held[y] |= in_x;
    }
}

/// How many balls hold each point, one by one in double precision.
fn ball_counts(points: Rows<'_>, centres: Rows<'_>, squared_radii: &[f64]) -> Vec<u32> {
    let holds = |point: &[f32], centre: &[f32], radius: f64| squared_distance(point, centre) < radius;
    let count = |point: &[f32]| {
        centres.iter().zip(squared_radii).filter(|(centre, radius)| holds(point, centre, **radius)).count()
    };
    points.iter().inspect(|_| check_stopped()).map(|point| count(point) as u32).collect()
}

/// ‖x−y‖² in double precision: neighbours are decided by comparisons that a rounding error would tip.
// Inlined into code that is compiled for the processor's vectors; the order of addition is the same everywhere.
#[inline(always)]
pub(crate) fn squared_distance(x: &[f32], y: &[f32]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0f64; LANES];
    let (x_chunks, y_chunks) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let tail: f64 = x_chunks
        .remainder()
        .iter()
        .zip(y_chunks.remainder())
        .map(|(&a, &b)| {
            let difference = f64::from(a) - f64::from(b);
            difference * difference
        })
        .sum();
    for (a, b) in x_chunks.zip(y_chunks) {
        for lane in 0..LANES {
            let difference = f64::from(a[lane]) - f64::from(b[lane]);
            sums[lane] += difference * difference;
        }
    }
    sums.iter().sum::<f64>() + tail
}
