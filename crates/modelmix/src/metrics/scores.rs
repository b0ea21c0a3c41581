//! Scores of recorded arms and of a mixture of them: the table that `modelmix score` prints, and the definitions of its
//! metrics.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ErrorBy, KidSettings, Metric, Pool, ScoreSettings, ScoreTable, Scorer};
use crate::arms::RecordedArms;
use crate::compute::Engine;
use crate::error::Result;
use crate::features::Features;
use crate::kernel::Kernel;
use crate::provenance::{Provenance, UsedBandwidth};

/// Scores of every recorded arm and of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Scores {
    /// The version of modelmix that computed them.
    pub version: String,
    /// The arms in the order given.
    pub arms: Vec<ScoredArm>,
    /// The mixture; absent if no weights were given.
    pub mixture: Option<ScoredMixture>,
    /// How the metrics were defined.
    pub settings: ScoreDefinitions,
    /// Provenance of the result; absent unless the caller filled it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// An arm of [`Scores`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScoredArm {
    /// Its name.
    pub name: String,
    /// The number of samples that it has.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub samples: usize,
    /// Scores by metric, and `kid_std`, the standard deviation between the subsets of KID; absent with one subset, or if a subset
    /// contains all samples.
    pub scores: BTreeMap<String, f64>,
    /// Standard errors by metric; null if not defined. KID has none.
    pub errors: BTreeMap<String, Option<f64>>,
}

/// The mixture of [`Scores`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScoredMixture {
    /// The weights by arm, which sum to 1.
    pub weights: BTreeMap<String, f64>,
    /// The effective sample size: the number of samples of equal weight with the same variance.
    pub effective_samples: f64,
    /// Scores, as for arms.
    pub scores: BTreeMap<String, f64>,
    /// Standard errors, as for arms.
    pub errors: BTreeMap<String, Option<f64>>,
}

/// Definitions of the metrics; those that no metric of the table uses are absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScoreDefinitions {
    /// The metrics, in order.
    pub metrics: Vec<Metric>,
    /// The kernel of `rke` and `mmd`, with its bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// The definition of `vendi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendi: Option<VendiDefinition>,
    /// The subsets of `kid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<KidSettings>,
    /// k of the k-nearest-neighbour radii of `precision`, `recall`, `density` and `coverage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<usize>,
    /// Whether a sample exactly at the radius of a ball counts as inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_balls: Option<bool>,
}

/// The definition of a Vendi score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VendiDefinition {
    /// Its kernel.
    pub kernel: Kernel,
    /// Its order: a number, or "inf" for the largest eigenvalue alone.
    #[serde(serialize_with = "write_order", deserialize_with = "read_order")]
    #[cfg_attr(feature = "schema", schemars(with = "Order"))]
    pub order: f64,
}

/// JSON has no infinity.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Order {
    Number(f64),
    Infinite(Infinite),
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
enum Infinite {
    #[serde(rename = "inf")]
    Infinite,
}

fn write_order<S: Serializer>(order: &f64, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    let order = if order.is_infinite() { Order::Infinite(Infinite::Infinite) } else { Order::Number(*order) };
    order.serialize(serializer)
}

fn read_order<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<f64, D::Error> {
    Ok(match Order::deserialize(deserializer)? {
        Order::Number(order) => order,
        Order::Infinite(Infinite::Infinite) => f64::INFINITY,
    })
}

impl ScoreDefinitions {
    /// The definitions that a scorer uses.
    pub fn of(scorer: &Scorer<'_>) -> Self {
        let settings = scorer.settings();
        let has = |metrics: &[Metric]| metrics.iter().any(|metric| settings.metrics.contains(metric));
        let has_balls = has(&[Metric::Precision, Metric::Recall, Metric::Density, Metric::Coverage]);
        let vendi = || VendiDefinition { kernel: *scorer.vendi_kernel(), order: settings.order };
        Self {
            metrics: settings.metrics.clone(),
            kernel: has(&[Metric::Rke, Metric::Mmd]).then(|| *scorer.kernel()),
            vendi: has(&[Metric::Vendi]).then(vendi),
            kid: has(&[Metric::Kid]).then_some(settings.kid),
            neighbours: has_balls.then_some(settings.neighbourhoods.neighbours),
            closed_balls: has_balls.then_some(settings.neighbourhoods.closed),
        }
    }
}

impl Scores {
    /// The bandwidth of each kernel that has one, and how it was found, if the scores were computed with these settings and sets.
    pub fn bandwidths(
        &self,
        settings: &ScoreSettings,
        arms: &RecordedArms,
        reference: Option<&Features>,
    ) -> Vec<UsedBandwidth> {
        let sets: Vec<&Features> =
            reference.map_or_else(|| arms.iter().map(|arm| &arm.features).collect(), |reference| vec![reference]);
        let found = |of: &str, written, kernel| UsedBandwidth::found(of, written, kernel, &sets, settings.seed);
        let has = |metric: Metric| self.settings.metrics.contains(&metric);
        let of = match (has(Metric::Rke), has(Metric::Mmd)) {
            (true, true) => "rke and mmd",
            (true, false) => "rke",
            _ => "mmd",
        };
        let kernel = self.settings.kernel.as_ref().and_then(|kernel| found(of, &settings.kernel, kernel));
        let vendi = self.settings.vendi.as_ref();
        let vendi = vendi.and_then(|vendi| found("vendi", &settings.vendi_kernel, &vendi.kernel));
        kernel.into_iter().chain(vendi).collect()
    }
}

