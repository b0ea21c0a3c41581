//! Named encoders: the list with what is on this machine, their preprocessing, and downloads of their weights.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use modelmix::Error;
use modelmix::compute::Stop;
use modelmix_encode::Problem;
use modelmix_encode::encoders::{ENCODERS, Kind, NamedEncoder, Pooling, SentenceSettings, Source};
use modelmix_encode::weights::{Environment, Location, Origin, PullOptions, locate, pull};
use pyo3::prelude::*;
use pyo3::types::PyAny;
use serde_json::{Value, json};

use crate::documents::loaded;
use crate::errors::to_exception;
use crate::work::{Progress, run, run_detached, run_short};

/// All named encoders, with the weights that are on this machine, as a list of dictionaries.
#[pyfunction]
pub(crate) fn encoders(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let described: Vec<Value> = run_detached(py, || {
        let environment = Environment::of_process();
        ENCODERS.iter().map(|encoder| described(encoder, &environment)).collect()
    })?;
    loaded(py, &described)
}

/// One named encoder, as in [`encoders`].
///
/// # Errors
/// If there is no encoder of this name.
#[pyfunction]
pub(crate) fn encoder<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let encoder = named(name)?;
    let described = run_detached(py, || described(encoder, &Environment::of_process()))?;
    loaded(py, &described)
}

/// The preprocessing of an encoder of images, as JSON, and the name of its preset, which is the encoder's first if `None` is given.
///
/// # Errors
/// If there is no such encoder or preset, or it takes texts.
#[pyfunction]
#[pyo3(signature = (name, preset=None))]
pub(crate) fn preprocessing(name: &str, preset: Option<&str>) -> PyResult<(String, String)> {
    let encoder = named(name)?;
    let refused = |problem: Problem| refused(encoder, &problem);
    let tool = match preset {
        Some(preset) => preset,
        None => encoder.preset(None).map_err(refused)?.tool,
    };
    let preprocessing = encoder.preprocessing(tool).map_err(refused)?;
    let text = serde_json::to_string(&preprocessing).map_err(|error| refused(Problem::new(error.to_string())))?;
    Ok((text, tool.to_string()))
}

/// The model that a path has for an encoder: the file itself, or one in a folder; `None` if it has none that is read directly.
///
/// # Errors
/// If there is no encoder of this name.
#[pyfunction]
pub(crate) fn located_weights(py: Python<'_>, name: &str, path: PathBuf) -> PyResult<Option<PathBuf>> {
    let encoder = named(name)?;
    run_detached(py, || match locate(encoder, Some(&path), &Environment::of_process()) {
        Location::Found(found) => Some(found.model),
        Location::Missing(_) => None,
    })
}

/// The settings that sentence-transformers stores next to weights, as a dictionary; `None` for what they do not say.
/// `usual_length` is the maximum number of tokens of models that do not state one.
///
/// # Errors
/// If a settings file cannot be read, or names a module or a pooling that is not supported.
#[pyfunction]
pub(crate) fn sentence_settings(py: Python<'_>, folder: PathBuf, usual_length: usize) -> PyResult<Bound<'_, PyAny>> {
    let settings = run_short(py, || SentenceSettings::read(&folder))?;
    loaded(
        py,
        &json!({
            "pooling": settings.pooling,
            "normalise": settings.normalise,
            "max_length": settings.max_length_or(usual_length),
            "lower_case": settings.lower_case,
        }),
    )
}

/// Downloads the weights of an encoder and returns their paths. `progress` is called with the number of bytes.
///
/// # Errors
/// If nothing is published, downloads are forbidden, or a download fails.
#[pyfunction]
#[pyo3(signature = (name, progress=None))]
pub(crate) fn pull_encoder(py: Python<'_>, name: &str, progress: Option<Py<PyAny>>) -> PyResult<Vec<String>> {
    let encoder = named(name)?;
    let progress = Progress::new(progress);
    let (counter, stop): (_, Stop) = (progress.counter(), progress.stop());
    let pulled = run(py, &progress, move || {
        let files = Mutex::new(std::collections::BTreeMap::<String, u64>::new());
        let observe = |now: &modelmix_encode::weights::Progress<'_>| {
            let mut files = files.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            files.insert(now.file.into(), now.done);
            counter.store(files.values().sum(), Ordering::Relaxed);
            stop.check().is_ok()
        };
        pull(encoder, &Environment::of_process(), &PullOptions::default(), &observe)
            .map_err(|problem| Error::Encoder { name: encoder.name.into(), problem: problem.to_string() })
    })?;
    Ok(pulled.into_iter().map(|file| file.path.to_string_lossy().into_owned()).collect())
}

fn named(name: &str) -> PyResult<&'static NamedEncoder> {
    NamedEncoder::named(name)
        .map_err(|problem| to_exception(Error::Encoder { name: name.into(), problem: problem.to_string() }))
}

fn refused(encoder: &NamedEncoder, problem: &Problem) -> PyErr {
    to_exception(Error::Encoder { name: encoder.name.into(), problem: problem.to_string() })
}

fn described(encoder: &NamedEncoder, environment: &Environment) -> Value {
    let (kind, size, prefix, max_length) = match encoder.kind {
        Kind::Image { size, .. } => ("images", Some(size), None, None),
        Kind::Text { prefix, max_length } => ("texts", None, Some(prefix), Some(max_length)),
    };
    let presets = encoder.presets.iter().map(|preset| {
        let pooling = preset.outputs.last().map_or(Pooling::Tensor, |place| place.pooling);
        json!({"tool": preset.tool, "width": preset.width, "pooling": pooling, "normalise": preset.normalise})
    });
    let sources = encoder.sources.iter().map(|source| match source {
        Source::Hub { repository, .. } => (*repository).to_string(),
        Source::Address { url, .. } => (*url).to_string(),
    });
    let (found, origin, how_to_get) = match locate(encoder, None, environment) {
        Location::Found(found) => (Some(found.model.to_string_lossy().into_owned()), Some(origin(found.origin)), None),
        Location::Missing(missing) => (None, None, Some(missing.how_to_get)),
    };
    json!({
        "name": encoder.name,
        "kind": kind,
        "width": encoder.presets.first().map_or(0, |preset| preset.width),
        "size": size,
        "prefix": prefix,
        "max_length": max_length,
        "presets": presets.collect::<Vec<_>>(),
        "sources": sources.collect::<Vec<_>>(),
        "found": found,
        "origin": origin,
        "how_to_get": how_to_get,
    })
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Given => "given",
        Origin::Cache => "modelmix",
        Origin::HuggingFace => "huggingface",
        Origin::TorchHub => "torch-hub",
    }
}
