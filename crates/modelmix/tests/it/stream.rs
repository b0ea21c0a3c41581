//! Long sessions: random Fourier features against theory, and capped sessions against exact ones and double loops.

use modelmix::compute::{Cpu, Engine, Reference};
use modelmix::internals::fourier::{GaussianFeatures, features_for};
use modelmix::policy::Random;
use modelmix::session::{Cap, Retention, Snapshot};
use modelmix::{Features, Inputs, Loss, Objective, Rows, Session, SessionSettings};

mod features;

const NAMES: [&str; 3] = ["a", "b", "c"];
const WIDTH: usize = 16;
const SIGMA: f64 = 6.0;

/// Arm i is N(μ_i, s²I) with μ_i along axis i.
const SPREADS: [f64; 3] = [1.0, 0.8, 1.2];
const OFFSET: f64 = 3.0;

/// The n-th sample of an arm, independent of the caller.
fn sample(arm: usize, number: usize) -> Vec<f32> {
    let mut random = Random::stream(77, (number * NAMES.len() + arm) as u64 + 1);
    (0..WIDTH)
        .map(|column| {
            let mean = if column == arm { OFFSET } else { 0.0 };
            (mean + SPREADS[arm] * random.normal()) as f32
        })
        .collect()
}

/// E k between two arms: (σ²/(σ²+s²+s′²))^{d/2}·exp(−‖μ−μ′‖²/2(σ²+s²+s′²)), with σ²/2 for k².
fn truth(i: usize, j: usize, squared_bandwidth: f64) -> f64 {
    let wide = squared_bandwidth + SPREADS[i].powi(2) + SPREADS[j].powi(2);
    let apart = if i == j { 0.0 } else { 2.0 * OFFSET * OFFSET };
    (squared_bandwidth / wide).powf(WIDTH as f64 / 2.0) * (-apart / (2.0 * wide)).exp()
}

fn rke() -> Loss {
    rke_on(Cpu::new())
}

fn rke_on(engine: impl Into<Engine>) -> Loss {
    Objective::rke().with_bandwidth(SIGMA).prepare(Inputs::new().engine(engine)).unwrap()
}

fn streaming(hold: usize, error: f64) -> SessionSettings {
    SessionSettings::default().seed(9).retention(Retention::Capped(Cap::default().hold(hold).error(error)))
}

/// Continues a session and returns the arms that it chose.
fn run(session: &mut Session, told: &mut [usize; 3], rounds: usize) -> Vec<usize> {
    (0..rounds)
        .map(|_| {
            let pull = session.ask().unwrap();
            let rows: Vec<Vec<f32>> = (0..pull.count).map(|more| sample(pull.index, told[pull.index] + more)).collect();
            told[pull.index] += pull.count;
            session.tell(pull.id, &Features::from_rows(rows).unwrap()).unwrap();
            pull.index
        })
        .collect()
}

/// K̂ of the first `told` samples of each arm, by a double loop.
fn exact(told: &[usize; 3], kappa: impl Fn(f64) -> f64) -> Vec<f64> {
    let sets: Vec<Vec<Vec<f32>>> = (0..3).map(|arm| (0..told[arm]).map(|n| sample(arm, n)).collect()).collect();
    let mut form = vec![0.0; 9];
    for (i, left) in sets.iter().enumerate() {
        for (j, right) in sets.iter().enumerate().skip(i) {
            let mut sum = 0.0;
            for x in left {
                for y in right {
                    sum += kappa(x.iter().zip(y).map(|(a, b)| f64::from(a - b).powi(2)).sum());
                }
            }
            form[i * 3 + j] = sum / (left.len() * right.len()) as f64;
            form[j * 3 + i] = form[i * 3 + j];
        }
    }
    form
}

fn rke_kappa(squared: f64) -> f64 {
    (-squared / (SIGMA * SIGMA)).exp()
}

#[test]
fn a_session_with_a_cap_is_exact_until_the_cap() {
    let mut exact = Session::new(NAMES, rke(), &SessionSettings::default().seed(9)).unwrap();
    let mut stream = Session::new(NAMES, rke(), &streaming(500, 0.05)).unwrap();
    let (mut told, mut told_exact) = ([0; 3], [0; 3]);
    assert_eq!(run(&mut exact, &mut told_exact, 500), run(&mut stream, &mut told, 500));
    assert_eq!(exact.report().unwrap(), stream.report().unwrap(), "to the last bit");
    assert_eq!(exact.samples(), stream.samples());
    run(&mut stream, &mut told, 1);
    let error = stream.report().unwrap().feature_error.expect("one sample was evicted");
    assert_eq!((error.held, error.features), (500, 400));
    assert_eq!(error.estimated, 0.0, "it was held together with all others");
}

