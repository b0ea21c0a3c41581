//! Executes a run: one thread decides and stores, others call the arms.
//!
//! The coordinator owns the session and the store. It commits the intent to send a request, hands it to a worker, commits what
//! became of it, and tells the session. A worker sends one request, stores the samples, and computes features and scores. So the
//! store is always ahead of the outside world, and a run that was killed goes on from it.

mod arms;
mod coordinator;
mod flight;
mod outcome;
mod probe;
mod restore;
mod worker;

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use modelmix::Session;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Plan;
use crate::manners::{Backoff, Ledger, Limit};
use crate::problem::Result;
use crate::store::Store;
use crate::tally::ArmCounts;

pub use probe::{Probe, probe};

/// Ends a run early: the first request drains it, the second stops it.
#[derive(Debug, Default)]
pub struct Controls(AtomicU8);

impl Controls {
    /// Asks the run to end: the first time, pulls in flight are awaited; the second time, they are not.
    pub fn interrupt(&self) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |level| Some((level + 1).min(2)));
    }

    /// Whether nothing new is asked.
    pub fn is_draining(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= 1
    }

    /// Whether pulls in flight are given up.
    pub fn is_stopping(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= 2
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum End {
    /// Early stopping: the mixture is near the optimum.
    Certified,
    /// A limit of the budget is reached.
    Budget(Limit),
    /// It was interrupted; it can be resumed.
    Interrupted,
    /// Every arm is set aside.
    NoArms,
    /// The disk is nearly full; it can be resumed.
    DiskFull,
}

/// What happened to a run, for a log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// An attempt failed and is repeated after this time.
    Retry {
        /// The arm.
        arm: usize,
        /// The pull.
        pull: u64,
        /// One sentence.
        message: String,
        /// The time until the next attempt.
        after: Duration,
    },
    /// A pull ended without a sample.
    Abandoned {
        /// The arm.
        arm: usize,
        /// The pull.
        pull: u64,
        /// One sentence.
        message: String,
    },
    /// An arm is not asked any more.
    SetAside {
        /// The arm.
        arm: usize,
        /// One sentence.
        message: String,
    },
    /// The server of an arm does not answer, and is left alone for this time.
    CircuitOpen {
        /// The arm.
        arm: usize,
        /// The time.
        pause: Duration,
    },
    /// Anything else, as one sentence.
    Message(String),
}

/// The state of a run while it is executed.
#[derive(Debug)]
#[non_exhaustive]
pub struct View<'a> {
    /// The plan's names of the arms.
    pub session: &'a Session,
    /// What was spent.
    pub ledger: &'a Ledger,
    /// Per arm.
    pub arms: Vec<ArmCounts>,
    /// The number of pulls in flight.
    pub in_flight: usize,
}

/// Sees a run while it is executed.
pub trait Observer {
    /// The state changed. Called a few times per second.
    fn progress(&mut self, view: &View<'_>);
    /// Something happened that a person may want to know.
    fn note(&mut self, note: Note);
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn progress(&mut self, _view: &View<'_>) {}
    fn note(&mut self, _note: Note) {}
}

/// How a run is executed, apart from its plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunSettings {
    /// The times between attempts.
    pub backoff: Backoff,
    /// The first pause of a circuit breaker.
    pub breaker_pause: Duration,
    /// Threads that compute features at the same time; one per core by default.
    pub encoders: usize,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            breaker_pause: Duration::from_secs(30),
            encoders: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Executes a new run, or goes on with a stored one.
///
/// # Errors
/// A store that cannot be read or written, or a run that the plan does not continue.
pub fn run(
    plan: &Plan,
    store: Store,
    settings: &RunSettings,
    controls: &Controls,
    observer: &mut dyn Observer,
) -> Result<End> {
    coordinator::run(plan, store, settings, controls, observer)
}
