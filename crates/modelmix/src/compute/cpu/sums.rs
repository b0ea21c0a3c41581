//! Kernel sums over pairs of sets: from 16-bit integers if that is exact enough, otherwise in single precision. Both are cut
//! into the same pieces, which threads share, and added in the same order.

use std::ops::Range;

use super::{Cpu, Precision, ROWS_PER_TASK, Used, add, blocks};
use crate::compute::integers::{self, Chosen, IntegerInstructions, Prepared, Scratch};
use crate::compute::leaves::Sums;
use crate::compute::parallel::parallel_fold;
use crate::compute::tiles::{Task, block_rows};
use crate::compute::{PairSums, Reference, Run, parallel};
use crate::error::Result;
use crate::features::Rows;
use crate::kernel::Kernel;

/// Integers are used from this width and this number of rows of every set on; with less, preparation costs more.
const MIN_INTEGER_WIDTH: usize = 32;
const MIN_INTEGER_ROWS: usize = 200;
/// The largest number of sets with a centre each: every row has a term per set.
const MAX_INTEGER_SETS: usize = 64;

/// The number of rows per set, those with the largest sums, that are summed again in single precision.
const REPEATED_ROWS: usize = 8;

/// Two sets, by number. For a set with itself, each pair once.
type SetPair = (usize, usize);

