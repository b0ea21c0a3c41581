//! Invalid inputs of objectives and losses, and their messages.

use modelmix::mixture::{self, solve};
use modelmix::objective::Bandwidth;
use modelmix::{Error, Features, Inputs, Kernel, KernelSpec, Loss, Objective, RecordedArm, RecordedArms};

fn objective(text: &str) -> Objective {
    text.parse().unwrap()
}

/// Eight rows on a circle, of width 2.
fn circle() -> Features {
    Features::from_rows((0..8).map(|i| [(i as f32).cos(), (i as f32).sin()])).unwrap()
}

fn arms() -> RecordedArms {
    let shifted = Features::from_rows(circle().view().iter().map(|row| [row[0] + 3.0, row[1]])).unwrap();
    RecordedArms::new(vec![RecordedArm::new("a", circle()), RecordedArm::new("b", shifted)]).unwrap()
}

/// The message must be a single sentence and contain all of `words`.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &[&str]) {
    let text = result.expect_err(&format!("{words:?}")).to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(!text.contains('\n'), "{text:?}");
}

#[test]
fn what_a_term_needs() {
    let arms = arms();
    for term in ["mmd", "mmd(bandwidth=2)", "precision", "density"] {
        let name = term.split('(').next().unwrap();
        let inputs = Inputs::new().arms(&arms).costs(vec![1.0, 2.0]).width(2);
        refused(objective(term).prepare(inputs), &[name, "needs a reference set"]);
    }
    refused(
        objective("rke(bandwidth=1) + cost").prepare(Inputs::new()),
        &["cost needs the cost of a sample of each arm"],
    );
    refused(objective("rke(kernel=kid)").prepare(Inputs::new()), &["without a scale", "the features' width"]);
    refused(objective("rke(kernel=polynomial)").prepare(Inputs::new()), &["without a scale", "the features' width"]);
    objective("rke(kernel=kid)").prepare(Inputs::new().width(2)).unwrap();
    objective("rke(kernel=kid)").prepare(Inputs::new().reference(circle())).unwrap();
    objective("rke(kernel=polynomial, scale=2)").prepare(Inputs::new()).unwrap();
    refused(
        objective("rke").prepare(Inputs::new().width(2)),
        &["automatic bandwidth", "give the bandwidth as a number"],
    );
}

#[test]
fn weights_keep_the_loss_convex() {
    let arms = arms();
    for (text, value) in [("-rke", "-1"), ("0*mmd", "0"), ("rke - 2*kid", "-2")] {
        let inputs = Inputs::new().arms(&arms).reference(circle());
        refused(objective(text).prepare(inputs), &["the weight of", value, "must be positive", "not convex"]);
    }
    for weight in [f64::NAN, f64::INFINITY] {
        for objective in [weight * Objective::rke().with_bandwidth(1.0), weight * Objective::score("taste")] {
            refused(objective.prepare(Inputs::new()), &["the weight of", "a finite number"]);
        }
    }
    // Linear terms may have any sign.
    objective("0*taste - 3*cost").prepare(Inputs::new().costs(vec![1.0])).unwrap();
}

