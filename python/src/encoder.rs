//! Encoders: networks that turn images and texts into features, with a cache; and files of features.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use modelmix::Encoding;
use modelmix_encode::cache::{self, Digest};
use modelmix_encode::encode::{self, EncoderSettings, OnError, RunSettings};
use modelmix_encode::store::{FeatureFile, FileType, NamedFeatures};
use modelmix_encode::weights::Environment;
use numpy::PyArray2;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Use, array, features};
use crate::documents::dictionary;
use crate::errors::to_exception;
use crate::prepared::write_row;
use crate::samples::Samples;
use crate::work::{Progress, run, run_detached, run_short};

/// Which encoder to open, passed by the package as an object with these attributes.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    encoder: String,
    weights: Option<PathBuf>,
    preset: Option<String>,
    runtime: String,
    device: String,
    library: Option<PathBuf>,
}

/// An encoder that is ready to run.
#[pyclass(frozen)]
pub(crate) struct Encoder {
    inner: Arc<encode::Encoder>,
}

/// The features of samples: the array, the index of the sample of each row, skipped samples (id and problem), the number of rows
/// that were in the cache, and the checksum of all samples.
type Encoded<'py> = (Bound<'py, PyArray2<f32>>, Vec<usize>, Vec<(String, String)>, usize, String);

#[pymethods]
impl Encoder {
    /// Opens an encoder by name, or an `.onnx` file.
    #[staticmethod]
    fn open(py: Python<'_>, settings: Settings) -> PyResult<Self> {
        let invalid = |problem: modelmix_encode::Problem| PyValueError::new_err(problem.to_string());
        let mut wanted = EncoderSettings::new(settings.encoder, Environment::of_process());
        wanted.weights = settings.weights;
        wanted.preset = settings.preset;
        wanted.runtime = settings.runtime.parse().map_err(invalid)?;
        wanted.device = settings.device.parse().map_err(invalid)?;
        wanted.library = settings.library;
        let inner = Arc::new(run(py, &Progress::new(None), move || encode::open(&wanted))?);
        Ok(Self { inner })
    }

    /// What it is, as files of features state it.
    #[getter]
    fn encoding<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dictionary(py, self.inner.encoding())
    }

    /// The number of features per sample.
    #[getter]
    fn width(&self) -> usize {
        self.inner.width()
    }

    /// What it takes: "images" or "texts".
    #[getter]
    fn kind(&self) -> &'static str {
        self.inner.kind().name()
    }

    /// The name of its cache.
    #[getter]
    fn cache_name(&self) -> String {
        self.inner.cache_name()
    }

    /// The preprocessing of images as JSON; `None` for an encoder of texts.
    #[getter]
    fn preprocessing(&self) -> PyResult<Option<String>> {
        let text = self.inner.preprocessing().map(serde_json::to_string).transpose();
        text.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Encodes samples; `progress` is called with the number of samples done.
    #[pyo3(signature = (samples, skip, cache=None, threads=None, progress=None))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        samples: &Samples,
        skip: bool,
        cache: Option<&Cache>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Encoded<'py>> {
        let progress = Progress::new(progress);
        let mut settings = RunSettings::default();
        settings.on_error = if skip { OnError::Skip } else { OnError::Refuse };
        settings.threads = threads;
        settings.stop = progress.stop();
        let counter = progress.counter();
        let (encoder, samples) = (Arc::clone(&self.inner), Arc::clone(&samples.inner));
        let kept = cache;
        let cache = cache.map(|cache| Arc::clone(&cache.inner));
        let encoded = run(py, &progress, move || {
            encode::encode(&encoder, &samples, &settings, cache.as_deref(), &|done| {
                counter.fetch_add(done as u64, Ordering::Relaxed);
            })
        })?;
        if let Some(cache) = kept {
            cache.fail(encoded.cache_problem);
        }
        let skipped = encoded.skipped.into_iter().map(|one| (one.id, one.problem.to_string())).collect();
        Ok((array(py, encoded.features)?, encoded.rows, skipped, encoded.cached, hex(&encoded.digest)))
    }
}

/// The cached features of one encoder.
#[pyclass(frozen)]
pub(crate) struct Cache {
    inner: Arc<cache::Cache>,
    width: usize,
    /// The first failure to add rows, after which none are added.
    problem: Mutex<Option<String>>,
}

