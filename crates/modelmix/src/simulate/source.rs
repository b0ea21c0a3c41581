//! The source of simulated samples and their κ. Recorded samples are known ahead, so κ is computed in tiles instead of
//! row by row: once for the whole pool, if that fits in memory and is worthwhile, otherwise a few samples of each arm
//! ahead.

use std::collections::VecDeque;

use crate::arms::RecordedArms;
use crate::compute::parallel;
use crate::error::Result;
use crate::features::Rows;
use crate::loss::Loss;
use crate::random::Random;

/// The order in which an arm returns its recorded samples.
pub(super) enum SampleOrder {
    Drawn(Box<Random>, usize),
    Shuffled(Vec<usize>, usize),
}

impl SampleOrder {
    /// The order of an arm: its n-th sample is the same for every policy.
    pub(super) fn new(seed: u64, arm: usize, samples: usize, replacement: bool) -> Self {
        // Stream 0 of the seed is used by the policy.
        let mut random = Random::stream(seed, arm as u64 + 1);
        if replacement {
            SampleOrder::Drawn(Box::new(random), samples)
        } else {
            SampleOrder::Shuffled(random.sample(samples, samples), 0)
        }
    }

    /// `None` if the arm has no samples left.
    fn next(&mut self) -> Option<usize> {
        match self {
            SampleOrder::Drawn(random, samples) => Some(random.below(*samples)),
            SampleOrder::Shuffled(order, next) => {
                *next += 1;
                order.get(*next - 1).copied()
            }
        }
    }
}

/// κ between all recorded samples, in single precision, shared by all runs.
pub(super) struct Pool {
    rows: Vec<Vec<f32>>,
    starts: Vec<usize>,
}

/// Rows of the pool that are computed at once.
const ROWS_PER_STRIPE: usize = 96;

impl Pool {
    pub(super) fn bytes(arms: &RecordedArms) -> usize {
        let samples: usize = arms.iter().map(|arm| arm.features.len()).sum();
        samples.saturating_mul(samples).saturating_mul(size_of::<f32>())
    }

    pub(super) fn new(arms: &RecordedArms, loss: &Loss, threads: usize) -> Result<Self> {
        let mut starts = vec![0];
        let mut stripes = Vec::new();
        for arm in arms {
            let samples = arm.features.len();
            stripes.extend(
                (0..samples)
                    .step_by(ROWS_PER_STRIPE)
                    .map(|start| arm.features.view().slice(start, (start + ROWS_PER_STRIPE).min(samples))),
            );
            starts.push(starts[starts.len() - 1] + samples);
        }
        let rows = parallel(threads, loss.engine().stop(), stripes.len(), |index| {
            let stripe = stripes[index];
            let mut rows = vec![Vec::with_capacity(starts[starts.len() - 1]); stripe.len()];
            let mut block = Vec::new();
            for arm in arms {
                loss.kappa_rows(stripe, &arm.features, &mut block)?;
                for (row, values) in rows.iter_mut().zip(block.chunks_exact(arm.features.len())) {
                    row.extend(values.iter().map(|&value| value as f32));
                }
            }
            Ok(rows)
        })?;
        Ok(Self { rows: rows.into_iter().flatten().collect(), starts })
    }
}

/// Returns the next sample of an arm, with κ against every earlier sample.
pub(super) struct Source<'a> {
    arms: &'a RecordedArms,
    loss: &'a Loss,
    orders: Vec<SampleOrder>,
    kind: Kind<'a>,
    kappa: Vec<f64>,
}

enum Kind<'a> {
    /// Positions in the pool of the samples returned.
    Pool(&'a Pool, Vec<usize>),
    Lookahead(Lookahead),
}

impl<'a> Source<'a> {
    pub(super) fn new(
        arms: &'a RecordedArms,
        loss: &'a Loss,
        orders: Vec<SampleOrder>,
        pool: Option<&'a Pool>,
    ) -> Self {
        let kind = pool.map_or_else(|| Kind::Lookahead(Lookahead::new(arms)), |pool| Kind::Pool(pool, Vec::new()));
        Self { arms, loss, orders, kind, kappa: Vec::new() }
    }

    /// The row of the arm's next sample, without κ.
    pub(super) fn next_row(&mut self, arm: usize) -> Option<(usize, &[f64])> {
        Some((self.orders[arm].next()?, &[]))
    }

    /// The row of the arm's next sample, and κ; `None` if the arm has no samples left.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn next(&mut self, arm: usize) -> Result<Option<(usize, &[f64])>> {
        let row = match &mut self.kind {
            Kind::Pool(pool, given) => {
                let Some(row) = self.orders[arm].next() else { return Ok(None) };
                let place = pool.starts[arm] + row;
                let values = &pool.rows[place];
                self.kappa.clear();
                self.kappa.extend(given.iter().map(|&other| f64::from(values[other])));
                given.push(place);
                row
            }
            Kind::Lookahead(ahead) => {
                let next = ahead.next(arm, self.arms, self.loss, &mut self.orders, &mut self.kappa)?;
                let Some(row) = next else { return Ok(None) };
                row
            }
        };
        Ok(Some((row, &self.kappa)))
    }
}

/// The number of upcoming samples in the window, over all arms; more if there are very many arms.
const SAMPLES_AHEAD: usize = 512;
/// The minimum number of them per arm after the window was filled.
const MIN_SAMPLES_AHEAD_PER_ARM: usize = 8;

