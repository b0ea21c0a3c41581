//! What a session keeps of samples, lets go and forgets, and what it watches them for.

use super::SessionSettings;
use super::ages::Ages;
use super::alarm::{Alarm, Score};
use super::forget::Forget;
use super::state::State;
use super::stream::Stream;
use crate::error::{Error, Result};
use crate::features::Rows;
use crate::loss::{Linear, Loss, PreparedTerm};
use crate::policy::Policy;

/// A sample that counts less than this beside a new one is dropped.
const FADED: f64 = 1e-9;

impl<P: Policy> State<P> {
    /// How much is held, for how long, and whether there is an alarm; `loss` is nothing where values are told.
    pub(super) fn keep(&mut self, settings: &SessionSettings, loss: Option<&Loss>) -> Result<()> {
        let arms = self.names.len();
        let needs_features = |what: &str| {
            Error::missing(what, "features, and one on values holds none; leave it out, or tell the session features")
        };
        if self.looks.is_some() && self.policy.support().is_some() {
            let given = format!("given to the policy {}", self.policy.name());
            return Err(Error::setting("until", given, "left out: of arms that are dropped, nothing more is learned"));
        }
        if self.needs_all() && (settings.stream.is_some() || settings.forget.is_some()) {
            let loses = if settings.stream.is_some() { "hold" } else { "forget" };
            return Err(self.refuse_to_lose(&format!("a session with `{loses}`")));
        }
        if let Some(stream) = settings.stream {
            let loss = loss.ok_or_else(|| needs_features("a session with `hold`"))?;
            self.stream = Some(Box::new(Stream::new(stream, settings.seed, arms, self.batch, loss)?));
        }
        if let Some(forget) = settings.forget {
            forget.check(settings, arms, loss.is_some(), self.policy.name())?;
            self.forget = Some(forget);
        }
        if let Some(chance) = settings.alarm {
            let loss = loss.ok_or_else(|| needs_features("a session with an alarm"))?;
            let kappa = loss.terms().iter().any(|term| term.kappa.is_some()).then_some(Score::Kappa);
            let varies = |term: &PreparedTerm| !matches!(term.linear, None | Some(Linear::Cost(_)));
            let linear = loss.terms().iter().any(varies).then_some(Score::Linear);
            let scores: Vec<Score> = kappa.into_iter().chain(linear).collect();
            if scores.is_empty() {
                return Err(Error::setting("alarm", chance, "left out: nothing of a sample is in this objective"));
            }
            self.alarm = Some(Box::new(Alarm::new(chance, arms, settings.seed, scores)?));
        }
        let rows_leave = self.stream.is_some() || (self.forget.is_some() && loss.is_some());
        self.ages = rows_leave.then(Ages::default);
        Ok(())
    }
}

impl<P> State<P> {
    /// Before every sample told: those before it count less, where they fade.
    pub(super) fn fade(&mut self) {
        if let Some(factor) = self.forget.and_then(Forget::factor) {
            self.statistics.fade(factor);
            if let Some(stream) = &mut self.stream {
                stream.fade(factor);
            }
        }
    }

    /// Whether something of the session is about all samples ever told: when to stop, which ones to keep.
    pub(super) fn needs_all(&self) -> bool {
        self.looks.is_some() || self.book.is_some()
    }

    /// Why samples may not leave.
    pub(super) fn refuse_to_lose(&self, what: &str) -> Error {
        let other = if self.looks.is_some() { "until" } else { "select" };
        Error::setting(other, format!("given to {what}"), "left out there: it is about all samples ever told")
    }

    /// Takes the numbers of a sample: `kappa` against the rows held, `beyond` by arm against those let go.
    pub(super) fn record(&mut self, arm: usize, kappa: &[f64], beyond: Option<&[f64]>, own: f64, linear: f64) {
        if let Some(book) = &mut self.book {
            book.consider(&self.statistics, kappa, own, linear);
        }
        match beyond {
            Some(beyond) => self.statistics.add_beside(arm, kappa, beyond, own, linear),
            None => self.statistics.add(arm, kappa, own, linear),
        }
    }

