//! Rows and bytes that are not as they should be: outliers, copies, and forged sums whose checksum is right.

use std::collections::BTreeMap;

use modelmix::accumulate::{Accumulator, Method, PlanSettings, Planned, SurveySettings};
use modelmix::policy::Random;
use modelmix::{Objective, Result, Rows};

const WIDTH: usize = 4;

fn normal(rows: usize, seed: u64, shift: f64) -> Vec<f32> {
    let mut random = Random::seeded(seed);
    (0..rows * WIDTH).map(|_| (random.normal() + shift) as f32).collect()
}

fn survey(arms: &[(&str, &[f32])], reference: &[f32], settings: &SurveySettings) -> Accumulator {
    let mut sums = Accumulator::survey(settings);
    fill(&mut sums, arms, reference).expect("rows fit");
    sums
}

fn fill(sums: &mut Accumulator, arms: &[(&str, &[f32])], reference: &[f32]) -> Result<()> {
    for (arm, rows) in arms {
        sums.update(arm, Rows::new(WIDTH, rows), &BTreeMap::new())?;
    }
    sums.update_reference(Rows::new(WIDTH, reference))
}

fn plan(survey: &Accumulator, objective: &str, settings: &PlanSettings) -> Result<Planned> {
    survey.plan(&Objective::parse(objective).expect("an objective"), settings)
}

fn features(count: usize) -> PlanSettings {
    PlanSettings::default().method(Method::Features).features(count)
}

/// One value of 1e20 among 2,000 rows changes neither the frequencies' centre nor the quanta of moments for the others.
#[test]
fn an_outlier_does_not_hide_the_other_rows() {
    let (mut a, b) = (normal(1000, 1, 0.5), normal(1000, 2, -0.5));
    let reference = normal(1000, 3, 0.0);
    let settings = SurveySettings::default().sample(1000);
    let weights = |a: &[f32]| {
        let arms = [("a", a), ("b", &b[..])];
        let survey = survey(&arms, &reference, &settings);
        let planned = plan(&survey, "mmd(bandwidth=2)", &features(2048)).expect("a plan");
        let mut sums = Accumulator::new(&planned.plan, None).expect("an accumulator");
        fill(&mut sums, &arms, &reference).expect("rows fit");
        sums.solve().expect("a mixture").weights()
    };
    let without = weights(&a);
    a[17] = 1e20;
    let with = weights(&a);
    assert!((without[0] - 0.5).abs() < 0.05 && (with[0] - without[0]).abs() < 0.01, "{without:?} {with:?}");
    // Moments cannot have such a row.
    let arms = [("a", &a[..]), ("b", &b[..])];
    let survey = survey(&arms, &reference, &settings);
    let planned = plan(&survey, "fid", &features(2)).expect("a plan");
    let mut sums = Accumulator::new(&planned.plan, None).expect("an accumulator");
    let refusal = fill(&mut sums, &arms, &reference).expect_err("too far").to_string();
    assert!(refusal.contains("too far to be summed"), "{refusal}");
}

/// Copies are sampled together, which is said; if none of them is, the plan is refused with the way out.
#[test]
fn copies_are_told() {
    let few: Vec<f32> = (0..4000).flat_map(|row| [(row % 8) as f32; WIDTH]).collect();
    let other = normal(4000, 4, 0.0);
    let arms = [("few", &few[..]), ("other", &other[..])];
    let spread = survey(&arms, &other, &SurveySettings::default().sample(500));
    let planned = plan(&spread, "rke", &features(64)).expect("a plan");
    assert!(
        planned.warnings.len() == 1 && planned.warnings[0].contains("few: the 500 sampled rows"),
        "{:?}",
        planned.warnings
    );
    let expecting = SurveySettings::default().sample(2).expected_rows(4000);
    let refusal = plan(&survey(&arms, &other, &expecting), "rke", &features(64)).expect_err("no rows").to_string();
    assert!(refusal.contains("few") && refusal.contains("copies"), "{refusal}");
    let whole = survey(&arms, &other, &SurveySettings::default().sample(4000));
    assert!(plan(&whole, "rke", &PlanSettings::default()).expect("a plan").warnings.is_empty());
}

