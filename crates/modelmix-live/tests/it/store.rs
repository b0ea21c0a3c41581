//! The store: real databases and files, and what is left of them after crashes and damage.

#![allow(clippy::unwrap_used)]

mod changes;
mod crash;
mod damage;
mod model;
mod payloads;
mod processes;
mod restore;
mod tamper;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use modelmix::session::Decisions;
use modelmix::{Event, policy::AnyPolicy};
use modelmix_live::arm::FailureKind;
use modelmix_live::store::change::{Change, EncodedSample, PayloadRef, ReceivedSample};
use modelmix_live::store::{Audit, Store, audit};
use serde_json::json;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const DESCRIPTION: &str = r#"{"arms":[{"name":"left"},{"name":"right"}],"objective":"rke"}"#;

fn event(value: serde_json::Value) -> Event<AnyPolicy> {
    serde_json::from_value(value).unwrap()
}

fn asked(pull: u64, arm: usize) -> Change {
    let event = event(json!({"asked": {"pull": pull, "arm": arm, "count": 2, "drawn": pull + 1}}));
    Change::Asked { event, prompt: Some(10 + pull), seed: 1000 + pull, at: 100 + pull }
}

fn sent(pull: u64, attempt: u32) -> Change {
    Change::Sent { pull, attempt, reserved: 0.5, at: 200 + pull }
}

fn failed(pull: u64, attempt: u32, cost: Option<f64>) -> Change {
    let message = "no answer within 30 s".to_owned();
    Change::Failed { pull, attempt, kind: FailureKind::Timeout, status: None, message, cost, at: 300 + pull }
}

/// The answer of an arm that gives features.
fn received(pull: u64, attempt: u32, payloads: Vec<Option<PayloadRef>>) -> Change {
    let sample = |payload: Option<PayloadRef>| {
        let features = payload.is_none().then(|| vec![pull as f32, 0.5]);
        ReceivedSample { payload, features }
    };
    Change::Received { pull, attempt, samples: payloads.into_iter().map(sample).collect(), cost: 0.25, at: 400 + pull }
}

fn encoded(pull: u64, ordinal: usize) -> EncodedSample {
    let scores = BTreeMap::from([("valid".to_owned(), ordinal as f64 / 3.0)]);
    EncodedSample { ordinal, features: vec![pull as f32, ordinal as f32 + 0.1], scores }
}

fn told(pull: u64, ordinals: &[usize]) -> Change {
    let samples = ordinals.iter().map(|&ordinal| encoded(pull, ordinal)).collect();
    Change::Told { pull, samples, decisions: Decisions::default(), at: 500 + pull }
}

fn abandoned(pull: u64) -> Change {
    Change::Abandoned { pull, reason: "the arm is set aside".into(), at: 600 + pull }
}

/// A pull from the question to the answer, with one payload per sample.
fn whole_pull(store: &mut Store, pull: u64) {
    let payload = |text: String| Some(store.payloads().write(text.as_bytes(), "txt").unwrap());
    let payloads = vec![payload(format!("first of {pull}")), payload(format!("second of {pull}"))];
    for change in [asked(pull, pull as usize % 2), sent(pull, 1), received(pull, 1, payloads), told(pull, &[0, 1])] {
        store.commit(&[change]).unwrap();
    }
}

/// A new folder, in memory if there is a place: flushing takes no time there, and a process leaves the same files when it ends.
fn folder_in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A run of three pulls that has ended.
fn ended_run() -> TempDir {
    let folder = folder_in_memory();
    let mut store = Store::create(folder.path(), DESCRIPTION).unwrap();
    (0..3).for_each(|pull| whole_pull(&mut store, pull));
    folder
}

/// All files below a folder with their SHA-256.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
            found.insert(path, Vec::new());
        } else {
            let digest = Sha256::digest(std::fs::read(&path).unwrap()).to_vec();
            found.insert(path, digest);
        }
    }
    found
}

/// A copy of a run's files: what a kill of the process would leave at this moment.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// The audit of a folder, which changes no file.
fn audit_only(folder: &Path) -> Audit {
    let before = files(folder);
    let found = audit::audit(folder);
    assert_eq!(files(folder), before, "the audit changed a file");
    found
}

/// The only finding of an audit.
fn only_finding(folder: &Path) -> String {
    let found = audit_only(folder);
    assert!(!found.is_sound(), "{found:?}");
    assert_eq!(found.findings.len(), 1, "{found:?}");
    found.findings[0].message.clone()
}
