//! What is printed as JSON, read by reports and handed to Python: one document a command, with the words of the command line.

mod curated;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::arms::{RecordedArm, RecordedArms};
use crate::certainty::Until;
use crate::compute::Engine;
use crate::error::Result;
use crate::features::Features;
use crate::kernel::Kernel;
use crate::metrics::{ErrorBy, Metric, Pool, ScoreSettings, ScoreTable, Scorer};
use crate::mixture::{Mixture, TermValue, Worth};
use crate::objective::Objective;
use crate::session::{SELECTION_NOTE, Selection};
use crate::simulate::{PolicyReport, Reached, SimulatedFeatures, SimulationReport, Spread, Stopped};

pub use crate::objective::ScoreMeaning;

pub use curated::{CurateDocument, CuratedMixture, CuratedRow, CuratedSet};

/// Any of the documents; the field `command` tells which.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
#[allow(clippy::large_enum_variant)]
pub enum Document {
    /// Of `solve`.
    Solve(SolveDocument),
    /// Of `score`.
    Score(ScoreDocument),
    /// Of `simulate`.
    Simulate(SimulateDocument),
    /// Of `curate`.
    Curate(CurateDocument),
}

/// The best mixture of recorded arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolveDocument {
    /// The version of modelmix that made it.
    pub version: String,
    /// The objective, as it was written.
    pub objective: String,
    /// The kernel of its first quadratic term, its bandwidth found.
    pub kernel: Option<Kernel>,
    /// The kernels of all quadratic terms.
    pub kernels: Vec<Kernel>,
    /// What `score` is: that of the first term.
    pub score: ScoreMeaning,
    /// The arms in the order given.
    pub arms: Vec<SolvedArm>,
    /// The mixture.
    pub mixture: SolvedMixture,
    /// The best single arm.
    pub best_single: SolvedSingle,
    /// The best single arm's loss less the mixture's.
    pub gain: f64,
    /// A 95% interval for the gain of the models themselves; none with `fid` or `vendi`, or with one arm.
    #[serde(default)]
    pub gain_interval: Option<[f64; 2]>,
    /// Of the test that some single model is as good as any mixture; none as above.
    #[serde(default)]
    pub p_value: Option<f64>,
    /// K̂ (V-statistics), row by row.
    pub quadratic: Vec<Vec<f64>>,
    /// f̂.
    pub linear: Vec<f64>,
    /// What is added to αᵀKα + fᵀα to make a loss.
    pub constant: f64,
    /// Answers to questions that were asked beside.
    #[serde(flatten)]
    pub worth: Worth,
}

/// An arm of a [`SolveDocument`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolvedArm {
    /// Its name.
    pub name: String,
    /// How many samples it has.
    pub samples: usize,
    /// Its share in the mixture.
    pub weight: f64,
    /// A 95% interval for the share in the best mixture of the models themselves; none with `fid` or `vendi`.
    pub interval: Option<[f64; 2]>,
    /// Its loss alone.
    pub loss: f64,
    /// Its score alone.
    pub score: f64,
    /// How much worse the best mixture is without it.
    pub adds: Option<f64>,
    /// What each term comes to.
    pub terms: Vec<TermValue>,
}

/// The mixture of a [`SolveDocument`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolvedMixture {
    /// Its loss.
    pub loss: f64,
    /// Its score.
    pub score: f64,
    /// No mixture of these samples has a loss less than `loss − gap`.
    pub gap: f64,
    /// What each term comes to.
    pub terms: Vec<TermValue>,
}

/// The best single arm of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolvedSingle {
    /// Its name.
    pub name: String,
    /// Its loss.
    pub loss: f64,
    /// Its score.
    pub score: f64,
}

