//! Converts the bytes of an array to features: checks the claims of a header, and converts to rows of 32-bit floats in
//! small chunks. The file formats provide the bytes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use half::{bf16, f16};

use super::one_line;
use crate::arms::check_rows;
use crate::error::{Error, Result};
use crate::features::{Features, first_not_finite};

/// The number of bytes converted at once; a multiple of the size of every element type.
const CHUNK_BYTES: usize = 1 << 16;

/// The location of an array for messages: a file, and the name of the array if the file has names.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) path: &'a Path,
    pub(super) array: Option<&'a str>,
}

impl Origin<'_> {
    pub(super) fn name(&self) -> String {
        match self.array {
            Some(array) => format!("{}:{array}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }

    /// The file is damaged or forged.
    pub(super) fn file(&self, problem: impl Into<String>) -> Error {
        let problem = problem.into();
        let problem = if let Some(array) = self.array { format!("array {array}: {problem}") } else { problem };
        Error::File { path: self.path.into(), problem }
    }

    /// The array is valid but cannot be used as features.
    pub(super) fn array(&self, problem: impl Into<String>) -> Error {
        Error::Array { origin: self.name(), problem: problem.into() }
    }

    /// Reading failed: an error of the operating system, a premature end, or invalid compressed data.
    pub(super) fn io(&self, source: io::Error) -> Error {
        if source.raw_os_error().is_some() {
            Error::Io { path: self.path.into(), source }
        } else if source.kind() == io::ErrorKind::UnexpectedEof {
            self.file("the bytes end before the array does; write or copy the file again")
        } else {
            self.file(format!("the bytes are damaged ({}); write or copy the file again", one_line(source)))
        }
    }
}

/// The element types that can be converted to features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F16,
    Bf16,
    F32,
    F64,
    /// Whole numbers of 1, 2, 4 or 8 bytes, which are read if they are exact in single precision.
    Integer {
        bytes: usize,
        signed: bool,
    },
}

impl Element {
    pub(super) fn size(self) -> usize {
        match self {
            Element::F16 | Element::Bf16 => 2,
            Element::F32 => 4,
            Element::F64 => 8,
            Element::Integer { bytes, .. } => bytes,
        }
    }

    /// Decodes one little-endian value of [`Element::size`] bytes.
    #[cfg(feature = "parquet")]
    pub(super) fn value(self, bytes: &[u8]) -> f64 {
        fn whole<const SIZE: usize>(bytes: &[u8]) -> [u8; SIZE] {
            bytes.try_into().expect("as many bytes as the element has")
        }
        match self {
            Element::F16 => f16::from_le_bytes(whole(bytes)).to_f64(),
            Element::Bf16 => bf16::from_le_bytes(whole(bytes)).to_f64(),
            Element::F32 => f32::from_le_bytes(whole(bytes)).into(),
            Element::F64 => f64::from_le_bytes(whole(bytes)),
            Element::Integer { signed, .. } => integer(bytes, signed) as f64,
        }
    }
}

/// A little-endian whole number of up to 8 bytes.
fn integer(bytes: &[u8], signed: bool) -> i128 {
    let is_negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut whole = [if is_negative { 0xff } else { 0 }; 16];
    whole[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(whole)
}

/// The order of the elements of an array in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Each element starts with its most significant byte.
    pub(super) big_endian: bool,
    /// Column-major instead of row-major.
    pub(super) fortran: bool,
}

/// The claims of a header about an array, if possible: two dimensions whose product does not overflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    element: Element,
    order: Order,
    rows: usize,
    columns: usize,
    bytes: u64,
}

impl Layout {
    pub(super) fn new(element: Element, order: Order, shape: &[u64], origin: &Origin<'_>) -> Result<Self> {
        let &[rows, columns] = shape else {
            let axes = shape.iter().take(8).map(u64::to_string).collect::<Vec<_>>().join(", ");
            let remedy = match shape.len() {
                0 | 1 => "reshape it to one row per sample, as in array.reshape(-1, width)",
                _ => "flatten each sample to one row, as in array.reshape(len(array), -1)",
            };
            return Err(origin.array(format!(
                "the shape ({axes}{}) has {} dimensions, but features have 2; {remedy}",
                if shape.len() > 8 { ", …" } else { "" },
                shape.len(),
            )));
        };
        let bytes = rows.checked_mul(columns).and_then(|values| values.checked_mul(element.size() as u64));
        // The features take four bytes per value, which must not overflow either; then neither does any of the two
        // axes, unless the other is 0.
        let countable = |size: u64| usize::try_from(size).ok().filter(|&size| size <= isize::MAX as usize / 4);
        match (bytes, countable(rows), countable(columns), countable(rows.saturating_mul(columns))) {
            (Some(bytes), Some(rows), Some(columns), Some(_)) => Ok(Self { element, order, rows, columns, bytes }),
            _ => Err(origin.file(format!(
                "the header claims {rows} × {columns} values, more than any file can hold; write the file again"
            ))),
        }
    }

