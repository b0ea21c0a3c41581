//! Parses the text of an experiment and checks it: every key, type and name.

use std::path::{Path, PathBuf};

use super::Experiment;
use super::expected::{Quantity, Requirement};
use super::plan::Plan;
use super::table::{Source, Table};
use crate::error::{Error, Result};
use crate::load::{self, ArmSource};
use crate::metrics::Metric;
use crate::objective::{Measure, Objective};
use crate::policy::PolicySpec;
use crate::simulate::Simulation;
use crate::text::nearest;

const EXPERIMENT_KEYS: [&str; 13] = [
    "name",
    "about",
    "features",
    "arms",
    "reference",
    "samples",
    "objective",
    "bandwidth",
    "costs",
    "offline",
    "metrics",
    "simulate",
    "expected",
];
const SIMULATE_KEYS: [&str; 8] =
    ["policies", "rounds", "seeds", "seed", "replacement", "batch", "in_flight", "checkpoints"];
const REQUIREMENT_KEYS: [&str; 6] = ["value", "tolerance", "at_most", "at_least", "below", "above"];

impl Experiment {
    /// Reads the file of an experiment.
    ///
    /// # Errors
    /// If the file cannot be read, and as [`Experiment::parse`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::parse(path, &load::text(path)?)
    }

    /// Parses the text of an experiment; `path` is the file that contains it.
    ///
    /// # Errors
    /// One sentence with the file, the line and the fix: if the text is not TOML, if a key is unknown (with the nearest
    /// known one), if a value has the wrong type, if an objective, policy, metric or quantity does not exist, or if a
    /// key is missing.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        let table = Source { path, text }.parse(&EXPERIMENT_KEYS)?;
        let name = table.text("name")?.ok_or_else(|| table.missing("name", "name = \"specialists-mmd\""))?;
        let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        if name.is_empty() || !name.chars().all(plain) {
            let problem = format!("\"{}\" is not a valid name; use letters, digits, - and _", name.escape_debug());
            return Err(table.error("name", problem));
        }
        let objective = table.text("objective")?.ok_or_else(|| table.missing("objective", "objective = \"mmd\""))?;
        let metrics = table.texts("metrics")?.unwrap_or_default();
        Ok(Self {
            path: path.into(),
            name,
            about: table.text("about")?.unwrap_or_default(),
            features: table.text("features")?.map(PathBuf::from).unwrap_or_default(),
            arms: table.texts("arms")?.ok_or_else(|| table.missing("arms", "arms = [\"specialists.npz\"]"))?,
            reference: table.text("reference")?,
            samples: table.count("samples")?,
            objective: Objective::parse(&objective).map_err(|error| table.error("objective", error))?,
            bandwidth: table.number("bandwidth")?,
            costs: table.numbers("costs")?,
            offline: table.truth("offline")?.unwrap_or(true),
            metrics: metrics
                .iter()
                .map(|metric| metric.parse::<Metric>().map_err(|error| table.error("metrics", error)))
                .collect::<Result<_>>()?,
            simulate: table.table("simulate", Some(&SIMULATE_KEYS))?.map(|table| simulation(&table)).transpose()?,
            expected: match table.table("expected", None)? {
                Some(table) => expected(&table)?,
                None => Vec::new(),
            },
        })
    }

    /// Checks everything that can be checked without reading features. `features` is a folder that replaces the one of
    /// the experiment.
    ///
    /// # Errors
    /// One sentence with the file and the fix: if settings are out of range, if the reference or the costs are missing
    /// for a term or a metric, or if an expectation names an arm, policy or metric that the experiment does not have.
    pub fn check(&self, features: Option<&Path>) -> Result<Plan> {
        self.checked(features).map_err(|error| match error {
            error @ Error::File { .. } => error,
            error => self.refuse(error.to_string()),
        })
    }

    fn refuse(&self, problem: impl Into<String>) -> Error {
        Error::File { path: self.path.clone(), problem: problem.into() }
    }

    fn checked(&self, features: Option<&Path>) -> Result<Plan> {
        let own = self.path.parent().unwrap_or(Path::new("")).join(&self.features);
        let folder = features.unwrap_or(&own);
        if self.arms.is_empty() {
            return Err(Error::missing("arms", "at least one file, as in arms = [\"specialists.npz\"]"));
        }
        if self.samples.is_some_and(|samples| samples < 2) {
            return Err(Error::setting("samples", self.samples.unwrap_or(0), "at least 2, or left out for all"));
        }
        let arms = self.arms.iter().map(|arm| ArmSource::within(folder, arm)).collect::<Result<Vec<_>>>()?;
        let reference = self.reference.as_ref().map(|text| ArmSource::within(folder, text)).transpose()?;
        if let Some(ArmSource { name: Some(name), .. }) = &reference {
            return Err(self.refuse(format!("the reference needs no name; leave out {name}=")));
        }
        let plan = Plan {
            name: self.name.clone(),
            path: self.path.clone(),
            about: self.about.clone(),
            arms,
            reference,
            samples: self.samples,
            objective: self.checked_objective()?,
            costs: self.costs.clone(),
            offline: self.offline,
            metrics: self.checked_metrics()?,
            simulation: self.simulate.clone(),
            expected: self.expected.iter().map(|one| self.expectation(one)).collect::<Result<_>>()?,
        };
        if let Some(simulation) = &plan.simulation {
            simulation.check()?;
        }
        if !plan.offline && plan.simulation.is_none() {
            return Err(self.refuse("there is nothing to do; leave out offline = false, or add [simulate]"));
        }
        if let Some(names) = plan.arms.iter().map(ArmSource::known_name).collect::<Option<Vec<_>>>() {
            plan.check_arms(&names)?;
        }
        Ok(plan)
    }

    /// The objective with its bandwidth. Checks that all inputs that it needs are given, and no others.
    fn checked_objective(&self) -> Result<Objective> {
        self.objective.check()?;
        let terms = self.objective.terms();
        for measure in terms.iter().map(|term| &term.measure) {
            match measure {
                Measure::Rke { .. } | Measure::Vendi { .. } => {}
                Measure::Cost if self.costs.is_none() => {
                    return Err(Error::missing("cost", "the cost of a sample of each arm, as in costs = [0.01, 0.04]"));
                }
                Measure::Cost => {}
                Measure::Score { name } => {
                    return Err(Error::missing(
                        format!("the term {name}"),
                        "scores of every sample, which an experiment cannot give; use rke, mmd, kid, fid, vendi, precision, density or cost",
                    ));
                }
                measure if self.reference.is_none() => {
                    return Err(Error::missing(measure.name(), "a reference set, as in reference = \"reference.npy\""));
                }
                _ => {}
            }
        }
        if let Some(term) = terms.iter().find(|term| term.measure.is_smooth() && self.simulate.is_some()) {
            return Err(self.refuse(format!(
                "{} can be optimised offline only, and no policy minimises it; leave out [simulate]",
                term.measure.name()
            )));
        }
        if self.costs.is_some() && !terms.iter().any(|term| term.measure == Measure::Cost) {
            return Err(
                self.refuse("costs are given, but the objective has no term cost; add it, as in mmd + 0.1*cost")
            );
        }
        let Some(bandwidth) = self.bandwidth else { return Ok(self.objective.clone()) };
        if bandwidth <= 0.0 {
            return Err(Error::setting(
                "bandwidth",
                bandwidth,
                "a positive number, or left out for the median distance",
            ));
        }
        let objective = self.objective.clone().with_bandwidth(bandwidth);
        objective.check()?;
        if !terms.iter().any(|term| matches!(term.measure.kernel(), Some(None))) {
            return Err(self
                .refuse(format!("bandwidth is {bandwidth}, but no term of {} uses it; leave it out", self.objective)));
        }
        Ok(objective)
    }

    fn checked_metrics(&self) -> Result<Vec<Metric>> {
        for (index, metric) in self.metrics.iter().enumerate() {
            if self.metrics[..index].contains(metric) {
                return Err(Error::setting(&format!("metric {metric}"), "listed twice", "listed once"));
            }
            if metric.needs_reference() && self.reference.is_none() {
                return Err(Error::missing(metric.name(), "a reference set, as in reference = \"reference.npy\""));
            }
        }
        if !self.metrics.is_empty() && !self.offline {
            return Err(self.refuse("metrics need the best mixture; leave out offline = false"));
        }
        Ok(self.metrics.clone())
    }

    /// An expectation with full policy names. Checks that the experiment measures its quantities.
    fn expectation(&self, (what, requirement): &(Quantity, Requirement)) -> Result<(Quantity, Requirement)> {
        let requirement = match requirement {
            Requirement::Below(other) => Requirement::Below(self.available(other)?),
            Requirement::Above(other) => Requirement::Above(self.available(other)?),
            other => other.clone(),
        };
        Ok((self.available(what)?, requirement))
    }

    fn available(&self, quantity: &Quantity) -> Result<Quantity> {
        let needs = |what: &str| self.refuse(format!("\"{quantity}\" is expected, but {what}"));
        if quantity.is_offline() && !self.offline {
            return Err(needs("nothing is solved; leave out offline = false"));
        }
        if let Quantity::Metric(metric, _) = quantity
            && !self.metrics.contains(metric)
        {
            return Err(needs(&format!("{metric} is not measured; add it to metrics")));
        }
        let mut found = quantity.clone();
        if let Some(policy) = found.policy_mut() {
            let policies = match &self.simulate {
                Some(simulation) => &simulation.policies[..],
                None => return Err(needs("nothing is simulated; add [simulate]")),
            };
            *policy = Self::policy(policies, policy).map_err(|problem| needs(&problem))?.to_string();
        }
        Ok(found)
    }

    /// The policy with this text, or with this name if it is unique.
    fn policy<'a>(policies: &'a [PolicySpec], text: &str) -> Result<&'a PolicySpec, String> {
        if let Some(policy) = policies.iter().find(|policy| policy.to_string() == text) {
            return Ok(policy);
        }
        let named: Vec<&PolicySpec> = policies.iter().filter(|policy| policy.name() == text).collect();
        match named[..] {
            [policy] => return Ok(policy),
            [] => {}
            [first, ..] => return Err(format!("several policies are named {text}; write one in full, as in {first}")),
        }
        let names: Vec<&str> = policies.iter().map(PolicySpec::name).collect();
        let hint = nearest(text, &names).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        Err(format!("the policy {text} is not simulated{hint}; add it to policies"))
    }
}

