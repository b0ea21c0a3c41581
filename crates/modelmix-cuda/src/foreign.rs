//! Features in device memory of the caller, without a copy.

use std::any::Any;
use std::sync::Arc;

use modelmix::compute::Resident;
use modelmix::{Features, Result};

use crate::backend::Cuda;
use crate::resident::DeviceSet;

/// What the kernels assume of the address of a row: they read four values at a time.
const ALIGNMENT: u64 = 16;

/// Rows of floats in device memory: contiguous, in row-major order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRows {
    /// The address of the first value.
    pub address: u64,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub width: usize,
}

impl Cuda {
    /// The number of the device.
    pub fn ordinal(&self) -> usize {
        usize::try_from(self.device.ordinal()).unwrap_or(0)
    }

    /// The handle of the stream on which it computes (a `CUstream`), for callers that make it wait for theirs.
    pub fn stream(&self) -> u64 {
        self.device.stream as u64
    }

    /// Returns device memory that it keeps for later calls, except `keep` bytes, so that other libraries in the process can use
    /// it.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn trim(&self, keep: usize) -> Result<()> {
        self.device.trim(keep)
    }

    /// Whether the device has failed. Every call is then an error; another engine on it may work, if nothing else in the process
    /// has it open.
    pub fn is_lost(&self) -> bool {
        self.device.is_lost()
    }

    /// Features in device memory of the caller, in place. Their values are checked on the device. Rows at an address that is not
    /// a multiple of 16 are copied on the device.
    ///
    /// If `after` is the handle of a stream (a `CUstream`; 1 is the default stream, 2 that of the thread), they are read
    /// after all work that it has now.
    ///
    /// # Errors
    /// If there are no rows or no columns, if a value is NaN or infinite, or if the memory is not that of this device.
    ///
    /// # Safety
    /// The memory must have these rows, which `owner` keeps alive; nothing may write to them while the features or clones of
    /// them exist; and the stream must be alive.
    pub unsafe fn features(
        &self,
        rows: DeviceRows,
        after: Option<u64>,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Features> {
        let DeviceRows { address, rows, width } = rows;
        if rows == 0 || width == 0 {
            return Features::new(width, Vec::new());
        }
        if self.device.ordinal_of(address)? != Some(self.device.ordinal()) {
            return Err(self.device.problem("the rows are not in its memory; move them to it, or choose their device"));
        }
        if let Some(stream) = after {
            self.device.wait_for(stream)?;
        }
        // SAFETY: the caller promises that the owner keeps the rows.
        let set = unsafe { DeviceSet::borrowed(&self.device, (address, rows, width), owner) };
        Features::resident(if address.is_multiple_of(ALIGNMENT) { Box::new(set) } else { set.duplicate()? })
    }
}
