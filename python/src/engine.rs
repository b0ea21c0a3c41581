//! The engine of a call: what the caller asked for, what the machine has, and what the input needs. An opened GPU is kept for
//! later calls.

use modelmix::compute::{Cpu, Engine, EngineChoice, Precision};
use pyo3::prelude::*;

use crate::arrays::size;
use crate::errors::to_exception;
use crate::work::Progress;

/// Where to compute, passed by the package as an object with these attributes.
#[derive(Clone, FromPyObject)]
pub(crate) struct Compute {
    pub(crate) threads: Option<usize>,
    engine: String,
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    gpu_memory: Option<u64>,
    precision: String,
}

/// The engine of a call.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    engine: Engine,
    #[cfg(feature = "cuda")]
    gpu: Option<std::sync::Arc<Gpu>>,
    /// Why a GPU is not used, if there is one.
    unused: Option<String>,
}

impl Chosen {
    fn processor(compute: &Compute, unused: Option<String>) -> Self {
        let precision = if compute.is_exact() { Precision::Exact } else { Precision::Auto };
        let cpu = compute.threads.map_or_else(Cpu::new, Cpu::with_threads).with_precision(precision);
        Self {
            engine: Engine::new(cpu),
            #[cfg(feature = "cuda")]
            gpu: None,
            unused,
        }
    }

    /// An engine that Ctrl-C stops.
    pub(crate) fn engine(&self, progress: &Progress) -> Engine {
        self.engine.clone().stopped_by(progress.stop())
    }

    /// The engine for provenance, and why it is not the GPU if there is one.
    pub(crate) fn describe(&self) -> String {
        let engine = self.engine.describe();
        self.unused.as_ref().map_or_else(|| engine.clone(), |reason| format!("{engine}; GPU not used: {reason}"))
    }

    /// The GPU, if it is used.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&self) -> Option<&modelmix_cuda::Cuda> {
        self.gpu.as_ref().map(|gpu| &gpu.0)
    }
}

/// The GPU of a call.
#[cfg(feature = "cuda")]
#[derive(Debug)]
struct Gpu(modelmix_cuda::Cuda);

#[cfg(feature = "cuda")]
impl Drop for Gpu {
    /// Returns memory of the GPU to other libraries of the process.
    fn drop(&mut self) {
        /// What stays for the next call, in bytes: getting memory from the driver takes milliseconds.
        const KEPT: usize = 1 << 30;
        // A lost device has nothing to return.
        let _ = self.0.trim(KEPT);
    }
}

impl Compute {
    fn is_exact(&self) -> bool {
        self.precision == "exact"
    }

