//! Features whose rows are a resident set: engines use the rows in place, everything else a copy in host memory.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::set::{HostRows, Resident, Storage};
use crate::error::{Error, Result};
use crate::features::{Features, Remote, Rows};

/// The rows of features that are resident on an engine. They do not change.
#[derive(Debug)]
pub(super) struct FeatureRows {
    set: Box<dyn Resident>,
    /// All values, from the first time that they are needed on the host.
    host: OnceLock<Vec<f32>>,
}

impl Features {
    /// Creates features from a resident set, without copying its rows. The engine of the set computes on them in place; what
    /// needs them on the host, such as another engine, copies them once.
    ///
    /// ```
    /// use modelmix::Features;
    /// use modelmix::compute::Engine;
    /// let engine = Engine::default(); // or that of a GPU
    /// let held = engine.hold(&Features::new(2, vec![0.0, 1.0, 2.0, 3.0])?)?;
    /// assert_eq!(Features::resident(held)?.row(1), [2.0, 3.0]);
    /// # Ok::<(), modelmix::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are no rows or no columns, or if a value is NaN or infinite; those of [`Resident::first_not_finite`].
    pub fn resident(set: Box<dyn Resident>) -> Result<Self> {
        let width = set.width();
        if width == 0 || set.is_empty() {
            // The error of an empty array.
            return Self::new(width, Vec::new());
        }
        if let Some(row) = set.first_not_finite()? {
            let values = set.read(row..row + 1)?;
            let column = values.iter().position(|value| !value.is_finite()).unwrap_or(0);
            let value = values.get(column).copied().unwrap_or(f32::NAN).into();
            return Err(Error::NotFinite { origin: "features".into(), row, column, value });
        }
        Ok(Self::remote(width, Arc::new(FeatureRows { set, host: OnceLock::new() })))
    }
}

impl FeatureRows {
    /// The resident rows of features; `None` if they are in host memory.
    pub(super) fn of(features: &Features) -> Option<&Self> {
        (features.as_remote()? as &dyn Any).downcast_ref()
    }

    fn values(&self) -> Result<&[f32]> {
        if self.host.get().is_none() {
            let values = self.set.read(0..self.set.len())?;
            // Another thread may have read the same values.
            let _ = self.host.set(values);
        }
        Ok(self.host.get().map_or(&[], Vec::as_slice))
    }
}

impl Remote for FeatureRows {
    fn len(&self) -> usize {
        self.set.len()
    }

    fn read(&self, rows: Range<usize>) -> Result<Vec<f32>> {
        match self.host.get() {
            Some(values) => Ok(values[rows.start * self.set.width()..rows.end * self.set.width()].to_vec()),
            None => self.set.read(rows),
        }
    }

    fn host(&self) -> Result<&[f32]> {
        self.values()
    }
}

impl Resident for FeatureRows {
    fn len(&self) -> usize {
        self.set.len()
    }

    fn width(&self) -> usize {
        self.set.width()
    }

    fn storage(&self) -> Storage {
        self.set.storage()
    }

    fn append(&mut self, rows: Rows<'_>) -> Result<()> {
        self.host = OnceLock::new();
        self.set.append(rows)
    }

    fn swap_remove(&mut self, row: usize) -> Result<()> {
        self.host = OnceLock::new();
        self.set.swap_remove(row)
    }

    fn retain(&mut self, keep: &[bool]) -> Result<()> {
        self.host = OnceLock::new();
        self.set.retain(keep)
    }

    fn read(&self, rows: Range<usize>) -> Result<Vec<f32>> {
        Remote::read(self, rows)
    }

    fn duplicate(&self) -> Result<Box<dyn Resident>> {
        self.set.duplicate()
    }

    /// The copy in host memory; `None` if it cannot be made, so that `read` returns the error.
    fn host(&self) -> Option<HostRows<'_>> {
        self.values().ok().map(|values| HostRows::Single(Rows::new(self.set.width(), values)))
    }

    fn as_any(&self) -> &dyn Any {
        self.set.as_any()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Engine, HostSet, Set};
    use super::*;

    fn held(width: usize, values: &[f32]) -> Box<dyn Resident> {
        let mut set = HostSet::empty(width, Storage::Single);
        set.append(Rows::new(width, values)).expect("there is memory");
        Box::new(set)
    }

    #[test]
    fn features_of_a_resident_set_are_those_of_its_rows() {
        let values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let features = Features::resident(held(2, &values)).expect("finite rows");
        let same = Features::new(2, values.to_vec()).expect("finite rows");
        assert_eq!((features.len(), features.width(), &features), (3, 2, &same));
        assert_eq!(features.read_row(2).expect("a row").as_ref(), [4.0, 5.0]);
        assert!(matches!(Set::from(&features), Set::Resident(_)));
        let engine = Engine::default();
        let kernel = crate::kernel::Kernel::Gaussian { bandwidth: 1.5 };
        let sums = |set: &Features| engine.kernel_sums_within(&kernel, set).expect("sums");
        assert_eq!(sums(&features), sums(&same));
    }

    #[test]
    fn values_that_are_not_finite_are_refused() {
        let mut values = vec![1.0; 3 * 5000];
        values[3 * 4500 + 2] = f32::INFINITY;
        match Features::resident(held(3, &values)) {
            Err(Error::NotFinite { row: 4500, column: 2, value, .. }) => assert_eq!(value, f64::INFINITY),
            other => panic!("{other:?}"),
        }
        assert!(Features::resident(held(3, &[])).is_err());
    }
}
