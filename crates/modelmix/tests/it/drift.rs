//! Drift: sliding windows and half-lives against double loops, forgotten arms, and alarms against their false-alarm
//! probability.

use modelmix::policy::Random;
use modelmix::session::{Cap, Retention, Snapshot};
use modelmix::{Features, Inputs, Loss, Objective, Session, SessionSettings, Statistics, Values};

mod alarms;

const NAMES: [&str; 3] = ["a", "b", "c"];
const WIDTH: usize = 6;
const SIGMA: f64 = 3.0;

fn rke() -> Loss {
    Objective::rke().with_bandwidth(SIGMA).prepare(Inputs::new()).unwrap()
}

fn kappa(x: &[f32], y: &[f32]) -> f64 {
    (-x.iter().zip(y).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>() / (SIGMA * SIGMA)).exp()
}

fn settings(retention: Retention) -> SessionSettings {
    SessionSettings::default().seed(3).retention(retention)
}

/// Runs a session and returns arm and features of all samples told. `place` is the location of an arm's samples in a
/// round.
fn run(session: &mut Session, rounds: usize, seed: u64, place: impl Fn(usize, usize) -> f64) -> Vec<(usize, Vec<f32>)> {
    let mut random = Random::stream(seed, 99);
    let mut told = Vec::new();
    for round in 0..rounds {
        let pull = session.ask().unwrap();
        let rows: Vec<Vec<f32>> = (0..pull.count)
            .map(|_| {
                let mean = |column: usize| if column == pull.index { place(pull.index, round) } else { 0.0 };
                (0..WIDTH).map(|column| (mean(column) + random.normal()) as f32).collect()
            })
            .collect();
        session.tell(pull.id, &Features::from_rows(&rows).unwrap()).unwrap();
        told.extend(rows.into_iter().map(|row| (pull.index, row)));
    }
    told
}

/// Weighted K̂ by a double loop, including self-pairs.
fn form(told: &[(usize, Vec<f32>)], weight: impl Fn(usize) -> f64) -> Vec<f64> {
    let (mut sums, mut masses) = (vec![0.0; 9], vec![0.0; 3]);
    for (a, (i, x)) in told.iter().enumerate() {
        masses[*i] += weight(told.len() - 1 - a);
        for (b, (j, y)) in told.iter().enumerate() {
            sums[i * 3 + j] += weight(told.len() - 1 - a) * weight(told.len() - 1 - b) * kappa(x, y);
        }
    }
    (0..9).map(|at| sums[at] / (masses[at / 3] * masses[at % 3])).collect()
}

fn worst(session: &Session, expected: &[f64]) -> f64 {
    let form = session.statistics().biased();
    form.quadratic().iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f64::max)
}

#[test]
fn a_window_is_what_the_last_samples_alone_would_give() {
    for batch in [1, 5] {
        let mut session = Session::new(NAMES, rke(), &settings(Retention::Window(90)).batch(batch)).unwrap();
        let told = run(&mut session, 1000 / batch, 1, |_, _| 2.0);
        let last = &told[told.len() - 90..];
        assert!(worst(&session, &form(last, |_| 1.0)) < 1e-6);
        let counts = [0, 1, 2].map(|arm| last.iter().filter(|(other, _)| *other == arm).count());
        assert_eq!((session.statistics().counts(), session.report().unwrap().samples), (&counts[..], 90));
        assert_eq!(session.report().unwrap().rounds, 1000 / batch as u64);
        // The same from sums that never included the others.
        let mut fresh = Statistics::new(3);
        for (index, (arm, row)) in last.iter().enumerate() {
            let against: Vec<f64> = last[..index].iter().map(|(_, other)| kappa(row, other)).collect();
            fresh.add(*arm, &against, 1.0, 0.0);
        }
        let near = |a: f64, b: f64| (a - b).abs() < 1e-5 * a.abs().max(1e-3);
        let found = session.statistics();
        assert!(found.gradient_scatter().iter().zip(fresh.gradient_scatter()).all(|(a, b)| near(*a, b)));
        assert!(near(found.empirical_loss().unwrap(), fresh.empirical_loss().unwrap()));
        let rows: Vec<&Vec<f32>> = last.iter().map(|(_, row)| row).collect();
        assert_eq!(session.samples().unwrap(), Features::from_rows(rows).unwrap(), "in the order told");
    }
}

