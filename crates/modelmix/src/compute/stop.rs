//! Stop tokens and progress observers, which callers pass to long computations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// A token that stops computations. Clones share one flag, so any thread with a clone can stop all computations that
/// have one.
///
/// Sums over pairs, neighbours, subsets, matrix products, searches, draws and the rounds of simulations check it and
/// return [`Error::Stopped`] within a fraction of a second. A single eigendecomposition or Cholesky factorization runs
/// to its end, which takes seconds for a few thousand rows. If a [`Session`](crate::Session) is stopped while it is
/// told samples, it has accepted all of them or none.
///
/// ```
/// use modelmix::compute::Stop;
/// let stop = Stop::new();
/// let other = stop.clone();
/// assert!(stop.check().is_ok());
/// other.set();
/// assert!(matches!(stop.check(), Err(modelmix::Error::Stopped)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Creates a token that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops all computations with this token or a clone of it. It stays set.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns an error if it is set. A check takes about a nanosecond.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// Called with the number of kernel pairs that a piece of work has summed, on the thread that summed them.
type Observer = Arc<dyn Fn(u64) + Send + Sync>;

/// The argument of every method of a [`Backend`](super::Backend): the stop token and the observer of a run.
#[derive(Clone, Default)]
pub struct Run {
    stop: Stop,
    observer: Option<Observer>,
}

impl Run {
    /// Creates a run with the stop token `stop`.
    pub fn new(stop: Stop) -> Self {
        Self { stop, observer: None }
    }

    /// The same run with another stop token.
    pub(super) fn with_stop(&self, stop: Stop) -> Self {
        Self { stop, observer: self.observer.clone() }
    }

    /// The same run with a progress observer.
    #[must_use]
    pub fn observed(self, observer: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// Its stop token.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Returns an error if the run is stopped.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.stop.check()
    }

    /// Tells the observer that `pairs` more pairs are summed. Backends call it once per piece of work.
    pub fn advance(&self, pairs: u64) {
        if let Some(observer) = &self.observer {
            observer(pairs);
        }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("stop", &self.stop).field("observed", &self.observer.is_some()).finish()
    }
}
