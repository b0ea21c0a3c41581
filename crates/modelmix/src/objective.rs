//! Objectives as data and as text: weighted sums of terms, such as `rke - 0.2*precision`.
//! What they evaluate to on samples is left to `loss`.

use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::kernel::{Bandwidth, KernelSpec};
use crate::text::{Call, Reader};

/// How many neighbours the balls of precision and density reach to, where nothing else is said.
pub const NEIGHBOURS: usize = 5;

/// What is to be minimised: a weighted sum of terms.
///
/// Quadratic terms (`rke`, `mmd`, `kid`) need positive weights, so that the loss stays convex; linear terms take any.
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
    /// The same as [`Measure::Mmd`], read as ×100, as Kernel Inception Distances are printed. Like the paper it has a
    /// Gaussian kernel unless another is named; `kid(kernel=kid)` is the usual (x·y/d + 1)³.
    Kid {
        /// k; [`KernelSpec::default`] where it is left out.
        kernel: Option<KernelSpec>,
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
pub(crate) const MEASURES: [&str; 6] = ["rke", "mmd", "kid", "precision", "density", "cost"];

impl Measure {
    /// The word for it.
    pub fn name(&self) -> &str {
        match self {
            Measure::Rke { .. } => "rke",
            Measure::Mmd { .. } => "mmd",
            Measure::Kid { .. } => "kid",
            Measure::Precision { .. } => "precision",
            Measure::Density { .. } => "density",
            Measure::Cost => "cost",
            Measure::Score { name } => name,
        }
    }

    /// The kernel of a quadratic measure: the one named, or none yet.
    pub fn kernel(&self) -> Option<&Option<KernelSpec>> {
        match self {
            Measure::Rke { kernel } | Measure::Mmd { kernel } | Measure::Kid { kernel } => Some(kernel),
            _ => None,
        }
    }

    fn kernel_mut(&mut self) -> Option<&mut Option<KernelSpec>> {
        match self {
            Measure::Rke { kernel } | Measure::Mmd { kernel } | Measure::Kid { kernel } => Some(kernel),
            _ => None,
        }
    }

    /// Whether the measure is about pairs of samples; else it is an average over samples.
    pub fn is_quadratic(&self) -> bool {
        self.kernel().is_some()
    }
}

impl Objective {
    fn of(measure: Measure) -> Self {
        Self { terms: vec![Term { weight: 1.0, measure }] }
    }

    /// Diversity alone: the RKE mode count.
    pub fn rke() -> Self {
        Self::of(Measure::Rke { kernel: None })
    }

    /// Likeness to the reference: MMD².
    pub fn mmd() -> Self {
        Self::of(Measure::Mmd { kernel: None })
    }

    /// The same as [`Objective::mmd`], read as KID × 100.
    pub fn kid() -> Self {
        Self::of(Measure::Kid { kernel: None })
    }

    /// The share of samples near the reference. More is better, so subtract it.
    pub fn precision() -> Self {
        Self::of(Measure::Precision { neighbours: NEIGHBOURS })
    }

    /// How densely the reference surrounds the samples. More is better, so subtract it.
    pub fn density() -> Self {
        Self::of(Measure::Density { neighbours: NEIGHBOURS })
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

    /// The same objective, with this kernel for every quadratic term that names none.
    #[must_use]
    pub fn with_kernel(mut self, spec: KernelSpec) -> Self {
        for kernel in self.terms.iter_mut().filter_map(|term| term.measure.kernel_mut()) {
            kernel.get_or_insert(spec);
        }
        self
    }

    /// The same objective, with a Gaussian kernel of this bandwidth for every quadratic term that names none.
    #[must_use]
    pub fn with_bandwidth(self, bandwidth: f64) -> Self {
        self.with_kernel(KernelSpec::Gaussian { bandwidth: Bandwidth::Fixed(bandwidth) })
    }

    /// Reads `[-] [number*] term [± [number*] term …]`, where a term is a word, perhaps with settings in parentheses.
    /// A word that is not a measure is a caller's score.
    ///
    /// # Errors
    /// What was expected, and at which character.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = Reader::new(text);
        let mut terms = Vec::new();
        while terms.is_empty() || !reader.is_done() {
            let sign = match (reader.take('-'), terms.is_empty()) {
                (true, _) => -1.0,
                (false, true) => 1.0,
                (false, false) if reader.take('+') => 1.0,
                _ => return Err(reader.error(reader.at(), "\"+\" or \"-\" is expected between terms")),
            };
            let factor = reader.number()?;
            if factor.is_some() && !reader.take('*') {
                return Err(reader.error(reader.at(), "\"*\" is expected after a number, as in 0.2*precision"));
            }
            let measure = Self::measure(&mut reader)?;
            let weight = sign * factor.unwrap_or(1.0);
            terms.push(Term { weight, measure });
        }
        Ok(Self { terms })
    }

    fn measure(reader: &mut Reader<'_>) -> Result<Measure> {
        let mut call = reader.call("a term")?;
        let kernel = ["kernel", "bandwidth", "scale", "offset", "degree"];
        let neighbours =
            |call: &mut Call<'_>| -> Result<usize> { Ok(call.count(reader, "neighbours")?.unwrap_or(NEIGHBOURS)) };
        let (measure, known): (Measure, &[&str]) = match call.name {
            "rke" => (Measure::Rke { kernel: KernelSpec::read(reader, &mut call)? }, &kernel),
            "mmd" => (Measure::Mmd { kernel: KernelSpec::read(reader, &mut call)? }, &kernel),
            "kid" => (Measure::Kid { kernel: KernelSpec::read(reader, &mut call)? }, &kernel),
            "precision" => (Measure::Precision { neighbours: neighbours(&mut call)? }, &["neighbours"]),
            "density" => (Measure::Density { neighbours: neighbours(&mut call)? }, &["neighbours"]),
            "cost" => (Measure::Cost, &[]),
            name => (Measure::Score { name: name.into() }, &[]),
        };
        call.finish(reader, known)?;
        Ok(measure)
    }

    /// Every weight must be a number, and those of quadratic terms positive.
    pub(crate) fn check(&self) -> Result<()> {
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
                    format!("a word of letters, digits and _ other than {}", MEASURES.join(", ")),
                ));
            }
            if measure.is_quadratic() && *weight <= 0.0 {
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

impl FromStr for Objective {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Objective {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<Objective> for String {
    fn from(objective: Objective) -> Self {
        objective.to_string()
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        match self {
            Measure::Precision { neighbours } | Measure::Density { neighbours } if *neighbours != NEIGHBOURS => {
                write!(f, "(neighbours={neighbours})")
            }
            Measure::Rke { kernel: Some(kernel) }
            | Measure::Mmd { kernel: Some(kernel) }
            | Measure::Kid { kernel: Some(kernel) } => {
                write!(f, "({kernel})")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Term { weight, measure }) in self.terms.iter().enumerate() {
            let negative = weight.is_sign_negative();
            f.write_str(match (index, negative) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            })?;
            if weight.abs() != 1.0 {
                write!(f, "{}*", weight.abs())?;
            }
            write!(f, "{measure}")?;
        }
        Ok(())
    }
}

impl Add for Objective {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self.terms.extend(other.terms);
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
