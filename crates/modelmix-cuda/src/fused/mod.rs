//! Sums over pairs by the fused kernels, checked on sampled rows. If these are not accurate enough, sets are split into
//! clusters; if that does not help, there is no result. `prepared` has the work on the device.

mod arrangement;
mod prepared;
mod tensor;

use std::sync::Arc;

use modelmix::compute::Run;
use modelmix::{Error, Result, Rows};

use crate::cluster;
use crate::device::{Buffer, Grid, Queue, Results};
use crate::exact::{Side, TILE_ROWS, slices};
use crate::function::{Function, FusedKernel};
use crate::guard::{Errors, SAMPLES, Sampled, sample};
use crate::modules::{Form, Module};
use crate::options::Tier;
use crate::plan::Pairs;
use crate::resident::{Loaded, addresses};
pub(crate) use arrangement::Arrangements;
use arrangement::{Arrangement, Shape};
use prepared::Prepared;

/// The maximum width for which both parts are stored in half precision: the epilogue takes most of the time there, and
/// the small products of 8 bits save none.
const MAX_HALVES_WIDTH: usize = 64;
/// Columns per partial sum of the check: short, for enough blocks of threads.
const CHECK_SLICE: usize = 256;
/// The maximum number of clusters per set, and of groups of all sets.
const MAX_CLUSTERS: usize = 8;
const MAX_GROUPS: usize = 256;
/// The maximum number of bytes of terms, which are one per row and group. Beyond, sums are computed exactly.
const MAX_TERM_BYTES: usize = 8 << 30;

/// Counts pairs for the observer of a run: at most `total`, however often they are computed.
pub(crate) struct Progress<'a> {
    run: &'a Run,
    total: u64,
    told: std::cell::Cell<u64>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(run: &'a Run, total: u64) -> Self {
        Self { run, total, told: std::cell::Cell::new(0) }
    }

    /// Tells the observer that this share of the work is done.
    pub(crate) fn reach(&self, done: u64, of: u64) {
        let pairs = (u128::from(self.total) * u128::from(done.min(of)) / u128::from(of.max(1))) as u64;
        if pairs > self.told.get() {
            self.run.advance(pairs - self.told.replace(pairs));
        }
    }
}

/// A call of the fused kernels.
pub(crate) struct Fused<'a> {
    pub(crate) queue: &'a Queue<'a>,
    pub(crate) run: &'a Run,
    pub(crate) kernel: FusedKernel,
    pub(crate) function: Function,
    pub(crate) sets: &'a [&'a Loaded],
    pub(crate) pairs: Pairs,
    /// The maximum number of blocks of threads.
    pub(crate) blocks: Option<u32>,
    pub(crate) progress: &'a Progress<'a>,
    pub(crate) arrangements: &'a Arrangements,
}

impl<'a> Fused<'a> {
    pub(crate) fn width(&self) -> usize {
        self.sets.first().map_or(1, |set| set.width)
    }

    fn sizes(&self) -> Vec<usize> {
        self.sets.iter().map(|set| set.rows).collect()
    }

    /// The form that is fast for this width.
    fn form(&self) -> Form {
        match self.queue.device.tier {
            Tier::Wgmma if self.width() > MAX_HALVES_WIDTH => Form::Mixed,
            _ => Form::Halves,
        }
    }

