//! Prepares a loss from an objective: collects and checks its inputs, and computes what depends only on the reference.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::open::{SessionLoss, is_automatic};
use super::{HeldReference, Linear, Loss, PreparedTerm, Smooth};
use crate::arms::{RecordedArms, check_rows};
use crate::compute::{Engine, Set};
use crate::error::{Error, Input, Result};
use crate::features::Features;
use crate::kernel::{Kernel, KernelSpec, median_distance};
use crate::metrics::Moments;
use crate::objective::{Measure, Objective};

/// The placeholder for a bandwidth that a session has not chosen yet. No kernel is evaluated with it.
const OPEN_BANDWIDTH: f64 = 1.0;

/// The inputs of an objective. Each is optional unless a term needs it.
#[derive(Clone, Debug, Default)]
pub struct Inputs<'a> {
    reference: Option<Arc<Features>>,
    costs: Option<Vec<f64>>,
    arms: Option<&'a RecordedArms>,
    width: Option<usize>,
    kernel_range: Option<(f64, f64)>,
    kernel_ranges: Vec<(KernelSpec, (f64, f64))>,
    score_ranges: BTreeMap<String, (f64, f64)>,
    seed: u64,
    engine: Option<Engine>,
}

impl<'a> Inputs<'a> {
    /// Creates empty inputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the reference, for `mmd`, `kid`, `fid`, `precision` and `density`.
    #[must_use]
    pub fn reference(mut self, reference: impl Into<Arc<Features>>) -> Self {
        self.reference = Some(reference.into());
        self
    }

    /// Sets the cost per sample of each arm, for `cost`.
    #[must_use]
    pub fn costs(mut self, costs: Vec<f64>) -> Self {
        self.costs = Some(costs);
        self
    }

    /// Sets recorded arms, which provide the width, and the scale of an `auto` bandwidth if there is no reference.
    #[must_use]
    pub fn arms(mut self, arms: &'a RecordedArms) -> Self {
        self.arms = Some(arms);
        self.width(arms.width())
    }

    /// Sets the width of the features, if there are neither arms nor a reference.
    #[must_use]
    pub fn width(mut self, width: usize) -> Self {
        self.width = Some(width);
        self
    }

    /// Sets the smallest and the largest value of unbounded kernels, such as polynomials. The range is that of k as
    /// written, even if a term squares it. [`Inputs::kernel_range_of`] takes precedence.
    #[must_use]
    pub fn kernel_range(mut self, least: f64, greatest: f64) -> Self {
        self.kernel_range = Some((least, greatest));
        self
    }

    /// Sets the smallest and the largest value of one kernel, as the objective writes it.
    #[must_use]
    pub fn kernel_range_of(mut self, kernel: KernelSpec, least: f64, greatest: f64) -> Self {
        self.kernel_ranges.push((kernel, (least, greatest)));
        self
    }

    /// Sets the smallest and the largest value of one of your scores.
    #[must_use]
    pub fn score_range(mut self, score: impl Into<String>, least: f64, greatest: f64) -> Self {
        self.score_ranges.insert(score.into(), (least, greatest));
        self
    }

    /// Sets the seed of the subsample that determines an `auto` bandwidth.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the compute engine: a backend such as [`Cpu`](crate::compute::Cpu) or the `Cuda` of the crate `modelmix-cuda`, or
    /// an [`Engine`] with a stop token and an observer. The default uses all cores of this machine.
    #[must_use]
    pub fn engine(mut self, engine: impl Into<Engine>) -> Self {
        self.engine = Some(engine.into());
        self
    }
}

impl Objective {
    /// Checks the objective, finds `auto` parameters, and computes what depends only on the reference.
    ///
    /// # Errors
    /// If a reference, cost or width is missing, if weights or settings are out of range, or if the reference has
    /// another width.
    pub fn prepare(&self, inputs: Inputs<'_>) -> Result<Loss> {
        self.prepare_terms(inputs, None)
    }

    /// The same for a [`Session`](crate::Session): an automatic bandwidth stays open if there is neither a reference nor a recorded
    /// arm to measure, and the session finds it from its first samples.
    ///
    /// # Errors
    /// As [`Objective::prepare`].
    pub fn prepare_for_session(&self, inputs: Inputs<'_>) -> Result<SessionLoss> {
        let seed = inputs.seed;
        let open = if inputs.reference.is_some() || inputs.arms.is_some() {
            Vec::new()
        } else {
            let terms = self.terms().iter().enumerate();
            terms.filter(|(_, term)| is_automatic(&term.measure)).map(|(index, _)| index).collect()
        };
        let loss = self.prepare_terms(inputs, Some(OPEN_BANDWIDTH))?;
        Ok(SessionLoss::new(loss, open, seed))
    }

