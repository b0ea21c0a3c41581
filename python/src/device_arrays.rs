//! Arrays on a GPU, by DLPack or `__cuda_array_interface__`: read in place, after the work of the caller's stream.

use std::any::Any;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use modelmix::{Error, Features};
use modelmix_cuda::{Cuda, DeviceRows};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::to_exception;

/// The default stream of CUDA, with which an array is synchronised that names no stream.
const DEFAULT_STREAM: u64 = 1;

/// Features in the memory of an array of 32-bit floats in C order. `origin` names it in messages.
pub(crate) fn features(origin: &str, array: &Bound<'_, PyAny>, cuda: &Cuda) -> PyResult<Features> {
    let refuse = |problem: &str| to_exception(Error::Array { origin: origin.into(), problem: problem.into() });
    let found = if array.hasattr("__dlpack__")? { by_dlpack(array, cuda)? } else { by_interface(array)? };
    let Some(Found { rows, after, owner }) = found else {
        return Err(refuse(
            "it is on a GPU, but not two-dimensional, in C order and of 32-bit floats; convert it there (x.float().contiguous() in torch, x.astype(\"float32\", order=\"C\") in CuPy), or pass it as a NumPy array",
        ));
    };
    // SAFETY: the owner keeps the array, which has these rows; the caller must not write to it during the call, as with arrays in host
    // memory.
    let made = array.py().detach(|| unsafe { cuda.features(rows, after, owner) });
    made.map_err(|error| to_exception(error.of(origin)))
}

/// Rows in device memory, the stream to wait for, and what keeps them alive.
struct Found {
    rows: DeviceRows,
    after: Option<u64>,
    owner: Arc<dyn Any + Send + Sync>,
}

/// The C structures of DLPack, version 0.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: c_int,
    device_id: c_int,
    dimensions: c_int,
    type_code: u8,
    type_bits: u8,
    type_lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManagedTensor {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

/// A tensor that its library keeps until it is released.
struct Managed(*mut DlManagedTensor);

// SAFETY: DLPack lets any thread release a tensor; nothing else is done with it.
unsafe impl Send for Managed {}
// SAFETY: as above.
unsafe impl Sync for Managed {}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: the tensor is released once.
        unsafe {
            if let Some(deleter) = (*self.0).deleter {
                deleter(self.0);
            }
        }
    }
}

/// The number that DLPack has for floats.
const FLOAT: u8 = 2;

/// Takes the tensor of an array, whose library makes the stream of the engine wait for its own; `None` if the layout does not fit.
fn by_dlpack(array: &Bound<'_, PyAny>, cuda: &Cuda) -> PyResult<Option<Found>> {
    const FRESH: &CStr = c"dltensor";
    const USED: &CStr = c"used_dltensor";
    let arguments = PyDict::new(array.py());
    arguments.set_item("stream", cuda.stream())?;
    let capsule = array.call_method("__dlpack__", (), Some(&arguments))?;
    // SAFETY: the capsule is alive; its pointer is that of a tensor if it has this name. With the other name, it does not release the
    // tensor, which is ours from then on.
    let managed = unsafe {
        let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), FRESH.as_ptr());
        if pointer.is_null() || ffi::PyCapsule_SetName(capsule.as_ptr(), USED.as_ptr()) != 0 {
            return Err(PyErr::fetch(array.py()));
        }
        Managed(pointer.cast())
    };
    // SAFETY: the tensor is alive while `managed` is; shape and strides have one value per dimension, and strides may be absent.
    let rows = unsafe {
        let tensor = &(*managed.0).tensor;
        if tensor.dimensions != 2 || (tensor.type_code, tensor.type_bits, tensor.type_lanes) != (FLOAT, 32, 1) {
            return Ok(None);
        }
        let (rows, width) = (*tensor.shape, *tensor.shape.add(1));
        let strides = (!tensor.strides.is_null()).then(|| (*tensor.strides, *tensor.strides.add(1)));
        if strides.is_some_and(|strides| !is_contiguous((rows, width), strides)) {
            return Ok(None);
        }
        let (Ok(rows), Ok(width)) = (usize::try_from(rows), usize::try_from(width)) else { return Ok(None) };
        DeviceRows { address: tensor.data as u64 + tensor.byte_offset, rows, width }
    };
    Ok(Some(Found { rows, after: None, owner: Arc::new(managed) }))
}

/// Whether strides in values are those of rows in C order.
fn is_contiguous((rows, width): (i64, i64), (row, column): (i64, i64)) -> bool {
    (rows <= 1 || row == width) && (width <= 1 || column == 1)
}

/// Reads `__cuda_array_interface__`, version 2 or 3; `None` if the layout does not fit.
fn by_interface(array: &Bound<'_, PyAny>) -> PyResult<Option<Found>> {
    let interface = array.getattr("__cuda_array_interface__")?.cast_into::<PyDict>()?;
    let get = |key: &str| Ok::<_, PyErr>(interface.get_item(key)?.filter(|value| !value.is_none()));
    let (Some(shape), Some(kind), Some(data)) = (get("shape")?, get("typestr")?, get("data")?) else { return Ok(None) };
    let shape: Vec<i64> = shape.extract()?;
    let &[rows, width] = &shape[..] else { return Ok(None) };
    if kind.extract::<String>()? != "<f4" || get("mask")?.is_some() {
        return Ok(None);
    }
    if let Some(strides) = get("strides")? {
        let (row, column): (i64, i64) = strides.extract()?;
        if row % 4 != 0 || column % 4 != 0 || !is_contiguous((rows, width), (row / 4, column / 4)) {
            return Ok(None);
        }
    }
    let address: u64 = data.cast::<PyTuple>()?.get_item(0)?.extract()?;
    let version: i64 = get("version")?.map_or(Ok(0), |version| version.extract())?;
    let after = match get("stream")? {
        Some(stream) => Some(stream.extract()?),
        // From version 3 on, an array without a stream needs no synchronisation.
        None if version >= 3 => None,
        None => Some(DEFAULT_STREAM),
    };
    let (Ok(rows), Ok(width)) = (usize::try_from(rows), usize::try_from(width)) else { return Ok(None) };
    let rows = DeviceRows { address, rows, width };
    Ok(Some(Found { rows, after, owner: Arc::new(array.clone().unbind()) }))
}
