//! The best mixture of arms whose samples are not stored: from sums over all of them, and a sample of them for intervals.

use super::forms::TermForm;
use super::program::Program;
use super::{Approximation, Mixture, SolveSettings, Subject, solve_subject};
use crate::compute::Engine;
use crate::error::Result;
use crate::influence::Frequencies;
use crate::kernel::Kernel;
use crate::objective::{Measure, Objective};
use crate::quadratic::Quadratic;
use crate::simplex::Bounds;
use crate::spectral::Spectral;
use crate::statistics::Statistics;

/// Everything that is known about arms from sums over their samples.
pub(crate) struct SummedArms {
    pub(crate) names: Vec<String>,
    /// The number of samples of each arm.
    pub(crate) counts: Vec<usize>,
    pub(crate) objective: Objective,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) terms: Vec<SummedTerm>,
    /// Of sampled rows: κ between each of them and all rows of every arm.
    pub(crate) statistics: Statistics,
    /// Per arm, f̂ if a sampled row were the whole reference.
    pub(crate) by_row: Vec<Vec<f64>>,
    pub(crate) reference_size: usize,
    pub(crate) frequencies: Vec<Frequencies>,
    /// The number of random features per kernel.
    pub(crate) features: usize,
    /// The known range of f.
    pub(crate) linear_spread: f64,
    pub(crate) engine: Engine,
}

/// One term of the objective, from sums.
pub(crate) struct SummedTerm(pub(super) Sum);

pub(super) enum Sum {
    Form(TermForm),
    Smooth { term: String, weight: f64, spectral: Spectral },
}

impl SummedTerm {
    /// A quadratic term.
    pub(crate) fn form(
        measure: &Measure,
        weight: f64,
        biased: Quadratic,
        unbiased: Quadratic,
        constant: (f64, f64),
    ) -> Self {
        Self(Sum::Form(TermForm::of(measure, weight, (biased, unbiased), constant)))
    }

    /// A term that is a mean over samples.
    pub(crate) fn linear(measure: &Measure, weight: f64, means: Vec<f64>) -> Self {
        let mut form = Quadratic::zeros(means.len());
        form.linear_mut().copy_from_slice(&means);
        Self::form(measure, weight, form.clone(), form, (0.0, 0.0))
    }

    /// A function of eigenvalues.
    pub(crate) fn smooth(measure: &Measure, weight: f64, spectral: Spectral) -> Self {
        Self(Sum::Smooth { term: measure.to_string(), weight, spectral })
    }
}

/// The best mixture of summed arms.
///
/// # Errors
/// As [`super::solve_with`].
pub(crate) fn solve_sums(arms: &SummedArms, settings: &SolveSettings) -> Result<Mixture> {
    let simplex = Bounds::simplex(arms.names.len());
    let bounds = settings.bounds.as_ref().unwrap_or(&simplex);
    let program = Program::of_sums(arms);
    let constant = arms.terms.iter().map(|term| match &term.0 {
        Sum::Form(term) => term.weight * term.constant(),
        Sum::Smooth { .. } => 0.0,
    });
    let subject = Subject {
        names: arms.names.clone(),
        counts: arms.counts.clone(),
        objective: &arms.objective,
        kernels: arms.kernels.clone(),
        constant: constant.sum(),
        linear_spread: arms.linear_spread,
    };
    let mut mixture = solve_subject(&subject, bounds, &program, settings.intervals)?;
    if arms.features > 0 {
        let (weights, best) = (mixture.weights(), mixture.compared_index());
        let loss: f64 = arms.frequencies.iter().map(|term| term.loss_variance(&weights)).sum();
        let gain: f64 = arms.frequencies.iter().map(|term| term.gain_variance(&weights, best)).sum();
        mixture.approximation = Some(Approximation {
            random_features: Some(arms.features),
            sampled_rows: None,
            loss_error: Some(loss.sqrt()),
            gain_error: Some(gain.sqrt()),
        });
    }
    Ok(mixture)
}
