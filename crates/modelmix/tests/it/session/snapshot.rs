//! Snapshots: the same session to the last bit after a restore, and only errors from damaged ones.

use modelmix::policy::Random;
use modelmix::session::Snapshot;
use modelmix::{Error, Features, Inputs, Objective, PolicySpec, Session, SessionSettings, Values};
use serde_json::{Value, json};

use super::{NAMES, on_features, on_values, rke, state};
use crate::policies::specs;
use crate::worlds::clusters;

/// Continues for some rounds with four pulls in flight: any of them is told next, partly or completely, or abandoned.
fn go_on(session: &mut Session, random: &mut Random, rounds: usize) -> Vec<usize> {
    let mut asked = Vec::new();
    for _ in 0..rounds {
        while session.in_flight().len() < 4 {
            asked.push(session.ask().unwrap().index);
        }
        let pull = session.in_flight().swap_remove(random.below(4));
        if random.below(10) == 0 {
            session.abandon(pull.id).unwrap();
        } else {
            let samples = 1 + random.below(2);
            session.tell(pull.id, &clusters(pull.index, samples, random)).unwrap();
        }
    }
    asked
}

fn restored(session: &Session, on_features: bool) -> Session {
    let snapshot = serde_json::from_str(&state(session)).unwrap();
    Session::restore(snapshot, on_features.then(rke)).unwrap()
}

#[test]
fn a_restored_session_goes_on_to_the_last_bit() {
    for spec in specs(3) {
        for (seed, rounds) in [(0, 0), (1, 3), (2, 25), (3, 70)] {
            let what = format!("{spec}, after {rounds} rounds");
            let settings = SessionSettings::default().policy(spec.clone()).seed(seed).batch(2);
            let mut session = Session::new(NAMES, rke(), &settings).unwrap();
            let mut random = Random::stream(seed, 3);
            go_on(&mut session, &mut random, rounds);
            let mut again = restored(&session, true);
            assert_eq!(state(&again), state(&session), "{what}");
            let mut same = random.clone();
            // In several steps, so that it is also stored and restored again.
            for _ in 0..3 {
                assert_eq!(go_on(&mut again, &mut same, 15), go_on(&mut session, &mut random, 15), "{what}");
                assert_eq!(state(&again), state(&session), "{what}");
                again = restored(&again, true);
            }
            assert_eq!(again.statistics(), session.statistics(), "{what}");
            assert_eq!(again.report().unwrap(), session.report().unwrap(), "{what}");
            assert_eq!(again.in_flight(), session.in_flight(), "{what}");
        }
    }
}

/// Policies that finished long ago: one arm left, no fee to raise, budget spent.
#[test]
fn a_session_past_its_end_is_restored() {
    for policy in ["halving(rounds=10)", "sparse(fee=100)", "sparse(keep=1, step=100)"] {
        let settings = SessionSettings::default().policy(policy.parse().unwrap()).batch(2);
        let mut session = Session::new(NAMES.into_iter().take(2), rke(), &settings).unwrap();
        go_on(&mut session, &mut Random::seeded(9), 40);
        let mut again = restored(&session, true);
        let (mut random, mut same) = (Random::seeded(10), Random::seeded(10));
        assert_eq!(go_on(&mut again, &mut same, 20), go_on(&mut session, &mut random, 20), "{policy}");
        assert_eq!(state(&again), state(&session), "{policy}");
    }
}

#[test]
fn a_restored_session_on_values_goes_on_as_well() {
    let (mut session, _) = on_values();
    let mut again = restored(&session, false);
    for round in 0..40 {
        for session in [&mut session, &mut again] {
            session.ask().unwrap();
            // The oldest stays in flight.
            let pull = session.in_flight().swap_remove(1);
            let kappa = vec![1.0 / (3.0 + round as f64); session.statistics().len()];
            session
                .tell_values(pull.id, &[Values { kappa: &kappa, own: 1.0, linear: 0.1 * pull.index as f64 }])
                .unwrap();
        }
        assert_eq!(state(&session), state(&again), "round {round}");
    }
    assert_eq!(session.report().unwrap(), again.report().unwrap());
}

fn is_refused(snapshot: Snapshot, loss: Option<modelmix::Loss>, word: &str) {
    let error = Session::restore(snapshot, loss).expect_err(word);
    assert!(matches!(&error, Error::Snapshot { problem } if problem.contains(word)), "{error}");
}

