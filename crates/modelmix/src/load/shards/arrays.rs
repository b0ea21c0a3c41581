//! Ranges of rows of the arrays in `.npy`, `.npz` and `.safetensors` files. Rows in the layout of features are memory-mapped,
//! others are read by seeking. Compressed arrays are read whole.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use crate::error::Result;
use crate::features::{Rows, first_not_finite};
use crate::load::npy::Npy;
use crate::load::npz::Npz;
use crate::load::payload::{self, Layout, Origin};
use crate::load::safetensors::Safetensors;
use crate::load::{extension, mapped};

/// The maximum number of rows and of bytes of a range: enough that opening the file does not count, and few enough that
/// many threads can each have one in memory.
const MAX_ROWS: usize = 1 << 16;
const MAX_BYTES: usize = 64 << 20;

/// An open file.
pub(super) enum Arrays {
    Npy(Npy),
    Npz(Npz),
    Safetensors(Safetensors),
}

impl Arrays {
    pub(super) fn open(path: &Path, file: File, length: u64) -> Result<Self> {
        Ok(match extension(path).as_str() {
            "npy" => Arrays::Npy(Npy::open(path, file, length)),
            "npz" => Arrays::Npz(Npz::open(path, file, length)?),
            _ => Arrays::Safetensors(Safetensors::open(path, file, length)?),
        })
    }

    pub(super) fn names(&self) -> &[String] {
        match self {
            Arrays::Npy(file) => std::slice::from_ref(&file.name),
            Arrays::Npz(file) => &file.names,
            Arrays::Safetensors(file) => &file.names,
        }
    }

    /// Whether its arrays have names in the file.
    pub(super) fn has_names(&self) -> bool {
        !matches!(self, Arrays::Npy(_))
    }

    /// All rows of an array of a file of `length` bytes.
    pub(super) fn part(&mut self, index: usize, path: &Path, length: u64) -> Result<ArrayPart> {
        let (layout, start) = match self {
            Arrays::Npy(file) => file.place().map(|(layout, start)| (layout, Some(start)))?,
            Arrays::Npz(file) => file.place(index)?,
            Arrays::Safetensors(file) => file.place(index).map(|(layout, start)| (layout, Some(start)))?,
        };
        let name = self.has_names().then(|| self.names()[index].clone());
        let origin = Origin { path, array: name.as_deref() };
        if layout.columns() == 0 {
            return Err(origin.array("the rows have no columns; check the encoder's output"));
        }
        // A mapping that extends beyond the file would end the process.
        if start.is_some_and(|start| start.checked_add(layout.bytes()).is_none_or(|end| end > length)) {
            return Err(origin.file("the array extends beyond the file; write or copy the file again"));
        }
        Ok(ArrayPart { name, index, layout, start, rows: (0, layout.rows()) })
    }
}

/// A range of rows of an array.
#[derive(Clone)]
pub(super) struct ArrayPart {
    name: Option<String>,
    index: usize,
    layout: Layout,
    /// The position of the first element in the file; `None` if the array is compressed.
    start: Option<u64>,
    /// The first row, and the one behind the last.
    rows: (usize, usize),
}

impl ArrayPart {
    pub(super) fn rows(&self) -> Range<usize> {
        self.rows.0..self.rows.1
    }

    pub(super) fn width(&self) -> usize {
        self.layout.columns()
    }

    /// Ranges of bounded size; none if there are no rows.
    pub(super) fn split(&self) -> impl Iterator<Item = ArrayPart> {
        let row = self.width().saturating_mul(self.layout.element_bytes().max(4)).max(1);
        let step = match self.start {
            Some(_) => (MAX_BYTES / row).clamp(1, MAX_ROWS),
            None => self.layout.rows().max(1),
        };
        let end = self.rows.1;
        self.rows().step_by(step).map(move |first| Self { rows: (first, end.min(first + step)), ..self.clone() })
    }

    /// Passes the rows to `each`, at once.
    pub(super) fn read(
        &self,
        path: &Path,
        file: File,
        length: u64,
        each: &mut dyn FnMut(Rows<'_>) -> Result<()>,
    ) -> Result<()> {
        let origin = Origin { path, array: self.name.as_deref() };
        let Some(start) = self.start else {
            let features = Npz::open(path, file, length)?.read_part(self.index)?;
            return each(features.view());
        };
        let mapped = mapped::rows(&file, start, &self.layout, self.rows(), &origin, |values| {
            if let Some(at) = first_not_finite(values) {
                return Err(self.not_finite(at, values[at], &origin));
            }
            each(Rows::new(self.width(), values))
        })?;
        match mapped {
            Some(read) => read,
            None => {
                let values = payload::read_rows(&file, start, &self.layout, self.rows(), &origin)?;
                each(Rows::new(self.width(), &values))
            }
        }
    }

    fn not_finite(&self, at: usize, value: f32, origin: &Origin<'_>) -> crate::error::Error {
        let (row, column) = (self.rows.0 + at / self.width(), at % self.width());
        crate::error::Error::NotFinite { origin: origin.name(), row, column, value: value.into() }
    }
}
