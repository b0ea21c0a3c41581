//! Sessions through their public API: invalid calls, their messages, and that they have no effect. `report` tests
//! reports, `snapshot` storage, `events` the fold of events, `known` recorded samples.

mod bandwidth;
mod device;
mod events;
mod journal;
mod known;
mod report;
mod snapshot;

use std::collections::BTreeMap;

use modelmix::compute::Reference;
use modelmix::policy::Random;
use modelmix::{
    Error, Features, Inputs, Loss, Objective, PolicySpec, Pull, Ranges, Result, Session, SessionSettings, Values,
};

use crate::worlds::clusters;

const NAMES: [&str; 3] = ["red", "green", "blue"];

/// With plain loops in double precision, so that independent evaluations agree to double precision.
fn rke() -> Loss {
    Objective::rke().with_bandwidth(1.5).prepare(Inputs::new().width(2).engine(Reference)).unwrap()
}

fn settings(policy: &str, batch: usize) -> SessionSettings {
    SessionSettings::default().policy(policy.parse().unwrap()).seed(5).batch(batch)
}

/// A session on features with some samples, and three pulls of two samples in flight.
fn on_features() -> (Session, Vec<Pull>) {
    let mut session = Session::new(NAMES, rke(), &settings("adaptive", 2)).unwrap();
    let mut random = Random::seeded(2);
    for _ in 0..8 {
        let pull = session.ask().unwrap();
        session.tell(pull.id, &clusters(pull.index, 2, &mut random)).unwrap();
    }
    let pulls = (0..3).map(|_| session.ask().unwrap()).collect();
    (session, pulls)
}

/// A session on values with three samples, and a pull of two in flight.
fn on_values() -> (Session, Pull) {
    let ranges = Ranges { kappa: (0.0, 1.0), linear: (0.0, 1.0) };
    let mut session = Session::on_values(NAMES, Some(ranges), &settings("cab", 2)).unwrap();
    for told in 0..3 {
        let pull = session.ask().unwrap();
        session.tell_values(pull.id, &[Values { kappa: &vec![0.25; told], own: 1.0, linear: 0.5 }]).unwrap();
    }
    let pull = session.ask().unwrap();
    (session, pull)
}

/// The whole state of a session as text.
fn state(session: &Session) -> String {
    serde_json::to_string(&session.snapshot()).unwrap()
}

