//! Worlds whose best mixtures are known, data of real generators, and error messages.

use std::path::Path;

use modelmix::compute::{Cpu, Engine, Reference};
use modelmix::metrics::{Pool, fid, vendi};
use modelmix::mixture::{forms, solve_within, statistics};
use modelmix::policy::Random;
use modelmix::simplex::Bounds;
use modelmix::{
    Error, Features, Inputs, Kernel, KernelSpec, Loss, Objective, PolicySpec, RecordedArms, Session, SessionSettings,
    Simulation, load, simulate, solve,
};

use super::{cloud, prepared, recorded, world};

fn rows(rows: impl IntoIterator<Item = Vec<f32>>) -> Features {
    Features::from_rows(rows.into_iter().collect::<Vec<_>>()).unwrap()
}

fn mapped(features: &Features, map: impl Fn(&[f32]) -> Vec<f32>) -> Features {
    rows(features.view().iter().map(map))
}

fn close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    for (found_one, expected_one) in found.iter().zip(expected) {
        assert!((found_one - expected_one).abs() < tolerance, "{what}: {found:?}, not {expected:?}");
    }
}

#[test]
fn halves_of_the_reference_make_it_whole() {
    // Two halves that mirror each other: by symmetry the best mixture has the same share of both.
    let right = mapped(&cloud(40, 4, &mut Random::seeded(1)), |row| {
        let mut row = row.to_vec();
        row[0] = row[0].abs() + 1.0;
        row
    });
    let left = mapped(&right, |row| row.iter().map(|value| -value).collect());
    let whole = rows(right.view().iter().chain(left.view().iter()).map(<[f32]>::to_vec));
    let arms = recorded(vec![left, right]);
    let best = solve(&arms, &prepared("fid", &arms, &whole)).unwrap();
    close(&best.weights(), &[0.5, 0.5], 1e-6, "halves");
    assert!(best.mixture.terms[0].score < 0.01 * best.best_arm().terms[0].score, "{:?}", best.mixture.terms);
    // With the reference itself as an arm, it gets all weight: the distance to itself is 0.
    let arms = recorded(vec![arms[0].features.clone(), whole.clone()]);
    let best = solve(&arms, &prepared("fid", &arms, &whole)).unwrap();
    assert!(best.mixture.loss.abs() < 1e-9 && best.mixture.gap < 1e-9, "{} {}", best.mixture.loss, best.mixture.gap);
    close(&best.weights(), &[0.0, 1.0], 1e-4, "the reference");
}

#[test]
fn identical_arms_are_worth_what_one_is() {
    let (arms, reference) = world(1, 9, 3, 2);
    let twins = recorded(vec![arms[0].features.clone(), arms[0].features.clone()]);
    for text in ["fid", "vendi", "vendi(bandwidth=1, order=0.5)"] {
        let one = solve(&arms, &prepared(text, &arms, &reference)).unwrap();
        let two = solve(&twins, &prepared(text, &twins, &reference)).unwrap();
        assert_eq!(one.weights(), [1.0]);
        assert_eq!(one.arms[0].adds, None);
        assert!((one.mixture.loss - two.mixture.loss).abs() < 1e-9 && two.gain.abs() < 1e-9, "{text}");
        assert!(two.arms.iter().all(|arm| arm.adds.unwrap() < 1e-9), "{text}");
    }
}

