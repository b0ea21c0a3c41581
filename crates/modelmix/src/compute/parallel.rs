//! Work shared among threads, results in the order of the work, so that nothing depends on who did what; and work that can
//! be stopped.

use std::cell::RefCell;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

thread_local! {
    /// What stops the work of this thread, the innermost last.
    static STOPS: RefCell<Vec<Arc<AtomicBool>>> = const { RefCell::new(Vec::new()) };
}

/// What a thread unwinds with when it is stopped.
struct Stopped;

/// How many threads the machine offers.
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Runs `work` on this thread; nothing comes back where `stop` was set before it was done.
///
/// Whoever sets `stop` may be on any thread. Sums over pairs, neighbours, subsets, matrix products, the steps of searches and
/// the rounds of simulations look at it, on all threads, and end within a fraction of a second. One call of an
/// eigendecomposition or a Cholesky factor runs to its end, which takes seconds for some thousand rows; files are read to
/// theirs. What was computed is lost, and the next call starts afresh.
///
/// Calls may be nested: an outer `stop` ends the inner work too. A panic passes. Stopping is an unwinding, so that it needs
/// Rust's usual `panic = "unwind"`; a [`Session`](crate::Session) that is told something in `work` has taken it whole or not
/// at all.
///
/// ```
/// use modelmix::compute::stoppable;
/// use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
/// let stop = Arc::new(AtomicBool::new(false));
/// assert_eq!(stoppable(&stop, || 6 * 7), Some(42));
/// stop.store(true, Ordering::Relaxed);
/// assert_eq!(stoppable(&stop, || 6 * 7), None);
/// ```
pub fn stoppable<R>(stop: &Arc<AtomicBool>, work: impl FnOnce() -> R) -> Option<R> {
    STOPS.with_borrow_mut(|stops| stops.push(Arc::clone(stop)));
    let result = catch_unwind(AssertUnwindSafe(|| {
        check_stopped();
        work()
    }));
    STOPS.with_borrow_mut(Vec::pop);
    match result {
        Ok(result) => Some(result),
        // It may have been an outer call that was stopped.
        Err(payload) if payload.is::<Stopped>() && stop.load(Ordering::Relaxed) => None,
        Err(payload) => resume_unwind(payload),
    }
}

/// Ends the work of this thread where it has been stopped (see [`stoppable`]). A look costs nanoseconds.
#[inline]
pub(crate) fn check_stopped() {
    if STOPS.with_borrow(|stops| stops.iter().any(|stop| stop.load(Ordering::Relaxed))) {
        // No panic: no message is printed.
        resume_unwind(Box::new(Stopped));
    }
}

