//! Code shared by the command line and other shells: values per arm, scores of samples, score documents, and defaults.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use modelmix::compute::{Cpu, Engine};
use modelmix::internals::arms::by_arm;
use modelmix::metrics::{Metric, Pool, Preset, ScoreDefinitions, ScoreSettings, Scorer, by_name, score_watched};
use modelmix::policy::Random;
use modelmix::simplex::Bounds;
use modelmix::{Error, Features, Objective, RecordedArm, RecordedArms};

fn names() -> Vec<String> {
    ["left", "middle", "right"].map(String::from).to_vec()
}

fn says<T: Debug>(result: Result<T, Error>, sentence: &str) {
    assert_eq!(result.unwrap_err().to_string(), sentence);
}

fn features(rows: usize, seed: u64) -> Features {
    let mut random = Random::seeded(seed);
    Features::from_rows((0..rows).map(|_| [0; 3].map(|_| 1.0 + random.unit() as f32))).unwrap()
}

fn arms() -> RecordedArms {
    let arm = |(seed, name): (u64, String)| RecordedArm::new(name, features(20 + seed as usize, seed));
    RecordedArms::new((0..).zip(names()).map(arm).collect()).unwrap()
}

#[test]
fn numbers_by_arm() {
    let given = |pairs: &[(&str, f64)], default| {
        let pairs: Vec<(String, f64)> = pairs.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        by_arm("cost", &names(), pairs, default)
    };
    assert_eq!(given(&[("right", 3.0), ("left", -1.0)], Some(0.5)).unwrap(), [-1.0, 0.5, 3.0]);
    assert_eq!(given(&[("middle", 2.0), ("right", 3.0), ("left", 1.0)], None).unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(given(&[], Some(0.0)).unwrap(), [0.0; 3]);
    says(
        given(&[("midle", 1.0)], Some(0.0)),
        "there is no arm midle (did you mean middle?); the arms are left, middle, right",
    );
    says(given(&[("up", 1.0)], Some(0.0)), "there is no arm up; the arms are left, middle, right");
    says(given(&[("left", 1.0), ("left", 1.0)], Some(0.0)), "the cost of left is given twice; give it once");
    says(given(&[("left", f64::NAN)], Some(0.0)), "the cost of left is NaN, but it must be a finite number");
    says(
        given(&[("left", 1.0)], None),
        "arm middle has no cost; give one for every arm, 0 if it has none: left, middle, right",
    );
    assert!(matches!(
        given(&[("up", 1.0)], None).unwrap_err(),
        Error::ByArm { what, arm, .. } if (what.as_str(), arm.as_str()) == ("cost", "up")
    ));
}

#[test]
fn bounds_by_arm() {
    let bounds = |floors: [f64; 3], caps: [f64; 3]| Bounds::by_arm(&names(), floors.to_vec(), caps.to_vec());
    assert_eq!(bounds([0.0; 3], [1.0; 3]).unwrap(), Bounds::simplex(3));
    says(
        bounds([0.0, 0.6, 0.0], [1.0, 0.5, 1.0]),
        "the floor of middle is 0.6 and its cap 0.5, but both must be between 0 and 1, and the floor must not exceed the cap",
    );
    for wrong in [-0.1, 1.1, f64::NAN] {
        assert!(bounds([0.0, 0.0, wrong], [1.0; 3]).unwrap_err().to_string().contains("the floor of right"));
        assert!(bounds([0.0; 3], [wrong, 1.0, 1.0]).unwrap_err().to_string().contains("the floor of left"));
    }
    assert!(bounds([0.5; 3], [1.0; 3]).unwrap_err().to_string().contains("add up to 1.5"));
    let two = Bounds::by_arm(&names(), vec![0.0; 2], vec![1.0; 2]);
    assert!(two.unwrap_err().to_string().contains("bounds for 2 arms, but 3 arms"));
}

#[test]
fn scores_of_samples() {
    let given = |lengths: &[(&str, usize)]| {
        let values = lengths.iter().map(|(arm, length)| (arm.to_string(), vec![0.5; *length])).collect();
        BTreeMap::from([("wit".to_string(), values)])
    };
    let right = given(&[("left", 20), ("middle", 21), ("right", 22)]);
    let scored = arms().with_scores(&right).unwrap();
    assert_eq!(scored[1].scores["wit"], [0.5; 21]);
    assert_eq!(scored[1].features, arms()[1].features);
    // Existing scores stay, and those given again are replaced.
    let more = BTreeMap::from([("taste".to_string(), right["wit"].clone()), ("wit".to_string(), right["wit"].clone())]);
    assert_eq!(scored.with_scores(&more).unwrap()[0].scores.keys().collect::<Vec<_>>(), ["taste", "wit"]);
    says(
        arms().with_scores(&given(&[("left", 20), ("middel", 21), ("right", 22)])),
        "score wit is given for middel, which is not an arm (did you mean middle?); the arms are left, middle, right",
    );
    says(
        arms().with_scores(&given(&[("left", 20), ("right", 22)])),
        "score wit is not given for middle; give it for every arm: left, middle, right",
    );
    says(
        arms().with_scores(&given(&[("left", 20), ("middle", 20), ("right", 22)])),
        "arm middle: score wit has 20 values for 21 samples; give one per sample",
    );
}

#[test]
fn documents_of_scores() {
    let (arms, reference) = (arms(), features(40, 9));
    let settings = ScoreSettings::default();
    let sets: Vec<&Features> = arms.iter().map(|arm| &arm.features).collect();
    let scorer = Scorer::new(settings.clone(), &sets, Some(&reference), &Engine::new(Cpu::with_threads(1))).unwrap();
    let calls = Cell::new(0);
    let done = || calls.set(calls.get() + 1);
    let score = |weights: Option<&[f64]>| {
        calls.set(0);
        score_watched(&arms, Some(&reference), &settings, weights, &Engine::new(Cpu::with_threads(2)), &done)
    };

    let plain = score(None).unwrap();
    assert_eq!(calls.get(), 4);
    assert_eq!(plain.settings, ScoreDefinitions::of(&scorer));
    assert_eq!(plain.mixture, None);
    for (scored, arm) in plain.arms.iter().zip(&arms) {
        assert_eq!((&scored.name, scored.samples), (&arm.name, arm.features.len()));
        let expected = by_name(&scorer.score(&Pool::of(&arm.features)).unwrap());
        assert_eq!((scored.scores.clone(), scored.errors.clone()), expected);
    }

    let mixed = score(Some(&[1.0, 0.0, 3.0])).unwrap();
    assert_eq!(calls.get(), 5);
    assert_eq!(mixed.arms, plain.arms);
    let mixture = mixed.mixture.unwrap();
    let pool = Pool::arms(&arms, &[0.25, 0.0, 0.75]).unwrap();
    assert_eq!(mixture.weights.into_values().collect::<Vec<_>>(), [0.25, 0.0, 0.75]);
    assert_eq!(mixture.effective_samples, pool.effective_len());
    assert_eq!((mixture.scores, mixture.errors), by_name(&scorer.score(&pool).unwrap()));
    let huge = score(Some(&[1e308, 0.0, 1e308])).unwrap().mixture.unwrap();
    assert_eq!(huge.weights.into_values().collect::<Vec<_>>(), [0.5, 0.0, 0.5]);

    // Errors are reported before anything is computed.
    for (weights, words) in [
        (vec![1.0, -1.0, 1.0], "the weight of middle is -1, but it must be zero or a positive number"),
        (vec![0.0; 3], "a mixture needs an arm with a positive weight, but all weights are 0; give one"),
        (vec![1.0], "a mixture needs one weight per arm, zero for those left out: 1 given for 3 arms"),
    ] {
        says(score(Some(&weights)), words);
        assert_eq!(calls.get(), 0);
    }
}

#[test]
fn what_is_usual() {
    assert_eq!(Objective::usual(true), Objective::mmd());
    assert_eq!(Objective::usual(false), Objective::rke());
    let settings = Preset::TorchFidelity.settings();
    let without = settings.clone().without_reference();
    assert_eq!(without.metrics, [Metric::Rke, Metric::Vendi]);
    assert_eq!(without.clone().metrics(settings.metrics.clone()), settings);
    assert!(modelmix::score(&arms(), None, &ScoreSettings::default(), None).is_err());
    let settings = ScoreSettings::default().without_reference();
    assert!(modelmix::score(&arms(), None, &settings, None).is_ok());
}
