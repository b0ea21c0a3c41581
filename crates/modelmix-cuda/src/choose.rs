//! The choice between the GPU and the processor, for programs whose users name an engine.

use modelmix::compute::EngineChoice;

use crate::backend::Cuda;
use crate::options::{Options, Unavailable};

/// Products that one core of a processor adds up per second, as measured on 16 threads with AVX-512 VNNI.
const PRODUCTS_PER_CORE: f64 = 8e10;
/// The time on the processor, in seconds, from which opening a GPU pays: it takes about half a second, and several seconds if
/// kernels have to be compiled.
const MIN_PROCESSOR_TIME: f64 = 1.0;

/// What a program is about to compute, as far as the choice of an engine needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Rows of all sets together.
    pub rows: usize,
    /// Columns.
    pub width: usize,
    /// Threads of the processor.
    pub threads: usize,
}

impl Work {
    /// Whether the sums over all pairs take so long on the processor that opening a GPU pays.
    pub fn is_large(&self) -> bool {
        let products = 0.5 * (self.rows as f64).powi(2) * self.width as f64;
        products >= MIN_PROCESSOR_TIME * PRODUCTS_PER_CORE * self.threads.max(1) as f64
    }
}

/// What a program should compute on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Chosen {
    /// The GPU.
    Gpu(Cuda),
    /// The processor.
    Processor {
        /// Why it is not the GPU, if there is one that cannot be used.
        reason: Option<Unavailable>,
    },
}

/// Chooses by what the user asked for. With `auto`, nothing of CUDA is loaded unless the work is large, and a machine without a GPU
/// gives no reason.
///
/// ```
/// use modelmix::compute::{Cpu, Engine, EngineChoice};
/// use modelmix_cuda::{Chosen, Options, Work, choose};
/// let work = Work { rows: 50_000, width: 1024, threads: 8 };
/// let engine = match choose(EngineChoice::Auto, work, Options::default())? {
///     Chosen::Gpu(cuda) => Engine::new(cuda),
///     _ => Engine::new(Cpu::with_threads(work.threads)),
/// };
/// println!("{}", engine.describe());
/// # Ok::<(), modelmix_cuda::Unavailable>(())
/// ```
///
/// # Errors
/// [`Unavailable`] if the user asked for the GPU and it cannot be used.
pub fn choose(choice: EngineChoice, work: Work, options: Options) -> Result<Chosen, Unavailable> {
    match choice {
        EngineChoice::Cuda { device } => Cuda::open(device, options).map(Chosen::Gpu),
        EngineChoice::Auto if work.is_large() => Ok(match Cuda::open(None, options) {
            Ok(cuda) => Chosen::Gpu(cuda),
            Err(reason) => Chosen::Processor { reason: Some(reason).filter(|reason| !reason.is_absent()) },
        }),
        _ => Ok(Chosen::Processor { reason: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_work_pays_for_opening() {
        let work = |rows, width, threads| Work { rows, width, threads }.is_large();
        assert!(work(50_000, 1024, 16), "5 arms of 10,000 take more than a second on 16 cores");
        assert!(!work(7500, 64, 1), "2 × 10⁹ products take a hundredth of a second");
        assert!(work(20_000, 1024, 2) && !work(20_000, 1024, 64), "it depends on the number of cores");
        assert!(!work(0, 0, 0));
    }

    #[test]
    fn the_processor_is_used_as_asked() {
        let large = Work { rows: 1 << 20, width: 1 << 10, threads: 1 };
        let chosen = choose(EngineChoice::Cpu, large, Options::default());
        assert!(matches!(chosen, Ok(Chosen::Processor { reason: None })));
        // On a machine without a GPU this is no error and has no reason; with one, it is opened.
        assert!(choose(EngineChoice::Auto, large, Options::default().cache(None)).is_ok());
        let none = choose(EngineChoice::Cuda { device: Some(99) }, large, Options::default());
        assert!(none.is_err_and(|reason| !reason.to_string().is_empty()));
    }

    #[test]
    fn a_missing_gpu_is_told_from_an_unusable_one() {
        assert!(Unavailable::NoDriver.is_absent() && Unavailable::NoDevice { device: 0, count: 0 }.is_absent());
        assert!(!Unavailable::NoDevice { device: 1, count: 1 }.is_absent() && !Unavailable::NoCompiler.is_absent());
    }
}
