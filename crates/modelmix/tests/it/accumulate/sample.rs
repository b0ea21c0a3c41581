//! Samples of rows: their stated errors are those to the answer of all rows. Which method a plan chooses for a wanted error.

use modelmix::accumulate::{Accumulator, Block, Method, PlanSettings, Planned, SurveySettings};
use modelmix::mixture::SolveSettings;
use modelmix::policy::Random;
use modelmix::{Features, Inputs, Mixture, Objective, RecordedArm, RecordedArms, Rows, solve};

use super::{WIDTH, scores};

const ROWS: usize = 900;

/// Three arms and a reference, with scores; arm 0 is at this distance from the reference.
fn sides(distance: f64) -> Vec<(Vec<f32>, Vec<f64>)> {
    let mut random = Random::seeded(3);
    let centres = [distance, -1.0, 0.5 + distance, 0.0];
    let side = |centre: f64| {
        let rows = (0..ROWS * WIDTH).map(|at| (random.normal() + centre * (at % 2) as f64) as f32).collect();
        (rows, (0..ROWS).map(|_| random.normal() + centre).collect())
    };
    centres.map(side).into()
}

fn survey(sides: &[(Vec<f32>, Vec<f64>)], sample: usize, seed: u64) -> Accumulator {
    let settings = SurveySettings::default().sample(sample).seed(seed).scores(vec!["realism".into()]);
    let mut survey = Accumulator::survey(&settings);
    for (arm, (rows, realism)) in sides[..3].iter().enumerate() {
        survey.update(&format!("arm {arm}"), Rows::new(WIDTH, rows), &scores(realism)).expect("rows fit");
    }
    survey.update_reference(Rows::new(WIDTH, &sides[3].0)).expect("rows fit");
    survey
}

fn of_all(sides: &[(Vec<f32>, Vec<f64>)], objective: &Objective) -> Mixture {
    let arm = |(arm, (rows, realism)): (usize, &(Vec<f32>, Vec<f64>))| {
        let rows = Features::new(WIDTH, rows.clone()).expect("rows");
        RecordedArm::new(format!("arm {arm}"), rows).with_score("realism", realism.clone())
    };
    let arms = RecordedArms::new(sides[..3].iter().enumerate().map(arm).collect()).expect("arms");
    let reference = Features::new(WIDTH, sides[3].0.clone()).expect("rows");
    let inputs = Inputs::new().arms(&arms).reference(reference);
    solve(&arms, &objective.prepare(inputs).expect("a loss")).expect("a mixture")
}

/// How often, in 200 samples, the loss and the gain of the same mixture of all rows are within 1.96 stated errors, divided by
/// `part`.
fn covered(objective: &str, sample: usize, distance: f64, part: f64) -> (usize, usize) {
    let objective = Objective::parse(objective).expect("an objective");
    let sides = sides(distance);
    let truth = of_all(&sides, &objective);
    let (mut losses, mut gains) = (0, 0);
    for seed in 0..200 {
        let survey = survey(&sides, sample, seed);
        let planned = survey.plan(&objective, &PlanSettings::default().method(Method::Sample)).expect("a plan");
        let sampled = survey.with_plan(&planned.plan, None).expect("sampled rows");
        let found = sampled.solve_with(&SolveSettings::new().intervals(false)).expect("a mixture");
        let stated = found.approximation.clone().expect("a sample");
        assert_eq!(stated.gain_error, planned.gain_error);
        let (loss, gain) = (stated.loss_error.expect("an error"), stated.gain_error.expect("an error"));
        let weights = found.weights();
        let at = |mixture: &Mixture| mixture.form.value(&weights) + mixture.constant;
        losses += usize::from((at(&found) - at(&truth)).abs() <= 1.96 * loss / part);
        let best = found.arms.iter().position(|arm| arm.name == found.best_single.name).expect("an arm");
        let single = |mixture: &Mixture| mixture.form.single(best) - mixture.form.value(&weights);
        gains += usize::from((single(&found) - single(&truth)).abs() <= 1.96 * gain / part);
    }
    (losses, gains)
}

