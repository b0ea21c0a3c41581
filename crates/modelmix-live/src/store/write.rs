//! How each change is written. Tables refuse what is wrong in itself; conditions on the state refuse what comes out of order.

use std::collections::{BTreeMap, HashMap};

use modelmix::session::Decisions;
use modelmix::{Event, policy::AnyPolicy};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, Statement, params};

use super::chain::{EventRow, Head, Link};
use super::change::{Change, EncodedSample, ReceivedSample};
use crate::arm::FailureKind;

/// Why changes are not committed.
pub(super) enum Fault {
    /// A change is impossible after the earlier ones. The sentence says why.
    Refused(String),
    /// The database failed.
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

type Written<T = ()> = Result<T, Fault>;

fn refuse<T>(problem: impl Into<String>) -> Written<T> {
    Err(Fault::Refused(problem.into()))
}

/// An attempt with what became of it.
struct Ended<'a> {
    pull: u64,
    attempt: u32,
    at: u64,
    cost: Option<f64>,
    failure: Option<(FailureKind, Option<u16>, &'a str)>,
}

/// Writes changes in one transaction.
pub(super) struct Writer<'c> {
    connection: &'c Connection,
    statements: HashMap<&'static str, Statement<'c>>,
    head: Head,
}

impl<'c> Writer<'c> {
    pub(super) fn new(connection: &'c Connection, head: Head) -> Self {
        Self { connection, statements: HashMap::new(), head }
    }

    /// Counts the transaction.
    pub(super) fn finish(mut self) -> Written<Head> {
        self.head.commits += 1;
        let Head { commits, events, checksum } = self.head;
        let sql = "UPDATE progress SET commits = ?, events = ?, checksum = ?";
        self.execute(sql, params![commits as i64, events as i64, checksum])?;
        Ok(self.head)
    }

    pub(super) fn apply(&mut self, change: &Change) -> Written {
        match change {
            Change::Asked { event, prompt, seed, at } => self.asked(event, *prompt, *seed, *at),
            Change::Sent { pull, attempt, reserved, at } => self.sent(*pull, *attempt, *reserved, *at),
            Change::Received { pull, attempt, samples, cost, at } => {
                let ended = Ended { pull: *pull, attempt: *attempt, at: *at, cost: Some(*cost), failure: None };
                self.end_attempt(&ended, "received")?;
                self.received(*pull, samples)
            }
            Change::Failed { pull, attempt, kind, status, message, cost, at } => {
                let failure = Some((*kind, *status, message.as_str()));
                let ended = Ended { pull: *pull, attempt: *attempt, at: *at, cost: *cost, failure };
                self.end_attempt(&ended, "failed")
            }
            Change::Settled { pull, attempt, cost } => self.settled(*pull, *attempt, *cost),
            Change::Told { pull, samples, decisions, at } => self.told(*pull, samples, decisions, *at),
            Change::Rejected { pull, ordinal, reason } => self.rejected(*pull, *ordinal, reason),
            Change::Abandoned { pull, reason, at } => self.abandoned(*pull, reason, *at),
            Change::Known { event: event @ Event::Known(_), at } => {
                self.event("known", None, &json(event), *at, |_| {})
            }
            Change::Known { event, .. } => refuse(format!("{} is not an event of known samples", json(event))),
            Change::SetAside { arm, reason, at } => {
                let sql = "INSERT INTO set_aside VALUES (?, ?, ?)";
                self.insert(sql, params![integer(*arm as u64)?, reason, integer(*at)?], || {
                    format!("arm {arm} is set aside already")
                })
            }
            Change::Lifecycle { what, note, at } => {
                let sql = "INSERT INTO lifecycle (what, note, at) VALUES (?, ?, ?)";
                self.execute(sql, params![what, note, integer(*at)?])?;
                Ok(())
            }
        }
    }

    fn asked(&mut self, event: &Event<AnyPolicy>, prompt: Option<u64>, seed: u64, at: u64) -> Written {
        let Event::Asked(asked) = event else {
            return refuse(format!("{} is not an event of an asked arm", json(event)));
        };
        let (pull, arm, count) = (asked.pull, asked.arm as u64, asked.count as u64);
        let sql = "INSERT INTO pulls (pull, arm, count, prompt, seed, state, asked) VALUES (?, ?, ?, ?, ?, 'asked', ?)";
        let number = prompt.map(integer).transpose()?;
        self.insert(
            sql,
            params![integer(pull)?, integer(arm)?, integer(count)?, number, integer(seed)?, integer(at)?],
            || format!("pull {pull} for {count} samples was asked before or asks for none"),
        )?;
        self.event("asked", Some(pull), &json(event), at, |link| link.pull(arm, count, prompt, seed))
    }

