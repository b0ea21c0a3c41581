//! The bandwidths of a loss and how they were found; and the loss with other bandwidths: everything that depends on a kernel is
//! recomputed, everything else is kept.

use super::{Linear, Loss, Smooth};
use crate::arms::RecordedArms;
use crate::error::{Error, Result};
use crate::features::Features;
use crate::kernel::{Bandwidth, Kernel, KernelSpec};
use crate::objective::Measure;
use crate::provenance::UsedBandwidth;

impl Loss {
    /// The bandwidth of each term that has one, and how it was found, if the loss was prepared with these arms and this seed.
    pub fn bandwidths(&self, arms: &RecordedArms, seed: u64) -> Vec<UsedBandwidth> {
        let sets: Vec<&Features> = match &self.reference {
            Some(reference) => vec![&reference.features],
            None => arms.iter().map(|arm| &arm.features).collect(),
        };
        self.used_bandwidths(&sets, seed).into_iter().flatten().collect()
    }

    /// The bandwidth of each term, `None` if it has none; `sets` are the samples of the median rule.
    pub(super) fn used_bandwidths(&self, sets: &[&Features], seed: u64) -> Vec<Option<UsedBandwidth>> {
        let used = self.terms.iter().zip(self.objective.terms()).map(|(term, written)| {
            let spec = match &written.measure {
                Measure::Vendi { kernel, .. } => *kernel,
                measure => measure.kernel().copied().flatten().unwrap_or_default(),
            };
            UsedBandwidth::found(written.measure.name(), &spec, &term.kernel?, sets, seed)
        });
        used.collect()
    }

    /// The bandwidth of the first kernel that has one.
    pub(crate) fn bandwidth(&self) -> Result<f64> {
        let found = self.kernels().into_iter().find_map(|kernel| match kernel {
            Kernel::Gaussian { bandwidth } | Kernel::Laplacian { bandwidth } => Some(bandwidth),
            _ => None,
        });
        found.ok_or_else(|| {
            Error::missing(
                "a range of bandwidths",
                format!(
                    "a kernel with a bandwidth, but {} has none; use rke or mmd with a gaussian or a laplacian kernel",
                    self.objective
                ),
            )
        })
    }

    /// The same loss with `change` applied to the bandwidth of every kernel that has one.
    pub(crate) fn with_bandwidths(&self, change: impl Fn(f64) -> f64) -> Result<Self> {
        let mut loss = self.clone();
        for (term, written) in loss.terms.iter_mut().zip(self.objective.terms()) {
            let kernel = match term.kernel {
                Some(Kernel::Gaussian { bandwidth }) => Kernel::Gaussian { bandwidth: change(bandwidth) },
                Some(Kernel::Laplacian { bandwidth }) => Kernel::Laplacian { bandwidth: change(bandwidth) },
                _ => continue,
            };
            let spec = match kernel {
                Kernel::Laplacian { bandwidth } => KernelSpec::Laplacian { bandwidth: Bandwidth::Fixed(bandwidth) },
                Kernel::Gaussian { bandwidth } => KernelSpec::Gaussian { bandwidth: Bandwidth::Fixed(bandwidth) },
                _ => continue,
            };
            term.kernel = Some(kernel);
            match &mut term.measure {
                Measure::Rke { kernel: own } => {
                    *own = Some(spec);
                    term.kappa = Some(kernel.squared());
                }
                Measure::Mmd { kernel: own } => {
                    *own = Some(spec);
                    term.kappa = Some(kernel);
                    term.linear = Some(Linear::Cross(kernel));
                    let reference = self.reference.as_ref().ok_or_else(|| {
                        Error::missing(written.measure.name(), "a reference set, the one that it was prepared with")
                    })?;
                    term.constant = reference.constant(&kernel, &self.engine)?;
                }
                Measure::Vendi { order, kernel: own } => {
                    *own = spec;
                    term.smooth = Some(Smooth::Vendi(*order, kernel));
                }
                _ => {}
            }
        }
        loss.objective = self.objective.with_measures(loss.terms.iter().map(|term| term.measure.clone()));
        Ok(loss)
    }
}
