//! A loss: an objective with all inputs that it needs (reference, costs, bandwidth), which can be evaluated on samples,
//! as κ(x, x′) on pairs and f(x) on single ones. It stores the data of smooth terms; `spectral` evaluates them.

mod bandwidth;
mod open;
mod prepare;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compute::{Balls, Engine, Resident, Set, reserve};
use crate::error::{Error, Input, Result};
use crate::features::{Features, Rows};
use crate::kernel::Kernel;
use crate::metrics::Moments;
use crate::objective::{MEASURE_NAMES, Measure, Objective};
use crate::text::nearest;

pub use open::SessionLoss;
pub use prepare::Inputs;

/// Smallest and largest values of κ and f, from which the confidence widths of the paper are computed.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Ranges {
    /// The range of κ, κ₀ to κ₁.
    pub kappa: (f64, f64),
    /// The range of f, f₀ to f₁.
    pub linear: (f64, f64),
}

impl Ranges {
    /// Δκ = κ₁ − κ₀.
    pub fn kappa_width(&self) -> f64 {
        self.kappa.1 - self.kappa.0
    }

    /// Δ_L = 2Δκ + Δf, the sensitivity of the paper.
    pub fn sensitivity(&self) -> f64 {
        2.0 * self.kappa_width() + self.linear.1 - self.linear.0
    }
}

/// The linear part of a term, f(x).
#[derive(Clone, Debug)]
pub(crate) enum Linear {
    /// −2·E[k(x, Y)] over the reference.
    Cross(Kernel),
    /// 1 if a ball contains x, otherwise 0. Holds the squared radii of the balls.
    Precision(Arc<[f64]>),
    /// The number of balls that contain x, divided by the number of neighbours.
    Density(usize, Arc<[f64]>),
    /// The cost per sample, for each arm.
    Cost(Vec<f64>),
    /// A score given with the samples, and its range if known.
    Score(String, Option<(f64, f64)>),
}

/// What a smooth term depends on besides the samples.
#[derive(Clone, Debug)]
pub(crate) enum Smooth {
    /// The Fréchet distance to a reference with these moments.
    Fid(Arc<Moments>),
    /// The Vendi score of this order, with the kernel of the term.
    Vendi(f64, Kernel),
}

/// A term that can be evaluated: weight · (E κ + E f + constant), or a smooth term.
#[derive(Clone, Debug)]
pub(crate) struct PreparedTerm {
    pub(crate) measure: Measure,
    pub(crate) weight: f64,
    pub(crate) smooth: Option<Smooth>,
    /// κ, already squared for RKE.
    pub(crate) kappa: Option<Kernel>,
    /// The kernel as written, before squaring.
    pub(crate) kernel: Option<Kernel>,
    pub(crate) linear: Option<Linear>,
    /// E[k(Y, Y′)] over the reference, with and without self-pairs.
    pub(crate) constant: (f64, f64),
    /// The smallest and the largest value of `kernel` as given by the caller, for unbounded kernels.
    pub(crate) kernel_range: Option<(f64, f64)>,
}

impl PreparedTerm {
    /// The engine for the term's sums. `kid` is a published figure, with the digits of the metric `kid_full`: its kernel sums are
    /// in double precision.
    pub(crate) fn engine<'a>(&self, engine: &'a Engine) -> Cow<'a, Engine> {
        match self.measure {
            Measure::Kid => Cow::Owned(engine.precise()),
            _ => Cow::Borrowed(engine),
        }
    }

    /// The range of the term's kernel, or of its square.
    fn range_of(&self, kernel: &Kernel) -> Result<(f64, f64)> {
        let given = self.kernel_range.map(|(least, greatest)| {
            if Some(*kernel) == self.kernel {
                return (least, greatest);
            }
            let (low, high) = ((least * least).min(greatest * greatest), (least * least).max(greatest * greatest));
            (if least <= 0.0 && greatest >= 0.0 { 0.0 } else { low }, high)
        });
        kernel.range().or(given).ok_or_else(|| {
            let bounded = if self.measure == Measure::Kid { "mmd, whose Gaussian kernel is bounded" } else { "a Gaussian kernel" };
            Error::missing(
                format!("the unbounded kernel of {} ({kernel})", self.measure.name()),
                format!("its range for this policy; give the policy a constant, as in cab(sensitivity=0.03), give the range of the kernel, use the adaptive policy, which needs neither, or use {bounded}"),
            )
        })
    }
}

/// An objective with its inputs, ready to be evaluated on samples.
#[derive(Clone, Debug)]
pub struct Loss {
    objective: Objective,
    terms: Vec<PreparedTerm>,
    reference: Option<HeldReference>,
    width: Option<usize>,
    engine: Engine,
}

