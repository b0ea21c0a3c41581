//! The steps of a run, as they are committed.

use std::collections::BTreeMap;

use modelmix::session::Decisions;
use modelmix::{Event, policy::AnyPolicy};

use crate::arm::FailureKind;

/// A file of the store: the name is the SHA-256 of its content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PayloadRef {
    /// The SHA-256 of the content, in hexadecimal digits.
    pub sha256: String,
    /// The extension, such as `png` or `txt`; empty if unknown.
    pub extension: String,
    /// The number of bytes.
    pub bytes: u64,
}

/// A sample that was received.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedSample {
    /// The file with the sample; `None` if the arm gives features only.
    pub payload: Option<PayloadRef>,
    /// The features that the arm gave with the sample.
    pub features: Option<Vec<f32>>,
}

/// The features and scores of a sample, which make it evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedSample {
    /// The position of the sample in the received ones of its pull, counted from 0.
    pub ordinal: usize,
    /// The features.
    pub features: Vec<f32>,
    /// The scores by name.
    pub scores: BTreeMap<String, f64>,
}

/// One step of a run. Times are milliseconds since 1970 in UTC.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The session asked an arm: an [`Event::Asked`].
    Asked {
        /// The event.
        event: Event<AnyPolicy>,
        /// The number of the prompt, as a line of the prompts; `None` in runs without prompts.
        prompt: Option<u64>,
        /// The seed of the request.
        seed: u64,
        /// When.
        at: u64,
    },
    /// The intent to send an attempt: it leaves after this is committed.
    Sent {
        /// The pull.
        pull: u64,
        /// The attempt, counted from 1.
        attempt: u32,
        /// The most that it can cost.
        reserved: f64,
        /// When.
        at: u64,
    },
    /// An attempt was answered; its payloads are on disk.
    Received {
        /// The pull.
        pull: u64,
        /// The attempt.
        attempt: u32,
        /// The samples.
        samples: Vec<ReceivedSample>,
        /// What it cost.
        cost: f64,
        /// When.
        at: u64,
    },
    /// An attempt has no usable answer.
    Failed {
        /// The pull.
        pull: u64,
        /// The attempt.
        attempt: u32,
        /// The reason.
        kind: FailureKind,
        /// The status of an HTTP answer.
        status: Option<u16>,
        /// One sentence, without secrets.
        message: String,
        /// What it cost; `None` if that is in doubt, and the reserved cost stays reserved.
        cost: Option<f64>,
        /// When.
        at: u64,
    },
    /// The cost of an attempt that was in doubt is known now: the server charges an idempotency key once. Its `cost` in the
    /// database changes from NULL to this.
    Settled {
        /// The pull.
        pull: u64,
        /// The attempt.
        attempt: u32,
        /// What it cost.
        cost: f64,
    },
    /// The samples of a pull are evidence: an event told. The answer in the database is that of `samples`.
    Told {
        /// The pull.
        pull: u64,
        /// Its samples with features, in the order told.
        samples: Vec<EncodedSample>,
        /// What the session decided on them.
        decisions: Decisions,
        /// When.
        at: u64,
    },
    /// A received sample cannot be used, for example because it cannot be decoded.
    Rejected {
        /// The pull.
        pull: u64,
        /// The position of the sample.
        ordinal: usize,
        /// One sentence.
        reason: String,
    },
    /// A pull ended without samples.
    Abandoned {
        /// The pull.
        pull: u64,
        /// One sentence.
        reason: String,
        /// When.
        at: u64,
    },
    /// Known samples: an [`Event::Known`], stored whole.
    Known {
        /// The event.
        event: Event<AnyPolicy>,
        /// When.
        at: u64,
    },
    /// An arm is not asked any more.
    SetAside {
        /// The arm, as an index.
        arm: usize,
        /// One sentence.
        reason: String,
        /// When.
        at: u64,
    },
    /// The run ended in this process, or began again in another.
    Lifecycle {
        /// What happened: `started`, `resumed`, `drained`, `finished`, `stopped`.
        what: String,
        /// One sentence.
        note: String,
        /// When.
        at: u64,
    },
}
