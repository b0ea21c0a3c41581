//! Fréchet distances and Vendi scores of mixtures by definition: moments in plain loops, kernel matrices with one
//! weight per sample, eigenvalues by Jacobi's rotations. And a slow minimiser that uses only values.

use modelmix::{Features, Kernel, RecordedArms};

pub(crate) type Table = Vec<Vec<f64>>;

/// Eigenvalues and eigenvectors (by column) of a symmetric matrix, by Jacobi's rotations.
pub(crate) fn jacobi(mut a: Table) -> (Vec<f64>, Table) {
    let n = a.len();
    let mut vectors: Table = (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for _ in 0..60 {
        let off: f64 = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| a[i][j].powi(2)).sum();
        let all: f64 = (0..n).map(|i| a[i][i].powi(2)).sum();
        if off <= 1e-32 * all {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q] == 0.0 {
                    continue;
                }
                let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let t = if theta == 0.0 { 1.0 } else { t };
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for row in a.iter_mut() {
                    (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
                }
                let (above, below) = a.split_at_mut(q);
                for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
                    (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
                }
                for row in vectors.iter_mut() {
                    (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
                }
            }
        }
    }
    ((0..n).map(|i| a[i][i]).collect(), vectors)
}

fn product(a: &Table, b: &Table) -> Table {
    let columns = b.first().map_or(0, Vec::len);
    a.iter().map(|row| (0..columns).map(|j| row.iter().zip(b).map(|(x, other)| x * other[j]).sum()).collect()).collect()
}

/// The symmetric root of a positive semidefinite matrix.
fn root(a: &Table) -> Table {
    let (values, vectors) = jacobi(a.clone());
    let n = a.len();
    let entry = |i: usize, j: usize| (0..n).map(|k| vectors[i][k] * values[k].max(0.0).sqrt() * vectors[j][k]).sum();
    (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect()
}

pub(crate) struct Gaussian {
    mean: Vec<f64>,
    covariance: Table,
}

impl Gaussian {
    pub(crate) fn of(set: &Features) -> Self {
        let (n, d) = (set.len() as f64, set.width());
        let mean: Vec<f64> = (0..d).map(|j| set.view().iter().map(|row| f64::from(row[j])).sum::<f64>() / n).collect();
        let entry = |i: usize, j: usize| {
            let product = |row: &[f32]| (f64::from(row[i]) - mean[i]) * (f64::from(row[j]) - mean[j]);
            set.view().iter().map(product).sum::<f64>() / (n - 1.0)
        };
        let covariance = (0..d).map(|i| (0..d).map(|j| entry(i, j)).collect()).collect();
        Self { mean, covariance }
    }

    fn mixed(parts: &[Gaussian], weights: &[f64]) -> Self {
        let d = parts[0].mean.len();
        let sum = |of: &dyn Fn(&Gaussian) -> f64| parts.iter().zip(weights).map(|(part, w)| w * of(part)).sum::<f64>();
        let mean: Vec<f64> = (0..d).map(|j| sum(&|part| part.mean[j])).collect();
        let entry = |i: usize, j: usize| {
            sum(&|part| part.covariance[i][j] + (part.mean[i] - mean[i]) * (part.mean[j] - mean[j]))
        };
        let covariance = (0..d).map(|i| (0..d).map(|j| entry(i, j)).collect()).collect();
        Self { mean, covariance }
    }

    /// ‖μ − μ′‖² + tr Σ + tr Σ′ − 2 tr (Σ′^½ Σ Σ′^½)^½.
    fn distance(&self, other: &Gaussian) -> f64 {
        let half = root(&other.covariance);
        let middle = product(&product(&half, &self.covariance), &half);
        let trace = |a: &Table| (0..a.len()).map(|i| a[i][i]).sum::<f64>();
        let far: f64 = self.mean.iter().zip(&other.mean).map(|(x, y)| (x - y).powi(2)).sum();
        let both: f64 = jacobi(middle).0.iter().map(|value| value.max(0.0).sqrt()).sum();
        far + trace(&self.covariance) + trace(&other.covariance) - 2.0 * both
    }
}

/// The Fréchet distance of mixtures to a reference.
pub(crate) fn frechet(arms: &RecordedArms, reference: &Features) -> impl Fn(&[f64]) -> f64 {
    let parts: Vec<Gaussian> = arms.iter().map(|arm| Gaussian::of(&arm.features)).collect();
    let reference = Gaussian::of(reference);
    move |weights| Gaussian::mixed(&parts, weights).distance(&reference)
}

/// tr ρ^q of mixtures, from the eigenvalues of the weighted kernel matrix of all samples.
pub(crate) fn entropy(arms: &RecordedArms, kernel: Kernel, order: f64) -> impl Fn(&[f64]) -> f64 {
    let rows: Vec<(usize, Vec<f64>)> = arms
        .iter()
        .enumerate()
        .flat_map(|(arm, recorded)| {
            recorded.features.view().iter().map(move |row| (arm, row.iter().map(|&x| f64::from(x)).collect()))
        })
        .collect();
    let counts: Vec<f64> = arms.iter().map(|arm| arm.features.len() as f64).collect();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(a, b)| a * b).sum::<f64>();
    let value = |x: &[f64], y: &[f64]| match kernel {
        Kernel::Cosine { .. } => dot(x, y) / (dot(x, x) * dot(y, y)).sqrt(),
        Kernel::Gaussian { bandwidth } => {
            let squared: f64 = x.iter().zip(y).map(|(a, b)| (a - b).powi(2)).sum();
            (-squared / (2.0 * bandwidth * bandwidth)).exp()
        }
        other => panic!("{other} is not here"),
    };
    let kernel: Table = rows.iter().map(|(_, x)| rows.iter().map(|(_, y)| value(x, y)).collect()).collect();
    move |weights| {
        let roots: Vec<f64> = rows.iter().map(|(arm, _)| (weights[*arm] / counts[*arm]).sqrt()).collect();
        let weighted = kernel
            .iter()
            .zip(&roots)
            .map(|(row, a)| row.iter().zip(&roots).map(|(k, b)| a * k * b).collect())
            .collect();
        // Jacobi's zero eigenvalues are rounding errors, which small powers would count.
        let (values, _) = jacobi(weighted);
        let values = values.into_iter().filter(|&value| value > 1e-14);
        if order == 1.0 {
            values.map(|value| value * value.ln()).sum()
        } else {
            (values.map(|value| value.powf(order)).sum::<f64>() - 1.0) / (order - 1.0)
        }
    }
}