/// A window of upcoming samples. If an arm has none left in it, all used slots are refilled, mostly with samples of the
/// arms that were pulled most since the last time, with two blocks of κ: the new samples against all earlier samples,
/// and against the window. Both are tiles.
struct Lookahead {
    places: Vec<Upcoming>,
    /// κ between slots.
    among: Vec<f32>,
    /// Slots used since the window was last filled, in that order.
    used: Vec<usize>,
    /// The features of all samples returned before that.
    given: Vec<f32>,
    /// Per arm: the slots of its upcoming samples, next one first.
    coming: Vec<VecDeque<usize>>,
}

#[derive(Clone)]
struct Upcoming {
    arm: usize,
    /// The recorded row.
    row: usize,
    is_used: bool,
    /// κ against the samples returned before the window was last filled.
    kappa: Vec<f32>,
}

impl Lookahead {
    fn new(arms: &RecordedArms) -> Self {
        let places = SAMPLES_AHEAD.max(2 * MIN_SAMPLES_AHEAD_PER_ARM * arms.len());
        let empty = Upcoming { arm: 0, row: 0, is_used: true, kappa: Vec::new() };
        Self {
            places: vec![empty; places],
            among: vec![0.0; places * places],
            used: Vec::new(),
            given: Vec::new(),
            coming: vec![VecDeque::new(); arms.len()],
        }
    }

    fn next(
        &mut self,
        arm: usize,
        arms: &RecordedArms,
        loss: &Loss,
        orders: &mut [SampleOrder],
        kappa: &mut Vec<f64>,
    ) -> Result<Option<usize>> {
        if self.coming[arm].is_empty() {
            self.fill(arms, loss, orders)?;
        }
        let Some(place) = self.coming[arm].pop_front() else { return Ok(None) };
        let count = self.places.len();
        kappa.clear();
        kappa.extend(self.places[place].kappa.iter().map(|&value| f64::from(value)));
        kappa.extend(self.used.iter().map(|&other| f64::from(self.among[place * count + other])));
        self.places[place].is_used = true;
        self.used.push(place);
        Ok(Some(self.places[place].row))
    }

    /// The arm of each free slot: every arm gets its minimum, and the rest are assigned by recent use.
    fn shares(&self, free: usize) -> Vec<usize> {
        let mut recent = vec![1.0; self.coming.len()];
        for &place in &self.used {
            recent[self.places[place].arm] += 1.0;
        }
        let mut waiting: Vec<usize> = self.coming.iter().map(VecDeque::len).collect();
        let mut shares = Vec::with_capacity(free);
        while shares.len() < free {
            let lowest = (0..waiting.len()).min_by(|&a, &b| {
                let need = |arm: usize| {
                    if waiting[arm] < MIN_SAMPLES_AHEAD_PER_ARM { -1.0 } else { waiting[arm] as f64 / recent[arm] }
                };
                need(a).total_cmp(&need(b))
            });
            let Some(arm) = lowest else { break };
            waiting[arm] += 1;
            shares.push(arm);
        }
        shares
    }

    fn fill(&mut self, arms: &RecordedArms, loss: &Loss, orders: &mut [SampleOrder]) -> Result<()> {
        let count = self.places.len();
        let features = |coming: &Upcoming| arms[coming.arm].features.row(coming.row);
        let free: Vec<usize> = (0..count).filter(|&place| self.places[place].is_used).collect();
        let shares = self.shares(free.len());
        for &place in &self.used {
            self.given.extend_from_slice(features(&self.places[place]));
        }
        for (place, coming) in self.places.iter_mut().enumerate().filter(|(_, coming)| !coming.is_used) {
            coming.kappa.extend(self.used.iter().map(|&other| self.among[place * count + other]));
        }
        self.used.clear();
        let mut filled = Vec::new();
        for (place, arm) in free.into_iter().zip(shares) {
            if let Some(row) = orders[arm].next() {
                let coming = &mut self.places[place];
                (coming.arm, coming.row, coming.is_used) = (arm, row, false);
                coming.kappa.clear();
                self.coming[arm].push_back(place);
                filled.push(place);
            }
        }
        if filled.is_empty() {
            return Ok(());
        }
        let window: Vec<usize> = (0..count).filter(|&place| !self.places[place].is_used).collect();
        let gather = |places: &[usize]| {
            let mut rows = Vec::with_capacity(places.len() * arms.width());
            places.iter().for_each(|&place| rows.extend_from_slice(features(&self.places[place])));
            rows
        };
        let (new, all) = (gather(&filled), gather(&window));
        let new = Rows::new(arms.width(), &new);
        let mut block = Vec::new();
        loss.kappa_rows(new, Rows::new(arms.width(), &all), &mut block)?;
        for (&place, values) in filled.iter().zip(block.chunks_exact(window.len())) {
            for (&other, &value) in window.iter().zip(values) {
                self.among[place * count + other] = value as f32;
                self.among[other * count + place] = value as f32;
            }
        }
        loss.kappa_rows(new, Rows::new(arms.width(), &self.given), &mut block)?;
        if !self.given.is_empty() {
            for (&place, values) in filled.iter().zip(block.chunks_exact(self.given.len() / arms.width())) {
                self.places[place].kappa.extend(values.iter().map(|&value| value as f32));
            }
        }
        Ok(())
    }
}
