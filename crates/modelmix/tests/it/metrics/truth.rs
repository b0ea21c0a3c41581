//! Metrics of samples from known distributions: standard errors match the scatter of values, draws from mixtures match
//! weighted pools, the extrapolated Fréchet distance removes the bias, and KID's subsets match plain loops.

use modelmix::compute::{Cpu, Double, Engine};
use modelmix::metrics::{
    Estimate, Extrapolation, KidSettings, Neighbourhoods, NumPyRandom, Pool, fid, fid_estimate, fid_infinity, kid,
    kid_kernel, mmd, prdc, rke, vendi_estimate,
};
use modelmix::policy::Random;
use modelmix::{Features, Kernel};

use super::{cloud, relative};

const GAUSSIAN: Kernel = Kernel::Gaussian { bandwidth: 2.0 };
const REPEATS: usize = 200;

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (values.len() - 1) as f64).sqrt())
}

/// The standard deviation of values over `REPEATS` draws, divided by the mean standard error that they report.
fn ratio(estimate: impl Fn(&mut Random) -> Estimate) -> f64 {
    let estimates: Vec<Estimate> =
        (0..REPEATS).map(|repeat| estimate(&mut Random::stream(17, repeat as u64))).collect();
    let deviation = mean_and_deviation(&estimates.iter().map(|estimate| estimate.value).collect::<Vec<_>>()).1;
    deviation / (estimates.iter().map(|estimate| estimate.standard_error).sum::<f64>() / REPEATS as f64)
}

/// The standard deviation of 200 normal values has an error of a twentieth, and of more than a fifth once in 15,000
/// times.
const FITS: std::ops::Range<f64> = 0.8..1.25;

fn scatter(what: &str, estimate: impl Fn(&mut Random) -> Estimate) {
    let ratio = ratio(estimate);
    assert!(FITS.contains(&ratio), "{what}: values scatter {ratio} times as much as they say");
}

#[test]
fn errors_of_rke() {
    let engine = Engine::new(Double::new());
    let set = |random: &mut Random| cloud(150, &[0.5; 3], 1.0, random);
    scatter("modes", |random| rke(&Pool::of(&set(random)), &GAUSSIAN, &engine).unwrap().modes);
    // Control: errors of twice as many samples.
    let other = ratio(|random| {
        let (few, many) = (set(random), cloud(300, &[0.5; 3], 1.0, random));
        let standard_error = rke(&Pool::of(&many), &GAUSSIAN, &engine).unwrap().modes.standard_error;
        Estimate { standard_error, ..rke(&Pool::of(&few), &GAUSSIAN, &engine).unwrap().modes }
    });
    assert!(!FITS.contains(&other), "{other}");
    scatter("entropy", |random| rke(&Pool::of(&set(random)), &GAUSSIAN, &engine).unwrap().entropy);
    scatter("modes of a mixture", |random| {
        let (left, right) = (set(random), cloud(60, &[-1.0; 3], 2.0, random));
        rke(&Pool::mixture([(&left, 0.4), (&right, 0.6)]).unwrap(), &GAUSSIAN, &engine).unwrap().modes
    });
}

#[test]
fn errors_of_mmd() {
    let engine = Engine::new(Double::new());
    scatter("unbiased mmd", |random| {
        let (samples, reference) = (cloud(150, &[0.5; 3], 1.0, random), cloud(100, &[0.0; 3], 1.0, random));
        mmd(&Pool::of(&samples), &reference, &GAUSSIAN, &engine).unwrap().unbiased
    });
    scatter("biased mmd of a mixture", |random| {
        let (left, right) = (cloud(100, &[1.0; 3], 1.0, random), cloud(50, &[-1.0; 3], 1.0, random));
        let reference = cloud(120, &[0.3; 3], 2.0, random);
        mmd(&Pool::mixture([(&left, 0.3), (&right, 0.7)]).unwrap(), &reference, &GAUSSIAN, &engine).unwrap().biased
    });
}

