//! Connections to the database: one that writes, and those that only read and leave every file as it is.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::chain::Head;
use super::errors::{in_database, in_folder};
use super::lock::running_process;
use super::{DATABASE, schema};
use crate::problem::Result;

/// How long a connection waits for another one, which never holds a lock for long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a read begins again because a process starts or ends at the same time.
const READS: usize = 5;

/// A connection to a database that does not exist yet.
pub(super) fn create(path: &Path) -> rusqlite::Result<Connection> {
    configure(Connection::open_with_flags(path, writing() | OpenFlags::SQLITE_OPEN_CREATE)?)
}

/// Held by reads, and exclusively while a connection that writes is opened: SQLite shares the index of the write-ahead log among
/// the connections of a process, and none could write if the first one only reads.
static OPENING: RwLock<()> = RwLock::new(());

/// The connection that writes, and what has been committed. It completes what a crash has left: SQLite ignores an unfinished
/// transaction.
pub(super) fn open_to_write(path: &Path) -> rusqlite::Result<(Connection, Head)> {
    let _alone = OPENING.write().unwrap_or_else(PoisonError::into_inner);
    let connection = configure(Connection::open_with_flags(path, writing())?)?;
    let head = Head::load(&connection)?;
    Ok((connection, head))
}

/// One thread at a time uses the connection, which needs no mutex of SQLite.
fn writing() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn configure(connection: Connection) -> rusqlite::Result<Connection> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

/// How to read a database without changing a file: it depends on what the last process has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// No write-ahead log: the database is complete, and no process has opened it.
    Complete,
    /// A write-ahead log and its index, of a process that runs. The index is only read.
    Shared,
    /// A write-ahead log that no process has opened. SQLite builds an index in memory: one that a killed process has left may be
    /// unfinished, and SQLite would wait for its writer.
    Alone,
}

impl Mode {
    fn of(database: &Path) -> Self {
        match Self::without_processes(database) {
            Self::Alone if database.parent().is_some_and(|folder| running_process(folder).is_some()) => Self::Shared,
            mode => mode,
        }
    }

    /// The mode if no process has opened the database.
    fn without_processes(database: &Path) -> Self {
        match std::fs::metadata(database.with_extension("db-wal")) {
            Ok(log) if log.len() > 0 => Self::Alone,
            _ => Self::Complete,
        }
    }

    fn connect(self, database: &Path) -> rusqlite::Result<Connection> {
        let parameters = match self {
            Self::Complete => "mode=ro&immutable=1",
            Self::Shared => "mode=ro&readonly_shm=1",
            // Locks are neither taken nor needed.
            Self::Alone => "mode=ro&vfs=unix-none",
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(uri(database, parameters), flags)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        if self == Self::Alone {
            connection.pragma_update_and_check(None, "locking_mode", "exclusive", |row| row.get::<_, String>(0))?;
        }
        Ok(connection)
    }
}

/// A path as an SQLite URI.
fn uri(path: &Path, parameters: &str) -> String {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri + "?" + parameters
}

/// Reads one consistent state of a run's database, also while another process writes it. No file changes.
///
/// # Errors
/// A folder without a run, or of a later version; an error of SQLite.
pub(super) fn read<T>(folder: &Path, query: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T> {
    read_as(Mode::of, folder, query)
}

/// The same for the process that holds the lock and has not opened the database yet.
///
/// # Errors
/// As [`read`].
pub(super) fn read_as_owner<T>(folder: &Path, query: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T> {
    read_as(Mode::without_processes, folder, query)
}

fn read_as<T>(
    mode_of: fn(&Path) -> Mode,
    folder: &Path,
    query: impl Fn(&Connection) -> rusqlite::Result<T>,
) -> Result<T> {
    let path = folder.join(DATABASE);
    let mut reads = 1;
    loop {
        if !path.exists() {
            return Err(in_folder(folder, "has no run (no file run.db); start one with `modelmix run`"));
        }
        let _reading = OPENING.read().unwrap_or_else(PoisonError::into_inner);
        let mode = mode_of(&path);
        let result = mode.connect(&path).and_then(|connection| {
            // A transaction, so that all queries see the same state.
            let transaction = connection.unchecked_transaction()?;
            match schema::check_version(&transaction)? {
                Some(problem) => Ok(Err(problem)),
                None => query(&transaction).map(Ok),
            }
        });
        // A process that has started may have changed pages that were read without a lock.
        if mode_of(&path) == mode || reads == READS {
            return match result {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(problem)) => Err(in_folder(folder, problem)),
                Err(source) => Err(in_database(&path, source)),
            };
        }
        reads += 1;
    }
}
