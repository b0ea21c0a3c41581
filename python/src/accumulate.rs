//! Accumulators: sums over parts of the rows that merge, and the shards of files that they read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use modelmix::accumulate::{Accumulator as Sums, Block, Method, Plan, PlanSettings, SurveySettings};
use modelmix::document::{Document, Provenance};
use modelmix::internals::arms::by_arm;
use modelmix::load::{self, ArmSource, Shard, ShardColumns};
use modelmix::mixture::SolveSettings;
use modelmix::session::Scores;
use modelmix::simplex::Bounds;
use modelmix::{Error, Features, Objective};
use numpy::PyArray2;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::Value;

use crate::arrays::{Use, array, features};
use crate::documents::dictionary;
use crate::engine::Compute;
use crate::errors::to_exception;
use crate::work::{Progress, run, run_short};

/// An accumulator behind a lock, so that any Python thread can use it. A thread that waits for the lock releases the interpreter.
#[pyclass(frozen)]
pub(crate) struct Accumulator {
    inner: Arc<Mutex<Sums>>,
}

/// Settings of a plan, passed by the package as an object with these attributes.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    method: Option<String>,
    random_features: Option<usize>,
    error: Option<f64>,
    costs: BTreeMap<String, f64>,
    arms: Vec<String>,
    memory: Option<u64>,
    threads: Option<usize>,
}

/// A plan with what it costs, which the package reads by these names.
#[derive(IntoPyObject)]
pub(crate) struct Planned<'py> {
    data: Bound<'py, PyBytes>,
    method: String,
    objective: Option<String>,
    random_features: usize,
    rows: u64,
    bytes: u64,
    seconds: f64,
    gain_error: Option<f64>,
    needs_second_pass: bool,
    text: String,
    warnings: Vec<String>,
}

fn locked(inner: &Mutex<Sums>) -> MutexGuard<'_, Sums> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

fn around(sums: Sums) -> Accumulator {
    Accumulator { inner: Arc::new(Mutex::new(sums)) }
}

/// The name of a method, which the package has checked.
fn method_of(name: &str) -> PyResult<Method> {
    serde_json::from_value(Value::from(name)).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

fn method_name(method: Method) -> String {
    serde_json::to_value(method).ok().and_then(|name| Some(name.as_str()?.to_string())).unwrap_or_default()
}

/// The name of a block, and rows of each of its arms; of the reference if the arm is `None`.
type NamedRows<'py> = (String, Vec<(Option<String>, Bound<'py, PyAny>)>);

/// A block that views the arrays.
fn block_of((name, parts): NamedRows<'_>) -> PyResult<Block> {
    let mut block = Block::new(&name);
    for (arm, array) in parts {
        let what = arm.as_ref().map_or_else(|| "the reference".to_string(), |arm| format!("arm {arm}"));
        let rows = features(&format!("block {name}, {what}"), &array, Use::Call)?;
        block = match arm {
            Some(arm) => block.arm(arm, rows),
            None => block.reference(rows),
        };
    }
    Ok(block)
}

