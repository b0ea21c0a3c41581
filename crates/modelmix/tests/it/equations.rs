//! The equations of the paper and the adaptive index, evaluated here from raw κ and f by direct loops, against the
//! choices of the policies. `schedules` tests which arms a policy keeps, and for how long.

mod schedules;

use modelmix::internals::confidence::{mixture_ucb_width, width};
use modelmix::policy::{AnyPolicy, Evidence, Random, Sensitivity, Widths};
use modelmix::{Inputs, Objective, Policy, PolicySpec};

use crate::worlds::{CHI_SQUARE, Play, World, chi_square, mean, points_of};

/// The constants of ε.
#[derive(Clone, Copy)]
struct Constants {
    beta: f64,
    loss: f64,
    kappa: f64,
}

impl Constants {
    /// Δκ = κ₁ − κ₀ and Δ_L = 2Δκ + Δf, with β = 4.
    fn of(world: &World) -> Self {
        let ranges = world.ranges();
        let kappa = ranges.kappa.1 - ranges.kappa.0;
        Self { beta: 4.0, loss: 2.0 * kappa + ranges.linear.1 - ranges.linear.0, kappa }
    }

    /// ε_i = Δ_L·√(β ln t / 2n_i) + Δκ/n_i (eps_vec) for all arms, t = Σn.
    fn epsilon(&self, counts: &[usize]) -> Vec<f64> {
        let t = counts.iter().sum::<usize>() as f64;
        counts
            .iter()
            .map(|&n| self.loss * ((self.beta * t.ln()) / (2.0 * n as f64)).sqrt() + self.kappa / n as f64)
            .collect()
    }

    fn spec(&self, name: &str) -> PolicySpec {
        format!("{name}(beta={}, sensitivity={}, kappa={})", self.beta, self.loss, self.kappa).parse().unwrap()
    }
}

/// The theoretical constants for this world, which the policy derives itself; and tuned ones, which it is given.
fn settings(world: &World, name: &str) -> [(PolicySpec, Constants); 2] {
    let tuned = Constants { beta: 1.5, loss: 0.3, kappa: 0.02 };
    [(name.parse().unwrap(), Constants::of(world)), (tuned.spec(name), tuned)]
}

#[test]
fn widths_by_hand() {
    // 2·√(4·ln 100/14) + 1/7, computed separately to 16 digits.
    let unit = Sensitivity { loss: 2.0, kappa: 1.0 };
    assert!((mixture_ucb_width(unit, 4.0, 100, 7) - 2.436_991_324_008_988).abs() < 1e-14);
    // √(4·ln 50/20): with κ = 0 and f between 0 and 1 it is UCB's √(2 ln t / n).
    let bandit = Sensitivity { loss: 1.0, kappa: 0.0 };
    assert!((mixture_ucb_width(bandit, 4.0, 50, 10) - 0.884_536_376_349_570_6).abs() < 1e-15);
    // Theorem 1 at δ = t^−β gives the same width.
    assert_eq!(width(unit, 4.0 * 100f64.ln(), 7), mixture_ucb_width(unit, 4.0, 100, 7));
}

/// Δ_L is 2 for RKE and 4 for MMD with a Gaussian kernel, and a term λ·precision adds λ.
#[test]
fn constants_come_from_the_objective() {
    let reference = modelmix::Features::new(1, (0..10).map(|i| i as f32).collect()).unwrap();
    for (text, loss, kappa) in
        [("rke", 2.0, 1.0), ("mmd", 4.0, 1.0), ("rke - 0.2*precision", 2.2, 1.0), ("0.5*rke", 1.0, 0.5)]
    {
        let objective = Objective::parse(text).unwrap().with_bandwidth(1.0);
        let prepared = objective.prepare(Inputs::new().reference(reference.clone())).unwrap();
        let found = Sensitivity::from(prepared.ranges().unwrap());
        assert!((found.loss - loss).abs() < 1e-15 && (found.kappa - kappa).abs() < 1e-15, "{text}: {found:?}");
    }
}

/// Pulls in flight count in t and in n.
#[test]
fn widths_count_pulls_in_flight() {
    let world = World::on_a_line(3, 1);
    let mut play = Play::new(&world, &PolicySpec::Uniform, 1);
    play.rounds(9);
    play.ask_times(4);
    let constants = Constants::of(&world);
    let widths = Widths { beta: 4.0, sensitivity: Sensitivity { loss: constants.loss, kappa: constants.kappa } };
    let pending = play.pending();
    let evidence = Evidence::of(play.session.statistics(), &pending, &[0, 1, 2]);
    for (arm, epsilon) in constants.epsilon(&play.counts()).into_iter().enumerate() {
        assert!((widths.of(&evidence, arm) - epsilon).abs() < 1e-15);
    }
}

