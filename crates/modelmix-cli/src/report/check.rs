//! Validation: documents may come from untrusted files, so inconsistent ones are rejected before anything is drawn.

use std::collections::BTreeSet;

use modelmix::mixture::AnalysisResults;
use modelmix::simulate::PolicyReport;
use modelmix::{Curated, Error, Mixture, Result, SimulationReport};
use serde_json::Value;

use super::{Report, Section};

pub(super) fn report(report: &Report) -> Result<()> {
    report.sections.iter().try_for_each(section)
}

/// Limit of numbers; sums and scales of larger ones could overflow.
const MAX_NUMBER: f64 = 1e100;
/// Limit of counts; sums of larger ones could overflow.
const MAX_COUNT: u64 = 1_000_000_000_000_000;
/// Rounding tolerance of shares outside of 0 to 1.
const SHARE_TOLERANCE: f64 = 1e-6;

fn section(section: &Section) -> Result<()> {
    let document = |value: serde_json::Result<Value>| value.unwrap_or_default();
    for (command, value) in [
        ("solve", document(serde_json::to_value(&section.solve))),
        ("score", document(serde_json::to_value(&section.score))),
        ("simulate", document(serde_json::to_value(&section.simulate))),
        ("curate", document(serde_json::to_value(&section.curate))),
        ("run", document(serde_json::to_value(&section.run))),
    ] {
        if let Some(problem) = out_of_range(&value, String::new(), false) {
            return Err(refuse(&section.name, problem, command));
        }
    }
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

/// The first number that is out of range: too large, or a share outside of 0 to 1.
fn out_of_range(value: &Value, place: String, is_share: bool) -> Option<String> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            // The weight of a term may be any number; in an object of weights, fields are names of arms.
            if name == "seed" {
                return None;
            }
            let is_term = fields.contains_key("term");
            let is_share = is_share || !is_term && ["weight", "weights", "share", "shares"].contains(&name.as_str());
            out_of_range(value, format!("{place}/{name}"), is_share)
        }),
        Value::Array(values) => values
            .iter()
            .enumerate()
            .find_map(|(index, value)| out_of_range(value, format!("{place}/{index}"), is_share)),
        Value::Number(number) => {
            let found = number.as_f64().unwrap_or(f64::INFINITY);
            if is_share && !(-SHARE_TOLERANCE..=1.0 + SHARE_TOLERANCE).contains(&found) {
                Some(format!("{place} is {found}, but a share must be between 0 and 1"))
            } else if number.as_u64().is_some_and(|count| count > MAX_COUNT) {
                Some(format!("{place} is {number}, but counts of a report must be at most {MAX_COUNT}"))
            } else if found.abs() > MAX_NUMBER {
                Some(format!("{place} is {found:e}, but numbers of a report must be at most {MAX_NUMBER:e}"))
            } else {
                None
            }
        }
        _ => None,
    }
}

fn refuse(section: &str, problem: String, command: &str) -> Error {
    let origin = format!("section {section}");
    Error::Array { origin, problem: format!("{problem}; create the document again with `modelmix {command} --json`") }
}

fn solve(section: &str, document: &Mixture) -> Result<()> {
    let arms = document.arms.len();
    let wrong = |problem: String| Err(refuse(section, problem, "solve"));
    if arms == 0 {
        return wrong("the solution has no arms".into());
    }
    let names: BTreeSet<&str> = document.arms.iter().map(|arm| arm.name.as_str()).collect();
    if names.len() < arms {
        return wrong("two arms have the same name".into());
    }
    if !names.contains(document.best_single.name.as_str()) {
        return wrong(format!("best_single is {}, which is not an arm", document.best_single.name));
    }
    if let Some(arm) = document.arms.iter().find(|arm| arm.interval.is_some_and(|[low, high]| low > high)) {
        return wrong(format!("the interval of arm {} has a lower end above its upper end", arm.name));
    }
    if document.form.arms() != arms {
        return wrong(format!("there are {arms} arms, but K and f have {}", document.form.arms()));
    }
    match analyses(&document.worth, arms) {
        Some(problem) => wrong(problem),
        None => Ok(()),
    }
}

/// The first inconsistency in the results of analyses.
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
        let problem = format!("the set has {count} rows, but it lists {rows}, and its arms have {chosen}");
        return Err(refuse(section, problem, "curate"));
    }
    Ok(())
}

/// The first inconsistency in a policy's results.
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
            return Some(format!("has {means} means and {stds} deviations of the kept samples for {rounds} rounds"));
        }
    }
    let shares = policy.shares.iter().chain([&policy.weights]).find(|shares| shares.len() != arms)?;
    Some(format!("has {} shares for {arms} arms", shares.len()))
}
