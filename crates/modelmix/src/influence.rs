//! Influence functions: the first-order effect of each sample on estimates from all samples. Covariances of the
//! gradient and of losses at one mixture (`at_mixture`), of slopes from one arm (`from_arm`) and of curvatures.
//! `certainty` uses them.

mod at_mixture;
mod frequencies;
mod from_arm;

use crate::compute::Matrix;
use crate::error::{Error, Result};
use crate::normal;
use crate::quadratic::Quadratic;
use crate::statistics::Statistics;

pub(crate) use at_mixture::{GradientKind, Unsampled};
pub(crate) use frequencies::Frequencies;
pub use from_arm::Slopes;

/// Differences below this, relative to the values that they are of, are rounding error.
const ROUNDING: f64 = 1e-12;

/// The influence of each sample, and of each row of the reference, on K̂ and f̂ (U-statistics).
///
/// To first order, sample a of arm s changes pᵀK̂q by (p_s qᵀκ̃_a + q_s pᵀκ̃_a)/n_s and bᵀf̂ by b_s f̃_a/n_s, with
/// κ̃_aj = κ̄_aj − K̂_sj, κ̄_aj the mean of κ between it and the other samples of arm j, and f̃_a = f_a − f̂_s. A
/// covariance is therefore a product of matrices with one row per sample; nothing of the size of all pairs of K's
/// entries is stored. Because κ̄ is itself a mean over few samples, variances are overestimated by O(1/n²).
///
/// A few samples may all be alike although the model is not: if all of ten samples are good, some 90% of the model's
/// are, not all. The variance of each κ̄_aj and of f_a is therefore at least that of a rare value, one in n + 1, as far
/// from the usual value as values of any arm are from each other.
#[derive(Clone, Debug)]
pub struct Influences<'a> {
    statistics: &'a Statistics,
    /// K̂ and f̂ as U-statistics.
    form: Quadratic,
    /// Indices of the samples of each arm.
    samples: Vec<Vec<usize>>,
    /// Per arm: the factor that turns a sum of squares over its samples into the variance of a mean.
    factors: Vec<f64>,
    /// Per arm: the number of samples that the variances are for.
    sizes: Vec<usize>,
    /// The largest difference between values of (κ̄_a1, …, κ̄_am, f_a) within an arm, observed or known.
    ranges: Vec<f64>,
    /// Per arm, m + 1 values: what rare values add to the variances of (κ̄_a1, …, κ̄_am, f_a)/n.
    rare: Vec<f64>,
    /// One row per row of the reference: its contribution to f̂ of every arm, minus the mean.
    reference: Matrix,
    /// The number of rows of the reference, if `reference` has a sample of them only.
    reference_size: Option<usize>,
    /// Random frequencies that kernels were computed from, one set per term.
    frequencies: Vec<Frequencies>,
    /// Whether any κ̄ or f differs between two samples of an arm by more than rounding error, or is known to differ.
    has_varied: bool,
}

impl<'a> Influences<'a> {
    /// The influences of the held samples; the reference is treated as fixed. `None` if an arm has fewer than two
    /// samples, if samples were evicted or have decayed, or if values are so large that their squares overflow.
    pub fn new(statistics: &'a Statistics) -> Option<Self> {
        Self::with_range(statistics, 0.0)
    }

    /// The same, if f of an arm's samples is known to have this range, observed or not.
    pub(crate) fn with_range(statistics: &'a Statistics, range: f64) -> Option<Self> {
        Self::around(statistics, statistics.unbiased(), range)
    }

    /// The same, if K̂ and f̂ are known from more samples than those of the statistics.
    pub(crate) fn around(statistics: &'a Statistics, form: Quadratic, range: f64) -> Option<Self> {
        let (arms, counts) = (statistics.arms(), statistics.counts());
        if statistics.is_aged() || counts.iter().any(|&count| count < 2) {
            return None;
        }
        let mut samples: Vec<Vec<usize>> = counts.iter().map(|&count| Vec::with_capacity(count)).collect();
        for (sample, &arm) in statistics.arm_of().iter().enumerate() {
            samples[arm].push(sample);
        }
        let mut found = Self {
            statistics,
            form,
            samples,
            factors: counts.iter().map(|&count| variance_factor(count)).collect(),
            sizes: counts.to_vec(),
            ranges: vec![0.0; arms + 1],
            rare: vec![0.0; arms * (arms + 1)],
            reference: Matrix::zeros(0, arms),
            reference_size: None,
            frequencies: Vec::new(),
            has_varied: range > 0.0,
        };
        let values = found.form.quadratic().iter().chain(found.form.linear());
        let size = values.fold(0.0f64, |size, value| size.max(value.abs()));
        for quantity in 0..=arms {
            let columns = (0..arms).map(|arm| {
                let (mut squares, mut low, mut high) = (0.0, 0.0f64, 0.0f64);
                found.for_each(arm, quantity, |value| {
                    squares += value * value;
                    (low, high) = (low.min(value), high.max(value));
                });
                (squares, high - low)
            });
            let columns: Vec<(f64, f64)> = columns.collect();
            if columns.iter().any(|(squares, _)| !squares.is_finite()) {
                return None;
            }
            let seen = columns.iter().fold(0.0, |widest: f64, (_, range)| widest.max(*range));
            found.has_varied |= seen > ROUNDING * size;
            found.ranges[quantity] = if quantity == arms { seen.max(range) } else { seen };
            let squares: Vec<f64> = columns.into_iter().map(|(squares, _)| squares).collect();
            found.set_rare(quantity, &squares);
        }
        Some(found)
    }

