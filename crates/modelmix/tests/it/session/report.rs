//! Session reports against V-statistics by double loops; sessions on values compared with sessions on features; and
//! custom policies.

use modelmix::compute::Reference;
use modelmix::policy::{Choice, Evidence, Random};
use modelmix::session::Storage;
use modelmix::{Error, Features, Inputs, Objective, Policy, Ranges, Result, Session, SessionSettings, Values};

use super::{NAMES, rke, settings};
use crate::worlds::{Program, cluster, clusters, mean};

/// The samples told, and their values of a Gaussian kernel with bandwidth 1.5, from the definitions.
#[derive(Default)]
struct Record {
    samples: Vec<(usize, Vec<f32>)>,
}

impl Record {
    fn kernel(x: &[f32], y: &[f32]) -> f64 {
        let distance: f64 = x.iter().zip(y).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum();
        (-distance / (2.0 * 1.5 * 1.5)).exp()
    }

    /// V-statistics of κ = k^`power` and f.
    fn estimate(&self, arms: usize, power: i32, linear: impl Fn(&[f32]) -> f64) -> Program {
        let of = |arm: usize| -> Vec<&[f32]> {
            self.samples.iter().filter(|(of, _)| *of == arm).map(|(_, x)| x.as_slice()).collect()
        };
        let pairs = |left: &[&[f32]], right: &[&[f32]]| {
            let sum: f64 = left.iter().flat_map(|x| right.iter().map(|y| Self::kernel(x, y).powi(power))).sum();
            sum / (left.len() * right.len()).max(1) as f64
        };
        Program {
            quadratic: (0..arms).map(|i| (0..arms).map(|j| pairs(&of(i), &of(j))).collect()).collect(),
            linear: (0..arms).map(|i| mean(of(i).into_iter().map(&linear))).collect(),
        }
    }
}

/// The reported weights solve the program without a bonus on V-statistics, for any policy.
#[test]
fn reported_weights_are_those_of_the_program_without_a_bonus() {
    for policy in ["adaptive", "cab", "ogd(sensitivity=0.1)", "vanilla", "greedy", "uniform", "fixed(weights=5 2 1)"] {
        let mut session = Session::new(NAMES, rke(), &settings(policy, 1)).unwrap();
        let (mut record, mut random) = (Record::default(), Random::seeded(3));
        for round in 0..60 {
            let pull = session.ask().unwrap();
            let x = cluster(pull.index, &mut random);
            session.tell(pull.id, &Features::new(2, x.clone()).unwrap()).unwrap();
            record.samples.push((pull.index, x));
            if ![2, 10, 59].contains(&round) {
                continue;
            }
            let estimate = record.estimate(3, 2, |_| 0.0);
            let known: Vec<usize> = (0..3).filter(|&arm| estimate.quadratic[arm][arm] > 0.0).collect();
            let (least, weights) = estimate.least(&known);
            let report = session.report().unwrap();
            let what = format!("{policy}, round {round}: {:?} for {weights:?}", report.weights());
            assert!(
                report.weights().iter().zip(&weights).all(|(found, weight)| (found - weight).abs() < 1e-9),
                "{what}"
            );
            assert!((report.mixture_loss.unwrap() - least).abs() < 1e-12, "{what}");
            let total = record.samples.len() as f64;
            let shares: Vec<f64> =
                (0..3).map(|arm| record.samples.iter().filter(|(of, _)| *of == arm).count() as f64 / total).collect();
            assert_eq!(report.arms.iter().map(|arm| arm.share).collect::<Vec<_>>(), shares, "{what}");
            // L(P̂) is the loss of the proportions.
            assert!((report.loss.unwrap() - estimate.value(&shares)).abs() < 1e-12, "{what}");
            for (i, arm) in report.arms.iter().enumerate() {
                assert_eq!(arm.loss.is_some(), known.contains(&i), "{what}");
                assert!(arm.loss.is_none_or(|loss| (loss - estimate.quadratic[i][i]).abs() < 1e-12), "{what}");
            }
        }
    }
}

