//! Offline optimisation: from recorded arms and a loss to the best weights, the scores of every arm and of the mixture, and the
//! contribution of each arm. [`Mixture`] is the document that `modelmix solve --json` prints.

mod analyses;
mod forms;
mod front;
pub(crate) mod headline;
mod plan;
mod program;
mod sampled;
mod sensitivity;
mod summed;

use serde::{Deserialize, Serialize};

use crate::arms::RecordedArms;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::loss::{Linear, Loss, PreparedTerm};
use crate::numbers::{brief, count};
use crate::objective::{Objective, ScoreMeaning};
use crate::provenance::Provenance;
use crate::quadratic::Quadratic;
use crate::simplex::Bounds;
use program::Program;

pub use analyses::{
    Allowance, Analyses, AnalysisResults, Budget, CheapestDocument, SubsetDocument, solve_with_analyses,
};
pub use forms::{TermForm, forms, statistics};
pub use front::{FrontDocument, FrontPoint, front_objective};
pub use headline::Headline;
pub use plan::{Allocation, HalfWidths, PlanSettings, PlannedArm, SamplePlan, plan};
pub(crate) use sampled::solve_sample;
pub use sensitivity::{Bandwidths, SensitivityDocument, SensitivityPoint};
pub(crate) use summed::{SummedArms, SummedTerm, solve_sums};

/// The best mixture of recorded arms, with everything that a report needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Mixture {
    /// The version of modelmix that computed it.
    pub version: String,
    /// The objective as written, with the bandwidth given.
    pub objective: String,
    /// Warnings about the objective, such as a score that is minimised although higher is better, and about sums with fewer or more
    /// rows than their plan was made from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Whether floors or caps exclude any mixture.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bounded: bool,
    /// The kernel of the first term that has one, with its bandwidth.
    pub kernel: Option<Kernel>,
    /// The kernels with their bandwidths, one per term that has one.
    pub kernels: Vec<Kernel>,
    /// The name and direction of `score`, of the arms and of the mixture.
    pub score: ScoreMeaning,
    /// The arms in the order given.
    pub arms: Vec<MixtureArm>,
    /// The mixture.
    pub mixture: MixtureScore,
    /// The arm with the smallest loss alone.
    pub best_single: SingleArm,
    /// The loss of the best single arm minus that of the mixture.
    pub gain: f64,
    /// A 95% confidence interval of the gain for the models themselves, from which the samples are drawn; `None` with `fid` or
    /// `vendi` in the objective, with one arm, or if an arm has fewer than two samples. It is unbiased; `gain` is slightly too
    /// large, because it is optimised and measured on the same samples.
    #[serde(default)]
    pub gain_interval: Option<[f64; 2]>,
    /// The p-value of the hypothesis that some single model is as good as any mixture; `None` as above.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub p_value: Option<f64>,
    /// Whether there are intervals and a p-value, and the reason if not.
    #[serde(default)]
    pub intervals: Intervals,
    /// K̂ and f̂ (V-statistics) of the quadratic and linear terms; smooth terms are not included.
    #[serde(flatten)]
    pub form: Quadratic,
    /// The constant that turns αᵀKα + fᵀα into the loss of the quadratic and linear terms.
    pub constant: f64,
    /// The results of the requested analyses.
    #[serde(flatten)]
    pub worth: AnalysisResults,
    /// What was computed from a part of the samples or from random features instead of all pairs; absent if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approximation: Option<Approximation>,
    /// Provenance of the result; absent unless the caller filled it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// How a [`Mixture`] differs from that of all pairs of samples. Intervals and the p-value include these errors. Those of sampling
/// are for the rows that were counted, so they vanish if all rows are sampled; the larger self-terms of few rows are included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Approximation {
    /// The number of random Fourier features per Gaussian kernel; `None` without them. They are unbiased.
    pub random_features: Option<usize>,
    /// The number of sampled rows per arm whose pairs were evaluated; `None` if all rows count.
    pub sampled_rows: Option<usize>,
    /// The standard error of the mixture's loss that random features or sampling cause; `None` if it is unknown: with `fid` or
    /// `vendi` from a sample.
    pub loss_error: Option<f64>,
    /// The standard error of the gain that random features or sampling cause; `None` as above. If one arm has all
    /// weight: of its distance in loss to the next best arm.
    pub gain_error: Option<f64>,
}