/// Samples whose weight has decayed to nearly nothing are not held: after thirty half-lives.
#[test]
fn a_half_life_bounds_memory() {
    let mut session = Session::new(NAMES, rke(), &settings(Retention::half_life(20.0))).unwrap();
    let told = run(&mut session, 2000, 4, |_, _| 2.0);
    assert_eq!(session.statistics().rows(), 598, "the weight of a sample is below 1e-9 after 29.9 half-lives");
    assert!(worst(&session, &form(&told, |age| 0.5f64.powf(age as f64 / 20.0))) < 1e-6);
    assert_eq!(session.samples().unwrap().len(), 598);
}

#[test]
fn a_half_life_weighs_samples_by_their_age() {
    let weight = |age: usize| 0.5f64.powf(age as f64 / 60.0);
    let mut session = Session::new(NAMES, rke(), &settings(Retention::half_life(60.0))).unwrap();
    let told = run(&mut session, 400, 2, |_, _| 2.0);
    assert!(worst(&session, &form(&told, weight)) < 1e-6);
    // Shares and counts are weighted.
    let mass = |arm: usize| -> f64 {
        told.iter().rev().enumerate().filter(|(_, (other, _))| *other == arm).map(|(age, _)| weight(age)).sum()
    };
    let all: f64 = (0..3).map(mass).sum();
    for (arm, share) in session.statistics().proportions().into_iter().enumerate() {
        assert!((share - mass(arm) / all).abs() < 1e-9);
        assert_eq!(session.statistics().counts()[arm], mass(arm).round() as usize);
    }
    // ΣΣwwκ/(Σw)².
    let realised: f64 = told
        .iter()
        .rev()
        .enumerate()
        .flat_map(|(a, (_, x))| {
            told.iter().rev().enumerate().map(move |(b, (_, y))| weight(a) * weight(b) * kappa(x, y))
        })
        .sum();
    assert!((session.statistics().empirical_loss().unwrap() - realised / (all * all)).abs() < 1e-6);
    // With a cap, the same within the error of the features; the weights of evicted samples continue to decay.
    let cap = Some(Cap::default().hold(100).error(0.03));
    let capped = settings(Retention::HalfLife { samples: 60.0, cap });
    let mut session = Session::new(NAMES, rke(), &capped).unwrap();
    let told = run(&mut session, 400, 2, |_, _| 2.0);
    assert_eq!(session.statistics().rows(), 100);
    assert!(worst(&session, &form(&told, weight)) < 4.0 * 0.03);
    let error = session.report().unwrap().feature_error.unwrap();
    assert!(error.estimated > 0.05 && error.estimated < 0.9, "{error:?}");
}

#[test]
fn values_fade_too() {
    let mut session = Session::on_values(["a", "b"], None, &settings(Retention::half_life(40.0))).unwrap();
    for round in 0..50 {
        let pull = session.ask().unwrap();
        session.tell_values(pull.id, &[Values { kappa: &vec![0.25; round], own: 1.0, linear: 0.5 }]).unwrap();
    }
    let form = session.statistics().biased();
    assert!((form.at(0, 1) - 0.25).abs() < 1e-12 && (form.linear()[0] - 0.5).abs() < 1e-12);
    assert!(session.statistics().len() < 50, "{:?}", session.statistics().counts());
}

