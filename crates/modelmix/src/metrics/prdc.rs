//! Precision, recall, density and coverage, from nearest-neighbour balls of the samples and of the reference.

use super::estimate::stratified_error;
use super::{ErrorBy, Estimate, Pool, check};
use crate::compute::{Balls, Engine, Neighbour, Set};
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::settings::setters;

/// The default k of the k-nearest-neighbour radii of precision, recall, density and coverage.
pub const DEFAULT_NEIGHBOURS: usize = 5;
/// The tolerance for sums of weighted counts, because weights are rounded.
const COUNT_TOLERANCE: f64 = 1e-9;

/// The number of rows whose distances to all others are stored at once.
const ROWS_AT_ONCE: usize = 64;

/// Definition of nearest-neighbour balls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Neighbourhoods {
    /// k of the k-nearest-neighbour radii; a sample is not its own neighbour.
    pub neighbours: usize,
    /// Whether a point exactly at the radius is inside. In `prdc` it is not, so identical sets may score less than 1;
    /// in torch-fidelity it is.
    pub closed: bool,
}

impl Default for Neighbourhoods {
    fn default() -> Self {
        Self { neighbours: DEFAULT_NEIGHBOURS, closed: false }
    }
}

setters! {
    Neighbourhoods {
        /// Sets k of the k-nearest-neighbour radii.
        neighbours: usize,
        /// Sets whether a point exactly at the radius is inside.
        closed: bool,
    }
}

impl Neighbourhoods {
    /// Checks that each of `rows` rows has a k-th neighbour.
    pub(super) fn check(&self, what: &str, rows: usize) -> Result<()> {
        let must = match self.neighbours {
            0 => "at least 1".into(),
            k if k < rows => return Ok(()),
            k => {
                let needed = k.saturating_add(1);
                format!("less than the number of {what}, {rows}; record at least {needed} or take fewer neighbours")
            }
        };
        Err(Error::setting("neighbours", self.neighbours, must))
    }

    /// The squared radius of an open ball that contains the same points as the ball of this squared radius.
    fn border(&self, squared_radius: f64) -> f64 {
        if self.closed { squared_radius.next_up() } else { squared_radius }
    }
}

/// Precision, recall, density and coverage, each with a standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prdc {
    /// The share of samples inside a ball of the reference.
    pub precision: Estimate,
    /// The share of the reference inside a ball of the samples.
    pub recall: Estimate,
    /// The mean number of reference balls that contain a sample, divided by k.
    pub density: Estimate,
    /// The share of reference balls that contain a sample.
    pub coverage: Estimate,
}

/// A reference prepared for [`prdc`]: its nearest-neighbour radii are computed once.
#[derive(Clone, Debug)]
pub struct ReferenceBalls<'a> {
    reference: &'a Features,
    squared_radii: Vec<f64>,
    neighbourhoods: Neighbourhoods,
}

impl<'a> ReferenceBalls<'a> {
    /// Computes the radii of a reference.
    ///
    /// # Errors
    /// If there are not more rows than neighbours.
    pub fn new(reference: &'a Features, neighbourhoods: &Neighbourhoods, engine: &Engine) -> Result<Self> {
        let neighbourhoods = *neighbourhoods;
        neighbourhoods.check("rows in the reference", reference.len())?;
        let radii = radii(reference.into(), neighbourhoods.neighbours, engine)?;
        let squared_radii = radii.into_iter().map(|squared| neighbourhoods.border(squared)).collect();
        Ok(Self { reference, squared_radii, neighbourhoods })
    }

