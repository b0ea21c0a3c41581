//! Long computations: on a separate thread without the interpreter, so that Ctrl-C and progress bars work meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use modelmix::compute::Stop;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::{panic_exception, to_exception};

/// The interval at which signals and progress are checked.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How long to wait for stopped work. Work that cannot be stopped ends by itself later, and its result is dropped.
const STOP_GRACE_PERIOD: Duration = Duration::from_millis(500);

/// The progress of the work, a Python function that is called with it regularly, and the token that stops the work.
pub(crate) struct Progress {
    callback: Option<Py<PyAny>>,
    done: Arc<AtomicU64>,
    stop: Stop,
}

impl Progress {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, done: Arc::default(), stop: Stop::new() }
    }

    /// Returns the counter that the work increments.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    /// Returns the token that Ctrl-C sets.
    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Returns the same with the stop token of another.
    pub(crate) fn stopping(self, other: &Self) -> Self {
        Self { stop: other.stop.clone(), ..self }
    }

    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        match &self.callback {
            Some(callback) => callback.call1(py, (self.done.load(Ordering::Relaxed),)).map(drop),
            None => Ok(()),
        }
    }
}

/// Runs `work` on another thread, without the interpreter, and returns its result. Computations on an engine of `progress` can
/// be stopped.
///
/// # Errors
/// Errors of the library; Ctrl-C and exceptions of the progress function, which stop the work.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    progress: &Progress,
    work: impl FnOnce() -> modelmix::Result<T> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let job = move || {
        // The receiver is gone if the work was stopped.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
    };
    std::thread::Builder::new()
        .name("modelmix".into())
        .spawn(job)
        .map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))?;
    let receiver = &AssertUnwindSafe(std::sync::Mutex::new(receiver));
    let wait = |patience: Duration| {
        py.detach(|| receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv_timeout(patience))
    };
    loop {
        match wait(SIGNAL_CHECK_INTERVAL) {
            Ok(Ok(answer)) => {
                progress.tell(py)?;
                return answer.map_err(to_exception);
            }
            Ok(Err(panic)) => return Err(panic_exception(&*panic)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the computation ended without a result"));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = progress.tell(py).and_then(|()| py.check_signals()) {
                    progress.stop.set();
                    let _ = wait(STOP_GRACE_PERIOD);
                    return Err(error);
                }
            }
        }
    }
}

/// Runs short work on this thread without the interpreter, and returns its result.
pub(crate) fn run_short<T: Send>(py: Python<'_>, work: impl FnOnce() -> modelmix::Result<T> + Send) -> PyResult<T> {
    run_detached(py, work)?.map_err(to_exception)
}

/// The same for work that does not return a library result.
pub(crate) fn run_detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).map_err(|panic| panic_exception(&*panic))
}
