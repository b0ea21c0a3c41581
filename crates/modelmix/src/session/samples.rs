//! The samples of a session: their sums, features and ages, and how new samples change them. The effect of a batch is evaluated
//! first, by shared reference; adding it is then arithmetic that cannot fail.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Values;
use super::bandwidth::IndependentSums;
use super::pool::Pool;
use super::retention::RetentionState;
use super::store::Store;
use super::stream::{EvictedSums, Mapped};
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::loss::Loss;
use crate::statistics::Statistics;

/// Values of κ evaluated at once when many samples arrive: 32 MiB, and as much for a copy.
const MAX_KAPPA_PER_STEP: usize = 1 << 22;
/// A sample with a smaller weight than this, relative to a new one, is dropped.
const MIN_SAMPLE_WEIGHT: f64 = 1e-9;

/// The state of the samples that count.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Samples {
    pub(super) statistics: Statistics,
    /// The features of the held samples; empty if the caller gives values.
    pub(super) held: Store,
    pub(super) width: Option<usize>,
    pub(super) keeper: RetentionState,
    /// The collected part; `None` if all samples are collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pool: Option<Box<Pool>>,
    /// The part used for confidence statements; `None` if it is all samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) independent: Option<Box<IndependentSums>>,
}

/// Why samples are refused.
pub(super) enum Refusal {
    /// The problem with the samples, as a sentence.
    Samples(String),
    /// The computation failed or was stopped.
    Work(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Work(error)
    }
}

impl From<String> for Refusal {
    fn from(problem: String) -> Self {
        Self::Samples(problem)
    }
}

/// New samples of one arm, fully evaluated.
pub(super) struct Batch<'a> {
    pub(super) arm: usize,
    /// Whether they belong to the collected pool.
    pub(super) is_collected: bool,
    /// Their features as they will be held; empty if the caller gives values.
    pub(super) rows: Cow<'a, [f32]>,
    pub(super) width: usize,
    /// κ of each against the held rows and the earlier rows of the batch, κ(x, x) and f.
    pub(super) kappa: Vec<Cow<'a, [f64]>>,
    pub(super) own: Vec<f64>,
    pub(super) linear: Vec<f64>,
    beyond: Vec<EvictedSums>,
    fades: bool,
    departures: Departures,
}

/// Rows to remove after the batch is added, each by its index at that time: the last row takes the place of a removed one.
enum Departures {
    None,
    /// Indices and features, which `mapped` has row by row.
    Evicted {
        rows: Vec<(usize, Vec<f32>)>,
        mapped: Mapped,
    },
    /// Indices and κ against all rows.
    Removed(Vec<(usize, Vec<f64>)>),
}

impl<'a> Batch<'a> {
    pub(super) fn len(&self) -> usize {
        self.own.len()
    }

    /// The features of a sample; empty if the caller gives values.
    pub(super) fn row(&self, index: usize) -> &[f32] {
        &self.rows[index * self.width..(index + 1) * self.width]
    }

    /// Samples as values, which the caller has checked.
    pub(super) fn of_values(arm: usize, is_collected: bool, samples: impl IntoIterator<Item = Values<'a>>) -> Self {
        let mut batch = Self {
            arm,
            is_collected,
            rows: Cow::default(),
            width: 0,
            kappa: Vec::new(),
            own: Vec::new(),
            linear: Vec::new(),
            beyond: Vec::new(),
            fades: is_collected,
            departures: Departures::None,
        };
        for Values { kappa, own, linear } in samples {
            batch.kappa.push(Cow::Borrowed(kappa));
            batch.own.push(own);
            batch.linear.push(linear);
        }
        batch
    }

    /// Samples as features that will be held, whose κ is not known yet and counts as 0.
    pub(super) fn without_kappa(
        arm: usize,
        is_collected: bool,
        (width, rows): (usize, Cow<'a, [f32]>),
        linear: Vec<f64>,
        held: usize,
    ) -> Self {
        let samples = linear.len();
        let kappa = (held..held + samples).map(|rows| Cow::Owned(vec![0.0; rows])).collect();
        let batch = Self::of_values(arm, is_collected, []);
        Self { rows, width, kappa, own: vec![0.0; samples], linear, ..batch }
    }

    /// κ between two of all rows, those of the batch after the `held` ones; `None` for two held rows.
    fn kappa_between(&self, held: usize, a: usize, b: usize) -> Option<f64> {
        let (first, last) = (a.min(b), a.max(b));
        (last >= held && first != last).then(|| self.kappa[last - held][first])
    }
}

impl Samples {
    pub(super) fn new(arms: usize, held: Store, width: Option<usize>, keeper: RetentionState) -> Self {
        Self { statistics: Statistics::new(arms), held, width, keeper, pool: None, independent: None }
    }

