//! Other bandwidths: each result equals that of a separate solve, and the verdict matches the numbers.

use modelmix::mixture::{Analyses, Bandwidths, SensitivityDocument, solve_with_analyses};
use modelmix::policy::Random;
use modelmix::simplex::Bounds;
use modelmix::{Features, Inputs, Objective, RecordedArm, RecordedArms, solve};

use super::solved::{arms, reference};
use crate::simplex::normal;

fn ask(arms: &RecordedArms, objective: &str, bandwidths: Bandwidths) -> modelmix::Result<SensitivityDocument> {
    let inputs = Inputs::new().arms(arms).reference(reference(arms));
    let loss = Objective::parse(objective)?.prepare(inputs)?;
    let analyses = Analyses::default().bandwidths(bandwidths);
    Ok(solve_with_analyses(arms, &loss, &Bounds::simplex(arms.len()), &analyses)?.worth.sensitivity.unwrap())
}

#[test]
fn points_are_separate_solves() {
    let arms = arms(4, 40, 51);
    // Two kernels, which are scaled together.
    type Scaled = fn(f64) -> String;
    let texts: [(&str, Scaled); 4] = [
        ("rke(bandwidth=2)", |factor| format!("rke(bandwidth={})", 2.0 * factor)),
        ("mmd(kernel=laplacian, bandwidth=3)", |factor| format!("mmd(kernel=laplacian, bandwidth={})", 3.0 * factor)),
        ("rke(bandwidth=2) + 0.5*mmd(bandwidth=1) - 0.01*precision", |factor| {
            format!("rke(bandwidth={}) + 0.5*mmd(bandwidth={}) - 0.01*precision", 2.0 * factor, factor)
        }),
        ("vendi(kernel=gaussian, bandwidth=2)", |factor| format!("vendi(kernel=gaussian, bandwidth={})", 2.0 * factor)),
    ];
    for (written, text) in texts {
        let tried = ask(&arms, written, Bandwidths::Auto).unwrap();
        assert_eq!(tried.points.len(), 9);
        for (point, step) in tried.points.iter().zip(-4i32..=4) {
            let factor = 2.0f64.powf(f64::from(step) / 2.0);
            assert!((point.bandwidth / tried.in_use - factor).abs() < 1e-12);
            let inputs = Inputs::new().arms(&arms).reference(reference(&arms));
            let alone = solve(&arms, &Objective::parse(&text(factor)).unwrap().prepare(inputs).unwrap()).unwrap();
            let close = |a: f64, b: f64| (a - b).abs() < 1e-9 * b.abs().max(1e-3);
            assert!(close(point.loss, alone.mixture.loss), "{written}: {} {}", point.loss, alone.mixture.loss);
            assert!(close(point.gain, alone.gain) && close(point.score, alone.mixture.score), "{written}");
            assert_eq!(point.best_single, alone.best_arm().name);
            assert!(point.weights.iter().zip(alone.weights()).all(|(a, b)| (a - b).abs() < 1e-7), "{written}");
        }
        // The largest change, by its definition.
        let near = tried.points.iter().filter(|point| (0.49..2.01).contains(&(point.bandwidth / tried.in_use)));
        let here = &tried.points[4].weights;
        let largest =
            near.flat_map(|point| point.weights.iter().zip(here).map(|(a, b)| (a - b).abs())).fold(0.0f64, f64::max);
        assert_eq!(tried.largest_change, largest);
        assert!(tried.verdict.contains(&format!("{:.1} percent", 100.0 * largest)), "{}", tried.verdict);
    }
}

#[test]
fn given_bandwidths_are_used_as_they_are() {
    let arms = arms(3, 40, 52);
    let tried = ask(&arms, "rke(bandwidth=2)", "20, 0.5,5,5".parse().unwrap()).unwrap();
    assert_eq!(tried.points.iter().map(|point| point.bandwidth).collect::<Vec<_>>(), [0.5, 5.0, 20.0]);
    assert_eq!(tried.in_use, 2.0);
    // None is between half and twice the bandwidth in use.
    assert!(tried.verdict.contains("over the bandwidths tried"), "{}", tried.verdict);
}

/// Two arms that mirror each other share evenly at any bandwidth; an arm of one kind and one of many kinds do not.
#[test]
fn the_verdict_tells_them_apart() {
    let mirrored = |sign: f32, name: &str| {
        let mut random = Random::seeded(53);
        let rows: Vec<[f32; 2]> = (0..60).map(|_| [sign * (3.0 + normal(&mut random) as f32), 0.0]).collect();
        RecordedArm::new(name, Features::from_rows(rows).unwrap())
    };
    let even = RecordedArms::new(vec![mirrored(1.0, "left"), mirrored(-1.0, "right")]).unwrap();
    let tried = ask(&even, "rke(bandwidth=2)", Bandwidths::Auto).unwrap();
    assert!(tried.largest_change < 1e-6 && !tried.verdict.contains("with care"), "{}", tried.verdict);
    let mut random = Random::seeded(54);
    let narrow: Vec<[f32; 2]> = (0..60).map(|_| [4.0 + 0.01 * normal(&mut random) as f32, 0.0]).collect();
    let wide: Vec<[f32; 2]> = (0..60).map(|_| [normal(&mut random) as f32, normal(&mut random) as f32]).collect();
    let uneven = RecordedArms::new(vec![
        RecordedArm::new("narrow", Features::from_rows(narrow).unwrap()),
        RecordedArm::new("wide", Features::from_rows(wide).unwrap()),
    ])
    .unwrap();
    let tried = ask(&uneven, "rke(bandwidth=2)", Bandwidths::Auto).unwrap();
    assert!(tried.largest_change > 0.15 && tried.verdict.contains("with care"), "{}", tried.verdict);
}

#[test]
fn what_has_no_bandwidth_is_refused() {
    let arms = arms(3, 20, 55);
    let says = |objective: &str, sentence: &str| {
        assert_eq!(ask(&arms, objective, Bandwidths::Auto).unwrap_err().to_string(), sentence);
    };
    says(
        "rke(kernel=cosine)",
        "a range of bandwidths needs a kernel with a bandwidth, but rke(kernel=cosine) has none; use rke or mmd with a gaussian or a laplacian kernel",
    );
    says(
        "fid",
        "a range of bandwidths needs a kernel with a bandwidth, but fid has none; use rke or mmd with a gaussian or a laplacian kernel",
    );
    for bad in ["", "wide", "5,", "0", "-1,2", "nan"] {
        let error = bad.parse::<Bandwidths>().unwrap_err().to_string();
        let sentence = format!(
            "bandwidths is \"{bad}\", but it must be auto, or positive numbers separated by commas, such as 5,10,20"
        );
        assert_eq!(error, sentence);
    }
}
