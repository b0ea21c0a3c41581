//! Documents may come from files that anyone wrote: what does not fit together is refused before anything is drawn.

use modelmix::mixture::AnalysisResults;
use modelmix::simulate::PolicyReport;
use modelmix::{Curated, Error, Mixture, Result, SimulationReport};

use super::{Report, Section};

pub(super) fn report(report: &Report) -> Result<()> {
    report.sections.iter().try_for_each(section)
}

fn section(section: &Section) -> Result<()> {
    if let Some(document) = &section.solve {
        solve(&section.name, document)?;
    }
    if let Some(document) = &section.simulate {
        simulate(&section.name, document)?;
    }
    if let Some(document) = &section.curate {
        curate(&section.name, document)?;
    }
    Ok(())
}

fn refuse(section: &str, problem: String, command: &str) -> Error {
    let origin = format!("section {section}");
    Error::Array { origin, problem: format!("{problem}; make the document again with `modelmix {command} --json`") }
}

fn solve(section: &str, document: &Mixture) -> Result<()> {
    let arms = document.arms.len();
    let wrong = |problem: String| Err(refuse(section, problem, "solve"));
    if arms == 0 {
        return wrong("the solution has no arms".into());
    }
    if document.form.arms() != arms {
        return wrong(format!("there are {arms} arms, and K and f are of {}", document.form.arms()));
    }
    match analyses(&document.worth, arms) {
        Some(problem) => wrong(problem),
        None => Ok(()),
    }
}

/// What does not fit in the results of analyses.
fn analyses(results: &AnalysisResults, arms: usize) -> Option<String> {
    let subsets = results.subsets.iter().flatten().map(|subset| (&subset.arms, &subset.weights));
    let cheapest = results.cheapest.iter().map(|cheapest| (&cheapest.arms, &cheapest.weights));
    let fronts = results.front.iter().flat_map(|front| &front.points).map(|point| &point.weights);
    let tried = results.sensitivity.iter().flat_map(|tried| &tried.points).map(|point| &point.weights);
    if let Some(weights) = fronts.chain(tried).find(|weights| weights.len() != arms) {
        return Some(format!("a mixture has {} weights for {arms} arms", weights.len()));
    }
    if results.front.as_ref().is_some_and(|front| front.points.is_empty())
        || results.sensitivity.as_ref().is_some_and(|tried| tried.points.is_empty() || tried.in_use <= 0.0)
    {
        return Some("a front or a range of bandwidths is empty".into());
    }
    let (used, weights) =
        subsets.chain(cheapest).find(|(used, weights)| used.len() != weights.len() || used.len() > arms)?;
    Some(format!("a mixture has {} arms of {arms} and {} weights", used.len(), weights.len()))
}

fn simulate(section: &str, document: &SimulationReport) -> Result<()> {
    let arms = document.arms.len();
    let wrong = |problem: String| Err(refuse(section, problem, "simulate"));
    if arms == 0 || document.order.is_empty() {
        return wrong(format!("the simulation has {arms} arms and {} policies", document.order.len()));
    }
    if document.optimum.weights.len() != arms {
        return wrong(format!("the optimum has {} weights for {arms} arms", document.optimum.weights.len()));
    }
    for name in &document.order {
        match document.policies.get(name).map(|policy| misfit(policy, arms)) {
            None => return wrong(format!("policy {name} has no results")),
            Some(Some(problem)) => return wrong(format!("policy {name} {problem}")),
            Some(None) => {}
        }
    }
    Ok(())
}

fn curate(section: &str, document: &Curated) -> Result<()> {
    let chosen: usize = document.arms.iter().map(|arm| arm.chosen).sum();
    if document.arms.is_empty() || document.rows.len() != document.count || chosen != document.count {
        let (rows, count) = (document.rows.len(), document.count);
        let problem = format!("a set of {count} rows lists {rows}, and {chosen} of its arms");
        return Err(refuse(section, problem, "curate"));
    }
    Ok(())
}

/// What does not fit in a policy's results.
fn misfit(policy: &PolicyReport, arms: usize) -> Option<String> {
    let rounds = policy.rounds.len();
    if rounds == 0 {
        return Some("has no rounds".into());
    }
    for (what, count) in [
        ("losses", policy.loss.mean.len()),
        ("deviations of its losses", policy.loss.std.len()),
        ("regrets", policy.regret.mean.len()),
        ("deviations of its regrets", policy.regret.std.len()),
        ("shares", policy.shares.len()),
    ] {
        if count != rounds {
            return Some(format!("has {count} {what} for {rounds} rounds"));
        }
    }
    for spread in policy.kept.iter().flat_map(|kept| [&kept.loss, &kept.samples]) {
        if spread.mean.len() != rounds || spread.std.len() != rounds {
            let (means, stds) = (spread.mean.len(), spread.std.len());
            return Some(format!("has {means} means and {stds} deviations of what it kept for {rounds} rounds"));
        }
    }
    let shares = policy.shares.iter().chain([&policy.weights]).find(|shares| shares.len() != arms)?;
    Some(format!("has {} shares for {arms} arms", shares.len()))
}
