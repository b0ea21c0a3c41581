//! Accumulators: the same bits for any split, order and tree of merges; answers within their stated errors of exact ones; damaged
//! bytes are refused. `pairs`: sums over pairs of blocks; `sample`: errors of samples.

mod hostile;
mod pairs;
mod sample;
mod stream;

use modelmix::accumulate::{Accumulator, Method, Plan, PlanSettings, SurveySettings};
use modelmix::policy::Random;
use modelmix::{Features, Inputs, Mixture, Objective, RecordedArms, Rows, load, solve};
use proptest::prelude::*;

type Shard = (String, Vec<f32>, Vec<f64>);

const WIDTH: usize = 5;

fn scores(values: &[f64]) -> std::collections::BTreeMap<String, Vec<f64>> {
    [("realism".to_string(), values.to_vec())].into()
}

/// Rows of three arms around different centres, in shards of random sizes.
fn shards(rows: usize, seed: u64) -> Vec<Shard> {
    let mut random = Random::seeded(seed);
    let mut shards = Vec::new();
    for arm in 0..3 {
        let mut left = rows;
        while left > 0 {
            let count = (1 + random.below(rows / 3)).min(left);
            let values =
                (0..count * WIDTH).map(|at| (random.normal() + f64::from(arm) * ((at % WIDTH) as f64 - 1.0)) as f32);
            let values = values.collect();
            let realism = (0..count).map(|_| random.normal() * 1e3).collect();
            shards.push((format!("arm {arm}"), values, realism));
            left -= count;
        }
    }
    shards
}

fn add(accumulator: &mut Accumulator, (arm, rows, realism): &Shard) {
    accumulator.update(arm, Rows::new(WIDTH, rows), &scores(realism)).expect("rows fit");
}

fn survey(shards: &[Shard], reference: &[f32], sample: usize) -> Accumulator {
    let settings = SurveySettings::default().sample(sample).scores(vec!["realism".into()]);
    let mut survey = Accumulator::survey(&settings);
    shards.iter().for_each(|shard| add(&mut survey, shard));
    survey.update_reference(Rows::new(WIDTH, reference)).expect("rows fit");
    survey
}

/// Every shard cut at random places, accumulated apart and merged in a random tree.
fn scattered(empty: &Accumulator, shards: &[Shard], reference: &[f32], seed: u64) -> Accumulator {
    let mut random = Random::seeded(seed);
    let mut parts = Vec::new();
    for (arm, rows, realism) in shards {
        let cut = random.below(realism.len() + 1);
        for (from, until) in [(0, cut), (cut, realism.len())] {
            let mut part = empty.empty();
            let shard = (arm.clone(), rows[from * WIDTH..until * WIDTH].to_vec(), realism[from..until].to_vec());
            if from < until {
                add(&mut part, &shard);
            }
            // As a worker would send it.
            parts.push(Accumulator::from_bytes(&part.to_bytes(), None).expect("whole bytes"));
        }
    }
    let mut part = empty.empty();
    part.update_reference(Rows::new(WIDTH, reference)).expect("rows fit");
    parts.push(part);
    while parts.len() > 1 {
        let other = parts.swap_remove(random.below(parts.len()));
        let at = random.below(parts.len());
        parts[at].merge(&other).expect("the same plan");
    }
    parts.remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_split_and_any_tree_has_the_same_bits(seed in 0u64..1000) {
        let shards = shards(90, seed);
        let reference: Vec<f32> = shards.iter().flat_map(|shard| shard.1.iter().map(|value| 0.5 * value)).collect();
        for sample in [20, 500] {
            let whole = survey(&shards, &reference, sample);
            let empty = whole.empty();
            prop_assert_eq!(scattered(&empty, &shards, &reference, seed).to_bytes(), whole.to_bytes());
        }
        let whole = survey(&shards, &reference, 20);
        for objective in ["mmd - 0.0001*realism", "fid", "vendi", "rke + 0.1*mmd(bandwidth=2)"] {
            let settings = PlanSettings::default().method(Method::Features).features(64);
            let plan = whole.plan(&Objective::parse(objective).expect("an objective"), &settings).expect("a plan").plan;
            let empty = Accumulator::new(&plan, None).expect("an accumulator");
            let mut once = empty.empty();
            shards.iter().for_each(|shard| add(&mut once, shard));
            once.update_reference(Rows::new(WIDTH, &reference)).expect("rows fit");
            let other = scattered(&empty, &shards, &reference, seed + 1);
            prop_assert_eq!(other.to_bytes(), once.to_bytes());
            prop_assert_eq!(other.solve().expect("a mixture"), once.solve().expect("a mixture"));
        }
    }
}

