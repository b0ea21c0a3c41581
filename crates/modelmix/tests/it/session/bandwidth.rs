//! Sessions that choose their bandwidth: which samples are used, which value is chosen, that it stays fixed, and that events
//! and snapshots restore it bit for bit, with any calls while it is open.

use modelmix::compute::{Cpu, Instructions, Reference};
use modelmix::policy::Random;
use modelmix::session::{
    Answer, Cap, Event, Header, JournalReader, JournalWriter, KnownAs, Retention, Scores, Selection, Snapshot, Storage,
};
use modelmix::{Error, Features, Gap, Inputs, Kernel, Objective, Session, SessionLoss, SessionSettings, Until};
use proptest::prelude::*;

use super::events::{act, happen, step};
use super::{NAMES, rke, state};
use crate::config;
use crate::worlds::clusters;

/// Samples per arm before the choice.
const FIRST: usize = 10;

fn open() -> SessionLoss {
    Objective::rke().prepare_for_session(Inputs::new().engine(Reference)).unwrap()
}

fn start(settings: &SessionSettings) -> Session {
    Session::new(NAMES, open(), settings).unwrap()
}

fn restored(session: &Session) -> Session {
    let text = session.snapshot().to_json().unwrap();
    Session::restore_with(Snapshot::from_json(&text).unwrap(), open()).unwrap()
}

/// The median of all distances between different rows, by definition.
fn median_of(rows: &Features) -> f64 {
    let mut distances = Vec::new();
    for a in 0..rows.len() {
        for b in 0..a {
            let squares = rows.row(a).iter().zip(rows.row(b)).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2));
            let distance = squares.sum::<f64>().sqrt();
            distances.extend((distance > 0.0).then_some(distance));
        }
    }
    distances.sort_by(f64::total_cmp);
    let half = distances.len() / 2;
    if distances.len() % 2 == 1 { distances[half] } else { (distances[half - 1] + distances[half]) / 2.0 }
}

fn round(session: &mut Session, random: &mut Random) {
    let pull = session.ask().unwrap();
    session.tell(pull.id, &clusters(pull.index, 1, random)).unwrap();
}

#[test]
fn the_first_samples_are_asked_evenly_and_their_median_distance_is_the_bandwidth() {
    let (mut session, mut random) = (start(&SessionSettings::default()), Random::seeded(3));
    for asked in 0..3 * FIRST {
        assert_eq!(session.decide().unwrap(), restored(&session).decide().unwrap());
        let report = session.report().unwrap();
        assert!(session.is_bandwidth_open() && report.is_bandwidth_open && report.bandwidth.is_none());
        assert_eq!(
            (report.samples, report.rounds, report.loss, report.mixture_loss),
            (asked, asked as u64, None, None)
        );
        assert!(report.kernels.is_empty() && report.weights().iter().all(|&weight| weight == 0.0));
        assert_eq!(session.report_with_bounds().unwrap().bound_on_weights, None);
        assert_eq!(session.empirical_loss(), None);
        round(&mut session, &mut random);
    }
    let (report, first) = (session.report().unwrap(), session.samples().unwrap());
    let chosen = session.chosen_bandwidth().unwrap();
    assert_eq!(chosen.bandwidth, median_of(&first));
    assert_eq!((chosen.samples, chosen.known, chosen.round), (3 * FIRST, 0, 3 * FIRST as u64));
    assert_eq!(report.bandwidth, Some(chosen));
    assert_eq!(report.kernels, [Kernel::Gaussian { bandwidth: chosen.bandwidth }]);
    assert!(report.arms.iter().all(|arm| arm.samples == FIRST) && !report.is_bandwidth_open);
    assert!(chosen.to_string().ends_with("median rule over 30 samples, fixed at round 30"), "{chosen}");
    for _ in 0..40 {
        round(&mut session, &mut random);
    }
    assert_eq!(session.chosen_bandwidth(), Some(chosen), "it is fixed for good");
    assert_eq!(session.samples().unwrap().len(), 70);
}

