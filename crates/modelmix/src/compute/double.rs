//! The engine for published figures: every kernel value in double precision, from products of blocks, at about half the
//! speed of [`Cpu`]. Neighbours and balls are [`Cpu`]'s, which are exact already.

use std::ops::Range;
use std::sync::Arc;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};

use super::dense::widen;
use super::{
    Backend, Balls, Cpu, Neighbour, Overlaps, PairSums, available_threads, check_stopped, parallel, squared_distance,
};
use crate::features::Rows;
use crate::kernel::{Geometry, Kernel};

/// Rows and columns of a block: its values are 1 MB.
const BLOCK: usize = 256;
const COLUMNS: usize = 512;
/// A squared distance that is less than this part of the squared norms has lost digits, and is measured directly.
const CLOSE: f64 = 1e-4;

/// Kernel sums in double precision on the processor's cores.
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
    /// All cores of the machine.
    pub fn new() -> Self {
        Self::with_threads(available_threads())
    }

    /// A given number of threads (0 counts as 1). The results are the same to the last bit.
    pub fn with_threads(threads: usize) -> Self {
        Self { cpu: Cpu::with_threads(threads) }
    }

    /// Sums of blocks, in waves, folded in a fixed order: `fold(pair, rows, columns, sums by row, sums by column)`.
    fn sums(
        &self,
        kernel: &Kernel,
        sides: &[Side<'_>],
        pairs: &[(usize, usize)],
        mut fold: impl FnMut(usize, Range<usize>, Range<usize>, &PairSums),
    ) {
        let mut blocks = Vec::new();
        for (pair, &(i, j)) in pairs.iter().enumerate() {
            for rows in ranges(sides[i].rows.len(), BLOCK) {
                for columns in ranges(sides[j].rows.len(), COLUMNS) {
                    // Of a set with itself each pair is met once, with the row before the column.
                    if i != j || rows.start < columns.end {
                        blocks.push((pair, rows.clone(), columns));
                    }
                }
            }
        }
        for wave in blocks.chunks(64 * self.threads()) {
            let sums = parallel(self.threads(), wave.len(), |index| {
                let (pair, rows, columns) = &wave[index];
                let (i, j) = pairs[*pair];
                let mut sums = PairSums { rows: vec![0.0; rows.len()], columns: vec![0.0; columns.len()] };
                values(kernel, (&sides[i], rows.clone()), (&sides[j], columns.clone()), |column, values| {
                    // Of a set with itself, only rows before the column.
                    let before =
                        if i == j { (columns.start + column).saturating_sub(rows.start) } else { values.len() };
                    let values = &values[..before.min(values.len())];
                    sums.columns[column] += values.iter().sum::<f64>();
                    add(&mut sums.rows, values);
                });
                sums
            });
            for ((pair, rows, columns), sums) in wave.iter().zip(sums) {
                fold(*pair, rows.clone(), columns.clone(), &sums);
            }
        }
    }
}

/// A set with its norms, about a centre that all sets of a call share.
struct Side<'a> {
    rows: Rows<'a>,
    squared_norms: Vec<f64>,
    centre: Option<Arc<[f64]>>,
}

/// All sets about their common mean, where the kernel is one of distances.
fn sides<'a>(kernel: &Kernel, sets: &[Rows<'a>]) -> Vec<Side<'a>> {
    let centre: Option<Arc<[f64]>> = (kernel.geometry() == Geometry::SquaredDistance).then(|| {
        let mut sum = vec![0.0f64; sets[0].width()];
        for row in sets.iter().flat_map(Rows::iter) {
            sum.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        let count = sets.iter().map(Rows::len).sum::<usize>().max(1) as f64;
        sum.into_iter().map(|sum| sum / count).collect()
    });
    let squared_norm = |row: &[f32]| -> f64 {
        match &centre {
            None => row.iter().map(|&value| f64::from(value).powi(2)).sum(),
            Some(centre) => row.iter().zip(&**centre).map(|(&value, centre)| (f64::from(value) - centre).powi(2)).sum(),
        }
    };
    sets.iter()
        .map(|&rows| Side { rows, squared_norms: rows.iter().map(squared_norm).collect(), centre: centre.clone() })
        .collect()
}

