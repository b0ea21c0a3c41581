//! From sums to the best mixture. Exact pairs of stored rows are solved as recorded arms are; sums of random features and moments
//! become the forms of a program, with intervals from the sampled rows and from the random frequencies.

use std::cmp::Ordering;

use super::choose::needs_reference;
use super::evidence::{Evidence, Samples, product};
use super::moments::QUANTA_PER_LENGTH;
use super::plan::gaussian;
use super::{Accumulator, ArmSums, Method, Plan, Terms};
use crate::arms::{RecordedArm, RecordedArms};
use crate::compute::{Engine, Matrix, WAVE_UNIT};
use crate::error::{Error, Input, Result};
use crate::features::Features;
use crate::influence::{Frequencies, Unsampled};
use crate::kernel::Kernel;
use crate::loss::Inputs;
use crate::metrics::Moments;
use crate::mixture::{Mixture, SolveSettings, SummedArms, SummedTerm, TermValue, solve_sample, solve_sums, solve_with};
use crate::numbers::count;
use crate::objective::{Measure, Objective};
use crate::quadratic::Quadratic;
use crate::spectral::Spectral;

/// The number of random frequencies from which the error of more of them is estimated.
const PILOT_FREQUENCIES: usize = 512;

impl Accumulator {
    /// Finds the best mixture of the arms.
    ///
    /// # Errors
    /// If it is a survey, if an arm has fewer than two rows, or as [`crate::solve`].
    pub fn solve(&self) -> Result<Mixture> {
        self.solve_with(&SolveSettings::new())
    }

    /// [`Accumulator::solve`] with settings.
    ///
    /// # Errors
    /// As [`Accumulator::solve`], and bounds for another number of arms.
    pub fn solve_with(&self, settings: &SolveSettings) -> Result<Mixture> {
        let names = self.arm_names_in(&self.plan.arms)?;
        let mut mixture = match self.plan.method {
            Method::Survey => {
                return Err(Error::missing("a survey", "a plan before it can be solved; give it an objective"));
            }
            Method::Rows | Method::Sample => self.solve_rows(&names, settings)?,
            Method::Features => solve_sums(&self.summed(&names, &self.terms.engine)?, settings)?,
            Method::Pairs => {
                self.check_pairs()?;
                solve_sums(&self.summed(&names, &self.terms.engine)?, settings)?
            }
        };
        mixture.warnings.extend(self.warnings());
        Ok(mixture)
    }

    /// A warning if the number of rows is not that of the survey: parts are missing, or count twice. [`Accumulator::solve`] adds it to
    /// [`Mixture::warnings`].
    pub fn warnings(&self) -> Vec<String> {
        let (rows, surveyed) = (self.rows(), self.plan.surveyed);
        let (which, fix) = match rows.cmp(&surveyed) {
            _ if self.plan.method == Method::Survey => return Vec::new(),
            Ordering::Equal => return Vec::new(),
            Ordering::Less => ("fewer", "add the parts that are missing"),
            Ordering::Greater => ("more", "check that no rows are summed twice, such as a file under two paths"),
        };
        let (rows, surveyed) = (count(rows as usize), count(surveyed as usize));
        vec![format!("the sums have {rows} rows, {which} than the {surveyed} that their plan was made from; {fix}")]
    }

    /// The value of every term of the objective, for each arm alone, in the order of the result.
    ///
    /// # Errors
    /// As [`Accumulator::solve`].
    pub fn scores(&self) -> Result<Vec<(String, Vec<TermValue>)>> {
        let mixture = self.solve_with(&SolveSettings::new().intervals(false))?;
        Ok(mixture.arms.into_iter().map(|arm| (arm.name, arm.terms)).collect())
    }

    /// Exact pairs of the stored rows.
    fn solve_rows(&self, names: &[String], settings: &SolveSettings) -> Result<Mixture> {
        let objective = self.objective()?;
        if self.plan.reference.is_some() && self.terms.reference.is_none() && !self.holds_all_rows() {
            let need = "the whole reference, and the sums have a sample of it";
            return Err(Error::missing_input(Input::Reference, "precision or density", need));
        }
        let arm = |name: &String| {
            let rows = self.arms[name].sample.sorted();
            let features = Features::from_rows(rows.iter().map(|row| &row.row))?;
            let mut arm = RecordedArm::new(name.clone(), features);
            for (at, score) in self.plan.scores.iter().enumerate() {
                arm = arm.with_score(score.clone(), rows.iter().map(|row| row.values[at]).collect());
            }
            Ok(arm)
        };
        let arms = RecordedArms::new(names.iter().map(arm).collect::<Result<_>>()?)?;
        let mut inputs = Inputs::new().arms(&arms).seed(self.plan.seed).engine(self.terms.engine.clone());
        if let Some(reference) = &self.terms.reference {
            inputs = inputs.reference(reference.clone());
        } else if self.reference.count > 0 {
            inputs = inputs.reference(self.sampled_reference()?);
        }
        if objective.terms().iter().any(|term| term.measure == Measure::Cost) {
            inputs = inputs.costs(self.plan.costs_of(names)?);
        }
        let loss = objective.prepare(inputs)?;
        if self.plan.method != Method::Sample {
            return solve_with(&arms, &loss, settings);
        }
        let share = |part: &ArmSums| 1.0 - part.sample.sorted().len() as f64 / part.count.max(1) as f64;
        let unsampled = Unsampled {
            arms: names.iter().map(|name| share(&self.arms[name])).collect(),
            reference: if self.terms.reference.is_some() { 0.0 } else { share(&self.reference) },
        };
        solve_sample(&arms, &loss, settings, self.plan.sample, &unsampled)
    }

