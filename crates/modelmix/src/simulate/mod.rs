//! Simulations: policies × seeds on recorded arms, in parallel, and how fast each policy finds the best mixture.

mod report;
mod run;
mod source;
mod stop;

use serde::{Deserialize, Serialize};

use crate::arms::RecordedArms;
use crate::certainty::{Gap, Until};
use crate::compute::{available_threads, parallel};
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::mixture;
use crate::numbers::brief;
use crate::objective::ScoreMeaning;
use crate::policy::PolicySpec;
use crate::quadratic::Quadratic;
use crate::session::{Retention, SELECTION_NOTE, Selection};
use crate::settings::setters;
use crate::simplex::{self, Bounds};
use run::{KeptTrace, Trace, run};
use source::Pool;

pub use report::{
    KeptReport, Optimum, PolicyReport, Reached, SimulatedFeatures, SimulatedSingle, SimulationReport, Spread,
};
pub use stop::Stopped;

/// Settings of [`simulate`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Simulation {
    /// The policies to compare; all different.
    pub policies: Vec<PolicySpec>,
    /// Pulls per run.
    pub rounds: usize,
    /// Runs per policy, with the seeds `seed`, `seed + 1`, ….
    pub seeds: usize,
    /// The first seed.
    pub seed: u64,
    /// Whether sampling is with replacement. Without replacement, an arm that has no samples left is an error.
    pub replacement: bool,
    /// Samples per pull.
    pub batch: usize,
    /// Pulls in flight at once; with 1, each is answered before the next is asked for.
    pub in_flight: usize,
    /// Which samples are kept; if some are discarded, the loss of the kept ones is reported.
    pub select: Selection,
    /// The number of evenly spaced rounds at which results are recorded; the last round is always included.
    pub checkpoints: usize,
    /// Number of threads; `None` for all cores. Results do not depend on it.
    pub threads: Option<usize>,
    /// The maximum number of bytes for κ between all recorded samples, which all runs share. If it would take more,
    /// every run computes κ a few hundred samples ahead, and holds the features of the samples that it received.
    pub memory: usize,
    /// Early stopping: runs continue, but record when they would have stopped, and whether that would have been wrong.
    pub until: Option<Until>,
    /// Which samples of a session count, and how many it holds. Unless all, runs evaluate features round by round.
    /// Losses, shares and regret are those of the samples that count.
    pub retention: Retention,
    /// The number of known samples per arm, which sessions have before the first round (a warm start). They are drawn
    /// like other samples, but count only as evidence: not in rounds, losses, shares or regret.
    pub known: usize,
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
            retention: Retention::All,
            known: 0,
        }
    }
}

setters! {
    Simulation {
        /// Sets the policies to compare.
        policies: Vec<PolicySpec>,
        /// Sets the number of pulls per run.
        rounds: usize,
        /// Sets the number of runs per policy.
        seeds: usize,
        /// Sets the first seed.
        seed: u64,
        /// Sets whether sampling is with replacement.
        replacement: bool,
        /// Sets the number of samples per pull.
        batch: usize,
        /// Sets the number of pulls in flight at once.
        in_flight: usize,
        /// Sets which samples are kept.
        select: Selection,
        /// Sets the number of rounds at which results are recorded.
        checkpoints: usize,
        /// Sets the number of threads; all cores if `None`.
        threads: impl Into<Option<usize>>,
        /// Sets the maximum number of bytes for the kernel matrix of all recorded samples.
        memory: usize,
        /// Sets early stopping; none if `None`.
        until: impl Into<Option<Until>>,
        /// Sets which samples count, and how many are held.
        retention: Retention,
        /// Sets the number of known samples per arm.
        known: usize,
    }
}

/// The maximum number of samples of a run, including known ones: counts of samples and rounds fit in 32 bits.
const MAX_RUN_SAMPLES: u128 = u32::MAX as u128;
/// The maximum number of bytes of one run, and of the results of all runs: the memory of a large workstation.
const MAX_HELD_BYTES: u128 = 32 << 30;

/// The shares of the gain for which a report states the round at which they are reached.
const SHARES_OF_GAIN: [f64; 3] = [0.90, 0.95, 0.99];

