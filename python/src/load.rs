//! Reading of features from files.

use modelmix::load::{self as files, ArmSource};
use numpy::PyArray2;
use pyo3::prelude::*;

use crate::arrays::array;
use crate::errors::to_exception;
use crate::work::{Progress, run};

/// Reads the arms of sources, each written `[name=]path[:key]`.
///
/// # Errors
/// If a file cannot be read or has the wrong contents; the message states the fix.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub(crate) fn load<'py>(py: Python<'py>, sources: Vec<String>) -> PyResult<Vec<(String, Bound<'py, PyArray2<f32>>)>> {
    let sources =
        sources.iter().map(|text| text.parse()).collect::<modelmix::Result<Vec<ArmSource>>>().map_err(to_exception)?;
    let arms = run(py, &Progress::new(None), move || files::arms(&sources))?;
    arms.iter().map(|arm| Ok((arm.name.clone(), array(py, arm.features.clone())?))).collect()
}

/// The path of a source `[name=]path[:key]`.
///
/// # Errors
/// A source without a path.
#[pyfunction]
pub(crate) fn source_path(source: &str) -> PyResult<String> {
    let source: ArmSource = source.parse().map_err(to_exception)?;
    Ok(source.path.to_string_lossy().into_owned())
}

/// Reads one array, written `path[:key]`.
///
/// # Errors
/// As [`load`].
#[pyfunction]
pub(crate) fn load_array<'py>(py: Python<'py>, source: &str) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let source: ArmSource = source.parse().map_err(to_exception)?;
    let features = run(py, &Progress::new(None), move || files::features(&source.path, source.key.as_deref()))?;
    array(py, features)
}
