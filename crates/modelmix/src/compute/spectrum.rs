//! Eigenvalues of a symmetric matrix without eigenvectors, in three steps: to a band by products of matrices, from the
//! band to three diagonals by chasing bulges, and from those by the rational QL method. A reduction in one step reads
//! the whole matrix for every column, and waits for memory.

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatMut, MatRef, Par};

use super::dispatch::{Instructions, Job};
use super::micro::Micro;

/// The number of diagonals below the main one that the first step leaves.
const BAND: usize = 32;
/// A column of the band, from the diagonal down, and as many values for bulges.
const COLUMN: usize = 2 * BAND;
/// The maximum number of QL steps per eigenvalue; two are usual.
const MAX_STEPS: usize = 60;

type Lanes = [f64; BAND];

/// Eigenvalues, ascending; only the lower triangle is read.
///
/// # Panics
/// If the iteration does not converge, which requires entries that are not finite.
pub(super) fn eigenvalues(matrix: MatRef<'_, f64>) -> Vec<f64> {
    let size = matrix.nrows();
    let instructions = Instructions::available().last().copied().unwrap_or(Instructions::Portable);
    // Squares of entries of any size are then normal numbers. A power of two changes no bit.
    let lower = (0..size).flat_map(|column| (column..size).map(move |row| matrix[(row, column)].abs()));
    let scale = lower.fold(0.0, f64::max).max(f64::MIN_POSITIVE).log2().floor().clamp(-1000.0, 1000.0).exp2();
    let scaled = Mat::from_fn(size, size, |row, column| if row < column { 0.0 } else { matrix[(row, column)] / scale });
    let mut band = to_band(scaled, instructions);
    instructions.run(ChaseBulges { band: &mut band, size });
    let diagonal = (0..size).map(|column| band[column][0]).collect();
    let squares = (0..size).map(|column| if column + 1 < size { band[column][1].powi(2) } else { 0.0 }).collect();
    let mut values = rational_ql(diagonal, squares);
    values.iter_mut().for_each(|value| *value *= scale);
    values
}

/// An orthogonally similar band matrix, as columns from the diagonal down; columns of zeros follow the matrix.
///
/// With the QR factorisation P = QR of the block below a diagonal block, Q = I − VTVᵀ, the rest A becomes
/// QᵀAQ = A − VWᵀ − WVᵀ with W = Y − ½V(TᵀVᵀY) and Y = AVT.
fn to_band(mut a: Mat<f64>, instructions: Instructions) -> Vec<[f64; COLUMN]> {
    let size = a.nrows();
    let mut first = 0;
    while first + BAND + 1 < size {
        let (_, _, panel, rest) = a.as_mut().split_at_mut(first + BAND, first + BAND);
        let mut panel = panel.subcols_mut(first, BAND);
        let mut columns: Vec<Vec<f64>> =
            (0..BAND).map(|column| panel.as_ref().col(column).iter().copied().collect()).collect();
        let (v, t) = instructions.run(FactorPanel { columns: &mut columns });
        for (column, values) in columns.iter().enumerate() {
            panel.as_mut().col_mut(column).iter_mut().zip(values).for_each(|(entry, value)| *entry = *value);
        }
        reflect(rest, &v, &t);
        first += BAND;
    }
    let mut band = vec![[0.0; COLUMN]; size + COLUMN];
    for (column, band) in band.iter_mut().take(size).enumerate() {
        for (row, value) in (column..size.min(column + BAND + 1)).zip(band) {
            *value = a[(row, column)];
        }
    }
    band
}

/// Turns a block of columns P into R of P = QR, and returns V and T of Q = I − VTVᵀ. Every column is reflected, however
/// small its remainder is: a factorisation that may stop at a numerical rank, as faer's does, changes small eigenvalues.
struct FactorPanel<'a> {
    columns: &'a mut [Vec<f64>],
}

