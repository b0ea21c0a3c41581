//! From a survey to a plan: the method, from the objective, the numbers of rows and the error wanted, and what it costs.

use super::exact::next_power_of_two;
use super::moments::QUANTA_PER_DEVIATION;
use super::pairs::{PairKernel, pair_kernels};
use super::plan::{DEFAULT_FEATURES, PairPlan, gaussian, needs_balls};
use super::solve::feature_errors;
use super::terms::Terms;
use super::{Accumulator, Method, Plan, PlanSettings, Planned};
use crate::error::{Error, Input, Result};
use crate::fourier::MOST_FEATURES;
use crate::kernel::{Bandwidth, KernelSpec, median_distance};
use crate::mixture::SolveSettings;
use crate::numbers::{brief, count};
use crate::objective::{Measure, Objective};

/// Multiply-adds per second of a core, as measured on two kinds of processors, for estimates.
const PRODUCTS_PER_SECOND: f64 = 3.5e10;
const DOUBLE_PRODUCTS_PER_SECOND: f64 = 1.7e10;
const WAVES_PER_SECOND: f64 = 8e8;

/// Quanta of a sum over pairs per largest κ(x, x): with 2⁻⁴⁰, rounding the sum over a pair of blocks changes it by less than its
/// own rounding in double precision, unless there are fewer than 2¹² pairs.
const QUANTA_PER_KAPPA: f64 = (1_u64 << 40) as f64;
/// Whether the term compares with a reference.
pub(super) fn needs_reference(measure: &Measure) -> bool {
    matches!(measure, Measure::Mmd { .. } | Measure::Kid | Measure::Fid) || needs_balls(measure)
}

/// Whether the term has sums that merge: everything except kernels other than the Gaussian, and Vendi scores other than those
/// with the cosine kernel.
fn has_sums(measure: &Measure) -> bool {
    match measure {
        Measure::Vendi { kernel, .. } => *kernel == KernelSpec::Cosine,
        measure if measure.is_quadratic() => gaussian(measure).is_some(),
        _ => true,
    }
}

/// Whether the term can be computed with sums over pairs of blocks.
fn has_pair_sums(measure: &Measure) -> bool {
    measure.is_quadratic() || has_sums(measure)
}

/// A method's plan, or the smallest error that it has.
enum Attempt {
    Meets(Box<Plan>, Option<f64>),
    Least(f64),
}

impl Accumulator {
    /// Plans the sums for an objective, from a survey of all rows: which method, how many random features, and what that costs.
    ///
    /// Without a method, all pairs are evaluated if the survey has all rows; otherwise random features are used if they have the
    /// error wanted, or else the sampled rows if their error is as small. Bandwidths are found by the median rule from the sampled
    /// rows, of the reference if there is one.
    ///
    /// # Errors
    /// If the objective cannot be accumulated, if it needs a reference or costs that are missing, or if the error or the memory
    /// cannot be met; the message says what can.
    pub fn plan(&self, objective: &Objective, settings: &PlanSettings) -> Result<Planned> {
        objective.check()?;
        let names = self.arm_names_in(&settings.arms)?;
        let objective = self.with_bandwidths(objective, &names)?;
        let measures: Vec<&Measure> = objective.terms().iter().map(|term| &term.measure).collect();
        self.check_inputs(&measures, settings)?;
        self.check_sample(&names)?;
        let method = self.method(&measures, settings)?;
        if let (Some(features), true) = (settings.features, method != Method::Features) {
            let must = format!("left out, because the method {} has none for this objective", method.name());
            return Err(Error::setting("the number of random features", features, must));
        }
        let width = self.width().ok_or_else(|| Error::missing("a plan", "rows; the survey has none"))?;
        let draft = Plan {
            surveyed: self.rows(),
            method,
            objective: Some(objective.to_string()),
            arms: names,
            costs: settings.costs.clone(),
            width: Some(width),
            reference: settings
                .reference
                .as_ref()
                .filter(|_| measures.iter().any(|measure| needs_balls(measure)))
                .map(super::terms::checksum),
            ..self.plan.as_ref().clone()
        };
        if measures.iter().any(|measure| **measure == Measure::Cost) {
            draft.costs_of(&draft.arms)?;
        }
        let may_sample = settings.method.is_none() && settings.error.is_some() && method == Method::Features;
        let mut least = Vec::new();
        for method in [Some(method), may_sample.then_some(Method::Sample)].into_iter().flatten() {
            match self.attempt(Plan { method, ..draft.clone() }, &objective, settings)? {
                Attempt::Least(error) => least.push((method, error)),
                Attempt::Meets(plan, gain_error) => {
                    return within_memory(self.priced(*plan, &objective, gain_error, settings), settings);
                }
            }
        }
        Err(self.too_inexact(&draft, &objective, &least, settings))
    }

