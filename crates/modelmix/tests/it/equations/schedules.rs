//! Which arms are kept and for how long: C and C′ of the sparse algorithm, phases of Successive Halving, tracked
//! shares.

use modelmix::policy::{AnyPolicy, Evidence, Random, Sensitivity, Sparse, Widths};
use modelmix::{Policy, PolicySpec, SessionSettings, Statistics};

use super::Constants;
use crate::worlds::{CHI_SQUARE, Play, World, chi_square};

fn sparse<'a>(play: &'a Play<'_>) -> &'a Sparse {
    match play.session.policy() {
        AnyPolicy::Sparse(policy) => policy,
        other => panic!("{other:?}"),
    }
}

/// One round of Algorithm 3 from the raw samples: unsubscribes while C′ ≤ C and more than `keep` arms are left, and
/// returns the weights α from which the arm is drawn.
fn unsubscribe(play: &Play<'_>, constants: Constants, fee: f64, keep: usize, subscribed: &mut Vec<usize>) -> Vec<f64> {
    let (estimate, epsilon) = (play.estimate(), constants.epsilon(&play.counts()));
    let (lower, upper) = (estimate.with_widths(-1.0, &epsilon), estimate.with_widths(1.0, &epsilon));
    loop {
        let size = subscribed.len() as f64;
        let (least, weights) = lower.least(subscribed);
        let cost = least + fee * size;
        if subscribed.len() <= keep {
            return weights;
        }
        let without = |&arm: &usize| {
            let others: Vec<usize> = subscribed.iter().copied().filter(|&other| other != arm).collect();
            (upper.least(&others).0 + fee * (size - 1.0), arm)
        };
        let (cost_without, worst) = subscribed.iter().map(without).min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        assert!((cost_without - cost).abs() > 1e-12, "this case is too close to call");
        if cost_without > cost {
            return weights;
        }
        subscribed.retain(|&arm| arm != worst);
    }
}

/// With a fixed fee: the same arms are unsubscribed at the same rounds as by an independent evaluation of Algorithm 3,
/// and the arm that is pulled has weight in its program.
#[test]
fn sparse_unsubscribes_when_the_cost_without_an_arm_is_no_higher() {
    let mut drops = [0; 5];
    for seed in 0..6 {
        let world = World::on_a_line(4, 20 + seed);
        let constants = Constants { beta: 1.5, loss: 0.05, kappa: 0.01 };
        for fee in [0.0, 0.01, 0.06, 0.3] {
            let text = format!("sparse(beta=1.5, sensitivity=0.05, kappa=0.01, fee={fee})");
            let mut play = Play::new(&world, &text.parse().unwrap(), seed);
            play.rounds(4);
            let mut subscribed = vec![0, 1, 2, 3];
            for round in 4..120 {
                let weights = unsubscribe(&play, constants, fee, 1, &mut subscribed);
                let arm = play.round();
                let what = format!("{text}, world {seed}, round {round}");
                assert_eq!(sparse(&play).support(), Some(subscribed.as_slice()), "{what}");
                assert!(weights[arm] > 0.0, "{what}: arm {arm} of {weights:?}");
            }
            drops[4 - subscribed.len()] += 1;
        }
    }
    assert!(
        drops[0] > 2 && drops[1] + drops[2] > 2 && drops[3] > 2,
        "the cases show too little: {drops:?} dropped 0 to 3"
    );
}

/// With the theoretical constants the widths are large: only a fee of twice the largest drops arms at once.
#[test]
fn sparse_finds_its_own_constants() {
    let world = World::on_a_line(3, 31);
    let constants = Constants::of(&world);
    let widest = constants.epsilon(&[1, 1, 1])[0];
    for (fee, left) in [(0.5 * widest, 3), (3.0 * widest, 1)] {
        let mut play = Play::new(&world, &format!("sparse(fee={fee})").parse().unwrap(), 0);
        play.rounds(3);
        let mut subscribed = vec![0, 1, 2];
        unsubscribe(&play, constants, fee, 1, &mut subscribed);
        play.round();
        assert_eq!(subscribed.len(), left);
        assert_eq!(sparse(&play).support(), Some(subscribed.as_slice()));
    }
}