/// With 200 draws, fewer than 180 hits have a probability below 0.2% if 95% is right. As a control, a third of the stated error
/// covers fewer than 180. A third of the rows are sampled, so without the correction for a finite population the errors would be
/// 1.2 times as large; with nearly all rows, they vanish.
#[test]
fn samples_have_the_stated_error() {
    for objective in ["mmd(bandwidth=2) - 0.01*realism", "rke(bandwidth=2)"] {
        let (losses, gains) = covered(objective, ROWS / 3, 0.8, 1.0);
        assert!(losses >= 180 && gains >= 180, "{objective}: {losses} {gains}");
        let (losses, gains) = covered(objective, ROWS / 3, 0.8, 3.0);
        assert!(losses < 180 && gains < 180, "the control of {objective} covers {losses} {gains}");
    }
    // An arm with the distribution of the reference, where all first-order influences vanish.
    let (losses, gains) = covered("mmd(bandwidth=2)", ROWS / 3, 0.0, 1.0);
    assert!(losses >= 180 && gains >= 180, "{losses} {gains}");
    let (losses, gains) = covered("mmd(bandwidth=2) - 0.01*realism", ROWS - 9, 0.8, 1.0);
    assert!(losses >= 180 && gains >= 180, "{losses} {gains}");
}

#[test]
fn nearly_all_rows_have_nearly_no_error() {
    let sides = sides(0.8);
    let objective = Objective::parse("mmd(bandwidth=2) - 0.01*realism").expect("an objective");
    let error = |sample: usize| {
        let planned = survey(&sides, sample, 0).plan(&objective, &PlanSettings::default().method(Method::Sample));
        planned.expect("a plan").gain_error.expect("an error")
    };
    // √(1/300 − 1/900) against √(1/891 − 1/900).
    let (few, many) = (error(ROWS / 3), error(ROWS - 9));
    let expected = ((1.0 / 300.0 - 1.0 / 900.0) / (1.0 / 891.0 - 1.0 / 900.0f64)).sqrt();
    assert!((few / many / expected).ln().abs() < 0.4, "{few} {many} {expected}");
}

/// The error of the gain is that to the next best arm, if one arm has all weight: it is not 0, and rows vary as much as it says.
#[test]
fn an_arm_with_all_weight_has_an_error_too() {
    let mut sides = sides(0.0);
    for (arm, far) in [(0, 0.3), (1, 1.3), (2, 1.6)] {
        sides[arm].0.iter_mut().for_each(|value| *value += far);
    }
    let objective = Objective::parse("mmd(bandwidth=2)").expect("an objective");
    let truth = of_all(&sides, &objective);
    assert_eq!(truth.weights(), [1.0, 0.0, 0.0]);
    let (mut within, mut control) = (0, 0);
    for seed in 0..100 {
        let survey = survey(&sides, ROWS / 3, seed);
        let planned = survey.plan(&objective, &PlanSettings::default().method(Method::Sample)).expect("a plan");
        let found = survey.with_plan(&planned.plan, None).expect("sampled rows").solve().expect("a mixture");
        assert_eq!(found.weights(), [1.0, 0.0, 0.0]);
        let stated = found.approximation.clone().and_then(|stated| stated.gain_error).expect("an error");
        let distance = |mixture: &Mixture| mixture.form.single(1) - mixture.form.single(0);
        let off = (distance(&found) - distance(&truth)).abs();
        within += usize::from(off <= 1.96 * stated);
        control += usize::from(off <= 1.96 / 3.0 * stated);
    }
    // Fewer than 87 of 100 have a probability of 0.2%.
    assert!(within >= 87 && control < 87, "{within}, control {control}");
}

