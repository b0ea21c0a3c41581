//! Ranges of κ and f by hand, properties of kernels, and neighbourhoods that are small enough to count by hand.

use modelmix::compute::Reference;
use modelmix::mixture::solve;
use modelmix::objective::Geometry;
use modelmix::{Features, Inputs, Kernel, KernelSpec, Objective, RecordedArm, RecordedArms};
use proptest::prelude::*;

/// 0, 1, 3 and 7 on a line.
fn line() -> Features {
    Features::from_rows([[0.0], [1.0], [3.0], [7.0]]).unwrap()
}

fn inputs() -> Inputs<'static> {
    Inputs::new().reference(line()).costs(vec![1.0, 3.0, 2.0]).score_range("taste", -1.0, 4.0)
}

#[test]
fn ranges_by_hand() {
    // objective, κ, f, Δκ, Δ_L = 2Δκ + Δf
    let table = [
        ("rke(bandwidth=1)", (0.0, 1.0), (0.0, 0.0), 1.0, 2.0),
        ("rke(kernel=laplacian, bandwidth=1)", (0.0, 1.0), (0.0, 0.0), 1.0, 2.0),
        ("mmd(bandwidth=1)", (0.0, 1.0), (-2.0, 0.0), 1.0, 4.0),
        // The cosine can be negative, its square cannot.
        ("mmd(kernel=cosine)", (-1.0, 1.0), (-2.0, 2.0), 2.0, 8.0),
        ("rke(kernel=cosine)", (0.0, 1.0), (0.0, 0.0), 1.0, 2.0),
        ("rke(bandwidth=1) - 0.2*precision(neighbours=1)", (0.0, 1.0), (-0.2, 0.0), 1.0, 2.2),
        // At most four balls, divided by two.
        ("rke(bandwidth=1) - 0.25*density(neighbours=2)", (0.0, 1.0), (-0.5, 0.0), 1.0, 2.5),
        ("density(neighbours=1)", (0.0, 0.0), (0.0, 4.0), 0.0, 4.0),
        ("rke(bandwidth=1) + 0.5*cost", (0.0, 1.0), (0.5, 1.5), 1.0, 3.0),
        ("rke(bandwidth=1) - 0.5*cost", (0.0, 1.0), (-1.5, -0.5), 1.0, 3.0),
        ("taste", (0.0, 0.0), (-1.0, 4.0), 0.0, 5.0),
        ("rke(bandwidth=1) - 2*taste", (0.0, 1.0), (-8.0, 2.0), 1.0, 12.0),
        ("0.5*rke(bandwidth=1) + 2*mmd(bandwidth=3)", (0.0, 2.5), (-4.0, 0.0), 2.5, 9.0),
        ("0.5*rke(bandwidth=1) + cost - taste", (0.0, 0.5), (-3.0, 4.0), 0.5, 8.0),
    ];
    for (text, kappa, linear, kappa_width, sensitivity) in table {
        // The cosine is not defined at 0, so its reference starts at 1.
        let reference = if text.contains("cosine") { line().select(1..4).unwrap() } else { line() };
        let loss = text.parse::<Objective>().unwrap().prepare(inputs().reference(reference)).unwrap();
        let ranges = loss.ranges().unwrap();
        let pairs = [
            (ranges.kappa.0, kappa.0),
            (ranges.kappa.1, kappa.1),
            (ranges.linear.0, linear.0),
            (ranges.linear.1, linear.1),
            (ranges.kappa_width(), kappa_width),
            (ranges.sensitivity(), sensitivity),
        ];
        for (found, expected) in pairs {
            assert!((found - expected).abs() < 1e-15, "{text}: {ranges:?}, expected {kappa:?} {linear:?}");
        }
    }
}

#[test]
fn unbounded_kernels_must_be_given_a_range() {
    for text in ["kid", "mmd(kernel=kid)", "rke(kernel=kid)", "rke(kernel=polynomial) + mmd(bandwidth=1)"] {
        let loss = text.parse::<Objective>().unwrap().prepare(inputs()).unwrap();
        let sentence = loss.ranges().unwrap_err().to_string();
        for word in ["unbounded kernel", "x·y + 1)^", "give the range of the kernel", "adaptive"] {
            assert!(sentence.contains(word), "{text}: {sentence}");
        }
    }
    let ranges = |text: &str| {
        text.parse::<Objective>().unwrap().prepare(inputs().kernel_range(0.5, 3.0)).unwrap().ranges().unwrap()
    };
    // κ = k from 0.5 to 3, f = −2·E[k] from −6 to −1
    let found = ranges("mmd(kernel=kid)");
    assert_eq!((found.kappa, found.linear, found.sensitivity()), ((0.5, 3.0), (-6.0, -1.0), 10.0));
    // A given range applies only to unbounded kernels.
    assert_eq!(ranges("rke(bandwidth=1)").kappa, (0.0, 1.0));
    assert_eq!(ranges("rke(kernel=kid) + rke(bandwidth=1)").kappa, (0.25, 10.0));
    let loss = "grade".parse::<Objective>().unwrap().prepare(inputs()).unwrap();
    let sentence = loss.ranges().unwrap_err().to_string();
    assert!(sentence.contains("score grade needs its range"), "{sentence}");
}

