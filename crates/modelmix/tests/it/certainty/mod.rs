//! Intervals, p-values and bounds against repeated draws of arms whose optimum is known.

mod coverage;
mod stops;

use modelmix::internals::influence::Influences;
use modelmix::policy::Random;
use modelmix::{Quadratic, Statistics};

use crate::worlds::Program;

/// Places on a line with a Gaussian κ between them. An arm visits each with its own probability, and a price is added
/// that moves the optimum to any given point. K, f and the optimum are known exactly.
pub(crate) struct Places {
    kappa: Vec<Vec<f64>>,
    arms: Vec<Vec<f64>>,
    /// The distribution of the reference over places, and its number of rows; `None` for RKE.
    reference: Option<(Vec<f64>, usize)>,
    price: Vec<f64>,
}

impl Places {
    /// Arms with one hump each and a given `optimum`, which may be on the border. There, `slack` is how far the
    /// gradient of arms without weight is above that of the others.
    pub(crate) fn new(reference: Option<usize>, optimum: &[f64], slack: &[f64]) -> Self {
        Self::of_humps(reference, &(0..optimum.len()).collect::<Vec<_>>(), optimum, slack)
    }

    /// The same with humps by number: arms with the same number are identical.
    pub(crate) fn of_humps(reference: Option<usize>, humps: &[usize], optimum: &[f64], slack: &[f64]) -> Self {
        let (arms, count) = (optimum.len(), 12);
        let place = |at: usize| 4.0 * at as f64 / (count - 1) as f64;
        let kappa =
            (0..count).map(|x| (0..count).map(|y| (-(place(x) - place(y)).powi(2) / 0.5).exp()).collect()).collect();
        let hump = |arm: usize| {
            let middle = 4.0 * (arm as f64 + 0.5) / arms as f64;
            let wide = (0.5 + 0.25 * (arm % 3) as f64) * (3.0 / arms as f64).min(1.0);
            distribution(
                (0..count).map(|x| 0.02 + (-(place(x) - middle).powi(2) / (2.0 * wide * wide)).exp()).collect(),
            )
        };
        let even = distribution((0..count).map(|x| 1.0 + 0.1 * x as f64).collect());
        let mut world = Self {
            kappa,
            arms: humps.iter().map(|&number| hump(number)).collect(),
            reference: reference.map(|rows| (even, rows)),
            price: vec![0.0; arms],
        };
        let truth = world.truth();
        let gradient =
            |i: usize| 2.0 * (0..arms).map(|j| truth.quadratic[i][j] * optimum[j]).sum::<f64>() + truth.linear[i];
        world.price = (0..arms).map(|i| 1.0 - gradient(i) + slack[i]).collect();
        world
    }

    pub(crate) fn len(&self) -> usize {
        self.arms.len()
    }

    pub(crate) fn kappa(&self, x: usize, y: usize) -> f64 {
        self.kappa[x][y]
    }

    pub(crate) fn draw(&self, arm: usize, random: &mut Random) -> usize {
        random.pick(&self.arms[arm])
    }

    /// f of a place for an arm, with the reference equal to its distribution.
    pub(crate) fn linear(&self, arm: usize, x: usize) -> f64 {
        let cross = |(even, _): &(Vec<f64>, usize)| -2.0 * mean(even, &self.kappa[x]);
        self.price[arm] + self.reference.as_ref().map_or(0.0, cross)
    }

    pub(crate) fn truth(&self) -> Program {
        let pair = |i: &Vec<f64>, j: &Vec<f64>| (0..i.len()).map(|x| i[x] * mean(j, &self.kappa[x])).sum::<f64>();
        let linear = |i: usize| (0..self.kappa.len()).map(|x| self.arms[i][x] * self.linear(i, x)).sum::<f64>();
        Program {
            quadratic: self.arms.iter().map(|i| self.arms.iter().map(|j| pair(i, j)).collect()).collect(),
            linear: (0..self.len()).map(linear).collect(),
        }
    }

