//! Policies: which arm to ask next. Each sees evidence (sums, pulls in flight) and a seeded generator, and nothing else:
//! no samples, no clock, no storage. One file an algorithm.

mod adaptive;
mod cab;
mod fixed;
mod greedy;
mod halving;
mod ogd;
mod sparse;
mod spec;
mod vanilla;

use serde::{Deserialize, Serialize};

use crate::confidence::{self, Sensitivity};
use crate::error::Result;
use crate::quadratic::Quadratic;
use crate::random::Random;
use crate::statistics::Statistics;

pub use adaptive::Adaptive;
pub use cab::Cab;
pub use fixed::Fixed;
pub use greedy::Greedy;
pub use halving::Halving;
pub use ogd::Ogd;
pub use sparse::Sparse;
pub use spec::{PolicySpec, WidthSpec};
pub use vanilla::Vanilla;

/// An algorithm that chooses the next arm.
pub trait Policy {
    /// Its name, as users write it.
    fn name(&self) -> &'static str;

    /// The arm to ask next. Equal choices must be made with equal probability.
    ///
    /// # Errors
    /// When the evidence admits no choice, such as κ that is not positive semidefinite.
    fn choose(&mut self, evidence: &Evidence<'_>, random: &mut Random) -> Result<usize>;

    /// The arms that may still get weight; all, unless the policy has dropped some for good.
    fn support(&self) -> Option<&[usize]> {
        None
    }

    /// Whether its state makes sense for so many arms. Asked of a policy that comes out of a snapshot, which is not trusted.
    fn fits(&self, _arms: usize) -> bool {
        true
    }
}

/// What a policy sees.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    statistics: &'a Statistics,
    pending: &'a [usize],
    candidates: &'a [usize],
}

impl<'a> Evidence<'a> {
    /// Evidence from sums, the number of samples asked for and not yet answered by arm, and the arms that may be asked
    /// now, which must not be empty.
    pub fn new(statistics: &'a Statistics, pending: &'a [usize], candidates: &'a [usize]) -> Self {
        debug_assert!(pending.len() == statistics.arms() && !candidates.is_empty());
        Self { statistics, pending, candidates }
    }

    /// m.
    pub fn arms(&self) -> usize {
        self.statistics.arms()
    }

    /// Sums over the samples that were answered.
    pub fn statistics(&self) -> &'a Statistics {
        self.statistics
    }

    /// The arms that may be asked now.
    pub fn candidates(&self) -> &'a [usize] {
        self.candidates
    }

    /// n_i, the samples of an arm, those in flight included: they will have been paid for.
    pub fn count(&self, arm: usize) -> usize {
        self.statistics.counts()[arm] + self.pending[arm]
    }

    /// Whether any sample of the arm was answered, so that K̂ and f̂ know it.
    pub fn is_known(&self, arm: usize) -> bool {
        self.statistics.counts()[arm] > 0
    }

    /// The arms that K̂ and f̂ know.
    pub fn known(&self) -> Vec<usize> {
        (0..self.arms()).filter(|&arm| self.is_known(arm)).collect()
    }

    /// t, the samples of all known arms, those in flight included.
    pub fn total(&self) -> usize {
        (0..self.arms()).filter(|&arm| self.is_known(arm)).map(|arm| self.count(arm)).sum()
    }

    /// Those of the given arms that may be asked now and are known; any of them where none is.
    pub fn choices(&self, arms: &[usize]) -> Vec<usize> {
        let may: Vec<usize> =
            arms.iter().copied().filter(|&arm| self.is_known(arm) && self.candidates.contains(&arm)).collect();
        if may.is_empty() { arms.to_vec() } else { may }
    }

    /// The rounds before a rule can begin: the arm to ask until each has `pulls` samples asked for, fewest first; also
    /// while no arm that may be asked has answered. A single arm is no choice at all.
    pub fn first_pulls(&self, pulls: usize, random: &mut Random) -> Option<usize> {
        if self.arms() == 1 {
            return Some(0);
        }
        let waiting = self.candidates.iter().any(|&arm| self.count(arm) < pulls);
        let unknown = !self.candidates.iter().any(|&arm| self.is_known(arm));
        (waiting || unknown).then(|| random.smallest(self.candidates, |arm| self.count(arm) as f64))
    }

    /// K̂·n of one arm: Σ_j K̂_ij n_j over the known arms.
    fn weighted_row(&self, form: &Quadratic, arm: usize) -> f64 {
        (0..self.arms())
            .filter(|&other| self.is_known(other))
            .map(|other| form.at(arm, other) * self.count(other) as f64)
            .sum()
    }
}

