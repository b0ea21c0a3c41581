//! Eigenvalues of a symmetric matrix without eigenvectors, in three steps: to a band by products of matrices, from the
//! band to three diagonals by chasing bulges, and from those by the rational QL method. A reduction in one step reads
//! the whole matrix for every column, and waits for memory.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::qr::no_pivoting::factor::{qr_in_place, qr_in_place_scratch};
use faer::linalg::triangular_inverse::invert_upper_triangular;
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
    let mut band = to_band(matrix.to_owned());
    let instructions = Instructions::available().last().copied().unwrap_or(Instructions::Portable);
    instructions.run(ChaseBulges { band: &mut band, size });
    let diagonal = (0..size).map(|column| band[column][0]).collect();
    let squares = (0..size).map(|column| if column + 1 < size { band[column][1].powi(2) } else { 0.0 }).collect();
    rational_ql(diagonal, squares)
}

/// An orthogonally similar band matrix, as columns from the diagonal down; columns of zeros follow the matrix.
///
/// With the QR factorisation P = QR of the block below a diagonal block, Q = I − VTVᵀ, the rest A becomes
/// QᵀAQ = A − VWᵀ − WVᵀ with W = Y − ½V(TᵀVᵀY) and Y = AVT.
fn to_band(mut a: Mat<f64>) -> Vec<[f64; COLUMN]> {
    let size = a.nrows();
    let mut memory = MemBuffer::new(qr_in_place_scratch::<f64>(size, BAND, BAND, Par::Seq, Default::default()));
    let mut first = 0;
    while first + BAND + 1 < size {
        let (_, _, panel, rest) = a.as_mut().split_at_mut(first + BAND, first + BAND);
        let mut panel = panel.subcols_mut(first, BAND);
        let reflections = panel.nrows().min(BAND);
        let mut t = Mat::<f64>::zeros(reflections, reflections);
        let stack = MemStack::new(&mut memory);
        qr_in_place(panel.as_mut(), t.as_mut(), Par::Seq, stack, Default::default());
        let v = Mat::from_fn(panel.nrows(), reflections, |row, column| match row.cmp(&column) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => panel[(row, column)],
        });
        reflect(rest, &v, &inverse(t));
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

/// T of a block of reflections, from its inverse as faer computes it: an upper triangle with infinity on the diagonal for
/// a reflection that changes nothing.
fn inverse(mut upper: Mat<f64>) -> Mat<f64> {
    const PRACTICALLY_INFINITE: f64 = 1e300;
    for index in 0..upper.nrows() {
        upper[(index, index)] = upper[(index, index)].min(PRACTICALLY_INFINITE);
    }
    let mut inverse = Mat::zeros(upper.nrows(), upper.nrows());
    invert_upper_triangular(inverse.as_mut(), upper.as_ref(), Par::Seq);
    inverse
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
    let mut v = [0.0; BAND];
    v.copy_from_slice(&column[start..start + BAND]);
    let first = v[0];
    let rest = dot(&v, &v) - first * first;
    // The sum of squares without the first, which the difference may have lost.
    let rest = if rest > 1e-3 * first * first { rest } else { v[1..].iter().map(|value| value * value).sum() };
    if rest == 0.0 {
        return ([0.0; BAND], 0.0);
    }
    let norm = (first * first + rest).sqrt().copysign(first);
    let pivot = first + norm;
    v.iter_mut().for_each(|value| *value /= pivot);
    v[0] = 1.0;
    column[start..start + BAND].fill(0.0);
    column[start] = -norm;
    (v, pivot / norm)
}

#[inline(always)]
fn dot(x: &Lanes, y: &Lanes) -> f64 {
    let mut sums = [0.0; 8];
    for (x, y) in x.as_chunks::<8>().0.iter().zip(y.as_chunks::<8>().0) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum()
}

#[inline(always)]
fn add(sum: &mut Lanes, factor: f64, more: &Lanes) {
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

    /// Matrices of full and of low rank, with multiple eigenvalues and with entries of very different size.
    #[test]
    fn eigenvalues_are_those_of_faer() {
        let mut random = Random::seeded(5);
        for size in [1, 2, 3, BAND - 1, BAND, BAND + 1, BAND + 2, 2 * BAND + 1, 100, 257] {
            for kind in 0..4 {
                let rank = if kind == 1 { size.div_ceil(3) } else { size + 2 };
                let x = Mat::from_fn(size, rank, |row, _| {
                    let scale = if kind == 2 { 10f64.powf(-6.0 * row as f64 / size as f64) } else { 1.0 };
                    scale * (random.unit() - if kind == 3 { 0.0 } else { 0.5 })
                });
                let mut matrix = &x * x.transpose();
                if kind == 0 {
                    // Negative eigenvalues too, and one that is repeated.
                    for index in 0..size {
                        matrix[(index, index)] -= 1.0;
                    }
                }
                let expected = matrix.self_adjoint_eigenvalues(Side::Lower).expect("finite");
                let found = eigenvalues(matrix.as_ref());
                let largest = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
                for (found, expected) in found.iter().zip(&expected) {
                    let error = (found - expected).abs();
                    assert!(error <= 1e-14 * (size as f64).sqrt() * largest, "{size}, {kind}: {found}, not {expected}");
                }
            }
        }
        assert!(eigenvalues(Mat::zeros(40, 40).as_ref()).iter().all(|&value| value == 0.0));
    }
}
