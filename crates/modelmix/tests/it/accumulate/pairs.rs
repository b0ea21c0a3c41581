//! Sums over pairs of blocks: those of all pairs by brute force, the same bits in any order, and nothing missing or counted twice.

use std::collections::BTreeMap;

use modelmix::accumulate::{Accumulator, Block, Method, PlanSettings, SurveySettings};
use modelmix::compute::{Double, Engine};
use modelmix::policy::Random;
use modelmix::{Features, Inputs, Mixture, Objective, RecordedArm, RecordedArms, Rows, solve};
use proptest::prelude::*;

use super::{WIDTH, scores};

const SIZES: [usize; 3] = [37, 50, 24];
const REFERENCE: usize = 41;

/// Rows with their scores: three arms, then the reference. Arm 2 has copies of some of its rows.
struct Data {
    rows: Vec<Vec<f32>>,
    realism: Vec<Vec<f64>>,
}

fn data(seed: u64) -> Data {
    let mut random = Random::seeded(seed);
    let mut data = Data { rows: Vec::new(), realism: Vec::new() };
    for (side, size) in SIZES.into_iter().chain([REFERENCE]).enumerate() {
        let centre = [1.5, -1.0, 0.5, 0.0][side];
        let values = (0..size * WIDTH).map(|at| (random.normal() + centre * (at % 2) as f64) as f32);
        let mut rows: Vec<f32> = values.collect();
        if side == 2 {
            let (copied, rest) = rows.split_at_mut(4 * WIDTH);
            rest[WIDTH..5 * WIDTH].copy_from_slice(copied);
        }
        data.rows.push(rows);
        data.realism.push((0..size).map(|_| random.normal()).collect());
    }
    data
}

/// The rows cut into blocks of up to `most` rows per side.
fn blocks(data: &Data, most: usize) -> Vec<Block> {
    let parts = SIZES.into_iter().chain([REFERENCE]).map(|size| size.div_ceil(most)).max().expect("sides");
    let block = |part: usize| {
        let mut block = Block::new(format!("block-{part}"));
        for (side, rows) in data.rows.iter().enumerate() {
            let cut: Vec<f32> = rows.chunks(most * WIDTH).nth(part).unwrap_or(&[]).to_vec();
            if !cut.is_empty() {
                let cut = Features::new(WIDTH, cut).expect("rows");
                block = if side == 3 { block.reference(cut) } else { block.arm(format!("arm {side}"), cut) };
            }
        }
        block
    };
    (0..parts).map(block).collect()
}

/// Every row once.
fn count(accumulator: &mut Accumulator, data: &Data) {
    for arm in 0..3 {
        let rows = Rows::new(WIDTH, &data.rows[arm]);
        accumulator.update(&format!("arm {arm}"), rows, &scores(&data.realism[arm])).expect("rows fit");
    }
    accumulator.update_reference(Rows::new(WIDTH, &data.rows[3])).expect("rows fit");
}

fn empty(data: &Data, objective: &str, sample: usize, engine: Engine) -> Accumulator {
    let settings = SurveySettings::default().sample(sample).scores(vec!["realism".into()]);
    let mut survey = Accumulator::survey(&settings);
    count(&mut survey, data);
    let costs = BTreeMap::from([("arm 0".into(), 1.0), ("arm 1".into(), 2.0), ("arm 2".into(), 0.5)]);
    let reference = Features::new(WIDTH, data.rows[3].clone()).expect("rows");
    let settings = PlanSettings::default().method(Method::Pairs).costs(costs).reference(reference.clone());
    let planned = survey.plan(&Objective::parse(objective).expect("an objective"), &settings).expect("a plan");
    assert!(planned.needs_second_pass && planned.text.contains("all pairs of 152 rows"), "{}", planned.text);
    Accumulator::with_engine(&planned.plan, Some(reference), engine).expect("an accumulator")
}

fn paired(data: &Data, objective: &str, sample: usize, engine: Engine) -> Mixture {
    let mut sums = empty(data, objective, sample, engine);
    count(&mut sums, data);
    let blocks = blocks(data, 13);
    for (at, block) in blocks.iter().enumerate() {
        for other in &blocks[at..] {
            sums.update_pairs(block, other).expect("pairs");
        }
    }
    sums.solve().expect("a mixture")
}

