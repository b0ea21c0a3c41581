//! The error of sums of integer products, estimated from a few rows whose sums are known in single precision as well.
//!
//! Rounding acts as if it were random: it changes r·y by about ‖r‖‖y‖/√d, where r is what rounding took from x. That gives
//! an error ε of a single pair, known for every row. How much of it averages out in a sum depends on how alike the rows are
//! that count in it, which no norm tells; so it is measured. κ is the ratio of the error of a sum to ε, for rows of every
//! stratum of norms: rows of one group of an arm have similar norms, and a group far away has the largest.

use std::ops::Range;

/// The largest error at which integers are used, for entries of K and for sums of rows.
const MAX_ENTRY_ERROR: f64 = 3e-7;
const MAX_ROW_ERROR: f64 = 1e-5;
/// The number of rows of a set of which one is summed twice, and the minimum and maximum per set.
const ROWS_PER_PROBE: usize = 1000;
const MIN_PROBES: usize = 5;
const MAX_PROBES: usize = 8;
/// The error that the exponential and terms in single precision leave in any entry.
const ENTRY_FLOOR: f64 = 2e-8;
/// Sums below this have no relative error.
const NEGLIGIBLE: f64 = 1e-30;

/// What is expected of the worst sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Estimate {
    /// For entries of K.
    pub(in super::super) entry: f64,
    /// For the sum of a row over a set.
    pub(in super::super) row: f64,
}

impl Estimate {
    /// Whether sums with such errors may be used.
    pub(in super::super) fn is_small(&self) -> bool {
        self.entry <= MAX_ENTRY_ERROR && self.row <= MAX_ROW_ERROR
    }
}

/// Whether the sum of a row errs by no more than sums from integers may.
pub(in super::super) fn is_exact_enough(found: f64, exact: f64) -> bool {
    (found - exact).abs() <= MAX_ROW_ERROR * exact.max(NEGLIGIBLE)
}

/// A row that is summed twice, for a stratum of the rows of its set.
struct Probe {
    row: usize,
    /// ε of the row.
    error: f64,
    /// ε of all rows of the stratum, the largest first.
    errors: Vec<f64>,
}

struct SetProbes {
    probes: Vec<Probe>,
    /// The root mean square of ε over all rows.
    typical_error: f64,
    rows: usize,
}

/// The rows to be summed twice, of every set.
pub(in super::super) struct Probes(Vec<SetProbes>);

impl Probes {
    /// From ε and the squared norm of every row of every set.
    pub(super) fn new(sets: Vec<(Vec<f64>, Vec<f64>)>) -> Self {
        Self(sets.into_iter().map(|(errors, norms)| SetProbes::new(&errors, &norms)).collect())
    }

    /// Whether sums would be refused even if the errors of all pairs were independent.
    pub(in super::super) fn are_hopeless(&self) -> bool {
        self.0.iter().any(|set| set.typical_error / (set.rows as f64).sqrt() > MAX_ROW_ERROR)
    }

    /// The rows of a set that are summed twice, in ascending order.
    pub(in super::super) fn rows(&self, set: usize) -> Vec<usize> {
        self.0[set].probes.iter().map(|probe| probe.row).collect()
    }