    /// Checks that the reference is there if a term needs it, and that the error wanted is a number.
    fn check_inputs(&self, measures: &[&Measure], settings: &PlanSettings) -> Result<()> {
        if let Some(measure) = measures.iter().find(|measure| needs_reference(measure))
            && self.reference_count() < 2
        {
            return Err(Error::missing_input(
                Input::Reference,
                measure.name(),
                "a reference set: features of real samples from the same encoder",
            ));
        }
        if let Some(measure) = measures.iter().find(|measure| needs_balls(measure))
            && settings.reference.is_none()
        {
            return Err(Error::missing_input(
                Input::Reference,
                measure.name(),
                "the whole reference in memory: its nearest-neighbour balls",
            ));
        }
        match settings.error {
            Some(error) if !(error.is_finite() && error > 0.0) => {
                Err(Error::setting("the error wanted", error, "a positive number"))
            }
            _ => Ok(()),
        }
    }

    /// The method: that of the settings, if it is possible.
    fn method(&self, measures: &[&Measure], settings: &PlanSettings) -> Result<Method> {
        let holds_all = self.holds_all_rows();
        let without = |has: fn(&Measure) -> bool| measures.iter().find(|measure| !has(measure));
        let (without_sums, without_pairs) = (without(has_sums), without(has_pair_sums));
        let refused = |method: Method, must: String| Err(Error::setting("the method", method.name(), must));
        let method = match settings.method {
            Some(Method::Survey) => {
                return refused(Method::Survey, "rows, sample, features or pairs".into());
            }
            Some(Method::Rows) if !holds_all => {
                return refused(
                    Method::Rows,
                    "sample, features or pairs, because the survey sampled some rows only; make it with more rows per arm"
                        .into(),
                );
            }
            Some(Method::Pairs) if !measures.iter().any(|measure| measure.is_quadratic()) => {
                return refused(Method::Pairs, "features: no term of the objective is a mean over pairs".into());
            }
            Some(method) => match (method, without_sums, without_pairs) {
                (Method::Features, Some(term), _) => {
                    return refused(
                        method,
                        format!(
                            "sample, rows or pairs: {term} has no sums that merge; only Gaussian kernels have random features"
                        ),
                    );
                }
                (Method::Pairs, _, Some(term)) => {
                    return refused(
                        method,
                        format!(
                            "sample or rows: {term} has no sums over pairs; only the cosine kernel has sums for vendi"
                        ),
                    );
                }
                _ => method,
            },
            None if holds_all && settings.features.is_none() => Method::Rows,
            None => match without_sums {
                None => Method::Features,
                Some(term) if measures.iter().any(|measure| measure.is_smooth()) => {
                    let instead = if without_pairs.is_none() { "the method pairs, " } else { "" };
                    return Err(Error::missing(
                        term.to_string(),
                        format!(
                            "pairs of rows, which a sample does not have together with fid or vendi; use {instead}a kernel with sums, or sample every row"
                        ),
                    ));
                }
                Some(_) => Method::Sample,
            },
        };
        Ok(if method == Method::Sample && holds_all { Method::Rows } else { method })
    }