/// Arm b moves after 600 rounds. A session that remembers both places finds two kinds of samples in b alone; in truth
/// it has one, so its loss alone is twice as large.
#[test]
fn a_session_that_forgets_follows_a_model_that_changes() {
    let place = |arm: usize, round: usize| match (arm, round < 600) {
        (1, true) => -6.0,
        (1, false) => 6.0,
        _ => 0.0,
    };
    let loss = |retention: Retention| {
        let settings = SessionSettings::default().seed(3).retention(retention);
        let mut session = Session::new(NAMES, rke(), &settings).unwrap();
        run(&mut session, 1200, 5, place);
        session.report().unwrap().arms[1].loss.unwrap()
    };
    let remembers_all = loss(Retention::All);
    for forget in [Retention::Window(200), Retention::half_life(60.0)] {
        let forgets = loss(forget);
        // E k² within one place: (σ²/2 / (σ²/2 + 2))^{d/2} = 0.332.
        assert!((forgets - 0.332).abs() < 0.06, "{forget}: {forgets}");
        assert!(forgets > 1.5 * remembers_all, "{forget}: {forgets} {remembers_all}");
    }
}

#[test]
fn an_arm_that_is_forgotten_is_learned_anew_and_the_others_stay() {
    for cap in [None, Some(Cap::default().hold(60).error(0.05))] {
        let settings = settings(Retention::All.with_cap(cap).unwrap());
        let mut session = Session::new(NAMES, rke(), &settings).unwrap();
        run(&mut session, 150, 6, |_, _| 2.0);
        let before = session.statistics().biased();
        session.forget(1).unwrap();
        let (after, report) = (session.statistics().biased(), session.report().unwrap());
        for (i, j) in [(0, 0), (0, 2), (2, 2)] {
            assert!((before.at(i, j) - after.at(i, j)).abs() < if cap.is_some() { 0.01 } else { 1e-12 });
        }
        assert_eq!((report.arms[1].samples, report.arms[1].loss, report.arms[1].weight), (0, None, 0.0));
        assert_eq!(report.samples, session.statistics().counts().iter().sum::<usize>());
        let mut next = Vec::new();
        for _ in 0..2 {
            let pull = session.ask().unwrap();
            session.tell(pull.id, &Features::new(WIDTH, vec![9.0; WIDTH]).unwrap()).unwrap();
            next.push(pull.index);
        }
        assert_eq!(next, [1, 1], "nothing is known of it");
        // The earlier samples have left no trace: two equal samples, and κ of 1 between them.
        assert!((session.statistics().biased().at(1, 1) - 1.0).abs() < 1e-6);
        assert!(session.statistics().biased().at(0, 1).abs() < cap.map_or(1e-3, |cap| 4.0 * cap.error));
    }
    let mut session = Session::on_values(NAMES, None, &SessionSettings::default()).unwrap();
    for round in 0..9 {
        let pull = session.ask().unwrap();
        session.tell_values(pull.id, &[Values { kappa: &vec![0.25; round], own: 1.0, linear: 0.0 }]).unwrap();
    }
    let left = 9 - session.statistics().counts()[0];
    session.forget(0).unwrap();
    let pull = session.ask().unwrap();
    assert_eq!(pull.index, 0);
    let error = session.tell_values(pull.id, &[Values { kappa: &[0.25; 9], own: 1.0, linear: 0.0 }]).unwrap_err();
    assert!(error.to_string().contains(&format!("{left} earlier samples")), "{error}");
    session.tell_values(pull.id, &[Values { kappa: &vec![0.5; left], own: 1.0, linear: 0.0 }]).unwrap();
    assert_eq!(session.statistics().biased().at(0, 1), 0.5);
    let error = session.forget(3).unwrap_err().to_string();
    assert!(error.contains("the arm to forget is 3") && error.contains("less than 3"), "{error}");
}

