//! Properties of metrics for any data: symmetries, the meaning of weights, bounds, and the same bits on any number of
//! threads.

use modelmix::compute::{Cpu, Double, Engine, Reference};
use modelmix::metrics::{
    Extrapolation, KidSettings, Neighbourhoods, Pool, cmmd, fid, fid_estimate, fid_infinity, kid, kid_kernel, mmd,
    prdc, rke, vendi, vendi_estimate,
};
use modelmix::policy::Random;
use modelmix::{Features, Kernel};
use proptest::prelude::*;

use super::{cloud, normal, relative};
use crate::config;

const ORDERS: [f64; 5] = [0.5, 1.0, 1.5, 2.0, f64::INFINITY];
const COSINE: Kernel = Kernel::Cosine { power: 1 };
const GAUSSIAN: Kernel = Kernel::Gaussian { bandwidth: 1.5 };

/// Rows of multiples of 1/64: sums of integers and products with powers of two are exact, and so are squared distances.
fn grid(rows: usize, width: usize, random: &mut Random) -> Features {
    let mut value = || ((64.0 * (normal(random) + 0.5)).round() / 64.0) as f32;
    Features::from_rows((0..rows).map(|_| (0..width).map(|_| value()).collect::<Vec<_>>())).unwrap()
}

fn moved(features: &Features, change: impl Fn(usize, f32) -> f32) -> Features {
    let values = features.values().iter().enumerate().map(|(at, &value)| change(at % features.width(), value));
    Features::new(features.width(), values.collect()).unwrap()
}

fn joined<'a>(sets: impl IntoIterator<Item = &'a Features>) -> Features {
    Features::from_rows(sets.into_iter().flat_map(|set| set.view().iter())).unwrap()
}

/// Metrics that depend only on rows and their weights, not on how they are split into sets.
fn of_rows(pool: &Pool<'_>, reference: &Features, backend: &Engine) -> Vec<(String, f64)> {
    let neighbourhoods = Neighbourhoods::default().neighbours(3).closed(false);
    let scores = prdc(pool, reference, &neighbourhoods, backend).unwrap();
    let mut found = vec![
        ("modes".into(), rke(pool, &GAUSSIAN, backend).unwrap().modes.value),
        ("biased mmd".into(), mmd(pool, reference, &GAUSSIAN, backend).unwrap().biased.value),
        ("cmmd".into(), cmmd(pool, reference, backend).unwrap().value),
        ("precision".into(), scores.precision.value),
        ("recall".into(), scores.recall.value),
        ("density".into(), scores.density.value),
        ("coverage".into(), scores.coverage.value),
    ];
    for order in ORDERS {
        for kernel in [COSINE, GAUSSIAN] {
            found.push((format!("vendi {order}, {kernel}"), vendi(pool, &kernel, order, backend).unwrap()));
        }
    }
    found
}

/// All metrics, including errors.
fn everything(pool: &Pool<'_>, reference: &Features, backend: &Engine) -> Vec<(String, f64)> {
    let mut found = of_rows(pool, reference, backend);
    let mut add = |name: &str, estimate: modelmix::metrics::Estimate| {
        found.extend([(name.to_string(), estimate.value), (format!("error of {name}"), estimate.standard_error)]);
    };
    add("entropy", rke(pool, &GAUSSIAN, backend).unwrap().entropy);
    add("unbiased mmd", mmd(pool, reference, &GAUSSIAN, backend).unwrap().unbiased);
    add("fid", fid_estimate(pool, reference, backend).unwrap());
    add("vendi", vendi_estimate(pool, &COSINE, 1.0, backend).unwrap());
    add("gaussian vendi", vendi_estimate(pool, &GAUSSIAN, 2.0, backend).unwrap());
    let scores = prdc(pool, reference, &Neighbourhoods::default(), backend).unwrap();
    add("precision of 5", scores.precision);
    add("recall of 5", scores.recall);
    add("density of 5", scores.density);
    add("coverage of 5", scores.coverage);
    for (subsets, size) in [(40, 20), (2, 5)] {
        let settings = KidSettings::default().subsets(subsets).size(size).seed(3);
        add("kid", kid(pool, reference, &kid_kernel(pool.width()), &settings, backend).unwrap());
    }
    let extrapolation = Extrapolation { points: 4, smallest: Some(10), seed: 5 };
    add("fid at infinity", fid_infinity(pool, reference, &extrapolation, backend).unwrap());
    found
}

fn same(found: &[(String, f64)], expected: &[(String, f64)], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for ((name, found), (_, expected)) in found.iter().zip(expected) {
        let error = (found - expected).abs();
        assert!(error <= tolerance * expected.abs().max(1e-3), "{name}: {found}, expected {expected}");
    }
}

