//! Covariances of estimates at one mixture: of the gradient, and of the loss of every arm minus that of the mixture.

use super::{Influences, dot, variance_factor};
use crate::compute::Matrix;

/// The gradient that a covariance refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GradientKind {
    /// The gradient 2Kw + f.
    Gradient,
    /// The gradient minus its mean under w: the slopes from w toward the arms.
    Toward,
}

/// The influence of the samples of one arm s at a mixture w. With t_a = wᵀκ̃_a, u_a = 2t_a + f̃_a changes both g_s and
/// L(w)/w_s, and v_a = 2κ̃_as + f̃_a changes L(e_s).
struct Own {
    t: Vec<f64>,
    u: Vec<f64>,
    v: Vec<f64>,
}

/// The sums of squares and products that rare values of arm s add to those of u and v.
struct Rare {
    uu: f64,
    uv: f64,
    vv: f64,
}

/// The part of all rows that a sample of them leaves out.
#[derive(Clone, Debug)]
pub(crate) struct Unsampled {
    /// Per arm, 1 − sampled rows/rows.
    pub(crate) arms: Vec<f64>,
    /// The same for the reference.
    pub(crate) reference: f64,
}

impl Influences<'_> {
    /// The variances that sampling causes in the loss of a mixture, and in the loss of one arm minus that: differences to the
    /// values of all rows, from which the samples were drawn without replacement. `constant` has, for each row of the reference,
    /// its contribution to the constant of the loss.
    pub(crate) fn sampling_variances(
        &self,
        weights: &[f64],
        arm: usize,
        unsampled: &Unsampled,
        constant: &[f64],
    ) -> (f64, f64) {
        let m = self.arms();
        let (_, gains) = self.variances_by_arm(weights);
        let (mut loss, mut gain) = (0.0, 0.0);
        for (s, &w) in weights.iter().enumerate() {
            let own = self.own(s, weights);
            let variance = self.factors[s] * dot(&own.u, &own.u) + self.rare_at(s, weights).uu;
            loss += unsampled.arms[s] * w * w * variance;
            gain += unsampled.arms[s] * gains[arm * m + s];
        }
        if self.reference.rows() > 0 {
            let mixed = self.reference.apply(weights);
            let mean = constant.iter().sum::<f64>() / constant.len().max(1) as f64;
            let mut values = mixed.clone();
            values.iter_mut().zip(constant).for_each(|(value, own)| *value += own - mean);
            let single: Vec<f64> =
                self.reference.column(arm).iter().zip(&mixed).map(|(single, mixed)| single - mixed).collect();
            let factor = unsampled.reference * variance_factor(values.len());
            loss += factor * dot(&values, &values);
            gain += factor * dot(&single, &single);
        }
        (loss, gain)
    }

    /// The covariance of the gradient 2K̂w + f̂, row by row.
    pub fn gradient_covariance(&self, weights: &[f64]) -> Vec<f64> {
        let (arms, joint) = (self.arms(), self.joint_covariance(weights, GradientKind::Gradient));
        (0..arms * arms).map(|at| joint.at(at / arms, at % arms)).collect()
    }

    /// The covariance of 2m estimates at a mixture: the gradient 2K̂w + f̂, then the loss of every arm minus that of
    /// the mixture.
    pub fn covariance_at(&self, weights: &[f64]) -> Matrix {
        self.joint_covariance(weights, GradientKind::Gradient)
    }

    /// The covariance of 2m estimates at a mixture: the gradient (or the slopes toward the arms), then the loss of
    /// every arm minus that of the mixture.
    ///
    /// A sample a of arm s changes gᵢ by 2w_s κ̃_ai + [i = s] u_a and L(eᵢ) − L(w) by [i = s] v_a − w_s u_a. So only
    /// arms with a positive weight need a product of matrices, of n_s rows; for the others three sums are enough.
    pub(crate) fn joint_covariance(&self, weights: &[f64], kind: GradientKind) -> Matrix {
        let m = self.arms();
        assert_eq!(weights.len(), m, "a weight per arm");
        // Blocks of the result: gradient × gradient, gradient × gain, gain × gain. The part that all gains share is
        // added at the end.
        let (mut gradient, mut cross, mut gains) = (Matrix::zeros(m, m), Matrix::zeros(m, m), vec![0.0; m]);
        let (mut cross_common, mut gain_common, mut common) = (vec![0.0; m], vec![0.0; m], 0.0);
        let mut rare_gradient = Matrix::zeros(m, m);
        let mut rare_cross = Matrix::zeros(m, m);
        let mut rare_common = vec![0.0; m];
        for (s, &w) in weights.iter().enumerate() {
            let (own, factor) = (self.own(s, weights), self.factors[s]);
            let (uu, uv, vv) =
                (factor * dot(&own.u, &own.u), factor * dot(&own.u, &own.v), factor * dot(&own.v, &own.v));
            if w == 0.0 {
                *gradient.at_mut(s, s) += uu;
                *cross.at_mut(s, s) += uv;
            } else {
                let mut block = self.centred(s);
                self.to_gradient(&mut block, s, weights, &own, kind);
                gradient.add(factor, &block.transposed_times(&block));
                let (with_u, with_v) = (block.apply_transposed(&own.u), block.apply_transposed(&own.v));
                for i in 0..m {
                    *cross.at_mut(i, s) += factor * with_v[i];
                    cross_common[i] -= factor * w * with_u[i];
                }
            }
            let rare = self.rare_at(s, weights);
            gains[s] += vv + rare.vv;
            gain_common[s] -= w * (uv + rare.uv);
            common += w * w * (uu + rare.uu);
            // The same for rare values, whose parts are independent.
            let parts = self.rare_of(s);
            *rare_gradient.at_mut(s, s) += rare.uu;
            *rare_cross.at_mut(s, s) += 4.0 * w * parts[s] + rare.uv;
            rare_common[s] -= w * rare.uu;
            if w != 0.0 {
                for j in 0..m {
                    let with_u = 4.0 * w * parts[j] * weights[j];
                    *rare_gradient.at_mut(j, j) += 4.0 * w * w * parts[j];
                    *rare_gradient.at_mut(j, s) += with_u;
                    *rare_gradient.at_mut(s, j) += with_u;
                    rare_common[j] -= w * with_u;
                }
            }
        }
        if kind == GradientKind::Toward {
            let means = rare_gradient.apply(weights);
            let mean = dot(&means, weights);
            let cross_means = rare_cross.apply_transposed(weights);
            let common_mean = dot(&rare_common, weights);
            for j in 0..m {
                for i in 0..m {
                    *rare_gradient.at_mut(i, j) += mean - means[i] - means[j];
                    *rare_cross.at_mut(i, j) -= cross_means[j];
                }
            }
            rare_common.iter_mut().for_each(|value| *value -= common_mean);
        }
        gradient.add(1.0, &rare_gradient);
        cross.add(1.0, &rare_cross);
        let mut joint = Matrix::from_fn(2 * m, 2 * m, |i, j| match (i < m, j < m) {
            (true, true) => gradient.at(i, j),
            (true, false) => cross.at(i, j - m) + cross_common[i] + rare_common[i],
            (false, true) => cross.at(j, i - m) + cross_common[j] + rare_common[j],
            (false, false) => {
                let own = if i == j { gains[i - m] } else { 0.0 };
                own + gain_common[i - m] + gain_common[j - m] + common
            }
        });
        self.add_reference(&mut joint, weights, kind);
        for frequencies in &self.frequencies {
            let covariance = frequencies.covariance(weights, kind);
            joint.add(1.0, &covariance);
        }
        joint
    }

    /// The variances of the slopes from a mixture toward each arm, and of the loss of every arm minus that of the
    /// mixture, split by the arm whose samples cause them: entry i·m + s of each. The reference is treated as fixed.
    pub(crate) fn variances_by_arm(&self, weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let m = self.arms();
        let (mut toward, mut gains) = (vec![0.0; m * m], vec![0.0; m * m]);
        for (s, &w) in weights.iter().enumerate() {
            let (own, factor, rare) = (self.own(s, weights), self.factors[s], self.rare_at(s, weights));
            let parts = self.rare_of(s);
            let weighted: f64 = parts.iter().zip(weights).map(|(part, weight)| part * weight * weight).sum();
            for i in (0..m).filter(|&i| i == s || w != 0.0) {
                let is_own = f64::from(u8::from(i == s));
                // 2w κ̃_ai + [i = s] u_a − w(2t_a + u_a)
                let mut squares = 0.0;
                let mut at = 0;
                self.for_each(s, i, |kappa| {
                    let value = 2.0 * w * kappa + is_own * own.u[at] - w * (2.0 * own.t[at] + own.u[at]);
                    squares += value * value;
                    at += 1;
                });
                let q = 2.0 * is_own - 4.0 * w;
                let floor = weighted * q * q
                    + 4.0 * w * parts[i] * weights[i] * q
                    + 4.0 * w * w * parts[i]
                    + parts[m] * (is_own - w).powi(2);
                toward[i * m + s] = factor * squares + floor;
                let gain = |a: usize| is_own * own.v[a] - w * own.u[a];
                let squares: f64 = (0..own.u.len()).map(|a| gain(a).powi(2)).sum();
                let floor = is_own * (rare.vv - 2.0 * w * rare.uv) + w * w * rare.uu;
                gains[i * m + s] = factor * squares + floor.max(0.0);
            }
        }
        (toward, gains)
    }

    /// The variances of the slopes from a mixture toward each arm, including the contribution of the reference.
    pub(crate) fn toward_variances(&self, weights: &[f64]) -> Vec<f64> {
        let m = self.arms();
        let (toward, _) = self.variances_by_arm(weights);
        let means = self.reference.apply(weights);
        let factor = if means.is_empty() { 0.0 } else { self.reference_factor() };
        let of_rows = |arm: usize| {
            let values = self.reference.column(arm).iter().zip(&means);
            factor * values.map(|(value, mean)| (value - mean).powi(2)).sum::<f64>()
        };
        let of_frequencies =
            |arm: usize| self.frequencies.iter().map(|one| one.toward_variance(weights, arm)).sum::<f64>();
        (0..m)
            .map(|arm| toward[arm * m..(arm + 1) * m].iter().sum::<f64>() + of_rows(arm) + of_frequencies(arm))
            .collect()
    }

    fn own(&self, arm: usize, weights: &[f64]) -> Own {
        let t = self.along(arm, weights);
        let f = self.column(arm, self.arms());
        let u = t.iter().zip(&f).map(|(t, f)| 2.0 * t + f).collect();
        let v = self.column(arm, arm).iter().zip(&f).map(|(own, f)| 2.0 * own + f).collect();
        Own { t, u, v }
    }

    fn rare_at(&self, arm: usize, weights: &[f64]) -> Rare {
        let (parts, of_f) = (self.rare_of(arm), self.rare_of(arm)[self.arms()]);
        let weighted: f64 = parts.iter().zip(weights).map(|(part, weight)| part * weight * weight).sum();
        Rare { uu: 4.0 * weighted + of_f, uv: 4.0 * parts[arm] * weights[arm] + of_f, vv: 4.0 * parts[arm] + of_f }
    }

    /// Turns κ̃ of the samples of arm s into the influence of each on the gradient.
    fn to_gradient(&self, block: &mut Matrix, s: usize, weights: &[f64], own: &Own, kind: GradientKind) {
        let w = weights[s];
        for i in 0..weights.len() {
            let column = block.column_mut(i);
            column.iter_mut().for_each(|value| *value *= 2.0 * w);
            if i == s {
                column.iter_mut().zip(&own.u).for_each(|(value, u)| *value += u);
            }
            if kind == GradientKind::Toward {
                let means = own.t.iter().zip(&own.u);
                column.iter_mut().zip(means).for_each(|(value, (t, u))| *value -= w * (2.0 * t + u));
            }
        }
    }

    /// Adds the contribution of the reference's rows, which influence only f̂.
    fn add_reference(&self, joint: &mut Matrix, weights: &[f64], kind: GradientKind) {
        let (m, rows) = (self.arms(), self.reference.rows());
        if rows == 0 {
            return;
        }
        let means = self.reference.apply(weights);
        let relative = Matrix::from_fn(rows, m, |y, arm| self.reference.at(y, arm) - means[y]);
        let plain = if kind == GradientKind::Toward { &relative } else { &self.reference };
        let factor = self.reference_factor();
        let (gradient, cross) = (plain.transposed_times(plain), plain.transposed_times(&relative));
        let gains = relative.transposed_times(&relative);
        for j in 0..m {
            for i in 0..m {
                *joint.at_mut(i, j) += factor * gradient.at(i, j);
                *joint.at_mut(i, m + j) += factor * cross.at(i, j);
                *joint.at_mut(m + j, i) += factor * cross.at(i, j);
                *joint.at_mut(m + i, m + j) += factor * gains.at(i, j);
            }
        }
    }
}
