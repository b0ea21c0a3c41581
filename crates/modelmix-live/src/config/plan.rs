//! A checked run: everything is opened, and nothing in it can be wrong without a server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelmix::compute::Engine;
use modelmix::load::{self, ArmSource};
use modelmix::objective::Measure;
use modelmix::{Features, Inputs, Objective, PolicySpec, RecordedArms, Session, SessionSettings, Until};
use serde_json::json;

use super::{ArmKind, ArmSettings, Config, Prompts};
use crate::arm::Arm;
use crate::encoder::{EncoderSettings, LiveEncoder};
use crate::manners::{Budget, Delivery};
use crate::problem::{Problem, Result};
use crate::score::Scorer;

/// Looks up a variable of the environment.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// An arm that is ready.
pub struct LiveArm {
    /// What the user wrote.
    pub settings: ArmSettings,
    /// What happens to requests without an answer.
    pub delivery: Delivery,
    /// The model.
    pub arm: Box<dyn Arm>,
}

/// What a run computes with: the session and its inputs, without the arms, so that a stored run can be read without keys.
pub struct Basis {
    /// The folder that paths are relative to.
    pub base: PathBuf,
    /// What the user wrote.
    pub config: Config,
    /// The prompts, if the arms take any.
    pub prompts: Option<Prompts>,
    /// Recorded samples.
    pub known: Option<RecordedArms>,
    /// The session before its first event.
    pub session: Session,
    /// The objective, for analyses of the collected samples.
    pub objective: Objective,
    /// Features of real samples.
    pub reference: Option<Arc<Features>>,
}

impl Basis {
    /// Checks a configuration and reads the files in it.
    ///
    /// # Errors
    /// What is wrong with it, with the fix.
    pub fn new(config: Config, base: &Path, engine: &Engine) -> Result<Self> {
        check_names(&config)?;
        check_numbers(&config)?;
        let reference = match &config.reference {
            None => None,
            Some(text) => {
                let source = source(text, base)?;
                Some(Arc::new(load::features(&source.path, source.key.as_deref())?))
            }
        };
        let mut objective = match &config.objective {
            Some(text) => Objective::parse(text)?,
            None => Objective::usual(reference.is_some()),
        };
        if let Some(bandwidth) = config.bandwidth {
            objective = objective.with_bandwidth(bandwidth);
        }
        let prompts = config.prompts.as_ref().map(|settings| Prompts::open(settings, base, config.seed)).transpose()?;
        let known = match &config.known[..] {
            [] => None,
            texts => {
                let sources = texts.iter().map(|text| source(text, base)).collect::<Result<Vec<_>>>()?;
                Some(load::arms(&sources)?)
            }
        };
        if let Some(known) = &known {
            check_known(known, &config)?;
        }
        check_scores(&objective, &config)?;
        let inputs = inputs(&config, reference.clone(), engine)?;
        let loss = objective.prepare_for_session(inputs)?;
        let session = Session::new(config.arms.iter().map(|arm| arm.name.clone()), loss, &settings(&config)?)?;
        let base = std::path::absolute(base).unwrap_or_else(|_| base.to_path_buf());
        Ok(Self { base, config, prompts, known, session, objective, reference })
    }

    /// The configuration in the description of a stored run, checked.
    ///
    /// # Errors
    /// A description of another release, or inputs that cannot be read any more.
    pub fn described(description: &str, engine: &Engine) -> Result<Self> {
        let (config, base) = described(description)?;
        Self::new(config, &base, engine)
    }

    /// The inputs of the objective.
    ///
    /// # Errors
    /// A cost that is missing.
    pub fn inputs(&self, engine: &Engine) -> Result<Inputs<'static>> {
        inputs(&self.config, self.reference.clone(), engine)
    }
}

/// A run that can be executed.
pub struct Plan {
    /// What it computes with.
    pub basis: Basis,
    /// The arms, in the order written.
    pub arms: Vec<LiveArm>,
    /// What turns samples into features; `None` if the arms return features.
    pub encoder: Option<LiveEncoder>,
    /// Scores by name.
    pub scorers: BTreeMap<String, Scorer>,
    /// What the run may spend.
    pub budget: Budget,
    /// What identifies the inputs of the run: checksums and fingerprints.
    identity: serde_json::Value,
}

