//! Plans: drawing the planned numbers of samples from the shipped data gives intervals of the wanted width, and half as many
//! samples do not. The achieved widths come from `solve` on draws that the plan has not seen.

use std::path::PathBuf;

use modelmix::mixture::{Allocation, PlanSettings, plan};
use modelmix::policy::Random;
use modelmix::{Error, Features, Gap, Inputs, Loss, Objective, RecordedArm, RecordedArms, load, solve};

/// The largest relative deviation of the median width from the wanted one.
const TOLERANCE: f64 = 0.10;

fn fashion(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion").join(file)
}

/// Shipped data with an objective.
struct World {
    arms: RecordedArms,
    reference: Option<Features>,
    objective: Objective,
}

impl World {
    fn new(file: &str, objective: &str, has_reference: bool) -> Self {
        let arms = load::arms(&[fashion(file).to_str().unwrap().parse().unwrap()]).unwrap();
        let reference = has_reference.then(|| load::features(fashion("reference.npy"), None).unwrap());
        Self { arms, reference, objective: Objective::parse(objective).unwrap() }
    }

    fn loss(&self, arms: &RecordedArms) -> Loss {
        let mut inputs = Inputs::new().arms(arms);
        if let Some(reference) = &self.reference {
            inputs = inputs.reference(reference.clone());
        }
        self.objective.prepare(inputs).unwrap()
    }

    /// `count` rows of every arm, without replacement.
    fn draw(&self, counts: &[usize], random: &mut Random) -> RecordedArms {
        let draw = |(arm, &count): (&RecordedArm, &usize)| {
            assert!(count <= arm.features.len(), "{} has no {count} samples to draw", arm.name);
            let rows = random.sample(arm.features.len(), count);
            RecordedArm::new(arm.name.clone(), arm.features.select(rows).unwrap())
        };
        RecordedArms::new(self.arms.iter().zip(counts).map(draw).collect()).unwrap()
    }

    /// The half-widths of the gain and of the widest weight that `solve` gives for these numbers of samples.
    fn achieved(&self, counts: &[usize], random: &mut Random) -> [f64; 2] {
        let arms = self.draw(counts, random);
        let mixture = solve(&arms, &self.loss(&arms)).unwrap();
        let half = |[low, high]: [f64; 2]| (high - low) / 2.0;
        let weights = mixture.arms.iter().map(|arm| half(arm.interval.unwrap()));
        [half(mixture.gain_interval.unwrap()), weights.fold(0.0, f64::max)]
    }
}

