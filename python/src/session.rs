//! Online sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use modelmix::session::{KnownAs, Retention, Scores, Snapshot, Storage};
use modelmix::{Error, Gap, PolicySpec, Pull, Ranges, SessionSettings, Until, Values};
use numpy::PyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{self, Use, features};
use crate::documents::dictionary;
use crate::errors::to_exception;
use crate::objective::Problem;
use crate::work::{Progress, run, run_short};

/// A session behind a lock, so that any Python thread can use it. A thread that waits for the lock releases the interpreter.
#[pyclass(frozen)]
pub(crate) struct Session {
    inner: Arc<Mutex<modelmix::Session>>,
    /// The names of the arms, which never change.
    arms: Vec<String>,
}

/// Settings of a session, passed by the package as an object with these attributes.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    policy: Option<String>,
    seed: u64,
    batch: usize,
    rounds: Option<usize>,
    storage: String,
    select: String,
    until: Option<Stop>,
    retention: Option<String>,
    alarm: Option<f64>,
}

/// The condition for early stopping, passed by the package: a tolerance as a share of the gain or as a loss.
#[derive(FromPyObject)]
pub(crate) struct Stop {
    gain: Option<f64>,
    loss: Option<f64>,
    confidence: f64,
    of: String,
}

impl Stop {
    pub(crate) fn read(&self) -> PyResult<Until> {
        let gap = match (self.gain, self.loss) {
            (Some(gain), None) => Gap::Share(gain),
            (None, Some(loss)) => Gap::Loss(loss),
            _ => return Err(refused("until", "incomplete", "either a share of the gain or a loss")),
        };
        Ok(Until::new(gap).confidence(self.confidence).of(self.of.parse().map_err(to_exception)?))
    }
}

/// Parses a tolerance: a share of the gain, such as `5%`, or a loss.
///
/// # Errors
/// If the text is neither.
#[pyfunction]
pub(crate) fn until(text: &str) -> PyResult<(Option<f64>, Option<f64>)> {
    match text.parse().map_err(to_exception)? {
        Gap::Share(gain) => Ok((Some(gain), None)),
        Gap::Loss(loss) => Ok((None, Some(loss))),
        other => Err(to_exception(Error::Setting {
            what: "until".into(),
            value: other.to_string(),
            must: "a share of the gain, such as 5%, or a loss, such as 0.001".into(),
        })),
    }
}

impl Settings {
    fn read(&self) -> PyResult<SessionSettings> {
        let storage = match self.storage.as_str() {
            "single" => Storage::Single,
            "half" => Storage::Half,
            other => return Err(refused("storage", &format!("\"{other}\""), "single or half")),
        };
        let policy = match &self.policy {
            Some(text) => PolicySpec::parse(text).map_err(to_exception)?,
            None => PolicySpec::default(),
        };
        let until = self.until.as_ref().map(Stop::read).transpose()?;
        let retention = retention(self.retention.as_deref())?;
        let select = self.select.parse().map_err(to_exception)?;
        let Self { seed, batch, rounds, alarm, .. } = *self;
        Ok(SessionSettings::default()
            .policy(policy)
            .seed(seed)
            .batch(batch)
            .rounds(rounds)
            .storage(storage)
            .select(select)
            .until(until)
            .retention(retention)
            .alarm(alarm))
    }
}

/// Parses a retention from JSON; without text, all samples count.
pub(crate) fn retention(text: Option<&str>) -> PyResult<Retention> {
    let read = |text: &str| {
        let must = "one of the library's retentions";
        serde_json::from_str(text).map_err(|error| refused("retention", &format!("{text} ({error})"), must))
    };
    text.map_or(Ok(Retention::All), read)
}

fn refused(what: &str, value: &str, must: &str) -> PyErr {
    to_exception(Error::Setting { what: what.into(), value: value.into(), must: must.into() })
}

/// Id, index of the arm, name of the arm, number of samples requested.
pub(crate) type Asked = (u64, usize, String, usize);

pub(crate) fn asked(pull: Pull) -> Asked {
    (pull.id, pull.index, pull.arm, pull.count)
}

impl Session {
    fn new(inner: modelmix::Session) -> Self {
        Self { arms: inner.arms().to_vec(), inner: Arc::new(Mutex::new(inner)) }
    }

    /// Returns the session, for the journal that records it.
    pub(crate) fn shared(&self) -> Arc<Mutex<modelmix::Session>> {
        Arc::clone(&self.inner)
    }

    fn lock(&self) -> MutexGuard<'_, modelmix::Session> {
        lock(&self.inner)
    }
}

/// Locks a mutex and ignores poisoning: a panic leaves no partial change, since events are applied completely or not at all.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How recorded samples count.
fn known_as(collected: bool) -> KnownAs {
    if collected { KnownAs::Collected } else { KnownAs::Evidence }
}

/// κ with every earlier sample, κ with itself, f.
type Numbers = (Vec<f64>, f64, f64);

fn values(samples: &[Numbers]) -> Vec<Values<'_>> {
    samples.iter().map(|(kappa, own, linear)| Values { kappa, own: *own, linear: *linear }).collect()
}

