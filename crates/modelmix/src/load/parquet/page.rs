//! The pages of a column: their headers and decompressed bytes. No more memory is allocated than data arrives.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::footer::Chunk;
use super::thrift::{Compact, Damage};

/// The number of bytes read to find a page header; headers of floats take about a hundred.
const USUAL_HEADER: u64 = 1 << 14;

/// The number of bytes read if that was not enough: headers of texts may have the least and the greatest text.
const LONGEST_HEADER: u64 = 1 << 20;

/// The maximum size of a page. Writers make pages of about a megabyte, some of up to a hundred.
const LARGEST_PAGE: u64 = 128 << 20;

/// A page of values or of a dictionary.
pub(super) struct Page {
    pub(super) header: Header,
    /// The decompressed bytes: levels and values.
    pub(super) bytes: Vec<u8>,
}

/// The header of a page.
#[derive(Default)]
pub(super) struct Header {
    pub(super) kind: PageKind,
    unpacked: u64,
    packed: u64,
    pub(super) values: u64,
    pub(super) encoding: u64,
    /// The encodings of the levels, in pages of version 1.
    pub(super) level_encodings: [u64; 2],
    /// The number of bytes of the definition and repetition levels, in pages of version 2.
    pub(super) level_bytes: [u64; 2],
    compressed: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum PageKind {
    #[default]
    Data,
    Dictionary,
    DataV2,
    /// An index, which is skipped.
    Other,
}

/// Reading failed: an error of the operating system, or invalid bytes.
pub(super) enum Failure {
    Io(std::io::Error),
    Damage(Damage),
}

impl From<Damage> for Failure {
    fn from(damage: Damage) -> Self {
        Failure::Damage(damage)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Io(error)
    }
}

/// The pages of a chunk, in order.
pub(super) struct Pages<'a> {
    file: &'a File,
    codec: u64,
    at: u64,
    end: u64,
    /// Memory of earlier pages, for the next ones.
    spare: Vec<Vec<u8>>,
}

impl<'a> Pages<'a> {
    pub(super) fn new(file: &'a File, chunk: &Chunk) -> Self {
        Self { file, codec: chunk.codec, at: chunk.start, end: chunk.start + chunk.length, spare: Vec::new() }
    }

    /// Takes back a page that is no longer used, for its memory.
    pub(super) fn recycle(&mut self, page: Page) {
        self.spare.push(page.bytes);
    }

    /// The next page; `allow` checks whether as many values may be read as its header claims.
    pub(super) fn next(&mut self, allow: impl FnOnce(&Header) -> Result<(), Damage>) -> Result<Option<Page>, Failure> {
        if self.at == self.end {
            return Ok(None);
        }
        let header = match self.header(USUAL_HEADER) {
            Err(Failure::Damage(_)) if self.end - self.at > USUAL_HEADER => self.header(LONGEST_HEADER)?,
            header => header?,
        };
        if header.packed > self.end - self.at {
            return Err("a page extends beyond its column".into());
        }
        if header.unpacked > LARGEST_PAGE {
            return Err("a page claims more than 128 MiB, but smaller ones are needed".into());
        }
        allow(&header)?;
        let packed = self.bytes(header.packed)?;
        self.at += header.packed;
        let bytes = self.unpack(packed, &header)?;
        Ok(Some(Page { header, bytes }))
    }

    /// Reads the header at the current position, which has at most `longest` bytes, and moves behind it.
    fn header(&mut self, longest: u64) -> Result<Header, Failure> {
        let head = self.bytes((self.end - self.at).min(longest))?;
        let mut reader = Compact::new(&head);
        let header = header(&mut reader)?;
        self.at += reader.at as u64;
        self.spare.push(head);
        Ok(header)
    }

    fn bytes(&mut self, count: u64) -> Result<Vec<u8>, Failure> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.try_reserve_exact(count as usize).map_err(|_| "a page does not fit into memory")?;
        file.take(count).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == count { Ok(bytes) } else { Err("the file became shorter".into()) }
    }

    /// Decompresses the bytes after the levels; in version 1 the levels are compressed too.
    fn unpack(&mut self, packed: Vec<u8>, header: &Header) -> Result<Vec<u8>, Failure> {
        let levels = if header.kind == PageKind::DataV2 { header.level_bytes[0] + header.level_bytes[1] } else { 0 };
        if levels > header.unpacked.min(packed.len() as u64) {
            return Err("a page's levels extend beyond it".into());
        }
        if self.codec == 0 || !header.compressed || header.kind == PageKind::Other {
            let whole = packed.len() as u64 == header.unpacked || header.kind == PageKind::Other;
            return if whole { Ok(packed) } else { Err("a page does not have the size it claims".into()) };
        }
        let (levels, rest) = packed.split_at(levels as usize);
        let mut bytes = self.spare.pop().unwrap_or_default();
        let claimed = header.unpacked as usize - levels.len();
        if claimed > 0 {
            decompress(self.codec, rest, (levels, claimed), &mut bytes)?;
        } else {
            bytes.clear();
            bytes.extend_from_slice(levels);
        }
        self.spare.push(packed);
        let whole = bytes.len() as u64 == header.unpacked;
        if whole { Ok(bytes) } else { Err("a page does not have the size it claims".into()) }
    }
}

