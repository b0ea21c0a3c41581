//! Sets of rows as input of engines: borrowed from the host, or resident in the memory of an engine.

use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;

use half::f16;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::features::{Features, HalfRows, Rows};
use crate::kernel::{Geometry, Kernel};

use super::feature_rows::FeatureRows;

/// Storage precision of resident rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Storage {
    /// Single precision: 4 bytes per value, without rounding.
    #[default]
    Single,
    /// Half precision: 2 bytes per value, so a pass over the rows reads half as much memory. Values from 6e-5 upward
    /// are rounded by at most 0.05%, smaller ones by at most 3e-8; the largest value is 65,504.
    Half,
}

/// Rows in the memory in which an engine computes: host memory for the processor, device memory for a GPU.
///
/// [`Backend::hold`](super::Backend::hold) and [`Backend::empty`](super::Backend::empty) create them. If a set is given
/// to another engine than its own, that engine reads the rows back.
pub trait Resident: Debug + Send + Sync {
    /// Number of rows.
    fn len(&self) -> usize;

    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of columns.
    fn width(&self) -> usize;

    /// The storage precision.
    fn storage(&self) -> Storage;

    /// Appends rows, rounded to the storage precision.
    ///
    /// # Errors
    /// [`Error::Memory`], or [`Error::Device`]. The set is then unchanged.
    fn append(&mut self, rows: Rows<'_>) -> Result<()>;

    /// Removes a row; the last row takes its place.
    ///
    /// # Errors
    /// [`Error::Device`].
    ///
    /// # Panics
    /// If there is no such row.
    fn swap_remove(&mut self, row: usize) -> Result<()>;

    /// Keeps the rows whose flag is true, in order.
    ///
    /// # Errors
    /// [`Error::Device`].
    fn retain(&mut self, keep: &[bool]) -> Result<()>;

    /// Reads rows back in single precision, in row-major order.
    ///
    /// # Errors
    /// [`Error::Memory`], or [`Error::Device`].
    fn read(&self, rows: Range<usize>) -> Result<Vec<f32>>;

    /// An independent copy of the set, in the same memory.
    ///
    /// # Errors
    /// [`Error::Memory`], or [`Error::Device`].
    fn duplicate(&self) -> Result<Box<dyn Resident>>;

    /// The first row with a value that is NaN or infinite; `None` if all are finite. By default the rows are read back.
    ///
    /// # Errors
    /// [`Error::Memory`], or [`Error::Device`].
    fn first_not_finite(&self) -> Result<Option<usize>> {
        /// Rows that are read at a time.
        const PIECE: usize = 4096;
        for start in (0..self.len()).step_by(PIECE) {
            let values = self.read(start..(start + PIECE).min(self.len()))?;
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                return Ok(Some(start + at / self.width()));
            }
        }
        Ok(None)
    }

    /// The rows in host memory; `None` if they are elsewhere.
    fn host(&self) -> Option<HostRows<'_>>;

    /// For an engine to recognise its own sets.
    fn as_any(&self) -> &dyn Any;
}

/// Rows in host memory, in either precision.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum HostRows<'a> {
    /// In single precision.
    Single(Rows<'a>),
    /// In half precision, as bits.
    Half(HalfRows<'a>),
}

/// A set of rows as input of an engine: borrowed host memory, or a resident set.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Set<'a> {
    /// Rows in host memory. The processor reads them in place; a GPU uploads them for the call.
    Host(Rows<'a>),
    /// Rows that are resident on an engine.
    Resident(&'a dyn Resident),
}

impl<'a> From<Rows<'a>> for Set<'a> {
    fn from(rows: Rows<'a>) -> Self {
        Set::Host(rows)
    }
}

impl<'a> From<&'a Features> for Set<'a> {
    fn from(features: &'a Features) -> Self {
        match FeatureRows::of(features) {
            Some(rows) => Set::Resident(rows),
            None => Set::Host(features.view()),
        }
    }
}