    /// Completes a plan for its method, if that has the error wanted.
    fn attempt(&self, mut plan: Plan, objective: &Objective, settings: &PlanSettings) -> Result<Attempt> {
        let measures = || objective.terms().iter().map(|term| &term.measure);
        let width = plan.width.unwrap_or(1);
        if plan.method.sums_all_rows() {
            let (means, deviations) = self.sampled_moments(width);
            plan.centre = means;
            plan.cutoffs = self.cutoffs(&plan.arms);
            if measures().any(|measure| *measure == Measure::Fid) {
                plan.quanta = deviations.iter().map(|deviation| deviation / QUANTA_PER_DEVIATION).collect();
            }
        }
        let mut gain_error = None;
        match plan.method {
            Method::Features if measures().any(|measure| gaussian(measure).is_some()) => {
                let one = feature_errors(self, &plan, settings.reference.as_ref(), &self.terms.engine)?;
                let features = match (settings.features, settings.error, one) {
                    (Some(features), ..) if !(2..=MOST_FEATURES).contains(&features) => {
                        return Err(Error::setting(
                            "the number of random features",
                            features,
                            format!("between 2 and {MOST_FEATURES}"),
                        ));
                    }
                    (Some(features), ..) => features,
                    (None, Some(error), Some(one)) => {
                        let features = features_needed(one, error);
                        if features > MOST_FEATURES as f64 {
                            return Ok(Attempt::Least(one / ((MOST_FEATURES / 2) as f64).sqrt()));
                        }
                        (features as usize).max(256)
                    }
                    (None, ..) => DEFAULT_FEATURES,
                };
                plan.frequencies = features.div_ceil(2);
                gain_error = one.map(|one| one / (plan.frequencies as f64).sqrt());
                if let (Some(_), Some(one), Some(stated), Some(wanted)) =
                    (settings.features, one, gain_error, settings.error)
                    && stated > wanted
                {
                    return Err(too_few_features(plan.features(), stated, wanted, features_needed(one, wanted)));
                }
                let terms = Terms::new(&Plan { reference: None, ..plan.clone() }, None, self.terms.engine.clone())?;
                plan.drawn = Some(terms.checksum_of_waves(&plan));
            }
            Method::Sample if !measures().any(|measure| measure.is_smooth()) => {
                let sample = self.with_plan(&plan, settings.reference.clone())?;
                let mixture = sample.solve_with(&SolveSettings::new().intervals(false))?;
                gain_error = mixture.approximation.and_then(|approximation| approximation.gain_error);
                if let (Some(error), Some(wanted)) = (gain_error, settings.error)
                    && error > wanted
                {
                    return Ok(Attempt::Least(error));
                }
            }
            Method::Sample if settings.error.is_some() => return Ok(Attempt::Least(f64::INFINITY)),
            Method::Pairs => plan.pairs = Some(self.pair_plan(&plan.arms, objective, width)?),
            _ => {}
        }
        Ok(Attempt::Meets(Box::new(plan), gain_error))
    }

    /// Why no method has the error wanted, and which one is exact.
    fn too_inexact(
        &self,
        draft: &Plan,
        objective: &Objective,
        least: &[(Method, f64)],
        settings: &PlanSettings,
    ) -> Error {
        let reached = least.iter().filter(|(_, error)| error.is_finite()).map(|(method, error)| {
            let who = match method {
                Method::Features => format!("{} random features have", count(MOST_FEATURES)),
                _ => format!("a sample of {} rows per arm has", count(draft.sample)),
            };
            format!("{}, which {who}", brief(*error))
        });
        let reached: Vec<String> = reached.collect();
        let mut must = if reached.is_empty() {
            "left out, because the error of fid or vendi from a sample is unknown".to_string()
        } else {
            format!("at least {}", reached.join(", or "))
        };
        if settings.method.is_none_or(|method| method == Method::Sample) {
            must += "; sample more rows";
        }
        let measures = || objective.terms().iter().map(|term| &term.measure);
        if measures().any(Measure::is_quadratic) && measures().all(has_pair_sums) {
            let planned = self.priced(Plan { method: Method::Pairs, ..draft.clone() }, objective, None, settings);
            must += &format!("; or use the method pairs, which is exact and takes {}", planned.time(settings));
        }
        Error::setting("the error wanted", brief(settings.error.unwrap_or(0.0)), must)
    }

