//! The headline of a result names every arm that it uses, and only scores that were minimised.

use std::collections::BTreeMap;

use modelmix::mixture::{Intervals, Mixture, SolveSettings, solve_with, solve_within};
use modelmix::objective::ScoreMeaning;
use modelmix::simplex::Bounds;
use modelmix::{Features, Inputs, Objective, RecordedArm, RecordedArms, solve};

/// Orthogonal rows: one coordinate each, from `first` on, of `width`.
fn kinds(first: usize, count: usize, width: usize) -> Features {
    let row = |kind: usize| (0..width).map(move |column| if column == kind { 1.0f32 } else { 0.0 }).collect::<Vec<_>>();
    Features::from_rows((first..first + count).map(row)).unwrap()
}

fn solved(arms: &RecordedArms, objective: &str) -> Mixture {
    let inputs = Inputs::new().arms(arms).reference(kinds(0, arms[0].features.width(), arms[0].features.width()));
    solve(arms, &Objective::parse(objective).unwrap().prepare(inputs).unwrap()).unwrap()
}

fn meaning(objective: &str) -> (String, bool) {
    let ScoreMeaning { name, more_is_better, .. } = ScoreMeaning::of(&Objective::parse(objective).unwrap());
    (name, more_is_better)
}

#[test]
fn a_score_has_the_direction_of_its_sign() {
    for (objective, name, more) in [
        ("rke", "RKE", true),
        ("2*rke", "RKE", true),
        ("mmd", "MMD² ×100", false),
        ("kid", "KID", false),
        ("fid", "FID", false),
        ("vendi", "Vendi", true),
        ("-precision", "precision", true),
        ("-0.5*density", "density", true),
        ("cost", "cost", false),
        ("toxicity", "toxicity", false),
        ("-realism", "realism", true),
        ("-realism + kid", "loss", false),
        ("kid - realism", "loss", false),
        ("rke + 0.5*cost", "loss", false),
    ] {
        assert_eq!(meaning(objective), (name.to_string(), more), "{objective}");
    }
}

/// Arms with half of all modes each; the first has the better scores.
fn halves() -> RecordedArms {
    let arm = |name: &str, first: usize, realism: f64| {
        RecordedArm::new(name, kinds(first, 4, 8)).with_score("realism", vec![realism; 4])
    };
    RecordedArms::new(vec![arm("left", 0, 1.90), arm("right", 4, 1.50)]).unwrap()
}

/// Higher realism is better, and mixing for MMD² costs some of it: that is not a gain in realism.
#[test]
fn a_sum_of_terms_is_not_read_as_its_first_term() {
    let best = solved(&halves(), "-0.001*realism + mmd(bandwidth=0.1)");
    assert!(best.arms.iter().all(|arm| arm.weight > 0.1), "{:?}", best.weights());
    assert_eq!((best.score.name.as_str(), best.score.more_is_better), ("loss", false));
    assert_eq!(best.mixture.score, best.mixture.loss);
    assert!(best.arms.iter().all(|arm| arm.score == arm.loss));
    let answer = best.headline().answer;
    assert!(answer.contains(": a loss of ") && !answer.contains("realism"), "{answer}");
    // The value of each term is still available.
    assert!(best.mixture.terms[0].score < best.best_arm().terms[0].score);

    let alone = solved(&halves(), "-realism");
    assert_eq!(alone.intervals, Intervals::Unavailable, "scores that never differ have no spread");
    assert_eq!(alone.headline().answer, "Use left alone: no mixture has a better realism than its 1.9000.");
    let cheap = solved(&halves(), "realism");
    assert_eq!(cheap.headline().answer, "Use right alone: no mixture has a better realism than its 1.5000.");
}

/// 400 modes in one arm and one more in another, whose optimal share is 1/401.
#[test]
fn an_arm_with_little_weight_is_named() {
    let arms = RecordedArms::new(vec![
        RecordedArm::new("many", kinds(0, 400, 401)),
        RecordedArm::new("one", kinds(400, 1, 401).select([0, 0]).unwrap()),
    ])
    .unwrap();
    let best = solved(&arms, "rke(bandwidth=0.1)");
    assert!((best.arms[1].weight - 1.0 / 401.0).abs() < 1e-6, "{:?}", best.weights());
    assert_eq!(
        best.headline().answer,
        "Mix many 99.8%, one 0.2%: RKE 401.0 instead of 400.0 with the best single model, many."
    );
}

/// The same result with other arms, without a test.
fn with_weights(weights: &[f64]) -> Mixture {
    let mut best = solved(&halves(), "rke(bandwidth=0.1)");
    (best.p_value, best.gain_interval) = (None, None);
    let arm = |(index, &weight): (usize, &f64)| {
        let mut arm = best.arms[0].clone();
        (arm.name, arm.weight) = (format!("m{index}"), weight);
        arm
    };
    best.arms = weights.iter().enumerate().map(arm).collect();
    best
}

