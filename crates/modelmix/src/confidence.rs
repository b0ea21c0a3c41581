//! Confidence widths and bounds of the paper, as pure functions. Who uses which is left to `policy`.

/// How much the loss can change with one sample: the constants of every width in the paper.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sensitivity {
    /// Δ_L = 2Δκ + Δf, or a value tuned on validation data.
    pub loss: f64,
    /// Δκ.
    pub kappa: f64,
}

impl From<crate::loss::Ranges> for Sensitivity {
    fn from(ranges: crate::loss::Ranges) -> Self {
        Self { loss: ranges.sensitivity(), kappa: ranges.kappa_width() }
    }
}

/// ε(δ) of Theorem 1, for an arm with `count` samples: Δ_L·√(ln(1/δ) / 2n) + Δκ/n.
///
/// For fixed weights α and independent samples, L̂(α) − L(α) ≥ ε(δ)ᵀα has probability at most δ, and so has the other
/// side. Takes `log_inverse` = ln(1/δ), so that tiny δ such as t^−β do not underflow.
pub fn width(sensitivity: Sensitivity, log_inverse: f64, count: usize) -> f64 {
    let n = count as f64;
    sensitivity.loss * (log_inverse / (2.0 * n)).sqrt() + sensitivity.kappa / n
}

/// ε of Mixture-UCB (equation eps_vec), Theorem 1's width at δ = t^−β: Δ_L·√(β ln t / 2n) + Δκ/n.
pub fn mixture_ucb_width(sensitivity: Sensitivity, beta: f64, rounds: usize, count: usize) -> f64 {
    width(sensitivity, beta * (rounds as f64).ln(), count)
}

/// The width of Theorem 1 before it is made linear in α (its proof's last display but one):
/// Δ_L·√(ln(1/δ)/2 · Σα²/n) + Δκ·Σα²/n. Never wider than ε(δ)ᵀα. Arms without weight may have no samples.
pub fn joint_width(sensitivity: Sensitivity, log_inverse: f64, weights: &[f64], counts: &[usize]) -> f64 {
    let sum: f64 = weights
        .iter()
        .zip(counts)
        .filter(|(weight, _)| **weight > 0.0)
        .map(|(weight, &n)| weight * weight / n as f64)
        .sum();
    sensitivity.loss * (log_inverse / 2.0 * sum).sqrt() + sensitivity.kappa * sum
}

/// ln(1/δ′) of Lemma 1, to be used in [`width`]: with probability 1 − δ, |L − L̂|(α) ≤ εᵀα on one side for every α and
/// all counts up to `rounds` at once, when ln(1/δ′) = ln(m²T²/2δ).
pub fn uniform_log_inverse(arms: usize, rounds: usize, delta: f64) -> f64 {
    2.0 * (arms as f64 * rounds as f64).ln() - (2.0 * delta).ln()
}

/// Theorem 2: E[L(P̂_T)] − min L ≤ 4Δ_L·√(β m ln T / T) for Mixture-UCB-CAB, when m ≥ 2, β ≥ 4, T ≥ 2 and κ is positive
/// semidefinite.
pub fn regret_bound(sensitivity: Sensitivity, beta: f64, arms: usize, rounds: usize) -> f64 {
    theorem_2(4.0, sensitivity, beta, arms, rounds)
}

/// Theorem 2 with the constant that its proof reaches, 3.382 instead of 4 (for T > 40m; below that the bound is trivial).
pub fn sharper_regret_bound(sensitivity: Sensitivity, beta: f64, arms: usize, rounds: usize) -> f64 {
    theorem_2(3.382, sensitivity, beta, arms, rounds)
}

fn theorem_2(constant: f64, sensitivity: Sensitivity, beta: f64, arms: usize, rounds: usize) -> f64 {
    let t = rounds as f64;
    constant * sensitivity.loss * (beta * arms as f64 * t.ln() / t).sqrt()
}

/// The variance of one sample's share in the gradient, arm by arm, from the scatter of the samples held: each arm's own,
/// shrunk toward all arms' pooled variance as if two samples of it had been seen. Zero before any arm has two samples.
pub fn pooled_variances(scatter: &[f64], counts: &[usize]) -> Vec<f64> {
    let freedom: usize = counts.iter().map(|count| count.saturating_sub(1)).sum();
    let pool = if freedom == 0 { 0.0 } else { scatter.iter().sum::<f64>() / freedom as f64 };
    scatter.iter().zip(counts).map(|(ss, &n)| ((ss + 2.0 * pool) / (n + 1) as f64).max(0.0)).collect()
}

/// The width of the adaptive policy: √(v ln⁺(t/(m n)) / n). It needs no range: v comes from the data.
pub fn adaptive_width(variance: f64, arms: usize, rounds: usize, count: usize) -> f64 {
    let (m, t, n) = (arms as f64, rounds as f64, count as f64);
    (variance * (t / (m * n)).ln().max(0.0) / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Sensitivity = Sensitivity { loss: 2.0, kappa: 1.0 };

    #[test]
    fn widths_by_hand() {
        // Δ_L = 2, Δκ = 1, β = 4, t = e², n = 16: 2·√(8/32) + 1/16
        let by_hand = 2.0 * (4.0 * 2.0 / 32.0f64).sqrt() + 1.0 / 16.0;
        assert_eq!(width(UNIT, 8.0, 16), by_hand);
        assert_eq!(mixture_ucb_width(UNIT, 4.0, 1, 1), 1.0, "ln 1 = 0 leaves Δκ/n");
        // √(2·0.5·ln(100/25)/25)
        assert!((adaptive_width(0.5, 2, 200, 25) - (0.5 * 4.0f64.ln() / 25.0).sqrt()).abs() < 1e-15);
        assert_eq!(adaptive_width(0.5, 2, 50, 25), 0.0);
        assert_eq!(adaptive_width(0.5, 2, 50, 40), 0.0);
    }

    #[test]
    fn the_joint_width_is_never_wider() {
        let (weights, counts) = ([0.2, 0.5, 0.3], [3, 10, 7]);
        let linear: f64 = weights.iter().zip(counts).map(|(weight, n)| weight * width(UNIT, 3.0, n)).sum();
        assert!(joint_width(UNIT, 3.0, &weights, &counts) < linear);
        let alone = [0.0, 1.0, 0.0];
        assert!(
            (joint_width(UNIT, 3.0, &alone, &counts) - width(UNIT, 3.0, 10)).abs() < 1e-15,
            "equal on a single arm"
        );
    }

    #[test]
    fn variances_shrink_toward_the_pool() {
        // scatter 8 over 3 degrees and 1 over 1 degree: pool 9/4
        let variances = pooled_variances(&[8.0, 1.0, 0.0], &[4, 2, 1]);
        assert_eq!(variances, [(8.0 + 4.5) / 5.0, (1.0 + 4.5) / 3.0, 4.5 / 2.0]);
        assert_eq!(pooled_variances(&[0.0, 0.0], &[1, 1]), [0.0, 0.0]);
    }
}