/// A range is that of a kernel as written: a term that squares it has the range of the square, and different kernels
/// have their own ranges.
#[test]
fn ranges_are_by_kernel_and_squared_where_the_kernel_is() {
    let text = "rke(kernel=polynomial) + 2*mmd(kernel=polynomial)";
    let ranges = |inputs: Inputs<'_>| text.parse::<Objective>().unwrap().prepare(inputs).unwrap().ranges().unwrap();
    // k² from 0.25 to 9 and k from 0.5 to 3, f = −2·E[k]
    let found = ranges(inputs().kernel_range(0.5, 3.0));
    assert_eq!((found.kappa, found.linear), ((0.25 + 1.0, 9.0 + 6.0), (-12.0, -2.0)));
    // The square of a range that includes negative values.
    let found = ranges(inputs().kernel_range(-2.0, 1.0));
    assert_eq!((found.kappa, found.linear), ((-4.0, 4.0 + 2.0), (-4.0, 8.0)));
    let found = ranges(inputs().kernel_range(-3.0, -1.0));
    assert_eq!((found.kappa, found.linear), ((1.0 - 6.0, 9.0 - 2.0), (4.0, 12.0)));
    // The range of one kernel takes precedence over the range of all.
    let both = "mmd(kernel=kid) + mmd(kernel=polynomial)".parse::<Objective>().unwrap();
    let inputs = inputs().kernel_range(0.0, 3.0).kernel_range_of(KernelSpec::Kid, 1.0, 2.0);
    let found = both.prepare(inputs).unwrap().ranges().unwrap();
    assert_eq!((found.kappa, found.linear), ((1.0, 5.0), (-10.0, -2.0)));
}

#[test]
fn presets_fill_in_the_width() {
    let wide = Features::from_rows([[1.0, 2.0, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]]).unwrap();
    for text in ["mmd(kernel=kid)", "mmd(kernel=polynomial)"] {
        let loss = text
            .parse::<Objective>()
            .unwrap()
            .prepare(Inputs::new().reference(wide.clone()).engine(Reference))
            .unwrap();
        assert_eq!(loss.kernels(), [Kernel::Polynomial { scale: 0.25, offset: 1.0, degree: 3 }], "{text}");
        // k(x, y) = (0/4 + 1)³; k(x, x) = (5.25/4 + 1)³ and (1/4 + 1)³
        let own = ((5.25f64 / 4.0 + 1.0).powi(3) + 1.25f64.powi(3)) / 4.0;
        assert!((loss.constant() - (own + 0.5)).abs() < 1e-12, "{}", loss.constant());
        assert!((loss.unbiased_constant() - 1.0).abs() < 1e-12, "{}", loss.unbiased_constant());
    }
}

#[test]
fn neighbourhoods_are_open() {
    // The balls around 0, 1, 3, 7 have radii 1, 1, 2, 4 for the nearest neighbour and 3, 2, 3, 6 for the second
    // nearest. Many of the points are on a border, which is outside.
    let points = [0.5, 1.0, 2.0, 3.0, 5.0, -1.0, 20.0, 2.5, 7.0];
    let held = [(1, [2, 1, 1, 1, 1, 0, 0, 1, 1]), (2, [3, 3, 4, 2, 2, 1, 0, 4, 1])];
    let rows = Features::from_rows(points.map(|point| [point])).unwrap();
    for (neighbours, counts) in held {
        for (measure, expected) in [
            ("precision", counts.map(|count: u32| f64::from(count.min(1)))),
            ("density", counts.map(|count| f64::from(count) / f64::from(neighbours))),
        ] {
            let text = format!("-2*{measure}(neighbours={neighbours})");
            let loss = text.parse::<Objective>().unwrap().prepare(inputs()).unwrap();
            let found = loss.linear(0, rows.view(), &Default::default()).unwrap();
            assert_eq!(found, expected.map(|value| -2.0 * value), "{text}");
            // Also one by one, as in a session.
            for (index, value) in expected.iter().enumerate() {
                let one = loss.linear(0, rows.view().slice(index, index + 1), &Default::default()).unwrap();
                assert_eq!(one, [-2.0 * value], "{text} at {}", points[index]);
            }
        }
    }
}