impl Job for FactorPanel<'_> {
    type Output = (Mat<f64>, Mat<f64>);

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> Self::Output {
        let Self { columns } = self;
        let rows = columns.first().map_or(0, Vec::len);
        let count = rows.min(columns.len());
        let mut v = Mat::<f64>::zeros(rows, count);
        let mut t = Mat::<f64>::zeros(count, count);
        for index in 0..count {
            let (column, others) = columns[index..].split_first_mut().expect("there are as many columns");
            let tau = householder(&mut column[index..]);
            let own = &mut v.col_as_slice_mut(index)[index..];
            own.copy_from_slice(&column[index..]);
            own[0] = 1.0;
            column[index + 1..].fill(0.0);
            for other in others {
                let other = &mut other[index..];
                let factor = -tau * dot(own, other);
                add(other, factor, own);
            }
            // The last column of T: −τ T Vᵀv, and τ.
            let products: Vec<f64> = (0..index)
                .map(|before| dot(&v.col_as_slice(before)[index..], &v.col_as_slice(index)[index..]))
                .collect();
            for row in 0..index {
                let sum: f64 = (row..index).map(|before| t[(row, before)] * products[before]).sum();
                t[(row, index)] = -tau * sum;
            }
            t[(index, index)] = tau;
        }
        (v, t)
    }
}

/// QᵀAQ, lower triangle.
fn reflect(mut a: MatMut<'_, f64>, v: &Mat<f64>, t: &Mat<f64>) {
    let (size, count) = (v.nrows(), v.ncols());
    let product = |structure, lhs: MatRef<'_, f64>, accumulate, into: &mut Mat<f64>| {
        let rectangle = BlockStructure::Rectangular;
        triangular::matmul(into.as_mut(), rectangle, accumulate, lhs, structure, v.as_ref(), rectangle, 1.0, Par::Seq);
    };
    let mut av = Mat::zeros(size, count);
    product(BlockStructure::TriangularLower, a.as_ref(), Accum::Replace, &mut av);
    product(BlockStructure::StrictTriangularUpper, a.as_ref().transpose(), Accum::Add, &mut av);
    let times = |x: MatRef<'_, f64>, y: MatRef<'_, f64>| {
        let mut product = Mat::zeros(x.nrows(), y.ncols());
        matmul(product.as_mut(), Accum::Replace, x, y, 1.0, Par::Seq);
        product
    };
    let y = times(av.as_ref(), t.as_ref());
    let middle = times(t.transpose(), times(v.transpose(), y.as_ref()).as_ref());
    let mut w = y;
    matmul(w.as_mut(), Accum::Add, v.as_ref(), middle.as_ref(), -0.5, Par::Seq);
    let side = |x: &Mat<f64>, y: &Mat<f64>| {
        let mut both = Mat::zeros(size, 2 * count);
        both.as_mut().subcols_mut(0, count).copy_from(x);
        both.as_mut().subcols_mut(count, count).copy_from(y);
        both
    };
    let (left, right) = (side(v, &w), side(&w, v));
    triangular::matmul(
        a.as_mut(),
        BlockStructure::TriangularLower,
        Accum::Add,
        left.as_ref(),
        BlockStructure::Rectangular,
        right.transpose(),
        BlockStructure::Rectangular,
        -1.0,
        Par::Seq,
    );
}

/// Reduces a band to three diagonals. The reflection that clears a column below the second entry fills a block below
/// the band; the next one clears the first column of that block, and so on to the end of the matrix. The other columns
/// of a block remain for the reflections of the next columns, which come one row later.
struct ChaseBulges<'a> {
    band: &'a mut [[f64; COLUMN]],
    size: usize,
}

impl Job for ChaseBulges<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<M: Micro>(self) {
        let Self { band, size } = self;
        for column in 0..size.saturating_sub(2) {
            let mut row = column + 1;
            let (mut v, mut tau) = reflection(&mut band[column], 1);
            while row < size {
                similar(&mut band[row..row + BAND], &v, tau);
                if row + BAND >= size {
                    break;
                }
                let block = &mut band[row..row + BAND];
                from_right(block, &v, tau);
                (v, tau) = reflection(&mut block[0], BAND);
                from_left(&mut block[1..], &v, tau);
                row += BAND;
            }
        }
    }
}

/// Clears the entries of a column after `start`, of at most [`BAND`], by the reflection I − τvvᵀ.
#[inline(always)]
fn reflection(column: &mut [f64; COLUMN], start: usize) -> (Lanes, f64) {
    let entries = &mut column[start..start + BAND];
    let tau = householder(entries);
    let mut v = [0.0; BAND];
    if tau != 0.0 {
        v.copy_from_slice(entries);
        v[0] = 1.0;
        entries[1..].fill(0.0);
    }
    (v, tau)
}

