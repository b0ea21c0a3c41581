//! A process that kills itself at every numbered crash point: what it said was committed is committed.

use std::path::Path;
use std::process::{Command, Output};

use modelmix_live::store::history::{History, PullState};
use modelmix_live::store::{Reader, Store};

use super::{DESCRIPTION, asked, audit_only, folder_in_memory, received, sent, told};

/// The folder of the run that the child works on.
const FOLDER: &str = "MODELMIX_LIVE_STORE_CHILD";

/// The number of pulls in the child's run.
const PULLS: u64 = 2;

/// Continues the run in a folder to its end, and calls `committed` after each commit.
fn work(folder: &Path, committed: impl Fn(u64)) {
    let mut store = match Store::create(folder, DESCRIPTION) {
        Ok(store) => store,
        Err(_) => Store::open(folder).unwrap(),
    };
    committed(store.commits());
    while let Some((pull, state)) = next(&store.history().unwrap()) {
        let change = match state {
            None => asked(pull, 0),
            Some(PullState::Asked) => sent(pull, 1),
            Some(PullState::Sent) => {
                let payload = |text: String| Some(store.payloads().write(text.as_bytes(), "txt").unwrap());
                // The second content is the same for both pulls.
                received(pull, 1, vec![payload(format!("of pull {pull}")), payload("a refusal".into())])
            }
            Some(_) => told(pull, &[1, 0]),
        };
        store.commit(&[change]).unwrap();
        committed(store.commits());
    }
}

/// The first pull that is not told, and its state.
fn next(history: &History) -> Option<(u64, Option<PullState>)> {
    let state = |pull: u64| history.pulls.get(pull as usize).map(|pull| pull.state);
    (0..PULLS).map(|pull| (pull, state(pull))).find(|(_, state)| *state != Some(PullState::Told))
}

/// Not a test by itself: it works if a folder is named.
#[test]
fn child() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        work(folder.as_ref(), |commits| println!("\ncommitted {commits}"));
        println!("\ndone");
    }
}

#[cfg(debug_assertions)]
fn run_child(folder: &Path, crash_at: u64) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::crash::child", "--nocapture"])
        .env(FOLDER, folder)
        .env("MODELMIX_LIVE_CRASH_AT", crash_at.to_string())
        .output()
        .unwrap()
}

/// What a child left that killed itself at a crash point; `None` if it came to its end. The numbers count payloads that no row
/// names.
#[cfg(debug_assertions)]
fn crash(crash_at: u64, whole: &History) -> Option<u64> {
    let folder = folder_in_memory();
    let path = folder.path();
    let output = run_child(path, crash_at);
    let text = String::from_utf8(output.stdout).unwrap();
    if output.status.success() {
        assert!(text.contains("\ndone"), "{text}");
        return None;
    }
    let last = text.lines().rev().find_map(|line| line.strip_prefix("committed "));
    let said: Option<u64> = last.map(|number| number.parse().unwrap());
    let mut leftovers = 0;
    if path.join("run.db").exists() {
        let found = audit_only(path);
        assert!(found.is_sound(), "crash point {crash_at}: {found:?}");
        leftovers = found.unreferenced_payloads + found.unfinished_payloads;
        let history = Reader::open(path).unwrap().history().unwrap();
        let range = said.unwrap_or(0)..=said.map_or(0, |said| said + 1);
        assert!(range.contains(&history.commits), "crash point {crash_at}: {} is not in {range:?}", history.commits);
        let payloads = Reader::open(path).unwrap().payloads();
        for sample in history.pulls.iter().flat_map(|pull| &pull.samples) {
            payloads.read(sample.payload.as_ref().unwrap()).unwrap();
        }
    } else {
        assert_eq!(said, None, "crash point {crash_at}: the database is missing");
    }
    work(path, |_| ());
    let history = Reader::open(path).unwrap().history().unwrap();
    assert_eq!((&history.events, &history.pulls), (&whole.events, &whole.pulls), "crash point {crash_at}");
    let names: Vec<_> = std::fs::read_dir(path.join("payloads/incoming")).unwrap().collect();
    assert!(names.is_empty(), "crash point {crash_at}: {names:?}");
    assert!(!path.join("run.db.new").exists(), "crash point {crash_at}");
    Some(leftovers)
}

#[cfg(debug_assertions)]
#[test]
fn no_crash_loses_what_was_committed() {
    let folder = folder_in_memory();
    work(folder.path(), |_| ());
    let whole = Reader::open(folder.path()).unwrap().history().unwrap();
    let leftovers: Vec<u64> = (1..).map_while(|crash_at| crash(crash_at, &whole)).collect();
    // The creation has 12; each of 8 commits 2; each of 3 new payloads 8, and 2 for its folder; a payload that exists 2.
    assert_eq!(leftovers.len(), 12 + 8 * 2 + 3 * 10 + 2);
    let left = leftovers.iter().filter(|&&left| left > 0).count();
    assert!(left > 10, "only {left} crashes left a payload");
}