#[test]
fn separate_worlds_share_by_their_vendi_scores() {
    // Arms in orthogonal spaces: tr ρ^q = Σ αᵢ^q tr ρᵢ^q is minimal for α in proportion to the arms' own Vendi scores,
    // for any order, and the mixture's score is their sum. Arm i draws from its own points with known shares.
    let shares: [&[usize]; 3] = [&[1, 1, 1, 1], &[3, 1], &[5, 2, 2]];
    let mut axis = 0;
    let arms = recorded(
        shares
            .iter()
            .map(|counts| {
                let mut all = Vec::new();
                for &count in *counts {
                    let scales = (0..count).map(|copy| (axis, 1.0 + copy as f32));
                    all.extend(
                        scales.map(|(axis, scale)| (0..9).map(|at| if at == axis { scale } else { 0.0 }).collect()),
                    );
                    axis += 1;
                }
                rows(all)
            })
            .collect(),
    );
    for order in [0.4, 1.0, 1.2, 2.0, 5.0, 30.0] {
        let own = |counts: &[usize]| {
            let total: usize = counts.iter().sum();
            let parts = counts.iter().map(|&count| count as f64 / total as f64);
            if order == 1.0 {
                (-parts.map(|p| p * p.ln()).sum::<f64>()).exp()
            } else {
                parts.map(|p| p.powf(order)).sum::<f64>().powf(1.0 / (1.0 - order))
            }
        };
        let scores: Vec<f64> = shares.iter().map(|counts| own(counts)).collect();
        let sum: f64 = scores.iter().sum();
        let expected: Vec<f64> = scores.iter().map(|score| score / sum).collect();
        let loss = Objective::vendi_of(order, KernelSpec::Cosine).prepare(Inputs::new().arms(&arms)).unwrap();
        let best = solve(&arms, &loss).unwrap();
        close(&best.weights(), &expected, 1e-5, &format!("order {order}"));
        assert!(
            (best.mixture.terms[0].score - sum).abs() < 1e-6 * sum,
            "order {order}: {} {sum}",
            best.mixture.terms[0].score
        );
        close(&best.arms.iter().map(|arm| arm.terms[0].score).collect::<Vec<_>>(), &scores, 1e-6, "alone");
        let most = (0..3).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap();
        assert_eq!(best.best_single.name, best.arms[most].name);
    }
}

#[test]
fn order_two_is_rke() {
    let (arms, _) = world(4, 15, 3, 3);
    let solved = |text: &str| {
        let loss = text.parse::<Objective>().unwrap().prepare(Inputs::new().arms(&arms).engine(Reference)).unwrap();
        solve(&arms, &loss).unwrap()
    };
    for kernel in ["bandwidth=2", "kernel=laplacian, bandwidth=2", "kernel=cosine"] {
        let (vendi, rke) = (solved(&format!("vendi({kernel}, order=2)")), solved(&format!("rke({kernel})")));
        close(&vendi.weights(), &rke.weights(), 1e-6, kernel);
        assert!((vendi.mixture.loss - (rke.mixture.loss - 1.0)).abs() < 1e-12);
        assert!((vendi.mixture.terms[0].score / rke.mixture.terms[0].score - 1.0).abs() < 1e-9);
        assert!((vendi.gain - rke.gain).abs() < 1e-12);
    }
}

#[test]
fn nothing_varies() {
    let still = |value: f32| rows(vec![vec![value, 1.0]; 3]);
    let arms = recorded(vec![still(1.0), still(4.0)]);
    // No covariance: the squared distance of means minus what the mixture's own variance adds, which is linear.
    let best = solve(&arms, &prepared("fid", &arms, &still(1.0))).unwrap();
    assert_eq!((best.weights(), best.mixture.loss, best.mixture.gap), (vec![1.0, 0.0], 0.0, 0.0));
    assert_eq!(best.arms[1].loss, 9.0);
    // A reference that varies where the arms do not.
    let spread = rows([vec![1.0, 0.0], vec![1.0, 2.0], vec![1.0, 1.0]]);
    let best = solve(&arms, &prepared("fid", &arms, &spread)).unwrap();
    assert_eq!((best.weights(), best.mixture.loss), (vec![1.0, 0.0], 1.0));
    // One point each: two modes, half of each.
    let best = solve(&arms, &prepared("vendi(bandwidth=0.01)", &arms, &spread)).unwrap();
    close(&best.weights(), &[0.5, 0.5], 1e-6, "points");
    assert!((best.mixture.terms[0].score - 2.0).abs() < 1e-9);
    // Floors that leave no choice.
    let bounds = Bounds::new(vec![0.0, 1.0], vec![1.0, 1.0]).unwrap();
    let best = solve_within(&arms, &prepared("fid + vendi", &arms, &spread), &bounds).unwrap();
    assert_eq!(best.weights(), [0.0, 1.0]);
    assert!(best.mixture.gap < 1e-13, "{}", best.mixture.gap);
}

