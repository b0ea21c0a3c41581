//! A session is the fold of its events: after any sequence, the events restore the same state to the last bit; on
//! another processor they give the same choices; and tampering is detected.

use modelmix::compute::{Cpu, Instructions};
use modelmix::policy::Random;
use modelmix::session::{
    Answer, Cap, Event, Header, JournalReader, JournalWriter, KnownAs, Retention, Selection, Snapshot, Storage,
};
use modelmix::{Error, Features, Gap, Inputs, Loss, Objective, PolicySpec, Session, SessionSettings, Until, Values};
use proptest::prelude::*;

use super::{NAMES, rke, state};
use crate::config;
use crate::policies::specs;
use crate::worlds::clusters;

/// Every retention that three arms and pulls of two allow.
fn retentions() -> [Retention; 5] {
    let cap = Cap::default().hold(16).error(0.2);
    [
        Retention::All,
        Retention::Capped(cap),
        Retention::Window(14),
        Retention::half_life(13.0),
        Retention::HalfLife { samples: 13.0, cap: Some(cap) },
    ]
}

/// Every set of observers; not all are compatible with every policy and retention.
fn observed(which: usize, settings: SessionSettings) -> SessionSettings {
    let until = Some(Until::new(Gap::Share(0.5)));
    match which {
        0 => settings,
        1 => settings.clone().alarm(0.9),
        2 => settings.clone().until(until),
        3 => settings.clone().select(Selection::BetterHalf),
        _ => settings.clone().until(until).alarm(0.9).select(Selection::BetterHalf),
    }
}

/// A step of a session, drawn ahead so that two sessions can run the same steps.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Ask,
    Tell(u64, Features),
    Abandon(u64),
    Forget(usize),
    Known(usize, Features, KnownAs),
    /// A step that is rejected.
    Fail(u64, Features),
}

pub(super) fn step(session: &Session, action: u8, random: &mut Random) -> Step {
    let flight = session.in_flight();
    let any = |random: &mut Random| flight[random.below(flight.len())].clone();
    match action {
        0..=9 if flight.len() < 4 => Step::Ask,
        _ if flight.is_empty() => Step::Ask,
        0..=23 => {
            let pull = any(random);
            let samples = 1 + random.below(pull.count);
            Step::Tell(pull.id, clusters(pull.index, samples, random))
        }
        24 | 25 => Step::Abandon(any(random).id),
        26..=28 => {
            let (arm, samples) = (random.below(3), 1 + random.below(3));
            let known_as = if action == 26 { KnownAs::Collected } else { KnownAs::Evidence };
            Step::Known(arm, clusters(arm, samples, random), known_as)
        }
        29 => Step::Forget(random.below(3)),
        _ => Step::Fail(any(random).id, Features::new(3, vec![0.5; 3]).unwrap()),
    }
}

/// Runs a step by plain calls.
pub(super) fn act(session: &mut Session, step: &Step) -> Result<(), Error> {
    match step {
        Step::Ask => session.ask().map(drop),
        Step::Tell(pull, features) | Step::Fail(pull, features) => session.tell(*pull, features),
        Step::Abandon(pull) => session.abandon(*pull),
        Step::Forget(arm) => session.forget(*arm),
        Step::Known(arm, features, known_as) => session.known(*arm, features, &Default::default(), *known_as),
    }
}

/// Runs a step by an event.
pub(super) fn happen(session: &mut Session, step: &Step) -> Result<Event, Error> {
    let event = match step {
        Step::Ask => session.decide()?,
        Step::Tell(pull, features) | Step::Fail(pull, features) => Event::told(*pull, Answer::features(features)),
        Step::Abandon(pull) => Event::Abandoned { pull: *pull },
        Step::Forget(arm) => Event::Forgotten { arm: *arm },
        Step::Known(arm, features, known_as) => Event::known(*arm, Answer::features(features), *known_as),
    };
    session.perform(event)
}

