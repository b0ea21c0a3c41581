//! Every change comes back as it was committed, and an impossible one is refused with all that is committed with it.

use modelmix::Event;
use modelmix::session::{Answer, Decisions};
use modelmix_live::arm::FailureKind;
use modelmix_live::store::change::{Change, PayloadRef};
use modelmix_live::store::history::{PullState, StoredFailure, StoredOutcome};
use modelmix_live::store::{Reader, Store};
use rusqlite::Connection;
use serde_json::json;

use super::{DESCRIPTION, abandoned, asked, copy, event, failed, received, sent, told};

fn decisions() -> Decisions {
    serde_json::from_value(json!({"kept": [true, false], "rang": [1], "bandwidth": 0.1})).unwrap()
}

fn known() -> Event {
    // 0.5 and -2 as base64 of little-endian bytes.
    event(json!({"known": {"arm": 1, "answer": {"features": {"width": 2, "values": "AAAAPwAAAMA="}}}}))
}

/// A run with every change, in several transactions.
fn every_change(store: &mut Store) -> PayloadRef {
    let payload = store.payloads().write(b"a text", "txt").unwrap();
    let mut last = told(1, &[2, 0]);
    if let Change::Told { decisions: of_told, .. } = &mut last {
        *of_told = decisions();
    }
    let reason = "it cannot be decoded".to_owned();
    let lifecycle = |what: &str, at| Change::Lifecycle { what: what.into(), note: "by the user".into(), at };
    let transactions = [
        vec![lifecycle("started", 1), Change::Known { event: known(), at: 2 }],
        vec![asked(0, 0), asked(1, 1), asked(2, 0), asked(3, 1), asked(4, 0), asked(5, 1)],
        vec![sent(1, 1), sent(2, 1), sent(3, 1), sent(4, 1)],
        vec![failed(1, 1, Some(0.125)), failed(2, 1, None), sent(1, 2), failed(4, 1, None)],
        vec![
            received(1, 2, vec![Some(payload.clone()), Some(payload.clone()), None]),
            received(3, 1, vec![None, None]),
            Change::Settled { pull: 4, attempt: 1, cost: 0.0625 },
        ],
        vec![Change::Rejected { pull: 1, ordinal: 1, reason }, last, abandoned(2), sent(4, 2)],
        vec![Change::SetAside { arm: 1, reason: "401 Unauthorized".into(), at: 7 }, lifecycle("drained", 8)],
    ];
    transactions.iter().for_each(|changes| store.commit(changes).unwrap());
    payload
}

