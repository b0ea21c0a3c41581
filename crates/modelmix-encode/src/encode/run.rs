//! Encodes many samples: batches on all cores, decoding beside encoding, with bounded memory, a cache and progress.
//!
//! A batch is the unit of work. Each thread reads, decodes and preprocesses the samples of its batch and runs the network on
//! them, so that no thread waits for another. The order of rows is that of the samples, for any number of threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use modelmix::compute::Stop;
use modelmix::{Error, Features, Result};

use super::Encoder;
use crate::cache::{Cache, Digest};
use crate::problem::Problem;
use crate::resize::Workspace;
use crate::samples::Samples;

/// What to do with samples that cannot be read or decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Stop with an error that names the first of them.
    #[default]
    Refuse,
    /// Leave them out, and report them.
    Skip,
}

/// How samples are encoded. The defaults use all cores, refuse broken samples and have no cache.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunSettings {
    /// What to do with samples that cannot be read.
    pub on_error: OnError,
    /// The number of threads; all cores if `None`.
    pub threads: Option<usize>,
    /// The number of samples per batch; the encoder's own if `None`.
    pub batch: Option<usize>,
    /// Stops the work.
    pub stop: Stop,
}

/// The features of samples.
#[derive(Debug)]
pub struct Encoded {
    /// One row per sample that was encoded, with the statement of the encoder.
    pub features: Features,
    /// The index of the sample of each row.
    pub rows: Vec<usize>,
    /// The samples that were left out.
    pub skipped: Vec<Skipped>,
    /// The number of rows that were in the cache.
    pub cached: usize,
    /// Why rows could not be added to the cache, if they could not; the features are whole nevertheless.
    pub cache_problem: Option<Error>,
    /// The SHA-256 checksum of the ids and contents of all samples that were encoded.
    pub digest: Digest,
}

/// A sample that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its id.
    pub id: String,
    /// Why it could not be used.
    pub problem: Problem,
}

/// The result of one batch.
struct Batch {
    /// One row per sample, zeros if it failed.
    rows: Vec<f32>,
    /// The checksum of each sample; zeros if it failed.
    digests: Vec<Digest>,
    failed: Vec<(usize, Problem)>,
}

/// What threads collect.
struct Collected<'a> {
    values: &'a mut [f32],
    digests: &'a mut [Digest],
    failed: Vec<(usize, Problem)>,
    error: Option<Error>,
}

/// Work that threads share.
struct Work<'a> {
    encoder: &'a Encoder,
    samples: &'a Samples,
    settings: &'a RunSettings,
    cache: Option<&'a Cache>,
    /// The samples in the order in which batches take them.
    order: Vec<usize>,
    /// The number of samples per batch.
    batch: usize,
    next: AtomicUsize,
    ended: AtomicBool,
    cached: AtomicUsize,
    /// The first failure of the cache, after which nothing is added to it.
    cache_problem: Mutex<Option<Error>>,
    observe: &'a (dyn Fn(usize) + Sync),
}

/// Encodes `samples`. `observe` is called with the number of samples of each batch that is done, from any thread.
///
/// # Errors
/// If a sample cannot be read and is not to be skipped, if none could be read, if the network fails or returns values that
/// are not finite, or if the work was stopped.
pub fn encode(
    encoder: &Encoder,
    samples: &Samples,
    settings: &RunSettings,
    cache: Option<&Cache>,
    observe: &(dyn Fn(usize) + Sync),
) -> Result<Encoded> {
    let threads = settings.threads.unwrap_or_else(modelmix::compute::available_threads).max(1);
    let batch = settings.batch.unwrap_or_else(|| encoder.batch(samples.len(), threads)).max(1);
    let work = Work {
        encoder,
        samples,
        settings,
        cache,
        order: samples.order(),
        batch,
        next: AtomicUsize::new(0),
        ended: AtomicBool::new(false),
        cached: AtomicUsize::new(0),
        cache_problem: Mutex::new(None),
        observe,
    };
    let mut values = vec![0.0; samples.len() * encoder.width()];
    let mut digests = vec![Digest::default(); samples.len()];
    let failed = work.run(threads, &mut values, &mut digests)?;
    let width = encoder.width();
    let mut is_skipped = vec![false; samples.len()];
    failed.iter().for_each(|(index, _)| is_skipped[*index] = true);
    let rows: Vec<usize> = (0..samples.len()).filter(|&index| !is_skipped[index]).collect();
    if let (true, Some((index, problem))) = (rows.is_empty(), failed.first()) {
        let first = samples.described(*index, problem);
        return Err(samples.error(format!("no sample could be read; the first problem is this: {first}")));
    }
    if rows.len() < samples.len() {
        for (place, &index) in rows.iter().enumerate() {
            values.copy_within(index * width..(index + 1) * width, place * width);
        }
        values.truncate(rows.len() * width);
    }
    let features = Features::new(width, values)
        .map_err(|error| match error {
            Error::NotFinite { row, .. } => samples.error(format!(
                "the encoder {} returns features of {} that are not finite; check its weights",
                encoder.encoding().encoder,
                samples.id(rows[row])
            )),
            error => error,
        })?
        .with_encoding(encoder.encoding().clone());
    let digest = samples.checksum(rows.iter().map(|&index| (index, &digests[index])));
    let skipped = failed.into_iter().map(|(index, problem)| Skipped { id: samples.id(index), problem }).collect();
    let cached = work.cached.load(Ordering::Relaxed);
    let cache_problem = work.cache_problem.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Encoded { features, rows, skipped, cached, cache_problem, digest })
}