/// All rows in memory.
fn in_memory(data: &Data, objective: &str) -> Mixture {
    let arm = |arm: usize| {
        let rows = Features::new(WIDTH, data.rows[arm].clone()).expect("rows");
        RecordedArm::new(format!("arm {arm}"), rows).with_score("realism", data.realism[arm].clone())
    };
    let arms = RecordedArms::new((0..3).map(arm).collect()).expect("arms");
    let reference = Features::new(WIDTH, data.rows[3].clone()).expect("rows");
    let objective = Objective::parse(objective).expect("an objective");
    let inputs = Inputs::new().arms(&arms).reference(reference).costs(vec![1.0, 2.0, 0.5]);
    solve(&arms, &objective.prepare(inputs).expect("a loss")).expect("a mixture")
}

fn squared_distance(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum()
}

fn gaussian(x: &[f32], y: &[f32]) -> f64 {
    (-squared_distance(x, y) / 8.0).exp()
}

fn squared_gaussian(x: &[f32], y: &[f32]) -> f64 {
    (-squared_distance(x, y) / 4.0).exp()
}

fn laplacian(x: &[f32], y: &[f32]) -> f64 {
    (-squared_distance(x, y).sqrt() / 3.0).exp()
}

fn cubic(x: &[f32], y: &[f32]) -> f64 {
    let product: f64 = x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
    (product / WIDTH as f64 + 1.0).powi(3)
}

/// Means of a kernel over all pairs of two sides, and without self-pairs.
fn means(data: &Data, kernel: fn(&[f32], &[f32]) -> f64, i: usize, j: usize) -> (f64, f64) {
    let (x, y) = (Rows::new(WIDTH, &data.rows[i]), Rows::new(WIDTH, &data.rows[j]));
    let (mut all, mut own) = (0.0, 0.0);
    for (a, x) in x.iter().enumerate() {
        for (b, y) in y.iter().enumerate() {
            all += kernel(x, y);
            own += if i == j && a == b { kernel(x, y) } else { 0.0 };
        }
    }
    let (n, m) = (x.len() as f64, y.len() as f64);
    (all / (n * m), (all - own) / (n * (m - if i == j { 1.0 } else { 0.0 })))
}

type Kernel = fn(&[f32], &[f32]) -> f64;

/// Sums by brute force in double precision are the truth; the engine in double precision meets them to 1e-9, and the default one
/// within its accuracy.
#[test]
fn sums_are_those_of_all_pairs() {
    let data = data(1);
    let cases: [(&str, Kernel, f64); 4] = [
        ("rke(bandwidth=2)", squared_gaussian, 0.0),
        ("mmd(bandwidth=2)", gaussian, 1.0),
        ("mmd(kernel=laplacian, bandwidth=3)", laplacian, 1.0),
        ("kid", cubic, 1.0),
    ];
    for (objective, kernel, cross) in cases {
        for (engine, tolerance) in [(Engine::new(Double::new()), 1e-9), (Engine::default(), 3e-6)] {
            let found = paired(&data, objective, 500, engine);
            assert_eq!(found.approximation, None, "exact");
            let size = means(&data, kernel, 0, 0).0.abs();
            let is_near = |found: f64, truth: f64| (found - truth).abs() <= tolerance * size.max(truth.abs());
            for i in 0..3 {
                for j in 0..3 {
                    let truth = means(&data, kernel, i, j).0;
                    assert!(is_near(found.form.at(i, j), truth), "{objective}: {} {truth}", found.form.at(i, j));
                }
                let truth = -2.0 * cross * means(&data, kernel, i, 3).0;
                assert!(is_near(found.form.linear()[i], truth), "{objective}: {} {truth}", found.form.linear()[i]);
                // The reported scores are U-statistics, but RKE, which is 1/V.
                let (biased, unbiased) = means(&data, kernel, i, i);
                let score = match objective.split('(').next().expect("a name") {
                    "rke" => 1.0 / biased,
                    "kid" => unbiased + truth + means(&data, kernel, 3, 3).1,
                    _ => 100.0 * (unbiased + truth + means(&data, kernel, 3, 3).1),
                };
                let scale = if objective == "kid" { size } else { 100.0 * size };
                let off = (found.arms[i].score - score).abs();
                assert!(
                    off <= 10.0 * tolerance * scale.max(score.abs()),
                    "{objective}: {} {score}",
                    found.arms[i].score
                );
            }
            let truth = cross * means(&data, kernel, 3, 3).0;
            assert!(is_near(found.constant, truth), "{objective}: {} {truth}", found.constant);
        }
    }
}

