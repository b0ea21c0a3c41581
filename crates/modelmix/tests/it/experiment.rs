//! Experiments: every shipped one parses and passes its check, invalid ones get their message, and unmet expectations
//! are found.

use std::path::{Path, PathBuf};

use modelmix::experiment::{Measured, Outcome, Quantity, Requirement, Stage, check_names};
use modelmix::{Experiment, PolicySpec};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All experiments of a folder of `experiments/`.
fn shipped(folder: &str) -> Vec<Experiment> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(root().join("experiments").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths.iter().map(|path| Experiment::read(path).unwrap()).collect()
}

/// An experiment in a folder that is two levels from the data.
fn parse(text: &str) -> modelmix::Result<Experiment> {
    Experiment::parse(&root().join("experiments/fashion/test.toml"), text)
}

fn run(experiment: &Experiment) -> Outcome {
    experiment.check(None).unwrap().run(2, &mut |_| {}).unwrap()
}

#[test]
fn every_experiment_that_ships_is_right() {
    let mut all = Vec::new();
    for (folder, count) in [("fashion", 11), ("text", 2), ("paper", 14)] {
        let experiments = shipped(folder);
        assert_eq!(experiments.len(), count, "{folder}");
        for experiment in &experiments {
            let plan = experiment.check(None).unwrap();
            assert_eq!(plan.missing().is_some(), folder == "paper", "{}", plan.name());
            assert!(!experiment.about.is_empty() && experiment.expected.len() > 2, "{}", plan.name());
            assert_eq!(experiment.simulate.as_ref().unwrap().seeds, 10, "{}", plan.name());
        }
        all.extend(experiments);
    }
    check_names(&all).unwrap();
}

/// The settings of the paper's table, copied by hand.
#[test]
fn the_papers_settings() {
    let paper = shipped("paper");
    for (name, arms, bandwidth, rounds, samples) in [
        ("ffhq-mmd", 5, Some(40.0), Some(8000), Some(10_000)),
        ("lsun-bedroom-mmd", 4, Some(40.0), Some(8000), Some(10_000)),
        ("ffhq-truncated-mmd", 8, Some(40.0), Some(4000), Some(5000)),
        ("ffhq-truncated-rke", 8, Some(40.0), Some(2000), Some(5000)),
        ("afhq-cat-truncated-rke", 4, None, Some(1200), Some(5000)),
        ("styles-rke", 3, Some(30.0), Some(1000), Some(2000)),
        ("sofa-rke", 4, Some(30.0), Some(700), Some(1000)),
        ("dog-breeds-rke", 3, Some(50.0), Some(500), Some(1000)),
        ("red-bird-rke", 3, Some(30.0), None, Some(8000)),
        ("text-roberta-rke", 4, Some(0.6), Some(7000), Some(10_000)),
        ("quality-ffhq-rke-precision", 4, Some(30.0), Some(4000), Some(5000)),
        ("quality-ffhq-rke-density", 4, Some(30.0), Some(4000), Some(5000)),
        ("sparse-rke", 4, Some(30.0), None, None),
    ] {
        let found = paper.iter().find(|experiment| experiment.name == name).unwrap();
        assert_eq!((found.arms.len(), found.bandwidth, found.samples), (arms, bandwidth, samples), "{name}");
        if let Some(rounds) = rounds {
            assert_eq!(found.simulate.as_ref().unwrap().rounds, rounds, "{name}");
        }
    }
}

