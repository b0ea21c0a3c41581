//! The conformance suite of policies, which all of them must pass.

mod silence;
mod ties;

use modelmix::policy::{AnyPolicy, Policy, Random};
use modelmix::{PolicySpec, Ranges, Session, SessionSettings, Values};

use crate::worlds::{Play, World};

/// Every policy for this number of arms; those with widths both with the theoretical constants and tuned.
pub(crate) fn specs(arms: usize) -> Vec<PolicySpec> {
    let weights: Vec<String> = (0..arms).map(|arm| format!("{}", 1 + arm % 3)).collect();
    with_weights(arms, &weights.join(" "))
}

/// The same, with fixed policies that treat all arms equally.
pub(crate) fn even_specs(arms: usize) -> Vec<PolicySpec> {
    with_weights(arms, &vec!["1"; arms].join(" "))
}

fn with_weights(arms: usize, weights: &str) -> Vec<PolicySpec> {
    let keep = arms.div_ceil(2);
    [
        "adaptive".into(),
        "cab".into(),
        "cab(sensitivity=0.2)".into(),
        "ogd".into(),
        "ogd(sensitivity=0.2)".into(),
        "vanilla".into(),
        "vanilla(sensitivity=0.2)".into(),
        "sparse(fee=0.02)".into(),
        "sparse(fee=0.02, sensitivity=0.05)".into(),
        format!("sparse(keep={keep})"),
        format!("sparse(keep={keep}, sensitivity=0.05, step=0.001)"),
        "greedy".into(),
        "halving(rounds=200)".into(),
        "uniform".into(),
        format!("fixed(weights={weights})"),
        format!("fixed(weights={weights}, tracked=true)"),
    ]
    .iter()
    .map(|text: &String| text.parse().unwrap())
    .collect()
}

/// Constants whose widths overflow are rejected, given or restored, and so are widths that callers create from them.
#[test]
fn constants_of_widths_have_a_range() {
    let session = |policy: &str| {
        let settings = SessionSettings::default().policy(policy.parse().unwrap());
        let ranges = Ranges { kappa: (0.0, 1.0), linear: (0.0, 0.0) };
        Session::on_values(["a", "b"], Some(ranges), &settings)
    };
    for name in ["cab", "ogd", "vanilla", "sparse"] {
        let keep = if name == "sparse" { "keep=1, " } else { "" };
        for constant in ["beta", "sensitivity", "kappa"] {
            let refused = session(&format!("{name}({keep}{constant}=1e308)")).unwrap_err().to_string();
            let expected = format!("{constant} is 1e308, but it must be zero or a positive number up to 1e50");
            assert_eq!(refused, expected);
            // At the end of the range arms are still chosen.
            let mut largest = session(&format!("{name}({keep}{constant}=1e50)")).unwrap();
            for _ in 0..12 {
                let pull = largest.ask().unwrap();
                let kappa = vec![0.5; largest.statistics().len()];
                largest.tell_values(pull.id, &[Values { kappa: &kappa, own: 1.0, linear: 0.0 }]).unwrap();
            }
        }
    }
    assert!(session("sparse(fee=1e308)").unwrap_err().to_string().starts_with("fee is 1e308"));
    assert!(session("sparse(keep=1, step=1e308)").unwrap_err().to_string().starts_with("step is 1e308"));
    let restored = |beta: f64| {
        let widths = serde_json::json!({"beta": beta, "sensitivity": {"loss": 1.0, "kappa": 0.5}});
        let policy = serde_json::json!({"policy": "cab", "widths": widths, "start": []});
        serde_json::from_value::<AnyPolicy>(policy).unwrap().fits(2)
    };
    assert!(restored(4.0) && !restored(1e308));
}

/// Whether a policy settles on one or a few arms, so that it need not know the others well enough to mix them.
fn settles_on_few(spec: &PolicySpec) -> bool {
    use PolicySpec::{Halving, SparseFee, SparseKeep, Vanilla};
    matches!(spec, Halving(_) | SparseFee(..) | SparseKeep(..) | Vanilla(_))
}

