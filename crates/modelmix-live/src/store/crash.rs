//! Numbered crash points, for tests: the process kills itself at the chosen one, as a power failure would.
//!
//! In builds with debug assertions, `MODELMIX_LIVE_CRASH_AT=N` kills the process at the N-th point that it passes, counted from 1.
//! In other builds the points cost nothing and do nothing.

/// A place at which a test may kill the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Before and after a write to a payload.
    Write,
    /// Before and after a file or folder is flushed.
    Flush,
    /// Before and after a file gets its final name.
    Rename,
    /// Before and after a transaction is committed.
    Commit,
    /// Before a request is sent.
    Send,
    /// After an answer was received.
    Receive,
}

/// Passes a crash point.
#[inline]
pub fn pass(point: CrashPoint) {
    #[cfg(debug_assertions)]
    armed::pass(point);
    #[cfg(not(debug_assertions))]
    let _ = point;
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::CrashPoint;

    /// The variable with the number of the point.
    const VARIABLE: &str = "MODELMIX_LIVE_CRASH_AT";

    static PASSED: AtomicU64 = AtomicU64::new(0);
    static AT: OnceLock<Option<u64>> = OnceLock::new();

    pub(super) fn pass(_point: CrashPoint) {
        let at = AT.get_or_init(|| std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()));
        let Some(at) = *at else { return };
        if PASSED.fetch_add(1, Ordering::Relaxed) + 1 == at {
            // Without unwinding and without flushing anything.
            std::process::abort();
        }
    }
}
