//! The engine for every day: blocks of rows on all cores, products and distances in single precision by vector
//! instructions, kernels and sums in double precision, added in a fixed order.

use super::{Backend, PairSums, available_threads, parallel, squared_distance};
use crate::features::Rows;
use crate::kernel::{Geometry, Kernel};

/// Rows of one side that a piece of work takes; two blocks of 1,024 columns fill 2 MB.
const BLOCK: usize = 256;
/// Rows of the block that share each load of the other side.
const GROUP: usize = 4;
/// Partial sums of an inner product; enough for two 8-wide or one 16-wide register a row.
const LANES: usize = 16;

/// Kernel sums on the processor's cores.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    threads: usize,
    fused: bool,
}

impl Cpu {
    /// All cores of the machine.
    pub fn new() -> Self {
        Self::with_threads(available_threads())
    }

    /// A given number of threads (0 counts as 1). The results are the same to the last bit.
    pub fn with_threads(threads: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        let fused = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        #[cfg(not(target_arch = "x86_64"))]
        let fused = false;
        Self { threads: threads.max(1), fused }
    }

    /// How many threads it uses.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The geometry of up to [`GROUP`] rows against one row, in single precision.
    #[inline]
    fn geometry(&self, distance: bool, group: Rows<'_>, row: &[f32]) -> [f32; GROUP] {
        #[cfg(target_arch = "x86_64")]
        if self.fused {
            // SAFETY: `fused` is set only where the processor has AVX2 and FMA.
            return unsafe { inner_fused(distance, group, row) };
        }
        inner::<false>(distance, group, row)
    }

    /// Calls `visit(i, j, k(x_i, y_j))` for every i in the block `first..last` of `x` and every j in `start..` of `y`
    /// that `wanted(i, j)` asks for.
    fn visit(
        &self,
        kernel: &Kernel,
        sides: (&Side<'_>, &Side<'_>),
        block: std::ops::Range<usize>,
        start: usize,
        mut visit: impl FnMut(usize, usize, f64),
    ) {
        let (x, y) = sides;
        let distance = kernel.geometry() == Geometry::SquaredDistance;
        for from in (start..y.rows.len()).step_by(BLOCK) {
            let until = (from + BLOCK).min(y.rows.len());
            for group in block.clone().step_by(GROUP) {
                let rows = x.rows.slice(group, (group + GROUP).min(block.end));
                for j in from..until {
                    let values = self.geometry(distance, rows, y.rows.row(j));
                    for (offset, value) in values.iter().take(rows.len()).enumerate() {
                        let i = group + offset;
                        visit(i, j, kernel.of(f64::from(*value) * x.scale(i) * y.scale(j)));
                    }
                }
            }
        }
    }

    /// Strips of `BLOCK` rows of `x`, computed in waves so that memory stays small, folded in the order of the strips.
    fn strips<R: Send>(&self, rows: usize, work: impl Fn(std::ops::Range<usize>) -> R + Sync, mut fold: impl FnMut(R)) {
        let strips = rows.div_ceil(BLOCK);
        let wave = 4 * self.threads;
        for first in (0..strips).step_by(wave) {
            let count = wave.min(strips - first);
            let results = parallel(self.threads, count, |index| {
                let start = (first + index) * BLOCK;
                work(start..(start + BLOCK).min(rows))
            });
            results.into_iter().for_each(&mut fold);
        }
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new()
    }
}

/// One side of a sum: rows, and what each inner product is multiplied by (1/‖x‖ for the cosine, else nothing).
struct Side<'a> {
    rows: Rows<'a>,
    scales: Option<Vec<f64>>,
}

impl<'a> Side<'a> {
    fn new(kernel: &Kernel, rows: Rows<'a>) -> Self {
        let scales = (kernel.geometry() == Geometry::Cosine).then(|| rows.iter().map(inverse_norm).collect());
        Self { rows, scales }
    }

    #[inline]
    fn scale(&self, row: usize) -> f64 {
        self.scales.as_ref().map_or(1.0, |scales| scales[row])
    }
}

fn inverse_norm(row: &[f32]) -> f64 {
    1.0 / row.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt()
}

/// The inner loop, written once; `FUSED` says whether a fused multiply-add is an instruction or a slow call.
#[inline(always)]
fn inner<const FUSED: bool>(distance: bool, group: Rows<'_>, row: &[f32]) -> [f32; GROUP] {
    if distance { inner_of::<FUSED, true>(group, row) } else { inner_of::<FUSED, false>(group, row) }
}