/// With a fixed number of arms ℓ: the fee starts at 0 and grows each round until ℓ arms are left, then never again. No
/// arm is unsubscribed after that, and the arms are those of Algorithm 3 under that fee.
#[test]
fn sparse_raises_the_fee_until_enough_arms_are_gone() {
    let constants = Constants { beta: 1.5, loss: 0.05, kappa: 0.01 };
    for (seed, keep) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
        let world = World::on_a_line(4, 40 + seed);
        let text = format!("sparse(beta=1.5, sensitivity=0.05, kappa=0.01, keep={keep}, step=0.002)");
        let mut play = Play::new(&world, &text.parse().unwrap(), seed);
        play.rounds(4);
        assert_eq!(sparse(&play).fee(), 0.0);
        let (mut subscribed, mut fee) = (vec![0, 1, 2, 3], 0.0);
        for round in 4..250 {
            if subscribed.len() > keep {
                fee += 0.002;
            }
            let weights = unsubscribe(&play, constants, fee, keep, &mut subscribed);
            let arm = play.round();
            let what = format!("{text}, round {round}");
            assert!((sparse(&play).fee() - fee).abs() < 1e-12, "{what}: fee {} for {fee}", sparse(&play).fee());
            assert_eq!(sparse(&play).support(), Some(subscribed.as_slice()), "{what}");
            assert!(weights[arm] > 0.0, "{what}");
        }
        assert_eq!(subscribed.len(), keep, "{text}");
        // The reported weights are a mixture of the remaining arms.
        let weights = play.session.report().unwrap().weights();
        let (least, _) = play.estimate().least(&subscribed);
        assert!((play.estimate().value(&weights) - least).abs() < 1e-12);
        assert!((0..4).all(|arm| weights[arm] == 0.0 || subscribed.contains(&arm)));
    }
}

/// The number of samples per arm at the end of each phase: ⌊T/(|S|·⌈log₂ m⌉)⌋ more per phase (Karnin, Koren and Somekh)
/// for each of the ⌈|S|/2⌉ best so far.
fn phases(arms: usize, budget: usize) -> Vec<(usize, usize)> {
    let count = (arms as f64).log2().ceil() as usize;
    let (mut left, mut phases) = (arms, Vec::new());
    for _ in 0..count {
        phases.push((left, budget / (left * count)));
        left = left.div_ceil(2);
    }
    assert_eq!(left, 1);
    phases
}

/// Arm i always returns its own point with f = i/10, so the order of the arms is certain.
fn ladder(arms: usize) -> World {
    let points: Vec<[usize; 1]> = (0..arms).map(|arm| [arm]).collect();
    let linear: Vec<f64> = (0..arms).map(|arm| arm as f64 / 10.0).collect();
    World::of_points(&points.iter().map(<[usize; 1]>::as_slice).collect::<Vec<_>>()).with_linear(&linear)
}

#[test]
fn halving_keeps_its_schedule() {
    assert_eq!(phases(8, 480), [(8, 20), (4, 40), (2, 80)]);
    assert_eq!(phases(5, 100), [(5, 6), (3, 11), (2, 16)]);
    for (arms, budget) in [(2, 10), (3, 50), (4, 64), (5, 100), (8, 480), (20, 1000)] {
        let world = ladder(arms);
        let mut play = Play::new(&world, &PolicySpec::Halving(Some(budget)), 1);
        let mut expected = vec![0; arms];
        for (left, samples) in phases(arms, budget) {
            play.rounds(left * samples);
            expected[..left].iter_mut().for_each(|count| *count += samples);
            assert_eq!(play.asks(), expected, "{arms} arms, {budget} rounds, phase of {left}");
        }
        assert!(play.asked.len() <= budget, "the phases together stay within the budget");
        // The rest of the budget, and all later samples, go to the winner.
        assert!((0..budget).all(|_| play.round() == 0));
        assert_eq!(play.session.report().unwrap().best_single, Some(0));
    }
}

/// If the policy has no budget, it is that of the session in samples: rounds times the batch size.
#[test]
fn halving_takes_the_budget_of_the_session() {
    let world = ladder(4);
    let settings = SessionSettings::default().policy(PolicySpec::Halving(None)).rounds(32).batch(2);
    let mut play = Play::with_settings(&world, &settings);
    // ⌊64/(4·2)⌋ = 8 samples each, and then ⌊64/(2·2)⌋ = 16 more for two.
    play.rounds(32);
    assert_eq!(play.held(), [24, 24, 8, 8]);
    (0..5).for_each(|_| assert_eq!(play.round(), 0));
}

