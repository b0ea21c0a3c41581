//! Arms: generative models that can be asked for samples. An arm sends one request at a time per call and says what became of
//! it; retries, rates and budgets are the runner's.

pub mod command;
pub mod http;
pub mod onnx;
pub mod replay;

use std::time::Duration;

use modelmix_encode::Image;

/// A request to an arm for samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The pull that the request belongs to.
    pub pull: u64,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// The same text for all attempts of a pull, and different from that of all others: the idempotency key.
    pub key: String,
    /// The prompt; `None` in runs without prompts.
    pub prompt: Option<String>,
    /// A seed of 53 bits, the same for all attempts of a pull.
    pub seed: u64,
    /// The number of samples wanted, at least 1.
    pub count: usize,
}

/// One sample as an arm gave it.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A text.
    Text(String),
    /// The bytes of a file, such as a PNG image.
    File(Vec<u8>),
    /// Pixels, which are stored as PNG.
    Pixels(Image),
    /// A row of features without a sample behind it.
    Features(Vec<f32>),
}

/// A sample with what the arm says about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The sample.
    pub content: Content,
    /// Its features, if the arm computes them; `content` may be features, too.
    pub features: Option<Vec<f32>>,
}

impl From<Content> for Sample {
    fn from(content: Content) -> Self {
        Self { content, features: None }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// At least one sample and at most as many as were asked for.
    pub samples: Vec<Sample>,
    /// What the request cost, in the currency of the run.
    pub cost: f64,
}

/// Why a request has no usable answer.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The request did not leave: no connection, a command that does not start. It cost nothing.
    NotSent,
    /// The server answered with an error status, or the worker with an error.
    Error,
    /// The model refused to answer, as a content filter does.
    Refusal,
    /// The answer has no sample.
    Empty,
    /// The answer cannot be used: not the format, not the size, not the number of samples.
    Invalid,
    /// No answer within a time limit.
    Timeout,
    /// The connection or the worker ended before the answer was complete.
    Broken,
    /// The process ended before the answer was stored.
    Crash,
}

/// What is known about the cost of a request without a usable answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Charge {
    /// It cost this much, usually 0.
    Known(f64),
    /// It may have been charged: the request was sent, and the answer does not say. The reserved cost stays reserved.
    Doubt,
}

/// What became of a request without a usable answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The reason.
    pub kind: FailureKind,
    /// One sentence for the log and the store. The runner redacts secrets in it.
    pub message: String,
    /// The status of an HTTP answer.
    pub status: Option<u16>,
    /// What it cost.
    pub charge: Charge,
    /// Whether another attempt may succeed.
    pub is_temporary: bool,
    /// The time that the server asks to wait (`Retry-After`).
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure that cost nothing and that another attempt would repeat.
    pub fn permanent(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            charge: Charge::Known(0.0),
            is_temporary: false,
            retry_after: None,
        }
    }

    /// The same failure after which another attempt may succeed.
    #[must_use]
    pub fn temporary(self) -> Self {
        Self { is_temporary: true, ..self }
    }

    /// The same failure of a request that may have been charged.
    #[must_use]
    pub fn in_doubt(self) -> Self {
        Self { charge: Charge::Doubt, ..self }
    }

    /// The same failure with this cost.
    #[must_use]
    pub fn costing(self, cost: f64) -> Self {
        Self { charge: Charge::Known(cost), ..self }
    }
}

/// A generative model that can be asked for samples.
pub trait Arm: Send + Sync {
    /// The most that a request can cost. Budgets reserve it before the request leaves.
    fn reserve(&self, request: &Request) -> f64;

    /// Sends one request and waits for its answer. Called from several threads at the same time.
    ///
    /// # Errors
    /// What became of a request without a usable answer.
    fn call(&self, request: &Request) -> Result<Reply, Failure>;

    /// Whether its requests cannot be made without a prompt.
    fn needs_prompt(&self) -> bool {
        false
    }

    /// Ends work in progress, as on a second Ctrl-C: calls that wait return soon with [`FailureKind::Broken`].
    fn interrupt(&self) {}
}
