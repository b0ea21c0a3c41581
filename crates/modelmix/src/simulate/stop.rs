//! Early stopping in simulations: when sessions would have stopped, and whether that would have been wrong.

use serde::{Deserialize, Serialize};

use super::{Trace, Truth, median};
use crate::certainty::{Gap, Until};
use crate::session::Session;

/// When the sessions of a policy would have stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Stopped {
    /// The median round over seeds; `None` if half of them never stopped.
    pub round: Option<f64>,
    /// The share of seeds that stopped before the last round.
    pub share: f64,
    /// The share of seeds that stopped although all recorded samples show that they were not within the tolerance.
    pub wrong: f64,
}

impl Stopped {
    pub(super) fn over(traces: &[Trace]) -> Self {
        let share = |which: &dyn Fn(bool) -> bool| {
            let count =
                traces.iter().filter(|trace| trace.stopped.is_some_and(|(_, is_wrong)| which(is_wrong))).count();
            count as f64 / traces.len() as f64
        };
        Self {
            round: median(traces.iter().map(|trace| trace.stopped.map(|(round, _)| round)).collect()),
            share: share(&|_| true),
            wrong: share(&|is_wrong| is_wrong),
        }
    }
}

/// Whether the verdict of a session is wrong; `None` if there is no verdict.
pub(super) fn is_verdict_wrong(session: &Session, truth: &Truth, until: Option<Until>) -> Option<bool> {
    let (verdict, until) = (session.verdict()?, until?);
    let allowed = match until.gap {
        Gap::Share(share) => share * truth.gain,
        Gap::Loss(loss) => loss,
    };
    Some(truth.form.value(&verdict.mixture) - truth.optimal > allowed)
}
