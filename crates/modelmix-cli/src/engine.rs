//! The one place that chooses the compute engine: what the user asked for, what the machine has, and what the work needs.

use modelmix::compute::{Engine, EngineChoice};

use crate::args::EngineArgs;
#[cfg(feature = "cuda")]
use crate::args::PrecisionName;
use crate::error::{Failure, Result};

/// An engine that is not the processor, or why a GPU is not used although there is one.
pub(crate) enum Found {
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    Gpu(Engine),
    Processor(Option<String>),
}

/// Chooses for this number of rows of all inputs and their width.
///
/// # Errors
/// If the user asked for a GPU and it cannot be used.
#[cfg(feature = "cuda")]
pub(crate) fn choose(args: &EngineArgs, threads: Option<usize>, rows: usize, width: usize) -> Result<Found> {
    use modelmix_cuda::{Chosen, Options, Precision, Work};
    let precision = match args.precision {
        PrecisionName::Auto => Precision::Checked,
        PrecisionName::Exact => Precision::Double,
    };
    let options = Options::default().precision(precision);
    let options = args.gpu_memory.into_iter().fold(options, Options::memory);
    let options = threads.into_iter().fold(options, Options::threads);
    let work = Work { rows, width, threads: threads.unwrap_or_else(modelmix::compute::available_threads) };
    match modelmix_cuda::choose(args.engine, work, options) {
        Ok(Chosen::Gpu(cuda)) => Ok(Found::Gpu(Engine::new(cuda))),
        Ok(Chosen::Processor { reason }) => Ok(Found::Processor(reason.map(|reason| reason.to_string()))),
        Ok(_) => Ok(Found::Processor(None)),
        Err(reason) => Err(unavailable(args.engine, &reason)),
    }
}

/// The same for a program without engines on GPUs.
///
/// # Errors
/// If the user asked for a GPU.
#[cfg(not(feature = "cuda"))]
pub(crate) fn choose(args: &EngineArgs, _threads: Option<usize>, _rows: usize, _width: usize) -> Result<Found> {
    match args.engine {
        EngineChoice::Cuda { .. } => Err(unavailable(
            args.engine,
            &"this program was built without CUDA; build it with the Cargo feature cuda, or use the processor",
        )),
        _ => Ok(Found::Processor(None)),
    }
}

fn unavailable(engine: EngineChoice, reason: &dyn std::fmt::Display) -> Failure {
    Failure::input(format!("--engine {engine}: {reason}"))
}