/// The pilot has the terms that are means over rows, since they move the optimum: what is stated beforehand is of the size of what is
/// found. With one arm at the optimum, the error is that of its distance to the next one.
#[test]
fn errors_of_features_are_foreseen_with_linear_terms() {
    // Arms of different spread: otherwise their losses differ by the noise of the rows alone, which is another one in a sample.
    let (a, b) = (normal(3000, 5, 0.0), normal(3000, 6, 1.0));
    let b: Vec<f32> = b.iter().map(|value| 1.5 * value).collect();
    let arms = [("a", &a[..]), ("b", &b[..])];
    for (objective, cost) in
        [("rke(bandwidth=2) + cost", 0.2), ("rke(bandwidth=2) + cost", 0.01), ("rke(bandwidth=2)", 0.0)]
    {
        let survey = survey(&arms, &a, &SurveySettings::default().sample(1000));
        let costs = BTreeMap::from([("a".to_string(), 0.0), ("b".to_string(), cost)]);
        let settings = PlanSettings::default().method(Method::Features).error(2e-3).costs(costs);
        let planned = plan(&survey, objective, &settings).expect("a plan");
        let mut sums = Accumulator::new(&planned.plan, None).expect("an accumulator");
        fill(&mut sums, &arms, &a).expect("rows fit");
        let found =
            sums.solve().expect("a mixture").approximation.and_then(|stated| stated.gain_error).expect("an error");
        let foreseen = planned.gain_error.expect("an error");
        assert!(
            foreseen > 0.0 && foreseen <= 2e-3 && found < 1.5 * foreseen && found > foreseen / 1.5,
            "{objective} {cost}: {foreseen} {found}"
        );
    }
}

/// A misspelled name in one task would be one more arm.
#[test]
fn arms_that_were_not_surveyed_are_refused() {
    let (a, b) = (normal(50, 9, 0.0), normal(60, 10, 1.0));
    let arms = [("flux", &a[..]), ("sdxl", &b[..])];
    let survey = survey(&arms, &b, &SurveySettings::default().sample(10));
    for (objective, method) in [("rke", Method::Features), ("rke", Method::Pairs)] {
        let planned = plan(&survey, objective, &PlanSettings::default().method(method)).expect("a plan");
        let mut sums = Accumulator::new(&planned.plan, None).expect("an accumulator");
        let refusal = fill(&mut sums, &[("fluxx", &a[..])], &b).expect_err("another arm").to_string();
        assert!(refusal.contains("fluxx") && refusal.contains("flux, sdxl"), "{refusal}");
    }
}

/// Balls of a sample of the reference are larger than those of all of it.
#[test]
fn precision_of_sampled_rows_needs_the_whole_reference() {
    let (a, b, reference) = (normal(300, 11, 0.0), normal(300, 12, 1.0), normal(400, 13, 0.0));
    let arms = [("a", &a[..]), ("b", &b[..])];
    let survey = survey(&arms, &reference, &SurveySettings::default().sample(50));
    let whole = modelmix::Features::new(WIDTH, reference.clone()).expect("rows");
    let settings = PlanSettings::default().method(Method::Sample).reference(whole.clone());
    let planned = plan(&survey, "rke(bandwidth=2) - precision", &settings).expect("a plan").plan;
    assert!(planned.needs_whole_reference());
    let bytes = survey.with_plan(&planned, Some(whole.clone())).expect("sampled rows").to_bytes();
    let refusal = Accumulator::from_bytes(&bytes, None).expect("sums").solve().expect_err("a sample").to_string();
    assert!(refusal.contains("whole reference"), "{refusal}");
    assert!(Accumulator::from_bytes(&bytes, Some(whole)).expect("sums").solve().is_ok());
    // Other objectives take nothing from rows that are given beside the sums.
    let planned = plan(&survey, "mmd(bandwidth=2)", &PlanSettings::default().method(Method::Sample)).expect("a plan");
    let sums = survey.with_plan(&planned.plan, None).expect("sampled rows");
    let other = modelmix::Features::new(WIDTH, b.clone()).expect("rows");
    let beside = Accumulator::from_bytes(&sums.to_bytes(), Some(other)).expect("sums");
    assert_eq!(beside.solve().expect("a mixture"), sums.solve().expect("a mixture"));
}

/// Bytes with another number in their header and the right checksum.
fn forged(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[8..16].try_into().expect("8 bytes")) as usize;
    let header = String::from_utf8(bytes[16..16 + length].to_vec()).expect("JSON");
    assert!(header.contains(from), "{header}");
    let header = header.replacen(from, to, 1);
    let mut forged = bytes[..8].to_vec();
    forged.extend((header.len() as u64).to_le_bytes());
    forged.extend(header.as_bytes());
    forged.extend(&bytes[16 + length..bytes.len() - 4]);
    forged.extend(crc32(&forged).to_le_bytes());
    forged
}

