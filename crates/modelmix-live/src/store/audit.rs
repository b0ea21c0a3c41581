//! What is wrong with the files of a run. The audit only reads: it repairs nothing and makes nothing worse.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rusqlite::Connection;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::change::PayloadRef;
use super::history::{History, rows};
use super::payloads::{self, INCOMING, PAYLOADS};
use super::wal::{self, Rest};
use super::{DATABASE, connect, history, lock};

/// The most findings of one kind that are listed.
const LISTED: usize = 20;

/// How often the log of a running process is read again until it stays the same while it is read.
const READS: usize = 5;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// A normal trace of a crash; nothing is lost.
    Note,
    /// Something is lost or changed.
    Damage,
}

/// What is wrong with a file or a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// One sentence, with the file or row.
    pub message: String,
}

/// The state of a run's files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Audit {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The number of payloads that were compared with their checksums.
    pub payloads: u64,
    /// The number of complete payloads that no row names, for example because a crash came before the commit. They are harmless.
    pub unreferenced_payloads: u64,
    /// The number of payloads that a crash has left incomplete; they are removed when the run is continued.
    pub unfinished_payloads: u64,
}

impl Audit {
    /// Whether nothing is lost or changed.
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Note)
    }

    fn find(&mut self, severity: Severity, message: impl Into<String>) {
        self.findings.push(Finding { severity, message: message.into() });
    }

    fn damage(&mut self, message: impl Into<String>) {
        self.find(Severity::Damage, message);
    }

    /// Adds sentences of one kind, of which many may say the same.
    fn damages(&mut self, messages: Vec<String>) {
        let more = messages.len().saturating_sub(LISTED);
        messages.into_iter().take(LISTED).for_each(|message| self.damage(message));
        if more > 0 {
            self.damage(format!("and {more} more of this kind"));
        }
    }
}

/// Examines the files of a run, also while a process executes it. It reads every payload. No file changes.
pub fn audit(folder: &Path) -> Audit {
    let mut audit = Audit::default();
    // First, because commits after this line only increase the number in the database.
    let committed = lock::recorded_commits(folder);
    examine_log(folder, &mut audit);
    let found = connect::read(folder, |connection| {
        let checks = check(connection);
        history::load(connection).map(|loaded| (checks, loaded))
    });
    match found {
        Ok((checks, loaded)) => {
            audit.damages(checks);
            audit.damages(loaded.problems);
            if let Some(missing) =
                committed.and_then(|committed| lock::describe_missing(loaded.history.commits, committed))
            {
                audit.damage(missing);
            }
            examine_payloads(folder, &loaded.history, &mut audit);
        }
        Err(problem) => audit.damage(problem.to_string()),
    }
    audit
}

/// What SQLite finds.
fn check(connection: &Connection) -> Vec<String> {
    let quick = rows(connection, "PRAGMA quick_check", |row| row.get::<_, String>(0));
    let keys = rows(connection, "PRAGMA foreign_key_check", |row| {
        let (table, row, parent): (String, Option<i64>, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let row = row.map_or(String::new(), |row| format!(" {row}"));
        Ok(format!("run.db: row{row} of table {table} names a row of table {parent} that is missing"))
    });
    let quick = quick.map(|lines| {
        lines.iter().filter(|line| *line != "ok").map(|line| format!("run.db is damaged: {}", line.trim())).collect()
    });
    [quick, keys]
        .into_iter()
        .flat_map(|lines| lines.unwrap_or_else(|error| vec![format!("run.db is damaged: {error}")]))
        .collect()
}

fn examine_log(folder: &Path, audit: &mut Audit) {
    let path = folder.join(format!("{DATABASE}-wal"));
    let log = match read_log(&path) {
        Ok(bytes) => wal::inspect(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return audit.damage(format!("run.db-wal cannot be read: {error}")),
    };
    match log.rest {
        Rest::Nothing => {}
        Rest::Unfinished { frames, bytes } => audit.find(
            Severity::Note,
            format!(
                "run.db-wal ends with an unfinished transaction ({frames} frames and {bytes} bytes), which is ignored; this is \
                 normal after a crash"
            ),
        ),
        Rest::Damaged { frame, lost } => audit.damage(format!(
            "run.db-wal is damaged: frame {frame} does not match its checksum, so that {lost} of its transactions cannot be \
             read; restore run.db and run.db-wal from a backup"
        )),
        Rest::Header => audit.damage(
            "run.db-wal is damaged: its header does not match its checksum, so that none of its transactions can be read; \
             restore run.db and run.db-wal from a backup",
        ),
    }
}

/// Reads the log of a process that may write it at the same time.
fn read_log(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = fs::read(path)?;
    for _ in 1..READS {
        let again = fs::read(path)?;
        if again == bytes {
            break;
        }
        bytes = again;
    }
    Ok(bytes)
}

fn examine_payloads(folder: &Path, history: &History, audit: &mut Audit) {
    let payloads = folder.join(PAYLOADS);
    let mut known: HashMap<String, (u64, &PayloadRef)> = HashMap::new();
    for pull in &history.pulls {
        for payload in pull.samples.iter().filter_map(|sample| sample.payload.as_ref()) {
            known.entry(payloads::name(payload)).or_insert((pull.pull, payload));
        }
    }
    let mut named: Vec<_> = known.iter().collect();
    named.sort_by_key(|(name, (pull, _))| (*pull, *name));
    let mut problems = Vec::new();
    for (name, (pull, payload)) in named {
        audit.payloads += 1;
        match checksum(&payloads.join(name)) {
            Ok((found, bytes)) if found != payload.sha256 => {
                let change = payloads::describe_change(bytes, payload.bytes);
                problems.push(format!("payloads/{name}, of pull {pull}: {change}"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                problems.push(format!("payloads/{name}, of pull {pull}, is missing; restore it from a backup"))
            }
            Err(error) => problems.push(format!("payloads/{name}, of pull {pull}, cannot be read: {error}")),
        }
    }
    audit.damages(problems);
    let names: HashSet<&String> = known.keys().collect();
    for folder in list(&payloads) {
        let is_incoming = folder == INCOMING;
        for file in list(&payloads.join(&folder)) {
            if is_incoming {
                audit.unfinished_payloads += 1;
            } else if !names.contains(&format!("{folder}/{file}")) {
                audit.unreferenced_payloads += 1;
            }
        }
    }
}

/// The names in a folder; none if it cannot be read.
fn list(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The SHA-256 and the length of a file, which may be larger than memory.
fn checksum(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((payloads::hexadecimal(&digest.finalize()), bytes));
        }
        digest.update(&buffer[..read]);
        bytes += read as u64;
    }
}
