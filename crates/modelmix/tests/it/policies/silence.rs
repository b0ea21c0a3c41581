//! Arms that never answer, that always fail, and that fail for a while.

use modelmix::PolicySpec;

use super::{check_converged, check_report, specs};
use crate::worlds::{Play, World};

const MODES: [usize; 3] = [3, 2, 1];

fn others(arm: usize) -> Vec<usize> {
    (0..MODES.len()).filter(|&other| other != arm).collect()
}

#[test]
fn an_arm_that_never_answers_does_not_hold_up_the_others() {
    let world = World::of_modes(&MODES);
    for spec in specs(3) {
        for silent in 0..3 {
            let what = format!("{spec}, arm {silent} silent");
            let mut play = Play::new(&world, &spec, 11);
            for _ in 0..400 {
                if play.ask() != silent {
                    play.answer(play.flight.len() - 1);
                }
            }
            check_report(&play, &what);
            let asks = play.asks();
            match spec {
                // These follow shares regardless of answers: pulls in flight have their share as well.
                PolicySpec::Uniform | PolicySpec::Fixed(..) => assert!(asks[silent] < 250, "{what}: {asks:?}"),
                // The quota of one phase, ⌊200/(3·2)⌋; then it is dropped.
                PolicySpec::Halving(_) => assert!(asks[silent] <= 33, "{what}: {asks:?}"),
                _ => assert_eq!(asks[silent], 1, "{what}"),
            }
            assert!(others(silent).iter().all(|&arm| play.held()[arm] > 0), "{what}");
            check_converged(&play, &spec, &world, &others(silent), &what);
        }
    }
}

/// It answered before, so a rule may continue to prefer it; the session must handle that.
#[test]
fn an_arm_that_falls_silent_can_be_given_up() {
    let world = World::of_modes(&MODES);
    for spec in specs(3) {
        for silent in 0..3 {
            let what = format!("{spec}, arm {silent} falls silent");
            let mut play = Play::new(&world, &spec, 12);
            play.rounds(30);
            for _ in 0..100 {
                if play.ask() != silent {
                    play.answer(play.flight.len() - 1);
                }
            }
            check_report(&play, &what);
            while !play.flight.is_empty() {
                play.abandon(0);
            }
            play.rounds(50);
            check_report(&play, &what);
        }
    }
}

#[test]
fn an_arm_that_always_fails_is_asked_logarithmically_often() {
    let world = World::of_modes(&MODES);
    const ASKS: usize = 1000;
    for spec in specs(3) {
        for failing in 0..3 {
            let what = format!("{spec}, arm {failing} fails");
            let mut play = Play::new(&world, &spec, 13);
            for _ in 0..ASKS {
                let arm = play.ask();
                let last = play.flight.len() - 1;
                if arm == failing { play.abandon(last) } else { play.answer(last) }
            }
            check_report(&play, &what);
            // After failure k it rests for 2^k − 1 asks: k failures need 1 + Σ_{j<k} 2^j ≤ asks, so k ≤ log2(asks + 1).
            let times: Vec<usize> = (0..ASKS).filter(|&at| play.asked[at] == failing).collect();
            for (failure, pair) in times.windows(2).enumerate() {
                assert!(pair[1] - pair[0] >= 2 << failure, "{what}: asked at {times:?}");
            }
            assert!(times.len() <= (ASKS + 1).ilog2() as usize + 1, "{what}: asked at {times:?}");
            assert_eq!(play.session.report().unwrap().arms[failing].abandoned, times.len() as u64, "{what}");
            check_converged(&play, &spec, &world, &others(failing), &what);
        }
    }
}

#[test]
fn failures_in_flight_are_survived() {
    let world = World::of_modes(&MODES);
    for spec in specs(3) {
        for in_flight in [3, 16] {
            let what = format!("{spec}, {in_flight} in flight");
            let mut play = Play::new(&world, &spec, 14);
            for _ in 0..300 {
                while play.flight.len() < in_flight {
                    play.ask();
                }
                let position = play.random.below(in_flight);
                let fails = play.flight[position].index == 1;
                if fails { play.abandon(position) } else { play.answer(position) }
            }
            check_report(&play, &what);
            assert!(play.held()[0] > 20, "{what}: {:?}", play.held());
        }
    }
}

/// Abandons every pull of the given arms until there were `failures`, asking continuously; the others answer.
fn fail(play: &mut Play<'_>, arms: &[usize], failures: usize) {
    let mut left = failures;
    while left > 0 {
        let arm = play.ask();
        let last = play.flight.len() - 1;
        if arms.contains(&arm) {
            play.abandon(last);
            left -= 1;
        } else {
            play.answer(last);
        }
    }
}

#[test]
fn an_arm_that_recovers_is_asked_again() {
    let world = World::of_modes(&MODES);
    // Successive Halving drops arms permanently, and may drop this one.
    for spec in specs(3).into_iter().filter(|spec| !matches!(spec, PolicySpec::Halving(_))) {
        for arm in 0..3 {
            let mut play = Play::new(&world, &spec, 15);
            // Four failures, after which it rests for 15 asks.
            fail(&mut play, &[arm], 4);
            play.rounds(60);
            assert!(play.held()[arm] > 0, "{spec}: {:?}", play.held());
        }
    }
}

/// If all arms fail, none is worse than the others: afterwards, all of them are pulled again soon.
#[test]
fn an_outage_of_all_arms_loses_none_of_them() {
    let world = World::of_modes(&MODES);
    let mut lost = Vec::new();
    for spec in specs(3).into_iter().filter(|spec| !matches!(spec, PolicySpec::Halving(_))) {
        let mut play = Play::new(&world, &spec, 17);
        fail(&mut play, &[0, 1, 2], 40);
        check_report(&play, &spec.to_string());
        play.rounds(100);
        check_report(&play, &spec.to_string());
        if play.held().contains(&0) {
            lost.push(format!("{spec}: {:?}", play.held()));
        }
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

/// A single arm is pulled however often it fails: there is no other.
#[test]
fn a_single_arm_has_no_rest() {
    let world = World::of_modes(&[2]);
    for spec in specs(1) {
        let mut play = Play::new(&world, &spec, 16);
        for _ in 0..40 {
            assert_eq!(play.ask(), 0, "{spec}");
            play.abandon(0);
        }
        play.rounds(5);
        check_report(&play, &spec.to_string());
    }
}
