//! Kernel herding and exchanges. N²·L(S) = ΣΣκ + N·Σf, so adding a row x changes it by 2·s(x) + κ(x, x) + N·f(x), with
//! s(x) = Σκ(x, y) over the chosen y. s is stored for every candidate; each change needs one row of κ.

use super::candidates::Candidates;
use super::quotas::Limits;
use crate::error::Result;

/// The number of chosen rows whose κ against all candidates is computed at once.
const ROWS_PER_KAPPA_CALL: usize = 32;
/// The number of candidates that are compared at once: their changes fit into the first-level cache.
const CHANGES_AT_ONCE: usize = 512;
/// An exchange must gain more than the rounding error of single precision, in units of the mean of κ(x, x).
const MIN_EXCHANGE_GAIN: f64 = 1e-6;

/// A set under construction.
pub(super) struct Selection {
    /// Numbers of candidates, in the order chosen.
    pub(super) chosen: Vec<usize>,
    is_chosen: Vec<bool>,
    counts: Vec<usize>,
    /// s of every candidate.
    toward: Vec<f64>,
}

impl Selection {
    /// Repeatedly adds the row that gives the set the smallest loss; among equal ones, the first.
    pub(super) fn herd(candidates: &Candidates<'_>, limits: &Limits, count: usize, done: &dyn Fn()) -> Result<Self> {
        let mut set = Self {
            chosen: Vec::with_capacity(count),
            is_chosen: vec![false; candidates.len()],
            counts: vec![0; candidates.arms()],
            toward: vec![0.0; candidates.len()],
        };
        for size in 1..=count {
            candidates.check()?;
            let open = limits.open(&set.counts);
            let (found, _) = set.smallest(candidates, &open, size as f64, None).expect("the limits admit another row");
            set.chosen.push(found);
            set.put(candidates, found)?;
            done();
        }
        Ok(set)
    }

    /// The open candidate that changes N²·L(S) least if it comes to a set of `size` rows, and that change; `without` is κ of a
    /// row that leaves the set. Among equal ones, the first.
    fn smallest(
        &self,
        candidates: &Candidates<'_>,
        open: &[bool],
        size: f64,
        without: Option<&[f64]>,
    ) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        let mut changes = [0.0; CHANGES_AT_ONCE];
        for arm in (0..open.len()).filter(|&arm| open[arm]) {
            let numbers = candidates.of(arm);
            for first in numbers.clone().step_by(CHANGES_AT_ONCE) {
                // Changes of many candidates at a time, by vector instructions; most have no smallest one.
                let part = first..(first + CHANGES_AT_ONCE).min(numbers.end);
                let changes = &mut changes[..part.len()];
                match without {
                    None => changes.copy_from_slice(&self.toward[part.clone()]),
                    Some(kappa) => {
                        let terms = self.toward[part.clone()].iter().zip(&kappa[part.clone()]);
                        changes.iter_mut().zip(terms).for_each(|(change, (toward, kappa))| *change = toward - kappa);
                    }
                }
                let terms = candidates.own[part.clone()].iter().zip(&candidates.linear[part.clone()]);
                for ((change, is_chosen), (own, linear)) in changes.iter_mut().zip(&self.is_chosen[part]).zip(terms) {
                    let value = 2.0 * *change + own + size * linear;
                    *change = if *is_chosen { f64::INFINITY } else { value };
                }
                let least =
                    changes.iter().fold(f64::INFINITY, |least, &change| if change < least { change } else { least });
                if best.is_none_or(|(_, least_so_far)| least < least_so_far)
                    && let Some(place) = changes.iter().position(|&change| change == least && change < f64::INFINITY)
                {
                    best = Some((first + place, least));
                }
            }
        }
        best
    }

    /// Marks a row as chosen, and returns its κ against all.
    fn put(&mut self, candidates: &Candidates<'_>, number: usize) -> Result<Vec<f64>> {
        let kappa = candidates.kappa(&[number])?.swap_remove(0);
        self.is_chosen[number] = true;
        self.counts[candidates.arm(number)] += 1;
        self.toward.iter_mut().zip(&kappa).for_each(|(sum, value)| *sum += value);
        Ok(kappa)
    }

    fn take(&mut self, candidates: &Candidates<'_>, number: usize, kappa: &[f64]) {
        self.is_chosen[number] = false;
        self.counts[candidates.arm(number)] -= 1;
        self.toward.iter_mut().zip(kappa).for_each(|(sum, value)| *sum -= value);
    }

    /// Exchanges chosen rows for the ones that lower the loss most, until no exchange helps or `sweeps` passes are
    /// made. Returns the number of exchanges, and whether none is left.
    pub(super) fn refine(
        &mut self,
        candidates: &Candidates<'_>,
        limits: &Limits,
        sweeps: usize,
        done: &dyn Fn(),
    ) -> Result<(usize, bool)> {
        let count = self.chosen.len() as f64;
        let scale = self.chosen.iter().map(|&x| candidates.own[x].abs()).sum::<f64>() / count;
        let mut exchanges = 0;
        for _ in 0..sweeps {
            let before = exchanges;
            // s is recomputed from the rows at the end of a sweep, so that rounding errors do not accumulate.
            let mut fresh = vec![0.0; candidates.len()];
            for first in (0..self.chosen.len()).step_by(ROWS_PER_KAPPA_CALL) {
                let last = (first + ROWS_PER_KAPPA_CALL).min(self.chosen.len());
                let rows = candidates.kappa(&self.chosen[first..last])?;
                for (place, mut kappa) in (first..last).zip(rows) {
                    candidates.check()?;
                    let x = self.chosen[place];
                    let leaves = candidates.own[x] - 2.0 * self.toward[x] - count * candidates.linear[x];
                    let open = limits.exchanged(&self.counts, candidates.arm(x));
                    if let Some((y, change)) = self.smallest(candidates, &open, count, Some(&kappa))
                        && leaves + change < -MIN_EXCHANGE_GAIN * scale
                    {
                        self.take(candidates, x, &kappa);
                        kappa = self.put(candidates, y)?;
                        self.chosen[place] = y;
                        exchanges += 1;
                    }
                    fresh.iter_mut().zip(&kappa).for_each(|(sum, value)| *sum += value);
                    done();
                }
            }
            self.toward = fresh;
            if exchanges == before {
                return Ok((exchanges, true));
            }
        }
        Ok((exchanges, false))
    }
}