    /// Takes a sample: its numbers and its features.
    pub(super) fn take(
        &mut self,
        arm: usize,
        row: &[f32],
        kappa: &[f64],
        beyond: Option<&[f64]>,
        own: f64,
        linear: f64,
    ) -> Result<()> {
        self.held.push(row)?;
        self.record(arm, kappa, beyond, own, linear);
        if let Some(ages) = &mut self.ages {
            ages.push();
        }
        Ok(())
    }

    /// Rows leave until no more are held than may be.
    pub(super) fn trim(&mut self, loss: &Loss) -> Result<()> {
        let Some(width) = self.width else { return Ok(()) };
        match self.forget.and_then(Forget::window) {
            Some(window) => self.remove_beyond(loss, window, width),
            None if self.stream.is_some() => self.let_go_beyond_cap(loss, width),
            None => self.drop_faded(),
        }
    }

    /// Rows that have faded to nothing leave, so that memory is that of some thirty half-lives.
    fn drop_faded(&mut self) -> Result<()> {
        let Some(ages) = self.ages.as_mut().filter(|_| self.forget.is_some()) else { return Ok(()) };
        while let Some(row) = ages.oldest(|_| true).filter(|&row| self.statistics.weight(row) < FADED) {
            self.held.swap_remove(row)?;
            self.statistics.drop_faded(row);
            ages.swap_remove(row);
        }
        Ok(())
    }

    /// Lets go the oldest row of whichever arm holds most.
    fn let_go_beyond_cap(&mut self, loss: &Loss, width: usize) -> Result<()> {
        let (Some(stream), Some(ages)) = (&mut self.stream, &mut self.ages) else { return Ok(()) };
        let arms = self.names.len();
        while self.statistics.rows() > stream.settings.hold {
            let most = (0..arms).rev().max_by_key(|&arm| self.statistics.rows_of(arm));
            let arm_of = self.statistics.arm_of();
            let Some(row) = ages.oldest(|row| Some(arm_of[row]) == most) else { break };
            let (arm, features) = (arm_of[row], self.held.row(row, width)?);
            let mapped = stream.map(loss, Rows::new(width, &features))?;
            self.held.swap_remove(row)?;
            stream.absorb(&features, &mapped, self.statistics.weight(row), arm, arms);
            self.statistics.let_go(row);
            ages.swap_remove(row);
        }
        Ok(())
    }

    /// Removes the oldest row of all.
    fn remove_beyond(&mut self, loss: &Loss, window: usize, width: usize) -> Result<()> {
        let Some(ages) = &mut self.ages else { return Ok(()) };
        let mut kappa = Vec::new();
        while self.statistics.rows() > window {
            let Some(row) = ages.oldest(|_| true) else { break };
            self.held.kappa(loss, Rows::new(width, &self.held.row(row, width)?), &mut kappa)?;
            self.held.swap_remove(row)?;
            self.statistics.remove(row, &kappa);
            ages.swap_remove(row);
            if ages.left().is_multiple_of(window as u64) {
                self.statistics.refresh();
            }
        }
        Ok(())
    }

    /// Shows a sample to the alarm of its arm.
    pub(super) fn watch(&mut self, loss: &Loss, arm: usize, row: &[f32], linear: f64) -> Result<()> {
        let Some(alarm) = &mut self.alarm else { return Ok(()) };
        alarm.show(arm, self.answered, row, linear, |x, y| {
            let mut values = Vec::new();
            loss.kappa_rows(Rows::new(row.len(), x), Rows::new(row.len(), y), &mut values)?;
            Ok(values)
        })
    }

    /// Forgets all that is known of an arm.
    pub(super) fn forget_arm(&mut self, arm: usize) -> Result<()> {
        let keep = self.statistics.forget(arm);
        if let Some(width) = self.width.filter(|_| self.held.len() > 0) {
            self.held.retain(&keep, width)?;
        }
        if let Some(ages) = &mut self.ages {
            ages.retain(&keep);
        }
        if let Some(stream) = &mut self.stream {
            stream.forget(arm, self.names.len());
        }
        if let Some(alarm) = &mut self.alarm {
            alarm.forget(arm);
        }
        Ok(())
    }
}
