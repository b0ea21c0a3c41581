//! Policies × seeds over recorded arms, in parallel: how quickly each finds the mixture, compared with what is possible.

mod report;
mod source;
mod stop;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::arms::RecordedArms;
use crate::certainty::Until;
use crate::compute::{available_threads, parallel};
use crate::error::{Error, Result};
use crate::loss::{Loss, Scores};
use crate::mixture;
use crate::policy::PolicySpec;
use crate::quadratic::Quadratic;
use crate::session::{Forget, Selection, Session, SessionSettings, StreamSettings, Values};
use crate::simplex::{self, Bounds};
use source::{Pool, Source, Tape};

pub use report::{KeptReport, PolicyReport, Reached, SimulatedFeatures, SimulationReport, Spread};
pub use stop::Stopped;

/// What to simulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Simulation {
    /// The policies to compare; no two the same.
    pub policies: Vec<PolicySpec>,
    /// Pulls a run.
    pub rounds: usize,
    /// Runs a policy, with the seeds `seed`, `seed + 1`, ….
    pub seeds: usize,
    /// The first seed.
    pub seed: u64,
    /// Whether a recorded sample may come again. Without, an arm that runs dry is an error.
    pub replacement: bool,
    /// Samples a pull.
    pub batch: usize,
    /// Pulls in flight at once; 1 answers each before the next is asked for.
    pub in_flight: usize,
    /// Which samples are kept; the kept ones' loss is reported where some are discarded.
    pub select: Selection,
    /// At how many rounds, evenly spaced, results are kept; the last round is always one.
    pub checkpoints: usize,
    /// Threads; nothing for all cores. Results do not depend on it.
    pub threads: Option<usize>,
    /// Bytes that κ between all recorded samples, which all runs share, may take. Where it takes more, every run computes
    /// κ a few hundred samples ahead, and holds the features of the samples that it was given.
    pub memory: usize,
    /// When runs may stop: each goes on, but notes when it might have stopped, and whether it would have been wrong.
    pub until: Option<Until>,
    /// How many samples a session holds, where not all are; runs then evaluate features round by round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSettings>,
    /// What sessions forget. Losses, shares and regret are then of what is remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forget: Option<Forget>,
}

impl Default for Simulation {
    fn default() -> Self {
        Self {
            policies: vec![
                PolicySpec::Adaptive,
                PolicySpec::Greedy,
                PolicySpec::OneArmOracle,
                PolicySpec::MixtureOracle,
            ],
            rounds: 1000,
            seeds: 10,
            seed: 0,
            replacement: true,
            batch: 1,
            in_flight: 1,
            select: Selection::All,
            checkpoints: 100,
            threads: None,
            memory: 1 << 30,
            until: None,
            stream: None,
            forget: None,
        }
    }
}

const SHARES_OF_GAIN: [f64; 3] = [0.90, 0.95, 0.99];

/// Runs every policy with every seed. Policies of the same seed are given the same samples of each arm in the same order.
///
/// # Errors
/// Settings out of range, a policy that needs what was not given, an arm that runs dry without replacement, an objective
/// that only [`crate::solve`] takes.
pub fn simulate(arms: &RecordedArms, loss: &Loss, simulation: &Simulation) -> Result<SimulationReport> {
    simulate_watched(arms, loss, simulation, &|| {})
}

