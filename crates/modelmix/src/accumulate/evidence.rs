//! What sampled rows say about the spread of kernels and linear terms: the evidence that intervals are made from.

use super::{Accumulator, ArmSums, Plan};
use crate::compute::Engine;
use crate::error::{Error, Result};
use crate::features::Rows;
use crate::influence::Frequencies;
use crate::statistics::Statistics;

/// Sampled rows whose features are computed at once.
const ROWS_AT_ONCE: usize = 512;

/// φ·φ′ of mean features: the mean over frequencies.
pub(super) fn product(x: &[f64], y: &[f64]) -> f64 {
    crate::fourier::dot(x, y) / (x.len() / 2) as f64
}

/// The sampled rows of all arms, arm by arm.
pub(super) struct Samples {
    width: usize,
    rows: Vec<f32>,
    pub(super) arm_of: Vec<usize>,
    pub(super) values: Vec<Box<[f64]>>,
    priorities: Vec<u64>,
}

impl Samples {
    pub(super) fn new(parts: &[&ArmSums]) -> Self {
        let mut samples =
            Self { width: 1, rows: Vec::new(), arm_of: Vec::new(), values: Vec::new(), priorities: Vec::new() };
        for (arm, part) in parts.iter().enumerate() {
            for row in part.sample.sorted() {
                samples.width = row.row.len();
                samples.rows.extend_from_slice(&row.row);
                samples.arm_of.push(arm);
                samples.values.push(row.values);
                samples.priorities.push(row.priority);
            }
        }
        samples
    }
}

