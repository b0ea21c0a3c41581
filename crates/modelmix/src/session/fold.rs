//! A session as a fold over its events. Decisions and evaluation use a shared reference; only then do steps that cannot fail
//! change the session. So an event is applied completely or not at all.

use std::borrow::Cow;

use super::bandwidth::{BandwidthState, Choice};
use super::event::{Answer, Asked, Decisions, Event, Known, SampleValues, Told};
use super::observers::{Observed, counts_with};
use super::pulls::PendingPull;
use super::samples::{Batch, Refusal};
use super::{KnownAs, Pull, Session, Source, Values};
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::loss::Scores;
use crate::policy::Policy;
use crate::random::Random;

/// Where samples come from.
#[derive(Clone, Copy)]
pub(super) enum Origin {
    Pull(PendingPull),
    Known(usize, KnownAs),
}

impl Origin {
    fn arm(self) -> usize {
        match self {
            Origin::Pull(pull) => pull.arm,
            Origin::Known(arm, _) => arm,
        }
    }

    pub(super) fn is_known(self) -> bool {
        matches!(self, Origin::Known(..))
    }

    fn is_collected(self) -> bool {
        !matches!(self, Origin::Known(_, KnownAs::Evidence))
    }
}

/// Samples as they were given.
pub(super) enum NewSamples<'a> {
    /// Rows of this width, and scores.
    Features(usize, &'a [f32], &'a Scores),
    Values(Vec<Values<'a>>),
}

/// The evaluated effect of samples on a session.
pub(super) struct Update<'a> {
    pub(super) origin: Origin,
    pub(super) batch: Batch<'a>,
    pub(super) observed: Observed,
    /// The bandwidth, if it is chosen with these samples.
    pub(super) choice: Option<Box<Choice>>,
}

impl<P: Policy> Session<P> {
    /// The next pull as an event that has not happened yet. This changes nothing, so the result stays the same until an event
    /// is applied.
    ///
    /// # Errors
    /// As [`Session::ask`].
    pub fn decide(&self) -> Result<Event<P>> {
        self.choose().map(|(asked, _)| Event::Asked(asked))
    }

    /// The next pull, and the generator after it was chosen.
    pub(super) fn choose(&self) -> Result<(Asked<P>, Random)> {
        let state = &self.state;
        let mut random = state.random.clone();
        let (arm, policy) = match state.required_arm() {
            Some(arm) => (arm, None),
            None => {
                let choice = state.policy.choose(&state.evidence(), &mut random)?;
                (choice.arm, choice.next)
            }
        };
        if arm >= state.names.len() {
            return Err(Error::setting(
                &format!("the arm chosen by policy {}", state.policy.name()),
                arm,
                format!("an index less than {}", state.names.len()),
            ));
        }
        let drawn = Some(random.position()).filter(|&position| position != state.random.position());
        Ok((Asked { pull: state.pulls.asked, arm, count: state.batch, policy, drawn }, random))
    }

    pub(super) fn commit_asked(&mut self, asked: Asked<P>) -> Pull {
        let state = &mut self.state;
        if let Some(policy) = asked.policy {
            state.policy = policy;
        }
        if let Some(drawn) = asked.drawn.filter(|&drawn| drawn != state.random.position()) {
            state.random.seek(drawn);
        }
        state.pulls.ask(asked.arm, asked.count);
        Pull { id: asked.pull, index: asked.arm, arm: state.names[asked.arm].clone(), count: asked.count }
    }

    /// Applies a recorded event: the session is then in the state after that event. Uses the decisions in the event instead of
    /// recomputing them.
    ///
    /// # Errors
    /// An event that is impossible in the current state. The session is then unchanged.
    pub fn apply(&mut self, event: &Event<P>) -> Result<()>
    where
        P: Clone,
    {
        self.fold(event).map(drop)
    }

    /// Applies a new event, and returns it with all decisions made on it. This is the event to write to a journal.
    ///
    /// # Errors
    /// As [`Session::apply`].
    pub fn perform(&mut self, mut event: Event<P>) -> Result<Event<P>>
    where
        P: Clone,
    {
        let decided = self.fold(&event)?;
        match &mut event {
            Event::Told(Told { decisions, .. }) | Event::Known(Known { decisions, .. }) => *decisions = decided,
            _ => {}
        }
        Ok(event)
    }