#[test]
fn a_copy_of_the_reference_touches_but_does_not_enter() {
    // With the nearest neighbour, each row of the reference is at least inside its own ball, and never inside a ball
    // whose radius it determines.
    let loss = Objective::parse("density(neighbours=1)").unwrap().prepare(inputs()).unwrap();
    assert_eq!(loss.linear(0, line().view(), &Default::default()).unwrap(), [1.0; 4]);
    // Two equal rows have balls of radius zero, which contain nothing.
    let twice = Features::from_rows([[2.0], [2.0], [9.0]]).unwrap();
    let loss =
        Objective::parse("density(neighbours=1)").unwrap().prepare(Inputs::new().reference(twice.clone())).unwrap();
    assert_eq!(loss.linear(0, twice.view(), &Default::default()).unwrap(), [0.0, 0.0, 1.0]);
}

#[test]
fn linear_terms_alone_choose_the_best_arm() {
    let arm = |name: &str, at: f32| RecordedArm::new(name, Features::from_rows([[at], [at]]).unwrap());
    let arms = RecordedArms::new(vec![arm("far", 30.0), arm("near", 0.5), arm("edge", 5.0)]).unwrap();
    let solved = |text: &str| {
        let loss = text.parse::<Objective>().unwrap().prepare(inputs().arms(&arms)).unwrap();
        solve(&arms, &loss).unwrap()
    };
    let density = solved("-density(neighbours=1)");
    assert_eq!((density.weights(), density.mixture.loss, density.mixture.gap), (vec![0.0, 1.0, 0.0], -2.0, 0.0));
    assert_eq!(density.arms[1].adds, Some(1.0), "without it the edge is left, which one ball holds");
    assert_eq!(solved("cost").weights(), [1.0, 0.0, 0.0]);
    assert_eq!(solved("cost - density(neighbours=1)").best_arm().name, "far");
    assert_eq!(solved("cost - 3*density(neighbours=1)").best_arm().name, "near");
}

fn kernels() -> impl Strategy<Value = Kernel> {
    prop_oneof![
        (0.5..10.0f64).prop_map(|bandwidth| Kernel::Gaussian { bandwidth }),
        (0.5..10.0f64).prop_map(|bandwidth| Kernel::Laplacian { bandwidth }),
        (0.01..2.0f64, 0.0..2.0f64, 1u32..6).prop_map(|(scale, offset, degree)| Kernel::Polynomial {
            scale,
            offset,
            degree
        }),
        (1u32..5).prop_map(|power| Kernel::Cosine { power }),
    ]
}

fn geometry(kernel: &Kernel, x: &[f32], y: &[f32]) -> f64 {
    let product = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    match kernel.geometry() {
        Geometry::SquaredDistance => x.iter().zip(y).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum(),
        Geometry::Product => product(x, y),
        Geometry::Cosine => product(x, y) / (product(x, x) * product(y, y)).sqrt(),
    }
}

proptest! {
    #![proptest_config(crate::config(256))]

    #[test]
    fn facts_about_kernels(
        kernel in kernels(),
        x in prop::collection::vec(-3.0..3.0f32, 3),
        y in prop::collection::vec(-3.0..3.0f32, 3),
    ) {
        prop_assume!(x.iter().any(|&value| value != 0.0) && y.iter().any(|&value| value != 0.0));
        let value = kernel.of(geometry(&kernel, &x, &y));
        let square = kernel.squared().of(geometry(&kernel.squared(), &x, &y));
        // A few rounding errors, which exp multiplies by its argument.
        let roundings = 1e-13 * (1.0 + value.abs().ln().abs());
        prop_assert!((square - value * value).abs() <= roundings * (value * value).max(f64::MIN_POSITIVE), "{} {} {}", kernel, square, value);
        for kernel in [kernel, kernel.squared()] {
            let value = kernel.of(geometry(&kernel, &x, &y));
            if let Some((least, greatest)) = kernel.range() {
                prop_assert!(least <= value && value <= greatest, "{} is {}", kernel, value);
            }
            let own = kernel.of(geometry(&kernel, &x, &x));
            prop_assert!((kernel.of_self(&x) - own).abs() <= 1e-12 * own.abs(), "{} {}", kernel.of_self(&x), own);
        }
        // Cauchy-Schwarz: |k(x, y)|² ≤ k(x, x)·k(y, y) for every positive semidefinite kernel.
        prop_assert!(value * value <= kernel.of_self(&x) * kernel.of_self(&y) * (1.0 + 1e-12));
    }
}

#[test]
fn kernels_say_what_they_are() {
    assert_eq!(Kernel::Gaussian { bandwidth: 20.0 }.to_string(), "gaussian, bandwidth 20");
    assert_eq!(Kernel::Cosine { power: 2 }.to_string(), "cosine^2");
    assert_eq!(Kernel::Cosine { power: 3 }.range(), Some((-1.0, 1.0)));
    assert_eq!(Kernel::Polynomial { scale: 1.0, offset: 0.0, degree: 2 }.range(), None);
    assert!(KernelSpec::default().is_auto() && !KernelSpec::Cosine.is_auto());
}