/// A reference in memory of our own: an accumulator keeps it.
fn kept(reference: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Features>> {
    reference.map(|array| features("the reference", array, Use::Keep)).transpose()
}

#[pymethods]
impl Accumulator {
    /// An empty survey.
    #[staticmethod]
    fn survey(seed: u64, sample: usize, expected_rows: Option<u64>, scores: Vec<String>) -> Self {
        let settings = SurveySettings::default().seed(seed).sample(sample).expected_rows(expected_rows).scores(scores);
        around(Sums::survey(&settings))
    }

    /// An empty accumulator of a plan.
    #[staticmethod]
    fn planned(py: Python<'_>, plan: &[u8], reference: Option<Bound<'_, PyAny>>, compute: Compute) -> PyResult<Self> {
        let plan = Plan::from_bytes(plan).map_err(to_exception)?;
        let reference = kept(reference.as_ref())?;
        let engine = compute.choose(py, [])?.engine(&Progress::new(None));
        run_short(py, || Sums::with_engine(&plan, reference, engine)).map(around)
    }

    /// Reads an accumulator from its bytes.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8], reference: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let reference = kept(reference.as_ref())?;
        run_short(py, || Sums::from_bytes(bytes, reference)).map(around)
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &run_short(py, || Ok(locked(&self.inner).to_bytes()))?))
    }

    /// An empty accumulator of the same plan.
    fn empty(&self, py: Python<'_>) -> PyResult<Self> {
        run_short(py, || Ok(around(locked(&self.inner).empty())))
    }

    /// Adds rows of an arm, or of the reference if it is `None`.
    fn update(&self, py: Python<'_>, arm: Option<&str>, array: &Bound<'_, PyAny>, scores: Scores) -> PyResult<()> {
        let origin = arm.map_or_else(|| "the reference".to_string(), |arm| format!("arm {arm}"));
        let rows = features(&origin, array, Use::Call)?;
        run_short(py, || {
            let mut sums = locked(&self.inner);
            let added = match arm {
                Some(arm) => sums.update(arm, rows.view(), &scores),
                None => sums.update_reference(rows.view()),
            };
            added.map_err(|error| error.of(origin))
        })
    }

    /// Adds the pairs of rows of two blocks, or those within a block if there is no second one.
    fn update_pairs(&self, py: Python<'_>, first: NamedRows<'_>, second: Option<NamedRows<'_>>) -> PyResult<()> {
        let (first, second) = (block_of(first)?, second.map(block_of).transpose()?);
        let sums = Arc::clone(&self.inner);
        run(py, &Progress::new(None), move || locked(&sums).update_pairs(&first, second.as_ref().unwrap_or(&first)))
    }

    /// Whether the pairs of rows of two blocks are included.
    fn has_pair(&self, first: &str, second: &str) -> bool {
        locked(&self.inner).has_pair(first, second)
    }

    /// Adds a shard completely or not at all.
    fn update_shard(&self, py: Python<'_>, shards: &Shards, index: usize) -> PyResult<()> {
        let shard = shards.at(index)?;
        run_short(py, || {
            let mut part = locked(&self.inner).empty();
            let read = shard.read(|batch| part.update(batch.arm, batch.rows, &batch.scores));
            read.map_err(|error| match &error {
                Error::Width { origin, .. } if origin == "features" => error.of(shard.name()),
                _ => error,
            })?;
            part.finish_shard(shard.name(), shard.rows())?;
            locked(&self.inner).merge(&part)
        })
    }

    /// States that a shard is completely included.
    fn finish_shard(&self, name: &str, rows: u64) -> PyResult<()> {
        locked(&self.inner).finish_shard(name, rows).map_err(to_exception)
    }

    /// Adds the sums of another accumulator.
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        run_short(py, || {
            // A copy, because two threads might merge two accumulators into each other.
            let other = locked(&other.inner).clone();
            locked(&self.inner).merge(&other)
        })
    }

    /// Adds the sums of another accumulator from its bytes.
    fn merge_bytes(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        run_short(py, || {
            let mut sums = locked(&self.inner);
            let other = sums.like_from_bytes(bytes)?;
            sums.merge(&other)
        })
    }

    /// The rows of each arm, in the order of the result.
    fn counts(&self) -> Vec<(String, u64)> {
        let sums = locked(&self.inner);
        let counts = sums.counts();
        sums.arms().into_iter().map(|arm| (arm.clone(), counts[&arm])).collect()
    }

    fn reference_count(&self) -> u64 {
        locked(&self.inner).reference_count()
    }

    fn shards(&self) -> BTreeMap<String, u64> {
        locked(&self.inner).shards().clone()
    }

    fn width(&self) -> Option<usize> {
        locked(&self.inner).width()
    }

    /// What is done with the rows, and the objective unless it is a survey.
    fn current_plan(&self) -> (String, Option<String>) {
        let sums = locked(&self.inner);
        let plan = sums.current_plan();
        (method_name(plan.method()), plan.objective().map(str::to_string))
    }

    /// Plans the sums for an objective: `mmd` with a reference and `rke` without one if it is `None`. `reference` is the whole
    /// reference.
    fn plan<'py>(
        &self,
        py: Python<'py>,
        objective: Option<&str>,
        reference: Option<Bound<'py, PyAny>>,
        settings: Settings,
    ) -> PyResult<Planned<'py>> {
        let objective = match objective {
            Some(text) => Objective::parse(text).map_err(to_exception)?,
            None => Objective::usual(locked(&self.inner).reference_count() > 0),
        };
        let reference = reference.map(|array| features("the reference", &array, Use::Keep)).transpose()?;
        let settings = PlanSettings::default()
            .method(settings.method.as_deref().map(method_of).transpose()?)
            .features(settings.random_features)
            .error(settings.error)
            .costs(settings.costs)
            .arms(settings.arms)
            .reference(reference)
            .memory(settings.memory)
            .threads(settings.threads);
        let sums = Arc::clone(&self.inner);
        let planned = run(py, &Progress::new(None), move || locked(&sums).plan(&objective, &settings))?;
        Ok(Planned {
            data: PyBytes::new(py, &planned.plan.to_bytes()),
            method: method_name(planned.plan.method()),
            objective: planned.plan.objective().map(str::to_string),
            random_features: planned.plan.features(),
            rows: planned.rows,
            bytes: planned.bytes,
            seconds: planned.seconds,
            gain_error: planned.gain_error,
            needs_second_pass: planned.needs_second_pass,
            text: planned.text,
            warnings: planned.warnings,
        })
    }

    /// The rows of a survey with a plan that needs no second pass.
    fn with_plan(&self, py: Python<'_>, plan: &[u8], reference: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let plan = Plan::from_bytes(plan).map_err(to_exception)?;
        let reference = kept(reference.as_ref())?;
        run_short(py, || locked(&self.inner).with_plan(&plan, reference)).map(around)
    }

    /// Returns the document of `solve`, its headline and its statement of certainty.
    fn solve<'py>(
        &self,
        py: Python<'py>,
        floor: BTreeMap<String, f64>,
        cap: BTreeMap<String, f64>,
        intervals: bool,
    ) -> PyResult<(Bound<'py, PyDict>, String, Option<String>)> {
        let mut settings = SolveSettings::new().intervals(intervals);
        if !floor.is_empty() || !cap.is_empty() {
            let names = locked(&self.inner).arms();
            let floors = by_arm("floor", &names, floor, Some(0.0)).map_err(to_exception)?;
            let caps = by_arm("cap", &names, cap, Some(1.0)).map_err(to_exception)?;
            settings = settings.bounds(Bounds::by_arm(&names, floors, caps).map_err(to_exception)?);
        }
        let sums = Arc::clone(&self.inner);
        let document = run(py, &Progress::new(None), move || {
            let sums = locked(&sums);
            let mut document = sums.solve_with(&settings)?;
            let mut provenance = Provenance::new();
            let plan: Option<Value> = serde_json::from_slice(&sums.current_plan().to_bytes()).ok();
            provenance.seed = plan.and_then(|plan| plan.get("seed")?.as_u64());
            document.provenance = Some(provenance);
            Ok(document)
        })?;
        let headline = document.headline();
        Ok((dictionary(py, &Document::Solve(document))?, headline.answer, headline.certainty))
    }

    /// A warning if the number of rows is not that of the survey.
    fn warnings(&self) -> Vec<String> {
        locked(&self.inner).warnings()
    }

    /// The score of every term, for each arm.
    #[allow(clippy::type_complexity)]
    fn scores(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<(String, f64)>)>> {
        let sums = Arc::clone(&self.inner);
        let scores = run(py, &Progress::new(None), move || locked(&sums).scores())?;
        let terms =
            |terms: Vec<modelmix::mixture::TermValue>| terms.into_iter().map(|term| (term.term, term.score)).collect();
        Ok(scores.into_iter().map(|(arm, values)| (arm, terms(values))).collect())
    }
}

