//! Simulations on the shipped real generators: the ranking of the paper, the guarantee of the default policy, and the
//! rules of the simulator.

use std::path::PathBuf;

use modelmix::session::{Cap, Retention};
use modelmix::simulate::{PolicyReport, SimulationReport};
use modelmix::{Error, Features, Inputs, Loss, Objective, RecordedArm, RecordedArms, Simulation, load, simulate};

fn data(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion").join(file)
}

fn scenario(name: &str, objective: &str, bandwidth: f64) -> (RecordedArms, Loss) {
    let arms = load::arms(&[data(&format!("{name}.npz")).to_str().unwrap().parse().unwrap()]).unwrap();
    let reference = load::features(data("reference.npy"), None).unwrap();
    let objective = Objective::parse(objective).unwrap().with_bandwidth(bandwidth);
    let loss = objective.prepare(Inputs::new().arms(&arms).reference(reference)).unwrap();
    (arms, loss)
}

fn run(arms: &RecordedArms, loss: &Loss, rounds: usize, policies: &[&str]) -> SimulationReport {
    let policies = policies.iter().map(|policy| policy.parse().unwrap()).collect();
    simulate(arms, loss, &Simulation::default().policies(policies).rounds(rounds)).unwrap()
}

fn of<'a>(report: &'a SimulationReport, policy: &str) -> &'a PolicyReport {
    &report.policies[policy]
}

fn final_loss(report: &SimulationReport, policy: &str) -> f64 {
    *of(report, policy).loss.mean.last().unwrap()
}

/// The constant that the Mixture-UCB policies and Vanilla-UCB share, of the magnitude of the losses. It is the same for
/// all scenarios, chosen after a look at a few on this data, and not the best for each. With the theoretical constants
/// Vanilla-UCB is nearly uniform for so few rounds, and if equal shares are good (`categories` by rke) it ends below
/// the tuned cab: the ranking is one at equal constants.
const TUNED: &str = "(sensitivity=0.03)";

/// Both Mixture-UCB algorithms and the default end below every one-arm method, as in the figures of the paper.
fn ranking(name: &str, objective: &str, bandwidth: f64, rounds: usize) -> SimulationReport {
    let (arms, loss) = scenario(name, objective, bandwidth);
    let (cab, ogd, vanilla) = (format!("cab{TUNED}"), format!("ogd{TUNED}"), format!("vanilla{TUNED}"));
    let policies = ["adaptive", &cab, &ogd, &vanilla, "halving", "one-arm-oracle", "mixture-oracle", "uniform"];
    let report = run(&arms, &loss, rounds, &policies);
    for mixture in ["adaptive", &cab, &ogd] {
        for single in [&vanilla, "halving", "one-arm-oracle"] {
            let (ours, theirs) = (final_loss(&report, mixture), final_loss(&report, single));
            assert!(ours < theirs, "{name}, {objective}: {mixture} ends at {ours}, {single} at {theirs}");
        }
        assert!(
            *of(&report, mixture).regret.mean.last().unwrap() < 0.5 * report.gain,
            "{name}, {objective}: {mixture}"
        );
    }
    report
}

#[test]
fn specialists_by_mmd_and_the_default_needs_under_500_rounds() {
    let report = ranking("specialists", "mmd", 20.0, 1000);
    let reached = of(&report, "adaptive").reached.percent_95;
    assert!(reached.is_some_and(|round| round <= 500.0), "{reached:?}");
}

#[test]
fn truncated_by_rke_and_the_default_needs_under_120_rounds() {
    let report = ranking("truncated", "rke", 20.0, 600);
    let reached = of(&report, "adaptive").reached.percent_95;
    assert!(reached.is_some_and(|round| round <= 120.0), "{reached:?}");
}

#[test]
fn the_papers_ranking_on_the_other_scenarios() {
    ranking("specialists", "rke", 15.0, 600);
    ranking("truncated", "mmd", 20.0, 400);
    ranking("categories", "rke", 20.0, 400);
    ranking("categories", "mmd", 20.0, 400);
    ranking("quality", "rke - 0.2*precision", 20.0, 400);
    ranking("quality", "rke - 0.2*density", 20.0, 400);
    ranking("generators", "rke", 9.0, 600);
}

