//! One request to one arm, outside of any run.

use super::coordinator::request;
use crate::arm::{Charge, Content};
use crate::config::Plan;

/// What a probe of an arm found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Probe {
    /// The most that the request could cost.
    pub reserved: f64,
    /// What it cost; `None` if that is not known.
    pub cost: Option<f64>,
    /// The number of features of the sample.
    pub width: Option<usize>,
    /// The sample, or why there is none that the run could use.
    pub answer: Result<Content, String>,
}

/// Sends one request for one sample, and computes its features and scores. It may be charged.
pub fn probe(plan: &Plan, arm: usize) -> Probe {
    let prompt = plan.basis.prompts.as_ref().map(|prompts| prompts.number(0));
    // A key that no run has: a server must not answer from what it stored for a run.
    let mut request = request(plan, "probe", 0, prompt, 1);
    request.attempt = 1;
    let reserved = plan.arms[arm].arm.reserve(&request);
    let reply = match plan.arms[arm].arm.call(&request) {
        Ok(reply) => reply,
        Err(failure) => {
            let cost = match failure.charge {
                Charge::Known(cost) => Some(cost),
                Charge::Doubt => None,
            };
            return Probe { reserved, cost, width: None, answer: Err(failure.message) };
        }
    };
    let (cost, sample) = (Some(reply.cost), reply.samples.into_iter().next());
    let Some(sample) = sample else {
        return Probe { reserved, cost, width: None, answer: Err("the answer has no samples".into()) };
    };
    let evaluated =
        super::worker::evaluate(plan, sample.features.as_deref(), &sample.content, request.prompt.as_deref());
    match evaluated {
        Ok((features, _)) => Probe { reserved, cost, width: Some(features.len()), answer: Ok(sample.content) },
        Err(problem) => Probe { reserved, cost, width: None, answer: Err(problem.to_string()) },
    }
}