/// The checksum of zlib, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn forged_sizes_are_refused_before_memory_is_taken() {
    let (a, b) = (normal(50, 7, 0.0), normal(60, 8, 1.0));
    let arms = [("a", &a[..]), ("b", &b[..])];
    let survey = survey(&arms, &b, &SurveySettings::default().sample(10));
    let filled = |objective: &str, settings: &PlanSettings| {
        let mut sums =
            Accumulator::new(&plan(&survey, objective, settings).expect("a plan").plan, None).expect("empty");
        fill(&mut sums, &arms, &b).expect("rows fit");
        sums.to_bytes()
    };
    let waves = filled("mmd(bandwidth=2)", &features(32));
    let moments = filled("fid", &features(2));
    assert_eq!(forged(&waves, "\"count\":50", "\"count\":50"), waves, "nothing was changed");
    for (bytes, from, to) in [
        (&waves, "\"frequencies\":16", "\"frequencies\":500000000"),
        (&waves, "\"frequencies\":16", "\"frequencies\":4611686018427387904"),
        (&waves, "\"count\":50", "\"count\":18446744073709551615"),
        (&waves, "\"count\":50", "\"count\":3"),
        (&waves, "\"width\":4", "\"width\":4000000000"),
        (&waves, "\"sampled\":10", "\"sampled\":1000000000000"),
        (&waves, "\"frequencies\":16", "\"frequencies\":0"),
        (&waves, "\"cutoffs\":[", "\"cutoffs\":[1,"),
        (&waves, "\"values\":0", "\"values\":1"),
        (&waves, "\"name\":\"a\"", "\"name\":\"c\""),
        (&waves, "\"scores\":[]", "\"scores\":[\"reward\"]"),
        (&moments, "\"width\":4", "\"width\":1000000"),
    ] {
        assert!(Accumulator::from_bytes(&forged(bytes, from, to), None).is_err(), "{to}");
    }
}

/// Every machine draws the frequencies of a plan again. If its C library rounds otherwise, they are others, and sums of them are wrong:
/// a plan with another checksum stands for such a machine. Merging and solving need no frequencies but those of intervals.
#[test]
fn other_random_frequencies_are_refused() {
    let (a, b) = (normal(50, 14, 0.0), normal(60, 15, 1.0));
    let arms = [("a", &a[..]), ("b", &b[..])];
    let survey = survey(&arms, &b, &SurveySettings::default().sample(10));
    let planned = plan(&survey, "mmd(bandwidth=2)", &features(32)).expect("a plan").plan;
    let text = String::from_utf8(planned.to_bytes()).expect("JSON");
    let at = text.find("\"drawn\":").expect("a checksum") + 8;
    let other = format!("{}1{}", &text[..at], &text[at + text[at..].find(',').expect("more fields")..]);
    for (plan, is_fine) in [(text, true), (other, false)] {
        let plan = modelmix::accumulate::Plan::from_bytes(plan.as_bytes()).expect("a plan");
        let mut sums = Accumulator::new(&plan, None).expect("an accumulator");
        // Without frequencies: drawing them takes longer than to read and merge.
        sums.merge(&Accumulator::from_bytes(&sums.to_bytes(), None).expect("whole bytes")).expect("the same plan");
        match fill(&mut sums, &arms, &b) {
            Ok(()) => assert!(is_fine),
            Err(refusal) => {
                let refusal = refusal.to_string();
                assert!(
                    !is_fine && refusal.contains("random frequencies") && refusal.contains("C library"),
                    "{refusal}"
                );
                assert_eq!(sums.rows(), 0, "nothing was added");
            }
        }
    }
}

/// Sums of fewer or of more rows than the survey had are solved with a warning.
#[test]
fn other_numbers_of_rows_are_told() {
    let (a, b) = (normal(50, 16, 0.0), normal(60, 17, 1.0));
    let arms = [("a", &a[..]), ("b", &b[..])];
    let survey = survey(&arms, &b, &SurveySettings::default().sample(10));
    let planned = plan(&survey, "mmd(bandwidth=2)", &features(32)).expect("a plan").plan;
    let warnings = |parts: &[(&str, &[f32])]| {
        let mut sums = Accumulator::new(&planned, None).expect("an accumulator");
        fill(&mut sums, parts, &b).expect("rows fit");
        sums.solve().expect("a mixture").warnings
    };
    assert!(warnings(&arms).is_empty());
    let fewer = warnings(&[("a", &a[..40 * WIDTH]), arms[1]]);
    assert!(fewer.len() == 1 && fewer[0].contains("160 rows, fewer than the 170"), "{fewer:?}");
    let more = warnings(&[arms[0], arms[0], arms[1]]);
    assert!(more.len() == 1 && more[0].contains("220 rows, more than the 170"), "{more:?}");
}