#[test]
fn the_sparse_policy_ends_with_few_arms() {
    let (arms, loss) = scenario("truncated", "rke", 20.0);
    for seed in 0..4 {
        let policies = ["sparse(sensitivity=0.03, keep=3)", "sparse(sensitivity=0.03, fee=0.06)"];
        let policies = policies.map(|policy| policy.parse().unwrap()).to_vec();
        let simulation = Simulation::default().policies(policies).rounds(900).seeds(1).seed(seed);
        let report = simulate(&arms, &loss, &simulation).unwrap();
        // Arms that were pulled in the last third of the run.
        let used = |policy: &PolicyReport| {
            let pulls = |at: usize, arm: usize| policy.shares[at][arm] * policy.rounds[at] as f64;
            let (early, end) = (policy.rounds.len() * 2 / 3, policy.rounds.len() - 1);
            (0..arms.len()).filter(|&arm| pulls(end, arm) - pulls(early, arm) > 0.5).count()
        };
        assert_eq!(
            used(&report.policies[&report.order[0]]),
            3,
            "seed {seed}: {:?}",
            report.policies[&report.order[0]].weights
        );
        assert!(
            used(&report.policies[&report.order[1]]) < arms.len(),
            "seed {seed}: {:?}",
            report.policies[&report.order[1]].weights
        );
        assert!(*report.policies[&report.order[1]].regret.mean.last().unwrap() < report.gain);
    }
}

/// Two arms on a line, one of them tight, with a few samples.
fn small() -> (RecordedArms, Loss) {
    let arm = |name: &str, start: f32, step: f32, count: usize| {
        RecordedArm::new(name, Features::from_rows((0..count).map(|i| [start + step * i as f32])).unwrap())
    };
    let arms = RecordedArms::new(vec![arm("wide", 0.0, 1.0, 12), arm("tight", 30.0, 0.01, 9)]).unwrap();
    let loss = Objective::rke().with_bandwidth(2.0).prepare(Inputs::new().arms(&arms)).unwrap();
    (arms, loss)
}

#[test]
fn without_replacement_every_sample_comes_once_and_a_dry_arm_is_an_error() {
    let (arms, loss) = small();
    let simulation = |rounds, policy: &str| {
        Simulation::default().policies(vec![policy.parse().unwrap()]).rounds(rounds).seeds(3).replacement(false)
    };
    // All 21 samples, in any order: the empirical loss is that of the whole recording.
    let report = simulate(&arms, &loss, &simulation(21, "fixed(weights=12 9, tracked=true)")).unwrap();
    let all = modelmix::mixture::statistics(&arms, &loss).unwrap().empirical_loss().unwrap();
    let last = report.policies[&report.order[0]].loss.mean.last().unwrap();
    // Rows in one, tiles in the other: equal up to single precision.
    assert!((last - all).abs() < 1e-6 * all, "{last} {all}");
    let error = simulate(&arms, &loss, &simulation(22, "fixed(weights=12 9, tracked=true)")).unwrap_err();
    assert!(matches!(error, Error::RanDry { .. }), "{error}");
    let sentence = simulate(&arms, &loss, &simulation(13, "fixed(weights=1 0)")).unwrap_err().to_string();
    assert!(sentence.contains("arm wide has no samples left") && sentence.contains("round 13"), "{sentence}");
}

#[test]
fn oracles_do_what_they_know() {
    let (arms, loss) = small();
    let report = run(&arms, &loss, 2000, &["mixture-oracle", "one-arm-oracle"]);
    assert_eq!(
        of(&report, "one-arm-oracle").weights[arms.iter().position(|arm| arm.name == report.best_single.name).unwrap()],
        1.0
    );
    assert!((of(&report, "one-arm-oracle").regret.mean.last().unwrap() - report.gain).abs() < 1e-12);
    // Binomial: 2000 draws and 10 seeds leave a standard error below 0.0036.
    let weights = &of(&report, "mixture-oracle").weights;
    assert!(
        weights.iter().zip(&report.optimum.weights).all(|(share, weight)| (share - weight).abs() < 0.015),
        "{weights:?}"
    );
    assert!(of(&report, "mixture-oracle").reached.percent_90.is_some());
    assert_eq!(of(&report, "one-arm-oracle").reached.percent_90, None);
}

#[test]
fn threads_do_not_change_a_bit() {
    let (arms, loss) = small();
    let simulation = |threads| {
        Simulation::default()
            .policies(
                ["adaptive", "cab", "ogd", "sparse(keep=1)", "greedy", "halving"]
                    .map(|policy| policy.parse().unwrap())
                    .to_vec(),
            )
            .rounds(60)
            .seeds(4)
            .threads(threads)
    };
    let reports = [1, 2, 7].map(|threads| simulate(&arms, &loss, &simulation(threads)).unwrap());
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0], reports[2]);
}

