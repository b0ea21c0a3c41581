//! Sets of images and texts, from files or from memory, and what encoders in Python need of them: pixels, tensors, texts.

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use modelmix::Error;
use modelmix::load::ArmSource;
use modelmix_encode::preprocess::Preprocessing;
use modelmix_encode::samples::{self, ImageSamples, ListedImage, SampleKind, TextSamples};
use modelmix_encode::{Image, Problem};
use numpy::{PyArray1, PyArray3, PyArray4, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use sha2::{Digest as _, Sha256};

use crate::encoder::Cache;
use crate::errors::to_exception;
use crate::work::{Progress, run, run_detached};

/// Images or texts of one set.
#[pyclass(frozen)]
pub(crate) struct Samples {
    pub(crate) inner: Arc<samples::Samples>,
}

/// Samples that could not be read: index and problem.
type Failed = Vec<(usize, String)>;

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
        Ok(sets.into_iter().map(|(name, set)| (name, Samples { inner: Arc::new(set) })).collect())
    }

    /// Images, each with its id: a path (text), the bytes of an image file, or pixels (an array of 8-bit integers with the
    /// shape height × width × channels). `origin` names them in messages.
    #[staticmethod]
    fn of_images(origin: String, images: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let images = images.into_iter().map(|(id, image)| Ok((id, listed(&image)?))).collect::<PyResult<Vec<_>>>()?;
        let images = ImageSamples::listed(images).map_err(|problem| refused(&origin, &problem))?;
        Ok(Self { inner: Arc::new(samples::Samples::of_images(PathBuf::from(origin), images)) })
    }

    /// Texts. `origin` names them in messages.
    #[staticmethod]
    fn of_texts(origin: String, texts: Vec<String>) -> PyResult<Self> {
        if texts.is_empty() {
            return Err(refused(&origin, &Problem::new("there are no texts; give at least one")));
        }
        let texts = texts.into_iter().collect::<TextSamples>();
        Ok(Self { inner: Arc::new(samples::Samples::of_texts(PathBuf::from(origin), texts)) })
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

    /// The decoded images among consecutive samples, their indices, and what failed.
    #[allow(clippy::type_complexity)]
    fn images<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
        threads: Option<usize>,
    ) -> PyResult<(Vec<Bound<'py, PyArray3<u8>>>, Vec<usize>, Failed)> {
        let range = self.range(start, stop)?;
        let decoded = run_detached(py, || in_parallel(range.clone(), threads, |row| self.image(row)))?;
        let (mut images, mut rows, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for (row, image) in range.zip(decoded) {
            match image {
                Ok(image) => {
                    images.push(pixels(py, &image)?);
                    rows.push(row);
                }
                Err(problem) => failed.push((row, problem.to_string())),
            }
        }
        Ok((images, rows, failed))
    }

    /// The input tensors of consecutive images, except those whose features are in the cache.
    #[pyo3(signature = (start, stop, preprocessing, cache=None, threads=None))]
    fn prepared<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
        preprocessing: &str,
        cache: Option<&Cache>,
        threads: Option<usize>,
    ) -> PyResult<Prepared<'py>> {
        let range = self.range(start, stop)?;
        let preprocessing = parsed(preprocessing)?;
        let prepared = run_detached(py, || {
            in_parallel(range.clone(), threads, |row| {
                let image = self.image(row)?;
                let digest = pixel_digest(&image);
                if let Some(cache) = cache {
                    let mut features = vec![0.0; cache.width];
                    if cache.inner.read(&digest, &mut features) {
                        return Ok(Sample::Cached(features));
                    }
                }
                let shape = preprocessing.shape_of(image.width(), image.height())?;
                let mut values = vec![0.0; shape.iter().product()];
                preprocessing.apply(&image, &mut values)?;
                Ok(Sample::Tensor { shape, values, digest })
            })
        })?;
        collect(py, range.zip(prepared))
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

    fn image(&self, row: usize) -> Result<Image, Problem> {
        self.inner
            .image(row)
            .unwrap_or_else(|| Err(Problem::new("these are texts, not images; choose another encoder")))
    }
}

/// One image on its way to an encoder.
enum Sample {
    Cached(Vec<f32>),
    Tensor { shape: [usize; 3], values: Vec<f32>, digest: [u8; 32] },
}

/// Images on their way to an encoder in Python: tensors of equal shape, one after the other, each of samples × channels × height
/// × width; the indices of their samples; the checksums of these, 32 bytes each; features from the cache, with their indices;
/// and what failed.
type Prepared<'py> =
    (Vec<Bound<'py, PyArray4<f32>>>, Vec<usize>, Bound<'py, PyBytes>, Vec<(usize, Bound<'py, PyArray1<f32>>)>, Failed);

fn collect<'py>(
    py: Python<'py>,
    samples: impl Iterator<Item = (usize, Result<Sample, Problem>)>,
) -> PyResult<Prepared<'py>> {
    let (mut rows, mut digests, mut groups) = (Vec::new(), Vec::new(), Vec::<([usize; 3], Vec<f32>)>::new());
    let (mut cached, mut failed) = (Vec::new(), Vec::new());
    for (row, sample) in samples {
        match sample {
            Ok(Sample::Cached(features)) => cached.push((row, PyArray1::from_vec(py, features))),
            Ok(Sample::Tensor { shape, values, digest }) => {
                rows.push(row);
                digests.extend(digest);
                match groups.last_mut() {
                    Some((last, group)) if *last == shape => group.extend(values),
                    _ => groups.push((shape, values)),
                }
            }
            Err(problem) => failed.push((row, problem.to_string())),
        }
    }
    let tensors = groups.into_iter().map(|([channels, height, width], values)| {
        let count = values.len() / (channels * height * width);
        PyArray1::from_vec(py, values).reshape([count, channels, height, width])
    });
    let tensors = tensors.collect::<PyResult<_>>()?;
    Ok((tensors, rows, PyBytes::new(py, &digests), cached, failed))
}

/// The checksum of decoded pixels, for features of encoders in Python.
fn pixel_digest(image: &Image) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(b"modelmix decoded");
    for side in [image.width(), image.height()] {
        hasher.update((side as u64).to_le_bytes());
    }
    hasher.update(image.pixels());
    hasher.finalize().into()
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

/// Calls `work` with every index of a range, on several threads, and returns the results in order.
fn in_parallel<T: Send>(range: Range<usize>, threads: Option<usize>, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = threads.unwrap_or_else(modelmix::compute::available_threads).clamp(1, range.len().max(1));
    let next = AtomicUsize::new(range.start);
    let done = Mutex::new(Vec::with_capacity(range.len()));
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= range.end {
                return;
            }
            let result = work(index);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
