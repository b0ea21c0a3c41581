//! The theorems of the paper in simulation, on arms whose K and f are known exactly. Each has a control that breaks the
//! bound, so that a width that is wrong by a factor would be noticed.

use modelmix::internals::confidence;
use modelmix::policy::{Random, Sensitivity, WidthSpec};
use modelmix::{PolicySpec, Quadratic, Ranges, Session, SessionSettings, Values};

/// Arms over a few outcomes: κ(x, y) = `kappa` if x = y, otherwise 0; f per outcome.
struct World {
    chances: Vec<Vec<f64>>,
    kappa: f64,
    linear: Vec<f64>,
}

impl World {
    /// κ = 0 and f Bernoulli: the classical bandit, where Hoeffding's inequality is nearly tight.
    fn linear() -> Self {
        Self { chances: vec![vec![0.5, 0.5], vec![0.3, 0.7]], kappa: 0.0, linear: vec![0.0, 1.0] }
    }

    /// κ and f, three arms over four outcomes.
    fn quadratic() -> Self {
        let chances = vec![vec![0.7, 0.1, 0.1, 0.1], vec![0.1, 0.6, 0.2, 0.1], vec![0.25, 0.25, 0.25, 0.25]];
        Self { chances, kappa: 1.0, linear: vec![0.0, 0.2, 0.4, 0.1] }
    }

    fn ranges(&self) -> Ranges {
        let most = self.linear.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = self.linear.iter().copied().fold(f64::INFINITY, f64::min);
        Ranges { kappa: (0.0, self.kappa), linear: (least, most) }
    }

    fn arms(&self) -> usize {
        self.chances.len()
    }

    /// K and f, from the definition.
    fn truth(&self) -> Quadratic {
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let quadratic = self.chances.iter().flat_map(|a| self.chances.iter().map(|b| self.kappa * product(a, b)));
        Quadratic::new(quadratic.collect(), self.chances.iter().map(|chances| product(chances, &self.linear)).collect())
            .unwrap()
    }

    /// K̂ and f̂ of the first `counts` outcomes of each arm, from the definition.
    fn sample_form(&self, outcomes: &[Vec<usize>], counts: &[usize]) -> Quadratic {
        let shares: Vec<Vec<f64>> = outcomes
            .iter()
            .zip(counts)
            .map(|(outcomes, &count)| {
                let mut shares = vec![0.0; self.linear.len()];
                outcomes[..count].iter().for_each(|&outcome| shares[outcome] += 1.0 / count as f64);
                shares
            })
            .collect();
        // The empirical distributions are themselves a world.
        World { chances: shares, kappa: self.kappa, linear: self.linear.clone() }.truth()
    }

    fn draw(&self, random: &mut Random, counts: &[usize]) -> Vec<Vec<usize>> {
        self.chances
            .iter()
            .zip(counts)
            .map(|(chances, &count)| (0..count).map(|_| random.pick(chances)).collect())
            .collect()
    }
}

/// The width of Theorem 1 before it is made linear in α (the last display but one of its proof):
/// Δ_L·√(ln(1/δ)/2 · Σα²/n) + Δκ·Σα²/n. Never wider than ε(δ)ᵀα.
fn joint_width(sensitivity: Sensitivity, log_inverse: f64, weights: &[f64], counts: &[usize]) -> f64 {
    let sum: f64 = weights.iter().zip(counts).map(|(weight, &n)| weight * weight / n as f64).sum();
    sensitivity.loss * (log_inverse / 2.0 * sum).sqrt() + sensitivity.kappa * sum
}

/// ln(1/δ′) of Lemma 1: with probability 1 − δ, |L − L̂|(α) ≤ εᵀα on one side for every α and all counts up to `rounds`
/// at once, if ln(1/δ′) = ln(m²T²/2δ).
fn uniform_log_inverse(arms: usize, rounds: usize, delta: f64) -> f64 {
    2.0 * (arms as f64 * rounds as f64).ln() - (2.0 * delta).ln()
}

/// Theorem 2: E[L(P̂_T)] − min L ≤ 4Δ_L·√(β m ln T / T) for Mixture-UCB-CAB, if m ≥ 2, β ≥ 4, T ≥ 2 and κ is positive
/// semidefinite. Its proof reaches the constant 3.382 instead of 4, for T > 40m.
fn regret_bound(constant: f64, sensitivity: Sensitivity, beta: f64, arms: usize, rounds: usize) -> f64 {
    let t = rounds as f64;
    constant * sensitivity.loss * (beta * arms as f64 * t.ln() / t).sqrt()
}

/// How often either side of Theorem 1 fails, with the width multiplied by a factor.
fn theorem_1_failures(world: &World, weights: &[f64], counts: &[usize], delta: f64, factor: f64) -> f64 {
    const REPEATS: usize = 4000;
    let sensitivity = Sensitivity::from(world.ranges());
    let log_inverse = (1.0 / delta).ln();
    let linear: f64 =
        weights.iter().zip(counts).map(|(weight, &n)| weight * confidence::width(sensitivity, log_inverse, n)).sum();
    let joint = joint_width(sensitivity, log_inverse, weights, counts);
    assert!(joint <= linear * (1.0 + 1e-12));
    let truth = world.truth().value(weights);
    let mut random = Random::seeded(17);
    let (mut above, mut below) = (0, 0);
    for _ in 0..REPEATS {
        let sample = world.sample_form(&world.draw(&mut random, counts), counts).value(weights);
        // The joint width is the narrower one, so it is tested.
        above += usize::from(sample - truth >= factor * joint);
        below += usize::from(truth - sample >= factor * joint);
    }
    above.max(below) as f64 / REPEATS as f64
}