impl std::fmt::Display for Approximation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.random_features, self.sampled_rows) {
            (Some(features), _) => write!(f, "{} random Fourier features per kernel", count(features))?,
            (None, Some(rows)) => write!(f, "all pairs of {} sampled rows per arm", count(rows))?,
            (None, None) => write!(f, "sums over all rows")?,
        }
        match (self.loss_error, self.gain_error) {
            (Some(loss), Some(gain)) => {
                write!(f, "; their standard error is {} in the loss and {} in the gain", brief(loss), brief(gain))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a [`Mixture`] has confidence intervals and a p-value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Intervals {
    /// Both are given.
    #[default]
    Computed,
    /// Not computed, as requested by [`SolveSettings::intervals`].
    LeftOut,
    /// Not available: `fid` or `vendi` in the objective, an arm with fewer than two samples, or no arm with samples that
    /// differ, so that there is no variance to estimate.
    Unavailable,
}

/// The settings of [`solve_with`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SolveSettings {
    /// The floors and caps of the weights; any mixture if `None`.
    pub bounds: Option<Bounds>,
    /// Whether confidence intervals and the p-value are computed. Without them, the sums of each sample toward every arm are
    /// not stored, and only one program is solved.
    pub intervals: bool,
}

impl SolveSettings {
    /// Any mixture, with intervals.
    pub fn new() -> Self {
        Self { bounds: None, intervals: true }
    }

    /// Sets a smallest and a largest weight per arm.
    #[must_use]
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = Some(bounds);
        self
    }

    /// Sets whether confidence intervals are computed.
    #[must_use]
    pub fn intervals(mut self, intervals: bool) -> Self {
        self.intervals = intervals;
        self
    }
}

impl Default for SolveSettings {
    fn default() -> Self {
        Self::new()
    }
}

/// One arm of a [`Mixture`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MixtureArm {
    /// Its name.
    pub name: String,
    /// Number of samples.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub samples: usize,
    /// Its weight in the mixture.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub weight: f64,
    /// A 95% confidence interval of its weight in the best mixture of the models themselves; `None` with `fid` or `vendi` in
    /// the objective, or if an arm has fewer than two samples.
    pub interval: Option<[f64; 2]>,
    /// Its loss alone, constants included.
    pub loss: f64,
    /// Its score alone.
    pub score: f64,
    /// The increase of the loss of the best mixture without this arm; `None` if it is the only arm.
    pub adds: Option<f64>,
    /// The value of each term of the objective for this arm alone.
    pub terms: Vec<TermValue>,
}

/// Loss and score of the best mixture in a [`Mixture`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MixtureScore {
    /// Its loss, as a V-statistic, constants included.
    pub loss: f64,
    /// Its score.
    pub score: f64,
    /// The duality gap: no mixture of these samples has a loss below `loss − gap`.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    pub gap: f64,
    /// The value of each term of the objective.
    pub terms: Vec<TermValue>,
}

/// The best single arm of a [`Mixture`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SingleArm {
    /// Its name.
    pub name: String,
    /// Its loss.
    pub loss: f64,
    /// Its score.
    pub score: f64,
}

/// The value of one term of the objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TermValue {
    /// The term, without its weight.
    pub term: String,
    /// Its weight in the objective.
    pub weight: f64,
    /// Its value in the loss, without the weight: the mean of k² for RKE, MMD² as a V-statistic, the Fréchet distance, the
    /// negative Tsallis entropy for Vendi, the mean for linear terms.
    pub value: f64,
    /// Its value as reported: the RKE mode count, 100 times the unbiased MMD², the unbiased KID, the Fréchet distance, the
    /// Vendi score, the mean for linear terms.
    pub score: f64,
}

impl Mixture {
    /// The column heading of each term, if the objective has several: the name of its score, such as "RKE", or the whole term
    /// if two names are equal. Empty if there is one term, since its score is already reported.
    pub fn term_names(&self) -> Vec<String> {
        let terms = &self.mixture.terms;
        if terms.len() < 2 {
            return Vec::new();
        }
        let name = |term: &TermValue| {
            let objective = term.term.parse::<Objective>();
            objective.map_or_else(|_| term.term.clone(), |objective| ScoreMeaning::of(&objective).name)
        };
        let names: Vec<String> = terms.iter().map(name).collect();
        let is_shared = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
        terms.iter().zip(&names).map(|(term, name)| if is_shared(name) { &term.term } else { name }.clone()).collect()
    }

