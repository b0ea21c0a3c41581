//! Arms that are commands: long-lived worker processes that speak JSON lines, in any language. Encoders and scores use the same
//! processes. `docs/live-protocol.md` specifies the lines.

mod evaluate;
mod group;
mod process;
mod protocol;
mod settings;
mod stderr;
mod workers;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use settings::WorkerSettings;

use super::{Arm, Failure, FailureKind, Reply, Request, Sample};
pub(crate) use evaluate::{evaluate, sample_body};
use protocol::SampleLine;
pub(crate) use protocol::{Body, Hello, ReplyLine, check_features};
pub(crate) use settings::Launch;
pub(crate) use workers::Workers;

/// The number of characters of a line that messages quote.
const QUOTED_CHARACTERS: usize = 120;
/// The number of characters of an error that messages quote.
const REASON_CHARACTERS: usize = 400;
/// The number of bytes of a line in which secrets are looked for before it is quoted.
const EXAMINED_BYTES: usize = 16 << 10;

/// A command that generates samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSettings {
    /// The command.
    #[serde(flatten)]
    pub worker: WorkerSettings,
    /// What a sample costs if the reply does not state the cost, in the currency of the run. Default: 0.
    #[serde(default)]
    pub price_per_sample: f64,
    /// The most that a request can cost, for commands whose replies state costs. Default: `price_per_sample` × samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_per_request: Option<f64>,
}

/// A generative model behind a command.
#[derive(Debug)]
pub struct CommandArm {
    workers: Workers,
    price_per_sample: f64,
    max_cost_per_request: f64,
}

impl CommandSettings {
    /// The settings of a free command with default values.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { worker: WorkerSettings::new(command), price_per_sample: 0.0, max_cost_per_request: None }
    }

    /// Whether requests may cost money.
    pub fn is_paid(&self) -> bool {
        self.price_per_sample > 0.0 || self.max_cost_per_request.is_some_and(|cost| cost > 0.0)
    }
}

