//! Sets of images and texts, from files or from memory, and what encoders in Python need of them: pixels, tensors, texts.

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use modelmix::Error;
use modelmix::load::ArmSource;
use modelmix_encode::cache::Digest;
use modelmix_encode::decode::Limits;
use modelmix_encode::preprocess::Preprocessing;
use modelmix_encode::samples::{self, ImageSamples, ListedImage, Raw, SampleKind, TextSamples};
use modelmix_encode::{Image, Problem};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::encoder::{Cache, hex};
use crate::errors::to_exception;
use crate::prepared::{Failed, Prepared, collect, in_parallel, prepare};
use crate::work::{Progress, run, run_detached};

/// Images or texts of one set.
#[pyclass(frozen)]
pub(crate) struct Samples {
    pub(crate) inner: Arc<samples::Samples>,
}

/// How users of Python leave out samples that cannot be read; functions such as `solve` have no argument for it.
pub(crate) const SKIP_HINT: &str = "leave such samples out with mm.encode(..., on_error=\"skip\")";

/// The kind of samples at a source `[name=]path[:key]`: "images" or "texts"; `None` if it has neither, such as features. Without
/// `columns`, a named column of a table is one of features.
///
/// # Errors
/// A source without a path.
#[pyfunction]
pub(crate) fn sample_kind(py: Python<'_>, source: &str, columns: bool) -> PyResult<Option<&'static str>> {
    let source: ArmSource = source.parse().map_err(to_exception)?;
    run_detached(py, move || {
        // A pipe can be read only once.
        if !source.path.is_dir() && !source.path.is_file() {
            return None;
        }
        let extension = source.path.extension().unwrap_or_default().to_ascii_lowercase();
        let is_table = extension == "csv" || extension == "tsv" || extension == "parquet";
        if is_table && !columns {
            return None;
        }
        SampleKind::at(&source.path, source.key.as_deref()).map(SampleKind::name)
    })
}

#[pymethods]
impl Samples {
    /// Opens the sets of a source, each with its name.
    #[staticmethod]
    fn open(py: Python<'_>, source: &str) -> PyResult<Vec<(String, Samples)>> {
        let source: ArmSource = source.parse().map_err(to_exception)?;
        let sets = run(py, &Progress::new(None), move || samples::Samples::open(&source))?;
        Ok(sets.into_iter().map(|(name, set)| (name, Samples::of(set))).collect())
    }

    /// Images, each with its id: a path (text), the bytes of an image file, or pixels (an array of 8-bit integers with the
    /// shape height × width × channels). `origin` names them in messages.
    #[staticmethod]
    fn of_images(origin: String, images: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let images = images.into_iter().map(|(id, image)| Ok((id, listed(&image)?))).collect::<PyResult<Vec<_>>>()?;
        let images = ImageSamples::listed(images).map_err(|problem| refused(&origin, &problem))?;
        Ok(Self::of(samples::Samples::of_images(PathBuf::from(origin), images)))
    }

    /// Texts. `origin` names them in messages.
    #[staticmethod]
    fn of_texts(origin: String, texts: Vec<String>) -> PyResult<Self> {
        if texts.is_empty() {
            return Err(refused(&origin, &Problem::new("there are no texts; give at least one")));
        }
        let texts = texts.into_iter().collect::<TextSamples>();
        Ok(Self::of(samples::Samples::of_texts(PathBuf::from(origin), texts)))
    }

    /// "images" or "texts".
    #[getter]
    fn kind(&self) -> &'static str {
        self.inner.kind().name()
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// The ids of samples.
    fn ids(&self, rows: Vec<usize>) -> PyResult<Vec<String>> {
        rows.into_iter().map(|row| Ok(self.inner.id(self.checked(row)?))).collect()
    }

    /// The paths of samples; `None` for those that are not files of their own.
    fn files(&self, rows: Vec<usize>) -> PyResult<Vec<Option<OsString>>> {
        rows.into_iter().map(|row| Ok(self.inner.file(self.checked(row)?).map(PathBuf::into_os_string))).collect()
    }

    /// Consecutive texts.
    fn texts(&self, start: usize, stop: usize) -> PyResult<Vec<String>> {
        let text = |row| Ok(self.inner.text(self.checked(row)?).ok_or_else(|| wrong_kind("texts"))?.to_string());
        (start..stop).map(text).collect()
    }

    /// The SHA-256 checksum of the ids and contents of samples, in hexadecimal digits. `digests` has 32 bytes per sample of the
    /// whole set.
    fn checksum(&self, rows: Vec<usize>, digests: &[u8]) -> PyResult<String> {
        let digests: &[Digest] = digests.as_chunks().0;
        if digests.len() != self.inner.len() {
            return Err(PyValueError::new_err(format!("{} checksums for {} samples", digests.len(), self.inner.len())));
        }
        let rows = rows.into_iter().map(|row| self.checked(row)).collect::<PyResult<Vec<_>>>()?;
        Ok(hex(&self.inner.checksum(rows.into_iter().map(|row| (row, &digests[row])))))
    }

    /// The decoded images among consecutive samples, their indices, the checksums of all of them, 32 bytes each, and what failed.
    #[allow(clippy::type_complexity)]
    fn images<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
        threads: Option<usize>,
    ) -> PyResult<(Vec<Bound<'py, PyArray3<u8>>>, Vec<usize>, Bound<'py, PyBytes>, Failed)> {
        let range = self.range(start, stop)?;
        let decoded = run_detached(py, || {
            in_parallel(range.clone(), threads, |row| self.with_digest(row, |raw, _| raw.image(&Limits::default())))
        })?;
        let (mut images, mut rows, mut digests, mut failed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (row, (digest, image)) in range.zip(decoded) {
            digests.extend(digest);
            match image {
                Ok(image) => {
                    images.push(pixels(py, &image)?);
                    rows.push(row);
                }
                Err(problem) => failed.push((row, problem.to_string())),
            }
        }
        Ok((images, rows, PyBytes::new(py, &digests), failed))
    }

    /// The input tensors of consecutive images, except those whose features are in the cache: these are written to the rows of
    /// `features`, which has one row per sample of the whole set.
    #[pyo3(signature = (start, stop, preprocessing, cache=None, features=None, threads=None))]
    #[allow(clippy::too_many_arguments)]
    fn prepared<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
        preprocessing: &str,
        cache: Option<&Cache>,
        features: Option<&Bound<'py, PyArray2<f32>>>,
        threads: Option<usize>,
    ) -> PyResult<Prepared<'py>> {
        let range = self.range(start, stop)?;
        let preprocessing = parsed(preprocessing)?;
        let prepared = run_detached(py, || {
            in_parallel(range.clone(), threads, |row| {
                self.with_digest(row, |raw, digest| prepare(raw, digest, &preprocessing, cache))
            })
        })?;
        collect(py, range.zip(prepared).map(|(row, (digest, sample))| (row, digest, sample)), features)
    }
}

