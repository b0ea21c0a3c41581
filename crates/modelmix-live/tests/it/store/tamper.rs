//! Rows that were changed or removed by hand are named.

use modelmix_live::store::{Reader, Store};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{audit_only, ended_run, only_finding};

/// A run whose database was changed with SQL, without constraints.
fn tampered(sql: &str) -> TempDir {
    let folder = ended_run();
    let database = Connection::open(folder.path().join("run.db")).unwrap();
    database.execute_batch("PRAGMA foreign_keys = off").unwrap();
    assert!(database.execute(sql, []).unwrap() > 0, "{sql}");
    folder
}

#[test]
fn a_changed_row_is_named() {
    // The events of three pulls: asked 1, told 2, asked 3, told 4, asked 5, told 6.
    let told = "the chain of events is broken at seq 4: its row in table events, or a row of pull 1 in table samples, was changed";
    let asked = "the chain of events is broken at seq 3: its row in table events, or row 1 of table pulls, was changed";
    let cases = [
        ("UPDATE events SET body = '{\"bandwidth\":2.0}' WHERE seq = 4", told),
        ("UPDATE events SET at = at + 1 WHERE seq = 4", told),
        ("UPDATE events SET checksum = zeroblob(32) WHERE seq = 4", told),
        ("UPDATE samples SET features = x'0000803F0000803F' WHERE pull = 1 AND ordinal = 0", told),
        ("UPDATE samples SET scores = '{\"valid\":1.0}' WHERE pull = 1 AND ordinal = 0", told),
        ("UPDATE samples SET position = 1 - position WHERE pull = 1", told),
        ("UPDATE pulls SET seed = 7 WHERE pull = 1", asked),
        ("UPDATE pulls SET prompt = NULL WHERE pull = 1", asked),
        ("UPDATE pulls SET arm = 0 WHERE pull = 1", asked),
        (
            "DELETE FROM events WHERE seq = 4",
            "the chain of events is broken at seq 4: the row is missing (table events)",
        ),
        ("DELETE FROM events WHERE seq >= 5", "the chain of events is broken at seq 5: the rows up to 6 are missing"),
        ("UPDATE progress SET events = 5", "table progress names event 5 as the last, but event 6 is there"),
        ("UPDATE run SET description = '{}'", "the description of the run was changed (table run)"),
    ];
    for (sql, message) in cases {
        let folder = tampered(sql);
        let findings = audit_only(folder.path()).findings;
        let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
        assert!(messages[0].starts_with("run.db: ") && messages[0].contains(message), "{sql}: {messages:?}");
        // A changed checksum also breaks the row after it.
        assert!(messages.len() == 1 || sql.contains("checksum"), "{sql}: {messages:?}");
        for problem in [
            Reader::open(folder.path()).unwrap().history().unwrap_err().to_string(),
            Store::open(folder.path()).unwrap().history().unwrap_err().to_string(),
        ] {
            assert!(problem.contains(message) && problem.ends_with("restore run.db from a backup"), "{sql}: {problem}");
        }
    }
}

#[test]
fn rows_without_their_pull_are_named() {
    let folder = tampered("DELETE FROM pulls WHERE pull = 2");
    let found = audit_only(folder.path());
    let messages: Vec<&str> = found.findings.iter().map(|finding| finding.message.as_str()).collect();
    let all = messages.join("\n");
    assert!(all.contains("of table attempts names a row of table pulls that is missing"), "{all}");
    assert!(all.contains("run.db: attempt 1 names pull 2, which is missing"), "{all}");
    assert!(all.contains("broken at seq 5") && all.contains("event 6 cannot be read: its pull is missing"), "{all}");
}

#[test]
fn an_event_of_a_later_release_is_named() {
    let folder = tampered("UPDATE events SET body = '{\"merged\":{}}' WHERE seq = 5");
    let found = audit_only(folder.path());
    let text = format!("{:?}", found.findings);
    assert!(text.contains("event 5 cannot be read: unknown variant `merged`"), "{text}");
}

#[test]
fn an_untouched_run_is_sound() {
    let folder = ended_run();
    let found = audit_only(folder.path());
    assert!(found.is_sound() && found.findings.is_empty(), "{found:?}");
    assert_eq!((found.payloads, found.unreferenced_payloads, found.unfinished_payloads), (6, 0, 0));
}

#[test]
fn damaged_pages_are_found() {
    let folder = ended_run();
    let path = folder.path().join("run.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // The tables hold less than a page each, so that zeros from the second page on hit one.
    let page = 4096;
    assert!(bytes.len() > 4 * page);
    bytes[page + 8..2 * page].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let found = audit_only(folder.path());
    assert!(!found.is_sound(), "{found:?}");
    std::fs::write(&path, b"no database").unwrap();
    assert!(only_finding(folder.path()).contains("run.db: file is not a database"));
    std::fs::remove_file(&path).unwrap();
    assert!(only_finding(folder.path()).contains("has no run (no file run.db)"));
}
