//! Offline: recorded arms and a loss → the best weights, what every arm and the mixture score, and what each arm adds.

use serde::{Deserialize, Serialize};

use crate::arms::{RecordedArm, RecordedArms};
use crate::error::{Error, Result};
use crate::features::Rows;
use crate::kernel::Kernel;
use crate::loss::{Loss, PreparedTerm};
use crate::objective::Measure;
use crate::quadratic::Quadratic;
use crate::simplex::{Bounds, Solver};
use crate::statistics::{CrossSums, Statistics};

/// The best mixture of recorded arms, with everything that a report needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    /// The objective, as it was written.
    pub objective: String,
    /// The kernels, bandwidths found, one for every quadratic term.
    pub kernels: Vec<Kernel>,
    /// The arms in the order given.
    pub arms: Vec<MixtureArm>,
    /// The loss of the mixture, as V-statistic, the constant included.
    pub loss: f64,
    /// A proof: no mixture of these samples has a loss less than `loss − gap`.
    pub gap: f64,
    /// What each term of the objective comes to for the mixture.
    pub terms: Vec<TermValue>,
    /// The best single arm, as an index into `arms`.
    pub best_single: usize,
    /// The best single arm's loss less the mixture's.
    pub gain: f64,
    /// K̂ and f̂ (V-statistics).
    pub form: Quadratic,
    /// What is added to αᵀKα + fᵀα to make a loss.
    pub constant: f64,
}

/// One arm of a [`Mixture`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixtureArm {
    /// Its name.
    pub name: String,
    /// How many samples it has.
    pub samples: usize,
    /// Its share in the mixture.
    pub weight: f64,
    /// Its loss alone, the constant included.
    pub loss: f64,
    /// What each term of the objective comes to for the arm alone.
    pub terms: Vec<TermValue>,
    /// How much worse the best mixture is without it; nothing where it is the only arm.
    pub adds: Option<f64>,
}

/// What a term of the objective comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TermValue {
    /// The term, without its weight.
    pub term: String,
    /// The weight it has in the objective.
    pub weight: f64,
    /// Its value in the loss, before the weight: the mean of k² for RKE, MMD² as V-statistic, a mean for linear terms.
    pub value: f64,
    /// As people read it: the RKE mode count, the unbiased MMD², the unbiased KID × 100, a mean for linear terms.
    pub score: f64,
}

impl Mixture {
    /// The weights in the order of the arms.
    pub fn weights(&self) -> Vec<f64> {
        self.arms.iter().map(|arm| arm.weight).collect()
    }

    /// The best single arm.
    pub fn best_arm(&self) -> &MixtureArm {
        &self.arms[self.best_single]
    }
}

/// Finds the weights that minimise the loss of the pooled samples.
///
/// # Errors
/// What [`forms`] says, and a loss that is not convex.
pub fn solve(arms: &RecordedArms, loss: &Loss) -> Result<Mixture> {
    solve_within(arms, loss, &Bounds::simplex(arms.len()))
}

/// The same with a smallest and a largest weight for each arm.
///
/// # Errors
/// As [`solve`], and bounds for another number of arms.
pub fn solve_within(arms: &RecordedArms, loss: &Loss, bounds: &Bounds) -> Result<Mixture> {
    let terms = forms(arms, loss)?;
    let mut form = Quadratic::zeros(arms.len());
    for term in &terms {
        form.add(term.weight, &term.biased);
    }
    let constant = loss.constant();
    let mut solver = Solver::default();
    let best = solver.solve(&form, bounds)?;
    let best_single = (0..arms.len()).min_by(|&a, &b| form.single(a).total_cmp(&form.single(b))).unwrap_or(0);
    let mut reports = Vec::with_capacity(arms.len());
    for (index, arm) in arms.iter().enumerate() {
        let mut alone = vec![0.0; arms.len()];
        alone[index] = 1.0;
        reports.push(MixtureArm {
            name: arm.name.clone(),
            samples: arm.features.len(),
            weight: best.weights[index],
            loss: form.single(index) + constant,
            terms: terms.iter().map(|term| term.at(&alone)).collect(),
            adds: match bounds.without(index) {
                None => None,
                // An arm without weight is not missed.
                Some(_) if best.weights[index] == 0.0 => Some(0.0),
                Some(without) => Some((Solver::default().solve(&form, &without)?.value - best.value).max(0.0)),
            },
        });
    }
    Ok(Mixture {
        objective: loss.objective().to_string(),
        kernels: loss.kernels(),
        arms: reports,
        loss: best.value + constant,
        gap: best.gap,
        terms: terms.iter().map(|term| term.at(&best.weights)).collect(),
        best_single,
        gain: form.single(best_single) - best.value,
        form,
        constant,
    })
}

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
    fn at(&self, weights: &[f64]) -> TermValue {
        let value = self.biased.value(weights) + self.constant.0;
        let unbiased = self.unbiased.value(weights) + self.constant.1;
        let score = match self.measure {
            Measure::Rke { .. } => 1.0 / value,
            Measure::Mmd { .. } => unbiased,
            Measure::Kid { .. } => 100.0 * unbiased,
            _ => value,
        };
        TermValue { term: self.term.clone(), weight: self.weight, value, score }
    }
}

