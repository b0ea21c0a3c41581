//! KID has one definition: the objective `kid` and the metric `kid_full` are the same number, equal to NumPy in double
//! precision. Other kernels are refused. Sessions do not need the range of its kernel; errors of policies that do need it name
//! what to give.

use std::path::PathBuf;

use modelmix::metrics::{Metric, Pool, ScoreSettings, Scorer};
use modelmix::mixture::{forms, solve};
use modelmix::objective::Bandwidth;
use modelmix::simplex::Bounds;
use modelmix::{
    Features, Inputs, Kernel, KernelSpec, Loss, Objective, RecordedArms, Session, SessionSettings, Simulation, load,
    simulate,
};
use serde_json::Value;

/// The rounding error of a difference of sums over millions of pairs in double precision.
const TOLERANCE: f64 = 1e-9;

fn data(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion").join(file)
}

fn arms(scenario: &str) -> RecordedArms {
    load::arms(&[data(&format!("{scenario}.npz")).to_str().unwrap().parse().unwrap()]).unwrap()
}

fn reference() -> Features {
    load::features(data("reference.npy"), None).unwrap()
}

fn loss(text: &str, arms: &RecordedArms) -> Loss {
    Objective::parse(text).unwrap().prepare(Inputs::new().arms(arms).reference(reference())).unwrap()
}

#[track_caller]
fn same(what: &str, found: f64, expected: f64) {
    assert!((found - expected).abs() <= TOLERANCE * expected.abs(), "{what}: {found}, expected {expected}");
}

/// KID computed with NumPy (`tools/golden.py`): the U-statistic at these weights.
fn by_numpy(case: &Value, weights: &[f64]) -> f64 {
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    let rows: Vec<Vec<f64>> = case["K_u"].as_array().unwrap().iter().map(numbers).collect();
    let dot = |row: &[f64]| row.iter().zip(weights).map(|(one, weight)| one * weight).sum::<f64>();
    rows.iter().zip(weights).map(|(row, weight)| weight * dot(row)).sum::<f64>()
        + dot(&numbers(&case["f"]))
        + case["constant_u"].as_f64().unwrap()
}

#[test]
fn the_objective_is_the_metric_digit_by_digit() {
    let golden: Value = serde_json::from_str(include_str!("../golden/fashion.json")).unwrap();
    let cases: Vec<&Value> =
        golden["cases"].as_array().unwrap().iter().filter(|case| case["objective"] == "kid").collect();
    assert_eq!(cases.len(), 5);
    let reference = reference();
    for case in cases {
        let scenario = case["scenario"].as_str().unwrap();
        let arms = arms(scenario);
        let loss = loss("kid", &arms);
        let sets: Vec<&Features> = arms.iter().map(|arm| &arm.features).collect();
        let settings = ScoreSettings::default().metrics(vec![Metric::KidFull]);
        let scorer = Scorer::new(settings, &sets, Some(&reference), loss.engine()).unwrap();
        let best = solve(&arms, &loss).unwrap();
        assert_eq!((best.score.name.as_str(), best.score.more_is_better), ("KID", false));
        for (index, (arm, set)) in best.arms.iter().zip(&sets).enumerate() {
            let metric = scorer.score(&Pool::of(set)).unwrap()[&Metric::KidFull].value;
            let alone: Vec<f64> = (0..sets.len()).map(|other| f64::from(u8::from(other == index))).collect();
            let what = format!("{scenario}: {}", arm.name);
            same(&what, arm.score, metric);
            same(&what, arm.score, by_numpy(case, &alone));
        }
        // The best mixture, equal shares, and shares of 1 : 2 : 3 …
        let form = &forms(&arms, &loss).unwrap()[0].unbiased;
        let total = (sets.len() * (sets.len() + 1) / 2) as f64;
        let equal = vec![1.0 / sets.len() as f64; sets.len()];
        let rising: Vec<f64> = (1..=sets.len()).map(|share| share as f64 / total).collect();
        for weights in [best.weights(), equal, rising] {
            let pool = Pool::mixture(sets.iter().copied().zip(weights.iter().copied())).unwrap();
            let metric = scorer.score(&pool).unwrap()[&Metric::KidFull].value;
            let what = format!("{scenario}: {weights:?}");
            same(&what, form.value(&weights) + loss.unbiased_constant(), metric);
            same(&what, metric, by_numpy(case, &weights));
        }
        let weights = best.weights();
        same(&format!("{scenario}: mixture"), best.mixture.score, form.value(&weights) + loss.unbiased_constant());
    }
}

/// The same kernel under `mmd` has the same loss, and a score 100 times as large, as its name states.
#[test]
fn mmd_with_the_kernel_of_kid_is_printed_100_times_as_large() {
    let arms = arms("generators");
    let (kid, mmd) =
        (solve(&arms, &loss("kid", &arms)).unwrap(), solve(&arms, &loss("mmd(kernel=kid)", &arms)).unwrap());
    assert_eq!(kid.kernels, [Kernel::Polynomial { scale: 1.0 / 64.0, offset: 1.0, degree: 3 }]);
    assert_eq!(mmd.kernels, kid.kernels);
    assert_eq!(mmd.score.name, "MMD² ×100");
    for (one, other) in kid.arms.iter().zip(&mmd.arms) {
        // mmd is summed in single precision.
        assert!((100.0 * one.score - other.score).abs() <= 1e-4 * other.score, "{}: {other:?}", one.name);
    }
}

