//! Properties of mixtures for any data: symmetries, effects of adding or dropping an arm, and the duality gap; and
//! inputs at the edge of validity.

use modelmix::compute::{Cpu, Reference};
use modelmix::mixture::{solve_within, statistics};
use modelmix::policy::Random;
use modelmix::simplex::Bounds;
use modelmix::{Features, Inputs, Loss, Mixture, Objective, RecordedArm, RecordedArms, solve};
use proptest::prelude::*;

/// The tolerance of weights of two solves of one problem that differ in the order of additions. Losses agree to about
/// 1e-15, and the arms are separated, so the loss increases by at least a thousandth of |Δα|².
const WEIGHTS: f64 = 1e-6;

/// The rounding error of losses of order one in double precision.
const ROUNDING: f64 = 1e-12;

/// Arms of 2 to 12 rows around separated centres, in any order.
fn make_arms(count: usize, seed: u64) -> Vec<RecordedArm> {
    let mut random = Random::seeded(seed);
    random
        .sample(9, count)
        .into_iter()
        .map(|place| {
            let centre = [(place % 3) as f64, (place / 3) as f64];
            let spread = 0.2 + 2.0 * random.unit();
            let rows: Vec<[f32; 2]> = (0..2 + random.below(11))
                .map(|_| centre.map(|at| (1.0 + 1.5 * at + spread * (random.unit() - 0.5)) as f32))
                .collect();
            RecordedArm::new(format!("arm {place}"), Features::from_rows(rows).unwrap())
        })
        .collect()
}

fn arms(arms: Vec<RecordedArm>) -> RecordedArms {
    RecordedArms::new(arms).unwrap()
}

/// Three objectives with a bandwidth and two without; those that find it from arms come last.
const OBJECTIVES: [&str; 5] = [
    "rke(bandwidth=1.5)",
    "mmd(bandwidth=1.5) - 0.05*density(neighbours=3)",
    "0.5*rke(kernel=laplacian, bandwidth=2) + mmd(bandwidth=1) - 0.1*precision(neighbours=2)",
    "mmd",
    "rke",
];

fn prepare(objective: Objective, arms: &RecordedArms) -> Loss {
    // Equalities hold to the last digits if sums do: with the engine in double precision.
    let mut inputs = Inputs::new().arms(arms).seed(4).engine(Reference);
    if objective.terms().iter().any(|term| term.measure.name() != "rke" && term.measure.name() != "cost") {
        inputs = inputs.reference(make_arms(4, 99)[0].features.clone());
    }
    objective.prepare(inputs.costs(vec![0.0; arms.len()])).unwrap()
}

fn solved(text: &str, arms: &RecordedArms) -> Mixture {
    solve(arms, &prepare(text.parse().unwrap(), arms)).unwrap()
}

fn close(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found}, expected {expected}");
}

/// A random mixture within bounds: of a few corners, each filled from the floors in random order.
fn feasible(floors: &[f64], caps: &[f64], random: &mut Random) -> Vec<f64> {
    let mut corner = || {
        let mut weights = floors.to_vec();
        let mut left = 1.0 - floors.iter().sum::<f64>();
        for arm in random.sample(floors.len(), floors.len()) {
            let amount = (caps[arm] - floors[arm]).min(left);
            weights[arm] += amount;
            left -= amount;
        }
        weights
    };
    let corners = [corner(), corner(), corner()];
    let (a, b) = (random.unit(), random.unit());
    let shares = [a * b, a * (1.0 - b), 1.0 - a];
    (0..floors.len()).map(|arm| (0..3).map(|index| shares[index] * corners[index][arm]).sum()).collect()
}

