//! Parallel work with results in the order of the work, so that they do not depend on the assignment to threads.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Stop;
use crate::error::{Error, Result};

/// The maximum number of threads; systems refuse to start many more, and no machine has as many cores.
pub(super) const MAX_THREADS: usize = 1024;

/// The number of threads of the machine.
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Stops the other threads if this one panics.
struct EndOthers<'a>(&'a AtomicBool);

impl Drop for EndOthers<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs `work(0)`, …, `work(count − 1)` on up to `threads` threads and returns the results in that order. No piece
/// starts after `stop` is set or a piece has failed.
///
/// # Errors
/// That of the first piece that failed, as with one thread; [`Error::Stopped`].
pub(crate) fn parallel<R: Send>(
    threads: usize,
    stop: &Stop,
    count: usize,
    work: impl Fn(usize) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = threads.min(MAX_THREADS).min(count);
    let work = |index: usize| stop.check().and_then(|()| work(index));
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = || {
        let _guard = EndOthers(&over);
        let mut done = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            let result = work(index);
            if result.is_err() {
                over.store(true, Ordering::Relaxed);
            }
            done.push((index, result));
        }
        done
    };
    let mut done: Vec<(usize, Result<R>)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut done = run();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    // Pieces start in order, so all pieces before the first failed one are finished.
    done.sort_unstable_by_key(|(index, _)| *index);
    let results: Vec<R> = done.into_iter().map(|(_, result)| result).collect::<Result<_>>()?;
    if results.len() == count { Ok(results) } else { Err(Error::Stopped) }
}

/// [`parallel`] that hands every result to `fold`, in the order of the work, as soon as all results before it are there. Few
/// are kept waiting, if pieces take similar times.
///
/// # Errors
/// As [`parallel`].
pub(super) fn parallel_fold<R: Send>(
    threads: usize,
    stop: &Stop,
    count: usize,
    work: impl Fn(usize) -> Result<R> + Sync,
    fold: impl FnMut(usize, R) + Send,
) -> Result<()> {
    let state = Mutex::new((0, BTreeMap::new(), fold));
    parallel(threads, stop, count, |index| {
        let result = work(index)?;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, waiting, fold) = &mut *state;
        waiting.insert(index, result);
        while let Some(result) = waiting.remove(next) {
            fold(*next, result);
            *next += 1;
        }
        Ok(())
    })
    .map(drop)
}

/// [`parallel`] for pieces that own something, such as a part of a slice to write to.
///
/// # Errors
/// As [`parallel`].
pub(super) fn parallel_over<T: Send>(
    threads: usize,
    stop: &Stop,
    pieces: impl IntoIterator<Item = T>,
    work: impl Fn(usize, T) -> Result<()> + Sync,
) -> Result<()> {
    let pieces: Vec<Mutex<Option<T>>> = pieces.into_iter().map(|piece| Mutex::new(Some(piece))).collect();
    parallel(threads, stop, pieces.len(), |index| {
        let piece = pieces[index].lock().unwrap_or_else(PoisonError::into_inner).take();
        piece.map_or(Ok(()), |piece| work(index, piece))
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{Stop, parallel, parallel_fold, parallel_over};
    use crate::error::Error;

    #[test]
    fn results_come_in_order() {
        for threads in [1, 2, 5] {
            let found = parallel(threads, &Stop::new(), 100, |index| Ok(index * index)).expect("nothing fails");
            assert_eq!(found, (0..100).map(|i| i * i).collect::<Vec<_>>());
        }
        assert!(parallel(4, &Stop::new(), 0, Ok).expect("nothing fails").is_empty());
    }

    #[test]
    fn results_are_folded_in_order() {
        for threads in [1, 2, 5] {
            let mut folded = Vec::new();
            let work = |index: usize| {
                // The first pieces are the slowest.
                std::thread::sleep(std::time::Duration::from_micros(300 / (index as u64 + 1)));
                Ok(index * index)
            };
            parallel_fold(threads, &Stop::new(), 100, work, |index, result| folded.push((index, result)))
                .expect("nothing fails");
            assert_eq!(folded, (0..100).map(|i| (i, i * i)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_piece_is_worked_on_once() {
        for threads in [1, 2, 5] {
            let mut values = vec![0u32; 103];
            let work = |index: usize, part: &mut [u32]| {
                part.iter_mut().for_each(|value| *value += 1 + index as u32);
                Ok(())
            };
            parallel_over(threads, &Stop::new(), values.chunks_mut(10), work).expect("nothing fails");
            assert_eq!(values, (0..103).map(|index| 1 + index / 10).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        for threads in [1, 2, 5] {
            let begun = AtomicUsize::new(0);
            let work = |index: usize| {
                begun.fetch_add(1, Ordering::SeqCst);
                assert_ne!(index, 7, "seven");
                Ok(())
            };
            let passed = catch_unwind(AssertUnwindSafe(|| parallel(threads, &Stop::new(), 1_000_000, work)));
            let payload = passed.expect_err("the panic passes");
            assert!(payload.downcast_ref::<String>().is_some_and(|text| text.contains("seven")), "{threads}");
            assert!(begun.into_inner() < 1_000_000, "the others went on to the end");
        }
    }

    #[test]
    fn the_first_failure_is_the_answer() {
        for threads in [1, 2, 5] {
            let work = |index: usize| match index {
                20 => Err(Error::missing("piece 20", "a slow failure")).inspect_err(|_| {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }),
                21 => Err(Error::missing("piece 21", "a quick failure")),
                _ => Ok(index),
            };
            let error = parallel(threads, &Stop::new(), 100, work).expect_err("two pieces fail");
            assert!(error.to_string().contains("piece 20"), "{threads}: {error}");
        }
    }

    #[test]
    fn nothing_begins_after_a_stop() {
        for threads in [1, 2, 5] {
            let (stop, begun) = (Stop::new(), AtomicUsize::new(0));
            let work = |index: usize| {
                if index == 10 {
                    stop.set();
                }
                if stop.is_set() {
                    begun.fetch_add(1, Ordering::SeqCst);
                }
                Ok(())
            };
            assert!(matches!(parallel(threads, &stop, 1_000_000, work), Err(Error::Stopped)));
            // One on every thread had checked before.
            assert!((1..=threads).contains(&begun.into_inner()), "{threads}");
        }
    }

    #[test]
    fn a_stop_goes_through_threads_of_threads() {
        let stop = Stop::new();
        let work = |index: usize| {
            let inner = |inner: usize| {
                if (index, inner) == (3, 500) {
                    stop.set();
                }
                Ok(inner)
            };
            parallel(2, &stop, 1000, inner)
        };
        assert!(matches!(parallel(2, &stop, 1000, work), Err(Error::Stopped)));
        // Other work has another token.
        assert_eq!(parallel(2, &Stop::new(), 100, Ok).expect("nothing fails").len(), 100);
    }
}
