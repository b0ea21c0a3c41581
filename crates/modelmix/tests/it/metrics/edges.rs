//! Edge cases of metrics: a value if one is defined, otherwise a message with the input and the fix.
//! Draws from pools.

use modelmix::compute::{Cpu, Double, Engine};
use modelmix::metrics::{
    Extrapolation, KidSettings, LARGEST_MATRIX, Metric, Moments, Neighbourhoods, Pool, Prdc, ScoreSettings, Scorer,
    cmmd, fid, fid_estimate, fid_infinity, kid, kid_kernel, mmd, prdc, rke, vendi, vendi_estimate,
};
use modelmix::objective::Bandwidth;
use modelmix::policy::Random;
use modelmix::session::{KnownAs, SessionSettings};
use modelmix::{Features, Inputs, Kernel, KernelSpec, Objective, RecordedArm, RecordedArms, Result, Session};

use super::{cloud, relative};
use crate::faulty::Faulty;

const COSINE: Kernel = Kernel::Cosine { power: 1 };
const GAUSSIAN: Kernel = Kernel::Gaussian { bandwidth: 1.0 };
const ORDERS: [f64; 4] = [0.5, 1.0, 2.0, f64::INFINITY];

/// The error message contains all of these.
fn says<T>(result: Result<T>, parts: &[&str]) {
    let Err(error) = result else { panic!("no error that says {parts:?}") };
    let sentence = error.to_string();
    for part in parts {
        assert!(sentence.contains(part), "\"{sentence}\" does not say \"{part}\"");
    }
    assert!(!sentence.contains('\n') && !sentence.contains(". "), "\"{sentence}\" is more than a sentence");
}

fn rows<const WIDTH: usize>(rows: &[[f32; WIDTH]]) -> Features {
    Features::from_rows(rows).unwrap()
}

fn some(count: usize, width: usize, seed: u64) -> Features {
    cloud(count, &vec![0.5; width], 1.0, &mut Random::seeded(seed))
}

fn neighbourhoods(neighbours: usize) -> Neighbourhoods {
    Neighbourhoods::default().neighbours(neighbours).closed(false)
}

fn scores(found: &Prdc) -> [f64; 4] {
    [found.precision, found.recall, found.density, found.coverage].map(|estimate| estimate.value)
}

/// The score table sums RKE in single precision only if rounding is far below the standard error.
#[test]
fn rke_of_a_table_is_as_exact_as_its_standard_error() {
    let circle = Features::from_rows((0..8).map(|index| {
        let angle = f64::from(index) * std::f64::consts::FRAC_PI_4;
        [angle.cos() as f32, angle.sin() as f32, 0.3]
    }))
    .unwrap();
    let cpu = Engine::new(Cpu::with_threads(2));
    // Points of a circle have equal sums, so that the standard error is a rounding error; one sample has none.
    for (samples, is_single) in [(some(400, 5, 3), true), (circle, false), (rows(&[[0.5, 2.0]]), false)] {
        let spec = KernelSpec::Gaussian { bandwidth: Bandwidth::Fixed(1.0) };
        let settings = ScoreSettings::default().metrics(vec![Metric::Rke]).kernel(spec);
        let pool = Pool::of(&samples);
        let found = Scorer::new(settings, &[&samples], None, &cpu).unwrap().score(&pool).unwrap()[&Metric::Rke];
        let value = |x: &[f32], y: &[f32]| {
            let squared: f64 = x.iter().zip(y).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum();
            (-squared).exp()
        };
        let all = samples.view();
        let sum: f64 = all.iter().flat_map(|x| all.iter().map(move |y| value(x, y))).sum();
        let expected = (samples.len() as f64).powi(2) / sum;
        let engine = if is_single { cpu.clone() } else { cpu.precise() };
        assert_eq!(found.value, rke(&pool, &GAUSSIAN, &engine).unwrap().modes.value);
        let tolerance = if is_single { 0.01 * found.standard_error } else { 1e-13 * expected };
        assert!((found.value - expected).abs() <= tolerance, "{} instead of {expected}", found.value);
    }
}

