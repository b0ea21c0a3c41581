//! What the coordinator does with outcomes: books costs, decides on another attempt, and tells the session.

use std::time::Duration;

use modelmix::session::{Answer, Decisions, Scores};
use modelmix::{Error, Event};

use super::Note;
use super::coordinator::{Coordinator, now_ms};
use super::flight::{Report, Settlement, Stage};
use crate::arm::{Charge, Failure, FailureKind};
use crate::manners::Delivery;
use crate::problem::Result;
use crate::store::change::{Change, EncodedSample};

impl Coordinator<'_> {
    pub(super) fn handle(&mut self, report: Report) -> Result<()> {
        let now = self.now();
        match report {
            Report::Received { pull, samples, cost } => {
                let Some(flight) = self.flights.get_mut(&pull) else { return Ok(()) };
                flight.stage = Stage::Encoding;
                let (reserved, attempt, arm) = (flight.reserved, flight.request.attempt, flight.arm);
                if cost > reserved * (1.0 + 1e-9) {
                    self.observer.note(Note::Message(format!(
                        "Pull {pull} of {} cost {cost}, but {reserved} was reserved; set max_cost_per_request",
                        self.plan.arms[arm].settings.name
                    )));
                }
                self.charge(pull, Charge::Known(cost), true);
                self.arms[arm].answered();
                self.changes.push(Change::Received { pull, attempt, samples, cost, at: now_ms() });
            }
            Report::Failed { pull, failure } => self.failed(pull, failure, now)?,
            Report::Encoded { pull, samples, rejected } => {
                self.settle(pull, Settlement::Told(samples, rejected))?;
            }
            Report::Broken(problem) => return Err(problem),
        }
        Ok(())
    }

    /// Books what an attempt cost. `is_answer` says whether the model answered.
    fn charge(&mut self, pull: u64, charge: Charge, is_answer: bool) {
        let Some(flight) = self.flights.get_mut(&pull) else { return };
        let counts = &mut self.arms[flight.arm].counts;
        match charge {
            Charge::Known(cost) => {
                self.ledger.confirmed += cost;
                counts.cost += cost;
                // The server charges one key once, so earlier attempts cost nothing.
                if is_answer && self.plan.arms[flight.arm].delivery == Delivery::Idempotent {
                    for (attempt, reserved) in flight.doubts.drain(..) {
                        self.ledger.in_doubt = (self.ledger.in_doubt - reserved).max(0.0);
                        counts.in_doubt = (counts.in_doubt - reserved).max(0.0);
                        counts.doubts -= 1;
                        self.changes.push(Change::Settled { pull, attempt, cost: 0.0 });
                    }
                }
            }
            Charge::Doubt => {
                self.ledger.in_doubt += flight.reserved;
                counts.in_doubt += flight.reserved;
                counts.doubts += 1;
                flight.doubts.push((flight.request.attempt, flight.reserved));
            }
        }
        flight.reserved = 0.0;
        // Summed anew: a remainder of rounding would look like money that is free later.
        self.ledger.reserved = self.flights.values().map(|flight| flight.reserved).sum();
    }

    fn failed(&mut self, pull: u64, failure: Failure, now: Duration) -> Result<()> {
        let Some(flight) = self.flights.get(&pull) else { return Ok(()) };
        let (arm, attempt) = (flight.arm, flight.request.attempt);
        let live = &self.plan.arms[arm];
        // A busy server says nothing of what became of earlier attempts.
        let is_answer = matches!(failure.kind, FailureKind::Refusal | FailureKind::Empty | FailureKind::Invalid);
        self.charge(pull, failure.charge, is_answer);
        if let Some(pause) = self.arms[arm].failed(&failure, now) {
            self.observer.note(Note::CircuitOpen { arm, pause });
        }
        self.changes.push(Change::Failed {
            pull,
            attempt,
            kind: failure.kind,
            status: failure.status,
            message: failure.message.clone(),
            cost: match failure.charge {
                Charge::Known(cost) => Some(cost),
                Charge::Doubt => None,
            },
            at: now_ms(),
        });
        if live.delivery.may_resend(&failure) && attempt <= live.settings.retries {
            let after = self.settings.backoff.delay(attempt, failure.retry_after, &mut self.random);
            if let Some(flight) = self.flights.get_mut(&pull) {
                flight.stage = Stage::Waiting(now + after);
            }
            self.observer.note(Note::Retry { arm, pull, message: failure.message, after });
            return Ok(());
        }
        self.lose(pull, failure.message, Some(failure.kind))
    }

    /// Ends a pull without samples, and sets its arm aside if that happens too often.
    pub(super) fn lose(&mut self, pull: u64, reason: String, kind: Option<FailureKind>) -> Result<()> {
        let Some(flight) = self.flights.get(&pull) else { return Ok(()) };
        let arm = flight.arm;
        self.observer.note(Note::Abandoned { arm, pull, message: reason.clone() });
        if self.arms[arm].lost(kind) {
            let message = format!("its last pulls all failed, the last one because {reason}");
            self.arms[arm].counts.set_aside = Some(message.clone());
            self.observer.note(Note::SetAside { arm, message: message.clone() });
            self.changes.push(Change::SetAside { arm, reason: message, at: now_ms() });
        }
        self.settle(pull, Settlement::Abandoned(reason))
    }

    /// Ends a pull, now or when those before it have ended.
    fn settle(&mut self, pull: u64, settlement: Settlement) -> Result<()> {
        if self.plan.basis.config.ordered {
            if let Some(flight) = self.flights.get_mut(&pull) {
                flight.stage = Stage::Settled(settlement);
            }
            return Ok(());
        }
        self.conclude(pull, settlement)
    }

    /// Ends the oldest pull, if it is settled.
    pub(super) fn settle_next(&mut self) -> Result<bool> {
        let Some(oldest) = self.flights.first_entry() else { return Ok(false) };
        if !matches!(oldest.get().stage, Stage::Settled(_)) {
            return Ok(false);
        }
        let (pull, flight) = oldest.remove_entry();
        let Stage::Settled(settlement) = flight.stage else { return Ok(false) };
        self.conclude_flight(pull, flight.arm, settlement)?;
        Ok(true)
    }

    fn conclude(&mut self, pull: u64, settlement: Settlement) -> Result<()> {
        match self.flights.remove(&pull) {
            Some(flight) => self.conclude_flight(pull, flight.arm, settlement),
            None => Ok(()),
        }
    }

    fn conclude_flight(&mut self, pull: u64, arm: usize, settlement: Settlement) -> Result<()> {
        let (samples, mut rejected) = match settlement {
            Settlement::Abandoned(reason) => return self.abandon(pull, reason),
            Settlement::Told(samples, rejected) => (samples, rejected),
        };
        let told = match samples.is_empty() {
            true => None,
            false => match self.tell(pull, &samples) {
                Ok(decisions) => Some(decisions),
                Err(error @ (Error::Stopped | Error::Memory { .. } | Error::Device { .. })) => return Err(error.into()),
                Err(error) => {
                    rejected.extend(samples.iter().map(|sample| (sample.ordinal, error.to_string())));
                    None
                }
            },
        };
        self.arms[arm].counts.rejected += rejected.len() as u64;
        let reason = rejected.first().map(|(_, reason)| reason.clone());
        for (ordinal, reason) in rejected {
            self.changes.push(Change::Rejected { pull, ordinal, reason });
        }
        match told {
            Some(decisions) => {
                self.arms[arm].told();
                self.changes.push(Change::Told { pull, samples, decisions, at: now_ms() });
                Ok(())
            }
            None => {
                let reason = reason.unwrap_or_else(|| "there are no samples".into());
                self.observer.note(Note::Abandoned { arm, pull, message: reason.clone() });
                if self.arms[arm].lost(Some(FailureKind::Invalid)) {
                    let message = format!("its last samples could not be used, because {reason}");
                    self.arms[arm].counts.set_aside = Some(message.clone());
                    self.observer.note(Note::SetAside { arm, message: message.clone() });
                    self.changes.push(Change::SetAside { arm, reason: message, at: now_ms() });
                }
                self.abandon(pull, reason)
            }
        }
    }

    fn tell(&mut self, pull: u64, samples: &[EncodedSample]) -> modelmix::Result<Decisions> {
        let event = self.session.perform(Event::told(pull, answer(samples)))?;
        match event {
            Event::Told(told) => Ok(told.decisions),
            _ => Ok(Decisions::default()),
        }
    }

    pub(super) fn abandon(&mut self, pull: u64, reason: String) -> Result<()> {
        self.session.abandon(pull)?;
        self.changes.push(Change::Abandoned { pull, reason, at: now_ms() });
        Ok(())
    }
}

/// The samples of a pull as the session takes them.
fn answer(samples: &[EncodedSample]) -> Answer {
    let mut scores = Scores::new();
    for sample in samples {
        for (name, &value) in &sample.scores {
            scores.entry(name.clone()).or_default().push(value);
        }
    }
    Answer::Features {
        width: samples.first().map_or(0, |sample| sample.features.len()),
        values: samples.iter().flat_map(|sample| sample.features.iter().copied()).collect(),
        scores,
    }
}
