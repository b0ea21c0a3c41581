//! How much each sample moves what is estimated from all of them, to first order: covariances of the gradient and of losses at
//! one mixture (`at_mixture`), of slopes from one arm (`from_arm`) and of curvatures. What is made of them is left to
//! `certainty`.

mod at_mixture;
mod from_arm;

use crate::compute::Matrix;
use crate::error::{Error, Result};
use crate::normal;
use crate::quadratic::Quadratic;
use crate::statistics::Statistics;

pub(crate) use at_mixture::GradientKind;
pub use from_arm::Slopes;

/// Differences below this, relative to the values that they are of, are rounding error.
const ROUNDING: f64 = 1e-12;

/// What the samples of each arm, and the rows of the reference, do to K̂ and f̂ (U-statistics).
///
/// Sample a of arm s moves pᵀK̂q by (p_s qᵀκ̃_a + q_s pᵀκ̃_a)/n_s and bᵀf̂ by b_s f̃_a/n_s to first order, with
/// κ̃_aj = κ̄_aj − K̂_sj, κ̄_aj the mean of κ between it and the other samples of arm j, and f̃_a = f_a − f̂_s. So a covariance is
/// a product of matrices with one row per sample; nothing of the size of all pairs of K's entries is held. Since κ̄ is itself a mean
/// over few samples, it errs on the wide side, by O(1/n²).
///
/// Few samples may all be alike and their model not: ten that are all good say that some 90% are, not all. So the variance of
/// each κ̄_aj and of f_a is at least that of a rare value, one in n + 1, as far from the usual one as values of any arm
/// are from each other.
#[derive(Clone, Debug)]
pub struct Influences<'a> {
    statistics: &'a Statistics,
    /// K̂ and f̂ as U-statistics.
    form: Quadratic,
    /// By arm: which samples are its own.
    samples: Vec<Vec<usize>>,
    /// By arm: what a sum of squares over its samples is multiplied by to make a variance of a mean.
    factors: Vec<f64>,
    /// By arm, m + 1 values each: what rare values add to the variances of (κ̄_a1, …, κ̄_am, f_a)/n.
    rare: Vec<f64>,
    /// One row per row of the reference: what it makes of every arm's f̂, less the mean.
    reference: Matrix,
    /// Whether any of κ̄ and f has been seen to differ between two samples of an arm by more than rounding, or is known to.
    has_varied: bool,
}

impl<'a> Influences<'a> {
    /// Of the samples held, a reference taken as given. `None` if an arm has fewer than two samples, if samples were let go or
    /// have faded, or if values are so large that their squares are not finite.
    pub fn new(statistics: &'a Statistics) -> Option<Self> {
        Self::with_range(statistics, 0.0)
    }

    /// The same if f of an arm's samples is known to range so far, whether it has been seen to or not.
    pub(crate) fn with_range(statistics: &'a Statistics, range: f64) -> Option<Self> {
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
            form: statistics.unbiased(),
            samples,
            factors: counts.iter().map(|&count| variance_factor(count)).collect(),
            rare: vec![0.0; arms * (arms + 1)],
            reference: Matrix::zeros(0, arms),
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
            let widest = if quantity == arms { seen.max(range) } else { seen };
            for (arm, (squares, _)) in columns.into_iter().enumerate() {
                let rare = (widest / (counts[arm] + 1) as f64).powi(2);
                found.rare[arm * (arms + 1) + quantity] = (rare - found.factors[arm] * squares).max(0.0);
            }
        }
        Some(found)
    }

    /// Whether samples have told anything of κ between different ones: if the kernel is so narrow that all of it is zero, they
    /// have not.
    pub(crate) fn has_kernel_signal(statistics: &Statistics) -> bool {
        let own = statistics.self_terms().iter().copied().fold(0.0, f64::max);
        own <= 0.0 || statistics.unbiased().quadratic().iter().any(|value| value.abs() > 1e-12 * own)
    }

    /// Whether samples of an arm have differed in anything, or are known to. If not, there is no scale by which a rare value that
    /// was not seen yet could be reckoned with.
    pub(crate) fn has_varied(&self) -> bool {
        self.has_varied
    }

    /// As wide as a normal number must be for tails so thin to hold those of Student's t.
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

    /// Counts the reference as a sample too: `rows[j][y]` is what row y would make of f̂_j if it were all of the reference.
    ///
    /// # Errors
    /// Another number of arms, lists of different lengths.
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

    /// m.
    pub(crate) fn arms(&self) -> usize {
        self.form.arms()
    }

    /// K̂ and f̂ as U-statistics.
    pub(crate) fn form(&self) -> &Quadratic {
        &self.form
    }

    /// How many samples each arm has.
    pub(crate) fn counts(&self) -> &[usize] {
        self.statistics.counts()
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

    /// Calls with κ̃ of each of an arm's samples toward one arm, or with f̃ for quantity m.
    fn for_each(&self, arm: usize, quantity: usize, mut call: impl FnMut(f64)) {
        if quantity == self.arms() {
            let (values, mean) = (self.statistics.linear_terms(), self.form.linear()[arm]);
            return self.samples[arm].iter().for_each(|&sample| call(values[sample] - mean));
        }
        let (sums, mean) = (self.statistics.sums_toward(quantity), self.form.at(arm, quantity));
        let count = (self.counts()[quantity] - usize::from(quantity == arm)) as f64;
        self.samples[arm].iter().for_each(|&sample| call(sums[sample] / count - mean));
    }

    /// What rare values add to the variances of an arm's (κ̄_a1, …, κ̄_am, f_a)/n.
    fn rare_of(&self, arm: usize) -> &[f64] {
        let size = self.arms() + 1;
        &self.rare[arm * size..(arm + 1) * size]
    }

    /// What a sum of squares over the reference's rows is multiplied by.
    fn reference_factor(&self) -> f64 {
        variance_factor(self.reference.rows())
    }
}

/// What a sum of squares around the mean of so many samples is multiplied by to make a variance of the mean. A variance that is
/// itself estimated makes ratios as wide as Student's t, whose variance is (n − 1)/(n − 3); that is counted in.
fn variance_factor(count: usize) -> f64 {
    1.0 / (count as f64 * (count as f64 - 3.0).max(0.5))
}

/// Σ xy.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