#[test]
fn shards_count_once() {
    let shards = shards(30, 1);
    let mut first = Accumulator::survey(&SurveySettings::default().scores(vec!["realism".into()]));
    add(&mut first, &shards[0]);
    first.finish_shard("part-0", 3).expect("new");
    let copy = first.clone();
    let before = first.to_bytes();
    let refusal = first.merge(&copy).expect_err("a shard twice").to_string();
    assert!(refusal.contains("part-0"), "{refusal}");
    assert_eq!(first.to_bytes(), before, "nothing was added");
}

/// The data of the repository, once as recorded arms and once accumulated.
fn fashion() -> (RecordedArms, Features) {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/fashion");
    let arms = load::arms(&[format!("{data}/specialists.npz").parse().expect("a source")]).expect("arms");
    (arms, load::features(format!("{data}/reference.npy"), None).expect("a reference"))
}

fn accumulated(
    arms: &RecordedArms,
    reference: &Features,
    objective: &Objective,
    features: usize,
    seed: u64,
) -> Mixture {
    let fill = |accumulator: &mut Accumulator| {
        for arm in arms.iter() {
            accumulator.update(&arm.name, arm.features.view(), &Default::default()).expect("rows fit");
        }
        accumulator.update_reference(reference.view()).expect("rows fit");
    };
    let mut survey = Accumulator::survey(&SurveySettings::default().sample(500).seed(seed));
    fill(&mut survey);
    let settings = PlanSettings::default().method(Method::Features).features(features).arms(arms.names());
    let planned = survey.plan(objective, &settings).expect("a plan");
    assert!(planned.needs_second_pass);
    let mut sums = Accumulator::new(&planned.plan, None).expect("an accumulator");
    fill(&mut sums);
    sums.solve().expect("a mixture")
}

fn exact(arms: &RecordedArms, reference: &Features, objective: &Objective) -> Mixture {
    let loss = objective.prepare(Inputs::new().arms(arms).reference(reference.clone())).expect("a loss");
    solve(arms, &loss).expect("a mixture")
}

/// The error of the loss and the gain is within two of its standard errors in 95% of draws; with 200 draws, fewer than 180 hits
/// have a probability below 0.2% if 95% is right. Intervals of weights contain the exact answer almost always, since they also
/// include the spread of the samples, which is shared. As a control, a third of the stated error covers fewer than 180.
#[test]
fn random_features_have_the_stated_error() {
    let (arms, reference) = fashion();
    let objective = Objective::mmd().with_bandwidth(20.0);
    let truth = exact(&arms, &reference, &objective);
    let (mut losses, mut gains, mut controls, mut intervals) = (0, 0, 0, 0);
    for seed in 0..200 {
        let found = accumulated(&arms, &reference, &objective, 256, seed);
        let stated = found.approximation.clone().expect("random features");
        let (loss, gain) = (stated.loss_error.expect("an error"), stated.gain_error.expect("an error"));
        let at = |mixture: &Mixture, weights: &[f64]| mixture.form.value(weights) + mixture.constant;
        // The same mixture by exact sums.
        let off = (at(&found, &found.weights()) - at(&truth, &found.weights())).abs();
        losses += usize::from(off <= 1.96 * loss);
        controls += usize::from(off <= 1.96 / 3.0 * loss);
        let single = |mixture: &Mixture, arm: usize| mixture.form.single(arm) - mixture.form.value(&found.weights());
        let best = found.arms.iter().position(|arm| arm.name == found.best_single.name).expect("an arm");
        gains += usize::from((single(&found, best) - single(&truth, best)).abs() <= 1.96 * gain);
        let covers = |(found, exact): (&modelmix::mixture::MixtureArm, &modelmix::mixture::MixtureArm)| {
            found.interval.is_some_and(|[low, high]| low - 1e-9 <= exact.weight && exact.weight <= high + 1e-9)
        };
        intervals += usize::from(found.arms.iter().zip(&truth.arms).all(covers));
    }
    assert!(losses >= 180 && gains >= 180 && intervals >= 190, "{losses} {gains} {intervals}");
    assert!(controls < 180, "the control covers {controls}");
}

