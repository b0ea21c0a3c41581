//! The events of a session from their rows: the answers of told events come from the samples, and every row is compared with
//! its checksum.

use modelmix::session::{Answer, Decisions, Scores};
use modelmix::{Event, policy::AnyPolicy};
use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::chain::{Checksum, EventRow, Head, Link};
use super::history::{StoredPull, count, find, rows};

/// What is stored of a sample only for events: its features as bytes and its scores as they were written.
#[derive(Debug, Default)]
pub(super) struct StoredRow {
    pub(super) features: Option<Vec<u8>>,
    pub(super) scores: String,
}

/// The row of an event.
struct Row {
    seq: u64,
    kind: String,
    pull: Option<u64>,
    body: String,
    at: u64,
    checksum: Checksum,
}

/// Reads the events, and returns them with one sentence per changed or missing row. The features of told samples are taken from
/// `stored`.
pub(super) fn load(
    connection: &Connection,
    description: &str,
    first: Checksum,
    pulls: &[StoredPull],
    stored: &mut [Vec<StoredRow>],
) -> rusqlite::Result<(Vec<Event<AnyPolicy>>, Vec<String>)> {
    let mut problems = Vec::new();
    if first[..] != Sha256::digest(description)[..] {
        problems.push("run.db: the description of the run was changed (table run)".to_owned());
    }
    let table = rows(connection, "SELECT seq, kind, pull, body, at, checksum FROM events ORDER BY seq", |row| {
        let pull = row.get::<_, Option<i64>>(2)?.map(|pull| pull as u64);
        let (seq, at) = (count(row, 0)?, count(row, 4)?);
        Ok(Row { seq, kind: row.get(1)?, pull, body: row.get(3)?, at, checksum: row.get(5)? })
    })?;
    let mut events = Vec::with_capacity(table.len());
    let mut previous = Some(first);
    let mut last = 0;
    for row in &table {
        if row.seq != last + 1 {
            problems.push(describe_gap(last + 1, row.seq.saturating_sub(1)));
            previous = None;
        }
        let at = row.pull.and_then(|pull| find(pulls, pull));
        let nothing = &mut Vec::new();
        let samples = at.map_or(nothing, |at| &mut stored[at]);
        let pull = at.map(|at| &pulls[at]);
        let order = told_order(pull);
        // After a gap, the checksum before this row is not known, and its own cannot be compared.
        if previous.is_some_and(|previous| checksum(&previous, row, pull, samples, &order) != row.checksum) {
            problems.push(describe_break(row));
        }
        match rebuild(row, pull, samples, &order) {
            Ok(event) => events.push(event),
            Err(problem) => {
                problems.push(format!("run.db: event {} cannot be read: {problem} (table events)", row.seq))
            }
        }
        (previous, last) = (Some(row.checksum), row.seq);
    }
    let head = Head::load(connection)?;
    if head.events > last {
        problems.push(describe_gap(last + 1, head.events));
    } else if head.events < last || previous != Some(head.checksum) {
        let found = head.events;
        problems.push(format!("run.db: table progress names event {found} as the last, but event {last} is there"));
    }
    Ok((events, problems))
}

fn describe_gap(first: u64, last: u64) -> String {
    if first == last {
        return format!("run.db: the chain of events is broken at seq {first}: the row is missing (table events)");
    }
    format!("run.db: the chain of events is broken at seq {first}: the rows up to {last} are missing (table events)")
}

fn describe_break(row: &Row) -> String {
    let where_else = match (row.kind.as_str(), row.pull) {
        ("asked", Some(pull)) => format!(", or row {pull} of table pulls,"),
        ("told", Some(pull)) => format!(", or a row of pull {pull} in table samples,"),
        _ => String::new(),
    };
    format!("run.db: the chain of events is broken at seq {}: its row in table events{where_else} was changed", row.seq)
}

/// The indices of the told samples of a pull, in the order told.
fn told_order(pull: Option<&StoredPull>) -> Vec<usize> {
    let samples = pull.map_or(&[][..], |pull| &pull.samples);
    let mut order: Vec<usize> = (0..samples.len()).filter(|&at| samples[at].position.is_some()).collect();
    order.sort_by_key(|&at| samples[at].position);
    order
}

fn checksum(
    previous: &Checksum,
    row: &Row,
    pull: Option<&StoredPull>,
    stored: &[StoredRow],
    order: &[usize],
) -> Checksum {
    let Row { seq, kind, pull: number, body, at, .. } = row;
    let mut link = Link::new(previous, EventRow { seq: *seq, kind, pull: *number, body, at: *at });
    match (kind.as_str(), pull) {
        ("asked", Some(pull)) => link.pull(pull.arm as u64, pull.count as u64, pull.prompt, pull.seed),
        ("told", Some(pull)) => {
            for &at in order {
                let (sample, row) = (&pull.samples[at], &stored[at]);
                let sha256 = sample.payload.as_ref().map(|payload| payload.sha256.as_str());
                link.sample(sample.ordinal as u64, sha256, row.features.as_deref().unwrap_or_default(), &row.scores);
            }
        }
        _ => {}
    }
    link.finish()
}

/// The event of a row.
fn rebuild(
    row: &Row,
    pull: Option<&StoredPull>,
    stored: &mut [StoredRow],
    order: &[usize],
) -> Result<Event<AnyPolicy>, String> {
    if row.kind != "told" {
        return serde_json::from_str(&row.body).map_err(|error| error.to_string());
    }
    let decisions: Decisions = serde_json::from_str(&row.body).map_err(|error| error.to_string())?;
    let pull = pull.ok_or("its pull is missing")?;
    let first = order.first().ok_or("its samples are missing")?;
    let size = |at: usize| stored[at].features.as_ref().map_or(0, Vec::len);
    let bytes = size(*first);
    if order.iter().any(|&at| size(at) != bytes) || !bytes.is_multiple_of(4) {
        return Err("its samples have features of different lengths".into());
    }
    let mut values = Vec::with_capacity(order.len() * bytes / 4);
    let mut scores = Scores::new();
    for &at in order {
        values.extend(decode(&stored[at].features.take().unwrap_or_default()));
        for (name, &score) in &pull.samples[at].scores {
            scores.entry(name.clone()).or_default().push(score);
        }
    }
    let mut event = Event::told(pull.pull, Answer::Features { width: bytes / 4, values, scores });
    if let Event::Told(told) = &mut event {
        told.decisions = decisions;
    }
    Ok(event)
}

/// Features from little-endian bytes.
pub(super) fn decode(bytes: &[u8]) -> Vec<f32> {
    let value = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    bytes.chunks_exact(4).map(value).collect()
}