#[test]
fn shifts_and_units_do_not_matter() {
    let (arms, reference) = world(3, 20, 4, 4);
    let best = solve(&arms, &prepared("fid", &arms, &reference)).unwrap();
    for (shift, scale) in [(100.0f32, 1.0f32), (0.0, 1e-6), (0.0, 1e6)] {
        let moved = |set: &Features| mapped(set, |row| row.iter().map(|value| scale * value + shift).collect());
        let arms = recorded(arms.iter().map(|arm| moved(&arm.features)).collect());
        let there = solve(&arms, &prepared("fid", &arms, &moved(&reference))).unwrap();
        // Features are 32-bit: values shifted by 100 are rounded to 1e-5.
        close(&there.weights(), &best.weights(), 1e-3, &format!("{shift} {scale}"));
        let loss = there.mixture.loss / f64::from(scale).powi(2);
        assert!((loss / best.mixture.loss - 1.0).abs() < 1e-4, "{shift} {scale}: {loss} {}", best.mixture.loss);
    }
}

#[test]
fn real_generators() {
    let data = |file: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion").join(file);
    let arms = load::arms(&[data("specialists.npz").to_str().unwrap().parse().unwrap()]).unwrap();
    let reference = load::features(data("reference.npy"), None).unwrap();
    let best = solve(&arms, &prepared("fid", &arms, &reference)).unwrap();
    assert!(best.mixture.terms[0].score < 0.5 * best.best_arm().terms[0].score, "{:?}", best.mixture.terms);
    assert!(
        best.mixture.gap < 1e-8 * best.mixture.loss
            && best.weights().iter().filter(|&&weight| weight > 0.1).count() >= 3
    );
    let diverse = solve(&arms, &prepared("vendi", &arms, &reference)).unwrap();
    assert!(diverse.mixture.terms[0].score > diverse.best_arm().terms[0].score && diverse.mixture.gap < 1e-10);
    // The scores are those of the metrics for the pool, also for the arms alone.
    let backend = Engine::new(Cpu::with_threads(1));
    let pool = |weights: &[f64]| Pool::arms(&arms, weights).unwrap();
    let near = |found: f64, metric: f64| assert!((found / metric - 1.0).abs() < 1e-9, "{found} {metric}");
    near(best.mixture.terms[0].score, fid(&pool(&best.weights()), &reference, &backend).unwrap());
    let cosine = Kernel::Cosine { power: 1 };
    near(diverse.mixture.terms[0].score, vendi(&pool(&diverse.weights()), &cosine, 1.0, &backend).unwrap());
    for (index, arm) in arms.iter().enumerate() {
        near(best.arms[index].terms[0].score, fid(&Pool::of(&arm.features), &reference, &backend).unwrap());
    }
    // A trade-off moves the weights, and each objective is best at its own optimum.
    let both = solve(&arms, &prepared("fid + 20*vendi", &arms, &reference)).unwrap();
    assert!(both.mixture.terms[0].value > best.mixture.loss && both.mixture.terms[1].value > diverse.mixture.loss);
    assert!(both.mixture.terms[0].value < diverse_fid(&arms, &reference, &diverse.weights()));
}

fn diverse_fid(arms: &RecordedArms, reference: &Features, weights: &[f64]) -> f64 {
    let fixed = Bounds::new(weights.to_vec(), weights.iter().map(|weight| weight + 1e-9).collect()).unwrap();
    solve_within(arms, &prepared("fid", arms, reference), &fixed).unwrap().mixture.loss
}

/// The message must be a single sentence and contain all of `words`.
fn refused<T>(result: Result<T, Error>, words: &[&str]) {
    let text = result.map(|_| ()).expect_err(&format!("{words:?}")).to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(!text.contains('\n'), "{text:?}");
}

