//! A live session: ask which arm to pull, tell the samples, report the weights. A session is the only mutable owner of its
//! evidence, and a fold over its events (`fold.rs`).

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

/// The settings of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct SessionSettings {
    /// The policy; adaptive by default.
    pub policy: PolicySpec,
    /// The random seed.
    pub seed: u64,
    /// Samples per pull.
    pub batch: usize,
    /// The number of pulls, if it is known; Successive Halving plans with it.
    pub rounds: Option<usize>,
    /// How features of told samples are stored.
    pub storage: Storage,
    /// When the session may stop early. It then also pulls arms until each has enough samples for a confidence statement
    /// ([`Session::is_done`]).
    pub until: Option<Until>,
    /// Which samples count, and how many are held.
    pub retention: Retention,
    /// The false-alarm probability of drift detection per arm, over the whole session; `None` for no drift detection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarm: Option<f64>,
    /// Which samples are kept, if some may be discarded; the policy learns from all.
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
        /// Sets the random seed.
        seed: u64,
        /// Sets the number of samples per pull.
        batch: usize,
        /// Sets the number of pulls, if it is known.
        rounds: impl Into<Option<usize>>,
        /// Sets how features of told samples are stored.
        storage: Storage,
        /// Sets when the session may stop early; never if `None`.
        until: impl Into<Option<Until>>,
        /// Sets which samples count, and how many are held.
        retention: Retention,
        /// Sets the false-alarm probability of drift detection per arm; no drift detection if `None`.
        alarm: impl Into<Option<f64>>,
        /// Sets which samples are kept.
        select: Selection,
    }
}

/// One sample as values of κ and f, for callers without features or with a kernel of their own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values<'a> {
    /// κ(new, each earlier sample), in the order told.
    pub kappa: &'a [f64],
    /// κ(new, new).
    pub own: f64,
    /// f(new).
    pub linear: f64,
}

/// The source of κ and f.
#[derive(Clone, Debug)]
enum Source {
    /// A loss, which evaluates features.
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

/// Chooses arms by a policy, collects their samples and estimates the best mixture.
///
/// Every change of a session is an [`Event`]. Methods such as [`Session::ask`] and [`Session::tell`] create an event and apply
/// it. [`Session::decide`] and [`Session::perform`] do the same in two steps, for callers that store the events, and
/// [`Session::apply`] restores a session from them.
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
    /// Hashing a reference takes time, so it is done once, at the first use.
    fingerprint: OnceLock<Option<u64>>,
}

impl<P> Session<P> {
    fn of(source: Source, state: State<P>) -> Self {
        Self { source, state, fingerprint: OnceLock::new() }
    }

    /// The fingerprint of the loss ([`SessionLoss::fingerprint`]); `None` if the caller gives values.
    pub fn fingerprint(&self) -> Option<u64> {
        *self.fingerprint.get_or_init(|| self.source.session_loss().map(SessionLoss::fingerprint))
    }
}

impl Session<AnyPolicy> {
    /// A session on features, with a built-in policy.
    ///
    /// If the loss has no bandwidth yet ([`Objective::prepare_for_session`](crate::Objective::prepare_for_session)), the
    /// session asks its arms evenly until each has ten samples, known ones included. It then fixes the bandwidth by the median
    /// rule ([`Session::chosen_bandwidth`]).
    ///
    /// # Errors
    /// No arms, equal names, a policy with a missing requirement, or an objective that only [`crate::solve`] supports.
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

    /// A session on values: the caller gives κ and f of every sample, and their ranges if the policy needs them.
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
    /// A session on features with a custom policy; `settings.policy` is ignored.
    ///
    /// # Errors
    /// No arms, equal names, or an objective that only [`crate::solve`] supports.
    pub fn with_policy<N: Into<String>>(
        arms: impl IntoIterator<Item = N>,
        loss: impl Into<SessionLoss>,
        policy: P,
        settings: &SessionSettings,
    ) -> Result<Self> {
        let loss = loss.into();
        loss.loss().check_means()?;
        loss.loss().check_direction()?;
        // Snapshots and journals contain its fingerprint.
        loss.loss().download()?;
        let names: Vec<String> = arms.into_iter().map(Into::into).collect();
        loss.loss().check_arms(names.len())?;
        let state = State::new(names, policy, Some(&loss), settings)?;
        Ok(Self::of(Source::Features(Box::new(loss)), state))
    }

