//! Conversion between NumPy arrays and features, without a copy if the memory layouts agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use half::f16;
use modelmix::{Error, Features};
use numpy::ndarray::ArrayView2;
use numpy::{Element, PyArray2, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::engine::Chosen;
use crate::errors::to_exception;

/// Bytes of features that were copied because an array could not be read in place.
static COPIED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of bytes of features that were copied or converted since the extension was loaded.
#[pyfunction]
pub(crate) fn copied_bytes() -> u64 {
    COPIED.load(Ordering::Relaxed)
}

/// The lifetime of features.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// During one call: memory of Python can be borrowed.
    Call,
    /// Beyond the call, when the caller may write to the array: the memory must be our own.
    Keep,
}

/// Rows of floats on a GPU, which the package passes as an object with these attributes.
#[derive(FromPyObject)]
struct DeviceArray<'py> {
    shape: (usize, usize),
    /// `None` if the array does not say.
    device: Option<usize>,
    /// The rows as 32-bit floats in C order, on the GPU.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    single: Bound<'py, PyAny>,
    /// The rows in host memory.
    host: Bound<'py, PyAny>,
}

/// The size of an array, and the GPU on which it is: `Some(None)` if it is on one, but does not say on which.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
pub(crate) struct Size {
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) device: Option<Option<usize>>,
}

/// Returns the size of an array; `None` if it is not two-dimensional.
pub(crate) fn size(array: &Bound<'_, PyAny>) -> Option<Size> {
    if let Ok(untyped) = array.cast::<PyUntypedArray>() {
        let &[rows, width] = untyped.shape() else { return None };
        return Some(Size { rows, width, device: None });
    }
    let DeviceArray { shape: (rows, width), device, .. } = array.extract().ok()?;
    Some(Size { rows, width, device: Some(device) })
}

/// Converts an array of n × d floats to features for an engine: on its GPU if the array is there and need not be kept. `origin` names it in messages:
/// "arm flux", "the reference".
pub(crate) fn features_for(chosen: &Chosen, origin: &str, array: &Bound<'_, PyAny>, usage: Use) -> PyResult<Features> {
    #[cfg(feature = "cuda")]
    if usage == Use::Call
        && !array.is_instance_of::<PyUntypedArray>()
        && let Some(cuda) = chosen.cuda()
        && let Ok(there) = array.extract::<DeviceArray<'_>>()
        && there.device.is_none_or(|device| device == cuda.ordinal())
    {
        return crate::device_arrays::features(origin, &there.single.call0()?, cuda);
    }
    #[cfg(not(feature = "cuda"))]
    let _ = chosen;
    features(origin, array, usage)
}

/// Converts an array of n × d floats to features in host memory.
pub(crate) fn features(origin: &str, array: &Bound<'_, PyAny>, usage: Use) -> PyResult<Features> {
    let refuse = |problem: String| to_exception(Error::Array { origin: origin.into(), problem });
    let copied = match array.extract::<DeviceArray<'_>>() {
        Ok(there) if !array.is_instance_of::<PyUntypedArray>() => Some(there.host.call0()?),
        _ => None,
    };
    let array = copied.as_ref().unwrap_or(array);
    let Ok(untyped) = array.cast::<PyUntypedArray>() else {
        return Err(refuse(format!("{} is not an array; pass rows of floats", array.get_type())));
    };
    if untyped.ndim() != 2 {
        let shape: Vec<String> = untyped.shape().iter().map(usize::to_string).collect();
        return Err(refuse(format!(
            "its shape is ({}), but features must be two-dimensional: one row per sample, one column per feature",
            shape.join(", ")
        )));
    }
    let made = if let Ok(single) = array.cast::<PyArray2<f32>>() {
        borrow(single, usage)
    } else if let Ok(double) = array.cast::<PyArray2<f64>>() {
        converted(double, |value| *value, |value| value as f32)
    } else if let Ok(half) = array.cast::<PyArray2<f16>>() {
        converted(half, |value| value.to_f64(), |value| value as f32)
    } else {
        return Err(refuse(format!(
            "its values are {}, but features must be floats of 16, 32 or 64 bits; convert them, as in x.astype(\"float32\")",
            untyped.dtype()
        )));
    };
    made.map_err(|error| to_exception(error.of(origin)))
}