#[test]
fn no_arm_is_left_out() {
    let answer = with_weights(&[1.0 / 250.0; 250]).headline().answer;
    assert!(
        answer.starts_with("Mix m0 0.4%, m1 0.4%, m2 0.4%, m3 0.4%, m4 0.4%, m5 0.4%, 244 others together 97.6%: "),
        "{answer}"
    );
    let answer = with_weights(&[0.0, 0.2, 0.00001, 0.79999]).headline().answer;
    assert!(answer.starts_with("Mix m3 80%, m1 20%, m2 <0.1%: RKE "), "{answer}");
    let answer = with_weights(&[0.0, 0.99999, 0.00001]).headline().answer;
    assert!(answer.starts_with("Mix m1 >99.9%, m2 <0.1%: "), "{answer}");
    // Eight are still listed, and weights that are only rounding error are not.
    let mut eight = vec![0.125; 8];
    eight.push(1e-15);
    let answer = with_weights(&eight).headline().answer;
    assert!(answer.contains("m7 12%") && !answer.contains("others") && !answer.contains("m8"), "{answer}");
}

/// 37.47%, 31.46% and 31.07% are 37%, 31% and 31% if each is rounded: a percent would be missing.
#[test]
fn the_shares_add_up_to_a_hundred() {
    let answer = with_weights(&[0.3747, 0.3146, 0.3107]).headline().answer;
    assert!(answer.starts_with("Mix m0 38%, m1 31%, m2 31%: "), "{answer}");
}

/// A gain that is not visible with three digits is written with more.
#[test]
fn a_small_gain_is_visible() {
    let mut best = with_weights(&[0.5, 0.5]);
    (best.mixture.score, best.best_single.score) = (12.6601, 12.6598);
    assert!(best.headline().answer.contains("RKE 12.6601 instead of 12.6598 with"), "{}", best.headline().answer);
}

#[test]
fn scores_by_name_follow_the_objective() {
    let given = BTreeMap::from([(
        "wit".to_string(),
        BTreeMap::from([("left".into(), vec![1.0; 4]), ("right".into(), vec![2.0; 4])]),
    )]);
    let arms = halves().with_scores(&given).unwrap();
    let best = solved(&arms, "-wit");
    assert_eq!((best.best_single.name.as_str(), best.best_single.score), ("right", 2.0));
    assert_eq!((best.mixture.score, best.mixture.loss), (2.0, -2.0));
}

/// Rows around a centre, from a small generator.
fn cloud(centre: f32, count: usize, seed: u64) -> Features {
    let mut state = seed;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    Features::from_rows((0..count).map(|_| [centre + draw(), draw()])).unwrap()
}

/// Two samples of the same distribution: any gain of mixing them is noise.
fn twins() -> RecordedArms {
    let arm = |name: &str, seed: u64| RecordedArm::new(name, cloud(0.0, 40, seed));
    RecordedArms::new(vec![arm("left", 1000003), arm("right", 31337)]).unwrap()
}

#[test]
fn a_gain_that_is_not_significant_is_called_so() {
    let best = solved(&twins(), "rke(bandwidth=0.5)");
    assert!(best.gain > 0.0 && best.p_value.unwrap() > 0.05, "{} {:?}", best.gain, best.p_value);
    let headline = best.headline();
    let (single, p) = (&best.best_single.name, best.p_value.unwrap());
    let start = format!("No significant gain over the best single model, {single} (p = {p:.2}; 95% CI 0 to ");
    assert!(headline.answer.starts_with(&start), "{}", headline.answer);
    // The two numbers next to each other differ.
    let (mixed, alone) = headline.answer.split_once(": RKE ").unwrap().1.split_once(" instead of ").unwrap();
    assert_ne!(mixed, alone.trim_end_matches('.'));
    let certainty = headline.certainty.unwrap();
    assert!(certainty.contains(" 0 to ") && !certainty.contains("beats"), "{certainty}");
}

#[test]
fn without_a_test_nothing_is_said_of_significance() {
    let arms = twins();
    let loss = Objective::parse("rke(bandwidth=0.5)").unwrap().prepare(Inputs::new().arms(&arms)).unwrap();
    let headline = solve_with(&arms, &loss, &SolveSettings::new().intervals(false)).unwrap().headline();
    assert_eq!(headline.certainty, None);
    assert!(headline.answer.starts_with("Mix ") && !headline.answer.contains("ignificant"), "{}", headline.answer);
}

/// If all samples of every arm are equal, there is no variance to estimate.
#[test]
fn constant_arms_have_no_intervals() {
    let arm = |name: &str, place: f32| RecordedArm::new(name, Features::from_rows([[place, 0.0]; 20]).unwrap());
    let arms = RecordedArms::new(vec![arm("a", 0.0), arm("b", 9.0)]).unwrap();
    let best = solved(&arms, "rke(bandwidth=1)");
    assert!((best.arms[0].weight - 0.5).abs() < 1e-6);
    assert_eq!((best.intervals, best.p_value, best.gain_interval), (Intervals::Unavailable, None, None));
    assert!(best.arms.iter().all(|arm| arm.interval.is_none()));
    assert_eq!(best.headline().answer, "Mix a 50%, b 50%: RKE 2.00 instead of 1.00 with the best single model, a.");
}