#[pymethods]
impl Cache {
    /// Opens the cache with this name in a folder; in the user's cache folder if `None`.
    #[staticmethod]
    fn open(py: Python<'_>, folder: Option<PathBuf>, name: String, width: usize) -> PyResult<Option<Self>> {
        let usual = || Environment::of_process().cache().map(|folder| folder.join("features"));
        let Some(folder) = folder.or_else(usual) else { return Ok(None) };
        let inner = run_short(py, move || cache::Cache::open(&folder, &name, width))?;
        Ok(Some(Self { inner: Arc::new(inner), width, problem: Mutex::default() }))
    }

    /// Why rows could not be added; `None` if they could.
    #[getter]
    fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes the features of samples, by their checksums of 32 bytes each, to these rows of `features`. Returns the rows that
    /// were found.
    fn fill(
        &self,
        py: Python<'_>,
        digests: &[u8],
        rows: Vec<usize>,
        features: &Bound<'_, PyArray2<f32>>,
    ) -> PyResult<Vec<usize>> {
        let digests: &[Digest] = digests.as_chunks().0;
        if digests.len() != rows.len() {
            return Err(PyValueError::new_err("the cache needs one checksum per row"));
        }
        let found = run_detached(py, || digests.iter().map(|digest| self.row(digest)).collect::<Vec<_>>())?;
        let mut filled = Vec::new();
        for (row, values) in rows.into_iter().zip(found) {
            if let Some(values) = values {
                write_row(Some(features), row, &values)?;
                filled.push(row);
            }
        }
        Ok(filled)
    }

    /// Adds features, with 32 bytes of checksum per row. A failure is kept as the problem: the features are whole without it.
    fn add(&self, py: Python<'_>, digests: &[u8], rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let rows = features("features", rows, Use::Call)?;
        let digests: Vec<Digest> = digests.as_chunks().0.to_vec();
        if rows.width() != self.width || rows.len() != digests.len() {
            return Err(PyValueError::new_err("the cache needs one checksum per row"));
        }
        if self.problem().is_none() {
            let added = run_detached(py, || self.inner.add(&digests, rows.values()))?;
            self.fail(added.err());
        }
        Ok(())
    }
}

impl Cache {
    /// Keeps the first problem.
    fn fail(&self, error: Option<modelmix::Error>) {
        if let Some(error) = error {
            self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.to_string());
        }
    }

    /// The features of a sample, by its checksum; `None` if they are not there.
    pub(crate) fn row(&self, digest: &Digest) -> Option<Vec<f32>> {
        let mut row = vec![0.0; self.width];
        self.inner.read(digest, &mut row).then_some(row)
    }
}

/// States the encoding of an array, whose memory is shared.
#[pyfunction]
pub(crate) fn with_encoding<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    encoding: &str,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let rows = features("features", rows, Use::Call)?;
    array(py, rows.with_encoding(parsed(encoding)?))
}

/// The statement of the encoding behind an array; `None` if it is not known.
#[pyfunction]
pub(crate) fn encoding_of<'py>(py: Python<'py>, rows: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    features("features", rows, Use::Call)?.encoding().map(|encoding| dictionary(py, encoding)).transpose()
}

/// Writes features, with the ids of their samples and their encoding, to a new file; `named` is the path with the extension that
/// says the type.
#[pyfunction]
pub(crate) fn write_features(
    py: Python<'_>,
    path: PathBuf,
    named: PathBuf,
    sets: Vec<(String, Bound<'_, PyAny>, Vec<String>)>,
    encoding: &str,
) -> PyResult<()> {
    let file_type = FileType::of(&named).map_err(to_exception)?;
    let set = |(name, rows, ids): (String, Bound<'_, PyAny>, Vec<String>)| {
        let features = features(&name, &rows, Use::Call)?;
        Ok(NamedFeatures { name, features, ids })
    };
    let sets = sets.into_iter().map(set).collect::<PyResult<_>>()?;
    let file = FeatureFile { encoding: parsed(encoding)?, sets };
    py.detach(|| {
        let written = BufWriter::new(File::create_new(&path)?);
        file.write(file_type, written)?;
        File::open(&path)?.sync_all()
    })
    .map_err(|error: std::io::Error| PyOSError::new_err(format!("cannot write {}: {error}", named.display())))
}

fn parsed(encoding: &str) -> PyResult<Encoding> {
    serde_json::from_str(encoding)
        .map_err(|error| PyValueError::new_err(format!("the encoding cannot be read ({error})")))
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
