//! Objectives and kernels as text and as data: parsing, printing, and errors with their positions.

mod policies;
mod ranges;
mod refusals;

use modelmix::objective::{Bandwidth, DEFAULT_NEIGHBOURS, Measure, Term};
use modelmix::{Error, Kernel, KernelSpec, Objective};
use proptest::prelude::*;

fn gaussian(bandwidth: f64) -> Option<KernelSpec> {
    Some(KernelSpec::Gaussian { bandwidth: Bandwidth::Fixed(bandwidth) })
}

fn score(name: &str) -> Measure {
    Measure::Score { name: name.into() }
}

/// A text, its meaning, and its printed form.
type Meaning = (&'static str, Vec<(f64, Measure)>, &'static str);

fn meanings() -> Vec<Meaning> {
    let auto = Some(KernelSpec::Gaussian { bandwidth: Bandwidth::Auto });
    let vendi = |order, kernel| Measure::Vendi { order, kernel };
    let density = Measure::Density { neighbours: DEFAULT_NEIGHBOURS };
    let laplacian = |bandwidth| Some(KernelSpec::Laplacian { bandwidth });
    let polynomial = |scale, offset, degree| Some(KernelSpec::Polynomial { scale, offset, degree });
    vec![
        ("rke", vec![(1.0, Measure::Rke { kernel: None })], "rke"),
        ("  rke  ", vec![(1.0, Measure::Rke { kernel: None })], "rke"),
        ("rke()", vec![(1.0, Measure::Rke { kernel: None })], "rke"),
        ("mmd(bandwidth=20)", vec![(1.0, Measure::Mmd { kernel: gaussian(20.0) })], "mmd(bandwidth=20)"),
        ("mmd ( bandwidth = 2.5e1 )", vec![(1.0, Measure::Mmd { kernel: gaussian(25.0) })], "mmd(bandwidth=25)"),
        ("rke(bandwidth=auto)", vec![(1.0, Measure::Rke { kernel: auto })], "rke(bandwidth=auto)"),
        ("rke(kernel=gaussian)", vec![(1.0, Measure::Rke { kernel: auto })], "rke(bandwidth=auto)"),
        (
            "rke(kernel=laplacian)",
            vec![(1.0, Measure::Rke { kernel: laplacian(Bandwidth::Auto) })],
            "rke(kernel=laplacian, bandwidth=auto)",
        ),
        (
            "mmd(bandwidth=3, kernel=laplacian)",
            vec![(1.0, Measure::Mmd { kernel: laplacian(Bandwidth::Fixed(3.0)) })],
            "mmd(kernel=laplacian, bandwidth=3)",
        ),
        ("kid", vec![(1.0, Measure::Kid)], "kid"),
        ("kid()", vec![(1.0, Measure::Kid)], "kid"),
        ("mmd(kernel=kid)", vec![(1.0, Measure::Mmd { kernel: Some(KernelSpec::Kid) })], "mmd(kernel=kid)"),
        ("mmd(kernel=cosine)", vec![(1.0, Measure::Mmd { kernel: Some(KernelSpec::Cosine) })], "mmd(kernel=cosine)"),
        (
            "mmd(kernel=polynomial)",
            vec![(1.0, Measure::Mmd { kernel: polynomial(None, 1.0, 3) })],
            "mmd(kernel=polynomial, offset=1, degree=3)",
        ),
        (
            "mmd(degree=2, offset=0, scale=0.5, kernel=polynomial)",
            vec![(1.0, Measure::Mmd { kernel: polynomial(Some(0.5), 0.0, 2) })],
            "mmd(kernel=polynomial, scale=0.5, offset=0, degree=2)",
        ),
        (
            "rke - 0.2*precision",
            vec![(1.0, Measure::Rke { kernel: None }), (-0.2, Measure::Precision { neighbours: DEFAULT_NEIGHBOURS })],
            "rke - 0.2*precision",
        ),
        (
            "rke-.5*density(neighbours=7)+1e-3*cost",
            vec![
                (1.0, Measure::Rke { kernel: None }),
                (-0.5, Measure::Density { neighbours: 7 }),
                (0.001, Measure::Cost),
            ],
            "rke - 0.5*density(neighbours=7) + 0.001*cost",
        ),
        ("precision(neighbours=5)", vec![(1.0, Measure::Precision { neighbours: 5 })], "precision"),
        (
            "-2 * aesthetic + rke",
            vec![(-2.0, score("aesthetic")), (1.0, Measure::Rke { kernel: None })],
            "-2*aesthetic + rke",
        ),
        ("fid", vec![(1.0, Measure::Fid)], "fid"),
        ("0.1*fid() - density", vec![(0.1, Measure::Fid), (-1.0, density)], "0.1*fid - density"),
        ("vendi", vec![(1.0, vendi(1.0, KernelSpec::Cosine))], "vendi"),
        ("vendi(order=1, kernel=cosine)", vec![(1.0, vendi(1.0, KernelSpec::Cosine))], "vendi"),
        ("vendi(order=2)", vec![(1.0, vendi(2.0, KernelSpec::Cosine))], "vendi(order=2)"),
        (
            "vendi(kernel=gaussian, bandwidth=20, order=1)",
            vec![(1.0, vendi(1.0, gaussian(20.0).unwrap()))],
            "vendi(bandwidth=20)",
        ),
        (
            "2*vendi(order=.5, kernel=laplacian)",
            vec![(2.0, vendi(0.5, KernelSpec::Laplacian { bandwidth: Bandwidth::Auto }))],
            "2*vendi(kernel=laplacian, bandwidth=auto, order=0.5)",
        ),
        ("1*rke", vec![(1.0, Measure::Rke { kernel: None })], "rke"),
        (
            "0.5*rke + 2*mmd",
            vec![(0.5, Measure::Rke { kernel: None }), (2.0, Measure::Mmd { kernel: None })],
            "0.5*rke + 2*mmd",
        ),
        // The grammar accepts this weight; it is rejected later, with a reason.
        ("- rke", vec![(-1.0, Measure::Rke { kernel: None })], "-rke"),
        ("schönheit_2", vec![(1.0, score("schönheit_2"))], "schönheit_2"),
        // Names are case-sensitive: this is a caller's score, and a hint comes if no values are given for it.
        ("RKE", vec![(1.0, score("RKE"))], "RKE"),
        // A name that looks like the continuation of a number is still a name.
        ("3*e5", vec![(3.0, score("e5"))], "3*e5"),
    ]
}

