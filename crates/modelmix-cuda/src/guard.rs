//! The check of fused sums: sampled rows are recomputed from differences and compared.
//!
//! Products of tensor cores are cut off instead of rounded, and small parts have few bits. What this does to a sum
//! depends on the data: nothing for centred rows of one cluster, digits for far clusters with one centre. So it is
//! measured. Half of the sampled rows are spread over all rows; the others are, of each stretch of rows, those with the
//! largest terms: far from their centre, so their products are largest. If only such rows deviate, the farthest rows are
//! computed in double precision and the others are checked again. Sums of sampled rows take about a twentieth of the time of all.

/// The number of sampled rows: one tile of the check.
pub(crate) const SAMPLES: usize = 64;
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

/// Rows to check, at most `most` (an even number): from each of `most` / 2 stripes of consecutive rows, the first and the
/// one with the largest `|term|`, in order.
pub(crate) fn sample(terms: &[f32], most: usize) -> Vec<usize> {
    let (rows, stripes) = (terms.len(), most / 2);
    if rows <= most {
        return (0..rows).collect();
    }
    let mut chosen = Vec::with_capacity(most);
    for stripe in 0..stripes {
        let (first, end) = (rows * stripe / stripes, rows * (stripe + 1) / stripes);
        // Bits of absolute values are ordered as these, and those that are not numbers come last.
        let largest = (first + 1..end).max_by_key(|&row| terms[row].abs().to_bits());
        chosen.push(first);
        chosen.extend(largest);
    }
    chosen
}

/// Whether a row of [`sample`], by its place there, is one of those that are spread over all rows.
pub(crate) fn is_spread(place: usize, sampled: usize, most: usize) -> bool {
    sampled < most || place.is_multiple_of(2)
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
        let rows = sample(&terms, 64);
        assert_eq!(rows.len(), 64);
        assert!(rows.is_sorted_by(|a, b| a < b));
        assert!(rows.contains(&1234) && rows.contains(&4321) && rows.contains(&0));
        assert_eq!(sample(&terms[..10], 64), (0..10).collect::<Vec<_>>());
        assert!(sample(&[], 64).is_empty());
        assert_eq!(sample(&[f32::NAN; 100], 64).len(), 64);
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
        // The sampled rows that are spread are the first of stretches.
        let rows = sample(&terms, 64);
        assert!(
            (0..64)
                .all(|place| is_spread(place, 64, 64) == (rows[place].is_multiple_of(100) && place.is_multiple_of(2)))
        );
        assert!(is_spread(3, 10, 64));
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