/// Replaces a vector by v of the reflection I − τvvᵀ that clears all entries but the first, whose value takes the place of
/// the first of v, which is 1. Returns τ, which is 0 if the others are 0 already.
#[inline(always)]
fn householder(x: &mut [f64]) -> f64 {
    let first = x[0];
    let rest = dot(&x[1..], &x[1..]);
    if rest == 0.0 {
        return 0.0;
    }
    let norm = (first * first + rest).sqrt().copysign(first);
    let pivot = first + norm;
    x.iter_mut().for_each(|value| *value /= pivot);
    x[0] = -norm;
    pivot / norm
}

#[inline(always)]
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<8>(), y.as_chunks::<8>());
    for (x, y) in x.iter().zip(y) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f64>() + x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum::<f64>()
}

#[inline(always)]
fn add(sum: &mut [f64], factor: f64, more: &[f64]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += factor * more);
}

/// HDH for the diagonal block D of these columns: D − vwᵀ − wvᵀ with w = τDv − ½τ²(vᵀDv)v.
#[inline(always)]
fn similar(columns: &mut [[f64; COLUMN]], v: &Lanes, tau: f64) {
    let mut full = [[0.0; BAND]; BAND];
    for (index, column) in columns.iter().enumerate() {
        for row in index..BAND {
            full[index][row] = column[row - index];
            full[row][index] = column[row - index];
        }
    }
    let mut w = [0.0; BAND];
    for (column, &factor) in full.iter().zip(v) {
        add(&mut w, tau * factor, column);
    }
    let half = -0.5 * tau * dot(&w, v);
    add(&mut w, half, v);
    for (index, column) in columns.iter_mut().enumerate() {
        for row in index..BAND {
            column[row - index] -= v[row] * w[index] + w[row] * v[index];
        }
    }
}

/// The part of a column that belongs to the block below the diagonal block.
#[inline(always)]
fn below(column: &mut [f64; COLUMN], index: usize) -> &mut Lanes {
    (&mut column[BAND - index..COLUMN - index]).try_into().expect("a block has as many rows as columns")
}

/// BH for the block B below the diagonal block of these columns.
#[inline(always)]
fn from_right(columns: &mut [[f64; COLUMN]], v: &Lanes, tau: f64) {
    let mut sum = [0.0; BAND];
    for (index, column) in columns.iter_mut().enumerate() {
        add(&mut sum, v[index], below(column, index));
    }
    for (index, column) in columns.iter_mut().enumerate() {
        add(below(column, index), -tau * v[index], &sum);
    }
}

/// HB for the columns of the block B after its first.
#[inline(always)]
fn from_left(columns: &mut [[f64; COLUMN]], v: &Lanes, tau: f64) {
    for (index, column) in columns.iter_mut().enumerate() {
        let column = below(column, index + 1);
        let factor = -tau * dot(column, v);
        add(column, factor, v);
    }
}