/// The act must fail with an error that `is` the right kind, whose one sentence has these words, and leave no trace.
fn refuses(
    session: &mut Session,
    act: impl FnOnce(&mut Session) -> Result<()>,
    is: impl FnOnce(&Error) -> bool,
    words: &[&str],
) {
    let before = state(session);
    let error = act(session).expect_err(&format!("{words:?}"));
    assert!(is(&error), "{error:?}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)) && !text.contains('\n'), "{words:?} are not all in {text:?}");
    assert_eq!(state(session), before, "{text}");
}

/// Whether an error's sentence has these words.
fn is_text(error: &Error, words: &[&str]) -> bool {
    words.iter().all(|word| error.to_string().contains(word))
}

fn is_answer(of: &Pull) -> impl FnOnce(&Error) -> bool {
    let (expected, name) = (of.id, of.arm.clone());
    move |error| matches!(error, Error::Answer { id, arm, .. } if *id == expected && *arm == name)
}

#[test]
fn ids_that_were_never_given_out_are_refused() {
    let (mut session, pulls) = on_features();
    let (features, unknown) = (clusters(0, 1, &mut Random::seeded(1)), pulls[2].id + 1);
    let words = [format!("pull {unknown} was never asked for")];
    let words = [words[0].as_str()];
    let is = |error: &Error| matches!(error, Error::UnknownPull { id } if *id == unknown);
    refuses(&mut session, |session| session.tell(unknown, &features), is, &words);
    refuses(&mut session, |session| session.tell_scored(unknown, &features, &BTreeMap::new()), is, &words);
    refuses(&mut session, |session| session.tell_values(unknown, &[]), is, &words);
    refuses(&mut session, |session| session.abandon(unknown), is, &words);
    refuses(&mut session, |session| session.abandon(u64::MAX), |error| matches!(error, Error::UnknownPull { .. }), &[]);
}

#[test]
fn a_pull_is_told_or_abandoned_once() {
    let (mut session, pulls) = on_features();
    let features = clusters(0, 2, &mut Random::seeded(1));
    session.tell(pulls[0].id, &features).unwrap();
    session.abandon(pulls[1].id).unwrap();
    // pulls[2] stays in flight between them, so that an id is not mistaken for an index.
    for pull in &pulls[..2] {
        let id = pull.id;
        let words = [format!("pull {id} was already answered or abandoned")];
        let is = |error: &Error| matches!(error, Error::RepeatedPull { id: of } if *of == id);
        refuses(&mut session, |session| session.tell(id, &features), is, &[words[0].as_str()]);
        refuses(&mut session, |session| session.tell_values(id, &[]), is, &[words[0].as_str()]);
        refuses(&mut session, |session| session.abandon(id), is, &[words[0].as_str()]);
    }
    session.tell(pulls[2].id, &features).unwrap();
}

#[test]
fn features_that_do_not_fit_are_refused() {
    let (mut session, pulls) = on_features();
    let pull = &pulls[1];
    let wide = Features::new(3, vec![0.5; 6]).unwrap();
    refuses(&mut session, |session| session.tell(pull.id, &wide), is_answer(pull), &[&pull.arm, "3 columns", "2"]);
    let many = clusters(0, 3, &mut Random::seeded(1));
    let words = ["3 samples were told, but 2 were asked for"];
    refuses(&mut session, |session| session.tell(pull.id, &many), is_answer(pull), &words);
    let values = [Values { kappa: &[0.5; 16], own: 1.0, linear: 0.0 }];
    let words = ["evaluates features"];
    refuses(&mut session, |session| session.tell_values(pull.id, &values), is_answer(pull), &words);
    // A rejected answer leaves the pull in flight, and a valid one is accepted.
    session.tell(pull.id, &clusters(0, 1, &mut Random::seeded(1))).unwrap();
}

/// If nothing else determines the width, the first sample does.
#[test]
fn the_first_sample_sets_the_width() {
    let loss = Objective::rke().with_bandwidth(1.0).prepare(Inputs::new()).unwrap();
    let mut session = Session::new(NAMES, loss, &settings("ogd", 1)).unwrap();
    let (first, second) = (session.ask().unwrap(), session.ask().unwrap());
    let too_many = Features::new(7, vec![0.0; 14]).unwrap();
    refuses(&mut session, |session| session.tell(first.id, &too_many), is_answer(&first), &["2 samples"]);
    session.tell(first.id, &Features::new(4, vec![0.5; 4]).unwrap()).unwrap();
    let narrow = Features::new(2, vec![0.5; 2]).unwrap();
    let words = ["2 columns, but 4 are expected"];
    refuses(&mut session, |session| session.tell(second.id, &narrow), is_answer(&second), &words);
}

/// Finite features whose κ overflows would corrupt every sum permanently.
#[test]
fn kappa_that_overflows_is_refused() {
    let kernel = "rke(kernel=polynomial, scale=1, offset=1, degree=8)";
    let loss = Objective::parse(kernel).unwrap().prepare(Inputs::new().width(2).kernel_range(0.0, 1.0)).unwrap();
    let mut session = Session::new(NAMES, loss, &settings("ogd", 1)).unwrap();
    let pull = session.ask().unwrap();
    let huge = Features::new(2, vec![3e38, 3e38]).unwrap();
    refuses(&mut session, |session| session.tell(pull.id, &huge), is_answer(&pull), &["finite"]);
}

#[test]
fn scores_that_do_not_fit_are_refused() {
    let objective = Objective::rke().with_bandwidth(1.0) - 0.3 * Objective::score("beauty");
    let loss = objective.prepare(Inputs::new().width(2)).unwrap();
    let mut session = Session::new(NAMES, loss, &settings("adaptive", 2)).unwrap();
    let pull = session.ask().unwrap();
    let features = clusters(0, 2, &mut Random::seeded(1));
    let tell = |scores: &[f64]| {
        let (scores, id, features) =
            (BTreeMap::from([("beauty".to_string(), scores.to_vec())]), pull.id, features.clone());
        move |session: &mut Session| session.tell_scored(id, &features, &scores)
    };
    refuses(&mut session, |session| session.tell(pull.id, &features), is_answer(&pull), &["beauty", "every sample"]);
    refuses(&mut session, tell(&[0.5]), is_answer(&pull), &["beauty", "1 values", "2 samples"]);
    refuses(&mut session, tell(&[0.5, f64::NAN]), is_answer(&pull), &["beauty", "NaN", "finite"]);
    tell(&[0.5, 1.0])(&mut session).unwrap();
    assert_eq!(session.statistics().linear_terms(), [-0.15, -0.3]);
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let (mut session, pull) = on_values();
    let good = Values { kappa: &[0.2; 3], own: 1.0, linear: 0.5 };
    let second = Values { kappa: &[0.2; 4], own: 1.0, linear: 0.5 };
    let cases: [(&[Values<'_>], &[&str]); 11] = [
        (&[], &["no samples were told", "abandon"]),
        (&[good, second, Values { kappa: &[0.2; 5], ..good }], &["3 samples", "2 were asked for"]),
        (&[Values { kappa: &[0.2; 2], ..good }], &["sample 0", "2 values of κ for 3 earlier samples"]),
        (&[Values { kappa: &[0.2; 4], ..good }], &["sample 0", "4 values of κ for 3 earlier samples"]),
        // The second sample of a pull also has κ with the first.
        (&[good, good], &["sample 1", "3 values of κ for 4 earlier samples"]),
        (&[Values { kappa: &[0.2, f64::NAN, 0.2], ..good }], &["sample 0", "finite"]),
        (&[Values { own: f64::NAN, ..good }], &["sample 0", "finite"]),
        (&[Values { linear: f64::INFINITY, ..good }], &["sample 0", "finite"]),
        (&[good, Values { linear: f64::NAN, ..second }], &["sample 1", "finite"]),
        (&[good, Values { own: f64::NEG_INFINITY, ..second }], &["sample 1", "finite"]),
        (&[good, Values { kappa: &[0.2, 0.2, 0.2, f64::INFINITY], ..good }], &["sample 1", "finite"]),
    ];
    for (samples, words) in cases {
        refuses(&mut session, |session| session.tell_values(pull.id, samples), is_answer(&pull), words);
    }
    let features = Features::new(2, vec![0.0; 2]).unwrap();
    let words = ["on values", "cannot evaluate features"];
    refuses(&mut session, |session| session.tell(pull.id, &features), is_answer(&pull), &words);
    session.tell_values(pull.id, &[good, second]).unwrap();
    assert_eq!(session.statistics().len(), 5);
}

#[test]
fn sessions_that_cannot_run_are_refused() {
    let refused = |names: &[&str], ranges: Option<Ranges>, settings: &SessionSettings, words: &[&str]| {
        let text = Session::on_values(names.iter().copied(), ranges, settings).unwrap_err().to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{words:?} are not all in {text:?}");
    };
    let ranges = Some(Ranges { kappa: (0.0, 1.0), linear: (0.0, 0.0) });
    refused(&[], ranges, &settings("adaptive", 1), &["at least one arm"]);
    refused(&["a", "b", "a"], ranges, &settings("adaptive", 1), &["arm 2", "a"]);
    refused(&NAMES, ranges, &settings("adaptive", 0), &["batch is 0"]);
    for policy in ["cab", "ogd", "vanilla", "sparse(fee=0.1)", "sparse(keep=2)"] {
        refused(&NAMES, None, &settings(policy, 1), &["ranges of κ and f"]);
    }
    refused(&NAMES, ranges, &settings("halving", 1), &["halving(rounds=1000)"]);
    refused(&NAMES, ranges, &settings("sparse(keep=4)", 1), &["keep is 4", "3"]);
    refused(&NAMES, ranges, &settings("fixed(weights=1 2)", 1), &["weights is 2", "3"]);
    for policy in [PolicySpec::MixtureOracle, PolicySpec::OneArmOracle] {
        let settings = SessionSettings::default().policy(policy);
        refused(&NAMES, ranges, &settings, &["recorded arms"]);
    }
    // With given constants, the algorithms of the paper need no ranges.
    for policy in ["cab(sensitivity=0.1)", "ogd(sensitivity=0.1, kappa=0.05)", "adaptive", "greedy", "uniform"] {
        Session::on_values(NAMES, None, &settings(policy, 1)).unwrap();
    }
}