/// Worlds of 1, 2, 3 and 20 arms, the best mixture of which is known.
fn worlds() -> [World; 4] {
    let many: Vec<usize> = (0..20).map(|arm| 1 + arm % 3).collect();
    [World::of_modes(&[2]), World::of_modes(&[3, 1]), World::of_modes(&[3, 2, 1]), World::of_modes(&many)]
}

/// Invariants of a session at any time: counts and proportions match the record, and the weights are a mixture that is
/// not worse on the held samples than any arm it may use.
fn check_report(play: &Play<'_>, what: &str) {
    let report = play.session.report().unwrap();
    let (held, pending) = (play.held(), play.pending());
    assert_eq!(report.samples, play.told.len(), "{what}");
    assert_eq!(report.arms.iter().map(|arm| arm.samples).collect::<Vec<_>>(), held, "{what}");
    assert_eq!(report.arms.iter().map(|arm| arm.pending).collect::<Vec<_>>(), pending, "{what}");
    assert_eq!(play.session.in_flight(), play.flight, "{what}");
    let weights = report.weights();
    if report.samples == 0 {
        assert!(weights.iter().all(|&weight| weight == 0.0), "{what}: {weights:?}");
        return;
    }
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{what}: {weights:?}");
    assert!(weights.iter().zip(&held).all(|(&weight, &n)| weight >= 0.0 && (n > 0 || weight == 0.0)), "{what}");
    assert!(report.arms.iter().zip(&held).all(|(arm, &n)| arm.share == n as f64 / play.told.len() as f64), "{what}");
    let value = play.estimate().value(&weights);
    assert!((value - report.mixture_loss.unwrap()).abs() < 1e-12, "{what}");
    assert!(report.gap.unwrap() <= 1e-12, "{what}");
}

/// Compares the true loss of the reported weights with the best mixture of the arms that answer; a policy that settles
/// on few need only match the best of them. K of these worlds is diagonal, so both have closed forms.
fn check_converged(play: &Play<'_>, spec: &PolicySpec, world: &World, arms: &[usize], what: &str) {
    let truth = world.truth();
    let reached = truth.value(&play.session.report().unwrap().weights());
    let single = arms.iter().map(|&arm| truth.quadratic[arm][arm]).fold(f64::INFINITY, f64::min);
    let mixture = 1.0 / arms.iter().map(|&arm| 1.0 / truth.quadratic[arm][arm]).sum::<f64>();
    let bound = if settles_on_few(spec) { single } else { mixture };
    assert!(reached <= bound + 0.02, "{what}: {reached} where {mixture} is possible, and {single} with one arm");
}

#[test]
fn every_choice_is_an_arm_and_every_report_a_mixture() {
    for world in worlds() {
        for spec in specs(world.len()) {
            let what = format!("{spec}, {} arms", world.len());
            let mut play = Play::new(&world, &spec, 7);
            check_report(&play, &what);
            for round in 0..120 {
                play.round();
                if round % 17 == 0 {
                    check_report(&play, &what);
                }
            }
            check_report(&play, &what);
            assert_eq!(play.session.report().unwrap().policy, spec.name());
        }
    }
}

#[test]
fn weights_converge() {
    let world = World::of_modes(&[3, 2, 1]);
    for spec in specs(3) {
        for seed in 0..3 {
            let mut play = Play::new(&world, &spec, seed);
            play.rounds(400);
            check_converged(&play, &spec, &world, &[0, 1, 2], &format!("{spec}, seed {seed}"));
        }
    }
}

/// The arms pulled in 60 rounds. The samples do not depend on the seed: only the policy's own draws differ.
fn choices(world: &World, spec: &PolicySpec, seed: u64) -> Vec<usize> {
    let mut play = Play::new(world, spec, seed);
    play.random = Random::seeded(99);
    (0..60).map(|_| play.round()).collect()
}

#[test]
fn a_seed_fixes_every_choice_and_seeds_differ() {
    for world in worlds() {
        for spec in specs(world.len()) {
            let what = format!("{spec}, {} arms", world.len());
            let runs: Vec<Vec<usize>> = (0..12).map(|seed| choices(&world, &spec, seed)).collect();
            for (seed, run) in runs.iter().enumerate() {
                assert_eq!(*run, choices(&world, &spec, seed as u64), "{what}, seed {seed}");
            }
            // Even the order of the first pulls is random, so with two arms twelve seeds agree at most once in 2048
            // times. Unequal tracked shares may leave nothing to draw.
            let is_drawn = world.len() > 1 && !matches!(spec, PolicySpec::Fixed(_, true));
            assert!(!is_drawn || runs.iter().any(|run| *run != runs[0]), "{what}");
        }
    }
}

