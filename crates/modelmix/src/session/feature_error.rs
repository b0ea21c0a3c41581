//! The effect of random features on K̂ and on the loss, measured on held samples, whose κ is known exactly.

use serde::{Deserialize, Serialize};

use super::samples::Samples;
use super::stream::Stream;
use crate::error::Result;
use crate::features::Rows;
use crate::loss::Loss;
use crate::objective::{MMD_SCALE, Measure};

/// The error that random features cause in a session's numbers, estimated from the held samples, between which κ is exact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FeatureError {
    /// D, the number of random features per kernel.
    pub features: usize,
    /// The requested standard error of an entry of K̂.
    pub stated: f64,
    /// Number of samples held.
    pub held: usize,
    /// The share of all pairs of samples whose κ is estimated by random features.
    pub estimated: f64,
    /// The error of the least accurate entry of K̂: positive if it is too large, negative if it is too small.
    pub entry: f64,
    /// Its standard error.
    pub entry_error: f64,
    /// The bias of `mixture_loss`: positive if it is too large.
    pub loss_bias: f64,
    /// Its standard error.
    pub loss_bias_error: f64,
    /// The bias of the score at the weights (RKE mode count, MMD² × 100), if the objective is one such term.
    pub score_bias: Option<f64>,
    /// Its standard error.
    pub score_bias_error: Option<f64>,
}

/// Rows examined per arm, and of all arms.
const MAX_ROWS_PER_ARM: usize = 64;
const MAX_ROWS: usize = 1024;

impl FeatureError {
    /// `loss_of_mixture` is the loss of `weights` without the constant.
    pub(super) fn new(
        samples: &Samples,
        stream: &Stream,
        loss: &Loss,
        weights: &[f64],
        loss_of_mixture: f64,
    ) -> Result<Option<Self>> {
        let Some(width) = samples.width.filter(|_| stream.has_begun()) else { return Ok(None) };
        let (statistics, arms) = (&samples.statistics, samples.statistics.arms());
        let share = MAX_ROWS_PER_ARM.min(MAX_ROWS / arms).max(2);
        let mut taken = vec![0; arms];
        let rows: Vec<usize> = (0..statistics.rows())
            .filter(|&row| {
                taken[statistics.arm_of()[row]] += 1;
                taken[statistics.arm_of()[row]] <= share
            })
            .collect();
        let group_of: Vec<usize> = rows.iter().map(|&row| statistics.arm_of()[row]).collect();
        let mut values = Vec::with_capacity(rows.len() * width);
        rows.iter().for_each(|&row| values.extend(samples.held.row(row)));
        let view = Rows::new(width, &values);
        let mut exact = Vec::new();
        loss.kappa_rows(view, view, &mut exact)?;
        let mut differences = stream.map(loss, view)?.sums_toward(loss, &group_of, arms);
        for (a, (kappa, differences)) in
            exact.chunks_exact(rows.len()).zip(differences.chunks_exact_mut(arms)).enumerate()
        {
            for (b, value) in kappa.iter().enumerate().filter(|(b, _)| *b != a) {
                differences[group_of[b]] -= value;
            }
        }
        let counts: Vec<usize> = taken.iter().map(|&count| count.min(share)).collect();
        // The mean of κ̂ − κ between each row and each arm, times the share of such pairs that are estimated by features.
        for (differences, &own) in differences.chunks_exact_mut(arms).zip(&group_of) {
            for (arm, difference) in differences.iter_mut().enumerate() {
                let others = counts[arm] - usize::from(arm == own);
                *difference *= statistics.estimated_share(own, arm) / others.max(1) as f64;
            }
        }
        let of_arm = |arm: usize, value: &dyn Fn(&[f64]) -> f64| -> (f64, f64) {
            let values: Vec<f64> = differences
                .chunks_exact(arms)
                .zip(&group_of)
                .filter(|(_, group)| **group == arm)
                .map(|(row, _)| value(row))
                .collect();
            mean_and_variance(&values)
        };
        let (mut entry, mut entry_error) = (0.0f64, 0.0);
        for i in 0..arms {
            for j in 0..=i {
                let ((left, left_variance), (right, right_variance)) =
                    (of_arm(i, &|row| row[j]), of_arm(j, &|row| row[i]));
                let mean = (left + right) / 2.0;
                if mean.abs() > entry.abs() {
                    // To first order a sample moves the mean of all pairs by its own mean, twice within one arm.
                    let variance = if i == j { 4.0 * left_variance } else { left_variance + right_variance };
                    (entry, entry_error) = (mean, variance.sqrt());
                }
            }
        }
        let along = |row: &[f64]| row.iter().zip(weights).map(|(difference, weight)| difference * weight).sum::<f64>();
        let (mut bias, mut variance) = (0.0, 0.0);
        for (arm, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            let (mean, own) = of_arm(arm, &along);
            bias += weight * mean;
            variance += (2.0 * weight).powi(2) * own;
        }
        let bias_error = variance.sqrt();
        let shares = statistics.proportions();
        let estimated = (0..arms * arms)
            .map(|at| (at / arms, at % arms))
            .map(|(i, j)| {
                if shares[i] * shares[j] > 0.0 { shares[i] * shares[j] * statistics.estimated_share(i, j) } else { 0.0 }
            })
            .sum();
        let slope = score_slope(loss, loss_of_mixture);
        Ok(Some(Self {
            features: stream.features(),
            stated: stream.cap.error,
            held: statistics.rows(),
            estimated,
            entry,
            entry_error,
            loss_bias: bias,
            loss_bias_error: bias_error,
            score_bias: slope.map(|slope| slope * bias),
            score_bias_error: slope.map(|slope| slope.abs() * bias_error),
        }))
    }
}

/// The derivative of the score with respect to the loss, if the objective is one term that has a score.
fn score_slope(loss: &Loss, value: f64) -> Option<f64> {
    let [term] = loss.terms() else { return None };
    match term.measure {
        // 1/E κ.
        Measure::Rke { .. } => Some(-term.weight / (value * value)),
        Measure::Mmd { .. } => Some(MMD_SCALE / term.weight),
        _ => None,
    }
}

/// The mean of values and the variance of that mean.
fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (count * (count - 1.0).max(1.0)))
}
