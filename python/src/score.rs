//! Metrics: the score table of arms and a mixture, single metrics of one or several weighted sets, and the median rule.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use modelmix::document::Document;
use modelmix::internals::arms::{by_arm, weights_by_arm};
use modelmix::metrics::{Estimate, Metric, Pool, Preset, ScoreSettings, Scorer, score_watched};
use modelmix::objective::median_distance;
use modelmix::{Features, KernelSpec, Objective, solve};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Use, features, features_for};
use crate::documents::{dictionary, provenance};
use crate::engine::Compute;
use crate::errors::to_exception;
use crate::objective::Problem;
use crate::work::{Progress, run};

/// The metrics and their definitions, passed by the package as an object with these attributes. `None` means the default of the
/// preset or of the library.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    metrics: Option<Vec<String>>,
    preset: Option<String>,
    /// The kernels of rke and mmd, and of vendi, in the notation of terms: `kernel=laplacian, bandwidth=5`.
    kernel: Option<String>,
    vendi_kernel: Option<String>,
    order: Option<f64>,
    neighbours: Option<usize>,
    closed: Option<bool>,
    subsets: Option<usize>,
    subset_size: Option<usize>,
    subset_seed: Option<u32>,
    seed: u64,
}

impl Settings {
    fn read(&self, has_reference: bool) -> modelmix::Result<ScoreSettings> {
        let mut settings = match &self.preset {
            Some(preset) => preset.parse::<Preset>()?.settings(),
            None => ScoreSettings::default(),
        };
        if let Some(metrics) = &self.metrics {
            settings.metrics = metrics.iter().map(|name| name.parse()).collect::<modelmix::Result<_>>()?;
        } else if self.preset.is_none() && !has_reference {
            settings = settings.without_reference();
        }
        settings.kernel = kernel(self.kernel.as_deref())?.unwrap_or(settings.kernel);
        settings.vendi_kernel = kernel(self.vendi_kernel.as_deref())?.unwrap_or(settings.vendi_kernel);
        settings.order = self.order.unwrap_or(settings.order);
        settings.neighbourhoods.neighbours = self.neighbours.unwrap_or(settings.neighbourhoods.neighbours);
        settings.neighbourhoods.closed = self.closed.unwrap_or(settings.neighbourhoods.closed);
        settings.kid.subsets = self.subsets.unwrap_or(settings.kid.subsets);
        settings.kid.size = self.subset_size.or(settings.kid.size);
        settings.kid.seed = self.subset_seed.unwrap_or(settings.kid.seed);
        settings.seed = self.seed;
        settings.extrapolation.seed = self.seed;
        Ok(settings)
    }
}

/// Parses a kernel in the notation of terms.
fn kernel(settings: Option<&str>) -> modelmix::Result<Option<KernelSpec>> {
    let Some(settings) = settings.filter(|settings| !settings.is_empty()) else { return Ok(None) };
    let term = Objective::parse(&format!("mmd({settings})"))?;
    Ok(term.terms().first().and_then(|term| *term.measure.kernel()?))
}

