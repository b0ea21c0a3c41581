//! What an accumulator computes. A plan is plain data; every worker gets the same one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::Accumulator;
use crate::arms::by_arm;
use crate::error::{Error, Result};
use crate::features::Features;
use crate::kernel::{Bandwidth, Kernel, KernelSpec};
use crate::objective::{Measure, Objective};
use crate::settings::setters;

/// The default number of random Fourier features.
pub const DEFAULT_FEATURES: usize = 4096;
/// The default number of sampled rows per arm.
pub const DEFAULT_SAMPLE: usize = 2000;

/// The number of rows up to which front ends evaluate all pairs unless told otherwise: some minutes for rows of width 1,000.
pub const EXACT_ROWS: u64 = 100_000;

/// What is done with the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum Method {
    /// Rows are counted and sampled: the first pass, which a plan is made from.
    Survey,
    /// All rows are stored, and all pairs are evaluated: exact.
    Rows,
    /// All pairs of the sampled rows are evaluated. Standard errors and intervals are those of the sample.
    Sample,
    /// Gaussian kernels are replaced by random Fourier features, whose sums are accumulated over all rows. Fréchet distances and
    /// Vendi scores come from moments of all rows, and scores from sums over all rows.
    Features,
    /// Exact: all pairs of all rows are evaluated, one pair of blocks at a time (see [`Accumulator::update_pairs`]). Other terms are
    /// summed as with random features.
    Pairs,
}

impl Method {
    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Method::Survey => "survey",
            Method::Rows => "rows",
            Method::Sample => "sample",
            Method::Features => "features",
            Method::Pairs => "pairs",
        }
    }

    /// Whether it sums over all rows, in a second pass.
    pub fn sums_all_rows(self) -> bool {
        matches!(self, Method::Features | Method::Pairs)
    }
}

/// What an accumulator computes, and from what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub(super) method: Method,
    /// The objective with all bandwidths as numbers; `None` for a survey.
    pub(super) objective: Option<String>,
    pub(super) seed: u64,
    /// The number of rows per arm that are sampled, and the highest priority of a sampled row.
    pub(super) sample: usize,
    pub(super) highest: u64,
    /// The scores that every row has.
    pub(super) scores: Vec<String>,
    pub(super) width: Option<usize>,
    /// The arms in the order of the result; by name if empty.
    pub(super) arms: Vec<String>,
    pub(super) costs: BTreeMap<String, f64>,
    /// The number of frequencies per Gaussian kernel, half the number of features.
    pub(super) frequencies: usize,
    /// The checksum of all frequencies: every worker draws them again, with the logarithms and cosines of its C library.
    pub(super) drawn: Option<u64>,
    /// What is subtracted from rows before sums.
    pub(super) centre: Vec<f32>,
    /// The quantum of each column; empty unless moments are accumulated.
    pub(super) quanta: Vec<f64>,
    /// The checksum of the reference that precision and density are computed with.
    pub(super) reference: Option<u64>,
    /// The number of rows in the survey.
    pub(super) surveyed: u64,
    /// Per arm, and then for the reference, the highest priority of a row that the survey sampled: parts of the second pass keep no
    /// other rows. Empty unless sums are over all rows.
    pub(super) cutoffs: Vec<u64>,
    /// For sums over pairs of blocks.
    pub(super) pairs: Option<PairPlan>,
}

/// How sums over pairs of blocks are rounded, and which rows have sums of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PairPlan {
    /// The quantum of each quadratic term.
    pub(super) quanta: Vec<f64>,
    /// The quantum of sums of single rows.
    pub(super) row_quantum: f64,
}

/// The settings of a survey.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SurveySettings {
    /// The seed of the sample and of random features.
    pub seed: u64,
    /// The number of rows per arm that are sampled.
    pub sample: usize,
    /// The number of rows of the smallest arm, if known: parts of the data then keep few rows each.
    pub expected_rows: Option<u64>,
    /// The names of the scores that every row has.
    pub scores: Vec<String>,
}

impl Default for SurveySettings {
    fn default() -> Self {
        Self { seed: 0, sample: DEFAULT_SAMPLE, expected_rows: None, scores: Vec::new() }
    }
}

