//! The check of fused sums: sampled rows are recomputed from differences and compared.
//!
//! Products of tensor cores are cut off instead of rounded, and small parts have few bits. What this does to a sum
//! depends on the data: nothing for centred rows of one cluster, digits for far clusters with one centre. So it is
//! measured. Half of the sampled rows are spread over all rows, at random, since rows may have a period; the others are, of
//! each stretch of rows, those with the largest terms: far from their centre, so their products are largest. If only such rows
//! deviate, the farthest rows are computed in double precision and the others are checked again. Sums of sampled rows take about
//! a twentieth of the time of all. If errors are more than half of what is accepted, and after every failed check, four times as
//! many rows are sampled: with 64 rows alone, 3 of 100 results on rows with heavy tails had a row whose error was above what is
//! promised, and none of 50 with more.

use std::ops::Range;

use modelmix::policy::Random;

/// The number of sampled rows: one tile of the check.
pub(crate) const SAMPLES: usize = 64;
/// The same of checks after one that found large errors: on hard data, errors differ more from row to row.
pub(crate) const MORE_SAMPLES: usize = 256;
/// The largest accepted error of a row's sum, relative to the magnitude that
/// [`Accuracy`](modelmix::compute::Accuracy) defines, or to [`PLAIN`] times the sum. Rows that were not sampled may have
/// twice this error.
const ROW_LIMIT: f64 = 5e-7;
/// The same for sums over all sampled rows of a set: errors that do not average out.
const ENTRY_LIMIT: f64 = 1.5e-7;
/// Sums of kernels of distances do not cancel, so they are to be accurate themselves if distances are many bandwidths,
/// where the magnitude is many times the sum.
const PLAIN: f64 = 2.0;
/// Not so rows that are far from all others: their sums are below this share of the mean.
const FAR: f64 = 1e-3;

/// One in this many rows is computed in double precision if only far rows deviate: about the time of the fused sums.
const FAR_SHARE: usize = 32;

/// Seed of the choice of rows: the same rows are checked in every call.
const SEED: u64 = 0x6775_6172_6473_2121;

/// Rows to check, counted over all sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// In order, each once.
    pub(crate) rows: Vec<usize>,
    /// For every row, whether it is one of those that are spread over all rows.
    pub(crate) is_spread: Vec<bool>,
}

/// Rows to check of sets of these sizes, at most `most` (an even number): from each of `most` / 2 stripes of consecutive rows, one at
/// random and the one with the largest `|term|` of the others. Every set has a stripe of its own, unless there are more sets
/// than stripes.
pub(crate) fn sample(terms: &[f32], sizes: &[usize], most: usize) -> Sample {
    let mut sample = Sample::default();
    if terms.len() <= most {
        sample.rows.extend(0..terms.len());
        sample.is_spread.resize(terms.len(), true);
        return sample;
    }
    let mut random = Random::seeded(SEED);
    for stripe in stripes(sizes, terms.len(), most / 2).into_iter().filter(|stripe| !stripe.is_empty()) {
        let spread = stripe.start + random.below(stripe.len());
        // Bits of absolute values are ordered as these, and those that are not numbers come last.
        let largest = stripe.filter(|&row| row != spread).max_by_key(|&row| terms[row].abs().to_bits());
        let mut chosen: Vec<usize> = [spread].into_iter().chain(largest).collect();
        chosen.sort_unstable();
        sample.is_spread.extend(chosen.iter().map(|&row| row == spread));
        sample.rows.extend(chosen);
    }
    sample
}

/// `count` stretches of consecutive rows that have all rows: in proportion to the sizes of sets, at least one for each; across
/// sets if there are more of these.
fn stripes(sizes: &[usize], rows: usize, count: usize) -> Vec<Range<usize>> {
    let part = |first: usize, size: usize, count: usize, index: usize| {
        first + size * index / count..first + size * (index + 1) / count
    };
    let sets = sizes.iter().filter(|&&size| size > 0).count();
    if sets > count {
        return (0..count).map(|index| part(0, rows, count, index)).collect();
    }
    let (mut stripes, mut first) = (Vec::with_capacity(count), 0);
    for &size in sizes.iter().filter(|&&size| size > 0) {
        let more = |end: usize| (count - sets) * end / rows;
        let own = 1 + more(first + size) - more(first);
        stripes.extend((0..own).map(|index| part(first, size, own, index)));
        first += size;
    }
    stripes
}

