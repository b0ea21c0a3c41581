//! The score table: many metrics of many pools against one reference, with custom settings or those of a known tool.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::prdc::{Prdc, ReferenceBalls};
use super::{
    Estimate, Extrapolation, KidSettings, Neighbourhoods, Pool, cmmd, fid::FidReference, kid, kid_kernel, mmd,
    rke::rke_to_standard_error, vendi_estimate,
};
use crate::compute::Engine;
use crate::error::{Error, Input, Result};
use crate::features::Features;
use crate::kernel::{Kernel, KernelSpec, median_distance};
use crate::settings::setters;
use crate::text::nearest;

/// A metric of samples, such as FID or recall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Metric {
    /// The RKE mode count.
    Rke,
    /// The Vendi score.
    Vendi,
    /// KID, as the mean over subsets.
    Kid,
    /// The unbiased MMD² with the kernel of KID, over all samples.
    KidFull,
    /// The unbiased MMD² with a Gaussian kernel, over all samples.
    Mmd,
    /// CMMD, which is intended for CLIP features.
    Cmmd,
    /// FID.
    Fid,
    /// FID extrapolated to infinitely many samples.
    FidInfinity,
    /// Precision.
    Precision,
    /// Recall.
    Recall,
    /// Density.
    Density,
    /// Coverage.
    Coverage,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Metric; 12] = [
        Metric::Rke,
        Metric::Vendi,
        Metric::Kid,
        Metric::KidFull,
        Metric::Mmd,
        Metric::Cmmd,
        Metric::Fid,
        Metric::FidInfinity,
        Metric::Precision,
        Metric::Recall,
        Metric::Density,
        Metric::Coverage,
    ];

    /// The metrics in the tables and figures of the paper.
    pub const OF_PAPER: [Metric; 8] = [
        Metric::Rke,
        Metric::Vendi,
        Metric::Kid,
        Metric::Fid,
        Metric::Precision,
        Metric::Recall,
        Metric::Density,
        Metric::Coverage,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Rke => "rke",
            Metric::Vendi => "vendi",
            Metric::Kid => "kid",
            Metric::KidFull => "kid_full",
            Metric::Mmd => "mmd",
            Metric::Cmmd => "cmmd",
            Metric::Fid => "fid",
            Metric::FidInfinity => "fid_infinity",
            Metric::Precision => "precision",
            Metric::Recall => "recall",
            Metric::Density => "density",
            Metric::Coverage => "coverage",
        }
    }

    /// Whether it needs a reference.
    pub fn needs_reference(self) -> bool {
        !matches!(self, Metric::Rke | Metric::Vendi)
    }

    /// Whether higher is better.
    pub fn more_is_better(self) -> bool {
        !matches!(self, Metric::Kid | Metric::KidFull | Metric::Mmd | Metric::Cmmd | Metric::Fid | Metric::FidInfinity)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Metric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        by_name("metric", text, &Metric::ALL, Metric::name)
    }
}

/// The value with this name in a closed set; the error suggests the nearest name.
fn by_name<T: Copy>(what: &str, text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T> {
    all.iter().copied().find(|&one| name(one) == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|&one| name(one)).collect();
        let hint = nearest(text, &names).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        Error::setting(what, format!("\"{text}\""), format!("one of {}{hint}", names.join(", ")))
    })
}

/// Settings that reproduce the numbers of another tool, up to its rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Preset {
    /// torch-fidelity: KID of 100 subsets of 1,000 by `RandomState(2020)`; precision and recall with 3 neighbours and
    /// closed balls; FID. Its first input is the samples, its second the reference.
    TorchFidelity,
    /// clean-fid: KID of 100 subsets of at most 1,000, drawn by NumPy's global generator, with seed 0 unless another is
    /// given; FID.
    CleanFid,
    /// prdc: precision, recall, density, coverage with 5 neighbours and open balls.
    Prdc,
    /// vendi-score: the Vendi score of order 1 on the cosine kernel.
    VendiScore,
}

impl Preset {
    /// All presets.
    pub const ALL: [Preset; 4] = [Preset::TorchFidelity, Preset::CleanFid, Preset::Prdc, Preset::VendiScore];

