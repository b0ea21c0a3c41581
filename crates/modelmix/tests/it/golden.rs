//! The offline pipeline, from files to weights, against values that `tools/golden.py` computed with NumPy in double
//! precision, independent of our methods.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use modelmix::load::{self, ArmSource};
use modelmix::mixture::{TermForm, forms};
use modelmix::objective::{Bandwidth, median_distance};
use modelmix::{Features, Inputs, Kernel, KernelSpec, Loss, Mixture, Objective, RecordedArms, solve};
use serde_json::Value;

/// One part in a million. Features are 32-bit and so are the distances of the default engine: about 1e-7 per entry.
const RELATIVE: f64 = 1e-6;

/// The tolerance of weights, which minimise a form with approximate entries. Over a convex set, if a form of curvature
/// λ (αᵀKα ≥ λ|α|² for Σα = 0) has a gradient 2Kα + f with error e, its minimiser has an error of at most |e|/2λ. The
/// least curved case here, mmd on `generators`, has λ = 0.00125, so 1e-5 allows an e of 2.5e-8, a ten-millionth of K:
/// means over a million pairs are that accurate, because rounding errors of single pairs average out.
/// `weights_are_as_good_as_the_form` checks every case against the bound itself.
const WEIGHTS: f64 = 1e-5;

struct Case {
    golden: Value,
    name: String,
    loss: Loss,
    forms: Vec<TermForm>,
    mixture: Mixture,
}

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion").join(file)
}

static GOLDEN: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../golden/fashion.json")).unwrap());

static REFERENCE: LazyLock<Arc<Features>> =
    LazyLock::new(|| Arc::new(load::features(data("reference.npy"), None).unwrap()));

/// Every case, solved once; the tests below each check one aspect.
static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let mut scenarios: BTreeMap<String, RecordedArms> = BTreeMap::new();
    GOLDEN["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|golden| {
            let scenario = golden["scenario"].as_str().unwrap();
            let arms = scenarios.entry(scenario.into()).or_insert_with(|| {
                let path = data(&format!("{scenario}.npz"));
                load::arms(&[path.to_str().unwrap().parse::<ArmSource>().unwrap()]).unwrap()
            });
            let written: Objective = golden["objective"].as_str().unwrap().parse().unwrap();
            // Through the text again, now with its kernels.
            let objective: Objective = written.with_kernel(spec(&golden["kernel"])).to_string().parse().unwrap();
            let inputs = Inputs::new().arms(arms).reference(REFERENCE.clone());
            let loss = objective.prepare(inputs).unwrap();
            Case {
                name: format!("{scenario}: {objective}"),
                golden: golden.clone(),
                forms: forms(arms, &loss).unwrap(),
                mixture: solve(arms, &loss).unwrap(),
                loss,
            }
        })
        .collect()
});

fn spec(kernel: &Value) -> KernelSpec {
    let number = |key: &str| kernel[key].as_f64().unwrap();
    match kernel["name"].as_str().unwrap() {
        "gaussian" => KernelSpec::Gaussian { bandwidth: Bandwidth::Fixed(number("bandwidth")) },
        "laplacian" => KernelSpec::Laplacian { bandwidth: Bandwidth::Fixed(number("bandwidth")) },
        "polynomial" => KernelSpec::Polynomial {
            scale: Some(number("gamma")),
            offset: number("offset"),
            degree: number("degree") as u32,
        },
        "cosine" => KernelSpec::Cosine,
        name => panic!("no kernel {name}"),
    }
}

impl Case {
    fn number(&self, key: &str) -> f64 {
        self.golden[key].as_f64().unwrap_or_else(|| panic!("{}: {key} is missing", self.name))
    }

    fn numbers(&self, key: &str) -> Vec<f64> {
        let list = self.golden[key].as_array().unwrap_or_else(|| panic!("{}: {key} is missing", self.name));
        list.iter().map(|value| value.as_f64().unwrap()).collect()
    }

    fn matrix(&self, key: &str) -> Vec<Vec<f64>> {
        let rows = self.golden[key].as_array().unwrap().iter();
        rows.map(|row| row.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()).collect()
    }

    /// The largest entry of K.
    fn size(&self) -> f64 {
        self.matrix("K").iter().flatten().fold(0.0, |most: f64, value| most.max(value.abs()))
    }

    /// Losses and f: relative to their own size, unless they are a difference of values that are a hundred times as
    /// large.
    fn close(&self, what: &str, found: f64, expected: f64) {
        let size = if expected.abs() < 0.01 * self.size() { self.size() } else { expected.abs() };
        assert!(
            (found - expected).abs() <= RELATIVE * size,
            "{}: {what} is {found}, expected {expected}, off by {:e} of {size}",
            self.name,
            (found - expected).abs()
        );
    }

    fn has(&self, key: &str) -> bool {
        !self.golden[key].is_null()
    }
}

/// Relative to the entry itself.
fn relative(what: &str, found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= RELATIVE * expected.abs(),
        "{what} is {found}, expected {expected}, off by {:e} relative",
        (found - expected).abs() / expected.abs()
    );
}

