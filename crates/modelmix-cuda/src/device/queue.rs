//! Work on a device in the order of submission: launches, memory and copies.

use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use cudarc::driver::{DriverError, result, sys};
use modelmix::{Error, Result};

use super::{Current, Device};
use crate::modules::Module;

/// An argument of a function on the GPU.
///
/// # Safety
/// The type must have the layout of the parameter.
pub(crate) unsafe trait Argument {}
// SAFETY: plain numbers have the same layout in CUDA C++.
unsafe impl Argument for i32 {}
// SAFETY: as above.
unsafe impl Argument for i64 {}
// SAFETY: as above; addresses are 64-bit numbers.
unsafe impl Argument for u64 {}
// SAFETY: as above.
unsafe impl Argument for f64 {}
// SAFETY: `repr(C)` with the fields of the struct in `function.cuh`.
unsafe impl Argument for crate::function::Function {}
// SAFETY: 128 bytes that the driver writes and the hardware reads.
unsafe impl Argument for sys::CUtensorMap {}

/// Blocks, threads and dynamic shared memory of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) blocks: (u32, u32, u32),
    pub(crate) threads: u32,
    pub(crate) shared: u32,
}

/// The maximum number of blocks of a grid in its second and third dimension.
pub(crate) const MAX_GRID: u32 = 65_535;

impl Grid {
    pub(crate) fn new(blocks: usize, threads: u32) -> Self {
        Self { blocks: (blocks as u32, 1, 1), threads, shared: 0 }
    }

    pub(crate) fn two(x: usize, y: usize, threads: u32) -> Self {
        Self { blocks: (x as u32, y as u32, 1), threads, shared: 0 }
    }
}

/// A call in progress. Work is done in the order of submission.
pub(crate) struct Queue<'a> {
    pub(crate) device: &'a Arc<Device>,
    _current: Current,
    _guard: MutexGuard<'a, ()>,
}

impl<'a> Queue<'a> {
    pub(super) fn new(device: &'a Arc<Device>, current: Current, guard: MutexGuard<'a, ()>) -> Self {
        Self { device, _current: current, _guard: guard }
    }
}

impl Queue<'_> {
    /// Launches a function. Nothing is launched if a dimension of the grid is zero.
    ///
    /// # Safety
    /// The arguments must be those of the function, and buffers must be as large as it assumes.
    pub(crate) unsafe fn launch(
        &self,
        module: Module,
        name: &'static str,
        grid: Grid,
        arguments: &[&dyn ArgumentPointer],
    ) -> Result<()> {
        if grid.blocks.0 == 0 || grid.blocks.1 == 0 || grid.blocks.2 == 0 {
            return Ok(());
        }
        let (x, y, z) = grid.blocks;
        if x > i32::MAX.unsigned_abs() || y > MAX_GRID || z > MAX_GRID {
            let problem =
                format!("{name} needs {x} × {y} × {z} blocks, more than a launch has; compute fewer sets or rows");
            return Err(self.device.problem(problem));
        }
        let function = self.device.function(module, name, grid.shared)?;
        let mut pointers: Vec<*mut c_void> = arguments.iter().map(|argument| argument.pointer()).collect();
        // SAFETY: the function is alive, and the caller promises that the arguments are its own.
        unsafe {
            let threads = (grid.threads, 1, 1);
            result::launch_kernel(function, grid.blocks, threads, grid.shared, self.device.stream, &mut pointers)
        }
        .map_err(|error| self.device.failed(error))
    }

    /// Waits until all work is done. Errors of earlier work are returned here.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.device.stream) }.map_err(|error| self.device.failed(error))?;
        self.clear_staged();
        Ok(())
    }

    /// Allocates memory without setting it.
    pub(crate) fn allocate<T: Plain>(&self, what: &str, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self.device, what, len)
    }

    /// Allocates memory of zeros.
    pub(crate) fn zeros<T: Plain>(&self, what: &str, len: usize) -> Result<Buffer<T>> {
        let buffer = self.allocate::<T>(what, len)?;
        if len > 0 {
            // SAFETY: the buffer has this number of bytes, and all bits zero is a number.
            unsafe { result::memset_d8_async(buffer.at, 0, len * size_of::<T>(), self.device.stream) }
                .map_err(|error| self.device.failed(error))?;
        }
        Ok(buffer)
    }

    /// Copies values to the device.
    pub(crate) fn upload<T: Plain>(&self, what: &str, values: &[T]) -> Result<Buffer<T>> {
        let buffer = self.allocate::<T>(what, values.len())?;
        self.write(&buffer, 0, values)?;
        Ok(buffer)
    }

    /// Copies values back, after all earlier work.
    pub(crate) fn read<T: Plain>(&self, buffer: &Buffer<T>, first: usize, values: &mut [T]) -> Result<()> {
        assert!(first + values.len() <= buffer.len, "values are read inside their buffer");
        if !values.is_empty() {
            // SAFETY: the range is inside the buffer; `wait` below ends the copy before the values are used.
            unsafe {
                let from = buffer.at + (first * size_of::<T>()) as u64;
                result::memcpy_dtoh_async(values, from, self.device.stream)
            }
            .map_err(|error| self.device.failed(error))?;
        }
        self.wait()
    }

    /// All values of a buffer.
    pub(crate) fn values<T: Plain>(&self, buffer: &Buffer<T>) -> Result<Vec<T>> {
        let mut values = vec![T::default(); buffer.len];
        self.read(buffer, 0, &mut values)?;
        Ok(values)
    }

    /// Copies bytes on the device; ranges must not overlap.
    pub(crate) fn copy<T: Plain>(&self, from: (&Buffer<T>, usize), to: (&Buffer<T>, usize), len: usize) -> Result<()> {
        assert!(from.1 + len <= from.0.len && to.1 + len <= to.0.len, "values are copied inside their buffers");
        if len == 0 {
            return Ok(());
        }
        let at = |(buffer, first): (&Buffer<T>, usize)| buffer.at + (first * size_of::<T>()) as u64;
        // SAFETY: both ranges are inside their buffers.
        unsafe { result::memcpy_dtod_async(at(to), at(from), len * size_of::<T>(), self.device.stream) }
            .map_err(|error| self.device.failed(error))
    }
}