fn simulation(table: &Table<'_>) -> Result<Simulation> {
    let usual = Simulation::default();
    let policies = table
        .texts("policies")?
        .ok_or_else(|| table.missing("policies", "policies = [\"adaptive\", \"mixture-oracle\"]"))?;
    Ok(Simulation {
        policies: policies
            .iter()
            .map(|policy| policy.parse().map_err(|error| table.error("policies", error)))
            .collect::<Result<_>>()?,
        rounds: table.count("rounds")?.ok_or_else(|| table.missing("rounds", "rounds = 1000"))?,
        seeds: table.count("seeds")?.unwrap_or(usual.seeds),
        seed: table.count("seed")?.map_or(usual.seed, |seed| seed as u64),
        replacement: table.truth("replacement")?.unwrap_or(usual.replacement),
        batch: table.count("batch")?.unwrap_or(usual.batch),
        in_flight: table.count("in_flight")?.unwrap_or(usual.in_flight),
        checkpoints: table.count("checkpoints")?.unwrap_or(usual.checkpoints),
        ..usual
    })
}

/// Every key is a quantity; every value is one requirement or several.
fn expected(table: &Table<'_>) -> Result<Vec<(Quantity, Requirement)>> {
    let mut all = Vec::new();
    for key in table.keys() {
        let quantity: Quantity = key.parse().map_err(|error| table.error(&key, error))?;
        all.extend(requirements(table, &key, &quantity)?.into_iter().map(|one| (quantity.clone(), one)));
    }
    Ok(all)
}