#[test]
fn one_runs_from_file_to_checks() {
    let experiments = shipped("fashion");
    let experiment = experiments.iter().find(|experiment| experiment.name == "categories-rke").unwrap();
    let mut stages = Vec::new();
    let outcome = experiment.check(None).unwrap().run(2, &mut |stage| stages.push(stage)).unwrap();
    let failed: Vec<String> =
        outcome.checks.iter().filter(|check| !check.passed).map(|check| format!("{check:?}")).collect();
    assert!(outcome.passed() && failed.is_empty(), "{failed:#?}");
    assert_eq!(outcome.checks.len(), experiment.expected.len());
    assert_eq!(outcome.solve.as_ref().unwrap().arms.len(), 3);
    let score = outcome.score.as_ref().unwrap();
    assert!(score.mixture.as_ref().unwrap().scores.contains_key("vendi") && score.settings.kernel.is_some());
    assert_eq!(outcome.simulate.as_ref().unwrap().order.len(), 8);
    assert_eq!(stages[..2], [Stage::Reading, Stage::Solving]);
    assert_eq!(*stages.last().unwrap(), Stage::Simulating { runs: 80 });
    assert_eq!(stages.iter().filter(|stage| matches!(stage, Stage::Scoring { of: 4, .. })).count(), 4);
    // The JSON form round-trips.
    let json = serde_json::to_string(&outcome).unwrap();
    assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), outcome);
    // Results do not depend on the number of threads, which only the provenance states.
    let mut single = experiment.check(None).unwrap().run(1, &mut |_| {}).unwrap();
    assert_ne!(single.provenance.engine, outcome.provenance.engine);
    single.provenance = outcome.provenance.clone();
    assert_eq!(single, outcome);
}

const SMALL: &str = r#"
name = "small"
features = "../../data/fashion"
arms = ["categories.npz"]
objective = "rke"
bandwidth = 20
samples = 60
[simulate]
policies = ["one-arm-oracle", "mixture-oracle", "uniform"]
rounds = 300
seeds = 2
checkpoints = 10
"#;

/// Control: each expectation is inverted, and each must be found.
#[test]
fn what_is_not_as_expected_is_found() {
    let right = r#"
"weight of bag" = { at_least = 0.3 }
"best single" = "bag"
"gain" = { at_least = 0.01 }
"score of mixture" = { above = "score of best single" }
"rounds of one-arm-oracle to 90%" = "never"
"rounds of mixture-oracle to 90%" = { at_most = 300 }
"regret of uniform" = { below = "regret of one-arm-oracle" }
"arms of one-arm-oracle" = { value = 1, tolerance = 0 }
"arms of uniform" = { value = 3, tolerance = 0 }
"share of bag by one-arm-oracle" = { value = 1, tolerance = 0 }
"#;
    let wrong = r#"
"weight of bag" = { at_most = 0.3 }
"best single" = "coat"
"gain" = { value = 0.5, tolerance = 0.01 }
"score of mixture" = { below = "score of best single" }
"rounds of one-arm-oracle to 90%" = { at_most = 300 }
"rounds of mixture-oracle to 90%" = "never"
"regret of uniform" = { above = "regret of one-arm-oracle" }
"arms of one-arm-oracle" = { value = 2, tolerance = 0 }
"arms of uniform" = { at_most = 2 }
"share of bag by one-arm-oracle" = { at_most = 0.9 }
"#;
    let outcome = run(&parse(&format!("{SMALL}[expected]{right}")).unwrap());
    for check in &outcome.checks {
        assert!(check.passed, "{check:?}");
    }
    let outcome = run(&parse(&format!("{SMALL}[expected]{wrong}")).unwrap());
    assert_eq!(outcome.checks.len(), 10);
    for check in &outcome.checks {
        assert!(!check.passed, "{check:?}");
    }
    assert!(!outcome.passed());
    assert_eq!(outcome.checks[4].measured, Measured::Never);
}

