//! `modelmix simulate`: runs policies on recorded arms.

use modelmix::document::Document;
use modelmix::internals::numbers::brief;
use modelmix::session::{Cap, Retention};
use modelmix::simulate::Spread;
use modelmix::{Gap, Loss, Simulation, SimulationReport, Until, simulate_watched};

use super::output::{self, Section};
use super::solve::prepare;
use crate::args::SimulateArgs;
use crate::error::Result;
use crate::inputs::{self, Recorded};
use crate::terminal::{Cell, Table, Terminal, best_of, bold, brief_cell, count, dim, percent, rounds, spread};

pub(crate) fn run(args: &SimulateArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    output::check(&args.output)?;
    let policies = args.policy.iter().flat_map(|policies| policies.0.clone()).collect();
    let mut recorded = Recorded::load(&args.arms, &args.common, &terminal)?;
    recorded.choose_engine(&args.engine, &terminal)?;
    if let Some(file) = &args.objective.scores {
        recorded.arms = inputs::with_scores(recorded.arms, file)?;
    }
    let sources =
        inputs::sources(&args.arms, &args.objective, &args.common, &recorded)?.protected_from(&args.output.html)?;
    let hashing = sources.hash(terminal.keeps(&args.output));
    let loss = prepare(&args.objective, &recorded, &terminal)?;
    let simulation = Simulation::default()
        .policies(policies)
        .rounds(args.rounds)
        .seeds(args.seeds)
        .seed(args.objective.seed)
        .replacement(!args.no_replacement)
        .batch(args.batch)
        .in_flight(args.in_flight)
        .select(args.select)
        .checkpoints(args.checkpoints)
        .threads(args.common.threads)
        .until(until(args))
        .retention(retention(args)?)
        .known(args.known);
    let section = output::section("simulate", &args.output, &args.arms, &mut recorded)?;
    let mut document = run_policies(&recorded, &loss, &simulation, &terminal)?;
    let (engine, seed) = (terminal.engine_text(), args.objective.seed);
    document.provenance = hashing.provenance(engine, seed, loss.bandwidths(&recorded.arms, seed))?;
    let few = recorded.arms.iter().find(|arm| arm.features.len() < args.known);
    if let Some(arm) = few.filter(|_| simulation.replacement) {
        let (name, known, samples) = (&arm.name, count(args.known), count(arm.features.len()));
        terminal.remark(format!(
            "Arm {name}: the warm start needs {known} samples, and {samples} are recorded; they are drawn with replacement"
        ));
    }
    terminal.document(&Document::Simulate(document.clone()))?;
    print(&terminal, &document);
    let title = args.output.title.clone().unwrap_or_else(|| "Policies".into());
    let section = output::with_weights(Section { simulate: Some(document), ..section });
    let written = output::write(&terminal, title, vec![section], &args.output);
    terminal.print_after(written).map(drop)
}

/// The stopping rule of sessions.
fn until(args: &SimulateArgs) -> Option<Until> {
    args.until.map(|gap| Until::new(gap).confidence(args.confidence.0).of(args.certify))
}

/// The retention of sessions: which samples count and how many are held.
fn retention(args: &SimulateArgs) -> Result<Retention> {
    let usual = Cap::default();
    let cap = (args.hold.is_some() || args.feature_error.is_some())
        .then(|| Cap::default().hold(args.hold.unwrap_or(usual.hold)).error(args.feature_error.unwrap_or(usual.error)));
    Ok(args.forget.unwrap_or_default().with_cap(cap)?)
}

/// Runs the simulation, with progress.
pub(crate) fn run_policies(
    recorded: &Recorded,
    loss: &Loss,
    simulation: &Simulation,
    terminal: &Terminal,
) -> Result<SimulationReport> {
    let progress =
        terminal.progress("simulating", (simulation.policies.len() as u64).saturating_mul(simulation.seeds as u64));
    let report = simulate_watched(&recorded.arms, loss, simulation, &|| progress.inc(1));
    progress.finish_and_clear();
    Ok(report?)
}

