//! Running sums by hand, against plain double loops, and against each other: sample by sample, in one pass, in shards.

use modelmix::compute::{Cpu, Engine, Reference};
use modelmix::mixture::statistics;
use modelmix::policy::Random;
use modelmix::{Error, Features, Inputs, Loss, Objective, RecordedArm, RecordedArms, Statistics};
use proptest::prelude::*;

/// Samples with all their values of κ and f known.
#[derive(Clone, Debug)]
struct Samples {
    arms: usize,
    arm_of: Vec<usize>,
    /// κ in row-major order, symmetric.
    kappa: Vec<Vec<f64>>,
    linear: Vec<f64>,
}

impl Samples {
    /// Samples of a Gaussian kernel between random points, so that κ is positive semidefinite.
    fn random(arms: usize, arm_of: Vec<usize>, seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let points: Vec<[f64; 2]> = arm_of.iter().map(|&arm| [arm as f64 + random.unit(), random.unit()]).collect();
        let kernel = |x: &[f64; 2], y: &[f64; 2]| (-(x[0] - y[0]).powi(2) - (x[1] - y[1]).powi(2)).exp();
        Self {
            arms,
            kappa: points.iter().map(|x| points.iter().map(|y| kernel(x, y)).collect()).collect(),
            linear: arm_of.iter().map(|_| random.unit() - 0.5).collect(),
            arm_of,
        }
    }

    fn len(&self) -> usize {
        self.arm_of.len()
    }

    /// The samples of `range`, added one by one.
    fn added(&self, range: std::ops::Range<usize>) -> Statistics {
        let mut statistics = Statistics::new(self.arms);
        for sample in range.clone() {
            let kappa = &self.kappa[sample][range.start..sample];
            statistics.add(self.arm_of[sample], kappa, self.kappa[sample][sample], self.linear[sample]);
        }
        statistics
    }

    /// Σκ from every sample of `from` to the samples of each arm in `to`, without itself.
    fn toward(&self, from: std::ops::Range<usize>, to: std::ops::Range<usize>) -> Vec<Vec<f64>> {
        let sum = |a: usize, arm: usize| {
            to.clone().filter(|&b| b != a && self.arm_of[b] == arm).map(|b| self.kappa[a][b]).sum()
        };
        (0..self.arms).map(|arm| from.clone().map(|a| sum(a, arm)).collect()).collect()
    }

    /// Compares every estimate of the statistics with its definition.
    fn check(&self, statistics: &Statistics, tolerance: f64) {
        let close = |what: &str, found: f64, expected: f64| {
            // All sums are of order one, or over at most a few dozen terms of that order.
            assert!((found - expected).abs() <= tolerance * (1.0 + expected.abs()), "{what}: {found}, {expected}");
        };
        let of = |arm: usize| (0..self.len()).filter(move |&a| self.arm_of[a] == arm);
        let total = self.len() as f64;
        assert_eq!((statistics.arms(), statistics.len()), (self.arms, self.len()));
        assert_eq!(statistics.arm_of(), self.arm_of);
        for arm in 0..self.arms {
            let count = of(arm).count();
            assert_eq!(statistics.counts()[arm], count);
            close("n/t", statistics.proportions()[arm], count as f64 / total.max(1.0));
            let mean = of(arm).map(|a| self.linear[a]).sum::<f64>() / count.max(1) as f64;
            close("f", statistics.biased().linear()[arm], mean);
            close("f, unbiased", statistics.unbiased().linear()[arm], mean);
            for other in 0..self.arms {
                let pairs: Vec<f64> = of(arm).flat_map(|a| of(other).map(move |b| self.kappa[a][b])).collect();
                let own: f64 = if arm == other { of(arm).map(|a| self.kappa[a][a]).sum() } else { 0.0 };
                let apart = if arm == other { pairs.len() - count } else { pairs.len() };
                let sum: f64 = pairs.iter().sum();
                close("K", statistics.biased().at(arm, other), sum / pairs.len().max(1) as f64);
                close("K, unbiased", statistics.unbiased().at(arm, other), (sum - own) / apart.max(1) as f64);
            }
            for (found, expected) in
                statistics.sums_toward(arm).iter().zip(&self.toward(0..self.len(), 0..self.len())[arm])
            {
                close("sums toward an arm", *found, *expected);
            }
            let gradient = |a: usize| 2.0 * self.kappa[a].iter().sum::<f64>() / total + self.linear[a];
            let mean = of(arm).map(gradient).sum::<f64>() / count.max(1) as f64;
            let scatter: f64 = of(arm).map(|a| (gradient(a) - mean).powi(2)).sum();
            close("scatter of the gradient", statistics.gradient_scatter()[arm], scatter);
        }
        assert_eq!(statistics.linear_terms(), self.linear);
        match statistics.empirical_loss() {
            None => assert_eq!(self.len(), 0),
            Some(realised) => {
                let quadratic: f64 = self.kappa.iter().flatten().sum();
                close("realised", realised, quadratic / (total * total) + self.linear.iter().sum::<f64>() / total);
                // L(P̂) is the form at the proportions.
                close("realised", realised, statistics.biased().value(&statistics.proportions()));
            }
        }
    }

