//! What the terms of a plan's objective need to sum rows: frequencies, kernels, the balls of a reference.

use std::sync::{Arc, OnceLock};

use super::pairs::{PairKernel, pair_kernels};
use super::plan::{gaussian, needs_balls};
use super::{Method, Plan, sample};
use crate::compute::Engine;
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::fourier::{GaussianFeatures, MOST_FEATURES};
use crate::loss::{Inputs, Loss, Scores};
use crate::objective::{Measure, Objective};
use crate::random::Random;

/// What the terms of the plan's objective need.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    pub(super) objective: Option<Objective>,
    /// Every Gaussian term, in the order of terms, if they are summed by random features: its index and its bandwidth.
    pub(super) gaussians: Vec<(usize, f64)>,
    /// Their frequencies once they are needed, which merging does not: drawing them takes longer than that. `None` within it if they
    /// are not those of the plan.
    pub(super) drawn: Arc<OnceLock<Option<Vec<Vec<f32>>>>>,
    /// The kernels whose sums over pairs of blocks are added.
    pub(super) kernels: Vec<PairKernel>,
    /// The terms that are means over rows, by their index, except costs.
    pub(super) linear: Vec<usize>,
    /// Precision and density with the reference that they need.
    pub(super) balls: Option<Loss>,
    /// The whole reference, if it was given.
    pub(super) reference: Option<Features>,
    pub(super) has_moments: bool,
    pub(super) has_directions: bool,
    pub(super) engine: Engine,
}

/// A checksum of features: the 64-bit hash of all rows.
pub(super) fn checksum(features: &Features) -> u64 {
    sample::priority(features.width() as u64, features.values())
}

fn checksum_of(waves: &[Vec<f32>]) -> u64 {
    waves.iter().fold(waves.len() as u64, |seed, turns| sample::priority(seed, turns))
}

impl Terms {
    pub(super) fn new(plan: &Plan, reference: Option<Features>, engine: Engine) -> Result<Self> {
        let damaged = || Error::setting("the plan", "damaged", "one that Accumulator::plan made");
        let Some(objective) = plan.parsed()? else { return Ok(Self { engine, ..Self::default() }) };
        let width = plan.width.filter(|&width| width > 0).ok_or_else(damaged)?;
        let waves = objective.terms().iter().filter(|term| gaussian(&term.measure).is_some()).count();
        let needs_waves = plan.method == Method::Features && waves > 0;
        if 2 * plan.frequencies.min(MOST_FEATURES) > MOST_FEATURES || needs_waves && plan.frequencies == 0 {
            return Err(damaged());
        }
        let mut terms = Self { engine, ..Self::default() };
        if let Some(expected) = plan.reference {
            let given = reference
                .as_ref()
                .ok_or_else(|| Error::missing("precision or density", "the whole reference, with the accumulator"))?;
            if checksum(given) != expected {
                return Err(Error::setting("the reference", "another one", "the one that the plan was made with"));
            }
            let balls = objective.terms().iter().filter(|term| needs_balls(&term.measure)).cloned();
            let balls = Objective::of_terms(balls.collect());
            terms.balls = Some(balls.prepare(Inputs::new().reference(given.clone()).engine(terms.engine.clone()))?);
        }
        // Without those terms the sums have all that they need of it.
        terms.reference = reference.filter(|_| plan.reference.is_some());
        if let Some(pairs) = &plan.pairs {
            terms.kernels = pair_kernels(&objective, width)?;
            let quanta = pairs.quanta.iter().chain([&pairs.row_quantum]);
            let fits = pairs.quanta.len() == terms.kernels.len();
            if !fits || !quanta.into_iter().all(|quantum| quantum.is_finite() && *quantum > 0.0) {
                return Err(damaged());
            }
        }
        if plan.pairs.is_some() != (plan.method == Method::Pairs) {
            return Err(damaged());
        }
        if plan.method.sums_all_rows() {
            let are_positive = plan.quanta.iter().all(|quantum| quantum.is_finite() && *quantum > 0.0);
            let has_columns = plan.centre.len() == width && (plan.quanta.is_empty() || plan.quanta.len() == width);
            if !has_columns || !are_positive || plan.cutoffs.len() != plan.arms.len() + 1 {
                return Err(damaged());
            }
            for (index, term) in objective.terms().iter().enumerate() {
                let measure = &term.measure;
                if let Some(bandwidth) = gaussian(measure).filter(|_| plan.method == Method::Features) {
                    terms.gaussians.push((index, bandwidth));
                }
                if needs_balls(measure) || matches!(measure, Measure::Score { .. }) {
                    terms.linear.push(index);
                }
                terms.has_moments |= *measure == Measure::Fid;
                terms.has_directions |= matches!(measure, Measure::Vendi { .. });
            }
        }
        terms.objective = Some(objective);
        Ok(terms)
    }