fn stored(session: &Session) -> Session {
    let text = session.snapshot().to_json().unwrap();
    Session::restore(Snapshot::from_json(&text).unwrap(), Some(rke())).unwrap()
}

/// Runs the same steps by plain calls and as events through a journal, with snapshots in between, and restores sessions
/// from the journal, and from each snapshot and the events after it. Returns how often observers decided something.
fn check(settings: &SessionSettings, actions: &[u8], seed: u64) -> Option<[usize; 3]> {
    let start = || Session::new(NAMES, rke(), settings);
    let (mut plain, mut logged) = (start().ok()?, start().ok()?);
    let mut random = Random::stream(seed, 9);
    let (mut lines, mut snapshots, mut decided) = (Vec::new(), Vec::new(), [0; 3]);
    let mut journal = JournalWriter::start(&mut lines, &Header::new("a run")).unwrap();
    let mut written = 0;
    for (at, &action) in actions.iter().enumerate() {
        let step = step(&plain, action, &mut random);
        let before = state(&plain);
        let (left, right) = (act(&mut plain, &step), happen(&mut logged, &step));
        match right {
            Ok(event) => {
                assert!(left.is_ok());
                if let Event::Told(told) = &event {
                    let kept = told.decisions.kept.iter().flatten().filter(|kept| !**kept).count();
                    let rang = told.decisions.rang.iter().flatten().count();
                    let stop_check = usize::from(told.decisions.stop_check.is_some());
                    [kept, rang, stop_check].iter().zip(&mut decided).for_each(|(more, count)| *count += more);
                }
                journal.append(&event, Some(&at.to_string())).unwrap();
                written += 1;
            }
            Err(error) => {
                assert_eq!(left.unwrap_err().to_string(), error.to_string());
                assert_eq!(state(&logged), before, "an event that was refused left a trace: {error}");
            }
        }
        if action == 23 {
            logged = stored(&logged);
            snapshots.push((written, logged.clone()));
        }
    }
    let end = state(&plain);
    assert_eq!(state(&logged), end);
    let entries: Vec<_> = JournalReader::new(lines.as_slice()).unwrap().map(Result::unwrap).collect();
    assert_eq!(entries.len(), written);
    let mut replayed = start().unwrap();
    for entry in &entries {
        replayed.verify(&entry.event).unwrap();
        replayed.apply(&entry.event).unwrap();
    }
    assert_eq!(state(&replayed), end, "from the journal");
    for (at, mut snapshot) in snapshots {
        entries[at..].iter().for_each(|entry| snapshot.apply(&entry.event).unwrap());
        assert_eq!(state(&snapshot), end, "from the snapshot after {at} events");
    }
    Some(decided)
}

proptest! {
    #![proptest_config(config(160))]

    /// Asks, answers in any order, failures, abandoned pulls, forgotten arms, known samples, snapshots and replays.
    #[test]
    fn any_interleaving_is_the_fold_of_its_events(
        policy in 0..16usize,
        retention in 0..5usize,
        observers in 0..5usize,
        half in any::<bool>(),
        seed in 0..1000u64,
        actions in proptest::collection::vec(0..32u8, 20..120),
    ) {
        let storage = if half { Storage::Half } else { Storage::Single };
        let (policy, retention) = (specs(3)[policy].clone(), retentions()[retention]);
        let settings = SessionSettings::default().policy(policy).retention(retention).storage(storage).seed(seed).batch(2);
        check(&observed(observers, settings), &actions, seed);
    }
}