/// The choice affects only the bandwidth: a session that was given the same bandwidth and samples has the same sums.
#[test]
fn sums_are_those_of_a_session_that_was_given_the_bandwidth() {
    let mut random = Random::seeded(8);
    let mut session = start(&SessionSettings::default().batch(2));
    let mut events = Vec::new();
    for _ in 0..40 {
        events.push(session.perform(session.decide().unwrap()).unwrap());
        let Some(Event::Asked(asked)) = events.last() else { panic!("an arm was asked") };
        let told = Event::told(asked.pull, Answer::features(&clusters(asked.arm, 2, &mut random)));
        events.push(session.perform(told).unwrap());
    }
    let bandwidth = session.chosen_bandwidth().unwrap().bandwidth;
    let given = Objective::rke().with_bandwidth(bandwidth).prepare(Inputs::new().engine(Reference)).unwrap();
    let mut given = Session::new(NAMES, given, &SessionSettings::default().batch(2)).unwrap();
    for event in &mut events {
        if let Event::Told(told) = event {
            told.decisions.bandwidth = None;
        }
        given.apply(event).unwrap();
    }
    assert_eq!(session.statistics().counts(), given.statistics().counts());
    let (one, two) = (session.report().unwrap(), given.report().unwrap());
    let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(one.form.quadratic().iter().zip(two.form.quadratic()).all(|(&a, &b)| close(a, b)));
    assert!(close(one.loss.unwrap(), two.loss.unwrap()) && close(one.mixture_loss.unwrap(), two.mixture_loss.unwrap()));
}

/// Random calls before and after the choice: calls and events give the same state, every snapshot with the events after it
/// restores the session, and so does the journal. Returns how often a bandwidth was chosen.
fn check(settings: &SessionSettings, actions: &[u8], seed: u64) -> usize {
    let (mut plain, mut logged) = (start(settings), start(settings));
    let mut random = Random::stream(seed, 9);
    let (mut lines, mut events, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    let mut journal = JournalWriter::start(&mut lines, &Header::new("a run")).unwrap();
    for &action in actions {
        let step = step(&plain, action, &mut random);
        let before = state(&plain);
        let (left, right) = (act(&mut plain, &step), happen(&mut logged, &step));
        match right {
            Ok(event) => {
                assert!(left.is_ok());
                journal.append(&event, None).unwrap();
                events.push(event);
                snapshots.push(logged.snapshot().to_json().unwrap());
            }
            Err(error) => {
                assert_eq!(left.unwrap_err().to_string(), error.to_string());
                assert_eq!(state(&logged), before, "a refused event changed the session: {error}");
            }
        }
        assert_eq!(state(&plain), state(&logged));
    }
    let end = state(&logged);
    for (at, text) in snapshots.iter().enumerate() {
        let mut session = Session::restore_with(Snapshot::from_json(text).unwrap(), open()).unwrap();
        assert_eq!(session.fingerprint(), start(settings).fingerprint());
        events[at + 1..].iter().for_each(|event| session.apply(event).unwrap());
        assert_eq!(state(&session), end, "from snapshot {at}");
    }
    let mut replayed = start(settings);
    for entry in JournalReader::new(lines.as_slice()).unwrap() {
        let event = entry.unwrap().event;
        replayed.verify(&event).unwrap();
        replayed.apply(&event).unwrap();
    }
    assert_eq!(state(&replayed), end);
    let chosen = |event: &&Event| match event {
        Event::Told(told) => told.decisions.bandwidth.is_some(),
        Event::Known(known) => known.decisions.bandwidth.is_some(),
        _ => false,
    };
    events.iter().filter(chosen).count()
}

#[test]
fn every_cut_brings_the_session_back() {
    let mut chosen = [0; 2];
    let strategy = (proptest::collection::vec(0..32u8, 60..110), 0..u64::MAX, 1..4usize, any::<bool>(), any::<bool>());
    let mut runner = proptest::test_runner::TestRunner::new(config(24));
    runner
        .run(&strategy, |(actions, seed, batch, stops, half)| {
            let mut settings = SessionSettings::default().batch(batch).seed(seed);
            settings = if half { settings.storage(Storage::Half) } else { settings };
            settings = if stops { settings.until(Until::new(Gap::Share(0.5))) } else { settings };
            let count = check(&settings, &actions, seed);
            prop_assert!(count <= 1, "a bandwidth is chosen once");
            Ok(())
        })
        .unwrap();
    for seed in 0..8 {
        // Only asks and tells, so that the choice is reached.
        let mut random = Random::seeded(seed);
        let actions: Vec<u8> = (0..110).map(|_| random.below(24) as u8).collect();
        chosen[check(&SessionSettings::default().batch(2), &actions, seed)] += 1;
    }
    assert!(chosen[1] >= 6, "runs without and with a choice: {chosen:?}");
}

#[test]
fn another_processor_replays_the_bandwidth_of_the_event() {
    let on = |instructions| {
        let engine = Cpu::with_threads(1).with_instructions(instructions).unwrap();
        let loss = Objective::rke().prepare_for_session(Inputs::new().engine(engine)).unwrap();
        Session::new(NAMES, loss, &SessionSettings::default()).unwrap()
    };
    let (mut here, mut random, mut events) =
        (on(*Instructions::available().last().unwrap()), Random::seeded(4), Vec::new());
    for _ in 0..60 {
        events.push(here.perform(here.decide().unwrap()).unwrap());
        let Some(Event::Asked(asked)) = events.last() else { panic!("an arm was asked") };
        let told = Event::told(asked.pull, Answer::features(&clusters(asked.arm, 1, &mut random)));
        events.push(here.perform(told).unwrap());
    }
    let mut there = on(Instructions::Portable);
    events.iter().for_each(|event| there.apply(event).unwrap());
    assert_eq!(there.chosen_bandwidth(), here.chosen_bandwidth());
    let choice =
        events.iter().position(|event| matches!(event, Event::Told(told) if told.decisions.bandwidth.is_some()));
    // The bandwidth is taken from the event, and a check finds the difference.
    let mut events = events[..=choice.unwrap()].to_vec();
    let Some(Event::Told(told)) = events.last_mut() else { panic!("it was told") };
    told.decisions.bandwidth = Some(2.5);
    let mut other = on(Instructions::Portable);
    events[..choice.unwrap()].iter().for_each(|event| other.apply(event).unwrap());
    assert!(matches!(other.verify(events.last().unwrap()), Err(Error::Event { .. })));
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut event = events.last().unwrap().clone();
        let Event::Told(told) = &mut event else { panic!("it was told") };
        told.decisions.bandwidth = Some(wrong);
        let before = state(&other);
        assert!(other.apply(&event).is_err());
        assert_eq!(state(&other), before);
    }
    other.apply(events.last().unwrap()).unwrap();
    assert_eq!(other.chosen_bandwidth().unwrap().bandwidth, 2.5);
    // A session that has its bandwidth refuses such a decision.
    let pull = other.ask().unwrap();
    let mut event = Event::told(pull.id, Answer::features(&clusters(pull.index, 1, &mut random)));
    let Event::Told(told) = &mut event else { panic!("it was told") };
    told.decisions.bandwidth = Some(2.5);
    assert!(other.apply(&event).is_err());
}