impl Plan {
    /// Checks a configuration and opens everything in it.
    ///
    /// # Errors
    /// What is wrong with it, with the fix.
    pub fn new(config: Config, base: &Path, engine: &Engine, environment: Environment<'_>) -> Result<Self> {
        let basis = Basis::new(config, base, engine)?;
        let config = &basis.config;
        let mut scorers = BTreeMap::new();
        for (name, settings) in &config.scores {
            let scorer =
                Scorer::open(settings, base, environment).map_err(|problem| open(format!("score {name}"), problem))?;
            scorers.insert(name.clone(), scorer);
        }
        if let Some(EncoderSettings::Embeddings(table)) = &config.encoder
            && table.embeddings.price_per_million_input_tokens.is_some()
        {
            return Err(Problem::Config(
                "the embeddings of [encoder] have a price, but budgets count the costs of arms only; leave the price out".into(),
            ));
        }
        let encoder =
            config.encoder.as_ref().map(|settings| LiveEncoder::open(settings, base, environment)).transpose();
        let encoder = encoder.map_err(|problem| open("encoder".into(), problem))?;
        let arms = config.arms.iter().map(|settings| LiveArm::open(settings, base, environment));
        let arms = arms.collect::<Result<Vec<_>>>()?;
        if let Some(arm) = arms.iter().find(|arm| basis.prompts.is_none() && arm.arm.needs_prompt()) {
            return Err(Problem::Config(format!(
                "arm {} takes a prompt, but the run has none; add prompts, or write the text of the request without {{prompt}}",
                arm.settings.name
            )));
        }
        let identity = json!({
            "prompts": basis.prompts.as_ref().map(Prompts::digest),
            "encoder": encoder.as_ref().map(LiveEncoder::fingerprint),
            "session": basis.session.fingerprint().map(|fingerprint| format!("{fingerprint:016x}")),
            "known": basis.known.as_ref().map(digest),
        });
        let budget = Budget {
            money: config.budget.money,
            pulls: config.budget.pulls,
            time: config.budget.time.map(|span| span.0),
        };
        Ok(Self { basis, arms, encoder, scorers, budget, identity })
    }

    /// The description of a new run that its store keeps: a random id, the configuration, and what identifies its inputs. It has no
    /// secrets.
    pub fn description(&self) -> String {
        let names: Vec<_> = self.arms.iter().map(|arm| json!({"name": arm.settings.name})).collect();
        json!({
            "format": 1,
            "id": random_id(),
            "modelmix": modelmix::VERSION,
            "base": self.basis.base,
            "arms": names,
            "config": self.basis.config,
            "identity": self.identity,
        })
        .to_string()
    }

    /// Ends the work of arms, encoders and scores that is in progress, for good.
    pub fn interrupt(&self) {
        self.arms.iter().for_each(|arm| arm.arm.interrupt());
        self.encoder.iter().for_each(LiveEncoder::interrupt);
        self.scorers.values().for_each(Scorer::interrupt);
    }

    /// Checks that this plan continues the stored run, and returns the id of the run.
    ///
    /// # Errors
    /// The first difference, with the fix.
    pub fn check_continues(&self, description: &str) -> Result<String> {
        let (config, _) = described(description)?;
        if let Some(key) = self.basis.config.difference(&config) {
            return Err(Problem::Config(format!(
                "{key} differs from the stored run; only budgets, rates, retries and limits may change, so start a new run in another folder"
            )));
        }
        let stored: serde_json::Value = serde_json::from_str(description).unwrap_or_default();
        for (what, name) in [
            ("encoder", "the encoder"),
            ("prompts", "the text of the prompts"),
            ("known", "the content of the known samples"),
            ("session", "the content of the reference, or the objective,"),
        ] {
            if stored["identity"][what] != self.identity[what] {
                return Err(Problem::Config(format!(
                    "{name} has changed since the run began, so new samples cannot be compared with the collected ones; restore it, or start a new run in another folder"
                )));
            }
        }
        Ok(stored["id"].as_str().unwrap_or_default().to_string())
    }
}