#[test]
fn every_change_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path(), DESCRIPTION).unwrap();
    let payload = every_change(&mut store);
    let history = store.history().unwrap();
    assert_eq!(Reader::open(folder.path()).unwrap().history().unwrap(), history, "while the run is open");
    drop(store);
    assert_eq!(Reader::open(folder.path()).unwrap().history().unwrap(), history, "after its end");
    assert_eq!(Store::open(folder.path()).unwrap().history().unwrap(), history, "opened again");

    assert_eq!((history.description.as_str(), history.commits), (DESCRIPTION, 7));
    let scores = [("valid".to_owned(), vec![2.0 / 3.0, 0.0])].into();
    let mut told = Event::told(1, Answer::Features { width: 2, values: vec![1.0, 2.1, 1.0, 0.1], scores });
    if let Event::Told(told) = &mut told {
        told.decisions = decisions();
    }
    let asked_event = |pull| match asked(pull, pull as usize % 2) {
        Change::Asked { event, .. } => event,
        _ => unreachable!(),
    };
    let events: Vec<Event> = [known()]
        .into_iter()
        .chain((0..6).map(asked_event))
        .chain([told, event(json!({"abandoned": {"pull": 2}}))])
        .collect();
    assert_eq!(history.events, events);

    use PullState::{Abandoned, Asked, Received, Sent, Told};
    let states: Vec<PullState> = history.pulls.iter().map(|pull| pull.state).collect();
    assert_eq!(states, [Asked, Told, Abandoned, Received, Sent, Asked]);
    let pull = &history.pulls[1];
    assert_eq!((pull.pull, pull.arm, pull.count, pull.prompt, pull.seed), (1, 1, 2, Some(11), 1001));
    assert_eq!((pull.asked_at, pull.ended_at, &pull.reason), (101, Some(501), &None));
    assert_eq!(history.pulls[2].reason.as_deref(), Some("the arm is set aside"));
    let [first, second] = pull.attempts.as_slice() else { panic!("{:?}", pull.attempts) };
    let message = "no answer within 30 s".to_owned();
    let failure = Some(StoredFailure { kind: FailureKind::Timeout, status: None, message });
    assert_eq!((first.attempt, first.reserved, first.sent_at), (1, 0.5, 201));
    assert_eq!(first.outcome, Some(StoredOutcome { at: 301, cost: Some(0.125), failure }));
    assert_eq!(second.outcome, Some(StoredOutcome { at: 401, cost: Some(0.25), failure: None }));
    let [told, rejected, also_told] = pull.samples.as_slice() else { panic!("{:?}", pull.samples) };
    assert_eq!((told.ordinal, told.position, told.scores["valid"]), (0, Some(1), 0.0));
    assert_eq!((rejected.position, rejected.rejected.as_deref()), (None, Some("it cannot be decoded")));
    assert_eq!((also_told.position, &also_told.payload, &also_told.features), (Some(0), &None, &None));
    assert_eq!(told.payload.as_ref(), Some(&payload));
    // Received, but not told: the features that the arm gave.
    assert_eq!(history.pulls[3].samples[1].features, Some(vec![3.0, 0.5]));

    assert_eq!((history.set_aside[0].arm, history.set_aside[0].reason.as_str()), (1, "401 Unauthorized"));
    let lifecycle: Vec<(&str, u64)> = history.lifecycle.iter().map(|row| (row.what.as_str(), row.at)).collect();
    assert_eq!(lifecycle, [("started", 1), ("drained", 8)]);
    // 0.125 and 0.25 of pull 1, 0.25 of pull 3, 0.0625 settled; attempt 1 of pull 2 and attempt 2 of pull 4 are in doubt.
    assert_eq!((history.confirmed, history.in_doubt), (0.6875, 1.0));
}

#[test]
fn an_answer_to_an_abandoned_pull_still_costs() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path(), DESCRIPTION).unwrap();
    store.commit(&[asked(0, 0), sent(0, 1), abandoned(0)]).unwrap();
    assert_eq!(store.history().unwrap().in_doubt, 0.5);
    store.commit(&[received(0, 1, vec![None])]).unwrap();
    let history = store.history().unwrap();
    assert_eq!((history.pulls[0].state, history.pulls[0].samples.len()), (PullState::Abandoned, 1));
    assert_eq!((history.confirmed, history.in_doubt), (0.25, 0.0));
}

