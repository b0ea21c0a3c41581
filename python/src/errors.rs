//! The library's sentences as Python's exceptions.

use std::any::Any;

use modelmix::Error;
use pyo3::PyErr;
use pyo3::exceptions::{
    PyFileNotFoundError, PyMemoryError, PyOSError, PyPermissionError, PyRuntimeError, PyValueError,
};

/// What Python raises, with the library's sentence: an `OSError` if the system refused a file, a `MemoryError` or a `RuntimeError`
/// if the work could not be done, and a `ValueError` if what was given does not fit. Only the last is the caller's mistake, so
/// that a live run answers it with another call of a generator.
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