    /// The errors to expect, from sums found and exact of the probes of every set over every set: `[set][other][probe]`.
    pub(in super::super) fn estimate(&self, found: &[Vec<Vec<f64>>], exact: &[Vec<Vec<f64>>]) -> Estimate {
        let sets = self.0.len();
        if found.iter().chain(exact).flatten().flatten().any(|sum| !sum.is_finite()) {
            return Estimate { entry: f64::INFINITY, row: f64::INFINITY };
        }
        let relative = |set: usize, probe: usize, other: usize| {
            let (found, exact) = (found[set][other][probe], exact[set][other][probe]);
            (exact > NEGLIGIBLE).then(|| found / exact - 1.0)
        };
        let ratios = |set: usize, probe: usize| -> Vec<f64> {
            let error = self.0[set].probes[probe].error.max(f64::MIN_POSITIVE);
            (0..sets).filter_map(|other| Some(relative(set, probe, other)? / error)).collect()
        };
        let of_set =
            |set: usize| -> Vec<f64> { (0..self.0[set].probes.len()).flat_map(|probe| ratios(set, probe)).collect() };
        let all: Vec<f64> = (0..sets).flat_map(of_set).collect();
        let pairs = (sets * (sets + 1) / 2) as f64;
        let mut worst = Estimate { entry: ENTRY_FLOOR, row: 0.0 };
        for (set, SetProbes { probes, typical_error, rows }) in self.0.iter().enumerate() {
            let of_set = beyond_chance(&of_set(set), root_mean_square(all.iter().copied()));
            for (index, probe) in probes.iter().enumerate() {
                let ratio = beyond_chance(&ratios(set, index), of_set);
                worst.row = worst.row.max(ratio * probe.largest_deviation(sets));
            }
            let independent = of_set * typical_error * (2.0 / *rows as f64).sqrt() * largest_of(pairs);
            let errors = (0..probes.len()).flat_map(|probe| (0..sets).map(move |other| (probe, other)));
            let errors: Vec<f64> = errors.filter_map(|(probe, other)| relative(set, probe, other)).collect();
            worst.entry = worst.entry.max(independent).max(common(&errors));
        }
        worst
    }
}

impl Probe {
    /// The largest of ε times a normal deviation, over the rows of the stratum and all sets.
    fn largest_deviation(&self, sets: usize) -> f64 {
        let deviation = |(rank, error): (usize, &f64)| error * largest_of(((rank + 1) * sets) as f64);
        self.errors.iter().enumerate().map(deviation).fold(0.0, f64::max)
    }
}

impl SetProbes {
    fn new(errors: &[f64], norms: &[f64]) -> Self {
        let count = (norms.len() / ROWS_PER_PROBE).clamp(MIN_PROBES, MAX_PROBES);
        let mut order: Vec<usize> = (0..norms.len()).collect();
        order.sort_by(|&a, &b| norms[a].total_cmp(&norms[b]));
        let probes = strata(norms.len(), count).into_iter().map(|stratum| {
            // The middle of the stratum by norms stands for it.
            let rows = &order[stratum];
            let row = rows[rows.len() / 2];
            let mut all: Vec<f64> = rows.iter().map(|&row| errors[row]).collect();
            all.sort_unstable_by(|a, b| b.total_cmp(a));
            Probe { row, error: errors[row], errors: all }
        });
        let mut probes: Vec<Probe> = probes.collect();
        probes.sort_by_key(|probe| probe.row);
        Self { probes, typical_error: root_mean_square(errors.iter().copied()), rows: norms.len() }
    }
}

/// Ranks in strata: the lower half, half of the rest, and so on. The last two have the same size.
fn strata(rows: usize, count: usize) -> Vec<Range<usize>> {
    let mut strata = Vec::new();
    let mut start = 0;
    while start < rows {
        let rest = rows - start;
        let size = if strata.len() + 1 == count { rest } else { rest.div_ceil(2) };
        strata.push(start..start + size);
        start += size;
    }
    strata
}

fn root_mean_square(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value * value, count + 1));
    if count == 0 { 0.0 } else { (sum / f64::from(count)).sqrt() }
}

/// The root mean square of some ratios, if it exceeds the general one by more than chance explains; otherwise the general one.
fn beyond_chance(ratios: &[f64], general: f64) -> f64 {
    let own = root_mean_square(ratios.iter().copied());
    let noise = 2.0 / (2.0 * ratios.len() as f64).sqrt();
    if own > general * (1.0 + noise) { own } else { general }
}

/// The expected largest of this many normal deviations, regardless of sign.
fn largest_of(count: f64) -> f64 {
    let count = 2.0 * count.max(1.0);
    let bound = (2.0 * count.ln()).sqrt();
    bound - (count.ln().ln().max(0.0) + (4.0 * std::f64::consts::PI).ln()) / (2.0 * bound) + 0.577 / bound
}

