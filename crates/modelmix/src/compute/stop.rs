//! What a caller passes into long work: a token that stops it, and an observer of its progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// A token that stops work. Clones share one flag, so any thread that has a clone can stop all work that was given one.
///
/// Sums over pairs, neighbours, subsets, matrix products, searches, draws and the rounds of simulations check it and return
/// [`Error::Stopped`] within a fraction of a second. One eigendecomposition or one Cholesky factorization runs to its end,
/// which takes seconds for some thousand rows. A [`Session`](crate::Session) that is told samples while it is stopped has taken
/// all of them or none.
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
    /// A token that is not set. Work that nobody will stop takes a new one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops all work that has this token or a clone of it. It stays set.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails if it is set. A check costs about a nanosecond.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// Is called with the number of kernel pairs that a piece of work has summed, by whichever thread summed them.
type Observer = Arc<dyn Fn(u64) + Send + Sync>;

/// What every method of a [`Backend`](super::Backend) is called with: the stop token and the observer of a run.
#[derive(Clone, Default)]
pub struct Run {
    stop: Stop,
    observer: Option<Observer>,
}

impl Run {
    /// A run that `stop` stops.
    pub fn new(stop: Stop) -> Self {
        Self { stop, observer: None }
    }

    /// The same run, stopped by another token.
    pub(super) fn with_stop(&self, stop: Stop) -> Self {
        Self { stop, observer: self.observer.clone() }
    }

    /// The same run, with an observer of its progress.
    #[must_use]
    pub fn observed(self, observer: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// The token.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Fails if the run is stopped.
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