/// The address of an argument, for the driver.
pub(crate) trait ArgumentPointer {
    fn pointer(&self) -> *mut c_void;
}

impl<T: Argument> ArgumentPointer for T {
    fn pointer(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// Values that any bits are valid for.
pub(crate) trait Plain: Copy + Default + Send + Sync + 'static {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for i32 {}
impl Plain for u64 {}
impl Plain for f32 {}
impl Plain for f64 {}
impl Plain for [u32; 2] {}
impl Plain for [i32; 2] {}

/// Memory of the device, freed when it is dropped; or memory of a caller, released after the work that reads it.
pub(crate) struct Buffer<T> {
    device: Arc<Device>,
    /// What keeps the memory of a caller alive.
    owner: Option<Arc<dyn Any + Send + Sync>>,
    pub(crate) at: u64,
    pub(crate) len: usize,
    values: PhantomData<T>,
}

impl<T> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish()
    }
}

impl<T> Buffer<T> {
    /// Memory of a caller, which must not be written to.
    ///
    /// # Safety
    /// `at` must be the address of `len` values on this device, which `owner` keeps alive.
    pub(crate) unsafe fn borrowed(
        device: &Arc<Device>,
        at: u64,
        len: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self { device: Arc::clone(device), owner: Some(owner), at, len, values: PhantomData }
    }

    pub(crate) fn is_borrowed(&self) -> bool {
        self.owner.is_some()
    }
}

impl<T: Plain> Buffer<T> {
    fn new(device: &Arc<Device>, what: &str, len: usize) -> Result<Self> {
        // At least one byte, because an allocation of none is an error.
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64).max(1);
        let used = device.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let memory = |needed: u64, free: Option<u64>| {
            device.used.fetch_sub(bytes, Ordering::Relaxed);
            Error::Memory { what: what.into(), place: device.name.clone(), needed, free }
        };
        if let Some(budget) = device.budget
            && used > budget
        {
            return Err(memory(bytes, Some(budget.saturating_sub(used - bytes))));
        }
        // SAFETY: the stream is alive; the memory is used in its order, or after `wait`.
        let allocated = unsafe {
            match device.memory {
                Some(pool) => {
                    let mut at = 0;
                    let found = sys::cuMemAllocFromPoolAsync(&mut at, bytes as usize, pool, device.stream);
                    found.result().map(|()| at)
                }
                None => result::malloc_sync(bytes as usize),
            }
        };
        match allocated {
            Ok(at) => Ok(Self { device: Arc::clone(device), owner: None, at, len, values: PhantomData }),
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                Err(memory(bytes, result::mem_get_info().ok().map(|(free, _)| free as u64)))
            }
            Err(error) => {
                device.used.fetch_sub(bytes, Ordering::Relaxed);
                Err(device.failed(error))
            }
        }
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.owner.is_some() {
            if let Ok(_current) = self.device.bind() {
                // SAFETY: the stream is alive. Errors of a lost device are ignored.
                let _ = unsafe { result::stream::synchronize(self.device.stream) };
            }
            return;
        }
        let bytes = (self.len as u64).saturating_mul(size_of::<T>() as u64).max(1);
        self.device.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Ok(_current) = self.device.bind() {
            // SAFETY: the memory is freed once, after all work that was submitted before. Errors of a lost device are
            // ignored.
            let _ = unsafe {
                if self.device.memory.is_some() {
                    result::free_async(self.at, self.device.stream)
                } else {
                    result::free_sync(self.at)
                }
            };
        }
    }
}