    /// Compares the estimates that do not depend on the order of arrival.
    fn check_forms(&self, found: &Statistics, tolerance: f64) {
        let expected = self.added(0..self.len());
        assert_eq!(found.counts(), expected.counts());
        let views = |statistics: &Statistics| {
            let mut views = [statistics.biased(), statistics.unbiased()]
                .iter()
                .flat_map(|form| [form.quadratic(), form.linear()].concat())
                .collect::<Vec<f64>>();
            views.extend(statistics.empirical_loss());
            views.extend(statistics.gradient_scatter());
            views
        };
        for (found, expected) in views(found).into_iter().zip(views(&expected)) {
            assert!((found - expected).abs() <= tolerance * (1.0 + expected.abs()), "{found}, {expected}");
        }
    }
}

fn by_hand() -> Samples {
    Samples {
        arms: 2,
        arm_of: vec![0, 0, 1],
        kappa: vec![vec![1.0, 0.5, 0.25], vec![0.5, 4.0, -0.5], vec![0.25, -0.5, 2.0]],
        linear: vec![1.0, 3.0, -2.0],
    }
}

#[test]
fn three_samples_by_hand() {
    let statistics = by_hand().added(0..3);
    assert_eq!(statistics.counts(), [2, 1]);
    // With self-pairs: (1 + 4 + 2·0.5)/4, (0.25 − 0.5)/2, 2.
    assert_eq!(statistics.biased().rows(), [[1.5, -0.125], [-0.125, 2.0]]);
    // Without: one pair in the first arm, none in the second.
    assert_eq!(statistics.unbiased().rows(), [[0.5, -0.125], [-0.125, 0.0]]);
    assert_eq!(statistics.biased().linear(), [2.0, -2.0]);
    assert_eq!(statistics.sums_toward(0), [0.5, 0.5, -0.25]);
    assert_eq!(statistics.sums_toward(1), [0.25, -0.5, 0.0]);
    // (7 + 2·0.25)/9 + 2/3
    assert!((statistics.empirical_loss().unwrap() - 1.5).abs() < 1e-15);
    // g = 2·1.75/3 + 1 and 2·4/3 + 3, which are 3.5 apart: 2·1.75²
    let scatter = statistics.gradient_scatter();
    assert!((scatter[0] - 6.125).abs() < 1e-14 && scatter[1] == 0.0, "{scatter:?}");
}

#[test]
fn nothing_held() {
    let none = Statistics::new(3);
    assert!(none.is_empty() && none.empirical_loss().is_none());
    assert_eq!((none.proportions(), none.gradient_scatter()), (vec![0.0; 3], vec![0.0; 3]));
    assert_eq!(none.biased(), none.unbiased());
    assert!(none.biased().quadratic().iter().all(|&value| value == 0.0));
    Samples::random(3, vec![], 1).check(&none, 0.0);
}

#[test]
#[should_panic(expected = "κ is needed against every sample held")]
fn a_sample_comes_with_all_its_pairs() {
    by_hand().added(0..3).add(0, &[1.0, 1.0], 1.0, 0.0);
}

/// Arms, κ(x, x), f and sums toward each arm.
type Sums = (Vec<usize>, Vec<f64>, Vec<f64>, Vec<Vec<f64>>);

#[test]
fn sums_that_do_not_fit_are_refused() {
    let three = || -> Sums { (vec![0, 0, 1], vec![1.0; 3], vec![0.0; 3], vec![vec![0.5; 3]; 2]) };
    let refused = |change: &dyn Fn(&mut Sums)| {
        let mut sums = three();
        change(&mut sums);
        let result = Statistics::from_sums(sums.0, sums.1, sums.2, sums.3);
        assert!(
            matches!(&result, Err(Error::Program { problem }) if problem.contains("do not match") || problem.contains("not finite")),
            "{result:?}"
        );
    };
    let (arm_of, own, linear, toward) = three();
    Statistics::from_sums(arm_of, own, linear, toward).unwrap();
    refused(&|sums| sums.0[1] = 2);
    refused(&|sums| sums.0.push(1));
    refused(&|sums| sums.1.truncate(2));
    refused(&|sums| sums.2.push(1.0));
    refused(&|sums| sums.3[1].truncate(2));
    refused(&|sums| sums.3.clear());
    refused(&|sums| sums.1[0] = f64::NAN);
    refused(&|sums| sums.2[2] = f64::INFINITY);
    refused(&|sums| sums.3[1][0] = f64::NEG_INFINITY);
}