impl<'a> From<&'a dyn Resident> for Set<'a> {
    fn from(set: &'a dyn Resident) -> Self {
        Set::Resident(set)
    }
}

impl<'a> Set<'a> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Set::Host(rows) => rows.len(),
            Set::Resident(set) => set.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        match self {
            Set::Host(rows) => rows.width(),
            Set::Resident(set) => set.width(),
        }
    }

    /// The rows in single precision: borrowed if they are stored that way in host memory, otherwise copied.
    ///
    /// # Errors
    /// Those of [`Resident::read`].
    pub fn rows(self) -> Result<SingleRows<'a>> {
        let values = match self {
            Set::Host(rows) => Cow::Borrowed(rows.values()),
            Set::Resident(set) => match set.host() {
                Some(HostRows::Single(rows)) => Cow::Borrowed(rows.values()),
                _ => Cow::Owned(set.read(0..set.len())?),
            },
        };
        Ok(SingleRows { width: self.width(), values })
    }

    /// k(x, x) of every row; the rows are read only if it depends on them.
    pub(crate) fn self_values(self, kernel: &Kernel) -> Result<Vec<f64>> {
        Ok(match kernel.geometry() {
            Geometry::Product => self.rows()?.view().iter().map(|row| kernel.of_self(row)).collect(),
            Geometry::SquaredDistance | Geometry::Cosine => vec![kernel.of_self(&[]); self.len()],
        })
    }

    /// The rows in half precision, if they are stored that way in host memory.
    pub(super) fn half(self) -> Option<HalfRows<'a>> {
        match self {
            Set::Host(_) => None,
            Set::Resident(set) => match set.host()? {
                HostRows::Half(rows) => Some(rows),
                HostRows::Single(_) => None,
            },
        }
    }
}

/// The rows of a [`Set`] in single precision, borrowed or copied.
#[derive(Clone, Debug)]
pub struct SingleRows<'a> {
    width: usize,
    values: Cow<'a, [f32]>,
}

impl SingleRows<'_> {
    /// A view of all rows.
    pub fn view(&self) -> Rows<'_> {
        Rows::new(self.width, &self.values)
    }
}

/// A resident set in host memory, which every engine on the processor uses.
#[derive(Clone, Debug)]
pub struct HostSet {
    width: usize,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    /// Features of the caller, shared without a copy until the set changes.
    Shared(Features),
    Single(Vec<f32>),
    /// The bits of half-precision values.
    Half(Vec<u16>),
}

impl HostSet {
    /// Creates an empty set.
    pub fn empty(width: usize, storage: Storage) -> Self {
        let values = match storage {
            Storage::Single => Values::Single(Vec::new()),
            Storage::Half => Values::Half(Vec::new()),
        };
        Self { width, values }
    }

    /// Creates a set of these values, in row-major order.
    pub(crate) fn of_single(width: usize, values: Vec<f32>) -> Self {
        Self { width, values: Values::Single(values) }
    }

    /// The same in half precision, as bits.
    pub(crate) fn of_half(width: usize, values: Vec<u16>) -> Self {
        Self { width, values: Values::Half(values) }
    }

    /// Reserves memory for more rows, so that appending them cannot fail.
    pub(crate) fn reserve(&mut self, rows: usize) -> Result<()> {
        self.own()?;
        let more = rows.saturating_mul(self.width);
        match &mut self.values {
            Values::Shared(_) => Ok(()),
            Values::Single(values) => reserve(values, more),
            Values::Half(values) => reserve(values, more),
        }
    }

    /// Whether all values are finite.
    pub(crate) fn is_finite(&self) -> bool {
        match &self.values {
            Values::Shared(features) => features.values().iter().all(|value| value.is_finite()),
            Values::Single(values) => values.iter().all(|value| value.is_finite()),
            Values::Half(values) => values.iter().all(|&bits| f16::from_bits(bits).is_finite()),
        }
    }

    /// Creates a set that shares the memory of `features`.
    pub fn shared(features: &Features) -> Self {
        Self { width: features.width(), values: Values::Shared(features.clone()) }
    }

