//! Images as arrays: decoding, resizing and preprocessing as encoders do it.

use modelmix_encode::Problem;
use modelmix_encode::decode::{Limits, decode};
use modelmix_encode::resize::{self, Method, Workspace};
use numpy::{PyArray1, PyArray3, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::samples::{image, pixels};
use crate::work::run_detached;

/// The pixels of an image file: height × width × 3.
///
/// # Errors
/// If the bytes are not an image that can be decoded, or it is too large.
#[pyfunction]
pub(crate) fn decode_image<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyArray3<u8>>> {
    let image = run_detached(py, || decode(bytes, &Limits::default()))?.map_err(invalid)?;
    pixels(py, &image)
}

/// A resized image: 3 × height × width floats. `method` is a resize of the preprocessing, as JSON.
///
/// # Errors
/// If the method is unknown, or the size is out of range.
#[pyfunction]
pub(crate) fn resize_image<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyArray3<u8>>,
    height: usize,
    width: usize,
    method: &str,
) -> PyResult<Bound<'py, PyArray3<f32>>> {
    let method: Method = serde_json::from_str(method).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let image = image(array)?;
    let resized = run_detached(py, || resize::resize(&image, height, width, method, &mut Workspace::default()))?
        .map_err(invalid)?;
    let values: Vec<f32> = resized.rows().flatten().copied().collect();
    PyArray1::from_vec(py, values).reshape([resized.channels(), height, width])
}

fn invalid(problem: Problem) -> PyErr {
    PyValueError::new_err(problem.to_string())
}