/// The error that all sums have in common, as far as it is beyond chance.
fn common(errors: &[f64]) -> f64 {
    let count = errors.len() as f64;
    if count < 2.0 {
        return 0.0;
    }
    let mean = errors.iter().sum::<f64>() / count;
    let variance = errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean.abs() - 3.0 * (variance / count).sqrt()).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::{Probes, is_exact_enough, largest_of, strata};
    use crate::random::Random;

    #[test]
    fn strata_cover_all_rows_and_the_largest_norms_closely() {
        for rows in [200, 1000, 10_001] {
            let strata = strata(rows, 5);
            assert_eq!(strata.iter().map(ExactSizeIterator::len).sum::<usize>(), rows);
            assert!(strata.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(strata[4].len() <= rows / 16 + 1);
        }
    }

    #[test]
    fn the_largest_deviation_is_that_of_normal_draws() {
        let mut random = Random::seeded(7);
        for count in [5, 100, 1000] {
            let mut largest = || (0..count).map(|_| random.normal().abs()).fold(0.0, f64::max);
            let mean = (0..400).map(|_| largest()).sum::<f64>() / 400.0;
            assert!((largest_of(f64::from(count)) / mean - 1.0).abs() < 0.06, "{count}: {mean}");
        }
    }

    /// Sets of 1000 rows with ε = 1e-4, whose sums err by ε times a ratio times a normal deviation.
    fn estimated(ratio: impl Fn(usize, usize) -> f64) -> (Probes, super::Estimate) {
        let norms: Vec<f64> = (0..1000).map(f64::from).collect();
        let probes = Probes::new(vec![(vec![1e-4; 1000], norms); 3]);
        let mut random = Random::seeded(1);
        let exact = vec![vec![vec![50.0; 5]; 3]; 3];
        let mut found = exact.clone();
        for (set, found) in found.iter_mut().enumerate() {
            for (probe, row) in probes.rows(set).into_iter().enumerate() {
                found.iter_mut().for_each(|sums| sums[probe] *= 1.0 + 1e-4 * ratio(set, row) * random.normal());
            }
        }
        let estimate = probes.estimate(&found, &exact);
        (probes, estimate)
    }

    #[test]
    fn errors_that_average_out_are_small() {
        let (_, estimate) = estimated(|_, _| 0.02);
        // The largest of 3,000 deviations, in each of three sets.
        assert!((5e-6..1.2e-5).contains(&estimate.row), "{estimate:?}");
        assert!(estimate.entry < 3e-7, "{estimate:?}");
    }

    /// The rows with the largest norms of one set are alike, and their errors do not average out.
    #[test]
    fn a_group_with_large_norms_is_seen() {
        let (_, estimate) = estimated(|set, row| if set == 1 && row >= 950 { 1.0 } else { 0.02 });
        assert!(estimate.row > 1e-4 && !estimate.is_small(), "{estimate:?}");
    }

    #[test]
    fn a_common_error_is_seen_in_entries() {
        let norms: Vec<f64> = (0..1000).map(f64::from).collect();
        let probes = Probes::new(vec![(vec![1e-4; 1000], norms); 3]);
        let (exact, found) = (vec![vec![vec![50.0; 5]; 3]; 3], vec![vec![vec![50.0 * (1.0 + 1e-6); 5]; 3]; 3]);
        let estimate = probes.estimate(&found, &exact);
        assert!((9e-7..1.1e-6).contains(&estimate.entry), "{estimate:?}");
    }

    #[test]
    fn sums_that_are_not_finite_are_refused() {
        let probes = Probes::new(vec![(vec![1e-4; 300], vec![1.0; 300]); 2]);
        let exact = vec![vec![vec![50.0; 5]; 2]; 2];
        for wrong in [f64::NAN, f64::INFINITY] {
            let mut found = exact.clone();
            found[1][0][2] = wrong;
            assert!(!probes.estimate(&found, &exact).is_small());
            assert!(!is_exact_enough(wrong, 50.0));
        }
        assert!(is_exact_enough(50.0, 50.0 + 1e-4) && !is_exact_enough(50.0, 50.0 + 1e-3));
    }

    #[test]
    fn sums_of_zero_have_no_error() {
        let probes = Probes::new(vec![(vec![1e-4; 300], vec![1.0; 300]); 2]);
        let sums = vec![vec![vec![0.0; 5]; 2]; 2];
        assert_eq!(probes.estimate(&sums, &sums).row, 0.0);
    }
}