/// Replaces `bytes` by `levels` and the decompressed bytes of `packed`, which should be `claimed` bytes; one byte more is
/// an error.
fn decompress(codec: u64, packed: &[u8], (levels, claimed): (&[u8], usize), bytes: &mut Vec<u8>) -> Result<(), Damage> {
    const DAMAGED: Damage = "a page cannot be decompressed";
    let most = claimed as u64 + 1;
    // A block cannot be read in parts, but its expansion is limited: 64 bytes from 3 in Snappy, 255 from 1 in LZ4.
    let block = |bytes: &mut Vec<u8>, expansion: usize| {
        if claimed / expansion > packed.len() {
            return Err(DAMAGED);
        }
        // What earlier pages left there is overwritten, so it is not cleared.
        bytes.resize(levels.len() + claimed, 0);
        bytes[..levels.len()].copy_from_slice(levels);
        Ok(())
    };
    match codec {
        1 => {
            block(bytes, 22)?;
            let written = snap::raw::decompress_len(packed).ok().filter(|&length| length == claimed);
            written.ok_or(DAMAGED)?;
            snap::raw::Decoder::new().decompress(packed, &mut bytes[levels.len()..]).map_err(|_| DAMAGED)?;
        }
        2 | 6 => {
            bytes.clear();
            bytes.extend_from_slice(levels);
            if codec == 2 {
                flate2::read::MultiGzDecoder::new(packed).take(most).read_to_end(bytes).map_err(|_| DAMAGED)?;
            } else {
                let frame = ruzstd::decoding::StreamingDecoder::new(packed).map_err(|_| DAMAGED)?;
                frame.take(most).read_to_end(bytes).map_err(|_| DAMAGED)?;
            }
        }
        7 => {
            block(bytes, 255)?;
            let written = lz4_flex::block::decompress_into(packed, &mut bytes[levels.len()..]).map_err(|_| DAMAGED)?;
            bytes.truncate(levels.len() + written);
        }
        _ => return Err("its compression is not Snappy, gzip, Zstandard or LZ4_RAW"),
    }
    Ok(())
}

fn header(reader: &mut Compact<'_>) -> Result<Header, Damage> {
    let mut header = Header { compressed: true, ..Header::default() };
    let mut described = None;
    reader.fields(|reader, id, kind| {
        match id {
            1 => {
                header.kind = match reader.natural(kind)? {
                    0 => PageKind::Data,
                    2 => PageKind::Dictionary,
                    3 => PageKind::DataV2,
                    _ => PageKind::Other,
                }
            }
            2 => header.unpacked = reader.natural(kind)?,
            3 => header.packed = reader.natural(kind)?,
            5 => {
                described = Some(PageKind::Data);
                reader.structure(kind, |reader, id, kind| {
                    match id {
                        1 => header.values = reader.natural(kind)?,
                        2 => header.encoding = reader.natural(kind)?,
                        3 => header.level_encodings[0] = reader.natural(kind)?,
                        4 => header.level_encodings[1] = reader.natural(kind)?,
                        _ => reader.skip(kind)?,
                    }
                    Ok(())
                })?;
            }
            7 => {
                described = Some(PageKind::Dictionary);
                reader.structure(kind, |reader, id, kind| {
                    match id {
                        1 => header.values = reader.natural(kind)?,
                        2 => header.encoding = reader.natural(kind)?,
                        _ => reader.skip(kind)?,
                    }
                    Ok(())
                })?;
            }
            8 => {
                described = Some(PageKind::DataV2);
                reader.structure(kind, |reader, id, kind| {
                    match id {
                        1 => header.values = reader.natural(kind)?,
                        4 => header.encoding = reader.natural(kind)?,
                        5 => header.level_bytes[0] = reader.natural(kind)?,
                        6 => header.level_bytes[1] = reader.natural(kind)?,
                        7 => header.compressed = reader.truth(kind)?,
                        _ => reader.skip(kind)?,
                    }
                    Ok(())
                })?;
            }
            _ => reader.skip(kind)?,
        }
        Ok(())
    })?;
    // Sums of 32-bit numbers cannot overflow 64 bits, but those of 64-bit numbers can.
    let small = header.level_bytes.iter().all(|&bytes| bytes <= LARGEST_PAGE);
    match (small, header.kind, described) {
        (true, PageKind::Other, _) => Ok(header),
        (true, kind, Some(described)) if kind == described => Ok(header),
        _ => Err("a page's header contradicts itself"),
    }
}