    fn objective(&self) -> Result<&Objective> {
        self.terms.objective.as_ref().ok_or_else(|| Error::missing("a survey", "a plan before it can be solved"))
    }

    /// The sums as terms of a program.
    fn summed(&self, names: &[String], engine: &Engine) -> Result<SummedArms> {
        let objective = self.objective()?;
        let parts: Vec<&ArmSums> = names.iter().map(|name| &self.arms[name]).collect();
        let counts: Vec<usize> = parts.iter().map(|part| part.count as usize).collect();
        if let Some(arm) = counts.iter().position(|&count| count < 2) {
            let problem = "it needs at least 2 samples, but there is 1; record more";
            return Err(Error::Array { origin: format!("arm {}", names[arm]), problem: problem.into() });
        }
        if objective.terms().iter().any(|term| needs_reference(&term.measure)) && self.reference.count < 2 {
            return Err(Error::missing_input(
                Input::Reference,
                "the objective",
                "rows of the reference, which the sums do not have; sum them too, with the plan",
            ));
        }
        let samples = Samples::new(&parts);
        let mut evidence = Evidence::new(&samples, names.len(), &self.reference);
        let (mut terms, mut kernels, mut frequencies) = (Vec::new(), Vec::new(), Vec::new());
        let (mut map, mut linear) = (0, 0);
        let sides = self.sides_of(names);
        if !self.terms.kernels.is_empty() {
            evidence.add_pairs(self, &sides, &counts)?;
        }
        for term in objective.terms() {
            let measure = &term.measure;
            if measure.is_quadratic() && !self.terms.kernels.is_empty() {
                terms.push(self.pair_term(map, measure, &sides, &counts));
                kernels.extend(kernel_of(measure, self.plan.width));
                map += 1;
                continue;
            }
            if gaussian(measure).is_some() {
                let means: Vec<Vec<f64>> = parts.iter().map(|part| mean_waves(&part.waves[map], part.count)).collect();
                let has_reference = matches!(measure, Measure::Mmd { .. });
                let reference = if has_reference {
                    mean_waves(&self.reference.waves[map], self.reference.count)
                } else {
                    Vec::new()
                };
                terms.push(quadratic_term(term.weight, measure, &means, &counts, (&reference, self.reference.count)));
                let found = Frequencies { weight: term.weight, arms: means, reference };
                evidence.add_waves(&found, &counts, &self.plan, &self.terms.waves(&self.plan)?[map], engine)?;
                frequencies.push(found);
                kernels.extend(kernel_of(measure, self.plan.width));
                map += 1;
                continue;
            }
            match measure {
                Measure::Fid => {
                    let moments = |part: &ArmSums| self.moments(part);
                    let reference = moments(&self.reference)?;
                    let own = parts
                        .iter()
                        .map(|part| Ok((moments(part)?, part.count as usize)))
                        .collect::<Result<Vec<_>>>()?;
                    let spectral = Spectral::frechet_of(&reference, &own, engine)?;
                    terms.push(SummedTerm::smooth(measure, term.weight, spectral));
                }
                Measure::Vendi { order, .. } => {
                    let matrix = |part: &&ArmSums| {
                        let mut matrix = part.directions.as_ref().ok_or_else(no_moments)?.second_moment();
                        matrix.scale(1.0 / (part.count as f64 * QUANTA_PER_LENGTH * QUANTA_PER_LENGTH));
                        Ok((matrix, part.count as usize))
                    };
                    let own = parts.iter().map(matrix).collect::<Result<Vec<(Matrix, usize)>>>()?;
                    terms.push(SummedTerm::smooth(measure, term.weight, Spectral::vendi_of(*order, own, engine)?));
                    kernels.push(Kernel::Cosine { power: 1 });
                }
                Measure::Cost => {
                    let costs = self.plan.costs_of(names)?;
                    evidence.add_linear(term.weight, |sample| costs[samples.arm_of[sample]]);
                    terms.push(SummedTerm::linear(measure, term.weight, costs));
                }
                _ => {
                    let means = parts.iter().map(|part| part.linear[linear].value() / part.count as f64).collect();
                    let at = self.plan.scores.len() + linear;
                    evidence.add_linear(term.weight, |sample| samples.values[sample][at]);
                    terms.push(SummedTerm::linear(measure, term.weight, means));
                    linear += 1;
                }
            }
        }
        let features = if frequencies.is_empty() { 0 } else { self.plan.features() };
        Ok(SummedArms {
            names: names.to_vec(),
            counts,
            objective: objective.clone(),
            kernels,
            terms,
            statistics: evidence.statistics()?,
            by_row: evidence.by_row,
            reference_size: self.reference.count as usize,
            frequencies,
            features,
            linear_spread: objective
                .terms()
                .iter()
                .filter(|term| matches!(term.measure, Measure::Precision { .. }))
                .map(|term| term.weight.abs())
                .sum(),
            engine: engine.clone(),
        })
    }