    /// The number of bytes of the array.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of bytes of an element.
    pub(super) fn element_bytes(&self) -> usize {
        self.element.size()
    }

    /// The width of a row.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Whether the bytes have the layout of features on this machine.
    pub(super) fn is_in_place(&self) -> bool {
        let native = self.order.big_endian == cfg!(target_endian = "big");
        self.element == Element::F32 && native && !self.order.fortran && self.rows > 0 && self.columns > 0
    }

    /// Whether the array is column-major.
    pub(super) fn fortran(&self) -> bool {
        self.order.fortran
    }

    /// Rejects a shape that does not take exactly the available bytes.
    pub(super) fn check(&self, available: u64, origin: &Origin<'_>) -> Result<()> {
        if self.bytes == available {
            return Ok(());
        }
        let (short, size) = (available < self.bytes, self.element.size());
        Err(origin.file(format!(
            "the header claims {} × {} values of {size} bytes, that is {} bytes, but {available} follow it; the file {}: write or copy it again",
            self.rows,
            self.columns,
            self.bytes,
            if short { "is truncated" } else { "has bytes after the array" },
        )))
    }

    /// Replaces `values` by the elements in `bytes`, of which the first is the `first`-th of the array; in `bytes` they become
    /// little-endian.
    fn convert(&self, bytes: &mut [u8], first: usize, values: &mut Vec<f32>, origin: &Origin<'_>) -> Result<()> {
        let size = self.element.size();
        if self.order.big_endian {
            bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        values.clear();
        narrow(self.element, bytes, values);
        if let Some(at) = first_not_finite(values) {
            let (row, column) = self.place(first + at);
            // Only 64-bit values can change when they are narrowed.
            let value = match self.element {
                Element::F64 => f64::from_le_bytes(bytes.as_chunks().0[at]),
                _ => values[at].into(),
            };
            return Err(Error::NotFinite { origin: origin.name(), row, column, value });
        }
        if let Element::Integer { signed, .. } = self.element {
            let given = bytes.chunks_exact(size).map(|bytes| integer(bytes, signed));
            if let Some((at, (given, _))) =
                given.zip(&*values).enumerate().find(|(_, (given, value))| **value as i128 != *given)
            {
                let (row, column) = self.place(first + at);
                return Err(origin.array(format!(
                    "row {row}, column {column} (counted from 0) is {given}, which is not exact as a 32-bit float; if rounding is \
                     meant, save array.astype(numpy.float32)"
                )));
            }
        }
        Ok(())
    }

    /// The row and column of the `at`-th element in the file.
    fn place(&self, at: usize) -> (usize, usize) {
        if self.order.fortran { (at % self.rows, at / self.rows) } else { (at / self.columns, at % self.columns) }
    }
}

/// Reads the elements that `layout` describes, and no byte more.
///
/// At most `at_once` values are allocated before their bytes have been read, and later at most as many again as have
/// been read. An array in Fortran order allocates all of its memory first, because its first column spans every row.
pub(super) fn read(reader: &mut impl Read, layout: &Layout, at_once: usize, origin: &Origin<'_>) -> Result<Features> {
    let features = read_part(reader, layout, at_once, origin)?;
    check_rows(&features).map_err(|error| error.of(origin.name()))?;
    Ok(features)
}

/// The same for an array that is a part of an arm and may have a single row.
pub(super) fn read_part(
    reader: &mut impl Read,
    layout: &Layout,
    at_once: usize,
    origin: &Origin<'_>,
) -> Result<Features> {
    let total = layout.rows * layout.columns;
    let size = layout.element.size();
    let mut values: Vec<f32> = Vec::new();
    let reserve = |values: &mut Vec<f32>, more: usize| {
        values.try_reserve_exact(more).map_err(|_| {
            origin.array(format!("{total} values do not fit into memory; save fewer rows, or pick some of the arrays"))
        })
    };
    if layout.order.fortran {
        reserve(&mut values, total)?;
        values.resize(total, 0.0);
    }

    let mut chunk = vec![0; CHUNK_BYTES.min(total.saturating_mul(size))];
    let mut narrowed = Vec::with_capacity(chunk.len() / size);
    let mut done = 0;
    while done < total {
        let count = (CHUNK_BYTES / size).min(total - done);
        let bytes = &mut chunk[..count * size];
        reader.read_exact(bytes).map_err(|error| origin.io(error))?;
        layout.convert(bytes, done, &mut narrowed, origin)?;
        if layout.order.fortran {
            let (mut row, mut column) = layout.place(done);
            for &value in &narrowed {
                values[row * layout.columns + column] = value;
                row += 1;
                if row == layout.rows {
                    (row, column) = (0, column + 1);
                }
            }
        } else {
            if values.capacity() - values.len() < count {
                let more = values.len().max(at_once).max(count).min(total - done);
                reserve(&mut values, more)?;
            }
            values.extend_from_slice(&narrowed);
        }
        done += count;
    }

    Features::new(layout.columns, values).map_err(|error| error.of(origin.name()))
}

/// Reads some rows of an array that starts at `start`.
pub(super) fn read_rows(
    mut file: &File,
    start: u64,
    layout: &Layout,
    rows: Range<usize>,
    origin: &Origin<'_>,
) -> Result<Vec<f32>> {
    let (count, size) = (rows.len(), layout.element.size());
    let mut values = vec![0.0; count * layout.columns];
    // Consecutive elements of the array: all of these rows, or those of one column.
    let (strips, length) = if layout.order.fortran { (layout.columns, count) } else { (1, values.len()) };
    let mut chunk = vec![0; CHUNK_BYTES.min(length.saturating_mul(size))];
    let mut narrowed = Vec::with_capacity(chunk.len() / size);
    for strip in 0..strips {
        let first = if layout.order.fortran { strip * layout.rows + rows.start } else { rows.start * layout.columns };
        file.seek(SeekFrom::Start(start + (first * size) as u64)).map_err(|error| origin.io(error))?;
        let mut done = 0;
        while done < length {
            let count = (CHUNK_BYTES / size).min(length - done);
            let bytes = &mut chunk[..count * size];
            file.read_exact(bytes).map_err(|error| origin.io(error))?;
            layout.convert(bytes, first + done, &mut narrowed, origin)?;
            if layout.order.fortran {
                let column = values.iter_mut().skip(done * layout.columns + strip).step_by(layout.columns);
                column.zip(&narrowed).for_each(|(value, read)| *value = *read);
            } else {
                values[done..done + count].copy_from_slice(&narrowed);
            }
            done += count;
        }
    }
    Ok(values)
}

/// Appends little-endian elements as 32-bit floats.
pub(super) fn narrow(element: Element, bytes: &[u8], values: &mut Vec<f32>) {
    match element {
        Element::F16 => values.extend(bytes.as_chunks().0.iter().map(|&value| f16::from_le_bytes(value).to_f32())),
        Element::Bf16 => values.extend(bytes.as_chunks().0.iter().map(|&value| bf16::from_le_bytes(value).to_f32())),
        Element::F32 => values.extend(bytes.as_chunks().0.iter().map(|&value| f32::from_le_bytes(value))),
        Element::F64 => values.extend(bytes.as_chunks().0.iter().map(|&value| f64::from_le_bytes(value) as f32)),
        Element::Integer { bytes: size, signed } => {
            values.extend(bytes.chunks_exact(size).map(|bytes| integer(bytes, signed) as f32));
        }
    }
}

/// Appends little-endian elements as 64-bit floats.
#[cfg(feature = "parquet")]
pub(super) fn widen(element: Element, bytes: &[u8], values: &mut Vec<f64>) {
    match element {
        Element::F32 => values.extend(bytes.as_chunks().0.iter().map(|&value| f64::from(f32::from_le_bytes(value)))),
        Element::F64 => values.extend(bytes.as_chunks().0.iter().map(|&value| f64::from_le_bytes(value))),
        _ => values.extend(bytes.chunks_exact(element.size()).map(|bytes| element.value(bytes))),
    }
}