#[test]
fn the_order_of_expectations_and_short_names_of_policies_are_kept() {
    let text = format!(
        "{}[expected]\n\"weight of sneaker\" = {{ at_most = 1 }}\n\"gain\" = {{ at_least = 0, at_most = 1 }}\n\"regret of cab\" = {{ below = \"regret of vanilla\" }}",
        SMALL.replace("\"uniform\"", "\"cab(sensitivity=0.03)\", \"vanilla(sensitivity=0.03)\"")
    );
    let experiment = parse(&text).unwrap();
    let written: Vec<String> = experiment.expected.iter().map(|(what, _)| what.to_string()).collect();
    assert_eq!(written, ["weight of sneaker", "gain", "gain", "regret of cab"]);
    let outcome = run(&experiment);
    let last = outcome.checks.last().unwrap();
    assert_eq!(last.what, Quantity::Regret("cab(sensitivity=0.03)".into()));
    assert_eq!(last.expected, Requirement::Below(Quantity::Regret("vanilla(sensitivity=0.03)".into())));
    assert!(last.requirement().starts_with("below regret of vanilla(sensitivity=0.03) ("), "{}", last.requirement());
    assert_eq!(outcome.solve.unwrap().arms[0].samples, 60, "the first samples only");
    assert!(experiment.simulate.unwrap().policies.contains(&"cab(sensitivity=0.03)".parse::<PolicySpec>().unwrap()));
}

#[test]
fn features_can_be_elsewhere() {
    let experiment = parse(SMALL).unwrap();
    let elsewhere = Path::new("/nowhere/at/all");
    let missing = experiment.check(Some(elsewhere)).unwrap();
    assert_eq!(missing.missing(), Some(elsewhere.join("categories.npz").as_path()));
    let error = missing.run(1, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("cannot read /nowhere/at/all/categories.npz"), "{error}");
    let data = root().join("data/fashion");
    assert_eq!(experiment.check(Some(&data)).unwrap().missing(), None);
}

/// The message of an invalid experiment, when it is parsed, checked or run.
fn refusal(text: &str) -> String {
    let path = "experiments/fashion/test.toml: ";
    let error = match parse(text) {
        Err(error) => error,
        Ok(experiment) => match experiment.check(None) {
            Err(error) => error,
            Ok(plan) => plan.run(1, &mut |_| {}).unwrap_err(),
        },
    };
    let error = error.to_string();
    let (_, sentence) = error.split_once(path).unwrap_or(("", &error));
    assert!(!sentence.contains('\n'), "one sentence: {sentence}");
    sentence.into()
}

