//! Coverage of the intervals and p-values of `solve`. The probability of a false failure is below 0.5% per count; seeds
//! are fixed.

use modelmix::compute::Stop;
use modelmix::internals::certainty::{Certainty, certainty};
use modelmix::internals::influence::Influences;
use modelmix::policy::Random;
use modelmix::simplex::{self, Bounds};

use super::Places;

/// Counts over repeated solves.
#[derive(Clone, Debug, Default)]
struct Tally {
    /// Per arm: how often its interval contained the weight, and how often one of half the width with the same centre
    /// did.
    weights: Vec<usize>,
    halves: Vec<usize>,
    /// How often the gain was above its interval, below it, and in one of half the width.
    above: usize,
    below: usize,
    half: usize,
    /// How often "some single arm is optimal" was rejected at 5%, and how often a mixture was better on the samples.
    rejected: usize,
    better: usize,
}

fn repeat(world: &Places, count: usize, repeats: usize, seed: u64) -> Tally {
    let truth = world.truth();
    let all: Vec<usize> = (0..world.len()).collect();
    let (least, optimum) = truth.least(&all);
    let single = all.iter().map(|&arm| truth.quadratic[arm][arm] + truth.linear[arm]).fold(f64::INFINITY, f64::min);
    let gain = single - least;
    let bounds = Bounds::simplex(world.len());
    let mut tally = Tally { weights: vec![0; world.len()], halves: vec![0; world.len()], ..Tally::default() };
    let mut random = Random::seeded(seed);
    let holds = |[low, high]: [f64; 2], value: f64| usize::from(low - 1e-9 <= value && value <= high + 1e-9);
    let halved = |[low, high]: [f64; 2]| [0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high];
    for _ in 0..repeats {
        let (statistics, by_row) = world.sample(&vec![count; world.len()], &mut random);
        let form = statistics.biased();
        let best = simplex::minimize(&form, &bounds).unwrap();
        let influences = Influences::new(&statistics).unwrap().with_reference(&by_row).unwrap();
        let found = certainty(&influences, &bounds, &best.weights, &Stop::new()).unwrap();
        let Certainty { weights, gain: Some(interval), p_value: Some(p), .. } = found else { panic!("{found:?}") };
        for (arm, &interval) in weights.iter().enumerate() {
            assert!(holds(interval, best.weights[arm]) == 1, "the answer itself is within");
            tally.weights[arm] += holds(interval, optimum[arm]);
            tally.halves[arm] += holds(halved(interval), optimum[arm]);
        }
        tally.above += usize::from(gain > interval[1] + 1e-9);
        tally.below += usize::from(gain < interval[0] - 1e-9);
        tally.half += holds(halved(interval), gain);
        tally.rejected += usize::from(p <= 0.05);
        tally.better += usize::from((0..world.len()).all(|arm| form.single(arm) > best.value + 1e-9));
    }
    tally
}

/// The slack of arms without weight.
fn slack(optimum: &[f64], slack: f64) -> Vec<f64> {
    optimum.iter().map(|&weight| if weight == 0.0 { slack } else { 0.0 }).collect()
}

/// Well inside the simplex, 95% intervals contain the truth in 93% to 97% of 1,000 repeats; binomial(1000, 0.95) is
/// outside of that in 0.4% of cases. Normal intervals of half the width would contain it in 67%.
#[test]
fn inside_intervals_hold_the_truth_as_often_as_they_say() {
    for (reference, optimum, count) in [
        (None, &[0.6, 0.4][..], 50),
        (None, &[0.6, 0.4], 200),
        (None, &[0.3, 0.3, 0.4], 1000),
        (Some(1000), &[0.3, 0.3, 0.4], 1000),
    ] {
        let tally = repeat(&Places::new(reference, optimum, &slack(optimum, 0.0)), count, 1000, 7);
        for (&held, &half) in tally.weights.iter().zip(&tally.halves) {
            assert!((930..=970).contains(&held) && half < 800, "{reference:?}, {count} samples: {tally:?}");
        }
        let held = 1000 - tally.above - tally.below;
        assert!((930..=970).contains(&held) && tally.half < 800, "{reference:?}, {count} samples: {tally:?}");
        assert_eq!(tally.rejected, 1000, "a clear mixture is seen");
    }
}

/// If arms have no weight, with or without slack in their gradient, intervals contain the truth at least as often as
/// stated; and an optimal single arm is called worse than a mixture in at most 5% of cases. The tolerance is three
/// standard deviations of binomial(1000, 0.95), 21. That a mixture is better on the samples themselves is no evidence.
#[test]
fn at_the_border_they_hold_it_at_least_so_often() {
    for (reference, optimum, mind) in [
        (None, &[1.0, 0.0][..], 0.0),
        (None, &[0.0, 1.0, 0.0], 0.0),
        (None, &[0.5, 0.5, 0.0], 0.0),
        (None, &[0.5, 0.5, 0.0], 0.05),
        (Some(200), &[0.0, 1.0, 0.0], 0.0),
        (Some(200), &[0.5, 0.5, 0.0], 0.0),
    ] {
        let tally = repeat(&Places::new(reference, optimum, &slack(optimum, mind)), 200, 1000, 7);
        assert!(tally.weights.iter().all(|&held| held >= 929), "{reference:?} {optimum:?}: {tally:?}");
        assert!(tally.above + tally.below <= 71, "{reference:?} {optimum:?}: {tally:?}");
        if optimum.contains(&1.0) {
            assert!(tally.rejected <= 71, "{reference:?} {optimum:?}: {tally:?}");
            assert!(tally.better > 400, "{reference:?} {optimum:?}: {tally:?}");
        }
    }
}

/// The full table of `docs/certainty.md`.
#[test]
#[ignore = "takes minutes and prints a table"]
fn table() {
    let inside: [&[f64]; 3] = [&[0.6, 0.4], &[0.3, 0.3, 0.4], &[0.2, 0.25, 0.2, 0.15, 0.2]];
    let border: [&[f64]; 2] = [&[0.5, 0.5, 0.0], &[0.4, 0.0, 0.3, 0.0, 0.3]];
    let vertex: [&[f64]; 3] = [&[1.0, 0.0], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0, 0.0, 0.0]];
    for reference in [None, Some(0)] {
        for count in [50, 200, 1000] {
            let reference = reference.map(|_| count);
            for (optima, minds) in [(&inside[..], &[0.0][..]), (&border, &[0.0, 0.05]), (&vertex, &[0.0, 0.05])] {
                for (optimum, &mind) in optima.iter().flat_map(|optimum| minds.iter().map(move |mind| (optimum, mind)))
                {
                    let tally = repeat(&Places::new(reference, optimum, &slack(optimum, mind)), count, 1000, 7);
                    let (weights, rejected) = (&tally.weights, tally.rejected);
                    println!(
                        "{}, {count} samples, {optimum:?}, slack {mind}: weights {weights:?}, gain {} + {} outside, rejected {rejected}",
                        if reference.is_some() { "mmd" } else { "rke" },
                        tally.below,
                        tally.above,
                    );
                }
            }
        }
    }
}