/// The reference, and its copy on the engine.
#[derive(Clone, Debug)]
struct HeldReference {
    features: Arc<Features>,
    set: Arc<dyn Resident>,
}

/// Scores given with samples, by name.
pub type Scores = BTreeMap<String, Vec<f64>>;

impl Loss {
    /// The objective as written.
    pub fn objective(&self) -> &Objective {
        &self.objective
    }

    /// The kernels in use with their bandwidths, one per term that has a kernel, in the order written.
    pub fn kernels(&self) -> Vec<Kernel> {
        self.terms.iter().filter_map(|term| term.kernel).collect()
    }

    /// The width that features must have, if known.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// The compute engine that it was prepared with.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The same loss for callers that run threads themselves.
    pub(crate) fn for_concurrent_callers(&self) -> Self {
        Self { engine: self.engine.for_concurrent_callers(), ..self.clone() }
    }

    /// Checks that inputs per arm were given for this number of arms.
    pub(crate) fn check_arms(&self, arms: usize) -> Result<()> {
        let costs = self.terms.iter().find_map(|term| match &term.linear {
            Some(Linear::Cost(costs)) if costs.len() != arms => Some(costs.len()),
            _ => None,
        });
        match costs {
            None => Ok(()),
            Some(costs) => Err(Error::missing_input(
                Input::Costs,
                "cost",
                format!("one cost per arm: {costs} costs were given for {arms} arms"),
            )),
        }
    }

    /// Checks that the loss consists of means over samples and pairs of samples. Sessions and statistics support only
    /// these.
    ///
    /// # Errors
    /// The first term that is not such a mean.
    pub(crate) fn check_means(&self) -> Result<()> {
        let smooth = self.terms.iter().find_map(|term| Some((term, term.smooth.as_ref()?)));
        match smooth {
            None => Ok(()),
            Some((term, smooth)) => Err(Error::Offline {
                term: term.measure.to_string(),
                instead: match smooth {
                    Smooth::Fid(_) => "mmd or kid",
                    Smooth::Vendi(..) => "rke",
                },
            }),
        }
    }

    /// Checks that all terms are quadratic or linear in the weights, which `what` requires.
    pub(crate) fn check_quadratic(&self, what: &str) -> Result<()> {
        match self.terms.iter().find(|term| term.smooth.is_some()) {
            None => Ok(()),
            Some(term) => Err(Error::missing(
                what,
                format!(
                    "an objective of means over samples and pairs of samples, but {} is not one; use mmd, kid or rke",
                    term.measure
                ),
            )),
        }
    }

    /// The number of rows of the reference; 0 if there is none.
    pub(crate) fn reference_len(&self) -> usize {
        self.reference.as_ref().map_or(0, |reference| reference.features.len())
    }

    pub(crate) fn terms(&self) -> &[PreparedTerm] {
        &self.terms
    }

    /// The constant that is added to αᵀKα + fᵀα in a reported loss: w·E[k(Y, Y′)] of every `mmd` and `kid`, as
    /// V-statistic.
    pub fn constant(&self) -> f64 {
        self.terms.iter().map(|term| term.weight * term.constant.0).sum()
    }

    /// The same as U-statistic: no row of the reference is paired with itself.
    pub fn unbiased_constant(&self) -> f64 {
        self.terms.iter().map(|term| term.weight * term.constant.1).sum()
    }

    /// The contribution of each row of the reference to the constant: 2w·E[k(y, Y)] over the other rows, of every `mmd` and `kid`.
    pub(crate) fn constant_by_row(&self) -> Result<Vec<f64>> {
        let mut values = Vec::new();
        for term in &self.terms {
            if let (Some(Linear::Cross(kernel)), Some(reference)) = (&term.linear, &self.reference) {
                let sums = term.engine(&self.engine).kernel_sums_within(kernel, &*reference.set)?;
                let factor = 2.0 * term.weight / (sums.len() as f64 - 1.0);
                values.resize(sums.len(), 0.0);
                values.iter_mut().zip(sums).for_each(|(value, sum)| *value += factor * sum);
            }
        }
        Ok(values)
    }