    /// The name of the tool.
    pub fn name(self) -> &'static str {
        match self {
            Preset::TorchFidelity => "torch-fidelity",
            Preset::CleanFid => "clean-fid",
            Preset::Prdc => "prdc",
            Preset::VendiScore => "vendi-score",
        }
    }

    /// The metrics of the tool and their definitions.
    pub fn settings(self) -> ScoreSettings {
        let settings = ScoreSettings::default();
        match self {
            Preset::TorchFidelity => ScoreSettings {
                metrics: vec![Metric::Kid, Metric::Fid, Metric::Precision, Metric::Recall],
                kid: KidSettings { size: Some(1000), ..KidSettings::default() },
                neighbourhoods: Neighbourhoods { neighbours: 3, closed: true },
                ..settings
            },
            Preset::CleanFid => ScoreSettings {
                metrics: vec![Metric::Kid, Metric::Fid],
                kid: KidSettings { seed: 0, ..KidSettings::default() },
                ..settings
            },
            Preset::Prdc => ScoreSettings {
                metrics: vec![Metric::Precision, Metric::Recall, Metric::Density, Metric::Coverage],
                ..settings
            },
            Preset::VendiScore => ScoreSettings { metrics: vec![Metric::Vendi], ..settings },
        }
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        by_name("preset", text, &Preset::ALL, Preset::name)
    }
}

/// The metrics to compute, and their definitions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScoreSettings {
    /// The metrics, in order.
    pub metrics: Vec<Metric>,
    /// The kernel of `rke` and `mmd`.
    pub kernel: KernelSpec,
    /// The kernel of `vendi`.
    pub vendi_kernel: KernelSpec,
    /// The order of `vendi`.
    pub order: f64,
    /// The subsets of `kid`.
    pub kid: KidSettings,
    /// The neighbourhoods of `precision`, `recall`, `density` and `coverage`.
    pub neighbourhoods: Neighbourhoods,
    /// The sample sizes of `fid_infinity`.
    pub extrapolation: Extrapolation,
    /// The seed of the subsample that determines an automatic bandwidth.
    pub seed: u64,
}

impl Default for ScoreSettings {
    fn default() -> Self {
        Self {
            metrics: Metric::OF_PAPER.to_vec(),
            kernel: KernelSpec::default(),
            vendi_kernel: KernelSpec::Cosine,
            order: 1.0,
            kid: KidSettings::default(),
            neighbourhoods: Neighbourhoods::default(),
            extrapolation: Extrapolation::default(),
            seed: 0,
        }
    }
}

setters! {
    ScoreSettings {
        /// Sets the metrics, in order.
        metrics: Vec<Metric>,
        /// Sets the kernel of `rke` and `mmd`.
        kernel: KernelSpec,
        /// Sets the kernel of `vendi`.
        vendi_kernel: KernelSpec,
        /// Sets the order of `vendi`.
        order: f64,
        /// Sets the subsets of `kid`.
        kid: KidSettings,
        /// Sets the neighbourhoods of `precision`, `recall`, `density` and `coverage`.
        neighbourhoods: Neighbourhoods,
        /// Sets the sample sizes of `fid_infinity`.
        extrapolation: Extrapolation,
        /// Sets the seed of the subsample that determines an automatic bandwidth.
        seed: u64,
    }
}

impl ScoreSettings {
    /// Whether any metric uses nearest neighbours.
    pub(super) fn has_neighbourhoods(&self) -> bool {
        let counts = [Metric::Precision, Metric::Recall, Metric::Density, Metric::Coverage];
        self.metrics.iter().any(|metric| counts.contains(metric))
    }

    /// The same settings with only the metrics that need no reference: rke and vendi.
    #[must_use]
    pub fn without_reference(self) -> Self {
        let metrics = Metric::ALL.into_iter().filter(|metric| !metric.needs_reference()).collect();
        Self { metrics, ..self }
    }
}

/// Scores by metric.
pub type ScoreTable = BTreeMap<Metric, Estimate>;

/// Computes the metrics of pools; shares kernels and everything that depends only on the reference.
pub struct Scorer<'a> {
    settings: ScoreSettings,
    kernel: Kernel,
    vendi_kernel: Kernel,
    reference: Option<&'a Features>,
    fid: Option<FidReference<'a>>,
    balls: Option<ReferenceBalls<'a>>,
    /// In double precision, and as given.
    exact: Engine,
    fast: Engine,
}

