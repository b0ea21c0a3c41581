//! The journal of a run: its events as lines of JSON with chained checksums. This module defines only the line format; the
//! caller manages the file, flushing and locks.

use std::io::{BufRead, Write};
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Event;
use crate::error::{Error, Result};
use crate::policy::AnyPolicy;
use crate::version;

/// The format version that this release writes and reads. The checkpoints of modelmix 0.1 have version 1.
const FORMAT_VERSION: u32 = 2;

/// The first line of a journal, which describes the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The format version of the journal.
    journal: u32,
    /// The release that started the journal.
    pub modelmix: String,
    /// The caller's description of the run; a run is resumed only with the same description.
    pub run: String,
}

/// A later line: an event with an optional note of the caller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(serialize = "P: Serialize", deserialize = "P: DeserializeOwned"))]
#[non_exhaustive]
pub struct Entry<P = AnyPolicy> {
    /// The event.
    pub event: Event<P>,
    /// Any text of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Header {
    /// The header of a new journal.
    pub fn new(run: impl Into<String>) -> Self {
        Self { journal: FORMAT_VERSION, modelmix: version::VERSION.into(), run: run.into() }
    }
}

/// Writes a journal line by line.
///
/// ```
/// use modelmix::session::{Event, Header, JournalReader, JournalWriter};
/// let mut lines = Vec::new();
/// let mut writer = JournalWriter::start(&mut lines, &Header::new("a run"))?;
/// writer.append(&Event::<modelmix::policy::AnyPolicy>::Abandoned { pull: 0 }, Some("timed out"))?;
/// let mut reader: JournalReader<_> = JournalReader::new(lines.as_slice())?;
/// assert_eq!(reader.header().map(|header| header.run.as_str()), Some("a run"));
/// let entry = reader.next().expect("there is one")?;
/// assert_eq!(entry.note.as_deref(), Some("timed out"));
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Debug)]
pub struct JournalWriter<W> {
    writer: W,
    checksum: u32,
    /// Whether a line may be incomplete; reading would drop it and every line after it.
    is_torn: bool,
}

impl<W: Write> JournalWriter<W> {
    /// Starts a journal with its first line.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn start(writer: W, header: &Header) -> Result<Self> {
        let mut journal = Self { writer, checksum: 0, is_torn: false };
        journal.line(header)?;
        Ok(journal)
    }

    /// Resumes a journal whose complete lines were read. The writer must be positioned after the last of them
    /// ([`JournalReader::whole_lines_len`] bytes), and `checksum` is that of the reader.
    pub fn resume(writer: W, checksum: u32) -> Self {
        Self { writer, checksum, is_torn: false }
    }

    /// Appends a line, and flushes it to the writer. Whether it is then on disk depends on the writer.
    ///
    /// # Errors
    /// Errors of the writer. The journal may then end with an incomplete line, which reading drops, so every later append fails
    /// too: read the journal again, truncate it after its complete lines, and resume.
    pub fn append<P: Serialize>(&mut self, event: &Event<P>, note: Option<&str>) -> Result<()> {
        #[derive(Serialize)]
        struct Line<'a, P> {
            event: &'a Event<P>,
            #[serde(skip_serializing_if = "Option::is_none")]
            note: Option<&'a str>,
        }
        self.line(&Line { event, note })
    }

    fn line(&mut self, record: &impl Serialize) -> Result<()> {
        let failed = |error: &dyn std::fmt::Display| Error::Journal { problem: format!("cannot be written: {error}") };
        let text = serde_json::to_string(record).map_err(|error| failed(&error))?;
        let checksum = crc32(self.checksum, text.as_bytes());
        // The checksum of this line and all before it is its last field.
        let line = format!("{},\"crc\":{checksum}}}\n", &text[..text.len() - 1]);
        if self.is_torn {
            return Err(failed(
                &"an earlier line is incomplete; read the journal again and resume after its complete lines",
            ));
        }
        self.is_torn = true;
        self.writer.write_all(line.as_bytes()).and_then(|()| self.writer.flush()).map_err(|error| failed(&error))?;
        self.is_torn = false;
        self.checksum = checksum;
        Ok(())
    }

    /// The underlying writer.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.writer
    }
}

/// Reads a journal line by line. An incomplete last line, as after a crash, is dropped; any other damage is an error that names
/// the line.
#[derive(Debug)]
pub struct JournalReader<R, P = AnyPolicy> {
    reader: R,
    header: Option<Header>,
    number: usize,
    whole: u64,
    checksum: u32,
    failed: bool,
    policy: PhantomData<P>,
}

