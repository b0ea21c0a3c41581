//! Random sequences of changes against a model in memory: the store accepts what the model accepts, and says the same.

use std::collections::{BTreeMap, BTreeSet};

use modelmix::Event;
use modelmix_live::store::change::Change;
use modelmix_live::store::history::{History, PullState};
use modelmix_live::store::{Reader, Store};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{DESCRIPTION, abandoned, asked, failed, folder_in_memory, received, sent, told};

/// The number of pulls that changes name: few, so that they often name the same.
const PULLS: u64 = 3;

/// Whether an attempt was answered, and what it cost.
type Outcome = (bool, Option<f64>);

/// What a run should say.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    states: BTreeMap<u64, PullState>,
    attempts: BTreeMap<(u64, u32), Option<Outcome>>,
    /// Whether a sample is told or rejected.
    samples: BTreeMap<(u64, usize), (bool, bool)>,
    /// The kind and pull per event.
    events: Vec<(&'static str, u64)>,
    set_aside: BTreeSet<usize>,
}

impl Model {
    /// Applies a change, or says that it is impossible.
    fn apply(&mut self, change: &Change) -> bool {
        use PullState::{Abandoned, Asked, Failed, Received, Sent, Told};
        match change {
            Change::Asked { event: Event::Asked(asked), .. } => {
                self.events.push(("asked", asked.pull));
                self.states.insert(asked.pull, Asked).is_none()
            }
            Change::Sent { pull, attempt, .. } => {
                let may = matches!(self.states.get(pull), Some(Asked | Failed));
                self.states.insert(*pull, Sent);
                self.attempts.insert((*pull, *attempt), None).is_none() && may
            }
            Change::Received { pull, attempt, samples, cost, .. } => {
                self.samples.extend((0..samples.len()).map(|ordinal| ((*pull, ordinal), (false, false))));
                self.end(*pull, *attempt, true, Some(*cost))
            }
            Change::Failed { pull, attempt, cost, .. } => self.end(*pull, *attempt, false, *cost),
            Change::Settled { pull, attempt, cost } => match self.attempts.get_mut(&(*pull, *attempt)) {
                Some(Some((false, unknown @ None))) => {
                    *unknown = Some(*cost);
                    true
                }
                _ => false,
            },
            Change::Told { pull, samples, .. } => {
                self.events.push(("told", *pull));
                let tell = |ordinal| {
                    self.samples
                        .get_mut(&(*pull, ordinal))
                        .is_some_and(|sample| !std::mem::replace(&mut sample.0, true) && !sample.1)
                };
                samples.iter().map(|sample| sample.ordinal).all(tell)
                    && self.states.insert(*pull, Told) == Some(Received)
            }
            Change::Rejected { pull, ordinal, .. } => {
                let sample = self.samples.get_mut(&(*pull, *ordinal));
                sample.is_some_and(|sample| !sample.0 && !std::mem::replace(&mut sample.1, true))
            }
            Change::Abandoned { pull, .. } => {
                self.events.push(("abandoned", *pull));
                !matches!(self.states.insert(*pull, Abandoned), None | Some(Told | Abandoned))
            }
            Change::SetAside { arm, .. } => self.set_aside.insert(*arm),
            other => panic!("{other:?} is not drawn"),
        }
    }

    fn end(&mut self, pull: u64, attempt: u32, is_answered: bool, cost: Option<f64>) -> bool {
        let Some(open @ None) = self.attempts.get_mut(&(pull, attempt)) else { return false };
        *open = Some((is_answered, cost));
        let state = self.states.get_mut(&pull).expect("an attempt has a pull");
        if *state == PullState::Sent {
            *state = if is_answered { PullState::Received } else { PullState::Failed };
        }
        true
    }

    /// The confirmed cost and the cost in doubt; each attempt reserves 0.5.
    fn costs(&self) -> (f64, f64) {
        let costs = self.attempts.values().map(|outcome| outcome.and_then(|(_, cost)| cost));
        costs.fold((0.0, 0.0), |(confirmed, doubt), cost| match cost {
            Some(cost) => (confirmed + cost, doubt),
            None => (confirmed, doubt + 0.5),
        })
    }