#[test]
fn errors_of_fid() {
    let engine = Engine::new(Double::new());
    scatter("fid", |random| {
        let (samples, reference) = (cloud(400, &[0.6; 4], 1.3, random), cloud(300, &[0.0; 4], 1.0, random));
        fid_estimate(&Pool::of(&samples), &reference, &engine).unwrap()
    });
    scatter("fid of a mixture", |random| {
        let (left, right) = (cloud(300, &[1.5; 4], 0.7, random), cloud(150, &[-1.0; 4], 1.0, random));
        let reference = cloud(400, &[0.5; 4], 1.0, random);
        fid_estimate(&Pool::mixture([(&left, 0.3), (&right, 0.7)]).unwrap(), &reference, &engine).unwrap()
    });
}

#[test]
fn errors_of_vendi() {
    let engine = Engine::new(Double::new());
    let set = |rows: usize, random: &mut Random| cloud(rows, &[1.0, 0.5, 0.0, 0.0], 0.7, random);
    for order in [0.5, 1.0, f64::INFINITY] {
        scatter(&format!("vendi {order}"), |random| {
            vendi_estimate(&Pool::of(&set(200, random)), &Kernel::Cosine { power: 1 }, order, &engine).unwrap()
        });
    }
    scatter("vendi of a mixture by its kernel matrix", |random| {
        let (left, right) = (set(50, random), cloud(40, &[-1.0; 4], 1.0, random));
        let pool = Pool::mixture([(&left, 0.7), (&right, 0.3)]).unwrap();
        vendi_estimate(&pool, &GAUSSIAN, 1.0, &engine).unwrap()
    });
}

/// One set is redrawn repeatedly, the other is fixed.
#[test]
fn errors_of_precision_and_recall() {
    let engine = Engine::new(Double::new());
    let neighbourhoods = Neighbourhoods::default().neighbours(3).closed(false);
    let fixed = cloud(100, &[0.0; 3], 1.0, &mut Random::seeded(3));
    let of = |samples: &Pool<'_>, reference: &Features| prdc(samples, reference, &neighbourhoods, &engine).unwrap();
    scatter("precision", |random| of(&Pool::of(&cloud(150, &[0.5; 3], 1.0, random)), &fixed).precision);
    scatter("density", |random| of(&Pool::of(&cloud(150, &[0.5; 3], 1.0, random)), &fixed).density);
    scatter("precision of a mixture", |random| {
        let (left, right) = (cloud(100, &[1.0; 3], 1.0, random), cloud(60, &[0.0; 3], 1.5, random));
        of(&Pool::mixture([(&left, 0.3), (&right, 0.7)]).unwrap(), &fixed).precision
    });
    scatter("recall", |random| of(&Pool::of(&fixed), &cloud(150, &[0.5; 3], 1.0, random)).recall);
    scatter("coverage", |random| of(&Pool::of(&fixed), &cloud(150, &[0.5; 3], 1.0, random)).coverage);
}

/// Samples drawn from a mixture have its scores, on average over 30 draws: four standard errors are exceeded once in
/// 5,000 times. The same sets with other weights have other scores.
#[test]
fn draws_have_the_scores_of_the_mixture() {
    let mut random = Random::seeded(8);
    let sets = [([0.0; 3], 0.7), ([1.0; 3], 1.0), ([-1.5; 3], 0.5)]
        .map(|(centre, spread)| cloud(600, &centre, spread, &mut random));
    let reference = cloud(500, &[0.2; 3], 1.0, &mut random);
    let mixed = |weights: [f64; 3]| Pool::mixture(sets.iter().zip(weights)).unwrap();
    let engine = Engine::new(Double::new());
    let scores = |pool: &Pool<'_>| {
        let (modes, samples) = (rke(pool, &GAUSSIAN, &engine).unwrap().modes.value, pool.effective_len());
        let neighbourhoods = Neighbourhoods::default().neighbours(3).closed(false);
        let held = prdc(pool, &reference, &neighbourhoods, &engine).unwrap();
        [
            // Self-pairs are removed: they count more if samples are fewer.
            (samples / modes - 1.0) / (samples - 1.0),
            mmd(pool, &reference, &GAUSSIAN, &engine).unwrap().unbiased.value,
            held.precision.value,
            held.density.value,
        ]
    };
    let pool = mixed([0.5, 0.3, 0.2]);
    let drawn: Vec<[f64; 4]> = (0..30).map(|seed| scores(&Pool::of(&pool.draw(500, seed).unwrap()))).collect();
    let other = scores(&mixed([0.3, 0.3, 0.4]));
    for (index, (expected, other)) in scores(&pool).into_iter().zip(other).enumerate() {
        let (mean, deviation) = mean_and_deviation(&drawn.iter().map(|scores| scores[index]).collect::<Vec<_>>());
        let error = deviation / 30f64.sqrt();
        assert!((mean - expected).abs() <= 4.0 * error, "{index}: {mean} ± {error}, expected {expected}");
        assert!((mean - other).abs() > 4.0 * error, "{index}: {mean} ± {error} is other weights' {other}");
    }
}