/// Mixing two equal arms half and half is no gain, so one of them is enough.
#[test]
fn a_mixture_that_gains_nothing_is_not_advised() {
    let arm = |name: &str| RecordedArm::new(name, kinds(0, 4, 8));
    let arms = RecordedArms::new(vec![arm("a"), arm("b")]).unwrap();
    let mut best = solved(&arms, "rke(bandwidth=0.1)");
    best.arms.iter_mut().for_each(|arm| arm.weight = 0.5);
    let answer = best.headline().answer;
    let single = &best.best_single.name;
    assert_eq!(
        answer,
        format!(
            "Use {single} alone: no mixture has a better RKE than its 4.0000. The weights found, a 50%, b 50%, are as good."
        )
    );
}

/// KID is shown without the bias of small samples, so the mixture with the smallest loss may not have the best KID.
#[test]
fn the_loss_is_named_if_the_score_does_not_follow_it() {
    let arms = RecordedArms::new(vec![
        RecordedArm::new("near", cloud(0.0, 30, 5)),
        RecordedArm::new("far", cloud(9.0, 30, 7)),
    ])
    .unwrap();
    let objective = Objective::parse("mmd(bandwidth=2)").unwrap();
    let loss = objective.prepare(Inputs::new().arms(&arms).reference(cloud(0.0, 50, 9))).unwrap();
    let best = solve(&arms, &loss).unwrap();
    assert_eq!(best.weights(), [1.0, 0.0]);
    let answer = best.headline().answer;
    assert!(
        answer.starts_with("Use near alone (MMD² ") && answer.contains("no mixture has a smaller loss"),
        "{answer}"
    );
}

#[test]
fn floors_and_caps_are_spoken_of() {
    let arms = RecordedArms::new(vec![
        RecordedArm::new("wide", kinds(0, 6, 8)),
        RecordedArm::new("same", kinds(0, 1, 8).select([0, 0]).unwrap()),
    ])
    .unwrap();
    let loss = Objective::parse("rke(bandwidth=0.1)").unwrap().prepare(Inputs::new().arms(&arms)).unwrap();
    let forced = |floors: Vec<f64>, caps: Vec<f64>| {
        solve_within(&arms, &loss, &Bounds::new(floors, caps).unwrap()).unwrap().headline().answer
    };
    let answer = forced(vec![0.0, 0.4], vec![1.0, 1.0]);
    // (0.6²·6 + 2·0.6·0.4 + 0.4²·6)/6 = 0.4 (wide has 1/6 with itself and with the other arm), against 1/6
    assert_eq!(
        answer,
        "The best mixture within the floors and caps is wide 60%, same 40%: a loss of 0.300; the best single model, wide, is better: 0.167."
    );
    let answer = forced(vec![1.0, 0.0], vec![1.0, 1.0]);
    assert_eq!(answer, "Use wide alone: no mixture within the floors and caps has a better RKE than its 6.0000.");
    let answer = solve(&arms, &loss).unwrap().headline().answer;
    assert_eq!(answer, "Use wide alone: no mixture has a better RKE than its 6.0000.");
    let only = RecordedArms::new(vec![RecordedArm::new("wide", kinds(0, 6, 8))]).unwrap();
    assert_eq!(solved(&only, "rke(bandwidth=0.1)").headline().answer, "wide is the only arm: RKE 6.00.");
}

/// More precision is better, and less cost: the opposite sign gets a warning.
#[test]
fn a_reversed_term_is_warned_of() {
    let warnings = |objective: &str| Objective::parse(objective).unwrap().warnings();
    for usual in [
        "rke - precision",
        "kid - 0.2*density",
        "rke + 0.1*cost",
        "kid + toxicity",
        "kid - realism",
        "-coverage",
        "rke",
    ] {
        assert_eq!(warnings(usual), Vec::<String>::new(), "{usual}");
    }
    for (objective, term, written) in [
        ("rke + precision", "minimises precision, but higher", "rke - precision"),
        ("mmd(bandwidth=20) + 0.2*density", "minimises density, but higher", "mmd(bandwidth=20) - 0.2*density"),
        ("rke + coverage", "minimises coverage, but higher", "rke - coverage"),
        ("rke - 0.5*cost", "maximises cost, but lower", "rke + 0.5*cost"),
    ] {
        let found = warnings(objective);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(term) && found[0].ends_with(&format!("write \"{written}\"")), "{found:?}");
    }
    let both = warnings("rke + precision - cost");
    assert!(both.len() == 2 && both.iter().all(|one| one.ends_with("write \"rke - precision + cost\"")), "{both:?}");
    let best = solved(&halves(), "rke(bandwidth=0.1) + 0.1*precision");
    assert_eq!(best.warnings, warnings("rke(bandwidth=0.1) + 0.1*precision"));
}