impl SolveDocument {
    /// Of a solved mixture.
    pub fn new(mixture: &Mixture, objective: &Objective) -> Self {
        let score = |terms: &[TermValue], loss: f64| terms.first().map_or(loss, |term| term.score);
        let best = mixture.best_arm();
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            objective: mixture.objective.clone(),
            kernel: mixture.kernels.first().copied(),
            kernels: mixture.kernels.clone(),
            score: ScoreMeaning::of(objective),
            arms: mixture
                .arms
                .iter()
                .map(|arm| SolvedArm {
                    name: arm.name.clone(),
                    samples: arm.samples,
                    weight: arm.weight,
                    interval: arm.interval,
                    loss: arm.loss,
                    score: score(&arm.terms, arm.loss),
                    adds: arm.adds,
                    terms: arm.terms.clone(),
                })
                .collect(),
            mixture: SolvedMixture {
                loss: mixture.loss,
                score: score(&mixture.terms, mixture.loss),
                gap: mixture.gap,
                terms: mixture.terms.clone(),
            },
            best_single: SolvedSingle {
                name: best.name.clone(),
                loss: best.loss,
                score: score(&best.terms, best.loss),
            },
            gain: mixture.gain,
            gain_interval: mixture.gain_interval,
            p_value: mixture.p_value,
            quadratic: mixture.form.rows(),
            linear: mixture.form.linear().to_vec(),
            constant: mixture.constant,
            worth: Worth::default(),
        }
    }

    /// The same with the answers to what was asked beside.
    #[must_use]
    pub fn with_worth(mut self, worth: Worth) -> Self {
        self.worth = worth;
        self
    }

    /// The answer in one sentence.
    pub fn sentence(&self) -> String {
        let mut used: Vec<&SolvedArm> = self.arms.iter().filter(|arm| arm.weight >= 0.005).collect();
        used.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        if let [only] = used[..] {
            // Whoever minimises what is better when it is more gets what was asked for, which is not the best score.
            let is_better = |arm: &SolvedArm| match self.score.more_is_better {
                true => arm.score > only.score,
                false => arm.score < only.score,
            };
            return if self.arms.iter().any(is_better) {
                format!("Use {} alone: no mixture has a smaller loss than its {:.4}.", only.name, only.loss)
            } else {
                let name = &self.score.name;
                format!("Use {} alone: no mixture has a better {name} than its {:.4}.", only.name, only.score)
            };
        }
        let shares: Vec<String> = used.iter().map(|arm| format!("{} {:.0}%", arm.name, 100.0 * arm.weight)).collect();
        // Of several terms the first may be worse for the good of the whole.
        let (mixed, single) = (self.mixture.score, self.best_single.score);
        let better = if self.score.more_is_better { mixed > single } else { mixed < single };
        let (what, mixed, single) = if better {
            (self.score.name.as_str(), mixed, single)
        } else {
            ("a loss of", self.mixture.loss, self.best_single.loss)
        };
        format!(
            "Mix {}: {what} {} instead of {} with the best single model, {}.",
            shares.join(", "),
            brief(mixed),
            brief(single),
            self.best_single.name
        )
    }

    /// How sure it is that a mixture is better, in one sentence; nothing where there is no test of it.
    pub fn certainty(&self) -> Option<String> {
        let (p, [low, high]) = (self.p_value?, self.gain_interval?);
        let p_text = if p < 0.001 { "p < 0.001".into() } else { format!("p = {p:.*}", if p < 0.1 { 3 } else { 2 }) };
        let (verdict, whose) = if p <= 0.05 {
            ("The best mixture beats every single model", "its")
        } else {
            ("It cannot be ruled out that a single model is as good as any mixture", "a mixture's")
        };
        let end = |value: f64| if value == 0.0 { "0".into() } else { brief(value) };
        let (low, high) = (end(low), end(high));
        Some(format!("{verdict} ({p_text}); {whose} gain in loss is {low} to {high} with 95% confidence."))
    }
}

/// A number with three digits that count, without an exponent where that is short.
pub fn brief(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 || value == 0.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else if size >= 0.001 {
        format!("{value:.*}", (2 - size.log10().floor() as i32).max(2) as usize)
    } else {
        format!("{value:.2e}")
    }
}

/// A count with its thousands apart.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Scores of arms and of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreDocument {
    /// The version of modelmix that made it.
    pub version: String,
    /// The arms in the order given.
    pub arms: Vec<ScoredArm>,
    /// The mixture, where there is one.
    pub mixture: Option<ScoredMixture>,
    /// How the metrics were defined.
    pub settings: BTreeMap<String, serde_json::Value>,
}

/// An arm of a [`ScoreDocument`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoredArm {
    /// Its name.
    pub name: String,
    /// How many samples it has.
    pub samples: usize,
    /// By metric, and `kid_std`, the standard deviation between KID's subsets.
    pub scores: BTreeMap<String, f64>,
    /// Standard errors by metric; none where it is not defined.
    pub errors: BTreeMap<String, Option<f64>>,
}