#[test]
fn a_copy_from_json_is_the_same_to_the_bit() {
    let statistics = Samples::random(3, vec![0, 2, 1, 1, 0, 2, 2], 5).added(0..7);
    let json = serde_json::to_string(&statistics).unwrap();
    let back: Statistics = serde_json::from_str(&json).unwrap();
    assert_eq!(back, statistics);
    assert_eq!(serde_json::to_string(&back).unwrap(), json);
}

/// Up to 24 samples of up to 4 arms in any order; arms may have none.
fn samples() -> impl Strategy<Value = Samples> {
    (1..5usize).prop_flat_map(|arms| {
        (prop::collection::vec(0..arms, 0..24), any::<u64>())
            .prop_map(move |(arm_of, seed)| Samples::random(arms, arm_of, seed))
    })
}

proptest! {
    #![proptest_config(crate::config(100))]

    #[test]
    fn one_by_one_equals_a_double_loop(samples in samples()) {
        let added = samples.added(0..samples.len());
        samples.check(&added, 1e-12);
        let own = (0..samples.len()).map(|a| samples.kappa[a][a]).collect();
        let toward = samples.toward(0..samples.len(), 0..samples.len());
        let at_once = Statistics::from_sums(samples.arm_of.clone(), own, samples.linear.clone(), toward).unwrap();
        samples.check(&at_once, 1e-12);
    }
}

/// Recorded arms of different sizes, close enough for every kernel to matter.
fn recorded(sizes: &[usize], seed: u64) -> RecordedArms {
    let mut random = Random::seeded(seed);
    let arms = sizes.iter().enumerate().map(|(index, &size)| {
        let rows: Vec<[f32; 3]> = (0..size)
            .map(|_| [index as f32 + random.unit() as f32, random.unit() as f32, 0.5 + random.unit() as f32])
            .collect();
        let taste = (0..size).map(|_| random.unit()).collect();
        RecordedArm::new(format!("arm {index}"), Features::from_rows(rows).unwrap()).with_score("taste", taste)
    });
    RecordedArms::new(arms.collect()).unwrap()
}

const OBJECTIVES: [&str; 3] = [
    "rke(bandwidth=1)",
    "0.5*rke(bandwidth=0.7) + 2*mmd(kernel=laplacian, bandwidth=1.5) - 0.3*density(neighbours=2) + 0.1*cost - taste",
    "mmd(kernel=cosine) + 0.1*kid + precision(neighbours=1)",
];

fn prepared(text: &str, arms: usize) -> Loss {
    prepared_on(text, arms, Reference.into())
}

fn prepared_on(text: &str, arms: usize, engine: Engine) -> Loss {
    let reference = recorded(&[9], 77)[0].features.clone();
    let costs = (0..arms).map(|arm| arm as f64 - 0.5).collect();
    text.parse::<Objective>().unwrap().prepare(Inputs::new().reference(reference).costs(costs).engine(engine)).unwrap()
}

/// The samples of recorded arms, arm by arm, with κ and f from the loss pair by pair.
fn unrolled(arms: &RecordedArms, loss: &Loss) -> Samples {
    let mut samples = Samples { arms: arms.len(), arm_of: vec![], kappa: vec![], linear: vec![] };
    for (index, arm) in arms.iter().enumerate() {
        for row in 0..arm.features.len() {
            let row = arm.features.view().slice(row, row + 1);
            let (mut kappa, mut part) = (Vec::new(), Vec::new());
            for other in arms {
                loss.kappa_rows(row, &other.features, &mut part).unwrap();
                kappa.append(&mut part);
            }
            samples.kappa.push(kappa);
        }
        samples.arm_of.extend(vec![index; arm.features.len()]);
        samples.linear.extend(loss.linear(index, arm.features.view(), &arm.scores).unwrap());
    }
    samples
}

#[test]
fn an_offline_pass_equals_samples_one_by_one() {
    for text in OBJECTIVES {
        let arms = recorded(&[5, 2, 7], 3);
        let loss = prepared(text, 3);
        let samples = unrolled(&arms, &loss);
        samples.check(&statistics(&arms, &loss).unwrap(), 1e-12);
        samples.check(&samples.added(0..samples.len()), 1e-12);
        // κ(x, x) is that of the kernel.
        let rows: Vec<&[f32]> = arms.iter().flat_map(|arm| arm.features.view().iter()).collect();
        for (index, row) in rows.into_iter().enumerate() {
            assert!((loss.kappa_self(row) - samples.kappa[index][index]).abs() < 1e-12, "{text}");
        }
        // The default engine differs only by its single precision.
        let everyday = prepared_on(text, 3, Cpu::with_threads(2).into());
        samples.check_forms(&statistics(&arms, &everyday).unwrap(), 1e-6);
    }
}
