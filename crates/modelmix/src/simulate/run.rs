//! One run of a policy on recorded arms, and its results round by round.

use std::collections::VecDeque;

use super::source::{SampleOrder, Source};
use super::{Recorded, SHARES_OF_GAIN, SimulatedFeatures, Simulation, Truth, stop};
use crate::error::{Error, Result};
use crate::loss::Scores;
use crate::policy::PolicySpec;
use crate::session::{KnownAs, Selection, Session, SessionSettings, Values};

/// Recorded samples of an arm: rows, and κ against all earlier samples, unless sessions evaluate features.
type Drawn = Vec<(usize, Vec<f64>)>;

/// The form in which samples are passed to a session.
enum GivenAs {
    Known,
    Answer(u64),
}

impl Recorded<'_> {
    fn give(
        &self,
        arm: usize,
        samples: &Drawn,
        on_features: bool,
        giving: GivenAs,
        session: &mut Session,
    ) -> Result<()> {
        if samples.is_empty() {
            return Ok(());
        }
        if on_features {
            let rows: Vec<usize> = samples.iter().map(|(row, _)| *row).collect();
            let of = &self.arms[arm];
            let scores: Scores = of
                .scores
                .iter()
                .map(|(name, all)| (name.clone(), rows.iter().map(|&row| all[row]).collect()))
                .collect();
            let features = of.features.select(rows)?;
            return match giving {
                GivenAs::Known => session.known(arm, &features, &scores, KnownAs::Evidence),
                GivenAs::Answer(pull) => session.tell_scored(pull, &features, &scores),
            };
        }
        let values: Vec<Values<'_>> = samples
            .iter()
            .map(|(row, kappa)| Values { kappa, own: self.own[arm][*row], linear: self.linear[arm][*row] })
            .collect();
        match giving {
            GivenAs::Known => session.known_values(arm, &values, KnownAs::Evidence),
            GivenAs::Answer(pull) => session.tell_values(pull, &values),
        }
    }
}

/// The next samples of an arm; `None` if it has none left.
fn draw(source: &mut Source<'_>, on_features: bool, arm: usize, count: usize) -> Result<Option<Drawn>> {
    let mut drawn = Vec::with_capacity(count);
    for _ in 0..count {
        let next = if on_features { source.next_row(arm) } else { source.next(arm)? };
        let Some((row, kappa)) = next else { return Ok(None) };
        drawn.push((row, kappa.to_vec()));
    }
    Ok(Some(drawn))
}

fn ran_dry(recorded: &Recorded<'_>, arm: usize, spec: &PolicySpec, round: usize, seed: u64) -> Error {
    let held = recorded.arms[arm].features.len();
    let (policy, asked) = (spec.to_string(), held + 1);
    Error::RanDry { arm: recorded.arms[arm].name.clone(), policy, asked, held, round, seed }
}

/// The results of one run.
pub(super) struct Trace {
    pub(super) loss: Vec<f64>,
    pub(super) regret: Vec<f64>,
    pub(super) shares: Vec<Vec<f64>>,
    pub(super) reached: [Option<usize>; 3],
    /// The round after which it would have stopped, and whether that would have been wrong.
    pub(super) stopped: Option<(usize, bool)>,
    pub(super) features: Option<SimulatedFeatures>,
    pub(super) kept: Option<KeptTrace>,
}

/// The results of the kept samples of one run.
pub(super) struct KeptTrace {
    pub(super) loss: Vec<f64>,
    pub(super) samples: Vec<f64>,
    pub(super) reached: Option<usize>,
}