#[test]
fn impossible_changes_are_refused_and_nothing_is_committed() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path(), DESCRIPTION).unwrap();
    every_change(&mut store);
    let before = store.history().unwrap();
    let wrong_name = PayloadRef { sha256: "../../etc/passwd".into(), extension: "txt".into(), bytes: 3 };
    let settled = |pull, attempt| Change::Settled { pull, attempt, cost: 0.5 };
    let mut unlike = told(3, &[0, 1]);
    if let Change::Told { samples, .. } = &mut unlike {
        samples[1].features.push(1.0);
    }
    let mut endless = told(3, &[0, 1]);
    if let Change::Told { samples, .. } = &mut endless {
        samples[1].scores.insert("valid".into(), f64::NAN);
    }
    let reserve = |reserved| Change::Sent { pull: 0, attempt: 1, reserved, at: 1 };
    let cases = [
        (asked(1, 1), "pull 1 for 2 samples was asked before"),
        (Change::Asked { event: known(), prompt: None, seed: 1, at: 1 }, "is not an event of an asked arm"),
        (Change::Known { event: event(json!({"abandoned": {"pull": 0}})), at: 1 }, "is not an event of known samples"),
        (sent(9, 1), "attempt 1 of pull 9 cannot be sent: the pull was not asked"),
        (sent(1, 3), "attempt 3 of pull 1 cannot be sent: the pull is told"),
        (sent(4, 2), "attempt 2 of pull 4 cannot be sent: the pull is sent"),
        (sent(4, 3), "attempt 3 of pull 4 cannot be sent: the pull is sent"),
        (sent(0, 0), "is not counted from 1"),
        (reserve(-1.0), "the cost -1 is not a number of at least 0"),
        (reserve(f64::INFINITY), "the cost inf is not a number of at least 0"),
        (
            received(1, 2, vec![None]),
            "attempt 2 of pull 1 cannot be received: it was not sent, or has an outcome already",
        ),
        (received(0, 1, vec![None]), "attempt 1 of pull 0 cannot be received: it was not sent"),
        (received(4, 2, vec![]), "pull 4 received no samples"),
        (received(4, 2, vec![Some(wrong_name)]), "a payload with a wrong name"),
        (failed(2, 1, None), "attempt 1 of pull 2 cannot be failed: it was not sent, or has an outcome already"),
        (failed(4, 2, Some(f64::NAN)), "the cost NaN is not a number of at least 0"),
        (settled(4, 1), "the cost of attempt 1 of pull 4 is not in doubt"),
        (settled(4, 2), "the cost of attempt 2 of pull 4 is not in doubt"),
        (told(9, &[0]), "pull 9 cannot be told: the pull was not asked"),
        (told(0, &[0]), "pull 0 cannot be told: the pull is asked"),
        (told(1, &[0]), "pull 1 cannot be told: the pull is told"),
        (told(3, &[]), "pull 3 is told without samples"),
        (told(3, &[0, 0]), "pull 3 cannot be told: sample 0 was not received, is rejected, or is told twice"),
        (told(3, &[2]), "pull 3 cannot be told: sample 2 was not received"),
        (unlike, "sample 1 has other features or scores than sample 0"),
        (endless, "the score valid of sample 1 is NaN"),
        (Change::Rejected { pull: 1, ordinal: 0, reason: String::new() }, "sample 0 of pull 1 cannot be rejected"),
        (Change::Rejected { pull: 1, ordinal: 1, reason: String::new() }, "sample 1 of pull 1 cannot be rejected"),
        (abandoned(1), "pull 1 cannot be abandoned: the pull is told"),
        (abandoned(2), "pull 2 cannot be abandoned: the pull is abandoned"),
        (Change::SetAside { arm: 1, reason: String::new(), at: 1 }, "arm 1 is set aside already"),
        (
            Change::Lifecycle { what: "started".into(), note: String::new(), at: u64::MAX },
            "is too large for the database",
        ),
    ];
    for (change, message) in cases {
        let problem = store.commit(&[asked(7, 0), change.clone()]).unwrap_err().to_string();
        assert!(problem.contains(message), "{change:?}: {problem}");
        assert!(problem.starts_with(&folder.path().display().to_string()), "{problem}");
        assert_eq!(store.history().unwrap(), before, "{change:?}");
    }
    store.commit(&[asked(7, 0)]).unwrap();
    assert_eq!(store.history().unwrap().events.len(), before.events.len() + 1);
}

