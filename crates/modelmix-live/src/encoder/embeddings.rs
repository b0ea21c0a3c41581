//! Encoders behind a server: one text per request, again after temporary failures.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::arm::http::embeddings;
use crate::arm::http::{Embeddings, EmbeddingsSettings, Environment};
use crate::arm::{Charge, Failure};
use crate::problem::EvaluationProblem;
use crate::secret;

/// The number of times that a text is sent.
const MOST_ATTEMPTS: u32 = 5;
/// The pause before the second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause, even if the server asks for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Statuses that may be about one text: a bad request, a body that is too large, content that cannot be processed.
const STATUSES_OF_TEXTS: [u16; 3] = [400, 413, 422];

/// An encoder of texts behind a server.
#[derive(Debug)]
pub(super) struct EmbeddingsEncoder {
    embeddings: Embeddings,
    state: Mutex<State>,
    interrupted: Condvar,
}

#[derive(Debug, Default)]
struct State {
    cost: f64,
    has_answered: bool,
    is_interrupted: bool,
}

impl EmbeddingsEncoder {
    pub(super) fn open(settings: &EmbeddingsSettings, environment: Environment<'_>) -> Result<Self, String> {
        let embeddings = embeddings::open(settings, environment)?;
        Ok(Self { embeddings, state: Mutex::default(), interrupted: Condvar::new() })
    }

    pub(super) fn fingerprint(&self) -> String {
        self.embeddings.fingerprint()
    }

    pub(super) fn cost(&self) -> f64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).cost
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<f32>, EvaluationProblem> {
        let mut attempt = 1;
        loop {
            let outcome = self.embeddings.embed(&[text]);
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let failure = match outcome {
                Ok(embedded) => {
                    state.cost += embedded.cost;
                    state.has_answered = true;
                    let row = embedded.rows.into_iter().next();
                    return row.ok_or_else(|| EvaluationProblem::Evaluator("the server gave no features".into()));
                }
                Err(failure) => failure,
            };
            state.cost += match failure.charge {
                Charge::Known(cost) => cost,
                Charge::Doubt => self.embeddings.reserve(&[text]),
            };
            if !failure.is_temporary || attempt == MOST_ATTEMPTS || state.is_interrupted {
                return Err(self.problem(&failure, state.has_answered));
            }
            let pause = failure.retry_after.unwrap_or(FIRST_PAUSE * 2_u32.pow(attempt - 1)).min(LONGEST_PAUSE);
            drop(self.interrupted.wait_timeout_while(state, pause, |state| !state.is_interrupted));
            attempt += 1;
        }
    }

    /// Whether a failure is one of the text or of the server. Before the first answer, the settings are as likely.
    fn problem(&self, failure: &Failure, has_answered: bool) -> EvaluationProblem {
        let message = secret::redact(self.embeddings.secrets(), &failure.message);
        match failure.status.is_some_and(|status| STATUSES_OF_TEXTS.contains(&status)) && has_answered {
            true => EvaluationProblem::Sample(message),
            false => EvaluationProblem::Evaluator(message),
        }
    }

    pub(super) fn interrupt(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_interrupted = true;
        self.interrupted.notify_all();
        self.embeddings.interrupt();
    }
}