setters!(SurveySettings {
    /// Sets the seed.
    seed: u64,
    /// Sets the number of sampled rows per arm.
    sample: usize,
    /// Sets the number of rows of the smallest arm.
    expected_rows: impl Into<Option<u64>>,
    /// Sets the names of the scores.
    scores: Vec<String>,
});

/// The settings of [`Accumulator::plan`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PlanSettings {
    /// What is done with the rows; chosen if `None`.
    pub method: Option<Method>,
    /// The number of random Fourier features per kernel; chosen by `error` if `None`.
    pub features: Option<usize>,
    /// The standard error of the gain that random features or sampling may cause.
    pub error: Option<f64>,
    /// The price per sample of each arm, for the term `cost`.
    pub costs: BTreeMap<String, f64>,
    /// The arms in the order of the result; by name if empty.
    pub arms: Vec<String>,
    /// The whole reference, which precision and density need.
    pub reference: Option<Features>,
    /// The bytes of memory that may be used.
    pub memory: Option<u64>,
    /// The number of threads, for the estimate of the time.
    pub threads: Option<usize>,
}

setters!(PlanSettings {
    /// Sets what is done with the rows.
    method: impl Into<Option<Method>>,
    /// Sets the number of random Fourier features.
    features: impl Into<Option<usize>>,
    /// Sets the standard error of the gain that random features or sampling may cause.
    error: impl Into<Option<f64>>,
    /// Sets the prices.
    costs: BTreeMap<String, f64>,
    /// Sets the order of the arms.
    arms: Vec<String>,
    /// Sets the reference.
    reference: impl Into<Option<Features>>,
    /// Sets the bytes of memory that may be used.
    memory: impl Into<Option<u64>>,
    /// Sets the number of threads.
    threads: impl Into<Option<usize>>,
});

/// A plan with what it costs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The rows of all arms and the reference.
    pub rows: u64,
    /// Whether the rows are read a second time.
    pub needs_second_pass: bool,
    /// The largest size of an accumulator, in bytes.
    pub bytes: u64,
    /// A rough estimate of the processor time of the sums, in seconds.
    pub seconds: f64,
    /// The standard error of the gain that random features or sampling cause, as the sample tells; `None` if the method is exact,
    /// with one arm and random features, or if `fid` or `vendi` are computed from a sample.
    pub gain_error: Option<f64>,
    /// The plan in a sentence.
    pub text: String,
    /// What makes stated errors unreliable.
    pub warnings: Vec<String>,
}

impl Plan {
    pub(super) fn survey(settings: &SurveySettings) -> Self {
        // Twice the share that is needed: the number kept is random, and arms may be larger than the smallest.
        let share = settings.expected_rows.map_or(1.0, |rows| 2.0 * settings.sample as f64 / rows.max(1) as f64);
        let highest = if share >= 0.5 { u64::MAX } else { (share * u64::MAX as f64) as u64 };
        Self {
            method: Method::Survey,
            objective: None,
            seed: settings.seed,
            sample: settings.sample.max(2),
            highest,
            scores: settings.scores.clone(),
            width: None,
            arms: Vec::new(),
            costs: BTreeMap::new(),
            frequencies: 0,
            drawn: None,
            centre: Vec::new(),
            quanta: Vec::new(),
            reference: None,
            surveyed: 0,
            cutoffs: Vec::new(),
            pairs: None,
        }
    }

    /// What is done with the rows.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The objective, with its bandwidths; `None` for a survey.
    pub fn objective(&self) -> Option<&str> {
        self.objective.as_deref()
    }

    /// The number of random Fourier features per kernel; 0 without them.
    pub fn features(&self) -> usize {
        2 * self.frequencies
    }

    /// The seed of the sample and of random features.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of rows in the survey that it was made from: sums of fewer rows may miss a part.
    pub fn surveyed_rows(&self) -> u64 {
        self.surveyed
    }

    /// Whether an accumulator of this plan needs the whole reference, for precision or density.
    pub fn needs_whole_reference(&self) -> bool {
        self.reference.is_some()
    }

