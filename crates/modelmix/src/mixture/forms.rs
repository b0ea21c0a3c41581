//! Sums over all samples of recorded arms, as statistics and as quadratic forms by term.

use super::TermValue;
use crate::arms::{RecordedArm, RecordedArms};
use crate::compute::{Engine, Resident, Set};
use crate::error::{Error, Result};
use crate::loss::{Loss, PreparedTerm};
use crate::objective::Measure;
use crate::quadratic::Quadratic;
use crate::statistics::{CrossSums, Statistics};

/// One term of the objective as quadratic forms over the arms.
#[derive(Clone, Debug, PartialEq)]
pub struct TermForm {
    /// The term, without its weight.
    pub term: String,
    /// The weight it has in the objective.
    pub weight: f64,
    /// Its V-statistic.
    pub biased: Quadratic,
    /// Its U-statistic.
    pub unbiased: Quadratic,
    measure: Measure,
    constant: (f64, f64),
}

impl TermForm {
    /// From sums that are known.
    pub(super) fn of(arms: &RecordedArms, term: &PreparedTerm, sums: Sums) -> Result<Self> {
        let statistics = sums.into_statistics(arms)?;
        Ok(Self {
            term: term.measure.to_string(),
            weight: term.weight,
            biased: statistics.biased(),
            unbiased: statistics.unbiased(),
            measure: term.measure.clone(),
            constant: term.constant,
        })
    }

    pub(super) fn at(&self, weights: &[f64]) -> TermValue {
        let value = self.biased.value(weights) + self.constant.0;
        let unbiased = self.unbiased.value(weights) + self.constant.1;
        let score = score(&self.measure, value, unbiased);
        TermValue { term: self.term.clone(), weight: self.weight, value, score }
    }
}

/// A term's value as people read it, from the V- and the U-statistic.
fn score(measure: &Measure, value: f64, unbiased: f64) -> f64 {
    match measure {
        Measure::Rke { .. } => 1.0 / value,
        Measure::Mmd { .. } => unbiased,
        Measure::Kid { .. } => 100.0 * unbiased,
        _ => value,
    }
}

impl TermValue {
    /// Of a term whose V- and U-statistic are known, constants included.
    pub(crate) fn of(term: &PreparedTerm, value: f64, unbiased: f64) -> Self {
        let score = score(&term.measure, value, unbiased);
        Self { term: term.measure.to_string(), weight: term.weight, value, score }
    }
}

/// Every term of the loss as forms over the arms, unweighted: K̂ and f̂ with and without self-pairs.
///
/// # Errors
/// Arms of another width than the reference, rows that a kernel is not defined on, scores or costs that are missing, a term
/// that has no forms since it is not a mean over pairs.
pub fn forms(arms: &RecordedArms, loss: &Loss) -> Result<Vec<TermForm>> {
    check_means(arms, loss)?;
    let held = HeldArms::new(arms, loss.engine())?;
    loss.terms().iter().map(|term| TermForm::of(arms, term, Sums::of(&held, loss, term)?)).collect()
}

/// All sums over all samples of the arms, arm after arm, the terms weighted and added.
///
/// # Errors
/// As [`forms`].
pub fn statistics(arms: &RecordedArms, loss: &Loss) -> Result<Statistics> {
    check_means(arms, loss)?;
    let held = HeldArms::new(arms, loss.engine())?;
    let mut all: Option<Sums> = None;
    for term in loss.terms() {
        let sums = Sums::of(&held, loss, term)?;
        match &mut all {
            None => all = Some(sums.scaled(term.weight)),
            Some(all) => all.add(term.weight, &sums),
        }
    }
    all.unwrap_or_else(|| Sums::zeros(arms)).into_statistics(arms)
}

/// The sums of κ between two recordings of the same arms, for [`Statistics::merge`].
///
/// # Errors
/// Recordings of different numbers of arms or widths, a term that is not a mean over pairs.
pub fn cross_sums(left: &RecordedArms, right: &RecordedArms, loss: &Loss) -> Result<CrossSums> {
    check_means(left, loss)?;
    check_means(right, loss)?;
    if left.len() != right.len() {
        return Err(Error::Program {
            problem: format!(
                "recordings of {} and of {} arms cannot be merged; record the same arms",
                left.len(),
                right.len()
            ),
        });
    }
    if left.width() != right.width() {
        return Err(Error::Width {
            origin: "the second recording".into(),
            found: right.width(),
            other: "the first".into(),
            expected: left.width(),
        });
    }
    let samples = |arms: &RecordedArms| arms.iter().map(|arm| arm.features.len()).sum::<usize>();
    let mut cross = CrossSums {
        left: vec![vec![0.0; samples(left)]; right.len()],
        right: vec![vec![0.0; samples(right)]; left.len()],
    };
    let add = |sums: &mut [f64], weight: f64, more: &[f64]| {
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += weight * more)
    };
    for term in loss.terms() {
        let Some(kernel) = &term.kappa else { continue };
        let mut row = 0;
        for (i, x) in left.iter().enumerate() {
            let mut column = 0;
            for (j, y) in right.iter().enumerate() {
                let sums = loss.engine().kernel_sums(kernel, &x.features, &y.features)?;
                add(&mut cross.left[j][row..], term.weight, &sums.rows);
                add(&mut cross.right[i][column..], term.weight, &sums.columns);
                column += y.features.len();
            }
            row += x.features.len();
        }
    }
    Ok(cross)
}

