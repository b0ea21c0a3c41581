//! The best mixture of recorded arms.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use modelmix::arms::by_arm;
use modelmix::document::{Document, SolveDocument};
use modelmix::mixture;
use modelmix::simplex::Bounds;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::Use;
use crate::documents::dictionary;
use crate::errors::raised;
use crate::objective::Problem;
use crate::work::{Progress, run};

/// The document of `solve` and its sentence; `started` is told how many pairs there are before `progress` is told how many
/// are done.
#[pyfunction]
#[pyo3(signature = (arms, problem, floor, cap, started=None, progress=None))]
pub(crate) fn solve<'py>(
    py: Python<'py>,
    arms: Vec<(String, Bound<'py, PyAny>)>,
    problem: Problem<'py>,
    floor: BTreeMap<String, f64>,
    cap: BTreeMap<String, f64>,
    started: Option<Bound<'py, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyDict>, String)> {
    let arms = problem.arms(&arms)?;
    let names = arms.names();
    let floors = by_arm("floor", &names, floor, Some(0.0)).map_err(raised)?;
    let caps = by_arm("cap", &names, cap, Some(1.0)).map_err(raised)?;
    let bounds = Bounds::by_arm(&names, floors, caps).map_err(raised)?;
    let prepared = problem.prepared(&names, Use::Call)?;
    // The reference's own sums are long work too; they are no part of what is counted.
    let (arms, prepared, loss) = run(py, &Progress::new(None), move || {
        let loss = prepared.loss(Some(&arms))?;
        Ok((arms, prepared, loss))
    })?;
    if let Some(started) = started {
        started.call1((mixture::pairs(&arms, &loss),))?;
    }
    let progress = Progress::new(progress);
    let counter = progress.counter();
    let document = run(py, &progress, move || {
        let engine = prepared.engine().watched(move |pairs| {
            counter.fetch_add(pairs, Ordering::Relaxed);
        });
        let best = mixture::solve_within(&arms, &loss.on(engine), &bounds)?;
        Ok(SolveDocument::new(&best, &prepared.objective))
    })?;
    let sentence = document.sentence();
    Ok((dictionary(py, &Document::Solve(document))?, sentence))
}