#[test]
fn one_sample() {
    let (one, many, engine) = (rows(&[[0.5, 2.0]]), some(20, 2, 1), Engine::new(Double::new()));
    let pool = Pool::of(&one);
    for kernel in [GAUSSIAN, COSINE] {
        let found = rke(&pool, &kernel, &engine).unwrap();
        assert_eq!((found.modes.value, found.entropy.value), (1.0, 0.0));
        assert!(found.modes.standard_error.is_nan() && found.entropy.standard_error.is_nan());
        for order in ORDERS {
            relative("vendi", vendi(&pool, &kernel, order, &engine).unwrap(), 1.0, 1e-15);
        }
    }
    for pool in [pool.clone(), Pool::mixture([(&many, 1.0), (&one, 1.0)]).unwrap()] {
        says(fid(&pool, &many, &engine), &["the samples", "1 row", "at least 2", "record more"]);
        says(fid_estimate(&pool, &many, &engine), &["the samples", "1 row", "at least 2", "record more"]);
        says(mmd(&pool, &many, &GAUSSIAN, &engine), &["the samples", "1 row", "mmd", "at least 2", "record more"]);
        says(cmmd(&pool, &many, &engine), &["the samples", "1 row", "at least 2", "record more"]);
    }
    says(fid(&Pool::of(&many), &one, &engine), &["the reference", "1 row", "at least 2", "record more"]);
    says(mmd(&Pool::of(&many), &one, &GAUSSIAN, &engine), &["the reference", "1 row", "at least 2", "record more"]);
    says(Moments::of(one.view(), &engine), &["at least 2 samples", "there is 1", "record more"]);
    let settings = KidSettings::default();
    says(kid(&pool, &many, &kid_kernel(2), &settings, &engine), &["at least 2", "at least 2", "record more"]);
    says(prdc(&pool, &many, &neighbourhoods(1), &engine), &["neighbours is 1", "samples, 1", "record at least 2"]);
}

/// The smallest sets, one more than neighbours: by the definition, one by one.
#[test]
fn as_few_samples_as_neighbours() {
    for (k, seed) in [(1, 1), (3, 2), (5, 3)] {
        let (samples, reference) = (some(k + 1, 2, seed), some(k + 1, 2, seed + 10));
        let distance = |x: &[f32], y: &[f32]| -> f64 {
            x.iter().zip(y).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum()
        };
        // The farthest of all others.
        let radius = |set: &Features, row: usize| {
            (0..set.len()).map(|other| distance(set.row(row), set.row(other))).fold(0.0, f64::max)
        };
        let n = k + 1;
        let holds = |inside: bool, x: usize, y: usize| {
            let (own, other) = (samples.row(x), reference.row(y));
            distance(own, other) < if inside { radius(&reference, y) } else { radius(&samples, x) }
        };
        let share = |count: usize| count as f64 / n as f64;
        let expected = [
            share((0..n).filter(|&x| (0..n).any(|y| holds(true, x, y))).count()),
            share((0..n).filter(|&y| (0..n).any(|x| holds(false, x, y))).count()),
            share((0..n * n).filter(|&pair| holds(true, pair / n, pair % n)).count()) / k as f64,
            share((0..n).filter(|&y| (0..n).any(|x| holds(true, x, y))).count()),
        ];
        for backend in [&Engine::new(Double::new()), &Engine::new(Cpu::new())] {
            let found = prdc(&Pool::of(&samples), &reference, &neighbourhoods(k), backend).unwrap();
            for (found, expected) in scores(&found).into_iter().zip(expected) {
                assert!((found - expected).abs() <= 1e-15, "{found} {expected}");
            }
            let must = format!("neighbours is {n}");
            let remedy = format!("record at least {}", n + 1);
            says(prdc(&Pool::of(&samples), &reference, &neighbourhoods(n), backend), &[&must, &remedy, "fewer"]);
        }
    }
    let (few, many, engine) = (some(4, 2, 1), some(40, 2, 2), Engine::new(Double::new()));
    for k in [usize::MAX, usize::MAX - 1] {
        says(prdc(&Pool::of(&few), &many, &neighbourhoods(k), &engine), &[&format!("neighbours is {k}"), "fewer"]);
    }
    let none = prdc(&Pool::of(&few), &many, &neighbourhoods(0), &engine).unwrap_err().to_string();
    assert_eq!(none, "neighbours is 0, but it must be at least 1");
    says(prdc(&Pool::of(&many), &few, &neighbourhoods(4), &engine), &["is 4", "rows in the reference, 4"]);
    says(prdc(&Pool::of(&many), &few, &neighbourhoods(0), &engine), &["is 0", "at least 1"]);
    // 44 samples with an effective sample size of 4.
    let mixture = Pool::mixture([(&many, 1e-4), (&few, 1.0)]).unwrap();
    says(prdc(&mixture, &many, &neighbourhoods(4), &engine), &["is 4", "effective", "4.0", "record more"]);
    assert!(prdc(&mixture, &many, &neighbourhoods(3), &engine).is_ok());
}