    /// `open` is what stands for a bandwidth that cannot be measured yet; without it, that is an error.
    fn prepare_terms(&self, inputs: Inputs<'_>, open: Option<f64>) -> Result<Loss> {
        self.check()?;
        let Inputs { reference, costs, arms, width, kernel_range, kernel_ranges, score_ranges, seed, engine } = inputs;
        let engine = engine.unwrap_or_default();
        if let Some(reference) = &reference {
            check_rows(reference).map_err(|error| error.of("the reference"))?;
            if let Some(arms) = arms {
                arms.check_reference(reference, "the reference")?;
            }
            if let Some(width) = width.filter(|&width| width != reference.width()) {
                return Err(Error::Width {
                    origin: "the reference".into(),
                    found: reference.width(),
                    other: "an arm".into(),
                    expected: width,
                });
            }
        }
        let is_range = |(least, greatest): (f64, f64)| least.is_finite() && greatest.is_finite() && least <= greatest;
        let given = kernel_range.into_iter().chain(kernel_ranges.iter().map(|(_, range)| *range));
        if let Some((least, greatest)) = given.into_iter().find(|&range| !is_range(range)) {
            return Err(Error::setting(
                "the kernel's range",
                format!("{least} to {greatest}"),
                "two numbers, the smaller first",
            ));
        }
        if let Some((score, (least, greatest))) = score_ranges.iter().find(|(_, range)| !is_range(**range)) {
            return Err(Error::setting(
                &format!("the range of score {score}"),
                format!("{least} to {greatest}"),
                "two numbers, the smaller first",
            ));
        }
        let width = width.or(reference.as_ref().map(|reference| reference.width()));
        let reference = reference.map(|features| HeldReference::new(features, &engine)).transpose()?;
        let mut build = TermBuilder {
            reference: reference.as_ref(),
            costs,
            arms,
            width,
            score_ranges,
            seed,
            open,
            engine: &engine,
            kernel_range,
            kernel_ranges,
            radii: BTreeMap::new(),
        };
        let terms =
            self.terms().iter().map(|term| build.prepare(&term.measure, term.weight)).collect::<Result<Vec<_>>>()?;
        Ok(Loss { objective: self.clone(), terms, reference, width, engine })
    }
}

impl HeldReference {
    fn new(features: Arc<Features>, engine: &Engine) -> Result<Self> {
        let set = engine.hold(&features)?.into();
        Ok(Self { features, set })
    }

    /// E[k(Y, Y′)] over the reference, with and without self-pairs.
    pub(super) fn constant(&self, kernel: &Kernel, engine: &Engine) -> Result<(f64, f64)> {
        let n = self.features.len() as f64;
        let pairs: f64 = engine.kernel_sums_within(kernel, &*self.set)?.iter().sum();
        let own: f64 = Set::from(&*self.features).self_values(kernel)?.iter().sum();
        Ok(((pairs + own) / (n * n), pairs / (n * (n - 1.0))))
    }
}

struct TermBuilder<'a> {
    reference: Option<&'a HeldReference>,
    costs: Option<Vec<f64>>,
    arms: Option<&'a RecordedArms>,
    width: Option<usize>,
    score_ranges: BTreeMap<String, (f64, f64)>,
    seed: u64,
    open: Option<f64>,
    engine: &'a Engine,
    kernel_range: Option<(f64, f64)>,
    kernel_ranges: Vec<(KernelSpec, (f64, f64))>,
    /// Squared radii by number of neighbours, so that precision and density share them.
    radii: BTreeMap<usize, Arc<[f64]>>,
}

