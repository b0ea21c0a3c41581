//! A checked experiment and its run: reads features, solves, scores and simulates, and compares the results with the
//! expectations.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::expected::{Check, Quantity, Requirement};
use crate::arms::{RecordedArm, RecordedArms};
use crate::compute::{Cpu, Engine};
use crate::error::{Error, Result};
use crate::features::Features;
use crate::load::{self, ArmSource};
use crate::loss::{Inputs, Loss};
use crate::metrics::{Metric, ScoreSettings, Scores, score_watched};
use crate::mixture::{Mixture, solve};
use crate::objective::Objective;
use crate::provenance::Provenance;
use crate::simulate::{Simulation, SimulationReport, simulate};
use crate::text::nearest;

/// An experiment in which everything is valid that can be checked without reading features.
/// [`Experiment::check`](super::Experiment::check) creates it.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) about: String,
    pub(super) arms: Vec<ArmSource>,
    pub(super) reference: Option<ArmSource>,
    pub(super) samples: Option<usize>,
    pub(super) objective: Objective,
    pub(super) costs: Option<Vec<f64>>,
    pub(super) offline: bool,
    pub(super) metrics: Vec<Metric>,
    pub(super) simulation: Option<Simulation>,
    pub(super) expected: Vec<(Quantity, Requirement)>,
}

/// The stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Reading features.
    Reading,
    /// Finding the best mixture.
    Solving,
    /// Scoring an arm, or the mixture after all of them.
    Scoring {
        /// Its index, counted from 0.
        pool: usize,
        /// The number of pools.
        of: usize,
    },
    /// Simulating all policies.
    Simulating {
        /// The number of runs: policies × seeds.
        runs: usize,
    },
}

/// The results of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The name of the experiment.
    pub name: String,
    /// A description of the experiment.
    pub about: String,
    /// The best mixture.
    pub solve: Option<Mixture>,
    /// The scores of the arms and of the mixture.
    pub score: Option<Scores>,
    /// The results of the policies.
    pub simulate: Option<SimulationReport>,
    /// The expectations and the measured values.
    pub checks: Vec<Check>,
    /// Where it comes from: the version, the engine, the seed and the bandwidths.
    #[serde(default)]
    pub provenance: Provenance,
}

impl Outcome {
    /// Whether all expectations hold.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed)
    }
}

/// The results that checks use.
pub(super) struct Results<'a> {
    pub(super) solve: Option<&'a Mixture>,
    pub(super) score: Option<&'a Scores>,
    pub(super) simulate: Option<&'a SimulationReport>,
}

impl Plan {
    /// The name of the experiment.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A description of the experiment.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The file that it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files of the arms, and of the reference if there is one.
    pub fn sources(&self) -> (&[ArmSource], Option<&ArmSource>) {
        (&self.arms, self.reference.as_ref())
    }

    /// The objective, including bandwidths.
    pub fn objective(&self) -> &Objective {
        &self.objective
    }

    /// The simulation.
    pub fn simulation(&self) -> Option<&Simulation> {
        self.simulation.as_ref()
    }

    /// The first missing feature file. [`Plan::run`] fails if there is one.
    pub fn missing(&self) -> Option<&Path> {
        self.arms.iter().chain(&self.reference).map(|source| source.path.as_path()).find(|path| !load::is_there(path))
    }

    /// Reads the features, computes, and compares the results with the expectations. `progress` is called before every
    /// stage. Results do not depend on the number of threads.
    ///
    /// # Errors
    /// If features cannot be read or do not match each other, if an expectation names an arm that does not exist, or if
    /// settings do not match the arms, such as the number of costs.
    pub fn run(&self, threads: usize, progress: &mut dyn FnMut(Stage)) -> Result<Outcome> {
        self.run_on(threads, &mut |_, _| Ok(Cpu::with_threads(threads).into()), progress)
    }

