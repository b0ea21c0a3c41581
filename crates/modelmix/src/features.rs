//! Features: what an encoder says of samples, as finite 32-bit rows, checked once, when they are made.
//! Reading files is left to `load`, arithmetic to `compute`.

use std::sync::Arc;

use crate::error::{Error, Result};

/// `len` × `width` finite values, one row a sample.
///
/// ```
/// use modelmix::Features;
/// let features = Features::new(2, vec![0.0, 1.0, 2.0, 3.0])?;
/// assert_eq!((features.len(), features.row(1)), (2, [2.0, 3.0].as_slice()));
/// assert!(Features::new(2, vec![0.0, f32::NAN]).is_err());
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// The values may be the caller's own memory or a mapped file ([`Features::shared`]); copies of features share them.
#[derive(Clone)]
pub struct Features {
    width: usize,
    values: Arc<dyn AsRef<[f32]> + Send + Sync>,
}

impl Features {
    /// Takes `values`, row after row of `width`.
    ///
    /// # Errors
    /// No rows, no columns, a last row that is cut short, NaN or infinite values.
    pub fn new(width: usize, values: Vec<f32>) -> Result<Self> {
        Self::shared(width, Arc::new(values))
    }

    /// The same with values that stay where they are: mapped files, another language's arrays. They must never change.
    ///
    /// # Errors
    /// As [`Features::new`].
    pub fn shared(width: usize, shared: Arc<dyn AsRef<[f32]> + Send + Sync>) -> Result<Self> {
        let values = shared.as_ref().as_ref();
        let problem = if width == 0 {
            Some("the rows have no columns; check the encoder's output".to_string())
        } else if values.is_empty() {
            Some("there are no rows; give at least one sample".to_string())
        } else if !values.len().is_multiple_of(width) {
            Some(format!("{} values do not make whole rows of {width}", values.len()))
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(Error::Array { origin: "features".into(), problem });
        }
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(Error::NotFinite {
                origin: "features".into(),
                row: at / width,
                column: at % width,
                value: values[at].into(),
            });
        }
        Ok(Self { width, values: shared })
    }

    /// Collects rows that are given one by one; all must have the first one's width.
    ///
    /// # Errors
    /// As [`Features::new`], and rows of different widths.
    pub fn from_rows<R: AsRef<[f32]>>(rows: impl IntoIterator<Item = R>) -> Result<Self> {
        let mut width = 0;
        let mut values = Vec::new();
        for (index, row) in rows.into_iter().enumerate() {
            let row = row.as_ref();
            if index == 0 {
                width = row.len();
            } else if row.len() != width {
                return Err(Error::Width {
                    origin: format!("row {index}"),
                    found: row.len(),
                    other: "row 0".into(),
                    expected: width,
                });
            }
            values.extend_from_slice(row);
        }
        if values.is_empty() && width == 0 {
            width = 1;
        }
        Self::new(width, values)
    }

    /// How many rows there are; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.values().len() / self.width
    }

    /// How many columns there are; never 0.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `index`.
    ///
    /// # Panics
    /// Where there is no such row.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values()[index * self.width..][..self.width]
    }

    /// All rows, end to end.
    pub fn values(&self) -> &[f32] {
        self.values.as_ref().as_ref()
    }

    /// A borrowed view of all rows.
    pub fn view(&self) -> Rows<'_> {
        Rows { width: self.width, values: self.values() }
    }

    /// The rows at `indices`, in that order.
    ///
    /// # Errors
    /// No indices.
    ///
    /// # Panics
    /// Where there is no such row.
    pub fn select(&self, indices: impl IntoIterator<Item = usize>) -> Result<Self> {
        Self::from_rows(indices.into_iter().map(|index| self.row(index)))
    }
}

impl PartialEq for Features {
    fn eq(&self, other: &Self) -> bool {
        self.width == other.width && self.values() == other.values()
    }
}

impl std::fmt::Debug for Features {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Features({} × {})", self.len(), self.width)
    }
}

/// A borrowed run of rows, possibly empty: what the compute engine reads.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T = f32> {
    width: usize,
    values: &'a [T],
}

/// A borrowed run of rows in half precision, as bits.
pub type HalfRows<'a> = Rows<'a, u16>;

impl<'a, T> Rows<'a, T> {
    /// Views `values` as rows of `width`.
    ///
    /// # Panics
    /// When they do not make whole rows.
    pub fn new(width: usize, values: &'a [T]) -> Self {
        assert!(width > 0 && values.len().is_multiple_of(width), "{} values do not make rows of {width}", values.len());
        Self { width, values }
    }

    /// All values, row after row.
    pub fn values(&self) -> &'a [T] {
        self.values
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// How many columns there are.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `index`.
    #[inline]
    pub fn row(&self, index: usize) -> &'a [T] {
        &self.values[index * self.width..][..self.width]
    }

    /// Rows `start..end`.
    #[inline]
    pub fn slice(&self, start: usize, end: usize) -> Self {
        Self { width: self.width, values: &self.values[start * self.width..end * self.width] }
    }

    /// The rows one after another.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [T]> + use<'a, T> {
        self.values.chunks_exact(self.width)
    }
}
