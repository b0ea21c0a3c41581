//! What a run's database says, in the order in which it happened: everything that restores the run.

use std::collections::BTreeMap;
use std::path::Path;

use modelmix::{Event, policy::AnyPolicy};
use rusqlite::types::Type;
use rusqlite::{Connection, Row};

use super::change::PayloadRef;
use super::errors::in_folder;
use super::events::{self, StoredRow};
use crate::arm::FailureKind;
use crate::problem::Result;

/// Everything that restores a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct History {
    /// The plan as JSON, as it was given when the run was created.
    pub description: String,
    /// When the run was created, in milliseconds since 1970 in UTC, as all times.
    pub created: u64,
    /// The number of transactions that were committed.
    pub commits: u64,
    /// The events of the session.
    pub events: Vec<Event<AnyPolicy>>,
    /// The pulls, by number.
    pub pulls: Vec<StoredPull>,
    /// The arms that are not asked any more, by index.
    pub set_aside: Vec<StoredSetAside>,
    /// When the run began and ended.
    pub lifecycle: Vec<StoredLifecycle>,
    /// The known cost of all attempts.
    pub confirmed: f64,
    /// The reserved cost of attempts whose cost is unknown, including those without an outcome.
    pub in_doubt: f64,
}

/// How far a pull is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PullState {
    /// The session asked; no attempt was sent.
    Asked,
    /// The last attempt has no outcome.
    Sent,
    /// The last attempt failed.
    Failed,
    /// The samples are stored, but the session does not know them.
    Received,
    /// The samples are evidence.
    Told,
    /// It ended without samples.
    Abandoned,
}

/// A pull as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPull {
    /// Its number.
    pub pull: u64,
    /// The arm, as an index.
    pub arm: usize,
    /// The number of samples asked for.
    pub count: usize,
    /// The number of the prompt; `None` in runs without prompts.
    pub prompt: Option<u64>,
    /// The seed of its requests.
    pub seed: u64,
    /// How far it is.
    pub state: PullState,
    /// When it was asked.
    pub asked_at: u64,
    /// When it was told or abandoned.
    pub ended_at: Option<u64>,
    /// Why it was abandoned.
    pub reason: Option<String>,
    /// Its attempts, by number.
    pub attempts: Vec<StoredAttempt>,
    /// Its samples, in the order received.
    pub samples: Vec<StoredSample>,
}

/// An attempt as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredAttempt {
    /// Its number, counted from 1.
    pub attempt: u32,
    /// The most that it can cost.
    pub reserved: f64,
    /// When it was sent.
    pub sent_at: u64,
    /// What became of it; `None` if that is not known.
    pub outcome: Option<StoredOutcome>,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredOutcome {
    /// When.
    pub at: u64,
    /// What it cost; `None` if that is in doubt.
    pub cost: Option<f64>,
    /// Why it failed; `None` if it was answered.
    pub failure: Option<StoredFailure>,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredFailure {
    /// The reason.
    pub kind: FailureKind,
    /// The status of an HTTP answer.
    pub status: Option<u16>,
    /// One sentence.
    pub message: String,
}

/// A sample as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSample {
    /// Its position in the answer, counted from 0.
    pub ordinal: usize,
    /// Its file; `None` if the arm gave features only.
    pub payload: Option<PayloadRef>,
    /// The features that the arm gave; `None` if it is told, since the event has them.
    pub features: Option<Vec<f32>>,
    /// Its position in the told event, counted from 0; `None` if it is not told.
    pub position: Option<usize>,
    /// The scores by name, if it is told.
    pub scores: BTreeMap<String, f64>,
    /// Why it cannot be used.
    pub rejected: Option<String>,
}

/// An arm that is not asked any more.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSetAside {
    /// The arm, as an index.
    pub arm: usize,
    /// One sentence.
    pub reason: String,
    /// When.
    pub at: u64,
}

/// A beginning or an end of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredLifecycle {
    /// What happened.
    pub what: String,
    /// One sentence.
    pub note: String,
    /// When.
    pub at: u64,
}

/// A history with what is wrong with it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) history: History,
    /// One sentence per changed or missing row.
    pub(super) problems: Vec<String>,
}

impl Loaded {
    /// The history, if nothing is wrong with it.
    pub(super) fn intact(self, folder: &Path) -> Result<History> {
        match self.problems.into_iter().next() {
            Some(problem) => Err(in_folder(folder, format!("{problem}; restore run.db from a backup"))),
            None => Ok(self.history),
        }
    }
}

