//! Random Fourier features: the distribution of their error, and that orthogonal ones are no worse than independent
//! ones.

use super::*;

/// Two points at the distance for which k has this value, with σ = 1, in a direction along no axis.
fn pair(width: usize, k: f64) -> Vec<f32> {
    let distance = (-2.0 * k.ln()).sqrt();
    let raw: Vec<f64> = (0..width).map(|column| ((column * 7 % 5) as f64 - 1.7) * 0.3 + 1.0).collect();
    let length = raw.iter().map(|value| value * value).sum::<f64>().sqrt();
    let mut values = vec![0.5; width];
    values.extend(raw.iter().map(|value| (0.5 + distance * value / length) as f32));
    values
}

fn product(values: &[f64]) -> f64 {
    let (left, right) = values.split_at(values.len() / 2);
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}

/// k̂ by independent frequencies, implemented again.
fn independent(values: &[f32], width: usize, features: usize, random: &mut Random) -> f64 {
    let cosine = |random: &mut Random| {
        let phase: f64 =
            (0..width).map(|column| random.normal() * f64::from(values[width + column] - values[column])).sum();
        phase.cos()
    };
    (0..features / 2).map(|_| cosine(random)).sum::<f64>() / (features / 2) as f64
}

const SEEDS: u64 = 400;

/// The mean squared error of k̂ over draws, and its mean error: orthogonal, then independent.
fn errors(width: usize, features: usize, k: f64) -> [(f64, f64); 2] {
    let values = pair(width, k);
    let mut sums = [(0.0, 0.0); 2];
    for seed in 0..SEEDS {
        let map = GaussianFeatures::new(1.0, width, features, &mut Random::seeded(1000 + seed));
        assert_eq!((map.features(), map.width()), (features, width));
        let orthogonal = product(&map.map(&Engine::new(Cpu::with_threads(1)), Rows::new(width, &values)).unwrap());
        let plain = independent(&values, width, features, &mut Random::seeded(5000 + seed));
        for (sum, estimate) in sums.iter_mut().zip([orthogonal, plain]) {
            sum.0 += (estimate - k).powi(2) / SEEDS as f64;
            sum.1 += (estimate - k) / SEEDS as f64;
        }
    }
    sums
}

/// The mean square of 400 nearly normal errors is within 28% of its expectation except with probability 1e-4 (four
/// standard deviations of √(2/400)); their mean is within four standard errors. Some thirty comparisons: false failures
/// below 0.5%.
#[test]
fn errors_follow_the_law_and_orthogonal_ones_are_no_larger() {
    for (width, features) in [(16, 32), (16, 128), (16, 512), (64, 128)] {
        for k in [0.9f64, 0.6, 0.2] {
            let law = (1.0 - k * k).powi(2) / features as f64;
            let [(orthogonal, bias), (plain, _)] = errors(width, features, k);
            assert!((plain / law - 1.0).abs() < 0.28, "{width} {features} {k}: {plain} {law}");
            assert!(orthogonal < 1.28 * law, "{width} {features} {k}: {orthogonal} {law}");
            assert!(bias.abs() < 4.0 * (law / SEEDS as f64).sqrt(), "{width} {features} {k}: {bias}");
            if k == 0.9 {
                // If samples are alike, orthogonal frequencies are much better.
                assert!(orthogonal < 0.8 * plain, "{width} {features} {k}: {orthogonal} {plain}");
            }
        }
    }
}

#[test]
fn as_many_features_as_an_error_needs() {
    assert_eq!(features_for(0.02, &[1.0]), 2500);
    assert_eq!(features_for(0.05, &[0.5, 2.0]), 1700);
    assert_eq!(features_for(0.3, &[1.0]), 12, "1/0.09 = 11.1, in pairs");
    assert!(features_for(1e-30, &[1.0]) > 1 << 60);
}

#[test]
fn blocks_are_orthogonal_and_lengths_are_those_of_normal_vectors() {
    let (width, count) = (24, 60);
    let map = GaussianFeatures::new(0.5, width, 2 * count, &mut Random::seeded(4));
    // φ of tiny multiples of the axes gives the frequencies: sin(ω·εe)·√R ≈ ε·ω.
    let step = 1e-3f32;
    let axes: Vec<f32> = (0..width * width).map(|at| if at % (width + 1) == 0 { step } else { 0.0 }).collect();
    let features = map.map(&Engine::new(Reference), Rows::new(width, &axes)).unwrap();
    let frequency = |r: usize| -> Vec<f64> {
        (0..width)
            .map(|axis| features[axis * 2 * count + count + r] * (count as f64).sqrt())
            .map(|sine| sine.asin() / f64::from(step))
            .collect()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut squares = 0.0;
    for r in 0..count {
        let own = frequency(r);
        squares += dot(&own, &own) / count as f64;
        for other in (0..r).filter(|other| other / width == r / width) {
            let other = frequency(other);
            assert!(dot(&own, &other).abs() < 1e-5 * (dot(&own, &own) * dot(&other, &other)).sqrt());
        }
    }
    // E‖ω‖² = d/σ² = 96 with the standard deviation √(2d)/σ²/√R = 3.6: four of them.
    assert!((squares - 96.0).abs() < 15.0, "{squares}");
}

/// Engines give the same features, up to single precision.
#[test]
fn engines_agree() {
    let map = GaussianFeatures::new(3.0, 37, 130, &mut Random::seeded(2));
    let rows: Vec<f32> = (0..7 * 37).map(|at| ((at * 31 % 17) as f32 - 8.0) * 0.2).collect();
    let rows = Rows::new(37, &rows);
    let (fast, plain) =
        (map.map(&Engine::new(Cpu::new()), rows).unwrap(), map.map(&Engine::new(Reference), rows).unwrap());
    assert_eq!((fast.len(), plain.len()), (7 * 130, 7 * 130));
    assert!(fast.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-6));
    // The features of a row have length 1, so κ of a sample with itself is exact.
    for phi in plain.chunks_exact(130) {
        assert!((phi.iter().map(|value| value * value).sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
