//! Known samples: where they count and where not, against sums by double loops.

use modelmix::compute::Reference;
use modelmix::policy::Random;
use modelmix::session::{Cap, KnownAs, Retention, Selection};
use modelmix::{
    Error, Features, Gap, Inputs, Objective, RecordedArm, RecordedArms, Session, SessionSettings, Until, solve,
};

use super::{NAMES, is_text, rke, state};
use crate::worlds::{cluster, clusters};

/// A sample that was told or known, in that order.
#[derive(Clone)]
struct Sample {
    arm: usize,
    x: Vec<f32>,
    is_collected: bool,
    /// Its weight.
    weight: f64,
}

/// k² of the Gaussian kernel with bandwidth 1.5, from its definition.
fn kappa(x: &[f32], y: &[f32]) -> f64 {
    let distance: f64 = x.iter().zip(y).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum();
    (-distance / (1.5 * 1.5)).exp()
}

/// The mean κ over all pairs of two sets, including each sample with itself.
fn mean_kappa(left: &[&Sample], right: &[&Sample]) -> f64 {
    let sum: f64 = left.iter().flat_map(|x| right.iter().map(|y| x.weight * y.weight * kappa(&x.x, &y.x))).sum();
    let mass = |set: &[&Sample]| set.iter().map(|x| x.weight).sum::<f64>();
    sum / (mass(left) * mass(right))
}

/// Runs a session with known samples at the start and some later, and records everything that counts.
fn run(retention: Retention, rounds: usize) -> (Session, Vec<Sample>) {
    let settings = SessionSettings::default().retention(retention).seed(2);
    let mut session = Session::new(NAMES, rke(), &settings).unwrap();
    let (mut random, mut record) = (Random::seeded(5), Vec::<Sample>::new());
    for round in 0..rounds {
        if [0, 1, 2, 20, 31].contains(&round) {
            let (arm, samples) = (round % 3, 2 + round % 4);
            let known = clusters(arm, samples, &mut random);
            let known_as = if round == 31 { KnownAs::Collected } else { KnownAs::Evidence };
            session.known(arm, &known, &Default::default(), known_as).unwrap();
            let is_collected = known_as == KnownAs::Collected;
            record.extend((0..samples).map(|at| {
                let x = known.row(at).to_vec();
                Sample { arm, x, is_collected, weight: 1.0 }
            }));
            if let Retention::HalfLife { samples, .. } = retention {
                let fades = if is_collected { known.len() } else { 0 };
                let old = record.len() - known.len();
                for at in 0..fades {
                    let factor = (-1.0 / samples).exp2();
                    record[..old + at].iter_mut().for_each(|sample| sample.weight *= factor);
                }
            }
        }
        let pull = session.ask().unwrap();
        let x = cluster(pull.index, &mut random);
        session.tell(pull.id, &Features::new(2, x.clone()).unwrap()).unwrap();
        if let Retention::HalfLife { samples, .. } = retention {
            record.iter_mut().for_each(|sample| sample.weight *= (-1.0 / samples).exp2());
        }
        record.push(Sample { arm: pull.index, x, is_collected: true, weight: 1.0 });
        if let Retention::Window(window) = retention {
            record.drain(..record.len().saturating_sub(window));
        }
    }
    (session, record)
}

#[test]
fn known_samples_are_evidence_and_not_collected() {
    let cap = Cap::default().hold(30).error(0.03);
    let cases = [
        (Retention::All, 1e-9),
        (Retention::Window(40), 1e-9),
        (Retention::half_life(25.0), 1e-9),
        (Retention::Capped(cap), 0.06),
        (Retention::HalfLife { samples: 25.0, cap: Some(cap) }, 0.06),
    ];
    for (retention, tolerance) in cases {
        for rounds in [3, 25, 33, 90] {
            let (session, record) = run(retention, rounds);
            let what = format!("{retention:?}, {rounds} rounds");
            let (report, form) = (session.report().unwrap(), session.statistics().biased());
            let near = |found: f64, expected: f64| {
                assert!((found - expected).abs() < tolerance, "{what}: {found} for {expected}");
            };
            let of = |arm: usize| -> Vec<&Sample> { record.iter().filter(|sample| sample.arm == arm).collect() };
            for i in 0..3 {
                for j in 0..3 {
                    near(form.at(i, j), mean_kappa(&of(i), &of(j)));
                }
            }
            let pool: Vec<&Sample> = record.iter().filter(|sample| sample.is_collected).collect();
            near(report.loss.unwrap(), mean_kappa(&pool, &pool));
            assert_eq!(session.empirical_loss(), report.loss);
            let mass = |arm: usize| pool.iter().filter(|x| x.arm == arm).map(|x| x.weight).sum::<f64>();
            let total: f64 = (0..3).map(mass).sum();
            for (arm, reported) in report.arms.iter().enumerate() {
                assert!((reported.share - mass(arm) / total).abs() < 1e-9, "{what}");
                assert!((reported.samples as f64 - mass(arm)).abs() <= 0.5 + 1e-9, "{what}");
            }
            if retention == Retention::All {
                assert_eq!((report.samples, report.known), (pool.len(), record.len() - pool.len()), "{what}");
            }
        }
    }
}

