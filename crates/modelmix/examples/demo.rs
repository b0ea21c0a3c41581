//! The whole of modelmix on real generators that ship with the project: the best mixture offline, and how few samples the
//! policies need to find it. `make demo` runs it.

use std::path::Path;
use std::time::Instant;

use modelmix::simulate::PolicyReport;
use modelmix::{Inputs, Mixture, Objective, Result, Simulation, load, simulate, solve};

fn main() -> Result<()> {
    println!("Small generators of clothing images, each asked for samples, each sample encoded to 64 numbers.\n");
    scenario(
        "specialists",
        "kid",
        20.0,
        1000,
        "three models that know a part of the data each, two that know all of it",
    )?;
    scenario("truncated", "rke", 20.0, 600, "eight copies of one model, each stuck around another point")
}

fn scenario(name: &str, objective: &str, bandwidth: f64, rounds: usize, what: &str) -> Result<()> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion");
    let file = data.join(format!("{name}.npz"));
    let arms = load::arms(&[file.to_string_lossy().parse()?])?;
    let reference = load::features(data.join("reference.npy"), None)?;
    let objective = Objective::parse(objective)?.with_bandwidth(bandwidth);
    let loss = objective.prepare(Inputs::new().arms(&arms).reference(reference))?;

    println!("── {name}: {what}");
    let start = Instant::now();
    let best = solve(&arms, &loss)?;
    println!(
        "   offline, {} samples of {} arms, {:.1} s:",
        best.arms.iter().map(|arm| arm.samples).sum::<usize>(),
        arms.len(),
        start.elapsed().as_secs_f64()
    );
    println!("   {}\n", sentence(&best));
    weights(&best);

    let start = Instant::now();
    let policies = [
        "adaptive",
        "cab(sensitivity=0.03)",
        "ogd(sensitivity=0.03)",
        "greedy",
        "vanilla(sensitivity=0.03)",
        "halving",
        "one-arm-oracle",
        "mixture-oracle",
    ];
    let simulation = Simulation {
        policies: policies.into_iter().map(str::parse).collect::<Result<_>>()?,
        rounds,
        ..Simulation::default()
    };
    let report = simulate(&arms, &loss, &simulation)?;
    println!(
        "   online, {rounds} samples one by one, mean of {} seeds, {:.1} s:",
        simulation.seeds,
        start.elapsed().as_secs_f64()
    );
    println!("   {:<28}{:>14}{:>24}", "policy", "loss", "95% of the gain after");
    for policy in &report.policies {
        println!(
            "   {:<28}{:>14.5}{:>24}",
            policy.policy,
            policy.loss.mean.last().unwrap_or(&f64::NAN),
            reached(policy)
        );
    }
    println!("   {:<28}{:>14.5}", "(the optimum)", report.optimal_loss);
    println!("   {:<28}{:>14.5}\n", "(the best single arm)", report.best_single_loss);
    Ok(())
}

/// The answer in one sentence.
fn sentence(best: &Mixture) -> String {
    let mut order: Vec<_> = best.arms.iter().filter(|arm| arm.weight >= 0.005).collect();
    order.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let parts: Vec<String> = order.iter().map(|arm| format!("{} {:.0}%", arm.name, 100.0 * arm.weight)).collect();
    let (mixture, single) = (best.terms[0].score, best.best_arm().terms[0].score);
    let score = if best.objective.starts_with("kid") { "KID ×100" } else { "RKE modes" };
    format!(
        "Mix {}: {score} {mixture:.2} instead of {single:.2} with the best single model, {}.",
        parts.join(", "),
        best.best_arm().name
    )
}

fn weights(best: &Mixture) {
    println!("   {:<16}{:>8}  {:<26}{:>12}{:>12}", "arm", "weight", "", "loss alone", "adds");
    for arm in &best.arms {
        let bar = "█".repeat((25.0 * arm.weight).round() as usize);
        println!(
            "   {:<16}{:>7.1}%  {:<26}{:>12.5}{:>12.5}",
            arm.name,
            100.0 * arm.weight,
            bar,
            arm.loss,
            arm.adds.unwrap_or(f64::NAN)
        );
    }
    println!("   {:<16}{:>8}  {:<26}{:>12.5}   (proved to {:.0e})\n", "the mixture", "", "", best.loss, best.gap);
}

fn reached(policy: &PolicyReport) -> String {
    policy.reached.percent_95.map_or("not reached".into(), |round| format!("{round} samples"))
}