/// Shares in whole samples: nᵢ and wᵢt always differ by less than one, also while pulls are in flight.
#[test]
fn tracked_shares_are_never_a_sample_off() {
    let mut random = Random::seeded(8);
    let mut worst = (0.0, String::new());
    for case in 0..60 {
        let arms = 2 + case % 7;
        let raw: Vec<f64> = (0..arms).map(|_| (random.unit() + 0.01).powi(3)).collect();
        let total: f64 = raw.iter().sum();
        let world = ladder(arms);
        let mut play = Play::new(&world, &PolicySpec::Fixed(raw.clone(), true), case as u64);
        for t in 1..=300 {
            play.ask();
            if t % 3 > 0 {
                let position = play.random.below(play.flight.len());
                play.answer(position);
            }
            for (arm, n) in play.asks().into_iter().enumerate() {
                let off: f64 = (n as f64 - raw[arm] / total * t as f64).abs();
                if off > worst.0 {
                    worst = (off, format!("{n} of {t} samples for arm {arm} of shares {raw:?} over {total}"));
                }
            }
        }
    }
    assert!(worst.0 < 1.0 + 1e-9, "off by {}: {}", worst.0, worst.1);
}

/// Random shares: counts over many rounds; arms without weight are never drawn.
#[test]
fn drawn_shares_follow_the_weights() {
    let world = ladder(4);
    let mut play = Play::new(&world, &"fixed(weights=1 0 3 4)".parse().unwrap(), 4);
    for _ in 0..1600 {
        play.round();
    }
    let asks = play.asks();
    assert_eq!(asks[1], 0);
    let chi = chi_square(&[asks[0], asks[2], asks[3]], &[200.0, 600.0, 800.0]);
    assert!(chi < CHI_SQUARE[1], "{asks:?}");
}

/// Sums of two arms whose losses alone differ by 0.3, with this number of samples of each.
fn apart(samples: usize) -> Statistics {
    let mut statistics = Statistics::new(2);
    for at in 0..2 * samples {
        statistics.add(at % 2, &vec![0.5; at], 0.5, 0.3 * (at % 2) as f64);
    }
    statistics
}

/// Nothing more is learned about a dropped arm, and pulls in flight may return anything, so they are no reason to drop
/// one: with ten answers each and a thousand in flight, `sparse` keeps both arms, as it does with none in flight.
#[test]
fn sparse_drops_no_arm_on_answers_that_are_still_in_flight() {
    let widths = Widths { beta: 4.0, sensitivity: Sensitivity { loss: 1.0, kappa: 0.5 } };
    let policy = Sparse::with_fee(2, widths, 0.3);
    let left = |samples: usize, pending: usize| {
        let evidence = Evidence::of(&apart(samples), &[pending; 2], &[0, 1]);
        let choice = policy.choose(&evidence, &mut Random::seeded(1)).unwrap();
        choice.next.unwrap_or_else(|| policy.clone()).support().unwrap().to_vec()
    };
    assert_eq!(left(10, 0), [0, 1]);
    assert_eq!(left(10, 1000), [0, 1]);
    // Control: with as many answers, the worse arm is dropped.
    assert_eq!(left(1010, 0), [0]);
}

/// A phase of `halving` ends when its samples have been answered, not when they are in flight; it waits only a limited
/// time for arms that do not answer.
#[test]
fn halving_ends_a_phase_on_answers() {
    // Two phases of 4 arms with 80 samples: 10 of every arm, then 20.
    let spec: PolicySpec = "halving(rounds=80)".parse().unwrap();
    let world = World::of_modes(&[4, 3, 2, 1]);
    let arms_left = |play: &Play<'_>| play.session.policy().support().unwrap().len();
    let mut play = Play::new(&world, &spec, 3);
    // All pulls are asked for, and three of four are answered.
    play.ask_times(40);
    assert_eq!(play.asks(), [10; 4]);
    for _ in 0..30 {
        play.answer(0);
    }
    play.ask_times(5);
    assert_eq!(arms_left(&play), 4, "answers are still in flight");
    // Meanwhile the arms that do answer are pulled, fewest samples first.
    assert!(play.asks().iter().sum::<usize>() == 45);
    while !play.flight.is_empty() {
        play.answer(0);
    }
    play.ask();
    assert_eq!(arms_left(&play), 2, "all have answered");
    // The phase waits for an arm that never answers until the others have answered twice as much.
    let mut play = Play::new(&world, &spec, 3);
    while arms_left(&play) == 4 {
        assert!(play.told.len() <= 60, "{:?}", play.held());
        if play.ask() != 3 {
            play.answer(play.flight.len() - 1);
        }
    }
    assert!(play.held()[..3].iter().all(|held| (20..=21).contains(held)), "{:?}", play.held());
    assert_eq!(play.asks()[3], 10);
}