/// With all rows sampled, influences are those of all rows, so intervals are the same.
#[test]
fn mixtures_are_those_of_all_rows() {
    let data = data(2);
    let objectives = [
        "rke(bandwidth=2)",
        "mmd(bandwidth=2)",
        "kid",
        "mmd(bandwidth=2) - 0.01*realism",
        "rke(bandwidth=1) + 0.5*mmd(kernel=laplacian, bandwidth=3) + 0.01*cost",
        "mmd(kernel=polynomial, degree=2) - 0.1*precision(neighbours=5) - 0.01*density(neighbours=5)",
        "mmd(kernel=cosine) + 0.01*fid",
    ];
    for objective in objectives {
        let (found, truth) = (paired(&data, objective, 500, Engine::default()), in_memory(&data, objective));
        for (found, truth) in found.arms.iter().zip(&truth.arms) {
            assert!((found.weight - truth.weight).abs() < 1e-5, "{objective}: {} {}", found.weight, truth.weight);
            assert!((found.loss - truth.loss).abs() < 1e-5 * (1.0 + truth.loss.abs()), "{objective}");
            let ends = |interval: Option<[f64; 2]>| interval.map_or(vec![], |ends| ends.to_vec());
            let (ends, expected) = (ends(found.interval), ends(truth.interval));
            assert_eq!(ends.len(), expected.len(), "{objective}");
            assert!(
                ends.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 0.01),
                "{objective}: {ends:?} {expected:?}"
            );
        }
        assert!((found.mixture.score - truth.mixture.score).abs() < 1e-4 * truth.mixture.score.abs().max(1.0));
    }
    // A sample of the rows has the same weights, and intervals of about the same width.
    let objective = "mmd(bandwidth=2)";
    let (found, truth) = (paired(&data, objective, 15, Engine::default()), in_memory(&data, objective));
    for (found, truth) in found.arms.iter().zip(&truth.arms) {
        assert!((found.weight - truth.weight).abs() < 1e-5);
        let width = |interval: Option<[f64; 2]>| interval.map_or(f64::NAN, |[low, high]| high - low);
        assert!((width(found.interval) / width(truth.interval)).ln().abs() < 1.0, "{found:?} {truth:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_order_and_any_tree_has_the_same_bits(seed in 0u64..1000) {
        let data = data(seed);
        let mut random = Random::seeded(seed);
        let empty = empty(&data, "rke(bandwidth=1) + kid - 0.01*realism", 20, Engine::default());
        let blocks = blocks(&data, 19);
        let mut pairs: Vec<(usize, usize)> =
            (0..blocks.len()).flat_map(|a| (a..blocks.len()).map(move |b| (a, b))).collect();
        let mut once = empty.empty();
        count(&mut once, &data);
        pairs.iter().for_each(|&(a, b)| once.update_pairs(&blocks[a], &blocks[b]).expect("pairs"));
        let mut parts = vec![empty.empty()];
        count(&mut parts[0], &data);
        while !pairs.is_empty() {
            let (a, b) = pairs.swap_remove(random.below(pairs.len()));
            let (a, b) = if random.below(2) == 0 { (a, b) } else { (b, a) };
            let mut part = empty.empty();
            part.update_pairs(&blocks[a], &blocks[b]).expect("pairs");
            prop_assert!(part.has_pair(blocks[a].name(), blocks[b].name()));
            // As a worker would send it.
            parts.push(empty.like_from_bytes(&part.to_bytes()).expect("whole bytes"));
        }
        while parts.len() > 1 {
            let other = parts.swap_remove(random.below(parts.len()));
            let at = random.below(parts.len());
            parts[at].merge(&other).expect("the same plan");
        }
        prop_assert_eq!(parts[0].to_bytes(), once.to_bytes());
        let read = Accumulator::from_bytes(&once.to_bytes(), None).expect("whole bytes");
        prop_assert_eq!(read.to_bytes(), once.to_bytes());
        prop_assert_eq!(parts[0].solve().expect("a mixture"), once.solve().expect("a mixture"));
    }
}

fn refusal<T>(result: modelmix::Result<T>) -> String {
    result.err().expect("a refusal").to_string()
}

