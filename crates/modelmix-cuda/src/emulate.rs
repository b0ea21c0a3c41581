//! The arithmetic of `prepare.cu` and of the fused kernels on the processor, compared with direct sums: centres, terms
//! and split are right, and precise enough, before any GPU sees them. What tensor cores cut off is not emulated.

use half::f16;
use modelmix::policy::Random;

use crate::modules::Form;

/// The nearest value of e4m3 (4 bits of exponent, 3 of mantissa, no infinities); larger ones become 448.
fn e4m3(value: f64) -> f64 {
    let size = value.abs();
    if size == 0.0 {
        return 0.0;
    }
    // The step between values: 2^-9 for subnormal ones, below 2^-6.
    let step = (size.log2().floor().max(-6.0) - 3.0).exp2();
    (size / step).round_ties_even().mul_add(step, 0.0).min(448.0).copysign(value)
}

/// A centred value as the kernels store it: hi, hi in 8 bits, and the rest.
struct Split {
    hi: f64,
    mid: f64,
    lo: f64,
}

fn split(form: Form, exact: f64) -> Split {
    let half = |value: f64| f64::from(f16::from_f32(value as f32).to_f32());
    let hi = half(exact);
    let rest = exact - hi;
    match form {
        Form::Halves => Split { hi, mid: hi, lo: half(rest) },
        Form::Mixed => Split { hi, mid: e4m3(hi / 64.0) * 64.0, lo: e4m3(rest * 64.0) / 64.0 },
    }
}

fn product(a: &[Split], b: &[Split]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.lo * b.mid + a.mid * b.lo + a.hi * b.hi).sum()
}

/// Rows in groups with their centres.
struct Data {
    rows: Vec<Vec<f64>>,
    group: Vec<usize>,
    centres: Vec<Vec<f64>>,
}

