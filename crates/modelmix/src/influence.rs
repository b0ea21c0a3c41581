//! How much each sample moves what is estimated from all of them, to first order: the covariance of any quantities that are
//! linear in K̂ and f̂. What is made of it is left to `certainty`.

use crate::error::{Error, Result};
use crate::normal;
use crate::statistics::Statistics;

/// ⟨A, K⟩ + bᵀf, a quantity that is linear in K and f.
#[derive(Clone, Debug, PartialEq)]
pub struct Functional {
    /// A, symmetric, row by row.
    quadratic: Vec<f64>,
    /// b.
    linear: Vec<f64>,
}

impl Functional {
    /// Entry `arm` of the gradient 2Kα + f.
    pub fn gradient(arm: usize, weights: &[f64]) -> Self {
        let arms = weights.len();
        let mut linear = vec![0.0; arms];
        linear[arm] = 1.0;
        let mut quadratic = vec![0.0; arms * arms];
        for (other, &weight) in weights.iter().enumerate() {
            quadratic[arm * arms + other] += weight;
            quadratic[other * arms + arm] += weight;
        }
        Self { quadratic, linear }
    }

    /// L(α) − L(β).
    pub fn difference(left: &[f64], right: &[f64]) -> Self {
        let product = |weights: &[f64], i: usize, j: usize| weights[i] * weights[j];
        let arms = left.len();
        Self {
            quadratic: (0..arms * arms)
                .map(|at| product(left, at / arms, at % arms) - product(right, at / arms, at % arms))
                .collect(),
            linear: left.iter().zip(right).map(|(left, right)| left - right).collect(),
        }
    }

    /// gᵀ(α − β) of the gradient g = 2Kβ + f.
    pub fn toward(to: &[f64], from: &[f64]) -> Self {
        let arms = to.len();
        let direction: Vec<f64> = to.iter().zip(from).map(|(to, from)| to - from).collect();
        let at = |i: usize, j: usize| direction[i] * from[j] + from[i] * direction[j];
        Self { quadratic: (0..arms * arms).map(|place| at(place / arms, place % arms)).collect(), linear: direction }
    }

    /// gᵢ − g_b of the gradient g = 2Ke_b + f at arm b alone.
    pub fn slope(from: usize, to: usize, arms: usize) -> Self {
        let mut functional = Self { quadratic: vec![0.0; arms * arms], linear: vec![0.0; arms] };
        functional.quadratic[from * arms + to] += 1.0;
        functional.quadratic[to * arms + from] += 1.0;
        functional.quadratic[from * arms + from] -= 2.0;
        (functional.linear[to], functional.linear[from]) = (1.0, -1.0);
        functional
    }

    /// vᵀKv.
    pub fn curvature(direction: &[f64]) -> Self {
        let arms = direction.len();
        Self {
            quadratic: (0..arms * arms).map(|at| direction[at / arms] * direction[at % arms]).collect(),
            linear: vec![0.0; arms],
        }
    }
}

/// What the samples of each arm, and the rows of the reference, do to K̂ and f̂ (U-statistics).
///
/// Sample a of arm i moves ⟨A, K̂⟩ + bᵀf̂ by (2Σ_j A_ij(κ̄_aj − K̂_ij) + b_i(f_a − f̂_i))/n_i to first order, κ̄_aj being the mean
/// of κ between it and the other samples of arm j. So the covariance of (κ̄_a1, …, κ̄_am, f_a) over the samples of each arm
/// is all that is needed. Since κ̄ is itself a mean over few samples, it errs on the wide side, by O(1/n²).
///
/// Few samples may all be alike and their model not: ten that are all good say that some 90% are, not all. So the variance of
/// each of these quantities is at least that of a rare value, one in n + 1, as far from the usual one as values of any arm
/// are from each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Influences {
    arms: usize,
    counts: Vec<usize>,
    /// By arm: the covariance of (κ̄_a1, …, κ̄_am, f_a)/n, m + 1 rows one after another.
    by_arm: Vec<Vec<f64>>,
    /// The covariance of f̂ that comes from the reference's rows, m rows one after another.
    reference: Vec<f64>,
    /// What each row of the reference makes of every arm's f̂, less its mean.
    rows: Vec<Vec<f64>>,
}

impl Influences {
    /// Of the samples held, a reference taken as given. Nothing where an arm has fewer than two samples, where samples were let
    /// go or have faded, or where values are so large that their squares are not finite.
    pub fn new(statistics: &Statistics) -> Option<Self> {
        Self::ranging(statistics, 0.0)
    }

