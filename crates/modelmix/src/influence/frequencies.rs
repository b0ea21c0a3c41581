//! The influence of random frequencies on estimates: K̂ from random Fourier features is a mean over frequencies, which are a
//! sample like any other.

use super::{GradientKind, dot, variance_factor};
use crate::compute::Matrix;

/// The mean cosines and sines of every arm, and of the reference, for the frequencies of one term. The contribution of frequency
/// r to K̂ᵢⱼ is cᵢcⱼ + sᵢsⱼ, and to f̂ᵢ it is −2(cᵢc + sᵢs) with those of the reference. Frequencies of one block are orthogonal,
/// which reduces the variance; they are treated as independent.
#[derive(Clone, Debug)]
pub(crate) struct Frequencies {
    /// The weight of the term.
    pub(crate) weight: f64,
    /// Per arm: the mean cosines of all frequencies, then the mean sines.
    pub(crate) arms: Vec<Vec<f64>>,
    /// The same of the reference; empty without one.
    pub(crate) reference: Vec<f64>,
}

impl Frequencies {
    fn count(&self) -> usize {
        self.arms[0].len() / 2
    }

    /// The contribution of each frequency to the product of two mean features.
    fn products(&self, x: &[f64], y: &[f64]) -> Vec<f64> {
        let count = self.count();
        (0..count).map(|r| x[r] * y[r] + x[count + r] * y[count + r]).collect()
    }

    fn mixed(&self, weights: &[f64]) -> Vec<f64> {
        let mut mixed = vec![0.0; 2 * self.count()];
        for (arm, &weight) in self.arms.iter().zip(weights).filter(|(_, weight)| **weight != 0.0) {
            mixed.iter_mut().zip(arm).for_each(|(sum, value)| *sum += weight * value);
        }
        mixed
    }

    /// w·(2x·y − 2x·z) per frequency, with z the reference, around its mean.
    fn gradient(&self, x: &[f64], mixed: &[f64]) -> Vec<f64> {
        let mut values = self.products(x, mixed);
        if !self.reference.is_empty() {
            let cross = self.products(x, &self.reference);
            values.iter_mut().zip(cross).for_each(|(value, cross)| *value -= cross);
        }
        centred(values, 2.0 * self.weight)
    }

    /// w·(x·x − 2x·z) per frequency, around its mean.
    fn loss(&self, x: &[f64]) -> Vec<f64> {
        let mut values = self.products(x, x);
        if !self.reference.is_empty() {
            let cross = self.products(x, &self.reference);
            values.iter_mut().zip(cross).for_each(|(value, cross)| *value -= 2.0 * cross);
        }
        centred(values, self.weight)
    }

    /// The variance of the loss of a mixture, its constant included.
    pub(crate) fn loss_variance(&self, weights: &[f64]) -> f64 {
        let mixed = self.mixed(weights);
        let mut values = self.loss(&mixed);
        if !self.reference.is_empty() {
            let own = centred(self.products(&self.reference, &self.reference), self.weight);
            values.iter_mut().zip(own).for_each(|(value, own)| *value += own);
        }
        variance_factor(values.len()) * dot(&values, &values)
    }

    /// The variance of the loss of one arm minus that of a mixture.
    pub(crate) fn gain_variance(&self, weights: &[f64], arm: usize) -> f64 {
        let (single, mixed) = (self.loss(&self.arms[arm]), self.loss(&self.mixed(weights)));
        let differences: Vec<f64> = single.iter().zip(&mixed).map(|(single, mixed)| single - mixed).collect();
        variance_factor(differences.len()) * dot(&differences, &differences)
    }

    /// The covariance of the gradient, or of the slopes toward the arms, and of the losses of arms minus that of the mixture.
    pub(super) fn covariance(&self, weights: &[f64], kind: GradientKind) -> Matrix {
        let m = self.arms.len();
        let mixed = self.mixed(weights);
        let own = self.loss(&mixed);
        let mut rows = Matrix::zeros(self.count(), 2 * m);
        for (arm, mean) in self.arms.iter().enumerate() {
            rows.column_mut(arm).copy_from_slice(&self.gradient(mean, &mixed));
            let gain = self.loss(mean).into_iter().zip(&own).map(|(loss, own)| loss - own);
            rows.column_mut(m + arm).iter_mut().zip(gain).for_each(|(value, gain)| *value = gain);
        }
        if kind == GradientKind::Toward {
            let mean = self.gradient(&mixed, &mixed);
            for arm in 0..m {
                rows.column_mut(arm).iter_mut().zip(&mean).for_each(|(value, mean)| *value -= mean);
            }
        }
        let mut covariance = rows.transposed_times(&rows);
        covariance.scale(variance_factor(self.count()));
        covariance
    }

    /// The variance of the slope from a mixture toward an arm.
    pub(super) fn toward_variance(&self, weights: &[f64], arm: usize) -> f64 {
        let mixed = self.mixed(weights);
        let slopes = self.gradient(&self.arms[arm], &mixed).into_iter().zip(self.gradient(&mixed, &mixed));
        variance_factor(self.count()) * slopes.map(|(arm, mean)| (arm - mean).powi(2)).sum::<f64>()
    }

    /// The covariance of the slopes from one arm alone toward these others.
    pub(super) fn slope_covariance(&self, arm: usize, others: &[usize]) -> Matrix {
        let from = &self.arms[arm];
        let own = self.gradient(from, from);
        let mut slopes = Matrix::zeros(self.count(), others.len());
        for (index, &other) in others.iter().enumerate() {
            let toward = self.gradient(&self.arms[other], from);
            let into = slopes.column_mut(index).iter_mut();
            into.zip(toward.iter().zip(&own)).for_each(|(slope, (toward, own))| *slope = toward - own);
        }
        let mut covariance = slopes.transposed_times(&slopes);
        covariance.scale(variance_factor(self.count()));
        covariance
    }

    /// Adds the variances of vᵀKv, one per direction.
    pub(super) fn add_curvature_variances(&self, directions: &[Vec<f64>], variances: &mut [f64]) {
        for (direction, variance) in directions.iter().zip(variances) {
            let mixed = self.mixed(direction);
            let values = centred(self.products(&mixed, &mixed), self.weight);
            *variance += variance_factor(values.len()) * dot(&values, &values);
        }
    }
}

/// Values minus their mean, times a factor.
fn centred(mut values: Vec<f64>, factor: f64) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.iter_mut().for_each(|value| *value = factor * (*value - mean));
    values
}