/// `work(0)`, …, `work(count − 1)` on up to `threads` threads; the results in that order.
pub(crate) fn parallel<R: Send>(threads: usize, count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let threads = threads.min(count);
    let work = |index: usize| {
        check_stopped();
        work(index)
    };
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            done.push((index, work(index)));
        }
    };
    let stops = STOPS.with_borrow(Clone::clone);
    let ends: Vec<std::thread::Result<Vec<(usize, R)>>> = std::thread::scope(|scope| {
        let other = || {
            STOPS.set(stops.clone());
            run()
        };
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(other)).collect();
        let own = catch_unwind(AssertUnwindSafe(run));
        std::iter::once(own).chain(others.into_iter().map(|other| other.join())).collect()
    });
    let (done, mut payloads): (Vec<_>, Vec<_>) = ends.into_iter().partition(Result::is_ok);
    // A panic goes before a stop, which would hide it.
    payloads.sort_by_key(|end| end.as_ref().err().is_some_and(|payload| payload.is::<Stopped>()));
    if let Some(Err(payload)) = payloads.into_iter().next() {
        resume_unwind(payload);
    }
    let mut results: Vec<(usize, R)> = done.into_iter().flatten().flatten().collect();
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::{check_stopped, parallel, stoppable};

    #[test]
    fn results_come_in_order() {
        for threads in [1, 2, 5] {
            assert_eq!(parallel(threads, 100, |index| index * index), (0..100).map(|i| i * i).collect::<Vec<_>>());
        }
        assert!(parallel(4, 0, |index| index).is_empty());
    }

    #[test]
    #[should_panic(expected = "seven")]
    fn a_panic_reaches_the_caller() {
        parallel(2, 10, |index| assert_ne!(index, 7, "seven"));
    }

    fn never() -> Arc<AtomicBool> {
        Arc::new(AtomicBool::new(false))
    }

    /// Stops itself at one of a million pieces; how many were begun after that.
    fn begun_after_stop(threads: usize) -> usize {
        let (stop, begun) = (never(), AtomicUsize::new(0));
        let result = stoppable(&stop, || {
            parallel(threads, 1_000_000, |index| {
                if index == 10 {
                    stop.store(true, Ordering::SeqCst);
                }
                if stop.load(Ordering::SeqCst) {
                    begun.fetch_add(1, Ordering::SeqCst);
                }
            })
        });
        assert_eq!(result, None);
        begun.into_inner()
    }

    #[test]
    fn nothing_begins_after_a_stop() {
        for threads in [1, 2, 5] {
            // One on every thread had looked before.
            assert!((1..=threads).contains(&begun_after_stop(threads)), "{threads}");
        }
    }

    #[test]
    fn a_stop_goes_through_threads_of_threads() {
        let stop = never();
        let work = |index: usize| {
            parallel(2, 1000, |inner| {
                if (index, inner) == (3, 500) {
                    stop.store(true, Ordering::SeqCst);
                }
                inner
            })
        };
        assert_eq!(stoppable(&stop, || parallel(2, 1000, work)), None);
        // And is forgotten: neither this thread nor later work is stopped.
        assert_eq!(parallel(2, 100, |index| index).len(), 100);
        check_stopped();
    }

    #[test]
    fn what_is_done_before_a_stop_is_kept() {
        let stop = never();
        let work = || {
            let results = parallel(2, 10, |index| index);
            stop.store(true, Ordering::SeqCst);
            results.len()
        };
        assert_eq!(stoppable(&stop, work), Some(10));
        assert_eq!(stoppable(&stop, || 1), None, "it is still set");
    }

    #[test]
    fn an_inner_stop_is_its_own_and_an_outer_one_everybodys() {
        let (outer, inner) = (never(), never());
        let at = |stop: &Arc<AtomicBool>| {
            let stop = Arc::clone(stop);
            move || parallel(2, 1000, |_| stop.store(true, Ordering::SeqCst)).len()
        };
        let nested = stoppable(&outer, || (stoppable(&inner, at(&inner)), parallel(2, 10, |index| index).len()));
        assert_eq!(nested, Some((None, 10)));
        let nested = stoppable(&outer, || stoppable(&never(), at(&outer)));
        assert_eq!(nested, None);
    }

    #[test]
    fn a_panic_passes_stopped_or_not() {
        for threads in [1, 2, 5] {
            let stop = never();
            let work = |index: usize| {
                assert_ne!(index, 7, "seven");
                index
            };
            let passed = catch_unwind(AssertUnwindSafe(|| stoppable(&stop, || parallel(threads, 10, work))));
            let payload = passed.expect_err("the panic passes");
            assert!(payload.downcast_ref::<String>().is_some_and(|text| text.contains("seven")), "{threads}");
            check_stopped();
        }
        // All threads are stopped but the one that panics, which is not this one.
        let (stop, own) = (never(), std::thread::current().id());
        let work = |_| {
            while !stop.load(Ordering::SeqCst) {
                if std::thread::current().id() != own {
                    stop.store(true, Ordering::SeqCst);
                    panic!("a bug");
                }
            }
        };
        let passed = catch_unwind(AssertUnwindSafe(|| stoppable(&stop, || parallel(2, 10, work))));
        assert_eq!(passed.expect_err("the panic passes").downcast_ref::<&str>(), Some(&"a bug"));
    }
}
