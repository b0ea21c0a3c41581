//! Torn logs, lost transactions, damaged payloads and databases of a later version: each is named, and nothing is made worse.

use modelmix_live::store::{Reader, Severity, Store};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{DESCRIPTION, asked, audit_only, copy, ended_run, files, folder_in_memory, only_finding, whole_pull};

/// What a kill leaves of a run, and the length of the write-ahead log after each of its commits.
fn killed_run() -> (TempDir, Vec<u64>) {
    let (run, killed) = (folder_in_memory(), folder_in_memory());
    let mut store = Store::create(run.path(), DESCRIPTION).unwrap();
    (0..2).for_each(|pull| whole_pull(&mut store, pull));
    let mut ends = Vec::new();
    for pull in 2..6 {
        store.commit(&[asked(pull, 0)]).unwrap();
        ends.push(std::fs::metadata(run.path().join("run.db-wal")).unwrap().len());
    }
    copy(run.path(), killed.path());
    (killed, ends)
}

#[test]
fn a_killed_run_is_read_and_continued() {
    let (killed, _) = killed_run();
    for index in [true, false] {
        if !index {
            std::fs::remove_file(killed.path().join("run.db-shm")).unwrap();
        }
        let found = audit_only(killed.path());
        assert!(found.findings.is_empty(), "{found:?}");
        let before = files(killed.path());
        let history = Reader::open(killed.path()).unwrap().history().unwrap();
        assert_eq!((history.commits, history.pulls.len()), (12, 6));
        assert_eq!(files(killed.path()), before);
    }
    let mut store = Store::open(killed.path()).unwrap();
    store.commit(&[asked(6, 0)]).unwrap();
    drop(store);
    assert_eq!(Reader::open(killed.path()).unwrap().commits().unwrap(), 13);
}

#[test]
fn a_torn_log_is_named_at_every_length() {
    let (killed, ends) = killed_run();
    let log = killed.path().join("run.db-wal");
    let bytes = std::fs::read(&log).unwrap();
    assert_eq!(bytes.len() as u64, ends[3]);
    // Around the ends of transactions and headers of frames, and within pages. `wal` has a test of every length.
    let is_border = |length: u64| ends.iter().any(|end| matches!(end.abs_diff(length), 0..=1 | 23..=25));
    let lengths = (ends[1] - 30..ends[3]).filter(|length| is_border(*length) || length % 1024 == 0);
    let mut cuts = 0;
    for length in lengths {
        std::fs::write(&log, &bytes[..length as usize]).unwrap();
        let whole = ends.iter().filter(|&&end| end <= length).count();
        let missing = 4 - whole;
        let found = audit_only(killed.path());
        let [rest @ .., last] = found.findings.as_slice() else { panic!("{length}: nothing was found") };
        let plural = if missing == 1 { "transaction that was" } else { "transactions that were" };
        let lacks = format!("run.db lacks {missing} {plural} committed (run.lock counts 12, run.db {})", 12 - missing);
        assert!(last.message.starts_with(&lacks), "{length}: {found:?}");
        let is_whole = ends.contains(&length);
        assert_eq!(
            rest.iter().map(|note| note.severity).collect::<Vec<_>>(),
            [Severity::Note; 1][usize::from(is_whole)..]
        );
        assert!(rest.iter().all(|note| note.message.starts_with("run.db-wal ends with an unfinished transaction")));
        assert_eq!(Reader::open(killed.path()).unwrap().commits().unwrap(), 12 - missing as u64);
        cuts += 1;
    }
    assert!(cuts > 40, "{cuts}");

    // Continuing is refused as long as the lock remembers, and changes nothing but the process in it.
    let mut before = files(killed.path());
    let problem = Store::open(killed.path()).map(drop).unwrap_err().to_string();
    assert!(problem.contains("run.db lacks 1 transaction") && problem.ends_with("delete run.lock"), "{problem}");
    let mut after = files(killed.path());
    for files in [&mut before, &mut after] {
        files.remove(&killed.path().join("run.lock"));
    }
    assert_eq!(after, before);
    let problem = Store::open(killed.path()).map(drop).unwrap_err().to_string();
    assert!(problem.contains("run.lock counts 12"), "refused again: {problem}");
    std::fs::remove_file(killed.path().join("run.lock")).unwrap();
    assert_eq!(Store::open(killed.path()).unwrap().commits(), 11);
}