/// Points on the axes: a reference with mean 0 and exactly this on the diagonal of its covariance.
fn axes(width: usize, variance: f64) -> Features {
    let count = 2 * width * 10;
    let at = ((count - 1) as f64 * variance / 20.0).sqrt() as f32;
    let row = |index: usize| {
        let mut row = vec![0.0f32; width];
        row[index / 2 % width] = if index.is_multiple_of(2) { at } else { -at };
        row
    };
    Features::from_rows((0..count).map(row)).unwrap()
}

/// The distance between a standard normal distribution and the axes is Σ(1 − √v)². That of samples is too large; the
/// extrapolated one is not, up to four standard errors over 60 repeats.
#[test]
fn extrapolation_takes_off_the_bias() {
    let (width, variance, engine) = (6, 1.5, Engine::new(Double::with_threads(1)));
    let reference = axes(width, variance);
    let truth = width as f64 * (1.0 - f64::sqrt(variance)).powi(2);
    let (mut plain, mut extrapolated) = (Vec::new(), Vec::new());
    for repeat in 0..60 {
        let samples = cloud(300, &vec![0.0; width], 1.0, &mut Random::stream(5, repeat));
        let pool = Pool::of(&samples);
        plain.push(fid(&pool, &reference, &engine).unwrap());
        let extrapolation = Extrapolation { points: 10, smallest: Some(60), seed: repeat };
        extrapolated.push(fid_infinity(&pool, &reference, &extrapolation, &engine).unwrap().value);
    }
    let (plain, plain_deviation) = mean_and_deviation(&plain);
    let (found, deviation) = mean_and_deviation(&extrapolated);
    let errors = [plain_deviation, deviation].map(|deviation| deviation / 60f64.sqrt());
    assert!((found - truth).abs() < 0.5 * (plain - truth).abs(), "{found} and {plain}, in truth {truth}");
    assert!((found - truth).abs() <= 4.0 * errors[1], "{found} ± {}, in truth {truth}", errors[1]);
    assert!((plain - truth).abs() > 4.0 * errors[0], "{plain} ± {} has no bias to take off", errors[0]);
}

/// The line by the normal equations, through distances of the same draws.
#[test]
fn extrapolation_is_a_line() {
    let mut random = Random::seeded(2);
    let (left, right) = (cloud(90, &[0.0; 3], 1.0, &mut random), cloud(80, &[1.0; 3], 0.5, &mut random));
    let reference = cloud(100, &[0.5; 3], 1.0, &mut random);
    let engine = Engine::new(Double::new());
    for pool in [Pool::of(&left), Pool::mixture([(&left, 0.4), (&right, 0.6)]).unwrap()] {
        let most = pool.largest_draw();
        for (points, smallest) in [(3, Some(20)), (7, None)] {
            let least = smallest.unwrap_or(most / 2);
            let mut seeds = Random::seeded(77);
            let line: Vec<(f64, f64)> = (0..points)
                .map(|point| {
                    let size = least + (most - least) * point / (points - 1);
                    let drawn = pool.draw(size, seeds.below(usize::MAX) as u64).unwrap();
                    (1.0 / size as f64, fid(&Pool::of(&drawn), &reference, &engine).unwrap())
                })
                .collect();
            let sum = |of: &dyn Fn(f64, f64) -> f64| line.iter().map(|&(x, y)| of(x, y)).sum::<f64>();
            let n = points as f64;
            let determinant = n * sum(&|x, _| x * x) - sum(&|x, _| x).powi(2);
            let value = (sum(&|x, _| x * x) * sum(&|_, y| y) - sum(&|x, _| x) * sum(&|x, y| x * y)) / determinant;
            let slope = (n * sum(&|x, y| x * y) - sum(&|x, _| x) * sum(&|_, y| y)) / determinant;
            let residual = sum(&|x, y| (y - value - slope * x).powi(2)) / (n - 2.0);
            let found =
                fid_infinity(&pool, &reference, &Extrapolation { points, smallest, seed: 77 }, &engine).unwrap();
            relative("the intercept", found.value, value, 1e-9);
            relative("its error", found.standard_error, (residual * sum(&|x, _| x * x) / determinant).sqrt(), 1e-9);
        }
    }
}

