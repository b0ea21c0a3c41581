//! Precision, recall, density and coverage: how the samples' and the reference's neighbourhoods hold each other.

use super::estimate::stratified_error;
use super::{ErrorBy, Estimate, Pool, check};
use crate::compute::{Backend, Balls, Neighbour, parallel, squared_distance};
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::objective::NEIGHBOURS;

/// What is taken as enough when counts of weighted samples are added.
const ENOUGH: f64 = 1e-9;

/// How neighbourhoods are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbourhoods {
    /// Up to which neighbour a ball reaches, the sample itself not counted.
    pub neighbours: usize,
    /// Whether what lies at the very radius is inside. It is not in `prdc`, where identical sets score less than 1
    /// therefore; it is in torch-fidelity.
    pub closed: bool,
}

impl Default for Neighbourhoods {
    fn default() -> Self {
        Self { neighbours: NEIGHBOURS, closed: false }
    }
}

/// The four, each with the spread of what it averages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prdc {
    /// The share of samples that lie in a ball of the reference.
    pub precision: Estimate,
    /// The share of the reference that lies in a ball of the samples.
    pub recall: Estimate,
    /// How many balls of the reference hold a sample, on average, divided by the number of neighbours.
    pub density: Estimate,
    /// The share of the reference's balls that hold a sample.
    pub coverage: Estimate,
}

/// Precision, recall (Kynkäänniemi et al., 2019), density and coverage (Naeem et al., 2020).
///
/// In a mixture sample a counts as cₐ = N·wₐ samples, N = 1/Σw² being its effective number of samples: its ball reaches to
/// where the others in it count k, and a ball of the reference is covered where the samples in it count 1. With equal weights
/// that is the usual definition.
///
/// # Errors
/// Not more samples, or effective samples, than neighbours; another width.
pub fn prdc(
    pool: &Pool<'_>,
    reference: &Features,
    neighbourhoods: &Neighbourhoods,
    backend: &dyn Backend,
) -> Result<Prdc> {
    check::width(pool, reference)?;
    let k = neighbourhoods.neighbours;
    let enough = |what: &str, rows: usize| {
        if k >= 1 && k < rows {
            return Ok(());
        }
        let must = format!(
            "at least 1 and less than the number of {what}, {rows}; record at least {} or take fewer neighbours",
            k + 1
        );
        Err(Error::setting("the number of neighbours", k, must))
    };
    enough("rows in the reference", reference.len())?;
    enough("samples", pool.len())?;
    let border = |squared: f64| if neighbourhoods.closed { squared.next_up() } else { squared };
    let pooled = pool.rows();
    let counts: Vec<f64> = pool.row_weights().iter().map(|weight| pool.effective_len() * weight).collect();
    let reference_radii: Vec<f64> = radii(reference.view(), k, backend).map(border).collect();
    let sample_radii: Vec<f64> = if pool.parts().len() == 1 {
        radii(pooled.view(), k, backend).map(border).collect()
    } else {
        weighted_radii(pooled.view(), &counts, k, backend)?.into_iter().map(border).collect()
    };
    let balls = |centres, squared_radii| Balls { centres, squared_radii };
    let overlaps =
        backend.overlaps(balls(pooled.view(), &sample_radii), &counts, balls(reference.view(), &reference_radii));
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
    let over_reference = |holds: &dyn Fn(usize) -> bool| {
        let count = (0..reference.len()).filter(|&row| holds(row)).count();
        let share = count as f64 / reference.len() as f64;
        let standard_error = (share * (1.0 - share) / reference.len() as f64).sqrt();
        Estimate { value: share, standard_error, by: ErrorBy::Terms }
    };
    Ok(Prdc {
        precision: over_samples(&|count| f64::from(count.min(1))),
        recall: over_reference(&|row| overlaps.held[row]),
        density: over_samples(&f64::from).scaled(1.0 / k as f64),
        coverage: over_reference(&|row| overlaps.masses[row] >= 1.0 - ENOUGH),
    })
}

/// Squared distances to the k-th neighbour.
fn radii(rows: Rows<'_>, k: usize, backend: &dyn Backend) -> impl Iterator<Item = f64> {
    backend.neighbours(rows, k).into_iter().skip(k - 1).step_by(k).map(|neighbour| neighbour.squared_distance)
}

/// Squared distances at which the others' counts reach `k`.
fn weighted_radii(rows: Rows<'_>, counts: &[f64], k: usize, backend: &dyn Backend) -> Result<Vec<f64>> {
    let needed = k as f64 - ENOUGH;
    let total: f64 = counts.iter().sum();
    let most = counts.iter().fold(0.0f64, |most, &count| most.max(count));
    if total - most < needed {
        return Err(Error::setting(
            "the number of neighbours",
            k,
            format!("less than the effective number of samples of the mixture, {total:.1}; record more or take fewer"),
        ));
    }
    // As many neighbours as the lightest samples would need, within reason; what is left is measured row by row.
    let least = counts.iter().fold(f64::INFINITY, |least, &count| least.min(count));
    let asked = ((k as f64 / least).ceil() as usize).min(8 * k).clamp(1, rows.len() - 1);
    let reach = |neighbours: &[Neighbour]| {
        let mut count = 0.0;
        neighbours.iter().find_map(|neighbour| {
            count += counts[neighbour.row as usize];
            (count >= needed).then_some(neighbour.squared_distance)
        })
    };
    let near = backend.neighbours(rows, asked);
    let near: Vec<Option<f64>> = near.chunks_exact(asked).map(reach).collect();
    Ok(parallel(backend.threads(), rows.len(), |row| {
        near[row].unwrap_or_else(|| {
            let others = (0..rows.len()).filter(|&other| other != row);
            let mut all: Vec<Neighbour> = others
                .map(|other| Neighbour {
                    squared_distance: squared_distance(rows.row(row), rows.row(other)),
                    row: other as u32,
                })
                .collect();
            all.sort_by(|a, b| a.squared_distance.total_cmp(&b.squared_distance));
            reach(&all).expect("all others together count enough")
        })
    }))
}
