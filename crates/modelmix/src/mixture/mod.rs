//! Offline: recorded arms and a loss → the best weights, what every arm and the mixture score, and what each arm adds.

mod forms;
mod front;
mod program;
mod sensitivity;
mod worth;

use serde::{Deserialize, Serialize};

use crate::arms::RecordedArms;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::loss::{Linear, Loss, PreparedTerm};
use crate::quadratic::Quadratic;
use crate::simplex::Bounds;
use program::Program;

pub use forms::{TermForm, cross_sums, forms, statistics};
pub use front::{FrontDocument, FrontPoint, traded};
pub use sensitivity::{Bandwidths, SensitivityDocument, SensitivityPoint};
pub use worth::{Allowance, Budget, CheapestDocument, Questions, SubsetDocument, Worth, solve_asking};

/// The best mixture of recorded arms, with everything that a report needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    /// The objective, as it was written.
    pub objective: String,
    /// The kernels, bandwidths found, one for every term that has one.
    pub kernels: Vec<Kernel>,
    /// The arms in the order given.
    pub arms: Vec<MixtureArm>,
    /// The loss of the mixture, as V-statistic, constants included.
    pub loss: f64,
    /// A proof: no mixture of these samples has a loss less than `loss − gap`.
    pub gap: f64,
    /// What each term of the objective comes to for the mixture.
    pub terms: Vec<TermValue>,
    /// The best single arm, as an index into `arms`.
    pub best_single: usize,
    /// The best single arm's loss less the mixture's.
    pub gain: f64,
    /// A 95% interval for the gain of the models themselves, of which samples are a part; nothing with `fid` or `vendi` in the
    /// objective, with one arm, or where an arm has fewer than two samples. It is unbiased where `gain`, found and
    /// measured on the same samples, is a little too large.
    #[serde(default)]
    pub gain_interval: Option<[f64; 2]>,
    /// How likely samples that speak so much for mixing are where some single model is as good as any mixture: at most so;
    /// nothing as above.
    #[serde(default)]
    pub p_value: Option<f64>,
    /// K̂ and f̂ (V-statistics) of the quadratic and linear terms; smooth terms have no part in them.
    pub form: Quadratic,
    /// What is added to αᵀKα + fᵀα to make a loss of the quadratic and linear terms.
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
    /// A 95% interval for its share in the best mixture of the models themselves; nothing with `fid` or `vendi` in the
    /// objective, or where an arm has fewer than two samples.
    pub interval: Option<[f64; 2]>,
    /// Its loss alone, constants included.
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
    /// Its value in the loss, before the weight: the mean of k² for RKE, MMD² as V-statistic, the Fréchet distance, the
    /// negative Tsallis entropy for Vendi, a mean for linear terms.
    pub value: f64,
    /// As people read it: the RKE mode count, the unbiased MMD², the unbiased KID × 100, the Fréchet distance, the Vendi
    /// score, a mean for linear terms.
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

/// How many pairs of samples [`solve`] evaluates kernels on, so that a caller can say how far it is (see
/// [`Engine::observed_by`](crate::compute::Engine::observed_by)).
pub fn pairs(arms: &RecordedArms, loss: &Loss) -> u64 {
    let samples: u64 = arms.iter().map(|arm| arm.features.len() as u64).sum();
    let reference = loss.reference_len() as u64;
    let of = |term: &PreparedTerm| match (&term.kappa, &term.linear) {
        (None, _) => 0,
        (Some(_), Some(Linear::Cross(_))) => samples * samples / 2 + samples * reference,
        (Some(_), _) => samples * samples / 2,
    };
    loss.terms().iter().map(of).sum()
}

/// Finds the weights that minimise the loss of the pooled samples.
///
/// ```
/// use modelmix::{Features, Inputs, Objective, RecordedArm, RecordedArms, solve};
/// // two models, one with twice as many kinds of things as the other
/// let left = Features::from_rows([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])?;
/// let right = Features::from_rows([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])?;
/// let arms = RecordedArms::new(vec![RecordedArm::new("left", left), RecordedArm::new("right", right)])?;
/// let best = solve(&arms, &Objective::vendi().prepare(Inputs::new().arms(&arms))?)?;
/// assert!((best.arms[0].weight - 2.0 / 3.0).abs() < 1e-6);
/// assert!((best.terms[0].score - 3.0).abs() < 1e-9); // three kinds in all
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// Arms of another width than the reference, rows that a kernel is not defined on, scores or costs that are missing, a loss
/// that is not convex, precision or density alone with a positive weight, and more samples than a Vendi score's kernel matrix may
/// have.
pub fn solve(arms: &RecordedArms, loss: &Loss) -> Result<Mixture> {
    solve_within(arms, loss, &Bounds::simplex(arms.len()))
}

/// The same with a smallest and a largest weight for each arm.
///
/// # Errors
/// As [`solve`], and bounds for another number of arms.
pub fn solve_within(arms: &RecordedArms, loss: &Loss, bounds: &Bounds) -> Result<Mixture> {
    solve_surely(arms, loss, bounds, &Program::new(arms, loss)?)
}

/// With how sure it is.
fn solve_surely(arms: &RecordedArms, loss: &Loss, bounds: &Bounds, program: &Program) -> Result<Mixture> {
    let mut mixture = solve_program(arms, loss, bounds, program)?;
    if let Some(certainty) = program.certainty(bounds, &mixture.weights(), loss.linear_spread())? {
        mixture.arms.iter_mut().zip(certainty.weights).for_each(|(arm, interval)| arm.interval = Some(interval));
        (mixture.gain_interval, mixture.p_value) = (certainty.gain, certainty.p_value);
    }
    Ok(mixture)
}

/// Without, for callers who do not look at that.
pub(crate) fn solve_plainly(arms: &RecordedArms, loss: &Loss, bounds: &Bounds) -> Result<Mixture> {
    solve_program(arms, loss, bounds, &Program::new(arms, loss)?)
}

fn solve_program(arms: &RecordedArms, loss: &Loss, bounds: &Bounds, program: &Program) -> Result<Mixture> {
    loss.check_direction()?;
    let best = program.minimize(bounds, &vec![1.0 / arms.len() as f64; arms.len()])?;
    let mut reports = Vec::with_capacity(arms.len());
    let mut alone = Vec::with_capacity(arms.len());
    for (index, arm) in arms.iter().enumerate() {
        let mut only = vec![0.0; arms.len()];
        only[index] = 1.0;
        let (value, terms) = program.at(&only)?;
        alone.push(value);
        reports.push(MixtureArm {
            name: arm.name.clone(),
            samples: arm.features.len(),
            weight: best.weights[index],
            interval: None,
            loss: value + program.constant(),
            terms,
            adds: match bounds.without(index) {
                None => None,
                // An arm without weight is not missed.
                Some(_) if best.weights[index] == 0.0 => Some(0.0),
                Some(without) => Some((program.minimize(&without, &best.weights)?.value - best.value).max(0.0)),
            },
        });
    }
    let best_single = (0..arms.len()).min_by(|&a, &b| alone[a].total_cmp(&alone[b])).unwrap_or(0);
    Ok(Mixture {
        objective: loss.objective().to_string(),
        kernels: loss.kernels(),
        arms: reports,
        loss: best.value + program.constant(),
        gap: best.gap,
        terms: program.at(&best.weights)?.1,
        best_single,
        gain: alone[best_single] - best.value,
        gain_interval: None,
        p_value: None,
        form: program.form().clone(),
        constant: loss.constant(),
    })
}
