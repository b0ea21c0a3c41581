//! The tables of a run's database, their version, and how a new database appears in one step.

use std::path::Path;

use rusqlite::{Connection, params};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::crash::{self, CrashPoint};
use super::errors::{in_database, in_file};
use super::{DATABASE, connect};
use crate::problem::Result;

/// The tables and views.
const SCHEMA: &str = include_str!("schema.sql");

/// What `file` and other tools recognise the database by: "mmlv" in ASCII.
pub(super) const APPLICATION_ID: i32 = 0x6d6d_6c76;

/// The version of the tables. It increases if an earlier release could not read them.
pub(super) const VERSION: i32 = 1;

/// The database before it is complete.
const UNFINISHED: &str = "run.db.new";

/// The names of the arms in a description, a JSON object.
pub(super) fn arm_names(description: &str) -> Result<Vec<String>, String> {
    let value: Value =
        serde_json::from_str(description).map_err(|error| format!("the description is not valid JSON: {error}"))?;
    let Value::Object(fields) = value else {
        return Err(format!("the description is {value}; write a JSON object"));
    };
    let arms = fields.get("arms").or_else(|| fields.get("arm")).and_then(Value::as_array);
    let name = |arm: &Value| arm.get("name").and_then(Value::as_str).map(str::to_owned);
    Ok(arms.and_then(|arms| arms.iter().map(name).collect()).unwrap_or_default())
}

/// Writes the database of a new run under another name and renames it, so that it is either complete or missing.
pub(super) fn create(folder: &Path, description: &str, arms: &[String], at: u64) -> Result<()> {
    let unfinished = folder.join(UNFINISHED);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let path = folder.join(format!("{UNFINISHED}{suffix}"));
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => return Err(in_file(&path, source)),
            _ => {}
        }
    }
    fill(&unfinished, description, arms, at).map_err(|source| in_database(&unfinished, source))?;
    let flush = |path: &Path| {
        crash::pass(CrashPoint::Flush);
        std::fs::File::open(path).and_then(|file| file.sync_all()).map_err(|source| in_file(path, source))?;
        crash::pass(CrashPoint::Flush);
        Ok(())
    };
    flush(&unfinished)?;
    crash::pass(CrashPoint::Rename);
    std::fs::rename(&unfinished, folder.join(DATABASE)).map_err(|source| in_file(&unfinished, source))?;
    crash::pass(CrashPoint::Rename);
    flush(folder)
}

fn fill(path: &Path, description: &str, arms: &[String], at: u64) -> rusqlite::Result<()> {
    let mut connection = connect::create(path)?;
    let checksum: [u8; 32] = Sha256::digest(description).into();
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.execute(
        "INSERT INTO run VALUES (1, ?, ?, ?, ?, ?)",
        params![description, checksum, env!("CARGO_PKG_VERSION"), rusqlite::version(), at as i64],
    )?;
    transaction.execute("INSERT INTO progress VALUES (1, 0, 0, ?)", [checksum])?;
    for (arm, name) in arms.iter().enumerate() {
        transaction.execute("INSERT INTO arms VALUES (?, ?)", params![arm as i64, name])?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    crash::pass(CrashPoint::Commit);
    transaction.commit()?;
    crash::pass(CrashPoint::Commit);
    connection.close().map_err(|(_, error)| error)
}

/// What speaks against reading a database, from what it says about itself.
pub(super) fn check_version(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    if application != APPLICATION_ID {
        return Ok(Some(format!("run.db has the application id {application}, so it is no database of modelmix")));
    }
    let here = env!("CARGO_PKG_VERSION");
    Ok((version != VERSION).then(|| {
        format!("run.db has version {version}, but modelmix {here} reads version {VERSION}; update modelmix to open it")
    }))
}
