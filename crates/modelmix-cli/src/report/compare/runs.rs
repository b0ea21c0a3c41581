//! The quantities that are compared for each command, and which of them are tested.

use std::collections::BTreeMap;

use modelmix::metrics::{Metric, ScoreDefinitions};
use modelmix::{Curated, Mixture, Scores, SimulationReport};

use super::inputs::same_reference;
use super::noise::{Dependence, adjust, by_errors, by_intervals, by_means};
use super::{Comparison, Difference, Overlap};

/// The reason why nothing is tested, if the samples do not allow a test.
fn untested(overlap: Overlap) -> Option<&'static str> {
    match overlap {
        Overlap::None => None,
        Overlap::Same => Some(
            "Both runs use the same samples (by SHA-256), so they are not independent: differences come from settings. \
             No test is made.",
        ),
        Overlap::Some => Some(
            "Some samples are the same in both runs (by SHA-256), so the runs are not independent. No test is made.",
        ),
        Overlap::Unknown => Some(
            "At least one document does not state its input files, so it is not known whether the runs are independent. No test is made.",
        ),
    }
}

/// Pairs of items with the same name, in the order of the first list.
fn shared<'a, T>(first: &'a [T], second: &'a [T], name: impl Fn(&T) -> &str) -> Vec<(&'a T, &'a T)> {
    let pair = |one: &'a T| Some((one, second.iter().find(|other| name(other) == name(one))?));
    first.iter().filter_map(pair).collect()
}

pub(super) fn solves(comparison: &mut Comparison, first: &Mixture, second: &Mixture) {
    let references = same_reference(first.provenance.as_ref(), second.provenance.as_ref());
    let (reason, dependence) = (untested(comparison.overlap), dependence(references));
    for (one, other) in shared(&first.arms, &second.arms, |arm| &arm.name) {
        let mut weight = Difference::of(&one.name, "weight", Some(one.weight), Some(other.weight));
        if reason.is_none() {
            by_intervals(&mut weight, [one.interval, other.interval], dependence);
        }
        comparison.weights.push(weight);
    }
    let same_objective = first.objective == second.objective;
    let problem = if !same_objective {
        Some("The objectives differ")
    } else if first.kernels != second.kernels {
        Some("The kernels differ")
    } else if references == Some(false) {
        Some("The references differ")
    } else {
        None
    };
    if let Some(problem) = problem {
        comparison.notes.push(format!("{problem}, so losses and scores cannot be compared; weights can."));
    } else {
        for (one, other) in shared(&first.arms, &second.arms, |arm| &arm.name) {
            comparison.scores.push(Difference::of(&one.name, &first.score.name, Some(one.score), Some(other.score)));
        }
        let results = &mut comparison.results;
        results.push(Difference::of("mixture", "loss", Some(first.mixture.loss), Some(second.mixture.loss)));
        if !first.score.is_loss() {
            let scores = (Some(first.mixture.score), Some(second.mixture.score));
            results.push(Difference::of("mixture", &first.score.name, scores.0, scores.1));
        }
        let singles = (Some(first.best_single.loss), Some(second.best_single.loss));
        results.push(Difference::of("best single arm", "loss", singles.0, singles.1));
        let mut gain = Difference::of("mixture", "gain in loss", Some(first.gain), Some(second.gain));
        if reason.is_none() {
            by_intervals(&mut gain, [first.gain_interval, second.gain_interval], dependence);
        }
        results.push(gain);
    }
    let has_intervals = comparison.weights.iter().any(|weight| weight.interval.is_some());
    comparison.noise = match reason {
        Some(reason) => reason.into(),
        None if !has_intervals => "A run has no confidence intervals, so no test is made.".into(),
        None => format!(
            "No samples are the same (by SHA-256), so the runs are treated as independent{}. A difference of weights or gains is \
             beyond noise if 0 is outside of its 95% interval, which is computed from the 95% intervals of both runs (MOVER, Zou and \
             Donner 2008). Each interval holds for one number, not for all simultaneously. Losses and scores have no standard error in these \
             documents and are not tested.",
            shared_reference(references)
        ),
    };
}

/// The noise of a shared reference affects both runs.
fn dependence(references: Option<bool>) -> Dependence {
    if references == Some(true) { Dependence::Any } else { Dependence::Independent }
}