#[test]
fn identical_samples() {
    let (copies, others) = (rows(&[[1.5, -2.0, 0.25]; 12]), rows(&[[1.5, 2.0, 3.25]; 9]));
    for backend in [&Engine::new(Double::new()), &Engine::new(Cpu::new())] {
        let pool = Pool::of(&copies);
        let found = rke(&pool, &GAUSSIAN, backend).unwrap();
        assert_eq!((found.modes.value, found.modes.standard_error), (1.0, 0.0));
        for order in ORDERS {
            for kernel in [COSINE, GAUSSIAN] {
                relative("vendi", vendi(&pool, &kernel, order, backend).unwrap(), 1.0, 1e-12);
                let found = vendi_estimate(&pool, &kernel, order, backend).unwrap();
                relative("vendi", found.value, 1.0, 1e-12);
                assert!(found.standard_error <= 1e-7, "{order} {kernel}: {}", found.standard_error);
            }
        }
        // Balls of radius zero: nothing is inside, and equal points are on their border.
        for (reference, closed) in [(&copies, [1.0, 1.0, 12.0 * (1.0 / 5.0), 1.0]), (&others, [0.0; 4])] {
            for (is_closed, expected) in [(false, [0.0; 4]), (true, closed)] {
                let found = prdc(&pool, reference, &Neighbourhoods::default().neighbours(5).closed(is_closed), backend);
                assert_eq!(scores(&found.unwrap()), expected, "closed: {is_closed}");
            }
        }
        let found = mmd(&pool, &copies, &GAUSSIAN, backend).unwrap();
        assert!(found.biased.value.abs() <= 1e-15 && found.unbiased.value.abs() <= 1e-15, "{found:?}");
        let found = mmd(&pool, &others, &GAUSSIAN, backend).unwrap();
        let between = 2.0 - 2.0 * (-12.5f64).exp();
        relative("mmd", found.biased.value, between, 1e-6);
        relative("mmd", found.unbiased.value, between, 1e-6);
        let settings = KidSettings::default().subsets(4).size(5).seed(1);
        assert!(kid(&pool, &copies, &GAUSSIAN, &settings, backend).unwrap().value.abs() <= 1e-14);
    }
}

/// Covariances of zero: what remains is the distance of the means, and the other side's variance.
#[test]
fn sets_without_spread() {
    let (copies, others) = (rows(&[[1.5, -2.0, 0.25]; 12]), rows(&[[1.5, 2.0, 3.25]; 9]));
    let wide = rows(&[[0.5, -2.0, 0.25], [2.5, -2.0, 0.25], [1.5, -5.0, 0.25], [1.5, 1.0, 0.25]]);
    let engine = Engine::new(Double::new());
    for (x, y, expected) in [(&copies, &others, 25.0), (&copies, &wide, 20.0 / 3.0), (&wide, &copies, 20.0 / 3.0)] {
        let found = fid_estimate(&Pool::of(x), y, &engine).unwrap();
        relative("fid", found.value, expected, 1e-12);
        assert_eq!(fid(&Pool::of(x), y, &engine).unwrap(), found.value);
        assert!(found.standard_error.is_finite());
    }
    assert_eq!(fid(&Pool::of(&copies), &copies, &engine).unwrap(), 0.0);
}

