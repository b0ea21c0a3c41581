//! SHA-256 of files, and the records of it next to downloads: trust on first use, if no digest is published.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// The length of a digest in hexadecimal digits.
const DIGITS: usize = 64;

/// The SHA-256 of a file, in lower-case hexadecimal digits.
///
/// # Errors
/// If the file cannot be read.
pub fn sha256(path: &Path) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    add_file(&mut hasher, path)?;
    let mut digits = String::with_capacity(DIGITS);
    for byte in hasher.finalize() {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(digits)
}

/// Adds the content of a file to a digest.
pub(crate) fn add_file(hasher: &mut Sha256, path: &Path) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// Computes the SHA-256 of a file and compares it with its record, if there is one.
///
/// # Errors
/// If the file cannot be read, or is not the one that was recorded.
pub fn verify(path: &Path) -> Result<String, Problem> {
    let found = sha256(path).map_err(|error| Problem::new(format!("{} cannot be read ({error})", path.display())))?;
    match recorded(path) {
        Some(expected) if expected != found => Err(Problem::new(format!(
            "{} has changed: its SHA-256 is {found}, but {expected} was recorded in {}; remove both files and get the weights again",
            path.display(),
            record_path(path).display()
        ))),
        _ => Ok(found),
    }
}

/// The digest recorded for a file.
pub(super) fn recorded(path: &Path) -> Option<String> {
    let record = std::fs::read_to_string(record_path(path)).ok()?;
    digits(record.split_whitespace().next()?)
}

/// The record's text, in the format of `sha256sum`.
pub(super) fn record(path: &Path, digest: &str) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{digest}  {name}\n")
}

/// The file with the digest of another one.
pub(super) fn record_path(path: &Path) -> PathBuf {
    super::download::beside(path, "sha256")
}

/// A text that is a SHA-256, in lower case.
pub(super) fn digits(text: &str) -> Option<String> {
    let is_one = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| text.to_ascii_lowercase())
}
