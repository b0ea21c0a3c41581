//! Features: the output of an encoder as finite 32-bit rows, checked when they are created.
//! Files are read by `load`; arithmetic is in `compute`.

use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::encoding::Encoding;
use crate::error::{Error, Result};

/// Features of samples: `len` × `width` finite values, one row per sample.
///
/// ```
/// use modelmix::Features;
/// let features = Features::new(2, vec![0.0, 1.0, 2.0, 3.0])?;
/// assert_eq!((features.len(), features.row(1)), (2, [2.0, 3.0].as_slice()));
/// assert!(Features::new(2, vec![0.0, f32::NAN]).is_err());
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// Two sets are equal if their rows are; their encodings are not compared.
///
/// The values may be memory of the caller or a mapped file ([`Features::shared`]), or memory of a device
/// ([`Features::resident`]). Clones share them.
#[derive(Clone)]
pub struct Features {
    width: usize,
    values: Values,
    encoding: Option<Arc<Encoding>>,
}

#[derive(Clone)]
enum Values {
    Host(Arc<dyn AsRef<[f32]> + Send + Sync>),
    Remote(Arc<dyn Remote>),
}

/// Rows in other memory than the host's, which `compute` knows how to use there.
pub(crate) trait Remote: Any + Send + Sync {
    fn len(&self) -> usize;

    /// Reads rows, in row-major order.
    fn read(&self, rows: Range<usize>) -> Result<Vec<f32>>;

    /// All values in host memory, which are read once.
    fn host(&self) -> Result<&[f32]>;
}

/// The first value that is not a finite number. All values of a chunk are tested without a branch, which is several times
/// faster.
pub(crate) fn first_not_finite(values: &[f32]) -> Option<usize> {
    const CHUNK: usize = 1024;
    let is_finite = |chunk: &[f32]| chunk.iter().fold(true, |all, value| all & value.is_finite());
    let chunk = values.chunks(CHUNK).position(|chunk| !is_finite(chunk))?;
    values[chunk * CHUNK..].iter().position(|value| !value.is_finite()).map(|at| chunk * CHUNK + at)
}

impl Features {
    /// Creates features from `values` in row-major order.
    ///
    /// # Errors
    /// If there are no rows or no columns, if the last row is incomplete, or if a value is NaN or infinite.
    pub fn new(width: usize, values: Vec<f32>) -> Result<Self> {
        Self::shared(width, Arc::new(values))
    }

    /// Creates features from values that are not copied, such as mapped files or arrays of another language. They must
    /// never change.
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
        if let Some(at) = first_not_finite(values) {
            return Err(Error::NotFinite {
                origin: "features".into(),
                row: at / width,
                column: at % width,
                value: values[at].into(),
            });
        }
        Ok(Self { width, values: Values::Host(shared), encoding: None })
    }

    /// Creates features from rows that are not in host memory, have `width` columns and are known to be finite.
    pub(crate) fn remote(width: usize, rows: Arc<dyn Remote>) -> Self {
        Self { width, values: Values::Remote(rows), encoding: None }
    }

    /// The rows outside host memory; `None` if they are in host memory.
    pub(crate) fn as_remote(&self) -> Option<&dyn Remote> {
        match &self.values {
            Values::Host(_) => None,
            Values::Remote(rows) => Some(&**rows),
        }
    }

    /// States how the features were made.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = Some(Arc::new(encoding));
        self
    }

    /// How the features were made; `None` if unknown.
    pub fn encoding(&self) -> Option<&Encoding> {
        self.encoding.as_deref()
    }

    /// Checks that two sets, named for messages, may be compared: they have the same width, and the same encoder made them,
    /// as far as that is known.
    pub(crate) fn check_comparable(&self, origin: &str, other: &Features, other_origin: &str) -> Result<()> {
        if self.width != other.width {
            return Err(Error::Width {
                origin: origin.into(),
                found: self.width,
                other: other_origin.into(),
                expected: other.width,
            });
        }
        match (self.encoding(), other.encoding()) {
            (Some(found), Some(expected)) if found.fingerprint != expected.fingerprint => Err(Error::Encoding {
                origin: origin.into(),
                found: found.to_string(),
                other: other_origin.into(),
                expected: expected.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Creates features from an iterator of rows. All rows must have the same width.
    ///
    /// # Errors
    /// As [`Features::new`], and if widths differ.
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

    /// Number of rows; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Host(values) => (**values).as_ref().len() / self.width,
            Values::Remote(rows) => rows.len(),
        }
    }

    /// Number of columns; never 0.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `index`.
    ///
    /// # Panics
    /// If there is no such row; as [`Features::values`].
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values()[index * self.width..][..self.width]
    }

    /// All values, in row-major order.
    ///
    /// # Panics
    /// If the rows are on a device and cannot be copied to the host; [`Features::host`] returns this as an error.
    pub fn values(&self) -> &[f32] {
        match &self.values {
            Values::Host(values) => (**values).as_ref(),
            Values::Remote(rows) => rows.host().unwrap_or_else(|error| panic!("features cannot be read: {error}")),
        }
    }

    /// A borrowed view of all rows.
    ///
    /// # Panics
    /// As [`Features::values`].
    pub fn view(&self) -> Rows<'_> {
        Rows { width: self.width, values: self.values() }
    }

    /// The same view. Rows on a device are copied to the host once, by the first call of this or another method that needs
    /// them there.
    ///
    /// # Errors
    /// [`Error::Memory`] or [`Error::Device`] if rows on a device cannot be copied.
    pub fn host(&self) -> Result<Rows<'_>> {
        let values = match &self.values {
            Values::Host(values) => (**values).as_ref(),
            Values::Remote(rows) => rows.host()?,
        };
        Ok(Rows { width: self.width, values })
    }

    /// Row `index`; of rows on a device this row alone is copied.
    pub(crate) fn read_row(&self, index: usize) -> Result<Cow<'_, [f32]>> {
        match &self.values {
            Values::Host(_) => Ok(Cow::Borrowed(self.row(index))),
            Values::Remote(rows) => rows.read(index..index + 1).map(Cow::Owned),
        }
    }

    /// Selects the rows at `indices`, in that order.
    ///
    /// # Errors
    /// If there are no indices; those of [`Features::host`].
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn select(&self, indices: impl IntoIterator<Item = usize>) -> Result<Self> {
        self.host()?;
        let selected = Self::from_rows(indices.into_iter().map(|index| self.row(index)))?;
        Ok(Self { encoding: self.encoding.clone(), ..selected })
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

/// A borrowed range of rows, possibly empty. The compute engine reads these.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T = f32> {
    width: usize,
    values: &'a [T],
}

/// A borrowed range of rows in half precision, as bits.
pub type HalfRows<'a> = Rows<'a, u16>;

impl<'a, T> Rows<'a, T> {
    /// Views `values` as rows of `width`.
    ///
    /// # Panics
    /// If the last row is incomplete.
    pub fn new(width: usize, values: &'a [T]) -> Self {
        assert!(width > 0 && values.len().is_multiple_of(width), "{} values do not make rows of {width}", values.len());
        Self { width, values }
    }

    /// All values, in row-major order.
    pub fn values(&self) -> &'a [T] {
        self.values
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Number of columns.
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

    /// Iterates over the rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [T]> + use<'a, T> {
        self.values.chunks_exact(self.width)
    }
}