    fn sent(&mut self, pull: u64, attempt: u32, reserved: f64, at: u64) -> Written {
        check_cost(reserved)?;
        let intent = format!("attempt {attempt} of pull {pull} cannot be sent");
        self.change_state(
            pull,
            "UPDATE pulls SET state = 'sent' WHERE pull = ? AND state IN ('asked', 'failed')",
            &intent,
        )?;
        let sql = "INSERT INTO attempts (pull, attempt, reserved, sent) VALUES (?, ?, ?, ?)";
        self.insert(sql, params![integer(pull)?, attempt, reserved, integer(at)?], || {
            format!("attempt {attempt} of pull {pull} was sent before, or is not counted from 1")
        })
    }

    /// Records what became of an attempt. An abandoned pull stays abandoned, but what it cost counts.
    fn end_attempt(&mut self, ended: &Ended<'_>, outcome: &str) -> Written {
        let Ended { pull, attempt, at, cost, failure } = ended;
        cost.map_or(Ok(()), check_cost)?;
        let (kind, status, message) = match failure {
            Some((kind, status, message)) => (Some(kind_text(*kind)), *status, Some(*message)),
            None => (None, None, None),
        };
        let sql = "UPDATE attempts SET outcome = ?, cost = ?, kind = ?, status = ?, message = ?, ended = ? \
                   WHERE pull = ? AND attempt = ? AND outcome IS NULL";
        let values = params![outcome, cost, kind, status, message, integer(*at)?, integer(*pull)?, attempt];
        if self.execute(sql, values)? == 0 {
            return refuse(format!(
                "attempt {attempt} of pull {pull} cannot be {outcome}: it was not sent, or has an outcome already"
            ));
        }
        let sql = "UPDATE pulls SET state = ? WHERE pull = ? AND state = 'sent'";
        self.execute(sql, params![outcome, integer(*pull)?])?;
        Ok(())
    }

    fn settled(&mut self, pull: u64, attempt: u32, cost: f64) -> Written {
        check_cost(cost)?;
        let sql = "UPDATE attempts SET cost = ? WHERE pull = ? AND attempt = ? AND outcome = 'failed' AND cost IS NULL";
        if self.execute(sql, params![cost, integer(pull)?, attempt])? == 0 {
            return refuse(format!(
                "the cost of attempt {attempt} of pull {pull} is not in doubt and cannot be settled"
            ));
        }
        Ok(())
    }

    fn received(&mut self, pull: u64, samples: &[ReceivedSample]) -> Written {
        if samples.is_empty() {
            return refuse(format!("pull {pull} received no samples; record a failed attempt instead"));
        }
        let sql = "INSERT INTO samples (pull, ordinal, sha256, extension, bytes, features) VALUES (?, ?, ?, ?, ?, ?)";
        for (ordinal, sample) in samples.iter().enumerate() {
            let payload = sample.payload.as_ref();
            let bytes = payload.map(|payload| integer(payload.bytes)).transpose()?;
            let sha256 = payload.map(|payload| &payload.sha256);
            let extension = payload.map(|payload| &payload.extension);
            let features = sample.features.as_deref().map(encode);
            self.insert(sql, params![integer(pull)?, ordinal as i64, sha256, extension, bytes, features], || {
                format!(
                    "sample {ordinal} of pull {pull} has no payload and no features, or a payload with a wrong name"
                )
            })?;
        }
        Ok(())
    }

    fn told(&mut self, pull: u64, samples: &[EncodedSample], decisions: &Decisions, at: u64) -> Written {
        let Some(first) = samples.first() else {
            return refuse(format!("pull {pull} is told without samples; abandon it instead"));
        };
        let sql = "UPDATE pulls SET state = 'told', ended = ?2 WHERE pull = ?1 AND state = 'received'";
        let intent = format!("pull {pull} cannot be told");
        if self.execute(sql, params![integer(pull)?, integer(at)?])? == 0 {
            return self.refuse_state(pull, &intent);
        }
        let sql = "UPDATE samples SET position = ?, features = ?, scores = ? \
                   WHERE pull = ? AND ordinal = ? AND position IS NULL AND rejected IS NULL RETURNING sha256";
        let mut rows = Vec::with_capacity(samples.len());
        for (position, sample) in samples.iter().enumerate() {
            let EncodedSample { ordinal, features, scores } = sample;
            if features.len() != first.features.len() || !scores.keys().eq(first.scores.keys()) {
                return refuse(format!(
                    "{intent}: sample {ordinal} has other features or scores than sample {}",
                    first.ordinal
                ));
            }
            if let Some((name, score)) = scores.iter().find(|(_, score)| !score.is_finite()) {
                return refuse(format!("{intent}: the score {name} of sample {ordinal} is {score}; it must be finite"));
            }
            let (features, scores) = (encode(features), json::<BTreeMap<_, _>>(scores));
            let values = params![position as i64, features, scores, integer(pull)?, *ordinal as i64];
            let found = self.statement(sql)?.query_row(values, |row| row.get::<_, Option<String>>(0)).optional()?;
            let Some(sha256) = found else {
                return refuse(format!("{intent}: sample {ordinal} was not received, is rejected, or is told twice"));
            };
            rows.push((*ordinal as u64, sha256, features, scores));
        }
        self.event("told", Some(pull), &json(decisions), at, |link| {
            for (ordinal, sha256, features, scores) in &rows {
                link.sample(*ordinal, sha256.as_deref(), features, scores);
            }
        })
    }