    /// Recomputes the decisions of an event and compares them. This checks the record, or this processor and release; replaying
    /// does not need it.
    ///
    /// # Errors
    /// The first difference; an event that is impossible in the current state.
    pub fn verify(&self, event: &Event<P>) -> Result<()>
    where
        P: PartialEq + Clone,
    {
        match event {
            Event::Asked(asked) => {
                let found = self.choose()?.0;
                let name = |arm: usize| self.state.names.get(arm).map_or("none", String::as_str);
                if (found.pull, found.arm, found.count) != (asked.pull, asked.arm, asked.count) {
                    return event.error(format!(
                        "asks {} for {} samples, but recomputed, pull {} asks {} for {}",
                        name(asked.arm),
                        asked.count,
                        found.pull,
                        name(found.arm),
                        found.count
                    ));
                }
                if found.policy != asked.policy || found.drawn != asked.drawn {
                    return event.error("has a policy or generator state that differs from the recomputed one");
                }
                Ok(())
            }
            Event::Told(Told { answer, decisions, .. }) => {
                let given = self.given(event, answer, &Decisions::default())?;
                let update = self.evaluate(self.origin(event)?, given, &Decisions::default(), true)?;
                let Update { batch, observed, choice, .. } = update;
                let (mut observers, round) = (self.state.observers.clone(), self.state.pulls.answered + 1);
                let counts = counts_with(choice.as_deref(), &self.state.samples, &batch);
                let mut found = observers.commit(observed, &batch, round, &counts);
                found.bandwidth = choice.map(|choice| choice.chosen.bandwidth);
                event.compare(decisions, &found)
            }
            Event::Known(Known { answer, decisions, .. }) => {
                let given = self.given(event, answer, &Decisions::default())?;
                let found = self.clone().take(self.origin(event)?, given, &Decisions::default())?;
                event.compare(decisions, &found)
            }
            Event::Abandoned { pull } => self.state.pulls.find(*pull).map(drop),
            Event::Forgotten { arm } => self.check_forget(*arm),
        }
    }

    fn origin(&self, event: &Event<P>) -> Result<Origin> {
        match event {
            Event::Known(known) => {
                self.check_arm("the arm of known samples", known.arm)?;
                Ok(Origin::Known(known.arm, known.known_as))
            }
            Event::Told(told) => self.state.pulls.find(told.pull).map(Origin::Pull),
            _ => event.error("has no samples"),
        }
    }

    fn fold(&mut self, event: &Event<P>) -> Result<Decisions>
    where
        P: Clone,
    {
        match event {
            Event::Asked(asked) => {
                let (arms, expected) = (self.state.names.len(), self.state.pulls.asked);
                if asked.pull != expected {
                    return event.error(format!("is out of order: the next pull is {expected}"));
                }
                if asked.arm >= arms || asked.count != self.state.batch {
                    return event.error(format!(
                        "asks arm {} for {} samples, but the session has {arms} arms and asks for {}",
                        asked.arm, asked.count, self.state.batch
                    ));
                }
                let fits = |policy: &P| policy.fits(arms) && policy.name() == self.state.policy.name();
                if asked.policy.as_ref().is_some_and(|policy| !fits(policy)) {
                    return event.error("has a policy state that does not fit the session");
                }
                self.commit_asked(asked.clone());
                Ok(Decisions::default())
            }
            Event::Told(Told { answer, decisions, .. }) | Event::Known(Known { answer, decisions, .. }) => {
                let origin = self.origin(event)?;
                let given = self.given(event, answer, decisions)?;
                self.take(origin, given, decisions)
            }
            Event::Abandoned { pull } => self.abandon(*pull).map(|()| Decisions::default()),
            Event::Forgotten { arm } => self.forget(*arm).map(|()| Decisions::default()),
        }
    }