fn shared_reference(references: Option<bool>) -> &'static str {
    if references == Some(true) {
        ", except for the shared reference: widths are added, which is valid for any dependence on it"
    } else {
        ""
    }
}

/// How the standard errors of a metric combine; `None` if they are not over the samples:
/// the error of `recall` and `coverage` is over the reference, that of `fid_infinity` is of a fitted line.
fn combination(metric: Metric, references: Option<bool>) -> Option<Dependence> {
    match metric {
        Metric::Rke | Metric::Vendi => Some(Dependence::Independent),
        // The reference is treated as fixed.
        Metric::Precision | Metric::Density => Some(Dependence::Independent),
        Metric::Fid | Metric::Mmd | Metric::Cmmd | Metric::KidFull => Some(dependence(references)),
        _ => None,
    }
}

/// Whether a metric is defined by the same settings.
fn is_same_metric(metric: Metric, first: &ScoreDefinitions, second: &ScoreDefinitions) -> bool {
    match metric {
        Metric::Rke | Metric::Mmd => first.kernel == second.kernel,
        Metric::Vendi => first.vendi == second.vendi,
        Metric::Kid => first.kid == second.kid,
        Metric::Precision | Metric::Recall | Metric::Density | Metric::Coverage => {
            first.neighbours == second.neighbours && first.closed_balls == second.closed_balls
        }
        _ => true,
    }
}

type Numbers<'a> = (&'a BTreeMap<String, f64>, &'a BTreeMap<String, Option<f64>>);

pub(super) fn scores(comparison: &mut Comparison, first: &Scores, second: &Scores) {
    let references = same_reference(first.provenance.as_ref(), second.provenance.as_ref());
    let reason = untested(comparison.overlap);
    let mut left_out: Vec<&str> = Vec::new();
    let mut metrics = Vec::new();
    for metric in first.settings.metrics.iter().filter(|metric| second.settings.metrics.contains(metric)) {
        let has_same_reference = !metric.needs_reference() || references != Some(false);
        if is_same_metric(*metric, &first.settings, &second.settings) && has_same_reference {
            metrics.push(*metric);
        } else {
            left_out.push(metric.name());
        }
    }
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        comparison.notes.push(format!("{names}: defined differently in the two runs, so not compared."));
    }
    let mut rows: Vec<(&str, Numbers<'_>, Numbers<'_>)> = shared(&first.arms, &second.arms, |arm| &arm.name)
        .into_iter()
        .map(|(one, other)| (one.name.as_str(), (&one.scores, &one.errors), (&other.scores, &other.errors)))
        .collect();
    let mixtures = first.mixture.as_ref().zip(second.mixture.as_ref());
    if let Some((one, other)) = mixtures {
        rows.push(("mixture", (&one.scores, &one.errors), (&other.scores, &other.errors)));
        for (arm, weight) in &one.weights {
            if let Some(other) = other.weights.get(arm) {
                comparison.weights.push(Difference::of(arm, "weight", Some(*weight), Some(*other)));
            }
        }
    }
    for (name, one, other) in rows {
        for metric in &metrics {
            let key = metric.name();
            let values = (one.0.get(key).copied(), other.0.get(key).copied());
            let mut score = Difference::of(name, key, values.0, values.1);
            if let Some(dependence) = combination(*metric, references).filter(|_| reason.is_none()) {
                let error = |of: &Numbers<'_>| of.1.get(key).copied().flatten();
                by_errors(&mut score, [error(&one), error(&other)], dependence);
            }
            comparison.scores.push(score);
        }
    }
    adjust(&mut comparison.scores.iter_mut().collect::<Vec<_>>());
    comparison.noise = reason.map_or_else(
        || {
            format!(
                "No samples are the same (by SHA-256), so the runs are treated as independent{}. A difference is divided by its standard \
                 error (z-test), and p-values are adjusted for the number of tests (Holm), so that with 95% confidence no \
                 difference is falsely called beyond noise. kid, recall, coverage and fid_infinity have no standard error over the samples and \
                 are not tested. Weights are not tested.",
                shared_reference(references).replace("widths", "standard errors")
            )
        },
        String::from,
    );
}

