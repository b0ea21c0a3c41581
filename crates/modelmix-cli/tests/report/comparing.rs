//! Comparison of two runs. Expected numbers come from `math.erfc` and Simpson's rule in Python, and from the formulas by hand.

use modelmix::document::{Document, Provenance};
use modelmix::{Curated, Mixture, Scores, SimulationReport};
use modelmix_cli::report::{Comparison, Difference, Overlap, Report, compare};

use super::synthetic;

fn names() -> Vec<String> {
    ["flux", "sdxl"].map(String::from).into()
}

fn provenance(checksum: char) -> Provenance {
    serde_json::from_value(synthetic::provenance("solve", checksum)).expect("it is a provenance")
}

/// Two runs on different samples, with weights and intervals that are easy to check, and a shared reference.
fn solved() -> (Mixture, Mixture) {
    let (mut first, mut second) = (synthetic::solve(&names()), synthetic::solve(&names()));
    second.provenance = Some(provenance('b'));
    for (run, weights, intervals) in [
        (&mut first, [0.30, 0.70], [[0.22, 0.41], [0.60, 0.80]]),
        (&mut second, [0.45, 0.55], [[0.40, 0.48], [0.50, 0.62]]),
    ] {
        for (arm, (weight, interval)) in run.arms.iter_mut().zip(weights.into_iter().zip(intervals)) {
            (arm.weight, arm.interval) = (weight, Some(interval));
        }
    }
    (first, second)
}

fn without_reference(mut run: Mixture) -> Mixture {
    run.provenance.as_mut().expect("it was given").inputs.truncate(1);
    run
}

fn of(first: Mixture, second: Mixture) -> Comparison {
    compare(["old", "new"], &Document::Solve(first), &Document::Solve(second)).expect("they can be compared")
}

fn found<'a>(list: &'a [Difference], of: &str, what: &str) -> &'a Difference {
    list.iter().find(|one| one.of == of && one.what == what).unwrap_or_else(|| panic!("there is no {what} of {of}"))
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1e-3), "{found} is not {expected}");
}

#[test]
fn weights_of_independent_runs_have_intervals_of_their_differences() {
    let (first, second) = solved();
    let comparison = of(without_reference(first.clone()), without_reference(second.clone()));
    assert_eq!(comparison.overlap, Overlap::None);
    let flux = found(&comparison.weights, "flux", "weight");
    near(flux.difference.expect("both have it"), 0.15);
    let [low, high] = flux.interval.expect("both have intervals");
    near(low, 0.029169540264054314);
    near(high, 0.23544003745317532);
    assert_eq!(flux.beyond_noise, Some(true));
    assert!(comparison.sentence.starts_with("Beyond noise: weight of flux"), "{}", comparison.sentence);

    // The noise of a shared reference may be common to both: widths are added.
    let comparison = of(first, second);
    let flux = found(&comparison.weights, "flux", "weight");
    let [low, high] = flux.interval.expect("both have intervals");
    near(low, -0.01);
    near(high, 0.26);
    assert_eq!(flux.beyond_noise, Some(false));
    assert!(comparison.noise.contains("the shared reference"), "{}", comparison.noise);
    // Losses have no standard error.
    assert_eq!(found(&comparison.results, "mixture", "loss").beyond_noise, None);
    assert_eq!(found(&comparison.results, "mixture", "gain in loss").difference, Some(0.0));
}

#[test]
fn runs_on_the_same_samples_are_not_tested() {
    let (first, mut second) = solved();
    second.provenance.clone_from(&first.provenance);
    let same = of(first.clone(), second.clone());
    assert_eq!(same.overlap, Overlap::Same);
    assert!(same.noise.contains("the same samples") && same.noise.contains("No test"), "{}", same.noise);
    // One more file, which the other run does not have.
    let inputs = &mut second.provenance.as_mut().expect("it was given").inputs;
    inputs.push(provenance('c').inputs[0].clone());
    let some = of(first.clone(), second.clone());
    assert_eq!(some.overlap, Overlap::Some);
    // A file with an unknown checksum, and no provenance at all.
    second.provenance.as_mut().expect("it was given").inputs[0].sha256 = None;
    let unknown = of(first.clone(), second.clone());
    assert_eq!(unknown.overlap, Overlap::Unknown);
    second.provenance = None;
    let older = of(first, second);
    assert_eq!(older.overlap, Overlap::Unknown);
    for comparison in [same, some, unknown, older] {
        let all = comparison.weights.iter().chain(&comparison.results).chain(&comparison.scores);
        assert!(all.into_iter().all(|one| one.beyond_noise.is_none() && one.interval.is_none()));
        assert!(comparison.sentence.ends_with("were not tested."), "{}", comparison.sentence);
    }
}