/// Eigenvalues of a symmetric tridiagonal matrix from its diagonal and the squares below it, whose last is 0, by the
/// rational variant of the QL method (Reinsch, Comm. ACM 16, 1973, algorithm 464).
fn rational_ql(mut diagonal: Vec<f64>, mut squares: Vec<f64>) -> Vec<f64> {
    let size = diagonal.len();
    let (mut shift, mut largest, mut small, mut negligible) = (0.0, 0.0f64, 0.0, 0.0);
    let mut values = Vec::with_capacity(size);
    for first in 0..size {
        let scale = diagonal[first].abs() + squares[first].sqrt();
        if largest <= scale {
            largest = scale;
            small = f64::EPSILON * largest;
            negligible = small * small;
        }
        for step in 0.. {
            let last = (first..size).find(|&index| squares[index] <= negligible).unwrap_or(size - 1);
            if last == first {
                break;
            }
            assert!(step < MAX_STEPS, "a finite symmetric matrix has eigenvalues");
            let root = squares[first].sqrt();
            let difference = (diagonal[first + 1] - diagonal[first]) / (2.0 * root);
            let moved = root / (difference + difference.hypot(1.0).copysign(difference));
            let change = diagonal[first] - moved;
            diagonal[first] = moved;
            diagonal[first + 1..].iter_mut().for_each(|value| *value -= change);
            shift += change;
            let mut g = if diagonal[last] == 0.0 { small } else { diagonal[last] };
            let (mut h, mut s) = (g, 0.0);
            for index in (first..last).rev() {
                let p = g * h;
                let r = p + squares[index];
                squares[index + 1] = s * r;
                s = squares[index] / r;
                diagonal[index + 1] = h + s * (h + diagonal[index]);
                g = diagonal[index] - squares[index] / g;
                if g == 0.0 {
                    g = small;
                }
                h = g * p / r;
            }
            squares[first] = s * g * h;
            diagonal[first] = h;
            // The square is s·g·h, which underflows if h is 0.
            if h == 0.0 {
                break;
            }
        }
        values.push(diagonal[first] + shift);
    }
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use faer::{Mat, Side};

    use super::{BAND, eigenvalues};
    use crate::random::Random;

    fn assert_equal_to_faer(name: &str, matrix: &Mat<f64>) {
        let expected = matrix.self_adjoint_eigenvalues(Side::Lower).expect("finite");
        let found = eigenvalues(matrix.as_ref());
        assert_eq!(found.len(), expected.len());
        let largest = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let limit = 1e-14 * (matrix.nrows() as f64).sqrt() * largest;
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() <= limit, "{name}, {}: {found:e}, not {expected:e}", matrix.nrows());
        }
    }

    #[test]
    fn eigenvalues_are_those_of_faer() {
        let mut random = Random::seeded(5);
        for size in [1, 2, 3, BAND - 1, BAND, BAND + 1, BAND + 2, 2 * BAND + 1, 100, 257] {
            let mut product = |rank: usize, shift: f64, scale: &dyn Fn(usize) -> f64| {
                let x = Mat::from_fn(size, rank, |row, _| scale(row) * (random.unit() - shift));
                &x * x.transpose()
            };
            let full = product(size + 2, 0.5, &|_| 1.0);
            let low_rank = product(size.div_ceil(3), 0.5, &|_| 1.0);
            // Negative eigenvalues, and −1 repeated.
            let identity = Mat::<f64>::identity(size, size);
            assert_equal_to_faer("low rank, shifted", &(&low_rank - &identity));
            assert_equal_to_faer("low rank", &low_rank);
            assert_equal_to_faer("one is large", &product(size + 2, 0.0, &|_| 1.0));
            assert_equal_to_faer(
                "small rows",
                &product(size + 2, 0.5, &|row| 10f64.powf(-6.0 * row as f64 / size as f64)),
            );
            assert_equal_to_faer("identity", &identity);
            let blocks =
                Mat::from_fn(size, size, |row, column| if row / 5 == column / 5 { full[(row, column)] } else { 0.0 });
            assert_equal_to_faer("blocks", &blocks);
            for scale in [1e-300, 1e-170, 1e160, 1e300] {
                let scaled = Mat::from_fn(size, size, |row, column| scale * full[(row, column)]);
                let unscaled = |values: Vec<f64>| values.into_iter().map(move |value| value / scale);
                let expected = eigenvalues(full.as_ref());
                for (found, expected) in unscaled(eigenvalues(scaled.as_ref())).zip(&expected) {
                    assert!((found - expected).abs() <= 1e-12 * size as f64, "{scale:e}: {found}, not {expected}");
                }
            }
        }
        assert!(eigenvalues(Mat::zeros(40, 40).as_ref()).iter().all(|&value| value == 0.0));
    }

    /// Kernel matrices of points on a line and in a plane: eigenvalues fall by many orders within a few columns.
    #[test]
    fn eigenvalues_of_smooth_kernels_are_those_of_faer() {
        let mut random = Random::seeded(6);
        for width in [1, 2] {
            let points: Vec<Vec<f64>> = (0..600).map(|_| (0..width).map(|_| random.normal()).collect()).collect();
            for bandwidth in [0.1, 1.0] {
                let kernel = |row: usize, column: usize| {
                    let squares = points[row].iter().zip(&points[column]).map(|(a, b)| (a - b) * (a - b));
                    (-squares.sum::<f64>() / (2.0 * bandwidth * bandwidth)).exp()
                };
                assert_equal_to_faer("a smooth kernel", &Mat::from_fn(600, 600, kernel));
            }
        }
    }
}