    /// The weights in the order of the arms.
    pub fn weights(&self) -> Vec<f64> {
        self.arms.iter().map(|arm| arm.weight).collect()
    }

    /// The best single arm.
    pub fn best_arm(&self) -> &MixtureArm {
        &self.arms[self.best_index()]
    }

    /// The best single arm, as an index into `arms`.
    pub(crate) fn best_index(&self) -> usize {
        self.arms
            .iter()
            .position(|arm| arm.name == self.best_single.name)
            .expect("the best single arm is one of the arms")
    }

    /// The arm with which the mixture is compared to state the error of the gain. If the best arm alone is the mixture, the gain is 0
    /// without error, but this arm may not be the best: then the next best.
    fn compared_index(&self) -> usize {
        let best = self.best_index();
        if self.arms[best].weight <= 1.0 - 1e-9 {
            return best;
        }
        let others = self.arms.iter().enumerate().filter(|(arm, _)| *arm != best);
        let next = others.min_by(|(_, one), (_, other)| one.loss.total_cmp(&other.loss));
        next.map_or(best, |(arm, _)| arm)
    }
}

/// The reported score (see [`ScoreMeaning::of`]): that of the only term, or the loss of several.
pub(crate) fn score(terms: &[TermValue], loss: f64) -> f64 {
    match terms {
        [term] => term.score,
        _ => loss,
    }
}

/// The number of pairs of samples on which [`solve`] evaluates kernels, for progress reports (see
/// [`Engine::observed_by`](crate::compute::Engine::observed_by)).
pub fn pairs(arms: &RecordedArms, loss: &Loss) -> u64 {
    let samples: u64 = arms.iter().map(|arm| arm.features.len() as u64).sum();
    let reference = loss.reference_len() as u64;
    let of = |term: &PreparedTerm| match (&term.kappa, &term.linear) {
        (None, _) => 0,
        (Some(_), Some(Linear::Cross(_))) => samples * samples / 2 + samples * reference,
        (Some(_), _) => samples * samples / 2,
    };
    loss.terms().iter().map(of).sum()
}

/// Finds the weights that minimise the loss of the pooled samples.
///
/// ```
/// use modelmix::{Features, Inputs, Objective, RecordedArm, RecordedArms, solve};
/// // two models; the first has twice as many modes as the second
/// let left = Features::from_rows([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])?;
/// let right = Features::from_rows([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])?;
/// let arms = RecordedArms::new(vec![RecordedArm::new("left", left), RecordedArm::new("right", right)])?;
/// let best = solve(&arms, &Objective::vendi().prepare(Inputs::new().arms(&arms))?)?;
/// assert!((best.arms[0].weight - 2.0 / 3.0).abs() < 1e-6);
/// assert!((best.mixture.score - 3.0).abs() < 1e-9); // three modes in all
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// Arms of another width than the reference, rows that a kernel is not defined on, missing scores or costs, a loss that is not
/// convex, precision or density alone with a positive weight, or more samples than the kernel matrix of a Vendi score supports.
pub fn solve(arms: &RecordedArms, loss: &Loss) -> Result<Mixture> {
    solve_with(arms, loss, &SolveSettings::new())
}

/// [`solve`] with a smallest and a largest weight per arm.
///
/// # Errors
/// As [`solve`], and bounds for another number of arms.
pub fn solve_within(arms: &RecordedArms, loss: &Loss, bounds: &Bounds) -> Result<Mixture> {
    solve_with(arms, loss, &SolveSettings::new().bounds(bounds.clone()))
}

/// [`solve`] with settings.
///
/// # Errors
/// As [`solve_within`].
pub fn solve_with(arms: &RecordedArms, loss: &Loss, settings: &SolveSettings) -> Result<Mixture> {
    let simplex = Bounds::simplex(arms.len());
    let bounds = settings.bounds.as_ref().unwrap_or(&simplex);
    let program = Program::new(arms, loss, settings.intervals)?;
    solve_subject(&Subject::new(arms, loss), bounds, &program, settings.intervals)
}