/// Every policy with every compatible retention and set of observers, once and long enough for all observers to decide
/// something.
#[test]
fn every_combination_is_the_fold_of_its_events() {
    let (mut ran, mut decided) = (0, [0; 3]);
    let mut random = Random::seeded(12);
    for policy in specs(3) {
        for retention in retentions() {
            for observers in 0..5 {
                let settings = SessionSettings::default().policy(policy.clone()).retention(retention).seed(3).batch(2);
                let actions: Vec<u8> = (0..150).map(|_| random.below(32) as u8).collect();
                if let Some(counts) = check(&observed(observers, settings), &actions, 7) {
                    ran += 1;
                    decided.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                }
            }
        }
    }
    // 16 policies: with all samples 5 sets of observers, minus the 2 that stop for the 5 that drop arms; 2 sets for
    // each of the 4 others, minus 3 retentions for halving.
    assert_eq!(ran, 16 * 5 - 5 * 2 + 16 * 4 * 2 - 3 * 2);
    let [discarded, rang, stop_check] = decided;
    assert!(discarded > 100 && rang > 0 && stop_check > 10, "{decided:?}");
}

/// Sessions on values: κ by place, including known samples.
#[test]
fn sessions_on_values_are_folds_too() {
    for policy in specs(3) {
        let settings = SessionSettings::default().policy(policy.clone()).seed(2).batch(2);
        let ranges = Some(modelmix::Ranges { kappa: (0.0, 1.0), linear: (0.0, 1.0) });
        let start = || Session::on_values(NAMES, ranges, &settings).unwrap();
        let (mut plain, mut logged) = (start(), start());
        let (mut random, mut points, mut events) = (Random::seeded(4), Vec::new(), Vec::new());
        for round in 0..60 {
            let known = round % 10 == 3;
            let arm = if known { round % 3 } else { plain.ask().unwrap().index };
            let point = arm as f64 + random.unit();
            let kappa: Vec<f64> = points.iter().map(|other: &f64| (-(other - point).powi(2)).exp()).collect();
            points.push(point);
            let values = [Values { kappa: &kappa, own: 1.0, linear: 0.1 * point }];
            if known {
                plain.known_values(arm, &values, KnownAs::Evidence).unwrap();
                let event = Event::known(arm, Answer::values(&values), KnownAs::Evidence);
                events.push(logged.perform(event).unwrap());
            } else {
                let pull = plain.in_flight()[0].id;
                plain.tell_values(pull, &values).unwrap();
                let asked = logged.decide().unwrap();
                events.push(logged.perform(asked).unwrap());
                events.push(logged.perform(Event::told(pull, Answer::values(&values))).unwrap());
            }
        }
        let text = serde_json::to_string(&events).unwrap();
        let mut again = start();
        for event in serde_json::from_str::<Vec<Event>>(&text).unwrap() {
            again.verify(&event).unwrap();
            again.apply(&event).unwrap();
        }
        assert_eq!(state(&plain), state(&logged), "{policy}");
        assert_eq!(state(&plain), state(&again), "{policy}");
    }
}

/// Wide features, whose κ is rounded differently by every instruction set.
fn wide_loss(instructions: Instructions) -> Loss {
    let cpu = Cpu::with_threads(1).with_instructions(instructions).unwrap();
    Objective::rke().with_bandwidth(4.0).prepare(Inputs::new().width(48).engine(cpu)).unwrap()
}

fn wide(arm: usize, random: &mut Random) -> Features {
    let values = (0..48).map(|column| (random.normal() + if column % 3 == arm { 0.8 } else { 0.0 }) as f32);
    Features::new(48, values.collect()).unwrap()
}

/// A run with the best instructions of this processor, as events.
fn wide_run(settings: &SessionSettings, rounds: usize) -> (Session, Vec<Event>) {
    let best = *Instructions::available().last().unwrap();
    let mut session = Session::new(NAMES, wide_loss(best), settings).unwrap();
    let (mut random, mut events) = (Random::seeded(8), Vec::new());
    for _ in 0..rounds {
        while session.in_flight().len() < 3 {
            let asked = session.decide().unwrap();
            events.push(session.perform(asked).unwrap());
        }
        let pull = session.in_flight().swap_remove(random.below(3));
        let answer = Answer::features(&wide(pull.index, &mut random));
        events.push(session.perform(Event::told(pull.id, answer)).unwrap());
    }
    (session, events)
}