/// The same; `done` is called after each of the policies × seeds runs, by whichever thread ran it.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_watched(
    arms: &RecordedArms,
    loss: &Loss,
    simulation: &Simulation,
    done: &(dyn Fn() + Sync),
) -> Result<SimulationReport> {
    simulation.check()?;
    loss.check_direction()?;
    let truth = Truth::new(arms, loss)?;
    let threads = simulation.threads.unwrap_or_else(available_threads);
    let linear = arms
        .iter()
        .enumerate()
        .map(|(index, arm)| loss.linear(index, arm.features.view(), &arm.scores))
        .collect::<Result<Vec<_>>>()?;
    // Threads go to runs, not to the sums within one.
    let loss = loss.serial();
    let wants_pool = !simulation.is_on_features() && simulation.wants_pool(arms);
    let pool = wants_pool.then(|| Pool::new(arms, &loss, threads)).transpose()?;
    let own = arms.iter().map(|arm| arm.features.view().iter().map(|row| loss.kappa_self(row)).collect()).collect();
    let recorded = Recorded { arms, loss: &loss, linear, own, pool };
    let jobs: Vec<(&PolicySpec, u64)> = simulation
        .policies
        .iter()
        .flat_map(|policy| (0..simulation.seeds as u64).map(move |seed| (policy, simulation.seed.wrapping_add(seed))))
        .collect();
    let traces = parallel(threads, loss.engine().stop(), jobs.len(), |job| {
        let (policy, seed) = jobs[job];
        let trace = run(&recorded, &truth, simulation, policy, seed);
        done();
        trace
    })?;
    let policies = simulation
        .policies
        .iter()
        .zip(traces.chunks(simulation.seeds))
        .map(|(policy, traces)| summarise(policy, simulation, traces))
        .collect();
    Ok(SimulationReport {
        objective: loss.objective().to_string(),
        kernels: loss.kernels(),
        arms: arms.names(),
        optimal_loss: truth.optimal + truth.constant,
        best_single: truth.best_single,
        best_single_loss: truth.form.single(truth.best_single) + truth.constant,
        gain: truth.gain,
        optimum: truth.weights,
        select: simulation.select,
        policies,
        until: simulation.until,
    })
}

impl Simulation {
    pub(crate) fn check(&self) -> Result<()> {
        for (what, value) in [
            ("rounds", self.rounds),
            ("seeds", self.seeds),
            ("batch", self.batch),
            ("in_flight", self.in_flight),
            ("checkpoints", self.checkpoints),
        ] {
            if value == 0 {
                return Err(Error::setting(what, value, "at least 1"));
            }
        }
        if self.policies.is_empty() {
            return Err(Error::missing("a simulation", "at least one policy"));
        }
        if let Some((_, policy)) =
            self.policies.iter().enumerate().find(|(index, policy)| self.policies[..*index].contains(policy))
        {
            return Err(Error::setting("policies", policy, "listed once each"));
        }
        self.until.as_ref().map_or(Ok(()), Until::check)
    }

    /// Whether sessions evaluate features themselves, since samples leave them.
    fn is_on_features(&self) -> bool {
        self.stream.is_some() || self.forget.is_some()
    }

    /// Whether all pairs of recorded samples are fewer than the pairs that all runs will meet, and fit.
    fn wants_pool(&self, arms: &RecordedArms) -> bool {
        let samples: f64 = arms.iter().map(|arm| arm.features.len() as f64).sum();
        let met = (self.policies.len() * self.seeds) as f64 * (self.rounds as f64 * self.batch as f64).powi(2) / 2.0;
        samples * samples <= met && Pool::bytes(arms) <= self.memory
    }

    /// Evenly spaced rounds, the last one included.
    fn kept_rounds(&self) -> Vec<usize> {
        let count = self.checkpoints.min(self.rounds);
        (1..=count).map(|step| step * self.rounds / count).collect()
    }
}

/// K and f of all recorded samples, which the simulated policies do not see.
struct Truth {
    form: Quadratic,
    constant: f64,
    weights: Vec<f64>,
    optimal: f64,
    best_single: usize,
    gain: f64,
}

impl Truth {
    fn new(arms: &RecordedArms, loss: &Loss) -> Result<Self> {
        let form = mixture::statistics(arms, loss)?.biased();
        let best = simplex::minimize(&form, &Bounds::simplex(arms.len()))?;
        let best_single = (0..arms.len()).min_by(|&a, &b| form.single(a).total_cmp(&form.single(b))).unwrap_or(0);
        let gain = form.single(best_single) - best.value;
        Ok(Self { constant: loss.constant(), weights: best.weights, optimal: best.value, best_single, gain, form })
    }
}

struct Recorded<'a> {
    arms: &'a RecordedArms,
    loss: &'a Loss,
    /// f and κ(x, x) of every recorded sample, by arm.
    linear: Vec<Vec<f64>>,
    own: Vec<Vec<f64>>,
    /// κ between all of them, where it is worth having.
    pool: Option<Pool>,
}