    /// Replaces shared values by a copy that may change.
    fn own(&mut self) -> Result<()> {
        if let Values::Shared(features) = &self.values {
            let mut values = Vec::new();
            reserve(&mut values, features.values().len())?;
            values.extend_from_slice(features.values());
            self.values = Values::Single(values);
        }
        Ok(())
    }
}

/// Reserves memory for more values; returns an error instead of aborting if there is none.
pub(crate) fn reserve<T>(values: &mut Vec<T>, more: usize) -> Result<()> {
    values.try_reserve(more).map_err(|_| Error::Memory {
        what: format!("an array of {} values", values.len().saturating_add(more)),
        place: "host memory".into(),
        needed: (values.len() as u64).saturating_add(more as u64).saturating_mul(size_of::<T>() as u64),
        free: None,
    })
}

fn swap_remove<T: Copy>(values: &mut Vec<T>, row: usize, width: usize) {
    let last = values.len() - width;
    values.copy_within(last.., row * width);
    values.truncate(last);
}

fn retain<T: Copy>(values: &mut Vec<T>, keep: &[bool], width: usize) {
    let mut kept = 0;
    for (row, _) in keep.iter().enumerate().filter(|(_, keep)| **keep) {
        values.copy_within(row * width..(row + 1) * width, kept * width);
        kept += 1;
    }
    values.truncate(kept * width);
}

impl Resident for HostSet {
    fn len(&self) -> usize {
        match &self.values {
            Values::Shared(features) => features.len(),
            Values::Single(values) => values.len() / self.width,
            Values::Half(values) => values.len() / self.width,
        }
    }

    fn width(&self) -> usize {
        self.width
    }

    fn storage(&self) -> Storage {
        match self.values {
            Values::Shared(_) | Values::Single(_) => Storage::Single,
            Values::Half(_) => Storage::Half,
        }
    }

    fn append(&mut self, rows: Rows<'_>) -> Result<()> {
        self.own()?;
        match &mut self.values {
            Values::Shared(_) => {}
            Values::Single(values) => {
                reserve(values, rows.values().len())?;
                values.extend_from_slice(rows.values());
            }
            Values::Half(values) => {
                reserve(values, rows.values().len())?;
                values.extend(rows.values().iter().map(|&value| f16::from_f32(value).to_bits()));
            }
        }
        Ok(())
    }

    fn swap_remove(&mut self, row: usize) -> Result<()> {
        self.own()?;
        match &mut self.values {
            Values::Shared(_) => {}
            Values::Single(values) => swap_remove(values, row, self.width),
            Values::Half(values) => swap_remove(values, row, self.width),
        }
        Ok(())
    }

    fn retain(&mut self, keep: &[bool]) -> Result<()> {
        self.own()?;
        match &mut self.values {
            Values::Shared(_) => {}
            Values::Single(values) => retain(values, keep, self.width),
            Values::Half(values) => retain(values, keep, self.width),
        }
        Ok(())
    }

    fn read(&self, rows: Range<usize>) -> Result<Vec<f32>> {
        let range = rows.start * self.width..rows.end * self.width;
        let mut read = Vec::new();
        reserve(&mut read, range.len())?;
        match &self.values {
            Values::Shared(features) => read.extend_from_slice(&features.values()[range]),
            Values::Single(values) => read.extend_from_slice(&values[range]),
            Values::Half(values) => read.extend(values[range].iter().map(|&bits| f16::from_bits(bits).to_f32())),
        }
        Ok(read)
    }

    fn duplicate(&self) -> Result<Box<dyn Resident>> {
        Ok(Box::new(self.clone()))
    }

    fn host(&self) -> Option<HostRows<'_>> {
        Some(match &self.values {
            Values::Shared(features) => HostRows::Single(features.view()),
            Values::Single(values) => HostRows::Single(Rows::new(self.width, values)),
            Values::Half(values) => HostRows::Half(Rows::new(self.width, values)),
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
