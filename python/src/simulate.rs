//! Simulations of policies on recorded arms.

use std::sync::atomic::Ordering;

use modelmix::document::Document;
use modelmix::{PolicySpec, Simulation, simulate_watched};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::Use;
use crate::documents::{dictionary, provenance};
use crate::errors::to_exception;
use crate::objective::Problem;
use crate::session::{Stop, retention};
use crate::work::{Progress, run};

/// Settings of `simulate`, passed by the package as an object with these attributes. `None` means the default of the library.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    policies: Option<Vec<String>>,
    rounds: Option<usize>,
    seeds: Option<usize>,
    replacement: bool,
    batch: Option<usize>,
    in_flight: Option<usize>,
    select: String,
    checkpoints: Option<usize>,
    memory: Option<usize>,
    until: Option<Stop>,
    retention: Option<String>,
    known: usize,
}

/// Returns the document of `simulate`. `started` is called with the number of runs, then `progress` with the number of runs done.
#[pyfunction]
#[pyo3(signature = (arms, problem, settings, started=None, progress=None))]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    arms: Vec<(String, Bound<'py, PyAny>)>,
    problem: Problem<'py>,
    settings: Settings,
    started: Option<Bound<'py, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let chosen = problem.choose(py, &arms)?;
    let arms = problem.arms(&arms, &chosen)?;
    let prepared = problem.prepared(&arms.names(), Use::Call, &chosen)?;
    let usual = Simulation::default();
    let policies = match &settings.policies {
        Some(texts) => {
            texts.iter().map(|text| PolicySpec::parse(text)).collect::<modelmix::Result<_>>().map_err(to_exception)?
        }
        None => usual.policies,
    };
    let simulation = Simulation::default()
        .policies(policies)
        .rounds(settings.rounds.unwrap_or(usual.rounds))
        .seeds(settings.seeds.unwrap_or(usual.seeds))
        .seed(prepared.seed)
        .replacement(settings.replacement)
        .batch(settings.batch.unwrap_or(usual.batch))
        .in_flight(settings.in_flight.unwrap_or(usual.in_flight))
        .select(settings.select.parse().map_err(to_exception)?)
        .checkpoints(settings.checkpoints.unwrap_or(usual.checkpoints))
        .threads(prepared.threads)
        .memory(settings.memory.unwrap_or(usual.memory))
        .until(settings.until.as_ref().map(Stop::read).transpose()?)
        .retention(retention(settings.retention.as_deref())?)
        .known(settings.known);
    if let Some(started) = started {
        started.call1((simulation.policies.len().saturating_mul(simulation.seeds),))?;
    }
    let progress = Progress::new(progress);
    let (counter, engine) = (progress.counter(), prepared.engine(&progress));
    let document = run(py, &progress, move || {
        let loss = prepared.loss(Some(&arms), &engine)?;
        let done = || {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let mut document = simulate_watched(&arms, &loss, &simulation, &done)?;
        document.provenance = provenance(&chosen, prepared.seed, &arms, loss.bandwidths(&arms, prepared.seed));
        Ok(document)
    })?;
    dictionary(py, &Document::Simulate(document))
}