#[test]
fn moments_are_those_of_all_rows() {
    let (arms, reference) = fashion();
    for objective in [Objective::fid(), Objective::vendi()] {
        let (found, truth) = (accumulated(&arms, &reference, &objective, 64, 0), exact(&arms, &reference, &objective));
        for (found, truth) in found.arms.iter().zip(&truth.arms) {
            // Columns are rounded to 2⁻¹² of their deviation, which 1,500 rows average to some 1e-6.
            assert!((found.score / truth.score - 1.0).abs() < 5e-6, "{} {}", found.score, truth.score);
            assert!((found.weight - truth.weight).abs() < 1e-4);
        }
    }
}

#[test]
fn few_rows_are_solved_exactly() {
    let (arms, reference) = fashion();
    let objective = Objective::kid();
    let mut survey = Accumulator::survey(&SurveySettings::default().sample(100_000));
    for arm in arms.iter() {
        survey.update(&arm.name, arm.features.view(), &Default::default()).expect("rows fit");
    }
    survey.update_reference(reference.view()).expect("rows fit");
    let planned = survey.plan(&objective, &PlanSettings::default().arms(arms.names())).expect("a plan");
    assert_eq!(planned.plan.method(), Method::Rows);
    let (found, truth) = (
        survey.with_plan(&planned.plan, None).expect("rows").solve().expect("a mixture"),
        exact(&arms, &reference, &objective),
    );
    for (found, truth) in found.arms.iter().zip(&truth.arms) {
        assert!((found.weight - truth.weight).abs() < 1e-6 && (found.score / truth.score - 1.0).abs() < 1e-8);
    }
}

#[test]
fn damaged_bytes_are_refused() {
    let shards = shards(30, 2);
    let whole = survey(&shards, &shards[0].1, 8);
    let plan = whole.plan(&Objective::mmd(), &PlanSettings::default().features(16)).expect("a plan").plan;
    assert_eq!(Plan::from_bytes(&plan.to_bytes()).expect("a plan"), plan);
    let mut sums = Accumulator::new(&plan, None).expect("an accumulator");
    shards.iter().for_each(|shard| add(&mut sums, shard));
    let bytes = sums.to_bytes();
    assert_eq!(Accumulator::from_bytes(&bytes, None).expect("whole bytes").to_bytes(), bytes);
    for length in 0..bytes.len() {
        assert!(Accumulator::from_bytes(&bytes[..length], None).is_err(), "{length}");
    }
    for at in (0..bytes.len()).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(Accumulator::from_bytes(&flipped, None).is_err(), "{at}");
    }
}

#[test]
fn errors_name_what_is_wrong() {
    let mut survey = Accumulator::survey(&SurveySettings::default());
    let rows = [1.0, 2.0, f32::NAN, 4.0];
    let refusal = survey.update("a", Rows::new(2, &rows), &Default::default()).expect_err("NaN").to_string();
    assert!(refusal.contains("row 1, column 0"), "{refusal}");
    survey.update("a", Rows::new(2, &[1.0, 2.0]), &Default::default()).expect("rows fit");
    let refusal =
        survey.update("a", Rows::new(4, &[1.0; 4]), &Default::default()).expect_err("another width").to_string();
    assert!(refusal.contains("4 columns"), "{refusal}");
    assert!(survey.solve().is_err(), "a survey has no objective");
    assert!(survey.plan(&Objective::mmd(), &PlanSettings::default()).is_err(), "no reference");
}
