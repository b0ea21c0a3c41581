//! One objective against another: all mixtures that cannot be made better for one without being made worse for the other, from
//! the best for the first to the best for the second. How the path is followed is `simplex`'s.

use serde::{Deserialize, Serialize};

use super::program::Program;
use super::score;
use crate::error::Result;
use crate::objective::{Objective, ScoreMeaning};
use crate::simplex::{Bounds, Forms, ObjectivePair, Solution, trace};

/// How many mixtures are found where each is a search of its own.
const MAX_SMOOTH_POINTS: usize = 24;

/// What is traded for the objective along a front: minimised as every objective is, but for precision and density, of which more is better
/// and which nobody wants less of, so that "precision" stands for "-precision".
pub fn front_objective(objective: Objective) -> Objective {
    if objective.is_reversed_quality() { -objective } else { objective }
}

/// The mixtures that are best for A + λB with some λ between 0 and ∞.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FrontDocument {
    /// B, as it is minimised.
    pub objective: String,
    /// What B's score is.
    pub score: ScoreMeaning,
    /// From the best for A to the best for B; each is better in B and worse in A than the one before.
    pub points: Vec<FrontPoint>,
    /// Whether A or B is linear, so that the path is known exactly: between points weights move in straight lines.
    pub exact: bool,
}

/// A mixture of a [`FrontDocument`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FrontPoint {
    /// A λ that it is best for; none where only B counts.
    pub multiplier: Option<f64>,
    /// By arm.
    pub weights: Vec<f64>,
    /// A of it.
    pub loss: f64,
    /// A's score.
    pub score: f64,
    /// B of it.
    pub second_loss: f64,
    /// B's score.
    pub second_score: f64,
}

/// The front of two programs over the same arms.
pub(super) fn front(
    first: &Program,
    second: &Program,
    objective: &Objective,
    bounds: &Bounds,
) -> Result<FrontDocument> {
    let is_smooth = first.is_smooth() || second.is_smooth();
    let mut programs = Programs { programs: [first, second], bounds };
    let mut forms = Forms::new([first.form(), second.form()], bounds);
    let exact = !is_smooth && forms.is_piecewise_linear();
    let pair: &mut dyn ObjectivePair = if is_smooth { &mut programs } else { &mut forms };
    let of = |program: &Program, weights: &[f64]| {
        let (value, terms) = program.at(weights)?;
        let loss = value + program.constant();
        Ok((loss, score(&terms, loss)))
    };
    let points = trace(pair, bounds)?.into_iter().map(|point| {
        let ((loss, score), (second_loss, second_score)) = (of(first, &point.weights)?, of(second, &point.weights)?);
        let multiplier = Some(point.multiplier).filter(|multiplier| multiplier.is_finite());
        Ok(FrontPoint { multiplier, weights: point.weights, loss, score, second_loss, second_score })
    });
    let points = points.collect::<Result<_>>()?;
    Ok(FrontDocument { objective: objective.to_string(), score: ScoreMeaning::of(objective), points, exact })
}

/// Two programs, of which one has smooth terms.
struct Programs<'a> {
    programs: [&'a Program; 2],
    bounds: &'a Bounds,
}

impl ObjectivePair for Programs<'_> {
    fn minimize(&mut self, shares: [f64; 2], start: &[f64]) -> Result<Solution> {
        let parts: Vec<(f64, &Program)> =
            shares.into_iter().zip(self.programs).filter(|(share, _)| *share > 0.0).collect();
        Program::minimize_sum(&parts, self.bounds, start)
    }

    fn values(&self, weights: &[f64]) -> Result<[f64; 2]> {
        let [first, second] = self.programs;
        Ok([first.at(weights)?.0, second.at(weights)?.0])
    }

    fn is_piecewise_linear(&self) -> bool {
        false
    }

    fn max_points(&self) -> usize {
        MAX_SMOOTH_POINTS
    }
}