/// Ten known samples of every arm, before any pull: the weights are those of `solve`, initial pulls are not needed, and
/// the first arm that is pulled is the best single one.
#[test]
fn a_session_is_sure_of_known_samples_before_it_asks() {
    let mut random = Random::seeded(3);
    let recorded: Vec<Features> = (0..3).map(|arm| clusters(arm, 10, &mut random)).collect();
    let arms = NAMES.iter().zip(&recorded).map(|(name, features)| RecordedArm::new(*name, features.clone()));
    let solved = solve(&RecordedArms::new(arms.collect()).unwrap(), &rke()).unwrap();
    for policy in ["adaptive", "ogd", "cab", "greedy", "vanilla", "sparse(fee=0.001)"] {
        let settings = SessionSettings::default().policy(policy.parse().unwrap());
        let mut session = Session::new(NAMES, rke(), &settings).unwrap();
        for (arm, features) in recorded.iter().enumerate() {
            session.known(arm, features, &Default::default(), KnownAs::Evidence).unwrap();
        }
        let report = session.report_with_bounds().unwrap();
        assert_eq!((report.samples, report.known, report.loss, report.rounds), (0, 30, None, 0), "{policy}");
        assert!(report.arms.iter().all(|arm| (arm.samples, arm.known, arm.share) == (0, 10, 0.0)), "{policy}");
        for (arm, best) in report.arms.iter().zip(&solved.arms) {
            assert!((arm.weight - best.weight).abs() < 1e-9, "{policy}: {} {}", arm.weight, best.weight);
        }
        assert!(report.bound_on_weights.is_some_and(|bound| bound > 0.0), "{policy}");
        assert_eq!(report.bound_on_shares, None, "{policy}: nothing is collected");
        if ["adaptive", "ogd", "vanilla"].contains(&policy) {
            assert_eq!(Some(session.ask().unwrap().index), report.best_single, "{policy}");
        }
    }
    // An arm without known samples is still pulled first.
    let mut session = Session::new(NAMES, rke(), &SessionSettings::default()).unwrap();
    for arm in [0, 2] {
        session.known(arm, &recorded[arm], &Default::default(), KnownAs::Evidence).unwrap();
    }
    assert_eq!(session.ask().unwrap().index, 1);
}

/// The slope is that of the collected pool: an adaptive session pulls what the pool lacks, independent of known
/// samples.
#[test]
fn slopes_are_those_of_the_collected_pool() {
    let mut session = Session::new(NAMES, rke(), &SessionSettings::default()).unwrap();
    let mut random = Random::seeded(3);
    // Many known samples of arm 0, and few of the others.
    for (arm, samples) in [(0, 60), (1, 12), (2, 12)] {
        session.known(arm, &clusters(arm, samples, &mut random), &Default::default(), KnownAs::Evidence).unwrap();
    }
    for _ in 0..90 {
        let pull = session.ask().unwrap();
        session.tell(pull.id, &clusters(pull.index, 1, &mut random)).unwrap();
    }
    let report = session.report().unwrap();
    let furthest = report.arms.iter().map(|arm| (arm.share - arm.weight).abs()).fold(0.0, f64::max);
    assert!(furthest < 0.06, "{report:?}");
}

#[test]
fn known_samples_can_be_all_that_a_stop_needs() {
    let until = Some(Until::new(Gap::Share(0.5)));
    let settings = SessionSettings::default().until(until);
    let mut session = Session::new(NAMES, rke(), &settings).unwrap();
    let mut random = Random::seeded(3);
    for arm in 0..3 {
        assert!(!session.is_done());
        session.known(arm, &clusters(arm, 150, &mut random), &Default::default(), KnownAs::Evidence).unwrap();
        // A check before all arms are known would find nothing, and is skipped.
        let looks =
            serde_json::to_value(session.snapshot()).unwrap()["state"]["observers"]["stopping"]["checks"].clone();
        assert_eq!(looks, u64::from(arm == 2));
    }
    let report = session.report().unwrap();
    assert!(session.is_done() && report.is_done && report.rounds == 0);
    assert_eq!(report.verdict.unwrap().samples, 450);
    // Control: as many rounds as one arm initially has known samples are not enough.
    let mut session = Session::new(NAMES, rke(), &settings).unwrap();
    session.known(0, &clusters(0, 150, &mut random), &Default::default(), KnownAs::Evidence).unwrap();
    assert!(!session.is_done());
}

