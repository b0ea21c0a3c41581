//! Work shared among threads, results in the order of the work, so that nothing depends on who did what.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many threads the machine offers.
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// `work(0)`, …, `work(count − 1)` on up to `threads` threads; the results in that order.
pub(crate) fn parallel<R: Send>(threads: usize, count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let threads = threads.min(count);
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
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut done = run();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::parallel;

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
}