/// Values whose squares overflow single precision: multiples of others by powers of two, which only changes the unit.
#[test]
fn very_large_and_very_small_features() {
    let (samples, reference) = (some(60, 4, 1), some(50, 4, 2));
    let scaled = |set: &Features, factor: f32| {
        Features::new(set.width(), set.values().iter().map(|value| value * factor).collect()).unwrap()
    };
    for backend in [&Engine::new(Double::new()), &Engine::new(Cpu::new())] {
        for exponent in [70, -70] {
            let unit = 2f64.powi(exponent);
            let (x, y) = (scaled(&samples, unit as f32), scaled(&reference, unit as f32));
            let (small, large) = (Pool::of(&samples), Pool::of(&x));
            let holds = |pool: &Pool<'_>, reference: &Features| {
                prdc(pool, reference, &Neighbourhoods::default(), backend).unwrap()
            };
            assert_eq!(holds(&large, &y), holds(&small, &reference));
            let distance = fid(&small, &reference, backend).unwrap();
            relative("fid", fid(&large, &y, backend).unwrap() / unit / unit, distance, 1e-9);
            let modes = |pool: &Pool<'_>, bandwidth: f64| {
                rke(pool, &Kernel::Gaussian { bandwidth }, backend).unwrap().modes.value
            };
            relative("modes", modes(&large, unit), modes(&small, 1.0), 1e-6);
            let number = |pool: &Pool<'_>| vendi(pool, &COSINE, 1.0, backend).unwrap();
            relative("vendi", number(&large), number(&small), 1e-9);
            let clip = |pool: &Pool<'_>, reference: &Features| cmmd(pool, reference, backend).unwrap().value;
            relative("cmmd", clip(&large, &y), clip(&small, &reference), 1e-4);
        }
    }
}

#[test]
fn settings_outside_of_what_they_may_be() {
    let (samples, reference, engine) = (some(30, 3, 1), some(25, 3, 2), Engine::new(Double::new()));
    let pool = Pool::of(&samples);
    let ask = |subsets: usize, size: Option<usize>| {
        let settings = KidSettings::default().subsets(subsets).size(size).seed(0);
        kid(&pool, &reference, &kid_kernel(3), &settings, &engine)
    };
    says(ask(usize::MAX, Some(25)), &["subsets is 18446744073709551615", "at most 4000000", "25 samples"]);
    says(ask(10, Some(26)), &["subset_size is 26", "at most 25", "record more", "smaller"]);
    says(ask(10, Some(1)), &["at least 2", "at least 2"]);
    says(ask(0, None), &["subsets is 0", "at least 1"]);
    assert!(ask(1, Some(25)).is_ok() && ask(1, None).is_ok());
    for (order, text) in [(0.0, "is 0"), (-1.5, "is -1.5"), (f64::NAN, "is NaN"), (f64::NEG_INFINITY, "is -inf")] {
        says(vendi(&pool, &GAUSSIAN, order, &engine), &["order", text, "positive"]);
        says(vendi_estimate(&pool, &GAUSSIAN, order, &engine), &["order", text, "positive"]);
    }
    says(rke(&pool, &kid_kernel(3), &engine), &["rke", "polynomial", "gaussian"]);
    says(vendi(&pool, &kid_kernel(3), 1.0, &engine), &["vendi", "polynomial", "gaussian"]);
    let extrapolate = |points: usize, smallest: Option<usize>| {
        fid_infinity(&pool, &reference, &Extrapolation { points, smallest, seed: 0 }, &engine)
    };
    says(extrapolate(2, None), &["is 2", "at least 3"]);
    says(extrapolate(5, Some(27)), &["is 27", "5 sizes", "30 samples", "record more"]);
    says(extrapolate(5, Some(1)), &["is 1", "at least 2"]);
    says(extrapolate(40, None), &["is 15", "40 sizes", "fewer points"]);
    assert!(extrapolate(5, Some(26)).is_ok());
    let many = Features::new(1, (0..=LARGEST_MATRIX).map(|at| at as f32 + 1.0).collect()).unwrap();
    says(vendi(&Pool::of(&many), &GAUSSIAN, 1.0, &engine), &["is 20001", "at most 20000", "order 2", "cosine"]);
    says(vendi_estimate(&Pool::of(&many), &GAUSSIAN, 2.0, &engine), &["is 20001", "at most 20000"]);
    relative("vendi", vendi(&Pool::of(&many), &COSINE, 1.0, &engine).unwrap(), 1.0, 1e-9);
}