#[test]
fn texts_mean_what_they_say() {
    for (text, expected, printed) in meanings() {
        let objective: Objective = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let expected: Vec<Term> = expected.into_iter().map(|(weight, measure)| Term { weight, measure }).collect();
        assert_eq!(objective.terms(), expected, "{text}");
        assert_eq!(objective.to_string(), printed, "{text}");
        assert_eq!(printed.parse::<Objective>().unwrap(), objective, "{text}");
    }
}

/// A text, the position of the error (in characters counted from 1), and its message.
const BAD_TEXTS: [(&str, usize, &str); 40] = [
    ("", 1, "a term is expected here"),
    ("   ", 4, "a term is expected here"),
    ("rke -", 6, "a term is expected here"),
    ("rke precision", 5, "\"+\" or \"-\" is expected between terms"),
    ("rke -- precision", 6, "a term is expected here"),
    ("rke + -0.2*precision", 7, "a term is expected here"),
    ("+ rke", 1, "a term is expected here"),
    ("0.2 precision", 5, "\"*\" is expected after a number, as in 0.2*precision"),
    ("0.2", 4, "\"*\" is expected after a number"),
    ("2*", 3, "a term is expected here"),
    ("2*3*rke", 3, "a term is expected here"),
    ("1.2.3*rke", 1, "\"1.2.3\" is not a number"),
    (".*rke", 1, "\".\" is not a number"),
    ("1e999*rke", 1, "the number is too large"),
    ("rke*2", 4, "\"+\" or \"-\" is expected between terms"),
    ("rke(", 5, "key=value is expected inside the parentheses"),
    ("rke(bandwidth)", 14, "key=value is expected inside the parentheses"),
    ("rke(20)", 7, "key=value is expected inside the parentheses"),
    ("rke(bandwidth=)", 15, "a value for bandwidth is expected here"),
    ("rke(bandwidth=20", 17, "\",\" or \")\" is expected here"),
    ("rke(bandwidth=20,)", 18, "key=value is expected inside the parentheses"),
    ("rke(bandwidth=0)", 5, "bandwidth must be a positive number or auto, not \"0\""),
    ("rke(bandwidth=-3)", 5, "not \"-3\""),
    ("rke(bandwidth=nan)", 5, "not \"nan\""),
    ("rke(bandwidth=wide)", 5, "not \"wide\""),
    ("rke(bandwidth=2, bandwidth=3)", 18, "bandwidth is given twice"),
    ("rke(bandwith=2)", 5, "rke has no setting bandwith (did you mean bandwidth?); it has kernel, bandwidth"),
    ("mmd(kernel=gausian)", 5, "there is no kernel gausian (did you mean gaussian?)"),
    ("mmd(kernel=cosine, bandwidth=2)", 5, "the cosine kernel has no bandwidth"),
    ("mmd(degree=2)", 1, "name kernel=polynomial"),
    ("ästhetik + precision(neighbours=-1)", 22, "neighbours must be a whole number, not \"-1\""),
    ("rke + cost(price=2)", 12, "cost takes no settings, but price was given"),
    ("fid(order=2)", 5, "fid takes no settings, but order was given"),
    ("rke + kid(bandwidth=2)", 7, "KID has one kernel, (x·y/d + 1)³, which has no bandwidth; write mmd(bandwidth=2)"),
    ("kid(neighbours=2)", 5, "kid takes no settings, but neighbours was given"),
    ("vendi(order=two)", 7, "order must be a number, not \"two\""),
    ("rke + vendi(order=-2)", 13, "the order of vendi is -2, but it must be a number above 0"),
    ("vendi(order=2, neighbours=3)", 16, "vendi has no setting neighbours; it has order, kernel, bandwidth"),
    ("vendi(order=2, order=3)", 16, "order is given twice"),
    ("rke # 2", 5, "\"+\" or \"-\" is expected between terms"),
];

