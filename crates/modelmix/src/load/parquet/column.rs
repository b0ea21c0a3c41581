//! A column of a row group, read in steps: its levels are checked and its values decoded in bulk. Nulls are errors.
//! `values` reads columns cell by cell.

use std::collections::HashMap;

use super::footer::{Chunk, Leaf};
use super::page::{Failure, Page, PageKind, Pages};
use super::runs::{Piece, Runs};
use super::strings::{TOO_SHORT as TEXT_TOO_SHORT, deltas, plain};
use super::thrift::Damage;
use super::values::{check_dictionary, levels};
use crate::load::payload::Element;

/// The maximum number of values per step: they and their levels fit into a cache.
pub(super) const STEP_VALUES: usize = 1 << 16;

/// The maximum number of arms that a column names. A column of ids would name one per row.
const MAX_ARMS: usize = 1 << 16;

/// The maximum number of bytes of the name of an arm.
const LONGEST_NAME: usize = 1 << 10;

/// Why a step failed.
pub(super) enum StepFailure {
    Failed(Failure),
    /// There is no value at a position, counted from the first value of the step; its definition level says why.
    Null {
        at: usize,
        level: u32,
    },
}

impl From<Damage> for StepFailure {
    fn from(damage: Damage) -> Self {
        StepFailure::Failed(Failure::Damage(damage))
    }
}

/// The decoder of the values of a column.
pub(super) trait Decode {
    type Value;

    /// Takes the dictionary of the column.
    fn dictionary(&mut self, page: Page) -> Result<(), Damage>;

    /// Begins a page whose values start at a byte.
    fn begin(&mut self, page: &Page, at: usize) -> Result<(), Damage>;

    /// Appends the next `count` values of the page.
    fn decode(&mut self, page: &Page, count: usize, values: &mut Vec<Self::Value>) -> Result<(), Damage>;
}

/// A column of a row group, and the position in it.
pub(super) struct Column<'a, D> {
    pages: Pages<'a>,
    chunk: &'a Chunk,
    leaf: &'a Leaf,
    pub(super) decoder: D,
    /// The number of values of the pages so far.
    seen: u64,
    open: Option<Open>,
    /// Where rows begin in the last step, counted from its first value; empty if the column has no lists.
    pub(super) starts: Vec<usize>,
}

/// The page at the current position.
struct Open {
    page: Page,
    repetition: Runs,
    definition: Runs,
    /// The number of values that are left.
    left: u64,
}

impl<'a, D: Decode> Column<'a, D> {
    pub(super) fn new(pages: Pages<'a>, chunk: &'a Chunk, leaf: &'a Leaf, decoder: D) -> Self {
        Self { pages, chunk, leaf, decoder, seen: 0, open: None, starts: Vec::new() }
    }

    /// Appends at most `most` values, at least one unless the column has ended, and returns their number.
    pub(super) fn step(&mut self, most: usize, values: &mut Vec<D::Value>) -> Result<usize, StepFailure> {
        self.starts.clear();
        while self.open.as_ref().is_none_or(|open| open.left == 0) {
            if !self.next_page()? {
                return Ok(0);
            }
        }
        let Some(Open { page, repetition, definition, left }) = &mut self.open else { return Ok(0) };
        let count = usize::try_from(*left).unwrap_or(usize::MAX).min(most).min(STEP_VALUES);
        if self.leaf.repeated > 0 {
            repetition.zeros(&page.bytes, count, &mut self.starts)?;
        }
        if let Some((at, level)) = definition.first_other(&page.bytes, count, self.leaf.defined)? {
            return Err(StepFailure::Null { at, level });
        }
        values.try_reserve(count).map_err(|_| "its values do not fit into memory")?;
        self.decoder.decode(page, count, values)?;
        *left -= count as u64;
        Ok(count)
    }

    /// Appends the values of the next `rows` rows of a column without lists. The error says how many there were before.
    pub(super) fn rows(&mut self, rows: usize, values: &mut Vec<D::Value>) -> Result<(), (usize, StepFailure)> {
        let mut done = 0;
        while done < rows {
            match self.step(rows - done, values) {
                Ok(0) => return Err((done, "a row group does not have the rows that it claims".into())),
                Ok(count) => done += count,
                Err(failure) => return Err((done, failure)),
            }
        }
        Ok(())
    }

    /// Whether all values were read.
    pub(super) fn ended(&mut self, values: &mut Vec<D::Value>) -> Result<bool, StepFailure> {
        Ok(self.step(1, values)? == 0)
    }