/// Checks the settings of a command. Processes are started by the first requests.
///
/// # Errors
/// One sentence with the fix: no such program or folder, a variable that is not set, a number out of range.
pub fn open(
    settings: &CommandSettings,
    base: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<CommandArm, String> {
    let price_per_sample = amount("price_per_sample", settings.price_per_sample)?;
    let max_cost_per_request = amount("max_cost_per_request", settings.max_cost_per_request.unwrap_or(0.0))?;
    let workers = Workers::new(Launch::check(&settings.worker, base, environment)?);
    Ok(CommandArm { workers, price_per_sample, max_cost_per_request })
}

impl CommandArm {
    /// What the reply to a request for `asked` samples says.
    fn answer(&self, request: &Request, asked: usize, line: &[u8]) -> Result<Reply, Failure> {
        let launch = self.workers.launch();
        let invalid = |problem: String, cost: Option<f64>| {
            let message = launch.redact(&format!("{} answered, but {problem}", launch.describe()));
            let failure = Failure::permanent(FailureKind::Invalid, message);
            match cost {
                Some(cost) => failure.costing(cost),
                None => self.unclear(request, failure),
            }
        };
        let ReplyLine { samples, error, retry, refused, cost, .. } =
            ReplyLine::parse(line).map_err(|problem| invalid(problem, None))?;
        if let Some(cost) = cost.filter(|cost| !(cost.is_finite() && *cost >= 0.0)) {
            return Err(invalid(format!("states a cost of {cost}; state a number of at least 0"), None));
        }
        let stated = |kind, verb: &str, reason: &str| {
            let reason = shortened(&launch.redact(reason), REASON_CHARACTERS);
            let failure = Failure::permanent(kind, format!("{} {verb}: {reason}", launch.describe()));
            // An error without a cost is one that the worker did not pay for.
            let failure = failure.costing(cost.unwrap_or(0.0));
            if retry { failure.temporary() } else { failure }
        };
        match (samples, error, refused) {
            (None, reason, true) => {
                Err(stated(FailureKind::Refusal, "refused", reason.as_deref().unwrap_or("it gave no reason")))
            }
            (None, Some(reason), false) => Err(stated(FailureKind::Error, "failed", &reason)),
            (Some(samples), None, false) if samples.len() > asked => {
                let count = samples.len();
                let problem = format!("gave {count} samples, but {asked} were asked for; give at most count");
                Err(invalid(problem, cost))
            }
            (Some(samples), None, false) => {
                let total = cost.unwrap_or(self.price_per_sample * samples.len() as f64);
                if samples.is_empty() {
                    let message = format!("{} gave no samples", launch.describe());
                    return Err(Failure::permanent(FailureKind::Empty, message).temporary().costing(total));
                }
                let samples = self.samples(samples).map_err(|problem| invalid(problem, cost))?;
                Ok(Reply { samples, cost: total })
            }
            (Some(_), ..) => Err(invalid("with both samples and an error; write one of them".into(), cost)),
            (None, None, false) => Err(invalid("with neither samples nor an error; write one of them".into(), cost)),
        }
    }

    fn samples(&self, lines: Vec<SampleLine>) -> Result<Vec<Sample>, String> {
        let folder = &self.workers.launch().folder;
        lines
            .into_iter()
            .enumerate()
            .map(|(index, line)| line.into_sample(folder).map_err(|problem| format!("sample {index} {problem}")))
            .collect()
    }

    /// The failure of a request that was sent, and whose cost is unknown unless the arm is free.
    fn unclear(&self, request: &Request, failure: Failure) -> Failure {
        if self.reserve(request) > 0.0 { failure.in_doubt() } else { failure }
    }
}

impl Arm for CommandArm {
    fn reserve(&self, request: &Request) -> f64 {
        self.max_cost_per_request.max(self.price_per_sample * request.count as f64)
    }

    fn call(&self, request: &Request) -> Result<Reply, Failure> {
        let asked = |hello: &Hello| request.count.min(hello.max_batch);
        let outcome = self.workers.call(
            |hello| {
                let mut body = Body::new();
                body.insert("prompt".into(), request.prompt.clone().into());
                body.insert("seed".into(), request.seed.into());
                body.insert("count".into(), asked(hello).into());
                body.insert("key".into(), request.key.clone().into());
                body
            },
            |hello, line| self.answer(request, asked(hello), line),
        );
        outcome.unwrap_or_else(|problem| {
            Err(match problem {
                CallProblem::NotSent { message, is_temporary } => {
                    Failure { is_temporary, ..Failure::permanent(FailureKind::NotSent, message) }
                }
                CallProblem::Broken(message) => {
                    self.unclear(request, Failure::permanent(FailureKind::Broken, message).temporary())
                }
                CallProblem::Timeout(message) => {
                    self.unclear(request, Failure::permanent(FailureKind::Timeout, message).temporary())
                }
            })
        })
    }

    fn interrupt(&self) {
        self.workers.interrupt();
    }
}

/// Why a request has no reply. The messages have no secrets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallProblem {
    /// It was not sent.
    NotSent {
        /// One sentence.
        message: String,
        /// Whether another attempt may succeed.
        is_temporary: bool,
    },
    /// The process ended before it answered.
    Broken(String),
    /// The process took too long, and was ended.
    Timeout(String),
}

impl CallProblem {
    fn not_sent(message: String) -> Self {
        Self::NotSent { message, is_temporary: true }
    }

    /// One sentence.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::NotSent { message, .. } | Self::Broken(message) | Self::Timeout(message) => message,
        }
    }

    fn is_temporary(&self) -> bool {
        !matches!(self, Self::NotSent { is_temporary: false, .. })
    }
}

/// A checked amount of money.
pub(crate) fn amount(name: &str, amount: f64) -> Result<f64, String> {
    if amount.is_finite() && amount >= 0.0 {
        Ok(amount)
    } else {
        Err(format!("{name} = {amount} is not an amount of money; give a number of at least 0"))
    }
}

/// The text on one line of at most this number of characters.
pub(crate) fn shortened(text: &str, characters: usize) -> String {
    let line = text.trim().chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let short: String = line.clone().take(characters).collect();
    if line.count() > characters { format!("{short}…") } else { short }
}

/// A line of a worker without secrets, as part of a message.
fn quoted(launch: &Launch, line: &[u8]) -> String {
    // Secrets are replaced before the text is cut, since a part of one would remain.
    let start = String::from_utf8_lossy(&line[..line.len().min(EXAMINED_BYTES)]);
    format!("{:?}", shortened(&launch.redact(&start), QUOTED_CHARACTERS))
}