/// The position and the message of a parse error.
fn unread<T: std::fmt::Debug>(text: &str, result: Result<T, Error>) -> (usize, String) {
    match result {
        Err(Error::Parse { text: whole, at, problem }) => {
            assert_eq!(whole, text);
            (at, problem)
        }
        other => panic!("{text:?} gave {other:?}"),
    }
}

#[test]
fn bad_texts_are_refused_at_the_character() {
    for (text, place, phrase) in BAD_TEXTS {
        let (at, problem) = unread(text, text.parse::<Objective>());
        assert!(problem.contains(phrase), "{text:?}: {problem:?} does not say {phrase:?}");
        assert_eq!(at, place, "{text:?}: {problem}");
    }
    let sentence = "rke ! 2".parse::<Objective>().unwrap_err().to_string();
    assert_eq!(sentence, "cannot read \"rke ! 2\" at character 5: \"+\" or \"-\" is expected between terms");
}

#[test]
fn operators_build_the_same_as_text() {
    let built = Objective::rke().with_bandwidth(30.0) - 0.2 * Objective::precision() + Objective::cost() * 3.0;
    assert_eq!(built, "rke(bandwidth=30) - 0.2*precision + 3*cost".parse().unwrap());
    // Minus a sum changes every sign, and factors multiply.
    let difference = Objective::kid() - 2.0 * (Objective::density() - Objective::score("taste"));
    assert_eq!(difference, "kid - 2*density + 2*taste".parse().unwrap());
    assert_eq!(-(-Objective::mmd()), Objective::mmd());
}

