//! Compute engines: sums of kernels over pairs of rows, neighbours, moments and products. This is the only module with
//! threads and vector instructions; GPUs implement [`Backend`]. Kernels and objectives are defined elsewhere.

mod balls;
mod choice;
mod cpu;
mod dense;
mod dispatch;
mod double;
mod engine;
mod feature_rows;
mod integers;
mod lanes;
mod leaves;
mod micro;
mod neighbours;
mod parallel;
mod reference;
mod row;
mod set;
mod spectrum;
mod stop;
pub(crate) mod subsets;
mod tiles;
mod waves;
mod whole;

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::Result;
use crate::features::{Features, Rows};
use crate::kernel::Kernel;

pub use crate::features::HalfRows;
pub use choice::EngineChoice;
pub use cpu::{Cpu, Precision};
pub use dense::{Eigen, Factor, Matrix, negligible};
pub use dispatch::Instructions;
pub use double::Double;
pub use engine::Engine;
pub use parallel::available_threads;
pub(crate) use parallel::parallel;
pub use reference::Reference;
pub(crate) use set::reserve;
pub use set::{HostRows, HostSet, Resident, Set, SingleRows, Storage};
pub use stop::{Run, Stop};
pub(crate) use waves::WAVE_UNIT;

/// Sums of a kernel over all pairs of two sets, per row and per column.
#[derive(Clone, Debug, PartialEq)]
pub struct PairSums {
    /// For every row of the first set, the sum over the second.
    pub rows: Vec<f64>,
    /// For every row of the second set, the sum over the first.
    pub columns: Vec<f64>,
}

/// A neighbour of a row, and its distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// ‖x − y‖², exact up to the rounding of double precision.
    pub squared_distance: f64,
    /// The index of the neighbour.
    pub row: u32,
}

/// Points with balls around them, for nearest-neighbour metrics.
#[derive(Clone, Copy, Debug)]
pub struct Balls<'a> {
    /// The centres.
    pub centres: Set<'a>,
    /// Their squared radii. A ball is open: a point exactly at its radius is outside.
    pub squared_radii: &'a [f64],
}

/// Which balls of two sets contain which centres of the other set.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlaps {
    /// For every row of the first set, the number of balls of the second that contain it.
    pub counts: Vec<u32>,
    /// For every ball of the second set, the total weight of the rows of the first that it contains.
    pub masses: Vec<f64>,
    /// For every row of the second set, whether a ball of the first contains it.
    pub held: Vec<bool>,
}

/// Subsets of the rows of a set, as lists of row indices; a row that is listed twice counts twice.
#[derive(Clone, Copy, Debug)]
pub struct Subsets<'a> {
    /// The set.
    pub rows: Set<'a>,
    /// Its subsets.
    pub subsets: &'a [&'a [usize]],
}

/// Bounds on the relative error of an engine's kernel sums.
///
/// An error is relative to Σ s(x, y) over the pairs (x, y) of the sum, where s is the larger of |k(x, y)| and
/// |g·∂k/∂g|, with g the squared distance of the pair for kernels of distances and Σ|xᵢyᵢ| for kernels of products: the
/// first-order change of k if g doubles. If terms do not cancel and distances are at most a few bandwidths, this is the
/// sum itself up to a small factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// For an entry of K: the mean of k over all pairs of two sets.
    pub entry: f64,
    /// For the sum of a row over a set; for a set of one row, this is a single value of k.
    pub row_sum: f64,
}

/// The operations of a compute engine.
///
/// Methods are called with a [`Run`]: they check its stop token at least every tenth of a second and return
/// [`Error::Stopped`](crate::Error::Stopped), and report the number of kernel pairs that they have summed. All can
/// fail: with [`Error::Memory`](crate::Error::Memory) if memory runs out and with
/// [`Error::Device`](crate::Error::Device) if a device is lost. A failed call has no effect.
///
/// Results are the same to the last bit in every call, on any number of threads or blocks, and for sets on the host or
/// resident in single precision. Between engines, devices and instruction sets they differ within
/// [`Backend::accuracy`]. All sets of one call must have the same width, and the kernel must be defined on every row;
/// callers check both. `tests/conformance` tests every engine against this contract.
pub trait Backend: Debug + Send + Sync {
    /// Name, device and instruction set, for reports.
    fn describe(&self) -> String;

    /// The accuracy of its kernel sums.
    fn accuracy(&self) -> Accuracy;

    /// The engine on the same device that computes in double precision, for published numbers; itself if it does.
    fn precise(&self) -> Arc<dyn Backend>;

    /// The engine for callers that run many tasks at once on their own threads; `None` if it is this one.
    fn for_concurrent_callers(&self) -> Option<Arc<dyn Backend>> {
        None
    }

    /// Makes features resident. On the processor the set shares their memory.
    fn hold(&self, features: &Features) -> Result<Box<dyn Resident>>;

    /// Creates an empty resident set, to which rows can be appended.
    fn empty(&self, width: usize, storage: Storage) -> Result<Box<dyn Resident>>;

    /// Σ k(x, y) over all pairs of two sets.
    fn kernel_sums(&self, run: &Run, kernel: &Kernel, x: Set<'_>, y: Set<'_>) -> Result<PairSums>;