fn counts(allocation: &Allocation) -> Vec<usize> {
    allocation.arms.iter().map(|arm| arm.samples).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A test case, with the number of pilots and of draws per plan. The wanted half-widths are multiples of those with all shipped
/// samples, so that the planned samples can be drawn.
struct Case {
    name: &'static str,
    world: World,
    pilot: usize,
    gain: Option<f64>,
    weight: Option<f64>,
    pilots: usize,
    draws: usize,
}

/// Median ratios of achieved to wanted half-width: with the equal allocation, with half of it, and with the optimal one.
fn ratios(case: &Case) -> [Option<f64>; 3] {
    let Case { world, pilot, pilots, draws, .. } = case;
    let mut random = Random::seeded(41);
    let all: Vec<usize> = world.arms.iter().map(|arm| arm.features.len()).collect();
    let [gain, weight] = world.achieved(&all, &mut random);
    let (gain, weight) = (case.gain.map(|times| times * gain), case.weight.map(|times| times * weight));
    let settings = PlanSettings::default().gain_error(gain.map(Gap::Loss)).weight_error(weight);
    let mut ratios = [Vec::new(), Vec::new(), Vec::new()];
    let mut totals = [Vec::new(), Vec::new()];
    for _ in 0..*pilots {
        let arms = world.draw(&vec![*pilot; world.arms.len()], &mut random);
        let planned = plan(&arms, &world.loss(&arms), &settings).unwrap();
        let equal = planned.equal.as_ref().unwrap();
        let halved: Vec<usize> = counts(equal).iter().map(|count| count / 2).collect();
        let fits = |counts: &Vec<usize>| counts.iter().zip(&all).all(|(count, all)| count <= all);
        let optimal = planned.optimal.as_ref().map(counts).filter(fits);
        totals[0].push(equal.samples as f64);
        totals[1].extend(planned.optimal.as_ref().map(|optimal| optimal.samples as f64));
        let ratio = |[achieved, widest]: [f64; 2]| {
            gain.map_or(0.0, |wanted| achieved / wanted).max(weight.map_or(0.0, |wanted| widest / wanted))
        };
        for (ratios, counts) in ratios.iter_mut().zip([Some(counts(equal)), Some(halved), optimal]) {
            for counts in counts.iter().cycle().take(if counts.is_some() { *draws } else { 0 }) {
                ratios.push(ratio(world.achieved(counts, &mut random)));
            }
        }
    }
    let found = ratios.map(|ratios| (!ratios.is_empty()).then(|| median(ratios)));
    let totals = totals.map(|totals| if totals.is_empty() { 0.0 } else { median(totals) });
    println!("{}, pilot {pilot}: achieved/wanted {found:.3?}, samples {totals:?}", case.name);
    found
}

fn cases(pilot: usize, pilots: usize, draws: usize) -> Vec<Case> {
    let categories = || World::new("categories.npz", "rke(bandwidth=20)", false);
    let case = |name, world, gain, weight| Case { name, world, pilot, gain, weight, pilots, draws };
    vec![
        case("categories, rke, gain", categories(), Some(1.6), None),
        case("categories, rke, weights", categories(), None, Some(1.6)),
        case("truncated, rke, gain", World::new("truncated.npz", "rke(bandwidth=20)", false), Some(1.6), None),
        case("specialists, mmd, gain", World::new("specialists.npz", "mmd(bandwidth=20)", true), Some(1.3), None),
    ]
}

/// The control: with half of the samples intervals are wider by √2, which exceeds the tolerance.
#[test]
fn planned_samples_give_the_wanted_width_on_shipped_data() {
    for case in cases(250, 5, 3) {
        let [equal, halved, optimal] = ratios(&case);
        assert!((equal.unwrap() - 1.0).abs() <= TOLERANCE, "equal: {equal:?}");
        assert!(halved.unwrap() > 1.0 + 2.0 * TOLERANCE, "half of the plan: {halved:?}");
        assert!(optimal.is_none_or(|ratio| (ratio - 1.0).abs() <= TOLERANCE), "optimal: {optimal:?}");
    }
}

/// The table of docs/plan.md.
#[test]
#[ignore = "takes minutes; run with --ignored --nocapture for the table of docs/plan.md"]
fn table_of_planned_widths() {
    for pilot in [100, 200, 400] {
        for case in cases(pilot, 20, 5) {
            ratios(&case);
        }
    }
}

fn blobs(centres: &[(f64, usize)], spread: f64, seed: u64) -> RecordedArms {
    let mut random = Random::seeded(seed);
    let mut arm = |(index, &(centre, samples)): (usize, &(f64, usize))| {
        let row = |_| [(centre + spread * random.normal()) as f32, random.normal() as f32];
        RecordedArm::new(format!("arm{index}"), Features::from_rows((0..samples).map(row)).unwrap())
    };
    RecordedArms::new(centres.iter().enumerate().map(&mut arm).collect()).unwrap()
}

fn rke(arms: &RecordedArms) -> Loss {
    Objective::rke().with_bandwidth(1.0).prepare(Inputs::new().arms(arms)).unwrap()
}

#[test]
fn widths_of_the_pilot_are_those_of_solve_and_a_wide_enough_goal_needs_no_more() {
    let arms = blobs(&[(0.0, 200), (3.0, 150)], 1.0, 1);
    let loss = rke(&arms);
    let mixture = solve(&arms, &loss).unwrap();
    let [low, high] = mixture.gain_interval.unwrap();
    let half = (high - low) / 2.0;
    let planned = plan(&arms, &loss, &PlanSettings::default().gain_error(Gap::Loss(1.5 * half))).unwrap();
    assert_eq!(planned.gain_interval, [low, high]);
    assert!((planned.pilot.gain - half).abs() < 1e-15);
    assert!(planned.is_enough && planned.sentence().starts_with("The pilot is enough"), "{}", planned.sentence());
    let equal = planned.equal.unwrap();
    assert!(equal.samples < 350 && equal.more == 0);
    let planned = plan(&arms, &loss, &PlanSettings::default().gain_error(Gap::Loss(half / 3.0))).unwrap();
    let equal = planned.equal.unwrap();
    assert!(!planned.is_enough && equal.expected.gain <= half / 3.0);
    // About 9 times the samples, and fewer, since with more samples the best single arm is known.
    assert!((6.5..10.5).contains(&(equal.samples as f64 / 350.0)), "{}", equal.samples);
    assert_eq!(equal.more, equal.samples - 350);
    assert!(equal.arms.iter().all(|arm| arm.more == arm.samples - arm.pilot));
}

#[test]
fn an_expensive_arm_gets_fewer_samples_by_the_root_of_its_cost() {
    let arms = blobs(&[(0.0, 300), (3.0, 300)], 1.0, 2);
    let loss = rke(&arms);
    let settings = |costs: [f64; 2]| PlanSettings::default().gain_error(Gap::Share(0.005)).costs(costs.to_vec());
    let shares = |costs| {
        let planned = plan(&arms, &loss, &settings(costs)).unwrap();
        let equal = planned.equal.unwrap();
        let best = planned.optimal.unwrap_or(equal.clone());
        let price: f64 = best.arms.iter().zip(costs).map(|(arm, cost)| arm.more as f64 * cost).sum();
        assert!((best.cost.unwrap() - price).abs() < 1e-6 && best.cost.unwrap() <= equal.cost.unwrap());
        best.arms[0].samples as f64 / best.arms[1].samples as f64
    };
    let (cheap, dear) = (shares([1.0, 100.0]), shares([100.0, 1.0]));
    // n ∝ σ/√c: exchanging the costs changes the ratio by 10 · 10.
    assert!((cheap / dear - 100.0).abs() < 5.0, "{cheap} {dear}");
}

#[test]
fn a_reference_of_few_rows_limits_what_can_be_reached() {
    let arms = blobs(&[(0.0, 200), (3.0, 200)], 1.0, 3);
    let mut random = Random::seeded(4);
    let row = |index: usize| [(3 * (index % 2)) as f32 + random.normal() as f32, 0.0];
    let reference = Features::from_rows((0..40).map(row)).unwrap();
    let loss =
        Objective::parse("mmd(bandwidth=1)").unwrap().prepare(Inputs::new().arms(&arms).reference(reference)).unwrap();
    let settings = PlanSettings::default().gain_error(Gap::Loss(1e-4));
    let planned = plan(&arms, &loss, &settings).unwrap();
    assert!(planned.equal.is_none() && planned.optimal.is_none() && planned.limit.gain > 1e-4);
    assert!(planned.notes.iter().any(|note| note.contains("40 rows")), "{:?}", planned.notes);
    assert!(planned.sentence().starts_with("Not even 100,000,000 samples per arm"), "{}", planned.sentence());
}

#[test]
fn small_pilots_and_missing_gains_are_said() {
    let settings = |text: &str| PlanSettings::default().gain_error(text.parse::<Gap>().unwrap());
    let arms = blobs(&[(0.0, 20), (3.0, 200)], 1.0, 5);
    let planned = plan(&arms, &rke(&arms), &settings("loss=0.01")).unwrap();
    assert!(planned.notes.iter().any(|note| note.contains("arm0 has 20")), "{:?}", planned.notes);
    // One arm covers everything that the other does, and more.
    let mut random = Random::seeded(6);
    let rows: Vec<[f32; 2]> = (0..200).map(|_| [6.0 * random.normal() as f32, random.normal() as f32]).collect();
    let narrow = blobs(&[(0.0, 200)], 0.3, 7);
    let wide = RecordedArm::new("wide", Features::from_rows(rows).unwrap());
    let arms = RecordedArms::new(vec![narrow[0].clone(), wide]).unwrap();
    let error = plan(&arms, &rke(&arms), &settings("5%")).unwrap_err().to_string();
    assert!(error.contains("single model may be as good") && error.contains("loss="), "{error}");
    let planned = plan(&arms, &rke(&arms), &settings("loss=0.01")).unwrap();
    assert!(planned.notes.iter().any(|note| note.contains("no significant gain")), "{:?}", planned.notes);
    for (settings, word) in [
        (PlanSettings::default(), "wanted width"),
        (settings("loss=1").weight_error(0.7), "below 0.5"),
        (settings("loss=1").costs(vec![1.0]), "one per arm"),
        (settings("loss=1").costs(vec![1.0, 0.0]), "positive"),
    ] {
        let error = plan(&arms, &rke(&arms), &settings).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    let one = RecordedArms::new(vec![arms[0].clone()]).unwrap();
    assert!(plan(&one, &rke(&one), &settings("5%")).unwrap_err().to_string().contains("two arms"));
    let vendi = Objective::parse("vendi").unwrap().prepare(Inputs::new().arms(&arms)).unwrap();
    assert!(matches!(plan(&arms, &vendi, &settings("5%")), Err(Error::Missing { .. })));
}