/// Scores every arm, and the mixture if weights are given. Weights need not sum to 1.
///
/// ```
/// use modelmix::metrics::ScoreSettings;
/// use modelmix::{Features, RecordedArm, RecordedArms, score};
/// let left = Features::from_rows([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])?;
/// let right = Features::from_rows([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])?;
/// let arms = RecordedArms::new(vec![RecordedArm::new("left", left), RecordedArm::new("right", right)])?;
/// let scores = score(&arms, None, &ScoreSettings::default().without_reference(), Some(&[2.0, 1.0]))?;
/// assert!((scores.arms[0].scores["vendi"] - 2.0).abs() < 1e-9); // two kinds
/// assert!((scores.mixture.unwrap().scores["vendi"] - 3.0).abs() < 1e-9); // three in all
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// If a metric needs a reference and there is none, if settings do not match the samples, if the number of weights is
/// not that of the arms, or if a weight is negative or none is positive.
pub fn score(
    arms: &RecordedArms,
    reference: Option<&Features>,
    settings: &ScoreSettings,
    weights: Option<&[f64]>,
) -> Result<Scores> {
    score_watched(arms, reference, settings, weights, &Engine::default(), &|| {})
}

/// [`score`] on an engine, with progress: `done` is called after the reference is prepared, and after each arm and the
/// mixture.
///
/// # Errors
/// As [`score`].
pub fn score_watched(
    arms: &RecordedArms,
    reference: Option<&Features>,
    settings: &ScoreSettings,
    weights: Option<&[f64]>,
    engine: &Engine,
    done: &dyn Fn(),
) -> Result<Scores> {
    arms.download()?;
    // Invalid weights are rejected before anything is computed.
    let pool = weights.map(|weights| Pool::arms(arms, weights)).transpose()?;
    let sets: Vec<&Features> = arms.iter().map(|arm| &arm.features).collect();
    let scorer = Scorer::new(settings.clone(), &sets, reference, engine)?;
    if settings.has_neighbourhoods() {
        for arm in arms {
            settings.neighbourhoods.check(&format!("samples of arm {}", arm.name), arm.features.len())?;
        }
    }
    done();
    let columns = |name: String, pool: &Pool<'_>| {
        let table = scorer.score(pool).map_err(|error| error.of(name))?;
        done();
        Ok(by_name(&table))
    };
    let mut scored = Vec::with_capacity(arms.len());
    for arm in arms.iter() {
        let (scores, errors) = columns(format!("arm {}", arm.name), &Pool::mixture([(&arm.features, 1.0)])?)?;
        scored.push(ScoredArm { name: arm.name.clone(), samples: arm.features.len(), scores, errors });
    }
    let mixture = |(weights, pool): (&[f64], &Pool<'_>)| {
        let (scores, errors) = columns("the mixture".into(), pool)?;
        let weights = arms.names().into_iter().zip(normalized(weights)).collect();
        Ok(ScoredMixture { weights, effective_samples: pool.effective_len(), scores, errors })
    };
    Ok(Scores {
        version: crate::version::VERSION.into(),
        arms: scored,
        mixture: weights.zip(pool.as_ref()).map(mixture).transpose()?,
        settings: ScoreDefinitions::of(&scorer),
        provenance: None,
    })
}

/// Weights scaled to sum to 1.
fn normalized(weights: &[f64]) -> impl Iterator<Item = f64> {
    // A power of two, which causes no rounding, if the sum of the weights would overflow.
    let unit = if weights.iter().sum::<f64>().is_finite() { 1.0 } else { f64::EPSILON };
    let total: f64 = weights.iter().map(|weight| unit * weight).sum();
    weights.iter().map(move |weight| unit * weight / total)
}

/// Scores and standard errors of a table, by name.
pub fn by_name(table: &ScoreTable) -> (BTreeMap<String, f64>, BTreeMap<String, Option<f64>>) {
    let (mut scores, mut errors) = (BTreeMap::new(), BTreeMap::new());
    for (metric, estimate) in table {
        scores.insert(metric.name().to_string(), estimate.value);
        if estimate.by == ErrorBy::Subsets {
            // Tools print the standard deviation between subsets, which is not the standard error of their mean.
            if estimate.standard_error.is_finite() {
                scores.insert(format!("{metric}_std"), estimate.standard_error);
            }
        } else {
            errors.insert(metric.name().to_string(), Some(estimate.standard_error).filter(|error| error.is_finite()));
        }
    }
    (scores, errors)
}

/// Whether a higher value of a score of [`Scores`] is better; `None` if it is not a metric, such as `kid_std`.
pub fn more_is_better(score: &str) -> Option<bool> {
    score.parse::<Metric>().ok().map(Metric::more_is_better)
}