/// Runs one policy that takes the arm with the smallest index, with 1 and with 5 pulls in flight, and evaluates the index
/// independently before every ask from the `first` + 1st pull of an arm on.
fn follows_index(spec: &PolicySpec, world: &World, first: usize, index: impl Fn(&Play<'_>) -> Vec<f64>) {
    let mut asked = vec![0; world.len()];
    for (seed, in_flight) in [(0, 1), (1, 1), (2, 5), (3, 5)] {
        let mut play = Play::new(world, spec, seed);
        let mut checked = 0;
        while checked < 150 {
            while play.flight.len() < in_flight {
                let ready = play.counts().iter().all(|&n| n >= first) && play.held().iter().all(|&n| n > 0);
                let values = index(&play);
                let arm = play.ask();
                if ready {
                    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                    assert!(values[arm] <= least + 1e-12, "{spec}, seed {seed}: arm {arm} of {values:?}");
                    checked += 1;
                    asked[arm] += 1;
                }
            }
            let position = play.random.below(in_flight);
            play.answer(position);
        }
    }
    assert!(asked.iter().filter(|&&asks| asks > 0).count() > 1, "{spec}: no choice was made, {asked:?}");
}

/// The smallest entry of h = (2/t)·K̂n + f̂ − ε (KOGD_grad).
#[test]
fn ogd_steps_down_the_gradient() {
    let world = World::on_a_line(4, 2);
    for (spec, constants) in settings(&world, "ogd") {
        follows_index(&spec, &world, 1, |play| {
            let (estimate, counts) = (play.estimate(), play.counts());
            let t = counts.iter().sum::<usize>() as f64;
            let epsilon = constants.epsilon(&counts);
            let product =
                |i: usize| -> f64 { counts.iter().zip(&estimate.quadratic[i]).map(|(&n, k)| k * n as f64).sum() };
            (0..4).map(|i| 2.0 / t * product(i) + estimate.linear[i] - epsilon[i]).collect()
        });
    }
}

/// The smallest L̂(e_i) − ε_i.
#[test]
fn vanilla_compares_single_arms() {
    let world = World::on_a_line(4, 6);
    for (spec, constants) in settings(&world, "vanilla") {
        follows_index(&spec, &world, 1, |play| {
            let (estimate, epsilon) = (play.estimate(), constants.epsilon(&play.counts()));
            (0..4).map(|i| estimate.quadratic[i][i] + estimate.linear[i] - epsilon[i]).collect()
        });
    }
}

/// The adaptive index, from its definition: g_a = 2G_a/t + f(x_a) over the held samples, ss_i, the pooled variance,
/// v_i, and then f̂_i + 2Σ_j K̂_ij n_j/t − √(v_i ln⁺(t/(m n_i))/n_i) with the pulls in flight in n and t.
fn adaptive_index(world: &World, play: &Play<'_>) -> Vec<f64> {
    let held = play.told.len() as f64;
    let g = |x: usize| 2.0 / held * play.told.iter().map(|&(_, y)| world.kappa(x, y)).sum::<f64>() + world.linear(x);
    let scatter: Vec<f64> = (0..world.len())
        .map(|arm| {
            let terms: Vec<f64> = points_of(&play.told, arm).into_iter().map(g).collect();
            let middle = mean(terms.iter().copied());
            terms.iter().map(|term| (term - middle).powi(2)).sum()
        })
        .collect();
    let samples: Vec<usize> = play.held().into_iter().map(|n| n.max(1)).collect();
    // If no arm has two answers, there is no scatter, and nothing to divide.
    let freedom: usize = samples.iter().map(|&n| n - 1).sum();
    let pool = scatter.iter().sum::<f64>() / freedom.max(1) as f64;
    let (estimate, counts) = (play.estimate(), play.counts());
    let t = counts.iter().sum::<usize>() as f64;
    (0..world.len())
        .map(|i| {
            let (v, n) = ((scatter[i] + 2.0 * pool) / (samples[i] as f64 + 1.0), counts[i] as f64);
            let product: f64 = counts.iter().zip(&estimate.quadratic[i]).map(|(&n, k)| k * n as f64).sum();
            let m = world.len() as f64;
            estimate.linear[i] + 2.0 * product / t - (v * (t / (m * n)).ln().max(0.0) / n).sqrt()
        })
        .collect()
}

#[test]
fn adaptive_takes_the_smallest_index() {
    for seed in 0..4 {
        let world = World::on_a_line(2 + seed as usize, seed);
        follows_index(&PolicySpec::Adaptive, &world, 1, |play| adaptive_index(&world, play));
    }
}

/// Two arms, computed by hand. Arm 0 returned points 0 and 1, arm 1 returned point 2 twice; κ is 1 for equal points,
/// and f is 0 except for 0.3 at point 2. G is 1, 1, 2, 2 and t = 4, so g is ½, ½, 1.3, 1.3: no scatter, no width. K̂ =
/// diag(½, 1), f̂ = (0, 0.3). The indices are 2·½·2/4 = 0.5 and 0.3 + 2·1·2/4 = 1.3. Three more pulls of arm 0 in
/// flight make n = (5, 2): 5/7 = 0.71 and 0.3 + 4/7 = 0.87. With eight: 10/12 = 0.83 and 0.3 + 4/12 = 0.63, so arm 1 is
/// chosen.
#[test]
fn adaptive_by_hand() {
    let mut statistics = modelmix::Statistics::new(2);
    statistics.add(0, &[], 1.0, 0.0);
    statistics.add(0, &[0.0], 1.0, 0.0);
    statistics.add(1, &[0.0, 0.0], 1.0, 0.3);
    statistics.add(1, &[0.0, 0.0, 1.0], 1.0, 0.3);
    for (in_flight, expected) in [(0, 0), (3, 0), (8, 1)] {
        let pending = [in_flight, 0];
        let evidence = Evidence::of(&statistics, &pending, &[0, 1]);
        let arm = modelmix::policy::Adaptive::default().choose(&evidence, &mut Random::seeded(0)).unwrap().arm;
        assert_eq!(arm, expected, "{in_flight} in flight");
    }
}

/// α = argmin L̂(α) − εᵀα, by trying every support; arms must be drawn with these probabilities.
#[test]
fn cab_draws_from_its_program() {
    let world = World::on_a_line(4, 5);
    let mut mixed = 0;
    for name in ["cab", "greedy"] {
        let without = Constants { beta: 4.0, loss: 0.0, kappa: 0.0 };
        let cases =
            if name == "greedy" { vec![(PolicySpec::Greedy, without)] } else { settings(&world, name).to_vec() };
        for (spec, constants) in cases {
            for (seed, rounds, in_flight) in [(0, 6, 0), (1, 15, 0), (2, 40, 0), (3, 40, 6), (4, 200, 3)] {
                let mut play = Play::new(&world, &spec, seed);
                play.rounds(rounds);
                play.ask_times(in_flight);
                let epsilon = constants.epsilon(&play.counts());
                let (_, weights) = play.estimate().with_widths(-1.0, &epsilon).least(&[0, 1, 2, 3]);
                let counts = draws(&play, 4000);
                let what = format!("{spec} after {rounds} rounds: {counts:?} for {weights:?}");
                let likely: Vec<usize> = (0..4).filter(|&arm| 4000.0 * weights[arm] >= 5.0).collect();
                assert!((0..4).all(|arm| counts[arm] <= 20 || likely.contains(&arm)), "{what}");
                mixed += usize::from(likely.len() > 1);
                let of_likely =
                    |values: &dyn Fn(usize) -> f64| likely.iter().map(|&arm| values(arm)).collect::<Vec<f64>>();
                let observed: Vec<usize> = likely.iter().map(|&arm| counts[arm]).collect();
                // At most 3 degrees of freedom.
                assert!(chi_square(&observed, &of_likely(&|arm| 4000.0 * weights[arm])) < CHI_SQUARE[2], "{what}");
            }
        }
    }
    assert!(mixed >= 8, "only {mixed} of the programs mix arms, so this shows little");
}

/// The next choices of a session's policy, over many generators.
fn draws(play: &Play<'_>, times: u64) -> Vec<usize> {
    let pending = play.pending();
    let arms: Vec<usize> = (0..pending.len()).collect();
    let mut counts = vec![0; arms.len()];
    for seed in 0..times {
        let policy: AnyPolicy = play.session.policy().clone();
        let evidence = Evidence::of(play.session.statistics(), &pending, &arms);
        counts[policy.choose(&evidence, &mut Random::seeded(1000 + seed)).unwrap().arm] += 1;
    }
    counts
}