    /// How sums over pairs of blocks are rounded.
    fn pair_plan(&self, names: &[String], objective: &Objective, width: usize) -> Result<PairPlan> {
        let kernels = pair_kernels(objective, width)?;
        let sides = names.iter().map(|name| &self.arms[name]).chain([&self.reference]);
        let samples: Vec<_> = sides.flat_map(|side| side.sample.sorted()).collect();
        let largest = |term: &PairKernel| {
            let own = samples.iter().map(|sample| term.kernel.of_self(&sample.row).abs());
            let largest = own.fold(0.0, f64::max);
            // A power of two, so that dividing by it is exact.
            next_power_of_two(largest)
        };
        let sizes: Vec<f64> = kernels.iter().map(largest).collect();
        let weighted = kernels.iter().zip(&sizes).map(|(term, size)| term.weight.abs() * size).fold(0.0, f64::max);
        let row_quantum = next_power_of_two(weighted);
        Ok(PairPlan {
            quanta: sizes.into_iter().map(|size| size / QUANTA_PER_KAPPA).collect(),
            row_quantum: row_quantum / QUANTA_PER_KAPPA,
        })
    }

    /// What a plan costs.
    fn priced(&self, plan: Plan, objective: &Objective, gain_error: Option<f64>, settings: &PlanSettings) -> Planned {
        let measures = || objective.terms().iter().map(|term| &term.measure);
        let (arms, width) = (plan.arms.len() + 1, plan.width.unwrap_or(1));
        let gaussians = measures().filter(|measure| gaussian(measure).is_some()).count();
        let rows = self.counts().values().sum::<u64>() + self.reference_count();
        let held = if plan.method == Method::Rows { rows as usize } else { arms * plan.sample };
        let matrices = plan.matrices();
        let bytes = plan.bytes_of(held);
        // Multiply-adds of the pairs of one row each, over all kernels; those of kid are in double precision.
        let per_pair: f64 = measures()
            .filter(|measure| measure.is_quadratic())
            .map(|measure| {
                let speed = if *measure == Measure::Kid { DOUBLE_PRODUCTS_PER_SECOND } else { PRODUCTS_PER_SECOND };
                width as f64 / speed
            })
            .sum();
        let pairs = |rows: f64| rows * rows / 2.0 * per_pair;
        let of_moments = matrices as f64 * (width * width) as f64 / 2.0 / DOUBLE_PRODUCTS_PER_SECOND;
        let seconds = match plan.method {
            Method::Survey => 0.0,
            Method::Rows | Method::Sample => pairs(held as f64),
            Method::Features => {
                let per_wave = width as f64 / PRODUCTS_PER_SECOND + 2.0 / WAVES_PER_SECOND;
                rows as f64 * ((gaussians * plan.frequencies) as f64 * per_wave + of_moments)
            }
            Method::Pairs => pairs(rows as f64) + rows as f64 * of_moments,
        } / threads(settings) as f64;
        let error = gain_error.map(|error| format!(" (standard error of the gain {})", brief(error)));
        let error = error.unwrap_or_default();
        let moments = (matrices > 0).then(|| "moments of all rows".to_string());
        let what = match plan.method {
            Method::Survey => "survey".to_string(),
            Method::Rows => format!("exact: all pairs of {} rows", count(rows as usize)),
            Method::Sample => format!("exact pairs of a sample of {} rows per arm{error}", count(plan.sample)),
            Method::Features => {
                let features = (plan.frequencies > 0)
                    .then(|| format!("{} random Fourier features per kernel{error}", count(plan.features())));
                let parts: Vec<String> = features.into_iter().chain(moments).collect();
                if parts.is_empty() { "sums over all rows".into() } else { parts.join(", ") }
            }
            Method::Pairs => {
                let pairs = format!("exact sums over all pairs of {} rows, in blocks", count(rows as usize));
                [pairs].into_iter().chain(moments).collect::<Vec<_>>().join(", ")
            }
        };
        let warnings = if plan.method == Method::Rows { Vec::new() } else { self.sample_warnings(&plan.arms) };
        let mut planned = Planned {
            warnings,
            needs_second_pass: plan.method.sums_all_rows(),
            plan,
            rows,
            bytes,
            seconds,
            gain_error,
            text: String::new(),
        };
        planned.text = format!("{what}; {}, {} MB per accumulator", planned.time(settings), brief(bytes as f64 / 1e6));
        planned
    }

