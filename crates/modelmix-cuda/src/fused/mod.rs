//! Sums over pairs by the fused kernels, checked on sampled rows. If only rows that are far from all others are not accurate
//! enough, the farthest are computed in double precision; otherwise, sets are split into clusters; if that does not help,
//! there is no result. `prepared` has the work on the device.

mod arrangement;
mod check;
mod prepared;
mod tensor;

use std::sync::Arc;

use modelmix::compute::Run;
use modelmix::{Error, Result, Rows};

use crate::cluster;
use crate::device::{Buffer, Grid, Queue, Results};
use crate::exact::{Columns, SLICE, Side, slices};
use crate::function::{Function, FusedKernel};
use crate::guard::{MORE_SAMPLES, SAMPLES, farthest};
use crate::modules::{Form, Module};
use crate::options::Tier;
use crate::plan::Pairs;
use crate::progress::Progress;
use crate::resident::{Loaded, addresses};
pub(crate) use arrangement::Arrangements;
use arrangement::{Arrangement, Shape};
use check::{Check, set_of};
use prepared::Prepared;

/// The maximum width for which both parts are stored in half precision: the epilogue takes most of the time there, and
/// the small products of 8 bits save none.
const MAX_HALVES_WIDTH: usize = 64;
/// The least and the maximum number of clusters per set, and the maximum number of groups of all sets.
const MIN_CLUSTERS: usize = 8;
const MAX_CLUSTERS: usize = 16;
const MAX_GROUPS: usize = 256;
/// The maximum number of bytes of terms, which are one per row and group. Beyond, sums are computed exactly.
const MAX_TERM_BYTES: usize = 8 << 30;

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
    /// Whether everything does not fit into memory at once.
    pub(crate) is_tight: bool,
    /// Work of the caller while the device is busy: without sums while these are computed, and with them while they are
    /// checked. Sums that the check refuses are followed by others.
    pub(crate) meanwhile: &'a dyn Fn(Option<&[f64]>),
}

impl<'a> Fused<'a> {
    pub(crate) fn width(&self) -> usize {
        self.sets.first().map_or(1, |set| set.width)
    }

    fn sizes(&self) -> Vec<usize> {
        self.sets.iter().map(|set| set.rows).collect()
    }

    /// The end of every set, counted over all sets.
    fn ends(&self) -> Vec<usize> {
        let add = |end: &mut usize, set: &&Loaded| {
            *end += set.rows;
            Some(*end)
        };
        self.sets.iter().scan(0, add).collect()
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
        let base = packed.as_ref().map(|packed| addresses(self.queue, &[packed], 0)).transpose()?;
        let exact = Side::at(self.queue, exact, self.width(), &self.function)?;
        let base = base.as_ref().unwrap_or(&exact.at);
        let first = self.attempt(base, &exact, self.form(), None)?;
        if first.is_accepted {
            return Ok(Some(first.sums));
        }
        // Centres of clusters, and more bits for the small products. The results' memory is used again.
        let sampled = first.sampled;
        drop(first.sums);
        let Some(labels) = self.labels(base, &sampled)? else { return Ok(None) };
        let second = self.attempt(base, &exact, Form::Halves, Some(&labels))?;
        Ok(second.is_accepted.then_some(second.sums))
    }

    /// All rows divided by their norms.
    fn normalised(&self, at: &Buffer<u64>) -> Result<Loaded> {
        let norms = crate::exact::norms(self.queue, at, self.width())?;
        let (queue, rows, width) = (self.queue, at.len, self.width());
        let packed =
            if self.is_tight { Loaded::on_host(queue, rows, width)? } else { Loaded::on_device(queue, rows, width)? };
        self.pack(at, norms.at, packed.base)?;
        Ok(packed)
    }

    /// Rows at addresses, copied to one place, and divided by their norms if there are any.
    fn pack(&self, at: &Buffer<u64>, norms: u64, to: u64) -> Result<()> {
        let grid = Grid::new(at.len.div_ceil(8), 256);
        let (rows, width) = (at.len as i32, self.width() as i32);
        // SAFETY: the caller has a place for a row for every address.
        unsafe { self.queue.launch(Module::Rows, "pack", grid, &[&at.at, &rows, &width, &norms, &to]) }
    }

