//! Pulls: which are in flight, how many were answered, and which arms pause because they failed.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A request to an arm for `count` samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pull {
    /// The id to tell or abandon.
    pub id: u64,
    /// The arm, as an index.
    pub index: usize,
    /// The arm's name.
    pub arm: String,
    /// Number of samples asked for.
    pub count: usize,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PendingPull {
    pub(super) id: u64,
    pub(super) arm: usize,
    pub(super) count: usize,
}

/// The pause of an arm that fails: 1, 3, 7, … asks, at most 1,023, until it answers again.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backoff {
    failures: u32,
    until: u64,
    /// Number of answered pulls of any arm at the last failure.
    answered: u64,
}

/// The longest pause of an arm, in asks.
const LONGEST_BACKOFF: u64 = 1023;

/// All pulls of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pulls {
    /// Pulls in flight, oldest first.
    pub(super) pending: Vec<PendingPull>,
    /// Number of pulls so far; the id of the next one.
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// Per arm.
    pub(super) abandoned: Vec<u64>,
    backoffs: Vec<Backoff>,
}

impl Pulls {
    pub(super) fn new(arms: usize) -> Self {
        Self {
            pending: Vec::new(),
            asked: 0,
            answered: 0,
            abandoned: vec![0; arms],
            backoffs: vec![Backoff::default(); arms],
        }
    }

    /// The pull in flight with this id.
    pub(super) fn find(&self, id: u64) -> Result<PendingPull> {
        match self.pending.iter().find(|pending| pending.id == id) {
            Some(pending) => Ok(*pending),
            None if id < self.asked => Err(Error::RepeatedPull { id }),
            None => Err(Error::UnknownPull { id }),
        }
    }

    /// Samples in flight per arm.
    pub(super) fn samples(&self) -> Vec<usize> {
        let mut samples = vec![0; self.abandoned.len()];
        self.pending.iter().for_each(|pending| samples[pending.arm] += pending.count);
        samples
    }

    /// The arms that do not pause; all arms if all pause.
    pub(super) fn candidates(&self) -> Vec<usize> {
        let awake: Vec<usize> =
            (0..self.backoffs.len()).filter(|&arm| self.backoffs[arm].until <= self.asked).collect();
        if awake.is_empty() { (0..self.backoffs.len()).collect() } else { awake }
    }

    pub(super) fn ask(&mut self, arm: usize, count: usize) {
        self.pending.push(PendingPull { id: self.asked, arm, count });
        self.asked += 1;
    }

    pub(super) fn answer(&mut self, pull: PendingPull) {
        self.pending.retain(|pending| pending.id != pull.id);
        self.answered += 1;
        self.backoffs[pull.arm] = Backoff::default();
    }

    pub(super) fn abandon(&mut self, PendingPull { id, arm, .. }: PendingPull) {
        self.pending.retain(|pending| pending.id != id);
        self.abandoned[arm] += 1;
        let backoff = &mut self.backoffs[arm];
        // Failures without an answer between them count once: pulls in flight that fail together, or an outage of all arms.
        if backoff.failures == 0 || self.answered > backoff.answered {
            backoff.failures += 1;
        }
        backoff.answered = self.answered;
        backoff.until = self.asked + ((1 << backoff.failures.min(10)) - 1).min(LONGEST_BACKOFF);
    }

    /// Checks the fit; a snapshot is untrusted input.
    pub(super) fn fits(&self, arms: usize, batch: usize) -> bool {
        let settled = self.abandoned.iter().map(|&pulls| u128::from(pulls)).sum::<u128>() + u128::from(self.answered);
        let backoff_fits = |(backoff, &abandoned): (&Backoff, &u64)| {
            u64::from(backoff.failures) <= abandoned
                && backoff.answered <= self.answered
                && backoff.until <= self.asked.saturating_add(LONGEST_BACKOFF)
        };
        self.abandoned.len() == arms
            && self.backoffs.len() == arms
            && settled + self.pending.len() as u128 == u128::from(self.asked)
            && self.pending.windows(2).all(|pair| pair[0].id < pair[1].id)
            && self.pending.iter().all(|pull| pull.arm < arms && pull.id < self.asked && pull.count == batch)
            && self.backoffs.iter().zip(&self.abandoned).all(backoff_fits)
    }
}