#[test]
fn missing_and_double_pairs_are_refused() {
    let data = data(3);
    let empty = empty(&data, "mmd(bandwidth=2)", 20, Engine::default());
    let blocks = blocks(&data, 19);
    let mut sums = empty.empty();
    count(&mut sums, &data);
    for (at, block) in blocks.iter().enumerate() {
        for other in blocks[at..].iter().filter(|other| (block.name(), other.name()) != ("block-0", "block-2")) {
            sums.update_pairs(block, other).expect("pairs");
        }
    }
    // 4 sides of 19, 19, 19 and 19 rows by 12 of arm 1 and 3 of the reference.
    let text = refusal(sums.solve());
    assert!(text.contains("1 of 6") && text.contains("block-0 × block-2") && text.contains("1,140 pairs"), "{text}");
    let before = sums.to_bytes();
    for result in [sums.clone().update_pairs(&blocks[1], &blocks[0]), sums.clone().merge(&sums)] {
        let text = refusal(result);
        assert!(text.contains("block-0 × block-"), "{text}");
    }
    let other = Block::new("block-2").arm("arm 1", Features::new(WIDTH, vec![0.5; 12 * WIDTH]).expect("rows"));
    let text = refusal(sums.update_pairs(&blocks[0], &other));
    assert!(text.contains("block-2, with other rows"), "{text}");
    let mut apart = empty.empty();
    apart.update_pairs(&blocks[0], &other).expect("pairs");
    assert!(refusal(sums.merge(&apart)).contains("block-2, with other rows"));
    let text = refusal(empty.empty().update_pairs(&blocks[2], &other));
    assert!(text.contains("block-2, with other rows"), "{text}");
    assert_eq!(sums.to_bytes(), before, "nothing was added");
    sums.update_pairs(&blocks[2], &blocks[0]).expect("the missing pair");
    sums.solve().expect("a mixture");

    // A block without its pairs, and rows that were not counted.
    let mut few = empty.empty();
    count(&mut few, &data);
    few.update_pairs(&blocks[0], &blocks[0]).expect("pairs");
    let text = refusal(few.solve());
    assert!(text.contains("rows of arm arm 0 in blocks is 19") && text.contains("37"), "{text}");
    let mut uncounted = empty.empty();
    uncounted.update_pairs(&blocks[0], &blocks[0]).expect("pairs");
    assert!(uncounted.solve().is_err());
    let unknown = Block::new("x").arm("arm 9", Features::new(WIDTH, vec![0.5; WIDTH]).expect("rows"));
    assert!(refusal(sums.update_pairs(&unknown, &unknown)).contains("arm 9"));
    let narrow = Block::new("x").arm("arm 0", Features::new(2, vec![0.5; 4]).expect("rows"));
    assert!(refusal(sums.update_pairs(&narrow, &narrow)).contains("block x, arm arm 0"));
}

#[test]
fn damaged_bytes_of_pairs_are_refused() {
    let data = data(4);
    let mut sums = empty(&data, "mmd(bandwidth=2)", 4, Engine::default());
    let blocks = blocks(&data, 40);
    sums.update_pairs(&blocks[0], &blocks[1]).expect("pairs");
    let bytes = sums.to_bytes();
    assert_eq!(Accumulator::from_bytes(&bytes, None).expect("whole bytes").to_bytes(), bytes);
    for at in (0..bytes.len()).step_by(11) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(Accumulator::from_bytes(&flipped, None).is_err(), "{at}");
        assert!(Accumulator::from_bytes(&bytes[..at], None).is_err(), "{at}");
    }
    // The header is not as the plan says, with a right checksum.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    for (from, into) in [("\"block-1\"", "\"block-0\""), ("\"block-1\"", "\"a-block\"")] {
        let at = text.find("\"blocks\"").expect("blocks");
        let at = at + text[at..].find(from).expect("a block");
        let mut changed = bytes.clone();
        let at =
            bytes.windows(from.len()).enumerate().position(|(p, w)| p + 9 >= at && w == from.as_bytes()).expect("it");
        changed[at..at + into.len()].copy_from_slice(into.as_bytes());
        let end = changed.len() - 4;
        let checksum = crc32fast::hash(&changed[..end]);
        changed[end..].copy_from_slice(&checksum.to_le_bytes());
        assert!(refusal(Accumulator::from_bytes(&changed, None)).contains("blocks"));
    }
}

#[test]
fn pairs_need_a_plan_with_pairs() {
    let data = data(5);
    let mut survey = Accumulator::survey(&SurveySettings::default().sample(10).scores(vec!["realism".into()]));
    count(&mut survey, &data);
    let blocks = blocks(&data, 19);
    assert!(refusal(survey.update_pairs(&blocks[0], &blocks[0])).contains("survey"));
    let pairs = PlanSettings::default().method(Method::Pairs);
    for objective in ["realism", "fid", "mmd + vendi(bandwidth=2)"] {
        let text = refusal(survey.plan(&Objective::parse(objective).expect("an objective"), &pairs));
        assert!(text.contains("pairs"), "{text}");
    }
    let planned = survey.plan(&Objective::mmd(), &pairs).expect("a plan");
    assert!(refusal(survey.with_plan(&planned.plan, None)).contains("pairs"));
    let small = pairs.clone().memory(planned.bytes - 1);
    assert!(refusal(survey.plan(&Objective::mmd(), &small)).contains("memory"));
    survey.plan(&Objective::mmd(), &pairs.memory(planned.bytes)).expect("enough memory");
}
