//! A live session: ask which arm to pull, tell what came back, report the weights. The only mutable owner of evidence, and the
//! fold of its events (`fold.rs`).

mod ages;
mod bandwidth;
mod drift;
mod encode;
mod event;
mod feature_error;
mod fold;
mod journal;
mod observers;
mod pool;
mod pulls;
mod report;
mod retention;
mod samples;
mod select;
mod snapshot;
mod state;
mod stopping;
mod store;
mod stream;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::certainty::{Until, Verdict};
use crate::error::{Error, Result};
use crate::features::Features;
use crate::loss::{Loss, Ranges, SessionLoss};
use crate::policy::{AnyPolicy, Policy, PolicySpec};
use crate::settings::setters;
use crate::statistics::Statistics;
use fold::{NewSamples, Origin};
use pulls::PendingPull;
use state::State;

pub use crate::loss::Scores;
pub use bandwidth::ChosenBandwidth;
pub use event::{Answer, Asked, Decisions, Event, Known, KnownAs, SampleValues, Told};
pub use feature_error::FeatureError;
pub use journal::{Entry, Header, JournalReader, JournalWriter};
pub use pulls::Pull;
pub use report::{SessionArm, SessionReport, SuboptimalityBounds};
pub use retention::{Cap, Retention};
pub use select::{SELECTION_NOTE, Selection};
pub use snapshot::Snapshot;
pub use stopping::StopCheck;
pub use store::Storage;

/// How a session is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct SessionSettings {
    /// The policy; adaptive, unless said otherwise.
    pub policy: PolicySpec,
    /// The seed of every random choice.
    pub seed: u64,
    /// Samples per pull.
    pub batch: usize,
    /// How many pulls there will be, where that is known; Successive Halving plans by it.
    pub rounds: Option<usize>,
    /// How features of told samples are stored.
    pub storage: Storage,
    /// When it may stop; it then sees to it that every arm has samples enough to tell ([`Session::is_done`]).
    pub until: Option<Until>,
    /// Which samples count, and how many are held.
    pub retention: Retention,
    /// The chance of a false alarm of an arm, ever, if arms are watched for drift; `None` if they are not.
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
            retention: Retention::All,
            alarm: None,
        }
    }
}

setters! {
    SessionSettings {
        /// Sets the policy.
        policy: PolicySpec,
        /// Sets the seed of every random choice.
        seed: u64,
        /// Sets the number of samples per pull.
        batch: usize,
        /// Sets how many pulls there will be, if that is known.
        rounds: impl Into<Option<usize>>,
        /// Sets how features of told samples are stored.
        storage: Storage,
        /// Sets when the session may stop; never if `None`.
        until: impl Into<Option<Until>>,
        /// Sets which samples count, and how many are held.
        retention: Retention,
        /// Sets the chance of a false alarm per arm; no arm is watched for drift if `None`.
        alarm: impl Into<Option<f64>>,
        /// Sets which samples are kept.
        select: Selection,
    }
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
    Features(Box<SessionLoss>),
    /// The caller.
    Values,
}

impl Source {
    fn session_loss(&self) -> Option<&SessionLoss> {
        match self {
            Source::Features(loss) => Some(loss),
            Source::Values => None,
        }
    }

    fn loss(&self) -> Option<&Loss> {
        self.session_loss().map(SessionLoss::loss)
    }
}

/// Chooses arms by a policy and keeps the evidence.
///
/// Everything that changes a session is an [`Event`]. [`Session::ask`], [`Session::tell`] and the others make an event and
/// apply it; [`Session::decide`] and [`Session::perform`] do the same in steps, for a caller who keeps the events, and
/// [`Session::apply`] brings a session back from them.
///
/// ```
/// use modelmix::{Features, Inputs, Objective, Session, SessionSettings};
/// let loss = Objective::rke().with_bandwidth(1.0).prepare(Inputs::new())?;
/// let mut session = Session::new(["left", "right"], loss, &SessionSettings::default())?;
/// for round in 0..40 {
///     let pull = session.ask()?;
///     let sample = if pull.arm == "left" { [0.0, round as f32] } else { [9.0, round as f32] };
///     session.tell(pull.id, &Features::new(2, sample.to_vec())?)?;
/// }
/// assert_eq!(session.report()?.samples, 40);
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Session<P = AnyPolicy> {
    source: Source,
    state: State<P>,
    /// Hashing a reference takes a while, so it is done once, when it is first asked for.
    fingerprint: OnceLock<Option<u64>>,
}

