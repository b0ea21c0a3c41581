//! Objectives as data and as text: weighted sums of terms, such as `rke - 0.2*precision`.
//! What they evaluate to on samples is left to `loss`.

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

/// The largest order of a Vendi score that is a smooth function in double precision: beyond it, powers of small eigenvalues
/// vanish.
pub const LARGEST_ORDER: f64 = 64.0;

/// What is to be minimised: a weighted sum of terms.
///
/// Quadratic terms (`rke`, `mmd`, `kid`) and smooth ones (`fid`, `vendi`) need positive weights, so that the loss stays
/// convex; linear terms take any. Smooth terms are not means over pairs of samples, so that only [`crate::solve`] takes
/// them.
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
    /// A kernel that was given to an objective whose only terms with a kernel are `kid`; `check` refuses it.
    refused_kernel: Option<KernelSpec>,
}

/// A term and its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// What it is multiplied by.
    pub weight: f64,
    /// What it measures.
    pub measure: Measure,
}

/// What a term measures.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Measure {
    /// E[k²(X, X′)], whose inverse is the RKE mode count: small when samples are diverse.
    Rke {
        /// k; [`KernelSpec::default`] where it is left out.
        kernel: Option<KernelSpec>,
    },
    /// The squared maximum mean discrepancy to the reference: small when samples are like it.
    Mmd {
        /// k; [`KernelSpec::default`] where it is left out.
        kernel: Option<KernelSpec>,
    },
    /// The Kernel Inception Distance (KID): the squared maximum mean discrepancy to the reference with the kernel
    /// (x·y/d + 1)³, over all pairs. Its score is the metric `kid_full`. It has no other kernel; [`Measure::Mmd`] takes any.
    Kid,
    /// The Fréchet distance to the reference (FID on Inception features): small when samples have its mean and covariance.
    Fid,
    /// The negative Tsallis entropy of the samples' kernel matrix: small when the Vendi score is large. Its weight is positive
    /// for more diversity.
    Vendi {
        /// q, above 0 and finite; 1 where it is left out.
        order: f64,
        /// k with k(x, x) = 1; cosine where it is left out, whatever kernel other terms are given.
        kernel: KernelSpec,
    },
    /// The share of samples that lie in a neighbourhood of the reference.
    Precision {
        /// Up to which neighbour the balls around reference samples reach.
        neighbours: usize,
    },
    /// How many neighbourhoods of the reference hold a sample, divided by `neighbours`.
    Density {
        /// Up to which neighbour the balls around reference samples reach.
        neighbours: usize,
    },
    /// What a sample of the arm costs.
    Cost,
    /// A score that the caller gives for every sample.
    Score {
        /// Its name.
        name: String,
    },
}

/// Every word of the grammar that is not a caller's score.
pub(crate) const MEASURE_NAMES: [&str; 8] = ["rke", "mmd", "kid", "fid", "vendi", "precision", "density", "cost"];

impl Measure {
    /// The word for it.
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

    /// The kernel of `rke` or `mmd`: the one named, or none yet. Other measures have no such choice; `kid` has one kernel.
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

    /// The kernel of a quadratic measure, with the default for one that is not named.
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

    /// Whether the measure is a smooth function of the mixture weights that is no mean over samples or pairs of them.
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

    /// Diversity alone: the RKE mode count.
    pub fn rke() -> Self {
        Self::of(Measure::Rke { kernel: None })
    }

    /// Likeness to the reference: MMD².
    pub fn mmd() -> Self {
        Self::of(Measure::Mmd { kernel: None })
    }

    /// Likeness to the reference: the Kernel Inception Distance (KID), MMD² with the kernel (x·y/d + 1)³.
    pub fn kid() -> Self {
        Self::of(Measure::Kid)
    }

    /// Likeness to the reference in mean and covariance: the Fréchet distance.
    pub fn fid() -> Self {
        Self::of(Measure::Fid)
    }

    /// Diversity by the Vendi score of order 1 on the cosine kernel. More diverse is less loss, so add it.
    pub fn vendi() -> Self {
        Self::vendi_of(1.0, KernelSpec::Cosine)
    }

    /// The same of another order or on another kernel.
    pub fn vendi_of(order: f64, kernel: KernelSpec) -> Self {
        Self::of(Measure::Vendi { order, kernel })
    }

    /// The share of samples near the reference. More is better, so subtract it.
    pub fn precision() -> Self {
        Self::of(Measure::Precision { neighbours: DEFAULT_NEIGHBOURS })
    }

    /// How densely the reference surrounds the samples. More is better, so subtract it.
    pub fn density() -> Self {
        Self::of(Measure::Density { neighbours: DEFAULT_NEIGHBOURS })
    }

    /// The cost of a sample, given per arm.
    pub fn cost() -> Self {
        Self::of(Measure::Cost)
    }

    /// A score that is given for every sample.
    pub fn score(name: impl Into<String>) -> Self {
        Self::of(Measure::Score { name: name.into() })
    }

    /// The terms in the order written.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The same objective, with this kernel for every term of `rke` and `mmd` that names none. `vendi` and `kid` have their own:
    /// if `kid` is the only term with a kernel, [`Objective::prepare`] refuses any other kernel.
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

    /// Whether it has a term of `rke` or `mmd`, which take any kernel.
    pub fn has_kernel_choice(&self) -> bool {
        self.terms.iter().any(|term| term.measure.kernel().is_some())
    }

    /// The same objective, with a Gaussian kernel of this bandwidth for every term of `rke` and `mmd` that names none.
    #[must_use]
    pub fn with_bandwidth(self, bandwidth: f64) -> Self {
        self.with_kernel(KernelSpec::Gaussian { bandwidth: Bandwidth::Fixed(bandwidth) })
    }

    /// The same weights with other measures, one for each term.
    pub(crate) fn with_measures(&self, measures: impl IntoIterator<Item = Measure>) -> Self {
        let terms = self.terms.iter().zip(measures);
        Self::sum(terms.map(|(term, measure)| Term { weight: term.weight, measure }).collect())
    }

    /// Every weight must be a number, and those of quadratic and smooth terms positive; `kid` has no other kernel than its own.
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
            // An objective is stored as its text, so a score's name must read as that score.
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

/// Why `kid` refuses a kernel, and what to write instead.
pub(crate) fn kid_has_one_kernel(spec: &KernelSpec) -> String {
    let instead = match spec {
        KernelSpec::Kid => "kid without settings".to_string(),
        _ => format!("mmd({spec}) for MMD² with this kernel"),
    };
    format!("KID has one kernel, (x·y/d + 1)³, which has no bandwidth; write {instead}")
}

/// Whether there is a smooth Vendi score of this order.
///
/// # Errors
/// An order that is not between 0 and [`LARGEST_ORDER`].
pub(crate) fn check_order(order: f64) -> Result<()> {
    if order > 0.0 && order <= LARGEST_ORDER {
        return Ok(());
    }
    let must = if order == 0.0 || order == f64::INFINITY {
        format!(
            "above 0 and at most {LARGEST_ORDER}: the Vendi score of order {order} is not smooth in the mixture weights, so score mixtures by it and optimise another order"
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