/// The rows with the largest `|term|`, in order: one in [`FAR_SHARE`], and all of few rows.
pub(crate) fn farthest(terms: &[f32]) -> Vec<usize> {
    let count = (terms.len() / FAR_SHARE).max(SAMPLES).min(terms.len());
    let mut rows: Vec<usize> = (0..terms.len()).collect();
    if count < rows.len() {
        rows.select_nth_unstable_by_key(count, |&row| std::cmp::Reverse(terms[row].abs().to_bits()));
        rows.truncate(count);
        rows.sort_unstable();
    }
    rows
}

/// One sampled sum: of a row over a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    /// Set of the row and set of the columns.
    pub(crate) entry: (usize, usize),
    pub(crate) found: f64,
    pub(crate) truth: f64,
    /// What errors are relative to.
    pub(crate) magnitude: f64,
}

/// The largest relative errors found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Errors {
    pub(crate) row: f64,
    pub(crate) entry: f64,
}

impl Errors {
    /// Errors of sums, whose terms may cancel for kernels of products.
    pub(crate) fn of(sampled: &[Sampled], may_cancel: bool) -> Self {
        /// Sums over the sampled rows of an entry.
        #[derive(Default)]
        struct Entry {
            error: f64,
            size: f64,
            truth: f64,
            rows: f64,
        }
        let mut entries: std::collections::BTreeMap<(usize, usize), Entry> = Default::default();
        for sampled in sampled {
            let entry = entries.entry(sampled.entry).or_default();
            entry.truth += sampled.truth;
            entry.rows += 1.0;
        }
        let mut errors = Self::default();
        for &Sampled { entry, found, truth, magnitude } in sampled {
            let entry = entries.entry(entry).or_default();
            let is_plain = !may_cancel && truth >= FAR * entry.truth / entry.rows;
            let size = if is_plain { magnitude.min(PLAIN * truth) } else { magnitude };
            errors.row = worse(errors.row, relative(found - truth, size));
            entry.error += found - truth;
            entry.size += size;
        }
        for Entry { error, size, .. } in entries.into_values() {
            errors.entry = worse(errors.entry, relative(error, size));
        }
        errors
    }

    /// [`Errors::are_accepted`] with half the limit for rows, for data with heavy tails: errors of rows that were not sampled
    /// differ more there.
    pub(crate) fn are_small(&self) -> bool {
        self.row <= 0.5 * ROW_LIMIT && self.entry <= ENTRY_LIMIT
    }

    pub(crate) fn are_accepted(&self) -> bool {
        self.row <= ROW_LIMIT && self.entry <= ENTRY_LIMIT
    }
}

/// |error| / size; no error is no error even of nothing, and what is not a number is the worst.
fn relative(error: f64, size: f64) -> f64 {
    // Sums of values that underflow in single precision.
    const UNDERFLOW: f64 = 1e-34;
    if error.abs() <= UNDERFLOW { 0.0 } else { error.abs() / size }
}