#[test]
fn another_loss_is_refused() {
    let (session, _) = on_features();
    let prepare = |text: &str, bandwidth: f64| {
        let reference = Features::new(2, vec![0.0, 1.0, 2.0, 3.0]).unwrap();
        Objective::parse(text).unwrap().with_bandwidth(bandwidth).prepare(Inputs::new().reference(reference)).unwrap()
    };
    is_refused(session.snapshot(), None, "another objective");
    is_refused(session.snapshot(), Some(prepare("mmd", 1.5)), "another objective");
    is_refused(session.snapshot(), Some(prepare("2*rke", 1.5)), "another objective");
    let wider = Objective::rke().with_bandwidth(1.6).prepare(Inputs::new().width(2)).unwrap();
    is_refused(session.snapshot(), Some(wider), "another objective");
    let (session, _) = on_values();
    is_refused(session.snapshot(), Some(rke()), "another objective");
}

/// A snapshot of this policy in the middle of a run, as a document.
fn document(policy: &str) -> Value {
    let settings = SessionSettings::default().policy(policy.parse().unwrap()).seed(4).batch(2);
    let mut session = Session::new(NAMES, rke(), &settings).unwrap();
    go_on(&mut session, &mut Random::seeded(6), 20);
    serde_json::to_value(session.snapshot()).unwrap()
}

/// Whether a document with changed parts is accepted: it must fail to parse, or be rejected.
fn accepts(mut document: Value, changes: &[(&str, Value)]) -> bool {
    for (pointer, value) in changes {
        *document.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is not there")) = value.clone();
    }
    let Ok(snapshot) = serde_json::from_value::<Snapshot>(document) else { return false };
    match Session::restore(snapshot, Some(rke())) {
        Ok(_) => true,
        Err(Error::Snapshot { .. }) => false,
        Err(error) => panic!("{changes:?}: {error:?}"),
    }
}

fn all_refused(policy: &str, damages: &[&[(&str, Value)]]) {
    let document = document(policy);
    assert!(accepts(document.clone(), &[]), "{policy}: the document itself must be fine");
    let accepted: Vec<String> = damages
        .iter()
        .filter(|damage| accepts(document.clone(), damage))
        .map(|damage| format!("{policy}: {damage:?} is accepted"))
        .collect();
    assert!(accepted.is_empty(), "{}", accepted.join("\n"));
}

#[test]
fn damaged_lengths_and_places_are_refused() {
    all_refused(
        "adaptive",
        &[
            &[("/version", json!(1))],
            &[("/version", json!(0))],
            &[("/fingerprint", json!(7))],
            &[("/fingerprint", Value::Null)],
            &[("/state/names", json!(["red", "green"]))],
            &[("/state/names", json!([]))],
            &[("/state/batch", json!(0))],
            &[("/state/samples/width", json!(0))],
            &[("/state/samples/width", json!(3))],
            &[("/state/samples/width", Value::Null)],
            &[("/state/samples/held/values/single", json!([0.5, 0.5]))],
            &[("/state/pulls/abandoned", json!([0, 0]))],
            &[("/state/pulls/backoffs", json!([]))],
            &[("/state/pulls/pending/0/arm", json!(3))],
            &[("/state/pulls/pending/0/arm", json!(-1))],
            &[("/state/pulls/pending/0/id", json!(1_000_000))],
            &[("/state/pulls/asked", json!(1))],
            &[("/state/samples/statistics/arm_of/0", json!(3))],
            &[("/state/samples/statistics/arm_of", json!([0, 1, 2]))],
            &[("/state/samples/statistics/counts", json!([1, 1, 1]))],
            &[("/state/samples/statistics/counts", json!([1, 1]))],
            &[("/state/samples/statistics/pair_sums", json!([0.0]))],
            &[("/state/samples/statistics/self_sums", json!([0.0, 0.0]))],
            &[("/state/samples/statistics/linear_sums", json!([]))],
            &[("/state/samples/statistics/self_terms", json!([1.0]))],
            &[("/state/samples/statistics/linear", json!([1.0]))],
            &[("/state/samples/statistics/totals", json!([1.0]))],
            &[("/state/samples/statistics/toward", json!([[], [], []]))],
            &[("/state/samples/statistics/toward/1", json!([0.5]))],
            &[("/state/policy/policy", json!("unheard of"))],
            &[("/state/random", json!({}))],
        ],
    );
}

