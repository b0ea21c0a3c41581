//! Decodes the bytes of a page: levels, which say where lists begin and what is null, and floats in their encodings.
//! `strings` decodes texts.

use super::footer::{Chunk, Leaf};
use super::page::{Failure, Page, PageKind, Pages};
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
        let (mut repetition, mut definition, bytes) = levels(&page, leaf).map_err(failed)?;
        let mut value = stored.values(&page, bytes, dictionary.as_ref()).map_err(failed)?;
        for _ in 0..page.header.values {
            let repeated = repetition.next().map_err(failed)?;
            let defined = definition.next().map_err(failed)?;
            let value = if defined == leaf.defined { Ok(value().map_err(failed)?) } else { Err(defined) };
            cell(Cell { first: repeated == 0, value })?;
        }
    }
    if seen == chunk.values { Ok(()) } else { Err(failed("its pages hold fewer values than the footer claims")) }
}

/// The repetition and definition levels of a page, and the bytes of its values.
fn levels<'a>(page: &'a Page, leaf: &Leaf) -> Result<(Hybrid<'a>, Hybrid<'a>, &'a [u8]), Damage> {
    let header = &page.header;
    let mut rest = page.bytes.as_slice();
    let mut take = |length: usize| {
        let (taken, behind) = rest.split_at_checked(length).ok_or("a page's levels extend beyond it")?;
        rest = behind;
        Ok(taken)
    };
    let mut level = |most: u32, version2: u64, encoding: u64| {
        let width = u32::BITS - most.leading_zeros();
        let bytes = match header.kind {
            PageKind::DataV2 => take(version2 as usize)?,
            _ if most == 0 => &[],
            _ if encoding != 3 => return Err("the levels use an obsolete encoding"),
            _ => {
                let length = take(4)?.try_into().map_or(0, u32::from_le_bytes);
                take(length as usize)?
            }
        };
        Hybrid::new(bytes, width)
    };
    let repetition = level(leaf.repeated, header.level_bytes[1], header.level_encodings[1])?;
    let definition = level(leaf.defined, header.level_bytes[0], header.level_encodings[0])?;
    Ok((repetition, definition, rest))
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
    let (&width, indices) = bytes.split_first().unwrap_or((&0, &[]));
    Hybrid::new(indices, width.into())
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

/// Small numbers of `width` bits in runs: repeated, or packed side by side (RLE/bit-packing hybrid).
pub(super) struct Hybrid<'a> {
    bytes: &'a [u8],
    width: u32,
    run: Run<'a>,
}

enum Run<'a> {
    Repeated { left: u64, value: u32 },
    Packed { left: u64, bytes: &'a [u8], bit: usize },
}

impl<'a> Hybrid<'a> {
    fn new(bytes: &'a [u8], width: u32) -> Result<Self, Damage> {
        let run = Run::Repeated { left: 0, value: 0 };
        if width > 32 { Err("a page packs its values too widely") } else { Ok(Self { bytes, width, run }) }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<u32, Damage> {
        const TOO_SHORT: Damage = "a page has fewer levels or indices than it claims";
        if self.width == 0 {
            return Ok(0);
        }
        loop {
            match &mut self.run {
                Run::Repeated { left: 0, .. } | Run::Packed { left: 0, .. } => {
                    self.run = self.begin().ok_or(TOO_SHORT)?
                }
                Run::Repeated { left, value } => {
                    *left -= 1;
                    return Ok(*value);
                }
                Run::Packed { left, bytes, bit } => {
                    let (byte, shift) = (*bit / 8, *bit % 8);
                    let there = bytes.get(byte..).unwrap_or_default();
                    let window = match there.first_chunk() {
                        Some(window) => *window,
                        None if there.len() * 8 < shift + self.width as usize => return Err(TOO_SHORT),
                        None => {
                            let mut window = [0; 8];
                            window[..there.len()].copy_from_slice(there);
                            window
                        }
                    };
                    *left -= 1;
                    *bit += self.width as usize;
                    let mask = (1_u64 << self.width) - 1;
                    return Ok((u64::from_le_bytes(window) >> shift & mask) as u32);
                }
            }
        }
    }

    /// The next run; `None` at the end of the bytes.
    fn begin(&mut self) -> Option<Run<'a>> {
        let mut head = 0_u64;
        for shift in (0..35).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            head |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        if head & 1 == 0 {
            let (bytes, rest) = self.bytes.split_at_checked(self.width.div_ceil(8) as usize)?;
            self.bytes = rest;
            let mut value = [0; 4];
            value[..bytes.len()].copy_from_slice(bytes);
            return Some(Run::Repeated { left: head >> 1, value: u32::from_le_bytes(value) });
        }
        // Eight values per group; the last group may be truncated if its values are not needed.
        let groups = head >> 1;
        let length = self.bytes.len().min((groups * u64::from(self.width)) as usize);
        let (bytes, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Some(Run::Packed { left: groups * 8, bytes, bit: 0 })
    }
}