#[test]
fn an_arm_that_fails_is_not_waited_for() {
    let (mut session, mut random) = (start(&SessionSettings::default().batch(2)), Random::seeded(5));
    let mut rounds = 0;
    while session.is_bandwidth_open() {
        // Three pulls in flight, told in reverse order.
        let mut pulls: Vec<_> = (0..3).map(|_| session.ask().unwrap()).collect();
        pulls.reverse();
        for pull in pulls {
            match pull.index {
                0 => session.abandon(pull.id).unwrap(),
                arm => session.tell(pull.id, &clusters(arm, 2, &mut random)).unwrap(),
            }
        }
        rounds += 1;
        assert!(rounds < 40, "the session waits for an arm that never answers");
    }
    let chosen = session.chosen_bandwidth().unwrap();
    assert!(chosen.samples >= 3 * FIRST);
    assert!(session.report().unwrap().arms[1..].iter().all(|arm| arm.samples >= FIRST));
}

#[test]
fn equal_samples_have_no_median_and_are_waited_on() {
    let mut session = start(&SessionSettings::default());
    let tell = |session: &mut Session, value: f32| {
        let pull = session.ask().unwrap();
        session.tell(pull.id, &Features::new(2, vec![value, 1.0]).unwrap()).unwrap();
    };
    (0..50).for_each(|_| tell(&mut session, 1.0));
    assert!(session.is_bandwidth_open());
    tell(&mut session, 5.0);
    assert_eq!(session.chosen_bandwidth().unwrap().bandwidth, 4.0);
}

#[test]
fn known_samples_choose_at_once_and_count() {
    let mut random = Random::seeded(6);
    let mut session = start(&SessionSettings::default().until(Until::new(Gap::Share(0.9))));
    let known: Vec<Features> = (0..3).map(|arm| clusters(arm, 400, &mut random)).collect();
    for (arm, rows) in known.iter().enumerate() {
        assert!(session.is_bandwidth_open());
        session.known(arm, rows, &Scores::new(), KnownAs::Evidence).unwrap();
    }
    let chosen = session.chosen_bandwidth().unwrap();
    let sets: Vec<&Features> = known.iter().collect();
    assert_eq!(chosen.bandwidth, modelmix::objective::median_distance(&sets, 0).unwrap());
    assert_eq!((chosen.samples, chosen.known, chosen.round), (1200, 1200, 0));
    assert!(session.is_done(), "known samples count, and a check is made with them");
    let value = serde_json::to_value(session.snapshot()).unwrap();
    assert!(value["state"]["samples"].get("independent").is_none());
    assert_eq!(state(&restored(&session)), state(&session));
}

