//! A live session: ask which arm to pull, tell what came back, report the weights. The only mutable owner of evidence.

mod ages;
mod alarm;
mod feature_error;
mod forget;
mod keeping;
mod report;
mod select;
mod state;
mod stop;
mod store;
mod stream;

use serde::{Deserialize, Serialize};

use crate::certainty::Until;
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::loss::{Loss, Ranges, Scores};
use crate::policy::{AnyPolicy, Evidence, Policy, PolicySpec};
use crate::statistics::Statistics;
use state::{PendingPull, State};

pub use feature_error::FeatureError;
pub use forget::Forget;
pub use report::{SessionArm, SessionReport};
pub use select::{NOTE as SELECTION_NOTE, Selection};
pub use store::Storage;
pub use stream::StreamSettings;

/// How a session is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionSettings {
    /// The policy; adaptive, unless said otherwise.
    pub policy: PolicySpec,
    /// The seed of every random choice.
    pub seed: u64,
    /// How many samples a pull asks for.
    pub batch: usize,
    /// How many pulls there will be, where that is known; Successive Halving plans by it.
    pub rounds: Option<usize>,
    /// How features of told samples are stored.
    pub storage: Storage,
    /// When it may stop; it then sees to it that every arm has samples enough to tell ([`Session::is_done`]).
    pub until: Option<Until>,
    /// How many samples are held, where not all are: the session then runs without end in the same memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSettings>,
    /// What is forgotten, where models may change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forget: Option<Forget>,
    /// The chance of a false alarm of an arm, ever, where arms are watched for changes; nothing where they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarm: Option<f64>,
    /// Which samples are kept, where some may be discarded; the policy learns from all.
    pub select: Selection,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            policy: PolicySpec::Adaptive,
            seed: 0,
            batch: 1,
            rounds: None,
            storage: Storage::Single,
            select: Selection::All,
            until: None,
            stream: None,
            forget: None,
            alarm: None,
        }
    }
}

/// A request to an arm: give `count` samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pull {
    /// What to tell or abandon.
    pub id: u64,
    /// The arm, as an index.
    pub arm: usize,
    /// The arm's name.
    pub name: String,
    /// How many samples are asked for.
    pub count: usize,
}

/// One sample as numbers, for callers who have neither features nor a kernel of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values<'a> {
    /// κ(new, each earlier sample), in the order in which samples were told.
    pub kappa: &'a [f64],
    /// κ(new, new).
    pub own: f64,
    /// f(new).
    pub linear: f64,
}

/// Where κ and f come from.
#[derive(Clone, Debug)]
enum Source {
    /// Features, evaluated by a loss.
    Features(Box<Loss>),
    /// The caller.
    Values,
}

/// Chooses arms by a policy and keeps the evidence.
///
/// ```
/// use modelmix::{Features, Inputs, Objective, Session, SessionSettings};
/// let loss = Objective::rke().with_bandwidth(1.0).prepare(Inputs::new())?;
/// let mut session = Session::new(["left", "right"], loss, &SessionSettings::default())?;
/// for round in 0..40 {
///     let pull = session.ask()?;
///     let sample = if pull.name == "left" { [0.0, round as f32] } else { [9.0, round as f32] };
///     session.tell(pull.id, &Features::new(2, sample.to_vec())?)?;
/// }
/// assert_eq!(session.report()?.samples, 40);
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Session<P = AnyPolicy> {
    source: Source,
    state: State<P>,
}

/// A session as data: serialise it as you like, and [`Session::restore`] it with the same loss.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot<P = AnyPolicy> {
    version: u32,
    /// Of the loss; nothing where the caller gives values.
    fingerprint: Option<u64>,
    state: State<P>,
}

const SNAPSHOT_VERSION: u32 = 1;

impl<P> Snapshot<P> {
    /// The arms' names.
    pub fn arms(&self) -> &[String] {
        &self.state.names
    }
}

impl Session<AnyPolicy> {
    /// A session over features, with one of the policies that come with the crate.
    ///
    /// # Errors
    /// No arms, equal names, a policy that needs what was not given, or an objective that only [`crate::solve`] takes.
    pub fn new<N: Into<String>>(
        arms: impl IntoIterator<Item = N>,
        loss: Loss,
        settings: &SessionSettings,
    ) -> Result<Self> {
        let names: Vec<String> = arms.into_iter().map(Into::into).collect();
        loss.check_means()?;
        let policy = Self::policy_for(&names, &loss.ranges(), settings)?;
        Self::with_policy(names, loss, policy, settings)
    }