#[test]
fn sessions_that_forget_are_restored_to_the_last_bit() {
    let cap = Some(Cap::default().hold(40).error(0.1));
    for forget in [Retention::Window(40), Retention::half_life(30.0), Retention::half_life(30.0).with_cap(cap).unwrap()]
    {
        let settings = settings(forget).batch(2).alarm(0.5);
        let mut one = Session::new(NAMES, rke(), &settings).unwrap();
        run(&mut one, 120, 7, |_, _| 2.0);
        let text = serde_json::to_string(&one.snapshot()).unwrap();
        let mut two = Session::restore(serde_json::from_str::<Snapshot>(&text).unwrap(), Some(rke())).unwrap();
        // The second half raises an alarm.
        for session in [&mut one, &mut two] {
            run(session, 120, 8, |_, _| 9.0);
        }
        assert_eq!(one.report().unwrap(), two.report().unwrap(), "{forget}");
        assert!(one.report().unwrap().arms.iter().any(|arm| arm.changed.is_some()));
        assert_eq!(serde_json::to_string(&one.snapshot()).unwrap(), serde_json::to_string(&two.snapshot()).unwrap());
        // A damaged snapshot.
        let mut value = serde_json::to_value(one.snapshot()).unwrap();
        value["state"]["observers"]["drift"]["detectors"][0][0]["bins"] = serde_json::json!([1, 2]);
        assert!(Session::restore(serde_json::from_value::<Snapshot>(value).unwrap(), Some(rke())).is_err());
        let mut value = serde_json::to_value(one.snapshot()).unwrap();
        let keeper = value["state"]["samples"]["keeper"].as_object_mut().unwrap();
        let kept = keeper.values_mut().next().unwrap();
        kept["samples"] = 0.into();
        assert!(Session::restore(serde_json::from_value::<Snapshot>(value).unwrap(), Some(rke())).is_err());
    }
}

#[test]
fn what_cannot_be_forgotten_is_refused() {
    let refuse = |settings: &SessionSettings, words: &[&str]| {
        let error = Session::new(NAMES, rke(), settings).unwrap_err().to_string();
        words.iter().for_each(|word| assert!(error.contains(word), "{error}"));
    };
    let error = Retention::Window(100).with_cap(Some(Cap::default())).unwrap_err().to_string();
    ["retention is window=100", "hold", "half-life"].iter().for_each(|word| assert!(error.contains(word), "{error}"));
    refuse(&settings(Retention::Window(11)), &["retention is window=11", "at least 12"]);
    refuse(&settings(Retention::half_life(f64::NAN)), &["retention is half-life=NaN", "at least 12"]);
    let halving = settings(Retention::Window(50)).policy("halving".parse().unwrap()).rounds(99);
    refuse(&halving, &["halving"]);
    refuse(&SessionSettings::default().alarm(1.5), &["alarm is 1.5", "between 0 and 1"]);
    let on_values = |settings: &SessionSettings| Session::on_values(NAMES, None, settings).unwrap_err().to_string();
    assert!(on_values(&settings(Retention::Window(50))).contains("half-life"));
    assert!(on_values(&SessionSettings::default().alarm(0.1)).contains("alarm"));
    for text in ["window", "window=-1", "half=3", "half-life=x", "", "hold", "hold=x", "window=5, hold=3", "error=1"] {
        let error = text.parse::<Retention>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("window=N or half-life=N"), "{error}");
    }
}

/// The retention that a session reports can be given to the next one.
#[test]
fn a_retention_is_read_as_it_is_written() {
    let (cap, exact) = (Cap::default().hold(30), Cap::default().hold(30).error(0.05));
    for (text, retention) in [
        ("all", Retention::All),
        ("window=500", Retention::Window(500)),
        ("hold=30", Retention::Capped(cap)),
        ("hold=30, error=0.05", Retention::Capped(exact)),
        ("half-life=12.5", Retention::half_life(12.5)),
        ("half-life=12.5, hold=30", Retention::HalfLife { samples: 12.5, cap: Some(cap) }),
        ("half-life=12.5, hold=30, error=0.05", Retention::HalfLife { samples: 12.5, cap: Some(exact) }),
    ] {
        assert_eq!(text.parse::<Retention>().unwrap(), retention);
        assert_eq!(retention.to_string(), text);
    }
}
