//! The library's documents as Python's dictionaries, and the library's ways of writing numbers and guessing words.

use modelmix::compute::Engine;
use modelmix::document::{Provenance, UsedBandwidth};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A document as a dictionary, its keys in the order of the command line's JSON.
pub(crate) fn dictionary<'py>(py: Python<'py>, document: &impl serde::Serialize) -> PyResult<Bound<'py, PyDict>> {
    let text = serde_json::to_string(document)
        .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
    Ok(py.import("json")?.call_method1("loads", (text,))?.cast_into()?)
}

/// Where a result comes from, as far as the extension knows; the package adds the inputs.
pub(crate) fn provenance(engine: &Engine, seed: u64, bandwidths: Vec<UsedBandwidth>) -> Option<Provenance> {
    let mut provenance = Provenance::new();
    provenance.engine = Some(engine.describe());
    provenance.seed = Some(seed);
    provenance.bandwidths = bandwidths;
    Some(provenance)
}

/// A number as tables have it: three digits that count.
#[pyfunction]
pub(crate) fn brief(value: f64) -> String {
    modelmix::internals::numbers::brief(value)
}

/// The word that was probably meant.
#[pyfunction]
pub(crate) fn nearest(word: &str, known: Vec<String>) -> Option<String> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    modelmix::internals::nearest_word(word, &known).map(str::to_string)
}