fn requirements(table: &Table<'_>, key: &str, quantity: &Quantity) -> Result<Vec<Requirement>> {
    if let Quantity::BestSingle = quantity {
        return match table.text(key)? {
            Some(name) => Ok(vec![Requirement::Is(name)]),
            None => Err(table.error(key, "the name of an arm is needed")),
        };
    }
    if !table.is_table(key) {
        let is_never =
            matches!(quantity, Quantity::Rounds(..)) && matches!(table.text(key), Ok(Some(text)) if text == "never");
        if is_never {
            return Ok(vec![Requirement::Never]);
        }
        let never = if matches!(quantity, Quantity::Rounds(..)) { ", or \"never\"" } else { "" };
        let problem =
            format!("write the requirement, as in {{ value = 0.3, tolerance = 0.01 }} or {{ at_most = 400 }}{never}");
        return Err(table.error(key, problem));
    }
    let Some(inner) = table.table(key, Some(&REQUIREMENT_KEYS))? else { return Ok(Vec::new()) };
    let of_another = |word: &str| -> Result<Vec<Quantity>> {
        inner
            .text_or_texts(word)?
            .iter()
            .map(|text| match text.parse() {
                Ok(Quantity::BestSingle) => Err(inner.error(word, "best single is a name, but a number is needed")),
                Ok(other) => Ok(other),
                Err(error) => Err(inner.error(word, error)),
            })
            .collect()
    };
    let mut all = Vec::new();
    match (inner.number("value")?, inner.number("tolerance")?) {
        (Some(value), Some(tolerance)) if tolerance >= 0.0 => all.push(Requirement::Near { value, tolerance }),
        (Some(_), Some(_)) => return Err(inner.error("tolerance", "it must be zero or more")),
        (None, None) => {}
        _ => return Err(table.error(key, "value and tolerance are needed together")),
    }
    all.extend(inner.number("at_most")?.map(Requirement::AtMost));
    all.extend(inner.number("at_least")?.map(Requirement::AtLeast));
    all.extend(of_another("below")?.into_iter().map(Requirement::Below));
    all.extend(of_another("above")?.into_iter().map(Requirement::Above));
    if all.is_empty() {
        return Err(table.error(key, "nothing is required; write as in { value = 0.3, tolerance = 0.01 }"));
    }
    Ok(all)
}