    fn rejected(&mut self, pull: u64, ordinal: usize, reason: &str) -> Written {
        let sql =
            "UPDATE samples SET rejected = ? WHERE pull = ? AND ordinal = ? AND position IS NULL AND rejected IS NULL";
        if self.execute(sql, params![reason, integer(pull)?, ordinal as i64])? == 0 {
            return refuse(format!(
                "sample {ordinal} of pull {pull} cannot be rejected: it was not received, is told, or is rejected already"
            ));
        }
        Ok(())
    }

    fn abandoned(&mut self, pull: u64, reason: &str, at: u64) -> Written {
        let sql = "UPDATE pulls SET state = 'abandoned', ended = ?2, reason = ?3 \
                   WHERE pull = ?1 AND state NOT IN ('told', 'abandoned')";
        if self.execute(sql, params![integer(pull)?, integer(at)?, reason])? == 0 {
            return self.refuse_state(pull, &format!("pull {pull} cannot be abandoned"));
        }
        self.event("abandoned", Some(pull), &json(&Event::<AnyPolicy>::Abandoned { pull }), at, |_| {})
    }

    /// Appends an event to the chain; `refers` adds what it refers to.
    fn event(&mut self, kind: &str, pull: Option<u64>, body: &str, at: u64, refers: impl FnOnce(&mut Link)) -> Written {
        let seq = self.head.events + 1;
        let mut link = Link::new(&self.head.checksum, EventRow { seq, kind, pull, body, at });
        refers(&mut link);
        let checksum = link.finish();
        let sql = "INSERT INTO events (seq, kind, pull, body, at, checksum) VALUES (?, ?, ?, ?, ?, ?)";
        let number = pull.map(integer).transpose()?;
        self.execute(sql, params![integer(seq)?, kind, number, body, integer(at)?, checksum])?;
        self.head.events = seq;
        self.head.checksum = checksum;
        Ok(())
    }

    fn change_state(&mut self, pull: u64, sql: &'static str, intent: &str) -> Written {
        if self.execute(sql, [integer(pull)?])? == 0 { self.refuse_state(pull, intent) } else { Ok(()) }
    }

    /// Refuses an intent because of the state of the pull.
    fn refuse_state(&mut self, pull: u64, intent: &str) -> Written {
        let sql = "SELECT state FROM pulls WHERE pull = ?";
        let state = self.statement(sql)?.query_row([integer(pull)?], |row| row.get::<_, String>(0)).optional()?;
        refuse(match state {
            Some(state) => format!("{intent}: the pull is {state}"),
            None => format!("{intent}: the pull was not asked"),
        })
    }

    /// Inserts a row, or refuses the change if the tables do.
    fn insert(&mut self, sql: &'static str, values: impl Params, problem: impl FnOnce() -> String) -> Written {
        match self.execute(sql, values) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                refuse(format!("{} ({error})", problem()))
            }
            result => Ok(result.map(drop)?),
        }
    }

    fn execute(&mut self, sql: &'static str, values: impl Params) -> rusqlite::Result<usize> {
        self.statement(sql)?.execute(values)
    }

    /// A statement that is compiled once per transaction.
    fn statement(&mut self, sql: &'static str) -> rusqlite::Result<&mut Statement<'c>> {
        use std::collections::hash_map::Entry;
        Ok(match self.statements.entry(sql) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.connection.prepare(sql)?),
        })
    }
}

/// A number as SQLite stores it.
fn integer(number: u64) -> Written<i64> {
    i64::try_from(number)
        .or_else(|_| refuse(format!("{number} is too large for the database; the largest is {}", i64::MAX)))
}

fn check_cost(cost: f64) -> Written {
    if cost.is_finite() && cost >= 0.0 {
        Ok(())
    } else {
        refuse(format!("the cost {cost} is not a number of at least 0"))
    }
}

/// The text of a reason, as in JSON.
fn kind_text(kind: FailureKind) -> String {
    json(&kind).trim_matches('"').to_owned()
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("what is stored has only texts as keys")
}

/// Features as little-endian bytes.
fn encode(features: &[f32]) -> Vec<u8> {
    features.iter().flat_map(|value| value.to_le_bytes()).collect()
}
