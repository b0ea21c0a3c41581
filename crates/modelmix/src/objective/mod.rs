//! Objectives as data and as text: weighted sums of terms, such as `rke - 0.2*precision`. The module `loss` evaluates them on
//! samples.

mod grammar;
mod meaning;

use std::ops::{Add, Mul, Neg, Sub};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::kernel::KernelSpec;

pub use crate::kernel::{Bandwidth, Geometry, MEDIAN_ROWS, median_distance};
pub use crate::metrics::DEFAULT_NEIGHBOURS;
pub(crate) use meaning::MMD_SCALE;
pub use meaning::ScoreMeaning;

/// The largest order of a Vendi score that is a smooth function in double precision: above it, powers of small eigenvalues
/// underflow.
pub const LARGEST_ORDER: f64 = 64.0;

/// The objective to minimise: a weighted sum of terms.
///
/// Quadratic terms (`rke`, `mmd`, `kid`) and smooth terms (`fid`, `vendi`) need positive weights, so that the loss is convex;
/// linear terms may have any weight. Smooth terms are not means over pairs of samples, so only [`crate::solve`] supports them.
///
/// ```
/// use modelmix::Objective;
/// let objective: Objective = "rke(bandwidth=30) - 0.2*precision".parse()?;
/// assert_eq!(objective, Objective::rke().with_bandwidth(30.0) - 0.2 * Objective::precision());
/// assert_eq!(objective.to_string(), "rke(bandwidth=30) - 0.2*precision");
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Objective {
    terms: Vec<Term>,
    /// A kernel given to an objective whose only terms with a kernel are `kid`; `check` refuses it.
    refused_kernel: Option<KernelSpec>,
}

/// A term with its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The factor of the term.
    pub weight: f64,
    /// The measure.
    pub measure: Measure,
}

/// The measure of a term.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Measure {
    /// E[k²(X, X′)], whose inverse is the RKE mode count: small if the samples are diverse.
    Rke {
        /// k; [`KernelSpec::default`] if `None`.
        kernel: Option<KernelSpec>,
    },
    /// The squared maximum mean discrepancy to the reference: small if the samples resemble it.
    Mmd {
        /// k; [`KernelSpec::default`] if `None`.
        kernel: Option<KernelSpec>,
    },
    /// The Kernel Inception Distance (KID): the squared maximum mean discrepancy to the reference with the kernel (x·y/d + 1)³,
    /// over all pairs. Its score is the metric `kid_full`. Its kernel is fixed; [`Measure::Mmd`] supports any.
    Kid,
    /// The Fréchet distance to the reference (FID on Inception features): small if mean and covariance match.
    Fid,
    /// The negative Tsallis entropy of the samples' kernel matrix: small if the Vendi score is large. A positive weight rewards
    /// diversity.
    Vendi {
        /// q, above 0 and finite; default 1.
        order: f64,
        /// k with k(x, x) = 1; default cosine, independent of the kernel of other terms.
        kernel: KernelSpec,
    },
    /// Precision: the share of samples within the k-nearest-neighbour radius of a reference sample.
    Precision {
        /// k for the k-nearest-neighbour radii of the reference samples.
        neighbours: usize,
    },
    /// Density: the mean number of reference neighbourhoods that contain a sample, divided by `neighbours`.
    Density {
        /// k for the k-nearest-neighbour radii of the reference samples.
        neighbours: usize,
    },
    /// The cost per sample of the arm.
    Cost,
    /// A caller's score, given for every sample.
    Score {
        /// Its name.
        name: String,
    },
}

/// The names of all measures except callers' scores.
pub(crate) const MEASURE_NAMES: [&str; 8] = ["rke", "mmd", "kid", "fid", "vendi", "precision", "density", "cost"];

impl Measure {
    /// The name of the measure in an objective's text.
    pub fn name(&self) -> &str {
        match self {
            Measure::Rke { .. } => "rke",
            Measure::Mmd { .. } => "mmd",
            Measure::Kid => "kid",
            Measure::Fid => "fid",
            Measure::Vendi { .. } => "vendi",
            Measure::Precision { .. } => "precision",
            Measure::Density { .. } => "density",
            Measure::Cost => "cost",
            Measure::Score { name } => name,
        }
    }

