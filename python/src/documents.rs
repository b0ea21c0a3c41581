//! Documents as Python dictionaries, and the library's functions for number formatting and name suggestions.

use modelmix::RecordedArms;
use modelmix::document::{Provenance, UsedBandwidth};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::engine::Chosen;

/// Converts a document to a dictionary, with keys in the order of the JSON output of the command line.
pub(crate) fn dictionary<'py>(py: Python<'py>, document: &impl serde::Serialize) -> PyResult<Bound<'py, PyDict>> {
    Ok(loaded(py, document)?.cast_into()?)
}

/// Converts any value to Python's types: dictionaries, lists, texts, numbers.
pub(crate) fn loaded<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text =
        serde_json::to_string(value).map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// Where a result comes from, as far as the extension knows; the package adds the inputs.
pub(crate) fn provenance(
    chosen: &Chosen,
    seed: u64,
    arms: &RecordedArms,
    bandwidths: Vec<UsedBandwidth>,
) -> Option<Provenance> {
    let mut provenance = Provenance::new();
    provenance.encoding = arms.encoding().cloned();
    provenance.engine = Some(chosen.describe());
    provenance.seed = Some(seed);
    provenance.bandwidths = bandwidths;
    Some(provenance)
}

/// Formats a number for tables, with three significant digits.
#[pyfunction]
pub(crate) fn brief(value: f64) -> String {
    modelmix::internals::numbers::brief(value)
}

/// Shares of a whole as tables have them: percents that add up to 100.
#[pyfunction]
pub(crate) fn percents(shares: Vec<f64>) -> Vec<String> {
    modelmix::internals::numbers::percents(&shares)
}

/// A mixture as sentences have it: arms and shares, which add up to 100%, the largest first.
#[pyfunction]
pub(crate) fn named_shares(arms: Vec<(String, f64)>) -> String {
    let arms: Vec<(&str, f64)> = arms.iter().map(|(name, share)| (name.as_str(), *share)).collect();
    modelmix::internals::listing::named_shares(&arms)
}

/// Which arms a table lists, the largest weight first, and how many without weight are left out.
#[pyfunction]
pub(crate) fn listed_arms(weights: Vec<f64>, best: usize) -> (Vec<usize>, usize) {
    modelmix::internals::listing::listed_arms(&weights, best)
}

/// Returns the known word that is nearest to a misspelled one; `None` if none is near.
#[pyfunction]
pub(crate) fn nearest(word: &str, known: Vec<String>) -> Option<String> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    modelmix::internals::nearest_word(word, &known).map(str::to_string)
}