    /// The frequencies of every Gaussian term, in turns. The first call draws them.
    ///
    /// # Errors
    /// If they are not those of the plan.
    pub(super) fn waves(&self, plan: &Plan) -> Result<&[Vec<f32>]> {
        let drawn = self.drawn.get_or_init(|| {
            let waves = self.draw(plan);
            plan.drawn.is_none_or(|expected| expected == checksum_of(&waves)).then_some(waves)
        });
        drawn.as_deref().ok_or_else(|| {
            Error::setting(
                "the checksum of the random frequencies",
                "not that of the plan",
                "the same on all machines, but the C library of this one rounds logarithms or cosines otherwise; run every task with one system image, or plan with the method sample or pairs",
            )
        })
    }

    /// Draws the frequencies, and returns their checksum for the plan.
    pub(super) fn checksum_of_waves(&self, plan: &Plan) -> u64 {
        checksum_of(&self.draw(plan))
    }

    fn draw(&self, plan: &Plan) -> Vec<Vec<f32>> {
        let width = plan.width.unwrap_or(1);
        let one = |&(index, bandwidth): &(usize, f64)| {
            let mut random = Random::stream(plan.seed, index as u64 + 1);
            GaussianFeatures::new(bandwidth, width, 2 * plan.frequencies, &mut random).turns()
        };
        self.gaussians.iter().map(one).collect()
    }

    /// The number of values of the moments of an arm; `None` if it is too large to be one.
    pub(super) fn moment_values(&self, width: usize) -> Option<usize> {
        let each = width.checked_mul(width.checked_add(3)?)? / 2;
        each.checked_mul(usize::from(self.has_moments) + usize::from(self.has_directions))
    }

    /// The plan's scores of some rows, checked.
    pub(super) fn scores(&self, plan: &Plan, rows: Rows<'_>, scores: &Scores) -> Result<Vec<Vec<f64>>> {
        let of = |name: &String| {
            let values =
                scores.get(name).ok_or_else(|| Error::missing(format!("score {name}"), "a value for every row"))?;
            if values.len() != rows.len() {
                let problem = format!("one value per row: {} values were given for {} rows", values.len(), rows.len());
                return Err(Error::missing(format!("score {name}"), problem));
            }
            match values.iter().find(|value| !value.is_finite()) {
                Some(value) => Err(Error::setting(&format!("score {name}"), value, "a finite number")),
                None => Ok(values.clone()),
            }
        };
        plan.scores.iter().map(of).collect()
    }

    /// The values of every linear term; `scores` are those of the plan.
    pub(super) fn linear_values(&self, rows: Rows<'_>, plan: &Plan, scores: &[Vec<f64>]) -> Result<Vec<Vec<f64>>> {
        let Some(objective) = &self.objective else { return Ok(Vec::new()) };
        let mut balls = self.balls.iter().flat_map(|loss| loss.terms().iter().map(move |term| (loss, term)));
        let mut values = Vec::with_capacity(self.linear.len());
        for &index in &self.linear {
            values.push(match &objective.terms()[index].measure {
                Measure::Score { name } => {
                    let at = plan.scores.iter().position(|known| known == name);
                    let at = at.ok_or_else(|| Error::missing(format!("score {name}"), "to be named in the survey"))?;
                    scores[at].clone()
                }
                measure => {
                    let missing = || Error::missing(measure.name(), "the whole reference, with the accumulator");
                    let (loss, term) = balls.next().ok_or_else(missing)?;
                    loss.term_linear(term, 0, rows, &Scores::new())?.ok_or_else(missing)?
                }
            });
        }
        Ok(values)
    }
}