#[test]
fn kappa_of_the_whole_pool_and_kappa_ahead_are_the_same() {
    let (arms, loss) = scenario("categories", "mmd", 20.0);
    let simulation = |memory, replacement| {
        Simulation::default()
            .policies(["fixed(weights=2 3 5)", "uniform", "adaptive"].map(|policy| policy.parse().unwrap()).to_vec())
            .rounds(600)
            .seeds(6)
            .batch(3)
            .replacement(replacement)
            .memory(memory)
    };
    for replacement in [true, false] {
        let [pool, ahead] =
            [usize::MAX, 0].map(|memory| simulate(&arms, &loss, &simulation(memory, replacement)).unwrap());
        for ((name, left), right) in pool.policies.iter().zip(ahead.policies.values()) {
            // The choices of the default may differ if two arms are equal to single precision; those of the others may
            // not.
            let tolerance = if name == "adaptive" { 1e-2 } else { 1e-6 };
            for (a, b) in left.loss.mean.iter().zip(&right.loss.mean) {
                assert!((a - b).abs() <= tolerance * a.abs(), "{name}: {a} and {b}");
            }
        }
    }
}

/// Sessions that hold a quarter of their samples, and sessions with a window of half of them, find the mixture too.
#[test]
fn sessions_with_a_cap_or_a_window_find_the_same_mixture() {
    let (arms, loss) = scenario("categories", "rke", 20.0);
    let policies: Vec<_> = ["adaptive", "ogd(sensitivity=0.03)"].map(|policy| policy.parse().unwrap()).to_vec();
    let usual = Simulation::default().policies(policies).rounds(480).seeds(4);
    let retention = Retention::Capped(Cap::default().hold(120).error(0.03));
    let exact = simulate(&arms, &loss, &usual).unwrap();
    let capped = simulate(&arms, &loss, &usual.clone().retention(retention)).unwrap();
    let one_thread = simulate(&arms, &loss, &usual.clone().retention(retention).threads(1)).unwrap();
    assert_eq!(capped, one_thread, "to the last bit");
    for (exact, (name, capped)) in exact.policies.values().zip(&capped.policies) {
        assert!(capped.reached.percent_90.is_some(), "{name}");
        let [left, right] = [exact, capped].map(|policy| policy.loss.mean[99]);
        assert!((left - right).abs() < 0.1 * left, "{name}: {left} {right}");
        let features = capped.features.expect("samples were evicted");
        assert!(features.features == 1112 && features.estimated > 0.3 && features.entry < 0.06, "{features:?}");
        assert_eq!(exact.features, None);
    }
    let retention = Retention::Window(240);
    for (name, policy) in simulate(&arms, &loss, &usual.clone().retention(retention)).unwrap().policies {
        assert!(policy.reached.percent_90.is_some(), "{name}");
    }
}