#[test]
fn pulls_in_flight_are_answered_late_and_out_of_order() {
    for world in worlds() {
        for spec in specs(world.len()) {
            for in_flight in [1, 3, 16] {
                let what = format!("{spec}, {} arms, {in_flight} in flight", world.len());
                let mut play = Play::new(&world, &spec, 3);
                for _ in 0..150 {
                    play.round_in_flight(in_flight);
                }
                check_report(&play, &what);
                // The last pulls are answered without new ones being asked for.
                while !play.flight.is_empty() {
                    let position = play.random.below(play.flight.len());
                    play.answer(position);
                }
                check_report(&play, &what);
                assert_eq!(play.told.len(), 150 + in_flight - 1, "{what}");
                if world.len() == 3 {
                    check_converged(&play, &spec, &world, &[0, 1, 2], &what);
                }
            }
        }
    }
}

/// A policy that ignored pulls in flight would pull the same arm repeatedly until an answer comes.
#[test]
fn first_pulls_in_flight_are_spread_over_the_arms() {
    let world = &worlds()[3];
    for spec in specs(20).into_iter().filter(|spec| !matches!(spec, PolicySpec::Fixed(_, false))) {
        let mut play = Play::new(world, &spec, 5);
        let mut first: Vec<usize> = (0..20).map(|_| play.ask()).collect();
        first.sort_unstable();
        first.dedup();
        let skewed = matches!(spec, PolicySpec::Fixed(..));
        assert!(first.len() == 20 || skewed && first.len() > 10, "{spec}: {first:?}");
    }
}

#[test]
fn a_pull_asks_for_a_batch_and_takes_a_part_of_it() {
    for world in worlds() {
        for spec in specs(world.len()) {
            let what = format!("{spec}, {} arms", world.len());
            let settings = SessionSettings::default().policy(spec.clone()).seed(2).batch(4);
            let mut play = Play::with_settings(&world, &settings);
            for _ in 0..60 {
                while play.flight.len() < 3 {
                    play.ask();
                }
                let (position, samples) = (play.random.below(3), 1 + play.random.below(4));
                play.answer_with(position, samples);
            }
            assert!(play.flight.iter().all(|pull| pull.count == 4), "{what}");
            check_report(&play, &what);
        }
    }
}

/// Values that a caller may tell but that no sum or program can handle: an error or some arm, never a panic.
#[test]
fn impossible_values_are_an_error_or_a_choice() {
    // κ(x, x), κ(x, y) and f: sums that overflow, and κ that is not positive semidefinite
    let cases = [
        (1e308, 1e308, 0.0),
        (1.0, 0.0, 1e308),
        (1.0, 0.0, -1e308),
        (-1.0, 0.5, 0.0),
        (0.0, 1.0, 0.0),
        (0.0, -1.0, 0.0),
    ];
    let mut panicked = Vec::new();
    for spec in specs(3) {
        for (own, kappa, linear) in cases {
            let run = || {
                let settings = SessionSettings::default().policy(spec.clone());
                let ranges = Ranges { kappa: (0.0, 1.0), linear: (0.0, 1.0) };
                let mut session = Session::on_values(["a", "b", "c"], Some(ranges), &settings).unwrap();
                for told in 0..30 {
                    let Ok(pull) = session.ask() else { break };
                    assert!(pull.index < 3);
                    let sample = Values { kappa: &vec![kappa; told], own, linear: linear * (1.0 - pull.index as f64) };
                    if session.tell_values(pull.id, &[sample]).is_err() {
                        break;
                    }
                }
                let _ = session.report();
            };
            if std::panic::catch_unwind(run).is_err() {
                panicked.push(format!("{spec}: κ(x, x) = {own}, κ(x, y) = {kappa}, f = {linear}"));
            }
        }
    }
    assert!(panicked.is_empty(), "{}", panicked.join("\n"));
}