    /// Chooses the engine for these arrays.
    ///
    /// # Errors
    /// If the caller asked for a GPU and it cannot be used.
    pub(crate) fn choose<'a, 'py: 'a>(
        &self,
        py: Python<'py>,
        arrays: impl IntoIterator<Item = &'a Bound<'py, PyAny>>,
    ) -> PyResult<Chosen> {
        let choice: EngineChoice = self.engine.parse().map_err(to_exception)?;
        let sizes: Vec<_> = arrays.into_iter().filter_map(size).collect();
        self.open(py, choice, &sizes)
    }

    #[cfg(feature = "cuda")]
    fn open(&self, py: Python<'_>, choice: EngineChoice, sizes: &[crate::arrays::Size]) -> PyResult<Chosen> {
        use modelmix_cuda::Work;
        let rows = sizes.iter().map(|size| size.rows).sum();
        let width = sizes.first().map_or(0, |size| size.width);
        let threads = self.threads.unwrap_or_else(modelmix::compute::available_threads);
        let on_device = sizes.iter().find_map(|size| size.device);
        // Arrays on a GPU are computed there: the process has opened it already, and the rows need not be moved.
        let device = match choice {
            EngineChoice::Cuda { device } => device.or_else(|| on_device.flatten()).unwrap_or(0),
            EngineChoice::Auto if on_device.is_some() => on_device.flatten().unwrap_or(0),
            EngineChoice::Auto if Work { rows, width, threads }.is_large() => 0,
            _ => return Ok(Chosen::processor(self, None)),
        };
        match self.opened(py, device)? {
            Ok(cuda) => {
                let precision =
                    if self.is_exact() { modelmix_cuda::Precision::Double } else { modelmix_cuda::Precision::Checked };
                let cuda = cuda.with_precision(precision);
                Ok(Chosen { engine: Engine::new(cuda.clone()), gpu: Some(Gpu(cuda).into()), unused: None })
            }
            Err(reason) if matches!(choice, EngineChoice::Auto) => {
                let unused = Some(&reason).filter(|reason| !reason.is_absent()).map(ToString::to_string);
                Ok(Chosen::processor(self, unused))
            }
            Err(reason) => Err(unavailable(choice, &reason)),
        }
    }

    /// Opens a GPU, or returns the one that an earlier call opened. One engine is kept per GPU: another limit of memory or number of
    /// threads replaces it, as does a GPU that has failed, so that the reason is found and `auto` uses the processor.
    #[cfg(feature = "cuda")]
    fn opened(
        &self,
        py: Python<'_>,
        device: usize,
    ) -> PyResult<Result<modelmix_cuda::Cuda, modelmix_cuda::Unavailable>> {
        use std::collections::BTreeMap;
        use std::sync::{Mutex, PoisonError};

        use modelmix_cuda::{Cuda, Options, Unavailable};
        /// Limit of memory and number of threads.
        type Settings = (Option<u64>, Option<usize>);
        static OPENED: Mutex<BTreeMap<usize, (Settings, Cuda)>> = Mutex::new(BTreeMap::new());
        let settings = (self.gpu_memory, self.threads);
        let open = || {
            let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((old, cuda)) = opened.get(&device)
                && *old == settings
                && !cuda.is_lost()
            {
                return Ok(cuda.clone());
            }
            // Closed first, if no session uses it: its memory, and a context that has failed, are then released.
            opened.remove(&device);
            let options = self.gpu_memory.into_iter().fold(Options::default(), Options::memory);
            let options = self.threads.into_iter().fold(options, Options::threads);
            let cuda = Cuda::open(Some(device), options)?;
            opened.insert(device, (settings, cuda.clone()));
            Ok(cuda)
        };
        Ok(match py.detach(open) {
            Err(Unavailable::NoCompiler) => {
                // A wheel of NVRTC is not where the system looks for libraries.
                py.import("modelmix._cuda")?.call_method0("load_compiler")?;
                py.detach(open)
            }
            found => found,
        })
    }

    #[cfg(not(feature = "cuda"))]
    fn open(&self, _py: Python<'_>, choice: EngineChoice, _sizes: &[crate::arrays::Size]) -> PyResult<Chosen> {
        match choice {
            EngineChoice::Cuda { .. } => Err(unavailable(
                choice,
                &"this package was built without CUDA; build it with the Cargo feature cuda, or use the processor",
            )),
            _ => Ok(Chosen::processor(self, None)),
        }
    }
}

fn unavailable(choice: EngineChoice, reason: &dyn std::fmt::Display) -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err(format!("engine=\"{choice}\": {reason}"))
}

/// Returns the name of an engine if there is one of that name.
#[pyfunction]
pub(crate) fn engine_name(text: &str) -> PyResult<String> {
    Ok(text.parse::<EngineChoice>().map_err(to_exception)?.to_string())
}

/// Returns an amount of memory in bytes.
#[pyfunction]
pub(crate) fn memory_size(text: &str) -> PyResult<u64> {
    modelmix::internals::numbers::parse_bytes(text)
        .map_err(|problem| pyo3::exceptions::PyValueError::new_err(format!("gpu_memory cannot be used: {problem}")))
}