/// Two to four sets of different sizes at different places.
fn parts(count: usize, width: usize, random: &mut Random) -> Vec<Features> {
    (0..count)
        .map(|_| {
            let centre: Vec<f64> = (0..width).map(|_| 2.0 * normal(random)).collect();
            cloud(5 + random.below(20), &centre, 0.3 + random.unit(), random)
        })
        .collect()
}

proptest! {
    #![proptest_config(config(24))]

    /// Sets with weights proportional to their numbers of rows are one set.
    #[test]
    fn equal_weights_are_one_set(seed: u64, count in 2usize..5, width in 1usize..7) {
        let mut random = Random::seeded(seed);
        let (parts, reference) = (parts(count, width, &mut random), cloud(30, &vec![0.5; width], 1.5, &mut random));
        let mixture = Pool::mixture(parts.iter().map(|part| (part, part.len() as f64))).unwrap();
        let whole = joined(&parts);
        relative("effective rows", mixture.effective_len(), whole.len() as f64, 1e-12);
        for backend in [&Engine::new(Double::new()), &Engine::new(Reference)] {
            let expected = of_rows(&Pool::of(&whole), &reference, backend);
            // Kernels near one cancel in cmmd.
            same(&of_rows(&mixture, &reference, backend), &expected, 1e-9);
        }
        // If the weights of sets counted, this would be another mixture.
        let other = Pool::mixture(parts.iter().zip([1.0, 9.0, 1.0, 1.0])).unwrap();
        prop_assert!((other.effective_len() - whole.len() as f64).abs() > 1e-3);
        let engine = Engine::new(Double::new());
        let modes = |pool: &Pool<'_>| rke(pool, &GAUSSIAN, &engine).unwrap().modes.value;
        prop_assert!((modes(&other) - modes(&mixture)).abs() > 1e-6);
    }

    /// Neither the scale of weights nor sets without weight matter.
    #[test]
    fn one_part_is_the_set(seed: u64, weight in 1e-3..1e3) {
        let mut random = Random::seeded(seed);
        let (samples, reference) = (cloud(40, &[0.0; 3], 1.0, &mut random), cloud(30, &[0.5; 3], 1.0, &mut random));
        let engine = Engine::new(Double::new());
        let expected = everything(&Pool::of(&samples), &reference, &engine);
        let pool = Pool::mixture([(&reference, 0.0), (&samples, weight)]).unwrap();
        prop_assert_eq!(everything(&pool, &reference, &engine), expected);
    }

    #[test]
    fn order_does_not_matter(seed: u64, count in 2usize..5) {
        let mut random = Random::seeded(seed);
        let (parts, reference) = (parts(count, 4, &mut random), cloud(30, &[0.5; 4], 1.5, &mut random));
        let weights: Vec<f64> = parts.iter().map(|_| 0.5 + random.unit()).collect();
        let mut shuffled = |set: &Features| set.select(random.sample(set.len(), set.len())).unwrap();
        let other: Vec<Features> = parts.iter().map(&mut shuffled).collect();
        let other_reference = shuffled(&reference);
        let engine = Engine::new(Double::new());
        let all = |parts: &[Features], weights: &[f64], reference: &Features| {
            let pool = Pool::mixture(parts.iter().zip(weights.iter().copied())).unwrap();
            let mut found = of_rows(&pool, reference, &engine);
            let (unbiased, fid) = (mmd(&pool, reference, &GAUSSIAN, &engine).unwrap().unbiased,
                                   fid_estimate(&pool, reference, &engine).unwrap());
            let numbers = [unbiased.value, unbiased.standard_error, fid.value, fid.standard_error];
            found.extend(numbers.map(|value| ("of sets".to_string(), value)));
            found
        };
        let expected = all(&parts, &weights, &reference);
        same(&all(&other, &weights, &other_reference), &expected, 1e-9);
        let backward = |list: &[Features]| list.iter().rev().cloned().collect::<Vec<_>>();
        let backward_weights: Vec<f64> = weights.iter().rev().copied().collect();
        same(&all(&backward(&parts), &backward_weights, &reference), &expected, 1e-9);
    }

    /// Distances depend neither on the origin nor on the unit.
    #[test]
    fn shifts_and_scales(seed: u64, by in prop::collection::vec(-40i8..40, 3)) {
        let mut random = Random::seeded(seed);
        let (samples, reference) = (grid(50, 3, &mut random), grid(40, 3, &mut random));
        let engine = Engine::new(Double::new());
        let shifted = |set: &Features| moved(set, |column, value| value + f32::from(by[column]));
        let scaled = |set: &Features| moved(set, |_, value| 8.0 * value);
        let distance = |x: &Features, y: &Features| fid(&Pool::of(x), y, &engine).unwrap();
        let discrepancy = |x: &Features, y: &Features, bandwidth: f64| {
            let found = mmd(&Pool::of(x), y, &Kernel::Gaussian { bandwidth }, &engine).unwrap();
            [found.biased.value, found.unbiased.value, found.unbiased.standard_error]
        };
        let holds = |x: &Features, y: &Features| prdc(&Pool::of(x), y, &Neighbourhoods::default(), &engine).unwrap();
        let (x, y) = (shifted(&samples), shifted(&reference));
        let expected = distance(&samples, &reference);
        relative("fid, shifted", distance(&x, &y), expected, 1e-9);
        relative("fid, turned round", distance(&reference, &samples), expected, 1e-9);
        prop_assert_eq!(holds(&x, &y), holds(&samples, &reference));
        prop_assert!(distance(&x, &reference) > expected || by.iter().all(|&by| by.abs() < 2));
        for (found, expected) in discrepancy(&x, &y, 1.0).into_iter().zip(discrepancy(&samples, &reference, 1.0)) {
            prop_assert!((found - expected).abs() <= 1e-12, "{found} {expected}");
        }
        let (x, y) = (scaled(&samples), scaled(&reference));
        relative("fid, scaled", distance(&x, &y), 64.0 * expected, 1e-9);
        prop_assert_eq!(holds(&x, &y), holds(&samples, &reference));
        for (found, expected) in discrepancy(&x, &y, 8.0).into_iter().zip(discrepancy(&samples, &reference, 1.0)) {
            prop_assert!((found - expected).abs() <= 1e-12, "{found} {expected}");
        }
    }

    #[test]
    fn vendi_is_a_number_of_samples(seed: u64, rows in 2usize..40, width in 1usize..9) {
        let mut random = Random::seeded(seed);
        let samples = cloud(rows, &vec![0.7; width], 1.0, &mut random);
        // Columns of zeros change no cosine, and make the matrix of samples the smaller one.
        let wide = Features::from_rows((0..rows).map(|row| [samples.row(row), &[0.0; 40]].concat())).unwrap();
        let (pool, engine) = (Pool::of(&samples), Engine::new(Double::new()));
        for kernel in [COSINE, GAUSSIAN, Kernel::Laplacian { bandwidth: 0.7 }] {
            let mut last = rows as f64 * (1.0 + 1e-12);
            for order in [0.1, 0.5, 0.9, 1.0, 1.2, 2.0, 3.0, 10.0, 1e3, 1e6, f64::INFINITY] {
                let found = vendi(&pool, &kernel, order, &engine).unwrap();
                prop_assert!(found >= 1.0 - 1e-12 && found <= last * (1.0 + 1e-9), "{kernel} {order}: {found} {last}");
                last = found;
                let padded = vendi_estimate(&Pool::of(&wide), &kernel, order, &engine).unwrap();
                let estimate = vendi_estimate(&pool, &kernel, order, &engine).unwrap();
                relative("vendi with columns of zeros", padded.value, found, 1e-9);
                let (error, other) = (estimate.standard_error, padded.standard_error);
                prop_assert!((error - other).abs() <= 1e-7 * found, "{kernel} {order}: error {error} {other}");
            }
            relative("order 2", vendi(&pool, &kernel, 2.0, &engine).unwrap(),
                rke(&pool, &kernel, &engine).unwrap().modes.value, 1e-12);
        }
        prop_assert!(vendi(&pool, &COSINE, 1.0, &engine).unwrap() <= width as f64 * (1.0 + 1e-12));
    }
}

