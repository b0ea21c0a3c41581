//! The processes of one command: started when they are needed, chosen by load, started again after they end.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::CallProblem;
use super::process::Process;
use super::protocol::{Body, Hello};
use super::settings::Launch;

/// The number of starts of a process without an answer in between, after which it is not started again.
const MOST_STARTS: u32 = 3;
/// The time that processes have to exit after their stdin was closed.
const FAREWELL: Duration = Duration::from_secs(2);

/// Long-lived processes of one command.
#[derive(Debug)]
pub(crate) struct Workers {
    launch: Arc<Launch>,
    state: Mutex<State>,
    /// A process became ready or ended, or a request was answered.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    slots: Vec<Slot>,
    /// The slot that is preferred among equally busy ones.
    next: usize,
    is_interrupted: bool,
    /// The fingerprint that the first process stated.
    fingerprint: Option<Option<String>>,
}

/// The place of one process.
#[derive(Debug, Default)]
struct Slot {
    process: Option<Arc<Process>>,
    /// What the process said; `None` while it starts.
    hello: Option<Hello>,
    in_flight: usize,
    /// The number of starts since the last answer.
    starts: u32,
    /// Why the last start failed, or the last process ended without an answer.
    problem: Option<String>,
}

/// The right to send one request to a process.
struct Lease<'a> {
    workers: &'a Workers,
    slot: usize,
    process: Arc<Process>,
    hello: Hello,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.workers.state();
        let slot = &mut state.slots[self.slot];
        if slot.process.as_ref().is_some_and(|process| Arc::ptr_eq(process, &self.process)) {
            slot.in_flight -= 1;
        }
        self.workers.changed.notify_all();
    }
}

/// What to do next to get a process.
enum Choice {
    Use(usize),
    Start(usize),
    Wait,
    GiveUp(CallProblem),
}

impl Workers {
    /// Processes that are not started yet.
    pub(crate) fn new(launch: Launch) -> Self {
        let slots = std::iter::repeat_with(Slot::default).take(launch.workers).collect();
        let state = State { slots, next: 0, is_interrupted: false, fingerprint: None };
        Self { launch: Arc::new(launch), state: Mutex::new(state), changed: Condvar::new() }
    }

    /// What the processes are started from.
    pub(crate) fn launch(&self) -> &Launch {
        &self.launch
    }

    /// The hello of a running process; one is started if there is none.
    pub(crate) fn hello(&self) -> Result<Hello, CallProblem> {
        self.lease().map(|lease| lease.hello.clone())
    }

    /// Sends a request once. `read` takes the reply; the process may reuse files named there afterwards.
    pub(crate) fn call<T>(
        &self,
        request: impl FnOnce(&Hello) -> Body,
        read: impl FnOnce(&Hello, &[u8]) -> T,
    ) -> Result<T, CallProblem> {
        let lease = self.lease()?;
        let outcome = lease.process.call(request(&lease.hello));
        match outcome {
            Ok((id, line)) => {
                let read = read(&lease.hello, &line);
                lease.process.received(id);
                let mut state = self.state();
                state.slots[lease.slot].starts = 0;
                drop(state);
                Ok(read)
            }
            Err(problem) => {
                self.state().slots[lease.slot].problem = Some(problem.message().to_owned());
                Err(problem)
            }
        }
    }

