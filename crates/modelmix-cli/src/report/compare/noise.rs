//! Tests of differences from the contents of documents: confidence intervals, standard errors, standard deviations over seeds.
//! They are deterministic.

use modelmix::internals::normal::{probability, student_tail};

use super::Difference;

/// Significance level: a difference with a p-value of at most this is beyond noise.
const LEVEL: f64 = 0.05;
/// The two-sided 95% quantile of the standard normal distribution.
const NORMAL_95: f64 = 1.959_963_984_540_054;

/// How the noise of two numbers combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependence {
    /// Variances are added.
    Independent,
    /// Standard deviations are added, which is exact or conservative for any dependence, such as that on a shared reference.
    Any,
}

impl Dependence {
    fn add(self, one: f64, other: f64) -> f64 {
        match self {
            Dependence::Independent => one.hypot(other),
            Dependence::Any => one + other,
        }
    }
}

/// The 95% interval of a difference from the intervals of both numbers, which need not be symmetric (MOVER: G. Y. Zou and
/// A. Donner, Statistics in Medicine 27, 2008); beyond noise if 0 is outside.
pub(super) fn by_intervals(one: &mut Difference, intervals: [Option<[f64; 2]>; 2], dependence: Dependence) {
    let (Some(first), Some(second), Some(difference)) = (one.first, one.second, one.difference) else { return };
    let [Some([low, high]), Some([other_low, other_high])] = intervals else { return };
    let below = dependence.add((second - other_low).max(0.0), (high - first).max(0.0));
    let above = dependence.add((other_high - second).max(0.0), (first - low).max(0.0));
    let ends = [difference - below, difference + above];
    one.interval = Some(ends);
    one.beyond_noise = Some(ends[0] > 0.0 || ends[1] < 0.0);
}

/// The interval and the p-value of a difference from standard errors, with the normal distribution.
pub(super) fn by_errors(one: &mut Difference, errors: [Option<f64>; 2], dependence: Dependence) {
    let (Some(difference), [Some(first), Some(second)]) = (one.difference, errors) else { return };
    let error = dependence.add(first, second);
    if !(error > 0.0 && error.is_finite() && difference.is_finite()) {
        return;
    }
    one.interval = Some([difference - NORMAL_95 * error, difference + NORMAL_95 * error]);
    one.p_value = Some(2.0 * probability(-(difference / error).abs()));
}

/// The p-value of a difference of two means by Welch's test, from standard deviations and counts.
pub(super) fn by_means(one: &mut Difference, deviations: [f64; 2], counts: [usize; 2]) {
    let Some(difference) = one.difference.filter(|_| counts.iter().all(|&count| count >= 2)) else { return };
    let variance = |index: usize| deviations[index] * deviations[index] / counts[index] as f64;
    let (first, second) = (variance(0), variance(1));
    let error = (first + second).sqrt();
    if !(error > 0.0 && error.is_finite() && difference.is_finite()) {
        return;
    }
    let part = |variance: f64, count: usize| variance * variance / (count as f64 - 1.0);
    let freedom = (first + second).powi(2) / (part(first, counts[0]) + part(second, counts[1]));
    one.p_value = Some((2.0 * student_tail((difference / error).abs(), freedom)).min(1.0));
}

/// Adjusts all p-values so that the probability that any true hypothesis is rejected is at most 5% (S. Holm, 1979), and decides.
pub(super) fn adjust(differences: &mut [&mut Difference]) {
    let mut order: Vec<usize> = (0..differences.len()).filter(|&at| differences[at].p_value.is_some()).collect();
    let p = |one: &Difference| one.p_value.unwrap_or(1.0);
    order.sort_by(|&a, &b| p(differences[a]).total_cmp(&p(differences[b])));
    let (tests, mut least) = (order.len(), 0.0f64);
    for (rank, &at) in order.iter().enumerate() {
        least = least.max((tests - rank) as f64 * p(differences[at])).min(1.0);
        differences[at].p_value = Some(least);
        differences[at].beyond_noise = Some(least <= LEVEL);
    }
}