/// The paper's ε with its constants settled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Widths {
    /// β.
    pub beta: f64,
    /// Δ_L and Δκ.
    pub sensitivity: Sensitivity,
}

impl Widths {
    /// What the constants must be for ε to be a number.
    fn are_valid(&self) -> bool {
        let is_size = |value: f64| value.is_finite() && value >= 0.0;
        self.beta.is_finite() && self.beta > 1.0 && is_size(self.sensitivity.loss) && is_size(self.sensitivity.kappa)
    }

    /// ε_i at the present counts.
    pub fn of(&self, evidence: &Evidence<'_>, arm: usize) -> f64 {
        confidence::mixture_ucb_width(self.sensitivity, self.beta, evidence.total(), evidence.count(arm))
    }
}

/// Whether these are some of so many arms, in ascending order and none twice.
fn is_subset(subset: &[usize], arms: usize) -> bool {
    !subset.is_empty() && subset.windows(2).all(|pair| pair[0] < pair[1]) && subset[subset.len() - 1] < arms
}

/// An arm drawn from the weights of a solved program. Arms that the program cannot tell apart share their chances, since
/// which of them the solver preferred says nothing.
fn draw(weights: &[f64], form: &Quadratic, support: &[usize], random: &mut Random) -> usize {
    let arm = random.pick(weights);
    let twins: Vec<usize> = support.iter().copied().filter(|&other| are_twins(form, arm, other, support)).collect();
    twins[random.below(twins.len())]
}

/// Whether exchanging two arms leaves the form as it is.
fn are_twins(form: &Quadratic, arm: usize, other: usize, support: &[usize]) -> bool {
    arm == other
        || form.linear()[arm] == form.linear()[other]
            && form.at(arm, arm) == form.at(other, other)
            && support
                .iter()
                .filter(|&&third| third != arm && third != other)
                .all(|&third| form.at(arm, third) == form.at(other, third))
}

/// Any of the policies that come with the crate, as data that can be stored and restored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "lowercase")]
pub enum AnyPolicy {
    /// [`Adaptive`].
    Adaptive(Adaptive),
    /// [`Cab`].
    Cab(Cab),
    /// [`Ogd`].
    Ogd(Ogd),
    /// [`Sparse`].
    Sparse(Sparse),
    /// [`Greedy`].
    Greedy(Greedy),
    /// [`Vanilla`].
    Vanilla(Vanilla),
    /// [`Halving`].
    Halving(Halving),
    /// [`Fixed`].
    Fixed(Fixed),
}

impl AnyPolicy {
    fn inner(&self) -> &dyn Policy {
        match self {
            AnyPolicy::Adaptive(policy) => policy,
            AnyPolicy::Cab(policy) => policy,
            AnyPolicy::Ogd(policy) => policy,
            AnyPolicy::Sparse(policy) => policy,
            AnyPolicy::Greedy(policy) => policy,
            AnyPolicy::Vanilla(policy) => policy,
            AnyPolicy::Halving(policy) => policy,
            AnyPolicy::Fixed(policy) => policy,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Policy {
        match self {
            AnyPolicy::Adaptive(policy) => policy,
            AnyPolicy::Cab(policy) => policy,
            AnyPolicy::Ogd(policy) => policy,
            AnyPolicy::Sparse(policy) => policy,
            AnyPolicy::Greedy(policy) => policy,
            AnyPolicy::Vanilla(policy) => policy,
            AnyPolicy::Halving(policy) => policy,
            AnyPolicy::Fixed(policy) => policy,
        }
    }
}

impl Policy for AnyPolicy {
    fn name(&self) -> &'static str {
        self.inner().name()
    }

    fn choose(&mut self, evidence: &Evidence<'_>, random: &mut Random) -> Result<usize> {
        self.inner_mut().choose(evidence, random)
    }

    fn support(&self) -> Option<&[usize]> {
        self.inner().support()
    }

    fn fits(&self, arms: usize) -> bool {
        self.inner().fits(arms)
    }
}
