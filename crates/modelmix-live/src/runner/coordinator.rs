//! Decides what happens next and commits it: the only owner of the session and the store.
//!
//! Every turn handles what the workers reported, asks and sends what is due, commits all of it in one transaction, and only then
//! hands out the work.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use modelmix::internals::random::Random;
use modelmix::{Event, Session};
use sha2::{Digest, Sha256};

use super::arms::ArmState;
use super::flight::{Flight, Job, Report, Stage};
use super::restore;
use super::worker::{Permits, Workers};
use super::{Controls, End, Note, Observer, RunSettings, View};
use crate::arm::Request;
use crate::config::{Plan, hex};
use crate::manners::{Ledger, Limit};
use crate::problem::Result;
use crate::store::Store;
use crate::store::change::Change;
use crate::store::payloads::Payloads;

/// How often observers see the state, and the longest wait without a look at the controls.
const TICK: Duration = Duration::from_millis(100);
/// How often the free space of the disk is asked for.
const SPACE_TICK: Duration = Duration::from_secs(1);
/// The stream of the run's seed for jitter.
const JITTER_STREAM: u64 = 0x6a69_7474_6572;

/// The state of a run.
pub(super) struct Coordinator<'a> {
    pub(super) plan: &'a Plan,
    pub(super) store: Store,
    pub(super) run_id: String,
    payloads: Payloads,
    pub(super) session: Session,
    pub(super) settings: &'a RunSettings,
    controls: &'a Controls,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) arms: Vec<ArmState>,
    pub(super) flights: BTreeMap<u64, Flight>,
    pub(super) ledger: Ledger,
    /// The time that earlier processes were active.
    pub(super) earlier: Duration,
    /// What is committed at the end of the turn.
    pub(super) changes: Vec<Change>,
    /// What is handed out after that.
    pub(super) jobs: Vec<Job>,
    pub(super) random: Random,
    started: Instant,
    /// Why nothing new is asked any more.
    end: Option<End>,
    /// Until when no arm can be asked.
    blocked_until: Option<Duration>,
    space_checked: Option<Duration>,
    is_disk_full: bool,
    shown: Option<Duration>,
}

