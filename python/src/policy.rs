//! The text of policies.

use modelmix::PolicySpec;
use pyo3::prelude::*;

use crate::errors::to_exception;

/// Returns the text of a policy in the notation of the library.
///
/// # Errors
/// If the text cannot be parsed; the message states where.
#[pyfunction]
pub(crate) fn policy(text: &str) -> PyResult<String> {
    Ok(PolicySpec::parse(text).map_err(to_exception)?.to_string())
}