/// Returns the document of `score`. `started` is called with the number of steps, then `progress` with the number of steps done.
#[pyfunction]
#[pyo3(signature = (arms, problem, settings, weights, mixture, started=None, progress=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn score<'py>(
    py: Python<'py>,
    arms: Vec<(String, Bound<'py, PyAny>)>,
    problem: Problem<'py>,
    settings: Settings,
    weights: Option<BTreeMap<String, f64>>,
    mixture: bool,
    started: Option<Bound<'py, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let chosen = problem.choose(py, &arms)?;
    let arms = problem.arms(&arms, &chosen)?;
    let names = arms.names();
    let prepared = problem.prepared(&names, Use::Call, &chosen)?;
    let settings = settings.read(prepared.reference.is_some()).map_err(to_exception)?;
    let mixture = mixture && (arms.len() > 1 || weights.is_some());
    let weights = weights.map(|weights| weights_by_arm(&names, weights)).transpose().map_err(to_exception)?;
    if let Some(started) = started {
        started.call1((arms.len() + 1 + usize::from(mixture),))?;
    }
    let progress = Progress::new(progress);
    let (counter, engine) = (progress.counter(), prepared.engine(&progress));
    let document = run(py, &progress, move || {
        let weights = match weights {
            _ if !mixture => None,
            Some(weights) => Some(weights),
            // The bandwidth is that of the metrics rke and mmd as well.
            None => Some(solve(&arms, &prepared.loss_of(prepared.written.clone(), Some(&arms), &engine)?)?.weights()),
        };
        let done = || {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let reference = prepared.reference.as_deref();
        let mut document = score_watched(&arms, reference, &settings, weights.as_deref(), &engine, &done)?;
        let bandwidths = document.bandwidths(&settings, &arms, reference);
        document.provenance = provenance(&chosen, prepared.seed, &arms, bandwidths);
        Ok(document)
    })?;
    dictionary(py, &Document::Score(document))
}

/// Computes metrics of one set, or of several with weights: name, value, standard error, and the method of the standard error.
#[pyfunction]
#[pyo3(signature = (sets, weights, reference, settings, compute))]
pub(crate) fn metrics<'py>(
    py: Python<'py>,
    sets: Vec<(String, Bound<'py, PyAny>)>,
    weights: Option<BTreeMap<String, f64>>,
    reference: Option<Bound<'py, PyAny>>,
    settings: Settings,
    compute: Compute,
) -> PyResult<Vec<(&'static str, f64, f64, String)>> {
    let names: Vec<String> = sets.iter().map(|(name, _)| name.clone()).collect();
    let origin = |name: &str| if name.is_empty() { "the samples".to_string() } else { format!("set {name}") };
    let chosen = compute.choose(py, sets.iter().map(|(_, array)| array).chain(&reference))?;
    let read = |name: &str, array: &Bound<'_, PyAny>| features_for(&chosen, name, array, Use::Call);
    let sets = sets.iter().map(|(name, array)| read(&origin(name), array)).collect::<PyResult<Vec<_>>>()?;
    let weights = match weights {
        Some(weights) => by_arm("weight", &names, weights, Some(0.0)).map_err(to_exception)?,
        None => vec![1.0; sets.len()],
    };
    let reference = reference.map(|array| read("the reference", &array)).transpose()?.map(Arc::new);
    let settings = settings.read(reference.is_some()).map_err(to_exception)?;
    let order: Vec<Metric> = settings.metrics.clone();
    let progress = Progress::new(None);
    let engine = chosen.engine(&progress);
    let table = run(py, &progress, move || {
        let all: Vec<&Features> = sets.iter().collect();
        let pool = Pool::mixture(sets.iter().zip(weights))?;
        Scorer::new(settings, &all, reference.as_deref(), &engine)?.score(&pool)
    })?;
    let row = |metric: &Metric| {
        let Estimate { value, standard_error, by } = table[metric];
        let by = serde_json::to_value(by).ok().and_then(|by| by.as_str().map(str::to_string)).unwrap_or_default();
        (metric.name(), value, standard_error, by)
    };
    Ok(order.iter().map(row).collect())
}

/// Computes the bandwidth of these sets by the median rule, as for an automatic bandwidth; no engine is used.
///
/// # Errors
/// If there are no sets, their widths differ, or all samples are equal.
#[pyfunction]
pub(crate) fn median_bandwidth(sets: Vec<(String, Bound<'_, PyAny>)>, seed: u64) -> PyResult<f64> {
    let sets = sets.iter().map(|(name, array)| features(name, array, Use::Call)).collect::<PyResult<Vec<_>>>()?;
    let Some(width) = sets.first().map(Features::width) else {
        return Err(PyValueError::new_err("the median rule needs samples; pass at least one arm"));
    };
    if let Some(other) = sets.iter().find(|set| set.width() != width) {
        return Err(PyValueError::new_err(format!(
            "samples have {width} and {} columns; use features of one encoder",
            other.width()
        )));
    }
    median_distance(&sets.iter().collect::<Vec<_>>(), seed).map_err(to_exception)
}
