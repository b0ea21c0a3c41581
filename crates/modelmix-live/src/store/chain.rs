//! The chain of checksums over the events: each covers its row, what the row refers to, and the checksum before it, so that a
//! changed or missing row is found and named.

use rusqlite::Connection;
use sha2::{Digest, Sha256};

/// A SHA-256.
pub(super) type Checksum = [u8; 32];

/// What has been committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The number of transactions.
    pub(super) commits: u64,
    /// The number of events.
    pub(super) events: u64,
    /// The checksum of the last event; without events, that of the description.
    pub(super) checksum: Checksum,
}

impl Head {
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        connection.query_row("SELECT commits, events, checksum FROM progress", [], |row| {
            Ok(Self {
                commits: row.get::<_, i64>(0)? as u64,
                events: row.get::<_, i64>(1)? as u64,
                checksum: row.get(2)?,
            })
        })
    }
}

/// The row of an event without its checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventRow<'a> {
    pub(super) seq: u64,
    pub(super) kind: &'a str,
    pub(super) pull: Option<u64>,
    pub(super) body: &'a str,
    pub(super) at: u64,
}

/// The checksum of an event, in the making. Every text is preceded by its length, so that no two events read the same.
pub(super) struct Link(Sha256);

impl Link {
    pub(super) fn new(previous: &Checksum, row: EventRow<'_>) -> Self {
        let mut link = Self(Sha256::new());
        link.0.update(previous);
        link.number(row.seq);
        link.bytes(row.kind.as_bytes());
        link.option(row.pull);
        link.number(row.at);
        link.bytes(row.body.as_bytes());
        link
    }

    /// Adds what an asked event refers to: the row of its pull.
    pub(super) fn pull(&mut self, arm: u64, count: u64, prompt: Option<u64>, seed: u64) {
        self.number(arm);
        self.number(count);
        self.option(prompt);
        self.number(seed);
    }

    /// Adds what a told event refers to: the rows of its samples, in the order told.
    pub(super) fn sample(&mut self, ordinal: u64, sha256: Option<&str>, features: &[u8], scores: &str) {
        self.number(ordinal);
        self.bytes(sha256.unwrap_or_default().as_bytes());
        self.bytes(features);
        self.bytes(scores.as_bytes());
    }

    pub(super) fn finish(self) -> Checksum {
        self.0.finalize().into()
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    fn option(&mut self, number: Option<u64>) {
        self.number(u64::from(number.is_some()));
        self.number(number.unwrap_or(0));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }
}