    /// Evaluates samples by the features that will be held; f was evaluated before.
    ///
    /// # Errors
    /// κ that is not finite; errors of the engine.
    pub(super) fn evaluate<'a>(
        &self,
        loss: &Loss,
        arm: usize,
        is_collected: bool,
        (width, values): (usize, Cow<'a, [f32]>),
        linear: Vec<f64>,
    ) -> Result<Batch<'a>, Refusal> {
        let rows = Rows::new(width, &values);
        // Against all held rows at once, and then among themselves: tiles for a batch, as rows for one sample.
        let (mut against_held, mut among) = (Vec::new(), Vec::new());
        self.held.kappa(loss, rows, &mut against_held)?;
        if rows.len() > 1 {
            loss.kappa_rows(rows, rows, &mut among)?;
        }
        let own: Vec<f64> = rows.iter().map(|row| loss.kappa_self(row)).collect();
        if !against_held.iter().chain(&among).chain(&own).chain(&linear).all(|value| value.is_finite()) {
            let problem =
                "κ or f of its features is not finite; they are too large for this kernel, so scale them down";
            return Err(Refusal::Samples(problem.into()));
        }
        let (held, arms) = (self.statistics.rows(), self.statistics.arms());
        let kappa = if rows.len() == 1 {
            vec![Cow::Owned(against_held)]
        } else {
            let of = |index: usize| {
                let mut kappa = against_held[index * held..(index + 1) * held].to_vec();
                kappa.extend_from_slice(&among[index * rows.len()..][..index]);
                Cow::Owned(kappa)
            };
            (0..rows.len()).map(of).collect()
        };
        // Known samples have no time, so they do not age others.
        let fades = is_collected && self.keeper.factor().is_some();
        let mut beyond = Vec::new();
        if let Some(stream) = self.keeper.stream().filter(|stream| stream.has_begun()) {
            let mapped = stream.map(loss, rows)?;
            let factor = self.keeper.factor().filter(|_| fades).unwrap_or(1.0);
            let mut scale = 1.0;
            for index in 0..rows.len() {
                scale *= factor;
                beyond.push(stream.sums_with_evicted(loss, &mapped, index, arms, scale));
            }
        }
        let mut batch = Batch {
            arm,
            is_collected,
            rows: values,
            width,
            kappa,
            own,
            linear,
            beyond,
            fades,
            departures: Departures::None,
        };
        batch.departures = self.departures(loss, &batch)?;
        Ok(batch)
    }

    /// Number of rows evaluated at once if there are many.
    pub(super) fn rows_per_step(&self) -> usize {
        (MAX_KAPPA_PER_STEP / self.statistics.rows().max(1)).clamp(16, 1024)
    }

    /// The rows that adding a batch removes, with everything that must be evaluated for it.
    fn departures(&self, loss: &Loss, batch: &Batch<'_>) -> Result<Departures> {
        let (held, all) = (self.statistics.rows(), self.statistics.rows() + batch.len());
        let Some(ages) = self.keeper.ages() else { return Ok(Departures::None) };
        let arrivals = ages.arrivals(batch.len());
        let arm_of = |row: usize| if row < held { self.statistics.arm_of()[row] } else { batch.arm };
        let mut places: Vec<usize> = (0..all).collect();
        let oldest = |places: &[usize], which: &dyn Fn(usize) -> bool| {
            let eligible = (0..places.len()).filter(|&place| which(places[place]));
            eligible.min_by_key(|&place| arrivals[places[place]])
        };
        match (&self.keeper, self.keeper.stream()) {
            (_, Some(stream)) => {
                let mut rows_of: Vec<usize> =
                    (0..self.statistics.arms()).map(|arm| self.statistics.rows_of(arm)).collect();
                rows_of[batch.arm] += batch.len();
                let mut evicted = Vec::new();
                while places.len() > stream.cap.hold {
                    // The oldest row of the arm that holds most.
                    let most = (0..rows_of.len()).rev().max_by_key(|&arm| rows_of[arm]);
                    let Some(place) = oldest(&places, &|row| Some(arm_of(row)) == most) else { break };
                    let row = places.swap_remove(place);
                    rows_of[arm_of(row)] -= 1;
                    evicted.push((place, self.row(batch, row)));
                }
                if evicted.is_empty() {
                    return Ok(Departures::None);
                }
                let values: Vec<f32> = evicted.iter().flat_map(|(_, row)| row.iter().copied()).collect();
                let mapped = stream.map(loss, Rows::new(batch.width, &values))?;
                Ok(Departures::Evicted { rows: evicted, mapped })
            }
            (RetentionState::Window { samples, .. }, _) => {
                let mut leaving = Vec::new();
                while places.len() > *samples {
                    let Some(place) = oldest(&places, &|_| true) else { break };
                    let before = places.clone();
                    leaving.push((place, places.swap_remove(place), before));
                }
                if leaving.is_empty() {
                    return Ok(Departures::None);
                }
                // κ between held rows is evaluated again, at once for all removed rows.
                let of_held: Vec<usize> = leaving.iter().map(|(_, row, _)| *row).filter(|row| *row < held).collect();
                let values: Vec<f32> = of_held.iter().flat_map(|&row| self.held.row(row)).collect();
                let mut kappa = Vec::new();
                self.held.kappa(loss, Rows::new(batch.width, &values), &mut kappa)?;
                let between = |row: usize, other: usize| {
                    batch.kappa_between(held, row, other).unwrap_or_else(|| {
                        let at = of_held.iter().position(|&of| of == row);
                        at.map_or(0.0, |at| kappa[at * held + other])
                    })
                };
                let removed = |(place, row, before): (usize, usize, Vec<usize>)| {
                    let own = |other: usize| if other == row { 0.0 } else { between(row, other) };
                    (place, before.into_iter().map(own).collect())
                };
                Ok(Departures::Removed(leaving.into_iter().map(removed).collect()))
            }
            _ => Ok(Departures::None),
        }
    }

