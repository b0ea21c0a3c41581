//! Compares candidates for the default policy: runs index rules on many problems and prints the rounds that each needs,
//! as Markdown.
//!
//! ```text
//! cargo run --release --example study -- chosen        problems on which rules were chosen
//! cargo run --release --example study -- held-out      held-out problems: real generators, and other synthetic arms
//! cargo run --release --example study -- chosen moss   only rules with this text in their name
//! ```
//!
//! `experiments/policies/README.md` contains the tables and the conclusions.

mod problems;
mod rules;

use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use modelmix::policy::Random;
use modelmix::session::KnownAs;
use modelmix::{PolicySpec, Session, SessionSettings, Statistics, Values};

use problems::{Problem, recorded_problems, synthetic_problems};
use rules::{Rule, rules};

const SEEDS: u64 = 20;
const ROUNDS: usize = 1000;
const SHARES: [f64; 3] = [0.90, 0.95, 0.99];
/// OGD with each of these constants; rules are compared with the best one per problem, chosen in hindsight.
const CONSTANTS: [f64; 6] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3];

/// The number of known samples per arm in sessions with the default policy.
const KNOWN: [usize; 4] = [0, 3, 10, 30];

/// The first rounds from which 90, 95 and 99% of the gain are kept; `None` if not reached.
type Reached = [Option<usize>; 3];

struct Watch(Reached);

impl Watch {
    fn look(&mut self, problem: &Problem, shares: &[f64], round: usize) {
        let missing = problem.missing(shares);
        for (reached, share) in self.0.iter_mut().zip(SHARES) {
            if missing > 1.0 - share {
                *reached = Some(round + 1);
            }
        }
    }

    fn end(self) -> Reached {
        self.0.map(|round| round.filter(|&round| round <= ROUNDS))
    }
}

fn tapes(problem: &Problem, seed: u64) -> Vec<Random> {
    (0..problem.arms).map(|arm| Random::stream(seed, arm as u64 + 1)).collect()
}

fn run_rule(problem: &Problem, rule: &Rule, seed: u64) -> Reached {
    let (mut random, mut tapes) = (Random::seeded(seed), tapes(problem, seed));
    let (mut known, mut samples) = (Statistics::new(problem.arms), Vec::new());
    let mut know = |known: &mut Statistics, arm: usize, sample: usize| {
        let (kappa, own, linear) = problem.values(sample, &samples);
        known.add(arm, &kappa, own, linear);
        samples.push(sample);
    };
    let mut free = Random::stream(seed, 0);
    for arm in 0..problem.arms {
        (0..rule.free).for_each(|_| know(&mut known, arm, problem.draw(arm, &mut free)));
    }
    let (mut told, mut watch) = (vec![0; problem.arms], Watch([Some(1); 3]));
    for round in 1..=ROUNDS {
        let arm = rule.choose(&known, &told, &mut random);
        know(&mut known, arm, problem.draw(arm, &mut tapes[arm]));
        told[arm] += 1;
        let shares: Vec<f64> = told.iter().map(|&count| count as f64 / round as f64).collect();
        watch.look(problem, &shares, round);
    }
    watch.end()
}

fn run_policy(problem: &Problem, policy: &PolicySpec, known: usize, seed: u64) -> modelmix::Result<Reached> {
    let names = (0..problem.arms).map(|arm| arm.to_string());
    let settings = SessionSettings::default().policy(policy.clone()).seed(seed);
    let mut session = Session::on_values(names, problem.ranges, &settings)?;
    let (mut tapes, mut samples, mut watch) = (tapes(problem, seed), Vec::new(), Watch([Some(1); 3]));
    for (arm, tape) in tapes.iter_mut().enumerate() {
        for _ in 0..known {
            let sample = problem.draw(arm, tape);
            let (kappa, own, linear) = problem.values(sample, &samples);
            session.known_values(arm, &[Values { kappa: &kappa, own, linear }], KnownAs::Evidence)?;
            samples.push(sample);
        }
    }
    for round in 1..=ROUNDS {
        let pull = session.ask()?;
        let sample = problem.draw(pull.index, &mut tapes[pull.index]);
        let (kappa, own, linear) = problem.values(sample, &samples);
        session.tell_values(pull.id, &[Values { kappa: &kappa, own, linear }])?;
        samples.push(sample);
        watch.look(problem, &session.shares(), round);
    }
    Ok(watch.end())
}

/// Medians over seeds of the three rounds, and the share of seeds that do not keep 90%.
type Summary = [f64; 4];

fn summary(runs: &[Reached]) -> Summary {
    let median = |at: usize| {
        let mut rounds: Vec<usize> = runs.iter().map(|run| run[at].unwrap_or(2 * ROUNDS)).collect();
        rounds.sort_unstable();
        (rounds[(rounds.len() - 1) / 2] + rounds[rounds.len() / 2]) as f64 / 2.0
    };
    let stuck = runs.iter().filter(|run| run[0].is_none()).count();
    [median(0), median(1), median(2), stuck as f64 / runs.len() as f64]
}