#[test]
fn other_objectives_leave_weights_to_compare() {
    type Change = (&'static str, fn(&mut Mixture));
    let changes: [Change; 3] = [
        ("objectives", |run| run.objective = "rke".into()),
        ("kernels", |run| run.kernels = vec![modelmix::Kernel::Gaussian { bandwidth: 21.0 }]),
        ("references", |run| {
            run.provenance.as_mut().expect("it was given").inputs[1].sha256 = Some("e".repeat(64));
        }),
    ];
    for (what, change) in changes {
        let (first, mut second) = solved();
        change(&mut second);
        let comparison = of(first, second);
        assert!(comparison.results.is_empty() && comparison.scores.is_empty() && comparison.weights.len() == 2);
        assert!(comparison.notes[0].starts_with(&format!("The {what} differ")), "{:?}", comparison.notes);
    }
}

#[test]
fn what_has_nothing_in_common_is_refused() {
    let solve = Document::Solve(synthetic::solve(&names()));
    let refused = |one: &Document, other: &Document| {
        compare(["old", "new"], one, other).expect_err("they have nothing in common").to_string()
    };
    let score = Document::Score(synthetic::score(&names()));
    let error = refused(&solve, &score);
    assert!(error.contains("a document of solve cannot be compared with one of score"), "{error}");
    let others = Document::Solve(synthetic::solve(&["a".to_string(), "b".into()]));
    let error = refused(&solve, &others);
    assert!(error.contains("they have no arm in common: flux, sdxl and a, b"), "{error}");
}

#[test]
fn arms_of_one_run_alone_are_named() {
    let three = ["flux", "sdxl", "pixart"].map(String::from);
    let comparison = of(synthetic::solve(&names()), synthetic::solve(&three));
    assert_eq!(comparison.notes[0], "Only new has pixart.");
    assert_eq!(comparison.weights.len(), 2);
}

/// Scores of both arms: rke with independent errors, fid with a shared reference, recall without errors over the samples.
fn scored(checksum: char, values: [[f64; 2]; 4]) -> Scores {
    let mut run = synthetic::score(&names());
    run.settings.metrics = ["rke", "fid", "recall"].map(|name| name.parse().expect("a metric")).into();
    run.provenance = Some(provenance(checksum));
    run.mixture = None;
    for (arm, [[rke, rke_error], [fid, fid_error]]) in
        run.arms.iter_mut().zip([[values[0], values[1]], [values[2], values[3]]])
    {
        arm.scores.extend([("rke".to_string(), rke), ("fid".into(), fid), ("recall".into(), 0.5)]);
        arm.errors.extend([
            ("rke".to_string(), Some(rke_error)),
            ("fid".into(), Some(fid_error)),
            ("recall".into(), Some(0.001)),
        ]);
    }
    run
}

#[test]
fn scores_are_tested_by_their_standard_errors() {
    let first = scored('a', [[4.0, 0.125], [10.0, 1.5], [6.0, 0.25], [30.0, 1.0]]);
    let second = scored('b', [[4.5, 0.2], [20.0, 2.0], [6.1, 0.3], [30.0, 1.0]]);
    let comparison = compare(["old", "new"], &Document::Score(first.clone()), &Document::Score(second.clone()));
    let comparison = comparison.expect("they can be compared");
    let of = |arm: &str, metric: &str| found(&comparison.scores, arm, metric);
    let [low, high] = of("flux", "rke").interval.expect("both have errors");
    near(low, 0.03774341875846621);
    near(high, 0.9622565812415338);
    // Four p-values: 0.00427 (fid, errors added), 0.0340, 0.798 and 1, times 4, 3, 2 and 1.
    near(of("flux", "fid").p_value.expect("it was tested"), 4.0 * 0.004274733960172568);
    near(of("flux", "rke").p_value.expect("it was tested"), 3.0 * 0.03400640286438702);
    near(of("sdxl", "rke").p_value.expect("it was tested"), 1.0);
    assert_eq!([of("flux", "fid").beyond_noise, of("flux", "rke").beyond_noise], [Some(true), Some(false)]);
    // The error of recall is over the reference, which is the same.
    assert_eq!((of("flux", "recall").p_value, of("flux", "recall").beyond_noise), (None, None));

    let mut other = second.clone();
    other.settings.kernel = Some(modelmix::Kernel::Gaussian { bandwidth: 3.0 });
    let comparison = compare(["old", "new"], &Document::Score(first.clone()), &Document::Score(other));
    let comparison = comparison.expect("they can be compared");
    assert!(comparison.scores.iter().all(|one| one.what != "rke"));
    assert!(comparison.notes[0].starts_with("rke: defined differently"), "{:?}", comparison.notes);

    let mut same = second;
    same.provenance.clone_from(&first.provenance);
    let comparison = compare(["old", "new"], &Document::Score(first), &Document::Score(same));
    assert!(comparison.expect("as before").scores.iter().all(|one| one.beyond_noise.is_none()));
}

fn simulated(seed: u64, seeds: usize, mean: f64, std: f64) -> SimulationReport {
    let mut run = synthetic::simulate(&names(), &["adaptive"]);
    (run.seed, run.seeds, run.provenance) = (seed, seeds, Some(provenance('a')));
    let policy = run.policies.get_mut("adaptive").expect("it ran");
    *policy.loss.mean.last_mut().expect("there are rounds") = mean;
    *policy.loss.std.last_mut().expect("there are rounds") = std;
    run
}

#[test]
fn simulations_with_other_seeds_are_tested_by_welch() {
    let compared = |second: SimulationReport| {
        let first = simulated(0, 10, 0.0032, 0.0005);
        let documents = (Document::Simulate(first), Document::Simulate(second));
        compare(["old", "new"], &documents.0, &documents.1).expect("they can be compared")
    };
    let tested = compared(simulated(10, 8, 0.0041, 0.0009));
    // Two tests: regrets are the same.
    near(found(&tested.scores, "adaptive", "final loss").p_value.expect("tested"), 2.0 * 0.028932603450910754);
    assert_eq!(found(&tested.scores, "adaptive", "final regret").p_value, Some(1.0));
    let paired = compared(simulated(9, 8, 0.0041, 0.0009));
    assert!(paired.noise.contains("common seeds") && paired.scores.iter().all(|one| one.p_value.is_none()));
    let mut other = simulated(10, 8, 0.0041, 0.0009);
    other.provenance = Some(provenance('b'));
    let other = compared(other);
    assert!(
        other.noise.contains("not known to draw from the same") && other.scores.iter().all(|one| one.p_value.is_none())
    );
}

#[test]
fn curated_sets_are_compared_row_by_row() {
    let first: Curated = synthetic::curate(&names());
    let mut second = first.clone();
    second.rows[0].row = 999;
    let comparison = compare(["old", "new"], &Document::Curate(first.clone()), &Document::Curate(second));
    let comparison = comparison.expect("they can be compared");
    assert_eq!(comparison.notes, [format!("{} rows are in both sets.", first.count - 1)]);
    assert_eq!(
        comparison.results.iter().map(|one| one.what.as_str()).collect::<Vec<_>>(),
        ["rows", "loss", "MMD² ×100"]
    );
}

/// Settings and files that differ are listed, and no others.
#[test]
fn changes_are_listed() {
    let (first, mut second) = solved();
    second.provenance.as_mut().expect("it was given").seed = Some(7);
    let comparison = of(first, second);
    let settings: Vec<[&str; 3]> =
        comparison.settings.iter().map(|one| [one.what.as_str(), one.first.as_str(), one.second.as_str()]).collect();
    assert_eq!(settings, [["seed", "0", "7"]]);
    let inputs: Vec<(bool, bool)> =
        comparison.inputs.iter().map(|input| (input.first.is_some(), input.second.is_some())).collect();
    assert_eq!(inputs, [(true, false), (true, true), (false, true)]);
}

/// The page has the numbers of the comparison, each with its JSON pointer.
#[test]
fn the_page_has_the_numbers_of_the_comparison() {
    let (first, second) = solved();
    let comparison = of(without_reference(first), without_reference(second));
    let report = Report { title: "Two".into(), comparison: Some(comparison.clone()), ..Report::default() };
    let html = report.html().expect("it fits together");
    let documents = serde_json::json!({ "comparison": comparison });
    let numbers = super::numbers(&html);
    assert!(numbers.len() > 10, "{} numbers", numbers.len());
    for (value, place) in numbers {
        assert_eq!(documents.pointer(&place).and_then(serde_json::Value::as_f64), Some(value), "{place}");
    }
    let text = super::text(&html);
    assert!(text.contains("old and new") && text.contains("beyond noise") && text.contains("MOVER"));
}