    /// A session on values with a custom policy; `settings.policy` is ignored.
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

    /// The same session with a known range of f per arm, so that bounds allow for values that no sample has had yet.
    pub(crate) fn with_linear_range(mut self, range: f64) -> Result<Self> {
        if !(range.is_finite() && range >= 0.0) {
            return Err(Error::setting(
                "the range of f",
                range,
                "finite, with a largest value that is not below the smallest",
            ));
        }
        self.state.linear_range = range;
        Ok(self)
    }

    /// The next arm to pull. May be called again before earlier pulls are answered; pulls in flight are taken into account.
    ///
    /// # Errors
    /// If the policy finds no choice, for example because κ is not positive semidefinite.
    pub fn ask(&mut self) -> Result<Pull> {
        let (asked, random) = self.choose()?;
        self.state.random = random;
        Ok(self.commit_asked(asked))
    }

    /// Answers a pull with the features of its samples: at least one, and at most as many as were asked for.
    ///
    /// # Errors
    /// A pull that is not in flight, or features that do not fit. The session is then unchanged.
    pub fn tell(&mut self, pull: u64, features: &Features) -> Result<()> {
        self.tell_scored(pull, features, &Scores::new())
    }

    /// Answers a pull with features and the scores that the objective needs, one value per sample.
    ///
    /// # Errors
    /// As [`Session::tell`], and missing scores.
    pub fn tell_scored(&mut self, pull: u64, features: &Features, scores: &Scores) -> Result<()> {
        let origin = Origin::Pull(self.state.pulls.find(pull)?);
        let given = NewSamples::Features(features.width(), features.host()?.values(), scores);
        self.take(origin, given, &Decisions::default()).map(drop)
    }