#[test]
fn bad_experiments_get_their_sentence() {
    let with = |line: &str| SMALL.replace("\n[simulate]", &format!("\n{line}\n[simulate]"));
    let without = |line: &str| SMALL.replace(line, "");
    let instead = |old: &str, new: &str| SMALL.replace(old, new);
    let expecting = |line: &str| format!("{SMALL}[expected]\n{line}");
    for (text, sentence) in [
        ("name = ".to_string(), "line 1: this is not TOML"),
        (with("name = \"again\""), "line 8: this is not TOML: duplicate key"),
        (with("objetive = \"kid\""), "line 8: unknown key \"objetive\" (did you mean objective?)"),
        (with("colour = \"red\""), "unknown key \"colour\" (known keys: name, about, features"),
        (instead("rounds", "rouds"), "line 10: unknown key \"rouds\" in [simulate] (did you mean rounds?)"),
        (without("name = \"small\""), "the key name is missing; write it as in name = "),
        (without("objective = \"rke\""), "the key objective is missing"),
        (without("arms = [\"categories.npz\"]"), "the key arms is missing"),
        (without("rounds = 300"), "the key rounds is missing in [simulate]"),
        (instead("\"small\"", "\"a/b\""), "name: \"a/b\" is not a valid name; use letters, digits, - and _"),
        (
            instead("[\"categories.npz\"]", "\"categories.npz\""),
            "arms: the string \"categories.npz\" is given, but a list of strings",
        ),
        (instead("[\"categories.npz\"]", "[]"), "arms needs at least one file"),
        (instead("= 20", "= \"20\""), "bandwidth: the string \"20\" is given, but a finite number is needed"),
        (instead("= 20", "= -20"), "bandwidth is -20, but it must be a positive number"),
        (instead("= 20", "= 0"), "bandwidth is 0, but it must be a positive number"),
        (instead("= 20", "= nan"), "bandwidth: the number nan is given, but a finite number is needed"),
        (instead("\"rke\"", "\"rke(bandwidth=3)\""), "bandwidth is 20, but no term of rke(bandwidth=3) uses it"),
        (instead("\"rke\"", "\"rke +\""), "objective: cannot read \"rke +\" at character 6"),
        (instead("\"rke\"", "\"-1*rke\""), "the weight of rke is -1"),
        (instead("\"rke\"", "\"kid\""), "kid needs a reference set"),
        (instead("\"rke\"", "\"rke + 0.1*cost\""), "cost needs the cost of a sample of each arm"),
        (instead("\"rke\"", "\"rke - 0.1*beauty\""), "the term beauty needs scores"),
        (instead("\"rke\"", "\"rke + fid\""), "fid needs a reference set"),
        (instead("\"rke\"", "\"rke + vendi\""), "vendi can be optimised offline only, and no policy minimises it"),
        (with("costs = [1, 2, 3]"), "costs are given, but the objective has no term cost"),
        (with("costs = [1, 2]").replace("\"rke\"", "\"rke + 0.1*cost\""), "2 costs were given for 3 arms"),
        (with("metrics = [\"fdi\"]"), "metrics: metric is \"fdi\", but it must be one of"),
        (with("metrics = [\"fid\"]"), "fid needs a reference set"),
        (with("metrics = [\"rke\", \"rke\"]"), "metric rke is listed twice, but it must be listed once"),
        (with("metrics = [\"rke\"]\noffline = false"), "leave out offline = false"),
        (with("offline = 1"), "offline: the number 1 is given, but true or false is needed"),
        (with("reference = \"r=reference.npy\""), "the reference needs no name; leave out r="),
        (instead("samples = 60", "samples = 1"), "samples is 1, but it must be at least 2"),
        (instead("samples = 60", "samples = -1"), "samples: the number -1 is given, but a whole number"),
        (
            instead("\"uniform\"", "\"unifrom\""),
            "policies: cannot read \"unifrom\" at character 1: there is no policy unifrom (did you mean uniform?)",
        ),
        (
            instead("\"uniform\"", "\"one-arm-oracle\""),
            "policy one-arm-oracle is listed twice, but it must be listed once",
        ),
        (instead("\"uniform\"", "\"fixed(weights=0.5 0.5)\""), "fixed(weights=0.5 0.5): weights is 2"),
        (instead("\"uniform\"", "\"cab(beta=1)\""), "cab(beta=1): beta is 1"),
        (
            instead("[\"one-arm-oracle\", \"mixture-oracle\", \"uniform\"]", "[]"),
            "a simulation needs at least one policy",
        ),
        (instead("rounds = 300", "rounds = 0"), "rounds is 0, but it must be at least 1"),
        (instead("seeds = 2", "seeds = 99999999999"), "seeds is 99999999999, but it must be less"),
        (instead("rounds = 300", "rounds = 2.5"), "rounds: the number 2.5 is given, but a whole number"),
        (SMALL[..SMALL.find("[simulate]").unwrap()].to_string() + "offline = false", "there is nothing to do"),
        (instead("categories.npz", "catgories.npz"), "No such file"),
        (instead("categories.npz", "categories.npz:hat"), "there is no array named \"hat\""),
        (
            expecting("\"weight of bga\" = { at_most = 1 }"),
            "\"weight of bga\" is expected, but there is no arm bga; the arms are sneaker, bag, coat",
        ),
        (expecting("\"weight of sneakers\" = { at_most = 1 }"), "there is no arm sneakers (did you mean sneaker?)"),
        (expecting("\"best single\" = \"hat\""), "\"best single\" is expected, but there is no arm hat"),
        (expecting("\"best single\" = 3"), "best single: the number 3 is given, but a string"),
        (expecting("\"gain\" = { above = \"score of hat\" }"), "\"score of hat\" is expected, but there is no arm hat"),
        (expecting("\"gain\" = 0.1"), "gain: write the requirement, as in { value = 0.3, tolerance = 0.01 }"),
        (expecting("\"gain\" = \"never\""), "gain: write the requirement"),
        (expecting("\"rounds of uniform to 90%\" = 30"), "or { at_most = 400 }, or \"never\""),
        (expecting("\"gain\" = {}"), "gain: nothing is required"),
        (expecting("\"gain\" = { value = 1 }"), "gain: value and tolerance are needed together"),
        (expecting("\"gain\" = { value = 1, tolerance = -1 }"), "tolerance: it must be zero or more"),
        (expecting("\"gain\" = { atmost = 1 }"), "unknown key \"atmost\" in [gain] (did you mean at_most?)"),
        (expecting("\"gain\" = { below = \"best single\" }"), "below: best single is a name"),
        (expecting("\"wieght of bag\" = { at_most = 1 }"), "there is no quantity wieght (did you mean weight?)"),
        (
            expecting("\"fid of bag\" = { at_most = 1 }"),
            "\"fid of bag\" is expected, but fid is not measured; add it to metrics",
        ),
        (
            expecting("\"regret of unifrom\" = { at_most = 1 }"),
            "the policy unifrom is not simulated (did you mean uniform?)",
        ),
        (expecting("\"regret of cab\" = { at_most = 1 }"), "the policy cab is not simulated; add it to policies"),
        (
            expecting("\"regret of cab\" = { at_most = 1 }").replace("\"uniform\"", "\"cab(beta=2)\", \"cab(beta=3)\""),
            "several policies are named cab; write one in full, as in cab(beta=2)",
        ),
        (
            expecting("\"gain\" = { at_most = 1 }").replace("bandwidth", "offline = false\nbandwidth"),
            "\"gain\" is expected, but nothing is solved",
        ),
        (
            SMALL[..SMALL.find("[simulate]").unwrap()].to_string() + "[expected]\n\"regret of cab\" = { at_most = 1 }",
            "nothing is simulated; add [simulate]",
        ),
    ] {
        let found = refusal(&text);
        assert!(found.contains(sentence), "{text}\nfound:    {found}\nexpected: {sentence}");
    }
}