impl<P> Session<P> {
    fn of(source: Source, state: State<P>) -> Self {
        Self { source, state, fingerprint: OnceLock::new() }
    }

    /// That of the loss ([`SessionLoss::fingerprint`]); `None` if the caller gives values.
    pub fn fingerprint(&self) -> Option<u64> {
        *self.fingerprint.get_or_init(|| self.source.session_loss().map(SessionLoss::fingerprint))
    }
}

impl Session<AnyPolicy> {
    /// A session over features, with one of the policies that come with the crate.
    ///
    /// If the bandwidth of the loss is open ([`Objective::prepare_for_session`](crate::Objective::prepare_for_session)), the session
    /// asks its arms evenly until each has ten samples, known ones included. It then fixes the bandwidth by the median rule
    /// ([`Session::chosen_bandwidth`]).
    ///
    /// # Errors
    /// No arms, equal names, a policy that needs what was not given, or an objective that only [`crate::solve`] takes.
    pub fn new<N: Into<String>>(
        arms: impl IntoIterator<Item = N>,
        loss: impl Into<SessionLoss>,
        settings: &SessionSettings,
    ) -> Result<Self> {
        let names: Vec<String> = arms.into_iter().map(Into::into).collect();
        let loss = loss.into();
        loss.loss().check_means()?;
        let policy = Self::policy_for(&names, &loss.loss().ranges(), settings)?;
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
        let session = Self::on_values_with_policy(names, policy, settings)?;
        let range = ranges.map_or(0.0, |ranges| ranges.linear.1 - ranges.linear.0);
        session.with_linear_range(range)
    }

    fn policy_for(names: &[String], ranges: &Result<Ranges>, settings: &SessionSettings) -> Result<AnyPolicy> {
        let budget = settings.rounds.map(|rounds| rounds.saturating_mul(settings.batch));
        settings.policy.build(names.len().max(1), ranges, budget, None)
    }
}

impl<P: Policy> Session<P> {
    /// A session over features with a policy of one's own; `settings.policy` is ignored.
    ///
    /// # Errors
    /// No arms, equal names, or an objective that only [`crate::solve`] takes.
    pub fn with_policy<N: Into<String>>(
        arms: impl IntoIterator<Item = N>,
        loss: impl Into<SessionLoss>,
        policy: P,
        settings: &SessionSettings,
    ) -> Result<Self> {
        let loss = loss.into();
        loss.loss().check_means()?;
        loss.loss().check_direction()?;
        let names: Vec<String> = arms.into_iter().map(Into::into).collect();
        loss.loss().check_arms(names.len())?;
        let state = State::new(names, policy, Some(&loss), settings)?;
        Ok(Self::of(Source::Features(Box::new(loss)), state))
    }

    /// A session over values with a policy of one's own; `settings.policy` is ignored.
    ///
    /// # Errors
    /// No arms, or equal names.
    pub fn on_values_with_policy<N: Into<String>>(
        arms: impl IntoIterator<Item = N>,
        policy: P,
        settings: &SessionSettings,
    ) -> Result<Self> {
        let state = State::new(arms.into_iter().map(Into::into).collect(), policy, None, settings)?;
        Ok(Self::of(Source::Values, state))
    }

    /// The same, with f of an arm's samples known to range over so much: bounds then allow for values that no sample had yet.
    pub(crate) fn with_linear_range(mut self, range: f64) -> Result<Self> {
        if !(range.is_finite() && range >= 0.0) {
            return Err(Error::setting("the range of f", range, "finite, its largest value not below its smallest"));
        }
        self.state.linear_range = range;
        Ok(self)
    }