#[test]
fn observers_do_not_take_known_samples_for_told_ones() {
    let settings = SessionSettings::default().select(Selection::BetterHalf).alarm(0.5);
    let mut session = Session::new(NAMES, rke(), &settings).unwrap();
    let mut random = Random::seeded(3);
    let alarm =
        |session: &Session| serde_json::to_value(session.snapshot()).unwrap()["state"]["observers"]["alarm"].clone();
    let before = alarm(&session);
    for known_as in [KnownAs::Evidence, KnownAs::Collected] {
        session.known(1, &clusters(1, 40, &mut random), &Default::default(), known_as).unwrap();
    }
    assert_eq!(alarm(&session), before);
    assert!(session.kept().iter().all(|kept| !kept) && session.kept_loss().is_none());
    for _ in 0..30 {
        let pull = session.ask().unwrap();
        session.tell(pull.id, &clusters(pull.index, 1, &mut random)).unwrap();
    }
    let kept = session.kept();
    assert!(kept[..80].iter().all(|kept| !kept) && kept[80..84].iter().all(|kept| *kept), "{kept:?}");
    // The loss of the kept samples is computed from them alone.
    let features = session.samples().unwrap();
    let of: Vec<Sample> = (0..features.len())
        .filter(|&row| kept[row])
        .map(|row| Sample { arm: 0, x: features.row(row).to_vec(), is_collected: true, weight: 1.0 })
        .collect();
    let of: Vec<&Sample> = of.iter().collect();
    assert!((session.kept_loss().unwrap() - mean_kappa(&of, &of)).abs() < 1e-12);
}

#[test]
fn known_samples_that_do_not_fit_leave_no_trace() {
    let mut session = Session::new(NAMES, rke(), &SessionSettings::default()).unwrap();
    let before = state(&session);
    let good = clusters(0, 2, &mut Random::seeded(1));
    let wide = Features::new(3, vec![0.5; 3]).unwrap();
    let error = session.known(3, &good, &Default::default(), KnownAs::Evidence).unwrap_err();
    assert!(is_text(&error, &["the arm of known samples is 3", "less than 3"]), "{error}");
    let error = session.known(1, &wide, &Default::default(), KnownAs::Evidence).unwrap_err();
    assert!(matches!(&error, Error::Known { arm, .. } if arm == "green"), "{error}");
    assert!(is_text(&error, &["known samples of arm green", "3 columns", "2"]), "{error}");
    let error = session.known_values(0, &[], KnownAs::Evidence).unwrap_err();
    assert!(is_text(&error, &["give at least one"]), "{error}");
    assert_eq!(state(&session), before);
}

/// Many samples are processed in steps, which has no visible effect: not in sums, kept sets or checks, nor if one is
/// rejected.
#[test]
fn many_samples_are_taken_in_steps() {
    let many = 2500;
    let (mut random, scores) = (Random::seeded(4), Default::default());
    for retention in [Retention::All, Retention::Window(40), Retention::half_life(200.0)] {
        let settings = SessionSettings::default().retention(retention);
        let (mut at_once, mut in_parts) =
            (Session::new(NAMES, rke(), &settings).unwrap(), Session::new(NAMES, rke(), &settings).unwrap());
        let samples = clusters(0, many, &mut random);
        at_once.known(0, &samples, &scores, KnownAs::Evidence).unwrap();
        for first in (0..many).step_by(100) {
            let part = Features::new(2, samples.values()[2 * first..2 * (first + 100)].to_vec()).unwrap();
            in_parts.known(0, &part, &scores, KnownAs::Evidence).unwrap();
        }
        let (left, right) = (at_once.statistics().biased(), in_parts.statistics().biased());
        assert_eq!(at_once.statistics().counts(), in_parts.statistics().counts());
        let first = [1.0, 0.0, 0.0];
        assert!((left.value(&first) - right.value(&first)).abs() < 1e-12 * right.value(&first));
        assert_eq!(at_once.samples(), in_parts.samples());
        // A value in the last step for which κ cannot be computed.
        let polynomial = "rke(kernel=polynomial)".parse::<Objective>().unwrap();
        let loss = polynomial.prepare(Inputs::new().width(2).engine(Reference)).unwrap();
        let mut session = Session::new(NAMES, loss, &settings).unwrap();
        let mut spoiled = samples.values().to_vec();
        *spoiled.last_mut().unwrap() = f32::MAX;
        let before = state(&session);
        let refused = session.known(1, &Features::new(2, spoiled).unwrap(), &scores, KnownAs::Evidence);
        assert!(is_text(&refused.unwrap_err(), &["finite"]));
        assert_eq!(state(&session), before);
    }
}
