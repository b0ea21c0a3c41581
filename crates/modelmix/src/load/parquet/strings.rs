//! Columns of texts: byte arrays, plain, in a dictionary, or with their lengths apart.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::footer::Footer;
use super::page::{Failure, Page, Pages};
use super::thrift::Damage;
use super::values::{Cell, Stored, cells, check_dictionary, indices};
use super::{MAX_VALUES_OF_ANY_FILE, MAX_VALUES_PER_BYTE, ReadFailure, read_footer};
use crate::error::Result;
use crate::load::payload::Origin;
use crate::load::{one_line, open};

pub(super) const TOO_SHORT: Damage = "a page has fewer values than it claims";

/// A `.parquet` file with columns of texts.
pub struct TextTable {
    path: PathBuf,
    file: std::fs::File,
    length: u64,
    footer: Footer,
}

impl TextTable {
    /// Opens a file and reads its footer.
    ///
    /// # Errors
    /// If the file cannot be read or is not a Parquet file.
    pub fn open(path: &Path) -> Result<Self> {
        let (file, length) = open(path, ".parquet")?;
        let footer = read_footer(&file, length, &Origin { path, array: None })?;
        Ok(Self { path: path.into(), file, length, footer })
    }

    /// The names of all columns, each with whether it is a column of texts.
    pub fn columns(&self) -> Vec<(&str, bool)> {
        let mut columns: Vec<(&str, bool)> = Vec::new();
        let mut last = None;
        // Leaves of one column are adjacent.
        for leaf in &self.footer.leaves {
            if last != Some(leaf.top) {
                columns.push((&leaf.column, leaf.is_text()));
            }
            last = Some(leaf.top);
        }
        columns
    }

    /// Passes the texts of a column to `each`, in the order of the rows.
    ///
    /// # Errors
    /// If there is no column of texts with this name, a row is null or not UTF-8, the column cannot be read, or `each`
    /// fails.
    pub fn read(&self, column: &str, mut each: impl FnMut(&str) -> Result<()>) -> Result<()> {
        let origin = Origin { path: &self.path, array: None };
        let is_it = |leaf: &super::Leaf| leaf.column == column && leaf.is_text();
        let Some(index) = self.footer.leaves.iter().position(is_it) else {
            return Err(origin.file(format!("there is no column of texts named {column:?}; give the name of one")));
        };
        let leaf = &self.footer.leaves[index];
        let mut left = MAX_VALUES_OF_ANY_FILE.max(self.length.saturating_mul(MAX_VALUES_PER_BYTE));
        let mut row = 0_u64;
        let wrong = |row: u64, what: &str| {
            let column = one_line(column);
            ReadFailure::Said(origin.file(format!("row {row} (counted from 0) of column {column} is {what}")))
        };
        let mut read = || {
            for group in &self.footer.groups {
                let chunk = &group.chunks[index];
                let before = row;
                let text = |Cell { value, .. }: Cell<&[u8]>| {
                    let bytes = value.map_err(|_| wrong(row, "null; drop the row or fill the null"))?;
                    let text = str::from_utf8(bytes).map_err(|_| wrong(row, "not UTF-8; save texts as UTF-8"))?;
                    row += 1;
                    each(text).map_err(ReadFailure::Said)
                };
                cells(Pages::new(&self.file, chunk), (chunk, leaf, ByteArrays), &mut left, text)?;
                if row - before != group.rows {
                    let damage = "a row group does not have the rows that it claims";
                    return Err(ReadFailure::Failed(Failure::Damage(damage)));
                }
            }
            Ok(())
        };
        read().map_err(|failure: ReadFailure| failure.into_error(&origin))
    }
}

/// Strings of bytes of any length.
struct ByteArrays;

/// The bytes of a dictionary page, and where each entry is.
struct Entries {
    page: Page,
    places: Vec<Range<usize>>,
}

impl Stored for ByteArrays {
    type Value<'a> = &'a [u8];
    type Dictionary = Entries;

    fn dictionary(&self, page: Page) -> Result<Entries, Damage> {
        check_dictionary(&page)?;
        let mut places = Vec::new();
        let mut rest = page.bytes.as_slice();
        while !rest.is_empty() {
            let entry = plain(&mut rest)?;
            let end = page.bytes.len() - rest.len();
            places.push(end - entry.len()..end);
        }
        if places.len() as u64 != page.header.values {
            return Err("a dictionary does not have the size it claims");
        }
        Ok(Entries { page, places })
    }

