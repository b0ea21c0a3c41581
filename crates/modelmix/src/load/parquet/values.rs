//! Decodes the bytes of a page: levels, which say where lists begin and what is null, and floats in their encodings.
//! `strings` decodes texts.

use super::footer::{Chunk, Leaf};
use super::page::{Failure, Page, PageKind, Pages};
use super::runs::{Hybrid, Runs};
use super::thrift::Damage;
use crate::load::payload::Element;

/// A cell of a column: a value, or the reason why there is none.
pub(super) struct Cell<V> {
    /// Whether a row begins here.
    pub(super) first: bool,
    /// The value, or the definition level that says why there is none.
    pub(super) value: Result<V, u32>,
}

/// A type of values: how a page and a dictionary store them.
pub(super) trait Stored {
    /// A value, which may be part of the page or of the dictionary.
    type Value<'a>;
    /// The entries of a dictionary.
    type Dictionary;

    /// The entries of a dictionary page.
    fn dictionary(&self, page: Page) -> Result<Self::Dictionary, Damage>;

    /// A function that returns the values of a page, whose levels come before `bytes`, in order.
    fn values<'a>(
        &self,
        page: &'a Page,
        bytes: &'a [u8],
        dictionary: Option<&'a Self::Dictionary>,
    ) -> Result<impl FnMut() -> Result<Self::Value<'a>, Damage>, Damage>;
}

/// Reads a chunk cell by cell. `left` counts down how many more cells a file of this size may contain.
pub(super) fn cells<S: Stored, E: From<Failure>>(
    mut pages: Pages<'_>,
    (chunk, leaf, stored): (&Chunk, &Leaf, S),
    left: &mut u64,
    mut cell: impl FnMut(Cell<S::Value<'_>>) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |damage: Damage| E::from(Failure::Damage(damage));
    let mut dictionary = None;
    let mut seen = 0;
    while let Some(page) = pages.next(|header| {
        let counts = matches!(header.kind, PageKind::Data | PageKind::DataV2);
        seen += if counts { header.values } else { 0 };
        if seen > chunk.values {
            return Err("its pages hold more values than the footer claims");
        }
        if counts {
            *left =
                left.checked_sub(header.values).ok_or("it claims more values than a file of its size would hold")?;
        }
        Ok(())
    })? {
        if page.header.kind == PageKind::Other {
            continue;
        }
        if page.header.kind == PageKind::Dictionary {
            if dictionary.is_some() || seen > 0 {
                return Err(failed("a dictionary is out of place"));
            }
            dictionary = Some(stored.dictionary(page).map_err(failed)?);
            continue;
        }
        let (mut repetition, mut definition, at) = levels(&page, leaf).map_err(failed)?;
        let mut value = stored.values(&page, &page.bytes[at..], dictionary.as_ref()).map_err(failed)?;
        for _ in 0..page.header.values {
            let repeated = repetition.next(&page.bytes).map_err(failed)?;
            let defined = definition.next(&page.bytes).map_err(failed)?;
            let value = if defined == leaf.defined { Ok(value().map_err(failed)?) } else { Err(defined) };
            cell(Cell { first: repeated == 0, value })?;
        }
    }
    if seen == chunk.values { Ok(()) } else { Err(failed("its pages hold fewer values than the footer claims")) }
}

/// The repetition and definition levels of a page, and the position of its values.
pub(super) fn levels(page: &Page, leaf: &Leaf) -> Result<(Runs, Runs, usize), Damage> {
    let header = &page.header;
    let mut at = 0;
    let mut take = |length: u64| {
        let behind = usize::try_from(length).ok().and_then(|length| length.checked_add(at));
        let end = behind.filter(|&end| end <= page.bytes.len()).ok_or("a page's levels extend beyond it")?;
        Ok(std::mem::replace(&mut at, end)..end)
    };
    let mut level = |most: u32, version2: u64, encoding: u64| {
        let width = u32::BITS - most.leading_zeros();
        let place = match header.kind {
            PageKind::DataV2 => take(version2)?,
            _ if most == 0 => 0..0,
            _ if encoding != 3 => return Err("the levels use an obsolete encoding"),
            _ => {
                let length = page.bytes[take(4)?].try_into().map_or(0, u32::from_le_bytes);
                take(length.into())?
            }
        };
        Runs::new(place.start, place.end, width)
    };
    let repetition = level(leaf.repeated, header.level_bytes[1], header.level_encodings[1])?;
    let definition = level(leaf.defined, header.level_bytes[0], header.level_encodings[0])?;
    Ok((repetition, definition, at))
}

impl Stored for Element {
    type Value<'a> = f64;
    type Dictionary = Vec<f64>;

    fn dictionary(&self, page: Page) -> Result<Vec<f64>, Damage> {
        check_dictionary(&page)?;
        let entries = page.bytes.chunks_exact(self.size());
        if entries.len() as u64 != page.header.values || !entries.remainder().is_empty() {
            return Err("a dictionary does not have the size it claims");
        }
        Ok(entries.map(|bytes| self.value(bytes)).collect())
    }

    fn values<'a>(
        &self,
        page: &'a Page,
        bytes: &'a [u8],
        dictionary: Option<&'a Vec<f64>>,
    ) -> Result<impl FnMut() -> Result<f64, Damage>, Damage> {
        let mut values = Values::new(page, bytes, *self, dictionary.map(Vec::as_slice))?;
        Ok(move || values.next())
    }
}