    /// A session over values: the caller gives κ and f of every sample, and the ranges where the policy needs them.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn on_values<N: Into<String>>(
        arms: impl IntoIterator<Item = N>,
        ranges: Option<Ranges>,
        settings: &SessionSettings,
    ) -> Result<Self> {
        let names: Vec<String> = arms.into_iter().map(Into::into).collect();
        let ranges = ranges.ok_or_else(|| {
            Error::missing(
                "a session on values",
                "the ranges of κ and f for this policy; give them, or use the adaptive policy, which needs none",
            )
        });
        let policy = Self::policy_for(&names, &ranges, settings)?;
        let mut session = Self::on_values_with_policy(names, policy, settings)?;
        if let (Some(looks), Ok(ranges)) = (&mut session.state.looks, ranges) {
            looks.set_range(ranges.linear.1 - ranges.linear.0);
        }
        Ok(session)
    }

    fn policy_for(names: &[String], ranges: &Result<Ranges>, settings: &SessionSettings) -> Result<AnyPolicy> {
        let budget = settings.rounds.map(|rounds| rounds.saturating_mul(settings.batch));
        settings.policy.build(names.len().max(1), ranges, budget, None)
    }
}

impl<P: Policy> Session<P> {
    /// A session over features with a policy of one's own; `settings.policy` is not looked at.
    ///
    /// # Errors
    /// No arms, equal names, or an objective that only [`crate::solve`] takes.
    pub fn with_policy<N: Into<String>>(
        arms: impl IntoIterator<Item = N>,
        loss: Loss,
        policy: P,
        settings: &SessionSettings,
    ) -> Result<Self> {
        loss.check_means()?;
        loss.check_direction()?;
        let width = loss.width();
        let names: Vec<String> = arms.into_iter().map(Into::into).collect();
        loss.check_arms(names.len())?;
        let mut state = State::new(names, policy, width, settings)?;
        state.keep(settings, Some(&loss))?;
        if let Some(looks) = &mut state.looks {
            looks.set_range(loss.linear_spread());
        }
        Ok(Self { state, source: Source::Features(Box::new(loss)) })
    }

    /// A session over values with a policy of one's own; `settings.policy` is not looked at.
    ///
    /// # Errors
    /// No arms, or equal names.
    pub fn on_values_with_policy<N: Into<String>>(
        arms: impl IntoIterator<Item = N>,
        policy: P,
        settings: &SessionSettings,
    ) -> Result<Self> {
        let mut state = State::new(arms.into_iter().map(Into::into).collect(), policy, None, settings)?;
        state.keep(settings, None)?;
        Ok(Self { state, source: Source::Values })
    }

    /// Which arm to pull next. May be called again before earlier pulls are answered: those in flight are reckoned with.
    ///
    /// # Errors
    /// When the policy finds no choice, such as with values of a κ that is not positive semidefinite.
    pub fn ask(&mut self) -> Result<Pull> {
        let state = &mut self.state;
        let pending = state.pending_samples();
        let mut candidates: Vec<usize> =
            (0..state.names.len()).filter(|&arm| state.rests[arm].until <= state.asked).collect();
        if candidates.is_empty() {
            candidates.extend(0..state.names.len());
        }
        let arm = match state.wanted(&pending, &candidates) {
            Some(arm) => arm,
            None => state.policy.choose(&Evidence::new(&state.statistics, &pending, &candidates), &mut state.random)?,
        };
        if arm >= state.names.len() {
            return Err(Error::setting(
                &format!("the choice of policy {}", state.policy.name()),
                arm,
                format!("an arm, less than {}", state.names.len()),
            ));
        }
        let pull = Pull { id: state.asked, arm, name: state.names[arm].clone(), count: state.batch };
        state.pending.push(PendingPull { id: pull.id, arm, count: pull.count });
        state.asked += 1;
        Ok(pull)
    }

    /// What came back of a pull: the features of its samples, at least one and at most as many as were asked for.
    ///
    /// # Errors
    /// A pull that is not in flight, features that do not fit. The session is then as it was before.
    pub fn tell(&mut self, pull: u64, features: &Features) -> Result<()> {
        self.tell_scored(pull, features, &Scores::new())
    }