/// Checks that weights are a mixture, numbers are consistent, and the duality gap holds at random mixtures.
fn check(mixture: &Mixture, floors: &[f64], caps: &[f64], random: &mut Random) {
    let weights = mixture.weights();
    close("sum of weights", weights.iter().sum(), 1.0, ROUNDING);
    for (arm, weight) in mixture.arms.iter().zip(&weights) {
        assert!(*weight >= 0.0, "{}: {weight}", arm.name);
        assert!(arm.adds.is_none_or(|adds| adds >= 0.0 && (*weight > 0.0 || adds == 0.0)), "{arm:?}");
    }
    for ((weight, floor), cap) in weights.iter().zip(floors).zip(caps) {
        assert!(floor - ROUNDING <= *weight && *weight <= cap + ROUNDING, "{weights:?} in {floors:?} {caps:?}");
    }
    close("loss", mixture.mixture.loss, mixture.form.value(&weights) + mixture.constant, ROUNDING);
    close("gain", mixture.gain, mixture.best_arm().loss - mixture.mixture.loss, ROUNDING);
    let summed: f64 = mixture.mixture.terms.iter().map(|term| term.weight * term.value).sum();
    close("terms", summed, mixture.mixture.loss, ROUNDING);
    assert!(mixture.arms.iter().all(|arm| mixture.best_arm().loss <= arm.loss));
    assert!((0.0..=ROUNDING).contains(&mixture.mixture.gap), "gap {}", mixture.mixture.gap);
    for _ in 0..20 {
        let other = feasible(floors, caps, random);
        let value = mixture.form.value(&other) + mixture.constant;
        assert!(
            mixture.mixture.loss - mixture.mixture.gap <= value + 1e-14,
            "{other:?} has {value}, less than {}",
            mixture.mixture.loss
        );
    }
}

proptest! {
    #![proptest_config(crate::config(40))]

    #[test]
    fn answers_are_certified(count in 1..7usize, seed in any::<u64>(), text in prop::sample::select(&OBJECTIVES[..])) {
        let mixture = solved(text, &arms(make_arms(count, seed)));
        check(&mixture, &vec![0.0; count], &vec![1.0; count], &mut Random::seeded(seed));
        prop_assert!(mixture.gain >= -ROUNDING);
    }

    #[test]
    fn permuting_arms_permutes_answers(
        count in 1..6usize,
        seed in any::<u64>(),
        text in prop::sample::select(&OBJECTIVES[..]),
    ) {
        let before = make_arms(count, seed);
        let order = Random::seeded(!seed).sample(count, count);
        let after = order.iter().map(|&arm| before[arm].clone()).collect();
        let (before, after) = (solved(text, &arms(before)), solved(text, &arms(after)));
        prop_assert_eq!(&before.kernels, &after.kernels, "an automatic bandwidth does not see the order");
        close("loss", after.mixture.loss, before.mixture.loss, ROUNDING);
        for (arm, &from) in after.arms.iter().zip(&order) {
            let expected = &before.arms[from];
            prop_assert_eq!((&arm.name, arm.samples), (&expected.name, expected.samples));
            close("weight", arm.weight, expected.weight, WEIGHTS);
            close("loss of an arm", arm.loss, expected.loss, ROUNDING);
            close("adds", arm.adds.unwrap_or(-1.0), expected.adds.unwrap_or(-1.0), ROUNDING);
        }
    }

    #[test]
    fn a_copy_of_an_arm_changes_nothing(
        count in 1..6usize,
        copied in any::<prop::sample::Index>(),
        seed in any::<u64>(),
        text in prop::sample::select(&OBJECTIVES[..4]),
    ) {
        let mut list = make_arms(count, seed);
        let alone = solved(text, &arms(list.clone()));
        let copied = copied.index(count);
        list.push(RecordedArm { name: "copy".into(), ..list[copied].clone() });
        let twice = solved(text, &arms(list));
        close("loss", twice.mixture.loss, alone.mixture.loss, ROUNDING);
        close("gain", twice.gain, alone.gain, ROUNDING);
        // The weight of the arm is split between the two, and removing either costs nothing.
        close("weight", twice.arms[copied].weight + twice.arms[count].weight, alone.arms[copied].weight, WEIGHTS);
        close("adds", twice.arms[copied].adds.unwrap(), 0.0, ROUNDING);
        close("adds", twice.arms[count].adds.unwrap(), 0.0, ROUNDING);
    }

    #[test]
    fn scaling_the_objective_scales_losses(
        count in 2..6usize,
        seed in any::<u64>(),
        factor in 0.01..100.0f64,
        text in prop::sample::select(&OBJECTIVES[..]),
    ) {
        let arms = arms(make_arms(count, seed));
        let plain = solved(text, &arms);
        let scaled = solve(&arms, &prepare(factor * text.parse::<Objective>().unwrap(), &arms)).unwrap();
        close("loss", scaled.mixture.loss / factor, plain.mixture.loss, ROUNDING);
        for (scaled, plain) in scaled.arms.iter().zip(&plain.arms) {
            close("weight", scaled.weight, plain.weight, WEIGHTS);
            close("loss of an arm", scaled.loss / factor, plain.loss, ROUNDING);
            close("adds", scaled.adds.unwrap() / factor, plain.adds.unwrap(), ROUNDING);
        }
    }

    #[test]
    fn a_cost_never_raises_the_weight_of_its_arm(
        count in 2..6usize,
        dear in any::<prop::sample::Index>(),
        seed in any::<u64>(),
        cost in 0.001..2.0f64,
    ) {
        let arms = arms(make_arms(count, seed));
        let dear = dear.index(count);
        let with_cost = |cost: f64| {
            let mut costs = vec![0.1; count];
            costs[dear] += cost;
            let objective: Objective = "rke(bandwidth=1.5) + cost".parse().unwrap();
            solve(&arms, &objective.prepare(Inputs::new().arms(&arms).costs(costs)).unwrap()).unwrap()
        };
        let (cheap, expensive) = (with_cost(0.0), with_cost(cost));
        // Both are optimal up to their gaps; the sum of the two inequalities gives cost·(α′ − α) ≤ the gaps.
        let allowed = (cheap.mixture.gap + expensive.mixture.gap + 1e-14) / cost;
        prop_assert!(expensive.arms[dear].weight <= cheap.arms[dear].weight + allowed);
        prop_assert!(expensive.mixture.loss >= cheap.mixture.loss - ROUNDING, "a cost makes nothing better");
    }

    #[test]
    fn what_an_arm_adds_is_what_its_absence_costs(count in 2..6usize, seed in any::<u64>(), which in 0..3usize) {
        let list = make_arms(count, seed);
        let all = solved(OBJECTIVES[which], &arms(list.clone()));
        for (index, arm) in all.arms.iter().enumerate() {
            let mut others = list.clone();
            others.remove(index);
            let without = solved(OBJECTIVES[which], &arms(others));
            close("adds", arm.adds.unwrap(), without.mixture.loss - all.mixture.loss, ROUNDING);
        }
    }

    #[test]
    fn floors_and_caps_are_kept(
        limits in prop::collection::vec((0.0..0.2f64, 0.3..1.0f64), 4..6),
        seed in any::<u64>(),
        text in prop::sample::select(&OBJECTIVES[..]),
    ) {
        // Floors sum to less than one, caps to more.
        let (floors, caps): (Vec<f64>, Vec<f64>) = limits.into_iter().unzip();
        let arms = arms(make_arms(floors.len(), seed));
        let loss = prepare(text.parse().unwrap(), &arms);
        let bounds = Bounds::new(floors.clone(), caps.clone()).unwrap();
        let within = solve_within(&arms, &loss, &bounds).unwrap();
        check(&within, &floors, &caps, &mut Random::seeded(seed));
        prop_assert!(within.mixture.loss >= solve(&arms, &loss).unwrap().mixture.loss - ROUNDING);
    }
}