#[test]
fn settings_out_of_range() {
    for bandwidth in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let gaussian = Objective::rke().with_bandwidth(bandwidth);
        refused(gaussian.prepare(Inputs::new()), &["bandwidth is", "a positive number"]);
        let laplacian = KernelSpec::Laplacian { bandwidth: Bandwidth::Fixed(bandwidth) };
        refused(Objective::rke().with_kernel(laplacian).prepare(Inputs::new()), &["bandwidth is", "a positive number"]);
    }
    for (setting, what) in [
        ("degree=0", "degree is 0, but it must be between 1 and 64"),
        ("degree=65", "degree is 65"),
        ("degree=99999999999", "between 1 and 64"),
        ("offset=-1", "offset is -1, but it must be zero or a positive number"),
        ("scale=0", "scale is 0, but it must be a positive number"),
        ("scale=-2", "scale is -2"),
    ] {
        let text = format!("rke(kernel=polynomial, {setting})");
        refused(objective(&text).prepare(Inputs::new().width(2)), &[what]);
    }
    for measure in ["precision", "density"] {
        for neighbours in [0, 8, 9] {
            refused(
                objective(&format!("{measure}(neighbours={neighbours})")).prepare(Inputs::new().reference(circle())),
                &[
                    &format!("neighbours of {measure} is {neighbours}"),
                    "at least 1 and less than the reference's 8 rows",
                ],
            );
        }
        objective(&format!("{measure}(neighbours=7)")).prepare(Inputs::new().reference(circle())).unwrap();
    }
    refused(
        objective("cost").prepare(Inputs::new().costs(vec![1.0, f64::NAN])),
        &["the cost of arm 1 is NaN, but it must be a finite number"],
    );
    for (least, greatest) in [(1.0, 0.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
        let inputs = Inputs::new().width(2).kernel_range(least, greatest);
        refused(objective("rke(kernel=kid)").prepare(inputs), &["the kernel's range", "the smaller first"]);
    }
}

#[test]
fn ranges_of_scores_are_checked_like_those_of_kernels() {
    for (least, greatest) in [(f64::NAN, 1.0), (0.0, f64::INFINITY)] {
        let prepared = objective("taste").prepare(Inputs::new().score_range("taste", least, greatest));
        refused(prepared.and_then(|loss| loss.ranges()), &["taste"]);
    }
}

#[test]
fn references_that_do_not_fit() {
    let one = Features::from_rows([[1.0, 2.0]]).unwrap();
    for text in ["mmd(bandwidth=1)", "precision(neighbours=1)", "rke(bandwidth=1)"] {
        let inputs = Inputs::new().reference(one.clone());
        refused(objective(text).prepare(inputs), &["the reference", "1 row", "at least 2 samples"]);
    }
    let wide = Features::from_rows([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]).unwrap();
    refused(
        objective("mmd").prepare(Inputs::new().arms(&arms()).reference(wide.clone())),
        &["the reference has 3 columns, but arm a has 2"],
    );
    // Without the arms, the loss reports it.
    let loss = objective("mmd(bandwidth=1)").prepare(Inputs::new().reference(wide)).unwrap();
    assert_eq!(loss.width(), Some(3));
    refused(solve(&arms(), &loss), &["arm a has 2 columns, but this objective has 3"]);
    refused(mixture::statistics(&arms(), &loss), &["arm a has 2 columns"]);
}

#[test]
fn rows_without_a_direction() {
    let zero = Features::from_rows([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]).unwrap();
    refused(
        objective("mmd(kernel=cosine)").prepare(Inputs::new().reference(zero.clone())),
        &["the reference: row 2 is all zeros", "cosine"],
    );
    let with_zero =
        RecordedArms::new(vec![RecordedArm::new("fine", circle()), RecordedArm::new("blank", zero.clone())]).unwrap();
    let loss = objective("rke(kernel=cosine)").prepare(Inputs::new()).unwrap();
    refused(solve(&with_zero, &loss), &["arm blank: row 2 is all zeros", "remove it or use another kernel"]);
    // The other kernels accept it.
    let loss = objective("rke(kernel=kid) + mmd(bandwidth=1)").prepare(Inputs::new().reference(zero)).unwrap();
    solve(&with_zero, &loss).unwrap();
}

#[test]
fn bandwidths_that_data_cannot_tell() {
    let equal = || Features::from_rows([[1.0, 2.0]; 4]).unwrap();
    let arms = RecordedArms::new(vec![RecordedArm::new("a", equal()), RecordedArm::new("b", equal())]).unwrap();
    refused(objective("rke").prepare(Inputs::new().arms(&arms)), &["bandwidth is auto", "all sampled rows are equal"]);
    // Equal rows are left out of the median, so one other row is enough.
    let apart = Features::from_rows([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [4.0, 6.0]]).unwrap();
    let loss = objective("mmd").prepare(Inputs::new().reference(apart)).unwrap();
    assert_eq!(loss.kernels(), [Kernel::Gaussian { bandwidth: 5.0 }]);
}

