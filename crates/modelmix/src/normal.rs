//! The normal distribution and its relatives: probabilities and quantiles, as pure functions.

use std::f64::consts::PI;

/// P(Z ≤ x) of a standard normal number, with small relative error in both tails.
pub(crate) fn probability(x: f64) -> f64 {
    if x < 0.0 { upper(-x) } else { 1.0 - upper(x) }
}

/// P(Z > x) for x ≥ 0: the series of Φ − ½ where it is short, the continued fraction of Mills' ratio beyond.
fn upper(x: f64) -> f64 {
    let density = (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
    if x > 3.0 {
        let fraction = (1..=80).rev().fold(x, |below, step| x + f64::from(step) / below);
        return density / fraction;
    }
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term > 1e-17 * sum {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 - density * sum
}

/// The x with P(Z ≤ x) = p: a rational start (Hastings), then Newton's method on ln P in the tail.
pub(crate) fn quantile(p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 {
        return if p <= 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    let t = (-2.0 * p.ln()).sqrt();
    let start =
        t - (2.515_517 + t * (0.802_853 + t * 0.010_328)) / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)));
    let mut x = -start.max(0.0);
    for _ in 0..4 {
        let reached = upper(-x);
        let density = (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
        x -= (reached / p).ln() * reached / density;
    }
    x
}

/// The value of Student's t, with so many degrees of freedom, that is exceeded as seldom as z of a normal number: Fisher and
/// Cornish's expansion, within 3% for five degrees or more and z up to 4.
pub(crate) fn student_quantile(z: f64, freedom: f64) -> f64 {
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * freedom)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * freedom.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * freedom.powi(3))
}

/// P(χ² > x) with so many degrees of freedom, up from 1 or 2 by steps of two: each adds (x/2)^(r/2) e^(−x/2) / Γ(r/2 + 1).
pub(crate) fn chi_square_tail(freedom: usize, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let half = x / 2.0;
    let (mut tail, mut term, mut reached) = if freedom % 2 == 1 {
        (2.0 * upper(x.sqrt()), (half / PI).sqrt() * 2.0 * (-half).exp(), 1)
    } else {
        ((-half).exp(), half * (-half).exp(), 2)
    };
    if freedom == 0 {
        return 0.0;
    }
    while reached < freedom {
        tail += term;
        reached += 2;
        term *= half / (reached as f64 / 2.0);
    }
    tail.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of tables (Abramowitz and Stegun 26.1, 26.8; tails by their asymptotic series in extended precision).
    #[test]
    fn as_in_tables() {
        for (x, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (-1.96, 0.024_997_895_148_220_435),
            (-6.0, 9.865_876_450_377e-10),
        ] {
            assert!((probability(x) / p - 1.0).abs() < 1e-11, "{x}: {}", probability(x));
        }
        for (p, x) in [(0.975, 1.959_963_984_540_054), (0.95, 1.644_853_626_951_472_2), (1e-6, -4.753_424_308_822_899)]
        {
            assert!((quantile(p) - x).abs() < 1e-9, "{p}: {}", quantile(p));
        }
        for (freedom, x, p) in [
            (1, 3.841_459, 0.05),
            (2, 5.991_465, 0.05),
            (4, 9.487_729, 0.05),
            (5, 15.086_272, 0.01),
            (7, 24.321_886, 0.001),
        ] {
            assert!((chi_square_tail(freedom, x) / p - 1.0).abs() < 1e-6, "{freedom}: {}", chi_square_tail(freedom, x));
        }
        // scipy.stats.t.ppf
        for (freedom, p, t) in [(9.0, 0.9995, 4.780_913), (9.0, 0.975, 2.262_157), (19.0, 0.9999, 4.589_865)] {
            let found = student_quantile(quantile(p), freedom);
            assert!((found / t - 1.0).abs() < 0.01, "{freedom}: {found}");
        }
        assert_eq!((chi_square_tail(3, 0.0), chi_square_tail(0, 1.0)), (1.0, 0.0));
    }
}