impl<R: BufRead, P: DeserializeOwned> JournalReader<R, P> {
    /// Reads the first line.
    ///
    /// # Errors
    /// A file that is not a journal, one of another format version, or a damaged first line.
    pub fn new(reader: R) -> Result<Self> {
        let (number, whole, checksum, failed) = (0, 0, 0, false);
        let mut journal = Self { reader, header: None, number, whole, checksum, failed, policy: PhantomData };
        let Some(line) = journal.whole_line()? else { return Ok(journal) };
        let refuse = |problem: String| Err(Error::Journal { problem });
        if let Ok(old) = serde_json::from_str::<OldHeader>(&line) {
            let Some(version) = old.journal.or(old.checkpoint) else {
                return refuse("is not a journal: its first line is not a journal header; name another file".into());
            };
            if version != FORMAT_VERSION {
                let release = old.modelmix.unwrap_or_else(|| "another release".into());
                return refuse(format!(
                    "was written by modelmix {release} in format version {version}, but this release reads version {FORMAT_VERSION}; continue with that release"
                ));
            }
        }
        match journal.read::<Header>(&line) {
            Ok(header) => journal.header = Some(header),
            Err(problem) => return Err(damaged(1, &problem)),
        }
        Ok(journal)
    }

    /// The first line; `None` if it is missing or incomplete, as for a run that ended before it began.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Bytes of the complete lines read so far. Once all are read, any bytes after them are an incomplete line; truncate it.
    pub fn whole_lines_len(&self) -> u64 {
        self.whole
    }

    /// The checksum of the lines read so far, for [`JournalWriter::resume`].
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// The number of the last line read, counted from 1.
    pub fn line(&self) -> usize {
        self.number
    }

    fn whole_line(&mut self) -> Result<Option<String>> {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line);
        read.map_err(|error| Error::Journal { problem: format!("cannot be read: {error}") })?;
        if line.pop() != Some(b'\n') {
            return Ok(None);
        }
        self.number += 1;
        let number = self.number;
        String::from_utf8(line).map(Some).map_err(|_| damaged(number, "it is not text"))
    }

    /// Reads a line, and counts it as read if it is complete.
    fn read<T: DeserializeOwned>(&mut self, line: &str) -> Result<T, String> {
        let Some((record, checksum)) = line.strip_suffix('}').and_then(|line| line.rsplit_once(",\"crc\":")) else {
            return Err("it has no checksum".into());
        };
        let record = format!("{record}}}");
        let expected = crc32(self.checksum, record.as_bytes());
        if checksum.parse() != Ok(expected) {
            return Err("its checksum does not match this line and all before it".into());
        }
        let value = serde_json::from_str(&record).map_err(|error| error.to_string())?;
        self.checksum = expected;
        self.whole += line.len() as u64 + 1;
        Ok(value)
    }
}

/// The fields common to all format versions of the first line.
#[derive(Deserialize)]
struct OldHeader {
    journal: Option<u32>,
    checkpoint: Option<u32>,
    modelmix: Option<String>,
}

fn damaged(number: usize, problem: &str) -> Error {
    let problem = if number == 1 {
        format!("is not a journal, or its first line is damaged ({problem}); name another file")
    } else {
        format!(
            "is damaged at line {number} ({problem}); delete that line and all after it to continue from there, or name another file"
        )
    };
    Error::Journal { problem }
}

impl<R: BufRead, P: DeserializeOwned> Iterator for JournalReader<R, P> {
    type Item = Result<Entry<P>>;

    /// The next event; `None` after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.header.is_none() {
            return None;
        }
        let result = match self.whole_line() {
            Ok(None) => return None,
            Ok(Some(line)) => self.read(&line).map_err(|problem| damaged(self.number, &problem)),
            Err(error) => Err(error),
        };
        self.failed = result.is_err();
        Some(result)
    }
}

/// Updates a CRC-32 (IEEE 802.3) with these bytes, as zlib does.
fn crc32(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::crc32;

    /// Values of Python's `zlib.crc32`.
    #[test]
    fn checksums_are_those_of_zlib() {
        assert_eq!(crc32(0, b""), 0);
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(crc32(0, b"1234"), b"56789"), 0xcbf4_3926);
        assert_eq!(crc32(7, b"modelmix"), 1_079_956_303);
    }
}
