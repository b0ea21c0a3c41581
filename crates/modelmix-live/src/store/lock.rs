//! `run.lock`: the lock of the process that executes a run, its id, and how many transactions it has committed, so that a
//! database that has lost some is recognised.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::errors::{in_file, in_folder};
use crate::problem::Result;

/// The name of the file.
const NAME: &str = "run.lock";

/// How often the lock is tried, and how long after a failure: [`running_process`] holds it for microseconds.
const TRIES: usize = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// The exclusive lock of a run, released if it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
    previous: Content,
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// A sentence that names the process that has it; a folder that cannot be written.
    pub(super) fn acquire(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(|source| {
                in_folder(folder, format!("run.lock cannot be written ({source}); make the folder writable"))
            })?;
        let mut tries = 1;
        while let Err(error) = file.try_lock() {
            match error {
                TryLockError::Error(source) => return Err(in_file(&path, source)),
                TryLockError::WouldBlock if tries < TRIES => std::thread::sleep(BETWEEN_TRIES),
                TryLockError::WouldBlock => {
                    let name =
                        Content::read(&mut file).process.map_or("another process".into(), |id| format!("process {id}"));
                    return Err(in_folder(folder, format!("is in use by {name}; wait until it ends, or end it")));
                }
            }
            tries += 1;
        }
        let previous = Content::read(&mut file);
        let mut lock = Self { file, path, previous };
        // The id of this process; too few transactions are harmless.
        lock.record(previous.commits.unwrap_or(0))?;
        Ok(lock)
    }

    /// The number of transactions that the processes before this one have committed; `None` if unknown.
    pub(super) fn previous_commits(&self) -> Option<u64> {
        self.previous.commits
    }

    /// Records the number of committed transactions. It is not flushed: after a power failure it may be too small.
    pub(super) fn record(&mut self, commits: u64) -> Result<()> {
        // The length never changes, so that one write replaces the whole.
        let text = format!("process {:>10}\ncommits {commits:>20}\n", std::process::id());
        self.file.write_all_at(text.as_bytes(), 0).map_err(|source| in_file(&self.path, source))
    }
}

/// What `run.lock` says.
#[derive(Clone, Copy, Debug, Default)]
struct Content {
    process: Option<u32>,
    commits: Option<u64>,
}

impl Content {
    fn read(file: &mut File) -> Self {
        let mut text = String::new();
        if file.read_to_string(&mut text).is_err() {
            return Self::default();
        }
        let value = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Self {
            process: value("process ").and_then(|text| text.parse().ok()),
            commits: value("commits ").and_then(|text| text.parse().ok()),
        }
    }
}

/// The number of transactions that were committed according to `run.lock`; `None` if it does not say.
pub(super) fn recorded_commits(folder: &Path) -> Option<u64> {
    Content::read(&mut File::open(folder.join(NAME)).ok()?).commits
}

/// The sentence about a database that lacks transactions; `None` if it lacks none.
pub(super) fn describe_missing(found: u64, committed: u64) -> Option<String> {
    let missing = committed.checked_sub(found).filter(|&missing| missing > 0)?;
    let (transactions, were) = if missing == 1 { ("transaction", "was") } else { ("transactions", "were") };
    Some(format!(
        "run.db lacks {missing} {transactions} that {were} committed (run.lock counts {committed}, run.db {found}); restore \
         run.db and run.db-wal from a backup"
    ))
}

/// The id of the process that executes the run in a folder; `None` if there is none.
pub fn running_process(folder: &Path) -> Option<u32> {
    let mut file = File::open(folder.join(NAME)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Content::read(&mut file).process,
        _ => None,
    }
}