    /// The same where f of an arm's samples is known to range so far, whether it has been seen to or not.
    pub(crate) fn ranging(statistics: &Statistics, range: f64) -> Option<Self> {
        let (arms, counts) = (statistics.arms(), statistics.counts());
        if statistics.is_aged() || counts.iter().any(|&count| count < 2) {
            return None;
        }
        let form = statistics.unbiased();
        let size = arms + 1;
        let mut by_arm = vec![vec![0.0; size * size]; arms];
        let mut ends = vec![(0.0f64, 0.0f64); arms * size];
        let mut row = vec![0.0; size];
        for (sample, (&arm, f)) in statistics.arm_of().iter().zip(statistics.linear_terms()).enumerate() {
            for (other, entry) in row[..arms].iter_mut().enumerate() {
                let count = counts[other] - usize::from(other == arm);
                *entry = statistics.sums_toward(other)[sample] / count as f64 - form.at(arm, other);
            }
            row[arms] = f - form.linear()[arm];
            add_outer(&mut by_arm[arm], &row);
            for ((low, high), &value) in ends[arm * size..].iter_mut().zip(&row) {
                (*low, *high) = (low.min(value), high.max(value));
            }
        }
        let mut ranges: Vec<f64> = (0..size)
            .map(|at| (0..arms).map(|arm| ends[arm * size + at].1 - ends[arm * size + at].0).fold(0.0, f64::max))
            .collect();
        ranges[arms] = ranges[arms].max(range);
        for (sums, &count) in by_arm.iter_mut().zip(counts) {
            finish(sums, size, spread(count));
            for (at, range) in ranges.iter().enumerate() {
                let rare = range * range / ((count + 1) * (count + 1)) as f64;
                sums[at * size + at] = sums[at * size + at].max(rare);
            }
        }
        let is_finite = by_arm.iter().flatten().all(|value| value.is_finite());
        let counts = counts.to_vec();
        is_finite.then(|| Self { arms, counts, by_arm, reference: vec![0.0; arms * arms], rows: Vec::new() })
    }

    /// Whether samples have told anything of κ between different ones: where the kernel is so narrow that all of it is zero,
    /// they have not.
    pub(crate) fn is_telling(statistics: &Statistics) -> bool {
        let own = statistics.self_terms().iter().copied().fold(0.0, f64::max);
        own <= 0.0 || statistics.unbiased().quadratic().iter().any(|value| value.abs() > 1e-12 * own)
    }

    /// As wide as a normal number must be for tails so thin to hold those of Student's t.
    pub(crate) fn at_chance(mut self, miss: f64) -> Self {
        for (matrix, &count) in self.by_arm.iter_mut().zip(&self.counts) {
            let (n, z) = (count as f64, normal::quantile(1.0 - miss.min(0.4)));
            let counted = (n - 1.0) / (n - 3.0).max(0.5);
            let factor = ((normal::student_quantile(z, n - 1.0) / z).powi(2) / counted).max(1.0);
            matrix.iter_mut().for_each(|value| *value *= factor);
        }
        self
    }

    /// Counts the reference as a sample too: `rows[j][y]` is what row y would make of f̂_j if it were all of the reference.
    ///
    /// # Errors
    /// Another number of arms, lists of different lengths.
    pub fn with_reference(mut self, rows: &[Vec<f64>]) -> Result<Self> {
        let count = rows.first().map_or(0, Vec::len);
        if rows.len() != self.arms || rows.iter().any(|row| row.len() != count) {
            let problem = "the reference's influences do not fit the arms; give one list of the same length an arm";
            return Err(Error::Program { problem: problem.into() });
        }
        if count < 2 {
            return Ok(self);
        }
        let centred = |row: &Vec<f64>| {
            let mean = row.iter().sum::<f64>() / count as f64;
            row.iter().map(|value| value - mean).collect()
        };
        self.rows = rows.iter().map(centred).collect();
        let mut sums = vec![0.0; self.arms * self.arms];
        let mut away = vec![0.0; self.arms];
        for y in 0..count {
            away.iter_mut().zip(&self.rows).for_each(|(away, row)| *away = row[y]);
            add_outer(&mut sums, &away);
        }
        finish(&mut sums, self.arms, spread(count));
        self.reference = sums;
        Ok(self)
    }

    /// The covariance matrix of the estimates of these quantities, row by row.
    ///
    /// # Panics
    /// When one of them is of another number of arms.
    pub fn covariance(&self, functionals: &[Functional]) -> Vec<f64> {
        let (count, arms) = (functionals.len(), self.arms);
        let mut covariance = vec![0.0; count * count];
        let mut coefficients = vec![vec![0.0; arms + 1]; count];
        for (arm, matrix) in self.by_arm.iter().enumerate() {
            for (row, functional) in coefficients.iter_mut().zip(functionals) {
                assert_eq!(functional.linear.len(), arms, "quantities are of as many arms as there are");
                let part = &functional.quadratic[arm * arms..(arm + 1) * arms];
                row[..arms].iter_mut().zip(part).for_each(|(entry, a)| *entry = 2.0 * a);
                row[arms] = functional.linear[arm];
            }
            add_congruence(&mut covariance, matrix, &coefficients);
        }
        if self.reference.iter().any(|&value| value != 0.0) {
            let linear: Vec<Vec<f64>> = functionals.iter().map(|functional| functional.linear.clone()).collect();
            add_congruence(&mut covariance, &self.reference, &linear);
        }
        covariance
    }