    /// Opens the next page of values; `false` at the end.
    fn next_page(&mut self) -> Result<bool, StepFailure> {
        if let Some(Open { page, .. }) = self.open.take() {
            self.pages.recycle(page);
        }
        let (seen, claimed) = (&mut self.seen, self.chunk.values);
        let mut begun = *seen > 0;
        loop {
            let page = self.pages.next(|header| {
                let counts = matches!(header.kind, PageKind::Data | PageKind::DataV2);
                *seen = seen.saturating_add(if counts { header.values } else { 0 });
                if *seen > claimed { Err("its pages hold more values than the footer claims") } else { Ok(()) }
            });
            let Some(page) = page.map_err(StepFailure::Failed)? else { break };
            match page.header.kind {
                PageKind::Other => self.pages.recycle(page),
                PageKind::Dictionary if begun => return Err("a dictionary is out of place".into()),
                PageKind::Dictionary => {
                    self.decoder.dictionary(page)?;
                    begun = true;
                }
                PageKind::Data | PageKind::DataV2 => {
                    let (repetition, definition, at) = levels(&page, self.leaf)?;
                    self.decoder.begin(&page, at)?;
                    let left = page.header.values;
                    self.open = Some(Open { page, repetition, definition, left });
                    return Ok(true);
                }
            }
        }
        if self.seen == claimed { Ok(false) } else { Err("its pages hold fewer values than the footer claims".into()) }
    }
}

/// Where the values of a page are.
enum Place {
    /// In order; the next begins at a byte.
    Plain(usize),
    /// All first bytes of the values, then all second bytes, and so on: where they begin, and the next value.
    Split(usize, usize),
    /// In the dictionary.
    Indices(Runs),
}

/// Numbers as `f32` or `f64`.
pub(super) struct Numbers<T> {
    element: Element,
    convert: fn(Element, &[u8], &mut Vec<T>),
    dictionary: Option<Vec<T>>,
    place: Place,
    /// The bytes of values that are stored split.
    joined: Vec<u8>,
}

impl<T> Numbers<T> {
    pub(super) fn new(element: Element, convert: fn(Element, &[u8], &mut Vec<T>)) -> Self {
        Self { element, convert, dictionary: None, place: Place::Plain(0), joined: Vec::new() }
    }
}

impl<T: Copy> Decode for Numbers<T> {
    type Value = T;

    fn dictionary(&mut self, page: Page) -> Result<(), Damage> {
        check_dictionary(&page)?;
        let size = self.element.size();
        let count = page.bytes.len() / size;
        if count as u64 != page.header.values || !page.bytes.len().is_multiple_of(size) {
            return Err("a dictionary does not have the size it claims");
        }
        let mut entries = Vec::with_capacity(count);
        (self.convert)(self.element, &page.bytes, &mut entries);
        self.dictionary = Some(entries);
        Ok(())
    }

    fn begin(&mut self, page: &Page, at: usize) -> Result<(), Damage> {
        self.place = match page.header.encoding {
            0 => Place::Plain(at),
            2 | 8 if self.dictionary.is_some() => Place::Indices(indices(page, at)?),
            2 | 8 => return Err("a dictionary is missing"),
            9 => Place::Split(at, 0),
            _ => return Err("its encoding is not PLAIN, RLE_DICTIONARY or BYTE_STREAM_SPLIT"),
        };
        Ok(())
    }

    fn decode(&mut self, page: &Page, count: usize, values: &mut Vec<T>) -> Result<(), Damage> {
        const TOO_SHORT: Damage = "a page has fewer values than it claims";
        let size = self.element.size();
        match &mut self.place {
            Place::Plain(at) => {
                let bytes = page.bytes.get(*at..*at + count * size).ok_or(TOO_SHORT)?;
                (self.convert)(self.element, bytes, values);
                *at += count * size;
            }
            Place::Split(at, next) => {
                let bytes = &page.bytes[*at..];
                let stride = bytes.len() / size;
                if *next + count > stride {
                    return Err(TOO_SHORT);
                }
                self.joined.resize(count * size, 0);
                for (part, bytes) in bytes.chunks_exact(stride).take(size).enumerate() {
                    let joined = self.joined[part..].iter_mut().step_by(size);
                    joined.zip(&bytes[*next..*next + count]).for_each(|(to, from)| *to = *from);
                }
                (self.convert)(self.element, &self.joined, values);
                *next += count;
            }
            Place::Indices(runs) => look_up(runs, page, count, self.dictionary.as_deref(), values)?,
        }
        Ok(())
    }
}

/// The indices into a dictionary that start at a byte.
fn indices(page: &Page, at: usize) -> Result<Runs, Damage> {
    // If there are no values, there may be no bytes at all.
    let width = page.bytes.get(at).copied().unwrap_or(0);
    Runs::new(at + 1, page.bytes.len(), width.into())
}