/// The p-value from a sample of the reference is that from all of it: its skewness is that of a mean of all rows.
#[test]
fn a_sampled_reference_has_the_skewness_of_all_its_rows() {
    for seed in 0..6 {
        let mut random = Random::seeded(seed);
        let mut arm = |shift: f64| -> Vec<f32> {
            (0..300 * WIDTH).map(|at| (random.normal() + shift * (at % 2) as f64) as f32).collect()
        };
        let arms = [arm(0.55), arm(0.45)];
        // Far more rows, and skewed.
        let reference: Vec<f32> = (0..6000 * WIDTH).map(|_| (0.5 * random.normal()).exp() as f32 - 1.0).collect();
        let mut survey = Accumulator::survey(&SurveySettings::default().sample(300).seed(seed));
        let recorded: Vec<_> = arms.iter().enumerate().map(|(at, rows)| (format!("arm {at}"), rows)).collect();
        for (name, rows) in &recorded {
            survey.update(name, Rows::new(WIDTH, rows), &Default::default()).expect("rows fit");
        }
        survey.update_reference(Rows::new(WIDTH, &reference)).expect("rows fit");
        let objective = Objective::parse("mmd(bandwidth=2)").expect("an objective");
        let planned = survey.plan(&objective, &PlanSettings::default().method(Method::Pairs)).expect("a plan");
        let features = |rows: &[f32]| Features::new(WIDTH, rows.to_vec()).expect("rows");
        let mut block = Block::new("all").reference(features(&reference));
        for (name, rows) in &recorded {
            block = block.arm(name, features(rows));
        }
        let mut sums = Accumulator::new(&planned.plan, None).expect("an accumulator");
        for (name, rows) in &recorded {
            sums.update(name, Rows::new(WIDTH, rows), &Default::default()).expect("rows fit");
        }
        sums.update_reference(Rows::new(WIDTH, &reference)).expect("rows fit");
        sums.update_pairs(&block, &block).expect("pairs");
        let found = sums.solve().expect("a mixture").p_value.expect("a p-value");
        let of_all = RecordedArms::new(
            recorded.iter().map(|(name, rows)| RecordedArm::new(name.clone(), features(rows))).collect(),
        );
        let of_all = of_all.expect("arms");
        let inputs = Inputs::new().arms(&of_all).reference(features(&reference));
        let truth = solve(&of_all, &objective.prepare(inputs).expect("a loss")).expect("a mixture");
        let truth = truth.p_value.expect("a p-value");
        assert!((found.ln() - truth.ln()).abs() < 0.3, "{found} of a sample, {truth} of all rows");
    }
}

fn planned(survey: &Accumulator, objective: &str, settings: &PlanSettings) -> Result<Planned, String> {
    survey.plan(&Objective::parse(objective).expect("an objective"), settings).map_err(|error| error.to_string())
}

#[test]
fn a_wanted_error_decides_the_method() {
    let sides = sides(0.8);
    let few = survey(&sides, ROWS / 3, 0);
    let settings = |error: f64| PlanSettings::default().error(error);
    let method =
        |objective: &str, error: f64| Ok::<_, String>(planned(&few, objective, &settings(error))?.plan.method());
    assert_eq!(method("mmd(bandwidth=2)", 0.01), Ok(Method::Features));
    // Without random features.
    assert_eq!(method("kid", 1.0), Ok(Method::Sample));
    for objective in ["mmd(bandwidth=2)", "kid"] {
        let text = method(objective, 1e-9).expect_err("too small");
        assert!(
            text.contains("method pairs") && text.contains("a sample of 300 rows") && text.contains("e-9"),
            "{text}"
        );
        assert_eq!(text.contains("random features"), objective != "kid", "{text}");
    }
    let least = planned(&few, "kid", &PlanSettings::default()).expect("a plan");
    assert_eq!(least.plan.method(), Method::Sample);
    let gain_error = least.gain_error.expect("an error");
    assert!(least.text.contains("standard error of the gain"), "{}", least.text);
    assert_eq!(method("kid", 1.01 * gain_error), Ok(Method::Sample));
    assert!(method("kid", 0.99 * gain_error).is_err());
    let sample = settings(0.99 * gain_error).method(Method::Sample);
    assert!(planned(&few, "kid", &sample).expect_err("too small").contains("sample more rows"));
    // A sample that is better than any number of random features.
    let many = survey(&sides, ROWS - 1, 0);
    let found = planned(&many, "mmd(bandwidth=2)", &settings(1e-6));
    let sampled = planned(&many, "mmd(bandwidth=2)", &PlanSettings::default().method(Method::Sample)).expect("a plan");
    let error = sampled.gain_error.expect("an error");
    match found {
        Ok(found) => assert!(found.gain_error.expect("an error") <= 1e-6),
        Err(text) => assert!(error > 1e-6 && text.contains("method pairs"), "{text}"),
    }
    assert!(method("mmd(bandwidth=2)", f64::NAN).expect_err("no number").contains("positive"));
    // All rows.
    let all = survey(&sides, ROWS, 0);
    assert_eq!(planned(&all, "kid", &settings(1e-9)).expect("a plan").plan.method(), Method::Rows);
}

