//! Images on their way to an encoder in Python: read, looked up in the cache, decoded and preprocessed on several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use modelmix_encode::Problem;
use modelmix_encode::cache::Digest;
use modelmix_encode::decode::Limits;
use modelmix_encode::preprocess::Preprocessing;
use modelmix_encode::samples::Raw;
use numpy::{PyArray1, PyArray2, PyArray4, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::encoder::Cache;

/// Samples that could not be read: index and problem.
pub(crate) type Failed = Vec<(usize, String)>;

/// Tensors of equal shape, one after the other, each of samples × channels × height × width; the indices of their samples; the
/// indices of samples whose features were in the cache; the checksums of all samples, 32 bytes each, which are zeros if one
/// could not be read; and what failed.
pub(crate) type Prepared<'py> = (Vec<Bound<'py, PyArray4<f32>>>, Vec<usize>, Vec<usize>, Bound<'py, PyBytes>, Failed);

/// One image.
pub(crate) enum Sample {
    Cached(Vec<f32>),
    Tensor { shape: [usize; 3], values: Vec<f32> },
}

/// Decodes and preprocesses an image, unless its features are in the cache.
///
/// # Errors
/// If the image cannot be decoded or preprocessed.
pub(crate) fn prepare(
    raw: &Raw,
    digest: &Digest,
    preprocessing: &Preprocessing,
    cache: Option<&Cache>,
) -> Result<Sample, Problem> {
    if let Some(features) = cache.and_then(|cache| cache.row(digest)) {
        return Ok(Sample::Cached(features));
    }
    let image = raw.image(&Limits::default())?;
    let shape = preprocessing.shape_of(image.width(), image.height())?;
    let mut values = vec![0.0; shape.iter().product()];
    preprocessing.apply(&image, &mut values)?;
    Ok(Sample::Tensor { shape, values })
}

/// Converts samples to arrays of Python. Features from the cache are written to the rows of `features`.
///
/// # Errors
/// If `features` has no row for a sample from the cache.
pub(crate) fn collect<'py>(
    py: Python<'py>,
    samples: impl Iterator<Item = (usize, Digest, Result<Sample, Problem>)>,
    features: Option<&Bound<'py, PyArray2<f32>>>,
) -> PyResult<Prepared<'py>> {
    let (mut rows, mut digests, mut groups) = (Vec::new(), Vec::new(), Vec::<([usize; 3], Vec<f32>)>::new());
    let (mut cached, mut failed) = (Vec::new(), Vec::new());
    for (row, digest, sample) in samples {
        digests.extend(digest);
        match sample {
            Ok(Sample::Cached(found)) => {
                write_row(features, row, &found)?;
                cached.push(row);
            }
            Ok(Sample::Tensor { shape, values }) => {
                rows.push(row);
                match groups.last_mut() {
                    Some((last, group)) if *last == shape => group.extend(values),
                    _ => groups.push((shape, values)),
                }
            }
            Err(problem) => failed.push((row, problem.to_string())),
        }
    }
    let tensors = groups.into_iter().map(|([channels, height, width], values)| {
        let count = values.len() / (channels * height * width);
        PyArray1::from_vec(py, values).reshape([count, channels, height, width])
    });
    let tensors = tensors.collect::<PyResult<_>>()?;
    Ok((tensors, rows, cached, PyBytes::new(py, &digests), failed))
}

/// Writes one row of an array.
///
/// # Errors
/// If there is no array, or it has no such row.
pub(crate) fn write_row(features: Option<&Bound<'_, PyArray2<f32>>>, row: usize, values: &[f32]) -> PyResult<()> {
    let refused =
        || PyValueError::new_err(format!("the array of features has no row {row} of {} values", values.len()));
    let array = features.ok_or_else(refused)?;
    let &[count, width] = array.shape() else { return Err(refused()) };
    if row >= count || width != values.len() {
        return Err(refused());
    }
    let mut writable = array.try_readwrite().map_err(|_| refused())?;
    let all = writable.as_slice_mut().map_err(|_| refused())?;
    all[row * width..(row + 1) * width].copy_from_slice(values);
    Ok(())
}

/// Calls `work` with every index of a range, on several threads, and returns the results in order.
pub(crate) fn in_parallel<T: Send>(
    range: Range<usize>,
    threads: Option<usize>,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let threads = threads.unwrap_or_else(modelmix::compute::available_threads).clamp(1, range.len().max(1));
    let next = AtomicUsize::new(range.start);
    let done = Mutex::new(Vec::with_capacity(range.len()));
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= range.end {
                return;
            }
            let result = work(index);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