    fn values<'a>(
        &self,
        page: &'a Page,
        bytes: &'a [u8],
        dictionary: Option<&'a Entries>,
    ) -> Result<impl FnMut() -> Result<&'a [u8], Damage>, Damage> {
        let mut values = match page.header.encoding {
            0 => Values::Plain(bytes),
            2 | 8 => Values::Indices(indices(bytes)?, dictionary.ok_or("a dictionary is missing")?),
            6 => {
                let (lengths, bytes) = deltas(bytes, page.header.values)?;
                Values::Lengths(lengths.into_iter(), bytes)
            }
            _ => return Err("its encoding is not PLAIN, RLE_DICTIONARY or DELTA_LENGTH_BYTE_ARRAY"),
        };
        Ok(move || values.next())
    }
}

/// The byte strings of a page, in order.
enum Values<'a> {
    Plain(&'a [u8]),
    Indices(super::runs::Hybrid<'a>, &'a Entries),
    /// The lengths of those that are left, and their bytes one after the other.
    Lengths(std::vec::IntoIter<i64>, &'a [u8]),
}

impl<'a> Values<'a> {
    fn next(&mut self) -> Result<&'a [u8], Damage> {
        match self {
            Values::Plain(rest) => plain(rest),
            Values::Indices(indices, entries) => {
                let place = entries.places.get(indices.next()? as usize).ok_or("a value is not in its dictionary")?;
                Ok(&entries.page.bytes[place.clone()])
            }
            Values::Lengths(lengths, rest) => {
                let length = usize::try_from(lengths.next().ok_or(TOO_SHORT)?).map_err(|_| "a length is negative")?;
                let (value, behind) = rest.split_at_checked(length).ok_or(TOO_SHORT)?;
                *rest = behind;
                Ok(value)
            }
        }
    }
}

/// Takes a byte string that comes after its length.
pub(super) fn plain<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Damage> {
    let (length, behind) = rest.split_first_chunk().ok_or(TOO_SHORT)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| TOO_SHORT)?;
    let (value, behind) = behind.split_at_checked(length).ok_or(TOO_SHORT)?;
    *rest = behind;
    Ok(value)
}

/// Numbers in blocks of packed differences (DELTA_BINARY_PACKED), at most `most` of them, and the bytes behind them.
pub(super) fn deltas(bytes: &[u8], most: u64) -> Result<(Vec<i64>, &[u8]), Damage> {
    let mut rest = bytes;
    let varint = |rest: &mut &[u8]| -> Result<u64, Damage> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, behind) = rest.split_first().ok_or(TOO_SHORT)?;
            *rest = behind;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number is too long")
    };
    let zigzag = |value: u64| (value >> 1) as i64 ^ -((value & 1) as i64);
    let block = varint(&mut rest)?;
    let parts = varint(&mut rest)?;
    let count = varint(&mut rest)?;
    let mut value = zigzag(varint(&mut rest)?);
    // Blocks are multiples of 128 values, and their parts multiples of 32.
    if parts == 0 || block == 0 || block > 1 << 16 || block % parts != 0 || (block / parts) % 32 != 0 {
        return Err("lengths are packed in blocks of an unknown size");
    }
    if count > most {
        return Err("a page has more lengths than values");
    }
    let mut values = Vec::new();
    if count > 0 {
        values.push(value);
    }
    while (values.len() as u64) < count {
        let least = zigzag(varint(&mut rest)?);
        let (widths, behind) = rest.split_at_checked(parts as usize).ok_or(TOO_SHORT)?;
        rest = behind;
        for &width in widths {
            // Parts behind the last value have no bytes.
            if values.len() as u64 == count {
                break;
            }
            if width > 64 {
                return Err("a page packs its values too widely");
            }
            let size = (block / parts) as usize / 8 * usize::from(width);
            let (packed, behind) = rest.split_at_checked(size).ok_or(TOO_SHORT)?;
            rest = behind;
            for index in 0..(block / parts) as usize {
                if values.len() as u64 == count {
                    break;
                }
                value = value.wrapping_add(least).wrapping_add(bits(packed, index * usize::from(width), width));
                values.push(value);
            }
        }
    }
    Ok((values, rest))
}

/// The number of `width` bits that begins at a bit of `packed`, least significant bit first.
fn bits(packed: &[u8], from: usize, width: u8) -> i64 {
    (0..usize::from(width)).fold(0_u64, |number, bit| {
        let at = from + bit;
        number | u64::from(packed[at / 8] >> (at % 8) & 1) << bit
    }) as i64
}
