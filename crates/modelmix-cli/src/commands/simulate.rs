//! `modelmix simulate`: policies on recorded arms.

use modelmix::document::{Document, SimulateDocument, brief};
use modelmix::{Loss, Objective, PolicySpec, Simulation, simulate_watched};

use super::output::{self, Section};
use super::solve::prepare;
use crate::args::SimulateArgs;
use crate::error::Result;
use crate::inputs::{self, Recorded};
use crate::terminal::{Columns, Terminal, bold, count, dim};

pub(crate) fn run(args: &SimulateArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    output::check(&args.output)?;
    let policies = inputs::split_list(&args.policy)
        .iter()
        .map(|policy| policy.parse())
        .collect::<modelmix::Result<Vec<PolicySpec>>>()?;
    let mut recorded = Recorded::load(&args.arms)?;
    if let Some(file) = &args.objective.scores {
        recorded.arms = inputs::with_scores(recorded.arms, file)?;
    }
    let (objective, loss) = prepare(&args.objective, &recorded, &args.common)?;
    let simulation = Simulation {
        policies,
        rounds: args.rounds,
        seeds: args.seeds,
        seed: args.objective.seed,
        replacement: !args.no_replacement,
        batch: args.batch,
        in_flight: args.in_flight,
        checkpoints: args.checkpoints,
        threads: args.common.threads,
        ..Simulation::default()
    };
    let section = output::section("simulate", &args.output, &recorded)?;
    let document = run_policies(&recorded, &objective, &loss, &simulation, &terminal)?;
    terminal.document(&Document::Simulate(document.clone()))?;
    print(&terminal, &document)?;
    let title = args.output.title.clone().unwrap_or_else(|| "Policies".into());
    let section = output::weighed(Section { simulate: Some(document), ..section });
    output::write(&terminal, title, vec![section], &args.output).map(drop)
}

/// The document of a simulation.
pub(crate) fn run_policies(
    recorded: &Recorded,
    objective: &Objective,
    loss: &Loss,
    simulation: &Simulation,
    terminal: &Terminal,
) -> Result<SimulateDocument> {
    let progress = terminal.progress("simulating", (simulation.policies.len() * simulation.seeds) as u64);
    let report = simulate_watched(&recorded.arms, loss, simulation, &|| progress.inc(1))?;
    progress.finish_and_clear();
    Ok(SimulateDocument::new(&report, objective, simulation.seeds, simulation.seed))
}

/// Who got where, and when.
pub(crate) fn print(terminal: &Terminal, document: &SimulateDocument) -> Result<()> {
    terminal.say(bold(&sentence(document)))?;
    terminal.say("")?;
    let mut columns =
        Columns::new(&["policy", "final loss", "regret", "to 90%", "to 95%", "to 99%", "pulls most"]).left(6);
    for name in &document.order {
        let policy = &document.policies[name];
        let last = |values: &[f64]| values.last().copied().unwrap_or(f64::NAN);
        let round = |round: Option<f64>| round.map_or("–".into(), |round| count(round.round() as usize));
        let most =
            (0..policy.weights.len()).max_by(|&a, &b| policy.weights[a].total_cmp(&policy.weights[b])).unwrap_or(0);
        columns.row(vec![
            name.clone(),
            format!("{} ± {}", brief(last(&policy.loss.mean)), brief(last(&policy.loss.std))),
            brief(last(&policy.regret.mean)),
            round(policy.reached.percent_90),
            round(policy.reached.percent_95),
            round(policy.reached.percent_99),
            format!("{} {:.0}%", document.arms[most], 100.0 * policy.weights[most]),
        ]);
    }
    terminal.say(columns.text())?;
    terminal.say("")?;
    terminal.say(dim(&format!(
        "objective {}, {} seeds; optimum {}, best single arm {} {}; \"to 95%\" is the median round from which on 95% of the gain between them is kept",
        document.objective,
        document.seeds,
        brief(document.optimum.loss),
        document.best_single.name,
        brief(document.best_single.loss)
    )))
}

fn sentence(document: &SimulateDocument) -> String {
    let first = &document.order[0];
    let rounds = document.policies[first].rounds.last().copied().unwrap_or(0);
    match document.policies[first].reached.percent_95 {
        Some(round) => format!(
            "{first} keeps 95% of the gain from round {} of {} on.",
            count(round.round() as usize),
            count(rounds)
        ),
        None => format!("{first} does not keep 95% of the gain within {} rounds.", count(rounds)),
    }
}