#[test]
fn rows_without_direction() {
    let (samples, engine) = (some(10, 2, 1), Engine::new(Double::new()));
    let mut values = samples.values().to_vec();
    values[6..8].fill(0.0);
    let zero = Features::new(2, values).unwrap();
    let remedy = ["row 3", "zeros", "remove it"];
    for (pool, reference, origin) in [(&zero, &samples, "the samples"), (&samples, &zero, "the reference")] {
        let pool = Pool::of(pool);
        let parts = [&remedy[..], &[origin]].concat();
        says(cmmd(&pool, reference, &engine), &parts);
        says(mmd(&pool, reference, &COSINE, &engine), &parts);
        says(kid(&pool, reference, &COSINE, &KidSettings::default(), &engine), &parts);
        assert!(mmd(&pool, reference, &GAUSSIAN, &engine).is_ok());
    }
    says(vendi(&Pool::of(&zero), &COSINE, 1.0, &engine), &remedy);
    says(rke(&Pool::of(&zero), &COSINE, &engine), &remedy);
    assert!(vendi(&Pool::of(&zero), &GAUSSIAN, 1.0, &engine).is_ok());
}

#[test]
fn weights_and_widths() {
    let (a, b, wide, engine) = (some(10, 2, 1), some(10, 2, 2), some(10, 3, 3), Engine::new(Double::new()));
    let mix = |left: f64, right: f64| Pool::mixture([(&a, left), (&b, right)]);
    says(mix(0.5, -0.25), &["set 1", "-0.25", "positive"]);
    says(mix(f64::NAN, 1.0), &["set 0", "NaN", "positive"]);
    says(mix(f64::INFINITY, 1.0), &["set 0", "inf", "positive"]);
    says(mix(0.0, 0.0), &["mixture", "positive weight"]);
    says(Pool::mixture([]), &["mixture", "at least one set"]);
    says(Pool::mixture([(&a, 0.5), (&wide, 0.5)]), &["set 1 has 3 columns", "has 2", "same encoder"]);
    // With or without weight, and at any position.
    says(Pool::mixture([(&wide, 0.0), (&a, 1.0)]), &["set 1 has 2 columns", "has 3", "same encoder"]);
    says(Pool::mixture([(&a, 1.0), (&wide, 0.0)]), &["set 1 has 3 columns", "has 2", "same encoder"]);
    assert_eq!(mix(1e308, 1e308).unwrap().row_weights(), [0.05; 20]);
    assert_eq!(mix(1e-320, 1e-320).unwrap().row_weights(), [0.05; 20]);
    assert_eq!(mix(1e-300, 1e300).unwrap().row_weights(), [0.1; 10]);
    let arms = ["a", "b"].into_iter().zip([&a, &b]).map(|(name, set)| RecordedArm::new(name, set.clone())).collect();
    let arms = RecordedArms::new(arms).unwrap();
    says(Pool::arms(&arms, &[1.0]), &["1 given for 2 arms", "2 arms"]);
    says(Pool::arms(&arms, &[1.0, -1.0]), &["weight of b is -1", "positive"]);
    says(Pool::arms(&arms, &[f64::NAN, 1.0]), &["weight of a is NaN", "positive"]);
    says(Pool::arms(&arms, &[0.0, 0.0]), &["all weights are 0", "positive"]);
    assert_eq!(Pool::arms(&arms, &[1.0, 3.0]).unwrap().row_weights(), mix(0.25, 0.75).unwrap().row_weights());
    let pool = Pool::of(&a);
    let parts = ["the reference has 3 columns", "samples has 2", "same encoder"];
    says(mmd(&pool, &wide, &GAUSSIAN, &engine), &parts);
    says(fid(&pool, &wide, &engine), &parts);
    says(fid_infinity(&pool, &wide, &Extrapolation { points: 3, ..Extrapolation::default() }, &engine), &parts);
    says(prdc(&pool, &wide, &Neighbourhoods::default(), &engine), &parts);
    says(kid(&pool, &wide, &kid_kernel(2), &KidSettings::default(), &engine), &parts);
    says(cmmd(&pool, &wide, &engine), &parts);
}