fn quadratic_value(matrix: &[Vec<f64>], linear: &[f64], weights: &[f64]) -> f64 {
    let product = |row: &Vec<f64>| row.iter().zip(weights).map(|(k, weight)| k * weight).sum::<f64>();
    matrix.iter().zip(linear).zip(weights).map(|((row, f), weight)| weight * (product(row) + f)).sum()
}

#[test]
fn every_case_is_there() {
    assert_eq!(CASES.len(), 22);
    assert_eq!(REFERENCE.len() as u64, GOLDEN["reference_rows"].as_u64().unwrap());
    for case in CASES.iter() {
        let names: Vec<&str> = case.mixture.arms.iter().map(|arm| arm.name.as_str()).collect();
        let expected: Vec<&str> =
            case.golden["arms"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(names, expected, "{}", case.name);
    }
}

#[test]
fn forms_with_self_pairs() {
    for case in CASES.iter() {
        for (i, row) in case.matrix("K").iter().enumerate() {
            for (j, &expected) in row.iter().enumerate() {
                relative(&format!("{}: K[{i}][{j}]", case.name), case.mixture.form.at(i, j), expected);
            }
        }
        for (arm, expected) in case.numbers("f").into_iter().enumerate() {
            case.close(&format!("f[{arm}]"), case.mixture.form.linear()[arm], expected);
        }
    }
}

#[test]
fn forms_without_self_pairs() {
    for case in CASES.iter() {
        for (i, row) in case.matrix("K_u").iter().enumerate() {
            for (j, &expected) in row.iter().enumerate() {
                let found: f64 = case.forms.iter().map(|term| term.weight * term.unbiased.at(i, j)).sum();
                relative(&format!("{}: K_u[{i}][{j}]", case.name), found, expected);
            }
        }
        // f has no pairs, so it is the same in both statistics.
        for (arm, expected) in case.numbers("f").into_iter().enumerate() {
            let found: f64 = case.forms.iter().map(|term| term.weight * term.unbiased.linear()[arm]).sum();
            case.close(&format!("f[{arm}] without self-pairs"), found, expected);
        }
    }
}

#[test]
fn constants_of_the_reference() {
    for case in CASES.iter() {
        relative(&format!("{}: constant", case.name), case.loss.constant(), case.number("constant"));
        relative(&format!("{}: constant_u", case.name), case.loss.unbiased_constant(), case.number("constant_u"));
        assert_eq!(case.mixture.constant, case.loss.constant(), "{}", case.name);
    }
}

#[test]
fn losses_weights_and_gain() {
    for case in CASES.iter() {
        for (arm, expected) in case.mixture.arms.iter().zip(case.numbers("single_losses")) {
            case.close(&format!("the loss of {}", arm.name), arm.loss, expected);
        }
        for (arm, expected) in case.mixture.arms.iter().zip(case.numbers("weights")) {
            assert!(
                (arm.weight - expected).abs() <= WEIGHTS,
                "{}: the weight of {} is {}, expected {expected}",
                case.name,
                arm.name,
                arm.weight
            );
        }
        case.close("the loss", case.mixture.mixture.loss, case.number("loss"));
        case.close("the gain", case.mixture.gain, case.number("gain"));
        let singles = case.numbers("single_losses");
        let best = (0..singles.len()).min_by(|&a, &b| singles[a].total_cmp(&singles[b])).unwrap();
        assert_eq!(case.mixture.best_single.name, case.mixture.arms[best].name, "{}", case.name);
        assert!(
            case.mixture.mixture.gap <= 1e-12 * case.size().max(1.0),
            "{}: gap {}",
            case.name,
            case.mixture.mixture.gap
        );
    }
}

/// The smallest curvature of K along Σα = 0, by shifted power iteration.
fn least_curvature(matrix: &[Vec<f64>]) -> f64 {
    let arms = matrix.len();
    let centred = |vector: &[f64]| {
        let mean = vector.iter().sum::<f64>() / arms as f64;
        vector.iter().map(|value| value - mean).collect::<Vec<f64>>()
    };
    let apply = |vector: &[f64]| -> Vec<f64> {
        centred(&matrix.iter().map(|row| row.iter().zip(vector).map(|(k, v)| k * v).sum()).collect::<Vec<f64>>())
    };
    // The trace of a positive semidefinite matrix bounds its largest eigenvalue.
    let bound: f64 = (0..arms).map(|arm| matrix[arm][arm]).sum();
    let mut vector = centred(&(0..arms).map(|arm| (arm as f64 + 1.0).sqrt().sin()).collect::<Vec<_>>());
    for _ in 0..20_000 {
        let image = apply(&vector);
        vector = centred(&vector.iter().zip(image).map(|(v, k)| bound * v - k).collect::<Vec<_>>());
        let length = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
        vector.iter_mut().for_each(|value| *value /= length);
    }
    vector.iter().zip(apply(&vector)).map(|(v, k)| v * k).sum()
}

#[test]
fn weights_are_as_good_as_the_form() {
    for case in CASES.iter() {
        let (matrix, weights) = (case.matrix("K"), case.numbers("weights"));
        let expected = matrix.iter().zip(case.numbers("f")).map(|(row, f)| {
            let product: f64 = row.iter().zip(&weights).map(|(k, weight)| k * weight).sum();
            2.0 * product + f
        });
        let length = |values: Vec<f64>| values.iter().map(|value| value * value).sum::<f64>().sqrt();
        let error =
            case.mixture.form.gradient(&weights).into_iter().zip(expected).map(|(found, g)| found - g).collect();
        // Twice |e|/2λ, because power iteration can only overestimate λ; plus the rounding of double precision.
        let allowed = length(error) / least_curvature(&matrix) + 1e-12;
        let found = length(case.mixture.arms.iter().zip(&weights).map(|(arm, weight)| arm.weight - weight).collect());
        assert!(found <= allowed, "{}: weights are off by {found:e}, the form explains {allowed:e}", case.name);
    }
}

#[test]
fn scores_as_people_read_them() {
    for case in CASES.iter() {
        let term = |name: &str| case.mixture.mixture.terms.iter().position(|term| term.term.starts_with(name));
        if case.has("mode_count") {
            let rke = term("rke").unwrap();
            relative(
                &format!("{}: mode count", case.name),
                case.mixture.mixture.terms[rke].score,
                case.number("mode_count"),
            );
            for (arm, expected) in case.mixture.arms.iter().zip(case.numbers("single_mode_counts")) {
                relative(&format!("{}: mode count of {}", case.name, arm.name), arm.terms[rke].score, expected);
            }
        }
        // If the only term is a discrepancy, its score is the unbiased one: × 100 for mmd.
        if case.golden["objective"] == "kid" || case.golden["objective"] == "mmd" {
            let factor = if case.golden["objective"] == "mmd" { 100.0 } else { 1.0 };
            let (matrix, linear) = (case.matrix("K_u"), case.numbers("f"));
            let unbiased = |weights: &[f64]| quadratic_value(&matrix, &linear, weights) + case.number("constant_u");
            let mixture = unbiased(&case.numbers("weights"));
            // A difference of numbers of the size of K, at weights known to 1e-5 around a flat optimum.
            case.close("the unbiased score", case.mixture.mixture.terms[0].score / factor, mixture);
            for (index, arm) in case.mixture.arms.iter().enumerate() {
                let mut alone = vec![0.0; linear.len()];
                alone[index] = 1.0;
                case.close(&format!("the score of {}", arm.name), arm.terms[0].score / factor, unbiased(&alone));
            }
        }
    }
}

#[test]
fn precision_and_density_are_exact_counts() {
    let mut seen = 0;
    for case in CASES.iter() {
        for name in ["precision", "density"] {
            let Some(term) = case.forms.iter().find(|term| term.term == name) else { continue };
            // Integers divided by a number of samples: no row is closer to the border of a ball than one part in
            // 100,000, so the smallest possible error is one miscount; the rest is the rounding of a thousand
            // additions.
            assert!(case.number("closest_margin") > 1e-6);
            for (found, expected) in term.biased.linear().iter().zip(case.numbers(name)) {
                assert!((found - expected).abs() <= 1e-12 * expected, "{}: {name} {found} {expected}", case.name);
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 2);
}

#[test]
fn kernels_are_reported_as_given() {
    for case in CASES.iter() {
        let golden = &case.golden["kernel"];
        for kernel in case.loss.kernels() {
            let fits = match kernel {
                Kernel::Gaussian { bandwidth } => golden["name"] == "gaussian" && golden["bandwidth"] == bandwidth,
                Kernel::Laplacian { bandwidth } => golden["name"] == "laplacian" && golden["bandwidth"] == bandwidth,
                Kernel::Polynomial { scale, .. } => golden["name"] == "polynomial" && golden["gamma"] == scale,
                Kernel::Cosine { power } => golden["name"] == "cosine" && power == 1,
                _ => false,
            };
            assert!(fits, "{}: {kernel}", case.name);
        }
    }
}

#[test]
fn median_rule() {
    let golden = &GOLDEN["median_distance"];
    let rows = golden["rows"].as_u64().unwrap() as usize;
    let first = REFERENCE.select(0..rows).unwrap();
    let expected = golden["value"].as_f64().unwrap();
    // No more rows than the rule uses: all of them, for any seed.
    for seed in [0, 1, 99] {
        let found = median_distance(&[&first], seed).unwrap();
        assert!((found - expected).abs() <= 1e-12 * expected, "seed {seed}: {found}, expected {expected}");
    }
    let loss = Objective::mmd().prepare(Inputs::new().reference(first)).unwrap();
    let Kernel::Gaussian { bandwidth } = loss.kernels()[0] else { panic!("{:?}", loss.kernels()) };
    assert!((bandwidth - expected).abs() <= 1e-12 * expected, "{bandwidth}");
}
