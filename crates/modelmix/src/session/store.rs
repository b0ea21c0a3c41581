//! The features of the samples held: a resident set of the session's engine, or plain values until there is one.

use std::sync::Arc;

use half::f16;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::compute::{Engine, HostRows, Resident};
use crate::error::Result;
use crate::features::{Features, HalfRows, Rows};
use crate::loss::Loss;

pub use crate::compute::Storage;

/// Rows in the order in which they were pushed, the last one in the place of a row that was removed. Clones share memory until
/// one of them changes.
#[derive(Clone, Debug)]
pub(super) struct Store {
    storage: Storage,
    rows: Held,
}

#[derive(Clone, Debug)]
enum Held {
    /// No engine has them yet: none were told, or they come from a snapshot.
    Values(Values),
    Resident(Arc<dyn Resident>),
}

/// All values, row after row: what a snapshot has.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Values {
    Single(Vec<f32>),
    /// The bits of half-precision values.
    Half(Vec<u16>),
}

impl Values {
    fn single(&self) -> Vec<f32> {
        match self {
            Values::Single(values) => values.clone(),
            Values::Half(values) => values.iter().map(|&bits| f16::from_bits(bits).to_f32()).collect(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Values::Single(values) => values.len(),
            Values::Half(values) => values.len(),
        }
    }
}

impl Store {
    pub(super) fn new(storage: Storage) -> Self {
        let values = match storage {
            Storage::Single => Values::Single(Vec::new()),
            Storage::Half => Values::Half(Vec::new()),
        };
        Self { storage, rows: Held::Values(values) }
    }

    /// Makes the rows resident on the engine, if they are not yet. Changes nothing that anybody can see.
    pub(super) fn attach(&mut self, engine: &Engine, width: usize) -> Result<()> {
        if let Held::Values(values) = &self.rows {
            let mut set = engine.empty(width, self.storage)?;
            let values = values.single();
            if !values.is_empty() {
                set.append(Rows::new(width, &values))?;
            }
            self.rows = Held::Resident(set.into());
        }
        Ok(())
    }

    /// The resident set, to be changed: a copy of its own if clones of the store share it.
    fn set(&mut self) -> Result<&mut dyn Resident> {
        let Held::Resident(set) = &mut self.rows else {
            unreachable!("rows are pushed and removed after `attach`");
        };
        if Arc::get_mut(set).is_none() {
            *set = set.duplicate()?.into();
        }
        Ok(Arc::get_mut(set).expect("a set that was just copied has one owner"))
    }

    /// How many values are held.
    pub(super) fn len(&self) -> usize {
        match &self.rows {
            Held::Values(values) => values.len(),
            Held::Resident(set) => set.len() * set.width(),
        }
    }

    /// Whether all values are finite; rows that an engine holds were checked when they were told.
    pub(super) fn is_finite(&self) -> bool {
        match &self.rows {
            Held::Values(Values::Single(values)) => values.iter().all(|value| value.is_finite()),
            Held::Values(Values::Half(values)) => values.iter().all(|&bits| f16::from_bits(bits).is_finite()),
            Held::Resident(_) => true,
        }
    }

    /// Rows as they will be held; `None` if they are held as they are.
    pub(super) fn rounded(&self, rows: Rows<'_>) -> Option<Vec<f32>> {
        let round = |&value: &f32| f16::from_f32(value).to_f32();
        (self.storage == Storage::Half).then(|| rows.values().iter().map(round).collect())
    }

    /// κ of new rows against all rows held, new row after new row.
    pub(super) fn kappa(&self, loss: &Loss, rows: Rows<'_>, out: &mut Vec<f64>) -> Result<()> {
        match &self.rows {
            Held::Values(values) => loss.kappa_rows(rows, Rows::new(rows.width(), &values.single()), out),
            Held::Resident(set) => loss.kappa_rows(rows, &**set, out),
        }
    }

    pub(super) fn push(&mut self, row: &[f32]) -> Result<()> {
        self.set()?.append(Rows::new(row.len(), row))
    }

    /// A row, as it is held.
    pub(super) fn row(&self, row: usize, width: usize) -> Result<Vec<f32>> {
        match &self.rows {
            Held::Values(values) => Ok(values.single()[row * width..(row + 1) * width].to_vec()),
            Held::Resident(set) => set.read(row..row + 1),
        }
    }

    /// Drops a row; the last one takes its place.
    pub(super) fn swap_remove(&mut self, row: usize) -> Result<()> {
        self.set()?.swap_remove(row)
    }

    /// Keeps the rows that stay, in their order.
    pub(super) fn retain(&mut self, keep: &[bool], width: usize) -> Result<()> {
        if let Held::Values(values) = &mut self.rows {
            fn stay<T: Copy>(values: &mut Vec<T>, keep: &[bool], width: usize) {
                let rows = values.chunks_exact(width).zip(keep).filter(|(_, keep)| **keep);
                *values = rows.flat_map(|(row, _)| row).copied().collect();
            }
            match values {
                Values::Single(values) => stay(values, keep, width),
                Values::Half(values) => stay(values, keep, width),
            }
            return Ok(());
        }
        self.set()?.retain(keep)
    }

    pub(super) fn features(&self, width: usize) -> Result<Features> {
        Features::new(width, self.values()?.single())
    }

    fn values(&self) -> Result<Values> {
        let set = match &self.rows {
            Held::Values(values) => return Ok(values.clone()),
            Held::Resident(set) => set,
        };
        Ok(match (set.host(), self.storage) {
            (Some(HostRows::Single(rows)), _) => Values::Single(rows.values().to_vec()),
            (Some(HostRows::Half(rows)), _) => Values::Half(HalfRows::values(&rows).to_vec()),
            (None, Storage::Single) => Values::Single(set.read(0..set.len())?),
            (None, Storage::Half) => {
                let values = set.read(0..set.len())?;
                Values::Half(values.into_iter().map(|value| f16::from_f32(value).to_bits()).collect())
            }
        })
    }
}

impl Serialize for Store {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Store {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Values::deserialize(deserializer)?;
        let storage = match values {
            Values::Single(_) => Storage::Single,
            Values::Half(_) => Storage::Half,
        };
        Ok(Self { storage, rows: Held::Values(values) })
    }
}
