//! Analyses of recorded arms: losses and scores equal those of separate solves.

use modelmix::mixture::{Allowance, Analyses, Budget, Mixture, solve_with_analyses, solve_within};
use modelmix::policy::Random;
use modelmix::simplex::Bounds;
use modelmix::{Features, Inputs, Objective, RecordedArm, RecordedArms, Result};

use crate::simplex::normal;

/// Arms around their own centres.
pub(super) fn arms(count: usize, samples: usize, seed: u64) -> RecordedArms {
    let mut random = Random::seeded(seed);
    let arm = |index: usize, random: &mut Random| {
        let centre: Vec<f32> = (0..4).map(|_| 2.0 * normal(random) as f32).collect();
        let spread = 0.6 + 0.2 * index as f32;
        let rows =
            (0..samples).map(|_| centre.iter().map(|x| x + spread * normal(random) as f32).collect::<Vec<f32>>());
        RecordedArm::new(format!("arm{index}"), Features::from_rows(rows.collect::<Vec<_>>()).unwrap())
    };
    RecordedArms::new((0..count).map(|index| arm(index, &mut random)).collect()).unwrap()
}

/// Some samples of every arm, so that no arm alone is the best.
pub(super) fn reference(arms: &RecordedArms) -> Features {
    Features::from_rows(arms.iter().flat_map(|arm| (0..15).map(|row| arm.features.row(row).to_vec()))).unwrap()
}

fn analysed(arms: &RecordedArms, objective: &str, analyses: &Analyses) -> Result<Mixture> {
    let loss = Objective::parse(objective)?.prepare(Inputs::new().arms(arms).reference(reference(arms)))?;
    solve_with_analyses(arms, &loss, &Bounds::simplex(arms.len()), analyses)
}

