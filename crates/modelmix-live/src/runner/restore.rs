//! Goes on with a stored run: the session from its events, and the pulls that were in flight.

use std::time::Duration;

use modelmix::Event;
use modelmix::session::{Answer, KnownAs, Scores};

use super::coordinator::{Coordinator, now_ms, request};
use super::flight::{Flight, Job, Stage};
use crate::arm::FailureKind;
use crate::manners::Delivery;
use crate::problem::Result;
use crate::store::change::{Change, ReceivedSample};
use crate::store::history::{History, PullState, StoredPull};
use crate::tally::Tally;

/// Brings a coordinator to the state of its store. A new run gets its known samples.
pub(super) fn restore(run: &mut Coordinator<'_>) -> Result<()> {
    let history = run.store.history()?;
    run.run_id = run.plan.check_continues(&history.description)?;
    for event in &history.events {
        run.session.apply(event)?;
    }
    let tally = Tally::new(&history, run.arms.len());
    run.ledger = tally.ledger;
    run.earlier = tally.ledger.time;
    for ((arm, counts), asked) in run.arms.iter_mut().zip(tally.arms).zip(tally.asked) {
        (arm.counts, arm.asked) = (counts, asked);
    }
    let is_new = history.lifecycle.is_empty();
    let what = if is_new { "started" } else { "resumed" };
    run.changes.push(Change::Lifecycle { what: what.into(), note: modelmix::VERSION.into(), at: now_ms() });
    if is_new {
        add_known(run)?;
    }
    continue_pulls(run, &history)?;
    run.commit()
}

fn add_known(run: &mut Coordinator<'_>) -> Result<()> {
    let plan = run.plan;
    for arm in plan.basis.known.iter().flat_map(|known| known.iter()) {
        let Some(index) = plan.arms.iter().position(|live| live.settings.name == arm.name) else { continue };
        let event = Event::known(index, Answer::scored(&arm.features, &Scores::new()), KnownAs::Evidence);
        let event = run.session.perform(event)?;
        run.changes.push(Change::Known { event, at: now_ms() });
    }
    Ok(())
}

fn continue_pulls(run: &mut Coordinator<'_>, history: &History) -> Result<()> {
    for pull in &history.pulls {
        if matches!(pull.state, PullState::Told | PullState::Abandoned) {
            continue;
        }
        let request = request(run.plan, &run.run_id, pull.pull, pull.prompt, pull.count);
        let mut flight = Flight::new(pull.arm, request, Duration::ZERO);
        flight.request.attempt = pull.attempts.last().map_or(0, |attempt| attempt.attempt);
        flight.doubts = doubts(pull);
        if flight.is_unsent() {
            // As when it was asked.
            flight.reserved = run.plan.arms[pull.arm].arm.reserve(&flight.request);
            run.ledger.reserved += flight.reserved;
        }
        if pull.state == PullState::Received {
            let samples = pull
                .samples
                .iter()
                .map(|sample| ReceivedSample { payload: sample.payload.clone(), features: sample.features.clone() });
            let (samples, prompt) = (samples.collect(), flight.request.prompt.clone());
            run.jobs.push(Job::Encode { pull: pull.pull, prompt, samples });
            flight.stage = Stage::Encoding;
        }
        run.flights.insert(pull.pull, flight);
        if pull.state == PullState::Sent {
            crashed(run, pull)?;
        }
    }
    Ok(())
}

/// The attempts of a pull whose cost is unknown, with what they reserved.
fn doubts(pull: &StoredPull) -> Vec<(u32, f64)> {
    let is_in_doubt = |attempt: &&crate::store::history::StoredAttempt| match &attempt.outcome {
        Some(outcome) => outcome.cost.is_none(),
        None => true,
    };
    pull.attempts.iter().filter(is_in_doubt).map(|attempt| (attempt.attempt, attempt.reserved)).collect()
}

/// The process ended between the last attempt of a pull and its answer.
fn crashed(run: &mut Coordinator<'_>, pull: &StoredPull) -> Result<()> {
    let Some(attempt) = pull.attempts.last() else { return Ok(()) };
    let counts = &mut run.arms[pull.arm].counts;
    *counts.failures.entry(FailureKind::Crash).or_default() += 1;
    // What was free cannot have been charged.
    let is_free = attempt.reserved == 0.0;
    if !is_free {
        counts.doubts += 1;
        counts.in_doubt += attempt.reserved;
    }
    let message = "the process ended before the answer was stored";
    run.changes.push(Change::Failed {
        pull: pull.pull,
        attempt: attempt.attempt,
        kind: FailureKind::Crash,
        status: None,
        message: message.into(),
        cost: is_free.then_some(0.0),
        at: now_ms(),
    });
    match run.plan.arms[pull.arm].delivery {
        Delivery::Pure | Delivery::Idempotent => Ok(()),
        Delivery::AtMostOnce => {
            run.lose(pull.pull, format!("{message}, and the arm is never asked twice"), Some(FailureKind::Crash))
        }
    }
}