/// Samples that have nothing in common count fully, for any order; and the score is continuous at order 1.
#[test]
fn orders_beyond_what_powers_can_hold() {
    let engine = Engine::new(Double::new());
    let apart = Features::from_rows((0..50u8).map(|row| [1e3 * f32::from(row)])).unwrap();
    for order in [0.01, 0.999, 1.0, 1.001, 200.0, 1e3, 1e9, f64::INFINITY] {
        let found = vendi_estimate(&Pool::of(&apart), &GAUSSIAN, order, &engine).unwrap();
        relative(&format!("vendi of order {order}"), found.value, 50.0, 1e-9);
        // Among equal eigenvalues none is the largest, and the score of order ∞ has no derivative.
        assert!(found.standard_error <= 1e-9 || order.is_infinite(), "{order}: {}", found.standard_error);
    }
    let samples = cloud(60, &[0.0; 3], 1.0, &mut Random::seeded(6));
    let of = |order: f64| vendi_estimate(&Pool::of(&samples), &GAUSSIAN, order, &engine).unwrap();
    let (one, largest) = (of(1.0), of(f64::INFINITY));
    for step in [1e-12, 1e-9, 1e-6] {
        for order in [1.0 - step, 1.0 + step] {
            relative(&format!("vendi of order {order}"), of(order).value, one.value, 1e-12 + 10.0 * step);
            relative(&format!("error at order {order}"), of(order).standard_error, one.standard_error, 1e-2);
        }
    }
    // (Σλ^q)^(1/(1−q)) lies between 1/max λ and its power q/(q−1).
    let high = of(1e6);
    relative("vendi of a high order", high.value, largest.value, 1e-5);
    relative("its error", high.standard_error, largest.standard_error, 1e-4);
}