/// Executes a run; see [`super::run`].
pub(super) fn run<'a>(
    plan: &'a Plan,
    store: Store,
    settings: &'a RunSettings,
    controls: &'a Controls,
    observer: &'a mut dyn Observer,
) -> Result<End> {
    let mut coordinator = Coordinator {
        plan,
        payloads: store.payloads(),
        store,
        run_id: String::new(),
        session: plan.basis.session.clone(),
        settings,
        controls,
        observer,
        arms: plan.arms.iter().map(|arm| ArmState::new(arm, settings.breaker_pause)).collect(),
        flights: BTreeMap::new(),
        ledger: Ledger::default(),
        earlier: Duration::ZERO,
        changes: Vec::new(),
        jobs: Vec::new(),
        random: Random::stream(plan.basis.config.seed, JITTER_STREAM ^ now_ms()),
        started: Instant::now(),
        end: None,
        blocked_until: None,
        space_checked: None,
        is_disk_full: false,
        shown: None,
    };
    restore::restore(&mut coordinator)?;
    let (job_sender, job_receiver) = mpsc::channel();
    let job_receiver = Mutex::new(job_receiver);
    let (report_sender, reports) = mpsc::channel();
    let workers = Workers {
        plan,
        payloads: coordinator.payloads.clone(),
        jobs: &job_receiver,
        encoders: Permits::new(settings.encoders),
    };
    std::thread::scope(|scope| {
        let threads = plan.basis.config.max_in_flight.max(coordinator.flights.len());
        for _ in 0..threads {
            let (workers, reports) = (&workers, report_sender.clone());
            scope.spawn(move || workers.work(&reports));
        }
        drop(report_sender);
        let ended = coordinator.turns(&job_sender, &reports);
        // Workers that wait for jobs end; those that wait for an answer are told to.
        drop(job_sender);
        if ended.is_err() || controls.is_stopping() {
            plan.interrupt();
        }
        drop(reports);
        ended
    })
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

impl Coordinator<'_> {
    fn turns(&mut self, jobs: &Sender<Job>, reports: &Receiver<Report>) -> Result<End> {
        loop {
            let now = self.now();
            self.look_around(now)?;
            if self.plan.basis.config.ordered {
                // With samples in the order of the pulls, decisions are made between them as if each had come alone.
                while self.settle_next()? {
                    self.ask(now)?;
                }
            }
            self.ask(now)?;
            self.send(now)?;
            self.commit()?;
            for job in self.jobs.drain(..) {
                // Workers outlive the jobs.
                let _ = jobs.send(job);
            }
            self.show(now);
            if let Some(end) = self.is_over() {
                self.changes.push(Change::Lifecycle { what: "ended".into(), note: word(end), at: now_ms() });
                self.commit()?;
                self.shown = None;
                self.show(self.now());
                return Ok(end);
            }
            let wait = self.wait(self.now());
            match reports.recv_timeout(wait) {
                Ok(report) => {
                    self.handle(report)?;
                    // What came in the meantime shares the transaction.
                    while let Ok(report) = reports.try_recv() {
                        self.handle(report)?;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Notices what does not come from workers: the controls, the time, the disk and the stopping rule.
    fn look_around(&mut self, now: Duration) -> Result<()> {
        self.ledger.time = self.earlier + now;
        if self.controls.is_draining() && self.end.is_none() {
            self.end = Some(End::Interrupted);
        }
        if self.end.is_none() && self.session.is_done() {
            self.end = Some(End::Certified);
        }
        if self.end.is_none() && self.arms.iter().all(|arm| arm.counts.set_aside.is_some()) {
            self.end = Some(End::NoArms);
        }
        if self.space_checked.is_none_or(|checked| now >= checked + SPACE_TICK) {
            self.space_checked = Some(now);
            let free = self.payloads.free_space()?;
            let least = self.plan.basis.config.min_free_space.0;
            if free < least && !self.is_disk_full {
                let free = modelmix::internals::numbers::count((free / 1_000_000) as usize);
                self.observer.note(Note::Message(format!(
                    "The disk is nearly full ({free} MB are free), so nothing is asked any more; free some space and resume"
                )));
            }
            self.is_disk_full = free < least;
        }
        Ok(())
    }

    /// Asks arms while pulls may be in flight.
    fn ask(&mut self, now: Duration) -> Result<()> {
        self.blocked_until = None;
        if self.arms.iter().all(|arm| arm.is_unavailable(now)) {
            self.blocked_until = Some(self.next_probe(now));
            return Ok(());
        }
        let mut skipped = 0;
        while self.end.is_none()
            && !self.is_disk_full
            && self.flights.len() < self.plan.basis.config.max_in_flight
            && !self.session.is_done()
        {
            let event = self.session.decide()?;
            let Event::Asked(asked) = &event else { break };
            let (pull, arm, count) = (asked.pull, asked.arm, asked.count);
            let prompt = self.plan.basis.prompts.as_ref().map(|prompts| prompts.number(self.arms[arm].asked));
            let request = request(self.plan, &self.run_id, pull, prompt, count);
            if self.arms[arm].is_unavailable(now) {
                skipped += 1;
                if skipped > 2 * self.arms.len() {
                    self.blocked_until = Some(self.next_probe(now));
                    break;
                }
                let reason = match self.arms[arm].counts.set_aside {
                    Some(_) => "the arm is set aside",
                    None => "the circuit of the arm is open",
                };
                self.asked(event, prompt, request.seed)?;
                self.abandon(pull, reason.into())?;
                continue;
            }
            let reserve = self.plan.arms[arm].arm.reserve(&request);
            match self.plan.budget.exceeded(&self.ledger, reserve, true) {
                Some(Limit::Money) if self.ledger.reserved > 0.0 => break,
                Some(limit) => {
                    self.end = Some(End::Budget(limit));
                    break;
                }
                None => {}
            }
            self.asked(event, prompt, request.seed)?;
            self.arms[arm].asked += 1;
            self.ledger.pulls += 1;
            // Its cost counts from now on, so that pulls that wait for a rate are paid for when they leave.
            self.ledger.reserved += reserve;
            let flight = Flight { reserved: reserve, ..Flight::new(arm, request, now) };
            self.flights.insert(pull, flight);
        }
        Ok(())
    }

    fn asked(&mut self, event: Event, prompt: Option<u64>, seed: u64) -> Result<()> {
        self.session.apply(&event)?;
        self.changes.push(Change::Asked { event, prompt, seed, at: now_ms() });
        Ok(())
    }

    /// When an arm whose circuit is open may be tried.
    fn next_probe(&self, now: Duration) -> Duration {
        let open = self.arms.iter().filter(|arm| arm.counts.set_aside.is_none());
        open.filter_map(|arm| arm.breaker.next(now)).min().unwrap_or(now + TICK).max(now + Duration::from_millis(1))
    }

    /// Sends the requests that are due.
    fn send(&mut self, now: Duration) -> Result<()> {
        // An interrupted run leaves what waits in the store.
        if self.controls.is_draining() {
            return Ok(());
        }
        let due = |flight: &Flight| matches!(flight.stage, Stage::Waiting(until) if until <= now);
        let waiting: Vec<u64> = self.flights.iter().filter(|(_, flight)| due(flight)).map(|(&pull, _)| pull).collect();
        for pull in waiting {
            let Some(flight) = self.flights.get_mut(&pull) else { continue };
            let arm = &mut self.arms[flight.arm];
            if arm.next(now) != Some(now) {
                continue;
            }
            if flight.request.attempt > 0 {
                // Another attempt may be charged like the first.
                let reserve = self.plan.arms[flight.arm].arm.reserve(&flight.request);
                match self.plan.budget.exceeded(&self.ledger, reserve, false) {
                    // Money that is reserved now may be free later.
                    Some(Limit::Money) if self.ledger.reserved > 0.0 => {
                        flight.stage = Stage::Waiting(now + TICK);
                        continue;
                    }
                    Some(limit) => {
                        self.lose(pull, format!("the budget of {limit} does not allow another attempt"), None)?;
                        continue;
                    }
                    None => {}
                }
                self.ledger.reserved += reserve;
                flight.reserved = reserve;
            }
            arm.sent(now);
            flight.request.attempt += 1;
            flight.stage = Stage::Calling;
            let attempt = flight.request.attempt;
            self.changes.push(Change::Sent { pull, attempt, reserved: flight.reserved, at: now_ms() });
            self.jobs.push(Job::Call { arm: flight.arm, request: flight.request.clone() });
        }
        Ok(())
    }

    pub(super) fn commit(&mut self) -> Result<()> {
        if self.changes.is_empty() {
            return Ok(());
        }
        self.store.commit(&self.changes)?;
        self.changes.clear();
        Ok(())
    }

    /// Whether the run has ended: nothing is to be asked, and nothing is in flight.
    fn is_over(&mut self) -> Option<End> {
        if self.controls.is_stopping() {
            return Some(End::Interrupted);
        }
        let is_idle = !self.flights.values().any(Flight::is_at_work);
        match self.end {
            // What waits goes on when the run is resumed.
            Some(End::Interrupted) if is_idle => Some(End::Interrupted),
            Some(end) if self.flights.is_empty() => Some(end),
            None if self.is_disk_full && self.flights.is_empty() => Some(End::DiskFull),
            _ => None,
        }
    }

    /// The time until something is due.
    fn wait(&mut self, now: Duration) -> Duration {
        let mut next = now + TICK;
        if let Some(until) = self.blocked_until {
            next = next.min(until);
        }
        if !self.controls.is_draining() {
            for flight in self.flights.values() {
                if let Stage::Waiting(until) = flight.stage
                    && let Some(free) = self.arms[flight.arm].next(now)
                {
                    next = next.min(until.max(free));
                }
            }
        }
        next.saturating_sub(now)
    }

    fn show(&mut self, now: Duration) {
        if self.shown.is_some_and(|shown| now < shown + TICK) {
            return;
        }
        self.shown = Some(now);
        let arms = self.arms.iter().map(|arm| arm.counts.clone()).collect();
        let (session, ledger, in_flight) = (&self.session, &self.ledger, self.flights.len());
        self.observer.progress(&View { session, ledger, arms, in_flight });
    }
}

/// The first request of a pull.
pub(super) fn request(plan: &Plan, run_id: &str, pull: u64, prompt: Option<u64>, count: usize) -> Request {
    let text = prompt.and_then(|number| plan.basis.prompts.as_ref()?.text(number)).map(str::to_owned);
    let digest = Sha256::digest(format!("modelmix {} {pull}", plan.basis.config.seed));
    let seed = digest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes) >> 11);
    let key =
        format!("modelmix-{}", hex(&Sha256::digest(format!("{} {pull} {}", plan.basis.config.seed, run_id))[..16]));
    Request { pull, attempt: 0, key, prompt: text, seed, count }
}

/// The name of an end in the database.
fn word(end: End) -> String {
    match end {
        End::Certified => "certified".into(),
        End::Budget(limit) => format!("budget of {limit}"),
        End::Interrupted => "interrupted".into(),
        End::NoArms => "no arms".into(),
        End::DiskFull => "disk full".into(),
    }
}