/// Runs every policy with every seed. For the same seed, all policies receive the same samples of each arm in the same
/// order.
///
/// # Errors
/// If settings are out of range, if a tolerance is not less than the gain, if a policy needs an input that is missing, if an arm has
/// no samples left without replacement, or if only [`crate::solve`] supports the objective.
pub fn simulate(arms: &RecordedArms, loss: &Loss, simulation: &Simulation) -> Result<SimulationReport> {
    simulate_watched(arms, loss, simulation, &|| {})
}

/// [`simulate`] with progress: `done` is called after each of the policies × seeds runs, on the thread that ran it.
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
    simulation.check_size(arms.len(), arms.width())?;
    loss.check_direction()?;
    let truth = Truth::new(arms, loss)?;
    arms.download()?;
    if let Some(Until { gap: gap @ Gap::Loss(size), .. }) = simulation.until
        && (0.0..=size).contains(&truth.gain)
        && truth.gain > 0.0
    {
        let must = format!(
            "less than the gain of these arms, {}, or the best single arm is within it already; 5% of the gain is usual",
            brief(truth.gain)
        );
        return Err(Error::setting("until", gap, must));
    }
    let threads = simulation.threads.unwrap_or_else(available_threads);
    let linear = arms
        .iter()
        .enumerate()
        .map(|(index, arm)| loss.linear(index, arm.features.view(), &arm.scores))
        .collect::<Result<Vec<_>>>()?;
    // Threads are used for runs, not for the sums within one.
    let loss = loss.for_concurrent_callers();
    let needs_kernel_pool = !simulation.is_on_features() && simulation.needs_kernel_pool(arms);
    let pool = needs_kernel_pool.then(|| Pool::new(arms, &loss, threads)).transpose()?;
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
    let reports = simulation
        .policies
        .iter()
        .zip(traces.chunks(simulation.seeds))
        .map(|(policy, traces)| (policy.to_string(), summarise(simulation, traces)));
    let is_selective = simulation.select != Selection::All;
    Ok(SimulationReport {
        version: crate::version::VERSION.into(),
        objective: loss.objective().to_string(),
        kernel: loss.kernels().first().copied(),
        score: ScoreMeaning::of(loss.objective()),
        arms: arms.names(),
        seeds: simulation.seeds,
        seed: simulation.seed,
        best_single: SimulatedSingle {
            name: arms[truth.best_single].name.clone(),
            loss: truth.form.single(truth.best_single) + truth.constant,
        },
        optimum: Optimum { weights: truth.weights, loss: truth.optimal + truth.constant },
        gain: truth.gain,
        known: (simulation.known > 0).then_some(simulation.known),
        until: simulation.until,
        select: is_selective.then_some(simulation.select),
        note: is_selective.then(|| SELECTION_NOTE.into()),
        order: simulation.policies.iter().map(ToString::to_string).collect(),
        policies: reports.collect(),
        provenance: None,
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
            return Err(Error::setting(&format!("policy {policy}"), "listed twice", "listed once"));
        }
        // A check for any number of arms; those of the run are checked when they are known.
        self.check_size(1, 1)?;
        self.until.as_ref().map_or(Ok(()), Until::check)
    }

    /// Checks that a run, and the results of all runs, fit in memory; the error names the largest setting.
    fn check_size(&self, arms: usize, width: usize) -> Result<()> {
        let [rounds, batch, known, arms, width] = [self.rounds, self.batch, self.known, arms, width].map(|n| n as u128);
        let (asked, given) = (rounds.saturating_mul(batch), known.saturating_mul(arms));
        let samples = asked.saturating_add(given);
        // Samples that arrive at once, each with κ against all earlier ones, unless sessions evaluate features.
        let at_once = batch.max(known);
        let of_one = if self.is_on_features() { width.saturating_mul(4) } else { samples.saturating_mul(8) };
        let of_one = of_one.saturating_add(64);
        // The memory per sample: its sums per arm, its features, and κ against those that are computed ahead.
        let of_each = arms.saturating_mul(8).saturating_add(width.saturating_mul(4)).saturating_add(2048);
        let left = if self.is_on_features() { 0 } else { samples.saturating_mul(of_each) };
        let bytes = at_once.saturating_mul(of_one).saturating_add(left);
        if samples > MAX_RUN_SAMPLES || bytes > MAX_HELD_BYTES {
            let (what, value) = if given > asked {
                ("known", self.known)
            } else if batch > rounds {
                ("batch", self.batch)
            } else {
                ("rounds", self.rounds)
            };
            let must = match samples > MAX_RUN_SAMPLES {
                true => format!("less: a run is given at most {MAX_RUN_SAMPLES} samples in all"),
                false => format!(
                    "less: a run of {samples} samples would hold {} GiB, but at most {} are allowed; give each run fewer",
                    gibibytes(bytes),
                    gibibytes(MAX_HELD_BYTES)
                ),
            };
            return Err(Error::setting(what, value, must));
        }
        let runs = (self.policies.len() as u128).saturating_mul(self.seeds as u128);
        let checkpoints = self.checkpoints.min(self.rounds) as u128;
        // Per run: its losses and shares at the checkpoints, and the memory of a run without any.
        let of_run = arms.saturating_add(4).saturating_mul(checkpoints).saturating_mul(8).saturating_add(256);
        let bytes = runs.saturating_mul(of_run);
        if bytes > MAX_HELD_BYTES {
            let must = format!(
                "less: the results of {runs} runs at {checkpoints} checkpoints would take {} GiB, but at most {} are allowed",
                gibibytes(bytes),
                gibibytes(MAX_HELD_BYTES)
            );
            let seeds_matter = self.seeds as u128 >= checkpoints;
            let (what, value) = if seeds_matter { ("seeds", self.seeds) } else { ("checkpoints", self.checkpoints) };
            return Err(Error::setting(what, value, must));
        }
        Ok(())
    }

    /// Whether sessions evaluate features themselves, because samples leave them.
    fn is_on_features(&self) -> bool {
        self.retention != Retention::All
    }

    /// Whether all pairs of recorded samples are fewer than the pairs that all runs will need, and fit in memory.
    fn needs_kernel_pool(&self, arms: &RecordedArms) -> bool {
        let samples: f64 = arms.iter().map(|arm| arm.features.len() as f64).sum();
        let met_by_run = self.rounds as f64 * self.batch as f64 + self.known as f64 * arms.len() as f64;
        let met = self.policies.len() as f64 * self.seeds as f64 * met_by_run.powi(2) / 2.0;
        samples * samples <= met && Pool::bytes(arms) <= self.memory
    }

    /// Evenly spaced rounds, including the last one.
    fn checkpoint_rounds(&self) -> Vec<usize> {
        let count = self.checkpoints.min(self.rounds);
        // Rounds and their number fit in 32 bits.
        (1..=count as u64).map(|step| (step * self.rounds as u64 / count as u64) as usize).collect()
    }
}