#[inline(always)]
fn inner_of<const FUSED: bool, const DISTANCE: bool>(group: Rows<'_>, row: &[f32]) -> [f32; GROUP] {
    let step = |sum: f32, a: f32, b: f32| {
        let (left, right) = if DISTANCE { (a - b, a - b) } else { (a, b) };
        if FUSED { left.mul_add(right, sum) } else { left * right + sum }
    };
    let mut sums = [[0.0f32; LANES]; GROUP];
    // A short group reads its last row again: the same code, and the surplus is dropped by the caller.
    let rows: [&[f32]; GROUP] = std::array::from_fn(|index| group.row(index.min(group.len() - 1)));
    let whole = row.len() / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        let other: &[f32; LANES] = row[start..][..LANES].try_into().expect("a whole chunk");
        for (sums, row) in sums.iter_mut().zip(rows) {
            let chunk: &[f32; LANES] = row[start..][..LANES].try_into().expect("a whole chunk");
            for lane in 0..LANES {
                sums[lane] = step(sums[lane], chunk[lane], other[lane]);
            }
        }
    }
    std::array::from_fn(|index| {
        let mut lanes = sums[index];
        for (lane, column) in (whole..row.len()).enumerate() {
            lanes[lane] = step(lanes[lane], rows[index][column], row[column]);
        }
        // Pairwise, so that the error does not grow with the number of lanes.
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                lanes[lane] += lanes[lane + width];
            }
            width /= 2;
        }
        lanes[0]
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn inner_fused(distance: bool, group: Rows<'_>, row: &[f32]) -> [f32; GROUP] {
    inner::<true>(distance, group, row)
}

impl Backend for Cpu {
    fn kernel_sums(&self, kernel: &Kernel, x: Rows<'_>, y: Rows<'_>) -> PairSums {
        let sides = (&Side::new(kernel, x), &Side::new(kernel, y));
        let mut sums = PairSums { rows: Vec::with_capacity(x.len()), columns: vec![0.0; y.len()] };
        self.strips(
            x.len(),
            |block| {
                let mut rows = vec![0.0; block.len()];
                let mut columns = vec![0.0; y.len()];
                let first = block.start;
                self.visit(kernel, sides, block, 0, |i, j, value| {
                    rows[i - first] += value;
                    columns[j] += value;
                });
                (rows, columns)
            },
            |(rows, columns)| {
                sums.rows.extend(rows);
                for (sum, value) in sums.columns.iter_mut().zip(columns) {
                    *sum += value;
                }
            },
        );
        sums
    }

    fn kernel_sums_within(&self, kernel: &Kernel, x: Rows<'_>) -> Vec<f64> {
        let side = Side::new(kernel, x);
        let mut sums = vec![0.0; x.len()];
        self.strips(
            x.len(),
            |block| {
                let first = block.start;
                let mut part = vec![0.0; x.len() - first];
                self.visit(kernel, (&side, &side), block, first, |i, j, value| {
                    // Each pair once: it counts for both of its rows.
                    if j > i {
                        part[i - first] += value;
                        part[j - first] += value;
                    }
                });
                (first, part)
            },
            |(first, part)| {
                for (sum, value) in sums[first..].iter_mut().zip(part) {
                    *sum += value;
                }
            },
        );
        sums
    }

    fn kernel_row(&self, kernel: &Kernel, weight: f64, x: &[f32], held: Rows<'_>, out: &mut [f64]) {
        let distance = kernel.geometry() == Geometry::SquaredDistance;
        let cosine = kernel.geometry() == Geometry::Cosine;
        let scale = if cosine { inverse_norm(x) } else { 1.0 };
        for (start, values) in (0..held.len()).step_by(GROUP).zip(out.chunks_mut(GROUP)) {
            let group = held.slice(start, (start + GROUP).min(held.len()));
            let geometry = self.geometry(distance, group, x);
            for (offset, value) in values.iter_mut().enumerate() {
                let scale = if cosine { scale * inverse_norm(group.row(offset)) } else { scale };
                *value += weight * kernel.of(f64::from(geometry[offset]) * scale);
            }
        }
    }

    fn nearest(&self, x: Rows<'_>, k: usize) -> Vec<f64> {
        let mut radii = Vec::with_capacity(x.len());
        self.strips(
            x.len(),
            |block| {
                let radius = |i: usize| {
                    // The k smallest so far, in ascending order.
                    let mut least = vec![f64::INFINITY; k];
                    for j in (0..x.len()).filter(|&j| j != i) {
                        let distance = squared_distance(x.row(i), x.row(j));
                        if distance < least[k - 1] {
                            let place = least.partition_point(|&other| other <= distance);
                            least[place..].rotate_right(1);
                            least[place] = distance;
                        }
                    }
                    least[k - 1]
                };
                block.map(radius).collect::<Vec<_>>()
            },
            |part| radii.extend(part),
        );
        radii
    }

    fn ball_counts(&self, points: Rows<'_>, centres: Rows<'_>, squared_radii: &[f64]) -> Vec<u32> {
        let mut counts = Vec::with_capacity(points.len());
        self.strips(
            points.len(),
            |block| {
                let count = |i: usize| {
                    let point = points.row(i);
                    centres
                        .iter()
                        .zip(squared_radii)
                        .filter(|(centre, radius)| squared_distance(point, centre) < **radius)
                        .count() as u32
                };
                block.map(count).collect::<Vec<_>>()
            },
            |part| counts.extend(part),
        );
        counts
    }
}