/// Prints the result of each policy, and its rounds to shares of the gain.
pub(crate) fn print(terminal: &Terminal, document: &SimulationReport) {
    terminal.say(bold(&sentence(document)));
    terminal.say("");
    let mut header = vec!["policy", "final loss", "regret", "to 90%", "to 95%", "to 99%", "pulls most"];
    if document.until.is_some() {
        header.extend(["stopped at", "stopped", "wrong"]);
    }
    if document.select.is_some() {
        header.extend(["kept", "kept loss", "at optimum"]);
    }
    let mut table = Table::new("Policies", header).left(6);
    let last = |values: &[f64]| values.last().copied().unwrap_or(f64::NAN);
    // A single run has no standard deviation.
    let end = |of: &Spread| spread(last(&of.mean), (document.seeds > 1).then(|| last(&of.std)), "std");
    for (name, policy) in document.in_order() {
        let most =
            (0..policy.weights.len()).max_by(|&a, &b| policy.weights[a].total_cmp(&policy.weights[b])).unwrap_or(0);
        let share = policy.weights[most];
        let mut row = vec![
            Cell::from(name),
            end(&policy.loss),
            brief_cell(last(&policy.regret.mean)),
            rounds(policy.reached.percent_90),
            rounds(policy.reached.percent_95),
            rounds(policy.reached.percent_99),
            best_of(&document.arms[most], format!("{:.0}%", 100.0 * share), share, "share"),
        ];
        if let Some(stopped) = policy.stopped {
            row.extend([rounds(stopped.round), percent(stopped.share), percent(stopped.wrong)]);
        }
        if let Some(kept) = &policy.kept {
            row.extend([rounds(Some(last(&kept.samples.mean))), end(&kept.loss), rounds(kept.reached)]);
        }
        table.row(row);
    }
    terminal.table(table);
    terminal.say("");
    terminal.say(dim(&format!(
        "objective {}{}; {} seed{}; optimum {}, best single arm {} {}; \"to 95%\": median round from which 95% of the gain is kept",
        document.objective,
        document.kernel.map_or(String::new(), |kernel| format!("; {kernel}")),
        document.seeds,
        if document.seeds == 1 { "" } else { "s" },
        brief(document.optimum.loss),
        document.best_single.name,
        brief(document.best_single.loss)
    )));
    if let Some(known) = document.known {
        terminal.say(dim(&format!(
            "warm start: {} recorded samples per arm were known before the first round; the numbers above do not count them",
            count(known)
        )));
    }
    if let Some(Until { gap, confidence, of, .. }) = document.until {
        terminal.say(dim(&format!(
            "\"stopped at\": median round at which the {of} are certified to be within {gap}{} of the optimum at {}% confidence; \"stopped\": share of seeds that reach it; \"wrong\": share of seeds that stop outside the tolerance",
            if matches!(gap, Gap::Share(_)) { " of the gain" } else { "" },
            100.0 * confidence
        )));
    }
    for (name, policy) in document.in_order() {
        if let Some(features) = &policy.features {
            terminal.say(dim(&format!(
                "{name}: κ of {:.0}% of the pairs was estimated with {} random features; estimated error: {} in the worst entry of K, {} in the loss of the mixture",
                100.0 * features.estimated,
                count(features.features),
                brief(features.entry),
                brief(features.loss_bias)
            )));
        }
    }
    let Some(note) = &document.note else { return };
    terminal.say(dim("\"at optimum\": median round from which the loss of the kept samples is at most the optimum"));
    terminal.say(note);
}

fn sentence(document: &SimulationReport) -> String {
    if document.arms.len() == 1 {
        return format!("{} is the only arm, so there is no mixture to find.", document.arms[0]);
    }
    if document.gain <= 0.0 {
        let (single, loss) = (&document.best_single.name, brief(document.best_single.loss));
        return format!("No mixture has a lower loss than {single} alone, {loss}, so there is no gain.");
    }
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
