//! Conversion of library errors to Python exceptions.

use std::any::Any;

use modelmix::Error;
use pyo3::PyErr;
use pyo3::exceptions::{
    PyFileNotFoundError, PyMemoryError, PyOSError, PyPermissionError, PyRuntimeError, PyValueError,
};

/// Converts an error to an exception with the same message: an `OSError` if a file operation failed, a `MemoryError` or a
/// `RuntimeError` if the computation could not run, and a `ValueError` if the input is invalid. Only the last is an error of the
/// caller, so an online run retries the generator only after a `ValueError`.
pub(crate) fn to_exception(error: Error) -> PyErr {
    let sentence = error.to_string();
    match error {
        Error::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound => PyFileNotFoundError::new_err(sentence),
            std::io::ErrorKind::PermissionDenied => PyPermissionError::new_err(sentence),
            _ => PyOSError::new_err(sentence),
        },
        Error::Memory { .. } => PyMemoryError::new_err(sentence),
        Error::Device { .. } | Error::Stopped => PyRuntimeError::new_err(sentence),
        _ => PyValueError::new_err(sentence),
    }
}

/// Converts a panic, which is a bug in modelmix, to an exception instead of aborting the interpreter.
pub(crate) fn panic_exception(panic: &(dyn Any + Send)) -> PyErr {
    let what = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into());
    PyRuntimeError::new_err(format!(
        "internal error in modelmix ({what}); please report it with the call that caused it"
    ))
}