    /// What a history says in the terms of the model.
    fn of(history: &History) -> Self {
        let mut model = Model::default();
        for pull in &history.pulls {
            model.states.insert(pull.pull, pull.state);
            for attempt in &pull.attempts {
                let outcome = attempt.outcome.as_ref().map(|outcome| (outcome.failure.is_none(), outcome.cost));
                model.attempts.insert((pull.pull, attempt.attempt), outcome);
            }
            for sample in &pull.samples {
                let state = (sample.position.is_some(), sample.rejected.is_some());
                model.samples.insert((pull.pull, sample.ordinal), state);
            }
        }
        model.events = history
            .events
            .iter()
            .map(|event| match event {
                Event::Asked(asked) => ("asked", asked.pull),
                Event::Told(told) => ("told", told.pull),
                Event::Abandoned { pull } => ("abandoned", *pull),
                other => panic!("{other:?}"),
            })
            .collect();
        model.set_aside = history.set_aside.iter().map(|row| row.arm).collect();
        model
    }
}

/// A change that names a few pulls, attempts and samples. Costs are multiples of 1/4, so that sums are exact in any order.
fn change() -> impl Strategy<Value = Change> {
    let cost = prop_oneof![Just(None), Just(Some(0.0)), Just(Some(0.75))];
    let ordinals = proptest::collection::vec(0..3usize, 1..3);
    (0..20u8, 0..PULLS, 1..3u32, 0..3usize, cost, ordinals).prop_map(
        |(kind, pull, attempt, ordinal, cost, ordinals)| match kind {
            0..=2 => asked(pull, ordinal % 2),
            3..=6 => sent(pull, attempt),
            7..=10 => received(pull, attempt, vec![None; ordinal + 1]),
            11..=12 => failed(pull, attempt, cost),
            13..=15 => told(pull, &ordinals),
            16 => Change::Rejected { pull, ordinal, reason: "blank".into() },
            17 => abandoned(pull),
            18 => Change::SetAside { arm: ordinal, reason: "401".into(), at: 1 },
            _ => Change::Settled { pull, attempt, cost: 0.25 },
        },
    )
}

#[test]
fn the_store_agrees_with_a_model() {
    let transactions = proptest::collection::vec(proptest::collection::vec(change(), 1..3), 80);
    let rng = proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config { cases: 16, ..Config::default() }, rng);
    let seen = std::cell::RefCell::new(BTreeSet::new());
    let result = runner.run(&transactions, |transactions| {
        let folder = folder_in_memory();
        let mut store = Store::create(folder.path(), DESCRIPTION).unwrap();
        let mut model = Model::default();
        let mut commits = 0;
        for changes in &transactions {
            let mut next = model.clone();
            let is_possible = changes.iter().all(|change| next.apply(change));
            let result = store.commit(changes);
            prop_assert_eq!(result.is_ok(), is_possible, "{:?}: {:?}", changes, result);
            if is_possible {
                (model, commits) = (next, commits + 1);
            }
            seen.borrow_mut()
                .extend(changes.iter().map(|change| (std::mem::discriminant(change).hash_text(), is_possible)));
        }
        drop(store);
        let history = Reader::open(folder.path()).unwrap().history().unwrap();
        prop_assert_eq!(Model::of(&history), model.clone());
        prop_assert_eq!((history.confirmed, history.in_doubt), model.costs());
        prop_assert_eq!(history.commits, commits);
        Ok(())
    });
    result.unwrap();
    // Each of the nine kinds was accepted and refused.
    assert_eq!(seen.into_inner().len(), 18);
}

/// A discriminant as text, which can be ordered.
trait HashText {
    fn hash_text(&self) -> String;
}

impl HashText for std::mem::Discriminant<Change> {
    fn hash_text(&self) -> String {
        format!("{self:?}")
    }
}
