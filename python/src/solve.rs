//! The best mixture of recorded arms.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use modelmix::Objective;
use modelmix::document::Document;
use modelmix::internals::arms::by_arm;
use modelmix::mixture::{self, Allowance, Bandwidths, Budget, front_objective};
use modelmix::simplex::Bounds;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::Use;
use crate::documents::{dictionary, provenance};
use crate::errors::to_exception;
use crate::objective::Problem;
use crate::work::{Progress, run};

/// The analyses besides the best mixture, passed by the package as an object with these attributes.
#[derive(FromPyObject)]
pub(crate) struct Analyses {
    subsets: bool,
    fees: Option<BTreeMap<String, f64>>,
    samples: Option<f64>,
    within: Option<String>,
    front: Option<String>,
    bandwidths: Option<Vec<f64>>,
    bandwidths_text: Option<String>,
    intervals: bool,
}

impl Analyses {
    fn read(&self, names: &[String], costs: Option<&Vec<f64>>) -> modelmix::Result<mixture::Analyses> {
        let asked = self.fees.is_some() || self.samples.is_some() || self.within.is_some();
        let within = self.within.as_deref().map(str::parse).transpose()?.unwrap_or(Allowance::default());
        let fees = self.fees.clone().unwrap_or_default();
        let budget = asked.then(|| Budget::by_arm(names, fees, costs.cloned(), self.samples, within)).transpose()?;
        let bandwidths = match (&self.bandwidths, &self.bandwidths_text) {
            (Some(given), _) => Some(Bandwidths::given(given.clone())?),
            (None, Some(text)) => Some(text.parse()?),
            (None, None) => None,
        };
        let without_intervals = !self.intervals;
        Ok(mixture::Analyses::default()
            .subsets(self.subsets)
            .budget(budget)
            .bandwidths(bandwidths)
            .without_intervals(without_intervals))
    }
}

/// Returns the document of `solve`, its headline and its statement of certainty. `started` is called with the number of pairs, then
/// `progress` with the number of pairs done.
#[pyfunction]
#[pyo3(signature = (arms, problem, floor, cap, analyses, started=None, progress=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn solve<'py>(
    py: Python<'py>,
    arms: Vec<(String, Bound<'py, PyAny>)>,
    problem: Problem<'py>,
    floor: BTreeMap<String, f64>,
    cap: BTreeMap<String, f64>,
    analyses: Analyses,
    started: Option<Bound<'py, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyDict>, String, Option<String>)> {
    let chosen = problem.choose(py, &arms)?;
    let arms = problem.arms(&arms, &chosen)?;
    let names = arms.names();
    let floors = by_arm("floor", &names, floor, Some(0.0)).map_err(to_exception)?;
    let caps = by_arm("cap", &names, cap, Some(1.0)).map_err(to_exception)?;
    let bounds = Bounds::by_arm(&names, floors, caps).map_err(to_exception)?;
    let prepared = problem.prepared(&names, Use::Call, &chosen)?;
    let second =
        analyses.front.as_deref().map(Objective::parse).transpose().map_err(to_exception)?.map(front_objective);
    let mut analyses = analyses.read(&names, prepared.costs.as_ref()).map_err(to_exception)?;
    let (quiet, progress) = (Progress::new(None), Progress::new(progress));
    let counter = progress.counter();
    let counted = Arc::clone(&counter);
    let engine = prepared.engine(&progress).observed_by(move |pairs| {
        counted.fetch_add(pairs, Ordering::Relaxed);
    });
    let seed = prepared.seed;
    // The sums within the reference also take long, but they are not part of the count.
    let (arms, loss, second) = run(py, &quiet.stopping(&progress), move || {
        let loss = prepared.loss(Some(&arms), &engine)?;
        let second = second.map(|second| prepared.loss_of(second, Some(&arms), &engine)).transpose()?;
        Ok((arms, loss, second))
    })?;
    analyses.front = second;
    if let Some(started) = started {
        started.call1((analyses.pairs(&arms, &loss),))?;
    }
    counter.store(0, Ordering::Relaxed);
    let document = run(py, &progress, move || {
        let mut document = mixture::solve_with_analyses(&arms, &loss, &bounds, &analyses)?;
        document.provenance = provenance(&chosen, seed, &arms, loss.bandwidths(&arms, seed));
        Ok(document)
    })?;
    let headline = document.headline();
    Ok((dictionary(py, &Document::Solve(document))?, headline.answer, headline.certainty))
}
