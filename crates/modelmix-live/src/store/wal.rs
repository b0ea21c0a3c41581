//! The write-ahead log of the database, `run.db-wal`, read as SQLite documents it (<https://sqlite.org/fileformat2.html#walformat>):
//! SQLite itself ignores what does not match a checksum and does not say so.

/// The length of the header of the file.
const HEADER: usize = 32;
/// The length of the header of a frame, which precedes a page.
const FRAME_HEADER: usize = 24;
/// The magic number; its last bit says whether checksums read big-endian words.
const MAGIC: u32 = 0x377f_0682;
/// The version of the format.
const FORMAT: u32 = 3_007_000;

/// What a write-ahead log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Log {
    /// The number of whole transactions, which SQLite reads.
    pub(super) transactions: usize,
    /// What follows them.
    pub(super) rest: Rest,
}

/// What follows the whole transactions of a write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing, or frames of an earlier log, which were written to the database long ago.
    Nothing,
    /// A transaction that was not committed: whole frames, and bytes of another.
    Unfinished {
        /// Frames of the transaction, of which the last may be damaged.
        frames: usize,
        /// Bytes after the last whole frame.
        bytes: usize,
    },
    /// A damaged frame with transactions after it.
    Damaged {
        /// The number of the frame, counted from 1.
        frame: usize,
        /// Transactions that end with the frame or after it, which SQLite ignores.
        lost: usize,
    },
    /// A damaged header, so that SQLite ignores the file.
    Header,
}

/// The checksum of the file: cumulative, over 32-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum(u32, u32);

impl Sum {
    fn add(self, bytes: &[u8], is_big_endian: bool) -> Self {
        let word = |at: usize| {
            let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            if is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        (0..bytes.len()).step_by(8).fold(self, |Self(first, second), at| {
            let first = first.wrapping_add(word(at)).wrapping_add(second);
            Self(first, second.wrapping_add(word(at + 4)).wrapping_add(first))
        })
    }
}

/// A big-endian number.
fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads a write-ahead log.
pub(super) fn inspect(bytes: &[u8]) -> Log {
    if bytes.is_empty() {
        return Log { transactions: 0, rest: Rest::Nothing };
    }
    let Some(Header { page, salts, sum: mut running, is_big_endian }) = Header::read(bytes) else {
        return Log { transactions: 0, rest: Rest::Header };
    };
    let chunks = bytes[HEADER..].chunks_exact(FRAME_HEADER + page);
    let bytes_left = chunks.remainder().len();
    let frames: Vec<Frame<'_>> = chunks.map(|bytes| Frame { bytes, is_big_endian }).collect();
    let (mut transactions, mut committed) = (0, 0);
    let mut valid = 0;
    while let Some(frame) = frames.get(valid).filter(|frame| frame.salts() == salts && frame.follows(running)) {
        running = frame.sum();
        valid += 1;
        if frame.commits() {
            (transactions, committed) = (transactions + 1, valid);
        }
    }
    // Each frame holds the sum before the next one, so that frames after a damaged one can be recognised.
    let follows = |at: usize| {
        let before = &frames[at - 1];
        frames[at].follows(before.sum()) || at == valid + 1 && frames[at].follows(before.sum_after(running))
    };
    let is_lost = |at: &usize| frames[*at].salts() == salts && frames[*at].commits() && follows(*at);
    let lost = (valid + 1..frames.len()).filter(is_lost).count();
    let rest = if lost > 0 {
        let ends_here = frames[valid].commits() && frames[valid].salts() == salts;
        Rest::Damaged { frame: valid + 1, lost: lost + usize::from(ends_here) }
    } else {
        let is_torn = frames.get(valid).is_some_and(|frame| frame.salts() == salts);
        let unfinished = valid + usize::from(is_torn) - committed;
        // After frames of an earlier log, a part of a frame is of that log, too.
        let bytes_left = if valid + usize::from(is_torn) == frames.len() { bytes_left } else { 0 };
        match (unfinished, bytes_left) {
            (0, 0) => Rest::Nothing,
            (frames, bytes) => Rest::Unfinished { frames, bytes },
        }
    };
    Log { transactions, rest }
}

/// What the header of the file says.
struct Header {
    /// The size of a page.
    page: usize,
    /// What frames of this log hold, too, and those of an earlier one do not.
    salts: [u8; 8],
    sum: Sum,
    is_big_endian: bool,
}

impl Header {
    /// The header; `None` if it is damaged.
    fn read(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER)?;
        let is_big_endian = number(header, 0) & 1 == 1;
        let sum = Sum(0, 0).add(&header[..24], is_big_endian);
        let page = number(header, 8) as usize;
        let is_valid = number(header, 0) & !1 == MAGIC
            && number(header, 4) == FORMAT
            && page.is_power_of_two()
            && (512..=65_536).contains(&page)
            && sum == Sum(number(header, 24), number(header, 28));
        let salts = header[16..24].try_into().ok()?;
        is_valid.then_some(Self { page, salts, sum, is_big_endian })
    }
}