/// False failures: nine entries outside four standard errors, and six estimates outside five: below 1e-3, if errors are
/// normal.
#[test]
fn estimates_are_as_near_to_the_exact_ones_as_stated_and_say_how_near() {
    let mut stream = Session::new(NAMES, rke(), &streaming(500, 0.02)).unwrap();
    let mut told = [0; 3];
    run(&mut stream, &mut told, 5000);
    let report = stream.report().unwrap();
    let form = exact(&told, rke_kappa);
    let worst =
        report.form.quadratic().iter().zip(&form).map(|(found, exact)| (found - exact).abs()).fold(0.0, f64::max);
    assert!(worst < 4.0 * 0.02, "{worst}");
    let error = report.feature_error.clone().unwrap();
    assert!(error.estimated > 0.75 && error.estimated < 1.0, "{error:?}");
    assert!((error.entry.abs() - worst).abs() < 5.0 * error.entry_error + 1e-4, "{error:?}, in truth {worst}");
    // The effect of features on the loss at the weights.
    let weights = report.weights();
    let at = |form: &[f64]| (0..9).map(|at| form[at] * weights[at / 3] * weights[at % 3]).sum::<f64>();
    let bias = at(report.form.quadratic()) - at(&form);
    assert!((bias - error.loss_bias).abs() < 5.0 * error.loss_bias_error + 1e-4, "{error:?}, in truth {bias}");
    let score_bias = 1.0 / at(report.form.quadratic()) - 1.0 / at(&form);
    let (estimate, deviation) = (error.score_bias.unwrap(), error.score_bias_error.unwrap());
    assert!((score_bias - estimate).abs() < 5.0 * deviation + 0.05, "{error:?}, in truth {score_bias}");
    // Control: features of another bandwidth would be far outside.
    let wrong = exact(&[300; 3], |squared| (-squared / (1.2 * SIGMA * SIGMA)).exp());
    let off =
        report.form.quadratic().iter().zip(&wrong).map(|(found, wrong)| (found - wrong).abs()).fold(0.0, f64::max);
    assert!(off > 0.04 && off > 4.0 * worst, "{off} {worst}");
}

/// With few features errors are large, and the reported estimates explain most of them: the control, assuming no error,
/// explains none. Each estimate is within five of its standard errors.
#[test]
fn large_errors_are_found() {
    let (mut truths, mut missed) = (0.0, 0.0);
    for seed in 0..12 {
        let settings = streaming(300, 0.25).seed(seed);
        let mut stream = Session::new(NAMES, rke(), &settings).unwrap();
        let mut told = [0; 3];
        run(&mut stream, &mut told, 2000);
        let report = stream.report().unwrap();
        let (weights, form) = (report.weights(), exact(&told, rke_kappa));
        let at = |form: &[f64]| (0..9).map(|at| form[at] * weights[at / 3] * weights[at % 3]).sum::<f64>();
        let truth = at(report.form.quadratic()) - at(&form);
        let error = report.feature_error.unwrap();
        assert!((truth - error.loss_bias).abs() < 5.0 * error.loss_bias_error + 1e-3, "{error:?}, in truth {truth}");
        truths += truth * truth;
        missed += (truth - error.loss_bias).powi(2);
    }
    assert!(missed < 0.2 * truths, "{missed} of {truths} is missed");
}

/// The number of values in a document.
fn values_in(document: &serde_json::Value) -> usize {
    match document {
        serde_json::Value::Array(values) => values.iter().map(values_in).sum(),
        serde_json::Value::Object(values) => values.values().map(values_in).sum(),
        _ => 1,
    }
}