/// Weights on a grid with this number of steps, within floors and caps.
pub(crate) fn grid(steps: usize, floors: &[f64], caps: &[f64]) -> Vec<Vec<f64>> {
    assert_eq!(floors.len(), 3);
    let part = |count: usize| count as f64 / steps as f64;
    let all = (0..=steps).flat_map(|a| (0..=steps - a).map(move |b| vec![part(a), part(b), part(steps - a - b)]));
    let inside = |weights: &Vec<f64>| {
        weights.iter().zip(floors.iter().zip(caps)).all(|(w, (floor, cap))| floor - 1e-12 <= *w && *w <= cap + 1e-12)
    };
    all.filter(inside).collect()
}

/// Pairwise Frank-Wolfe: from the arm with the smallest decrease to the one with the largest, by finite-difference
/// slopes, with a golden-section search. Slow, and uses only values.
pub(crate) fn frank_wolfe(value: impl Fn(&[f64]) -> f64, arms: usize, steps: usize) -> (Vec<f64>, f64) {
    let mut weights = vec![1.0 / arms as f64; arms];
    for _ in 0..steps {
        let here = value(&weights);
        let slope = |arm: usize| {
            let towards = |t: f64| -> Vec<f64> {
                (0..arms).map(|i| (1.0 - t) * weights[i] + t * f64::from(u8::from(i == arm))).collect()
            };
            (value(&towards(1e-6)) - here) / 1e-6
        };
        let slopes: Vec<f64> = (0..arms).map(slope).collect();
        let order = |a: &usize, b: &usize| slopes[*a].total_cmp(&slopes[*b]);
        let to = (0..arms).min_by(order).unwrap();
        let from = (0..arms).filter(|&arm| weights[arm] > 0.0).max_by(order).unwrap();
        let moved = |t: f64| {
            let mut moved = weights.clone();
            moved[from] -= t;
            moved[to] += t;
            moved
        };
        let golden = 0.5 * (5f64.sqrt() - 1.0);
        let (mut low, mut high) = (0.0, weights[from]);
        for _ in 0..36 {
            let (left, right) = (high - golden * (high - low), low + golden * (high - low));
            if value(&moved(left)) < value(&moved(right)) { high = right } else { low = left }
        }
        let best = [0.5 * (low + high), weights[from]]
            .into_iter()
            .map(|t| (value(&moved(t)), t))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap();
        if best.0 >= here {
            break;
        }
        weights = moved(best.1);
    }
    let value = value(&weights);
    (weights, value)
}