/// A page with its header.
struct Frame<'a> {
    bytes: &'a [u8],
    is_big_endian: bool,
}

impl Frame<'_> {
    /// Whether it ends a transaction.
    fn commits(&self) -> bool {
        number(self.bytes, 4) != 0
    }

    fn salts(&self) -> &[u8] {
        &self.bytes[8..16]
    }

    /// The checksum that it holds.
    fn sum(&self) -> Sum {
        Sum(number(self.bytes, 16), number(self.bytes, 20))
    }

    /// Whether its checksum continues an earlier one.
    fn follows(&self, sum: Sum) -> bool {
        // SQLite takes frames of page 0 for damaged ones.
        self.sum_after(sum) == self.sum() && number(self.bytes, 0) != 0
    }

    /// The checksum that it must hold after another.
    fn sum_after(&self, sum: Sum) -> Sum {
        sum.add(&self.bytes[..8], self.is_big_endian).add(&self.bytes[FRAME_HEADER..], self.is_big_endian)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;

    use super::{HEADER, Log, Rest, inspect};

    /// The length of a frame of a database with the smallest pages.
    const FRAME: usize = 512 + super::FRAME_HEADER;

    /// A log that SQLite wrote, and its length after each transaction. The file is read while the connection is open.
    fn log(path: &Path) -> (Vec<u8>, Vec<usize>) {
        let connection = Connection::open(path).unwrap();
        connection
            .execute_batch("PRAGMA page_size = 512; PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0")
            .unwrap();
        let log = path.with_extension("db-wal");
        let mut ends = Vec::new();
        let mut end = |sql: &str| {
            connection.execute_batch(sql).unwrap();
            ends.push(std::fs::metadata(&log).unwrap().len() as usize);
        };
        end("CREATE TABLE numbers (number INTEGER, text TEXT)");
        for size in [10, 1000, 100, 2000] {
            end(&format!("INSERT INTO numbers VALUES ({size}, '{}')", "x".repeat(size)));
        }
        (std::fs::read(&log).unwrap(), ends)
    }

    #[test]
    fn a_log_cut_anywhere_holds_the_transactions_that_end_before() {
        let folder = tempfile::tempdir().unwrap();
        let (bytes, ends) = log(&folder.path().join("test.db"));
        assert_eq!(inspect(&bytes), Log { transactions: 5, rest: Rest::Nothing });
        for length in HEADER..bytes.len() {
            let whole = ends.iter().filter(|&&end| end <= length).count();
            let committed = ends[..whole].last().copied().unwrap_or(HEADER);
            let (frames, rest) = ((length - committed) / FRAME, (length - committed) % FRAME);
            let rest = if length == committed { Rest::Nothing } else { Rest::Unfinished { frames, bytes: rest } };
            assert_eq!(inspect(&bytes[..length]), Log { transactions: whole, rest }, "{length} bytes");
        }
        for length in 1..HEADER {
            assert_eq!(inspect(&bytes[..length]).rest, Rest::Header, "{length} bytes");
        }
        assert_eq!(inspect(&[]).rest, Rest::Nothing);
    }

    #[test]
    fn a_flipped_byte_is_found_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let (mut bytes, ends) = log(&folder.path().join("test.db"));
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            let found = inspect(&bytes);
            bytes[at] ^= 0x10;
            let whole = ends.iter().filter(|&&end| end <= at).count();
            let frame = at.saturating_sub(HEADER) / FRAME + 1;
            match found.rest {
                Rest::Header => assert!(at < HEADER, "byte {at}"),
                Rest::Damaged { frame: named, .. } => {
                    assert_eq!((found.transactions, named), (whole, frame), "byte {at}")
                }
                // A damaged last transaction looks like one that was never finished.
                Rest::Unfinished { .. } | Rest::Nothing => {
                    assert_eq!((found.transactions, whole), (ends.len() - 1, ends.len() - 1), "byte {at}");
                }
            }
        }
    }

    #[test]
    fn frames_of_an_earlier_log_are_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE numbers (number INTEGER)").unwrap();
        for number in 0..20 {
            connection.execute("INSERT INTO numbers VALUES (?)", [number]).unwrap();
        }
        connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        connection.execute("INSERT INTO numbers VALUES (20)", []).unwrap();
        let bytes = std::fs::read(path.with_extension("db-wal")).unwrap();
        assert!(bytes.len() > 20 * 4096, "the log keeps its length: {}", bytes.len());
        assert_eq!(inspect(&bytes), Log { transactions: 1, rest: Rest::Nothing });
    }
}
