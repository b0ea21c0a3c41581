//! When a session may stop. What a look finds is left to `certainty`.

use super::Session;
use super::state::State;
use crate::certainty::{Certified, Verdict};
use crate::error::Result;
use crate::policy::Policy;
use crate::simplex::{self, Bounds, Solution};

impl<P: Policy> Session<P> {
    /// Whether what [`SessionSettings::until`](super::SessionSettings::until) asks for is reached. Once it is, it stays so: what
    /// is near the optimum is the mixture of [`Session::verdict`].
    pub fn is_done(&self) -> bool {
        self.verdict().is_some()
    }

    /// What the session may be stopped by: which mixture is how near the optimum; nothing where that is not known yet, or was
    /// not asked for.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.state.looks.as_ref()?.verdict()
    }
}

impl<P: Policy> State<P> {
    /// The best mixture of the samples held; nothing before the first.
    pub(super) fn best(&self) -> Result<Option<Solution>> {
        let arms = self.names.len();
        let is_known = |arm: &usize| self.statistics.counts()[*arm] > 0;
        let known: Vec<usize> = (0..arms).filter(is_known).collect();
        if known.is_empty() {
            return Ok(None);
        }
        let kept: Vec<usize> =
            self.policy.support().map_or(known.clone(), |support| support.iter().copied().filter(is_known).collect());
        let support = if kept.is_empty() { &known } else { &kept };
        simplex::minimize(&self.statistics.biased(), &Bounds::support(arms, support)).map(Some)
    }

    /// The arm that is asked in place of the policy's choice, where nothing is certain without.
    pub(super) fn wanted(&self, pending: &[usize], candidates: &[usize]) -> Option<usize> {
        let looks = self.looks.as_ref()?;
        let counts: Vec<usize> = self.statistics.counts().iter().zip(pending).map(|(held, more)| held + more).collect();
        looks.wants(&counts, candidates, self.asked)
    }

    /// Looks, where it is time to. What cannot be solved, such as values of a κ that is no kernel, is not certain either.
    pub(super) fn look(&mut self) {
        let samples = self.statistics.len();
        let Some(of) = self.looks.as_ref().filter(|looks| looks.is_due(samples)).map(|looks| looks.until().of) else {
            return;
        };
        let mixture = match of {
            Certified::Weights => self.best().ok().flatten().map(|best| best.weights),
            Certified::Shares => Some(self.statistics.proportions()),
        };
        if let Some(looks) = &mut self.looks {
            looks.look(&self.statistics, mixture.as_deref());
        }
    }
}