/// The size of everything stays constant, and the weights converge to those of all samples.
#[test]
fn memory_does_not_grow_and_weights_converge() {
    let mut stream = Session::new(NAMES, rke(), &streaming(400, 0.03)).unwrap();
    let mut told = [0; 3];
    let size = |session: &Session| values_in(&serde_json::to_value(session.snapshot()).unwrap());
    run(&mut stream, &mut told, 1000);
    let (early, held) = (size(&stream), stream.statistics().rows());
    run(&mut stream, &mut told, 19_000);
    assert_eq!((stream.statistics().len(), told.iter().sum::<usize>()), (20_000, 20_000));
    assert_eq!((stream.statistics().rows(), held), (400, 400));
    assert_eq!(stream.samples().unwrap().len(), 400);
    assert_eq!(size(&stream), early);
    let report = stream.report().unwrap();
    // K̂ of 20,000 samples is the truth to ±0.003 plus the error of the features.
    for i in 0..3 {
        for j in 0..3 {
            let (found, truth) = (report.form.at(i, j), truth(i, j, SIGMA * SIGMA / 2.0));
            assert!((found - truth).abs() < 4.0 * 0.03, "{i} {j}: {found} {truth}");
        }
    }
    let loss = |weights: &[f64]| -> f64 {
        (0..9).map(|at| truth(at / 3, at % 3, SIGMA * SIGMA / 2.0) * weights[at / 3] * weights[at % 3]).sum()
    };
    let best = (0..=100)
        .flat_map(|a| (0..=100 - a).map(move |b| [a as f64 / 100.0, b as f64 / 100.0, (100 - a - b) as f64 / 100.0]))
        .map(|weights| loss(&weights))
        .fold(f64::INFINITY, f64::min);
    assert!(loss(&report.weights()) < 1.01 * best, "{:?}: {} {best}", report.weights(), loss(&report.weights()));
    let shares: Vec<f64> = report.arms.iter().map(|arm| arm.share).collect();
    assert!(loss(&shares) < 1.02 * best, "{shares:?}");
}

#[test]
fn what_policies_read_is_near_that_of_an_exact_session() {
    let settings = SessionSettings::default().policy("uniform".parse().unwrap());
    let capped = settings.clone().retention(Retention::Capped(Cap::default().hold(300).error(0.02)));
    let mut sessions = [&settings, &capped].map(|settings| Session::new(NAMES, rke(), settings).unwrap());
    for session in &mut sessions {
        run(session, &mut [0; 3], 3000);
    }
    let [exact, stream] = sessions.each_ref().map(Session::statistics);
    assert_eq!(exact.counts(), stream.counts());
    assert_eq!(exact.proportions(), stream.proportions());
    let near = |a: f64, b: f64, share: f64| (a - b).abs() <= share * a.abs().max(b.abs());
    // Variances from 100 rows per arm instead of 1,000: four standard errors are 0.6.
    for (a, b) in exact.gradient_scatter().iter().zip(stream.gradient_scatter()) {
        assert!(near(*a, b, 0.6), "{a} {b}");
    }
    for arm in 0..3 {
        assert!(near(exact.unbiased().at(arm, arm), stream.unbiased().at(arm, arm), 0.1));
    }
    assert!(near(exact.empirical_loss().unwrap(), stream.empirical_loss().unwrap(), 0.1));
}

#[test]
fn a_streaming_session_is_restored_to_the_last_bit_on_any_number_of_threads() {
    let settings = streaming(200, 0.05).batch(3);
    let mut one = Session::new(NAMES, rke_on(Cpu::with_threads(1)), &settings).unwrap();
    let mut told = [0; 3];
    run(&mut one, &mut told, 150);
    let text = serde_json::to_string(&one.snapshot()).unwrap();
    let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
    let mut two = Session::restore(snapshot, Some(rke_on(Cpu::with_threads(4)))).unwrap();
    let mut told_two = told;
    assert_eq!(run(&mut one, &mut told, 100), run(&mut two, &mut told_two, 100));
    assert_eq!(one.report().unwrap(), two.report().unwrap());
    assert_eq!(serde_json::to_string(&one.snapshot()).unwrap(), serde_json::to_string(&two.snapshot()).unwrap());
}