fn data(rows: usize, width: usize, apart: f64, groups: usize) -> Data {
    let mut random = Random::seeded(5);
    let group: Vec<usize> = (0..rows).map(|row| row % groups).collect();
    let sign = |group: usize, column: usize| if (group >> (column % 3)) & 1 == 1 { 1.0 } else { -1.0 };
    let rows: Vec<Vec<f64>> = group
        .iter()
        .map(|&group| (0..width).map(|k| f64::from((random.normal() + apart * sign(group, k)) as f32)).collect())
        .collect();
    let centre = |of: usize| -> Vec<f64> {
        let members: Vec<&Vec<f64>> =
            rows.iter().zip(&group).filter(|(_, group)| **group == of).map(|(row, _)| row).collect();
        let mean = |k: usize| members.iter().map(|row| row[k]).sum::<f64>() / members.len() as f64;
        (0..width).map(|k| f64::from(mean(k) as f32)).collect()
    };
    let centres = (0..groups).map(centre).collect();
    Data { rows, group, centres }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

impl Data {
    fn centred(&self, row: usize) -> Vec<f64> {
        self.rows[row].iter().zip(&self.centres[self.group[row]]).map(|(x, c)| x - c).collect()
    }

    /// ‖x−c_h‖² − ‖c_g−c_h‖²/2, for a row of group g against group h.
    fn distance_term(&self, row: usize, h: usize) -> f64 {
        let (g, h) = (&self.centres[self.group[row]], &self.centres[h]);
        squared(&self.rows[row], h) - 0.5 * squared(g, h)
    }

    /// x·c_h − c_g·c_h/2.
    fn product_term(&self, row: usize, h: usize) -> f64 {
        let (g, h) = (&self.centres[self.group[row]], &self.centres[h]);
        dot(&self.rows[row], h) - 0.5 * dot(g, h)
    }

    /// Row sums of a Gaussian kernel as the fused kernels compute them.
    fn fused_sums(&self, form: Form, rate: f64) -> Vec<f64> {
        let extent = (0..self.rows.len()).flat_map(|row| self.centred(row)).fold(0.0f64, |most, u| most.max(u.abs()));
        let unit = (16384.0 / extent).log2().floor().exp2();
        let factor = (2.0 * rate / (unit * unit)) as f32;
        let unit = (2.0 * rate / f64::from(factor)).sqrt();
        let split = |row: usize| self.centred(row).iter().map(|u| split(form, u * unit)).collect::<Vec<Split>>();
        let rows: Vec<Vec<Split>> = (0..self.rows.len()).map(split).collect();
        let sum = |i: usize| -> f64 {
            let value = |j: usize| {
                let (ti, tj) = (self.distance_term(i, self.group[j]), self.distance_term(j, self.group[i]));
                let (ti, tj) = ((-rate * ti) as f32, (-rate * tj) as f32);
                let exponent = factor.mul_add(product(&rows[i], &rows[j]) as f32, ti) + tj;
                f64::from(exponent).exp2()
            };
            (0..rows.len()).filter(|&j| j != i).map(value).sum()
        };
        (0..rows.len()).map(sum).collect()
    }

    fn worst(&self, form: Form, rate: f64) -> f64 {
        let truth = |i: usize| -> f64 {
            let others = (0..self.rows.len()).filter(|&j| j != i);
            others.map(|j| (-rate * squared(&self.rows[i], &self.rows[j])).exp2()).sum()
        };
        let found = self.fused_sums(form, rate);
        let error = |(i, found): (usize, f64)| (found / truth(i) - 1.0).abs();
        found.into_iter().enumerate().map(error).fold(0.0, f64::max)
    }
}

#[test]
fn values_of_e4m3() {
    for (value, expected) in [
        (0.0, 0.0),
        (1.0, 1.0),
        (1.0625, 1.0),
        (1.1875, 1.25),
        (-1.1875, -1.25),
        (17.0, 16.0),
        (19.0, 20.0),
        (447.0, 448.0),
        (1e9, 448.0),
        (0.001_953_125, 0.001_953_125),
        (0.000_9, 0.0),
        (0.001, 0.001_953_125),
        (0.015_625, 0.015_625),
    ] {
        assert_eq!(e4m3(value), expected, "{value}");
    }
}

#[test]
fn terms_of_groups_give_distances_and_products() {
    let data = data(30, 7, 20.0, 4);
    for i in 0..30 {
        for j in 0..30 {
            let (g, h) = (data.group[i], data.group[j]);
            let product = dot(&data.centred(i), &data.centred(j));
            let distance = data.distance_term(i, h) + data.distance_term(j, g) - 2.0 * product;
            let truth = squared(&data.rows[i], &data.rows[j]);
            assert!((distance - truth).abs() < 1e-9 * (1.0 + truth), "{i} {j}: {distance} {truth}");
            let found = data.product_term(i, h) + data.product_term(j, g) + product;
            let truth = dot(&data.rows[i], &data.rows[j]);
            assert!((found - truth).abs() < 1e-9 * (1.0 + truth.abs()), "{i} {j}: {found} {truth}");
        }
    }
}

#[test]
fn splits_are_precise() {
    let mut random = Random::seeded(3);
    for _ in 0..10_000 {
        let value = random.normal() * 4000.0;
        let halves = split(Form::Halves, value);
        assert!((halves.hi + halves.lo - value).abs() <= value.abs() * 2f64.powi(-21) + 2f64.powi(-24));
        let mixed = split(Form::Mixed, value);
        assert!((mixed.hi + mixed.lo - value).abs() <= value.abs() * 2f64.powi(-14) + 2f64.powi(-15));
        assert!((mixed.mid - mixed.hi).abs() <= mixed.hi.abs() * 2f64.powi(-4) + 0.07, "{value} {}", mixed.mid);
    }
}

#[test]
fn fused_sums_of_one_cluster_are_precise() {
    let (width, data) = (256, data(60, 256, 0.0, 1));
    let rate = std::f64::consts::LOG2_E / (4.0 * width as f64);
    let (halves, mixed) = (data.worst(Form::Halves, rate), data.worst(Form::Mixed, rate));
    assert!(halves < 6e-8 && mixed < 3e-7, "{halves:e} {mixed:e}");
}

/// Far clusters with their own centres are as precise as one cluster; with one centre they are not.
#[test]
fn centres_of_groups_restore_precision() {
    let (width, mut data) = (96, data(60, 96, 60.0, 3));
    let rate = std::f64::consts::LOG2_E / (4.0 * width as f64);
    let own = data.worst(Form::Mixed, rate);
    let mean = |k: usize| data.rows.iter().map(|row| row[k]).sum::<f64>() / data.rows.len() as f64;
    let mean: Vec<f64> = (0..width).map(|k| f64::from(mean(k) as f32)).collect();
    (data.centres, data.group) = (vec![mean], vec![0; 60]);
    let one = data.worst(Form::Mixed, rate);
    assert!(own < 5e-7 && one > 20.0 * own, "own centres {own:e}, one centre {one:e}");
}
