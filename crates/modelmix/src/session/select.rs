//! Which of the told samples are kept, for callers who may discard some. This observer has sums of its own; the evidence is
//! always from all samples, since estimates from selected samples would be biased.

use serde::{Deserialize, Serialize};

use super::samples::{Batch, Samples};
use crate::error::{Error, Result};
use crate::statistics::Statistics;
use crate::text::nearest;

/// A caution for users of the kept samples.
pub const SELECTION_NOTE: &str = "The kept samples are no longer an i.i.d. mixture: each was kept because it lowers the loss of those kept \
before it, so their score is optimistically biased; weights and estimates use all samples told.";

/// The first samples are always kept, until there are enough for a median.
const MIN_SAMPLES_FOR_MEDIAN: usize = 4;

/// Which samples are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Selection {
    /// All of them.
    #[default]
    All,
    /// Those that lower the loss of the kept samples at least as much as the median of all samples told so far would.
    BetterHalf,
}

impl Selection {
    /// All of them.
    pub const ALL: [Selection; 2] = [Selection::All, Selection::BetterHalf];

    /// The name of the setting.
    pub fn name(self) -> &'static str {
        match self {
            Selection::All => "all",
            Selection::BetterHalf => "better-half",
        }
    }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Selection {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
            let hint = nearest(text, &Self::ALL.map(Selection::name));
            let hint = hint.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            Error::setting("select", format!("\"{text}\""), format!("all or better-half{hint}"))
        })
    }
}

/// The sums over the kept samples.
///
/// With m samples kept, whose Σκ with x is s(x), their loss with x is (ΣΣκ + 2·s(x) + κ(x, x))/(m+1)² + (Σf + f(x))/(m+1). So x
/// lowers it more than y does if c(x) = (2·s(x) + κ(x, x))/(m+1) + f(x) is less than c(y). s is stored for every sample told,
/// so that all of them are compared by their effect *now*: when they arrived, the kept set was smaller and their effect larger.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptSet {
    /// Per sample, in the order told.
    is_kept: Vec<bool>,
    /// Whether it is a known sample.
    is_known: Vec<bool>,
    /// Σκ(x, y) over the kept samples y ≠ x.
    toward: Vec<f64>,
    count: usize,
    /// ΣΣκ over the kept samples, a sample with itself included, and Σf.
    pair_sum: f64,
    linear_sum: f64,
}

impl KeptSet {
    /// The kept set after a batch. A decision recorded earlier is used as it is; known samples are never kept, and others are
    /// not compared with them.
    pub(super) fn with_batch(
        &self,
        samples: &Samples,
        batch: &Batch<'_>,
        is_known: bool,
        decided: Option<&[bool]>,
    ) -> Self {
        let mut kept = self.clone();
        for index in 0..batch.len() {
            let decided = if is_known { Some(false) } else { decided.and_then(|flags| flags.get(index).copied()) };
            kept.consider(samples, batch, index, is_known, decided);
        }
        kept
    }

    fn consider(&mut self, samples: &Samples, batch: &Batch<'_>, index: usize, is_known: bool, decided: Option<bool>) {
        let (kappa, own, linear) = (&batch.kappa[index], batch.own[index], batch.linear[index]);
        let toward: f64 = kappa.iter().zip(&self.is_kept).filter(|(_, kept)| **kept).map(|(value, _)| value).sum();
        let after = (self.count + 1) as f64;
        let change = |toward: f64, own: f64, linear: f64| (2.0 * toward + own) / after + linear;
        let told = &samples.statistics;
        let is_kept = decided.unwrap_or_else(|| {
            let own_terms = told.self_terms().iter().chain(&batch.own[..index]);
            let linear_terms = told.linear_terms().iter().chain(&batch.linear[..index]);
            let others = self.toward.iter().zip(own_terms).zip(linear_terms).zip(&self.is_known);
            let mut changes: Vec<f64> = others
                .filter(|(_, is_known)| !**is_known)
                .map(|(((&toward, &own), &linear), _)| change(toward, own, linear))
                .collect();
            if changes.len() < MIN_SAMPLES_FOR_MEDIAN {
                return true;
            }
            // For an even number, the higher of the two middle values; a sample that equals it is kept.
            let middle = changes.len() / 2;
            let (_, median, _) = changes.select_nth_unstable_by(middle, f64::total_cmp);
            change(toward, own, linear) <= *median
        });
        self.toward.push(toward);
        self.is_known.push(is_known);
        if is_kept {
            self.toward.iter_mut().zip(kappa.iter()).for_each(|(sum, value)| *sum += value);
            self.pair_sum += 2.0 * toward + own;
            self.linear_sum += linear;
            self.count += 1;
        }
        self.is_kept.push(is_kept);
    }

    /// Which of the last `samples` samples are kept.
    pub(super) fn last_decisions(&self, samples: usize) -> &[bool] {
        &self.is_kept[self.is_kept.len() - samples..]
    }

    /// Whether each told sample is kept.
    pub(super) fn is_kept(&self) -> &[bool] {
        &self.is_kept
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// L of the kept samples, with equal weights and without the constant; `None` before the first.
    pub(super) fn loss(&self) -> Option<f64> {
        let count = self.count as f64;
        (self.count > 0).then(|| self.pair_sum / (count * count) + self.linear_sum / count)
    }

    /// Checks the fit; a snapshot is untrusted input.
    pub(super) fn fits(&self, told: &Statistics) -> bool {
        self.is_kept.len() == told.len()
            && self.toward.len() == told.len()
            && self.is_known.len() == told.len()
            && self.is_kept.iter().filter(|kept| **kept).count() == self.count
            && self.toward.iter().chain([&self.pair_sum, &self.linear_sum]).all(|value| value.is_finite())
    }
}