    /// A held row or, with a larger index, a row of the batch.
    pub(super) fn row(&self, batch: &Batch<'_>, row: usize) -> Vec<f32> {
        let held = self.statistics.rows();
        if row < held { self.held.row(row) } else { batch.row(row - held).to_vec() }
    }

    /// Prepares to add a batch: the last step that can fail. It changes nothing observable.
    pub(super) fn make_room(&mut self, loss: &Loss, batch: &Batch<'_>) -> Result<()> {
        self.held.attach(loss.engine(), batch.width, batch.len())
    }

    /// Adds what was evaluated. This step cannot fail or stop.
    pub(super) fn commit(&mut self, batch: &Batch<'_>) {
        if !batch.rows.is_empty() {
            self.width = Some(batch.width);
        }
        if !batch.is_collected && self.pool.is_none() {
            self.pool = Some(Box::new(Pool::of(&self.statistics)));
        }
        for (index, kappa) in batch.kappa.iter().enumerate() {
            self.push(batch, index, kappa);
        }
        match &batch.departures {
            Departures::None => self.drop_faded(),
            Departures::Evicted { rows, mapped } => {
                for (at, (place, row)) in rows.iter().enumerate() {
                    self.evict(*place, row, (mapped, at));
                }
            }
            Departures::Removed(rows) => rows.iter().for_each(|(place, kappa)| self.remove(*place, kappa)),
        }
    }

    fn push(&mut self, batch: &Batch<'_>, index: usize, kappa: &[f64]) {
        if let Some(factor) = self.keeper.factor().filter(|_| batch.fades) {
            self.statistics.fade(factor);
            if let Some(pool) = &mut self.pool {
                pool.fade(factor);
            }
            if let Some(stream) = self.keeper.stream_mut() {
                stream.fade(factor);
            }
        }
        let (arm, own, linear) = (batch.arm, batch.own[index], batch.linear[index]);
        let beyond = batch.beyond.get(index);
        if let Some(pool) = &mut self.pool {
            let collected = beyond.map(|beyond| beyond.collected.as_slice());
            pool.push(&self.statistics, arm, batch.is_collected, kappa, collected, (own, linear));
        }
        if let Some(independent) = &mut self.independent {
            independent.push(arm, kappa, own, linear);
        }
        match beyond {
            Some(beyond) => self.statistics.add_with_evicted(arm, kappa, &beyond.all, own, linear),
            None => self.statistics.add(arm, kappa, own, linear),
        }
        if !batch.rows.is_empty() {
            self.held.push(batch.row(index));
            if let Some(ages) = self.keeper.ages_mut() {
                ages.push();
            }
        }
    }

    fn evict(&mut self, place: usize, row: &[f32], mapped: (&Mapped, usize)) {
        let arms = self.statistics.arms();
        let is_collected = self.pool.as_ref().is_none_or(|pool| pool.is_collected(place));
        let arm = self.statistics.arm_of()[place];
        let group = if is_collected { arm } else { arms + arm };
        let weight = self.statistics.weight(place);
        if let Some(stream) = self.keeper.stream_mut() {
            stream.absorb(row, mapped, weight, group, arms);
        }
        self.statistics.evict(place);
        if let Some(pool) = &mut self.pool {
            pool.evict(place);
        }
        self.drop_features(place);
    }