/// Every term of the loss as forms over the arms, unweighted: K̂ and f̂ with and without self-pairs.
///
/// # Errors
/// Arms of another width than the reference, rows that a kernel is not defined on, scores or costs that are missing.
pub fn forms(arms: &RecordedArms, loss: &Loss) -> Result<Vec<TermForm>> {
    check(arms, loss)?;
    loss.terms()
        .iter()
        .map(|term| {
            let statistics = term_statistics(arms, loss, term)?;
            Ok(TermForm {
                term: term.measure.to_string(),
                weight: term.weight,
                biased: statistics.biased(),
                unbiased: statistics.unbiased(),
                measure: term.measure.clone(),
                constant: term.constant,
            })
        })
        .collect()
}

/// All sums over all samples of the arms, arm after arm, the terms weighted and added.
///
/// # Errors
/// As [`forms`].
pub fn statistics(arms: &RecordedArms, loss: &Loss) -> Result<Statistics> {
    check(arms, loss)?;
    let mut all: Option<Sums> = None;
    for term in loss.terms() {
        let sums = Sums::of(arms, loss, term)?;
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
/// Recordings of different numbers of arms or widths.
pub fn cross_sums(left: &RecordedArms, right: &RecordedArms, loss: &Loss) -> Result<CrossSums> {
    check(left, loss)?;
    check(right, loss)?;
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
                let sums = loss.backend().kernel_sums(kernel, x.features.view(), y.features.view());
                add(&mut cross.left[j][row..], term.weight, &sums.rows);
                add(&mut cross.right[i][column..], term.weight, &sums.columns);
                column += y.features.len();
            }
            row += x.features.len();
        }
    }
    Ok(cross)
}

fn check(arms: &RecordedArms, loss: &Loss) -> Result<()> {
    loss.check_arms(arms.len())?;
    arms.iter()
        .try_for_each(|arm| loss.check(arm.features.view()).map_err(|error| error.of(format!("arm {}", arm.name))))
}

fn term_statistics(arms: &RecordedArms, loss: &Loss, term: &PreparedTerm) -> Result<Statistics> {
    Sums::of(arms, loss, term)?.into_statistics(arms)
}

/// Sums of one term by sample, arm after arm.
struct Sums {
    toward: Vec<Vec<f64>>,
    self_terms: Vec<f64>,
    linear: Vec<f64>,
}

impl Sums {
    fn zeros(arms: &RecordedArms) -> Self {
        let samples = arms.iter().map(|arm| arm.features.len()).sum();
        Self {
            toward: vec![vec![0.0; samples]; arms.len()],
            self_terms: vec![0.0; samples],
            linear: vec![0.0; samples],
        }
    }

    fn of(arms: &RecordedArms, loss: &Loss, term: &PreparedTerm) -> Result<Self> {
        let mut sums = Self::zeros(arms);
        let starts = starts(arms);
        let place = |arm: usize| starts[arm]..starts[arm + 1];
        if let Some(kernel) = &term.kappa {
            let sets: Vec<Rows<'_>> = arms.iter().map(|arm| arm.features.view()).collect();
            for (i, row) in loss.backend().kernel_sums_among(kernel, &sets).iter().enumerate() {
                for (j, part) in row.iter().enumerate() {
                    sums.toward[j][place(i)].copy_from_slice(part);
                }
                let own = sets[i].iter().map(|row| kernel.of_self(row));
                sums.self_terms[place(i)].iter_mut().zip(own).for_each(|(term, own)| *term = own);
            }
        }
        for (i, RecordedArm { name, features, scores }) in arms.iter().enumerate() {
            let values =
                loss.term_linear(term, i, features.view(), scores).map_err(|error| error.of(format!("arm {name}")))?;
            if let Some(values) = values {
                sums.linear[place(i)].copy_from_slice(&values);
            }
        }
        Ok(sums)
    }

    fn scaled(mut self, weight: f64) -> Self {
        self.values_mut().for_each(|value| *value *= weight);
        self
    }

    fn add(&mut self, weight: f64, other: &Sums) {
        let more = other.toward.iter().flatten().chain(&other.self_terms).chain(&other.linear);
        self.values_mut().zip(more).for_each(|(value, more)| *value += weight * more);
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        self.toward.iter_mut().flatten().chain(&mut self.self_terms).chain(&mut self.linear)
    }

    fn into_statistics(self, arms: &RecordedArms) -> Result<Statistics> {
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
