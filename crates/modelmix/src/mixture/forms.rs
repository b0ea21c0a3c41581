//! Sums over all samples of recorded arms, as statistics and as one quadratic form per term.

use super::TermValue;
use crate::arms::{RecordedArm, RecordedArms};
use crate::compute::{Engine, Resident, Set};
use crate::error::Result;
use crate::loss::{Loss, PreparedTerm};
use crate::objective::{MMD_SCALE, Measure};
use crate::quadratic::Quadratic;
use crate::statistics::{Statistics, Totals};

/// One term of the objective as quadratic forms over the arms.
#[derive(Clone, Debug, PartialEq)]
pub struct TermForm {
    /// The term, without its weight.
    pub term: String,
    /// Its weight in the objective.
    pub weight: f64,
    /// Its V-statistic.
    pub biased: Quadratic,
    /// Its U-statistic.
    pub unbiased: Quadratic,
    measure: Measure,
    constant: (f64, f64),
}

impl TermForm {
    fn new(term: &PreparedTerm, totals: &Totals) -> Self {
        let (biased, unbiased) = totals.forms();
        Self {
            term: term.measure.to_string(),
            weight: term.weight,
            biased,
            unbiased,
            measure: term.measure.clone(),
            constant: term.constant,
        }
    }

    /// A term with known forms; `constant` is added to its V- and U-statistic.
    pub(super) fn of(measure: &Measure, weight: f64, forms: (Quadratic, Quadratic), constant: (f64, f64)) -> Self {
        let (biased, unbiased) = forms;
        Self { term: measure.to_string(), weight, biased, unbiased, measure: measure.clone(), constant }
    }

    /// What is added to the V-statistic.
    pub(super) fn constant(&self) -> f64 {
        self.constant.0
    }

    pub(super) fn at(&self, weights: &[f64]) -> TermValue {
        let value = self.biased.value(weights) + self.constant.0;
        let unbiased = self.unbiased.value(weights) + self.constant.1;
        let score = score(&self.measure, value, unbiased);
        TermValue { term: self.term.clone(), weight: self.weight, value, score }
    }
}

/// The reported value of a term, from its V- and U-statistic.
fn score(measure: &Measure, value: f64, unbiased: f64) -> f64 {
    match measure {
        Measure::Rke { .. } => 1.0 / value,
        Measure::Mmd { .. } => MMD_SCALE * unbiased,
        Measure::Kid => unbiased,
        _ => value,
    }
}

impl TermValue {
    /// The value of a term whose V- and U-statistic are known, constants included.
    pub(crate) fn of(term: &PreparedTerm, value: f64, unbiased: f64) -> Self {
        let score = score(&term.measure, value, unbiased);
        Self { term: term.measure.to_string(), weight: term.weight, value, score }
    }
}

/// Every term of the loss as forms over the arms, unweighted: K̂ and f̂ with and without self-pairs.
///
/// # Errors
/// Arms of another width than the reference, rows that a kernel is not defined on, missing scores or costs, or a term without
/// forms because it is not a mean over pairs.
pub fn forms(arms: &RecordedArms, loss: &Loss) -> Result<Vec<TermForm>> {
    check_means(arms, loss)?;
    let held = HeldArms::new(arms, loss.engine())?;
    let mut sums = Sums::totals_only(arms);
    loss.terms().iter().map(|term| sums.add(&held, loss, term)).collect()
}

/// All sums over all samples of the arms, arm by arm, with weighted terms added.
///
/// # Errors
/// As [`forms`].
pub fn statistics(arms: &RecordedArms, loss: &Loss) -> Result<Statistics> {
    check_means(arms, loss)?;
    let held = HeldArms::new(arms, loss.engine())?;
    let mut sums = Sums::zeros(arms);
    for term in loss.terms() {
        sums.add(&held, loss, term)?;
    }
    sums.into_statistics(arms)
}

fn check_means(arms: &RecordedArms, loss: &Loss) -> Result<()> {
    loss.check_means()?;
    check(arms, loss)
}