    /// Samples of every arm and of the reference, as sums: a sample's sum toward an arm is one over its places; and,
    /// per arm, its f̂ if one row were the whole reference.
    pub(crate) fn sample(&self, counts: &[usize], random: &mut Random) -> (Statistics, Vec<Vec<f64>>) {
        let drawn: Vec<Vec<usize>> = counts
            .iter()
            .enumerate()
            .map(|(arm, &count)| (0..count).map(|_| self.draw(arm, random)).collect())
            .collect();
        let tally = |points: &[usize]| {
            let mut tally = vec![0.0; self.kappa.len()];
            points.iter().for_each(|&point| tally[point] += 1.0);
            tally
        };
        let tallies: Vec<Vec<f64>> = drawn.iter().map(|points| tally(points)).collect();
        let toward_place: Vec<Vec<f64>> =
            tallies.iter().map(|tally| self.kappa.iter().map(|row| mean(tally, row)).collect()).collect();
        let reference: Vec<usize> = self
            .reference
            .iter()
            .flat_map(|(even, rows)| (0..*rows).map(|_| random.pick(even)).collect::<Vec<_>>())
            .collect();
        let rows = tally(&reference);
        let linear_of = |arm: usize, x: usize| match &self.reference {
            None => self.price[arm],
            Some((_, count)) => self.price[arm] - 2.0 * mean(&rows, &self.kappa[x]) / *count as f64,
        };
        let samples: Vec<(usize, usize)> =
            drawn.iter().enumerate().flat_map(|(arm, points)| points.iter().map(move |&x| (arm, x))).collect();
        let toward = (0..self.len())
            .map(|j| {
                let own = |arm: usize, x: usize| if arm == j { self.kappa[x][x] } else { 0.0 };
                samples.iter().map(|&(arm, x)| toward_place[j][x] - own(arm, x)).collect()
            })
            .collect();
        let statistics = Statistics::from_sums(
            samples.iter().map(|&(arm, _)| arm).collect(),
            samples.iter().map(|&(_, x)| self.kappa[x][x]).collect(),
            samples.iter().map(|&(arm, x)| linear_of(arm, x)).collect(),
            toward,
        )
        .unwrap();
        let by_row: Vec<Vec<f64>> = toward_place
            .iter()
            .zip(counts)
            .map(|(toward, &count)| reference.iter().map(|&y| -2.0 * toward[y] / count as f64).collect())
            .collect();
        (statistics, by_row)
    }
}

fn mean(weights: &[f64], values: &[f64]) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| weight * value).sum()
}

fn distribution(values: Vec<f64>) -> Vec<f64> {
    let sum: f64 = values.iter().sum();
    values.into_iter().map(|value| value / sum).collect()
}

/// The variances of an entry of the gradient, of a slope, of a difference of losses and of a curvature, from
/// influences.
fn variances(influences: &Influences, weights: &[f64]) -> [f64; 4] {
    let joint = influences.covariance_at(weights);
    let curvature = influences.curvature_variances(&[vec![0.5, 0.3, -0.8]])[0];
    [joint.at(1, 1), influences.slopes(0).variances[2], joint.at(3, 3), curvature]
}

/// The variance from influences matches that of estimates over repeated draws: of a slope, of a difference of losses,
/// and of a curvature, with a reference that is drawn too. 4,000 repeats estimate a variance to 2.2%; with 200 samples
/// per arm the estimate is a few percent too large. Without the reference's part it does not match.
#[test]
fn influences_give_the_variance_of_repeated_draws() {
    let world = Places::new(Some(150), &[0.3, 0.3, 0.4], &[0.0; 3]);
    let weights = [0.2, 0.5, 0.3];
    let of = |form: &Quadratic| {
        let alone = form.gradient(&[1.0, 0.0, 0.0]);
        let bent: f64 =
            (0..9).map(|at| [0.5, 0.3, -0.8][at / 3] * [0.5, 0.3, -0.8][at % 3] * form.quadratic()[at]).sum();
        [form.gradient(&weights)[1], alone[2] - alone[0], form.single(0) - form.value(&weights), bent]
    };
    let repeats = 4000;
    let mut random = Random::seeded(3);
    let (mut sums, mut squares, mut said, mut without) = ([0.0; 4], [0.0; 4], [0.0; 4], [0.0; 4]);
    for _ in 0..repeats {
        let (statistics, by_row) = world.sample(&[200, 150, 250], &mut random);
        let given = Influences::new(&statistics).unwrap();
        let part = variances(&given, &weights);
        let all = variances(&given.with_reference(&by_row).unwrap(), &weights);
        for (at, value) in of(&statistics.unbiased()).into_iter().enumerate() {
            sums[at] += value / f64::from(repeats);
            squares[at] += value * value / f64::from(repeats);
            said[at] += all[at] / f64::from(repeats);
            without[at] += part[at] / f64::from(repeats);
        }
    }
    for at in 0..4 {
        let variance = squares[at] - sums[at] * sums[at];
        assert!((0.93..1.2).contains(&(said[at] / variance)), "{at}: {} for {variance}", said[at]);
        // κ alone does not depend on the reference.
        assert!(at == 3 || without[at] < 0.8 * variance, "{at}: {} for {variance}", without[at]);
    }
}

