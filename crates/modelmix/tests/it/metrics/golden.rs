//! Metrics of the fashion features against values that `tools/golden_metrics.py` took from torch-fidelity, clean-fid,
//! prdc, vendi-score and scipy or, if none of them has one, computed by brute force in NumPy.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use modelmix::Kernel;
use modelmix::compute::{Cpu, Double, Engine};
use modelmix::metrics::{
    ErrorBy, KidSettings, Neighbourhoods, NumPyRandom, Prdc, cmmd, fid, fid_estimate, kid, kid_kernel, mmd, prdc, rke,
    vendi, vendi_estimate,
};
use serde_json::Value;

use super::fashion::{Set, number, whole};
use super::relative;

static GOLDEN: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../golden/metrics.json")).unwrap());

fn cases(metric: &str, count: usize) -> &'static [Value] {
    let cases = GOLDEN[metric].as_array().unwrap();
    assert_eq!(cases.len(), count, "{metric}");
    cases
}

fn sets(case: &Value) -> (Set, Set) {
    (Set::read(&case["generated"]), Set::read(&case["reference"]))
}

fn gaussian(case: &Value) -> Kernel {
    Kernel::Gaussian { bandwidth: number(&case["bandwidth"]) }
}

/// The engine for published numbers, and the default one, which is accurate to about 1e-7 of a kernel value.
fn engines() -> [(&'static str, Engine); 2] {
    [("double", Engine::new(Double::new())), ("cpu", Engine::new(Cpu::new()))]
}

#[test]
fn fid_of_scipy_and_of_tools() {
    for case in cases("fid", 15) {
        let (generated, reference) = sets(case);
        let expected = number(&case["value"]);
        for (engine, backend) in engines() {
            let what = format!("fid of {} with {engine}", generated.name);
            let found = fid(&generated.pool(), reference.one(), &backend).unwrap();
            assert_eq!(found, fid_estimate(&generated.pool(), reference.one(), &backend).unwrap().value, "{what}");
            if expected == 0.0 {
                assert!(found <= 1e-12 * (generated.trace() + reference.trace()), "{what} to itself: {found}");
                continue;
            }
            relative(&what, found, expected, 1e-11);
            for tool in ["scipy", "torch_fidelity", "clean_fid"] {
                let what = format!("{what} against {tool}");
                if case["singular"] == true {
                    // Tools add a small constant before taking the root of a singular product, or get a complex result:
                    // they are accurate to about 1e-8 of the traces, and the value above is not from them.
                    let off = (found - number(&case[tool])).abs();
                    assert!(off <= 1e-6 * (generated.trace() + reference.trace()), "{what}: {found} is off by {off:e}");
                } else {
                    relative(&what, found, number(&case[tool]), 1e-11);
                }
            }
        }
    }
}

/// Accurate to 1e-11 in double precision and to 1e-6 in single precision, although KID is a small difference of large
/// means.
#[test]
fn kid_of_tools() {
    for case in cases("kid", 20) {
        let full = case["tool"] == "full";
        let (first, second) = if full { ("generated", "reference") } else { ("first", "second") };
        let (first, second) = (Set::read(&case[first]), Set::read(&case[second]));
        // clean-fid draws from its second set first.
        let (samples, reference) = if case["tool"] == "clean-fid" { (second, first) } else { (first, second) };
        let (pool, kernel) = (samples.pool(), kid_kernel(samples.one().width()));
        for (engine, backend) in engines() {
            let what = format!("kid as {} has it of {} with {engine}", case["tool"], samples.name);
            let allowed = if engine == "double" { 1e-11 } else { 1e-6 };
            if full {
                let found = mmd(&pool, reference.one(), &kernel, &backend).unwrap().unbiased;
                let expected = number(&case["unbiased"]);
                relative(&what, found.value, expected, allowed);
                continue;
            }
            let settings = KidSettings::default()
                .subsets(whole(&case["subsets"]))
                .size(whole(&case["subset_size"]))
                .seed(whole(&case["seed"]) as u32);
            let found = kid(&pool, reference.one(), &kernel, &settings, &backend).unwrap();
            assert_eq!(found.by, ErrorBy::Subsets);
            relative(&what, found.value, number(&case["mean"]), allowed);
            if let Some(deviation) = case.get("std") {
                let what = format!("deviation of {what}");
                relative(&what, found.standard_error, number(deviation), allowed);
            }
        }
    }
}

#[test]
fn numpy_draws() {
    let mut generators: BTreeMap<u32, NumPyRandom> = BTreeMap::new();
    for draw in GOLDEN["generator"]["draws"].as_array().unwrap() {
        let seed = whole(&draw["seed"]) as u32;
        let generator = generators.entry(seed).or_insert_with(|| NumPyRandom::seeded(seed));
        let found = generator.choice(whole(&draw["of"]), whole(&draw["size"]));
        let first: Vec<usize> = draw["first"].as_array().unwrap().iter().map(whole).collect();
        assert_eq!(found[..first.len()], first, "seed {seed}");
        let checksum: usize = found.iter().enumerate().map(|(position, index)| (position + 1) * index).sum();
        assert_eq!(checksum, whole(&draw["checksum"]), "seed {seed}");
    }
    assert_eq!(generators.len(), 2);
}

fn scores(found: &Prdc) -> [(&'static str, f64); 4] {
    [
        ("precision", found.precision.value),
        ("recall", found.recall.value),
        ("density", found.density.value),
        ("coverage", found.coverage.value),
    ]
}

/// Shares and means of counts: if every comparison is right, they are exact to the last digit.
#[test]
fn neighbourhoods_to_the_last_digit() {
    for case in cases("prdc", 14) {
        let (generated, reference) = sets(case);
        let neighbourhoods = Neighbourhoods::default().neighbours(whole(&case["neighbours"])).closed(false);
        for (engine, backend) in engines() {
            let found = prdc(&generated.pool(), reference.one(), &neighbourhoods, &backend).unwrap();
            for (name, score) in scores(&found) {
                let what = format!("{name} of {} with {engine}", generated.name);
                assert_eq!(score, number(&case["value"][name]), "{what}");
                // If rows lie on borders, the rounding of the package decides.
                if case["degenerate"] == false {
                    assert_eq!(score, number(&case["prdc"][name]), "{what}, the package");
                }
            }
        }
    }
    for case in cases("prc", 8) {
        let (generated, reference) = sets(case);
        let neighbourhoods = Neighbourhoods::default().neighbours(whole(&case["neighbours"])).closed(true);
        let found = prdc(&generated.pool(), reference.one(), &neighbourhoods, &Engine::new(Double::new())).unwrap();
        for (name, score) in &scores(&found)[..2] {
            assert_eq!(*score, number(&case["value"][name]), "{name} of {}", generated.name);
            // torch-fidelity reports it in single precision.
            let tool = number(&case["torch_fidelity"][name]);
            assert_eq!(*score as f32, tool as f32, "{name} of {}, the tool", generated.name);
        }
    }
    for case in cases("weighted_prdc", 3) {
        let (generated, reference) = sets(case);
        let neighbourhoods = Neighbourhoods::default().neighbours(whole(&case["neighbours"])).closed(false);
        let pool = generated.pool();
        relative("weighted effective size", pool.effective_len(), number(&case["effective_size"]), 1e-14);
        for (engine, backend) in engines() {
            let found = prdc(&pool, reference.one(), &neighbourhoods, &backend).unwrap();
            for (name, score) in scores(&found) {
                // The last bit of sums of weights depends on the order of additions; ratios of counts do not.
                let tolerance = if name == "recall" || name == "coverage" { 0.0 } else { 1e-15 };
                relative(&format!("weighted {name} with {engine}"), score, number(&case["value"][name]), tolerance);
            }
        }
    }
}

#[test]
fn vendi_of_every_order() {
    for case in cases("vendi", 10) {
        let generated = Set::read(&case["generated"]);
        let kernel = match case["kernel"]["name"].as_str().unwrap() {
            "cosine" => Kernel::Cosine { power: 1 },
            "gaussian" => gaussian(&case["kernel"]),
            name => panic!("no kernel {name}"),
        };
        for (order, expected) in case["value"].as_object().unwrap() {
            let order_number: f64 = order.parse().unwrap();
            for (engine, backend) in engines() {
                let what = format!("vendi {order} of {} with {kernel} and {engine}", generated.name);
                let tolerance = if engine == "double" { 1e-11 } else { 1e-6 };
                let found = vendi(&generated.pool(), &kernel, order_number, &backend).unwrap();
                relative(&what, found, number(expected), tolerance);
                for peer in ["score_dual", "score_K"] {
                    if let Some(expected) = case[peer].get(order) {
                        relative(&format!("{what}, {peer}"), found, number(expected), tolerance);
                    }
                }
                let found = vendi_estimate(&generated.pool(), &kernel, order_number, &backend).unwrap();
                relative(&format!("{what}, with its error"), found.value, number(expected), tolerance);
            }
        }
    }
}

#[test]
fn rke_of_sets_and_mixtures() {
    for case in cases("rke", 11) {
        let generated = Set::read(&case["generated"]);
        for (engine, backend) in engines() {
            let what = format!("of {} with {engine}", generated.name);
            let tolerance = if engine == "double" { 1e-12 } else { 1e-6 };
            let found = rke(&generated.pool(), &gaussian(case), &backend).unwrap();
            relative(&format!("modes {what}"), found.modes.value, number(&case["mode_count"]), tolerance);
            relative(&format!("entropy {what}"), found.entropy.value, number(&case["entropy"]), tolerance);
        }
    }
}

#[test]
fn mmd_and_cmmd() {
    for case in cases("mmd", 5) {
        let (generated, reference) = sets(case);
        for (engine, backend) in engines() {
            let what = format!("of {} with {engine}", generated.name);
            // Values are as small as 0.0015, and kernel values are of order one.
            let tolerance = if engine == "double" { 1e-11 } else { 1e-5 };
            let found = mmd(&generated.pool(), reference.one(), &gaussian(case), &backend).unwrap();
            relative(&format!("biased mmd {what}"), found.biased.value, number(&case["biased"]), tolerance);
            relative(&format!("unbiased mmd {what}"), found.unbiased.value, number(&case["unbiased"]), tolerance);
        }
    }
    for case in cases("cmmd", 3) {
        let (generated, reference) = sets(case);
        for (engine, backend) in engines() {
            // Rows of length one are rounded to single precision; and all kernel values are near one, MMD² near 1e-5.
            let tolerance = if engine == "double" { 1e-6 } else { 1e-4 };
            let found = cmmd(&generated.pool(), reference.one(), &backend).unwrap();
            let what = format!("cmmd of {} with {engine}", generated.name);
            relative(&what, found.value, number(&case["value"]), tolerance);
        }
    }
}

#[test]
fn standard_errors_by_brute_force() {
    let engine = Engine::new(Double::new());
    let cosine = Kernel::Cosine { power: 1 };
    for case in cases("standard_errors", 5) {
        let generated = Set::read(&case["generated"]);
        let reference = case.get("reference").map(Set::read);
        let (pool, reference) = (generated.pool(), reference.as_ref().map(Set::one));
        let metric = case["metric"].as_str().unwrap();
        let found = match metric {
            "rke" => rke(&pool, &gaussian(case), &engine).unwrap().modes,
            "mmd" => mmd(&pool, reference.unwrap(), &gaussian(case), &engine).unwrap().unbiased,
            "fid" => fid_estimate(&pool, reference.unwrap(), &engine).unwrap(),
            "vendi" => vendi_estimate(&pool, &cosine, number(&case["order"]), &engine).unwrap(),
            _ => panic!("no metric {metric}"),
        };
        let by = if case["method"] == "jackknife" { ErrorBy::Jackknife } else { ErrorBy::Influence };
        assert_eq!(found.by, by, "{metric}");
        // Influences of FID are at covariances with n − 1, a thousandth from those at covariances with n.
        let expected = if metric == "fid" { &case["unbiased"] } else { case };
        relative(metric, found.value, number(&expected["value"]), 1e-12);
        // The expected influences come from numerical differentiation.
        let tolerance = if by == ErrorBy::Jackknife { 1e-12 } else { 1e-9 };
        relative(&format!("error of {metric}"), found.standard_error, number(&expected["standard_error"]), tolerance);
    }
}