#[test]
fn sessions_refuse_what_is_not_a_mean() {
    let (arms, reference) = world(2, 6, 2, 5);
    let fid = "fid is not a mean over pairs of samples, so it can be optimised offline only, by solve; use mmd or kid in a session";
    for (text, sentence) in [
        ("fid", fid),
        ("kid + 0.1*fid", fid),
        (
            "vendi(order=2)",
            "vendi(order=2) is not a mean over pairs of samples, so it can be optimised offline only, by solve; use rke in a session",
        ),
    ] {
        let loss = || prepared(text, &arms, &reference);
        let settings = |policy| SessionSettings::default().policy(policy);
        refused(Session::new(["a", "b"], loss(), &settings(PolicySpec::Adaptive)), &[sentence]);
        refused(Session::new(["a", "b"], loss(), &settings("cab".parse().unwrap())), &[sentence]);
        refused(simulate(&arms, &loss(), &Simulation::default()), &[sentence]);
        refused(statistics(&arms, &loss()), &[sentence]);
        refused(forms(&arms, &loss()), &[sentence]);
        refused(loss().ranges(), &[sentence]);
        refused(loss().linear(0, arms[0].features.view(), &Default::default()), &[sentence]);
    }
}

#[test]
fn sentences() {
    let (arms, reference) = world(2, 6, 2, 6);
    let prepare = |objective: Objective| objective.prepare(Inputs::new().arms(&arms).reference(reference.clone()));
    let parsed = |text: &str| text.parse::<Objective>().unwrap();
    refused(parsed("fid").prepare(Inputs::new().arms(&arms)), &["fid needs a reference set"]);
    for text in ["-fid", "0*vendi", "kid - 0.1*vendi(order=3)"] {
        refused(prepare(parsed(text)), &["the weight of", "must be positive", "not convex"]);
    }
    for kernel in ["kid", "polynomial"] {
        refused(
            prepare(parsed(&format!("vendi(kernel={kernel})"))),
            &["the kernel of rke or vendi is polynomial", "k(x, x) = 1: cosine, gaussian or laplacian"],
        );
    }
    for (order, words) in [
        (0.0, "the Vendi score of order 0 is not smooth in the mixture weights"),
        (f64::INFINITY, "the Vendi score of order inf is not smooth in the mixture weights"),
        (-1.0, "a number above 0 and at most 64"),
        (f64::NAN, "a number above 0"),
        (65.0, "at most 64"),
    ] {
        refused(prepare(Objective::vendi_of(order, KernelSpec::Cosine)), &["the order of vendi is", words]);
        refused(format!("vendi(order={order})").parse::<Objective>(), &["at character 7", words]);
    }
    let blank = recorded(vec![arms[0].features.clone(), rows([vec![1.0, 0.0], vec![0.0, 0.0]])]);
    let zeros = |text: &str| -> Loss { parsed(text).prepare(Inputs::new().arms(&blank)).unwrap() };
    refused(solve(&blank, &zeros("vendi")), &["arm arm 1: row 1 is all zeros", "cosine"]);
    solve(&blank, &zeros("vendi(bandwidth=1)")).unwrap();
    let many = || rows((0..1001).map(|row| vec![row as f32]));
    let many = recorded(vec![many(), many()]);
    let loss = parsed("vendi(bandwidth=1)").prepare(Inputs::new()).unwrap();
    refused(
        solve(&many, &loss),
        &[
            "the number of samples of all arms together is 2002, but it must be at most 2000",
            "use the cosine kernel, rke",
        ],
    );
    // The number of bounds is not that of the arms.
    let bounds = Bounds::simplex(3);
    refused(solve_within(&arms, &prepared("fid", &arms, &reference), &bounds), &["bounds for 3 arms, but 2 arms"]);
}

#[test]
fn losses_with_another_order_have_another_fingerprint() {
    let fingerprint = |text: &str| text.parse::<Objective>().unwrap().prepare(Inputs::new()).unwrap().fingerprint();
    assert_ne!(fingerprint("vendi"), fingerprint("vendi(order=2)"));
    assert_eq!(fingerprint("vendi"), fingerprint("vendi(kernel=cosine, order=1)"));
}
