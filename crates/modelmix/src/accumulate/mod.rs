//! Data larger than one machine: an [`Accumulator`] sums what an objective needs over parts of the rows, and accumulators merge.
//!
//! Every sum is a whole number or exact, and the sample of rows is chosen by a hash of their values. So the result has the same
//! bits for any split of the rows, any order, any number of workers and any tree of merges. Two passes: a survey counts and samples
//! rows, [`Accumulator::plan`] decides from it what is summed, and the second pass sums. Exact sums over all pairs are added by pairs
//! of blocks ([`Accumulator::update_pairs`]).

mod bytes;
mod choose;
mod evidence;
mod exact;
mod moments;
mod pair_forms;
mod pairs;
mod plan;
mod sample;
mod solve;
mod stream;
mod survey;
mod terms;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compute::Engine;
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::loss::Scores;
use exact::ExactSum;
use moments::{MomentSums, Rounding};
pub use pairs::Block;
use pairs::PairTotals;
pub use plan::{
    DEFAULT_FEATURES, DEFAULT_SAMPLE, EXACT_ROWS, Method, Plan, PlanSettings, Planned, SurveySettings,
    needs_whole_reference,
};
use sample::RowSample;
pub use stream::{Role, threads_within};
use terms::Terms;

/// Rows whose waves are computed at once: their centred copy stays small.
const ROWS_PER_BLOCK: usize = 1 << 13;

/// Sums over rows of any number of arms and of a reference, that merge to the same bits in any order.
///
/// ```
/// use modelmix::accumulate::{Accumulator, PlanSettings, SurveySettings};
/// use modelmix::{Objective, Rows};
/// let rows: Vec<f32> = (0..600).map(|i| (i as f32 * 0.7).sin()).collect();
/// let shards = [("left", Rows::new(2, &rows[..300])), ("right", Rows::new(2, &rows[300..]))];
/// let scores = Default::default();
///
/// let mut survey = Accumulator::survey(&SurveySettings::default());
/// for (arm, rows) in shards {
///     survey.update(arm, rows, &scores)?;
/// }
/// let planned = survey.plan(&Objective::rke(), &PlanSettings::default())?;
/// let best = survey.with_plan(&planned.plan, None)?.solve()?; // few rows: all are in the survey
/// assert_eq!(best.arms.len(), 2);
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Accumulator {
    plan: Arc<Plan>,
    terms: Arc<Terms>,
    arms: BTreeMap<String, ArmSums>,
    reference: ArmSums,
    pairs: PairTotals,
    /// The rows of each named shard of arms that is included.
    shards: BTreeMap<String, u64>,
    /// The same of the reference.
    reference_shards: BTreeMap<String, u64>,
}

/// Whose rows of the reference count in a merge.
enum SharedReference {
    Own,
    Others,
    Both,
}

/// The sums of one arm.
#[derive(Clone, Debug)]
struct ArmSums {
    count: u64,
    sample: RowSample,
    /// Per Gaussian term, Σcos of all frequencies and then Σsin.
    waves: Vec<Vec<i64>>,
    linear: Vec<ExactSum>,
    moments: Option<MomentSums>,
    directions: Option<MomentSums>,
}

impl ArmSums {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sample.merge(&other.sample);
        for (sums, more) in self.waves.iter_mut().zip(&other.waves) {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        self.linear.iter_mut().zip(&other.linear).for_each(|(sum, more)| sum.merge(more));
        for (own, other) in [(&mut self.moments, &other.moments), (&mut self.directions, &other.directions)] {
            match (own.as_mut(), other) {
                (Some(own), Some(other)) => own.merge(other),
                (None, Some(other)) => *own = Some(other.clone()),
                _ => {}
            }
        }
    }
}

impl Accumulator {
    /// Creates an empty survey: it counts and samples rows, for [`Accumulator::plan`].
    pub fn survey(settings: &SurveySettings) -> Self {
        let plan = Plan::survey(settings);
        let terms = Arc::new(Terms::default());
        let reference = empty(&plan, &terms, None);
        Self {
            plan: Arc::new(plan),
            terms,
            arms: BTreeMap::new(),
            reference,
            pairs: PairTotals::default(),
            shards: BTreeMap::new(),
            reference_shards: BTreeMap::new(),
        }
    }