#[test]
fn kernels_go_to_terms_that_name_none() {
    // vendi has a kernel of its own.
    assert_eq!(Objective::vendi().with_bandwidth(2.0), Objective::vendi());
    let written: Objective = "rke(kernel=cosine) + 0.5*mmd - precision".parse().unwrap();
    assert_eq!(
        written.clone().with_bandwidth(9.0),
        "rke(kernel=cosine) + 0.5*mmd(bandwidth=9) - precision".parse().unwrap()
    );
    assert_eq!(
        written.with_kernel(KernelSpec::Kid).with_bandwidth(2.0),
        "rke(kernel=cosine) + 0.5*mmd(kernel=kid) - precision".parse().unwrap(),
        "the first kernel given stays"
    );
}

fn numbers() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(1.0),
        0.001..1000.0f64,
        (1e-300..1e300f64),
        any::<f64>().prop_filter("finite, not zero", |value| value.is_normal()).prop_map(f64::abs),
    ]
}

fn kernels() -> impl Strategy<Value = KernelSpec> {
    let bandwidths = || prop_oneof![Just(Bandwidth::Auto), numbers().prop_map(Bandwidth::Fixed)];
    prop_oneof![
        bandwidths().prop_map(|bandwidth| KernelSpec::Gaussian { bandwidth }),
        bandwidths().prop_map(|bandwidth| KernelSpec::Laplacian { bandwidth }),
        (prop::option::of(numbers()), numbers(), 0u32..70).prop_map(|(scale, offset, degree)| KernelSpec::Polynomial {
            scale,
            offset,
            degree
        }),
        Just(KernelSpec::Cosine),
        Just(KernelSpec::Kid),
    ]
}

fn objectives() -> impl Strategy<Value = Objective> {
    let quadratic = (0..3usize, prop::option::of(kernels())).prop_map(|(which, kernel)| {
        let plain = [Objective::rke(), Objective::mmd(), Objective::kid()][which].clone();
        // kid has one kernel
        kernel.filter(|_| which < 2).map_or(plain.clone(), |kernel| plain.with_kernel(kernel))
    });
    let orders = prop_oneof![Just(1.0), 1e-300..64.0f64];
    let smooth = prop_oneof![
        Just(Objective::fid()),
        Just(Objective::vendi()),
        (orders, kernels()).prop_map(|(order, kernel)| Objective::vendi_of(order, kernel)),
    ];
    let linear = prop_oneof![
        (any::<bool>(), 0..20usize).prop_map(|(density, neighbours)| {
            let name = if density { "density" } else { "precision" };
            format!("{name}(neighbours={neighbours})").parse().unwrap()
        }),
        Just(Objective::cost()),
        "[a-z_][a-z0-9_]{0,8}".prop_map(Objective::score).prop_filter("a score's own word", |objective| {
            !["rke", "mmd", "kid", "fid", "vendi", "precision", "density", "cost"]
                .contains(&objective.terms()[0].measure.name())
        }),
    ];
    let term = (prop_oneof![quadratic, smooth, linear], numbers(), any::<bool>())
        .prop_map(|(term, size, negative)| if negative { -size * term } else { size * term });
    prop::collection::vec(term, 1..5).prop_map(|terms| terms.into_iter().reduce(|sum, term| sum + term).unwrap())
}