/// The mixture of a [`ScoreDocument`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoredMixture {
    /// The weights by arm.
    pub weights: BTreeMap<String, f64>,
    /// How many samples of equal weight say as much.
    pub effective_samples: f64,
    /// As for arms.
    pub scores: BTreeMap<String, f64>,
    /// As for arms.
    pub errors: BTreeMap<String, Option<f64>>,
}

impl ScoreDocument {
    /// Scores every arm, and the mixture where weights are given, which need not add up to 1. `done` is called once the reference
    /// is prepared, and after each arm and the mixture.
    ///
    /// # Errors
    /// A metric that needs a reference where none is given, settings that do not fit the samples, another number of weights
    /// than of arms, a negative weight, no positive one.
    pub fn score(
        arms: &RecordedArms,
        reference: Option<&Features>,
        settings: ScoreSettings,
        weights: Option<&[f64]>,
        engine: &Engine,
        done: &dyn Fn(),
    ) -> Result<Self> {
        // Weights that do not fit are refused before anything is computed.
        let pool = weights.map(|weights| Pool::arms(arms, weights)).transpose()?;
        let sets: Vec<&Features> = arms.iter().map(|arm| &arm.features).collect();
        let scorer = Scorer::new(settings, &sets, reference, engine)?;
        done();
        let score = |name: String, pool: &Pool<'_>| {
            let table = scorer.score(pool).map_err(|error| error.of(name))?;
            done();
            Ok(scores(&table))
        };
        let scored = |arm: &RecordedArm| {
            let (scores, errors) = score(format!("arm {}", arm.name), &Pool::of(&arm.features))?;
            Ok(ScoredArm { name: arm.name.clone(), samples: arm.features.len(), scores, errors })
        };
        let scored = arms.iter().map(scored).collect::<Result<Vec<_>>>()?;
        let mixture = |(weights, pool): (&[f64], &Pool<'_>)| {
            let (scores, errors) = score("the mixture".into(), pool)?;
            // A power of two, which rounds nothing, where the sum of the weights would overflow.
            let unit = if weights.iter().sum::<f64>().is_finite() { 1.0 } else { f64::EPSILON };
            let total: f64 = weights.iter().map(|weight| unit * weight).sum();
            let weights = arms.names().into_iter().zip(weights.iter().map(|weight| unit * weight / total)).collect();
            Ok(ScoredMixture { weights, effective_samples: pool.effective_len(), scores, errors })
        };
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").into(),
            arms: scored,
            mixture: weights.zip(pool.as_ref()).map(mixture).transpose()?,
            settings: score_settings(&scorer),
        })
    }
}

/// A score table as documents have it: scores and standard errors by name.
pub fn scores(table: &ScoreTable) -> (BTreeMap<String, f64>, BTreeMap<String, Option<f64>>) {
    let (mut scores, mut errors) = (BTreeMap::new(), BTreeMap::new());
    for (metric, estimate) in table {
        scores.insert(metric.name().to_string(), estimate.value);
        if estimate.by == ErrorBy::Subsets {
            // Tools print the spread of subsets, which is not the standard error of their mean.
            scores.insert(format!("{metric}_std"), estimate.standard_error);
        } else {
            errors.insert(metric.name().to_string(), Some(estimate.standard_error).filter(|error| error.is_finite()));
        }
    }
    (scores, errors)
}

/// How metrics were defined, as a [`ScoreDocument`] has it.
pub fn score_settings(scorer: &Scorer<'_>) -> BTreeMap<String, serde_json::Value> {
    let settings = scorer.settings();
    let mut described: BTreeMap<String, serde_json::Value> = BTreeMap::new();
    let has = |metric: Metric| settings.metrics.contains(&metric);
    described.insert("metrics".into(), json!(settings.metrics));
    if has(Metric::Rke) || has(Metric::Mmd) {
        described.insert("kernel".into(), json!(scorer.kernel()));
    }
    if has(Metric::Vendi) {
        let order = if settings.order.is_infinite() { json!("inf") } else { json!(settings.order) };
        described.insert("vendi".into(), json!({"kernel": scorer.vendi_kernel(), "order": order}));
    }
    if has(Metric::Kid) {
        let kid = json!({"subsets": settings.kid.subsets, "size": settings.kid.size, "seed": settings.kid.seed});
        described.insert("kid".into(), kid);
    }
    if [Metric::Precision, Metric::Recall, Metric::Density, Metric::Coverage].into_iter().any(has) {
        described.insert("neighbours".into(), json!(settings.neighbourhoods.neighbours));
        described.insert("closed_balls".into(), json!(settings.neighbourhoods.closed));
    }
    described
}