    /// The ranges of κ and f.
    ///
    /// # Errors
    /// If a kernel or a score has no known range; the message says how to give it. If there is a smooth term, which has
    /// neither κ nor f.
    pub fn ranges(&self) -> Result<Ranges> {
        self.check_means()?;
        let mut ranges = Ranges { kappa: (0.0, 0.0), linear: (0.0, 0.0) };
        let widen = |range: &mut (f64, f64), weight: f64, (least, greatest): (f64, f64)| {
            range.0 += (weight * least).min(weight * greatest);
            range.1 += (weight * least).max(weight * greatest);
        };
        for term in &self.terms {
            if let Some(kappa) = &term.kappa {
                widen(&mut ranges.kappa, term.weight, term.range_of(kappa)?);
            }
            let linear = match &term.linear {
                None => continue,
                Some(Linear::Cross(kernel)) => {
                    let (least, greatest) = term.range_of(kernel)?;
                    (-2.0 * greatest, -2.0 * least)
                }
                Some(Linear::Precision(_)) => (0.0, 1.0),
                Some(Linear::Density(neighbours, radii)) => (0.0, radii.len() as f64 / *neighbours as f64),
                Some(Linear::Cost(costs)) => {
                    costs.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &cost| (least.min(cost), most.max(cost)))
                }
                Some(Linear::Score(name, range)) => range.ok_or_else(|| {
                    Error::missing(format!("score {name}"), "its range for this policy; give its smallest and largest value, or use the adaptive policy, which needs none")
                })?,
            };
            widen(&mut ranges.linear, term.weight, linear);
        }
        Ok(ranges)
    }

    /// Checks the direction of the objective: precision and density alone, with positive weights, must not be
    /// minimised.
    pub(crate) fn check_direction(&self) -> Result<()> {
        self.objective.check_direction()
    }

    /// The known range of f of an arm's samples: from precision, which is 0 or 1 per sample, and from scores with a
    /// given range. Terms without a range contribute nothing here; their spread is estimated from samples.
    pub(crate) fn linear_spread(&self) -> f64 {
        let spread = |term: &PreparedTerm| match &term.linear {
            Some(Linear::Precision(_)) => term.weight.abs(),
            Some(Linear::Score(_, Some((least, greatest)))) => term.weight.abs() * (greatest - least),
            _ => 0.0,
        };
        self.terms.iter().map(spread).sum()
    }

    /// Checks that these rows can be evaluated.
    ///
    /// # Errors
    /// If the width is not that of the reference, or if a kernel is not defined on a row.
    pub fn check(&self, rows: Rows<'_>) -> Result<()> {
        self.check_width(rows.width())?;
        self.terms.iter().filter_map(|term| term.kernel).try_for_each(|kernel| kernel.check(rows))
    }

    /// The same for features, whose rows are not read if all kernels are defined everywhere.
    pub(crate) fn check_features(&self, features: &Features) -> Result<()> {
        self.check_width(features.width())?;
        self.terms.iter().filter_map(|term| term.kernel).try_for_each(|kernel| kernel.check_features(features))
    }

    fn check_width(&self, found: usize) -> Result<()> {
        match self.width.filter(|&width| width != found) {
            Some(expected) => {
                Err(Error::Width { origin: "features".into(), found, other: "this objective".into(), expected })
            }
            None => Ok(()),
        }
    }

    /// Computes κ(x, row) of every new sample x and every row of a set, in row-major order, in one pass per quadratic
    /// term. Other terms do not contribute.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn kappa_rows<'a>(&self, x: Rows<'_>, held: impl Into<Set<'a>>, out: &mut Vec<f64>) -> Result<()> {
        let held = held.into();
        out.clear();
        reserve(out, x.len() * held.len())?;
        out.resize(x.len() * held.len(), 0.0);
        for term in &self.terms {
            if let Some(kernel) = &term.kappa {
                term.engine(&self.engine).kernel_rows(kernel, term.weight, x, held, out)?;
            }
        }
        Ok(())
    }

    /// κ(x, x).
    pub fn kappa_self(&self, x: &[f32]) -> f64 {
        self.terms.iter().filter_map(|term| term.kappa.map(|kernel| term.weight * kernel.of_self(x))).sum()
    }

    /// f(x) of samples of one arm: the weighted sum of all terms.
    ///
    /// # Errors
    /// If a score is missing or does not have one value per sample, if the number of costs is not that of the arms, or
    /// if there is a smooth term.
    pub fn linear(&self, arm: usize, rows: Rows<'_>, scores: &Scores) -> Result<Vec<f64>> {
        self.check_means()?;
        let mut sums = vec![0.0; rows.len()];
        for term in &self.terms {
            if let Some(values) = self.term_linear(term, arm, rows, scores)? {
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += term.weight * value;
                }
            }
        }
        Ok(sums)
    }

    /// f(x) of one term, unweighted; `None` if the term has no linear part.
    pub(crate) fn term_linear(
        &self,
        term: &PreparedTerm,
        arm: usize,
        rows: Rows<'_>,
        scores: &Scores,
    ) -> Result<Option<Vec<f64>>> {
        self.term_linear_by_row(term, arm, rows.into(), scores, &mut None)
    }

    /// The same. If f is a mean over the rows of the reference, `by_row` receives, for each of these rows, the mean f
    /// of the samples as if that row were the whole reference.
    pub(crate) fn term_linear_by_row(
        &self,
        term: &PreparedTerm,
        arm: usize,
        rows: Set<'_>,
        scores: &Scores,
        by_row: &mut Option<Vec<f64>>,
    ) -> Result<Option<Vec<f64>>> {
        let Some(linear) = &term.linear else { return Ok(None) };
        let reference = || {
            let reference = self.reference.as_ref();
            Set::Resident(&*reference.expect("a term with balls or cross sums was prepared with a reference").set)
        };
        let counts =
            |radii: &[f64]| self.engine.ball_counts(rows, Balls { centres: reference(), squared_radii: radii });
        Ok(Some(match linear {
            Linear::Cross(kernel) => {
                let n = reference().len() as f64;
                let (sums, columns) = match rows {
                    Set::Host(one) if one.len() == 1 => {
                        let mut row = vec![0.0; reference().len()];
                        term.engine(&self.engine).kernel_rows(kernel, 1.0, one, reference(), &mut row)?;
                        (vec![row.iter().sum()], row)
                    }
                    _ => {
                        let sums = term.engine(&self.engine).kernel_sums(kernel, rows, reference())?;
                        (sums.rows, sums.columns)
                    }
                };
                *by_row = Some(columns.into_iter().map(|sum| -2.0 * sum / rows.len() as f64).collect());
                sums.into_iter().map(|sum: f64| -2.0 * sum / n).collect()
            }
            Linear::Precision(radii) => counts(radii)?.into_iter().map(|count| f64::from(count.min(1))).collect(),
            Linear::Density(neighbours, radii) => {
                counts(radii)?.into_iter().map(|count| f64::from(count) / *neighbours as f64).collect()
            }
            Linear::Cost(costs) => {
                let cost = *costs.get(arm).ok_or_else(|| {
                    Error::missing(format!("arm {arm}"), format!("a cost; {} costs were given", costs.len()))
                })?;
                vec![cost; rows.len()]
            }
            Linear::Score(name, _) => {
                let values = scores.get(name).ok_or_else(|| {
                    let hint = nearest(name, &MEASURE_NAMES)
                        .map_or(String::new(), |near| format!(" (or did you mean {near}?)"));
                    Error::missing_input(
                        Input::Scores,
                        format!("score {name}"),
                        format!(
                            "a value for every sample{hint}; the terms that need none are {}",
                            MEASURE_NAMES.join(", ")
                        ),
                    )
                })?;
                if values.len() != rows.len() {
                    return Err(Error::missing_input(
                        Input::Scores,
                        format!("score {name}"),
                        format!("one value per sample: {} values were given for {} samples", values.len(), rows.len()),
                    ));
                }
                if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                    return Err(Error::setting(&format!("score {name}"), value, "a finite number"));
                }
                values.clone()
            }
        }))
    }

    /// A hash of the objective, its kernels, ranges, costs and reference, so that a snapshot is restored only with the
    /// loss that it was taken with.
    ///
    /// It is the 64-bit FNV-1a hash of the following bytes, which stay the same in later releases: the objective as
    /// text; for every term its kernel as JSON, if it has one, the two ends of the ranges of kernel and score, if
    /// given, and all costs; the width of the reference as a 64-bit integer and its values. Numbers are little-endian.
    ///
    /// # Panics
    /// If the reference is on a device and cannot be copied to the host. That of a session is copied when it is created.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint_without_kernels(&[])
    }

    /// Copies the reference to the host, if it is on a device.
    pub(crate) fn download(&self) -> Result<()> {
        self.reference.iter().try_for_each(|reference| reference.features.host().map(drop))
    }

    /// The same; the kernels of some terms are no part of it.
    fn fingerprint_without_kernels(&self, without: &[usize]) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut feed = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        feed(self.objective.to_string().as_bytes());
        for (index, term) in self.terms.iter().enumerate() {
            if let Some(kernel) = term.kernel.as_ref().filter(|_| !without.contains(&index)) {
                feed(serde_json::to_string(kernel).expect("a kernel is plain data").as_bytes());
            }
            let mut numbers = Vec::new();
            numbers.extend(term.kernel_range.into_iter().flat_map(|(least, greatest)| [least, greatest]));
            match &term.linear {
                Some(Linear::Score(_, Some((least, greatest)))) => numbers.extend([*least, *greatest]),
                Some(Linear::Cost(costs)) => numbers.extend(costs),
                _ => {}
            }
            numbers.iter().for_each(|number| feed(&number.to_le_bytes()));
        }
        if let Some(HeldReference { features: reference, .. }) = &self.reference {
            feed(&(reference.width() as u64).to_le_bytes());
            reference.values().iter().for_each(|value| feed(&value.to_le_bytes()));
        }
        hash
    }
}