#[test]
fn kid_has_no_other_kernel() {
    for (text, instead) in [
        ("kid(bandwidth=20)", "write mmd(bandwidth=20) for MMD² with a Gaussian kernel"),
        ("kid ( bandwidth = auto )", "write mmd(bandwidth=auto)"),
        ("kid(kernel=laplacian, bandwidth=5)", "write mmd(kernel=laplacian, bandwidth=5)"),
        ("kid(kernel=polynomial, degree=2)", "write mmd(kernel=polynomial, offset=1, degree=2)"),
        ("kid(kernel=kid)", "write kid without settings"),
    ] {
        let sentence = Objective::parse(text).unwrap_err().to_string();
        for words in ["KID has one kernel, (x·y/d + 1)³, which has no bandwidth", instead, "at character 1"] {
            assert!(sentence.contains(words), "{text}: {sentence}");
        }
    }
    let refusal =
        |objective: Objective| objective.prepare(Inputs::new().reference(reference())).unwrap_err().to_string();
    assert_eq!(
        refusal(Objective::kid().with_bandwidth(20.0)),
        "the bandwidth of kid is 20, but it must be left out: KID has one kernel, (x·y/d + 1)³, which has no bandwidth; \
         write mmd(bandwidth=20) for MMD² with a Gaussian kernel"
    );
    let laplacian = KernelSpec::Laplacian { bandwidth: Bandwidth::Fixed(3.0) };
    let sentence = refusal(0.5 * Objective::kid().with_kernel(laplacian) - Objective::precision());
    assert!(sentence.contains("write mmd(kernel=laplacian, bandwidth=3)"), "{sentence}");
}

/// Next to a term that accepts a bandwidth, the bandwidth applies to that term.
#[test]
fn a_bandwidth_goes_past_kid_to_the_other_terms() {
    let kernels = |objective: Objective| objective.prepare(Inputs::new().reference(reference())).unwrap().kernels();
    let cubic = Kernel::Polynomial { scale: 1.0 / 64.0, offset: 1.0, degree: 3 };
    let gaussian = Kernel::Gaussian { bandwidth: 20.0 };
    assert_eq!(kernels((Objective::rke() + Objective::kid()).with_bandwidth(20.0)), [gaussian, cubic]);
    assert_eq!(kernels((Objective::kid() + Objective::mmd()).with_bandwidth(20.0)), [cubic, gaussian]);
    assert_eq!(kernels(Objective::kid().with_kernel(KernelSpec::Kid)), [cubic]);
    // If all other kernels are given, there is no term for the bandwidth, as without kid.
    let named = Objective::parse("rke(bandwidth=20) + kid").unwrap();
    assert_eq!(kernels(named.with_bandwidth(3.0)), [gaussian, cubic]);
}

/// The default policy measures the spread of the samples, so it minimises `kid` as well; policies with constants need the range.
#[test]
fn sessions_minimise_kid_without_a_range() {
    let arms = arms("specialists");
    let loss = loss("kid", &arms);
    let policies = ["adaptive", "one-arm-oracle", "uniform"].map(|policy| policy.parse().unwrap()).to_vec();
    let report = simulate(&arms, &loss, &Simulation::default().policies(policies).rounds(1000).seeds(3)).unwrap();
    let last = |policy: &str| *report.policies[policy].loss.mean.last().unwrap();
    assert!(last("adaptive") < last("uniform") && last("uniform") < last("one-arm-oracle"), "{}", last("adaptive"));
    assert!(*report.policies["adaptive"].regret.mean.last().unwrap() < 0.2 * report.gain);

    let names = arms.names();
    let build = |policy: &str, loss: &Loss| {
        Session::new(names.clone(), loss.clone(), &SessionSettings::default().policy(policy.parse().unwrap())).map(drop)
    };
    for policy in ["cab", "ogd"] {
        let sentence = build(policy, &loss).unwrap_err().to_string();
        for words in [
            "the unbounded kernel of kid",
            "give the range of the kernel",
            "adaptive",
            "use mmd, whose Gaussian kernel is bounded",
        ] {
            assert!(sentence.contains(words), "{policy}: {sentence}");
        }
        assert!(build(&format!("{policy}(sensitivity=0.1)"), &loss).is_ok(), "{policy}");
    }
    // With ‖x‖² ≤ 64 R the kernel lies between (1 − R)³ and (1 + R)³.
    let bound = arms.iter().flat_map(|arm| arm.features.view().iter().map(squared_norm).collect::<Vec<_>>());
    let bound = bound.chain(reference().view().iter().map(squared_norm)).fold(0.0, f64::max) / 64.0;
    let (least, greatest) = ((1.0 - bound).powi(3), (1.0 + bound).powi(3));
    let inputs = Inputs::new().reference(reference()).kernel_range(least, greatest);
    let bounded = Objective::kid().prepare(inputs).unwrap();
    assert!(build("cab", &bounded).is_ok());
    let ranges = bounded.ranges().unwrap();
    assert_eq!((ranges.kappa, ranges.linear), ((least, greatest), (-2.0 * greatest, -2.0 * least)));
}

fn squared_norm(row: &[f32]) -> f64 {
    row.iter().map(|&value| f64::from(value).powi(2)).sum()
}

/// `rke` and `vendi` are not defined with this kernel, and it has no bandwidth to vary.
#[test]
fn analyses_of_bandwidths_need_a_kernel_that_has_one() {
    let arms = arms("categories");
    let analyses = modelmix::mixture::Analyses::default().bandwidths(Some("auto".parse().unwrap()));
    let bounds = Bounds::simplex(arms.len());
    let refused = modelmix::mixture::solve_with_analyses(&arms, &loss("kid", &arms), &bounds, &analyses);
    let sentence = refused.map(drop).unwrap_err().to_string();
    assert!(sentence.contains("kid has none; use rke or mmd"), "{sentence}");
}
