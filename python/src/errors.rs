//! The library's sentences as Python's exceptions.

use std::any::Any;

use modelmix::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyPermissionError, PyRuntimeError, PyValueError};

/// What Python raises: what the system refused is an `OSError`, all else a `ValueError`, with the library's sentence.
pub(crate) fn to_exception(error: Error) -> PyErr {
    let sentence = error.to_string();
    match error {
        Error::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound => PyFileNotFoundError::new_err(sentence),
            std::io::ErrorKind::PermissionDenied => PyPermissionError::new_err(sentence),
            _ => PyOSError::new_err(sentence),
        },
        _ => PyValueError::new_err(sentence),
    }
}

/// A panic is a bug of ours, and no reason to take the interpreter along.
pub(crate) fn panic_exception(panic: &(dyn Any + Send)) -> PyErr {
    let what = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into());
    PyRuntimeError::new_err(format!(
        "modelmix has a bug and cannot go on ({what}); please report it with what you called"
    ))
}