#[test]
fn draws() {
    // Every row contains its origin.
    let sets: Vec<Features> = (0..3u8)
        .map(|set| Features::from_rows((0..300u16).map(|row| [f32::from(set), f32::from(row)])).unwrap())
        .collect();
    let shares = [0.2, 0.3, 0.5];
    let pool = Pool::mixture(sets.iter().zip(shares)).unwrap();
    let mut sums = [0usize; 3];
    for seed in 0..400 {
        let drawn = pool.draw(107, seed).unwrap();
        assert_eq!(drawn.len(), 107);
        for (set, share) in shares.into_iter().enumerate() {
            let mut found: Vec<u32> =
                drawn.view().iter().filter(|row| row[0] == set as f32).map(|row| row[1] as u32).collect();
            let exact = share * 107.0;
            assert!((exact - found.len() as f64).abs() < 1.0, "{} of {exact}", found.len());
            sums[set] += found.len();
            let count = found.len();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), count, "a sample was drawn twice");
        }
    }
    // 21.4, 32.1 and 53.5 on average; the means of the remainders over 400 draws have standard deviations up to 0.025.
    for (sum, share) in sums.into_iter().zip(shares) {
        assert!((sum as f64 / 400.0 - 107.0 * share).abs() < 0.1, "{sums:?}");
    }
    assert_eq!(pool.draw(107, 5).unwrap(), pool.draw(107, 5).unwrap());
    assert_ne!(pool.draw(107, 5).unwrap(), pool.draw(107, 6).unwrap());
    // Half of 602 samples are 301.
    says(pool.draw(602, 0), &["602", "a set with 300 samples", "301", "draw fewer"]);
    let most = pool.largest_draw();
    assert!((590..=600).contains(&most), "{most}");
    assert!((0..50).all(|seed| pool.draw(most, seed).is_ok()));
    assert_eq!(Pool::of(&sets[0]).largest_draw(), 300);
    says(Pool::of(&sets[0]).draw(301, 0), &["301", "a set with 300 samples", "draw fewer"]);
}

/// Rows of a device that is lost are an error of metrics and sessions, not a panic.
#[test]
fn rows_of_a_lost_device_are_an_error() {
    let device = Faulty::new(|| Ok(())).device();
    let (cpu, engine) = (Engine::new(Cpu::with_threads(1)), Engine::new(device.clone()));
    let (samples, host) = (some(20, 3, 1), some(20, 3, 2));
    let held = || Features::resident(engine.hold(&host).unwrap()).unwrap();
    let references: Vec<Features> = (0..6).map(|_| held()).collect();
    let rke = Objective::rke().with_bandwidth(1.0).prepare(Inputs::new().width(3)).unwrap();
    let mut session = Session::new(["a", "b"], rke, &SessionSettings::default()).unwrap();
    device.is_lost.store(true, std::sync::atomic::Ordering::SeqCst);
    let (pool, lost) = (Pool::of(&samples), ["a device", "lost"]);
    says(Pool::mixture([(&references[0], 1.0)]), &lost);
    says(mmd(&pool, &references[1], &GAUSSIAN, &cpu), &lost);
    says(cmmd(&pool, &references[2], &cpu), &lost);
    says(fid(&pool, &references[3], &cpu), &lost);
    says(kid(&pool, &references[4], &kid_kernel(3), &KidSettings::default(), &cpu), &lost);
    says(session.known(0, &references[5], &Default::default(), KnownAs::Evidence), &lost);
}