impl Samples {
    fn checked(&self, row: usize) -> PyResult<usize> {
        let count = self.inner.len();
        if row < count {
            Ok(row)
        } else {
            Err(PyIndexError::new_err(format!("sample {row} of {count} does not exist")))
        }
    }

    fn range(&self, start: usize, stop: usize) -> PyResult<Range<usize>> {
        if start < stop {
            self.checked(stop - 1)?;
        }
        Ok(start..stop)
    }

    fn of(samples: samples::Samples) -> Self {
        Self { inner: Arc::new(samples.with_skip_hint(SKIP_HINT)) }
    }

    /// The checksum of an image, and what `work` makes of it. The checksum is zeros if the image cannot be read.
    fn with_digest<T>(
        &self,
        row: usize,
        work: impl Fn(&Raw, &Digest) -> Result<T, Problem>,
    ) -> (Digest, Result<T, Problem>) {
        let texts = || Err(Problem::new("these are texts, not images; choose another encoder"));
        match self.inner.raw_image(row).unwrap_or_else(texts) {
            Ok(raw) => {
                let digest = raw.digest();
                let made = work(&raw, &digest);
                (digest, made)
            }
            Err(problem) => (Digest::default(), Err(problem)),
        }
    }
}

/// Reads a preprocessing from its JSON.
pub(crate) fn parsed(preprocessing: &str) -> PyResult<Preprocessing> {
    serde_json::from_str(preprocessing)
        .map_err(|error| PyValueError::new_err(format!("the preprocessing cannot be read ({error})")))
}

/// An image of a list.
fn listed(image: &Bound<'_, PyAny>) -> PyResult<ListedImage> {
    if let Ok(path) = image.cast::<PyString>() {
        return Ok(ListedImage::file_at(path.extract()?));
    }
    if let Ok(bytes) = image.cast::<PyBytes>() {
        return Ok(ListedImage::encoded(bytes.as_bytes().to_vec()));
    }
    let pixels = image.cast::<PyArray3<u8>>()?;
    let &[height, width, channels] = pixels.shape() else { return Err(wrong_kind("images")) };
    ListedImage::pixels(width, height, channels, pixels.to_vec()?)
        .map_err(|problem| PyValueError::new_err(problem.to_string()))
}

/// The pixels of an image as an array: height × width × 3.
pub(crate) fn pixels<'py>(py: Python<'py>, image: &Image) -> PyResult<Bound<'py, PyArray3<u8>>> {
    PyArray1::from_slice(py, image.pixels()).reshape([image.height(), image.width(), 3])
}

/// The image of an array: height × width × 3.
pub(crate) fn image(pixels: &Bound<'_, PyArray3<u8>>) -> PyResult<Image> {
    let &[height, width, _] = pixels.shape() else { return Err(wrong_kind("images")) };
    Image::new(width, height, pixels.to_vec()?).map_err(|problem| PyValueError::new_err(problem.to_string()))
}

fn refused(origin: &str, problem: &Problem) -> PyErr {
    to_exception(Error::Array { origin: origin.into(), problem: problem.to_string() })
}

fn wrong_kind(wanted: &str) -> PyErr {
    PyValueError::new_err(format!("these samples are not {wanted}; choose another encoder"))
}