/// Few subsets are computed separately, many from all pairs at once.
#[test]
fn subsets_of_kid_both_ways() {
    let mut random = Random::seeded(4);
    for (left_rows, right_rows, reference_rows, size, subsets) in [(40, 20, 50, 30, 60), (150, 120, 260, 20, 3)] {
        let (left, right) =
            (cloud(left_rows, &[0.5; 8], 1.0, &mut random), cloud(right_rows, &[-0.5; 8], 1.0, &mut random));
        let reference = cloud(reference_rows, &[0.2; 8], 1.2, &mut random);
        let pooled = Features::from_rows(left.view().iter().chain(right.view().iter())).unwrap();
        let settings = KidSettings::default().subsets(subsets).size(size).seed(9);
        // A subset has half of its samples from either set, or all of them from one.
        let mixture = Pool::mixture([(&left, 1.0), (&right, 1.0)]).unwrap();
        for (pool, sets) in [
            (mixture, vec![(0, left_rows, size / 2), (left_rows, right_rows, size / 2)]),
            (Pool::of(&left), vec![(0, left_rows, size)]),
        ] {
            let mut draws = NumPyRandom::seeded(9);
            let drawn: Vec<(Vec<usize>, Vec<usize>)> = (0..subsets)
                .map(|_| {
                    let samples = sets.iter().flat_map(|&(first, rows, count)| {
                        draws.choice(rows, count).into_iter().map(move |row| first + row).collect::<Vec<_>>()
                    });
                    (samples.collect(), draws.choice(reference_rows, size))
                })
                .collect();
            for kernel in [kid_kernel(8), GAUSSIAN] {
                let value = |x: &[f32], y: &[f32]| -> f64 {
                    let pairs = || x.iter().zip(y).map(|(&x, &y)| (f64::from(x), f64::from(y)));
                    match kernel {
                        Kernel::Gaussian { .. } => (-pairs().map(|(x, y)| (x - y).powi(2)).sum::<f64>() / 8.0).exp(),
                        _ => (pairs().map(|(x, y)| x * y).sum::<f64>() / 8.0 + 1.0).powi(3),
                    }
                };
                let values: Vec<f64> = drawn
                    .iter()
                    .map(|(x, y)| {
                        let (mut within, mut between) = (0.0, 0.0);
                        for i in 0..size {
                            for j in 0..size {
                                if i != j {
                                    within += value(pooled.row(x[i]), pooled.row(x[j]));
                                    within += value(reference.row(y[i]), reference.row(y[j]));
                                }
                                between += value(pooled.row(x[i]), reference.row(y[j]));
                            }
                        }
                        within / (size * (size - 1)) as f64 - 2.0 * between / (size * size) as f64
                    })
                    .collect();
                let mean = values.iter().sum::<f64>() / subsets as f64;
                let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / subsets as f64;
                for (backend, tolerance) in [(&Engine::new(Double::new()), 1e-10), (&Engine::new(Cpu::new()), 1e-4)] {
                    let found = kid(&pool, &reference, &kernel, &settings, backend).unwrap();
                    relative("kid", found.value, mean, tolerance);
                    relative("kid's deviation", found.standard_error, variance.sqrt(), tolerance);
                }
            }
        }
    }
}