/// What the sampled rows say about the spread of κ and f.
pub(super) struct Evidence<'a> {
    samples: &'a Samples,
    sampled: Vec<usize>,
    toward: Vec<Vec<f64>>,
    self_terms: Vec<f64>,
    linear: Vec<f64>,
    reference: Vec<f32>,
    /// The priorities of the sampled rows of the reference.
    reference_priorities: Vec<u64>,
    pub(super) by_row: Vec<Vec<f64>>,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(samples: &'a Samples, arms: usize, reference: &ArmSums) -> Self {
        let count = samples.arm_of.len();
        let mut sampled = vec![0; arms];
        samples.arm_of.iter().for_each(|&arm| sampled[arm] += 1);
        let reference = reference.sample.sorted();
        Self {
            samples,
            sampled,
            toward: vec![vec![0.0; count]; arms],
            self_terms: vec![0.0; count],
            linear: vec![0.0; count],
            reference: reference.iter().flat_map(|row| row.row.to_vec()).collect(),
            reference_priorities: reference.iter().map(|row| row.priority).collect(),
            by_row: vec![Vec::new(); arms],
        }
    }

    pub(super) fn add_linear(&mut self, weight: f64, value: impl Fn(usize) -> f64) {
        self.linear.iter_mut().enumerate().for_each(|(sample, sum)| *sum += weight * value(sample));
    }

    /// Adds a Gaussian term: means of κ between every sampled row and all rows of each arm, from random features.
    pub(super) fn add_waves(
        &mut self,
        term: &Frequencies,
        counts: &[usize],
        plan: &Plan,
        turns: &[f32],
        engine: &Engine,
    ) -> Result<()> {
        let samples = self.samples;
        for_each_wave(engine, plan, turns, Rows::new(samples.width, &samples.rows), |sample, waves| {
            let own = samples.arm_of[sample];
            self.self_terms[sample] += term.weight;
            for (arm, mean) in term.arms.iter().enumerate() {
                let (mut value, mut others) = (product(waves, mean), self.sampled[arm] as f64);
                if arm == own {
                    let n = counts[arm] as f64;
                    (value, others) = ((n * value - 1.0) / (n - 1.0), others - 1.0);
                }
                self.toward[arm][sample] += term.weight * value * others;
            }
            if !term.reference.is_empty() {
                self.linear[sample] -= 2.0 * term.weight * product(waves, &term.reference);
            }
        })?;
        if !term.reference.is_empty() {
            let rows = std::mem::take(&mut self.reference);
            let count = rows.len() / samples.width;
            self.by_row.iter_mut().for_each(|row| row.resize(count, 0.0));
            for_each_wave(engine, plan, turns, Rows::new(samples.width, &rows), |y, waves| {
                for (row, mean) in self.by_row.iter_mut().zip(&term.arms) {
                    row[y] -= 2.0 * term.weight * product(waves, mean);
                }
            })?;
            self.reference = rows;
        }
        Ok(())
    }

    /// Adds all quadratic terms, from exact sums over pairs of blocks. `sides` are those of the arms.
    pub(super) fn add_pairs(&mut self, accumulator: &Accumulator, sides: &[usize], counts: &[usize]) -> Result<()> {
        let (totals, terms) = (&accumulator.pairs, &accumulator.terms.kernels);
        let (reference, rows) = (accumulator.plan.arms.len(), accumulator.reference.count as f64);
        let quantum = accumulator.plan.pairs.as_ref().map_or(1.0, |pairs| pairs.row_quantum);
        // The mean over copies of a row, which have the same sums.
        let sums_of = |side: usize, priority: u64| {
            let found = totals.rows[side].get(&priority).filter(|row| row.copies > 0).ok_or_else(|| {
                Error::missing("an interval", "the rows of the survey in the blocks; pass the same rows in both passes")
            })?;
            let scale = quantum / found.copies as f64;
            Ok(found.toward.iter().map(|&sum| sum as f64 * scale).collect::<Vec<_>>())
        };
        let has_reference = terms.iter().any(|term| term.has_reference);
        let samples = self.samples;
        for (sample, &own) in samples.arm_of.iter().enumerate() {
            let sums = sums_of(sides[own], samples.priorities[sample])?;
            for (arm, &side) in sides.iter().enumerate() {
                let without = f64::from(u8::from(arm == own));
                let others = self.sampled[arm] as f64 - without;
                self.toward[arm][sample] += sums[side] / (counts[arm] as f64 - without) * others;
            }
            if has_reference {
                self.linear[sample] -= 2.0 * sums[reference] / rows;
            }
            let row = &samples.rows[sample * samples.width..(sample + 1) * samples.width];
            self.self_terms[sample] += terms.iter().map(|term| term.weight * term.kernel.of_self(row)).sum::<f64>();
        }
        if has_reference {
            let count = self.reference_priorities.len();
            self.by_row.iter_mut().for_each(|row| row.resize(count, 0.0));
            for (y, &priority) in self.reference_priorities.iter().enumerate() {
                let sums = sums_of(reference, priority)?;
                for ((row, &side), &count) in self.by_row.iter_mut().zip(sides).zip(counts) {
                    row[y] -= 2.0 * sums[side] / count as f64;
                }
            }
        }
        Ok(())
    }

    pub(super) fn statistics(&mut self) -> Result<Statistics> {
        let take = std::mem::take::<Vec<f64>>;
        Statistics::from_sums(
            self.samples.arm_of.clone(),
            take(&mut self.self_terms),
            take(&mut self.linear),
            std::mem::take(&mut self.toward),
        )
    }
}

/// Calls `call` with the cosines and sines of every row, one row at a time.
fn for_each_wave(
    engine: &Engine,
    plan: &Plan,
    turns: &[f32],
    rows: Rows<'_>,
    mut call: impl FnMut(usize, &[f64]),
) -> Result<()> {
    let width = rows.width();
    let frequencies = Rows::new(width, turns);
    let mut waves = vec![0.0; 2 * frequencies.len()];
    for first in (0..rows.len()).step_by(ROWS_AT_ONCE) {
        engine.check()?;
        let block = rows.slice(first, (first + ROWS_AT_ONCE).min(rows.len()));
        let centred: Vec<f32> =
            block.iter().flat_map(|row| row.iter().zip(&plan.centre).map(|(value, centre)| value - centre)).collect();
        let turns = engine.products(Rows::new(width, &centred), frequencies)?;
        for (at, turns) in turns.chunks_exact(frequencies.len()).enumerate() {
            let (cosines, sines) = waves.split_at_mut(frequencies.len());
            for ((turn, cosine), sine) in turns.iter().zip(cosines).zip(sines) {
                (*sine, *cosine) = (std::f64::consts::TAU * turn).sin_cos();
            }
            call(first + at, &waves);
        }
    }
    Ok(())
}
