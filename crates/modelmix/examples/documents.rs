//! Runs the cases of a JSON file through the library and prints their documents as one array, for comparison with the
//! command line and Python: `cargo run --example documents -- python/tests/cases.json`.
//!
//! A case has a `command` (`solve`, `score`, `simulate`, `curate` or `session`), files of `arms`, an optional
//! `reference`, an `objective`, and the settings of the command.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use modelmix::curate::curate_within;
use modelmix::document::Document;
use modelmix::internals::arms::by_arm;
use modelmix::load::{self, ArmSource};
use modelmix::metrics::ScoreSettings;
use modelmix::mixture::{Allowance, Analyses, Budget, front_objective, solve_with_analyses};
use modelmix::simplex::Bounds;
use modelmix::{
    Curation, Features, Gap, Inputs, Objective, RecordedArms, Selection, Session, SessionSettings, Simulation, Until,
    simulate, solve,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    command: String,
    arms: Vec<String>,
    reference: Option<String>,
    objective: Option<String>,
    bandwidth: Option<f64>,
    #[serde(default)]
    costs: BTreeMap<String, f64>,
    #[serde(default)]
    floor: BTreeMap<String, f64>,
    #[serde(default)]
    cap: BTreeMap<String, f64>,
    #[serde(default)]
    subsets: bool,
    fees: Option<BTreeMap<String, f64>>,
    samples: Option<f64>,
    within: Option<String>,
    front: Option<String>,
    bandwidths: Option<String>,
    #[serde(default)]
    metrics: Vec<String>,
    weights: Option<BTreeMap<String, f64>>,
    #[serde(default)]
    policies: Vec<String>,
    rounds: Option<usize>,
    seeds: Option<usize>,
    until: Option<Gap>,
    count: Option<usize>,
    proportions: Option<String>,
    pool: Option<usize>,
    #[serde(default)]
    select: Selection,
    #[serde(default)]
    seed: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("give a file of cases")?;
    let cases: Vec<Case> = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let documents = cases.iter().map(run).collect::<Result<Vec<_>, _>>()?;
    println!("{}", serde_json::to_string(&documents)?);
    Ok(())
}

fn run(case: &Case) -> Result<serde_json::Value, Box<dyn Error>> {
    let sources = case.arms.iter().map(|text| text.parse()).collect::<modelmix::Result<Vec<ArmSource>>>()?;
    let arms = load::arms(&sources)?;
    let names = arms.names();
    let reference = case.reference.as_deref().map(|path| load::features(path, None)).transpose()?.map(Arc::new);
    let objective = match &case.objective {
        Some(text) => Objective::parse(text)?,
        None => Objective::usual(reference.is_some()),
    };
    let objective = case.bandwidth.map_or(objective.clone(), |bandwidth| objective.with_bandwidth(bandwidth));
    let mut inputs = Inputs::new().seed(case.seed);
    if case.command != "session" {
        inputs = inputs.arms(&arms);
    }
    if let Some(reference) = &reference {
        inputs = inputs.reference(Arc::clone(reference));
    }
    if !case.costs.is_empty() {
        inputs = inputs.costs(by_arm("cost", &names, case.costs.clone(), None)?);
    }
    let loss = objective.prepare(inputs.clone())?;
    let document = match case.command.as_str() {
        "solve" => {
            let analyses = read_analyses(case, &names, inputs)?;
            Document::Solve(solve_with_analyses(&arms, &loss, &bounds(case, &names)?, &analyses)?)
        }
        "score" => {
            let weights = match &case.weights {
                Some(weights) => by_arm("weight", &names, weights.clone(), Some(0.0))?,
                None => solve(&arms, &loss)?.weights(),
            };
            Document::Score(score(case, &arms, reference.as_deref(), &weights)?)
        }
        "simulate" => {
            let simulation = Simulation::default()
                .policies(case.policies.iter().map(|text| text.parse()).collect::<modelmix::Result<_>>()?)
                .rounds(case.rounds.ok_or("a simulation has rounds")?)
                .seeds(case.seeds.ok_or("a simulation has seeds")?)
                .seed(case.seed)
                .until(case.until.map(Until::new))
                .select(case.select);
            Document::Simulate(simulate(&arms, &loss, &simulation)?)
        }
        "curate" => {
            let usual = Curation::default();
            let settings = usual
                .clone()
                .count(case.count.ok_or("a curated set has a count")?)
                .proportions(case.proportions.as_deref().unwrap_or("best").parse()?)
                .pool(case.pool.unwrap_or(usual.pool))
                .seed(case.seed);
            Document::Curate(curate_within(&arms, &loss, &bounds(case, &names)?, &settings, &|| {})?)
        }
        _ => return session(case, &arms, loss),
    };
    Ok(serde_json::to_value(document)?)
}

/// The analyses of a case.
fn read_analyses(case: &Case, names: &[String], inputs: Inputs<'_>) -> Result<Analyses, Box<dyn Error>> {
    let mut analyses = Analyses::default().subsets(case.subsets);
    if let Some(text) = &case.front {
        let second = front_objective(Objective::parse(text)?);
        let second = case.bandwidth.map_or(second.clone(), |bandwidth| second.with_bandwidth(bandwidth));
        analyses.front = Some(second.prepare(inputs)?);
    }
    analyses.bandwidths = case.bandwidths.as_deref().map(str::parse).transpose()?;
    if let Some(fees) = &case.fees {
        let costs = (!case.costs.is_empty()).then(|| by_arm("cost", names, case.costs.clone(), None)).transpose()?;
        let within = case.within.as_deref().map(str::parse).transpose()?.unwrap_or(Allowance::default());
        analyses.budget = Some(Budget::by_arm(names, fees.clone(), costs, case.samples, within)?);
    }
    Ok(analyses)
}

fn bounds(case: &Case, names: &[String]) -> modelmix::Result<Bounds> {
    let floors = by_arm("floor", names, case.floor.clone(), Some(0.0))?;
    let caps = by_arm("cap", names, case.cap.clone(), Some(1.0))?;
    Bounds::by_arm(names, floors, caps)
}

fn score(
    case: &Case,
    arms: &RecordedArms,
    reference: Option<&Features>,
    weights: &[f64],
) -> Result<modelmix::Scores, Box<dyn Error>> {
    let metrics = case.metrics.iter().map(|name| name.parse()).collect::<modelmix::Result<_>>()?;
    let mut settings = ScoreSettings::default().metrics(metrics).seed(case.seed);
    settings.extrapolation.seed = case.seed;
    Ok(modelmix::score(arms, reference, &settings, Some(weights))?)
}

/// Every pull of an arm is answered with the arm's next recorded row.
fn session(case: &Case, arms: &RecordedArms, loss: modelmix::Loss) -> Result<serde_json::Value, Box<dyn Error>> {
    let policy = case.policies.first().map_or("adaptive", String::as_str).parse()?;
    let until = case.until.map(Until::new);
    let settings = SessionSettings::default().policy(policy).seed(case.seed).until(until).select(case.select);
    let mut session = Session::new(arms.names(), loss, &settings)?;
    let mut next = vec![0; arms.len()];
    for _ in 0..case.rounds.ok_or("a session has rounds")? {
        let pull = session.ask()?;
        let row = next[pull.index];
        next[pull.index] += 1;
        session.tell(pull.id, &arms[pull.index].features.select([row])?)?;
    }
    Ok(serde_json::to_value(session.report_with_bounds()?)?)
}
