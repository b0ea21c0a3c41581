//! What is done with tiles of squared distances where they are compared with radii: counts of balls, and overlaps of two
//! sets' balls. What a tile leaves in doubt is measured in double precision, so that the answers are exact.

use super::lanes::Arithmetic;
use super::tiles::{Leaf, Place};
use super::{Balls, Overlaps, squared_distance};
use crate::features::Rows;

/// How far a squared distance from products in single precision can be from the truth: the depth's roundings, and those of
/// the centring and the norms, all relative to (‖x‖ + ‖y‖)².
pub(super) fn distance_error(width: usize, x_norm: f32, y_norm: f32) -> f32 {
    let sum = x_norm + y_norm;
    (2 * width + 32) as f32 * f32::EPSILON / 2.0 * sum * sum
}

/// A squared radius with the error of a tile's distances taken off (`sign` −1) or added (+1).
pub(super) fn bound(squared_radius: f64, error: f32, sign: f32) -> f32 {
    squared_radius as f32 * (1.0 + sign * f32::EPSILON) + sign * error
}

/// How many balls around the columns hold each row. What a tile leaves in doubt is measured in double precision.
pub(super) struct BallCounts<'a> {
    pub(super) points: Rows<'a>,
    pub(super) centres: Rows<'a>,
    pub(super) first_row: usize,
    pub(super) squared_radii: &'a [f64],
    /// Radii that surely hold and radii that may hold a point, with the error taken off and added.
    pub(super) sure: &'a [f32],
    pub(super) maybe: &'a [f32],
    pub(super) counts: Vec<u32>,
}

impl Leaf for BallCounts<'_> {
    #[inline(always)]
    fn tile<A: Arithmetic>(&mut self, tile: &mut [f32], width: usize, place: Place, _: f64) {
        let (sure, maybe) = (&self.sure[place.column..][..place.columns], &self.maybe[place.column..][..place.columns]);
        for (index, values) in tile.chunks_exact(width).take(place.rows).enumerate() {
            let row = place.row + index;
            let (mut inside, mut possible) = (0u32, 0u32);
            for (value, (sure, maybe)) in values.iter().zip(sure.iter().zip(maybe)) {
                inside += u32::from(value < sure);
                possible += u32::from(value <= maybe);
            }
            if possible > inside {
                let doubtful = values
                    .iter()
                    .zip(sure.iter().zip(maybe))
                    .enumerate()
                    .filter(|(_, (value, (sure, maybe)))| *value >= sure && *value <= maybe);
                for (offset, _) in doubtful {
                    let column = place.column + offset;
                    inside += u32::from(
                        squared_distance(self.points.row(row), self.centres.row(column)) < self.squared_radii[column],
                    );
                }
            }
            self.counts[row - self.first_row] += inside;
        }
    }

    #[inline(always)]
    fn end_panel(&mut self, _: usize, _: usize) {}
}

/// How the balls of both sides hold each other's centres. Few pairs are near enough to count; those are measured.
pub(super) struct OverlapTiles<'a> {
    pub(super) x: Balls<'a>,
    pub(super) weights: &'a [f64],
    pub(super) y: Balls<'a>,
    /// Radii of both sides that may hold a point.
    pub(super) x_maybe: &'a [f32],
    pub(super) y_maybe: &'a [f32],
    pub(super) overlaps: Overlaps,
}

impl Leaf for OverlapTiles<'_> {
    #[inline(always)]
    fn tile<A: Arithmetic>(&mut self, tile: &mut [f32], width: usize, place: Place, _: f64) {
        let y_maybe = &self.y_maybe[place.column..][..place.columns];
        for (index, values) in tile.chunks_exact(width).take(place.rows).enumerate() {
            let row = place.row + index;
            let x_maybe = self.x_maybe[row];
            let near = |value: f32, y_maybe: f32| value <= x_maybe.max(y_maybe);
            if values.iter().zip(y_maybe).fold(false, |any, (&value, &y_maybe)| any | near(value, y_maybe)) {
                for (offset, (&value, &y_maybe)) in values.iter().zip(y_maybe).enumerate() {
                    if near(value, y_maybe) {
                        self.overlaps.add(self.x, self.weights, self.y, (row, place.column + offset));
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn end_panel(&mut self, _: usize, _: usize) {}
}
