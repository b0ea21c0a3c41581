//! The Vendi score of any order: the effective number of different samples, from the eigenvalues of their kernel
//! matrix.

use super::estimate::stratified_error;
use super::pairs::{Pairs, Statistic};
use super::{ErrorBy, Estimate, Pool, check};
use crate::compute::{Eigen, Engine, Matrix, Set};
use crate::error::{Error, Result};
use crate::kernel::{Geometry, Kernel};

/// The maximum number of samples whose kernel matrix is stored: it takes 3.2 GB.
pub const LARGEST_MATRIX: usize = 20_000;
/// The number of columns of a kernel matrix that are computed at once.
const COLUMNS_AT_ONCE: usize = 256;

/// The Vendi score of order q. With λ the eigenvalues of the kernel matrix whose rows and columns are scaled by √w (K/n
/// for one set), it is exp(−Σλ ln λ) for q = 1, (Σλ^q)^(1/(1−q)) for others, and 1/max λ for q = ∞. It is between 1
/// (identical samples, or one) and n.
///
/// With the cosine kernel and fewer features than samples, the d × d matrix Σw xxᵀ is used, which has the same
/// eigenvalues. Order 2 needs no eigenvalues and stores no matrix.
///
/// # Errors
/// If the order is not positive, if the kernel does not have k(x, x) = 1, if a row is all zeros for the cosine kernel,
/// or if there are more than [`LARGEST_MATRIX`] samples and their matrix is needed.
pub fn vendi(pool: &Pool<'_>, kernel: &Kernel, order: f64, engine: &Engine) -> Result<f64> {
    check(pool, kernel, order)?;
    if order == 2.0 && !is_dual(pool, kernel) {
        return Ok(1.0 / mean_of_squares(pool, kernel, engine)?);
    }
    let matrix = if is_dual(pool, kernel) { dual(pool, engine)? } else { primal(pool, kernel, engine)? };
    Ok(number(order, &engine.eigenvalues(&matrix)?))
}

/// [`vendi`] with a standard error from the influence of every sample. It needs eigenvectors, which takes about twice
/// as long.
///
/// # Errors
/// As [`vendi`]; and, for any order, if there are more than [`LARGEST_MATRIX`] samples and their matrix is needed.
pub fn vendi_estimate(pool: &Pool<'_>, kernel: &Kernel, order: f64, engine: &Engine) -> Result<Estimate> {
    check(pool, kernel, order)?;
    let weights = pool.row_weights();
    // h(x) = φ(x)ᵀ f′(ρ) φ(x), with f′ the slopes, if the score is a function of tr f(ρ).
    let (values, influences): (Vec<f64>, Vec<f64>) = if is_dual(pool, kernel) {
        let matrix = dual(pool, engine)?;
        let Eigen { values, vectors } = engine.eigen(&matrix)?;
        let slopes = slopes(order, &values);
        let mut influences = Vec::with_capacity(pool.len());
        for part in pool.parts() {
            let forms = engine.projections(part.set, &vec![0.0; pool.width()], &vectors, &slopes)?;
            influences.extend(forms.iter().zip(part.rows.iter()).map(|(form, row)| form / squared_norm(row)));
        }
        (values, influences)
    } else {
        let matrix = primal(pool, kernel, engine)?;
        let Eigen { values, vectors } = engine.eigen(&matrix)?;
        let mut influences = vec![0.0; pool.len()];
        for (column, (&value, slope)) in values.iter().zip(slopes(order, &values)).enumerate() {
            let factor = slope * value.max(0.0);
            let entries = vectors.column(column).iter().zip(&weights);
            influences.iter_mut().zip(entries).for_each(|(sum, (u, weight))| *sum += factor * u * u / weight);
        }
        (values, influences)
    };
    let value = number(order, &values);
    // The derivative of the score by the quantity that `slopes` differentiates.
    let slope = if order == 1.0 {
        value
    } else if order.is_infinite() {
        value * value
    } else {
        value / (1.0 - order)
    };
    let standard_error = slope.abs() * stratified_error(pool, &influences);
    Ok(Estimate { value, standard_error, by: ErrorBy::Influence })
}

/// Derivatives by every eigenvalue: of −Σλ ln λ for q = 1, of ln Σλ^q for others, of the largest eigenvalue for q = ∞.
fn slopes(order: f64, values: &[f64]) -> Vec<f64> {
    let largest = values.len() - 1;
    let zero = zero(order, values);
    let log_sum = if order == 1.0 || order.is_infinite() { 0.0 } else { log_sum(order, values) };
    let slope = |(index, &value): (usize, &f64)| {
        if order.is_infinite() {
            f64::from(u8::from(index == largest))
        } else if value <= zero {
            0.0
        } else if order == 1.0 {
            -value.ln() - 1.0
        } else {
            order * ((order - 1.0) * value.ln() - log_sum).exp()
        }
    };
    values.iter().enumerate().map(slope).collect()
}