    /// The samples of an event, which may come from a file and is untrusted input.
    fn given<'a>(&self, event: &Event<P>, answer: &'a Answer, decided: &Decisions) -> Result<NewSamples<'a>> {
        let (samples, given) = match answer {
            Answer::Features { width, values, scores } => {
                if let Err(error) = Features::new(*width, values.clone()) {
                    return event.error(format!("has invalid features: {error}"));
                }
                (values.len() / width, NewSamples::Features(*width, values, scores))
            }
            Answer::Values(samples) => {
                let value =
                    |sample: &'a SampleValues| Values { kappa: &sample.kappa, own: sample.own, linear: sample.linear };
                (samples.len(), NewSamples::Values(samples.iter().map(value).collect()))
            }
        };
        if decided.fit(samples, self.state.names.len()) {
            Ok(given)
        } else {
            event.error("has decisions that do not fit its samples")
        }
    }

    /// Adds samples, and returns the decisions made on them. Known samples may be many, so they are added in steps that need
    /// little memory.
    ///
    /// # Errors
    /// Samples that do not fit, or a failed computation. The session is then unchanged.
    pub(super) fn take(&mut self, origin: Origin, given: NewSamples<'_>, decided: &Decisions) -> Result<Decisions> {
        match given {
            NewSamples::Features(width, values, scores)
                if origin.is_known() && values.len() / width > self.state.samples.rows_per_step() =>
            {
                let before = (self.state.samples.clone(), self.state.observers.clone());
                let taken = self.take_in_steps(origin, (width, values, scores), decided);
                if taken.is_err() {
                    (self.state.samples, self.state.observers) = before;
                }
                taken
            }
            given => {
                let update = self.evaluate(origin, given, decided, true)?;
                self.commit(update)
            }
        }
    }

    fn take_in_steps(
        &mut self,
        origin: Origin,
        (width, values, scores): (usize, &[f32], &Scores),
        decided: &Decisions,
    ) -> Result<Decisions> {
        let rows = values.len() / width;
        let (mut first, mut decisions) = (0, Decisions::default());
        while first < rows {
            let end = rows.min(first + self.state.samples.rows_per_step());
            // A list of another length is passed on whole, and refused as such.
            let part = |list: &Vec<f64>| if list.len() == rows { list[first..end].to_vec() } else { list.clone() };
            let scores = scores.iter().map(|(name, list)| (name.clone(), part(list))).collect();
            let given = NewSamples::Features(width, &values[first * width..end * width], &scores);
            let update = self.evaluate(origin, given, decided, end == rows)?;
            decisions = self.commit(update)?;
            first = end;
        }
        Ok(decisions)
    }

    /// Everything that can fail, be stopped or take long when samples arrive: checks, κ and f, and the observers, which check
    /// the stopping rule with the last samples of an event.
    fn evaluate<'a>(
        &self,
        origin: Origin,
        given: NewSamples<'a>,
        decided: &Decisions,
        is_last: bool,
    ) -> Result<Update<'a>> {
        let state = &self.state;
        let arm = origin.arm();
        let refuse = |problem: String| match origin {
            Origin::Pull(pull) => Error::Answer { id: pull.id, arm: state.names[arm].clone(), problem },
            Origin::Known(..) => Error::Known { arm: state.names[arm].clone(), problem },
        };
        let samples = match &given {
            NewSamples::Features(width, values, _) => values.len() / width,
            NewSamples::Values(values) => values.len(),
        };
        match origin {
            Origin::Pull(_) if samples == 0 => {
                return Err(refuse("no samples were told; abandon the pull if there is no answer".into()));
            }
            Origin::Pull(pull) if samples > pull.count => {
                let asked = pull.count;
                return Err(refuse(format!(
                    "{samples} samples were told, but {asked} were asked for; tell at most {asked}"
                )));
            }
            Origin::Known(..) if samples == 0 => return Err(refuse("there are no samples; give at least one".into())),
            _ => {}
        }
        let batch = match (given, self.source.loss()) {
            (NewSamples::Features(width, values, scores), Some(_)) => {
                match self.evaluate_features(origin, (width, values), scores) {
                    Ok(batch) => batch,
                    Err(Refusal::Samples(problem)) => return Err(refuse(problem)),
                    Err(Refusal::Work(error)) => return Err(error),
                }
            }
            (NewSamples::Values(values), None) => self.evaluate_values(origin, values).map_err(refuse)?,
            (NewSamples::Features(..), None) => {
                return Err(refuse(
                    "this session is on values and cannot evaluate features; tell it values of κ and f".into(),
                ));
            }
            (NewSamples::Values(_), Some(_)) => {
                return Err(refuse("this session evaluates features; tell it features, or start it on values".into()));
            }
        };
        if self.is_bandwidth_open() {
            return self.evaluate_first(origin, batch, decided, is_last);
        }
        let check_stop = |_: &_| state.check_stop(&batch);
        let (known, loss) = (origin.is_known(), self.source.loss());
        let observed = state.observers.evaluate(&state.samples, &batch, (known, is_last), loss, decided, check_stop)?;
        Ok(Update { origin, batch, observed, choice: None })
    }

    fn evaluate_features<'a>(
        &self,
        origin: Origin,
        (found, values): (usize, &'a [f32]),
        scores: &Scores,
    ) -> Result<Batch<'a>, Refusal> {
        let Some(loss) = self.source.loss() else { return Err(Refusal::Samples("this session is on values".into())) };
        let state = &self.state;
        if let Some(width) = state.samples.width.filter(|&width| width != found) {
            let problem =
                format!("its features have {found} columns, but {width} are expected; use the same encoder throughout");
            return Err(Refusal::Samples(problem));
        }
        // Evaluate the values that will be held, also in half precision.
        let values = match state.samples.held.rounded(Rows::new(found, values)) {
            Some(rounded) if rounded.iter().any(|value| !value.is_finite()) => {
                let problem = "a feature is too large for half precision, whose largest value is 65,504; scale the features down, or store them in single precision";
                return Err(Refusal::Samples(problem.into()));
            }
            Some(rounded) => Cow::Owned(rounded),
            None => Cow::Borrowed(values),
        };
        let rounded = Rows::new(found, &values);
        loss.check(rounded).map_err(|error| error.to_string())?;
        let linear = loss.linear(origin.arm(), rounded, scores).map_err(|error| match error {
            Error::Stopped | Error::Memory { .. } | Error::Device { .. } => Refusal::Work(error),
            error => Refusal::Samples(error.to_string()),
        })?;
        let (arm, is_collected) = (origin.arm(), origin.is_collected());
        if self.is_bandwidth_open() {
            let held = state.samples.statistics.rows();
            return Ok(Batch::without_kappa(arm, is_collected, (found, values), linear, held));
        }
        state.samples.evaluate(loss, arm, is_collected, (found, values), linear)
    }

    fn evaluate_values<'a>(&self, origin: Origin, samples: Vec<Values<'a>>) -> Result<Batch<'a>, String> {
        for (index, Values { kappa, own, linear }) in samples.iter().enumerate() {
            let expected = self.state.samples.statistics.rows() + index;
            if kappa.len() != expected {
                let found = kappa.len();
                return Err(format!(
                    "sample {index} has {found} values of κ for {expected} earlier samples; give one value per earlier sample"
                ));
            }
            if !kappa.iter().chain([own, linear]).all(|value| value.is_finite()) {
                return Err(format!("sample {index} has a value that is not finite; κ and f must be numbers"));
            }
            if *own < 0.0 {
                return Err(format!(
                    "κ of sample {index} with itself is {own}, but it must be at least 0; κ is a kernel, so give κ(x, x)"
                ));
            }
        }
        Ok(Batch::of_values(origin.arm(), origin.is_collected(), samples))
    }

    /// Adds evaluated samples, and returns the decisions made on them. Reserving memory is the last step that can fail.
    ///
    /// # Errors
    /// Not enough memory for the samples. The session is then unchanged.
    pub(super) fn commit(&mut self, update: Update<'_>) -> Result<Decisions> {
        let Update { origin, batch, observed, choice } = update;
        let state = &mut self.state;
        let counts = counts_with(choice.as_deref(), &state.samples, &batch);
        let bandwidth = choice.as_ref().map(|choice| choice.chosen.bandwidth);
        match (choice, self.source.loss()) {
            (Some(choice), _) => {
                let Choice { chosen, loss, samples } = *choice;
                self.source = Source::Features(Box::new(loss));
                state.samples = samples;
                state.bandwidth = Some(BandwidthState::Chosen(chosen));
            }
            (None, loss) => {
                if let Some(loss) = loss {
                    state.samples.make_room(loss, &batch)?;
                }
                state.samples.commit(&batch);
            }
        }
        if let Origin::Pull(pull) = origin {
            state.pulls.answer(pull);
        }
        let decisions = state.observers.commit(observed, &batch, state.pulls.answered, &counts);
        Ok(Decisions { bandwidth, ..decisions })
    }

    pub(super) fn check_arm(&self, what: &str, arm: usize) -> Result<()> {
        let arms = self.state.names.len();
        if arm < arms { Ok(()) } else { Err(Error::setting(what, arm, format!("an index less than {arms}"))) }
    }

    pub(super) fn check_forget(&self, arm: usize) -> Result<()> {
        self.check_arm("the arm to forget", arm)?;
        self.state.observers.check_samples_may_leave("a session that forgets an arm")
    }
}
