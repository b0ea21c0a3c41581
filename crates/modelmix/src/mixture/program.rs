//! The program of an offline mixture: all terms over the arms, evaluated and minimised together.

use super::TermValue;
use super::forms::{HeldArms, Sums, TermForm, check};
use super::summed::{Sum, SummedArms};
use crate::arms::RecordedArms;
use crate::certainty::{Certainty, certainty};
use crate::compute::{Engine, Set};
use crate::error::Result;
use crate::influence::{Frequencies, Influences};
use crate::loss::{Loss, PreparedTerm, Smooth};
use crate::quadratic::Quadratic;
use crate::simplex::{Bounds, Local, Solution, Solver, minimize_smooth};
use crate::spectral::{Smoothed, Spectral};
use crate::statistics::Statistics;

/// αᵀKα + fᵀα plus the smooth terms.
pub(super) struct Program {
    terms: Vec<Term>,
    form: Quadratic,
    constant: f64,
    /// All sums, with weighted terms added; `None` if a term is smooth and has none, or if they are not needed.
    statistics: Option<Statistics>,
    /// The contribution of each reference row to every arm's f̂.
    by_row: Vec<Vec<f64>>,
    /// What was summed over more samples than those of the statistics.
    summed: Option<Summed>,
    engine: Engine,
}

/// Estimates over all samples, if the statistics have a part of them.
struct Summed {
    unbiased: Quadratic,
    sizes: Vec<usize>,
    reference_size: usize,
    frequencies: Vec<Frequencies>,
}

enum Term {
    Form(TermForm),
    Smooth(TermSpectral),
}

struct TermSpectral {
    term: String,
    weight: f64,
    spectral: Spectral,
}

impl Program {
    /// `for_intervals` stores the sums of every sample, which [`Program::certainty`] needs.
    pub(super) fn new(arms: &RecordedArms, loss: &Loss, for_intervals: bool) -> Result<Self> {
        Self::of(&HeldArms::new(arms, loss.engine())?, loss, for_intervals)
    }

    /// The program of arms in the memory of an engine.
    pub(super) fn of(held: &HeldArms<'_>, loss: &Loss, for_intervals: bool) -> Result<Self> {
        let arms = held.arms();
        check(arms, loss)?;
        let is_smooth = loss.terms().iter().any(|term| term.smooth.is_some());
        let keeps_sums = for_intervals && !is_smooth;
        let mut all = if keeps_sums { Sums::zeros(arms) } else { Sums::totals_only(arms) };
        let term = |term: &PreparedTerm| {
            Ok(match &term.smooth {
                None => Term::Form(all.add(held, loss, term)?),
                Some(smooth) => Term::Smooth(TermSpectral {
                    term: term.measure.to_string(),
                    weight: term.weight,
                    spectral: spectral(held, loss, smooth)?,
                }),
            })
        };
        let terms = loss.terms().iter().map(term).collect::<Result<Vec<_>>>()?;
        let mut form = Quadratic::zeros(arms.len());
        let mut constant = loss.constant();
        for term in &terms {
            match term {
                Term::Form(term) => form.add(term.weight, &term.biased),
                Term::Smooth(term) => constant += term.weight * term.spectral.constant(),
            }
        }
        let by_row = all.take_by_row();
        let statistics = if keeps_sums { Some(all.into_statistics(arms)?) } else { None };
        Ok(Self { terms, form, constant, statistics, by_row, summed: None, engine: loss.engine().clone() })
    }

    /// The program of sums over samples that are not stored.
    pub(super) fn of_sums(arms: &SummedArms) -> Self {
        let (mut form, mut unbiased) = (Quadratic::zeros(arms.names.len()), Quadratic::zeros(arms.names.len()));
        let mut constant = 0.0;
        let mut is_smooth = false;
        let terms = arms.terms.iter().map(|term| match &term.0 {
            Sum::Form(term) => {
                form.add(term.weight, &term.biased);
                unbiased.add(term.weight, &term.unbiased);
                constant += term.weight * term.constant();
                Term::Form(term.clone())
            }
            Sum::Smooth { term, weight, spectral } => {
                is_smooth = true;
                constant += weight * spectral.constant();
                Term::Smooth(TermSpectral { term: term.clone(), weight: *weight, spectral: spectral.clone() })
            }
        });
        let terms = terms.collect();
        Self {
            terms,
            form,
            constant,
            statistics: (!is_smooth).then(|| arms.statistics.clone()),
            by_row: arms.by_row.clone(),
            summed: Some(Summed {
                unbiased,
                sizes: arms.counts.clone(),
                reference_size: arms.reference_size,
                frequencies: arms.frequencies.clone(),
            }),
            engine: arms.engine.clone(),
        }
    }

    /// The constant that turns a value into a loss.
    pub(super) fn constant(&self) -> f64 {
        self.constant
    }

    /// The confidence intervals of the optimal weights, if all terms are means over samples or pairs, every arm has two samples
    /// and the samples differ. f of an arm's samples has this known range.
    pub(super) fn certainty(&self, bounds: &Bounds, weights: &[f64], range: f64) -> Result<Option<Certainty>> {
        let certainty = |influences| certainty(&influences, bounds, weights, self.engine.stop());
        self.influences(range)?.filter(Influences::has_varied).map(certainty).transpose()
    }