    /// The variance of the estimate of a quantity, arm by arm: what the samples of each have in it.
    pub fn variance_by_arm(&self, functional: &Functional) -> Vec<f64> {
        let part = |(arm, matrix): (usize, &Vec<f64>)| {
            let quadratic = functional.quadratic[arm * self.arms..(arm + 1) * self.arms].iter().map(|a| 2.0 * a);
            let row: Vec<f64> = quadratic.chain([functional.linear[arm]]).collect();
            let mut variance = [0.0];
            add_congruence(&mut variance, matrix, &[row]);
            variance[0].max(0.0)
        };
        self.by_arm.iter().enumerate().map(part).collect()
    }

    /// The third central moment of the estimate of a quantity, to first order; `statistics` are those that this was made of.
    pub fn third_moment(&self, statistics: &Statistics, functional: &Functional) -> f64 {
        let (arms, counts) = (self.arms, statistics.counts());
        let form = statistics.unbiased();
        let parts: Vec<Vec<(usize, f64)>> = (0..arms)
            .map(|arm| {
                let row = functional.quadratic[arm * arms..(arm + 1) * arms].iter();
                row.enumerate().filter(|(_, a)| **a != 0.0).map(|(other, a)| (other, 2.0 * a)).collect()
            })
            .collect();
        let mut sums = vec![0.0; arms];
        for (sample, (&arm, f)) in statistics.arm_of().iter().zip(statistics.linear_terms()).enumerate() {
            let mut influence = functional.linear[arm] * (f - form.linear()[arm]);
            for &(other, factor) in &parts[arm] {
                let count = counts[other] - usize::from(other == arm);
                influence += factor * (statistics.sums_toward(other)[sample] / count as f64 - form.at(arm, other));
            }
            sums[arm] += influence.powi(3);
        }
        let rows = self.rows.first().map_or(0, Vec::len);
        let of_row = |y: usize| self.rows.iter().zip(&functional.linear).map(|(row, b)| b * row[y]).sum::<f64>();
        let reference: f64 = (0..rows).map(|y| of_row(y).powi(3)).sum::<f64>() / (rows as f64).powi(3).max(1.0);
        reference + sums.iter().zip(counts).map(|(sum, &count)| sum / (count as f64).powi(3)).sum::<f64>()
    }

    /// The covariance of the gradient 2K̂α + f̂ at `weights`, row by row.
    pub fn gradient_covariance(&self, weights: &[f64]) -> Vec<f64> {
        let gradient: Vec<Functional> = (0..self.arms).map(|arm| Functional::gradient(arm, weights)).collect();
        self.covariance(&gradient)
    }
}

/// What a sum of squares around the mean of so many samples is multiplied by to make a variance of the mean. A variance that is
/// itself estimated makes ratios as wide as Student's t, whose variance is (n − 1)/(n − 3); that is counted in.
fn spread(count: usize) -> f64 {
    1.0 / (count as f64 * (count as f64 - 3.0).max(0.5))
}

/// Adds x xᵀ, the lower half alone.
fn add_outer(sums: &mut [f64], x: &[f64]) {
    for (i, &left) in x.iter().enumerate() {
        for (sum, right) in sums[i * x.len()..].iter_mut().zip(&x[..=i]) {
            *sum += left * right;
        }
    }
}

/// Fills the upper half in and multiplies all.
fn finish(sums: &mut [f64], size: usize, factor: f64) {
    for i in 0..size {
        for j in 0..=i {
            let value = factor * sums[i * size + j];
            (sums[i * size + j], sums[j * size + i]) = (value, value);
        }
    }
}

/// Adds X C Xᵀ, X by rows; those without an entry are passed over.
fn add_congruence(sum: &mut [f64], matrix: &[f64], rows: &[Vec<f64>]) {
    let count = rows.len();
    for (i, left) in rows.iter().enumerate() {
        if left.iter().all(|&value| value == 0.0) {
            continue;
        }
        let product: Vec<f64> =
            matrix.chunks_exact(left.len()).map(|row| row.iter().zip(left).map(|(c, x)| c * x).sum()).collect();
        for (j, right) in rows.iter().enumerate().take(i + 1) {
            let value: f64 = product.iter().zip(right).map(|(p, x)| p * x).sum();
            sum[i * count + j] += value;
            if i != j {
                sum[j * count + i] += value;
            }
        }
    }
}