/// Parts with matching lengths that would still cause a panic or wrong results at a later ask or tell.
#[test]
fn damage_that_would_show_later_is_refused() {
    all_refused(
        "adaptive",
        &[
            // Features are missing, although the sums contain samples.
            &[("/state/samples/held/values/single", json!([]))],
            // Names that are not distinct.
            &[("/state/names", json!(["red", "red", "blue"]))],
            // Two pulls with one id: the second could never be told.
            &[("/state/pulls/pending/0/id", json!(0)), ("/state/pulls/pending/1/id", json!(0))],
            // Counts whose sum overflows.
            &[("/state/pulls/pending/0/count", json!(u64::MAX)), ("/state/pulls/pending/1/count", json!(u64::MAX))],
            &[("/state/pulls/pending/0/count", json!(0))],
            &[("/state/pulls/asked", json!(u64::MAX))],
            &[("/state/pulls/answered", json!(u64::MAX))],
            &[("/state/pulls/abandoned/0", json!(u64::MAX))],
            &[("/state/pulls/backoffs/0/failures", json!(u32::MAX))],
        ],
    );
    // Half a row too many.
    let mut ragged = document("adaptive");
    ragged.pointer_mut("/state/samples/held/values/single").unwrap().as_array_mut().unwrap().push(json!(0.5));
    assert!(!accepts(ragged, &[]), "half a row too many is accepted");
}

/// The state of a policy is as untrusted as that of the session.
#[test]
fn damaged_policies_are_refused() {
    let policy = "/state/policy";
    let at = |field: &str| format!("{policy}/{field}");
    let (subscribed, arms, weights, support, beta) =
        (at("subscribed"), at("arms"), at("weights"), at("support"), at("widths/beta"));
    let cases: [(&str, Vec<(&str, Value)>); 5] = [
        (
            "sparse(fee=0.001)",
            vec![(&subscribed, json!([])), (&subscribed, json!([0, 7])), (&subscribed, json!([0, 0, 1]))],
        ),
        ("halving(rounds=400)", vec![(&arms, json!([])), (&arms, json!([0, 3]))]),
        ("fixed(weights=1 2 3)", vec![(&weights, json!([0.5, 0.5])), (&weights, json!([0.0, 0.0, 0.0]))]),
        ("fixed(weights=1 2 3, tracked=true)", vec![(&support, json!([])), (&support, json!([5]))]),
        ("cab", vec![(&beta, json!(-0.5))]),
    ];
    let mut accepted = Vec::new();
    for (policy, damages) in cases {
        for damage in damages {
            if accepts(document(policy), std::slice::from_ref(&damage)) {
                accepted.push(format!("{policy}: {damage:?} is accepted"));
            }
        }
    }
    assert!(accepted.is_empty(), "{}", accepted.join("\n"));
}

/// The solver's last solution is only a starting point: a wrong one is rejected, or changes no choice.
#[test]
fn a_damaged_warm_start_changes_nothing() {
    for policy in ["cab(sensitivity=0.05)", "greedy"] {
        let document = document(policy);
        let next = |document: Value| -> Option<Vec<usize>> {
            let mut session = Session::restore(serde_json::from_value(document).unwrap(), Some(rke())).ok()?;
            Some(go_on(&mut session, &mut Random::seeded(8), 20))
        };
        let expected = next(document.clone());
        for weights in [json!([0]), json!([1, 2]), json!([2, 1]), json!([0, 0]), json!([7]), json!([])] {
            let mut changed = document.clone();
            *changed.pointer_mut("/state/policy/start").unwrap() = weights.clone();
            let found = next(changed);
            assert!(found.is_none() || found == expected, "{policy}: {weights} leads to {found:?}, not {expected:?}");
        }
    }
}

/// Every number of a snapshot, one at a time, replaced by invalid ones: an error or a session that runs, never a panic.
#[test]
fn no_changed_number_ends_in_a_panic() {
    let mut panics = Vec::new();
    for spec in specs(3) {
        let document = document(&spec.to_string());
        for pointer in numbers(&document["state"], "/state") {
            for value in [json!(0), json!(1), json!(9), json!(u64::MAX), json!(-0.5), json!(1e300), Value::Null] {
                let mut changed = document.clone();
                *changed.pointer_mut(&pointer).unwrap() = value.clone();
                let survived = std::panic::catch_unwind(|| run(changed)).is_ok();
                if !survived {
                    panics.push(format!("{spec}: {pointer} = {value}"));
                }
            }
        }
    }
    assert!(panics.is_empty(), "{} panics:\n{}", panics.len(), panics.join("\n"));
}

/// Pointers to the numbers of a document; for long lists only the first two, because the others are alike.
fn numbers(value: &Value, pointer: &str) -> Vec<String> {
    match value {
        Value::Number(_) => vec![pointer.to_string()],
        Value::Object(map) => map.iter().flat_map(|(key, value)| numbers(value, &format!("{pointer}/{key}"))).collect(),
        Value::Array(list) => {
            list.iter().take(2).enumerate().flat_map(|(at, value)| numbers(value, &format!("{pointer}/{at}"))).collect()
        }
        _ => Vec::new(),
    }
}