/// Checks that the loss can be evaluated on these arms.
pub(super) fn check(arms: &RecordedArms, loss: &Loss) -> Result<()> {
    loss.check_arms(arms.len())?;
    arms.iter()
        .try_for_each(|arm| loss.check_features(&arm.features).map_err(|error| error.of(format!("arm {}", arm.name))))
}

/// Recorded arms in the memory of an engine: uploaded once for all terms and programs.
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

/// Sums of all terms per sample, arm by arm, weighted and added.
pub(super) struct Sums {
    /// Empty if only the forms of terms are needed.
    toward: Vec<Vec<f64>>,
    self_terms: Vec<f64>,
    linear: Vec<f64>,
    /// Per arm, the contribution of each reference row to its f̂; empty if f is not a mean over the reference.
    by_row: Vec<Vec<f64>>,
}

impl Sums {
    pub(super) fn zeros(arms: &RecordedArms) -> Self {
        let samples = arms.iter().map(|arm| arm.features.len()).sum();
        Self { toward: vec![vec![0.0; samples]; arms.len()], ..Self::totals_only(arms) }
    }

    /// Without the sums of each sample toward every arm, which need the most memory.
    pub(super) fn totals_only(arms: &RecordedArms) -> Self {
        let samples = arms.iter().map(|arm| arm.features.len()).sum();
        Self {
            toward: Vec::new(),
            self_terms: vec![0.0; samples],
            linear: vec![0.0; samples],
            by_row: vec![Vec::new(); arms.len()],
        }
    }

    /// Adds a weighted term, and returns its forms.
    pub(super) fn add(&mut self, held: &HeldArms<'_>, loss: &Loss, term: &PreparedTerm) -> Result<TermForm> {
        let (arms, sets) = (held.arms, held.sets());
        let starts = arm_offsets(arms);
        let place = |arm: usize| starts[arm]..starts[arm + 1];
        let mut totals = Totals::new(arms.iter().map(|arm| arm.features.len()).collect());
        let add_to = |sums: &mut [f64], values: &[f64]| {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += term.weight * value);
        };
        if let Some(kernel) = &term.kappa {
            // Each arm's sums are dropped as soon as they are added, so that they are not held twice.
            for (i, row) in term.engine(loss.engine()).kernel_sums_among(kernel, &sets)?.into_iter().enumerate() {
                for (j, part) in row.into_iter().enumerate() {
                    totals.add_pairs(i, j, &part);
                    if let Some(toward) = self.toward.get_mut(j) {
                        add_to(&mut toward[place(i)], &part);
                    }
                }
                let own = Set::from(&arms[i].features).self_values(kernel)?;
                totals.add_own(i, &own);
                add_to(&mut self.self_terms[place(i)], &own);
            }
        }
        for (i, RecordedArm { name, scores, .. }) in arms.iter().enumerate() {
            let mut by_row = None;
            let values = loss
                .term_linear_by_row(term, i, sets[i], scores, &mut by_row)
                .map_err(|error| error.of(format!("arm {name}")))?;
            if let Some(values) = values {
                totals.add_linear(i, &values);
                add_to(&mut self.linear[place(i)], &values);
            }
            let (rows, more) = (&mut self.by_row[i], by_row.unwrap_or_default());
            rows.resize(rows.len().max(more.len()), 0.0);
            add_to(rows, &more);
        }
        totals.check(|arm| arms[arm].name.clone())?;
        Ok(TermForm::new(term, &totals))
    }

    /// The contribution of each reference row to every arm's f̂.
    pub(super) fn take_by_row(&mut self) -> Vec<Vec<f64>> {
        std::mem::take(&mut self.by_row)
    }

    pub(super) fn into_statistics(self, arms: &RecordedArms) -> Result<Statistics> {
        let arm_of = arms.iter().enumerate().flat_map(|(index, arm)| vec![index; arm.features.len()]).collect();
        Statistics::from_sums(arm_of, self.self_terms, self.linear, self.toward)
    }
}

/// The offset of each arm's first sample if all samples are concatenated, followed by the total.
fn arm_offsets(arms: &RecordedArms) -> Vec<usize> {
    let mut starts = vec![0];
    for arm in arms {
        starts.push(starts[starts.len() - 1] + arm.features.len());
    }
    starts
}