    /// The highest priority of a sampled row of an arm, or of the reference if it is `None`.
    pub(super) fn highest_of(&self, arm: Option<&str>) -> u64 {
        let side = match arm {
            Some(arm) => self.arms.iter().position(|known| known == arm),
            None => Some(self.arms.len()),
        };
        side.and_then(|side| self.cutoffs.get(side)).map_or(self.highest, |&cutoff| cutoff)
    }

    /// Checks that rows of an arm were surveyed: otherwise its name is a mistake.
    pub(super) fn check_arm(&self, arm: &str) -> Result<()> {
        if !self.method.sums_all_rows() || self.arms.iter().any(|known| known == arm) {
            return Ok(());
        }
        let known = format!("one of those that were surveyed: {}", self.arms.join(", "));
        Err(Error::setting("the arm", arm, known))
    }

    /// The number of sampled rows per arm.
    pub fn sample(&self) -> usize {
        self.sample
    }

    /// The largest size of an accumulator of this plan, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes_of((self.arms.len() + 1) * self.sample)
    }

    /// The same with this number of sampled rows.
    pub(super) fn bytes_of(&self, held: usize) -> u64 {
        let (arms, width) = (self.arms.len() + 1, self.width.unwrap_or(1));
        let gaussians = self.terms_that(|measure| gaussian(measure).is_some());
        let pair_bytes = match self.method {
            // One sum toward every side per sampled row, and the sums of all rows per kernel.
            Method::Pairs => {
                let kernels = self.terms_that(Measure::is_quadratic);
                arms * self.sample * (16 * arms + 16) + kernels * arms * (arms + 3) * 8
            }
            _ => 0,
        };
        let bytes = held * (4 * width + 8 * (self.scores.len() + 4))
            + arms * gaussians * self.frequencies * 16
            + arms * self.matrices() * width * (width + 3) * 8
            + pair_bytes;
        bytes as u64
    }

    /// The number of moment matrices per arm.
    pub(super) fn matrices(&self) -> usize {
        let vendi = self.terms_that(|measure| matches!(measure, Measure::Vendi { .. })).min(1);
        usize::from(!self.quanta.is_empty()) + if self.method.sums_all_rows() { vendi } else { 0 }
    }

    fn terms_that(&self, holds: impl Fn(&Measure) -> bool) -> usize {
        let objective = self.parsed().ok().flatten();
        objective.map_or(0, |objective| objective.terms().iter().filter(|term| holds(&term.measure)).count())
    }

    pub(super) fn parsed(&self) -> Result<Option<Objective>> {
        self.objective.as_deref().map(Objective::parse).transpose()
    }

    /// The costs of the arms, in their order.
    pub(super) fn costs_of(&self, arms: &[String]) -> Result<Vec<f64>> {
        let known = self.costs.iter().filter(|(arm, _)| arms.contains(arm)).map(|(arm, cost)| (arm.clone(), *cost));
        by_arm("cost", arms, known, None)
    }
}

/// The kernel of a quadratic term as a Gaussian with this bandwidth: squared for RKE. `None` for other terms and kernels.
pub(super) fn gaussian(measure: &Measure) -> Option<f64> {
    let spec = measure.quadratic_kernel()?;
    let KernelSpec::Gaussian { bandwidth: Bandwidth::Fixed(bandwidth) } = spec else { return None };
    let kernel = Kernel::Gaussian { bandwidth };
    let kernel = if matches!(measure, Measure::Rke { .. }) { kernel.squared() } else { kernel };
    match kernel {
        Kernel::Gaussian { bandwidth } => Some(bandwidth),
        _ => None,
    }
}

/// Whether [`PlanSettings::reference`] is needed: for precision and density, whose balls are those of the whole reference.
pub fn needs_whole_reference(objective: &Objective) -> bool {
    objective.terms().iter().any(|term| needs_balls(&term.measure))
}

/// Whether the term is computed from the reference's balls.
pub(super) fn needs_balls(measure: &Measure) -> bool {
    matches!(measure, Measure::Precision { .. } | Measure::Density { .. })
}