    fn remove(&mut self, place: usize, kappa: &[f64]) {
        let RetentionState::Window { samples, .. } = self.keeper else { return };
        if let Some(pool) = &mut self.pool {
            pool.remove(&self.statistics, place, kappa);
        }
        self.statistics.remove(place, kappa);
        self.drop_features(place);
        // Once the known samples have left the window, the pool is all samples again.
        if self.pool.as_ref().is_some_and(|pool| pool.is_all()) {
            self.pool = None;
        }
        if self.keeper.ages().is_some_and(|ages| ages.count_left().is_multiple_of(samples as u64)) {
            self.statistics.refresh();
        }
    }

    /// Drops rows whose weight is negligible, so that memory is that of about thirty half-lives.
    fn drop_faded(&mut self) {
        if !matches!(self.keeper, RetentionState::HalfLife { stream: None, .. }) {
            return;
        }
        loop {
            let oldest = self.keeper.ages().and_then(|ages| ages.oldest(|_| true));
            let Some(row) = oldest.filter(|&row| self.statistics.weight(row) < MIN_SAMPLE_WEIGHT) else { return };
            if let Some(pool) = &mut self.pool {
                pool.drop_faded(&self.statistics, row);
            }
            self.statistics.drop_faded(row);
            self.drop_features(row);
        }
    }

    fn drop_features(&mut self, row: usize) {
        self.held.swap_remove(row);
        if let Some(ages) = self.keeper.ages_mut() {
            ages.swap_remove(row);
        }
    }

    /// Forgets all samples of an arm; `terms` is the number of quadratic terms of the objective.
    pub(super) fn forget(&mut self, arm: usize, terms: usize) {
        let arms = self.statistics.arms();
        let keep = self.statistics.forget(arm);
        if self.held.len() > 0 {
            self.held.retain(&keep);
        }
        if let Some(pool) = &mut self.pool {
            pool.forget(arm, &keep);
        }
        if let Some(independent) = &mut self.independent {
            independent.forget(arm, &keep);
        }
        if let Some(ages) = self.keeper.ages_mut() {
            ages.retain(&keep);
        }
        if let Some(stream) = self.keeper.stream_mut() {
            stream.forget(arm, arms, terms);
        }
    }

    /// Whether a held row belongs to the collected pool.
    pub(super) fn is_collected(&self, row: usize) -> bool {
        self.pool.as_ref().is_none_or(|pool| pool.is_collected(row))
    }

    /// Collected samples per arm.
    pub(super) fn collected(&self) -> Vec<usize> {
        self.pool.as_ref().map_or_else(|| self.statistics.counts().to_vec(), |pool| pool.counts())
    }

    /// The proportions of the collected samples; all zero before the first.
    pub(super) fn shares(&self) -> Vec<f64> {
        self.pool.as_ref().map_or_else(|| self.statistics.proportions(), |pool| pool.shares())
    }

    /// The loss of the collected samples without the constant; `None` before the first.
    pub(super) fn empirical_loss(&self) -> Option<f64> {
        self.pool.as_ref().map_or_else(|| self.statistics.empirical_loss(), |pool| pool.loss())
    }

    /// The features of the held samples, in the order told.
    pub(super) fn features(&self) -> Option<Features> {
        let features = self.held.features()?;
        match self.keeper.ages() {
            Some(ages) => features.select(ages.order()).ok(),
            None => Some(features),
        }
    }

    /// Checks the fit; a snapshot is untrusted input.
    pub(super) fn check(&self, arms: usize, batch: usize, loss: Option<&Loss>) -> Result<()> {
        self.statistics.check()?;
        let rows = if loss.is_some() { self.statistics.rows() } else { 0 };
        let fits = self.statistics.arms() == arms
            && self.held.fits(rows, self.width)
            && self.keeper.fits(arms, batch, self.width, rows, loss)
            && self.pool.as_ref().is_none_or(|pool| pool.fits(&self.statistics))
            && self.independent.as_ref().is_none_or(|independent| independent.fits(&self.statistics));
        if fits { Ok(()) } else { Err(damaged("its samples do not fit each other")) }
    }
}

/// The error for a snapshot whose parts do not fit.
pub(super) fn damaged(problem: &str) -> Error {
    Error::Snapshot { problem: format!("{problem}; it is damaged, so start from an earlier one") }
}