    /// Clusters of every set, by k-means on a sample, in which the rows of the check are: among them are those that are
    /// far from all others. `None` if there are too many sets.
    fn labels(&self, base: &Buffer<u64>, checked: &[usize]) -> Result<Option<Vec<u32>>> {
        let (queue, width, sizes) = (self.queue, self.width(), self.sizes());
        // Clusters are padded to blocks, which takes time if there are few rows.
        let most = (base.len / sizes.len().max(1) / cluster::SAMPLE).clamp(MIN_CLUSTERS, MAX_CLUSTERS);
        let count = (MAX_GROUPS / sizes.len().max(1)).min(most);
        if count < 2 {
            return Ok(None);
        }
        let base = queue.values(base)?;
        let (mut sampled, mut parts, mut first) = (Vec::new(), Vec::new(), 0);
        for &size in &sizes {
            let rows = cluster::sample(first, size, checked);
            parts.push(sampled.len()..sampled.len() + rows.len());
            sampled.extend(rows.into_iter().map(|row| base[row]));
            first += size;
        }
        let packed = queue.allocate::<f32>("sampled rows", sampled.len() * width)?;
        self.pack(&queue.upload("sampled rows", &sampled)?, 0, packed.at)?;
        let values = queue.values(&packed)?;
        let parts = parts.iter().map(|part| Rows::new(width, &values[part.start * width..part.end * width]));
        let centres = cluster::centres_of_all(&parts.collect::<Vec<_>>(), count, queue.device.threads);
        let mut labels = Vec::with_capacity(base.len());
        let mut first = 0;
        for (size, centres) in sizes.into_iter().zip(centres) {
            self.run.check()?;
            let rows = &base[first..first + size];
            first += size;
            let (count, centres) = (centres.len() / width, queue.upload("centres of clusters", &centres)?);
            let at = queue.upload("addresses of rows", rows)?;
            let found = queue.allocate::<u32>("clusters of rows", size)?;
            let grid = Grid::new(size.div_ceil(8), 256);
            // SAFETY: there is a label for every address.
            unsafe {
                queue.launch(
                    Module::Rows,
                    "assign",
                    grid,
                    &[&at.at, &(size as i32), &(width as i32), &centres.at, &(count as i32), &found.at],
                )?;
            }
            labels.extend(queue.values(&found)?);
        }
        Ok(Some(labels))
    }

    /// Sums with these groups, and the errors of sampled rows.
    fn attempt(&self, base: &Buffer<u64>, exact: &Side, form: Form, labels: Option<&[u32]>) -> Result<Attempt<'a>> {
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
                let (needed, rows) = (Prepared::bytes(self, form, &arranged), base.len);
                let what = format!("kernel sums over {rows} rows of width {}", self.width());
                Error::Memory { what, place, needed, free }
            }
            error => error,
        })?;
        prepared.prepare()?;
        let terms = prepared.own_terms()?;
        prepared.multiply(unit)?;
        let summed = self.queue.mark()?;
        // Rows are chosen and the check is submitted while the fused kernels run; sums come back while it runs.
        let is_first = labels.is_none();
        let most = if is_first { SAMPLES } else { MORE_SAMPLES };
        let check = Check::start(self, terms.get()?, exact, most)?;
        (self.meanwhile)(None);
        let mut sums = self.queue.results(&prepared.out, &summed)?;
        self.progress.reach(1, 1);
        (self.meanwhile)(Some(&sums));
        let (mut errors, mut spread) = check.errors(&sums)?;
        let sampled = check.sample.rows.clone();
        drop(check);
        if is_first && errors.are_accepted() && !errors.are_small() {
            (errors, spread) = Check::start(self, terms.get()?, exact, MORE_SAMPLES)?.errors(&sums)?;
        }
        if !errors.are_accepted() && spread.are_accepted() {
            let mut terms = terms.get()?.to_vec();
            let far = farthest(&terms);
            self.recompute(&far, exact, &mut sums)?;
            (self.meanwhile)(Some(&sums));
            // The others are checked, those with the largest terms among them.
            far.iter().for_each(|&row| terms[row] = 0.0);
            let (errors, _) = Check::start(self, &terms, exact, MORE_SAMPLES)?.errors(&sums)?;
            return Ok(Attempt { sums, is_accepted: errors.are_small(), sampled });
        }
        let is_accepted = if is_first { errors.are_accepted() } else { errors.are_small() };
        Ok(Attempt { sums, is_accepted, sampled })
    }

    /// Computes the sums of some rows in double precision. Their values in the sums of other rows are small there, since they
    /// are far, and so are the errors of these.
    fn recompute(&self, rows: &[usize], exact: &Side, sums: &mut [f64]) -> Result<()> {
        let (sizes, ends) = (self.sizes(), self.ends());
        let total = ends.last().copied().unwrap_or(0);
        let (x, own) = self.some(rows)?;
        let (slices, set_slice) = slices(&sizes, SLICE);
        let columns = Columns { side: exact, slices: &slices, set_slice: &set_slice, own: own.as_ref() };
        let found = crate::exact::sums(self.queue, self.run, &self.function, &x, &columns, |_| ())?;
        for (index, &row) in rows.iter().enumerate() {
            let set = set_of(&ends, row);
            for other in (0..sizes.len()).filter(|&other| self.pairs == Pairs::All || other != set) {
                sums[other * total + row] = found[other * rows.len() + index];
            }
        }
        Ok(())
    }

    /// Some of the rows, counted over all sets, and the column that each of them is if it does not count.
    fn some(&self, rows: &[usize]) -> Result<(Side, Option<Buffer<i32>>)> {
        let (sizes, ends) = (self.sizes(), self.ends());
        let address = |&row: &usize| {
            let set = set_of(&ends, row);
            self.sets[set].row(row + sizes[set] - ends[set])
        };
        let at = self.queue.upload("addresses of rows", &rows.iter().map(address).collect::<Vec<_>>())?;
        let own: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        let own = if self.pairs == Pairs::All { Some(self.queue.upload("indices of rows", &own)?) } else { None };
        Ok((Side::at(self.queue, at, self.width(), &self.function)?, own))
    }
}

/// What was found with one arrangement.
struct Attempt<'a> {
    sums: Results<'a>,
    /// Whether they are accurate enough.
    is_accepted: bool,
    /// The rows of the check.
    sampled: Vec<usize>,
}