/// The score from eigenvalues in ascending order. Eigenvalues that rounding made negative count as zero.
fn number(order: f64, values: &[f64]) -> f64 {
    if order == 1.0 {
        (-values.iter().filter(|&&value| value > 0.0).map(|value| value * value.ln()).sum::<f64>()).exp()
    } else if order.is_infinite() {
        1.0 / values.last().copied().unwrap_or(1.0)
    } else {
        (log_sum(order, values) / (1.0 - order)).exp()
    }
}

/// ln Σλ^q for eigenvalues that sum to 1. Near q = 1 it is nearly ln 1, so only the difference is summed. Powers of a
/// high order underflow, so they are computed from λ/max λ.
fn log_sum(order: f64, values: &[f64]) -> f64 {
    let zero = zero(order, values);
    let positive = values.iter().copied().filter(|&value| value > zero);
    if order < 1.5 {
        positive.map(|value| value * ((order - 1.0) * value.ln()).exp_m1()).sum::<f64>().ln_1p()
    } else {
        let largest = values.last().copied().unwrap_or(1.0);
        order * largest.ln() + positive.map(|value| (value / largest).powf(order)).sum::<f64>().ln()
    }
}

/// The smallest eigenvalue that counts: orders below 1 amplify rounding errors.
fn zero(order: f64, values: &[f64]) -> f64 {
    if order < 1.0 { crate::compute::negligible(values) } else { 0.0 }
}

/// Whether the matrix of features is smaller than that of samples.
fn is_dual(pool: &Pool<'_>, kernel: &Kernel) -> bool {
    *kernel == Kernel::Cosine { power: 1 } && pool.width() < pool.len()
}

/// ‖x‖² in double precision.
fn squared_norm(row: &[f32]) -> f64 {
    row.iter().map(|&value| f64::from(value).powi(2)).sum()
}

/// Σ w xxᵀ/‖x‖².
fn dual(pool: &Pool<'_>, engine: &Engine) -> Result<Matrix> {
    let zero = vec![0.0; pool.width()];
    let mut sum = Matrix::zeros(pool.width(), pool.width());
    for part in pool.parts() {
        let weight = part.share / part.rows.len() as f64;
        let weights: Vec<f64> = part.rows.iter().map(|row| weight / squared_norm(row)).collect();
        sum.add(1.0, &engine.scatter(part.set, &zero, Some(&weights))?);
    }
    Ok(sum)
}

/// √wₐ k(xₐ, x_b) √w_b, lower triangle. Always in double precision: rounding to single precision creates eigenvalues
/// that low orders count, and the kernel is a small part of the work compared with the eigenvalues.
fn primal(pool: &Pool<'_>, kernel: &Kernel, engine: &Engine) -> Result<Matrix> {
    let count = pool.len();
    if count > LARGEST_MATRIX {
        return Err(Error::setting(
            "the number of samples for vendi",
            count,
            format!(
                "at most {LARGEST_MATRIX} here, because the matrix of all pairs is needed; use fewer samples, the cosine kernel with fewer features than samples, or order 2"
            ),
        ));
    }
    let pooled = pool.rows();
    let rows = pooled.view();
    let roots: Vec<f64> = pool.row_weights().iter().map(|weight| weight.sqrt()).collect();
    let mut matrix = Matrix::zeros(count, count);
    let engine = engine.precise();
    for first in (0..count).step_by(COLUMNS_AT_ONCE) {
        let columns = rows.slice(first, (first + COLUMNS_AT_ONCE).min(count));
        // Rows before the block are in the upper triangle.
        let rest = rows.slice(first, count);
        let mut values = vec![0.0; rest.len() * columns.len()];
        engine.kernel_rows(kernel, 1.0, rest, columns, &mut values)?;
        for offset in 0..columns.len() {
            let column = first + offset;
            let values = values[offset..].iter().step_by(columns.len());
            let entries = matrix.column_mut(column)[first..].iter_mut().zip(values).zip(&roots[first..]);
            entries.for_each(|((entry, value), root)| *entry = roots[column] * root * value);
        }
    }
    // The similarity of a sample to itself is exactly 1, independent of the engine's rounding.
    for (index, root) in roots.iter().enumerate() {
        *matrix.at_mut(index, index) = root * root;
    }
    Ok(matrix)
}

/// Σ wₐw_b k²(xₐ, x_b).
fn mean_of_squares(pool: &Pool<'_>, kernel: &Kernel, engine: &Engine) -> Result<f64> {
    let sets: Vec<Set<'_>> = pool.parts().iter().map(|part| part.set).collect();
    let shares: Vec<f64> = pool.parts().iter().map(|part| part.share).collect();
    Ok(Pairs::new(&kernel.squared(), &sets, engine)?.form(Statistic::V, &shares))
}

fn check(pool: &Pool<'_>, kernel: &Kernel, order: f64) -> Result<()> {
    if order.is_nan() || order <= 0.0 {
        return Err(Error::setting("the order of vendi", order, "a positive number, or infinity"));
    }
    kernel.check_unit()?;
    debug_assert!(matches!(kernel.geometry(), Geometry::SquaredDistance | Geometry::Cosine));
    check::kernel(pool, None, kernel)
}