proptest! {
    #![proptest_config(crate::config(256))]

    #[test]
    fn objectives_print_what_they_are_read_from(objective in objectives()) {
        let text = objective.to_string();
        prop_assert_eq!(&text.parse::<Objective>().unwrap(), &objective, "{}", text);
        let json = serde_json::to_string(&objective).unwrap();
        prop_assert_eq!(&json, &serde_json::to_string(&text).unwrap(), "an objective is a string");
        prop_assert_eq!(serde_json::from_str::<Objective>(&json).unwrap(), objective);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-+*()=,. 0-9a-eéA-Eκ]{0,24}|(rke|mmd|cost|[0-9.]{1,3}\\*|[-+(),=]| ){0,12}") {
        // No text panics, and a parsed objective prints to text of the same meaning.
        match text.parse::<Objective>() {
            Ok(objective) => prop_assert_eq!(objective.to_string().parse::<Objective>().unwrap(), objective),
            Err(Error::Parse { at, .. }) => prop_assert!((1..=text.chars().count() + 1).contains(&at)),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn kernel_specs_survive_json(spec in kernels()) {
        let json = serde_json::to_string(&spec).unwrap();
        prop_assert_eq!(serde_json::from_str::<KernelSpec>(&json).unwrap(), spec, "{}", json);
    }
}

#[test]
fn kernels_are_documented_json() {
    let spec = |json: &str| serde_json::from_str::<KernelSpec>(json);
    let kernel = |json: &str| serde_json::from_str::<Kernel>(json);
    let written = r#"{"name":"gaussian","bandwidth":20.0}"#;
    assert_eq!(serde_json::to_string(&Kernel::Gaussian { bandwidth: 20.0 }).unwrap(), written);
    assert_eq!(kernel(written).unwrap(), Kernel::Gaussian { bandwidth: 20.0 });
    assert_eq!(Some(spec(written).unwrap()), gaussian(20.0));
    assert_eq!(serde_json::to_string(&gaussian(20.0).unwrap()).unwrap(), written);
    assert_eq!(spec(r#"{"name":"gaussian"}"#).unwrap(), KernelSpec::default());
    assert_eq!(
        spec(r#"{"name":"laplacian","bandwidth":"auto"}"#).unwrap(),
        KernelSpec::Laplacian { bandwidth: Bandwidth::Auto }
    );
    assert_eq!(
        spec(r#"{"name":"polynomial","offset":1,"degree":3}"#).unwrap(),
        KernelSpec::Polynomial { scale: None, offset: 1.0, degree: 3 }
    );
    assert_eq!(serde_json::to_string(&Kernel::Cosine { power: 1 }).unwrap(), r#"{"name":"cosine","power":1}"#);
    assert_eq!(spec(r#"{"name":"kid"}"#).unwrap(), KernelSpec::Kid);
    for bad in [
        r#"{"name":"gausian"}"#,
        r#"{"bandwidth":2}"#,
        r#"{"name":"gaussian","bandwith":2}"#,
        r#"{"name":"gaussian","bandwidth":"wide"}"#,
        r#"{"name":"polynomial","degree":-1,"offset":1}"#,
    ] {
        assert!(spec(bad).is_err(), "{bad} gave {:?}", spec(bad));
    }
}

#[test]
fn json_of_kernels_without_settings_has_none() {
    for bad in [r#"{"name":"cosine","bandwidth":2}"#, r#"{"name":"kid","scale":2}"#] {
        let read = serde_json::from_str::<KernelSpec>(bad);
        assert!(read.is_err(), "{bad} gave {read:?}");
    }
}

#[test]
fn scores_that_text_cannot_carry_are_refused() {
    // An objective is stored as its text. A score whose name is that of a measure, or not a valid name, would be read
    // back as something else, so it must be rejected before there is a loss.
    for name in ["rke", "cost", "two words", "a-b", "", "2nd", "a(b=c)"] {
        let objective = Objective::score(name);
        let same = objective.to_string().parse::<Objective>().is_ok_and(|read| read == objective);
        assert!(same || objective.prepare(modelmix::Inputs::new().width(2)).is_err(), "score {name:?}");
    }
}
