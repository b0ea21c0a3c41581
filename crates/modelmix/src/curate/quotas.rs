//! Limits on the number of rows per arm, and the quotas of the optimal mixture.

use crate::arms::RecordedArms;
use crate::error::{Error, Result};
use crate::quadratic::Quadratic;
use crate::simplex::{self, Bounds};

/// Shares are written with few digits: 0.07 of 100 rows is 7, not 8.
const SHARE_ROUNDING: f64 = 1e-9;

/// The smallest and the largest number of rows per arm.
pub(super) struct Limits {
    pub(super) least: Vec<usize>,
    pub(super) most: Vec<usize>,
    count: usize,
}

impl Limits {
    /// The limits from floors and caps, and from the number of rows of each arm.
    pub(super) fn new(arms: &RecordedArms, bounds: &Bounds, count: usize) -> Result<Self> {
        let shares = bounds.floors().iter().zip(bounds.caps());
        let (mut least, mut most) = (Vec::new(), Vec::new());
        if bounds.floors().len() != arms.len() {
            let found = bounds.floors().len();
            return Err(Error::Program {
                problem: format!("there are bounds for {found} arms, but {} arms", arms.len()),
            });
        }
        for (arm, (floor, cap)) in arms.iter().zip(shares) {
            let (floor, cap) = (floor * count as f64, cap * count as f64);
            let (low, high) =
                ((floor - SHARE_ROUNDING).ceil().max(0.0) as usize, (cap + SHARE_ROUNDING).floor() as usize);
            let held = arm.features.len();
            if low > held.min(high) {
                let problem = format!(
                    "the floor of {} asks for {low} of {count} rows, but it has {held} samples and its cap allows {high}; lower the floor or choose fewer rows",
                    arm.name
                );
                return Err(Error::ByArm { what: "floor".into(), arm: arm.name.clone(), problem });
            }
            least.push(low);
            most.push(high.min(held));
        }
        let (low, high): (usize, usize) = (least.iter().sum(), most.iter().sum());
        if low > count || high < count {
            let problem = format!(
                "with these floors and caps a set of whole rows has at least {low} and at most {high}, not {count}; loosen them or choose another number"
            );
            return Err(Error::Program { problem });
        }
        Ok(Self { least, most, count })
    }

    /// The optimal mixture within these limits in whole rows, by the largest-remainder method: each arm gets the
    /// integer part of its share, and the rest go to the largest remainders.
    pub(super) fn quotas(&self, form: &Quadratic) -> Result<Self> {
        let count = self.count as f64;
        let share = |rows: &[usize]| rows.iter().map(|&rows| rows as f64 / count).collect();
        let weights = simplex::minimize(form, &Bounds::new(share(&self.least), share(&self.most))?)?.weights;
        let exact = |arm: usize| weights[arm] * count;
        let mut quotas: Vec<usize> = (0..weights.len())
            .map(|arm| ((exact(arm) + SHARE_ROUNDING).floor() as usize).clamp(self.least[arm], self.most[arm]))
            .collect();
        loop {
            let sum: usize = quotas.iter().sum();
            let behind = |arm: usize| exact(arm) - quotas[arm] as f64;
            let arms = 0..quotas.len();
            // Among equal remainders, the first arm comes first.
            if sum < self.count {
                let open = arms.filter(|&arm| quotas[arm] < self.most[arm]);
                let Some(arm) = open.max_by(|&a, &b| behind(a).total_cmp(&behind(b)).then(b.cmp(&a))) else { break };
                quotas[arm] += 1;
            } else if sum > self.count {
                let open = arms.filter(|&arm| quotas[arm] > self.least[arm]);
                let Some(arm) = open.min_by(|&a, &b| behind(a).total_cmp(&behind(b)).then(b.cmp(&a))) else { break };
                quotas[arm] -= 1;
            } else {
                break;
            }
        }
        Ok(Self { least: quotas.clone(), most: quotas, count: self.count })
    }

    /// Which arms may provide another row to a set with these counts, so that it can still be completed.
    pub(super) fn open(&self, counts: &[usize]) -> Vec<bool> {
        let left = self.count - counts.iter().sum::<usize>();
        let owed: usize = self.least.iter().zip(counts).map(|(least, count)| least.saturating_sub(*count)).sum();
        let open = |arm: usize| counts[arm] < self.most[arm] && (counts[arm] < self.least[arm] || left > owed);
        (0..counts.len()).map(open).collect()
    }

    /// Which arms may provide the row that replaces one of `arm`.
    pub(super) fn exchanged(&self, counts: &[usize], arm: usize) -> Vec<bool> {
        let spare = counts[arm] > self.least[arm];
        (0..counts.len()).map(|other| other == arm || spare && counts[other] < self.most[other]).collect()
    }
}