    /// Answers a pull with values of κ and f. κ of a later sample of the same pull includes the earlier ones.
    ///
    /// # Errors
    /// A pull that is not in flight, lists of other lengths, or values that are not finite. The session is then unchanged.
    pub fn tell_values(&mut self, pull: u64, samples: &[Values<'_>]) -> Result<()> {
        let origin = Origin::Pull(self.state.pulls.find(pull)?);
        self.take(origin, NewSamples::Values(samples.to_vec()), &Decisions::default()).map(drop)
    }

    /// Adds known samples of an arm, recorded earlier or elsewhere (a warm start). They count as evidence: in K̂, f̂, widths
    /// and bounds, and for [`SessionSettings::until`], so that an arm with known samples needs no first pull. Unless they are
    /// [`KnownAs::Collected`], they are not part of the pool whose shares, loss and size are reported.
    ///
    /// They must be draws from the arm as it is now: not a selection, and not from an earlier version of the model. A session
    /// that keeps only some samples never keeps known ones, and its drift detectors ignore them. They are evicted and fade like
    /// other samples, but do not make others fade. In a window they take places like any new sample.
    ///
    /// Many samples are added in steps, so that κ among all of them is never in memory at once.
    ///
    /// # Errors
    /// An unknown arm, or features or scores that do not fit. The session is then unchanged.
    pub fn known(&mut self, arm: usize, features: &Features, scores: &Scores, known_as: KnownAs) -> Result<()> {
        self.check_arm("the arm of known samples", arm)?;
        let given = NewSamples::Features(features.width(), features.host()?.values(), scores);
        self.take(Origin::Known(arm, known_as), given, &Decisions::default()).map(drop)
    }

    /// Adds known samples as values: κ against all samples before each, known ones included.
    ///
    /// # Errors
    /// An unknown arm, lists of other lengths, or values that are not finite. The session is then unchanged.
    pub fn known_values(&mut self, arm: usize, samples: &[Values<'_>], known_as: KnownAs) -> Result<()> {
        self.check_arm("the arm of known samples", arm)?;
        let given = NewSamples::Values(samples.to_vec());
        self.take(Origin::Known(arm, known_as), given, &Decisions::default()).map(drop)
    }

    /// Abandons a pull that failed or will not be answered. An arm that fails is not asked for a while.
    ///
    /// # Errors
    /// A pull that is not in flight.
    pub fn abandon(&mut self, pull: u64) -> Result<()> {
        let pending = self.state.pulls.find(pull)?;
        self.state.pulls.abandon(pending);
        Ok(())
    }

    /// Forgets all samples of an arm, so that it is learned again, for example after a drift alarm (`changed` in the report).
    /// Pulls in flight remain. A session on values then takes κ against the remaining samples, in the order told.
    ///
    /// # Errors
    /// An unknown arm; a session with a stopping rule, or one that keeps the better half of its samples.
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

    /// The estimated weights, and the loss of the collected samples. Bounds are left out, because they take longer
    /// ([`Session::report_with_bounds`]).
    ///
    /// # Errors
    /// κ that is not positive semidefinite.
    pub fn report(&self) -> Result<SessionReport> {
        SessionReport::new(self)
    }

    /// The report with both suboptimality bounds at the current state.
    ///
    /// # Errors
    /// As [`Session::report`].
    pub fn report_with_bounds(&self) -> Result<SessionReport> {
        let SuboptimalityBounds { weights, shares } = self.bounds()?;
        Ok(SessionReport { bound_on_weights: weights, bound_on_shares: shares, ..self.report()? })
    }

    /// Bounds on the suboptimality of the weights and of the shares.
    ///
    /// # Errors
    /// As [`Session::report`].
    pub fn bounds(&self) -> Result<SuboptimalityBounds> {
        SuboptimalityBounds::new(self)
    }

    /// Whether the goal of [`SessionSettings::until`] is reached. It then stays reached: the mixture of [`Session::verdict`] is
    /// near the optimum.
    pub fn is_done(&self) -> bool {
        self.verdict().is_some()
    }

    /// The verdict that allows stopping: a mixture, and how near the optimum it is; `None` before it is reached, or without a
    /// stopping rule.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.state.observers.stopping.as_ref()?.verdict()
    }

    /// The sums over all samples that count, known ones included.
    pub fn statistics(&self) -> &Statistics {
        &self.state.samples.statistics
    }

    /// The proportions n/t of the collected samples; all zero before the first.
    pub fn shares(&self) -> Vec<f64> {
        self.state.samples.shares()
    }

    /// L(P̂), the loss of the collected samples, constant included; `None` before the first.
    pub fn empirical_loss(&self) -> Option<f64> {
        self.pool_loss().map(|loss| loss + self.constant())
    }

    /// The same loss without the constant, which a session on values does not know.
    pub(crate) fn pool_loss(&self) -> Option<f64> {
        self.state.samples.empirical_loss().filter(|_| !self.is_bandwidth_open())
    }

    /// Whether each held sample is kept, in the order told; all are by default. Known samples never are.
    pub fn kept(&self) -> Vec<bool> {
        let samples = &self.state.samples;
        let rows = 0..samples.statistics.rows();
        let kept_set = self.state.observers.kept.as_ref();
        kept_set
            .map_or_else(|| rows.map(|row| samples.is_collected(row)).collect(), |kept_set| kept_set.is_kept().to_vec())
    }

    /// The number of kept samples.
    pub(crate) fn kept_count(&self) -> usize {
        let kept_set = self.state.observers.kept.as_ref();
        kept_set.map_or_else(|| self.state.samples.collected().iter().sum(), select::KeptSet::count)
    }

    /// L of the kept samples, constant included; `None` if all are kept, or before the first.
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

    /// The names of the arms.
    pub fn arms(&self) -> &[String] {
        &self.state.names
    }

    /// The features of the held samples, in the order told: all of them, unless there is a cap or some were forgotten. `None`
    /// in a session on values, or before the first sample.
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