/// Bounds and stopping use only samples that the bandwidth does not depend on: their sums equal those of a session that was
/// told only the later samples.
#[test]
fn certainty_is_from_later_samples_alone() {
    let mut random = Random::seeded(7);
    let mut session = start(&SessionSettings::default().until(Until::new(Gap::Share(0.001))));
    let known = clusters(1, 4, &mut random);
    session.known(1, &known, &Scores::new(), KnownAs::Evidence).unwrap();
    let mut later = vec![(1, known)];
    for _ in 0..90 {
        let was_open = session.is_bandwidth_open();
        let pull = session.ask().unwrap();
        let rows = clusters(pull.index, 1, &mut random);
        session.tell(pull.id, &rows).unwrap();
        if !was_open {
            later.push((pull.index, rows));
        }
    }
    let bandwidth = session.chosen_bandwidth().unwrap().bandwidth;
    let loss = Objective::rke().with_bandwidth(bandwidth).prepare(Inputs::new().engine(Reference)).unwrap();
    let mut alone = Session::new(NAMES, loss, &SessionSettings::default()).unwrap();
    for (arm, rows) in &later {
        alone.known(*arm, rows, &Scores::new(), KnownAs::Evidence).unwrap();
    }
    let value = serde_json::to_value(session.snapshot()).unwrap();
    let found: modelmix::Statistics =
        serde_json::from_value(value["state"]["samples"]["independent"]["statistics"].clone()).unwrap();
    assert_eq!(found.counts(), alone.statistics().counts());
    let (found, expected) = (found.unbiased(), alone.statistics().unbiased());
    assert!(found.quadratic().iter().zip(expected.quadratic()).all(|(a, b)| (a - b).abs() < 1e-12));
    let collected: usize = session.report().unwrap().samples;
    assert_eq!(collected, 90, "the first samples are collected ones all the same");
}

#[test]
fn what_needs_the_bandwidth_with_the_first_sample_is_refused() {
    let settings = SessionSettings::default;
    for (settings, word) in [
        (settings().select(Selection::BetterHalf), "select"),
        (settings().alarm(0.05), "alarm"),
        (settings().retention(Retention::Window(40)), "retention"),
        (settings().retention(Retention::Capped(Cap::default())), "hold"),
    ] {
        let error = Session::new(NAMES, open(), &settings).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("median_bandwidth"), "{error}");
    }
    // With a reference, the bandwidth comes from the reference, and is not open.
    let reference = clusters(0, 50, &mut Random::seeded(1));
    let given = Inputs::new().reference(reference.clone()).engine(Reference);
    let loss = Objective::parse("rke - 0.2*precision").unwrap().prepare_for_session(given).unwrap();
    assert!(!loss.is_open());
    let session = Session::new(NAMES, loss, &settings()).unwrap();
    assert_eq!(session.report().unwrap().kernels, [Kernel::Gaussian { bandwidth: median_of(&reference) }]);
    assert!(session.chosen_bandwidth().is_none());
}

#[test]
fn a_snapshot_belongs_to_the_open_objective() {
    let mut session = start(&SessionSettings::default());
    let mut random = Random::seeded(2);
    for told in 0..40 {
        let snapshot = || session.snapshot();
        assert!(matches!(Session::restore(snapshot(), Some(rke())), Err(Error::Snapshot { .. })), "{told}");
        assert_eq!(state(&restored(&session)), state(&session));
        round(&mut session, &mut random);
    }
    let text = session.snapshot().to_json().unwrap();
    let damage = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let snapshot: Snapshot = Snapshot::from_json(&text.replace(from, to)).unwrap();
        assert!(matches!(Session::restore_with(snapshot, open()), Err(Error::Snapshot { .. })), "{to}");
    };
    let bandwidth = session.chosen_bandwidth().unwrap().bandwidth;
    damage(&format!("\"chosen\":{{\"bandwidth\":{bandwidth}"), "\"chosen\":{\"bandwidth\":-1.0");
    damage("\"is_left_out\":[true", "\"is_left_out\":[false");
    let given = rke();
    let session = Session::new(NAMES, given, &SessionSettings::default()).unwrap();
    assert!(matches!(Session::restore_with(session.snapshot(), open()), Err(Error::Snapshot { .. })));
}