impl<'a> TermBuilder<'a> {
    fn prepare(&mut self, measure: &Measure, weight: f64) -> Result<PreparedTerm> {
        let mut term = PreparedTerm {
            measure: measure.clone(),
            weight,
            smooth: None,
            kappa: None,
            kernel: None,
            linear: None,
            constant: (0.0, 0.0),
            kernel_range: self.range(measure),
        };
        match measure {
            Measure::Rke { kernel } => {
                let kernel = self.kernel(kernel)?;
                term.kernel = Some(kernel);
                term.kappa = Some(kernel.squared());
            }
            Measure::Mmd { .. } | Measure::Kid => {
                let reference = self.reference(measure.name())?;
                let kernel = self.kernel(&measure.quadratic_kernel())?;
                kernel.check_features(&reference.features).map_err(|error| error.of("the reference"))?;
                term.kernel = Some(kernel);
                term.kappa = Some(kernel);
                term.linear = Some(Linear::Cross(kernel));
                term.constant = reference.constant(&kernel, &term.engine(self.engine))?;
            }
            Measure::Fid => {
                let reference = self.reference(measure.name())?;
                term.smooth = Some(Smooth::Fid(Arc::new(Moments::of(&*reference.set, self.engine)?)));
            }
            Measure::Vendi { order, kernel } => {
                let kernel = self.kernel(&Some(*kernel))?;
                kernel.check_unit()?;
                term.kernel = Some(kernel);
                term.smooth = Some(Smooth::Vendi(*order, kernel));
            }
            Measure::Precision { neighbours } => {
                term.linear = Some(Linear::Precision(self.radii(measure, *neighbours)?))
            }
            Measure::Density { neighbours } => {
                term.linear = Some(Linear::Density(*neighbours, self.radii(measure, *neighbours)?));
            }
            Measure::Cost => {
                let costs = self
                    .costs
                    .clone()
                    .ok_or_else(|| Error::missing_input(Input::Costs, "cost", "the cost of a sample of each arm"))?;
                if let Some(arms) = self.arms.map(RecordedArms::len).filter(|&arms| arms != costs.len()) {
                    return Err(Error::missing_input(
                        Input::Costs,
                        "cost",
                        format!("one cost per arm: {} costs were given for {arms} arms", costs.len()),
                    ));
                }
                if let Some((arm, cost)) = costs.iter().enumerate().find(|(_, cost)| !cost.is_finite()) {
                    return Err(Error::setting(&format!("the cost of arm {arm}"), cost, "a finite number"));
                }
                term.linear = Some(Linear::Cost(costs));
            }
            Measure::Score { name } => {
                term.linear = Some(Linear::Score(name.clone(), self.score_ranges.get(name).copied()));
            }
        }
        Ok(term)
    }

    /// The range that was given for the kernel of a term, as written.
    fn range(&self, measure: &Measure) -> Option<(f64, f64)> {
        let written = measure.quadratic_kernel()?;
        let own = self.kernel_ranges.iter().rev().find(|(kernel, _)| *kernel == written);
        own.map(|(_, range)| *range).or(self.kernel_range)
    }

    fn reference(&self, what: &str) -> Result<&'a HeldReference> {
        self.reference.ok_or_else(|| {
            let needs = "a reference set: features of real samples from the same encoder";
            Error::missing_input(Input::Reference, what, needs)
        })
    }

    fn kernel(&self, spec: &Option<KernelSpec>) -> Result<Kernel> {
        // If there is a reference, only the reference is used: the kernel then does not depend on which arms compete.
        let sets: Vec<&Features> = match self.reference {
            Some(reference) => vec![&reference.features],
            None => self.arms.into_iter().flatten().map(|arm| &arm.features).collect(),
        };
        spec.unwrap_or_default().resolve(self.width, &mut || {
            if let Some(open) = self.open.filter(|_| sets.is_empty()) {
                return Ok(open);
            }
            if sets.is_empty() {
                return Err(Error::missing(
                    "an automatic bandwidth",
                    "samples to measure: recorded arms or a reference; or give the bandwidth as a number; for a session, use prepare_for_session, which leaves it open",
                ));
            }
            median_distance(&sets, self.seed)
        })
    }

    fn radii(&mut self, measure: &Measure, neighbours: usize) -> Result<Arc<[f64]>> {
        let reference = self.reference(measure.name())?;
        let rows = reference.features.len();
        if neighbours == 0 || neighbours >= rows {
            return Err(Error::setting(
                &format!("neighbours of {}", measure.name()),
                neighbours,
                format!("at least 1 and less than the reference's {rows} rows"),
            ));
        }
        if let Some(radii) = self.radii.get(&neighbours) {
            return Ok(Arc::clone(radii));
        }
        let nearest = self.engine.neighbours(&*reference.set, neighbours)?;
        let radii: Arc<[f64]> =
            nearest.chunks_exact(neighbours).map(|nearest| nearest[neighbours - 1].squared_distance).collect();
        self.radii.insert(neighbours, Arc::clone(&radii));
        Ok(radii)
    }
}
