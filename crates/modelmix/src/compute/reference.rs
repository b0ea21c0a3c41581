//! Plain loops in double precision: slow and simple, the reference with which every other engine is compared.

use std::sync::Arc;

use super::{
    Accuracy, Backend, Balls, Factor, HostSet, Matrix, Neighbour, Overlaps, PairSums, Resident, Run, Set, Storage,
    Subsets, ball_counts, dense, squared_distance, subsets,
};
use crate::error::Result;
use crate::features::{Features, Rows};
use crate::kernel::{Geometry, Kernel};

/// The engine of plain loops that tests compare with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

fn product(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

fn evaluate(kernel: &Kernel, x: &[f32], y: &[f32]) -> f64 {
    kernel.of(match kernel.geometry() {
        Geometry::SquaredDistance => squared_distance(x, y),
        Geometry::Product => product(x, y),
        Geometry::Cosine => product(x, y) / (product(x, x).sqrt() * product(y, y).sqrt()),
    })
}

/// Calls `of` for every row; checks the stop token before each.
fn each<T>(run: &Run, rows: Rows<'_>, of: impl Fn(&[f32]) -> T) -> Result<Vec<T>> {
    rows.iter().map(|row| run.check().map(|()| of(row))).collect()
}

// Loops over rows in host memory, for engines that fall back on them.
impl Reference {
    pub(super) fn sums(run: &Run, kernel: &Kernel, x: Rows<'_>, y: Rows<'_>) -> Result<PairSums> {
        Ok(PairSums {
            rows: each(run, x, |a| y.iter().map(|b| evaluate(kernel, a, b)).sum())?,
            columns: each(run, y, |b| x.iter().map(|a| evaluate(kernel, a, b)).sum())?,
        })
    }

    pub(super) fn sums_among(run: &Run, kernel: &Kernel, sets: &[Rows<'_>]) -> Result<Vec<Vec<Vec<f64>>>> {
        let sum = |i: usize, row: usize, j: usize| {
            run.check()?;
            let others = (0..sets[j].len()).filter(|&other| (i, row) != (j, other));
            Ok(others.map(|other| evaluate(kernel, sets[i].row(row), sets[j].row(other))).sum::<f64>())
        };
        let sums = |i: usize, j: usize| (0..sets[i].len()).map(|row| sum(i, row, j)).collect();
        (0..sets.len()).map(|i| (0..sets.len()).map(|j| sums(i, j)).collect()).collect()
    }

    pub(super) fn rows(
        run: &Run,
        kernel: &Kernel,
        weight: f64,
        x: Rows<'_>,
        held: Rows<'_>,
        out: &mut [f64],
    ) -> Result<()> {
        for (a, out) in x.iter().zip(out.chunks_exact_mut(held.len().max(1))) {
            run.check()?;
            out.iter_mut().zip(held.iter()).for_each(|(value, b)| *value += weight * evaluate(kernel, a, b));
        }
        Ok(())
    }

    pub(super) fn nearest(run: &Run, x: Rows<'_>, k: usize) -> Result<Vec<Neighbour>> {
        let nearest = |i: usize| {
            run.check()?;
            let mut others: Vec<Neighbour> = (0..x.len()).filter(|&j| j != i).map(|j| Neighbour::of(x, i, j)).collect();
            others.sort_by(|a, b| a.squared_distance.total_cmp(&b.squared_distance));
            others.truncate(k);
            Ok(others)
        };
        Ok((0..x.len()).map(nearest).collect::<Result<Vec<_>>>()?.concat())
    }

    pub(super) fn overlapping(
        run: &Run,
        (x, x_radii): (Rows<'_>, &[f64]),
        weights: &[f64],
        (y, y_radii): (Rows<'_>, &[f64]),
    ) -> Result<Overlaps> {
        let mut overlaps = Overlaps::none(x.len(), y.len());
        for (i, (point, weight)) in x.iter().zip(weights).enumerate() {
            run.check()?;
            for (j, other) in y.iter().enumerate() {
                let distance = squared_distance(point, other);
                overlaps.add((i, j), *weight, (distance < x_radii[i], distance < y_radii[j]));
            }
        }
        Ok(overlaps)
    }
}

impl Backend for Reference {
    fn describe(&self) -> String {
        "reference (plain loops in double precision)".into()
    }

    fn accuracy(&self) -> Accuracy {
        Accuracy { entry: 1e-13, row_sum: 1e-13 }
    }

    fn precise(&self) -> Arc<dyn Backend> {
        Arc::new(*self)
    }

    fn hold(&self, features: &Features) -> Result<Box<dyn Resident>> {
        features.host()?;
        Ok(Box::new(HostSet::shared(features)))
    }

    fn empty(&self, width: usize, storage: Storage) -> Result<Box<dyn Resident>> {
        Ok(Box::new(HostSet::empty(width, storage)))
    }

    fn kernel_sums(&self, run: &Run, kernel: &Kernel, x: Set<'_>, y: Set<'_>) -> Result<PairSums> {
        let sums = Self::sums(run, kernel, x.rows()?.view(), y.rows()?.view())?;
        run.advance(x.len() as u64 * y.len() as u64);
        Ok(sums)
    }

    fn kernel_sums_among(&self, run: &Run, kernel: &Kernel, sets: &[Set<'_>]) -> Result<Vec<Vec<Vec<f64>>>> {
        let rows = sets.iter().map(|set| set.rows()).collect::<Result<Vec<_>>>()?;
        let sums = Self::sums_among(run, kernel, &rows.iter().map(|rows| rows.view()).collect::<Vec<_>>())?;
        let all: u64 = sets.iter().map(|set| set.len() as u64).sum();
        run.advance(all * all / 2);
        Ok(sums)
    }

    fn kernel_rows(
        &self,
        run: &Run,
        kernel: &Kernel,
        weight: f64,
        x: Rows<'_>,
        held: Set<'_>,
        out: &mut [f64],
    ) -> Result<()> {
        Self::rows(run, kernel, weight, x, held.rows()?.view(), out)
    }

    fn products(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> Result<Vec<f64>> {
        let held = held.rows()?;
        Ok(each(run, x, |x| held.view().iter().map(|row| product(x, row)).collect::<Vec<f64>>())?.concat())
    }

    fn distances(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> Result<Vec<f64>> {
        let held = held.rows()?;
        Ok(each(run, x, |x| held.view().iter().map(|row| squared_distance(x, row)).collect::<Vec<f64>>())?.concat())
    }

    fn neighbours(&self, run: &Run, x: Set<'_>, k: usize) -> Result<Vec<Neighbour>> {
        Self::nearest(run, x.rows()?.view(), k)
    }

    fn ball_counts(&self, run: &Run, points: Set<'_>, balls: Balls<'_>) -> Result<Vec<u32>> {
        ball_counts(run, points.rows()?.view(), balls.centres.rows()?.view(), balls.squared_radii)
    }

    fn overlaps(&self, run: &Run, x: Balls<'_>, weights: &[f64], y: Balls<'_>) -> Result<Overlaps> {
        let (x_rows, y_rows) = (x.centres.rows()?, y.centres.rows()?);
        Self::overlapping(run, (x_rows.view(), x.squared_radii), weights, (y_rows.view(), y.squared_radii))
    }

    fn mean(&self, run: &Run, x: Set<'_>) -> Result<Vec<f64>> {
        dense::mean(run, x.rows()?.view())
    }

    fn scatter(&self, run: &Run, x: Set<'_>, centre: &[f64], weights: Option<&[f64]>) -> Result<Matrix> {
        let (x, width) = (x.rows()?, centre.len());
        let mut sum = Matrix::zeros(width, width);
        for (row, values) in x.view().iter().enumerate() {
            run.check()?;
            let away: Vec<f64> = values.iter().zip(centre).map(|(&value, centre)| f64::from(value) - centre).collect();
            sum.add_outer(weights.map_or(1.0, |weights| weights[row]), &away, &away);
        }
        Ok(sum)
    }

    fn projections(
        &self,
        run: &Run,
        x: Set<'_>,
        centre: &[f64],
        directions: &Matrix,
        weights: &[f64],
    ) -> Result<Vec<f64>> {
        let of = |row: &[f32]| {
            let away: Vec<f64> = row.iter().zip(centre).map(|(&value, centre)| f64::from(value) - centre).collect();
            let along = directions.apply_transposed(&away);
            along.iter().zip(weights).map(|(along, weight)| weight * along * along).sum::<f64>()
        };
        each(run, x.rows()?.view(), of)
    }

    fn subset_sums(&self, run: &Run, kernel: &Kernel, x: Subsets<'_>, y: Option<Subsets<'_>>) -> Result<Vec<f64>> {
        subsets::sums(self, 1, run, kernel, x, y)
    }

    fn product(&self, run: &Run, a: Factor<'_>, b: Factor<'_>) -> Result<Matrix> {
        dense::product(1, run, a, b)
    }
}
