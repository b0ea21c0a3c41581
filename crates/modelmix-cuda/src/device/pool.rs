//! Threads of the host that are kept for short work: starting a thread takes longer than copying a megabyte.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};

/// Work of all threads, called with the number of the thread.
type Work = dyn Fn(usize) + Sync;

/// In [`Shared::state`], the run is over for threads that have not begun; the bits below count those at work, and the
/// upper 32 bits are the number of the run.
const CLOSED: u64 = 1 << 31;

/// What the threads share with their owner.
struct Shared {
    state: AtomicU64,
    /// Work in progress: alive while a thread is at work, or the run is not closed.
    work: Mutex<Option<Pointer>>,
    /// Threads that have done their work in this run.
    finished: AtomicUsize,
    has_panicked: AtomicBool,
    is_over: AtomicBool,
}

/// A reference whose lifetime [`Pool::run`] guarantees.
#[derive(Clone, Copy)]
struct Pointer(*const Work);

// SAFETY: the work may be called by several threads, and it outlives their calls.
unsafe impl Send for Pointer {}

/// A thread, and the last run that it was called for.
struct Worker {
    thread: Thread,
    called: Arc<AtomicU64>,
    handle: Option<JoinHandle<()>>,
}

/// Waiting threads.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    /// Held while work is in progress.
    busy: Mutex<()>,
}

impl Pool {
    /// `threads` threads, one of which is the caller of [`Pool::run`]. There are fewer if the system has no more.
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(CLOSED),
            work: Mutex::new(None),
            finished: AtomicUsize::new(0),
            has_panicked: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let start = |index: usize| {
            let (shared, called) = (Arc::clone(&shared), Arc::new(AtomicU64::new(0)));
            let own = Arc::clone(&called);
            let thread = std::thread::Builder::new().name("modelmix-cuda".into());
            let handle = thread.spawn(move || wait_for_work(index, &shared, &own)).ok()?;
            Some(Worker { thread: handle.thread().clone(), called, handle: Some(handle) })
        };
        let workers = (1..threads).map_while(start).collect();
        Self { shared, workers, busy: Mutex::new(()) }
    }

    /// The number of threads, the caller's among them.
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `work` with 0, 1, … below `threads`, at most [`Pool::threads`], at the same time; 0 is called on this thread.
    pub(crate) fn run(&self, threads: usize, work: &(dyn Fn(usize) + Sync)) {
        self.start(threads, work, true);
    }

    /// [`Pool::run`] for work that the caller does alone if the others are late: threads that have not begun when `work(0)`
    /// returns are not waited for, and not called.
    pub(crate) fn help(&self, threads: usize, work: &(dyn Fn(usize) + Sync)) {
        self.start(threads, work, false);
    }

    fn start(&self, threads: usize, work: &(dyn Fn(usize) + Sync), needs_all: bool) {
        let _busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let workers = &self.workers[..threads.clamp(1, self.threads()) - 1];
        // SAFETY: the lifetime ends after all calls: `Join` waits for them, even if this thread panics.
        let pointer = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync), *const Work>(work) };
        *self.shared.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(Pointer(pointer));
        self.shared.finished.store(0, Ordering::Relaxed);
        let run = (self.shared.state.load(Ordering::Relaxed) >> 32).wrapping_add(1) & 0xffff_ffff;
        self.shared.state.store(run << 32, Ordering::Release);
        let join = Join { shared: &self.shared, needed: if needs_all { workers.len() } else { 0 } };
        for worker in workers {
            worker.called.store(run, Ordering::Release);
            worker.thread.unpark();
        }
        work(0);
        drop(join);
        assert!(!self.shared.has_panicked.swap(false, Ordering::Relaxed), "a thread of the pool panicked");
    }
}

/// Waits for the other threads, and ends the run.
struct Join<'a> {
    shared: &'a Shared,
    /// Threads that have to finish, whether they have begun or not.
    needed: usize,
}