/// Calls `each(column, values by row)` for every column of a block.
fn values(
    kernel: &Kernel,
    (x, rows): (&Side<'_>, Range<usize>),
    (y, columns): (&Side<'_>, Range<usize>),
    mut each: impl FnMut(usize, &[f64]),
) {
    let width = x.rows.width();
    let mut a = Mat::zeros(width, rows.len());
    let mut b = Mat::zeros(width, columns.len());
    widen(x.rows.slice(rows.start, rows.end), x.centre.as_deref(), &mut a);
    widen(y.rows.slice(columns.start, columns.end), y.centre.as_deref(), &mut b);
    let mut products = Mat::zeros(rows.len(), columns.len());
    matmul(products.as_mut(), Accum::Replace, a.transpose(), b.as_ref(), 1.0, Par::Seq);
    let geometry = kernel.geometry();
    let norms = &x.squared_norms[rows.clone()];
    for column in 0..columns.len() {
        let y_norm = y.squared_norms[columns.start + column];
        let values = products.col_as_slice_mut(column);
        match geometry {
            Geometry::Product => {}
            Geometry::Cosine => {
                values.iter_mut().zip(norms).for_each(|(value, norm)| *value /= norm.sqrt() * y_norm.sqrt());
            }
            Geometry::SquaredDistance => {
                let mut close = false;
                for (value, norm) in values.iter_mut().zip(norms) {
                    *value = norm + y_norm - 2.0 * *value;
                    close |= *value < CLOSE * (norm + y_norm);
                }
                if close {
                    for (row, (value, norm)) in values.iter_mut().zip(norms).enumerate() {
                        if *value < CLOSE * (norm + y_norm) {
                            *value = squared_distance(x.rows.row(rows.start + row), y.rows.row(columns.start + column));
                        }
                    }
                }
            }
        }
        match *kernel {
            Kernel::Gaussian { bandwidth } => {
                let factor = -0.5 / (bandwidth * bandwidth);
                values.iter_mut().for_each(|value| *value = (factor * *value).exp());
            }
            _ => values.iter_mut().for_each(|value| *value = kernel.of(*value)),
        }
        each(column, values);
    }
}

/// 0..len in pieces.
fn ranges(len: usize, length: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    (0..len).step_by(length).map(move |start| start..(start + length).min(len))
}

fn add(sums: &mut [f64], more: &[f64]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

impl Backend for Double {
    fn kernel_sums(&self, kernel: &Kernel, x: Rows<'_>, y: Rows<'_>) -> PairSums {
        let mut sums = PairSums { rows: vec![0.0; x.len()], columns: vec![0.0; y.len()] };
        self.sums(kernel, &sides(kernel, &[x, y]), &[(0, 1)], |_, rows, columns, part| {
            add(&mut sums.rows[rows], &part.rows);
            add(&mut sums.columns[columns], &part.columns);
        });
        sums
    }

    fn kernel_sums_among(&self, kernel: &Kernel, sets: &[Rows<'_>]) -> Vec<Vec<Vec<f64>>> {
        let pairs: Vec<(usize, usize)> = (0..sets.len()).flat_map(|i| (i..sets.len()).map(move |j| (i, j))).collect();
        let mut sums: Vec<Vec<Vec<f64>>> =
            sets.iter().map(|set| sets.iter().map(|_| vec![0.0; set.len()]).collect()).collect();
        self.sums(kernel, &sides(kernel, sets), &pairs, |pair, rows, columns, part| {
            let (i, j) = pairs[pair];
            add(&mut sums[i][j][rows], &part.rows);
            add(&mut sums[j][i][columns], &part.columns);
        });
        sums
    }

    fn kernel_rows(&self, kernel: &Kernel, weight: f64, x: Rows<'_>, held: Rows<'_>, out: &mut [f64]) {
        if x.is_empty() || held.is_empty() {
            return;
        }
        let sides = sides(kernel, &[x, held]);
        for rows in ranges(x.len(), BLOCK) {
            for columns in ranges(held.len(), COLUMNS) {
                check_stopped();
                values(kernel, (&sides[0], rows.clone()), (&sides[1], columns.clone()), |column, values| {
                    for (row, value) in values.iter().enumerate() {
                        out[(rows.start + row) * held.len() + columns.start + column] += weight * value;
                    }
                });
            }
        }
    }

    fn neighbours(&self, x: Rows<'_>, k: usize) -> Vec<Neighbour> {
        self.cpu.neighbours(x, k)
    }

    fn ball_counts(&self, points: Rows<'_>, centres: Rows<'_>, squared_radii: &[f64]) -> Vec<u32> {
        self.cpu.ball_counts(points, centres, squared_radii)
    }

    fn overlaps(&self, x: Balls<'_>, weights: &[f64], y: Balls<'_>) -> Overlaps {
        self.cpu.overlaps(x, weights, y)
    }

    fn threads(&self) -> usize {
        self.cpu.threads()
    }

    fn on_one_thread(&self) -> Arc<dyn Backend> {
        Arc::new(Self::with_threads(1))
    }
}
