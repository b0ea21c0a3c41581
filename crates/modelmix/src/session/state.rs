//! All of a session that changes, and the rules that keep it whole.

use serde::{Deserialize, Serialize};

use super::SessionSettings;
use super::ages::Ages;
use super::alarm::Alarm;
use super::forget::Forget;
use super::select::{Book, Selection};
use super::store::Store;
use super::stream::Stream;
use crate::certainty::{Looks, Until};
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::random::Random;
use crate::statistics::Statistics;

/// All of a session that changes; with the loss it is the session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct State<P> {
    pub(super) names: Vec<String>,
    pub(super) batch: usize,
    pub(super) policy: P,
    pub(super) random: Random,
    pub(super) statistics: Statistics,
    /// The features of the samples held; empty where the caller gives values.
    pub(super) held: Store,
    pub(super) width: Option<usize>,
    pub(super) pending: Vec<PendingPull>,
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) abandoned: Vec<u64>,
    pub(super) rests: Vec<Rest>,
    /// When it may stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) looks: Option<Looks>,
    /// How old the rows held are, where they leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ages: Option<Ages>,
    /// What is kept of samples that were let go, where there is a cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<Box<Stream>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) forget: Option<Forget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) alarm: Option<Box<Alarm>>,
    /// Which samples are kept; nothing where all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) book: Option<Book>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct PendingPull {
    pub(super) id: u64,
    pub(super) arm: usize,
    pub(super) count: usize,
}

/// An arm that fails is left alone for a while: 1, 3, 7, … asks, at most 1,023, until it answers again.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Rest {
    pub(super) failures: u32,
    pub(super) until: u64,
    /// Pulls of any arm that had been answered at the last failure.
    pub(super) answered: u64,
}

impl<P> State<P> {
    pub(super) fn new(names: Vec<String>, policy: P, width: Option<usize>, settings: &SessionSettings) -> Result<Self> {
        if names.is_empty() {
            return Err(Error::missing("a session", "at least one arm"));
        }
        if let Some((index, name)) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            return Err(Error::setting(&format!("the name of arm {index}"), name, "different from every other arm's"));
        }
        if settings.batch == 0 {
            return Err(Error::setting("batch", 0, "at least 1 sample a pull"));
        }
        let arms = names.len();
        settings.until.as_ref().map_or(Ok(()), Until::check)?;
        Ok(Self {
            names,
            batch: settings.batch,
            policy,
            random: Random::seeded(settings.seed),
            statistics: Statistics::new(arms),
            held: Store::new(settings.storage),
            width,
            pending: Vec::new(),
            asked: 0,
            answered: 0,
            abandoned: vec![0; arms],
            rests: vec![Rest::default(); arms],
            looks: settings.until.map(|until| Looks::new(until, arms)),
            ages: None,
            stream: None,
            forget: None,
            alarm: None,
            book: match settings.select {
                Selection::All => None,
                Selection::BetterHalf => Some(Book::default()),
            },
        })
    }

    pub(super) fn pending_pull(&self, id: u64) -> Result<PendingPull> {
        match self.pending.iter().find(|pending| pending.id == id) {
            Some(pending) => Ok(*pending),
            None if id < self.asked => Err(Error::RepeatedPull { id }),
            None => Err(Error::UnknownPull { id }),
        }
    }

    pub(super) fn pending_samples(&self) -> Vec<usize> {
        let mut samples = vec![0; self.names.len()];
        for pending in &self.pending {
            samples[pending.arm] += pending.count;
        }
        samples
    }

    pub(super) fn answer(&self, pull: PendingPull, problem: String) -> Error {
        Error::Answer { id: pull.id, arm: self.names[pull.arm].clone(), problem }
    }

    pub(super) fn check_count(&self, pull: PendingPull, samples: usize) -> Result<()> {
        if samples == 0 {
            return Err(self.answer(pull, "no samples were told; abandon the pull where nothing came back".into()));
        }
        if samples > pull.count {
            return Err(self.answer(
                pull,
                format!("{samples} samples were told where {} were asked for; tell at most so many", pull.count),
            ));
        }
        Ok(())
    }

    pub(super) fn settle(&mut self, pull: PendingPull) {
        self.pending.retain(|pending| pending.id != pull.id);
        self.answered += 1;
        self.rests[pull.arm] = Rest::default();
    }

    /// A snapshot comes from outside and is not trusted.
    pub(super) fn check(&self, loss: Option<&Loss>) -> Result<()> {
        let arms = self.names.len();
        self.statistics.check()?;
        let rows = if loss.is_some() { self.statistics.rows() } else { 0 };
        let held = self.width.unwrap_or(0).checked_mul(rows);
        let settled = self.abandoned.iter().map(|&pulls| u128::from(pulls)).sum::<u128>() + u128::from(self.answered);
        let rest_fits = |(rest, &abandoned): (&Rest, &u64)| {
            u64::from(rest.failures) <= abandoned
                && rest.answered <= self.answered
                && rest.until <= self.asked.saturating_add(1023)
        };
        let fits = arms > 0
            && (1..arms).all(|arm| !self.names[..arm].contains(&self.names[arm]))
            && settled + self.pending.len() as u128 == u128::from(self.asked)
            && self.pending.windows(2).all(|pair| pair[0].id < pair[1].id)
            && self.pending.iter().all(|pull| pull.count == self.batch)
            && self.batch <= u32::MAX as usize
            && self.rests.iter().zip(&self.abandoned).all(rest_fits)
            && self.statistics.arms() == arms
            && self.abandoned.len() == arms
            && self.rests.len() == arms
            && self.looks.as_ref().is_none_or(|looks| looks.is_sound(arms))
            && self.batch > 0
            && self.pending.iter().all(|pull| pull.arm < arms && pull.id < self.asked)
            && self.ages.as_ref().is_none_or(|ages| ages.fits(rows))
            && self.forget.is_none_or(Forget::fits)
            && (self.ages.is_some() || self.forget.and_then(Forget::window).is_none())
            && self.alarm.as_ref().is_none_or(|alarm| loss.is_some() && alarm.fits(arms, self.width))
            && self
                .stream
                .as_ref()
                .is_none_or(|stream| self.ages.is_some() && stream.fits(arms, self.batch, self.width, loss))
            && held == Some(self.held.len())
            && self.width != Some(0)
            && self.held.is_finite()
            && self.book.as_ref().is_none_or(|book| book.fits(&self.statistics))
            && (!self.needs_all() || (self.stream.is_none() && self.forget.is_none()));
        if fits {
            Ok(())
        } else {
            Err(Error::Snapshot {
                problem: "its parts do not fit each other; it is damaged, so start from an earlier one".into(),
            })
        }
    }
}