#[test]
fn threads_change_no_bit() {
    // Sizes above and not divisible by the engines' blocks.
    let mut random = Random::seeded(8);
    let list = [600, 257, 3].iter().enumerate().map(|(index, &size)| {
        let rows: Vec<[f32; 3]> =
            (0..size).map(|_| [index as f32 + random.unit() as f32, random.unit() as f32, 1.0]).collect();
        RecordedArm::new(format!("{index}"), Features::from_rows(rows).unwrap())
    });
    let arms = arms(list.collect());
    for text in ["rke", "mmd(kernel=kid) - 0.1*density", "0.5*rke(kernel=cosine) + mmd(kernel=laplacian) - precision"] {
        let run = |threads: usize| {
            let reference = arms[1].features.clone();
            let inputs = Inputs::new().arms(&arms).reference(reference).engine(Cpu::with_threads(threads));
            let loss = text.parse::<Objective>().unwrap().prepare(inputs).unwrap();
            // As text, in which every bit of a number is visible.
            let mixture = serde_json::to_string(&solve(&arms, &loss).unwrap()).unwrap();
            (mixture, serde_json::to_string(&statistics(&arms, &loss).unwrap()).unwrap())
        };
        let expected = run(1);
        for threads in [2, 5] {
            assert!(run(threads) == expected, "{text} on {threads} threads");
        }
    }
}

