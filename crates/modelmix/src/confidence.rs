//! Confidence widths and bounds of the paper, as pure functions. `policy` decides which one is used.

/// The most that one sample can change the loss: the constants of every width in the paper.
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

/// ε(δ) of Theorem 1 for an arm with `count` samples: Δ_L·√(ln(1/δ) / 2n) + Δκ/n.
///
/// For fixed weights α and independent samples, L̂(α) − L(α) ≥ ε(δ)ᵀα has probability at most δ, and so has the other
/// side. The argument is `log_inverse` = ln(1/δ), so that tiny δ such as t^−β do not underflow.
pub fn width(sensitivity: Sensitivity, log_inverse: f64, count: usize) -> f64 {
    let n = count as f64;
    sensitivity.loss * (log_inverse / (2.0 * n)).sqrt() + sensitivity.kappa / n
}

/// ε of Mixture-UCB (equation eps_vec), Theorem 1's width at δ = t^−β: Δ_L·√(β ln t / 2n) + Δκ/n.
pub fn mixture_ucb_width(sensitivity: Sensitivity, beta: f64, rounds: usize, count: usize) -> f64 {
    width(sensitivity, beta * (rounds as f64).ln(), count)
}

/// The variance per arm of one sample's contribution to the gradient, from the scatter of the held samples. Each
/// variance is shrunk toward the pooled variance of all arms, which counts as two samples. Zero if no arm has two
/// samples.
pub fn pooled_variances(scatter: &[f64], counts: &[usize]) -> Vec<f64> {
    let freedom: usize = counts.iter().map(|count| count.saturating_sub(1)).sum();
    let pool = if freedom == 0 { 0.0 } else { scatter.iter().sum::<f64>() / freedom as f64 };
    scatter.iter().zip(counts).map(|(ss, &n)| ((ss + 2.0 * pool) / (n + 1) as f64).max(0.0)).collect()
}

/// The width of the adaptive policy: √(v ln⁺(t/(m n)) / n). It needs no range, because v is estimated from the data.
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
    fn variances_shrink_toward_the_pool() {
        // scatter 8 over 3 degrees and 1 over 1 degree: pool 9/4
        let variances = pooled_variances(&[8.0, 1.0, 0.0], &[4, 2, 1]);
        assert_eq!(variances, [(8.0 + 4.5) / 5.0, (1.0 + 4.5) / 3.0, 4.5 / 2.0]);
        assert_eq!(pooled_variances(&[0.0, 0.0], &[1, 1]), [0.0, 0.0]);
    }
}