/// Every row six times is the same distribution; only the errors, of six times as many rows, are smaller.
#[test]
fn copies_change_nothing() {
    let mut random = Random::seeded(1);
    let (samples, reference) = (cloud(30, &[0.5; 4], 1.0, &mut random), cloud(40, &[0.0; 4], 1.0, &mut random));
    let copies = samples.select((0..180).map(|row| row / 6)).unwrap();
    let engine = Engine::new(Double::new());
    let (once, often) = (Pool::of(&samples), Pool::of(&copies));
    let value = |pool: &Pool<'_>| {
        (rke(pool, &GAUSSIAN, &engine).unwrap().modes.value, mmd(pool, &reference, &GAUSSIAN, &engine).unwrap().biased)
    };
    relative("modes", value(&often).0, value(&once).0, 1e-12);
    relative("biased mmd", value(&often).1.value, value(&once).1.value, 1e-12);
    for kernel in [COSINE, GAUSSIAN, Kernel::Gaussian { bandwidth: 15.0 }] {
        for order in ORDERS {
            let [once, often] = [&once, &often].map(|pool| vendi_estimate(pool, &kernel, order, &engine).unwrap());
            relative("vendi", often.value, once.value, 1e-9);
            // Other engines round kernel values, which creates eigenvalues that low orders count.
            let rounded = vendi_estimate(&Pool::of(&copies), &kernel, order, &Engine::new(Cpu::new())).unwrap();
            relative("vendi", rounded.value, once.value, 1e-9);
            // Residues of zero eigenvalues limit errors of low orders to about ten digits.
            relative("vendi's error", often.standard_error, once.standard_error / 6f64.sqrt(), 1e-7);
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let mut random = Random::seeded(11);
    // More than a block, a task and a piece of every engine.
    let (large, reference) = (cloud(4500, &[0.4; 5], 1.0, &mut random), cloud(2500, &[0.5; 5], 1.2, &mut random));
    let (left, right) = (cloud(300, &[0.0; 20], 1.0, &mut random), cloud(270, &[0.3; 20], 1.0, &mut random));
    let small_reference = cloud(400, &[0.1; 20], 1.0, &mut random);
    let mixture = Pool::mixture([(&left, 0.3), (&right, 0.7)]).unwrap();
    let all = |backend: &Engine| {
        let mut found = everything(&mixture, &small_reference, backend);
        let pool = Pool::of(&large);
        let scores = prdc(&pool, &reference, &Neighbourhoods::default(), backend).unwrap();
        let distance = fid_estimate(&pool, &reference, backend).unwrap();
        let discrepancy = mmd(&pool, &reference, &GAUSSIAN, backend).unwrap();
        let settings = KidSettings::default().subsets(20).size(1000).seed(1);
        let subsets = kid(&pool, &reference, &kid_kernel(5), &settings, backend).unwrap();
        for estimate in [
            scores.precision,
            scores.recall,
            scores.density,
            scores.coverage,
            distance,
            subsets,
            discrepancy.biased,
            discrepancy.unbiased,
        ] {
            found.extend([estimate.value, estimate.standard_error].map(|value| ("large".to_string(), value)));
        }
        found.push(("large vendi".into(), vendi(&pool, &COSINE, 1.0, backend).unwrap()));
        found
    };
    let expected = [all(&Engine::new(Double::with_threads(1))), all(&Engine::new(Cpu::with_threads(1)))];
    assert!(expected[0].iter().all(|(_, value)| value.is_finite()), "{:?}", expected[0]);
    assert_ne!(expected[0], expected[1], "two engines, one rounding");
    for threads in [2, 3] {
        let found = [all(&Engine::new(Double::with_threads(threads))), all(&Engine::new(Cpu::with_threads(threads)))];
        assert_eq!(found, expected, "{threads} threads");
    }
}