/// The shards of files: their row groups, or ranges of rows of their arrays.
#[pyclass(frozen)]
pub(crate) struct Shards {
    shards: Vec<Shard>,
}

impl Shards {
    fn at(&self, index: usize) -> PyResult<&Shard> {
        let count = self.shards.len();
        self.shards
            .get(index)
            .ok_or_else(|| pyo3::exceptions::PyIndexError::new_err(format!("there are {count} shards, and no {index}")))
    }
}

#[pymethods]
impl Shards {
    /// The shards of sources, each written `[name=]path[:key]`; only headers are read.
    #[staticmethod]
    fn find(
        py: Python<'_>,
        sources: Vec<String>,
        features: Option<String>,
        arm: Option<String>,
        scores: Vec<String>,
    ) -> PyResult<Self> {
        let parsed = sources.iter().map(|text| text.parse()).collect::<modelmix::Result<Vec<ArmSource>>>();
        let sources = parsed.map_err(to_exception)?;
        let mut columns = ShardColumns::new().scores(scores);
        columns.features = features;
        columns.arm = arm;
        run(py, &Progress::new(None), move || load::shards(&sources, &columns)).map(|shards| Self { shards })
    }

    fn __len__(&self) -> usize {
        self.shards.len()
    }

    /// Reads a shard: the rows of each of its arms, in order.
    fn read<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Vec<(String, Bound<'py, PyArray2<f32>>)>> {
        let shard = self.at(index)?;
        let found = run_short(py, || {
            let (mut arms, mut width) = (BTreeMap::<String, Vec<f32>>::new(), 0);
            shard.read(|batch| {
                width = batch.rows.width();
                arms.entry(batch.arm.to_string()).or_default().extend_from_slice(batch.rows.values());
                Ok(())
            })?;
            let whole = |(arm, values)| Ok((arm, Features::new(width, values)?));
            arms.into_iter().map(whole).collect::<modelmix::Result<Vec<_>>>()
        })?;
        found.into_iter().map(|(arm, rows)| Ok((arm, array(py, rows)?))).collect()
    }

    /// Reads all rows, to find what is wrong with them.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        run_short(py, || self.shards.iter().try_for_each(|shard| shard.read(|_| Ok(()))))
    }

    /// Of each shard: its file, its array or column if the source named it, its arm and its rows.
    fn parts(&self) -> Vec<(PathBuf, Option<String>, Option<String>, u64)> {
        let one = |shard: &Shard| {
            let (key, arm) = (shard.key().map(str::to_string), shard.arm().map(str::to_string));
            (shard.path().to_path_buf(), key, arm, shard.rows())
        };
        self.shards.iter().map(one).collect()
    }
}