    /// Σ k over all pairs among several sets: `[i][j]` has, for every row of set i, its sum over set j. A row is not
    /// paired with itself.
    fn kernel_sums_among(&self, run: &Run, kernel: &Kernel, sets: &[Set<'_>]) -> Result<Vec<Vec<Vec<f64>>>>;

    /// Adds `weight` · k(x, row) to `out`, for every new row `x` and every row of a set, in row-major order.
    fn kernel_rows(
        &self,
        run: &Run,
        kernel: &Kernel,
        weight: f64,
        x: Rows<'_>,
        held: Set<'_>,
        out: &mut [f64],
    ) -> Result<()>;

    /// x·row for every row `x` and every row of a set, in row-major order, for random Fourier features.
    fn products(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> Result<Vec<f64>>;

    /// ‖x − row‖² for every row `x` and every row of a set, in row-major order, exact up to the rounding of double
    /// precision.
    fn distances(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> Result<Vec<f64>>;

    /// The `k` nearest other rows of every row of the set (1 ≤ k < rows), `k` entries per row, nearest first and ties
    /// in the order of rows.
    fn neighbours(&self, run: &Run, x: Set<'_>, k: usize) -> Result<Vec<Neighbour>>;

    /// The number of balls that contain each point: ‖point − centre‖² < squared radius, strictly.
    fn ball_counts(&self, run: &Run, points: Set<'_>, balls: Balls<'_>) -> Result<Vec<u32>>;

    /// Which balls of two sets contain which centres of the other, with `weights` for the rows of the first set, in one
    /// pass over all pairs.
    fn overlaps(&self, run: &Run, x: Balls<'_>, weights: &[f64], y: Balls<'_>) -> Result<Overlaps>;

    /// The mean of all rows, in double precision; there must be at least one.
    fn mean(&self, run: &Run, x: Set<'_>) -> Result<Vec<f64>>;

    /// Σ w (x − centre)(x − centre)ᵀ over rows, in double precision, with w ≥ 0, and w = 1 if no weights are given.
    fn scatter(&self, run: &Run, x: Set<'_>, centre: &[f64], weights: Option<&[f64]>) -> Result<Matrix>;

    /// Sums over rows of cos 2πω·(x − c) for each frequency ω, then of sin, each rounded to a multiple of 2⁻²¹ and counted in
    /// these units, so that sums over parts of the rows add up to the same bits. The default uses all cores of the processor.
    fn wave_sums(&self, run: &Run, x: Rows<'_>, centre: &[f32], frequencies: Rows<'_>) -> Result<Vec<i64>> {
        Cpu::new().wave_sums(run, x, centre, frequencies)
    }

    /// The lower triangle of Σ yyᵀ over rows of whole numbers from −32767 to 32767, column by column: exact. The default uses all
    /// cores of the processor.
    fn whole_products(&self, run: &Run, rows: &[i16], width: usize) -> Result<Vec<i64>> {
        Cpu::new().whole_products(run, rows, width)
    }

    /// For every row x, Σₖ wₖ (uₖ·(x − centre))² over the columns uₖ of `directions`, in double precision.
    fn projections(
        &self,
        run: &Run,
        x: Set<'_>,
        centre: &[f64],
        directions: &Matrix,
        weights: &[f64],
    ) -> Result<Vec<f64>>;

    /// Σk over the pairs of each subset of `x` with the subset of `y` of the same index. Without `y`, over the ordered
    /// pairs of each subset of `x` with itself, including self-pairs. If subsets overlap much, every pair of rows is
    /// evaluated once.
    fn subset_sums(&self, run: &Run, kernel: &Kernel, x: Subsets<'_>, y: Option<Subsets<'_>>) -> Result<Vec<f64>>;

    /// The product of two dense matrices, each optionally transposed.
    fn product(&self, run: &Run, a: Factor<'_>, b: Factor<'_>) -> Result<Matrix>;

    /// [`Matrix::eigenvalues`]. By default the processor computes it, and the stop token is checked before.
    fn eigenvalues(&self, run: &Run, matrix: &Matrix) -> Result<Vec<f64>> {
        run.check().map(|()| matrix.eigenvalues())
    }

    /// [`Matrix::eigen`], as [`Backend::eigenvalues`].
    fn eigen(&self, run: &Run, matrix: &Matrix) -> Result<Eigen> {
        run.check().map(|()| matrix.eigen())
    }

    /// [`Matrix::factor`], as [`Backend::eigenvalues`].
    fn factor(&self, run: &Run, matrix: &Matrix) -> Result<Matrix> {
        run.check().map(|()| matrix.factor())
    }
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

    /// Counts a pair: whether the ball of x contains y, and that of y contains x.
    fn add(&mut self, (x, y): (usize, usize), weight: f64, (in_x, in_y): (bool, bool)) {
        if in_y {
            self.counts[x] += 1;
            self.masses[y] += weight;
        }
        self.held[y] |= in_x;
    }
}

/// The number of balls that contain each point, computed one by one in double precision.
fn ball_counts(run: &Run, points: Rows<'_>, centres: Rows<'_>, squared_radii: &[f64]) -> Result<Vec<u32>> {
    let holds = |point: &[f32], centre: &[f32], radius: f64| squared_distance(point, centre) < radius;
    let count = |point: &[f32]| {
        centres.iter().zip(squared_radii).filter(|(centre, radius)| holds(point, centre, **radius)).count()
    };
    points.iter().map(|point| run.check().map(|()| count(point) as u32)).collect()
}

/// ‖x−y‖² in double precision: neighbours are determined by comparisons, which a rounding error could change.
// Inlined into code that is compiled for the processor's vectors; the order of addition is always the same.
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