#[test]
fn theorem_1_holds_at_its_probability() {
    let cases: [(World, &[f64], &[usize]); 4] = [
        (World::linear(), &[1.0, 0.0], &[40, 1]),
        (World::linear(), &[0.5, 0.5], &[30, 50]),
        (World::quadratic(), &[0.2, 0.3, 0.5], &[20, 10, 40]),
        (World::quadratic(), &[0.0, 0.0, 1.0], &[5, 5, 5]),
    ];
    for (index, (world, weights, counts)) in cases.iter().enumerate() {
        for delta in [0.3, 0.1, 0.02] {
            let failures = theorem_1_failures(world, weights, counts, delta, 1.0);
            assert!(failures <= delta, "case {index}: {failures} failures at δ = {delta}");
        }
    }
    // Control: half the width is too narrow for a fair coin.
    let failures = theorem_1_failures(&World::linear(), &[1.0, 0.0], &[40, 1], 0.1, 0.5);
    assert!(failures > 0.1, "half the width fails only {failures} of the time, so this test could not have failed");
}

/// How often Lemma 1 fails for some counts up to `rounds` and some weights, with the width multiplied by a factor.
fn lemma_1_failures(world: &World, rounds: usize, delta: f64, factor: f64) -> f64 {
    const REPEATS: usize = 200;
    let sensitivity = Sensitivity::from(world.ranges());
    let log_inverse = uniform_log_inverse(world.arms(), rounds, delta);
    let truth = world.truth();
    let mut random = Random::seeded(23);
    let mut failures = (0, 0);
    for _ in 0..REPEATS {
        let outcomes = world.draw(&mut random, &vec![rounds; world.arms()]);
        let mut failed = (false, false);
        for first in 1..=rounds {
            for second in 1..=rounds {
                let counts = [first, second];
                let sample = world.sample_form(&outcomes, &counts);
                for step in 0..=10 {
                    let weights = [step as f64 / 10.0, 1.0 - step as f64 / 10.0];
                    let width: f64 = weights
                        .iter()
                        .zip(counts)
                        .map(|(weight, n)| factor * weight * confidence::width(sensitivity, log_inverse, n))
                        .sum();
                    let difference = truth.value(&weights) - sample.value(&weights);
                    failed = (failed.0 || difference > width, failed.1 || -difference > width);
                }
            }
        }
        failures = (failures.0 + usize::from(failed.0), failures.1 + usize::from(failed.1));
    }
    failures.0.max(failures.1) as f64 / REPEATS as f64
}

#[test]
fn lemma_1_holds_for_all_counts_and_weights_at_once() {
    let mut two = World::quadratic();
    two.chances.pop();
    for (world, delta) in [(World::linear(), 0.3), (World::linear(), 0.05), (two, 0.1)] {
        let failures = lemma_1_failures(&world, 24, delta, 1.0);
        assert!(failures <= delta, "{failures} failures at δ = {delta}");
    }
    let failures = lemma_1_failures(&World::linear(), 24, 0.3, 0.4);
    assert!(failures > 0.3, "0.4 of the width fails only {failures} of the time, so this test could not have failed");
}

/// L(P̂_T) − min L of a policy, averaged over seeds.
fn regret(world: &World, policy: &PolicySpec, rounds: usize, seeds: u64) -> f64 {
    let truth = world.truth();
    let best = modelmix::simplex::minimize(&truth, &modelmix::simplex::Bounds::simplex(world.arms())).unwrap().value;
    let total: f64 = (0..seeds)
        .map(|seed| {
            let settings = SessionSettings::default().policy(policy.clone()).seed(seed);
            let names = (0..world.arms()).map(|arm| arm.to_string());
            let mut session = Session::on_values(names, Some(world.ranges()), &settings).unwrap();
            let mut random = Random::stream(seed, 1);
            let mut outcomes = Vec::new();
            let mut kappa = Vec::new();
            for _ in 0..rounds {
                let pull = session.ask().unwrap();
                let outcome = random.pick(&world.chances[pull.index]);
                kappa.clear();
                kappa.extend(outcomes.iter().map(|&other| if other == outcome { world.kappa } else { 0.0 }));
                session
                    .tell_values(pull.id, &[Values { kappa: &kappa, own: world.kappa, linear: world.linear[outcome] }])
                    .unwrap();
                outcomes.push(outcome);
            }
            session.statistics().empirical_loss().unwrap() - best
        })
        .sum();
    total / seeds as f64
}

#[test]
fn theorem_2_is_never_exceeded() {
    let cab = PolicySpec::Cab(WidthSpec::default());
    let bound = |world: &World, rounds| regret_bound(4.0, world.ranges().into(), 4.0, world.arms(), rounds);
    for rounds in [2, 10, 100, 500, 2000] {
        let world = World::quadratic();
        let regret = regret(&world, &cab, rounds.max(world.arms()), 5);
        assert!(regret <= bound(&world, rounds), "{rounds} rounds: {regret} > {}", bound(&world, rounds));
    }
    // A case in which the bound is informative: two arms, one always right and one always wrong. Equal shares would
    // exceed it.
    let world = World { chances: vec![vec![1.0, 0.0], vec![0.0, 1.0]], kappa: 0.0, linear: vec![0.0, 1.0] };
    let rounds = 16_000;
    let (found, equal) = (regret(&world, &cab, rounds, 1), regret(&world, &PolicySpec::Uniform, rounds, 1));
    let sharper = regret_bound(3.382, world.ranges().into(), 4.0, 2, rounds);
    assert!(found <= sharper && sharper < bound(&world, rounds), "{found} > {sharper}");
    assert!(equal > bound(&world, rounds), "equal shares have {equal}, so this test could not have failed");
}