    /// Sets what rare values add to the variance of a quantity, from the sums of its squares in every arm.
    fn set_rare(&mut self, quantity: usize, squares: &[f64]) {
        let quantities = self.arms() + 1;
        for (arm, squares) in squares.iter().enumerate() {
            let rare = (self.ranges[quantity] / (self.sizes[arm] + 1) as f64).powi(2);
            self.rare[arm * quantities + quantity] = (rare - self.factors[arm] * squares).max(0.0);
        }
    }

    /// The same influences with variances as expected if every arm had the given number of similar samples, at least two.
    /// The reference is unchanged.
    pub(crate) fn with_sizes(&self, sizes: &[usize]) -> Self {
        let mut sized = self.clone();
        sized.sizes = sizes.to_vec();
        for (arm, (&size, &count)) in sizes.iter().zip(self.statistics.counts()).enumerate() {
            // A sum of squares grows with its degrees of freedom.
            sized.factors[arm] = variance_factor(size) * (size as f64 - 1.0) / (count as f64 - 1.0);
        }
        for quantity in 0..=self.arms() {
            let squares = |arm: usize| {
                let mut squares = 0.0;
                self.for_each(arm, quantity, |value| squares += value * value);
                squares
            };
            let squares: Vec<f64> = (0..self.arms()).map(squares).collect();
            sized.set_rare(quantity, &squares);
        }
        sized
    }

    /// Whether κ between different samples carries information. It does not if the kernel is so narrow that all of it
    /// is zero.
    pub(crate) fn has_kernel_signal(statistics: &Statistics) -> bool {
        let own = statistics.self_terms().iter().copied().fold(0.0, f64::max);
        own <= 0.0 || statistics.unbiased().quadratic().iter().any(|value| value.abs() > 1e-12 * own)
    }

    /// Whether samples of an arm differ in any value, or are known to. If not, no scale is known for rare values that
    /// were not observed yet.
    pub(crate) fn has_varied(&self) -> bool {
        self.has_varied
    }

    /// Widens the variances so that normal tails of probability `error_chance` cover those of Student's t.
    pub(crate) fn widened_for(&self, error_chance: f64) -> Self {
        let mut wider = self.clone();
        let size = self.arms() + 1;
        for (arm, &count) in self.statistics.counts().iter().enumerate() {
            let (n, z) = (count as f64, normal::quantile(1.0 - error_chance.min(0.4)));
            let counted = (n - 1.0) / (n - 3.0).max(0.5);
            let factor = ((normal::student_quantile(z, n - 1.0) / z).powi(2) / counted).max(1.0);
            wider.factors[arm] *= factor;
            wider.rare[arm * size..(arm + 1) * size].iter_mut().for_each(|value| *value *= factor);
        }
        wider
    }

    /// Treats the reference as a sample too: `rows[j][y]` is f̂_j if row y were the whole reference.
    ///
    /// # Errors
    /// If the number of arms is wrong, or if lists have different lengths.
    pub fn with_reference(mut self, rows: &[Vec<f64>]) -> Result<Self> {
        let count = rows.first().map_or(0, Vec::len);
        if rows.len() != self.arms() || rows.iter().any(|row| row.len() != count) {
            let problem = "the reference's influences do not fit the arms; give one list of the same length per arm";
            return Err(Error::Program { problem: problem.into() });
        }
        if count < 2 {
            return Ok(self);
        }
        let means: Vec<f64> = rows.iter().map(|row| row.iter().sum::<f64>() / count as f64).collect();
        self.reference = Matrix::from_fn(count, rows.len(), |y, arm| rows[arm][y] - means[arm]);
        Ok(self)
    }

