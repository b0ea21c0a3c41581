//! Live sessions.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use modelmix::loss::Scores;
use modelmix::session::{Cap, Retention, Snapshot, Storage};
use modelmix::{Error, PolicySpec, Pull, Ranges, SessionSettings, Until, Values};
use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{self, Use, features};
use crate::documents::dictionary;
use crate::errors::raised;
use crate::objective::Problem;
use crate::work::{Progress, briefly, run};

/// A session and the lock that lets any thread of Python's use it.
#[pyclass(frozen)]
pub(crate) struct Session {
    inner: Mutex<modelmix::Session>,
}

/// How a session is run, as the package hands it over: an object with these attributes.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    policy: Option<String>,
    seed: u64,
    batch: usize,
    rounds: Option<usize>,
    storage: String,
    select: String,
    until: Option<Stop>,
    hold: Option<usize>,
    feature_error: Option<f64>,
    forget: Option<String>,
    alarm: Option<f64>,
}

/// When a session may stop, as the package hands it over.
#[derive(FromPyObject)]
pub(crate) struct Stop {
    gap: String,
    confidence: f64,
    of: String,
}

impl Stop {
    pub(crate) fn read(&self) -> PyResult<Until> {
        let gap = self.gap.parse().map_err(raised)?;
        Ok(Until { gap, confidence: self.confidence, of: self.of.parse().map_err(raised)? })
    }
}

impl Settings {
    fn read(&self) -> PyResult<SessionSettings> {
        let storage = match self.storage.as_str() {
            "single" => Storage::Single,
            "half" => Storage::Half,
            other => {
                return Err(raised(Error::Setting {
                    what: "storage".into(),
                    value: format!("\"{other}\""),
                    must: "single or half".into(),
                }));
            }
        };
        let policy = match &self.policy {
            Some(text) => PolicySpec::parse(text).map_err(raised)?,
            None => PolicySpec::default(),
        };
        let until = self.until.as_ref().map(Stop::read).transpose()?;
        let retention = retention(self.hold, self.feature_error, self.forget.as_deref())?;
        let select = self.select.parse().map_err(raised)?;
        let Self { seed, batch, rounds, alarm, .. } = *self;
        Ok(SessionSettings { policy, seed, batch, rounds, storage, select, until, retention, alarm })
    }
}

/// Which samples count, and how many are held; what is none is as the library has it.
pub(crate) fn retention(hold: Option<usize>, error: Option<f64>, forget: Option<&str>) -> PyResult<Retention> {
    let usual = Cap::default();
    let cap = (hold.is_some() || error.is_some())
        .then(|| Cap { hold: hold.unwrap_or(usual.hold), error: error.unwrap_or(usual.error) });
    let forget = forget.map_or(Ok(Retention::All), str::parse).map_err(raised)?;
    forget.with_cap(cap).map_err(raised)
}

/// id, index of the arm, its name, samples asked for.
type Asked = (u64, usize, String, usize);

fn asked(pull: Pull) -> Asked {
    (pull.id, pull.index, pull.arm, pull.count)
}

impl Session {
    fn new(inner: modelmix::Session) -> Self {
        Self { inner: Mutex::new(inner) }
    }

    /// A panic inside leaves no half-told sample behind: answers are checked before anything is written.
    fn lock(&self) -> MutexGuard<'_, modelmix::Session> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Session {
    /// A session over features.
    #[staticmethod]
    fn over_features(py: Python<'_>, arms: Vec<String>, problem: Problem<'_>, settings: Settings) -> PyResult<Self> {
        let prepared = problem.prepared(&arms, Use::Keep)?;
        let settings = settings.read()?;
        let progress = Progress::new(None);
        let engine = progress.engine(prepared.threads);
        let inner = run(py, &progress, move || modelmix::Session::new(arms, prepared.loss(None, &engine)?, &settings))?;
        Ok(Self::new(inner))
    }

    /// A session over values of the caller's; ranges of κ and f where the policy needs them.
    #[staticmethod]
    fn over_values(arms: Vec<String>, ranges: Option<((f64, f64), (f64, f64))>, settings: Settings) -> PyResult<Self> {
        let ranges = ranges.map(|(kappa, linear)| Ranges { kappa, linear });
        Ok(Self::new(modelmix::Session::on_values(arms, ranges, &settings.read()?).map_err(raised)?))
    }

    /// The session that a snapshot was taken of; `problem` is none for one over values.
    #[staticmethod]
    fn restore(py: Python<'_>, snapshot: String, problem: Option<Problem<'_>>) -> PyResult<Self> {
        let snapshot: Snapshot = Snapshot::from_json(&snapshot).map_err(raised)?;
        let prepared = problem.map(|problem| problem.prepared(snapshot.arms(), Use::Keep)).transpose()?;
        let progress = Progress::new(None);
        let engine = progress.engine(prepared.as_ref().and_then(|prepared| prepared.threads));
        let inner = run(py, &progress, move || {
            let loss = prepared.map(|prepared| prepared.loss(None, &engine)).transpose()?;
            modelmix::Session::restore(snapshot, loss)
        })?;
        Ok(Self::new(inner))
    }

    /// All of the session but its objective.
    fn snapshot(&self, py: Python<'_>) -> PyResult<String> {
        briefly(py, || {
            let snapshot = self.lock().snapshot();
            snapshot.to_json()
        })
    }

    fn ask(&self, py: Python<'_>) -> PyResult<Asked> {
        briefly(py, || self.lock().ask()).map(asked)
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
        briefly(py, move || self.lock().tell_scored(pull, &features, &scores))
    }

    /// Whether it may stop.
    fn is_done(&self) -> bool {
        self.lock().is_done()
    }

    /// Samples as numbers: κ against every earlier sample, κ against itself, f.
    fn tell_values(&self, py: Python<'_>, pull: u64, samples: Vec<(Vec<f64>, f64, f64)>) -> PyResult<()> {
        briefly(py, || {
            let values: Vec<Values<'_>> =
                samples.iter().map(|(kappa, own, linear)| Values { kappa, own: *own, linear: *linear }).collect();
            self.lock().tell_values(pull, &values)
        })
    }

    fn abandon(&self, py: Python<'_>, pull: u64) -> PyResult<()> {
        briefly(py, || self.lock().abandon(pull))
    }

    /// Forgets all samples of an arm.
    fn forget(&self, py: Python<'_>, arm: usize) -> PyResult<()> {
        briefly(py, || self.lock().forget(arm))
    }

    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = briefly(py, || self.lock().report_with_bounds())?;
        dictionary(py, &report)
    }

    fn in_flight(&self, py: Python<'_>) -> PyResult<Vec<Asked>> {
        Ok(briefly(py, || Ok(self.lock().in_flight()))?.into_iter().map(asked).collect())
    }

    /// A number that changes with the objective, its kernels, costs and reference.
    fn fingerprint(&self) -> Option<u64> {
        self.lock().fingerprint()
    }

    fn arms(&self) -> Vec<String> {
        self.lock().arms().to_vec()
    }

    /// Whether each sample told is kept, in that order.
    fn kept(&self) -> Vec<bool> {
        self.lock().kept()
    }

    /// The features of the samples held, in the order told.
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f32>>>> {
        briefly(py, || Ok(self.lock().samples()))?.map(|features| arrays::array(py, features)).transpose()
    }
}
