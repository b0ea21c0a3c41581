//! Evaluates a set of rows: every term of the objective, with and without self-pairs.

use crate::arms::{RecordedArm, RecordedArms};
use crate::error::Result;
use crate::features::Rows;
use crate::loss::Loss;
use crate::mixture::TermValue;

/// The linear parts of the terms, for every sample.
pub(super) struct Terms<'a> {
    arms: &'a RecordedArms,
    loss: &'a Loss,
    /// Per term and arm; `None` if a term has no linear part.
    linear: Vec<Vec<Option<Vec<f64>>>>,
}

/// The value of a set.
pub(super) struct Evaluation {
    pub(super) loss: f64,
    pub(super) unbiased_loss: f64,
    pub(super) terms: Vec<TermValue>,
}

impl<'a> Terms<'a> {
    pub(super) fn new(arms: &'a RecordedArms, loss: &'a Loss) -> Result<Self> {
        let mut linear = Vec::new();
        for term in loss.terms() {
            let of_arm = |(index, arm): (usize, &RecordedArm)| {
                loss.term_linear(term, index, arm.features.view(), &arm.scores)
                    .map_err(|error| error.of(format!("arm {}", arm.name)))
            };
            linear.push(arms.iter().enumerate().map(of_arm).collect::<Result<Vec<_>>>()?);
        }
        Ok(Self { arms, loss, linear })
    }

    /// f of a row: the weighted sum of all terms.
    pub(super) fn linear(&self, arm: usize, row: usize) -> f64 {
        let parts = self.loss.terms().iter().zip(&self.linear);
        parts.filter_map(|(term, arms)| Some(term.weight * arms[arm].as_ref()?[row])).sum()
    }

    /// The loss of the rows with equal weights; at least two rows.
    pub(super) fn evaluate(&self, rows: &[(usize, usize)]) -> Result<Evaluation> {
        let width = self.arms.width();
        let mut values = Vec::with_capacity(rows.len() * width);
        rows.iter().for_each(|&(arm, row)| values.extend_from_slice(self.arms[arm].features.row(row)));
        let set = Rows::new(width, &values);
        let count = rows.len() as f64;
        let (mut loss, mut unbiased_loss, mut terms) = (0.0, 0.0, Vec::new());
        for (term, linear) in self.loss.terms().iter().zip(&self.linear) {
            let (mut pairs, mut own) = (0.0, 0.0);
            if let Some(kernel) = &term.kappa {
                pairs = term.engine(self.loss.engine()).kernel_sums_within(kernel, set)?.iter().sum();
                own = set.iter().map(|row| kernel.of_self(row)).sum();
            }
            let mean = rows.iter().filter_map(|&(arm, row)| Some(linear[arm].as_ref()?[row])).sum::<f64>() / count;
            let value = (pairs + own) / (count * count) + mean + term.constant.0;
            let unbiased = pairs / (count * (count - 1.0)) + mean + term.constant.1;
            loss += term.weight * value;
            unbiased_loss += term.weight * unbiased;
            terms.push(TermValue::of(term, value, unbiased));
        }
        Ok(Evaluation { loss, unbiased_loss, terms })
    }
}
