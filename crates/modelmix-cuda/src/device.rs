//! One GPU: its context, memory, compiled functions and launches. All unsafe calls of the driver are here and in
//! `upload`.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{DriverError, result, sys};
use modelmix::{Error, Result};

use crate::compile;
use crate::modules::Module;
use crate::options::{Options, Tier, Unavailable};
use crate::upload::Staging;

/// A GPU with its context, a stream and the functions loaded so far.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) multiprocessors: u32,
    pub(crate) architecture: String,
    pub(crate) tier: Tier,
    handle: sys::CUdevice,
    pub(crate) context: sys::CUcontext,
    pub(crate) stream: sys::CUstream,
    /// Whether memory comes from a pool, in the order of the stream.
    has_pool: bool,
    budget: Option<u64>,
    used: AtomicU64,
    cache: Option<PathBuf>,
    /// Held while a call uses the stream, so that calls of several threads do not interleave.
    queue: Mutex<()>,
    functions: Mutex<HashMap<(Module, &'static str), Loaded>>,
    modules: Mutex<HashMap<Module, Loaded>>,
    pub(crate) staging: Mutex<Option<Staging>>,
}

/// A handle of a module or a function.
#[derive(Clone, Copy)]
struct Loaded(*mut c_void);

// SAFETY: handles of the driver may be used by any thread whose current context is theirs, which `bind` sets.
unsafe impl Send for Device {}
// SAFETY: as above; the driver's functions are thread-safe.
unsafe impl Sync for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("name", &self.name).field("architecture", &self.architecture).finish()
    }
}

fn text(error: DriverError) -> String {
    error.error_string().map_or_else(|_| format!("error {:?}", error.0), |text| text.to_string_lossy().into_owned())
}

impl Device {
    /// Opens a device, the first if none is named.
    pub(crate) fn open(ordinal: Option<usize>, options: &Options) -> Result<Self, Unavailable> {
        let driver = |error: DriverError| Unavailable::Driver { problem: text(error) };
        // SAFETY: opens a library and runs its initialisation, as every use of it does.
        if !unsafe { sys::is_culib_present() } {
            return Err(Unavailable::NoDriver);
        }
        result::init().map_err(driver)?;
        let mut version = 0;
        // SAFETY: the argument is valid for writing.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(driver)?;
        if version < 12_000 {
            return Err(Unavailable::OldDriver { major: version / 1000, minor: version % 1000 / 10 });
        }
        let count = usize::try_from(result::device::get_count().map_err(driver)?).unwrap_or(0);
        let device = ordinal.unwrap_or(0);
        if device >= count {
            return Err(Unavailable::NoDevice { device, count });
        }
        if !compile::is_available() {
            return Err(Unavailable::NoCompiler);
        }
        let handle = result::device::get(device as i32).map_err(driver)?;
        let name = result::device::get_name(handle).map_err(driver)?;
        use sys::CUdevice_attribute as Attribute;
        // SAFETY: the device exists.
        let attribute = |attribute| unsafe { result::device::get_attribute(handle, attribute) }.map_err(driver);
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let has_pool = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
        if major < 8 {
            return Err(Unavailable::OldDevice { device: name, major, minor });
        }
        let is_hopper = (major, minor) == (9, 0);
        let tier = match options.tier {
            Some(Tier::Wgmma) if !is_hopper => return Err(Unavailable::NoTier { device: name, tier: Tier::Wgmma }),
            Some(tier) => tier,
            None if is_hopper => Tier::Wgmma,
            None => Tier::Mma,
        };
        // SAFETY: the device exists; the context is released when the device is dropped.
        let context = unsafe { result::primary_ctx::retain(handle) }.map_err(driver)?;
        // SAFETY: the context was just retained.
        unsafe { result::ctx::set_current(context) }.map_err(driver)?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(driver)?;
        let device = Self {
            multiprocessors: multiprocessors.unsigned_abs().max(1),
            architecture: if is_hopper { "sm_90a".into() } else { format!("sm_{major}{minor}") },
            tier,
            handle,
            context,
            stream,
            has_pool,
            budget: options.memory,
            used: AtomicU64::new(0),
            cache: options.cache.clone(),
            queue: Mutex::new(()),
            functions: Mutex::default(),
            modules: Mutex::default(),
            staging: Mutex::new(None),
            name,
        };
        device.keep_pool().map_err(driver)?;
        // A first module shows that the compiler and the driver fit each other.
        device.load(Module::Rows).map_err(|problem| Unavailable::Kernels { device: device.name.clone(), problem })?;
        Ok(device)
    }

    /// Lets the pool keep freed memory, so that later calls get it without asking the operating system.
    fn keep_pool(&self) -> Result<(), DriverError> {
        if self.has_pool {
            let mut bytes = u64::MAX;
            // SAFETY: the device exists, and the attribute is a 64-bit number.
            unsafe {
                let pool = result::device::get_default_mem_pool(self.handle)?;
                let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
                result::mem_pool::set_attribute(pool, attribute, (&raw mut bytes).cast())?;
            }
        }
        Ok(())
    }