/// Restores if possible, and continues for a few rounds; any error is fine.
fn run(document: Value) {
    let Ok(snapshot) = serde_json::from_value::<Snapshot>(document) else { return };
    let Ok(mut session) = Session::restore(snapshot, Some(rke())) else { return };
    let mut random = Random::seeded(1);
    for round in 0..6 {
        let Ok(pull) = session.ask() else { return };
        let _ = if round == 2 {
            session.abandon(pull.id)
        } else {
            session.tell(pull.id, &clusters(pull.index, 1, &mut random))
        };
    }
    while let Some(pull) = session.in_flight().first() {
        if session.abandon(pull.id).is_err() {
            break;
        }
    }
    let _ = session.report();
}

#[test]
fn snapshots_of_another_release_are_refused_by_name() {
    // The beginning of a snapshot of 0.1.
    let old = r#"{"version":1,"fingerprint":null,"state":{"names":["a"],"batch":1,"policy":{"policy":"adaptive"}}}"#;
    let error = Snapshot::<modelmix::policy::AnyPolicy>::from_json(old).unwrap_err().to_string();
    assert!(error.contains("written by modelmix 0.1") && error.contains("known"), "{error}");
    let later = old.replace("\"version\":1", "\"version\":3");
    let error = Snapshot::<modelmix::policy::AnyPolicy>::from_json(&later).unwrap_err().to_string();
    assert!(error.contains("version 3") && error.contains("reads version 2"), "{error}");
    let (session, _) = on_features();
    let text = session.snapshot().to_json().unwrap();
    let error = Snapshot::<modelmix::policy::AnyPolicy>::from_json(&text[..text.len() - 9]).unwrap_err().to_string();
    assert!(error.contains("ends too early, at line 1") && !error.contains("EOF"), "{error}");
}

/// A field that a later release adds would be silently lost by a release that does not know it.
#[test]
fn unknown_fields_are_refused_in_every_part() {
    use modelmix::session::{Cap, Retention};
    use modelmix::{Gap, Selection, Until};
    fn objects(value: &Value, pointer: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.push(pointer.to_string());
                map.iter().for_each(|(key, value)| objects(value, &format!("{pointer}/{key}"), found));
            }
            Value::Array(list) => {
                let first = list.iter().enumerate().take(1);
                first.for_each(|(at, value)| objects(value, &format!("{pointer}/{at}"), found));
            }
            _ => {}
        }
    }
    let observers = SessionSettings::default().until(Until::new(Gap::Share(0.5))).select(Selection::BetterHalf);
    let cap = Some(Cap::default().hold(20).error(0.2));
    let capped = SessionSettings::default().retention(Retention::HalfLife { samples: 20.0, cap }).alarm(0.1);
    let window = SessionSettings::default().retention(Retention::Window(20));
    let mut policies: Vec<SessionSettings> =
        specs(3).into_iter().map(|policy| SessionSettings::default().policy(policy)).collect();
    policies.extend([observers, capped, window]);
    let mut checked = 0;
    for settings in policies {
        let mut session = Session::new(NAMES, rke(), &settings.clone().batch(2)).unwrap();
        let pulls = if settings.until.is_some() { 400 } else { 20 };
        go_on(&mut session, &mut Random::seeded(6), pulls);
        assert_eq!(session.is_done(), settings.until.is_some(), "a verdict is part of what is checked");
        session.known(0, &clusters(0, 2, &mut Random::seeded(1)), &Default::default(), Default::default()).unwrap();
        let (document, mut found) = (serde_json::to_value(session.snapshot()).unwrap(), Vec::new());
        objects(&document, "", &mut found);
        for pointer in found {
            let mut changed = document.clone();
            let object = changed.pointer_mut(&pointer).unwrap().as_object_mut().unwrap();
            object.insert("invented".into(), json!(1));
            assert!(
                serde_json::from_value::<Snapshot>(changed).is_err(),
                "an unknown field of {pointer:?} is accepted"
            );
            checked += 1;
        }
    }
    assert!(checked > 150, "{checked}");
}

/// The guaranteed part of the format: a policy is stored under its name, which identifies it.
#[test]
fn policies_are_stored_by_name() {
    for spec in specs(3) {
        let document = document(&spec.to_string());
        let expected = if spec == PolicySpec::Uniform { "fixed" } else { spec.name() };
        assert_eq!(document["state"]["policy"]["policy"], expected, "{spec}");
    }
}
