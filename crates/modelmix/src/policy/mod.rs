//! Policies: the bandit algorithms that choose the next arm. Each sees only evidence (estimates, counts) and a seeded
//! generator: no samples, no clock, no storage. One file per algorithm.

mod adaptive;
mod cab;
mod evidence;
mod fixed;
mod greedy;
mod halving;
mod ogd;
mod sparse;
mod spec;
mod vanilla;

use serde::{Deserialize, Serialize};

use crate::confidence;
use crate::error::Result;
use crate::quadratic::Quadratic;
use crate::simplex::{Bounds, Solution, Solver};

pub use crate::confidence::Sensitivity;
pub use crate::random::Random;
pub use adaptive::Adaptive;
pub use cab::Cab;
pub use evidence::Evidence;
pub use fixed::Fixed;
pub use greedy::Greedy;
pub use halving::Halving;
pub use ogd::Ogd;
pub use sparse::Sparse;
pub use spec::{PolicySpec, WidthSpec};
pub use vanilla::Vanilla;

/// A bandit algorithm that chooses the next arm.
pub trait Policy {
    /// Its name in settings.
    fn name(&self) -> &'static str;

    /// Chooses the next arm, and returns the policy's next state. Ties must be broken with equal probability.
    ///
    /// # Errors
    /// If no choice can be computed, for example because κ is not positive semidefinite.
    fn choose(&self, evidence: &Evidence, random: &mut Random) -> Result<Choice<Self>>
    where
        Self: Sized;

    /// The arms that may still get weight; `None` for all, unless the policy has dropped some permanently.
    fn support(&self) -> Option<&[usize]> {
        None
    }

    /// Whether its state is valid for this number of arms. Policies from snapshots are checked, because snapshots are
    /// untrusted input.
    fn fits(&self, _arms: usize) -> bool {
        true
    }
}

/// The choice of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice<P> {
    /// The arm to pull.
    pub arm: usize,
    /// The state of the policy after the choice; `None` if it did not change.
    pub next: Option<P>,
}

impl<P> Choice<P> {
    /// A choice that does not change the policy.
    pub fn of(arm: usize) -> Self {
        Self { arm, next: None }
    }

    /// A choice that changes the policy to `next`.
    pub fn with_next(arm: usize, next: P) -> Self {
        Self { arm, next: Some(next) }
    }

    fn map<Q>(self, wrap: impl FnOnce(P) -> Q) -> Choice<Q> {
        Choice { arm: self.arm, next: self.next.map(wrap) }
    }
}

/// The maximum of β, Δ_L, Δκ and fees: ε and sums of fees stay finite, and their squares do not overflow.
const MAX_CONSTANT: f64 = 1e50;

/// Whether a number is valid as a constant of a policy: zero or positive, and not too large.
fn is_size(value: f64) -> bool {
    (0.0..=MAX_CONSTANT).contains(&value)
}

/// The confidence width ε of the paper with all constants set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Widths {
    /// β.
    pub beta: f64,
    /// Δ_L and Δκ.
    pub sensitivity: Sensitivity,
}

impl Widths {
    /// Whether the constants make ε a number.
    fn are_valid(&self) -> bool {
        self.beta > 1.0 && is_size(self.beta) && is_size(self.sensitivity.loss) && is_size(self.sensitivity.kappa)
    }

    /// ε_i at the present counts, including pulls in flight.
    pub fn of(&self, evidence: &Evidence, arm: usize) -> f64 {
        confidence::mixture_ucb_width(self.sensitivity, self.beta, evidence.total(), evidence.count(arm))
    }

    /// ε_i at the counts of answered samples only. Irreversible decisions use it.
    pub fn answered(&self, evidence: &Evidence, arm: usize) -> f64 {
        let total = evidence.answered.iter().sum();
        confidence::mixture_ucb_width(self.sensitivity, self.beta, total, evidence.answered[arm])
    }
}