    /// The same with the scores that the objective asks for, one value a sample.
    ///
    /// # Errors
    /// As [`Session::tell`], and scores that are missing.
    pub fn tell_scored(&mut self, pull: u64, features: &Features, scores: &Scores) -> Result<()> {
        let state = &mut self.state;
        let pending = state.pending_pull(pull)?;
        let Source::Features(loss) = &self.source else {
            return Err(
                state.answer(pending, "this session is on values and cannot evaluate features; tell it values".into())
            );
        };
        state.check_count(pending, features.len())?;
        if let Some(width) = state.width.filter(|&width| width != features.width()) {
            let found = features.width();
            let problem = format!(
                "its features have {found} columns where {width} are expected; use the same encoder throughout"
            );
            return Err(state.answer(pending, problem));
        }
        // What will be held is what is evaluated, in half precision too.
        let rounded = state.held.rounded(features.view());
        if rounded.as_ref().is_some_and(|values| values.iter().any(|value| !value.is_finite())) {
            let problem = "a feature is too large for half precision, which ends at 65,504; scale them down, or store them in single precision";
            return Err(state.answer(pending, problem.into()));
        }
        let rows = rounded.as_ref().map_or(features.view(), |values| Rows::new(features.width(), values));
        loss.check(rows).map_err(|error| state.answer(pending, error.to_string()))?;
        let linear = loss.linear(pending.arm, rows, scores).map_err(|error| match error {
            Error::Stopped | Error::Memory { .. } | Error::Device { .. } => error,
            error => state.answer(pending, error.to_string()),
        })?;
        // All against those held at once, and then among themselves: tiles do for a batch what rows do for one sample.
        let (mut against_held, mut among) = (Vec::new(), Vec::new());
        state.held.attach(loss.engine(), rows.width())?;
        state.held.kappa(loss, rows, &mut against_held)?;
        if rows.len() > 1 {
            loss.kappa_rows(rows, rows, &mut among)?;
        }
        let own: Vec<f64> = rows.iter().map(|row| loss.kappa_self(row)).collect();
        if !against_held.iter().chain(&among).chain(&own).chain(&linear).all(|value| value.is_finite()) {
            let problem =
                "κ or f of its features is not finite; they are too large for this kernel, so scale them down";
            return Err(state.answer(pending, problem.into()));
        }
        let begun = state.stream.as_ref().filter(|stream| stream.has_begun());
        let mapped = begun.map(|stream| stream.map(loss, rows)).transpose()?;
        // From here on the answer is taken whole: nothing stops it.
        let loss = &loss.unstoppable();
        state.width = Some(rows.width());
        let (held, arms) = (state.statistics.rows(), state.names.len());
        for (index, (row, &f)) in rows.iter().zip(&linear).enumerate() {
            let mut kappa = against_held[index * held..(index + 1) * held].to_vec();
            kappa.extend(among.chunks(rows.len()).nth(index).into_iter().flat_map(|row| &row[..index]));
            state.fade();
            let beyond = mapped.as_ref().zip(state.stream.as_ref());
            let beyond = beyond.map(|(mapped, stream)| stream.beyond(loss, mapped, index, arms));
            state.take(pending.arm, row, &kappa, beyond.as_deref(), own[index], f)?;
        }
        state.settle(pending);
        state.look();
        state.trim(loss)?;
        for (row, &f) in rows.iter().zip(&linear) {
            state.watch(loss, pending.arm, row, f)?;
        }
        Ok(())
    }