/// Rejects dictionaries of an encoding that is not plain.
pub(super) fn check_dictionary(page: &Page) -> Result<(), Damage> {
    if matches!(page.header.encoding, 0 | 2) { Ok(()) } else { Err("a dictionary's encoding is not known") }
}

/// The indices of a page into its dictionary.
pub(super) fn indices(bytes: &[u8]) -> Result<Hybrid<'_>, Damage> {
    // If all values are null, there may be no bytes at all.
    let width = bytes.first().copied().unwrap_or(0);
    Ok(Hybrid::new(bytes, Runs::new(1, bytes.len(), width.into())?))
}

/// The floats of a page, in order.
enum Values<'a> {
    Plain {
        bytes: &'a [u8],
        element: Element,
    },
    /// All first bytes of the values, then all second bytes, and so on.
    Split {
        bytes: &'a [u8],
        element: Element,
        count: usize,
        at: usize,
    },
    Indices {
        indices: Hybrid<'a>,
        dictionary: &'a [f64],
    },
}

impl<'a> Values<'a> {
    fn new(page: &Page, bytes: &'a [u8], element: Element, dictionary: Option<&'a [f64]>) -> Result<Self, Damage> {
        match page.header.encoding {
            0 => Ok(Values::Plain { bytes, element }),
            2 | 8 => {
                let dictionary = dictionary.ok_or("a dictionary is missing")?;
                Ok(Values::Indices { indices: indices(bytes)?, dictionary })
            }
            9 => Ok(Values::Split { bytes, element, count: bytes.len() / element.size(), at: 0 }),
            _ => Err("its encoding is not PLAIN, RLE_DICTIONARY or BYTE_STREAM_SPLIT"),
        }
    }

    fn next(&mut self) -> Result<f64, Damage> {
        const TOO_SHORT: Damage = "a page has fewer values than it claims";
        match self {
            Values::Plain { bytes, element } => {
                let (value, rest) = bytes.split_at_checked(element.size()).ok_or(TOO_SHORT)?;
                *bytes = rest;
                Ok(element.value(value))
            }
            Values::Split { bytes, element, count, at } => {
                if *at == *count {
                    return Err(TOO_SHORT);
                }
                let mut value = [0; 8];
                let value = &mut value[..element.size()];
                for (byte, part) in value.iter_mut().zip(bytes.chunks_exact(*count)) {
                    *byte = part[*at];
                }
                *at += 1;
                Ok(element.value(value))
            }
            Values::Indices { indices, dictionary } => {
                let index = indices.next()? as usize;
                dictionary.get(index).copied().ok_or("a value is not in its dictionary")
            }
        }
    }
}