/// Reads everything, and compares the events with their checksums.
pub(super) fn load(connection: &Connection) -> rusqlite::Result<Loaded> {
    let run = connection.query_row("SELECT description, checksum, created FROM run", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get(1)?, count(row, 2)?))
    })?;
    let (description, checksum, created) = run;
    let mut pulls = rows(connection, "SELECT * FROM pulls ORDER BY pull", pull)?;
    let (mut confirmed, mut in_doubt) = (0.0, 0.0);
    let mut orphans = Vec::new();
    for (number, attempt) in rows(connection, "SELECT * FROM attempts ORDER BY pull, attempt", attempt)? {
        match attempt.outcome.as_ref().and_then(|outcome| outcome.cost) {
            Some(cost) => confirmed += cost,
            None => in_doubt += attempt.reserved,
        }
        match find(&pulls, number) {
            Some(at) => pulls[at].attempts.push(attempt),
            None => orphans.push(format!("run.db: attempt {} names pull {number}, which is missing", attempt.attempt)),
        }
    }
    let mut features: Vec<Vec<StoredRow>> = Vec::new();
    features.resize_with(pulls.len(), Vec::new);
    for (number, sample, row) in rows(connection, "SELECT * FROM samples ORDER BY pull, ordinal", sample)? {
        match find(&pulls, number) {
            Some(at) => {
                pulls[at].samples.push(sample);
                features[at].push(row);
            }
            None => orphans.push(format!("run.db: sample {} names pull {number}, which is missing", sample.ordinal)),
        }
    }
    let (events, mut problems) = events::load(connection, &description, checksum, &pulls, &mut features)?;
    problems.extend(orphans);
    // What is left belongs to samples that are not told.
    for (pull, rows) in pulls.iter_mut().zip(features) {
        for (sample, row) in pull.samples.iter_mut().zip(rows).filter(|(sample, _)| sample.position.is_none()) {
            sample.features = row.features.as_deref().map(events::decode);
        }
    }
    let set_aside = rows(connection, "SELECT arm, reason, at FROM set_aside ORDER BY arm", |row| {
        Ok(StoredSetAside { arm: count(row, 0)? as usize, reason: row.get(1)?, at: count(row, 2)? })
    })?;
    let lifecycle = rows(connection, "SELECT what, note, at FROM lifecycle ORDER BY seq", |row| {
        Ok(StoredLifecycle { what: row.get(0)?, note: row.get(1)?, at: count(row, 2)? })
    })?;
    let commits = super::chain::Head::load(connection)?.commits;
    let history = History { description, created, commits, events, pulls, set_aside, lifecycle, confirmed, in_doubt };
    Ok(Loaded { history, problems })
}

/// The index of a pull. Pulls are usually numbered without gaps.
pub(super) fn find(pulls: &[StoredPull], number: u64) -> Option<usize> {
    match pulls.get(number as usize) {
        Some(pull) if pull.pull == number => Some(number as usize),
        _ => pulls.binary_search_by_key(&number, |pull| pull.pull).ok(),
    }
}

/// All rows of a query.
pub(super) fn rows<T>(
    connection: &Connection,
    sql: &str,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare(sql)?.query_map([], read)?.collect()
}

/// A number of at least 0.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column)?.try_into().map_err(|_| wrong(row, column))
}

fn optional_count(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    row.get::<_, Option<i64>>(column)?.map(u64::try_from).transpose().map_err(|_| wrong(row, column))
}

/// A variant of an enumeration by its text.
fn variant<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize, text: String) -> rusqlite::Result<T> {
    serde_json::from_value(text.into()).map_err(|_| wrong(row, column))
}

/// A value that the tables would have refused.
fn wrong(row: &Row<'_>, column: usize) -> rusqlite::Error {
    let name = row.as_ref().column_name(column).unwrap_or_default().to_owned();
    rusqlite::Error::InvalidColumnType(column, name, Type::Text)
}

fn pull(row: &Row<'_>) -> rusqlite::Result<StoredPull> {
    Ok(StoredPull {
        pull: count(row, 0)?,
        arm: count(row, 1)? as usize,
        count: count(row, 2)? as usize,
        prompt: optional_count(row, 3)?,
        seed: count(row, 4)?,
        state: variant(row, 5, row.get(5)?)?,
        asked_at: count(row, 6)?,
        ended_at: optional_count(row, 7)?,
        reason: row.get(8)?,
        attempts: Vec::new(),
        samples: Vec::new(),
    })
}

fn attempt(row: &Row<'_>) -> rusqlite::Result<(u64, StoredAttempt)> {
    let ended: Option<u64> = optional_count(row, 9)?;
    let kind: Option<String> = row.get(6)?;
    let failure = match kind {
        Some(kind) => Some(StoredFailure {
            kind: variant(row, 6, kind)?,
            status: row.get(7)?,
            message: row.get::<_, Option<String>>(8)?.unwrap_or_default(),
        }),
        None => None,
    };
    let cost = row.get(5)?;
    let outcome = ended.map(|at| StoredOutcome { at, cost, failure });
    Ok((
        count(row, 0)?,
        StoredAttempt { attempt: row.get(1)?, reserved: row.get(2)?, sent_at: count(row, 3)?, outcome },
    ))
}

fn sample(row: &Row<'_>) -> rusqlite::Result<(u64, StoredSample, StoredRow)> {
    let sha256: Option<String> = row.get(2)?;
    let payload = match sha256 {
        Some(sha256) => Some(PayloadRef { sha256, extension: row.get(3)?, bytes: count(row, 4)? }),
        None => None,
    };
    let scores: Option<String> = row.get(7)?;
    let parsed = scores.as_deref().map(serde_json::from_str).transpose().map_err(|_| wrong(row, 7))?;
    let sample = StoredSample {
        ordinal: count(row, 1)? as usize,
        payload,
        features: None,
        position: optional_count(row, 6)?.map(|position| position as usize),
        scores: parsed.unwrap_or_default(),
        rejected: row.get(8)?,
    };
    Ok((count(row, 0)?, sample, StoredRow { features: row.get(5)?, scores: scores.unwrap_or_default() }))
}
