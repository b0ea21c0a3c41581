//! Ties: indistinguishable arms are chosen equally often, at any position in the list.

use modelmix::PolicySpec;

use super::even_specs;
use crate::worlds::{CHI_SQUARE, Play, World, chi_square};

/// Fees that are below and above every width, so that arms are dropped late, early and at once.
fn tied_specs(arms: usize) -> Vec<PolicySpec> {
    let mut specs = even_specs(arms);
    for text in ["sparse(fee=100)", "sparse(keep=2, step=100)", "sparse(keep=1, step=0.5, sensitivity=0.1)"] {
        specs.push(text.parse().unwrap());
    }
    specs
}

/// How often each arm is pulled at the `at`-th ask, over many seeds.
fn asked_at(world: &World, spec: &PolicySpec, at: usize, seeds: u64) -> Vec<usize> {
    let mut counts = vec![0; world.len()];
    for seed in 0..seeds {
        let mut play = Play::new(world, spec, seed);
        play.rounds(at);
        counts[play.ask()] += 1;
    }
    counts
}

/// Four arms that always return the same point, each its own or all the same; and four that draw at random from the
/// same points. They differ only in their position in the list.
#[test]
fn indistinguishable_arms_are_asked_equally_often() {
    let worlds = [
        ("own points", World::of_points(&[&[0], &[1], &[2], &[3]])),
        ("one point", World::of_points(&[&[0], &[0], &[0], &[0]])),
        ("the same points", World::of_points(&[&[0, 1], &[0, 1], &[0, 1], &[0, 1]])),
    ];
    let mut biased = Vec::new();
    for (name, world) in &worlds {
        for spec in tied_specs(4) {
            for at in [0, 4, 8, 13] {
                let counts = asked_at(world, &spec, at, 400);
                // 3 degrees of freedom
                if chi_square(&counts, &[100.0; 4]) > CHI_SQUARE[2] {
                    biased.push(format!("{spec}, {name}, after {at} rounds: {counts:?}"));
                }
            }
        }
    }
    assert!(biased.is_empty(), "{}", biased.join("\n"));
}

/// Arms 0 and 2 are twins; the third is better, worse, or covers more.
#[test]
fn twins_beside_a_third_arm_are_asked_equally_often() {
    let worlds = [
        ("a better third", World::of_points(&[&[0], &[1], &[0]]).with_linear(&[0.5, 0.25])),
        ("a worse third", World::of_points(&[&[0], &[1], &[0]]).with_linear(&[0.25, 0.5])),
        ("a broader third", World::of_points(&[&[0, 1], &[2, 3, 4], &[0, 1]])),
        ("a broader third and points of their own", World::of_points(&[&[0, 1], &[4, 5, 6], &[2, 3]])),
    ];
    let mut biased = Vec::new();
    for (name, world) in &worlds {
        for spec in tied_specs(3) {
            for at in [0, 6, 20] {
                let counts = asked_at(world, &spec, at, 400);
                let (left, right) = (counts[0], counts[2]);
                let half = (left + right) as f64 / 2.0;
                // 1 degree of freedom; no conclusion if the twins are hardly pulled.
                if half >= 10.0 && chi_square(&[left, right], &[half; 2]) > CHI_SQUARE[0] {
                    biased.push(format!("{spec}, {name}, after {at} rounds: {counts:?}"));
                }
            }
        }
    }
    assert!(biased.is_empty(), "{}", biased.join("\n"));
}

/// Which of two equal arms Successive Halving drops, and which one sparse mixtures unsubscribe, is also a tie.
#[test]
fn which_twin_is_dropped_is_drawn() {
    let world = World::of_points(&[&[0], &[1], &[0]]);
    let mut biased = Vec::new();
    for text in ["sparse(fee=100)", "sparse(keep=2, step=100)", "sparse(keep=1, step=100)", "halving(rounds=12)"] {
        let spec: PolicySpec = text.parse().unwrap();
        let mut kept = [0; 3];
        for seed in 0..600 {
            let mut play = Play::new(&world, &spec, seed);
            play.rounds(30);
            let weights = play.session.report().unwrap().weights();
            (0..3).filter(|&arm| weights[arm] > 0.0).for_each(|arm| kept[arm] += 1);
        }
        let half = (kept[0] + kept[2]) as f64 / 2.0;
        if half < 10.0 || chi_square(&[kept[0], kept[2]], &[half; 2]) > CHI_SQUARE[0] {
            biased.push(format!("{spec}: kept {kept:?}"));
        }
    }
    assert!(biased.is_empty(), "{}", biased.join("\n"));
}