    /// The influence of every sample on the estimates, if all terms are means over samples or pairs of samples and every
    /// arm has at least two.
    pub(super) fn influences(&self, range: f64) -> Result<Option<Influences<'_>>> {
        let Some(statistics) = &self.statistics else { return Ok(None) };
        let Some(summed) = &self.summed else {
            let influences = Influences::with_range(statistics, range);
            return influences.map(|influences| influences.with_reference(&self.by_row)).transpose();
        };
        let Some(influences) = Influences::around(statistics, summed.unbiased.clone(), range) else { return Ok(None) };
        let influences = influences.with_sizes(&summed.sizes).with_reference(&self.by_row)?;
        let influences = influences.with_reference_size(summed.reference_size);
        Ok(Some(influences.with_frequencies(summed.frequencies.clone())))
    }

    /// αᵀKα + fᵀα of the quadratic and linear terms.
    pub(super) fn form(&self) -> &Quadratic {
        &self.form
    }

    /// Whether there are terms that are not part of the form.
    pub(super) fn is_smooth(&self) -> bool {
        self.smooth().next().is_some()
    }

    /// The engine that computed it.
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The loss without its constant, and the terms.
    pub(super) fn at(&self, weights: &[f64]) -> Result<(f64, Vec<TermValue>)> {
        let mut sum = self.form.value(weights);
        let values = self.terms.iter().map(|term| match term {
            Term::Form(term) => Ok(term.at(weights)),
            Term::Smooth(TermSpectral { term, weight, spectral }) => {
                let value_without_constant = spectral.value_without_constant(weights)?;
                sum += weight * value_without_constant;
                Ok(TermValue {
                    term: term.clone(),
                    weight: *weight,
                    value: value_without_constant + spectral.constant(),
                    score: spectral.score_of(value_without_constant),
                })
            }
        });
        let values = values.collect::<Result<_>>()?;
        Ok((sum, values))
    }

    fn smooth(&self) -> impl Iterator<Item = &TermSpectral> {
        self.terms.iter().filter_map(|term| match term {
            Term::Form(_) => None,
            Term::Smooth(term) => Some(term),
        })
    }

    /// The best weights within the bounds; with smooth terms the search starts from the mixture nearest to `start`.
    pub(super) fn minimize(&self, bounds: &Bounds, start: &[f64]) -> Result<Solution> {
        self.engine.check()?;
        if !self.is_smooth() {
            return Solver::default().solve(&self.form, bounds);
        }
        Self::minimize_sum(&[(1.0, self)], bounds, start)
    }

    /// The smallest value without one arm, searched from the best weights with it.
    pub(super) fn without(&self, arm: usize, bounds: &Bounds, best: &[f64]) -> Result<f64> {
        if self.is_smooth() {
            return Ok(self.minimize(bounds, best)?.value);
        }
        self.engine.check()?;
        let mut start = best.to_vec();
        start[arm] = 0.0;
        let rest: f64 = start.iter().sum();
        start.iter_mut().for_each(|weight| *weight /= rest);
        let mut solver = Solver::default();
        // A start that violates the bounds, or that is empty because the arm had all weight, is not used.
        solver.start_from(&start);
        Ok(solver.solve(&self.form, bounds)?.value)
    }

    /// The best weights for a weighted sum of programs over the same arms.
    pub(super) fn minimize_sum(parts: &[(f64, &Self)], bounds: &Bounds, start: &[f64]) -> Result<Solution> {
        let mut form = Quadratic::zeros(start.len());
        parts.iter().for_each(|(share, part)| form.add(*share, &part.form));
        let smooth =
            || parts.iter().flat_map(|(share, part)| part.smooth().map(move |term| (share * term.weight, term)));
        if smooth().next().is_none() {
            return Solver::default().solve(&form, bounds);
        }
        let usable = bounds.usable();
        let inside = bounds.nearest(start)?;
        let smoothed: Vec<(f64, Smoothed)> = smooth()
            .map(|(weight, term)| Ok((weight, term.spectral.smoothed(&usable, &inside)?)))
            .collect::<Result<_>>()?;
        let local = |weights: &[f64]| {
            let mut sum = Local::zero(weights.len());
            for (weight, smoothed) in &smoothed {
                sum.add(*weight, &smoothed.local(weights)?);
            }
            Ok(sum)
        };
        let found = minimize_smooth(&form, bounds, &inside, &local)?;
        let mut value = form.value(&found.weights);
        for (weight, term) in smooth() {
            value += weight * term.spectral.value_without_constant(&found.weights)?;
        }
        // The minimised function lies below the loss, so a lower bound of it is a lower bound of the loss. It can lie above
        // only by rounding, which is included too.
        let gap = (value - found.value).abs() + found.gap;
        Ok(Solution { value, gap, ..found })
    }
}

fn spectral(held: &HeldArms<'_>, loss: &Loss, smooth: &Smooth) -> Result<Spectral> {
    let sets: Vec<Set<'_>> = held.sets();
    match smooth {
        Smooth::Fid(reference) => Spectral::frechet(reference, &sets, loss.engine()),
        Smooth::Vendi(order, kernel) => Spectral::vendi(*order, kernel, &sets, loss.engine()),
    }
}