#[test]
fn a_damaged_log_is_named() {
    let (killed, ends) = killed_run();
    let log = killed.path().join("run.db-wal");
    let bytes = std::fs::read(&log).unwrap();
    let message = |at: u64| {
        let mut bytes = bytes.clone();
        bytes[at as usize] ^= 1;
        std::fs::write(&log, &bytes).unwrap();
        let found = audit_only(killed.path());
        let read = Reader::open(killed.path()).map(|reader| reader.commits().unwrap());
        (found.findings.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>(), read)
    };
    let frame = (ends[1] - 32) / 4120 + 1;
    let (messages, commits) = message(ends[1] + 100);
    let damaged =
        format!("run.db-wal is damaged: frame {frame} does not match its checksum, so that 2 of its transactions");
    assert!(messages[0].starts_with(&damaged), "{messages:?}");
    assert!(messages[1].starts_with("run.db lacks 2 transactions"), "{messages:?}");
    assert_eq!(commits.unwrap(), 10);
    // The whole log is lost: nothing of the run after its creation is in run.db.
    let (messages, commits) = message(17);
    assert!(messages[0].starts_with("run.db-wal is damaged: its header does not match"), "{messages:?}");
    assert!(messages[1].starts_with("run.db lacks 12 transactions"), "{messages:?}");
    assert_eq!(commits.unwrap(), 0);
}

#[test]
fn a_deleted_log_is_noticed() {
    let (killed, _) = killed_run();
    std::fs::remove_file(killed.path().join("run.db-wal")).unwrap();
    assert!(only_finding(killed.path()).starts_with("run.db lacks 12 transactions"));
}

#[test]
fn damaged_payloads_are_named() {
    let folder = ended_run();
    let history = Reader::open(folder.path()).unwrap().history().unwrap();
    let payloads = Reader::open(folder.path()).unwrap().payloads();
    let payload = history.pulls[1].samples[0].payload.as_ref().unwrap();
    let name = format!("payloads/{}/{}.txt, of pull 1", &payload.sha256[..2], payload.sha256);
    let path = payloads.path(payload);
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[3] ^= 4;
    std::fs::write(&path, &flipped).unwrap();
    let expected =
        format!("{name}: the content does not match the SHA-256 in its name; restore the file from a backup");
    assert_eq!(only_finding(folder.path()), expected);
    std::fs::write(&path, &whole[..4]).unwrap();
    assert!(only_finding(folder.path()).contains("in its name and has 4 bytes instead of 10;"));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(only_finding(folder.path()), format!("{name}, is missing; restore it from a backup"));
    std::fs::remove_dir_all(folder.path().join("payloads")).unwrap();
    assert_eq!(audit_only(folder.path()).findings.len(), 6);
}

#[test]
fn files_that_no_row_names_are_counted() {
    let folder = ended_run();
    Store::open(folder.path()).unwrap().payloads().write(b"written before a crash", "txt").unwrap();
    std::fs::write(folder.path().join("payloads/incoming/9-9"), b"half").unwrap();
    let found = audit_only(folder.path());
    assert!(found.findings.is_empty(), "{found:?}");
    assert_eq!((found.payloads, found.unreferenced_payloads, found.unfinished_payloads), (6, 1, 1));
}

#[test]
fn a_later_version_is_refused_and_left_untouched() {
    let (killed, _) = killed_run();
    let ended = ended_run();
    for (run, pragma, message) in [
        (
            &ended,
            "user_version = 2",
            "run.db has version 2, but modelmix 0.2.0 reads version 1; update modelmix to open it",
        ),
        // In the write-ahead log only.
        (
            &killed,
            "user_version = 3",
            "run.db has version 3, but modelmix 0.2.0 reads version 1; update modelmix to open it",
        ),
        (&ended, "application_id = 7", "run.db has the application id 7, so it is no database of modelmix"),
    ] {
        let message = message.replace("0.2.0", env!("CARGO_PKG_VERSION"));
        let copied = folder_in_memory();
        let database = Connection::open(run.path().join("run.db")).unwrap();
        database.execute_batch(&format!("PRAGMA {pragma}")).unwrap();
        copy(run.path(), copied.path());
        drop(database);
        let folder = copied.path();
        assert!(only_finding(folder).ends_with(&message));
        let before = files(folder);
        for problem in [Store::open(folder).map(drop), Reader::open(folder).map(drop)] {
            let problem = problem.unwrap_err().to_string();
            assert!(problem.ends_with(&message), "{problem}");
        }
        assert_eq!(files(folder), before);
    }
}

#[test]
fn a_database_of_yesterday_is_noticed() {
    let folder = ended_run();
    let yesterday = std::fs::read(folder.path().join("run.db")).unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    store.commit(&[asked(3, 0)]).unwrap();
    store.commit(&[asked(4, 0)]).unwrap();
    drop(store);
    std::fs::write(folder.path().join("run.db"), yesterday).unwrap();
    let message = only_finding(folder.path());
    let expected = "run.db lacks 2 transactions that were committed (run.lock counts 14, run.db 12); restore run.db and \
                    run.db-wal from a backup";
    assert_eq!(message, expected);
}