/// The state is rounded differently, and decisions may differ; the recorded ones are used, and the weights agree.
#[test]
fn events_of_the_best_instructions_replay_on_portable_ones() {
    let mut furthest = 0.0f64;
    let until = Until::new(Gap::Share(0.5));
    let observed = |policy: &PolicySpec| {
        let settings = SessionSettings::default().policy(policy.clone()).alarm(0.5).seed(1);
        let all = settings.clone().select(Selection::BetterHalf).until(until);
        // Early stopping is not supported by policies that drop arms.
        if Session::new(NAMES, rke(), &all).is_ok() { all } else { settings }
    };
    for policy in specs(3) {
        let settings = observed(&policy);
        let (session, events) = wide_run(&settings, 120);
        let mut portable = Session::new(NAMES, wide_loss(Instructions::Portable), &settings).unwrap();
        events.iter().for_each(|event| portable.apply(event).unwrap());
        assert_eq!(portable.in_flight(), session.in_flight(), "{policy}");
        assert_eq!(portable.statistics().arm_of(), session.statistics().arm_of(), "{policy}: the same choices");
        assert_eq!((portable.kept(), portable.is_done()), (session.kept(), session.is_done()), "{policy}");
        let (left, right) = (session.report().unwrap(), portable.report().unwrap());
        for (a, b) in left.weights().iter().zip(right.weights()) {
            furthest = furthest.max((a - b).abs());
        }
        assert_eq!(left.arms.iter().map(|arm| arm.changed).collect::<Vec<_>>(), {
            right.arms.iter().map(|arm| arm.changed).collect::<Vec<_>>()
        });
    }
    println!("weights differ by {furthest:e} at most");
    assert!(furthest < 1e-6, "{furthest:e}");
}

/// A choice that no engine would make, as from a release with another rule: applying accepts it, verifying reports it.
#[test]
fn recorded_choices_stand_and_tampering_is_named() {
    let settings = SessionSettings::default().select(Selection::BetterHalf).seed(1);
    let (session, events) = wide_run(&settings, 60);
    let best = *Instructions::available().last().unwrap();
    let start = || Session::new(NAMES, wide_loss(best), &settings).unwrap();
    let verified = |events: &[Event]| -> Result<Session, Error> {
        let mut session = start();
        for event in events {
            session.verify(event)?;
            session.apply(event)?;
        }
        Ok(session)
    };
    assert_eq!(state(&verified(&events).unwrap()), state(&session));
    let named = |events: &[Event], name: &str| {
        let error = verified(events).unwrap_err();
        assert!(matches!(&error, Error::Event { event, .. } if event == name), "{error}");
    };
    // The last pull is of another arm; it has not been answered, so everything else is the same.
    let mut changed = events.clone();
    let last = changed.iter_mut().rev().find_map(|event| match event {
        Event::Asked(asked) => Some(asked),
        _ => None,
    });
    let asked = last.unwrap();
    asked.arm = (asked.arm + 1) % 3;
    let name = format!("asked (pull {})", asked.pull);
    named(&changed, &name);
    let mut applied = start();
    changed.iter().for_each(|event| applied.apply(event).unwrap());
    assert_eq!(applied.in_flight().len(), session.in_flight().len());
    // One sample fewer is kept.
    let mut changed = events.clone();
    let told = changed.iter_mut().rev().find_map(|event| match event {
        Event::Told(told) if told.decisions.kept == Some(vec![true]) => Some(told),
        _ => None,
    });
    let told = told.unwrap();
    told.decisions.kept = Some(vec![false]);
    let name = format!("told (pull {})", told.pull);
    named(&changed, &name);
    let mut applied = start();
    changed.iter().for_each(|event| applied.apply(event).unwrap());
    let kept = |session: &Session| session.kept().iter().filter(|kept| **kept).count();
    assert_ne!(kept(&applied), kept(&session), "the recorded decision stands");
    // Impossible events are rejected and have no effect.
    let mut session = start();
    for event in [&events[1], &events[3], &Event::Abandoned { pull: 4 }, &Event::Forgotten { arm: 9 }] {
        let before = state(&session);
        assert!(session.apply(event).is_err() && state(&session) == before, "{event:?}");
    }
}