#[test]
fn anyone_can_query_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path(), DESCRIPTION).unwrap();
    let payload = every_change(&mut store);
    drop(store);
    let database = Connection::open(folder.path().join("run.db")).unwrap();
    let lines = |sql: &str| -> Vec<String> {
        let mut statement = database.prepare(sql).unwrap();
        let columns = statement.column_count();
        let text = |value: rusqlite::types::Value| match value {
            rusqlite::types::Value::Null => "NULL".to_owned(),
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Real(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            rusqlite::types::Value::Blob(bytes) => format!("{bytes:?}"),
        };
        let line = |row: &rusqlite::Row<'_>| {
            Ok((0..columns).map(|at| text(row.get(at).unwrap())).collect::<Vec<_>>().join(" "))
        };
        statement.query_map([], line).unwrap().map(Result::unwrap).collect()
    };
    // pulls, told, abandoned, attempts, failures, samples, rejected, confirmed, in doubt
    assert_eq!(lines("SELECT * FROM cost_per_arm"), ["0 left 3 0 1 3 2 0 0 0.0625 1", "1 right 3 1 0 3 1 5 1 0.625 0"]);
    // Three samples share 0.125 + 0.25.
    let file = format!("payloads/{}/{}.txt", &payload.sha256[..2], payload.sha256);
    assert_eq!(
        lines("SELECT pull, ordinal, name, prompt, seed, file, told, rejected, cost FROM samples_with_cost"),
        [
            format!("1 0 right 11 1001 {file} 1 NULL 0.125"),
            format!("1 1 right 11 1001 {file} 0 it cannot be decoded 0.125"),
            "1 2 right 11 1001 NULL 1 NULL 0.125".to_owned(),
            "3 0 right 13 1003 NULL 0 NULL 0.125".to_owned(),
            "3 1 right 13 1003 NULL 0 NULL 0.125".to_owned(),
        ]
    );
    // 1 and 2.1 as little-endian floats.
    assert_eq!(lines("SELECT hex(features) FROM samples WHERE pull = 1 AND ordinal = 2"), ["0000803F66660640"]);
    let loose = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND NOT strict \
                 AND name NOT LIKE 'sqlite_%'";
    assert_eq!(lines(loose), Vec::<String>::new(), "tables that are not strict");
    assert_eq!(lines("PRAGMA journal_mode"), ["wal"]);
    drop(database);
    // The header of the file, as https://sqlite.org/fileformat2.html documents it: user version at 60, application id at 68.
    let header = std::fs::read(folder.path().join("run.db")).unwrap();
    assert_eq!((&header[60..64], &header[68..72]), (&[0, 0, 0, 1][..], &b"mmlv"[..]));
}

#[test]
fn a_folder_holds_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/run");
    let message = |result: modelmix_live::Result<Store>| result.map(drop).unwrap_err().to_string();
    assert!(message(Store::open(&path)).contains("has no run (no file run.db)"));
    assert!(message(Store::create(&path, "[1]")).contains("the description is [1]; write a JSON object"));
    assert!(message(Store::create(&path, "{")).contains("the description is not valid JSON"));
    assert!(!path.exists());
    let mut store = Store::create(&path, DESCRIPTION).unwrap();
    store.commit(&[asked(0, 0)]).unwrap();
    assert!(
        message(Store::create(&path, DESCRIPTION)).contains("has a run already; continue it with `modelmix resume`")
    );
    drop(store);
    assert!(message(Store::create(&path, DESCRIPTION)).contains("has a run already"));
    // A run whose database was deleted is not silently begun again.
    std::fs::remove_file(path.join("run.db")).unwrap();
    let problem = message(Store::create(&path, DESCRIPTION));
    assert!(problem.contains("run.db is missing, but run.lock says that 1 transactions were committed"), "{problem}");
}

#[test]
fn paths_may_have_any_characters() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a run?mode=rw#50%");
    let mut store = Store::create(&path, DESCRIPTION).unwrap();
    store.commit(&[asked(0, 0)]).unwrap();
    assert_eq!(Reader::open(&path).unwrap().commits().unwrap(), 1);
    let killed = folder.path().join("a copy#");
    std::fs::create_dir(&killed).unwrap();
    copy(&path, &killed);
    drop(store);
    assert_eq!(Reader::open(&path).unwrap().commits().unwrap(), 1);
    assert_eq!(Reader::open(&killed).unwrap().commits().unwrap(), 1);
}