    /// Which arm to pull next. May be called again before earlier pulls are answered: those in flight are reckoned with.
    ///
    /// # Errors
    /// If the policy finds no choice, such as with values of a κ that is not positive semidefinite.
    pub fn ask(&mut self) -> Result<Pull> {
        let (asked, random) = self.choose()?;
        self.state.random = random;
        Ok(self.commit_asked(asked))
    }

    /// What came back of a pull: the features of its samples, at least one and at most as many as were asked for.
    ///
    /// # Errors
    /// A pull that is not in flight, features that do not fit. The session is then as it was before.
    pub fn tell(&mut self, pull: u64, features: &Features) -> Result<()> {
        self.tell_scored(pull, features, &Scores::new())
    }

    /// The same with the scores that the objective asks for, one value per sample.
    ///
    /// # Errors
    /// As [`Session::tell`], and scores that are missing.
    pub fn tell_scored(&mut self, pull: u64, features: &Features, scores: &Scores) -> Result<()> {
        let origin = Origin::Pull(self.state.pulls.find(pull)?);
        let given = NewSamples::Features(features.width(), features.values(), scores);
        self.take(origin, given, &Decisions::default()).map(drop)
    }

    /// What came back of a pull, as numbers. κ of a later sample of the same pull counts the earlier ones.
    ///
    /// # Errors
    /// A pull that is not in flight, lists of other lengths, values that are not finite. The session is then as it was.
    pub fn tell_values(&mut self, pull: u64, samples: &[Values<'_>]) -> Result<()> {
        let origin = Origin::Pull(self.state.pulls.find(pull)?);
        self.take(origin, NewSamples::Values(samples.to_vec()), &Decisions::default()).map(drop)
    }

    /// Samples of an arm that were recorded before, or elsewhere, and not asked for (a warm start). They count as evidence: in
    /// K̂, f̂, widths and bounds, and for [`SessionSettings::until`], so that an arm with known samples needs no first pull.
    /// Unless they are [`KnownAs::Collected`], they are no part of the pool whose shares, loss and number are reported.
    ///
    /// They must be draws of what the arm will give: no selection, no earlier version of the model. A session that keeps only
    /// some samples never keeps them, and its drift detectors do not see them. They are evicted and fade as others do, but make
    /// no other sample fade. In a window they take places like any new sample.
    ///
    /// Many samples are taken in steps, so that κ among all of them is never in memory at once.
    ///
    /// # Errors
    /// An arm that is not there, features or scores that do not fit. The session is then as it was before.
    pub fn known(&mut self, arm: usize, features: &Features, scores: &Scores, known_as: KnownAs) -> Result<()> {
        self.check_arm("the arm of known samples", arm)?;
        let given = NewSamples::Features(features.width(), features.values(), scores);
        self.take(Origin::Known(arm, known_as), given, &Decisions::default()).map(drop)
    }

    /// The same as numbers: κ against all samples before it, known ones included.
    ///
    /// # Errors
    /// An arm that is not there, lists of other lengths, values that are not finite. The session is then as it was before.
    pub fn known_values(&mut self, arm: usize, samples: &[Values<'_>], known_as: KnownAs) -> Result<()> {
        self.check_arm("the arm of known samples", arm)?;
        let given = NewSamples::Values(samples.to_vec());
        self.take(Origin::Known(arm, known_as), given, &Decisions::default()).map(drop)
    }

    /// Gives a pull up: nothing came back, or nothing ever will. An arm that fails is left alone for a while.
    ///
    /// # Errors
    /// A pull that is not in flight.
    pub fn abandon(&mut self, pull: u64) -> Result<()> {
        let pending = self.state.pulls.find(pull)?;
        self.state.pulls.abandon(pending);
        Ok(())
    }

    /// Forgets all samples of an arm, so that it is learned anew, such as after its alarm: `changed` in the report. Pulls in
    /// flight stay. A session on values then takes κ against the samples that are left, in the order told.
    ///
    /// # Errors
    /// An arm that is not there; a session that is to stop, or that keeps the better half of its samples.
    pub fn forget(&mut self, arm: usize) -> Result<()> {
        self.check_forget(arm)?;
        let terms =
            self.source.loss().map_or(0, |loss| loss.terms().iter().filter(|term| term.kappa.is_some()).count());
        self.state.samples.forget(arm, terms);
        if let Some(alarm) = &mut self.state.observers.drift {
            alarm.forget(arm);
        }
        Ok(())
    }

    /// The weights as far as they are known, and how the samples collected do. Bounds are left out, since they take a while
    /// ([`Session::report_with_bounds`]).
    ///
    /// # Errors
    /// Values of a κ that is not positive semidefinite.
    pub fn report(&self) -> Result<SessionReport> {
        SessionReport::new(self)
    }

    /// The report with both bounds: what the session is sure of now.
    ///
    /// # Errors
    /// As [`Session::report`].
    pub fn report_with_bounds(&self) -> Result<SessionReport> {
        let SuboptimalityBounds { weights, shares } = self.bounds()?;
        Ok(SessionReport { bound_on_weights: weights, bound_on_shares: shares, ..self.report()? })
    }

    /// How far from the optimum the weights and the shares can be.
    ///
    /// # Errors
    /// As [`Session::report`].
    pub fn bounds(&self) -> Result<SuboptimalityBounds> {
        SuboptimalityBounds::new(self)
    }

    /// Whether what [`SessionSettings::until`] asks for is reached. Once it is, it stays so: what is near the optimum is the
    /// mixture of [`Session::verdict`].
    pub fn is_done(&self) -> bool {
        self.verdict().is_some()
    }

    /// What the session may be stopped by: which mixture is how near the optimum; `None` if that is not known yet, or was not
    /// asked for.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.state.observers.stopping.as_ref()?.verdict()
    }

    /// The sums over all samples that count, known ones included.
    pub fn statistics(&self) -> &Statistics {
        &self.state.samples.statistics
    }

    /// The proportions of the samples collected, n/t; all zero before the first.
    pub fn shares(&self) -> Vec<f64> {
        self.state.samples.shares()
    }

    /// L(P̂), the loss of the samples collected, the constant included; `None` before the first.
    pub fn empirical_loss(&self) -> Option<f64> {
        self.pool_loss().map(|loss| loss + self.constant())
    }

    /// The same without the constant, which a session on values does not know.
    pub(crate) fn pool_loss(&self) -> Option<f64> {
        self.state.samples.empirical_loss().filter(|_| !self.is_bandwidth_open())
    }

    /// Whether each sample held is kept, in the order told; all are, unless `select` says otherwise. Known ones never are.
    pub fn kept(&self) -> Vec<bool> {
        let samples = &self.state.samples;
        let rows = 0..samples.statistics.rows();
        let kept_set = self.state.observers.kept.as_ref();
        kept_set
            .map_or_else(|| rows.map(|row| samples.is_collected(row)).collect(), |kept_set| kept_set.is_kept().to_vec())
    }

    /// How many samples are kept.
    pub(crate) fn kept_count(&self) -> usize {
        let kept_set = self.state.observers.kept.as_ref();
        kept_set.map_or_else(|| self.state.samples.collected().iter().sum(), select::KeptSet::count)
    }

    /// L of the kept samples, the constant included; `None` if all are kept, or before the first.
    pub fn kept_loss(&self) -> Option<f64> {
        self.state.observers.kept.as_ref()?.loss().map(|loss| loss + self.constant())
    }

    fn constant(&self) -> f64 {
        self.source.loss().map_or(0.0, Loss::constant)
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.state.policy
    }

    /// The arms' names.
    pub fn arms(&self) -> &[String] {
        &self.state.names
    }

    /// The features of the samples held, in the order told: all, unless there is a cap or some were forgotten. `None` if
    /// values were told, or nothing yet.
    pub fn samples(&self) -> Option<Features> {
        self.state.samples.features()
    }

    /// The pulls in flight, oldest first.
    pub fn in_flight(&self) -> Vec<Pull> {
        let pull = |pending: &PendingPull| Pull {
            id: pending.id,
            index: pending.arm,
            arm: self.state.names[pending.arm].clone(),
            count: pending.count,
        };
        self.state.pulls.pending.iter().map(pull).collect()
    }
}
