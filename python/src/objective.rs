//! Objectives: their text and their inputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use modelmix::compute::Engine;
use modelmix::internals::arms::by_arm;
use modelmix::mixture::front_objective;
use modelmix::{Features, Inputs, Loss, Objective, RecordedArm, RecordedArms, SessionLoss};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Use, features_for};
use crate::engine::{Chosen, Compute};
use crate::errors::to_exception;
use crate::work::Progress;

/// Returns the terms of an objective: weight and text of each.
///
/// # Errors
/// If the text cannot be parsed; the message states where.
#[pyfunction]
pub(crate) fn objective(text: &str) -> PyResult<Vec<(f64, String)>> {
    let objective = Objective::parse(text).map_err(to_exception)?;
    Ok(objective.terms().iter().map(|term| (term.weight, term.measure.to_string())).collect())
}

/// Sentences about terms that are minimised against their usual direction; `front` says that it is the second objective of a
/// front.
///
/// # Errors
/// What cannot be read, and where.
#[pyfunction]
pub(crate) fn objective_warnings(text: &str, front: bool) -> PyResult<Vec<String>> {
    let objective = Objective::parse(text).map_err(to_exception)?;
    Ok(if front { front_objective(objective) } else { objective }.warnings())
}

/// Returns the text of an objective in the notation of the library.
///
/// # Errors
/// If there are no terms, or one cannot be parsed.
#[pyfunction]
pub(crate) fn objective_text(terms: Vec<(f64, String)>) -> PyResult<String> {
    let terms =
        terms.iter().map(|(weight, text)| Ok(*weight * Objective::parse(text)?)).collect::<modelmix::Result<Vec<_>>>();
    let sum = terms.map_err(to_exception)?.into_iter().reduce(|sum, term| sum + term);
    sum.map(|objective| objective.to_string())
        .ok_or_else(|| PyValueError::new_err("an objective needs at least one term"))
}

/// An objective with its inputs, passed by the package as an object with these attributes.
#[derive(FromPyObject)]
pub(crate) struct Problem<'py> {
    /// The text; if `None`, `mmd` with a reference and `rke` without one.
    objective: Option<String>,
    reference: Option<Bound<'py, PyAny>>,
    costs: Option<BTreeMap<String, f64>>,
    /// One value per sample, by name and arm.
    scores: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
    bandwidth: Option<f64>,
    kappa_range: Option<(f64, f64)>,
    score_ranges: BTreeMap<String, (f64, f64)>,
    width: Option<usize>,
    seed: u64,
    compute: Compute,
}

/// The same in library types.
pub(crate) struct Prepared {
    /// As it was written, without the bandwidth.
    pub(crate) written: Objective,
    pub(crate) objective: Objective,
    pub(crate) reference: Option<Arc<Features>>,
    pub(crate) seed: u64,
    pub(crate) threads: Option<usize>,
    pub(crate) chosen: Chosen,
    pub(crate) costs: Option<Vec<f64>>,
    kappa_range: Option<(f64, f64)>,
    score_ranges: BTreeMap<String, (f64, f64)>,
    width: Option<usize>,
    bandwidth: Option<f64>,
}

impl<'py> Problem<'py> {
    /// Chooses the engine for these arms and the reference.
    pub(crate) fn choose(&self, py: Python<'py>, arms: &[(String, Bound<'py, PyAny>)]) -> PyResult<Chosen> {
        self.compute.choose(py, arms.iter().map(|(_, array)| array).chain(&self.reference))
    }

    /// Converts the inputs, for arms of these names.
    pub(crate) fn prepared(&self, names: &[String], usage: Use, chosen: &Chosen) -> PyResult<Prepared> {
        let reference = self.reference.as_ref();
        let reference =
            reference.map(|array| features_for(chosen, "the reference", array, usage)).transpose()?.map(Arc::new);
        let written = match &self.objective {
            Some(text) => Objective::parse(text).map_err(to_exception)?,
            None => Objective::usual(reference.is_some()),
        };
        let objective = match self.bandwidth {
            Some(bandwidth) => written.clone().with_bandwidth(bandwidth),
            None => written.clone(),
        };
        let costs =
            self.costs.clone().map(|costs| by_arm("cost", names, costs, None)).transpose().map_err(to_exception)?;
        Ok(Prepared {
            written,
            objective,
            reference,
            seed: self.seed,
            threads: self.compute.threads,
            chosen: chosen.clone(),
            costs,
            kappa_range: self.kappa_range,
            score_ranges: self.score_ranges.clone(),
            width: self.width,
            bandwidth: self.bandwidth,
        })
    }

    /// Converts arms, with the scores of the objective.
    pub(crate) fn arms(&self, arms: &[(String, Bound<'_, PyAny>)], chosen: &Chosen) -> PyResult<RecordedArms> {
        let arm = |(name, array): &(String, Bound<'_, PyAny>)| {
            Ok(RecordedArm::new(name.clone(), features_for(chosen, &format!("arm {name}"), array, Use::Call)?))
        };
        let arms = RecordedArms::new(arms.iter().map(arm).collect::<PyResult<_>>()?).map_err(to_exception)?;
        arms.with_scores(&self.scores).map_err(to_exception)
    }
}

impl Prepared {
    /// An engine that Ctrl-C stops.
    pub(crate) fn engine(&self, progress: &Progress) -> Engine {
        self.chosen.engine(progress)
    }

    /// Prepares the loss, with recorded arms if there are any.
    pub(crate) fn loss(&self, arms: Option<&RecordedArms>, engine: &Engine) -> modelmix::Result<Loss> {
        self.objective.prepare(self.inputs(arms, engine))
    }

    /// Prepares the loss of another objective, with the bandwidth for terms that name none.
    pub(crate) fn loss_of(
        &self,
        objective: Objective,
        arms: Option<&RecordedArms>,
        engine: &Engine,
    ) -> modelmix::Result<Loss> {
        let objective = match self.bandwidth {
            Some(bandwidth) if objective.has_kernel_choice() => objective.with_bandwidth(bandwidth),
            _ => objective,
        };
        objective.prepare(self.inputs(arms, engine))
    }

    /// What a session minimises: an automatic bandwidth stays open if there is nothing to measure yet.
    pub(crate) fn session_loss(&self, engine: &Engine) -> modelmix::Result<SessionLoss> {
        self.objective.prepare_for_session(self.inputs(None, engine))
    }

    fn inputs<'a>(&self, arms: Option<&'a RecordedArms>, engine: &Engine) -> Inputs<'a> {
        let mut inputs = Inputs::new().seed(self.seed).engine(engine.clone());
        if let Some(arms) = arms {
            inputs = inputs.arms(arms);
        }
        if let Some(reference) = &self.reference {
            inputs = inputs.reference(Arc::clone(reference));
        }
        if let Some(costs) = &self.costs {
            inputs = inputs.costs(costs.clone());
        }
        if let Some((least, greatest)) = self.kappa_range {
            inputs = inputs.kernel_range(least, greatest);
        }
        for (score, (least, greatest)) in &self.score_ranges {
            inputs = inputs.score_range(score, *least, *greatest);
        }
        if let Some(width) = self.width {
            inputs = inputs.width(width);
        }
        inputs
    }
}
