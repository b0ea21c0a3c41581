//! How many samples confidence intervals of a wanted width take.

use modelmix::document::Document;
use modelmix::mixture::{PlanSettings, plan as planned};
use modelmix::{Error, Gap};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::Use;
use crate::documents::{dictionary, provenance};
use crate::errors::to_exception;
use crate::objective::Problem;
use crate::work::{Progress, run};

/// The wanted half-width of the gain's interval, with its unit.
fn read(text: &str) -> PyResult<Gap> {
    text.parse().map_err(|error| match error {
        Error::Setting { value, must, .. } => to_exception(Error::Setting { what: "gain_error".into(), value, must }),
        error => to_exception(error),
    })
}

/// The document of `plan`, and its sentence.
#[pyfunction]
pub(crate) fn plan<'py>(
    py: Python<'py>,
    arms: Vec<(String, Bound<'py, PyAny>)>,
    problem: Problem<'py>,
    gain_error: Option<String>,
    weight_error: Option<f64>,
) -> PyResult<(Bound<'py, PyDict>, String)> {
    let chosen = problem.choose(py, &arms)?;
    let arms = problem.arms(&arms, &chosen)?;
    let prepared = problem.prepared(&arms.names(), Use::Call, &chosen)?;
    let gain_error = gain_error.as_deref().map(read).transpose()?;
    let settings =
        PlanSettings::default().gain_error(gain_error).weight_error(weight_error).costs(prepared.costs.clone());
    let progress = Progress::new(None);
    let engine = prepared.engine(&progress);
    let document = run(py, &progress, move || {
        let loss = prepared.loss(Some(&arms), &engine)?;
        let mut document = planned(&arms, &loss, &settings)?;
        document.provenance = provenance(&chosen, prepared.seed, &arms, loss.bandwidths(&arms, prepared.seed));
        Ok(document)
    })?;
    let sentence = document.sentence();
    Ok((dictionary(py, &Document::Plan(document))?, sentence))
}
