//! Candidate rows: all samples, or a pool drawn from them; and κ of some candidates against all.

use super::Curation;
use super::evaluate::Terms;
use crate::arms::RecordedArms;
use crate::compute::Resident;
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::loss::Loss;
use crate::random::Random;

/// Candidate rows, grouped by arm and numbered consecutively.
pub(super) struct Candidates<'a> {
    loss: &'a Loss,
    sets: Vec<Features>,
    /// The same rows, resident on the engine.
    held: Vec<Box<dyn Resident>>,
    /// The rows of the pool within their arms, if a pool was drawn.
    drawn: Option<Vec<Vec<usize>>>,
    starts: Vec<usize>,
    /// κ(x, x) and f(x).
    pub(super) own: Vec<f64>,
    pub(super) linear: Vec<f64>,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(
        arms: &RecordedArms,
        loss: &'a Loss,
        terms: &Terms<'_>,
        quotas: &[usize],
        settings: &Curation,
    ) -> Result<Self> {
        let samples: usize = arms.iter().map(|arm| arm.features.len()).sum();
        let drawn = (samples > settings.pool).then(|| pool(arms, quotas, settings));
        let sets = match &drawn {
            None => arms.iter().map(|arm| arm.features.clone()).collect(),
            Some(drawn) => arms
                .iter()
                .zip(drawn)
                .map(|(arm, rows)| arm.features.select(rows.iter().copied()))
                .collect::<Result<Vec<_>>>()?,
        };
        let mut starts = vec![0];
        sets.iter().for_each(|set| starts.push(starts[starts.len() - 1] + set.len()));
        let held = sets.iter().map(|set| loss.engine().hold(set)).collect::<Result<Vec<_>>>()?;
        let mut found = Self { loss, sets, held, drawn, starts, own: Vec::new(), linear: Vec::new() };
        for set in &found.sets {
            found.own.extend(set.view().iter().map(|row| loss.kappa_self(row)));
        }
        found.linear =
            (0..found.len()).map(|number| found.place(number)).map(|(arm, row)| terms.linear(arm, row)).collect();
        if let Some(number) = (0..found.len()).find(|&number| !(found.own[number] + found.linear[number]).is_finite()) {
            let (arm, row) = found.place(number);
            let problem = format!(
                "κ or f of row {row} is not finite; features are too large for this kernel, so scale them down"
            );
            return Err(Error::Array { origin: format!("arm {}", arms[arm].name), problem });
        }
        Ok(found)
    }

    pub(super) fn len(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// The numbers of an arm's candidates.
    pub(super) fn of(&self, arm: usize) -> std::ops::Range<usize> {
        self.starts[arm]..self.starts[arm + 1]
    }

    pub(super) fn arms(&self) -> usize {
        self.sets.len()
    }

    pub(super) fn arm(&self, number: usize) -> usize {
        self.starts.partition_point(|&start| start <= number) - 1
    }

    fn features(&self, number: usize) -> &[f32] {
        let arm = self.arm(number);
        self.sets[arm].row(number - self.starts[arm])
    }

    /// The arm of a candidate, and its row there.
    fn place(&self, number: usize) -> (usize, usize) {
        let arm = self.arm(number);
        let row = number - self.starts[arm];
        (arm, self.drawn.as_ref().map_or(row, |drawn| drawn[arm][row]))
    }

    pub(super) fn rows(&self, numbers: &[usize]) -> Vec<(usize, usize)> {
        numbers.iter().map(|&number| self.place(number)).collect()
    }

    /// κ of some candidates against all: entry `[i]` is that of the i-th.
    pub(super) fn kappa(&self, numbers: &[usize]) -> Result<Vec<Vec<f64>>> {
        self.check()?;
        let width = self.sets[0].width();
        let values: Vec<f32> = numbers.iter().flat_map(|&number| self.features(number)).copied().collect();
        let rows = Rows::new(width, &values);
        let mut out: Vec<Vec<f64>> = numbers.iter().map(|_| Vec::with_capacity(self.len())).collect();
        let mut block = Vec::new();
        for set in &self.held {
            self.loss.kappa_rows(rows, &**set, &mut block)?;
            for (out, values) in out.iter_mut().zip(block.chunks_exact(set.len())) {
                out.extend_from_slice(values);
            }
        }
        Ok(out)
    }

    /// Fails if the computation is stopped.
    pub(super) fn check(&self) -> Result<()> {
        self.loss.engine().check()
    }
}

/// Draws rows of each arm without replacement: half of the pool by the arms' quotas, half by their numbers of samples,
/// and at least the quota of every arm.
fn pool(arms: &RecordedArms, quotas: &[usize], settings: &Curation) -> Vec<Vec<usize>> {
    let mut random = Random::stream(settings.seed, 0);
    let samples: usize = arms.iter().map(|arm| arm.features.len()).sum();
    arms.iter()
        .zip(quotas)
        .map(|(arm, &quota)| {
            let share = quota as f64 / settings.count as f64 + arm.features.len() as f64 / samples as f64;
            let wanted = (settings.pool as f64 * share / 2.0) as usize;
            let mut rows = random.sample(arm.features.len(), wanted.max(quota).max(1));
            rows.sort_unstable();
            rows
        })
        .collect()
}