pub(super) fn run(
    recorded: &Recorded<'_>,
    truth: &Truth,
    simulation: &Simulation,
    spec: &PolicySpec,
    seed: u64,
) -> Result<Trace> {
    let arms = recorded.arms.len();
    let budget = simulation.rounds.saturating_mul(simulation.batch);
    let oracle = (truth.weights.as_slice(), truth.best_single);
    let policy = spec.build(arms, &recorded.loss.ranges(), Some(budget), Some(oracle))?;
    let settings = SessionSettings {
        seed,
        batch: simulation.batch,
        select: simulation.select,
        until: simulation.until,
        retention: simulation.retention,
        ..SessionSettings::default()
    };
    let on_features = simulation.is_on_features();
    let mut session = if on_features {
        Session::with_policy(recorded.arms.names(), recorded.loss.clone(), policy, &settings)?
    } else {
        Session::on_values_with_policy(recorded.arms.names(), policy, &settings)?
            .with_linear_range(recorded.loss.linear_spread())?
    };
    let order = |arm: usize| SampleOrder::new(seed, arm, recorded.arms[arm].features.len(), simulation.replacement);
    let mut source = Source::new(recorded.arms, recorded.loss, (0..arms).map(order).collect(), recorded.pool.as_ref());
    for arm in 0..arms {
        let samples = draw(&mut source, on_features, arm, simulation.known)?
            .ok_or_else(|| ran_dry(recorded, arm, spec, 0, seed))?;
        recorded.give(arm, &samples, on_features, GivenAs::Known, &mut session)?;
    }
    let checkpoints = simulation.checkpoint_rounds();
    let kept = KeptTrace { loss: Vec::new(), samples: Vec::new(), reached: Some(1) };
    let mut trace = Trace {
        loss: Vec::new(),
        regret: Vec::new(),
        shares: Vec::new(),
        reached: [Some(1); 3],
        stopped: None,
        features: None,
        kept: (simulation.select != Selection::All).then_some(kept),
    };
    // Known samples alone may be enough.
    trace.stopped = stop::is_verdict_wrong(&session, truth, simulation.until).map(|is_wrong| (0, is_wrong));
    let mut in_flight = VecDeque::new();
    for round in 1..=simulation.rounds {
        recorded.loss.engine().check()?;
        while in_flight.len() < simulation.in_flight && round + in_flight.len() <= simulation.rounds {
            in_flight.push_back(session.ask()?);
        }
        let pull = in_flight.pop_front().expect("a round always has a pull in flight");
        let samples = draw(&mut source, on_features, pull.index, pull.count)?
            .ok_or_else(|| ran_dry(recorded, pull.index, spec, round, seed))?;
        recorded.give(pull.index, &samples, on_features, GivenAs::Answer(pull.id), &mut session)?;
        trace.record(&session, truth, round, checkpoints.get(trace.loss.len()) == Some(&round));
        if !on_features && trace.stopped.is_none() {
            trace.stopped = stop::is_verdict_wrong(&session, truth, simulation.until).map(|is_wrong| (round, is_wrong));
        }
    }
    for reached in trace.reached.iter_mut().chain(trace.kept.as_mut().map(|kept| &mut kept.reached)) {
        *reached = reached.filter(|&round| round <= simulation.rounds);
    }
    if on_features {
        trace.features = session.report()?.feature_error.map(|error| SimulatedFeatures {
            features: error.features,
            estimated: error.estimated,
            entry: error.entry.abs(),
            loss_bias: error.loss_bias,
        });
    }
    Ok(trace)
}

impl Trace {
    fn record(&mut self, session: &Session, truth: &Truth, round: usize, keep: bool) {
        let shares = session.shares();
        let regret = truth.form.value(&shares) - truth.optimal;
        for (reached, share) in self.reached.iter_mut().zip(SHARES_OF_GAIN) {
            // Not reached yet, or lost again: the next round is the earliest that can count. A gain of zero is never
            // reached.
            if regret > (1.0 - share) * truth.gain || truth.gain <= 0.0 {
                *reached = Some(round + 1);
            }
        }
        if let (Some(kept), Some(loss)) = (&mut self.kept, session.kept_loss()) {
            if loss > truth.optimal {
                kept.reached = Some(round + 1);
            }
            if keep {
                kept.loss.push(loss + truth.constant);
                kept.samples.push(session.kept_count() as f64);
            }
        }
        if keep {
            self.loss.extend(session.pool_loss().map(|loss| loss + truth.constant));
            self.regret.push(regret);
            self.shares.push(shares);
        }
    }
}