#[test]
fn the_best_few_are_separate_solves() {
    let arms = arms(5, 60, 31);
    for objective in ["rke(bandwidth=2)", "fid", "vendi(kernel=gaussian, bandwidth=2)"] {
        let best = analysed(&arms, objective, &Analyses::default().subsets(true)).unwrap();
        let subsets = best.worth.subsets.clone().unwrap();
        assert!(best.worth.cheapest.is_none());
        let last = subsets.last().unwrap();
        assert!(
            (last.loss - best.mixture.loss).abs() < 1e-9 && (last.gain_kept.unwrap() - 1.0).abs() < 1e-6,
            "{objective}"
        );
        assert_eq!((subsets[0].size, &subsets[0].arms), (1, &vec![best.best_arm().name.clone()]), "{objective}");
        assert!(subsets[0].gain_kept.unwrap().abs() < 1e-9, "{objective}");
        assert!(subsets.windows(2).all(|pair| pair[0].loss >= pair[1].loss - 1e-9), "{objective}");
        for subset in &subsets {
            assert_eq!(subset.arms.len(), subset.weights.len());
            assert!((subset.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            // Only those arms, from scratch.
            let kept = arms.iter().filter(|arm| subset.arms.contains(&arm.name)).cloned().collect();
            let kept = RecordedArms::new(kept).unwrap();
            let inputs = Inputs::new().arms(&kept).reference(reference(&arms));
            let loss = Objective::parse(objective).unwrap().prepare(inputs).unwrap();
            let alone = solve_within(&kept, &loss, &Bounds::simplex(kept.len())).unwrap();
            assert!(
                (alone.mixture.loss - subset.loss).abs() < 1e-8,
                "{objective}: {} {}",
                alone.mixture.loss,
                subset.loss
            );
            assert!((alone.mixture.terms[0].score - subset.score).abs() < 1e-6 * subset.score.abs());
        }
        assert_eq!(subsets.iter().all(|subset| subset.proved), objective.starts_with("rke"));
    }
}

#[test]
fn the_cheapest_is_within_and_cheaper() {
    let arms = arms(5, 60, 32);
    let names = arms.names();
    let fees = [30.0, 30.0, 0.0, 0.0, 0.0].into_iter().enumerate().map(|(arm, fee)| (format!("arm{arm}"), fee));
    let costs = Some(vec![0.1, 0.02, 0.05, 0.3, 0.01]);
    let budget = |within| Budget::by_arm(&names, fees.clone(), costs.clone(), Some(1000.0), within).unwrap();
    let mut last = f64::INFINITY;
    for share in [0.0, 0.05, 0.3, 1.0] {
        let analyses = Analyses::default().budget(budget(Allowance::Share(share)));
        let best = analysed(&arms, "rke(bandwidth=2)", &analyses).unwrap();
        let cheapest = best.worth.cheapest.clone().unwrap();
        assert!((cheapest.within - share * best.gain).abs() < 1e-15);
        assert!(cheapest.above_best <= cheapest.within + 1e-12);
        assert!((cheapest.total - cheapest.fee - cheapest.cost).abs() < 1e-12 * cheapest.total);
        assert!(cheapest.total <= cheapest.total_of_best + 1e-9 && cheapest.total <= last + 1e-9);
        assert!(cheapest.gap < 1e-6 * cheapest.total);
        if share == 0.0 {
            assert!((cheapest.total - cheapest.total_of_best).abs() < 1e-6 * cheapest.total);
        }
        last = cheapest.total;
    }
    // A loss limit that every mixture satisfies leaves the cheapest arm.
    let analyses = Analyses::default().budget(budget(Allowance::Loss(10.0)));
    let cheapest = analysed(&arms, "rke(bandwidth=2)", &analyses).unwrap().worth.cheapest.unwrap();
    assert_eq!((cheapest.arms, cheapest.total), (vec!["arm4".to_string()], 10.0));
}

#[test]
fn analyses_that_do_not_fit_are_refused() {
    let arms = arms(3, 20, 33);
    let names = arms.names();
    let says = |result: Result<Budget>, sentence: &str| assert_eq!(result.unwrap_err().to_string(), sentence);
    let within = Allowance::default();
    says(
        Budget::by_arm(&names, [("arm0".into(), -1.0), ("arm1".into(), 0.0), ("arm2".into(), 0.0)], None, None, within),
        "the fee of arm0 is -1, but it must be 0 or more",
    );
    says(
        Budget::by_arm(&names, [], Some(vec![1.0; 3]), None, within),
        "the cheapest mixture needs the number of samples bought per period, by which costs are multiplied; give samples",
    );
    says(Budget::by_arm(&names, [], Some(vec![1.0; 3]), Some(-2.0), within), "samples is -2, but it must be 0 or more");
    says(
        Budget::by_arm(&names, [("up".into(), 1.0)], None, None, within),
        "there is no arm up; the arms are arm0, arm1, arm2",
    );
    says(
        Budget::by_arm(&names, [("arm0".into(), 1.0)], None, None, within),
        "arm arm1 has no fee; give one for every arm, 0 if it has none: arm0, arm1, arm2",
    );
    let budget = Budget::by_arm(&names, names.iter().map(|name| (name.clone(), 1.0)), None, None, within).unwrap();
    let analyses = Analyses::default().budget(budget);
    assert_eq!(
        analysed(&arms, "fid", &analyses).unwrap_err().to_string(),
        "the cheapest mixture needs an objective of means over samples and pairs of samples, but fid is not one; use mmd, kid or rke"
    );
    for bad in ["", "five", "-5%", "nan", "inf%", "-0.1", "0.001", "5", "loss=-1", "gain=x", "loss=5%"] {
        assert!(bad.parse::<Allowance>().is_err(), "{bad}");
    }
    assert_eq!("5%".parse::<Allowance>().unwrap(), Allowance::Share(0.05));
    assert_eq!(" gain=0.05 ".parse::<Allowance>().unwrap(), Allowance::Share(0.05));
    assert_eq!(" loss=0.001 ".parse::<Allowance>().unwrap(), Allowance::Loss(0.001));
    assert_eq!(
        "0.001".parse::<Allowance>().unwrap_err().to_string(),
        "within is \"0.001\", but it must be a number with its meaning: 0.1% for that share of the gain, or loss=0.001 for a difference of the loss"
    );
}
