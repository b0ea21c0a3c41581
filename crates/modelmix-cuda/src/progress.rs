//! What the observer of a run is told: a share of all pairs, whichever way they are computed.

use std::cell::Cell;

use modelmix::compute::Run;

/// Counts pairs for the observer of a run: at most `total`, however often they are computed.
pub(crate) struct Progress<'a> {
    pub(crate) run: &'a Run,
    total: u64,
    told: Cell<u64>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(run: &'a Run, total: u64) -> Self {
        Self { run, total, told: Cell::new(0) }
    }

    /// Tells the observer that this share of the work is done.
    pub(crate) fn reach(&self, done: u64, of: u64) {
        let pairs = (u128::from(self.total) * u128::from(done.min(of)) / u128::from(of.max(1))) as u64;
        if pairs > self.told.get() {
            self.run.advance(pairs - self.told.replace(pairs));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Work that is done again is not told again.
    #[test]
    fn pairs_are_told_once() {
        let told = Arc::new(AtomicU64::new(0));
        let sum = Arc::clone(&told);
        let run = Run::default().observed(move |pairs| {
            sum.fetch_add(pairs, Ordering::Relaxed);
        });
        let progress = Progress::new(&run, 1000);
        for (done, of, expected) in [(0, 3, 0), (1, 3, 333), (1, 1, 1000), (1, 4, 1000), (9, 3, 1000), (0, 0, 1000)] {
            progress.reach(done, of);
            assert_eq!(told.load(Ordering::Relaxed), expected, "{done} of {of}");
        }
    }
}
