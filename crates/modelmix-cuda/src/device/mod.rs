//! One GPU: its context and compiled functions. `current` makes the context that of a thread, `queue` has memory and launches,
//! `staged` small copies and `upload` large ones, `window` arrays that are partly in memory, `foreign` memory and streams of
//! the caller, `pool` threads of the host, `libraries` cuBLAS and cuSOLVER. All unsafe calls of the driver and of libraries are in this module.

mod current;
mod foreign;
mod libraries;
mod pool;
mod queue;
mod staged;
mod upload;
mod window;

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::{DriverError, result, sys};
use modelmix::{Error, Result};

use crate::compile;
use crate::modules::Module;
use crate::options::{Options, Tier, Unavailable};

pub(crate) use current::Current;
use libraries::Libraries;
pub(crate) use libraries::Side as GemmSide;
pub(crate) use pool::Gate;
use pool::Pool;
pub(crate) use queue::{Argument, ArgumentPointer, Buffer, Grid, MAX_GRID, Plain, Queue};
use staged::Staged;
use upload::Staging;
pub(crate) use upload::{Coming, Pinned, Results, Totals};
pub(crate) use window::{Window, bytes_of_two};

/// The maximum number of threads of the host: more did not copy faster.
const MAX_THREADS: usize = 16;

/// A GPU with its context, a stream and the functions loaded so far.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) multiprocessors: u32,
    /// Threads of the host; asking the operating system takes longer than a small copy.
    pub(crate) threads: usize,
    pub(crate) architecture: String,
    pub(crate) tier: Tier,
    /// Whether double precision has half the speed of single precision: on A100, H100, H200 and their successors.
    pub(crate) has_fast_double: bool,
    handle: sys::CUdevice,
    pub(crate) context: sys::CUcontext,
    pub(crate) stream: sys::CUstream,
    /// For copies of results while later work runs.
    copies: sys::CUstream,
    /// Memory in the order of the stream, which is kept between calls; `None` if the device has no pools. It is not the default
    /// pool of the device, which other libraries of the process use.
    memory: Option<sys::CUmemoryPool>,
    budget: Option<u64>,
    used: AtomicU64,
    cache: Option<PathBuf>,
    /// Held while a call uses the stream, so that calls of several threads do not interleave.
    queue: Mutex<()>,
    functions: Mutex<HashMap<(Module, &'static str), Loaded>>,
    modules: Mutex<HashMap<Module, Loaded>>,
    pub(crate) staging: Mutex<Option<Staging>>,
    staged: Mutex<Staged>,
    /// Whether cuBLAS and cuSOLVER may be used.
    has_libraries: bool,
    libraries: Mutex<Libraries>,
    /// Memory for results, kept between calls.
    pub(crate) results: Mutex<Option<Pinned<f64>>>,
    /// The same for values that are needed while later work runs.
    pub(crate) coming: Mutex<Option<Pinned<f32>>>,
    /// The same for values that functions write to the host themselves.
    pub(crate) totals: Mutex<Option<Pinned<f64>>>,
    pool: OnceLock<Pool>,
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

/// A pool of device memory that keeps what is freed, so that later calls get it without asking the operating system.
fn new_pool(device: sys::CUdevice) -> Result<sys::CUmemoryPool, DriverError> {
    // SAFETY: all fields are numbers or an address, for which zero means the default.
    let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    let (mut pool, mut kept) = (std::ptr::null_mut(), u64::MAX);
    // SAFETY: the device exists, and both arguments are valid.
    unsafe { sys::cuMemPoolCreate(&mut pool, &properties) }.result()?;
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the pool was just created, and the attribute is a 64-bit number.
    let set = unsafe { result::mem_pool::set_attribute(pool, attribute, (&raw mut kept).cast()) };
    if let Err(error) = set {
        // SAFETY: nothing has memory of the pool.
        let _ = unsafe { sys::cuMemPoolDestroy(pool) };
        return Err(error);
    }
    Ok(pool)
}

impl Device {
    /// Opens a device, the first if none is named.
    pub(crate) fn open(ordinal: Option<usize>, options: &Options) -> Result<Self, Unavailable> {
        let driver = |error: DriverError| Unavailable::Driver { problem: text(error) };
        // SAFETY: opens a library and runs its initialisation, as every use of it does.
        if !unsafe { sys::is_culib_present() } {
            return Err(Unavailable::NoDriver);
        }
        result::init().map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_STUB_LIBRARY => Unavailable::NoDriver,
            sys::CUresult::CUDA_ERROR_NO_DEVICE => Unavailable::NoDevice { device: ordinal.unwrap_or(0), count: 0 },
            _ => driver(error),
        })?;
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
        let begin = || {
            let stream = || result::stream::create(result::stream::StreamKind::NonBlocking);
            Ok((Current::new(context)?, stream()?, stream()?))
        };
        let (_current, stream, copies) = begin().map_err(|error| {
            // SAFETY: retained above. A context that has failed can be made again when no one retains it.
            let _ = unsafe { result::primary_ctx::release(handle) };
            driver(error)
        })?;
        let mut device = Self {
            multiprocessors: multiprocessors.unsigned_abs().max(1),
            threads: options.threads.unwrap_or_else(modelmix::compute::available_threads).max(1),
            architecture: if is_hopper { "sm_90a".into() } else { format!("sm_{major}{minor}") },
            tier,
            has_fast_double: minor == 0 && major <= 10,
            handle,
            context,
            stream,
            copies,
            memory: None,
            budget: options.memory,
            used: AtomicU64::new(0),
            cache: options.cache.clone(),
            queue: Mutex::new(()),
            functions: Mutex::default(),
            modules: Mutex::default(),
            staging: Mutex::new(None),
            staged: Mutex::default(),
            has_libraries: options.libraries,
            libraries: Mutex::default(),
            results: Mutex::new(None),
            coming: Mutex::new(None),
            totals: Mutex::new(None),
            pool: OnceLock::new(),
            name,
        };
        if has_pool {
            device.memory = Some(new_pool(handle).map_err(driver)?);
        }
        // A first module shows that the compiler and the driver fit each other.
        device.load(Module::Rows).map_err(|problem| Unavailable::Kernels { device: device.name.clone(), problem })?;
        Ok(device)
    }

    /// The error of a failed call.
    pub(crate) fn failed(&self, error: DriverError) -> Error {
        Error::Device { device: self.name.clone(), problem: text(error) }
    }

    /// An error with a message of this crate.
    pub(crate) fn problem(&self, problem: impl Into<String>) -> Error {
        Error::Device { device: self.name.clone(), problem: problem.into() }
    }

    /// Makes the device current on this thread until the result is dropped.
    pub(crate) fn bind(&self) -> Result<Current> {
        // The context is retained while the device exists.
        Current::new(self.context).map_err(|error| self.failed(error))
    }

    /// Begins a call: the device is current on this thread, and no other call uses the stream until it ends.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<Queue<'_>> {
        // A call that panicked left nothing half done on the host: buffers free themselves.
        let guard = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.bind()?;
        Ok(Queue::new(self, current, guard))
    }

    /// Threads of the host, started when they are first needed.
    pub(crate) fn pool(&self) -> &Pool {
        self.pool.get_or_init(|| Pool::new(self.threads.min(MAX_THREADS)))
    }

    /// Calls `work` with 0, 1, … below `count` on threads of the host, each number once.
    pub(crate) fn share(&self, threads: usize, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&index| index < count);
        self.pool().help(threads, &|_| std::iter::from_fn(take).for_each(work));
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
        if let Ok(_current) = self.bind() {
            *self.staging.lock().unwrap_or_else(PoisonError::into_inner) = None;
            *self.staged.lock().unwrap_or_else(PoisonError::into_inner) = Staged::default();
            *self.results.lock().unwrap_or_else(PoisonError::into_inner) = None;
            *self.coming.lock().unwrap_or_else(PoisonError::into_inner) = None;
            *self.totals.lock().unwrap_or_else(PoisonError::into_inner) = None;
            // SAFETY: nothing uses the stream, the modules and the context any more: buffers hold the device.
            unsafe {
                let _ = result::stream::synchronize(self.stream);
                *self.libraries.lock().unwrap_or_else(PoisonError::into_inner) = Libraries::default();
                for loaded in self.modules.lock().unwrap_or_else(PoisonError::into_inner).values() {
                    let _ = result::module::unload(loaded.0.cast());
                }
                if let Some(memory) = self.memory {
                    let _ = sys::cuMemPoolDestroy(memory);
                }
                let _ = result::stream::destroy(self.stream);
                let _ = result::stream::destroy(self.copies);
                let _ = result::primary_ctx::release(self.handle);
            }
        }
    }
}
