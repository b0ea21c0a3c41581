//! The Pareto front of two objectives: all mixtures that cannot improve in one without getting worse in the other, from the
//! best for the first to the best for the second. `simplex` follows the path.

use serde::{Deserialize, Serialize};

use super::program::Program;
use super::score;
use crate::error::Result;
use crate::objective::{Objective, ScoreMeaning};
use crate::simplex::{Bounds, Forms, ObjectivePair, Solution, trace};

/// The number of mixtures if each needs its own search.
const MAX_SMOOTH_POINTS: usize = 24;

/// The second objective of a Pareto front. It is minimised like every objective, except for precision and density: higher is
/// better, so "precision" means "-precision".
pub fn front_objective(objective: Objective) -> Objective {
    if objective.is_reversed_quality() { -objective } else { objective }
}

/// The Pareto front: the mixtures that are best for A + λB with some λ between 0 and ∞.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FrontDocument {
    /// B, the second objective, as it is minimised.
    pub objective: String,
    /// The name and direction of B's score.
    pub score: ScoreMeaning,
    /// From the best for A to the best for B; each is better in B and worse in A than the previous one.
    pub points: Vec<FrontPoint>,
    /// Whether A or B is linear, so that the path is exact: weights are linear between consecutive points.
    pub exact: bool,
}

/// One mixture of a [`FrontDocument`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FrontPoint {
    /// A λ for which it is best; `None` if only B counts.
    pub multiplier: Option<f64>,
    /// The weights, one per arm.
    pub weights: Vec<f64>,
    /// The value of A.
    pub loss: f64,
    /// The score of A.
    pub score: f64,
    /// The value of B.
    pub second_loss: f64,
    /// The score of B.
    pub second_score: f64,
}

/// The Pareto front of two programs over the same arms.
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

/// The front of two programs, one of which has smooth terms.
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