fn check_means(arms: &RecordedArms, loss: &Loss) -> Result<()> {
    loss.check_means()?;
    check(arms, loss)
}

/// Whether the loss can be evaluated on these arms.
pub(super) fn check(arms: &RecordedArms, loss: &Loss) -> Result<()> {
    loss.check_arms(arms.len())?;
    arms.iter()
        .try_for_each(|arm| loss.check(arm.features.view()).map_err(|error| error.of(format!("arm {}", arm.name))))
}

/// Recorded arms, resident in the memory of an engine: uploaded once for all terms and programs.
pub(super) struct HeldArms<'a> {
    arms: &'a RecordedArms,
    sets: Vec<Box<dyn Resident>>,
}

impl<'a> HeldArms<'a> {
    pub(super) fn new(arms: &'a RecordedArms, engine: &Engine) -> Result<Self> {
        Ok(Self { arms, sets: arms.iter().map(|arm| engine.hold(&arm.features)).collect::<Result<_>>()? })
    }

    pub(super) fn arms(&self) -> &'a RecordedArms {
        self.arms
    }

    pub(super) fn sets(&self) -> Vec<Set<'_>> {
        self.sets.iter().map(|set| Set::Resident(&**set)).collect()
    }
}

/// Sums of one term by sample, arm after arm.
#[derive(Clone)]
pub(super) struct Sums {
    toward: Vec<Vec<f64>>,
    self_terms: Vec<f64>,
    linear: Vec<f64>,
    /// By arm, what each row of the reference makes of its f̂; empty where f does not come from a reference's mean.
    by_row: Vec<Vec<f64>>,
}

impl Sums {
    pub(super) fn zeros(arms: &RecordedArms) -> Self {
        let samples = arms.iter().map(|arm| arm.features.len()).sum();
        Self {
            toward: vec![vec![0.0; samples]; arms.len()],
            self_terms: vec![0.0; samples],
            linear: vec![0.0; samples],
            by_row: vec![Vec::new(); arms.len()],
        }
    }

    pub(super) fn of(held: &HeldArms<'_>, loss: &Loss, term: &PreparedTerm) -> Result<Self> {
        let (arms, sets) = (held.arms, held.sets());
        let mut sums = Self::zeros(arms);
        let starts = starts(arms);
        let place = |arm: usize| starts[arm]..starts[arm + 1];
        if let Some(kernel) = &term.kappa {
            for (i, row) in loss.engine().kernel_sums_among(kernel, &sets)?.iter().enumerate() {
                for (j, part) in row.iter().enumerate() {
                    sums.toward[j][place(i)].copy_from_slice(part);
                }
                let own = arms[i].features.view().iter().map(|row| kernel.of_self(row));
                sums.self_terms[place(i)].iter_mut().zip(own).for_each(|(term, own)| *term = own);
            }
        }
        for (i, RecordedArm { name, scores, .. }) in arms.iter().enumerate() {
            let mut by_row = None;
            let values = loss
                .term_linear_by_row(term, i, sets[i], scores, &mut by_row)
                .map_err(|error| error.of(format!("arm {name}")))?;
            if let Some(values) = values {
                sums.linear[place(i)].copy_from_slice(&values);
            }
            sums.by_row[i] = by_row.unwrap_or_default();
        }
        Ok(sums)
    }

    fn scaled(mut self, weight: f64) -> Self {
        self.values_mut().for_each(|value| *value *= weight);
        self.by_row.iter_mut().flatten().for_each(|value| *value *= weight);
        self
    }

    pub(super) fn add(&mut self, weight: f64, other: &Sums) {
        let more = other.toward.iter().flatten().chain(&other.self_terms).chain(&other.linear);
        self.values_mut().zip(more).for_each(|(value, more)| *value += weight * more);
        for (rows, more) in self.by_row.iter_mut().zip(&other.by_row) {
            rows.resize(rows.len().max(more.len()), 0.0);
            rows.iter_mut().zip(more).for_each(|(value, more)| *value += weight * more);
        }
    }

    /// What each row of the reference makes of every arm's f̂.
    pub(super) fn take_by_row(&mut self) -> Vec<Vec<f64>> {
        std::mem::take(&mut self.by_row)
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        self.toward.iter_mut().flatten().chain(&mut self.self_terms).chain(&mut self.linear)
    }

    pub(super) fn into_statistics(self, arms: &RecordedArms) -> Result<Statistics> {
        let arm_of = arms.iter().enumerate().flat_map(|(index, arm)| vec![index; arm.features.len()]).collect();
        Statistics::from_sums(arm_of, self.self_terms, self.linear, self.toward)
    }
}

/// Where each arm's samples start when all stand one after another, and where the last one's end.
fn starts(arms: &RecordedArms) -> Vec<usize> {
    let mut starts = vec![0];
    for arm in arms {
        starts.push(starts[starts.len() - 1] + arm.features.len());
    }
    starts
}