fn main() -> Result<(), Box<dyn Error>> {
    let which = std::env::args().nth(1).unwrap_or_else(|| "held-out".into());
    let mut problems = match which.as_str() {
        "chosen" => synthetic_problems(1000)?,
        "held-out" => synthetic_problems(77_000)?.into_iter().chain(recorded_problems()?).collect(),
        other => return Err(format!("{other} is not a set of problems; write chosen or held-out").into()),
    };
    problems.retain(Problem::is_one);
    let wanted = std::env::args().nth(2).unwrap_or_default();
    let rules: Vec<Rule> = rules()
        .into_iter()
        .enumerate()
        .filter(|(at, rule)| *at == 0 || rule.name.contains(&wanted))
        .map(|(_, rule)| rule)
        .collect();
    let constants: Vec<PolicySpec> =
        CONSTANTS.iter().map(|constant| format!("ogd(sensitivity={constant})").parse()).collect::<Result<_, _>>()?;
    // The actual policy, then OGD with each constant.
    let policies: Vec<(PolicySpec, usize)> = KNOWN
        .into_iter()
        .map(|known| (PolicySpec::Adaptive, known))
        .chain(constants.into_iter().map(|policy| (policy, 0)))
        .collect();
    let contenders = rules.len() + policies.len();
    let found = Mutex::new(vec![vec![[0.0; 4]; contenders]; problems.len()]);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    let (at, who) = (job / contenders, job % contenders);
                    let Some(problem) = problems.get(at) else { return };
                    let run = |seed| match rules.get(who) {
                        Some(rule) => run_rule(problem, rule, seed),
                        None => {
                            let (policy, known) = &policies[who - rules.len()];
                            run_policy(problem, policy, *known, seed).unwrap_or([None; 3])
                        }
                    };
                    let runs: Vec<Reached> = (0..SEEDS).map(run).collect();
                    if let Ok(mut found) = found.lock() {
                        found[at][who] = summary(&runs);
                    }
                }
            });
        }
    });
    let found = found.into_inner().map_err(|_| "a run failed")?;
    let mut names: Vec<String> = rules.iter().map(|rule| rule.name.clone()).collect();
    names.extend(KNOWN.iter().map(|known| format!("session, {known} known")));
    names.extend(CONSTANTS.iter().map(|constant| format!("ogd, {constant}")));
    names.push("ogd, tuned".into());
    // The best constant is chosen by the rounds to 95%.
    let with_tuned: Vec<Vec<Summary>> = found
        .into_iter()
        .map(|mut row| {
            let best = row[rules.len() + KNOWN.len()..]
                .iter()
                .min_by(|a, b| a[1].total_cmp(&b[1]).then(a[2].total_cmp(&b[2])));
            row.extend(best.copied());
            row
        })
        .collect();
    print_tables(&problems, &names, &with_tuned);
    Ok(())
}

fn print_tables(problems: &[Problem], names: &[String], found: &[Vec<Summary>]) {
    let round = |value: f64| if value < 2.0 * ROUNDS as f64 { format!("{value:.0}") } else { "–".into() };
    println!("Rounds to 95%, the median of {SEEDS} seeds (in brackets: seeds that do not keep 90% after {ROUNDS})\n");
    println!("| problem | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(names.len()));
    for (problem, row) in problems.iter().zip(found) {
        let stuck =
            |cell: &Summary| if cell[3] > 0.0 { format!(" ({:.0})", cell[3] * SEEDS as f64) } else { String::new() };
        let cells: Vec<String> = row.iter().map(|cell| round(cell[1]) + &stuck(cell)).collect();
        println!("| {} | {} |", problem.name, cells.join(" | "));
    }
    println!(
        "\nRounds over those of `before`, the geometric mean over problems (what is not reached counts as {} rounds)\n",
        2 * ROUNDS
    );
    println!(
        "| rule | problems | 90% | 95% | 99% | better / worse by 5% at 95% | stuck |\n|---|---|---|---|---|---|---|"
    );
    for group in ["synthetic", "recorded"] {
        let of: Vec<&Vec<Summary>> =
            problems.iter().zip(found).filter(|(problem, _)| problem.group == group).map(|(_, row)| row).collect();
        for (who, name) in names.iter().enumerate().take(if of.is_empty() { 0 } else { names.len() }) {
            let ratios = |at: usize| of.iter().map(move |row| row[who][at] / row[0][at]);
            let mean = |at: usize| (ratios(at).map(f64::ln).sum::<f64>() / of.len() as f64).exp();
            let better = ratios(1).filter(|&ratio| ratio < 0.95).count();
            let worse = ratios(1).filter(|&ratio| ratio > 1.05).count();
            let stuck = of.iter().map(|row| row[who][3]).sum::<f64>() / of.len() as f64;
            println!(
                "| {name} | {} {group} | {:.2} | {:.2} | {:.2} | {better} / {worse} | {:.1}% |",
                of.len(),
                mean(0),
                mean(1),
                mean(2),
                100.0 * stuck
            );
        }
    }
}