/// The configuration and its folder in the description of a stored run.
///
/// # Errors
/// A description of another release.
pub fn described(description: &str) -> Result<(Config, PathBuf)> {
    #[derive(serde::Deserialize)]
    struct Described {
        base: PathBuf,
        config: Config,
    }
    let described: Described = serde_json::from_str(description).map_err(|error| {
        Problem::Config(format!("the run was described by another release ({error}); continue with that release"))
    })?;
    Ok((described.config, described.base))
}

/// 128 bits that no other run has: keys of requests are made from them.
fn random_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    // Each state has random keys of the operating system.
    let word = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", word(), word())
}

impl LiveArm {
    fn open(settings: &ArmSettings, base: &Path, environment: Environment<'_>) -> Result<Self> {
        let (arm, is_paid): (Result<Box<dyn Arm>, String>, bool) = match &settings.kind {
            ArmKind::Command(kind) => (boxed(crate::arm::command::open(kind, base, environment)), kind.is_paid()),
            ArmKind::OpenaiChat(kind) => (boxed(crate::arm::http::chat::open(kind, environment)), kind.is_paid()),
            ArmKind::OpenaiImages(kind) => (boxed(crate::arm::http::images::open(kind, environment)), kind.is_paid()),
            ArmKind::Http(kind) => (boxed(crate::arm::http::template::open(kind, environment)), kind.is_paid()),
            ArmKind::Onnx(kind) => (boxed(crate::arm::onnx::open(kind, base, environment)), false),
            ArmKind::Replay(kind) => (boxed(crate::arm::replay::open(kind, base, environment)), false),
        };
        let arm = arm.map_err(|problem| open(format!("arm {}", settings.name), problem))?;
        let usual = if is_paid { Delivery::AtMostOnce } else { Delivery::Pure };
        Ok(Self { settings: settings.clone(), delivery: settings.delivery.unwrap_or(usual), arm })
    }
}

fn boxed<A: Arm + 'static>(opened: Result<A, String>) -> Result<Box<dyn Arm>, String> {
    opened.map(|arm| Box::new(arm) as Box<dyn Arm>)
}

fn open(what: String, problem: String) -> Problem {
    Problem::Open { what, problem }
}

/// A path of the arms grammar, relative to the folder of the configuration.
fn source(text: &str, base: &Path) -> Result<ArmSource> {
    let mut source: ArmSource = text.parse()?;
    source.path = base.join(&source.path);
    Ok(source)
}

fn check_names(config: &Config) -> Result<()> {
    if config.arms.is_empty() {
        return Err(Problem::Config("the run has no arms; add at least one [[arm]]".into()));
    }
    let mut names = BTreeSet::new();
    for arm in &config.arms {
        if arm.name.trim().is_empty() || arm.name.chars().any(char::is_control) {
            return Err(Problem::Config(format!("{:?} is not a name of an arm; write letters and digits", arm.name)));
        }
        if !names.insert(&arm.name) {
            return Err(Problem::Config(format!("two arms are named {}; rename one of them", arm.name)));
        }
    }
    Ok(())
}