/// If every arm is named in the file, unknown names are found without reading features.
#[test]
fn named_arms_are_checked_without_their_features() {
    let text = "name = \"x\"\narms = [\"a=nowhere/a.npy\", \"nowhere/b.npy\", \"nowhere/c.npz:c\"]\nobjective = \"rke\"\n[expected]\n\"weight of d\" = { at_most = 1 }";
    let error = parse(text).unwrap().check(None).unwrap_err().to_string();
    assert!(error.ends_with("there is no arm d; the arms are a, b, c"), "{error}");
    parse(&text.replace("of d", "of b")).unwrap().check(None).unwrap();
}

#[test]
fn two_experiments_cannot_have_one_name() {
    let (first, mut second) = (parse(SMALL).unwrap(), parse(SMALL).unwrap());
    second.path = "other.toml".into();
    let error = check_names(&[first.clone(), second.clone()]).unwrap_err().to_string();
    assert!(
        error.starts_with("other.toml: the name \"small\" is also used by ") && error.contains("test.toml"),
        "{error}"
    );
    second.name = "another".into();
    check_names(&[first, second]).unwrap();
}

#[test]
fn files_that_are_no_experiments() {
    let error = |path: &Path| Experiment::read(path).unwrap_err().to_string();
    assert!(error(&root().join("experiments/none.toml")).starts_with("cannot read "));
    assert!(error(&root().join("experiments")).ends_with("this is not a regular file; give a text file"));
    assert!(error(&root().join("data/fashion/quality.npz")).ends_with("this is not UTF-8; save it as text"));
    assert!(error(&root().join("data/text/features.npz")).ends_with("this is larger than 1 MiB; give a text file"));
}