    /// The kernel of `rke` or `mmd`, if one is given. Other measures have no choice of kernel.
    pub fn kernel(&self) -> Option<&Option<KernelSpec>> {
        match self {
            Measure::Rke { kernel } | Measure::Mmd { kernel } => Some(kernel),
            _ => None,
        }
    }

    fn kernel_mut(&mut self) -> Option<&mut Option<KernelSpec>> {
        match self {
            Measure::Rke { kernel } | Measure::Mmd { kernel } => Some(kernel),
            _ => None,
        }
    }

    /// The kernel of a quadratic measure, or the default if none is given.
    pub(crate) fn quadratic_kernel(&self) -> Option<KernelSpec> {
        match self {
            Measure::Rke { kernel } | Measure::Mmd { kernel } => Some(kernel.unwrap_or_default()),
            Measure::Kid => Some(KernelSpec::Kid),
            _ => None,
        }
    }

    /// Whether the measure is a mean over pairs of samples.
    pub fn is_quadratic(&self) -> bool {
        self.quadratic_kernel().is_some()
    }

    /// Whether the measure is a smooth function of the mixture weights that is not a mean over samples or pairs.
    pub fn is_smooth(&self) -> bool {
        matches!(self, Measure::Fid | Measure::Vendi { .. })
    }
}

impl Objective {
    fn of(measure: Measure) -> Self {
        Self::sum(vec![Term { weight: 1.0, measure }])
    }

    fn sum(terms: Vec<Term>) -> Self {
        Self { terms, refused_kernel: None }
    }

    /// The default objective: `mmd` if there is a reference to compare with, else `rke`.
    pub fn usual(has_reference: bool) -> Self {
        if has_reference { Self::mmd() } else { Self::rke() }
    }

    /// Diversity: the RKE mode count.
    pub fn rke() -> Self {
        Self::of(Measure::Rke { kernel: None })
    }

    /// Similarity to the reference: MMD².
    pub fn mmd() -> Self {
        Self::of(Measure::Mmd { kernel: None })
    }

    /// Similarity to the reference: the Kernel Inception Distance (KID), MMD² with the kernel (x·y/d + 1)³.
    pub fn kid() -> Self {
        Self::of(Measure::Kid)
    }

    /// Similarity to the reference in mean and covariance: the Fréchet distance.
    pub fn fid() -> Self {
        Self::of(Measure::Fid)
    }

    /// Diversity: the Vendi score of order 1 on the cosine kernel. More diversity is a smaller loss, so add it.
    pub fn vendi() -> Self {
        Self::vendi_of(1.0, KernelSpec::Cosine)
    }

    /// Diversity: the Vendi score of this order on this kernel.
    pub fn vendi_of(order: f64, kernel: KernelSpec) -> Self {
        Self::of(Measure::Vendi { order, kernel })
    }

    /// Precision: the share of samples near the reference. Higher is better, so subtract it.
    pub fn precision() -> Self {
        Self::of(Measure::Precision { neighbours: DEFAULT_NEIGHBOURS })
    }

    /// Density: how densely the reference surrounds the samples. Higher is better, so subtract it.
    pub fn density() -> Self {
        Self::of(Measure::Density { neighbours: DEFAULT_NEIGHBOURS })
    }

    /// The cost per sample, given per arm.
    pub fn cost() -> Self {
        Self::of(Measure::Cost)
    }

    /// A custom score, given for every sample.
    pub fn score(name: impl Into<String>) -> Self {
        Self::of(Measure::Score { name: name.into() })
    }

    /// The terms in the order written.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The same objective with this kernel for every `rke` and `mmd` term without one. `vendi` and `kid` have their own
    /// kernels: if `kid` is the only term with a kernel, [`Objective::prepare`] refuses any other kernel.
    #[must_use]
    pub fn with_kernel(mut self, spec: KernelSpec) -> Self {
        for kernel in self.terms.iter_mut().filter_map(|term| term.measure.kernel_mut()) {
            kernel.get_or_insert(spec);
        }
        let is_kid = |term: &Term| term.measure == Measure::Kid;
        if self.terms.iter().any(is_kid) && !self.has_kernel_choice() && spec != KernelSpec::Kid {
            self.refused_kernel = Some(spec);
        }
        self
    }

    /// Whether it has an `rke` or `mmd` term, which support any kernel.
    pub fn has_kernel_choice(&self) -> bool {
        self.terms.iter().any(|term| term.measure.kernel().is_some())
    }