#[test]
fn snapshots_of_streams_that_do_not_fit_are_refused() {
    let mut session = Session::new(NAMES, rke(), &streaming(100, 0.1)).unwrap();
    run(&mut session, &mut [0; 3], 150);
    let whole = serde_json::to_value(session.snapshot()).unwrap();
    let refused = |pointer: &str, value: serde_json::Value| {
        let mut damaged = whole.clone();
        *damaged.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        let Ok(snapshot) = serde_json::from_value::<Snapshot>(damaged) else { return };
        let error = Session::restore(snapshot, Some(rke())).unwrap_err().to_string();
        assert!(error.contains("start from an earlier one"), "{pointer}: {error}");
    };
    for (pointer, value) in [
        ("/state/samples/keeper/capped/stream/features", 4_000_000_000u64.into()),
        ("/state/samples/keeper/capped/stream/sums", serde_json::json!([1.0])),
        ("/state/samples/keeper/capped/stream/centre", serde_json::json!([0.0])),
        ("/state/samples/keeper/capped/stream/cap/hold", 1.into()),
        ("/state/samples/keeper/capped/ages/arrived", serde_json::json!([0, 1])),
        ("/state/samples/keeper/capped/ages/told", 3.into()),
        ("/state/samples/keeper/capped/ages", serde_json::Value::Null),
        ("/state/samples/statistics/ageing/weights", serde_json::json!([])),
        ("/state/samples/statistics/ageing/mass", serde_json::json!([1.0, 1.0, 1.0])),
        ("/state/samples/statistics/ageing/rows", serde_json::json!([1, 1, 1])),
    ] {
        refused(pointer, value);
    }
    assert!(Session::restore(serde_json::from_value::<Snapshot>(whole).unwrap(), Some(rke())).is_ok());
}

#[test]
fn sums_of_terms_have_a_map_each_and_half_precision_streams_too() {
    let reference = Features::from_rows((0..50).map(|number| sample(number % 3, 100_000 + number))).unwrap();
    let loss = || {
        let objective = Objective::parse("0.5*mmd(bandwidth=5) + 2*rke(bandwidth=8)").unwrap();
        objective.prepare(Inputs::new().reference(reference.clone())).unwrap()
    };
    let settings = streaming(300, 0.05).storage(modelmix::session::Storage::Half);
    let mut session = Session::new(NAMES, loss(), &settings).unwrap();
    let mut told = [0; 3];
    run(&mut session, &mut told, 1500);
    let form = exact(&told, |squared| 0.5 * (-squared / 50.0).exp() + 2.0 * (-squared / 64.0).exp());
    let report = session.report().unwrap();
    // (0.25 + 4)/0.05²
    assert_eq!(report.feature_error.as_ref().unwrap().features, 1700);
    for (found, exact) in report.form.quadratic().iter().zip(&form) {
        assert!((found - exact).abs() < 4.0 * 0.05, "{found} {exact}");
    }
    assert_eq!(report.feature_error.unwrap().score_bias, None, "a sum has no score");
}

#[test]
fn what_cannot_be_streamed_is_refused() {
    let refuse = |loss: Loss, settings: &SessionSettings, words: &[&str]| {
        let error = Session::new(NAMES, loss, settings).unwrap_err().to_string();
        words.iter().for_each(|word| assert!(error.contains(word), "{error}"));
    };
    let laplacian = Objective::parse("rke(kernel=laplacian, bandwidth=3)").unwrap().prepare(Inputs::new()).unwrap();
    refuse(laplacian, &streaming(100, 0.1), &["rke", "laplacian", "gaussian", "leave `hold` out"]);
    refuse(rke(), &streaming(11, 0.1), &["hold is 11", "at least 12"]);
    refuse(rke(), &streaming(100, 0.1).batch(60), &["hold is 100", "at least 120"]);
    refuse(rke(), &streaming(100, 0.001), &["feature_error is 0.001", "0.0039"]);
    refuse(rke(), &streaming(100, f64::NAN), &["feature_error is NaN"]);
    let error = Session::on_values(NAMES, None, &streaming(100, 0.1)).unwrap_err().to_string();
    assert!(error.contains("hold") && error.contains("values"), "{error}");
}

#[test]
fn an_objective_without_pairs_needs_no_features() {
    let loss = Objective::parse("quality").unwrap().prepare(Inputs::new().score_range("quality", 0.0, 1.0)).unwrap();
    let mut session = Session::new(NAMES, loss, &streaming(20, 0.1)).unwrap();
    for round in 0..100 {
        let pull = session.ask().unwrap();
        let scores = [("quality".to_string(), vec![pull.index as f64 / 10.0 + f64::from(round % 7) / 70.0])].into();
        session.tell_scored(pull.id, &Features::new(1, vec![0.0]).unwrap(), &scores).unwrap();
    }
    let report = session.report().unwrap();
    assert_eq!((report.samples, session.statistics().rows()), (100, 20));
    assert!(report.arms[0].weight > 0.99, "{report:?}");
}
