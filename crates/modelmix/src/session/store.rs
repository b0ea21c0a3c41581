//! The features of the held samples, appended row by row, in single or half precision. The rows are in host memory, so that
//! changing them cannot fail; an engine with its own memory also holds a mirror of them.

use std::sync::atomic::{AtomicBool, Ordering};

use half::f16;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::compute::{Engine, HostRows, HostSet, Resident, Set};
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::loss::Loss;

pub use crate::compute::Storage;

/// Rows in the order in which they were pushed; the last one takes the place of a removed row.
#[derive(Debug)]
pub(super) struct Store {
    storage: Storage,
    /// The rows; `None` until their width is known.
    rows: Option<HostSet>,
    /// The same rows in the memory of a device, if the engine has any.
    mirror: Mirror,
}

/// The rows in the memory of a device. A mirror that fails is not used any more; [`Store::attach`] creates a new one.
#[derive(Debug, Default)]
struct Mirror {
    set: Option<Box<dyn Resident>>,
    has_failed: AtomicBool,
}

impl Mirror {
    fn usable(&self) -> Option<&dyn Resident> {
        self.set.as_deref().filter(|_| !self.has_failed.load(Ordering::Relaxed))
    }
}

/// The serialised form of a store.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    width: Option<usize>,
    values: Values,
}

/// All values, row by row.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Values {
    Single(Vec<f32>),
    /// The bits of half-precision values.
    Half(Vec<u16>),
}

impl Clone for Store {
    /// Clones the rows alone: a copy creates its own mirror when it needs one.
    fn clone(&self) -> Self {
        Self { storage: self.storage, rows: self.rows.clone(), mirror: Mirror::default() }
    }
}

impl Store {
    pub(super) fn new(storage: Storage) -> Self {
        Self { storage, rows: None, mirror: Mirror::default() }
    }

    /// Prepares for `more` rows: everything that can fail when rows are pushed. Changes nothing observable.
    pub(super) fn attach(&mut self, engine: &Engine, width: usize, more: usize) -> Result<()> {
        let mut fresh = None;
        let rows = match &mut self.rows {
            // Rows of another width were prepared for, and never pushed.
            Some(rows) if rows.width() == width || !rows.is_empty() => rows,
            _ => fresh.insert(HostSet::empty(width, self.storage)),
        };
        rows.reserve(more)?;
        if self.mirror.usable().is_none() || fresh.is_some() {
            let mut mirror = engine.empty(width, self.storage)?;
            // The processor reads the rows in place.
            let set = match mirror.host() {
                Some(_) => None,
                None => {
                    let held = fresh.as_ref().or(self.rows.as_ref()).expect("rows were found or made above");
                    mirror.append(Set::Resident(held).rows()?.view())?;
                    Some(mirror)
                }
            };
            self.mirror = Mirror { set, has_failed: AtomicBool::new(false) };
        }
        if let Some(fresh) = fresh {
            self.rows = Some(fresh);
        }
        Ok(())
    }

    /// An empty store with the same precision.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.storage)
    }

    /// How many rows are held.
    pub(super) fn len(&self) -> usize {
        self.rows.as_ref().map_or(0, Resident::len)
    }

    /// Whether rows have this width and valid values.
    pub(super) fn fits(&self, rows: usize, width: Option<usize>) -> bool {
        match (&self.rows, width) {
            (None, _) => rows == 0,
            (Some(_), None) => false,
            (Some(held), Some(width)) => held.width() == width && held.len() == rows && held.is_finite(),
        }
    }

    /// Rows as they will be held; `None` if they are held unchanged.
    pub(super) fn rounded(&self, rows: Rows<'_>) -> Option<Vec<f32>> {
        let round = |&value: &f32| f16::from_f32(value).to_f32();
        (self.storage == Storage::Half).then(|| rows.values().iter().map(round).collect())
    }

    /// κ of new rows against all held rows, one new row after the other.
    pub(super) fn kappa(&self, loss: &Loss, rows: Rows<'_>, out: &mut Vec<f64>) -> Result<()> {
        if let Some(mirror) = self.mirror.usable() {
            match loss.kappa_rows(rows, mirror, out) {
                Err(Error::Device { .. } | Error::Memory { .. }) => {
                    self.mirror.has_failed.store(true, Ordering::Relaxed)
                }
                done => return done,
            }
        }
        match &self.rows {
            Some(held) => loss.kappa_rows(rows, Set::Resident(held), out),
            None => {
                out.clear();
                Ok(())
            }
        }
    }

    /// Adds a row; [`Store::attach`] reserved its memory.
    pub(super) fn push(&mut self, row: &[f32]) {
        let row = Rows::new(row.len(), row);
        self.change(|rows| rows.append(row));
    }

    /// A row, as it is held.
    pub(super) fn row(&self, row: usize) -> Vec<f32> {
        match self.rows.as_ref().and_then(Resident::host) {
            Some(HostRows::Single(rows)) => rows.row(row).to_vec(),
            Some(HostRows::Half(rows)) => rows.row(row).iter().map(|&bits| f16::from_bits(bits).to_f32()).collect(),
            None => Vec::new(),
        }
    }

    /// Drops a row; the last one takes its place.
    pub(super) fn swap_remove(&mut self, row: usize) {
        self.change(|rows| rows.swap_remove(row));
    }

    /// Keeps only the rows that stay, in their order.
    pub(super) fn retain(&mut self, keep: &[bool]) {
        self.change(|rows| rows.retain(keep));
    }

    fn change(&mut self, change: impl Fn(&mut dyn Resident) -> Result<()>) {
        if let Some(rows) = &mut self.rows {
            change(rows).expect("rows in host memory change in reserved memory");
        }
        if self.mirror.set.as_deref_mut().is_some_and(|mirror| change(mirror).is_err()) {
            self.mirror = Mirror::default();
        }
    }

    /// All rows in single precision; `None` before the first.
    pub(super) fn features(&self) -> Option<Features> {
        let rows = self.rows.as_ref().filter(|rows| !rows.is_empty())?;
        Features::new(rows.width(), rows.read(0..rows.len()).ok()?).ok()
    }
}

impl Serialize for Store {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = match (self.rows.as_ref().and_then(Resident::host), self.storage) {
            (Some(HostRows::Single(rows)), _) => Values::Single(rows.values().to_vec()),
            (Some(HostRows::Half(rows)), _) => Values::Half(rows.values().to_vec()),
            (None, Storage::Single) => Values::Single(Vec::new()),
            (None, Storage::Half) => Values::Half(Vec::new()),
        };
        Stored { width: self.rows.as_ref().map(Resident::width), values }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Store {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Stored { width, values } = Stored::deserialize(deserializer)?;
        let storage = match values {
            Values::Single(_) => Storage::Single,
            Values::Half(_) => Storage::Half,
        };
        let length = match &values {
            Values::Single(values) => values.len(),
            Values::Half(values) => values.len(),
        };
        let rows = match width {
            None if length == 0 => None,
            Some(width) if width > 0 && length.is_multiple_of(width) => Some(match values {
                Values::Single(values) => HostSet::of_single(width, values),
                Values::Half(values) => HostSet::of_half(width, values),
            }),
            _ => return Err(serde::de::Error::custom("rows whose values do not fit their width")),
        };
        Ok(Self { storage, rows, mirror: Mirror::default() })
    }
}