/// Appends the entries that the next `count` indices name.
fn look_up<T: Copy>(
    runs: &mut Runs,
    page: &Page,
    count: usize,
    dictionary: Option<&[T]>,
    values: &mut Vec<T>,
) -> Result<(), Damage> {
    const UNKNOWN: Damage = "a value is not in its dictionary";
    let dictionary = dictionary.unwrap_or_default();
    runs.visit(&page.bytes, count, |piece| match piece {
        Piece::Repeated { count, value } => {
            let value = *dictionary.get(value as usize).ok_or(UNKNOWN)?;
            values.extend(std::iter::repeat_n(value, count));
            Ok(())
        }
        Piece::Packed(indices) => {
            let last = indices.iter().fold(0, |last, &index| last.max(index));
            if last as usize >= dictionary.len() {
                return Err(UNKNOWN);
            }
            values.extend(indices.iter().map(|&index| dictionary[index as usize]));
            Ok(())
        }
    })
}

/// Names of arms as indices into `names`.
#[derive(Default)]
pub(super) struct Names {
    /// The arms so far, in the order of their first appearance in a page or a dictionary.
    pub(super) names: Vec<String>,
    known: HashMap<String, usize>,
    dictionary: Option<Vec<usize>>,
    place: TextPlace,
}

/// Where the texts of a page are.
enum TextPlace {
    /// After their lengths; the next begins at a byte.
    Plain(usize),
    /// One after the other from a byte, with these lengths.
    Lengths(usize, std::vec::IntoIter<i64>),
    Indices(Runs),
}

impl Default for TextPlace {
    fn default() -> Self {
        TextPlace::Plain(0)
    }
}

impl Names {
    fn index(&mut self, bytes: &[u8]) -> Result<usize, Damage> {
        let name = str::from_utf8(bytes).map_err(|_| "the name of an arm is not UTF-8")?;
        if let Some(&index) = self.known.get(name) {
            return Ok(index);
        }
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err("the name of an arm is empty, has more than 1,024 bytes or is not printable");
        }
        if self.names.len() == MAX_ARMS {
            return Err("its texts name more than 65,536 arms");
        }
        let index = self.names.len();
        self.names.push(name.into());
        self.known.insert(name.into(), index);
        Ok(index)
    }
}

impl Decode for Names {
    type Value = usize;

    fn dictionary(&mut self, page: Page) -> Result<(), Damage> {
        check_dictionary(&page)?;
        let (mut entries, mut rest) = (Vec::new(), page.bytes.as_slice());
        while !rest.is_empty() {
            entries.push(self.index(plain(&mut rest)?)?);
        }
        if entries.len() as u64 != page.header.values {
            return Err("a dictionary does not have the size it claims");
        }
        self.dictionary = Some(entries);
        Ok(())
    }

    fn begin(&mut self, page: &Page, at: usize) -> Result<(), Damage> {
        self.place = match page.header.encoding {
            0 => TextPlace::Plain(at),
            2 | 8 if self.dictionary.is_some() => TextPlace::Indices(indices(page, at)?),
            2 | 8 => return Err("a dictionary is missing"),
            6 => {
                let (lengths, rest) = deltas(&page.bytes[at..], page.header.values)?;
                TextPlace::Lengths(page.bytes.len() - rest.len(), lengths.into_iter())
            }
            _ => return Err("its encoding is not PLAIN, RLE_DICTIONARY or DELTA_LENGTH_BYTE_ARRAY"),
        };
        Ok(())
    }

    fn decode(&mut self, page: &Page, count: usize, values: &mut Vec<usize>) -> Result<(), Damage> {
        match std::mem::take(&mut self.place) {
            TextPlace::Plain(at) => {
                let mut rest = &page.bytes[at..];
                for _ in 0..count {
                    values.push(self.index(plain(&mut rest)?)?);
                }
                self.place = TextPlace::Plain(page.bytes.len() - rest.len());
            }
            TextPlace::Lengths(mut at, mut lengths) => {
                for _ in 0..count {
                    let length = lengths.next().and_then(|length| usize::try_from(length).ok());
                    let end = length.and_then(|length| at.checked_add(length)).ok_or(TEXT_TOO_SHORT)?;
                    values.push(self.index(page.bytes.get(at..end).ok_or(TEXT_TOO_SHORT)?)?);
                    at = end;
                }
                self.place = TextPlace::Lengths(at, lengths);
            }
            TextPlace::Indices(mut runs) => {
                look_up(&mut runs, page, count, self.dictionary.as_deref(), values)?;
                self.place = TextPlace::Indices(runs);
            }
        }
        Ok(())
    }
}