    /// Creates an empty accumulator for a plan. `reference` is the whole reference, which only precision and density need.
    ///
    /// # Errors
    /// If the plan is damaged, or if the reference is missing or another one.
    pub fn new(plan: &Plan, reference: Option<Features>) -> Result<Self> {
        Self::with_engine(plan, reference, Engine::default())
    }

    /// [`Accumulator::new`] with an engine.
    ///
    /// # Errors
    /// As [`Accumulator::new`].
    pub fn with_engine(plan: &Plan, reference: Option<Features>, engine: Engine) -> Result<Self> {
        let terms = Arc::new(Terms::new(plan, reference, engine)?);
        let empty = empty(plan, &terms, None);
        Ok(Self {
            plan: Arc::new(plan.clone()),
            terms,
            arms: BTreeMap::new(),
            reference: empty,
            pairs: PairTotals::new(plan),
            shards: BTreeMap::new(),
            reference_shards: BTreeMap::new(),
        })
    }

    /// An empty accumulator of the same plan. It shares everything that a plan is prepared with.
    pub fn empty(&self) -> Self {
        Self {
            arms: BTreeMap::new(),
            reference: empty(&self.plan, &self.terms, None),
            pairs: PairTotals::new(&self.plan),
            shards: BTreeMap::new(),
            reference_shards: BTreeMap::new(),
            plan: Arc::clone(&self.plan),
            terms: Arc::clone(&self.terms),
        }
    }

    /// The rows of a survey with a plan that uses nothing but sampled rows: [`Method::Rows`] or [`Method::Sample`].
    ///
    /// # Errors
    /// If the plan needs a second pass; otherwise as [`Accumulator::new`].
    pub fn with_plan(&self, plan: &Plan, reference: Option<Features>) -> Result<Self> {
        if plan.method.sums_all_rows() {
            return Err(Error::setting(
                "the method of the plan",
                plan.method.name(),
                "rows or sample here; read the rows again for its sums",
            ));
        }
        let mut planned = Self::with_engine(plan, reference, self.terms.engine.clone())?;
        planned.arms.clone_from(&self.arms);
        planned.reference = self.reference.clone();
        planned.shards.clone_from(&self.shards);
        planned.reference_shards.clone_from(&self.reference_shards);
        Ok(planned)
    }

    /// Its plan.
    pub fn current_plan(&self) -> &Plan {
        &self.plan
    }