impl Work<'_> {
    /// Runs all batches and returns the samples that failed, sorted.
    fn run(&self, threads: usize, values: &mut [f32], digests: &mut [Digest]) -> Result<Vec<(usize, Problem)>> {
        let width = self.encoder.width();
        let collected = Mutex::new(Collected { values, digests, failed: Vec::new(), error: None });
        let worker = || {
            let mut workspace = Workspace::default();
            while !self.ended.load(Ordering::Relaxed) {
                let start = self.next.fetch_add(self.batch, Ordering::Relaxed);
                let Some(indices) = self.order.get(start..start.saturating_add(self.batch).min(self.order.len()))
                else {
                    return;
                };
                if indices.is_empty() {
                    return;
                }
                let done = self.settings.stop.check().and_then(|()| self.encode_batch(indices, &mut workspace));
                let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
                match done {
                    Ok(Batch { rows, digests, failed }) => {
                        for ((row, digest), &index) in rows.chunks_exact(width).zip(digests).zip(indices) {
                            collected.values[index * width..(index + 1) * width].copy_from_slice(row);
                            collected.digests[index] = digest;
                        }
                        let is_refused = self.settings.on_error == OnError::Refuse && !failed.is_empty();
                        collected.failed.extend(failed);
                        if is_refused {
                            self.ended.store(true, Ordering::Relaxed);
                        }
                    }
                    Err(error) => {
                        collected.error.get_or_insert(error);
                        self.ended.store(true, Ordering::Relaxed);
                    }
                }
                (self.observe)(indices.len());
            }
        };
        let batches = self.order.len().div_ceil(self.batch);
        std::thread::scope(|scope| {
            for _ in 1..threads.min(batches) {
                scope.spawn(worker);
            }
            worker();
        });
        let Collected { mut failed, error, .. } = collected.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = error {
            return Err(error);
        }
        failed.sort_by_key(|(index, _)| *index);
        match failed.first() {
            Some((index, problem)) if self.settings.on_error == OnError::Refuse => {
                Err(self.samples.error_of(*index, problem))
            }
            _ => Ok(failed),
        }
    }

    /// Reads, decodes and encodes a batch.
    fn encode_batch(&self, indices: &[usize], workspace: &mut Workspace) -> Result<Batch> {
        let width = self.encoder.width();
        let (mut rows, mut failed) = (vec![0.0; indices.len() * width], Vec::new());
        let (mut digests, mut missing) = (vec![Digest::default(); indices.len()], Vec::new());
        let mut prepared = self.encoder.prepared(indices.len());
        for (place, &index) in indices.iter().enumerate() {
            let row = &mut rows[place * width..(place + 1) * width];
            let is_cached = self.samples.raw(index).and_then(|raw| {
                digests[place] = raw.digest();
                if self.cache.is_some_and(|cache| cache.read(&digests[place], row)) {
                    return Ok(true);
                }
                let added = prepared.add(&raw, workspace).map(|()| false);
                added.map_err(|problem| self.samples.located(index, problem))
            });
            match is_cached {
                Ok(true) => {
                    self.cached.fetch_add(1, Ordering::Relaxed);
                }
                Ok(false) => missing.push(place),
                Err(problem) => failed.push((index, problem)),
            }
        }
        if missing.is_empty() {
            return Ok(Batch { rows, digests, failed });
        }
        let encoded = prepared.encode().map_err(|problem| self.samples.error(problem.to_string()))?;
        for (row, &place) in encoded.chunks_exact(width).zip(&missing) {
            rows[place * width..(place + 1) * width].copy_from_slice(row);
        }
        if let Some(cache) = self.cache.filter(|_| encoded.iter().all(|value| value.is_finite())) {
            let added: Vec<Digest> = missing.iter().map(|&place| digests[place]).collect();
            let mut problem = self.cache_problem.lock().unwrap_or_else(PoisonError::into_inner);
            if problem.is_none() {
                *problem = cache.add(&added, &encoded).err();
            }
        }
        Ok(Batch { rows, digests, failed })
    }
}
