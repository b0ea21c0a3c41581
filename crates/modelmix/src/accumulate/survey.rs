//! What the sampled rows of a survey say, for a plan: whether there are enough different ones, their priorities, and the middles and the
//! spread of columns.

use super::Accumulator;
use crate::error::{Error, Result};
use crate::numbers::count;

/// If fewer of the sampled rows differ, errors that treat them as independent are a tenth too small or more.
const LEAST_DISTINCT_SHARE: f64 = 0.8;

impl Accumulator {
    /// Checks that every arm has sampled rows.
    pub(super) fn check_sample(&self, names: &[String]) -> Result<()> {
        let reference = ("the reference", &self.reference);
        let parts = names.iter().map(|name| (name.as_str(), &self.arms[name])).chain([reference]);
        for (name, part) in parts.filter(|(_, part)| part.count > 0) {
            if part.sample.sorted().is_empty() {
                let rows = count(part.count as usize);
                let problem = format!(
                    "none of its {rows} rows is in the sample, because they are copies of few rows, which are sampled together, or because the sample is small; sample more rows, or hold all rows (rows)"
                );
                return Err(Error::Array { origin: name.into(), problem });
            }
        }
        Ok(())
    }

    /// Warnings about samples that say less than their size.
    pub(super) fn sample_warnings(&self, names: &[String]) -> Vec<String> {
        let mut warnings = Vec::new();
        let parts =
            names.iter().map(|name| (name.as_str(), &self.arms[name])).chain([("the reference", &self.reference)]);
        for (name, part) in parts {
            let sample = part.sample.sorted();
            let distinct = 1 + sample.windows(2).filter(|pair| pair[0].priority != pair[1].priority).count();
            if (distinct as f64) < LEAST_DISTINCT_SHARE * sample.len() as f64 {
                warnings.push(format!(
                    "{name}: the {} sampled rows have only {} different values; copies are sampled together, so stated errors and intervals are too small",
                    count(sample.len()),
                    count(distinct)
                ));
            }
        }
        warnings
    }

    /// Per arm, and then for the reference, the highest priority of a sampled row.
    pub(super) fn cutoffs(&self, names: &[String]) -> Vec<u64> {
        let sides = names.iter().map(|name| &self.arms[name]).chain([&self.reference]);
        sides.map(|side| side.sample.sorted().last().map_or(0, |row| row.priority)).collect()
    }

    /// The middle of each column of the sampled rows, of all arms and the reference, and the size of its deviations. Both are those of
    /// most rows: a few rows far from the others change neither.
    pub(super) fn sampled_moments(&self, width: usize) -> (Vec<f32>, Vec<f64>) {
        let samples: Vec<_> = self.parts().flat_map(|part| part.sample.sorted()).collect();
        let (mut middles, mut deviations) = (Vec::with_capacity(width), Vec::with_capacity(width));
        let mut values: Vec<f32> = Vec::with_capacity(samples.len());
        for column in 0..width {
            values.clear();
            values.extend(samples.iter().map(|sample| sample.row[column]));
            values.sort_unstable_by(f32::total_cmp);
            let quantile = |share: f64| f64::from(values[((values.len() - 1) as f64 * share).round() as usize]);
            middles.push(quantile(0.5) as f32);
            // Distances between quantiles of the normal distribution, in standard deviations.
            let spread = ((quantile(0.75) - quantile(0.25)) / 1.349).max((quantile(0.99) - quantile(0.01)) / 4.653);
            deviations.push(if spread > 0.0 { spread } else { deviation(&values) });
        }
        // A column that is constant in the sample has the scale of the others.
        let mut positive: Vec<f64> = deviations.iter().copied().filter(|&deviation| deviation > 0.0).collect();
        positive.sort_unstable_by(f64::total_cmp);
        let least = positive.get(positive.len() / 2).map_or(1.0, |typical| 1e-3 * typical);
        (middles, deviations.into_iter().map(|deviation| deviation.max(least)).collect())
    }
}

/// The standard deviation.
fn deviation(values: &[f32]) -> f64 {
    let n = values.len().max(1) as f64;
    let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / n;
    (values.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / n).sqrt()
}