fn check_numbers(config: &Config) -> Result<()> {
    let refuse = |what: &str, value: String, must: &str| {
        Err(Problem::Config(format!("{what} is {value}, but it must be {must}")))
    };
    if config.max_in_flight == 0 || config.max_in_flight > MAX_IN_FLIGHT {
        return refuse("max_in_flight", config.max_in_flight.to_string(), &format!("from 1 to {MAX_IN_FLIGHT}"));
    }
    if config.batch == 0 {
        return refuse("batch", "0".into(), "at least 1");
    }
    if let Some(money) = config.budget.money.filter(|money| !(money.is_finite() && *money >= 0.0)) {
        return refuse("budget.money", money.to_string(), "a number that is not negative");
    }
    if let Some(confidence) = config.confidence.filter(|confidence| !(*confidence > 0.0 && *confidence < 1.0)) {
        return refuse("confidence", confidence.to_string(), "between 0 and 1, such as 0.95");
    }
    for arm in &config.arms {
        if arm.max_in_flight == Some(0) {
            return refuse(&format!("max_in_flight of arm {}", arm.name), "0".into(), "at least 1");
        }
        if let Some(cost) = arm.cost.filter(|cost| !(cost.is_finite() && *cost >= 0.0)) {
            return refuse(&format!("cost of arm {}", arm.name), cost.to_string(), "a number that is not negative");
        }
    }
    let budget = &config.budget;
    if budget.money.is_none() && budget.pulls.is_none() && budget.time.is_none() && config.until.is_none() {
        return Err(Problem::Config("the run would never end; give until, or money, pulls or time in [budget]".into()));
    }
    Ok(())
}

/// Each pull in flight has a thread.
const MAX_IN_FLIGHT: usize = 1024;

/// Known samples must be of arms of the run.
fn check_known(known: &RecordedArms, config: &Config) -> Result<()> {
    let names: Vec<&str> = config.arms.iter().map(|arm| arm.name.as_str()).collect();
    match known.iter().find(|arm| !names.contains(&arm.name.as_str())) {
        Some(arm) => Err(Problem::Config(format!(
            "known has samples of {}, but the arms are {}; name them as in {}=PATH",
            arm.name,
            names.join(", "),
            names[0]
        ))),
        None => Ok(()),
    }
}

fn inputs(config: &Config, reference: Option<Arc<Features>>, engine: &Engine) -> Result<Inputs<'static>> {
    let mut inputs = Inputs::new().seed(config.seed).engine(engine.clone());
    if let Some(reference) = reference {
        inputs = inputs.reference(reference);
    }
    if let Some(costs) = config.arms.iter().map(|arm| arm.cost).collect::<Option<Vec<f64>>>() {
        inputs = inputs.costs(costs);
    }
    for (name, score) in &config.scores {
        if let Some((least, greatest)) = score.range() {
            inputs = inputs.score_range(name.clone(), least, greatest);
        }
    }
    Ok(inputs)
}

/// Every score and cost of the objective is given.
fn check_scores(objective: &Objective, config: &Config) -> Result<()> {
    for term in objective.terms() {
        let name = term.measure.name();
        if matches!(term.measure, Measure::Score { .. }) && !config.scores.contains_key(name) {
            return Err(Problem::Config(format!(
                "the objective has the score {name}, but [scores.{name}] is missing; say how it is computed"
            )));
        }
        if term.measure == Measure::Cost
            && let Some(arm) = config.arms.iter().find(|arm| arm.cost.is_none())
        {
            return Err(Problem::Config(format!(
                "the objective has the term cost, but arm {} has no cost; give every arm its cost per sample",
                arm.name
            )));
        }
    }
    Ok(())
}

fn settings(config: &Config) -> Result<SessionSettings> {
    let until = config.until.map(|gap| {
        let until = Until::new(gap);
        config.confidence.map_or(until, |confidence| until.confidence(confidence))
    });
    Ok(SessionSettings::default()
        .policy(PolicySpec::parse(&config.policy)?)
        .seed(config.seed)
        .batch(config.batch)
        .rounds(config.budget.pulls.map(|pulls| pulls as usize))
        .until(until))
}

/// The checksum of recorded samples.
fn digest(arms: &RecordedArms) -> String {
    use sha2::{Digest, Sha256};
    let mut hasher = Sha256::new();
    for arm in arms.iter() {
        hasher.update((arm.name.len() as u64).to_le_bytes());
        hasher.update(&arm.name);
        hasher.update((arm.features.len() as u64).to_le_bytes());
        arm.features.values().iter().for_each(|value| hasher.update(value.to_le_bytes()));
    }
    super::hex(&hasher.finalize())
}
