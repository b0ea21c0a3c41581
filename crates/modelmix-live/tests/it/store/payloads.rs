//! Files of samples: named by their content, written once, and verified when they are read.

use std::os::unix::fs::MetadataExt;

use modelmix_live::store::change::PayloadRef;
use modelmix_live::store::{Reader, Store};

use super::DESCRIPTION;

/// The SHA-256 of "abc", from FIPS 180-2.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path(), DESCRIPTION).unwrap();
    (folder, store)
}

#[test]
fn a_payload_is_named_by_its_content() {
    let (folder, store) = store();
    let payloads = store.payloads();
    let written = payloads.write(b"abc", "txt").unwrap();
    assert_eq!(written, PayloadRef { sha256: ABC.into(), extension: "txt".into(), bytes: 3 });
    let path = folder.path().join(format!("payloads/ba/{ABC}.txt"));
    assert_eq!((payloads.path(&written), std::fs::read(&path).unwrap()), (path, b"abc".to_vec()));
    assert_eq!(payloads.read(&written).unwrap(), b"abc");
    let bare = payloads.write(b"abc", "").unwrap();
    assert_eq!(payloads.path(&bare), folder.path().join(format!("payloads/ba/{ABC}")));
    let empty = payloads.write(b"", "bin").unwrap();
    assert_eq!(Reader::open(folder.path()).unwrap().payloads().read(&empty).unwrap(), b"");
}

#[test]
fn equal_content_is_written_once() {
    let (_folder, store) = store();
    let payloads = store.payloads();
    let written = payloads.write(b"abc", "txt").unwrap();
    let path = payloads.path(&written);
    let file = || std::fs::metadata(&path).unwrap().ino();
    let first = file();
    payloads.write(b"abc", "txt").unwrap();
    assert_eq!(file(), first);
    // A file with another length is not trusted.
    std::fs::write(&path, b"ab").unwrap();
    payloads.write(b"abc", "txt").unwrap();
    assert_ne!(file(), first);
    assert_eq!(payloads.read(&written).unwrap(), b"abc");
}

#[test]
fn threads_write_the_same_content() {
    let (folder, store) = store();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let payloads = store.payloads();
            scope.spawn(move || {
                for number in 0..10 {
                    let written = payloads.write(format!("text {number}").as_bytes(), "txt").unwrap();
                    assert_eq!(payloads.read(&written).unwrap(), format!("text {number}").as_bytes());
                }
            });
        }
    });
    let files = super::files(&folder.path().join("payloads"));
    assert_eq!(files.keys().filter(|path| path.is_file()).count(), 10);
}

#[test]
fn a_wrong_payload_is_not_returned() {
    let (_folder, store) = store();
    let payloads = store.payloads();
    let written = payloads.write(b"abc", "txt").unwrap();
    std::fs::write(payloads.path(&written), b"abd").unwrap();
    let problem = payloads.read(&written).unwrap_err().to_string();
    assert!(problem.contains(ABC) && problem.contains("does not match the SHA-256 in its name"), "{problem}");
    std::fs::remove_file(payloads.path(&written)).unwrap();
    let problem = payloads.read(&written).unwrap_err().to_string();
    assert!(problem.contains(ABC) && problem.contains("No such file"), "{problem}");
    for extension in ["PNG", "../x", "a.b", "averylongextension"] {
        let problem = payloads.write(b"abc", extension).unwrap_err().to_string();
        assert!(problem.contains("is no extension; use at most 16 lower-case letters and digits"), "{problem}");
    }
}

#[test]
fn what_a_crash_has_left_is_removed() {
    let (folder, store) = store();
    let written = store.payloads().write(b"abc", "txt").unwrap();
    drop(store);
    let incoming = folder.path().join("payloads/incoming/77-0");
    std::fs::write(&incoming, b"ab").unwrap();
    Reader::open(folder.path()).unwrap();
    assert!(incoming.exists(), "a reader removes nothing");
    let store = Store::open(folder.path()).unwrap();
    assert!(!incoming.exists());
    assert_eq!(store.payloads().read(&written).unwrap(), b"abc");
}

#[test]
fn free_space_is_that_of_df() {
    let (folder, store) = store();
    let output = std::process::Command::new("df").arg("-Pk").arg(folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let kilobytes: f64 = text.lines().nth(1).unwrap().split_whitespace().nth(3).unwrap().parse().unwrap();
    let free = store.payloads().free_space().unwrap() as f64 / 1024.0;
    // Other processes write to the same disk.
    assert!((free / kilobytes - 1.0).abs() < 0.2, "{free} {kilobytes}");
}
