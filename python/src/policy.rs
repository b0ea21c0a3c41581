//! Policies: their text.

use modelmix::PolicySpec;
use pyo3::prelude::*;

use crate::errors::to_exception;

/// A policy's text as the library writes it.
///
/// # Errors
/// What cannot be read, and where.
#[pyfunction]
pub(crate) fn policy(text: &str) -> PyResult<String> {
    Ok(PolicySpec::parse(text).map_err(to_exception)?.to_string())
}