    /// Ends all processes, for good.
    pub(crate) fn interrupt(&self) {
        let mut state = self.state();
        state.is_interrupted = true;
        let processes: Vec<_> = state.slots.iter().filter_map(|slot| slot.process.clone()).collect();
        self.changed.notify_all();
        drop(state);
        processes.iter().for_each(|process| process.stop("was ended by an interrupt"));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a process that takes a request.
    fn lease(&self) -> Result<Lease<'_>, CallProblem> {
        let mut state = self.state();
        loop {
            match state.choose(&self.launch) {
                Choice::Use(index) => {
                    state.next = index + 1;
                    let slot = &mut state.slots[index];
                    if let (Some(process), Some(hello)) = (&slot.process, &slot.hello) {
                        slot.in_flight += 1;
                        let (process, hello) = (Arc::clone(process), hello.clone());
                        return Ok(Lease { workers: self, slot: index, process, hello });
                    }
                }
                Choice::Start(index) => {
                    state.slots[index].starts += 1;
                    state.slots[index].hello = None;
                    let started = match Process::spawn(&self.launch) {
                        Ok(process) => {
                            let process = Arc::new(process);
                            state.slots[index].process = Some(Arc::clone(&process));
                            drop(state);
                            let hello = process.hello();
                            state = self.state();
                            hello.and_then(|hello| state.accept(hello, &self.launch))
                        }
                        Err(problem) => {
                            if problem.is_permanent {
                                state.slots[index].starts = MOST_STARTS;
                            }
                            Err(problem.message)
                        }
                    };
                    self.changed.notify_all();
                    let slot = &mut state.slots[index];
                    match started {
                        Ok(hello) => (slot.hello, slot.in_flight) = (Some(hello), 0),
                        Err(problem) => {
                            let failed = slot.process.take();
                            slot.problem = Some(problem.clone());
                            let is_temporary = !state.is_hopeless();
                            drop(state);
                            drop(failed);
                            return Err(CallProblem::NotSent { message: problem, is_temporary });
                        }
                    }
                }
                Choice::Wait => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Choice::GiveUp(problem) => return Err(problem),
            }
        }
    }
}

impl State {
    /// Checks that all processes are the same model.
    fn accept(&mut self, hello: Hello, launch: &Launch) -> Result<Hello, String> {
        let first = self.fingerprint.get_or_insert_with(|| hello.fingerprint.clone());
        if *first == hello.fingerprint {
            return Ok(hello);
        }
        let stated = |fingerprint: &Option<String>| match fingerprint {
            Some(fingerprint) => format!("the fingerprint {:?}", super::shortened(fingerprint, 80)),
            None => "no fingerprint".into(),
        };
        let (now, before) = (stated(&hello.fingerprint), stated(first));
        let message =
            format!("{} states {now}, but {before} before; start a new run for another model", launch.describe());
        Err(launch.redact(&message))
    }

    fn choose(&mut self, launch: &Launch) -> Choice {
        if self.is_interrupted {
            let message = format!("{} was ended by an interrupt", launch.describe());
            return Choice::GiveUp(CallProblem::not_sent(message));
        }
        for slot in &mut self.slots {
            // A process that starts is looked after by the call that started it.
            if slot.hello.is_some() && slot.process.as_ref().is_some_and(|process| !process.is_running()) {
                (slot.process, slot.hello, slot.in_flight) = (None, None, 0);
            }
        }
        let count = self.slots.len();
        let order = (0..count).map(|offset| (self.next + offset) % count);
        let free = order.clone().filter(|&index| {
            let slot = &self.slots[index];
            slot.hello.as_ref().is_some_and(|hello| slot.in_flight < hello.max_in_flight)
        });
        let least = free.min_by_key(|&index| self.slots[index].in_flight);
        let startable =
            order.clone().find(|&index| self.slots[index].process.is_none() && self.slots[index].starts < MOST_STARTS);
        match (least, startable) {
            (Some(index), None) => Choice::Use(index),
            (Some(index), Some(_)) if self.slots[index].in_flight == 0 => Choice::Use(index),
            (_, Some(index)) => Choice::Start(index),
            (None, None) if self.slots.iter().any(|slot| slot.process.is_some()) => Choice::Wait,
            (None, None) => Choice::GiveUp(CallProblem::NotSent {
                message: format!(
                    "{} was started {MOST_STARTS} times without an answer; repair it and resume: {}",
                    launch.describe(),
                    self.slots.iter().find_map(|slot| slot.problem.as_deref()).unwrap_or("no reason is known")
                ),
                is_temporary: false,
            }),
        }
    }

    /// Whether no process runs and none will be started.
    fn is_hopeless(&self) -> bool {
        self.slots.iter().all(|slot| slot.process.is_none() && slot.starts >= MOST_STARTS)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let processes: Vec<_> = self.state().slots.iter_mut().filter_map(|slot| slot.process.take()).collect();
        processes.iter().for_each(|process| process.close());
        let deadline = Instant::now() + FAREWELL;
        for process in &processes {
            if !process.wait(deadline) {
                process.stop("did not exit after its stdin was closed");
            }
        }
    }
}
