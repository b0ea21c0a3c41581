//! Files with samples, named by the SHA-256 of their content. A file has its final name only after all of its bytes are on disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::change::PayloadRef;
use super::crash::{self, CrashPoint};
use super::errors::{in_file, in_folder};
use crate::problem::Result;

/// The folder of the files, in the run's folder.
pub(super) const PAYLOADS: &str = "payloads";

/// The folder of files that are being written, in the folder of the files: a crash leaves some there.
pub(super) const INCOMING: &str = "incoming";

/// The longest extension. Others are probably no extensions.
const LONGEST_EXTENSION: usize = 16;

/// The files of a run. Clones are for threads that write at the same time.
#[derive(Clone, Debug)]
pub struct Payloads {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    /// Counts temporary files.
    written: AtomicU64,
    /// For each first byte of a checksum, whether its folder exists for good.
    folders: Mutex<[bool; 256]>,
}

impl Payloads {
    /// The files of the run in a folder.
    pub(super) fn of(run: &Path) -> Self {
        let folder = run.join(PAYLOADS);
        let folders = Mutex::new([false; 256]);
        Self { shared: Arc::new(Shared { folder, written: AtomicU64::new(0), folders }) }
    }

    /// Creates the folders and removes what a crash has left.
    pub(super) fn prepare(&self) -> Result<()> {
        let incoming = self.incoming();
        fs::create_dir_all(&incoming).map_err(|source| in_file(&incoming, source))?;
        for entry in fs::read_dir(&incoming).map_err(|source| in_file(&incoming, source))? {
            let path = entry.map_err(|source| in_file(&incoming, source))?.path();
            fs::remove_file(&path).map_err(|source| in_file(&path, source))?;
        }
        let folder = &self.shared.folder;
        let run = folder.parent().unwrap_or(folder);
        flush_folder(folder).and_then(|()| flush_folder(run)).map_err(|source| in_file(folder, source))
    }

    /// Writes a file, and returns when it is on disk. A file with the same content is not written again.
    ///
    /// # Errors
    /// A disk that is full or fails; an extension that is not of at most 16 lower-case letters and digits.
    pub fn write(&self, bytes: &[u8], extension: &str) -> Result<PayloadRef> {
        if extension.len() > LONGEST_EXTENSION
            || !extension.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'))
        {
            let problem = format!(
                "{extension:?} is no extension; use at most {LONGEST_EXTENSION} lower-case letters and digits, as in \"png\""
            );
            return Err(in_folder(&self.shared.folder, problem));
        }
        let digest = Sha256::digest(bytes);
        let reference =
            PayloadRef { sha256: hexadecimal(&digest), extension: extension.to_owned(), bytes: bytes.len() as u64 };
        let path = self.path(&reference);
        let folder = path.parent().expect("the path of a payload has a folder");
        self.make_folder(digest[0], folder).map_err(|source| in_file(folder, source))?;
        let exists = fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == reference.bytes);
        if !exists {
            let number = self.shared.written.fetch_add(1, Ordering::Relaxed);
            let temporary = self.incoming().join(format!("{}-{number}", std::process::id()));
            place(bytes, &temporary, &path).map_err(|source| {
                // It may not exist; what remains is removed when the run is opened again.
                let _ = fs::remove_file(&temporary);
                in_file(&path, source)
            })?;
        }
        // Also if the file exists: the thread that wrote it may not have come to this line.
        flush_folder(folder).map_err(|source| in_file(folder, source))?;
        Ok(reference)
    }

    /// Reads a file and compares its content with its name.
    ///
    /// # Errors
    /// A missing file; a file with another content.
    pub fn read(&self, reference: &PayloadRef) -> Result<Vec<u8>> {
        let path = self.path(reference);
        let bytes = fs::read(&path).map_err(|source| in_file(&path, source))?;
        if hexadecimal(&Sha256::digest(&bytes)) == reference.sha256 {
            return Ok(bytes);
        }
        Err(in_folder(&path, describe_change(bytes.len() as u64, reference.bytes)))
    }

    /// The path of a file.
    pub fn path(&self, reference: &PayloadRef) -> PathBuf {
        self.shared.folder.join(name(reference))
    }

    /// The bytes that are free for this user on the disk of the run.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn free_space(&self) -> Result<u64> {
        let folder = &self.shared.folder;
        let found = rustix::fs::statvfs(folder).map_err(|error| in_file(folder, error.into()))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn incoming(&self) -> PathBuf {
        self.shared.folder.join(INCOMING)
    }

    /// Creates the folder of the files whose checksum begins with a byte.
    fn make_folder(&self, first: u8, folder: &Path) -> io::Result<()> {
        let mut folders = self.shared.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let exists = &mut folders[usize::from(first)];
        if !*exists {
            match fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => flush_folder(&self.shared.folder)?,
            }
            *exists = true;
        }
        Ok(())
    }
}

/// The path of a file in the folder of payloads, with `/`.
pub(super) fn name(reference: &PayloadRef) -> String {
    let PayloadRef { sha256, extension, .. } = reference;
    let first = sha256.get(..2).unwrap_or_default();
    if extension.is_empty() { format!("{first}/{sha256}") } else { format!("{first}/{sha256}.{extension}") }
}

/// What is wrong with a file that does not have the content in its name.
pub(super) fn describe_change(found: u64, expected: u64) -> String {
    let how = if found == expected { String::new() } else { format!(" and has {found} bytes instead of {expected}") };
    format!("the content does not match the SHA-256 in its name{how}; restore the file from a backup")
}

/// Lower-case hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Writes a file under a temporary name and gives it its name when all bytes are on disk.
fn place(bytes: &[u8], temporary: &Path, path: &Path) -> io::Result<()> {
    crash::pass(CrashPoint::Write);
    let mut file = OpenOptions::new().write(true).create_new(true).open(temporary)?;
    file.write_all(bytes)?;
    crash::pass(CrashPoint::Write);
    crash::pass(CrashPoint::Flush);
    file.sync_all()?;
    crash::pass(CrashPoint::Flush);
    crash::pass(CrashPoint::Rename);
    fs::rename(temporary, path)?;
    crash::pass(CrashPoint::Rename);
    Ok(())
}

/// Flushes the names in a folder.
fn flush_folder(folder: &Path) -> io::Result<()> {
    crash::pass(CrashPoint::Flush);
    File::open(folder)?.sync_all()?;
    crash::pass(CrashPoint::Flush);
    Ok(())
}