    /// The error of a failed call.
    pub(crate) fn failed(&self, error: DriverError) -> Error {
        Error::Device { device: self.name.clone(), problem: text(error) }
    }

    /// An error with a message of this crate.
    pub(crate) fn problem(&self, problem: impl Into<String>) -> Error {
        Error::Device { device: self.name.clone(), problem: problem.into() }
    }

    /// Makes the device current on this thread.
    pub(crate) fn bind(&self) -> Result<()> {
        // SAFETY: the context is retained while the device exists.
        unsafe { result::ctx::set_current(self.context) }.map_err(|error| self.failed(error))
    }

    /// Begins a call: the device is current on this thread, and no other call uses the stream until it ends.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<Queue<'_>> {
        // A call that panicked left nothing half done on the host: buffers free themselves.
        let guard = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.bind()?;
        Ok(Queue { device: self, _guard: guard })
    }

    fn load(&self, module: Module) -> Result<sys::CUmodule, String> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = modules.get(&module) {
            return Ok(loaded.0.cast());
        }
        let code = module.compile(&self.architecture, self.cache.as_deref())?;
        // SAFETY: the code is a whole module; the driver copies it.
        let loaded = unsafe { result::module::load_data(code.as_ptr().cast()) }.map_err(text)?;
        modules.insert(module, Loaded(loaded.cast()));
        Ok(loaded)
    }

    fn function(&self, module: Module, name: &'static str, shared: u32) -> Result<sys::CUfunction> {
        /// The dynamic shared memory that every function may use.
        const PLAIN_SHARED: u32 = 48 << 10;
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = functions.get(&(module, name)) {
            return Ok(loaded.0.cast());
        }
        let loaded = self.load(module).map_err(|problem| self.problem(problem))?;
        let text = CString::new(name).map_err(|_| self.problem("a function has a zero byte in its name"))?;
        // SAFETY: modules stay loaded while the device exists.
        let function = unsafe { result::module::get_function(loaded, text) }.map_err(|error| self.failed(error))?;
        if shared > PLAIN_SHARED {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is alive.
            unsafe { result::function::set_function_attribute(function, attribute, shared as i32) }
                .map_err(|error| self.failed(error))?;
        }
        functions.insert((module, name), Loaded(function.cast()));
        Ok(function)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Errors are ignored: a lost device cannot be cleaned up.
        if self.bind().is_ok() {
            *self.staging.lock().unwrap_or_else(PoisonError::into_inner) = None;
            // SAFETY: nothing uses the stream, the modules and the context any more: buffers hold the device.
            unsafe {
                let _ = result::stream::synchronize(self.stream);
                for loaded in self.modules.lock().unwrap_or_else(PoisonError::into_inner).values() {
                    let _ = result::module::unload(loaded.0.cast());
                }
                let _ = result::stream::destroy(self.stream);
                let _ = result::primary_ctx::release(self.handle);
            }
        }
    }
}

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
// SAFETY: `repr(C)` with the fields of the struct in `tiles.cu` and `rows.cu`.
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
    _guard: MutexGuard<'a, ()>,
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
        unsafe { result::stream::synchronize(self.device.stream) }.map_err(|error| self.device.failed(error))
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

    /// Copies values to a part of a buffer, in the order of the stream; `values` may change afterwards.
    pub(crate) fn write<T: Plain>(&self, buffer: &Buffer<T>, first: usize, values: &[T]) -> Result<()> {
        assert!(first + values.len() <= buffer.len, "values are written inside their buffer");
        if values.is_empty() {
            return Ok(());
        }
        // SAFETY: the range is inside the buffer. Pageable memory is staged before the call returns.
        unsafe {
            let to = buffer.at + (first * size_of::<T>()) as u64;
            result::memcpy_htod_async(to, values, self.device.stream)
        }
        .map_err(|error| self.device.failed(error))
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

/// Memory of the device, freed when it is dropped.
pub(crate) struct Buffer<T> {
    device: Arc<Device>,
    pub(crate) at: u64,
    pub(crate) len: usize,
    values: PhantomData<T>,
}

impl<T> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish()
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
            if device.has_pool {
                result::malloc_async(device.stream, bytes as usize)
            } else {
                result::malloc_sync(bytes as usize)
            }
        };
        match allocated {
            Ok(at) => Ok(Self { device: Arc::clone(device), at, len, values: PhantomData }),
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
        let bytes = (self.len as u64).saturating_mul(size_of::<T>() as u64).max(1);
        self.device.used.fetch_sub(bytes, Ordering::Relaxed);
        if self.device.bind().is_ok() {
            // SAFETY: the memory is freed once, after all work that was submitted before. Errors of a lost device are
            // ignored.
            let _ = unsafe {
                if self.device.has_pool {
                    result::free_async(self.at, self.device.stream)
                } else {
                    result::free_sync(self.at)
                }
            };
        }
    }
}