/// The best mixture, with intervals if the objective and the arms allow them.
fn with_intervals(arms: &RecordedArms, loss: &Loss, bounds: &Bounds, program: &Program) -> Result<Mixture> {
    solve_subject(&Subject::new(arms, loss), bounds, program, true)
}

/// What a program is about: its arms and its objective.
struct Subject<'a> {
    names: Vec<String>,
    counts: Vec<usize>,
    objective: &'a Objective,
    kernels: Vec<Kernel>,
    /// The constant of the quadratic terms.
    constant: f64,
    /// The known range of f of an arm's samples.
    linear_spread: f64,
}

impl<'a> Subject<'a> {
    fn new(arms: &RecordedArms, loss: &'a Loss) -> Self {
        Self {
            names: arms.names(),
            counts: arms.iter().map(|arm| arm.features.len()).collect(),
            objective: loss.objective(),
            kernels: loss.kernels(),
            constant: loss.constant(),
            linear_spread: loss.linear_spread(),
        }
    }
}

/// The best mixture of a program, with intervals if they are wanted.
fn solve_subject(subject: &Subject<'_>, bounds: &Bounds, program: &Program, intervals: bool) -> Result<Mixture> {
    let mut mixture = solve_program(subject, bounds, program)?;
    if !intervals {
        return Ok(mixture);
    }
    mixture.intervals = Intervals::Unavailable;
    if let Some(certainty) = program.certainty(bounds, &mixture.weights(), subject.linear_spread)? {
        mixture.arms.iter_mut().zip(certainty.weights).for_each(|(arm, interval)| arm.interval = Some(interval));
        (mixture.gain_interval, mixture.p_value) = (certainty.gain, certainty.p_value);
        mixture.intervals = Intervals::Computed;
    }
    Ok(mixture)
}

/// The best mixture without intervals, for callers that do not need them.
pub(crate) fn solve_without_intervals(arms: &RecordedArms, loss: &Loss, bounds: &Bounds) -> Result<Mixture> {
    solve_program(&Subject::new(arms, loss), bounds, &Program::new(arms, loss, false)?)
}

fn solve_program(subject: &Subject<'_>, bounds: &Bounds, program: &Program) -> Result<Mixture> {
    subject.objective.check_direction()?;
    let arms = subject.names.len();
    let best = program.minimize(bounds, &vec![1.0 / arms as f64; arms])?;
    let mut reports = Vec::with_capacity(arms);
    let mut alone = Vec::with_capacity(arms);
    for (index, name) in subject.names.iter().enumerate() {
        let mut only = vec![0.0; arms];
        only[index] = 1.0;
        let (value, terms) = program.at(&only)?;
        alone.push(value);
        reports.push(MixtureArm {
            name: name.clone(),
            samples: subject.counts[index],
            weight: best.weights[index],
            interval: None,
            loss: value + program.constant(),
            score: score(&terms, value + program.constant()),
            terms,
            adds: match bounds.without(index) {
                None => None,
                // Without an arm of weight zero, the optimum is the same.
                Some(_) if best.weights[index] == 0.0 => Some(0.0),
                Some(without) => Some((program.without(index, &without, &best.weights)? - best.value).max(0.0)),
            },
        });
    }
    let best_single = (0..arms).min_by(|&a, &b| alone[a].total_cmp(&alone[b])).unwrap_or(0);
    let (kernels, loss_value) = (subject.kernels.clone(), best.value + program.constant());
    let terms = program.at(&best.weights)?.1;
    let single = &reports[best_single];
    Ok(Mixture {
        version: crate::version::VERSION.into(),
        objective: subject.objective.to_string(),
        warnings: subject.objective.warnings(),
        bounded: bounds.restricts(),
        kernel: kernels.first().copied(),
        kernels,
        score: ScoreMeaning::of(subject.objective),
        best_single: SingleArm { name: single.name.clone(), loss: single.loss, score: single.score },
        arms: reports,
        mixture: MixtureScore { loss: loss_value, score: score(&terms, loss_value), gap: best.gap, terms },
        gain: alone[best_single] - best.value,
        gain_interval: None,
        p_value: None,
        intervals: Intervals::LeftOut,
        form: program.form().clone(),
        constant: subject.constant,
        worth: AnalysisResults::default(),
        approximation: None,
        provenance: None,
    })
}
