//! Several processes on one run: one executes it, the others read.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use modelmix_live::store::change::Change;
use modelmix_live::store::{Reader, Store, audit, running_process};

use super::{DESCRIPTION, asked, audit_only, ended_run, files, whole_pull};

/// The folder that the child opens.
const FOLDER: &str = "MODELMIX_LIVE_OPENED_BY_CHILD";

/// Not a test by itself: it opens a folder, if one is named, and prints what happens.
#[test]
fn child() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let folder: &Path = folder.as_ref();
        let say = |what: &str, result: modelmix_live::Result<u64>| match result {
            Ok(commits) => println!("\n{what}: {commits} commits"),
            Err(problem) => println!("\n{what}: {problem}"),
        };
        say("open", Store::open(folder).map(|store| store.commits()));
        say("read", Reader::open(folder).and_then(|reader| reader.commits()));
        println!("\naudit: {:?}", audit::audit(folder).findings);
        println!("\nrunning: {:?}", running_process(folder));
    }
}

fn child_says(command: &mut Command, folder: &Path) -> String {
    let output =
        command.args(["--exact", "store::processes::child", "--nocapture"]).env(FOLDER, folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_second_process_is_refused_and_may_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path(), DESCRIPTION).unwrap();
    (0..3).for_each(|pull| whole_pull(&mut store, pull));
    let id = std::process::id();
    let name = folder.path().display();
    let refused = format!("open: {name}: is in use by process {id}; wait until it ends, or end it");
    let check = || {
        let text = child_says(&mut Command::new(std::env::current_exe().unwrap()), folder.path());
        assert!(text.contains(&refused), "{text}");
        assert!(text.contains("read: 12 commits") && text.contains("audit: []"), "{text}");
        assert!(text.contains(&format!("running: Some({id})")), "{text}");
    };
    check();
    // Only now: if this process closes a file of the database, the system drops the locks that SQLite has on it.
    let before = files(folder.path());
    check();
    assert_eq!(files(folder.path()), before);
    // The same within a process.
    assert!(Store::open(folder.path()).is_err());
    assert_eq!(running_process(folder.path()), Some(id));
    store.commit(&[asked(3, 0)]).unwrap();
    drop(store);
    assert_eq!(running_process(folder.path()), None);
    assert_eq!(Store::open(folder.path()).unwrap().commits(), 13);
}

#[test]
fn a_reader_sees_what_is_committed_and_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path(), DESCRIPTION).unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    for pull in 0..3 {
        whole_pull(&mut store, pull);
        assert_eq!(reader.commits().unwrap(), 4 * (pull + 1));
        assert_eq!(reader.history().unwrap(), store.history().unwrap());
        assert!(audit_only(folder.path()).findings.is_empty());
    }
    drop(store);
    // The last connection to close writes the log into the database and removes it: no reader is left.
    assert!(!folder.path().join("run.db-wal").exists());
    assert_eq!(reader.commits().unwrap(), 12);
    assert!(!folder.path().join("run.db-wal").exists() && !folder.path().join("run.db-shm").exists());
}

/// Ends the readers, also if the writer fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn readers_and_audits_run_beside_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut store = Store::create(path, DESCRIPTION).unwrap();
    let is_done = AtomicBool::new(false);
    let read = &|audits: bool| {
        let (mut reads, mut last) = (0, 0);
        while !is_done.load(Ordering::Relaxed) {
            let commits = Reader::open(path).unwrap().history().unwrap().commits;
            assert!(commits >= last);
            (reads, last) = (reads + 1, commits);
            if audits {
                let found = audit::audit(path);
                assert!(found.is_sound(), "{found:?}");
            }
        }
        reads
    };
    std::thread::scope(|scope| {
        let end = EndOnDrop(&is_done);
        let readers = [false, false, true].map(|audits| scope.spawn(move || read(audits)));
        let row = |note: String| [Change::Lifecycle { what: "resumed".into(), note, at: 1 }];
        // Long notes, so that the log is written into the database and begins again, which happens every 1,000 pages.
        (0..12).for_each(|_| store.commit(&row("long ".repeat(80_000))).unwrap());
        for _ in 0..30 {
            drop(store);
            store = Store::open(path).unwrap();
            // A reader of the same process may have opened the database first; the store can write all the same.
            store.commit(&row(String::new())).unwrap();
        }
        drop(end);
        readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() > 1));
    });
}

#[test]
fn a_read_only_folder_is_read() {
    let folder = ended_run();
    let path = folder.path();
    for entry in files(path).into_keys().chain([path.to_owned()]) {
        let mode = if entry.is_dir() { 0o555 } else { 0o444 };
        std::fs::set_permissions(&entry, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    // The superuser may write everywhere, so the child becomes another user, who needs a program that it may execute.
    let programs = tempfile::tempdir().unwrap();
    let program = programs.path().join("program");
    let is_superuser = std::fs::write(path.join("new"), "").is_ok();
    let mut command = Command::new(std::env::current_exe().unwrap());
    if is_superuser {
        std::fs::remove_file(path.join("new")).unwrap();
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        command = Command::new(&program);
        command.uid(65_534).gid(65_534).current_dir("/");
    }
    let before = files(path);
    let text = child_says(&mut command, path);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(files(path), before);
    assert!(text.contains("run.lock cannot be written (Permission denied"), "{text}");
    assert!(text.contains("read: 12 commits") && text.contains("audit: []"), "{text}");
}