impl Cpu {
    /// Σk over all pairs of each of these pairs of sets.
    pub(super) fn pair_sums(
        &self,
        run: &Run,
        kernel: &Kernel,
        sets: &[Rows<'_>],
        pairs: &[SetPair],
    ) -> Result<Vec<PairSums>> {
        if let Some(sums) = self.integer_sums(run, kernel, sets, pairs)? {
            self.used.add(Used::INTEGERS);
            return Ok(sums);
        }
        let Some(prepared) = self.prepare(run, Some(kernel), sets)? else {
            self.note_double();
            return pairs.iter().map(|&pair| plain_sums(run, kernel, sets, pair)).collect();
        };
        self.used.add(Used::SINGLE);
        let tasks: Vec<Task<'_>> =
            pairs.iter().map(|&(x, y)| prepared.task(x, y, sets[x].len().min(sets[y].len()))).collect();
        self.pieces(run, sets, pairs, |index, x_range, y_range, leaf| {
            self.sweep(run, &tasks[index], x_range, y_range, leaf)
        })
    }

    /// The sums from 16-bit integers; `None` if they are not exact enough or not faster.
    fn integer_sums(
        &self,
        run: &Run,
        kernel: &Kernel,
        sets: &[Rows<'_>],
        pairs: &[SetPair],
    ) -> Result<Option<Vec<PairSums>>> {
        let Some(instructions) = IntegerInstructions::beside(self.instructions) else { return Ok(None) };
        let &Kernel::Gaussian { bandwidth } = kernel else { return Ok(None) };
        let is_large = sets.iter().all(|set| set.len() >= MIN_INTEGER_ROWS && set.width() >= MIN_INTEGER_WIDTH);
        if self.precision == Precision::Exact || !is_large || sets.len() > MAX_INTEGER_SETS {
            return Ok(None);
        }
        let prepared = Prepared::new(self.threads, self.instructions, run, bandwidth, sets)?;
        let probes = prepared.probes();
        if !prepared.is_ordinary() || probes.are_hopeless() {
            return Ok(None);
        }
        let chosen: Vec<Chosen> =
            sets.iter().enumerate().map(|(set, rows)| Chosen::new(*rows, probes.rows(set))).collect();
        let found = prepared.sums_of((instructions, self.threads), run, &chosen)?;
        let exact = self.single_sums_of(run, kernel, sets, &chosen)?;
        let estimate = probes.estimate(&found, &exact);
        if !estimate.is_small() {
            return Ok(None);
        }
        let sums = self.pieces(run, sets, pairs, |index, x_range, y_range, leaf| {
            run.check()?;
            Scratch::with(|scratch| prepared.sweep(instructions, pairs[index], (x_range, y_range), leaf, scratch));
            Ok(())
        })?;
        Ok(if self.are_largest_exact(run, kernel, sets, pairs, &sums)? { Some(sums) } else { None })
    }

    /// Whether the largest sums of rows, within a set or between two if that is all, are exact enough. Rows with many near
    /// copies have the largest sums, and the errors of near copies do not average out, but probes may miss all of them.
    fn are_largest_exact(
        &self,
        run: &Run,
        kernel: &Kernel,
        sets: &[Rows<'_>],
        pairs: &[SetPair],
        sums: &[PairSums],
    ) -> Result<bool> {
        let mut checked: Vec<(SetPair, Vec<f64>)> = Vec::new();
        for (&(x, y), sums) in pairs.iter().zip(sums) {
            if x == y {
                checked.push(((x, x), sums.rows.iter().zip(&sums.columns).map(|(row, column)| row + column).collect()));
            } else if pairs.len() == 1 {
                checked.push(((x, y), sums.rows.clone()));
                checked.push(((y, x), sums.columns.clone()));
            }
        }
        let one = Self { threads: 1, ..self.clone() };
        let are_exact = parallel(self.threads, run.stop(), checked.len(), |index| {
            let ((x, y), sums) = &checked[index];
            let (rows, held) = (sets[*x], sets[*y]);
            let mut largest: Vec<usize> = (0..sums.len()).collect();
            largest.sort_by(|&a, &b| sums[b].total_cmp(&sums[a]));
            largest.truncate(REPEATED_ROWS);
            let values: Vec<f32> = largest.iter().flat_map(|&row| rows.row(row)).copied().collect();
            let mut exact = vec![0.0; largest.len()];
            for range in blocks(held.len(), ROWS_PER_TASK) {
                let mut out = vec![0.0; largest.len() * range.len()];
                let columns = held.slice(range.start, range.end);
                one.rows_in_tiles(run, kernel, 1.0, Rows::new(rows.width(), &values), columns, &mut out)?;
                for ((row, line), exact) in largest.iter().zip(out.chunks_exact(range.len())).zip(&mut exact) {
                    let itself = if x == y && range.contains(row) { line[row - range.start] } else { 0.0 };
                    *exact += line.iter().sum::<f64>() - itself;
                }
            }
            Ok(largest.iter().zip(&exact).all(|(&row, &exact)| integers::is_exact_enough(sums[row], exact)))
        })?;
        Ok(are_exact.into_iter().all(|is_exact| is_exact))
    }

    /// Σk of some rows of every set over every set, in single precision: `[set][other][row]`. In their own set, they are not
    /// paired with each other.
    fn single_sums_of(
        &self,
        run: &Run,
        kernel: &Kernel,
        sets: &[Rows<'_>],
        chosen: &[Chosen],
    ) -> Result<Vec<Vec<Vec<f64>>>> {
        let values: Vec<f32> = chosen.iter().flat_map(|chosen| &chosen.values).copied().collect();
        let x = Rows::new(sets[0].width(), &values);
        let one = Self { threads: 1, ..self.clone() };
        let mut sums: Vec<Vec<Vec<f64>>> = sets.iter().map(|_| Vec::new()).collect();
        for (other, held) in sets.iter().enumerate() {
            let blocks: Vec<Range<usize>> = blocks(held.len(), ROWS_PER_TASK).collect();
            let parts = parallel(self.threads, run.stop(), blocks.len(), |block| {
                let range = &blocks[block];
                let mut out = vec![0.0; x.len() * range.len()];
                one.rows_in_tiles(run, kernel, 1.0, x, held.slice(range.start, range.end), &mut out)?;
                let mut lines = out.chunks_exact_mut(range.len());
                let mut totals: Vec<f64> = Vec::with_capacity(x.len());
                for (set, rows) in chosen.iter().enumerate() {
                    for line in lines.by_ref().take(rows.rows.len()) {
                        if set == other {
                            rows.rows
                                .iter()
                                .filter(|row| range.contains(row))
                                .for_each(|row| line[row - range.start] = 0.0);
                        }
                        totals.push(line.iter().sum());
                    }
                }
                Ok(totals)
            })?;
            let total = |row: usize| parts.iter().map(|part| part[row]).sum::<f64>();
            let mut totals = (0..x.len()).map(total);
            for (sums, rows) in sums.iter_mut().zip(chosen) {
                sums.push(totals.by_ref().take(rows.rows.len()).collect());
            }
        }
        Ok(sums)
    }

    /// The sums of all pairs of sets, in pieces (rows × block of columns) that threads share. Their results are added
    /// in a fixed order.
    fn pieces(
        &self,
        run: &Run,
        sets: &[Rows<'_>],
        pairs: &[SetPair],
        sweep: impl Fn(usize, Range<usize>, Range<usize>, &mut Sums) -> Result<()> + Sync,
    ) -> Result<Vec<PairSums>> {
        let mut pieces = Vec::new();
        for (index, &(x, y)) in pairs.iter().enumerate() {
            let (rows, columns) = (sets[x].len(), sets[y].len());
            // Blocks of one size: at least sixteen over all pairs, for threads to share, and otherwise as large as
            // possible, because every block copies the rows again.
            let share = columns.div_ceil(16usize.div_ceil(pairs.len()).max(1));
            let most = share.clamp(96, block_rows(sets[y].width()).max(96));
            let length = columns.div_ceil(columns.div_ceil(most).max(1)).next_multiple_of(32).max(32);
            for y_range in blocks(columns, length) {
                // The columns of a triangle are paired only with the rows before them.
                let rows = if x == y { y_range.end.min(rows) } else { rows };
                pieces.extend(blocks(rows, ROWS_PER_TASK).map(|x_range| (index, x_range, y_range.clone())));
            }
        }
        // The largest pieces first, so that no thread is left with one at the end; the sort is stable.
        pieces.sort_by_key(|(_, x_range, y_range)| std::cmp::Reverse(x_range.len() * y_range.len()));
        let mut sums: Vec<PairSums> = pairs
            .iter()
            .map(|&(x, y)| PairSums { rows: vec![0.0; sets[x].len()], columns: vec![0.0; sets[y].len()] })
            .collect();
        let work = |piece: usize| {
            let (index, x_range, y_range) = &pieces[piece];
            let mut leaf = Sums::new(x_range.clone(), y_range.clone());
            sweep(*index, x_range.clone(), y_range.clone(), &mut leaf)?;
            run.advance((x_range.len() * y_range.len()) as u64);
            Ok(leaf)
        };
        parallel_fold(self.threads, run.stop(), pieces.len(), work, |piece, part| {
            let (index, x_range, y_range) = &pieces[piece];
            add(&mut sums[*index].rows[x_range.clone()], part.unit, &part.rows);
            add(&mut sums[*index].columns[y_range.clone()], part.unit, &part.columns);
        })?;
        Ok(sums)
    }
}

/// The sums of a pair of sets by plain loops.
fn plain_sums(run: &Run, kernel: &Kernel, sets: &[Rows<'_>], (x, y): SetPair) -> Result<PairSums> {
    if x != y {
        return Reference::sums(run, kernel, sets[x], sets[y]);
    }
    let mut sums = Reference::sums_among(run, kernel, &[sets[x]])?;
    Ok(PairSums { rows: sums.remove(0).remove(0), columns: vec![0.0; sets[x].len()] })
}