#[test]
fn one_arm_is_its_own_mixture() {
    for text in OBJECTIVES {
        let mixture = solved(text, &arms(make_arms(1, 5)));
        assert_eq!((mixture.weights(), &mixture.best_single.name), (vec![1.0], &mixture.arms[0].name), "{text}");
        assert_eq!((mixture.gain, mixture.mixture.gap, mixture.arms[0].adds), (0.0, 0.0, None), "{text}");
        assert_eq!(mixture.mixture.loss, mixture.arms[0].loss, "{text}");
        assert_eq!(mixture.mixture.terms, mixture.arms[0].terms, "{text}");
    }
}

#[test]
fn equal_arms_have_nothing_to_add() {
    for text in OBJECTIVES {
        let one = make_arms(1, 6).remove(0);
        let list = (0..4).map(|index| RecordedArm { name: format!("{index}"), ..one.clone() });
        let mixture = solved(text, &arms(list.collect()));
        let alone = solved(text, &arms(vec![one]));
        close("sum of weights", mixture.weights().iter().sum(), 1.0, ROUNDING);
        close("gain", mixture.gain, 0.0, ROUNDING);
        if text != "rke" {
            // For which the same rows four times have another median distance than once.
            close("loss", mixture.mixture.loss, alone.mixture.loss, ROUNDING);
        }
        assert!(mixture.arms.iter().all(|arm| arm.adds.unwrap() <= ROUNDING), "{text}");
    }
}

#[test]
fn many_samples_weigh_no_more_than_few() {
    // Each arm counts by its weight, not by its number of samples: every row ten times is the same arm.
    let list = make_arms(3, 12);
    let mut larger = list.clone();
    let rows: Vec<&[f32]> = list[1].features.view().iter().collect();
    larger[1].features = Features::from_rows(rows.iter().cycle().take(10 * rows.len())).unwrap();
    for text in &OBJECTIVES[..4] {
        let (plain, repeated) = (solved(text, &arms(list.clone())), solved(text, &arms(larger.clone())));
        close("loss", repeated.mixture.loss, plain.mixture.loss, ROUNDING);
        for (repeated, plain) in repeated.arms.iter().zip(&plain.arms) {
            close("weight", repeated.weight, plain.weight, WEIGHTS);
        }
    }
}

#[test]
fn bounds_for_other_arms_are_refused() {
    let arms = arms(make_arms(3, 1));
    let loss = prepare("rke(bandwidth=1)".parse().unwrap(), &arms);
    let sentence = solve_within(&arms, &loss, &Bounds::simplex(2)).unwrap_err().to_string();
    assert!(sentence.contains("bounds for 2 arms, but 3 arms"), "{sentence}");
    // A support is a set of caps.
    let pair = solve_within(&arms, &loss, &Bounds::support(3, &[0, 2])).unwrap();
    assert_eq!(pair.arms[1].weight, 0.0);
    check(&pair, &[0.0; 3], &[1.0, 0.0, 1.0], &mut Random::seeded(1));
}

#[test]
fn copies_of_an_arm_are_no_trouble_in_single_precision() {
    // K of equal arms differs by the engine's rounding, in either direction: that is not a lack of convexity.
    for (seed, text) in
        ["rke(bandwidth=1)", "rke(bandwidth=0.4)", "rke(kernel=kid)", "rke(kernel=cosine)"].iter().enumerate()
    {
        let mut random = modelmix::policy::Random::seeded(seed as u64);
        for rows in [3, 20, 200] {
            let values: Vec<f32> = (0..rows * 16).map(|_| random.unit() as f32 * 2.0 - 0.7).collect();
            let features = Features::new(16, values).unwrap();
            let arm = |name: &str| RecordedArm::new(name, features.clone());
            let value = |arms: Vec<RecordedArm>| {
                let arms = RecordedArms::new(arms).unwrap();
                let loss = text.parse::<Objective>().unwrap().prepare(Inputs::new().arms(&arms)).unwrap();
                solve(&arms, &loss).unwrap_or_else(|error| panic!("{text}, {rows} rows: {error}")).mixture.loss
            };
            let (one, three) = (value(vec![arm("a")]), value(vec![arm("a"), arm("b"), arm("c")]));
            assert!((one - three).abs() <= 1e-6 * one, "{text}, {rows} rows: {one} and {three}");
        }
    }
}
