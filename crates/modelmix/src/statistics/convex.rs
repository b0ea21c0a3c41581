//! The nearest positive semidefinite K, for sums in which some κ were estimated.

use crate::quadratic::Quadratic;

/// The maximum number of sweeps of Jacobi's method; a few are enough.
const MAX_SWEEPS: usize = 30;

/// Sets negative eigenvalues of K to zero (Jacobi's method). K is unchanged if it is already positive semidefinite up
/// to rounding.
pub(super) fn make_convex(form: &mut Quadratic) {
    if has_factor(form) {
        return;
    }
    let arms = form.arms();
    let mut matrix = form.quadratic().to_vec();
    let mut vectors: Vec<f64> =
        (0..arms * arms).map(|at| if at.is_multiple_of(arms + 1) { 1.0 } else { 0.0 }).collect();
    let scale: f64 = matrix.iter().map(|value| value * value).sum();
    for _ in 0..MAX_SWEEPS {
        let off: f64 = (0..arms * arms).filter(|at| at % (arms + 1) != 0).map(|at| matrix[at] * matrix[at]).sum();
        if off <= 1e-30 * scale {
            break;
        }
        for p in 0..arms {
            for q in p + 1..arms {
                rotate(&mut matrix, &mut vectors, arms, p, q);
            }
        }
    }
    for i in 0..arms {
        for j in 0..=i {
            let part = |k: usize| matrix[k * (arms + 1)].max(0.0) * vectors[i * arms + k] * vectors[j * arms + k];
            let value = (0..arms).map(part).sum();
            *form.at_mut(i, j) = value;
            *form.at_mut(j, i) = value;
        }
    }
}

/// One rotation that makes entry (p, q) zero.
fn rotate(matrix: &mut [f64], vectors: &mut [f64], n: usize, p: usize, q: usize) {
    let off = matrix[p * n + q];
    if off == 0.0 {
        return;
    }
    let theta = (matrix[q * n + q] - matrix[p * n + p]) / (2.0 * off);
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let cosine = 1.0 / (t * t + 1.0).sqrt();
    let sine = t * cosine;
    let mix = |values: &mut [f64], a: usize, b: usize| {
        let (left, right) = (values[a], values[b]);
        (values[a], values[b]) = (cosine * left - sine * right, sine * left + cosine * right);
    };
    for k in 0..n {
        mix(matrix, k * n + p, k * n + q);
        mix(vectors, k * n + p, k * n + q);
    }
    for k in 0..n {
        mix(matrix, p * n + k, q * n + k);
    }
}

/// Whether K has a Cholesky factor, up to rounding.
fn has_factor(form: &Quadratic) -> bool {
    let arms = form.arms();
    let largest = (0..arms).fold(0.0f64, |largest, arm| largest.max(form.at(arm, arm)));
    let mut factor = vec![0.0; arms * arms];
    for i in 0..arms {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| factor[i * arms + k] * factor[j * arms + k]).sum();
            if i == j {
                let pivot = form.at(i, i) + 1e-12 * largest.max(f64::MIN_POSITIVE) - sum;
                if pivot <= 0.0 {
                    return false;
                }
                factor[i * arms + i] = pivot.sqrt();
            } else {
                factor[i * arms + j] = (form.at(i, j) - sum) / factor[j * arms + j];
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::make_convex;
    use crate::quadratic::Quadratic;

    #[test]
    fn what_is_below_zero_is_cut_off_and_nothing_else() {
        let form_of = |k: Vec<f64>, f: Vec<f64>| Quadratic::new(k, f).expect("symmetric and finite");
        // Eigenvalues 3 and −1 along (1, 1) and (1, −1): the result is 1.5 everywhere.
        let mut form = form_of(vec![1.0, 2.0, 2.0, 1.0], vec![0.5, 0.25]);
        make_convex(&mut form);
        assert!(form.quadratic().iter().all(|value| (value - 1.5).abs() < 1e-14), "{form:?}");
        assert_eq!(form.linear(), [0.5, 0.25]);
        // Three arms, of which two are the same and one has no samples: singular, and unchanged to the last bit.
        let singular = form_of(vec![1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], vec![0.0; 3]);
        let mut same = singular.clone();
        make_convex(&mut same);
        assert_eq!(same, singular);
        // diag(2, −1, 5) in a rotated basis: (I − 2vvᵀ)·diag·(I − 2vvᵀ) with v = (1, 2, 2)/3.
        let turn = [[7.0, -4.0, -4.0], [-4.0, 1.0, -8.0], [-4.0, -8.0, 1.0]].map(|row| row.map(|value| value / 9.0));
        let build = |values: [f64; 3]| -> Vec<f64> {
            (0..9).map(|at| (0..3).map(|k| turn[at / 3][k] * values[k] * turn[at % 3][k]).sum()).collect()
        };
        let mut form = form_of(build([2.0, -1.0, 5.0]), vec![0.0; 3]);
        make_convex(&mut form);
        for (found, expected) in form.quadratic().iter().zip(build([2.0, 0.0, 5.0])) {
            assert!((found - expected).abs() < 1e-13, "{found} {expected}");
        }
    }
}