    /// The objective with the bandwidths of the median rule, from sampled rows.
    fn with_bandwidths(&self, objective: &Objective, names: &[String]) -> Result<Objective> {
        let measure = |measure: &Measure| -> Result<Measure> {
            let mut measure = measure.clone();
            let spec = match &mut measure {
                Measure::Rke { kernel } | Measure::Mmd { kernel } => kernel.get_or_insert_default(),
                Measure::Vendi { kernel, .. } => kernel,
                _ => return Ok(measure),
            };
            if let KernelSpec::Gaussian { bandwidth } | KernelSpec::Laplacian { bandwidth } = spec
                && *bandwidth == Bandwidth::Auto
            {
                let sets = if self.reference_count() > 1 {
                    vec![self.sampled_reference()?]
                } else {
                    names.iter().map(|name| self.sampled(name)).collect::<Result<_>>()?
                };
                *bandwidth = Bandwidth::Fixed(median_distance(&sets.iter().collect::<Vec<_>>(), self.plan.seed)?);
            }
            Ok(measure)
        };
        let measures = objective.terms().iter().map(|term| measure(&term.measure)).collect::<Result<Vec<_>>>()?;
        Ok(objective.with_measures(measures))
    }
}

impl Planned {
    /// The time in words.
    fn time(&self, settings: &PlanSettings) -> String {
        let seconds =
            if self.seconds < 1.0 { "under a second".into() } else { format!("about {} s", brief(self.seconds)) };
        format!("{seconds} on {} threads", threads(settings))
    }
}

/// The number of random features with this standard error of the gain; `one` is that with one frequency.
fn features_needed(one: f64, error: f64) -> f64 {
    (2.0 * (one / error).powi(2)).ceil()
}

fn too_few_features(features: usize, stated: f64, wanted: f64, needed: f64) -> Error {
    let fix = if needed <= MOST_FEATURES as f64 {
        format!("give at least {} random features, or leave out their number", count(needed as usize))
    } else {
        format!("no number up to {} has the error wanted, so use another method", count(MOST_FEATURES))
    };
    let must = format!("at least {}, which {} random features have; {fix}", brief(stated), count(features));
    Error::setting("the error wanted", brief(wanted), must)
}

fn threads(settings: &PlanSettings) -> usize {
    settings.threads.unwrap_or_else(crate::compute::available_threads)
}

fn within_memory(planned: Planned, settings: &PlanSettings) -> Result<Planned> {
    match settings.memory {
        Some(memory) if planned.bytes > memory => Err(Error::setting(
            "the memory",
            format!("{} bytes", count(memory as usize)),
            format!(
                "at least {} bytes for one accumulator; give more, or fewer random features or sampled rows",
                count(planned.bytes as usize)
            ),
        )),
        _ => Ok(planned),
    }
}
