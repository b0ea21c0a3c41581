//! Special cases: with κ = 0 the algorithms of the paper are exactly UCB, with one arm there is no choice.

use modelmix::policy::{Evidence, Random};
use modelmix::{Policy, PolicySpec, Ranges, Session, SessionSettings, Values};

use crate::policies::specs;
use crate::worlds::World;

/// UCB for losses in [0, 1]: every arm once, then the smallest mean − Δ·√(β ln t / 2n), which for Δ = 1 and β = 4 is
/// the textbook's √(2 ln t / n). Ties are drawn from the same generator as in the library's policies.
struct Ucb {
    scale: f64,
    beta: f64,
    counts: Vec<usize>,
    sums: Vec<f64>,
    random: Random,
}

impl Ucb {
    fn choose(&mut self) -> usize {
        let t: usize = self.counts.iter().sum();
        let index = |arm: usize| match self.counts[arm] {
            0 => f64::NEG_INFINITY,
            n => self.sums[arm] / n as f64 - self.scale * (self.beta * (t as f64).ln() / (2.0 * n as f64)).sqrt(),
        };
        let values: Vec<f64> = (0..self.counts.len()).map(index).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let tied: Vec<usize> = (0..values.len()).filter(|&arm| values[arm] == least).collect();
        tied[self.random.below(tied.len())]
    }
}

/// Runs one policy and UCB on the same losses: both must pull the same arm every time.
fn is_ucb(
    spec: &str,
    scale: f64,
    beta: f64,
    seed: u64,
    rounds: usize,
    mut loss: impl FnMut(usize, &mut Random) -> f64,
) {
    const ARMS: usize = 5;
    let policy: PolicySpec = spec.parse().unwrap();
    let ranges = Ranges { kappa: (0.0, 0.0), linear: (0.0, 1.0) };
    let settings = SessionSettings::default().policy(policy).seed(seed);
    let mut session = Session::on_values((0..ARMS).map(|arm| arm.to_string()), Some(ranges), &settings).unwrap();
    let mut ucb = Ucb { scale, beta, counts: vec![0; ARMS], sums: vec![0.0; ARMS], random: Random::seeded(seed) };
    let mut world = Random::stream(seed, 7);
    let mut asked = [0; ARMS];
    for round in 0..rounds {
        let pull = session.ask().unwrap();
        assert_eq!(pull.index, ucb.choose(), "{spec}, seed {seed}, round {round}, asked {asked:?}");
        let linear = loss(pull.index, &mut world);
        session.tell_values(pull.id, &[Values { kappa: &vec![0.0; round], own: 0.0, linear }]).unwrap();
        ucb.counts[pull.index] += 1;
        ucb.sums[pull.index] += linear;
        asked[pull.index] += 1;
    }
    assert!(asked.iter().all(|&asks| asks > 1), "{spec}: {asked:?}");
}

fn bernoulli(arm: usize, random: &mut Random) -> f64 {
    f64::from(u8::from(random.unit() < [0.3, 0.5, 0.5, 0.35, 0.7][arm]))
}

fn uniform(arm: usize, random: &mut Random) -> f64 {
    [0.1, 0.2, 0.15, 0.3, 0.0][arm] + 0.6 * random.unit()
}

/// Losses of 0 and 1 cause many exact ties, which must be broken by the same draws.
#[test]
fn without_kappa_the_algorithms_are_ucb_on_bernoulli_losses() {
    for spec in ["cab", "ogd", "vanilla"] {
        for seed in 0..3 {
            is_ucb(spec, 1.0, 4.0, seed, 3000, bernoulli);
        }
    }
}

#[test]
fn without_kappa_the_algorithms_are_ucb_on_uniform_losses() {
    for spec in ["cab", "ogd", "vanilla"] {
        for seed in 0..3 {
            is_ucb(spec, 1.0, 4.0, seed, 3000, uniform);
        }
    }
}

/// Tuned constants give UCB with another scale.
#[test]
fn without_kappa_tuned_algorithms_are_ucb_with_narrower_widths() {
    for name in ["cab", "ogd", "vanilla"] {
        is_ucb(&format!("{name}(beta=1.5, sensitivity=0.3)"), 0.3, 1.5, 9, 3000, uniform);
        is_ucb(&format!("{name}(beta=1.5, sensitivity=0.3)"), 0.3, 1.5, 10, 3000, bernoulli);
    }
}

#[test]
fn one_arm_is_no_choice() {
    let world = World::of_modes(&[2]);
    for spec in specs(1) {
        let settings = SessionSettings::default().policy(spec.clone()).seed(3);
        let mut session = Session::on_values(world.names(), Some(world.ranges()), &settings).unwrap();
        let random = |session: &Session| serde_json::to_value(session.snapshot()).unwrap()["state"]["random"].clone();
        let before = random(&session);
        assert!(before.is_object() || before.is_array() || before.is_string(), "{before}");
        for round in 0..50 {
            let pull = session.ask().unwrap();
            assert_eq!(pull.index, 0, "{spec}");
            session.tell_values(pull.id, &[Values { kappa: &vec![0.5; round], own: 1.0, linear: 0.2 }]).unwrap();
        }
        assert_eq!(random(&session), before, "{spec} drew a random number");
        assert_eq!(session.report().unwrap().weights(), [1.0], "{spec}");
        // The same for the policy itself, before and after the first sample.
        let mut generator = Random::seeded(1);
        let policy = session.policy().clone();
        for statistics in [&modelmix::Statistics::new(1), session.statistics()] {
            assert_eq!(policy.choose(&Evidence::of(statistics, &[0], &[0]), &mut generator).unwrap().arm, 0);
        }
        assert_eq!(generator, Random::seeded(1), "{spec} drew a random number");
    }
}