    /// The same objective with a Gaussian kernel of this bandwidth for every `rke` and `mmd` term without a kernel.
    #[must_use]
    pub fn with_bandwidth(self, bandwidth: f64) -> Self {
        self.with_kernel(KernelSpec::Gaussian { bandwidth: Bandwidth::Fixed(bandwidth) })
    }

    /// The same weights with other measures, one per term.
    pub(crate) fn with_measures(&self, measures: impl IntoIterator<Item = Measure>) -> Self {
        let terms = self.terms.iter().zip(measures);
        Self::sum(terms.map(|(term, measure)| Term { weight: term.weight, measure }).collect())
    }

    /// Checks that precision and density alone, with positive weights, are not minimised.
    pub(crate) fn check_direction(&self) -> Result<()> {
        if !self.is_reversed_quality() {
            return Ok(());
        }
        let must = format!("{}: objectives are minimised, and a higher value of this one is better", -self.clone());
        Err(Error::setting("the objective", self, must))
    }

    /// The sum of these terms.
    pub(crate) fn of_terms(terms: Vec<Term>) -> Self {
        Self::sum(terms)
    }

    /// Checks that every weight is a number, that those of quadratic and smooth terms are positive, and that `kid` has its own
    /// kernel.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(spec) = self.refused_kernel {
            return Err(match spec {
                KernelSpec::Gaussian { bandwidth: Bandwidth::Fixed(bandwidth) } => Error::setting(
                    "the bandwidth of kid",
                    bandwidth,
                    format!("left out: {}", kid_has_one_kernel(&spec)),
                ),
                _ => Error::setting("the kernel of kid", spec, format!("left out: {}", kid_has_one_kernel(&spec))),
            });
        }
        for Term { weight, measure } in &self.terms {
            let what = format!("the weight of {}", measure.name());
            if !weight.is_finite() {
                return Err(Error::setting(&what, weight, "a finite number"));
            }
            // An objective is stored as text, so a score's name must parse as that score.
            if let Measure::Score { name } = measure
                && !Self::parse(name).is_ok_and(|read| read == Self::score(name))
            {
                return Err(Error::setting(
                    "a score's name",
                    format!("\"{name}\""),
                    format!("a word of letters, digits and _ other than {}", MEASURE_NAMES.join(", ")),
                ));
            }
            if let Measure::Vendi { order, .. } = measure {
                check_order(*order)?;
            }
            if (measure.is_quadratic() || measure.is_smooth()) && *weight <= 0.0 {
                return Err(Error::setting(
                    &what,
                    weight,
                    "positive, or the loss is not convex in the mixture weights",
                ));
            }
        }
        Ok(())
    }
}

/// The reason why `kid` refuses a kernel, and what to write instead.
pub(crate) fn kid_has_one_kernel(spec: &KernelSpec) -> String {
    let instead = match spec {
        KernelSpec::Kid => "kid without settings".to_string(),
        KernelSpec::Gaussian { .. } => format!("mmd({spec}) for MMD² with a Gaussian kernel"),
        _ => format!("mmd({spec}) for MMD² with this kernel"),
    };
    format!("KID has one kernel, (x·y/d + 1)³, which has no bandwidth; write {instead}")
}

/// Checks that the Vendi score of this order is smooth.
///
/// # Errors
/// An order that is not between 0 and [`LARGEST_ORDER`].
pub(crate) fn check_order(order: f64) -> Result<()> {
    if order > 0.0 && order <= LARGEST_ORDER {
        return Ok(());
    }
    let must = if order == 0.0 || order == f64::INFINITY {
        format!(
            "above 0 and at most {LARGEST_ORDER}: the Vendi score of order {order} is not smooth in the mixture weights; optimise another order, and use this one with score"
        )
    } else {
        format!("a number above 0 and at most {LARGEST_ORDER}")
    };
    Err(Error::setting("the order of vendi", order, must))
}

impl Add for Objective {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self.terms.extend(other.terms);
        self.refused_kernel = self.refused_kernel.or(other.refused_kernel);
        self
    }
}

impl Sub for Objective {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Neg for Objective {
    type Output = Self;

    fn neg(self) -> Self {
        -1.0 * self
    }
}

impl Mul<Objective> for f64 {
    type Output = Objective;

    fn mul(self, mut objective: Objective) -> Objective {
        for term in &mut objective.terms {
            term.weight *= self;
        }
        objective
    }
}

impl Mul<f64> for Objective {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        factor * self
    }
}