/// Borrows a C-contiguous array in place; copies any other.
fn borrow(array: &Bound<'_, PyArray2<f32>>, usage: Use) -> modelmix::Result<Features> {
    let width = array.shape()[1];
    if !array.is_c_contiguous() || width == 0 || array.shape()[0] == 0 {
        return converted(array, |value| f64::from(*value), |value| value as f32);
    }
    if let Some(features) = viewed_features(array) {
        return Ok(features);
    }
    let borrowed = Borrowed { pointer: array.data().cast_const(), len: array.len(), _array: array.clone().unbind() };
    match usage {
        Use::Call => Features::shared(width, Arc::new(borrowed)),
        Use::Keep => {
            COPIED.fetch_add(4 * array.len() as u64, Ordering::Relaxed);
            Features::new(width, borrowed.as_ref().to_vec())
        }
    }
}

/// Converts all values to single precision, in row order. The error for a value that is not finite states the original value.
fn converted<T: Element>(
    array: &Bound<'_, PyArray2<T>>,
    widen: impl Fn(&T) -> f64,
    narrow: impl Fn(f64) -> f32,
) -> modelmix::Result<Features> {
    let (rows, width) = (array.shape()[0], array.shape()[1]);
    COPIED.fetch_add(4 * (rows * width) as u64, Ordering::Relaxed);
    // SAFETY: the interpreter is held and no Python code runs until the view is dropped, so nothing writes to the array;
    // the package passes aligned arrays of native byte order.
    let view = unsafe { array.as_array() };
    let mut values = Vec::with_capacity(rows * width);
    for (index, value) in view.iter().enumerate() {
        let value = widen(value);
        let single = narrow(value);
        if !single.is_finite() {
            return Err(Error::NotFinite {
                origin: "features".into(),
                row: index / width,
                column: index % width,
                value,
            });
        }
        values.push(single);
    }
    Features::new(width, values)
}

/// Borrowed memory of a Python array, which it keeps alive.
struct Borrowed {
    pointer: *const f32,
    len: usize,
    _array: Py<PyArray2<f32>>,
}

// SAFETY: the memory is only read. The caller must not write to it during a call, as with every library that releases the
// interpreter while it computes. If it does, the results are wrong, but memory safety does not depend on the values.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl AsRef<[f32]> for Borrowed {
    fn as_ref(&self) -> &[f32] {
        // SAFETY: pointer and length are those of a contiguous array that `_array` keeps alive; NumPy does not move the
        // memory of an array while there are references to it.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }
}

/// Features whose memory Python arrays view, such as those of a memory-mapped file.
#[pyclass(frozen)]
pub(crate) struct Memory {
    features: Features,
}

/// Returns features as a read-only array: a view of their memory, not a copy.
pub(crate) fn array(py: Python<'_>, features: Features) -> PyResult<Bound<'_, PyArray2<f32>>> {
    let memory = Bound::new(py, Memory { features })?;
    let features = &memory.get().features;
    let view = ArrayView2::from_shape((features.len(), features.width()), features.values())
        .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
    // SAFETY: the values are never moved or written while the features exist, and the array keeps `memory` alive.
    let array = unsafe { PyArray2::borrow_from_array(&view, memory.clone().into_any()) };
    array.call_method1("setflags", (false,))?;
    Ok(array)
}

/// Returns the features behind an array that [`array()`] created; `None` if it views only a part of them.
fn viewed_features(array: &Bound<'_, PyArray2<f32>>) -> Option<Features> {
    let base = array.getattr("base").ok()?;
    let features = &base.cast::<Memory>().ok()?.get().features;
    let whole =
        features.values().as_ptr() == array.data().cast_const() && [features.len(), features.width()] == array.shape();
    whole.then(|| features.clone())
}
