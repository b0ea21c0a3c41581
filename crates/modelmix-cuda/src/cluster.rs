//! k-means on a sample of rows, for centres that are closer to the rows of a set than its mean. The seed is fixed, so the
//! same rows have the same centres.

use modelmix::Rows;
use modelmix::policy::Random;

/// The maximum number of rows of a set that centres are found from.
pub(crate) const SAMPLE: usize = 256;
/// Steps of Lloyd's algorithm; centres need not have converged to be better than the mean.
const STEPS: usize = 8;
const SEED: u64 = 0x6d6f_6465_6c6d_6978;

/// At most `count` centres, in row-major order. The first rows are chosen far from each other (k-means++), and centres
/// without rows are left out.
pub(crate) fn centres(rows: Rows<'_>, count: usize) -> Vec<f32> {
    let mut random = Random::seeded(SEED);
    let mut centres: Vec<Vec<f64>> = Vec::new();
    let mut nearest = vec![f64::INFINITY; rows.len()];
    while centres.len() < count.min(rows.len()) {
        let next = if centres.is_empty() { random.below(rows.len()) } else { draw(&mut random, &nearest) };
        let centre: Vec<f64> = rows.row(next).iter().map(|&value| f64::from(value)).collect();
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
        let mut sums = vec![vec![0.0; rows.width()]; centres.len()];
        let mut counts = vec![0usize; centres.len()];
        for row in rows.iter() {
            let of = assigned(row, &centres);
            counts[of] += 1;
            sums[of].iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        centres = sums
            .into_iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .map(|(sum, count)| sum.into_iter().map(|sum| sum / count as f64).collect())
            .collect();
    }
    centres.concat().into_iter().map(|value| value as f32).collect()
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

fn assigned(row: &[f32], centres: &[Vec<f64>]) -> usize {
    let distances = centres.iter().map(|centre| squared_distance(row, centre));
    distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(index, _)| index)
}

fn squared_distance(row: &[f32], centre: &[f64]) -> f64 {
    row.iter().zip(centre).map(|(&value, centre)| (f64::from(value) - centre).powi(2)).sum()
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