    /// `[set][row]`: for every set, the sums of all rows of all sets over it, 0 for pairs that are not asked for. `None`
    /// if they are not accurate enough.
    pub(crate) fn sums(&self) -> Result<Option<Results<'a>>> {
        let rows: usize = self.sizes().iter().sum();
        if self.sets.len().saturating_mul(rows).saturating_mul(8) > MAX_TERM_BYTES {
            return Ok(None);
        }
        // Rows as they are, for the check, and as the kernels take them.
        let exact = addresses(self.queue, self.sets, 0)?;
        let packed = if self.kernel.normalised { Some(self.normalised(&exact)?) } else { None };
        let base: Vec<u64> = match &packed {
            Some(packed) => {
                let bytes = self.width() * size_of::<f32>();
                (0..rows).map(|row| packed.at + (row * bytes) as u64).collect()
            }
            None => self.sets.iter().flat_map(|set| (0..set.rows).map(|row| set.row(row))).collect(),
        };
        let exact = Side::at(self.queue, exact, self.width(), &self.function)?;
        let (sums, errors) = self.attempt(&base, &exact, self.form(), None)?;
        if errors.are_accepted() {
            return Ok(Some(sums));
        }
        drop(sums);
        // Centres of clusters, and more bits for the small products.
        let Some(labels) = self.labels(&base)? else { return Ok(None) };
        let (sums, errors) = self.attempt(&base, &exact, Form::Halves, Some(&labels))?;
        Ok(errors.are_accepted().then_some(sums))
    }

    /// All rows divided by their norms.
    fn normalised(&self, at: &Buffer<u64>) -> Result<Buffer<f32>> {
        let norms = crate::exact::norms(self.queue, at, self.width())?;
        self.pack(at, norms.at)
    }

    /// Rows at addresses, copied to one place, and divided by their norms if there are any.
    fn pack(&self, at: &Buffer<u64>, norms: u64) -> Result<Buffer<f32>> {
        let packed = self.queue.allocate::<f32>("normalised rows", at.len * self.width())?;
        let grid = Grid::new(at.len.div_ceil(8), 256);
        let (rows, width) = (at.len as i32, self.width() as i32);
        // SAFETY: there is a row of the result for every address.
        unsafe { self.queue.launch(Module::Rows, "pack", grid, &[&at.at, &rows, &width, &norms, &packed.at])? };
        Ok(packed)
    }

    /// Clusters of every set, by k-means on a sample; `None` if there are too many sets.
    fn labels(&self, base: &[u64]) -> Result<Option<Vec<u32>>> {
        let count = (MAX_GROUPS / self.sets.len().max(1)).min(MAX_CLUSTERS);
        if count < 2 {
            return Ok(None);
        }
        let (width, mut labels, mut first) = (self.width(), Vec::with_capacity(base.len()), 0);
        for size in self.sizes() {
            self.run.check()?;
            let rows = &base[first..first + size];
            first += size;
            if rows.is_empty() {
                continue;
            }
            let sampled: Vec<u64> = rows.iter().copied().step_by(size.div_ceil(cluster::SAMPLE)).collect();
            let values = self.queue.values(&self.pack(&self.queue.upload("sampled rows", &sampled)?, 0)?)?;
            let centres = cluster::centres(Rows::new(width, &values), count);
            let (count, centres) = (centres.len() / width, self.queue.upload("centres of clusters", &centres)?);
            let at = self.queue.upload("addresses of rows", rows)?;
            let found = self.queue.allocate::<u32>("clusters of rows", size)?;
            let grid = Grid::new(size.div_ceil(8), 256);
            // SAFETY: there is a label for every address.
            unsafe {
                self.queue.launch(
                    Module::Rows,
                    "assign",
                    grid,
                    &[&at.at, &(size as i32), &(width as i32), &centres.at, &(count as i32), &found.at],
                )?;
            }
            labels.extend(self.queue.values(&found)?);
        }
        Ok(Some(labels))
    }

    /// Sums with these groups, and the errors of sampled rows.
    fn attempt(&self, base: &[u64], exact: &Side, form: Form, labels: Option<&[u32]>) -> Result<(Results<'a>, Errors)> {
        let unit = match self.queue.device.tier {
            Tier::Wgmma => 256,
            Tier::Mma => 128,
        };
        let shape = Shape { sizes: self.sizes(), pairs: self.pairs.clone(), unit };
        let arranged = match labels {
            None => self.arrangements.of(self.queue, &shape)?,
            Some(_) => Arc::new(Arrangement::new(self.queue, &shape, labels)?),
        };
        let prepared = Prepared::new(self, form, &arranged, base).map_err(|error| match error {
            Error::Memory { place, free, .. } => {
                let (needed, rows) = (Prepared::bytes(self, form, &arranged), base.len());
                let what = format!("kernel sums over {rows} rows of width {}", self.width());
                Error::Memory { what, place, needed, free }
            }
            error => error,
        })?;
        prepared.prepare()?;
        prepared.multiply(unit)?;
        let sums = self.queue.results(&prepared.out)?;
        let errors = Errors::of(&self.check(&prepared.own_terms()?, exact, &sums)?);
        Ok((sums, errors))
    }

    /// Sampled sums, as found and recomputed.
    fn check(&self, terms: &[f32], exact: &Side, sums: &[f64]) -> Result<Vec<Sampled>> {
        let (sizes, queue) = (self.sizes(), self.queue);
        let rows = sample(terms, SAMPLES);
        let sampled: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        let ends: Vec<usize> = sizes
            .iter()
            .scan(0, |end, size| {
                *end += size;
                Some(*end)
            })
            .collect();
        let set_of = |row: usize| ends.partition_point(|&end| end <= row);
        let address = |&row: &usize| {
            let set = set_of(row);
            self.sets[set].row(row + sizes[set] - ends[set])
        };
        let at = queue.upload("sampled rows", &rows.iter().map(address).collect::<Vec<_>>())?;
        let x = Side::at(queue, at, self.width(), &self.function)?;
        let own = queue.upload("sampled rows", &sampled)?;
        let own = if self.pairs == Pairs::All { own.at } else { 0 };
        let (columns, set_slice) = slices(&sizes, CHECK_SLICE);
        let columns_at = queue.upload("slices of columns", &columns)?;
        let part = queue.allocate::<f64>("sampled sums", columns.len() * rows.len())?;
        let magnitudes = queue.allocate::<f64>("sampled sums", columns.len() * rows.len())?;
        let name = if self.function.is_product() { "check_product" } else { "check_distance" };
        let grid = Grid::two(rows.len().div_ceil(TILE_ROWS), columns.len(), 128);
        // SAFETY: slices are inside the columns, and there is a partial sum for every slice and sampled row.
        unsafe {
            queue.launch(
                Module::Tiles,
                name,
                grid,
                &[
                    &x.at.at,
                    &(rows.len() as i32),
                    &x.norms_at(),
                    &exact.at.at,
                    &exact.norms_at(),
                    &columns_at.at,
                    &(self.width() as i32),
                    &self.function,
                    &own,
                    &part.at,
                    &magnitudes.at,
                    &(rows.len() as i64),
                ],
            )?;
        }
        let (part, magnitudes) = (queue.values(&part)?, queue.values(&magnitudes)?);
        let mut found = Vec::new();
        for (index, &row) in rows.iter().enumerate() {
            let i = set_of(row);
            for j in (0..sizes.len()).filter(|&j| sizes[j] > 0 && (self.pairs == Pairs::All || i != j)) {
                let slices = set_slice[j] as usize..set_slice[j + 1] as usize;
                let sum = |part: &[f64]| slices.clone().map(|slice| part[slice * rows.len() + index]).sum();
                let (truth, magnitude): (f64, f64) = (sum(&part), sum(&magnitudes));
                // Terms of kernels of distances do not cancel, so their sums are to be accurate themselves, with small
                // bandwidths too.
                let magnitude = if self.function.is_product() { magnitude } else { magnitude.min(1.6 * truth) };
                found.push(Sampled { entry: (i, j), found: sums[j * terms.len() + row], truth, magnitude });
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Work that is done again is not told again.
    #[test]
    fn pairs_are_told_once() {
        let told = Arc::new(AtomicU64::new(0));
        let sum = Arc::clone(&told);
        let run = Run::default().observed(move |pairs| {
            sum.fetch_add(pairs, Ordering::Relaxed);
        });
        let progress = Progress::new(&run, 1000);
        for (done, of, expected) in [(0, 3, 0), (1, 3, 333), (1, 1, 1000), (1, 4, 1000), (9, 3, 1000), (0, 0, 1000)] {
            progress.reach(done, of);
            assert_eq!(told.load(Ordering::Relaxed), expected, "{done} of {of}");
        }
    }
}