/// A number of random features that does not have the error wanted is refused with one that has; so is a number that is not used.
#[test]
fn a_number_of_features_must_have_the_error_wanted() {
    let survey = survey(&sides(0.8), ROWS / 3, 0);
    let features = |count: usize, error: f64| {
        planned(&survey, "mmd(bandwidth=2)", &PlanSettings::default().features(count).error(error))
    };
    let error = features(256, 1.0).expect("a plan").gain_error.expect("an error");
    let refusal = features(256, error / 3.9999).expect_err("too inexact");
    assert!(refusal.contains("which 256 random features have"), "{refusal}");
    // A quarter of the error takes sixteen times as many.
    assert!(refusal.contains("give at least 4,096 random features"), "{refusal}");
    let enough = features(4096, error / 3.9999).expect("a plan");
    assert_eq!(enough.plan.features(), 4096);
    let never = features(256, 1e-9).expect_err("too inexact");
    assert!(never.contains("no number up to 65,536") && never.contains("another method"), "{never}");
    for (objective, method) in [
        ("mmd(bandwidth=2)", Some(Method::Sample)),
        ("mmd(bandwidth=2)", Some(Method::Pairs)),
        ("kid", None),
        ("rke(kernel=laplacian)", None),
    ] {
        let refusal = planned(&survey, objective, &PlanSettings::default().method(method).features(256));
        let refusal = refusal.expect_err("no random features");
        assert!(refusal.contains("the number of random features is 256") && refusal.contains("left out"), "{refusal}");
    }
}

/// The parts of a second pass keep only rows that the survey sampled, so their sizes are shares of that of all rows.
#[test]
fn parts_of_the_second_pass_are_small() {
    let sides = sides(0.8);
    let survey = survey(&sides, ROWS / 3, 0);
    let bytes = |method: Method, parts: usize| -> Vec<usize> {
        let settings = PlanSettings::default().method(method);
        let settings = if method == Method::Features { settings.features(16) } else { settings };
        let plan = planned(&survey, "mmd(bandwidth=2)", &settings).expect("a plan").plan;
        let empty = Accumulator::new(&plan, None).expect("an accumulator");
        let rows = ROWS / parts;
        let of_part = |part: usize| {
            let mut sums = empty.empty();
            for (arm, (values, realism)) in sides[..3].iter().enumerate() {
                let rows = Rows::new(WIDTH, &values[part * rows * WIDTH..][..rows * WIDTH]);
                sums.update(&format!("arm {arm}"), rows, &scores(&realism[part * rows.len()..][..rows.len()]))
                    .expect("rows fit");
            }
            sums
        };
        let all: Vec<Accumulator> = (0..parts).map(of_part).collect();
        let mut merged = empty.empty();
        all.iter().for_each(|part| merged.merge(part).expect("the same plan"));
        let sampled: Vec<usize> = all.iter().map(|part| part.to_bytes().len() - empty.to_bytes().len()).collect();
        let whole = merged.to_bytes().len() - empty.to_bytes().len();
        sampled.into_iter().chain([whole]).collect()
    };
    for method in [Method::Features, Method::Pairs] {
        let mut sizes = bytes(method, 9);
        let whole = sizes.pop().expect("the sums of all parts");
        // A part has a ninth of the sampled rows on average, and at most a few headers more.
        assert!(sizes.iter().sum::<usize>() < 2 * whole, "{method:?}: {sizes:?} {whole}");
    }
}