#[test]
fn scores_that_are_not_given() {
    let arms = arms();
    let prepare = |text: &str| -> Loss { objective(text).prepare(Inputs::new().arms(&arms)).unwrap() };
    refused(
        solve(&arms, &prepare("rke(bandwidth=1) - 0.2*precison")),
        &["score precison needs a value for every sample", "did you mean precision?"],
    );
    refused(solve(&arms, &prepare("RKE")), &["did you mean rke?"]);
    let text = solve(&arms, &prepare("aesthetic")).unwrap_err().to_string();
    assert!(text.contains("score aesthetic needs a value") && !text.contains("did you mean"), "{text}");
    let given =
        RecordedArms::new(vec![arms[0].clone().with_score("taste", vec![1.0; 8]), RecordedArm::new("b", circle())])
            .unwrap();
    refused(solve(&given, &prepare("taste")), &["score taste needs a value for every sample"]);
    for (values, word) in [(vec![1.0; 7], "7 values for 8 samples"), (vec![f64::NAN; 8], "NaN at sample 0")] {
        let arm = arms[0].clone().with_score("taste", values);
        refused(RecordedArms::new(vec![arm]), &["arm a: score taste", word]);
    }
}

/// A bandwidth whose 1/σ² overflows single precision is rejected as such, and a sum that overflows names its arm.
#[test]
fn bandwidths_that_are_too_small() {
    let arms = arms();
    for bandwidth in [1e-19, 1e-200, f64::MIN_POSITIVE] {
        for kernel in ["gaussian", "laplacian"] {
            let text = format!("rke(kernel={kernel}, bandwidth={bandwidth:e})");
            let must = format!("bandwidth is {bandwidth:e}, but it must be at least 1e-18");
            refused(objective(&text).prepare(Inputs::new().arms(&arms)), &[&must]);
        }
    }
    let least = objective("rke(bandwidth=1e-18)").prepare(Inputs::new().arms(&arms)).unwrap();
    assert!(solve(&arms, &least).is_ok());
    let huge = Features::from_rows([[1e30, 0.0], [0.0, 1e30]]).unwrap();
    let huge = RecordedArms::new(vec![RecordedArm::new("huge", huge)]).unwrap();
    let loss = objective("mmd(kernel=polynomial, degree=64)").prepare(Inputs::new().reference(circle())).unwrap();
    refused(solve(&huge, &loss), &["of a sample of arm huge is not finite", "scale the features down"]);
}

#[test]
fn costs_for_another_number_of_arms() {
    let arms = arms();
    for (costs, word) in [(vec![1.0], "1 costs were given"), (vec![], "0 costs were given")] {
        let loss = objective("rke(bandwidth=1) + cost").prepare(Inputs::new().costs(costs)).unwrap();
        refused(solve(&arms, &loss), &["one cost per arm", word]);
    }
}

#[test]
fn one_cost_too_many() {
    // As wrong as one too few: it belongs to an arm that does not exist, or the order is different.
    let arms = arms();
    let solved = objective("rke(bandwidth=1) + cost")
        .prepare(Inputs::new().arms(&arms).costs(vec![1.0, 2.0, 3.0]))
        .and_then(|loss| solve(&arms, &loss));
    refused(solved, &["3 costs"]);
}

#[test]
fn arms_that_cannot_be_compared() {
    let arm = |name: &str, features: Features| RecordedArm::new(name, features);
    let wide = Features::from_rows([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]).unwrap();
    refused(RecordedArms::new(vec![]), &["at least one arm"]);
    refused(RecordedArms::new(vec![arm("a", circle()), arm("a", circle())]), &["arm a", "two arms have this name"]);
    refused(RecordedArms::new(vec![arm("a", circle()), arm("b", wide)]), &["arm b has 3 columns, but arm a has 2"]);
    let one = circle().select([0]).unwrap();
    refused(RecordedArms::new(vec![arm("a", circle()), arm("b", one)]), &["arm b", "at least 2 samples"]);
}