/// The larger; NaN is the largest.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_and_have_the_largest_terms() {
        let mut terms = vec![1.0f32; 5000];
        terms[1234] = -50.0;
        terms[4321] = 40.0;
        let found = sample(&terms, &[5000], 64);
        let rows = &found.rows;
        assert_eq!((rows.len(), found.is_spread.len()), (64, 64));
        assert!(rows.is_sorted_by(|a, b| a < b));
        for far in [1234, 4321] {
            assert!(!found.is_spread[rows.iter().position(|&row| row == far).expect("the row is sampled")]);
        }
        // One of every stretch is spread, and not always at the same place of it.
        let spread: Vec<usize> = (0..64).filter(|&at| found.is_spread[at]).map(|at| rows[at]).collect();
        assert!(spread.iter().enumerate().all(|(at, &row)| (5000 * at / 32..5000 * (at + 1) / 32).contains(&row)));
        for period in [2, 4, 5] {
            let rests: std::collections::BTreeSet<usize> = spread.iter().map(|row| row % period).collect();
            assert_eq!(rests.len(), period, "{spread:?}");
        }
        assert_eq!(sample(&terms, &[5000], 64).rows, *rows, "the same in every call");
        assert_eq!(sample(&terms[..10], &[10], 64).rows, (0..10).collect::<Vec<_>>());
        assert!(sample(&terms[..10], &[10], 64).is_spread.iter().all(|&is_spread| is_spread));
        assert!(sample(&[], &[], 64).rows.is_empty());
        assert_eq!(sample(&[f32::NAN; 100], &[100], 64).rows.len(), 64);
    }

    #[test]
    fn every_set_has_sampled_rows() {
        let many = vec![20; 500];
        for sizes in [vec![16, 9968, 16], vec![9000, 0, 1, 999], vec![64; 32], vec![16; 31], many.clone(), vec![1, 70]]
        {
            let total: usize = sizes.iter().sum();
            let all: Vec<usize> = stripes(&sizes, total, 32).into_iter().flatten().collect();
            assert_eq!(all, (0..total).collect::<Vec<_>>(), "stripes have every row once: {sizes:?}");
            let Sample { rows, is_spread } = sample(&vec![1.0; total], &sizes, 64);
            assert!(rows.len() <= 64 && rows.is_sorted_by(|a, b| a < b) && rows.len() == is_spread.len());
            let mut first = 0;
            for &size in sizes.iter().filter(|&&size| size > 0 && sizes != many) {
                let own = (0..rows.len()).filter(|&at| (first..first + size).contains(&rows[at]) && is_spread[at]);
                assert!(own.count() > 0, "a set of {size} in {sizes:?}");
                first += size;
            }
        }
    }

    #[test]
    fn farthest_rows_have_the_largest_terms() {
        let mut terms: Vec<f32> = (0..32 * 100).map(|row| (row % 7) as f32).collect();
        for row in 0..100 {
            terms[row * 31] = if row % 2 == 0 { -50.0 } else { f32::NAN };
        }
        assert_eq!(farthest(&terms), (0..100).map(|row| row * 31).collect::<Vec<_>>());
        assert_eq!(farthest(&terms[..1000]).len(), SAMPLES);
        assert_eq!(farthest(&terms[..10]), (0..10).collect::<Vec<_>>());
    }

    fn sampled(found: f64, truth: f64) -> Sampled {
        Sampled { entry: (0, 0), found, truth, magnitude: 3.0 * truth }
    }

    #[test]
    fn errors_are_the_largest() {
        let errors = Errors::of(&[sampled(10.0, 10.0), sampled(10.00002, 10.0), sampled(9.99998, 10.0)], false);
        assert!((errors.row - 1e-6).abs() < 1e-9 && errors.entry < 1e-12 && !errors.are_accepted());
        // The same error in every row is below the limit of rows, and above that of entries.
        let biased: Vec<Sampled> = (0..10).map(|_| sampled(10.000_006, 10.0)).collect();
        let errors = Errors::of(&biased, false);
        assert!(errors.row < ROW_LIMIT && errors.entry > ENTRY_LIMIT && !errors.are_accepted());
        assert!(Errors::of(&[sampled(1.0 + 1e-8, 1.0)], false).are_accepted());
        let between = Errors { row: 0.6 * ROW_LIMIT, entry: 0.0 };
        assert!(between.are_accepted() && !between.are_small());
        assert!(Errors::of(&[], false).are_accepted());
    }

    #[test]
    fn far_rows_are_judged_by_their_magnitude() {
        let far = Sampled { entry: (0, 0), found: 1.000_005e-9, truth: 1e-9, magnitude: 50e-9 };
        let near = [sampled(10.0, 10.0); 3];
        assert!(Errors::of(&[far, near[0], near[1], near[2]], false).are_accepted());
        // Alone it is not far from the others.
        assert!(!Errors::of(&[far], false).are_accepted());
        assert!(Errors::of(&[far], true).are_accepted());
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        for found in [f64::NAN, f64::INFINITY] {
            assert!(!Errors::of(&[sampled(1.0, 1.0), sampled(found, 1.0), sampled(1.0, 1.0)], false).are_accepted());
        }
        assert!(!Errors::of(&[sampled(1.0, 0.0)], false).are_accepted());
        assert!(Errors::of(&[sampled(0.0, 0.0)], false).are_accepted());
    }
}
