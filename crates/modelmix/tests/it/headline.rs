//! The headline of a result: it names every arm that it uses, and no score that was not minimised.

use std::collections::BTreeMap;

use modelmix::mixture::Mixture;
use modelmix::objective::ScoreMeaning;
use modelmix::{Features, Inputs, Objective, RecordedArm, RecordedArms, solve};

/// Rows that are all different: one coordinate each, from `first` on, of `width`.
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

/// Arms with half of all kinds each; the first has the better scores.
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
    assert_eq!(alone.headline().answer, "Use left alone: no mixture has a better realism than its 1.9000.");
    let cheap = solved(&halves(), "realism");
    assert_eq!(cheap.headline().answer, "Use right alone: no mixture has a better realism than its 1.5000.");
}

/// 400 kinds of one arm and one more of another, whose best share is 1/401.
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

/// The same result with other arms.
fn with_weights(weights: &[f64]) -> Mixture {
    let mut best = solved(&halves(), "rke(bandwidth=0.1)");
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
        answer.starts_with("Mix m0 0.4%, m1 0.4%, m2 0.4%, m3 0.4%, m4 0.4%, m5 0.4%, 244 others 98% together: "),
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