    /// States the number of rows of the reference, if only a sample of them was given.
    pub(crate) fn with_reference_size(mut self, size: usize) -> Self {
        self.reference_size = Some(size);
        self
    }

    /// Treats the random frequencies that kernels were computed from as a sample too.
    pub(crate) fn with_frequencies(mut self, frequencies: Vec<Frequencies>) -> Self {
        self.frequencies = frequencies;
        self
    }

    /// The number of arms, m.
    pub(crate) fn arms(&self) -> usize {
        self.form.arms()
    }

    /// K̂ and f̂ as U-statistics.
    pub(crate) fn form(&self) -> &Quadratic {
        &self.form
    }

    /// The number of samples that each arm has, or is assumed to have.
    pub(crate) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The variances of the estimates of vᵀKv, one per direction v.
    pub fn curvature_variances(&self, directions: &[Vec<f64>]) -> Vec<f64> {
        let arms = self.arms();
        let axes = Matrix::from_fn(arms, directions.len(), |arm, index| directions[index][arm]);
        let mut variances = vec![0.0; directions.len()];
        for arm in 0..arms {
            let along = self.centred(arm).times(&axes);
            let rare = self.rare_of(arm);
            for (index, (variance, v)) in variances.iter_mut().zip(directions).enumerate() {
                if v[arm] != 0.0 {
                    let squares: f64 = along.column(index).iter().map(|value| value * value).sum();
                    let floor: f64 = rare.iter().zip(v).map(|(rare, v)| rare * v * v).sum();
                    *variance += 4.0 * v[arm] * v[arm] * (self.factors[arm] * squares + floor);
                }
            }
        }
        for frequencies in &self.frequencies {
            frequencies.add_curvature_variances(directions, &mut variances);
        }
        variances
    }

    /// κ̃ of an arm's samples: one row per sample, one column per arm.
    fn centred(&self, arm: usize) -> Matrix {
        let mut block = Matrix::zeros(self.samples[arm].len(), self.arms());
        for other in 0..self.arms() {
            let column = block.column_mut(other);
            let mut at = 0;
            self.for_each(arm, other, |value| {
                column[at] = value;
                at += 1;
            });
        }
        block
    }

    /// κ̃ between an arm's samples and one arm, or f̃ as quantity m.
    fn column(&self, arm: usize, quantity: usize) -> Vec<f64> {
        let mut column = Vec::with_capacity(self.samples[arm].len());
        self.for_each(arm, quantity, |value| column.push(value));
        column
    }

    /// Σ_j w_j κ̃_aj of an arm's samples.
    fn along(&self, arm: usize, weights: &[f64]) -> Vec<f64> {
        let mut sum = vec![0.0; self.samples[arm].len()];
        for (other, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
            let mut at = 0;
            self.for_each(arm, other, |value| {
                sum[at] += weight * value;
                at += 1;
            });
        }
        sum
    }

    /// Calls `call` with κ̃ of each sample of an arm toward one arm, or with f̃ for quantity m.
    fn for_each(&self, arm: usize, quantity: usize, mut call: impl FnMut(f64)) {
        if quantity == self.arms() {
            let (values, mean) = (self.statistics.linear_terms(), self.form.linear()[arm]);
            return self.samples[arm].iter().for_each(|&sample| call(values[sample] - mean));
        }
        let (sums, mean) = (self.statistics.sums_toward(quantity), self.form.at(arm, quantity));
        let count = (self.statistics.counts()[quantity] - usize::from(quantity == arm)) as f64;
        self.samples[arm].iter().for_each(|&sample| call(sums[sample] / count - mean));
    }

    /// What rare values add to the variances of an arm's (κ̄_a1, …, κ̄_am, f_a)/n.
    fn rare_of(&self, arm: usize) -> &[f64] {
        let size = self.arms() + 1;
        &self.rare[arm * size..(arm + 1) * size]
    }

    /// The factor that turns a sum of squares over the rows of the reference into a variance.
    fn reference_factor(&self) -> f64 {
        let rows = self.reference.rows();
        match self.reference_size {
            None => variance_factor(rows),
            // A sum of squares grows with its degrees of freedom.
            Some(size) => variance_factor(size) * (size as f64 - 1.0) / (rows as f64 - 1.0).max(1.0),
        }
    }
}

/// The factor that turns a sum of squares around the mean of `count` samples into the variance of the mean. The
/// variance is itself estimated, so ratios are distributed like Student's t, whose variance is (n − 1)/(n − 3); the
/// factor includes that.
fn variance_factor(count: usize) -> f64 {
    1.0 / (count as f64 * (count as f64 - 3.0).max(0.5))
}

/// Σ xy.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