    /// What came back of a pull, as numbers. κ of a later sample of the same pull counts the earlier ones.
    ///
    /// # Errors
    /// A pull that is not in flight, lists of other lengths, values that are not finite. The session is then as it was.
    pub fn tell_values(&mut self, pull: u64, samples: &[Values<'_>]) -> Result<()> {
        let state = &mut self.state;
        let pending = state.pending_pull(pull)?;
        if matches!(self.source, Source::Features(_)) {
            return Err(state
                .answer(pending, "this session evaluates features; tell it features, or start it on values".into()));
        }
        state.check_count(pending, samples.len())?;
        for (index, Values { kappa, own, linear }) in samples.iter().enumerate() {
            let expected = state.statistics.rows() + index;
            if kappa.len() != expected {
                return Err(state.answer(
                    pending,
                    format!(
                        "sample {index} has {} values of κ for {expected} earlier samples; give one for each",
                        kappa.len()
                    ),
                ));
            }
            if !kappa.iter().chain([own, linear]).all(|value| value.is_finite()) {
                return Err(state.answer(
                    pending,
                    format!("sample {index} has a value that is not finite; κ and f must be numbers"),
                ));
            }
        }
        for Values { kappa, own, linear } in samples {
            state.fade();
            state.record(pending.arm, kappa, None, *own, *linear);
        }
        state.settle(pending);
        state.look();
        Ok(())
    }

    /// Gives a pull up: nothing came back, or nothing ever will. An arm that fails is left alone for a while.
    ///
    /// # Errors
    /// A pull that is not in flight.
    pub fn abandon(&mut self, pull: u64) -> Result<()> {
        let state = &mut self.state;
        let PendingPull { id, arm, .. } = state.pending_pull(pull)?;
        state.pending.retain(|pending| pending.id != id);
        state.abandoned[arm] += 1;
        let rest = &mut state.rests[arm];
        // Failures without an answer between them count once: pulls in flight that fail together, or an outage of all.
        if rest.failures == 0 || state.answered > rest.answered {
            rest.failures += 1;
        }
        rest.answered = state.answered;
        rest.until = state.asked + (1 << rest.failures.min(10)) - 1;
        Ok(())
    }

    /// Forgets all samples of an arm, so that it is learned anew, such as after its alarm: `changed` in the report. Pulls in
    /// flight stay. A session on values then takes κ against the samples that are left, in the order told.
    ///
    /// # Errors
    /// An arm that is not there; a session that is to stop, or that keeps the better half of its samples.
    pub fn forget(&mut self, arm: usize) -> Result<()> {
        let arms = self.state.names.len();
        if arm >= arms {
            return Err(Error::setting("the arm to forget", arm, format!("an arm, less than {arms}")));
        }
        if self.state.needs_all() {
            return Err(self.state.refuse_to_lose("a session that forgets an arm"));
        }
        self.state.forget_arm(arm)
    }

    /// The weights as far as they are known, and how the samples held do.
    ///
    /// # Errors
    /// Values of a κ that is not positive semidefinite.
    pub fn report(&self) -> Result<SessionReport> {
        SessionReport::new(self)
    }

    /// The sums over all samples told.
    pub fn statistics(&self) -> &Statistics {
        &self.state.statistics
    }

    /// Whether each sample held is kept, in the order told; all are, unless `select` says otherwise.
    pub fn kept(&self) -> Vec<bool> {
        let book = self.state.book.as_ref();
        book.map_or_else(|| vec![true; self.state.statistics.rows()], |book| book.is_kept().to_vec())
    }

    /// How many samples are kept.
    pub(crate) fn kept_count(&self) -> usize {
        self.state.book.as_ref().map_or(self.state.statistics.len(), select::Book::count)
    }

    /// L of the kept samples, the constant included; nothing where all are kept, or before the first.
    pub fn kept_loss(&self) -> Option<f64> {
        let constant = match &self.source {
            Source::Features(loss) => loss.constant(),
            Source::Values => 0.0,
        };
        self.state.book.as_ref()?.loss().map(|loss| loss + constant)
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.state.policy
    }

    /// The arms' names.
    pub fn arms(&self) -> &[String] {
        &self.state.names
    }

    /// The features of the samples held, in the order told: all, unless there is a cap. Nothing where values were told, or
    /// nothing yet.
    pub fn samples(&self) -> Option<Features> {
        let features = self.state.width.and_then(|width| self.state.held.features(width).ok())?;
        match &self.state.ages {
            Some(ages) => features.select(ages.order()).ok(),
            None => Some(features),
        }
    }

    /// The pulls in flight, oldest first.
    pub fn in_flight(&self) -> Vec<Pull> {
        let pull = |pending: &PendingPull| Pull {
            id: pending.id,
            arm: pending.arm,
            name: self.state.names[pending.arm].clone(),
            count: pending.count,
        };
        self.state.pending.iter().map(pull).collect()
    }
}

impl<P: Clone> Session<P> {
    /// All of the session but its loss, as data.
    pub fn snapshot(&self) -> Snapshot<P> {
        Snapshot { version: SNAPSHOT_VERSION, fingerprint: self.fingerprint(), state: self.state.clone() }
    }
}

impl<P> Session<P> {
    /// That of the loss ([`Loss::fingerprint`]); nothing where the caller gives values.
    pub fn fingerprint(&self) -> Option<u64> {
        match &self.source {
            Source::Features(loss) => Some(loss.fingerprint()),
            Source::Values => None,
        }
    }
}

impl<P: Policy> Session<P> {
    /// The session as it was, to the last bit: every later choice is the one that it would have made. `loss` is the one
    /// that it was started with, or nothing for a session on values.
    ///
    /// # Errors
    /// Another loss, a snapshot of a later version, or one that is damaged.
    pub fn restore(snapshot: Snapshot<P>, loss: Option<Loss>) -> Result<Self> {
        let Snapshot { version, fingerprint, state } = snapshot;
        let refuse = |problem: &str| Err(Error::Snapshot { problem: problem.into() });
        if version != SNAPSHOT_VERSION {
            return refuse(&format!(
                "it has version {version} and this release reads {SNAPSHOT_VERSION}; use the release that wrote it"
            ));
        }
        if fingerprint != loss.as_ref().map(Loss::fingerprint) {
            return refuse("it belongs to another objective, kernel or reference; prepare the loss as it was");
        }
        state.check(loss.as_ref())?;
        if !state.policy.fits(state.names.len()) {
            return refuse("its policy does not fit its arms; it is damaged, so start from an earlier one");
        }
        Ok(Self { source: loss.map_or(Source::Values, |loss| Source::Features(Box::new(loss))), state })
    }
}
