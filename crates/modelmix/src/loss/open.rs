//! A loss that may not have a bandwidth yet: a session then chooses it from its first samples.

use super::Loss;
use crate::error::Result;
use crate::features::Features;
use crate::kernel::{Bandwidth, Kernel, KernelSpec, median_distance};
use crate::objective::{Measure, Objective};
use crate::provenance::UsedBandwidth;

/// The loss of a session: a [`Loss`], possibly with an automatic bandwidth that is not chosen yet because there were no samples
/// to measure when it was prepared ([`Objective::prepare_for_session`]).
#[derive(Clone, Debug)]
pub struct SessionLoss {
    /// The loss with the bandwidth 1 in the terms of `open` until a bandwidth is chosen.
    loss: Loss,
    /// The terms that were prepared without a bandwidth.
    open: Vec<usize>,
    /// The seed of the median rule.
    seed: u64,
}

impl From<Loss> for SessionLoss {
    fn from(loss: Loss) -> Self {
        Self { loss, open: Vec::new(), seed: 0 }
    }
}

impl SessionLoss {
    pub(super) fn new(loss: Loss, open: Vec<usize>, seed: u64) -> Self {
        Self { loss, open, seed }
    }

    /// The objective as written.
    pub fn objective(&self) -> &Objective {
        self.loss.objective()
    }

    /// Whether a session has to choose a bandwidth.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(crate) fn loss(&self) -> &Loss {
        &self.loss
    }

    /// The kernels whose parameters are all known before a bandwidth is chosen.
    pub(crate) fn kernels_before_choice(&self) -> Vec<Kernel> {
        let terms = self.loss.terms.iter().enumerate();
        terms.filter(|(index, _)| !self.open.contains(index)).filter_map(|(_, term)| term.kernel).collect()
    }

    /// A number that changes with every input, as [`Loss::fingerprint`]; it does not depend on a bandwidth that a session
    /// chose.
    pub fn fingerprint(&self) -> u64 {
        self.loss.fingerprint_without_kernels(&self.open)
    }

    /// The bandwidth of each term that has one, and its rule; without the terms whose bandwidth is still open. A session does not
    /// know the number of samples in the rule or its seed.
    pub(crate) fn bandwidths(&self, is_chosen: bool) -> Vec<UsedBandwidth> {
        let terms = self.loss.used_bandwidths(&[], self.seed).into_iter().enumerate();
        let known = terms.filter(|(index, _)| is_chosen || !self.open.contains(index));
        known.filter_map(|(_, used)| Some(UsedBandwidth { samples: None, seed: None, ..used? })).collect()
    }

    /// The median rule on these samples, as `solve` applies it to recorded arms.
    pub(crate) fn median(&self, sets: &[&Features]) -> Result<f64> {
        median_distance(sets, self.seed)
    }

    /// The same loss with this bandwidth in every term that was prepared without one.
    ///
    /// # Errors
    /// A bandwidth that is not valid for a kernel.
    pub(crate) fn with_bandwidth(&self, bandwidth: f64) -> Result<Self> {
        let mut loss = self.loss.clone();
        for &index in &self.open {
            let term = &mut loss.terms[index];
            let fixed = Bandwidth::Fixed(bandwidth);
            let spec = match term.kernel {
                Some(Kernel::Laplacian { .. }) => KernelSpec::Laplacian { bandwidth: fixed },
                _ => KernelSpec::Gaussian { bandwidth: fixed },
            };
            let kernel = spec.resolve(loss.width, &mut || Ok(bandwidth))?;
            term.kernel = Some(kernel);
            term.kappa = Some(if matches!(term.measure, Measure::Rke { .. }) { kernel.squared() } else { kernel });
        }
        Ok(Self { loss, ..self.clone() })
    }
}

/// The kernel of a term with an automatic bandwidth but without a reference. Terms with a reference take their bandwidth from
/// it.
pub(super) fn is_automatic(measure: &Measure) -> bool {
    match measure {
        Measure::Rke { kernel } => kernel.unwrap_or_default().is_auto(),
        Measure::Vendi { kernel, .. } => kernel.is_auto(),
        _ => false,
    }
}
