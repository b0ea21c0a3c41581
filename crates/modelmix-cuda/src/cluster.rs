//! k-means on a sample of rows, for centres that are closer to the rows of a set than its mean. The seed is fixed, so the
//! same rows have the same centres.

use modelmix::Rows;
use modelmix::policy::Random;

/// The maximum number of rows of a set that centres are found from.
pub(crate) const SAMPLE: usize = 256;
/// Steps of Lloyd's algorithm; centres need not have converged to be better than the mean.
const STEPS: usize = 8;
const SEED: u64 = 0x6d6f_6465_6c6d_6978;

/// Rows to find centres from, of those from `first` to `first + size`: one of every stretch of rows, not always the first,
/// since rows may have a period; and those of `also`.
pub(crate) fn sample(first: usize, size: usize, also: &[usize]) -> Vec<usize> {
    let mut random = Random::seeded(SEED);
    let step = size.div_ceil(SAMPLE).max(1);
    let stretches = (first..first + size).step_by(step);
    let mut rows: Vec<usize> = stretches.map(|start| start + random.below(step.min(first + size - start))).collect();
    rows.extend(also.iter().filter(|row| (first..first + size).contains(row)));
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// [`centres`] of several sets, on at most `threads` threads.
pub(crate) fn centres_of_all(sets: &[Rows<'_>], count: usize, threads: usize) -> Vec<Vec<f32>> {
    let share = sets.len().div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        let of = |sets: &[Rows<'_>]| sets.iter().map(|&rows| centres(rows, count)).collect::<Vec<_>>();
        let running: Vec<_> = sets.chunks(share).map(|sets| scope.spawn(move || of(sets))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<Vec<f32>>>| match thread.join() {
            Ok(centres) => centres,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        running.into_iter().flat_map(join).collect()
    })
}

/// At most `count` centres, in row-major order. The first rows are chosen far from each other (k-means++), and centres
/// without rows are left out.
fn centres(rows: Rows<'_>, count: usize) -> Vec<f32> {
    let mut random = Random::seeded(SEED);
    let mut centres: Vec<Vec<f32>> = Vec::new();
    let mut nearest = vec![f64::INFINITY; rows.len()];
    while centres.len() < count.min(rows.len()) {
        let next = if centres.is_empty() { random.below(rows.len()) } else { draw(&mut random, &nearest) };
        let centre = rows.row(next).to_vec();
        for (row, nearest) in rows.iter().zip(&mut nearest) {
            *nearest = nearest.min(squared_distance(row, &centre));
        }
        centres.push(centre);
        // All rows are centres, or equal to one.
        if nearest.iter().all(|&distance| distance == 0.0) {
            break;
        }
    }
    for _ in 0..STEPS {
        let mut sums = vec![vec![0.0f32; rows.width()]; centres.len()];
        let mut counts = vec![0usize; centres.len()];
        for row in rows.iter() {
            let of = assigned(row, &centres);
            counts[of] += 1;
            sums[of].iter_mut().zip(row).for_each(|(sum, &value)| *sum += value);
        }
        centres = sums
            .into_iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .map(|(sum, count)| sum.into_iter().map(|sum| sum / count as f32).collect())
            .collect();
    }
    centres.concat()
}

/// A row with a probability in proportion to its squared distance.
fn draw(random: &mut Random, distances: &[f64]) -> usize {
    let mut left = random.unit() * distances.iter().sum::<f64>();
    let mut last = 0;
    for (row, &distance) in distances.iter().enumerate().filter(|(_, distance)| **distance > 0.0) {
        last = row;
        left -= distance;
        if left < 0.0 {
            break;
        }
    }
    last
}

fn assigned(row: &[f32], centres: &[Vec<f32>]) -> usize {
    let distances = centres.iter().map(|centre| squared_distance(row, centre));
    distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(index, _)| index)
}

/// In single precision, in eight sums that vector instructions compute at once: any centre is valid.
fn squared_distance(row: &[f32], centre: &[f32]) -> f64 {
    const LANES: usize = 8;
    let (rows, row_rest) = row.as_chunks::<LANES>();
    let (centres, centre_rest) = centre.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for (row, centre) in rows.iter().zip(centres) {
        for lane in 0..LANES {
            let difference = row[lane] - centre[lane];
            sums[lane] += difference * difference;
        }
    }
    let rest: f32 = row_rest.iter().zip(centre_rest).map(|(a, b)| (a - b) * (a - b)).sum();
    f64::from(sums.iter().sum::<f32>() + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of `kinds` clusters 100 apart with a spread of 1.
    fn clusters(rows: usize, width: usize, kinds: usize) -> Vec<f32> {
        let mut random = Random::seeded(1);
        let mut values = Vec::new();
        for row in 0..rows {
            for column in 0..width {
                let centre = if column % kinds == row % kinds { 100.0 } else { 0.0 };
                values.push((centre + random.normal()) as f32);
            }
        }
        values
    }

    #[test]
    fn far_clusters_have_centres_of_their_own() {
        let (width, kinds) = (12, 4);
        let values = clusters(200, width, kinds);
        let rows = Rows::new(width, &values);
        let centres = centres(rows, 8);
        let centres: Vec<&[f32]> = centres.chunks(width).collect();
        assert!((kinds..=8).contains(&centres.len()));
        for row in rows.iter() {
            let squared = |centre: &&[f32]| -> f32 { row.iter().zip(*centre).map(|(a, b)| (a - b).powi(2)).sum() };
            let nearest = centres.iter().map(squared).fold(f32::INFINITY, f32::min);
            assert!(nearest < 5.0 * width as f32, "a row is {nearest} from every centre");
        }
    }

    #[test]
    fn samples_are_spread_and_have_no_period() {
        let rows = sample(1000, 3000, &[5, 1234, 3999, 4000]);
        assert!(rows.is_sorted_by(|a, b| a < b) && rows[0] >= 1000 && rows[rows.len() - 1] == 3999);
        assert!(rows.contains(&1234) && rows.len() >= 250);
        for rest in 0..3 {
            assert!(rows.iter().filter(|&row| row % 3 == rest).count() > 50);
        }
        assert_eq!(sample(7, 3, &[]), [7, 8, 9]);
        assert!(sample(7, 0, &[]).is_empty());
    }

    #[test]
    fn equal_rows_have_one_centre() {
        let values: Vec<f32> = (0..30).flat_map(|_| [1.0, 2.0]).collect();
        assert_eq!(centres(Rows::new(2, &values), 8), [1.0, 2.0]);
        let three: Vec<f32> = (0..30).flat_map(|row| [(row % 3) as f32, 5.0]).collect();
        assert_eq!(centres(Rows::new(2, &three), 8).len(), 6);
    }

    #[test]
    fn centres_are_the_same_in_every_call() {
        let values = clusters(100, 5, 3);
        assert_eq!(centres(Rows::new(5, &values), 6), centres(Rows::new(5, &values), 6));
    }
}
