//! Policies: which arm to ask next. Each sees evidence (estimates, counts) and a seeded generator, and nothing else:
//! no samples, no clock, no storage. One file per algorithm.

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

/// An algorithm that chooses the next arm.
pub trait Policy {
    /// Its name, as users write it.
    fn name(&self) -> &'static str;

    /// The arm to ask next, and what becomes of the policy. Equal choices must be made with equal probability.
    ///
    /// # Errors
    /// If the evidence admits no choice, such as κ that is not positive semidefinite.
    fn choose(&self, evidence: &Evidence, random: &mut Random) -> Result<Choice<Self>>
    where
        Self: Sized;

    /// The arms that may still get weight; all, unless the policy has dropped some for good.
    fn support(&self) -> Option<&[usize]> {
        None
    }

    /// Whether its state makes sense for so many arms. Asked of a policy that comes out of a snapshot, which is not trusted.
    fn fits(&self, _arms: usize) -> bool {
        true
    }
}

/// What a policy chose.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice<P> {
    /// The arm to ask.
    pub arm: usize,
    /// The policy after the choice; `None` if it did not change.
    pub next: Option<P>,
}

impl<P> Choice<P> {
    /// A choice that leaves the policy as it is.
    pub fn of(arm: usize) -> Self {
        Self { arm, next: None }
    }

    /// A choice after which the policy is another one.
    pub fn with_next(arm: usize, next: P) -> Self {
        Self { arm, next: Some(next) }
    }

    fn map<Q>(self, wrap: impl FnOnce(P) -> Q) -> Choice<Q> {
        Choice { arm: self.arm, next: self.next.map(wrap) }
    }
}

/// The largest that β, Δ_L, Δκ and fees may be: ε and sums of fees then stay finite, and are squared without overflow.
const MAX_CONSTANT: f64 = 1e50;

/// Whether a number is zero or a positive one that constants of policies may be.
fn is_size(value: f64) -> bool {
    (0.0..=MAX_CONSTANT).contains(&value)
}

/// The paper's ε with its constants settled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Widths {
    /// β.
    pub beta: f64,
    /// Δ_L and Δκ.
    pub sensitivity: Sensitivity,
}

impl Widths {
    /// What the constants must be for ε to be a number.
    fn are_valid(&self) -> bool {
        self.beta > 1.0 && is_size(self.beta) && is_size(self.sensitivity.loss) && is_size(self.sensitivity.kappa)
    }

    /// ε_i at the present counts, pulls in flight included.
    pub fn of(&self, evidence: &Evidence, arm: usize) -> f64 {
        confidence::mixture_ucb_width(self.sensitivity, self.beta, evidence.total(), evidence.count(arm))
    }

    /// ε_i at the counts of answered samples alone: what is known now. Decisions that cannot be taken back use it.
    pub fn answered(&self, evidence: &Evidence, arm: usize) -> f64 {
        let total = evidence.answered.iter().sum();
        confidence::mixture_ucb_width(self.sensitivity, self.beta, total, evidence.answered[arm])
    }
}

/// Whether these are some of so many arms, in ascending order and none twice.
fn is_subset(subset: &[usize], arms: usize) -> bool {
    !subset.is_empty() && subset.windows(2).all(|pair| pair[0] < pair[1]) && subset[subset.len() - 1] < arms
}

/// The arms with weight in the last answer of a policy's program, where the next search starts. It is the whole memory of a
/// solver: small, seldom changed, and the same on every processor unless the answer itself differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct WorkingSet(Vec<usize>);

impl WorkingSet {
    /// The answer, and the working set that it leaves; `None` if that is still the same.
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

    /// A snapshot is not trusted; nothing to start from is fine.
    fn fits(&self, arms: usize) -> bool {
        self.0.is_empty() || self.is_subset_of(arms)
    }

    fn is_subset_of(&self, arms: usize) -> bool {
        is_subset(&self.0, arms)
    }
}

/// An arm drawn from the weights of a solved program. Arms that the program cannot tell apart share their chances, since
/// which of them the solver preferred says nothing.
fn draw(weights: &[f64], form: &Quadratic, support: &[usize], random: &mut Random) -> usize {
    let arm = random.pick(weights);
    let twins: Vec<usize> =
        support.iter().copied().filter(|&other| are_interchangeable(form, arm, other, support)).collect();
    twins[random.below(twins.len())]
}

/// Whether exchanging two arms leaves the form as it is.
fn are_interchangeable(form: &Quadratic, arm: usize, other: usize, support: &[usize]) -> bool {
    arm == other
        || form.linear()[arm] == form.linear()[other]
            && form.at(arm, arm) == form.at(other, other)
            && support
                .iter()
                .filter(|&&third| third != arm && third != other)
                .all(|&third| form.at(arm, third) == form.at(other, third))
}

/// Any of the policies that come with the crate, as data that can be stored and restored.
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
