//! The store of a run: one SQLite database, and files with the samples beside it.
//!
//! A run's folder holds `run.db`, which anyone can query with `sqlite3`, `payloads/`, whose files are named by the SHA-256 of
//! their content, and `run.lock`. What a transaction says has happened is on disk before it is committed, and nothing leaves
//! the process before the intent to send it is committed.
//!
//! [`Store`] is the only writer of a run; a [`Reader`] and an [`audit`](audit::audit) change nothing.

pub mod audit;
mod chain;
pub mod change;
mod connect;
pub mod crash;
mod errors;
mod events;
pub mod history;
mod lock;
pub mod payloads;
mod reader;
mod schema;
mod wal;
mod write;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, TransactionBehavior};

use crate::problem::Result;
use chain::Head;
use change::Change;
use crash::CrashPoint;
use errors::{in_database, in_file, in_folder};
use history::History;
use lock::Lock;
use write::{Fault, Writer};

pub use audit::{Audit, Finding, Severity};
pub use lock::running_process;
pub use payloads::Payloads;
pub use reader::Reader;

/// The name of the database in a run's folder.
const DATABASE: &str = "run.db";

/// The store of a run that this process executes. It is locked against other processes until it is dropped.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    connection: Connection,
    payloads: Payloads,
    head: Head,
    // The last field: it is dropped after the connection, whose end checkpoints the database.
    lock: Lock,
}

impl Store {
    /// Starts a run in a folder, which is created if it does not exist. The description is the plan as JSON, without secrets; if
    /// it has a list `arms` or `arm` of objects with a `name`, the names appear in the tables and views.
    ///
    /// # Errors
    /// A folder that has a run already or that another process uses; a description that is not a JSON object.
    pub fn create(folder: &Path, description: &str) -> Result<Self> {
        let arms = schema::arm_names(description).map_err(|problem| in_folder(folder, problem))?;
        std::fs::create_dir_all(folder).map_err(|source| in_file(folder, source))?;
        refuse_a_second_run(folder)?;
        let lock = Lock::acquire(folder)?;
        refuse_a_second_run(folder)?;
        let committed = lock.previous_commits().unwrap_or(0);
        if committed > 0 {
            let problem = format!(
                "run.db is missing, but run.lock says that {committed} transactions were committed; restore run.db from a \
                 backup, or choose another folder"
            );
            return Err(in_folder(folder, problem));
        }
        schema::create(folder, description, &arms, now())?;
        Self::open_locked(folder, lock)
    }

    /// Opens a run to continue it.
    ///
    /// # Errors
    /// A folder without a run, of a later version, that another process uses, or whose database lacks committed transactions.
    pub fn open(folder: &Path) -> Result<Self> {
        // The version and the commits are read without the right to write, so that a refused database stays as it is.
        connect::read(folder, |_| Ok(()))?;
        let lock = Lock::acquire(folder)?;
        let found = connect::read_as_owner(folder, |connection| Ok(Head::load(connection)?.commits))?;
        if let Some(missing) = lock.previous_commits().and_then(|committed| lock::describe_missing(found, committed)) {
            let problem = format!("{missing}; to continue without them, delete run.lock");
            return Err(in_folder(folder, problem));
        }
        Self::open_locked(folder, lock)
    }

    fn open_locked(folder: &Path, mut lock: Lock) -> Result<Self> {
        let payloads = Payloads::of(folder);
        payloads.prepare()?;
        let path = folder.join(DATABASE);
        let (connection, head) = connect::open_to_write(&path).map_err(|source| in_database(&path, source))?;
        lock.record(head.commits)?;
        Ok(Self { folder: folder.to_owned(), connection, payloads, head, lock })
    }

    /// Commits changes in one transaction: all of them or, if one is refused, none.
    ///
    /// # Errors
    /// A change that is impossible after the earlier ones, such as a second answer to a pull; an error of the database.
    pub fn commit(&mut self, changes: &[Change]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        self.head = self.write(changes).map_err(|fault| match fault {
            Fault::Refused(problem) => in_folder(&self.folder, problem),
            Fault::Database(source) => in_database(&self.folder.join(DATABASE), source),
        })?;
        self.lock.record(self.head.commits)
    }

    fn write(&mut self, changes: &[Change]) -> Result<Head, Fault> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut writer = Writer::new(&transaction, self.head.clone());
        changes.iter().try_for_each(|change| writer.apply(change))?;
        let head = writer.finish()?;
        crash::pass(CrashPoint::Commit);
        transaction.commit()?;
        crash::pass(CrashPoint::Commit);
        Ok(head)
    }

    /// Everything that restores the run.
    ///
    /// # Errors
    /// A damaged database.
    pub fn history(&self) -> Result<History> {
        let path = self.folder.join(DATABASE);
        history::load(&self.connection).map_err(|source| in_database(&path, source))?.intact(&self.folder)
    }

    /// The files with the samples, for threads that write them.
    pub fn payloads(&self) -> Payloads {
        self.payloads.clone()
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The number of transactions that were committed.
    pub fn commits(&self) -> u64 {
        self.head.commits
    }
}

fn refuse_a_second_run(folder: &Path) -> Result<()> {
    if !folder.join(DATABASE).exists() {
        return Ok(());
    }
    Err(in_folder(folder, "has a run already; continue it with `modelmix resume`, or choose another folder"))
}

/// Milliseconds since 1970 in UTC.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