#[pymethods]
impl Session {
    /// Starts a session on features.
    #[staticmethod]
    fn over_features<'py>(
        py: Python<'py>,
        arms: Vec<String>,
        problem: Problem<'py>,
        settings: Settings,
    ) -> PyResult<Self> {
        let chosen = problem.choose(py, &[])?;
        let prepared = problem.prepared(&arms, Use::Keep, &chosen)?;
        let settings = settings.read()?;
        let progress = Progress::new(None);
        let engine = prepared.engine(&progress);
        let inner =
            run(py, &progress, move || modelmix::Session::new(arms, prepared.session_loss(&engine)?, &settings))?;
        Ok(Self::new(inner))
    }

    /// Starts a session on values of κ and f; with their ranges if the policy needs them.
    #[staticmethod]
    fn over_values(arms: Vec<String>, ranges: Option<((f64, f64), (f64, f64))>, settings: Settings) -> PyResult<Self> {
        let ranges = ranges.map(|(kappa, linear)| Ranges { kappa, linear });
        Ok(Self::new(modelmix::Session::on_values(arms, ranges, &settings.read()?).map_err(to_exception)?))
    }

    /// Restores a session from a snapshot, which `origin` names in messages; `problem` is `None` for a session on values.
    #[staticmethod]
    fn restore<'py>(
        py: Python<'py>,
        snapshot: String,
        origin: String,
        problem: Option<Problem<'py>>,
    ) -> PyResult<Self> {
        let of_origin = |error: Error| match error {
            Error::Snapshot { problem } => PyValueError::new_err(format!("{origin} cannot be restored: {problem}")),
            error => to_exception(error),
        };
        let snapshot: Snapshot = Snapshot::from_json(&snapshot).map_err(&of_origin)?;
        let prepare = |problem: Problem<'py>| {
            let chosen = problem.choose(py, &[])?;
            problem.prepared(snapshot.arms(), Use::Keep, &chosen)
        };
        let prepared = problem.map(prepare).transpose()?;
        let progress = Progress::new(None);
        let engine = prepared.as_ref().map(|prepared| prepared.engine(&progress)).unwrap_or_default();
        let restored = run(py, &progress, move || {
            Ok(match prepared {
                Some(prepared) => modelmix::Session::restore_with(snapshot, prepared.session_loss(&engine)?),
                None => modelmix::Session::restore(snapshot, None),
            })
        })?;
        Ok(Self::new(restored.map_err(of_origin)?))
    }

    /// All of the session but its objective.
    fn snapshot(&self, py: Python<'_>) -> PyResult<String> {
        run_short(py, || {
            let snapshot = self.lock().snapshot();
            snapshot.to_json()
        })
    }

    fn ask(&self, py: Python<'_>) -> PyResult<Asked> {
        run_short(py, || self.lock().ask()).map(asked)
    }

    #[pyo3(signature = (pull, array, scores))]
    fn tell(
        &self,
        py: Python<'_>,
        pull: u64,
        array: &Bound<'_, PyAny>,
        scores: BTreeMap<String, Vec<f64>>,
    ) -> PyResult<()> {
        let features = features(&format!("pull {pull}"), array, Use::Call)?;
        let scores: Scores = scores;
        run_short(py, move || self.lock().tell_scored(pull, &features, &scores))
    }

    /// Whether the session may stop.
    fn is_done(&self, py: Python<'_>) -> PyResult<bool> {
        run_short(py, || Ok(self.lock().is_done()))
    }

    fn tell_values(&self, py: Python<'_>, pull: u64, samples: Vec<Numbers>) -> PyResult<()> {
        run_short(py, || self.lock().tell_values(pull, &values(&samples)))
    }

    /// Adds recorded samples of an arm, which were not asked for.
    fn known(
        &self,
        py: Python<'_>,
        arm: usize,
        array: &Bound<'_, PyAny>,
        scores: BTreeMap<String, Vec<f64>>,
        collected: bool,
    ) -> PyResult<()> {
        let name = self.arms.get(arm).map_or("", String::as_str);
        let features = features(&format!("known samples of arm {name}"), array, Use::Call)?;
        run_short(py, move || self.lock().known(arm, &features, &scores, known_as(collected)))
    }

    fn known_values(&self, py: Python<'_>, arm: usize, samples: Vec<Numbers>, collected: bool) -> PyResult<()> {
        run_short(py, || self.lock().known_values(arm, &values(&samples), known_as(collected)))
    }

    fn abandon(&self, py: Python<'_>, pull: u64) -> PyResult<()> {
        run_short(py, || self.lock().abandon(pull))
    }

    /// Forgets all samples of an arm.
    fn forget(&self, py: Python<'_>, arm: usize) -> PyResult<()> {
        run_short(py, || self.lock().forget(arm))
    }

    /// Returns the report, with or without the two bounds, which take longer to compute.
    fn report<'py>(&self, py: Python<'py>, bounds: bool) -> PyResult<Bound<'py, PyDict>> {
        let report = run_short(py, || {
            let session = self.lock();
            let mut report = if bounds { session.report_with_bounds() } else { session.report() }?;
            report.provenance = Some(session.provenance());
            Ok(report)
        })?;
        dictionary(py, &report)
    }

    /// Returns the number of samples that count, including known ones.
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        run_short(py, || Ok(self.lock().statistics().len()))
    }

    fn in_flight(&self, py: Python<'_>) -> PyResult<Vec<Asked>> {
        Ok(run_short(py, || Ok(self.lock().in_flight()))?.into_iter().map(asked).collect())
    }

    /// Returns a hash of the objective, its kernels, costs and reference.
    fn fingerprint(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        run_short(py, || Ok(self.lock().fingerprint()))
    }

    fn arms(&self) -> Vec<String> {
        self.arms.clone()
    }

    /// Returns whether each sample is kept, in the order told.
    fn kept(&self, py: Python<'_>) -> PyResult<Vec<bool>> {
        run_short(py, || Ok(self.lock().kept()))
    }

    /// Returns the features of the samples held, in the order told.
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f32>>>> {
        run_short(py, || Ok(self.lock().samples()))?.map(|features| arrays::array(py, features)).transpose()
    }
}