    /// [`prdc`] between a pool and this reference.
    ///
    /// # Errors
    /// As [`prdc`].
    pub fn score(&self, pool: &Pool<'_>, engine: &Engine) -> Result<Prdc> {
        check::width(pool, self.reference)?;
        let k = self.neighbourhoods.neighbours;
        self.neighbourhoods.check("samples", pool.len())?;
        let pooled = pool.rows();
        let effective = pool.effective_len();
        let counts: Vec<f64> = pool.row_weights().iter().map(|weight| effective * weight).collect();
        let mut sample_radii: Vec<f64> = if pool.parts().len() == 1 {
            radii(pooled.set(), k, engine)?
        } else {
            weighted_radii(pooled.view(), &counts, k, engine)?
        };
        sample_radii.iter_mut().for_each(|squared| *squared = self.neighbourhoods.border(*squared));
        let overlaps = engine.overlaps(
            Balls { centres: pooled.set(), squared_radii: &sample_radii },
            &counts,
            Balls { centres: self.reference.into(), squared_radii: &self.squared_radii },
        )?;
        let over_samples = |value: &dyn Fn(u32) -> f64| {
            let values: Vec<f64> = overlaps.counts.iter().map(|&count| value(count)).collect();
            let mut first = 0;
            let mut mean = 0.0;
            for part in pool.parts() {
                let until = first + part.rows.len();
                mean += part.share * (values[first..until].iter().sum::<f64>() / part.rows.len() as f64);
                first = until;
            }
            Estimate { value: mean, standard_error: stratified_error(pool, &values), by: ErrorBy::Terms }
        };
        let rows = self.reference.len();
        let over_reference = |holds: &dyn Fn(usize) -> bool| {
            let share = (0..rows).filter(|&row| holds(row)).count() as f64 / rows as f64;
            let standard_error = (share * (1.0 - share) / rows as f64).sqrt();
            Estimate { value: share, standard_error, by: ErrorBy::Terms }
        };
        Ok(Prdc {
            precision: over_samples(&|count| f64::from(count.min(1))),
            recall: over_reference(&|row| overlaps.held[row]),
            density: over_samples(&|count| f64::from(count)).scaled(1.0 / k as f64),
            coverage: over_reference(&|row| overlaps.masses[row] >= 1.0 - COUNT_TOLERANCE),
        })
    }
}

/// Precision, recall (Kynkäänniemi et al., 2019), density and coverage (Naeem et al., 2020).
///
/// In a mixture, sample a counts as cₐ = N·wₐ samples, with the effective sample size N = 1/Σw²: its ball extends to
/// where the counts of the other samples inside sum to k, and a ball of the reference is covered if the counts of the
/// samples inside sum to 1. With equal weights this is the usual definition. Fewer samples have wider balls, so compare
/// the recall and the coverage of mixtures only at similar effective sample sizes ([`Pool::effective_len`]).
///
/// # Errors
/// If there are not more samples, or effective samples, than neighbours, or if widths differ.
pub fn prdc(pool: &Pool<'_>, reference: &Features, neighbourhoods: &Neighbourhoods, engine: &Engine) -> Result<Prdc> {
    check::width(pool, reference)?;
    ReferenceBalls::new(reference, neighbourhoods, engine)?.score(pool, engine)
}

/// Squared distances to the k-th neighbour.
fn radii(rows: Set<'_>, k: usize, engine: &Engine) -> Result<Vec<f64>> {
    let nearest = engine.neighbours(rows, k)?;
    Ok(nearest.iter().skip(k - 1).step_by(k).map(|neighbour| neighbour.squared_distance).collect())
}

/// Squared distances at which the counts of the other samples sum to `k`.
fn weighted_radii(rows: Rows<'_>, counts: &[f64], k: usize, engine: &Engine) -> Result<Vec<f64>> {
    let needed = k as f64 - COUNT_TOLERANCE;
    let total: f64 = counts.iter().sum();
    let most = counts.iter().fold(0.0f64, |most, &count| most.max(count));
    if total - most < needed {
        return Err(Error::setting(
            "neighbours",
            k,
            format!("less than the effective sample size of the mixture, {total:.1}; record more samples or use fewer"),
        ));
    }
    // As many neighbours as the samples with the smallest weights would need, up to a limit; the rest is computed row
    // by row.
    let least = counts.iter().fold(f64::INFINITY, |least, &count| least.min(count));
    let asked = ((k as f64 / least).ceil() as usize).min(8 * k).clamp(1, rows.len() - 1);
    let reach = |neighbours: &[Neighbour]| {
        let mut count = 0.0;
        neighbours.iter().find_map(|neighbour| {
            count += counts[neighbour.row as usize];
            (count >= needed).then_some(neighbour.squared_distance)
        })
    };
    let near = engine.neighbours(rows, asked)?;
    let mut radii: Vec<Option<f64>> = near.chunks_exact(asked).map(reach).collect();
    let left: Vec<usize> = (0..rows.len()).filter(|&row| radii[row].is_none()).collect();
    for batch in left.chunks(ROWS_AT_ONCE) {
        let values: Vec<f32> = batch.iter().flat_map(|&row| rows.row(row)).copied().collect();
        let distances = engine.distances(Rows::new(rows.width(), &values), rows)?;
        for (&row, distances) in batch.iter().zip(distances.chunks_exact(rows.len())) {
            let others = distances.iter().enumerate().filter(|(other, _)| *other != row);
            let mut all: Vec<Neighbour> =
                others.map(|(other, &squared_distance)| Neighbour { squared_distance, row: other as u32 }).collect();
            all.sort_by(|a, b| a.squared_distance.total_cmp(&b.squared_distance));
            radii[row] = reach(&all);
        }
    }
    Ok(radii.into_iter().map(|radius| radius.expect("all others together count enough")).collect())
}