/// Whether more of a score of a [`ScoreDocument`] is better; nothing for what is no metric, such as `kid_std`.
pub fn more_is_better(score: &str) -> Option<bool> {
    score.parse::<Metric>().ok().map(Metric::more_is_better)
}

/// How policies did on recorded arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulateDocument {
    /// The version of modelmix that made it.
    pub version: String,
    /// The objective, as it was written.
    pub objective: String,
    /// The kernel of its first quadratic term.
    pub kernel: Option<Kernel>,
    /// What the loss reads as.
    pub score: ScoreMeaning,
    /// The arms' names.
    pub arms: Vec<String>,
    /// How many seeds every policy ran with.
    pub seeds: usize,
    /// The first seed.
    pub seed: u64,
    /// The optimal weights and their loss, on all recorded samples.
    pub optimum: Optimum,
    /// The best single arm and its loss.
    pub best_single: SimulatedSingle,
    /// The best single arm's loss less the optimum's.
    pub gain: f64,
    /// When sessions were to stop; absent where that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Which samples were kept, where some were discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<Selection>,
    /// What everyone who is handed the kept samples must know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The policies' names in the order given.
    pub order: Vec<String>,
    /// By policy, as users write it.
    pub policies: BTreeMap<String, SimulatedPolicy>,
}

/// The optimum of a [`SimulateDocument`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Optimum {
    /// By arm.
    pub weights: Vec<f64>,
    /// Their loss.
    pub loss: f64,
}

/// The best single arm of a [`SimulateDocument`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedSingle {
    /// Its name.
    pub name: String,
    /// Its loss.
    pub loss: f64,
}

/// How one policy did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedPolicy {
    /// The rounds at which results were kept.
    pub rounds: Vec<usize>,
    /// The loss of the samples collected, mean and standard deviation over seeds.
    pub loss: Spread,
    /// L(n/t) on all recorded samples less the optimum.
    pub regret: Spread,
    /// n/t at each of the rounds, by arm.
    pub shares: Vec<Vec<f64>>,
    /// n/t at the end, by arm.
    pub weights: Vec<f64>,
    /// The median round from which on so many percent of the gain are kept; none where half of the seeds do not get there.
    pub reached: Reached,
    /// When its sessions were sure enough to stop; absent where that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// What random features did, where sessions hold only so many samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<SimulatedFeatures>,
    /// The loss of the samples that were kept, where some were discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_loss: Option<Spread>,
    /// How many were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_samples: Option<Spread>,
    /// The median round from which on the kept samples' loss is at most the optimum's; absent where half of the seeds do not get
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_reached: Option<f64>,
}

impl SimulateDocument {
    /// Of a simulation's report.
    pub fn new(report: &SimulationReport, objective: &Objective, seeds: usize, seed: u64) -> Self {
        let policy = |policy: &PolicyReport| SimulatedPolicy {
            rounds: policy.rounds.clone(),
            loss: policy.loss.clone(),
            regret: policy.regret.clone(),
            shares: policy.shares.clone(),
            weights: policy.weights.clone(),
            reached: policy.reached,
            stopped: policy.stopped,
            features: policy.features,
            kept_loss: policy.kept.as_ref().map(|kept| kept.loss.clone()),
            kept_samples: policy.kept.as_ref().map(|kept| kept.samples.clone()),
            kept_reached: policy.kept.as_ref().and_then(|kept| kept.reached),
        };
        let select = report.select != Selection::All;
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            objective: report.objective.clone(),
            kernel: report.kernels.first().copied(),
            score: ScoreMeaning::of(objective),
            arms: report.arms.clone(),
            seeds,
            seed,
            optimum: Optimum { weights: report.optimum.clone(), loss: report.optimal_loss },
            best_single: SimulatedSingle {
                name: report.arms[report.best_single].clone(),
                loss: report.best_single_loss,
            },
            gain: report.gain,
            until: report.until,
            select: select.then_some(report.select),
            note: select.then(|| SELECTION_NOTE.into()),
            order: report.policies.iter().map(|policy| policy.policy.clone()).collect(),
            policies: report.policies.iter().map(|report| (report.policy.clone(), policy(report))).collect(),
        }
    }
}