fn gibibytes(bytes: u128) -> u128 {
    bytes.div_ceil(1 << 30)
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
    /// f and κ(x, x) of every recorded sample, per arm.
    linear: Vec<Vec<f64>>,
    own: Vec<Vec<f64>>,
    /// κ between all of them, if that is worthwhile.
    pool: Option<Pool>,
}

fn summarise(simulation: &Simulation, traces: &[Trace]) -> PolicyReport {
    let rounds = simulation.checkpoint_rounds();
    let seeds = traces.len() as f64;
    let shares: Vec<Vec<f64>> = (0..rounds.len())
        .map(|at| {
            let arms = traces[0].shares[at].len();
            (0..arms).map(|arm| traces.iter().map(|trace| trace.shares[at][arm]).sum::<f64>() / seeds).collect()
        })
        .collect();
    let median = |which: usize| median(traces.iter().map(|trace| trace.reached[which]).collect());
    PolicyReport {
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

/// The median, with `None` later than any round.
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
        let kept =
            |rounds, checkpoints| Simulation { rounds, checkpoints, ..Simulation::default() }.checkpoint_rounds();
        assert_eq!(kept(10, 4), [2, 5, 7, 10]);
        assert_eq!(kept(3, 100), [1, 2, 3]);
        assert_eq!(kept(7, 1), [7]);
    }
}
