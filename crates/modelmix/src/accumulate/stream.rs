//! Shards into an accumulator, on all threads: each shard is summed by one thread and then merged, so memory does not grow with
//! the number of rows. Callers own files, clocks and progress bars.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Accumulator, Terms};
use crate::compute::{Engine, parallel};
use crate::error::{Error, Result};
use crate::load::{Shard, ShardBatch};
use crate::numbers::{brief, count};

/// What a thread needs besides its sums, in bytes: the batch that it reads and the blocks that sums are computed from.
const WORK_BYTES: u64 = 160 << 20;

/// What the rows of a shard are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Samples of arms.
    Arms,
    /// Samples of the reference.
    Reference,
}

impl Accumulator {
    /// Adds the shards that are not yet included, on up to `threads` threads. `merged` is called after each shard with the
    /// accumulator and the number of rows of the shard: it can show progress, and store the accumulator, from which
    /// interrupted work goes on. A shard is included completely or not at all, under its name.
    ///
    /// ```no_run
    /// use modelmix::accumulate::{Accumulator, Role, SurveySettings};
    /// use modelmix::load::{ShardColumns, shards};
    /// let shards = shards(&["flux=features/flux".parse()?, "sdxl=features/sdxl".parse()?], &ShardColumns::new())?;
    /// let mut survey = Accumulator::survey(&SurveySettings::default());
    /// survey.add_shards(&shards, Role::Arms, 8, |_, _| Ok(()))?;
    /// println!("{:?}", survey.counts());
    /// # Ok::<(), modelmix::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Shard::read`] and [`Accumulator::update`], which name the shard; those of `merged`; a shard that is given
    /// twice.
    pub fn add_shards(
        &mut self,
        shards: &[Shard],
        role: Role,
        threads: usize,
        merged: impl FnMut(&Accumulator, u64) -> Result<()> + Send,
    ) -> Result<()> {
        let mut names = BTreeSet::new();
        if let Some(twice) = shards.iter().find(|shard| !names.insert(shard.name())) {
            return Err(super::included_twice(twice.name()));
        }
        let included = match role {
            Role::Arms => &self.shards,
            Role::Reference => &self.reference_shards,
        };
        let left: Vec<&Shard> = shards.iter().filter(|shard| !included.contains_key(shard.name())).collect();
        let empty = if left.len() < threads { self.empty() } else { self.empty_on_one_thread() };
        // One shard at a time uses the threads of the engine instead.
        let threads = if left.len() < threads { 1 } else { threads };
        let stop = self.terms.engine.stop().clone();
        let shared = Mutex::new((self, merged));
        parallel(threads, &stop, left.len(), |index| {
            let part = empty.sums_of_shard(left[index], role)?;
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let (whole, merged) = &mut *shared;
            whole.merge(&part).map_err(|error| error.of(left[index].name()))?;
            merged(whole, left[index].rows())
        })?;
        Ok(())
    }

    /// The sums of one shard.
    fn sums_of_shard(&self, shard: &Shard, role: Role) -> Result<Self> {
        let mut part = self.empty();
        shard.read(|ShardBatch { arm, rows, scores }| {
            let added = match role {
                Role::Arms => part.update(arm, rows, &scores),
                Role::Reference => part.update_reference(rows),
            };
            added.map_err(|error| error.of(shard.name()))
        })?;
        match role {
            Role::Arms => part.finish_shard(shard.name(), shard.rows())?,
            Role::Reference => part.finish_reference_shard(shard.name(), shard.rows())?,
        }
        Ok(part)
    }

    /// The same accumulator with another engine, for what is computed from now on.
    #[must_use]
    pub fn on_engine(self, engine: Engine) -> Self {
        Self { terms: Arc::new(Terms { engine, ..(*self.terms).clone() }), ..self }
    }

    /// An empty accumulator of the same plan for callers that run many at once.
    fn empty_on_one_thread(&self) -> Self {
        let engine = self.terms.engine.for_concurrent_callers();
        self.empty().on_engine(engine)
    }

    /// The largest size of a survey of this many arms with rows of this width, in bytes.
    pub fn survey_bytes(&self, arms: usize, width: usize) -> u64 {
        let row = 4 * width as u64 + 8 * self.plan.scores.len() as u64 + 64;
        // A sample has up to twice its number of rows until it is sorted.
        (arms as u64 + 1) * 2 * self.plan.sample as u64 * row
    }
}

/// The number of threads that fit into memory if each has one accumulator of `bytes`, beside one that all share and `held` other
/// bytes.
///
/// # Errors
/// If not even one fits.
pub fn threads_within(memory: u64, bytes: u64, held: u64, threads: usize) -> Result<usize> {
    let each = bytes.saturating_add(WORK_BYTES);
    let shared = bytes.saturating_add(held);
    let fitting = memory.saturating_sub(shared) / each;
    if fitting == 0 {
        let needed = each.saturating_add(shared);
        return Err(Error::setting(
            "the memory",
            format!("{} bytes", count(usize::try_from(memory).unwrap_or(usize::MAX))),
            format!(
                "at least {} GB: {} MB that are held, and {} MB per thread",
                brief(needed as f64 / 1e9),
                brief(shared as f64 / 1e6),
                brief(each as f64 / 1e6)
            ),
        ));
    }
    Ok(threads.min(usize::try_from(fitting).unwrap_or(usize::MAX)).max(1))
}
