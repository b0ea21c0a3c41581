//! The best mixture of arms from a sample of their rows, with the errors that sampling causes.

use super::program::Program;
use super::{Approximation, Mixture, SolveSettings, Subject, solve_subject};
use crate::arms::RecordedArms;
use crate::error::Result;
use crate::influence::Unsampled;
use crate::loss::Loss;
use crate::simplex::Bounds;

/// [`super::solve_with`] for arms that are samples of `rows` rows each.
///
/// # Errors
/// As [`super::solve_with`].
pub(crate) fn solve_sample(
    arms: &RecordedArms,
    loss: &Loss,
    settings: &SolveSettings,
    rows: usize,
    unsampled: &Unsampled,
) -> Result<Mixture> {
    let simplex = Bounds::simplex(arms.len());
    let bounds = settings.bounds.as_ref().unwrap_or(&simplex);
    let program = Program::new(arms, loss, true)?;
    let mut mixture = solve_subject(&Subject::new(arms, loss), bounds, &program, settings.intervals)?;
    let errors = errors(&program, loss, &mixture, unsampled)?;
    mixture.approximation = Some(Approximation {
        random_features: None,
        sampled_rows: Some(rows),
        loss_error: errors.map(|(loss, _)| loss),
        gain_error: errors.map(|(_, gain)| gain),
    });
    Ok(mixture)
}

/// The standard errors of the loss and of the gain. `None` if a term is smooth or an arm has fewer than two rows.
///
/// V-statistics of few rows are larger than those of many, since more of their pairs are self-pairs. This bias is included as an
/// error: it is all that there is if the mixture has the distribution of the reference, where influences vanish.
fn errors(program: &Program, loss: &Loss, mixture: &Mixture, unsampled: &Unsampled) -> Result<Option<(f64, f64)>> {
    let Some(influences) = program.influences(loss.linear_spread())? else { return Ok(None) };
    let (weights, best) = (mixture.weights(), mixture.compared_index());
    let constant = if unsampled.reference > 0.0 { loss.constant_by_row()? } else { Vec::new() };
    let (of_loss, of_gain) = influences.sampling_variances(&weights, best, unsampled, &constant);
    let own = |arm: usize| unsampled.arms[arm] * (program.form().at(arm, arm) - influences.form().at(arm, arm));
    let of_mixture: f64 = weights.iter().enumerate().map(|(arm, weight)| weight * weight * own(arm)).sum();
    let of_constant = unsampled.reference * (loss.constant() - loss.unbiased_constant());
    let root = |variance: f64, bias: f64| (variance + bias * bias).sqrt();
    Ok(Some((root(of_loss, of_mixture + of_constant), root(of_gain, own(best) - of_mixture))))
}
