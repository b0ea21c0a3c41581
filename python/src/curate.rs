//! Coreset selection: `curate`.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use modelmix::Curation;
use modelmix::curate::curate_within;
use modelmix::document::Document;
use modelmix::internals::arms::by_arm;
use modelmix::simplex::Bounds;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::Use;
use crate::documents::{dictionary, provenance};
use crate::errors::to_exception;
use crate::objective::Problem;
use crate::work::{Progress, run};

/// Settings of `curate`, passed by the package as an object with these attributes.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    count: usize,
    proportions: String,
    sweeps: usize,
    pool: usize,
    floor: BTreeMap<String, f64>,
    cap: BTreeMap<String, f64>,
}

/// Returns the document of `curate`, its headline, and how the set was found. `started` is called with the maximum number of steps,
/// then `progress` with the number of steps done.
#[pyfunction]
#[pyo3(signature = (arms, problem, settings, started=None, progress=None))]
pub(crate) fn curate<'py>(
    py: Python<'py>,
    arms: Vec<(String, Bound<'py, PyAny>)>,
    problem: Problem<'py>,
    settings: Settings,
    started: Option<Bound<'py, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyDict>, String, String)> {
    let chosen = problem.choose(py, &arms)?;
    let arms = problem.arms(&arms, &chosen)?;
    let names = arms.names();
    let floors = by_arm("floor", &names, settings.floor, Some(0.0)).map_err(to_exception)?;
    let caps = by_arm("cap", &names, settings.cap, Some(1.0)).map_err(to_exception)?;
    let bounds = Bounds::by_arm(&names, floors, caps).map_err(to_exception)?;
    let prepared = problem.prepared(&names, Use::Call, &chosen)?;
    let curation = Curation::default()
        .count(settings.count)
        .proportions(settings.proportions.parse().map_err(to_exception)?)
        .seed(prepared.seed)
        .sweeps(settings.sweeps)
        .pool(settings.pool);
    if let Some(started) = started {
        started.call1((curation.steps(),))?;
    }
    let progress = Progress::new(progress);
    let (counter, engine) = (progress.counter(), prepared.engine(&progress));
    let document = run(py, &progress, move || {
        let loss = prepared.loss(Some(&arms), &engine)?;
        let done = || {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let mut document = curate_within(&arms, &loss, &bounds, &curation, &done)?;
        document.provenance = provenance(&chosen, prepared.seed, &arms, loss.bandwidths(&arms, prepared.seed));
        Ok(document)
    })?;
    let (sentence, how) = (document.sentence(), document.how());
    Ok((dictionary(py, &Document::Curate(document))?, sentence, how))
}
