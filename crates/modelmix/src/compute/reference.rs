//! Plain loops in double precision: slow, obvious, and the truth that every other engine is compared with.

use std::sync::Arc;

use super::{Backend, Balls, Neighbour, Overlaps, PairSums, ball_counts, check_stopped, squared_distance};
use crate::features::Rows;
use crate::kernel::{Geometry, Kernel};

/// The engine that tests trust.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

/// All rows, with a look before each whether the work has been stopped.
fn each<'a>(rows: &'a Rows<'_>) -> impl Iterator<Item = &'a [f32]> {
    rows.iter().inspect(|_| check_stopped())
}

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

impl Backend for Reference {
    fn kernel_sums(&self, kernel: &Kernel, x: Rows<'_>, y: Rows<'_>) -> PairSums {
        PairSums {
            rows: each(&x).map(|a| y.iter().map(|b| evaluate(kernel, a, b)).sum()).collect(),
            columns: each(&y).map(|b| x.iter().map(|a| evaluate(kernel, a, b)).sum()).collect(),
        }
    }

    fn kernel_sums_among(&self, kernel: &Kernel, sets: &[Rows<'_>]) -> Vec<Vec<Vec<f64>>> {
        let sum = |i: usize, row: usize, j: usize| {
            check_stopped();
            let others = (0..sets[j].len()).filter(|&other| (i, row) != (j, other));
            others.map(|other| evaluate(kernel, sets[i].row(row), sets[j].row(other))).sum::<f64>()
        };
        let sums = |i: usize, j: usize| (0..sets[i].len()).map(|row| sum(i, row, j)).collect();
        (0..sets.len()).map(|i| (0..sets.len()).map(|j| sums(i, j)).collect()).collect()
    }

    fn kernel_rows(&self, kernel: &Kernel, weight: f64, x: Rows<'_>, held: Rows<'_>, out: &mut [f64]) {
        for (value, (a, b)) in out.iter_mut().zip(each(&x).flat_map(|a| held.iter().map(move |b| (a, b)))) {
            *value += weight * evaluate(kernel, a, b);
        }
    }

    fn neighbours(&self, x: Rows<'_>, k: usize) -> Vec<Neighbour> {
        let nearest = |i: usize| {
            check_stopped();
            let mut others: Vec<Neighbour> = (0..x.len()).filter(|&j| j != i).map(|j| Neighbour::of(x, i, j)).collect();
            others.sort_by(|a, b| a.squared_distance.total_cmp(&b.squared_distance));
            others.truncate(k);
            others
        };
        (0..x.len()).flat_map(nearest).collect()
    }

    fn ball_counts(&self, points: Rows<'_>, centres: Rows<'_>, squared_radii: &[f64]) -> Vec<u32> {
        ball_counts(points, centres, squared_radii)
    }

    fn overlaps(&self, x: Balls<'_>, weights: &[f64], y: Balls<'_>) -> Overlaps {
        let mut overlaps = Overlaps::none(x.centres.len(), y.centres.len());
        for (i, (point, weight)) in each(&x.centres).zip(weights).enumerate() {
            for (j, other) in y.centres.iter().enumerate() {
                let distance = squared_distance(point, other);
                overlaps.add((i, j), *weight, (distance < x.squared_radii[i], distance < y.squared_radii[j]));
            }
        }
        overlaps
    }

    fn threads(&self) -> usize {
        1
    }

    fn on_one_thread(&self) -> Arc<dyn Backend> {
        Arc::new(*self)
    }
}