/// The covariances equal those from influences that are written out per sample, with arms without weight, an arm whose
/// samples are all alike, and a reference.
#[test]
fn covariances_are_those_of_influences_written_out() {
    let world = Places::new(Some(40), &[0.3, 0.3, 0.4], &[0.0; 3]);
    let (statistics, by_row) = world.sample(&[9, 14, 6], &mut Random::seeded(4));
    let influences = Influences::new(&statistics).unwrap().with_reference(&by_row).unwrap();
    for weights in [[0.2, 0.5, 0.3], [0.6, 0.0, 0.4], [0.0, 1.0, 0.0]] {
        let expected = written_out(&statistics, &by_row, &weights);
        let joint = influences.covariance_at(&weights);
        let scale = (0..6).map(|at| expected[at][at]).fold(0.0, f64::max);
        for (i, row) in expected.iter().enumerate() {
            for (j, value) in row.iter().enumerate() {
                assert!(
                    (joint.at(i, j) - value).abs() < 1e-12 * scale,
                    "{weights:?} {i} {j}: {} {value}",
                    joint.at(i, j)
                );
            }
        }
        let gradient = influences.gradient_covariance(&weights);
        assert!((0..9).all(|at| (gradient[at] - expected[at / 3][at % 3]).abs() < 1e-12 * scale));
    }
    // Slopes from arm 1: the gradient there, minus its own entry.
    let alone = written_out(&statistics, &by_row, &[0.0, 1.0, 0.0]);
    let slopes = influences.slopes(1);
    for to in [0, 2] {
        let expected = alone[to][to] + alone[1][1] - 2.0 * alone[to][1];
        assert!((slopes.variances[to] / expected - 1.0).abs() < 1e-10, "{to}: {} {expected}", slopes.variances[to]);
    }
}

/// The covariance of the gradient and of the arms' losses minus the mixture's, from the covariance of (κ̄_a1, …, κ̄_am,
/// f_a) of each arm and a matrix of coefficients A and b for every quantity ⟨A, K⟩ + bᵀf.
fn written_out(statistics: &Statistics, by_row: &[Vec<f64>], weights: &[f64; 3]) -> Vec<Vec<f64>> {
    let (m, form, counts) = (3, statistics.unbiased(), statistics.counts());
    let unit = |i: usize| (0..m).map(|j| f64::from(u8::from(i == j))).collect::<Vec<f64>>();
    let mut quantities: Vec<(Vec<Vec<f64>>, Vec<f64>)> = Vec::new();
    for i in 0..m {
        let e = unit(i);
        let a = (0..m).map(|p| (0..m).map(|q| e[p] * weights[q] + weights[p] * e[q]).collect()).collect();
        quantities.push((a, e));
    }
    for i in 0..m {
        let e = unit(i);
        let a = (0..m).map(|p| (0..m).map(|q| e[p] * e[q] - weights[p] * weights[q]).collect()).collect();
        quantities.push((a, (0..m).map(|p| e[p] - weights[p]).collect()));
    }
    let value = |sample: usize, arm: usize, quantity: usize| {
        if quantity == m {
            return statistics.linear_terms()[sample] - form.linear()[arm];
        }
        let count = counts[quantity] - usize::from(quantity == arm);
        statistics.sums_toward(quantity)[sample] / count as f64 - form.at(arm, quantity)
    };
    let of_arm = |arm: usize| -> Vec<usize> {
        (0..statistics.len()).filter(|&sample| statistics.arm_of()[sample] == arm).collect()
    };
    let range = |quantity: usize| {
        let width = |arm: usize| {
            let values: Vec<f64> = of_arm(arm).into_iter().map(|sample| value(sample, arm, quantity)).collect();
            let (low, high) = values.iter().fold((0.0f64, 0.0f64), |(low, high), x| (low.min(*x), high.max(*x)));
            high - low
        };
        (0..m).map(width).fold(0.0, f64::max)
    };
    let mut covariance = vec![vec![0.0; 2 * m]; 2 * m];
    for arm in 0..m {
        let n = counts[arm] as f64;
        let mut own = vec![vec![0.0; m + 1]; m + 1];
        for sample in of_arm(arm) {
            for (p, row) in own.iter_mut().enumerate() {
                for (q, entry) in row.iter_mut().enumerate() {
                    *entry += value(sample, arm, p) * value(sample, arm, q) / (n * (n - 3.0));
                }
            }
        }
        for (p, row) in own.iter_mut().enumerate() {
            row[p] = row[p].max((range(p) / (n + 1.0)).powi(2));
        }
        let coefficients = |(a, b): &(Vec<Vec<f64>>, Vec<f64>)| -> Vec<f64> {
            a[arm].iter().map(|a| 2.0 * a).chain([b[arm]]).collect()
        };
        let rows: Vec<Vec<f64>> = quantities.iter().map(coefficients).collect();
        for (i, left) in rows.iter().enumerate() {
            for (j, right) in rows.iter().enumerate() {
                covariance[i][j] +=
                    (0..=m).map(|p| left[p] * (0..=m).map(|q| own[p][q] * right[q]).sum::<f64>()).sum::<f64>();
            }
        }
    }
    let count = by_row[0].len() as f64;
    let centred: Vec<Vec<f64>> =
        by_row.iter().map(|row| row.iter().map(|value| value - row.iter().sum::<f64>() / count).collect()).collect();
    for y in 0..by_row[0].len() {
        let moved = |(_, b): &(Vec<Vec<f64>>, Vec<f64>)| b.iter().zip(&centred).map(|(b, row)| b * row[y]).sum::<f64>();
        let moved: Vec<f64> = quantities.iter().map(moved).collect();
        for (i, left) in moved.iter().enumerate() {
            for (j, right) in moved.iter().enumerate() {
                covariance[i][j] += left * right / (count * (count - 3.0));
            }
        }
    }
    covariance
}
