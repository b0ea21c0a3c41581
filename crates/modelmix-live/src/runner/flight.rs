//! Pulls in flight: what each waits for.

use std::time::Duration;

use crate::arm::Request;
use crate::store::change::{EncodedSample, ReceivedSample};

/// A pull between being asked and being told or abandoned.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) arm: usize,
    /// The request of the current attempt; `attempt` is 0 before the first.
    pub(super) request: Request,
    pub(super) stage: Stage,
    /// The reserved cost of the current attempt.
    pub(super) reserved: f64,
    /// The reserved costs of earlier attempts whose outcome is unknown, by attempt.
    pub(super) doubts: Vec<(u32, f64)>,
}

/// What a pull waits for.
#[derive(Debug)]
pub(super) enum Stage {
    /// The time of its next attempt, a rate limit, or a place.
    Waiting(Duration),
    /// The answer.
    Calling,
    /// Features and scores of its samples.
    Encoding,
    /// Earlier pulls, since samples count in the order of the pulls.
    Settled(Settlement),
}

/// How a pull ends.
#[derive(Debug)]
pub(super) enum Settlement {
    /// With these samples, and those that cannot be used with the reason.
    Told(Vec<EncodedSample>, Vec<(usize, String)>),
    /// Without samples.
    Abandoned(String),
}

impl Flight {
    pub(super) fn new(arm: usize, request: Request, now: Duration) -> Self {
        Self { arm, request, stage: Stage::Waiting(now), reserved: 0.0, doubts: Vec::new() }
    }

    /// Whether no request has been sent.
    pub(super) fn is_unsent(&self) -> bool {
        self.request.attempt == 0
    }

    /// Whether a worker has it.
    pub(super) fn is_at_work(&self) -> bool {
        matches!(self.stage, Stage::Calling | Stage::Encoding)
    }
}

/// Work for a thread.
#[derive(Debug)]
pub(super) enum Job {
    /// Send a request.
    Call { arm: usize, request: Request },
    /// Compute features and scores of stored samples.
    Encode { pull: u64, prompt: Option<String>, samples: Vec<ReceivedSample> },
}

/// What a thread reports.
#[derive(Debug)]
pub(super) enum Report {
    /// The samples of a request are stored.
    Received { pull: u64, samples: Vec<ReceivedSample>, cost: f64 },
    /// A request has no usable answer.
    Failed { pull: u64, failure: crate::arm::Failure },
    /// Features and scores are computed; some samples cannot be used.
    Encoded { pull: u64, samples: Vec<EncodedSample>, rejected: Vec<(usize, String)> },
    /// A file cannot be written or read, so the run cannot go on.
    Broken(crate::problem::Problem),
}
