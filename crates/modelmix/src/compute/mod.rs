//! The only door to threads, vector instructions and, later, GPUs: sums of kernels over pairs of rows, and neighbours.
//! What a kernel or an objective means is left to others.

mod cpu;
mod dispatch;
mod lanes;
mod leaves;
mod micro;
mod parallel;
mod reference;
mod row;
mod tiles;

use std::fmt::Debug;
use std::sync::Arc;

use crate::features::{HalfRows, Rows};
use crate::kernel::Kernel;

pub use cpu::Cpu;
pub use dispatch::Instructions;
pub(crate) use parallel::{available_threads, parallel};
pub use reference::Reference;

/// Sums of a kernel over all pairs of two sets, by row and by column.
#[derive(Clone, Debug, PartialEq)]
pub struct PairSums {
    /// For every row of the first set, the sum over the second.
    pub rows: Vec<f64>,
    /// For every row of the second set, the sum over the first.
    pub columns: Vec<f64>,
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

    /// For every row, the squared distance to its `k`-th nearest other row of the set (1 ≤ k < rows).
    fn nearest(&self, x: Rows<'_>, k: usize) -> Vec<f64>;

    /// For every point, how many of the balls around `centres` hold it: ‖point − centre‖² < `squared_radii`, strictly.
    fn ball_counts(&self, points: Rows<'_>, centres: Rows<'_>, squared_radii: &[f64]) -> Vec<u32>;

    /// The same engine on one thread, for callers that have threads of their own.
    fn on_one_thread(&self) -> Arc<dyn Backend>;
}

/// How many balls hold each point, one by one in double precision.
fn ball_counts(points: Rows<'_>, centres: Rows<'_>, squared_radii: &[f64]) -> Vec<u32> {
    let holds = |point: &[f32], centre: &[f32], radius: f64| squared_distance(point, centre) < radius;
    let count = |point: &[f32]| {
        centres.iter().zip(squared_radii).filter(|(centre, radius)| holds(point, centre, **radius)).count()
    };
    points.iter().map(|point| count(point) as u32).collect()
}

/// ‖x−y‖² in double precision: neighbours are decided by comparisons that a rounding error would tip.
#[inline]
fn squared_distance(x: &[f32], y: &[f32]) -> f64 {
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
