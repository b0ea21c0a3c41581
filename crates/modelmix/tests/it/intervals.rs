//! Confidence intervals of weights against repeated draws of arms whose optimum is known.

use modelmix::mixture::{Intervals, SolveSettings, solve_with};
use modelmix::policy::Random;
use modelmix::{Features, Inputs, Objective, RecordedArm, RecordedArms, solve};

/// Four places on a line; an arm visits each with its own probability. With a kernel that only distinguishes places,
/// E[κ] of two arms is Σ_p P(p)Q(p), so the optimum is known exactly.
const ARMS: [[f64; 4]; 3] = [[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]];

fn draw(probabilities: &[f64; 4], count: usize, random: &mut Random) -> Features {
    Features::from_rows((0..count).map(|_| [100.0 * random.pick(probabilities) as f32])).unwrap()
}

fn arms(names: usize, count: usize, random: &mut Random) -> RecordedArms {
    let arm = |index: usize| {
        // Beyond the three: a copy of the first that is stuck at one place, which no mixture uses.
        let probabilities = ARMS.get(index).copied().unwrap_or([1.0, 0.0, 0.0, 0.0]);
        (index, probabilities)
    };
    let recorded = (0..names)
        .map(arm)
        .map(|(index, probabilities)| RecordedArm::new(format!("arm{index}"), draw(&probabilities, count, random)));
    RecordedArms::new(recorded.collect()).unwrap()
}

/// The optimum of αᵀKα with K = PPᵀ in the interior of the simplex: K⁻¹1 scaled, by Cramer's rule.
fn optimum() -> [f64; 3] {
    let k: Vec<Vec<f64>> =
        ARMS.iter().map(|p| ARMS.iter().map(|q| p.iter().zip(q).map(|(a, b)| a * b).sum()).collect()).collect();
    let determinant = |m: &[Vec<f64>]| -> f64 {
        (0..3).map(|i| m[0][i] * (m[1][(i + 1) % 3] * m[2][(i + 2) % 3] - m[1][(i + 2) % 3] * m[2][(i + 1) % 3])).sum()
    };
    let solution: Vec<f64> = (0..3)
        .map(|column| {
            let replaced: Vec<Vec<f64>> =
                k.iter().map(|row| (0..3).map(|j| if j == column { 1.0 } else { row[j] }).collect()).collect();
            determinant(&replaced) / determinant(&k)
        })
        .collect();
    let sum: f64 = solution.iter().sum();
    [solution[0] / sum, solution[1] / sum, solution[2] / sum]
}

#[test]
fn intervals_hold_the_optimum_as_often_as_they_say() {
    let truth = optimum();
    assert!(truth.iter().all(|&weight| weight > 0.15), "{truth:?} is not well inside");
    let repeats = 400;
    let mut held = [0; 3];
    let mut random = Random::seeded(5);
    for _ in 0..repeats {
        let arms = arms(3, 400, &mut random);
        let loss = Objective::rke().with_bandwidth(1.0).prepare(Inputs::new().arms(&arms)).unwrap();
        for ((held, arm), truth) in held.iter_mut().zip(&solve(&arms, &loss).unwrap().arms).zip(truth) {
            let [low, high] = arm.interval.unwrap();
            assert!(low <= arm.weight && arm.weight <= high);
            *held += usize::from((low..=high).contains(&truth));
        }
    }
    // binomial(400, 0.95): four standard deviations are 17; V-statistics are slightly biased, which costs a little
    // more.
    for held in held {
        assert!((358..=398).contains(&held), "{held} of {repeats}");
    }
}

/// At the border an interval starts at 0, and is not too wide.
#[test]
fn an_arm_that_nothing_wants_has_an_interval_from_zero() {
    let mut random = Random::seeded(6);
    let arms = arms(4, 400, &mut random);
    let loss = Objective::rke().with_bandwidth(1.0).prepare(Inputs::new().arms(&arms)).unwrap();
    let best = solve(&arms, &loss).unwrap();
    assert_eq!(best.arms[3].weight, 0.0);
    let [low, high] = best.arms[3].interval.unwrap();
    assert!(low == 0.0 && high < 0.3, "{low} to {high}");
    // The same samples give the same intervals.
    assert_eq!(solve(&arms, &loss).unwrap(), best);
}

#[test]
fn smooth_objectives_have_none() {
    let mut random = Random::seeded(7);
    let arms = arms(2, 40, &mut random);
    let reference = draw(&[0.25; 4], 50, &mut random);
    let loss = Objective::parse("fid").unwrap().prepare(Inputs::new().arms(&arms).reference(reference)).unwrap();
    let best = solve(&arms, &loss).unwrap();
    assert!(best.arms.iter().all(|arm| arm.interval.is_none()));
    assert_eq!(best.intervals, Intervals::Unavailable);
}

/// Without intervals the solution is the same to the last bit, and states that they were skipped.
#[test]
fn intervals_can_be_left_out() {
    let arms = arms(3, 60, &mut Random::seeded(8));
    let reference = draw(&[0.25; 4], 50, &mut Random::seeded(9));
    for objective in ["rke(bandwidth=1)", "mmd(bandwidth=1) + 0.5*rke(bandwidth=2)"] {
        let loss = Objective::parse(objective).unwrap();
        let loss = loss.prepare(Inputs::new().arms(&arms).reference(reference.clone())).unwrap();
        let mut with = solve(&arms, &loss).unwrap();
        let without = solve_with(&arms, &loss, &SolveSettings::new().intervals(false)).unwrap();
        assert_eq!((with.intervals, without.intervals), (Intervals::Computed, Intervals::LeftOut));
        assert!(with.p_value.is_some() && with.arms.iter().all(|arm| arm.interval.is_some()));
        with.arms.iter_mut().for_each(|arm| arm.interval = None);
        (with.gain_interval, with.p_value, with.intervals) = (None, None, Intervals::LeftOut);
        assert_eq!(with, without);
    }
}

/// With more than 64 arms, fewer sets of arms are drawn around. The intervals still contain the optimum of arms in
/// pairs, in which the first of each pair has half as many kinds of places as the second.
#[test]
fn many_arms_have_intervals() {
    let mut random = Random::seeded(10);
    let arm = |index: usize, random: &mut Random| {
        let kinds = 1 + index % 2;
        let rows = (0..60).map(|_| {
            let kind = if kinds == 1 { 0 } else { random.pick(&[1.0, 1.0]) };
            [1000.0 * (index / 2) as f32 + 100.0 * kind as f32]
        });
        RecordedArm::new(format!("arm{index}"), Features::from_rows(rows).unwrap())
    };
    let arms = RecordedArms::new((0..80).map(|index| arm(index, &mut random)).collect()).unwrap();
    let loss = Objective::rke().with_bandwidth(1.0).prepare(Inputs::new().arms(&arms)).unwrap();
    let best = solve(&arms, &loss).unwrap();
    // The second of each pair covers the first and more: 1/40 each is optimal.
    for (index, arm) in best.arms.iter().enumerate() {
        let ([low, high], truth) = (arm.interval.unwrap(), if index % 2 == 1 { 1.0 / 40.0 } else { 0.0 });
        assert!(low <= truth + 1e-9 && truth <= high + 1e-9 && high < 0.1, "{index}: {low} to {high}");
    }
    assert!(best.p_value.unwrap() < 1e-6);
}