pub(super) fn simulations(comparison: &mut Comparison, first: &SimulationReport, second: &SimulationReport) {
    let seeds = |run: &SimulationReport| run.seed..run.seed.saturating_add(run.seeds as u64);
    let (one, other) = (seeds(first), seeds(second));
    let is_disjoint = one.end <= other.start || other.end <= one.start;
    let is_same_arms = first.arms == second.arms && comparison.overlap == Overlap::Same;
    let is_same_loss = first.objective == second.objective && first.kernel == second.kernel;
    for (at, arm) in first.arms.iter().enumerate() {
        if let Some(place) = second.arms.iter().position(|other| other == arm) {
            let weights = (first.optimum.weights.get(at).copied(), second.optimum.weights.get(place).copied());
            comparison.weights.push(Difference::of(arm, "optimal weight", weights.0, weights.1));
        }
    }
    if !is_same_loss {
        comparison.notes.push("The objectives or kernels differ, so losses cannot be compared; weights can.".into());
    } else {
        let optimum = (Some(first.optimum.loss), Some(second.optimum.loss));
        comparison.results.push(Difference::of("optimum", "loss", optimum.0, optimum.1));
        comparison.results.push(Difference::of("optimum", "gain in loss", Some(first.gain), Some(second.gain)));
        for (name, policy) in first.in_order() {
            let Some(again) = second.policies.get(name) else { continue };
            let pairs = [("final loss", &policy.loss, &again.loss), ("final regret", &policy.regret, &again.regret)];
            for (what, one, other) in pairs {
                let last = |values: &[f64]| values.last().copied().filter(|value| value.is_finite());
                let mut loss = Difference::of(name, what, last(&one.mean), last(&other.mean));
                if let (true, Some(std), Some(other)) = (is_same_arms && is_disjoint, last(&one.std), last(&other.std))
                {
                    by_means(&mut loss, [std, other], [first.seeds, second.seeds]);
                }
                comparison.scores.push(loss);
            }
            let reached = (policy.reached.percent_95, again.reached.percent_95);
            comparison.scores.push(Difference::of(name, "rounds to 95%", reached.0, reached.1));
        }
    }
    adjust(&mut comparison.scores.iter_mut().collect::<Vec<_>>());
    comparison.noise = if !is_same_arms {
        "The runs are not known to draw from the same recorded samples, and their standard deviations do not include the noise of those samples. No test is made."
            .into()
    } else if !is_disjoint {
        "Both runs draw from the same recorded samples with common seeds, so they are not independent. No test is made; choose \
         disjoint seeds with --seed."
            .into()
    } else {
        "Both runs draw from the same recorded samples with different seeds. Means over seeds are compared by Welch's t-test, and p-values are \
         adjusted for the number of tests (Holm). The noise is that of the simulation, not that of the recorded samples."
            .into()
    };
}

pub(super) fn curations(comparison: &mut Comparison, first: &Curated, second: &Curated) {
    for (one, other) in shared(&first.arms, &second.arms, |arm| &arm.name) {
        comparison.weights.push(Difference::of(&one.name, "share", Some(one.share), Some(other.share)));
    }
    let results = &mut comparison.results;
    let of = |what: &str, first: f64, second: f64| Difference::of("set", what, Some(first), Some(second));
    results.push(of("rows", first.count as f64, second.count as f64));
    if comparison.overlap == Overlap::Same {
        let rows: std::collections::BTreeSet<(&str, usize)> =
            first.rows.iter().map(|row| (row.arm.as_str(), row.row)).collect();
        let common = second.rows.iter().filter(|row| rows.contains(&(row.arm.as_str(), row.row))).count();
        comparison.notes.push(format!("{common} rows are in both sets."));
    }
    let references = same_reference(first.provenance.as_ref(), second.provenance.as_ref());
    if first.objective == second.objective && first.kernels == second.kernels && references != Some(false) {
        results.push(of("loss", first.set.loss, second.set.loss));
        if !first.score.is_loss() {
            results.push(of(&first.score.name, first.set.score, second.set.score));
        }
    } else {
        let note = "The objectives, kernels or references differ, so losses cannot be compared; shares can.";
        comparison.notes.push(note.into());
    }
    comparison.noise =
        "Rows of a curated set are chosen, not drawn, so its loss has no standard error. No test is made.".into();
}