/// Whether these are distinct arms below `arms`, in ascending order.
fn is_subset(subset: &[usize], arms: usize) -> bool {
    !subset.is_empty() && subset.windows(2).all(|pair| pair[0] < pair[1]) && subset[subset.len() - 1] < arms
}

/// The arms with positive weight in the last solution of a policy's program, from which the next search starts. It is
/// the only state of a solver: small, rarely changed, and the same on every processor unless the solution itself
/// differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct WorkingSet(Vec<usize>);

impl WorkingSet {
    /// The solution, and the working set after it; `None` if that did not change.
    fn solve(&self, form: &Quadratic, bounds: &Bounds) -> Result<(Solution, Option<WorkingSet>)> {
        let mut solver = Solver::default();
        if self.is_subset_of(form.arms()) {
            let mut start = vec![0.0; form.arms()];
            self.0.iter().for_each(|&arm| start[arm] = 1.0 / self.0.len() as f64);
            solver.start_from(&start);
        }
        let solution = solver.solve(form, bounds)?;
        let found = WorkingSet((0..form.arms()).filter(|&arm| solution.weights[arm] > 0.0).collect());
        let next = (found != *self).then_some(found);
        Ok((solution, next))
    }

    /// Whether it is valid for this number of arms; snapshots are untrusted input. An empty set is valid.
    fn fits(&self, arms: usize) -> bool {
        self.0.is_empty() || self.is_subset_of(arms)
    }

    fn is_subset_of(&self, arms: usize) -> bool {
        is_subset(&self.0, arms)
    }
}

/// Draws an arm from the weights of a solved program. Arms that are interchangeable in the program share their
/// probability, because the solver's preference between them is arbitrary.
fn draw(weights: &[f64], form: &Quadratic, support: &[usize], random: &mut Random) -> usize {
    let arm = random.pick(weights);
    let twins: Vec<usize> =
        support.iter().copied().filter(|&other| are_interchangeable(form, arm, other, support)).collect();
    twins[random.below(twins.len())]
}

/// Whether exchanging two arms leaves the form unchanged.
fn are_interchangeable(form: &Quadratic, arm: usize, other: usize, support: &[usize]) -> bool {
    arm == other
        || form.linear()[arm] == form.linear()[other]
            && form.at(arm, arm) == form.at(other, other)
            && support
                .iter()
                .filter(|&&third| third != arm && third != other)
                .all(|&third| form.at(arm, third) == form.at(other, third))
}

/// Any of the built-in policies, as data that can be stored and restored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "lowercase")]
#[non_exhaustive]
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
}

impl Policy for AnyPolicy {
    fn name(&self) -> &'static str {
        self.inner().name()
    }

    fn choose(&self, evidence: &Evidence, random: &mut Random) -> Result<Choice<Self>> {
        Ok(match self {
            AnyPolicy::Adaptive(policy) => policy.choose(evidence, random)?.map(AnyPolicy::Adaptive),
            AnyPolicy::Cab(policy) => policy.choose(evidence, random)?.map(AnyPolicy::Cab),
            AnyPolicy::Ogd(policy) => policy.choose(evidence, random)?.map(AnyPolicy::Ogd),
            AnyPolicy::Sparse(policy) => policy.choose(evidence, random)?.map(AnyPolicy::Sparse),
            AnyPolicy::Greedy(policy) => policy.choose(evidence, random)?.map(AnyPolicy::Greedy),
            AnyPolicy::Vanilla(policy) => policy.choose(evidence, random)?.map(AnyPolicy::Vanilla),
            AnyPolicy::Halving(policy) => policy.choose(evidence, random)?.map(AnyPolicy::Halving),
            AnyPolicy::Fixed(policy) => policy.choose(evidence, random)?.map(AnyPolicy::Fixed),
        })
    }

    fn support(&self) -> Option<&[usize]> {
        self.inner().support()
    }

    fn fits(&self, arms: usize) -> bool {
        self.inner().fits(arms)
    }
}