/// Decisions of observers that a session does not have, or that were not due, and a policy of another kind: such an
/// event belongs to another session.
#[test]
fn decisions_of_another_session_are_refused() {
    use modelmix::session::{Decisions, StopCheck};
    let answer = |random: &mut Random| Answer::features(&clusters(0, 1, random));
    let mut random = Random::seeded(8);
    let with = |decide: &dyn Fn(&mut Decisions)| {
        let mut decisions = Decisions::default();
        decide(&mut decisions);
        decisions
    };
    let until = SessionSettings::default().until(Until::new(Gap::Share(0.5)));
    let kept = with(&|decisions| decisions.kept = Some(vec![true]));
    let rang = with(&|decisions| decisions.rang = Some(vec![0]));
    let seventh = with(&|decisions| decisions.rang = Some(vec![7]));
    let checked = with(&|decisions| decisions.stop_check = Some(StopCheck::default()));
    let cases = [
        (SessionSettings::default(), kept),
        (SessionSettings::default(), rang),
        (SessionSettings::default().alarm(0.1), seventh),
        (SessionSettings::default(), checked.clone()),
        (until, checked),
    ];
    for (settings, decisions) in cases {
        let mut session = Session::new(NAMES, rke(), &settings).unwrap();
        let pull = session.ask().unwrap().id;
        let mut event = Event::told(pull, answer(&mut random));
        let Event::Told(told) = &mut event else { unreachable!() };
        told.decisions = decisions.clone();
        let before = state(&session);
        let error = session.apply(&event).unwrap_err();
        assert!(matches!(&error, Error::Event { .. }) && error.to_string().contains("another session"), "{error}");
        assert_eq!(state(&session), before, "{decisions:?}");
    }
    let mut session = Session::new(NAMES, rke(), &SessionSettings::default()).unwrap();
    let sparse = SessionSettings::default().policy("sparse(keep=2)".parse().unwrap());
    let other = Session::new(NAMES, rke(), &sparse).unwrap().policy().clone();
    let mut event = session.decide().unwrap();
    let Event::Asked(asked) = &mut event else { unreachable!() };
    asked.policy = Some(other);
    assert!(session.apply(&event).unwrap_err().to_string().contains("policy"));
}

/// An event contains the whole policy, which is untrusted input.
#[test]
fn events_that_do_not_fit_are_refused() {
    let spec: PolicySpec = "sparse(fee=0.02)".parse().unwrap();
    let settings = SessionSettings::default().policy(spec);
    let mut session = Session::new(NAMES, rke(), &settings).unwrap();
    let asked = session.decide().unwrap();
    let text = serde_json::to_string(&asked).unwrap();
    for (from, to) in [("\"pull\":0", "\"pull\":1"), ("\"count\":1", "\"count\":2"), ("\"arm\":", "\"arm\":3")] {
        let event: Event = serde_json::from_str(&text.replace(from, to)).unwrap();
        assert!(matches!(session.apply(&event), Err(Error::Event { .. })), "{to}");
    }
    assert!(serde_json::from_str::<Event>(&text.replace("\"pull\"", "\"other\":1,\"pull\"")).is_err());
    session.apply(&asked).unwrap();
    for (width, values) in [(0, vec![]), (2, vec![]), (2, vec![1.0]), (2, vec![f32::NAN, 0.0])] {
        let answer = Answer::Features { width, values, scores: Default::default() };
        assert!(matches!(session.apply(&Event::told(0, answer)), Err(Error::Event { .. })));
    }
}