    /// The number of rows of each arm.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.arms.iter().map(|(name, sums)| (name.clone(), sums.count)).collect()
    }

    /// The number of rows whose pairs [`Accumulator::solve`] evaluates.
    pub fn rows_to_solve(&self) -> usize {
        match self.plan.method {
            Method::Rows | Method::Sample => self.parts().map(|part| part.sample.sorted().len()).sum(),
            _ => 0,
        }
    }

    /// The number of rows of all arms and the reference.
    pub fn rows(&self) -> u64 {
        self.parts().map(|part| part.count).sum()
    }

    /// The names of the arms that have rows, in the order of the result.
    pub fn arms(&self) -> Vec<String> {
        self.arm_names_in(&self.plan.arms).unwrap_or_default()
    }

    /// The number of rows of the reference.
    pub fn reference_count(&self) -> u64 {
        self.reference.count
    }

    /// The number of columns, once known.
    pub fn width(&self) -> Option<usize> {
        self.plan.width.or_else(|| self.parts().find_map(|part| Some(part.sample.sorted().first()?.row.len())))
    }

    /// The named shards of arms that are included, with their numbers of rows.
    pub fn shards(&self) -> &BTreeMap<String, u64> {
        &self.shards
    }

    /// The named shards of the reference that are included, with their numbers of rows.
    pub fn reference_shards(&self) -> &BTreeMap<String, u64> {
        &self.reference_shards
    }

    /// Adds rows of an arm, with one value per row of every score of the plan.
    ///
    /// # Errors
    /// If the width is another one, if a value is not finite, if a score is missing, or if the plan does not have the arm; then
    /// nothing is added.
    pub fn update(&mut self, arm: &str, rows: Rows<'_>, scores: &Scores) -> Result<()> {
        self.plan.check_arm(arm)?;
        let part = self.sums_of(rows, Some((arm, scores)))?;
        match self.arms.get_mut(arm) {
            Some(sums) => sums.merge(&part),
            None => drop(self.arms.insert(arm.to_string(), part)),
        }
        self.learn_width(rows.width());
        Ok(())
    }

    /// Adds rows of the reference.
    ///
    /// # Errors
    /// As [`Accumulator::update`].
    pub fn update_reference(&mut self, rows: Rows<'_>) -> Result<()> {
        let part = self.sums_of(rows, None)?;
        self.reference.merge(&part);
        self.learn_width(rows.width());
        Ok(())
    }

    /// States that a shard of this name is completely included, so that it is not merged twice.
    ///
    /// # Errors
    /// If a shard of this name is already included.
    pub fn finish_shard(&mut self, name: &str, rows: u64) -> Result<()> {
        finish(&mut self.shards, name, rows)
    }

    /// States that a shard of the reference is completely included.
    ///
    /// # Errors
    /// If a shard of this name is already included.
    pub fn finish_reference_shard(&mut self, name: &str, rows: u64) -> Result<()> {
        finish(&mut self.reference_shards, name, rows)
    }

    /// Adds the sums of another accumulator. If its reference consists of named shards that are all included, it counts once, so
    /// every task may add the whole reference.
    ///
    /// # Errors
    /// If plans or widths differ, or if a named shard or a pair of blocks is in both; then nothing is added.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        let (own, others) = (self.width(), other.width());
        let plans_fit = if self.plan.method == Method::Survey && other.plan.method == Method::Survey {
            // A survey learns the width from its rows.
            Plan { width: None, ..(*self.plan).clone() } == Plan { width: None, ..(*other.plan).clone() }
        } else {
            self.plan == other.plan
        };
        if !plans_fit {
            return Err(Error::setting(
                "the plan of an accumulator",
                "another one",
                "the same for all accumulators that merge; make them with one plan",
            ));
        }
        if let (Some(expected), Some(found)) = (own, others)
            && expected != found
        {
            return Err(Error::Width { origin: "an accumulator".into(), found, other: "another".into(), expected });
        }
        if let Some(name) = other.shards.keys().find(|name| self.shards.contains_key(*name)) {
            return Err(included_twice(name));
        }
        let reference = self.reference_of(other)?;
        self.pairs.check_apart(&other.pairs)?;
        self.pairs.merge(&other.pairs);
        for (name, sums) in &other.arms {
            match self.arms.get_mut(name) {
                Some(own) => own.merge(sums),
                None => drop(self.arms.insert(name.clone(), sums.clone())),
            }
        }
        match reference {
            SharedReference::Own => {}
            SharedReference::Others => {
                self.reference.clone_from(&other.reference);
                self.reference_shards.clone_from(&other.reference_shards);
            }
            SharedReference::Both => {
                self.reference.merge(&other.reference);
                self.reference_shards.extend(other.reference_shards.clone());
            }
        }
        self.shards.extend(other.shards.clone());
        others.into_iter().for_each(|width| self.learn_width(width));
        Ok(())
    }

    /// Which rows of the reference count if another accumulator is merged. A reference of named shards that is a part of the other
    /// one does not count again.
    fn reference_of(&self, other: &Self) -> Result<SharedReference> {
        let has_all = |one: &Self, of: &Self| {
            let is_named = of.reference_shards.values().sum::<u64>() == of.reference.count;
            is_named && of.reference_shards.keys().all(|name| one.reference_shards.contains_key(name))
        };
        if has_all(self, other) {
            return Ok(SharedReference::Own);
        }
        if has_all(other, self) {
            return Ok(SharedReference::Others);
        }
        match other.reference_shards.keys().find(|name| self.reference_shards.contains_key(*name)) {
            Some(name) => Err(included_twice(name)),
            None => Ok(SharedReference::Both),
        }
    }

    /// A survey takes the width of its first rows.
    fn learn_width(&mut self, width: usize) {
        if self.plan.width.is_none() {
            self.plan = Arc::new(Plan { width: Some(width), ..(*self.plan).clone() });
        }
    }

    /// The sums of some rows; `of` is their arm and scores, `None` for the reference.
    fn sums_of(&self, rows: Rows<'_>, of: Option<(&str, &Scores)>) -> Result<ArmSums> {
        if let Some(expected) = self.plan.width.filter(|&expected| expected != rows.width()) {
            return Err(Error::Width {
                origin: "features".into(),
                found: rows.width(),
                other: "the first rows".into(),
                expected,
            });
        }
        if let Some(at) = crate::features::first_not_finite(rows.values()) {
            let (row, column) = (at / rows.width(), at % rows.width());
            return Err(Error::NotFinite { origin: "features".into(), row, column, value: rows.values()[at].into() });
        }
        let (plan, terms) = (&self.plan, &self.terms);
        let mut sums = empty(plan, terms, of.map(|(arm, _)| arm));
        sums.count = rows.len() as u64;
        let given = of.map(|(_, scores)| terms.scores(plan, rows, scores)).transpose()?.unwrap_or_default();
        let linear = match of {
            Some(_) if plan.method.sums_all_rows() => terms.linear_values(rows, plan, &given)?,
            _ => Vec::new(),
        };
        for (sum, values) in sums.linear.iter_mut().zip(&linear) {
            values.iter().for_each(|&value| sum.add(value));
        }
        let values = |at: usize| given.iter().chain(&linear).map(|values| values[at]).collect();
        sums.sample.extend(plan.seed, rows, values);
        if plan.method.sums_all_rows() {
            let width = rows.width();
            for first in (0..rows.len()).step_by(ROWS_PER_BLOCK) {
                let block = rows.slice(first, (first + ROWS_PER_BLOCK).min(rows.len()));
                for (sums, turns) in sums.waves.iter_mut().zip(terms.waves(plan)?) {
                    let more = terms.engine.wave_sums(block, &plan.centre, Rows::new(width, turns))?;
                    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
                }
            }
            if let Some(moments) = &mut sums.moments {
                moments.add(&terms.engine, rows, &Rounding::Columns { centre: &plan.centre, quanta: &plan.quanta })?;
            }
            if let Some(directions) = sums.directions.as_mut().filter(|_| of.is_some()) {
                directions.add(&terms.engine, rows, &Rounding::Directions)?;
            }
        }
        Ok(sums)
    }

    /// All arms and the reference.
    fn parts(&self) -> impl Iterator<Item = &ArmSums> {
        self.arms.values().chain([&self.reference])
    }

    /// Whether the sample is all rows.
    fn holds_all_rows(&self) -> bool {
        self.parts().all(|part| part.sample.sorted().len() as u64 == part.count)
    }

    /// The arms in the order of the plan, or in this one.
    fn arm_names_in(&self, order: &[String]) -> Result<Vec<String>> {
        if self.arms.is_empty() {
            return Err(Error::missing("a mixture", "rows of at least one arm; the accumulator has none"));
        }
        let mut names: Vec<String> = order.iter().filter(|name| self.arms.contains_key(*name)).cloned().collect();
        names.extend(self.arms.keys().filter(|name| !order.contains(name)).cloned());
        Ok(names)
    }

    /// The sampled rows of an arm.
    fn sampled(&self, arm: &str) -> Result<Features> {
        Features::from_rows(self.arms[arm].sample.sorted().iter().map(|row| &row.row))
            .map_err(|error| error.of(format!("arm {arm}")))
    }

    fn sampled_reference(&self) -> Result<Features> {
        Features::from_rows(self.reference.sample.sorted().iter().map(|row| &row.row))
            .map_err(|error| error.of("the reference"))
    }
}

fn finish(shards: &mut BTreeMap<String, u64>, name: &str, rows: u64) -> Result<()> {
    match shards.insert(name.to_string(), rows) {
        None => Ok(()),
        Some(_) => Err(included_twice(name)),
    }
}

fn included_twice(name: &str) -> Error {
    Error::setting(
        "the shard",
        format!("{name}, which is already included"),
        "included once; leave one of its accumulators out",
    )
}

/// Sums of no rows of an arm, or of the reference if it is `None`.
fn empty(plan: &Plan, terms: &Terms, arm: Option<&str>) -> ArmSums {
    let width = plan.width.unwrap_or(0);
    ArmSums {
        count: 0,
        sample: RowSample::new(plan.sample, plan.highest_of(arm)),
        waves: vec![vec![0; 2 * plan.frequencies]; terms.gaussians.len()],
        linear: terms.linear.iter().map(|_| ExactSum::default()).collect(),
        moments: terms.has_moments.then(|| MomentSums::new(width)),
        directions: terms.has_directions.then(|| MomentSums::new(width)),
    }
}