/// κ and f of MMD, computed here and told as values, lead to the same choices as features.
#[test]
fn values_computed_outside_make_the_same_session() {
    let mut random = Random::seeded(4);
    let reference: Vec<Vec<f32>> = (0..25).map(|i| cluster(i % 3, &mut random)).collect();
    let linear = |x: &[f32]| -2.0 * mean(reference.iter().map(|y| Record::kernel(x, y)));
    let constant = mean(reference.iter().flat_map(|x| reference.iter().map(|y| Record::kernel(x, y))));
    let features = Features::from_rows(&reference).unwrap();
    for policy in ["adaptive", "ogd", "ogd(sensitivity=0.2)", "vanilla", "cab", "sparse(fee=0.05, sensitivity=0.1)"] {
        let loss = Objective::mmd()
            .with_bandwidth(1.5)
            .prepare(Inputs::new().reference(features.clone()).engine(Reference))
            .unwrap();
        let ranges = Ranges { kappa: (0.0, 1.0), linear: (-2.0, 0.0) };
        let settings = settings(policy, 1);
        let mut evaluated = Session::new(NAMES, loss, &settings).unwrap();
        let mut told = Session::on_values(NAMES, Some(ranges), &settings).unwrap();
        let mut record = Record::default();
        for round in 0..200 {
            let (pull, same) = (evaluated.ask().unwrap(), told.ask().unwrap());
            assert_eq!(pull, same, "{policy}, round {round}");
            let x = cluster(pull.index, &mut random);
            evaluated.tell(pull.id, &Features::new(2, x.clone()).unwrap()).unwrap();
            let kappa: Vec<f64> = record.samples.iter().map(|(_, y)| Record::kernel(&x, y)).collect();
            told.tell_values(pull.id, &[Values { kappa: &kappa, own: 1.0, linear: linear(&x) }]).unwrap();
            record.samples.push((pull.index, x));
        }
        let (left, right) = (evaluated.report().unwrap(), told.report().unwrap());
        assert!((left.mixture_loss.unwrap() - right.mixture_loss.unwrap() - constant).abs() < 1e-12, "{policy}");
        assert!((left.loss.unwrap() - right.loss.unwrap() - constant).abs() < 1e-12, "{policy}");
        let estimate = record.estimate(3, 1, linear);
        assert!((estimate.value(&right.weights()) - right.mixture_loss.unwrap()).abs() < 1e-12, "{policy}");
        for (a, b) in left.weights().iter().zip(right.weights()) {
            assert!((a - b).abs() < 1e-9, "{policy}: {:?} and {:?}", left.weights(), right.weights());
        }
        assert_eq!(evaluated.samples().unwrap().len(), 200);
        assert!(told.samples().is_none());
    }
}

/// A custom policy: pulls the arms in turn, and after some rounds one that does not exist.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Turns {
    asked: usize,
    wrong_at: usize,
}

impl Policy for Turns {
    fn name(&self) -> &'static str {
        "turns"
    }

    fn choose(&self, evidence: &Evidence, _: &mut Random) -> Result<Choice<Self>> {
        let next = Self { asked: self.asked + 1, ..*self };
        let arm = if next.asked == self.wrong_at { evidence.arms() } else { self.asked % evidence.arms() };
        Ok(Choice::with_next(arm, next))
    }
}

#[test]
fn a_policy_of_ones_own_runs_and_may_not_ask_an_arm_that_is_not_there() {
    let policy = Turns { asked: 0, wrong_at: 8 };
    let mut session = Session::with_policy(NAMES, rke(), policy.clone(), &SessionSettings::default()).unwrap();
    let mut random = Random::seeded(1);
    for round in 0..7 {
        let pull = session.ask().unwrap();
        assert_eq!(pull.index, round % 3);
        session.tell(pull.id, &clusters(pull.index, 1, &mut random)).unwrap();
    }
    let error = session.ask().unwrap_err();
    assert!(matches!(&error, Error::Setting { what, value, .. } if what.contains("turns") && value == "3"), "{error}");
    assert!(session.in_flight().is_empty());
    // A rejected choice has no effect: the policy is unchanged, and would make it again.
    assert_eq!(session.policy().asked, 7);
    assert_eq!(session.ask().unwrap_err().to_string(), error.to_string());
    assert_eq!(session.report().unwrap().policy, "turns");
    // It is stored and restored like the built-in policies.
    let text = serde_json::to_string(&session.snapshot()).unwrap();
    let mut again = Session::<Turns>::restore(serde_json::from_str(&text).unwrap(), Some(rke())).unwrap();
    assert_eq!(again.ask().unwrap_err().to_string(), error.to_string());
    let mut on_values = Session::on_values_with_policy(NAMES, policy, &SessionSettings::default()).unwrap();
    let pull = on_values.ask().unwrap();
    on_values.tell_values(pull.id, &[Values { kappa: &[], own: 1.0, linear: 0.0 }]).unwrap();
    assert_eq!(on_values.report().unwrap().weights(), [1.0, 0.0, 0.0]);
}

#[test]
fn half_precision_is_a_session_on_rounded_features() {
    let round = |&value: &f32| half::f16::from_f32(value).to_f32();
    let settings = |storage| SessionSettings::default().seed(5).batch(2).storage(storage);
    let loss = || Objective::rke().with_bandwidth(1.0).prepare(Inputs::new()).unwrap();
    let session = |storage| Session::new(["a", "b", "c"], loss(), &settings(storage)).unwrap();
    let (mut half, mut single) = (session(Storage::Half), session(Storage::Single));
    let mut random = Random::seeded(1);
    for _ in 0..60 {
        let (left, right) = (half.ask().unwrap(), single.ask().unwrap());
        assert_eq!(left, right);
        let values: Vec<f32> = (0..8).map(|_| left.index as f32 + random.unit() as f32).collect();
        half.tell(left.id, &Features::new(4, values.clone()).unwrap()).unwrap();
        single.tell(right.id, &Features::new(4, values.iter().map(round).collect()).unwrap()).unwrap();
    }
    assert_eq!(half.samples(), single.samples());
    let (left, right) = (half.report().unwrap(), single.report().unwrap());
    assert!(left.weights().iter().zip(right.weights()).all(|(a, b)| (a - b).abs() < 1e-6));
    let restored = Session::restore(half.snapshot(), Some(loss())).unwrap();
    assert_eq!(restored.samples(), half.samples());

    let pull = half.ask().unwrap();
    let error = half.tell(pull.id, &Features::new(4, vec![1e5; 8]).unwrap()).unwrap_err();
    assert!(error.to_string().contains("half precision"), "{error}");
}
