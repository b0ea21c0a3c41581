//! The pages of a column: their headers, and their bytes decompressed, with no more memory taken than arrives.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::footer::Chunk;
use super::thrift::{Compact, Damage};

/// Bytes read to find a page's header; those of floats take about a hundred.
const LONGEST_HEADER: u64 = 1 << 14;

/// Writers make pages of about a megabyte, some of up to a hundred.
const LARGEST_PAGE: u64 = 128 << 20;

/// A page of values or of a dictionary.
pub(super) struct Page {
    pub(super) header: Header,
    /// The bytes: levels and values, decompressed.
    pub(super) bytes: Vec<u8>,
}

/// What a page says of itself.
#[derive(Default)]
pub(super) struct Header {
    pub(super) kind: PageKind,
    unpacked: u64,
    packed: u64,
    pub(super) values: u64,
    pub(super) encoding: u64,
    /// Of the levels, in pages of the first version.
    pub(super) level_encodings: [u64; 2],
    /// The bytes of the definition and of the repetition levels, in pages of the second version.
    pub(super) level_bytes: [u64; 2],
    compressed: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum PageKind {
    #[default]
    Data,
    Dictionary,
    DataV2,
    /// An index, which is passed over.
    Other,
}

/// Reading failed: the system said so, or the bytes are wrong.
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

/// The pages of a chunk, one after another.
pub(super) struct Pages<'a> {
    file: &'a File,
    codec: u64,
    at: u64,
    end: u64,
}

impl<'a> Pages<'a> {
    pub(super) fn new(file: &'a File, chunk: &Chunk) -> Self {
        Self { file, codec: chunk.codec, at: chunk.start, end: chunk.start + chunk.length }
    }

    /// The next page; `allow` says whether as many values may be read as its header claims.
    pub(super) fn next(&mut self, allow: impl FnOnce(&Header) -> Result<(), Damage>) -> Result<Option<Page>, Failure> {
        if self.at == self.end {
            return Ok(None);
        }
        let head = self.bytes((self.end - self.at).min(LONGEST_HEADER))?;
        let mut reader = Compact::new(&head);
        let header = header(&mut reader)?;
        self.at += reader.at as u64;
        if header.packed > self.end - self.at {
            return Err("a page reaches behind its column".into());
        }
        if header.unpacked > LARGEST_PAGE {
            return Err("a page claims more than 128 MiB, and smaller ones are needed".into());
        }
        allow(&header)?;
        let packed = self.bytes(header.packed)?;
        self.at += header.packed;
        let bytes = self.unpack(packed, &header)?;
        Ok(Some(Page { header, bytes }))
    }

    fn bytes(&self, count: u64) -> Result<Vec<u8>, Failure> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(count as usize).map_err(|_| "a page does not fit into memory")?;
        file.take(count).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == count { Ok(bytes) } else { Err("the file became shorter".into()) }
    }

    /// Decompresses what follows the levels; in the first version these are compressed too.
    fn unpack(&self, packed: Vec<u8>, header: &Header) -> Result<Vec<u8>, Failure> {
        let levels = if header.kind == PageKind::DataV2 { header.level_bytes[0] + header.level_bytes[1] } else { 0 };
        if levels > header.unpacked.min(packed.len() as u64) {
            return Err("a page's levels reach behind it".into());
        }
        if self.codec == 0 || !header.compressed || header.kind == PageKind::Other {
            let whole = packed.len() as u64 == header.unpacked || header.kind == PageKind::Other;
            return if whole { Ok(packed) } else { Err("a page does not have the size it claims".into()) };
        }
        let (levels, rest) = packed.split_at(levels as usize);
        let mut bytes = levels.to_vec();
        let claimed = header.unpacked as usize - levels.len();
        if claimed > 0 {
            decompress(self.codec, rest, claimed, &mut bytes)?;
        }
        let whole = bytes.len() as u64 == header.unpacked;
        if whole { Ok(bytes) } else { Err("a page does not have the size it claims".into()) }
    }
}

/// Appends what `packed` becomes, which should be `claimed` bytes; a byte more ends it.
fn decompress(codec: u64, packed: &[u8], claimed: usize, bytes: &mut Vec<u8>) -> Result<(), Damage> {
    const DAMAGED: Damage = "a page cannot be decompressed";
    let most = claimed as u64 + 1;
    // A block has no way to be read in parts, but can only become so many times larger: 64 bytes from 3 in Snappy, 255
    // from 1 in LZ4.
    let block = |expansion: usize| {
        if claimed / expansion > packed.len() { Err(DAMAGED) } else { Ok(vec![0; claimed]) }
    };
    match codec {
        1 => {
            let mut block = block(22)?;
            let written = snap::raw::decompress_len(packed).ok().filter(|&length| length == claimed);
            written.ok_or(DAMAGED)?;
            snap::raw::Decoder::new().decompress(packed, &mut block).map_err(|_| DAMAGED)?;
            bytes.extend_from_slice(&block);
        }
        2 => {
            flate2::read::MultiGzDecoder::new(packed).take(most).read_to_end(bytes).map_err(|_| DAMAGED)?;
        }
        6 => {
            let frame = ruzstd::decoding::StreamingDecoder::new(packed).map_err(|_| DAMAGED)?;
            frame.take(most).read_to_end(bytes).map_err(|_| DAMAGED)?;
        }
        7 => {
            let mut block = block(255)?;
            let written = lz4_flex::block::decompress_into(packed, &mut block).map_err(|_| DAMAGED)?;
            bytes.extend_from_slice(&block[..written]);
        }
        _ => return Err("its compression is none of Snappy, gzip, Zstandard and LZ4_RAW"),
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
    // Numbers of 32 bits have no way to add up to more than 64, but those of 64 do.
    let small = header.level_bytes.iter().all(|&bytes| bytes <= LARGEST_PAGE);
    match (small, header.kind, described) {
        (true, PageKind::Other, _) => Ok(header),
        (true, kind, Some(described)) if kind == described => Ok(header),
        _ => Err("a page's header contradicts itself"),
    }
}