impl<'a> Scorer<'a> {
    /// Checks the settings and prepares the reference. `sets` are all samples that will be scored: without a reference,
    /// an automatic bandwidth is their median distance.
    ///
    /// # Errors
    /// If a metric needs a reference and there is none, if settings are out of range, or if the reference is too small.
    pub fn new(
        settings: ScoreSettings,
        sets: &[&Features],
        reference: Option<&'a Features>,
        engine: &Engine,
    ) -> Result<Self> {
        sets.iter().copied().chain(reference).try_for_each(|set| set.host().map(drop))?;
        let has = |metrics: &[Metric]| metrics.iter().any(|metric| settings.metrics.contains(metric));
        let is_repeated = |(index, metric): &(usize, &Metric)| settings.metrics[..*index].contains(metric);
        if let Some((_, metric)) = settings.metrics.iter().enumerate().find(is_repeated) {
            return Err(Error::setting(&format!("metric {metric}"), "listed twice", "listed once"));
        }
        if let Some(metric) = settings.metrics.iter().find(|metric| metric.needs_reference() && reference.is_none()) {
            return Err(Error::missing_input(
                Input::Reference,
                metric.name(),
                "a reference set: features of real samples from the same encoder; rke and vendi need none",
            ));
        }
        let exact = engine.precise();
        let width = reference.or(sets.first().copied()).map(Features::width);
        let find = |spec: &KernelSpec| {
            spec.resolve(width, &mut || match reference {
                Some(reference) => median_distance(&[reference], settings.seed),
                None => median_distance(sets, settings.seed),
            })
        };
        let moments = [Metric::Fid, Metric::FidInfinity];
        // The bandwidth is computed only if it is used: equal samples have none.
        let kernel = if has(&[Metric::Rke, Metric::Mmd]) {
            find(&settings.kernel)?
        } else {
            Kernel::Gaussian { bandwidth: 1.0 }
        };
        let vendi_kernel =
            if has(&[Metric::Vendi]) { find(&settings.vendi_kernel)? } else { Kernel::Cosine { power: 1 } };
        let prepared = |wanted: &[Metric]| reference.filter(|_| has(wanted));
        Ok(Self {
            kernel,
            vendi_kernel,
            reference,
            fid: prepared(&moments).map(|reference| FidReference::new(reference, &exact)).transpose()?,
            balls: reference
                .filter(|_| settings.has_neighbourhoods())
                .map(|reference| ReferenceBalls::new(reference, &settings.neighbourhoods, &exact))
                .transpose()?,
            exact,
            fast: engine.clone(),
            settings,
        })
    }

    /// The kernel of `rke` and `mmd`, with its bandwidth.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The kernel of `vendi`.
    pub fn vendi_kernel(&self) -> &Kernel {
        &self.vendi_kernel
    }

    /// The settings.
    pub fn settings(&self) -> &ScoreSettings {
        &self.settings
    }

    /// Computes all metrics of one pool.
    ///
    /// # Errors
    /// Those of the metrics.
    pub fn score(&self, pool: &Pool<'_>) -> Result<ScoreTable> {
        // All metrics share one upload of the samples.
        let sets = pool.hold(&self.fast)?;
        let pool = &pool.held(&sets);
        let mut neighbourhoods: Option<Prdc> = None;
        let mut table = ScoreTable::new();
        for &metric in &self.settings.metrics {
            table.insert(metric, self.metric(metric, pool, &mut neighbourhoods)?);
        }
        Ok(table)
    }

    fn metric(&self, metric: Metric, pool: &Pool<'_>, neighbourhoods: &mut Option<Prdc>) -> Result<Estimate> {
        let reference = || self.reference.expect("metrics with a reference were checked when the scorer was made");
        let fid = || self.fid.as_ref().expect("prepared if fid is requested");
        Ok(match metric {
            Metric::Rke => rke_to_standard_error(pool, &self.kernel, &self.fast)?.modes,
            Metric::Vendi => vendi_estimate(pool, &self.vendi_kernel, self.settings.order, &self.exact)?,
            // Over this many pairs, rounding errors of single precision average out to less than a millionth.
            Metric::Kid => kid(pool, reference(), &kid_kernel(pool.width()), &self.settings.kid, &self.fast)?,
            // Unbiased estimates cancel to a small part of their terms, in all digits of single precision if samples and
            // reference are alike.
            Metric::KidFull => mmd(pool, reference(), &kid_kernel(pool.width()), &self.exact)?.unbiased,
            Metric::Mmd => mmd(pool, reference(), &self.kernel, &self.exact)?.unbiased,
            Metric::Cmmd => cmmd(pool, reference(), &self.exact)?,
            Metric::Fid => fid().estimate(pool, &self.exact)?,
            Metric::FidInfinity => fid().infinity(pool, &self.settings.extrapolation, &self.exact)?,
            Metric::Precision | Metric::Recall | Metric::Density | Metric::Coverage => {
                let all = match neighbourhoods {
                    Some(all) => *all,
                    None => {
                        let balls = self.balls.as_ref().expect("prepared if neighbourhoods are needed");
                        *neighbourhoods.insert(balls.score(pool, &self.exact)?)
                    }
                };
                match metric {
                    Metric::Precision => all.precision,
                    Metric::Recall => all.recall,
                    Metric::Density => all.density,
                    _ => all.coverage,
                }
            }
        })
    }
}
