//! What looks on while samples come in: when to stop, whether arms drift, which samples are kept. Observers do not change what
//! policies see; what they decide on a batch is part of its event.

use serde::{Deserialize, Serialize};

use super::SessionSettings;
use super::alarm::{Alarm, Finding};
use super::event::Decisions;
use super::looks::{Looked, Looks};
use super::samples::{Batch, Samples, damaged};
use super::select::{Book, Selection};
use crate::error::{Error, Result};
use crate::loss::Loss;

/// The observers that a session has.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Observers {
    /// When to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) looks: Option<Looks>,
    /// Whether an arm has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) alarm: Option<Box<Alarm>>,
    /// Which samples are kept; `None` if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) book: Option<Book>,
}

/// What observers found of a batch; nothing has changed yet.
pub(super) struct Observed {
    book: Option<Book>,
    findings: Option<Vec<Vec<Finding>>>,
    rang: Option<Vec<usize>>,
    looked: Option<Looked>,
    is_known: bool,
}

impl Observers {
    /// Those that are asked for; `loss` is `None` if the caller gives values, `policy` is one's name if it drops arms for good.
    pub(super) fn new(
        settings: &SessionSettings,
        arms: usize,
        loss: Option<&Loss>,
        dropping: Option<&str>,
    ) -> Result<Self> {
        if let Some(until) = &settings.until {
            until.check()?;
        }
        let mut looks = settings.until.map(|until| Looks::new(until, arms));
        if let (Some(looks), Some(loss)) = (&mut looks, loss) {
            looks.set_range(loss.linear_spread());
        }
        let book = match settings.select {
            Selection::All => None,
            Selection::BetterHalf => Some(Book::default()),
        };
        let mut observers = Self { looks, alarm: None, book };
        if let Some(policy) = dropping.filter(|_| observers.looks.is_some()) {
            let given = format!("given to the policy {policy}");
            return Err(Error::setting("until", given, "left out: of arms that are dropped, nothing more is learned"));
        }
        if let Some(loses) = settings.retention.loses() {
            observers.allow_loss(&format!("a session with `{loses}`"))?;
        }
        if let Some(chance) = settings.alarm {
            observers.alarm = Some(Box::new(Alarm::new(chance, arms, settings.seed, loss)?));
        }
        Ok(observers)
    }

    /// Whether samples may leave: when to stop and which ones to keep are about all samples ever told.
    pub(super) fn allow_loss(&self, what: &str) -> Result<()> {
        let other = match (&self.looks, &self.book) {
            (None, None) => return Ok(()),
            (Some(_), _) => "until",
            (None, Some(_)) => "select",
        };
        let must = "left out there: it is about all samples ever told";
        Err(Error::setting(other, format!("given to {what}"), must))
    }

    /// What observers find of a batch: all work that they have with it. `look` looks whether the session may stop, with the
    /// batch taken; decisions that were taken before stand.
    pub(super) fn evaluate(
        &self,
        samples: &Samples,
        batch: &Batch<'_>,
        is_known: bool,
        loss: Option<&Loss>,
        decided: &Decisions,
        look: impl FnOnce(&Looks) -> Looked,
    ) -> Result<Observed> {
        let counts = counts_with(samples, batch);
        // A look while recorded samples of some arms are still to come would be wasted.
        let is_due = |looks: &&Looks| looks.is_due(&counts) && (!is_known || Looks::can_tell(&counts));
        let looked = self.looks.as_ref().filter(is_due);
        let book = self.book.as_ref().map(|book| book.after(samples, batch, is_known, decided.kept.as_deref()));
        let findings = match (&self.alarm, loss) {
            (Some(alarm), Some(loss)) if !is_known => Some(alarm.evaluate(batch, loss)?),
            _ => None,
        };
        Ok(Observed {
            book,
            findings,
            rang: decided.rang.clone(),
            looked: looked.map(|looks| decided.looked.clone().unwrap_or_else(|| look(looks))),
            is_known,
        })
    }

    /// Takes what was found of a batch that was told in this round, and says what was decided. `counts` are with the batch.
    pub(super) fn commit(&mut self, observed: Observed, batch: &Batch<'_>, round: u64, counts: &[usize]) -> Decisions {
        let mut decisions = Decisions::default();
        if let Some(book) = observed.book {
            decisions.kept = (!observed.is_known).then(|| book.last(batch.len()).to_vec());
            self.book = Some(book);
        }
        if let (Some(alarm), Some(findings)) = (&mut self.alarm, observed.findings) {
            decisions.rang = Some(alarm.commit(batch, round, &findings, observed.rang.as_deref()));
        }
        if let (Some(looks), Some(looked)) = (&mut self.looks, observed.looked) {
            decisions.looked = Some(looked.clone());
            looks.commit(looked, counts);
        }
        decisions
    }

    /// A snapshot comes from outside and is not trusted.
    pub(super) fn check(&self, samples: &Samples, arms: usize, has_loss: bool) -> Result<()> {
        let fits = self.looks.as_ref().is_none_or(|looks| looks.fits(arms))
            && self.alarm.as_ref().is_none_or(|alarm| has_loss && alarm.fits(arms, samples.width))
            && self.book.as_ref().is_none_or(|book| book.fits(&samples.statistics))
            && (!samples.keeper.loses() || (self.looks.is_none() && self.book.is_none()));
        if fits { Ok(()) } else { Err(damaged("what watches its samples does not fit them")) }
    }
}

/// Samples of each arm once a batch was taken. Only sessions that hold all samples ask.
pub(super) fn counts_with(samples: &Samples, batch: &Batch<'_>) -> Vec<usize> {
    let mut counts = samples.statistics.counts().to_vec();
    counts[batch.arm] += batch.len();
    counts
}