impl Drop for Join<'_> {
    fn drop(&mut self) {
        wait_until(|| self.shared.finished.load(Ordering::Acquire) >= self.needed);
        self.shared.state.fetch_or(CLOSED, Ordering::AcqRel);
        wait_until(|| self.shared.state.load(Ordering::Acquire) & (CLOSED - 1) == 0);
        *self.shared.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn wait_for_work(index: usize, shared: &Shared, called: &AtomicU64) {
    let mut seen = 0;
    loop {
        let run = called.load(Ordering::Acquire);
        if run == seen {
            if shared.is_over.load(Ordering::Acquire) {
                return;
            }
            std::thread::park();
            continue;
        }
        seen = run;
        let begin = |state: u64| (state >> 32 == run && state & CLOSED == 0).then_some(state + 1);
        if shared.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, begin).is_err() {
            continue;
        }
        let work = *shared.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Pointer(work)) = work {
            // SAFETY: `Join` keeps the work alive while a thread is at work.
            if catch_unwind(AssertUnwindSafe(|| unsafe { (*work)(index) })).is_err() {
                shared.has_panicked.store(true, Ordering::Relaxed);
            }
        }
        shared.finished.fetch_add(1, Ordering::Release);
        shared.state.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        for worker in &mut self.workers {
            worker.thread.unpark();
            if let Some(handle) = worker.handle.take() {
                let _ = handle.join();
            }
        }
    }
}

/// Spins, for waits of microseconds; longer ones let other threads run.
fn wait_until(is_done: impl Fn() -> bool) {
    const SPINS: usize = 2000;
    for turn in 0.. {
        if is_done() {
            return;
        }
        if turn < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

/// A gate that one thread opens, or closes for good, and others wait at.
#[derive(Default)]
pub(crate) struct Gate(AtomicU8);

impl Gate {
    const OPEN: u8 = 1;
    const CLOSED: u8 = 2;

    pub(crate) fn open(&self, is_open: bool) {
        self.0.store(if is_open { Self::OPEN } else { Self::CLOSED }, Ordering::Release);
    }

    /// Waits, and returns whether the gate is open.
    pub(crate) fn pass(&self) -> bool {
        wait_until(|| self.0.load(Ordering::Acquire) != 0);
        self.0.load(Ordering::Acquire) == Self::OPEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_works_once_per_run() {
        let pool = Pool::new(4);
        for threads in [1, 3, 4, 9] {
            let counts = [(); 4].map(|()| AtomicUsize::new(0));
            pool.run(threads, &|index| {
                counts[index].fetch_add(1, Ordering::Relaxed);
            });
            let counts = counts.map(AtomicUsize::into_inner);
            assert_eq!(counts, [0, 1, 2, 3].map(|index| usize::from(index < threads)), "{threads}");
        }
    }

    #[test]
    fn helpers_share_work_and_may_be_late() {
        let pool = Pool::new(4);
        for _ in 0..2000 {
            let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
            pool.help(4, &|_| {
                for item in std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&item| item < 10))
                {
                    sum.fetch_add(item, Ordering::Relaxed);
                }
            });
            assert_eq!(sum.into_inner(), 45);
            let calls = AtomicUsize::new(0);
            pool.run(2, &|index| {
                calls.fetch_add(1 << (8 * index), Ordering::Relaxed);
            });
            assert_eq!(calls.into_inner(), 0x101, "both threads are called once, even if one was late before");
        }
    }

    #[test]
    fn gates_let_others_pass_or_not() {
        let pool = Pool::new(3);
        for is_open in [true, false] {
            let (gate, passed) = (Gate::default(), AtomicUsize::new(0));
            pool.run(3, &|index| {
                if index == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    assert_eq!(passed.load(Ordering::Relaxed), 0, "no thread passes a gate before it is opened");
                    gate.open(is_open);
                } else if gate.pass() {
                    passed.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert_eq!(passed.into_inner(), if is_open { 2 } else { 0 });
        }
    }

    #[test]
    fn panics_of_threads_reach_the_caller() {
        let pool = Pool::new(2);
        let result = catch_unwind(AssertUnwindSafe(|| pool.run(2, &|index| assert!(index == 0))));
        assert!(result.is_err());
        pool.run(2, &|_| ());
    }
}