    /// The same on another engine, which `engine` returns for a number of samples, those of the reference included, and their
    /// width.
    ///
    /// # Errors
    /// As [`Plan::run`], and those of `engine`.
    pub fn run_on(
        &self,
        threads: usize,
        engine: &mut dyn FnMut(usize, usize) -> Result<Engine>,
        progress: &mut dyn FnMut(Stage),
    ) -> Result<Outcome> {
        progress(Stage::Reading);
        let (arms, reference) = self.read()?;
        self.check_arms(&arms.names())?;
        let samples = arms.iter().map(|arm| &arm.features).chain(reference.as_ref()).map(Features::len).sum();
        let mut inputs = Inputs::new().arms(&arms).engine(engine(samples, arms.width())?);
        if let Some(reference) = &reference {
            inputs = inputs.reference(reference.clone());
        }
        if let Some(costs) = &self.costs {
            inputs = inputs.costs(costs.clone());
        }
        let loss = self.objective.prepare(inputs).map_err(|error| self.wrap(error))?;
        self.check_policies(&arms, &loss)?;

        let mut mixture = None;
        if self.offline {
            progress(Stage::Solving);
            mixture = Some(solve(&arms, &loss)?);
        }
        let score = match &mixture {
            Some(mixture) if !self.metrics.is_empty() => {
                Some(self.score(&arms, reference.as_ref(), mixture, loss.engine(), progress)?)
            }
            _ => None,
        };
        let mut simulated = None;
        if let Some(simulation) = &self.simulation {
            progress(Stage::Simulating { runs: simulation.policies.len() * simulation.seeds });
            let simulation = Simulation { threads: Some(threads), ..simulation.clone() };
            simulated = Some(simulate(&arms, &loss, &simulation)?);
        }

        let results = Results { solve: mixture.as_ref(), score: score.as_ref(), simulate: simulated.as_ref() };
        let checks = self.expected.iter().map(|(what, required)| Check::of(what, required, &results)).collect();
        let mut provenance = Provenance::new();
        provenance.engine = Some(loss.engine().describe());
        provenance.seed = self.simulation.as_ref().map(|simulation| simulation.seed);
        // Experiments prepare their loss with the seed 0.
        provenance.bandwidths = loss.bandwidths(&arms, 0);
        Ok(Outcome {
            name: self.name.clone(),
            about: self.about.clone(),
            solve: mixture,
            score,
            simulate: simulated,
            checks,
            provenance,
        })
    }

    fn refuse(&self, problem: impl Into<String>) -> Error {
        Error::File { path: self.path.clone(), problem: problem.into() }
    }

    fn wrap(&self, error: Error) -> Error {
        self.refuse(error.to_string())
    }

    fn read(&self) -> Result<(RecordedArms, Option<Features>)> {
        let cut = |features: Features| match self.samples {
            Some(samples) if samples < features.len() => features.select(0..samples),
            _ => Ok(features),
        };
        let mut arms = load::arms(&self.arms)?;
        if self.samples.is_some() {
            let cut = |arm: &RecordedArm| Ok(RecordedArm::new(&arm.name, cut(arm.features.clone())?));
            arms = RecordedArms::new(arms.iter().map(cut).collect::<Result<_>>()?)?;
        }
        let read = |source: &ArmSource| cut(load::features(&source.path, source.key.as_deref())?);
        Ok((arms, self.reference.as_ref().map(read).transpose()?))
    }

    /// Checks that every arm that an expectation names exists.
    pub(super) fn check_arms(&self, names: &[String]) -> Result<()> {
        let others = self.expected.iter().filter_map(|(_, required)| match required {
            Requirement::Below(other) | Requirement::Above(other) => Some(other),
            _ => None,
        });
        let quantities = self.expected.iter().map(|(what, _)| what).chain(others);
        let named = quantities.filter_map(|what| Some((what.to_string(), what.arm()?)));
        let best = self.expected.iter().filter_map(|(what, required)| match required {
            Requirement::Is(name) => Some((what.to_string(), name.as_str())),
            _ => None,
        });
        for (what, arm) in named.chain(best) {
            if !names.iter().any(|name| name == arm) {
                let known: Vec<&str> = names.iter().map(String::as_str).collect();
                let hint = nearest(arm, &known).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
                return Err(self.refuse(format!(
                    "\"{what}\" is expected, but there is no arm {arm}{hint}; the arms are {}",
                    known.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Checks that every policy can run with these arms, before anything is computed.
    fn check_policies(&self, arms: &RecordedArms, loss: &Loss) -> Result<()> {
        let uniform = vec![1.0 / arms.len() as f64; arms.len()];
        for policy in self.simulation.iter().flat_map(|simulation| &simulation.policies) {
            policy
                .build(arms.len(), &loss.ranges(), Some(1), Some((&uniform, 0)))
                .map_err(|error| self.refuse(format!("{policy}: {error}")))?;
        }
        Ok(())
    }

    fn score(
        &self,
        arms: &RecordedArms,
        reference: Option<&Features>,
        mixture: &Mixture,
        engine: &Engine,
        progress: &mut dyn FnMut(Stage),
    ) -> Result<Scores> {
        let kernel = self.objective.terms().iter().find_map(|term| *term.measure.kernel()?).unwrap_or_default();
        let settings = ScoreSettings { metrics: self.metrics.clone(), kernel, ..ScoreSettings::default() };
        let (of, at) = (arms.len() + 1, Cell::new(0));
        let progress = RefCell::new(progress);
        let done = || {
            let pool = at.replace(at.get() + 1);
            if pool < of {
                progress.borrow_mut()(Stage::Scoring { pool, of });
            }
        };
        score_watched(arms, reference, &settings, Some(&mixture.weights()), engine, &done)
            .map_err(|error| self.wrap(error))
    }
}