    /// Mean and covariance from the sums of an arm.
    fn moments(&self, part: &ArmSums) -> Result<Moments> {
        let sums = part.moments.as_ref().ok_or_else(no_moments)?;
        let quanta = &self.plan.quanta;
        let mean = sums.sums.iter().zip(&self.plan.centre).zip(quanta);
        let mean = mean.map(|((&sum, &centre), quantum)| f64::from(centre) + sum as f64 / part.count as f64 * quantum);
        let mut covariance = sums.scatter(part.count);
        for (column, across) in quanta.iter().enumerate() {
            let values = covariance.column_mut(column).iter_mut().zip(quanta);
            values.for_each(|(value, down)| *value *= across * down / (part.count as f64 - 1.0));
        }
        Moments::new(mean.collect(), covariance)
    }
}

fn no_moments() -> Error {
    Error::missing("fid or vendi", "moments; the plan has none")
}

fn kernel_of(measure: &Measure, width: Option<usize>) -> Option<Kernel> {
    let spec = measure.quadratic_kernel()?;
    spec.resolve(width, &mut || Err(Error::missing("a plan", "bandwidths as numbers"))).ok()
}

/// Mean cosines and sines of an arm.
fn mean_waves(sums: &[i64], count: u64) -> Vec<f64> {
    let scale = 1.0 / (count as f64 * WAVE_UNIT as f64);
    sums.iter().map(|&sum| sum as f64 * scale).collect()
}

/// K̂ and f̂ of a Gaussian term, with and without self-pairs. κ(x, x) = 1.
fn quadratic_term(
    weight: f64,
    measure: &Measure,
    means: &[Vec<f64>],
    counts: &[usize],
    reference: (&[f64], u64),
) -> SummedTerm {
    let arms = means.len();
    let (mut biased, mut unbiased) = (Quadratic::zeros(arms), Quadratic::zeros(arms));
    let without_self = |value: f64, n: f64| (n * value - 1.0) / (n - 1.0);
    for i in 0..arms {
        for j in 0..=i {
            let value = product(&means[i], &means[j]);
            let other = if i == j { without_self(value, counts[i] as f64) } else { value };
            for (i, j) in [(i, j), (j, i)] {
                *biased.at_mut(i, j) = value;
                *unbiased.at_mut(i, j) = other;
            }
        }
    }
    let (reference, rows) = reference;
    let mut constant = (0.0, 0.0);
    if !reference.is_empty() {
        for (arm, mean) in means.iter().enumerate() {
            let cross = -2.0 * product(mean, reference);
            biased.linear_mut()[arm] = cross;
            unbiased.linear_mut()[arm] = cross;
        }
        let own = product(reference, reference);
        constant = (own, without_self(own, rows as f64));
    }
    SummedTerm::form(measure, weight, biased, unbiased, constant)
}

/// The standard error of the gain with one random frequency, from the sampled rows: divided by the root of their number, it is
/// that with more. `None` with one arm. Terms that have sums per row are part of the pilot, since they move the optimum; `reference` is
/// the whole one, which precision and density need.
pub(super) fn feature_errors(
    survey: &Accumulator,
    plan: &Plan,
    reference: Option<&Features>,
    engine: &Engine,
) -> Result<Option<f64>> {
    if plan.arms.len() < 2 {
        return Ok(None);
    }
    let objective = plan.parsed()?.map(|objective| {
        let terms = objective.terms().iter().filter(|term| !term.measure.is_smooth());
        Objective::of_terms(terms.cloned().collect()).to_string()
    });
    let pilot = Plan { frequencies: PILOT_FREQUENCIES, drawn: None, objective, pairs: None, ..plan.clone() };
    let reference = reference.filter(|_| pilot.reference.is_some()).cloned();
    let mut sums = Accumulator {
        terms: std::sync::Arc::new(Terms::new(&pilot, reference, engine.clone())?),
        ..Accumulator::survey(&Default::default())
    };
    sums.plan = std::sync::Arc::new(pilot);
    sums.reference = super::empty(&sums.plan, &sums.terms, None);
    for name in &plan.arms {
        let rows = survey.arms[name].sample.sorted();
        let scores = plan.scores.iter().enumerate();
        let scores = scores.map(|(at, score)| (score.clone(), rows.iter().map(|row| row.values[at]).collect()));
        sums.update(name, survey.sampled(name)?.view(), &scores.collect())?;
    }
    if survey.reference_count() > 0 {
        sums.update_reference(survey.sampled_reference()?.view())?;
    }
    let mixture = sums.solve_with(&SolveSettings::new().intervals(false))?;
    let error = mixture.approximation.and_then(|approximation| approximation.gain_error);
    Ok(error.map(|error| error * (PILOT_FREQUENCIES as f64).sqrt()))
}