/// One run.
struct Trace {
    loss: Vec<f64>,
    regret: Vec<f64>,
    shares: Vec<Vec<f64>>,
    reached: [Option<usize>; 3],
    /// The round after which it might have stopped, and whether that would have been wrong.
    stopped: Option<(usize, bool)>,
    features: Option<SimulatedFeatures>,
    kept: Option<KeptTrace>,
}

/// The kept samples of one run.
struct KeptTrace {
    loss: Vec<f64>,
    samples: Vec<f64>,
    reached: Option<usize>,
}

fn run(recorded: &Recorded<'_>, truth: &Truth, simulation: &Simulation, spec: &PolicySpec, seed: u64) -> Result<Trace> {
    let arms = recorded.arms.len();
    let budget = simulation.rounds.saturating_mul(simulation.batch);
    let oracle = (truth.weights.as_slice(), truth.best_single);
    let policy = spec.build(arms, &recorded.loss.ranges(), Some(budget), Some(oracle))?;
    let settings = SessionSettings {
        seed,
        batch: simulation.batch,
        select: simulation.select,
        until: simulation.until,
        stream: simulation.stream,
        forget: simulation.forget,
        ..SessionSettings::default()
    };
    let on_features = simulation.is_on_features();
    let mut session = if on_features {
        Session::with_policy(recorded.arms.names(), recorded.loss.clone(), policy, &settings)?
    } else {
        Session::on_values_with_policy(recorded.arms.names(), policy, &settings)?
    };
    let tape = |arm: usize| Tape::new(seed, arm, recorded.arms[arm].features.len(), simulation.replacement);
    let mut source = Source::new(recorded.arms, recorded.loss, (0..arms).map(tape).collect(), recorded.pool.as_ref());
    let checkpoints = simulation.kept_rounds();
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
    let mut in_flight = VecDeque::new();
    for round in 1..=simulation.rounds {
        recorded.loss.engine().check()?;
        while in_flight.len() < simulation.in_flight && round + in_flight.len() <= simulation.rounds {
            in_flight.push_back(session.ask()?);
        }
        let pull = in_flight.pop_front().expect("a round always has a pull in flight");
        let mut samples = Vec::with_capacity(pull.count);
        for _ in 0..pull.count {
            let next = if on_features { source.next_row(pull.arm) } else { source.next(pull.arm)? };
            let Some((row, kappa)) = next else {
                let held = recorded.arms[pull.arm].features.len();
                return Err(Error::RanDry {
                    arm: pull.name,
                    policy: spec.to_string(),
                    asked: held + 1,
                    held,
                    round,
                    seed,
                });
            };
            samples.push((row, kappa.to_vec()));
        }
        if on_features {
            let rows: Vec<usize> = samples.iter().map(|(row, _)| *row).collect();
            let arm = &recorded.arms[pull.arm];
            let scores: Scores = arm
                .scores
                .iter()
                .map(|(name, all)| (name.clone(), rows.iter().map(|&row| all[row]).collect()))
                .collect();
            session.tell_scored(pull.id, &arm.features.select(rows)?, &scores)?;
            trace.look(&session, truth, round, checkpoints.get(trace.loss.len()) == Some(&round));
            continue;
        }
        let values: Vec<Values<'_>> = samples
            .iter()
            .map(|(row, kappa)| Values {
                kappa,
                own: recorded.own[pull.arm][*row],
                linear: recorded.linear[pull.arm][*row],
            })
            .collect();
        session.tell_values(pull.id, &values)?;
        trace.look(&session, truth, round, checkpoints.get(trace.loss.len()) == Some(&round));
        if trace.stopped.is_none() {
            trace.stopped = stop::of(&session, truth, simulation.until).map(|is_wrong| (round, is_wrong));
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
    fn look(&mut self, session: &Session, truth: &Truth, round: usize, keep: bool) {
        let shares = session.statistics().proportions();
        let regret = truth.form.value(&shares) - truth.optimal;
        for (reached, share) in self.reached.iter_mut().zip(SHARES_OF_GAIN) {
            // Not yet, or not any more: the round after this one is the earliest that can count. A gain of nothing is
            // never reached.
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
            self.loss.extend(session.statistics().realised().map(|loss| loss + truth.constant));
            self.regret.push(regret);
            self.shares.push(shares);
        }
    }
}

fn summarise(policy: &PolicySpec, simulation: &Simulation, traces: &[Trace]) -> PolicyReport {
    let rounds = simulation.kept_rounds();
    let seeds = traces.len() as f64;
    let shares: Vec<Vec<f64>> = (0..rounds.len())
        .map(|at| {
            let arms = traces[0].shares[at].len();
            (0..arms).map(|arm| traces.iter().map(|trace| trace.shares[at][arm]).sum::<f64>() / seeds).collect()
        })
        .collect();
    let median = |which: usize| median(traces.iter().map(|trace| trace.reached[which]).collect());
    PolicyReport {
        policy: policy.to_string(),
        loss: Spread::over(rounds.len(), traces, |trace| &trace.loss),
        regret: Spread::over(rounds.len(), traces, |trace| &trace.regret),
        weights: shares.last().cloned().unwrap_or_default(),
        shares,
        reached: Reached { percent_90: median(0), percent_95: median(1), percent_99: median(2) },
        stopped: simulation.until.map(|_| Stopped::over(traces)),
        features: SimulatedFeatures::over(traces),
        kept: kept(rounds.len(), traces),
        rounds,
    }
}

impl SimulatedFeatures {
    fn over(traces: &[Trace]) -> Option<Self> {
        let all: Vec<&Self> = traces.iter().filter_map(|trace| trace.features.as_ref()).collect();
        let mean = |value: fn(&Self) -> f64| all.iter().map(|one| value(one)).sum::<f64>() / all.len() as f64;
        Some(Self {
            features: all.first()?.features,
            estimated: mean(|one| one.estimated),
            entry: mean(|one| one.entry),
            loss_bias: mean(|one| one.loss_bias),
        })
    }
}

fn kept(rounds: usize, traces: &[Trace]) -> Option<KeptReport> {
    let kept: Vec<&KeptTrace> = traces.iter().filter_map(|trace| trace.kept.as_ref()).collect();
    (!kept.is_empty()).then(|| KeptReport {
        loss: Spread::over(rounds, &kept, |kept| &kept.loss),
        samples: Spread::over(rounds, &kept, |kept| &kept.samples),
        reached: median(kept.iter().map(|kept| kept.reached).collect()),
    })
}

impl Spread {
    fn over<T>(len: usize, traces: &[T], series: impl Fn(&T) -> &Vec<f64>) -> Self {
        let mut spread = Spread::default();
        let count = traces.len() as f64;
        for at in 0..len {
            let mean = traces.iter().map(|trace| series(trace)[at]).sum::<f64>() / count;
            let squares = traces.iter().map(|trace| (series(trace)[at] - mean).powi(2)).sum::<f64>();
            spread.mean.push(mean);
            spread.std.push((squares / (count - 1.0).max(1.0)).sqrt());
        }
        spread
    }
}

/// The median where `None` is later than any round.
fn median(mut rounds: Vec<Option<usize>>) -> Option<f64> {
    rounds.sort_by_key(|round| round.unwrap_or(usize::MAX));
    let middle = rounds.len() / 2;
    let (low, high) = (rounds[(rounds.len() - 1) / 2]?, rounds[middle]?);
    Some((low + high) as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::{Simulation, median};

    #[test]
    fn medians_with_runs_that_never_get_there() {
        assert_eq!(median(vec![Some(4), None, Some(2)]), Some(4.0));
        assert_eq!(median(vec![Some(4), None, Some(2), Some(8)]), Some(6.0));
        assert_eq!(median(vec![Some(4), None]), None);
        assert_eq!(median(vec![None]), None);
    }

    #[test]
    fn the_last_round_is_kept() {
        let kept = |rounds, checkpoints| Simulation { rounds, checkpoints, ..Simulation::default() }.kept_rounds();
        assert_eq!(kept(10, 4), [2, 5, 7, 10]);
        assert_eq!(kept(3, 100), [1, 2, 3]);
        assert_eq!(kept(7, 1), [7]);
    }
}