#[test]
fn batches_and_pulls_in_flight_find_the_same_mixture() {
    let (arms, loss) = scenario("categories", "rke", 20.0);
    for (batch, in_flight) in [(1, 8), (8, 1), (4, 4)] {
        let policies = ["adaptive", "cab(sensitivity=0.03)", "ogd(sensitivity=0.03)"];
        let policies = policies.map(|policy| policy.parse().unwrap()).to_vec();
        let simulation = Simulation::default().policies(policies).rounds(480 / batch).batch(batch).in_flight(in_flight);
        for (name, policy) in simulate(&arms, &loss, &simulation).unwrap().policies {
            assert!(policy.reached.percent_90.is_some(), "{name}: batch {batch}, {in_flight} in flight");
        }
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let (arms, loss) = small();
    let refused = |simulation: Simulation| simulate(&arms, &loss, &simulation).unwrap_err().to_string();
    assert!(refused(Simulation::default().rounds(0)).contains("rounds is 0"));
    assert!(refused(Simulation::default().in_flight(0)).contains("in_flight is 0"));
    assert!(refused(Simulation::default().policies(vec![])).contains("at least one policy"));
    let twice = vec!["cab".parse().unwrap(), "cab".parse().unwrap()];
    assert!(refused(Simulation::default().policies(twice)).contains("listed once"));
    let report = simulate(&arms, &loss, &Simulation::default().rounds(5).seeds(1)).unwrap();
    assert!(report.policies.values().all(|policy| policy.loss.std.iter().all(|&std| std == 0.0)));
}

/// No count causes an overflow or an unbounded allocation; the error names the largest setting.
#[test]
fn counts_beyond_memory_are_refused_before_anything_is_allocated() {
    let (arms, loss) = small();
    let window = modelmix::Retention::Window(100);
    for huge in [99_999_999_999, usize::MAX / 2, usize::MAX / 2 + 1, usize::MAX] {
        let usual = || Simulation::default().seeds(2);
        for (what, simulation) in [
            ("rounds", usual().rounds(huge)),
            ("rounds", usual().rounds(huge).retention(window)),
            ("batch", usual().batch(huge)),
            ("batch", usual().batch(huge).retention(window)),
            ("known", usual().known(huge)),
            ("known", usual().known(huge).replacement(false)),
            ("seeds", usual().seeds(huge)),
            ("rounds", usual().seeds(huge).rounds(huge).checkpoints(huge)),
        ] {
            let sentence = simulate(&arms, &loss, &simulation).unwrap_err().to_string();
            assert!(sentence.starts_with(&format!("{what} is {huge}, but it must be less: ")), "{sentence}");
        }
    }
    // Each is valid, but their product is not.
    let many = Simulation::default().rounds(100_000).batch(100_000);
    assert!(simulate(&arms, &loss, &many).unwrap_err().to_string().contains("4294967295 samples"));
    let many = Simulation::default().rounds(1_000_000).checkpoints(1_000_000).seeds(10_000);
    assert!(simulate(&arms, &loss, &many).unwrap_err().to_string().contains("40000 runs at 1000000 checkpoints"));
    // More checkpoints, pulls in flight or seeds than are useful do no harm.
    let modest = Simulation::default().rounds(5).seeds(2).checkpoints(usize::MAX).in_flight(usize::MAX).seed(u64::MAX);
    assert!(simulate(&arms, &loss, &modest).is_ok());
}

/// The study of policies (`experiments/policies`) found that ten known samples per arm reduce the rounds to 0.2 to 0.5.
/// On real generators on which no rule was chosen, the policy itself gains as much; the control is the same run
/// without.
#[test]
fn known_samples_save_rounds_on_problems_that_no_rule_was_chosen_by() {
    let names = ["specialists", "truncated", "categories", "quality"];
    let problems = names.into_iter().flat_map(|name| {
        [("rke", 20.0), ("rke", 40.0), ("mmd", 20.0), ("mmd", 40.0)].map(|(objective, sigma)| (name, objective, sigma))
    });
    let problems: Vec<(&str, &str, f64)> = problems.collect();
    let (mut logarithms, mut found) = (0.0, Vec::new());
    for &(name, objective, bandwidth) in &problems {
        let (arms, loss) = scenario(name, objective, bandwidth);
        let rounds = |known: usize| {
            let policies = vec!["adaptive".parse().unwrap()];
            let simulation = Simulation::default().policies(policies).rounds(600).seeds(10).known(known);
            let report = simulate(&arms, &loss, &simulation).unwrap();
            assert_eq!(report.known.unwrap_or_default(), known);
            report.policies["adaptive"].reached.percent_95.unwrap_or(1200.0)
        };
        let (without, with) = (rounds(0), rounds(10));
        logarithms += (with / without).ln() / problems.len() as f64;
        found.push((name, objective, without, with));
    }
    println!("{found:?}: {:.2}", logarithms.exp());
    assert!(logarithms.exp() < 0.6, "{found:?}: {:.2}", logarithms.exp());
}

/// Known samples are drawn from the same sequences as other samples: without replacement they are not drawn again, and
/// count toward the samples of an arm.
#[test]
fn known_samples_are_not_asked_for_again() {
    let (arms, loss) = small();
    let held = arms.iter().map(|arm| arm.features.len()).min().unwrap();
    let policies = vec!["uniform".parse().unwrap()];
    let simulation = Simulation::default().policies(policies).replacement(false).seeds(2).known(held - 2).rounds(4);
    let report = simulate(&arms, &loss, &simulation).unwrap();
    let shares = &report.policies["uniform"].weights;
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{shares:?}");
    let rounds = 2 * arms.len() + 2;
    let error = simulate(&arms, &loss, &simulation.clone().rounds(rounds)).unwrap_err();
    assert!(matches!(error, modelmix::Error::RanDry { round, .. } if round > 4), "{error}");
    let error = simulate(&arms, &loss, &simulation.clone().known(held + 1)).unwrap_err();
    assert!(matches!(error, modelmix::Error::RanDry { round: 0, .. }), "{error}");
    // The same whether κ is computed for all pairs, ahead, or by the sessions.
    let usual = simulation.clone().replacement(true).known(3).rounds(40);
    let pooled = simulate(&arms, &loss, &usual).unwrap();
    let ahead = simulate(&arms, &loss, &usual.clone().memory(0)).unwrap();
    let window = modelmix::Retention::Window(10_000);
    let sessions = simulate(&arms, &loss, &usual.clone().retention(window)).unwrap();
    for other in [ahead, sessions] {
        let losses = |report: &SimulationReport| report.policies["uniform"].loss.mean.clone();
        let pairs = losses(&pooled).into_iter().zip(losses(&other));
        pairs.for_each(|(left, right)| assert!((left - right).abs() < 1e-5, "{left} {right}"));
    }
}
