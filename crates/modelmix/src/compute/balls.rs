//! Comparisons of tiles of squared distances with radii: ball counts, and overlaps of the balls of two sets.
//! Comparisons that single precision cannot decide are recomputed in double precision, so the results are exact.

use super::lanes::Arithmetic;
use super::tiles::{Leaf, PRODUCT_DEPTH, Place};
use super::{Overlaps, squared_distance};
use crate::features::Rows;

/// The maximum error of a squared distance ‖x‖² + ‖y‖² − 2x·y in single precision. A product is summed in runs of at
/// most [`PRODUCT_DEPTH`] and the runs are added, each step rounding once, relative to ‖x‖‖y‖ ≤ (‖x‖ + ‖y‖)²/4;
/// centring, norms and the last two additions round a few times more.
pub(super) fn distance_error(width: usize, x_norm: f32, y_norm: f32) -> f32 {
    let roundings = (width.min(PRODUCT_DEPTH) + width.div_ceil(PRODUCT_DEPTH)) / 2 + 16;
    let sum = x_norm + y_norm;
    roundings as f32 * f32::EPSILON / 2.0 * sum * sum
}

/// A squared radius with the error of a tile's distances subtracted (`sign` −1) or added (+1).
pub(super) fn bound(squared_radius: f64, error: f32, sign: f32) -> f32 {
    squared_radius as f32 * (1.0 + sign * f32::EPSILON) + sign * error
}

/// The number of balls around the columns that contain each row. Undecided comparisons are recomputed in double
/// precision.
pub(super) struct BallCounts<'a> {
    pub(super) points: Rows<'a>,
    pub(super) centres: Rows<'a>,
    pub(super) first_row: usize,
    pub(super) squared_radii: &'a [f64],
    /// Radii within which a point is certainly inside, and beyond which it is certainly outside: the error is
    /// subtracted and added.
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

/// Which balls of each side contain which centres of the other.
pub(super) struct OverlapTiles<'a> {
    /// Centres and squared radii.
    pub(super) x: (Rows<'a>, &'a [f64]),
    pub(super) weights: &'a [f64],
    pub(super) y: (Rows<'a>, &'a [f64]),
    pub(super) x_bounds: &'a Bounds,
    pub(super) y_bounds: &'a Bounds,
    /// The index of the first row whose counts are in `overlaps`.
    pub(super) first_row: usize,
    pub(super) overlaps: Overlaps,
}

/// Squared radii within which a point is certainly inside, and beyond which it is certainly outside: the error is
/// subtracted and added.
pub(super) struct Bounds {
    sure: Vec<f32>,
    maybe: Vec<f32>,
}

impl Bounds {
    /// Bounds for balls whose centres have these norms, and for points whose norms are at most `others`.
    pub(super) fn new((centres, squared_radii): (Rows<'_>, &[f64]), norms: &[f32], others: f32) -> Self {
        let bounds = |sign: f32| {
            let error = |norm: f32| distance_error(centres.width(), norm, others);
            squared_radii.iter().zip(norms).map(|(&radius, &norm)| bound(radius, error(norm), sign)).collect()
        };
        Self { sure: bounds(-1.0), maybe: bounds(1.0) }
    }
}

impl Leaf for OverlapTiles<'_> {
    #[inline(always)]
    fn tile<A: Arithmetic>(&mut self, tile: &mut [f32], width: usize, place: Place, _: f64) {
        let y_maybe = &self.y_bounds.maybe[place.column..][..place.columns];
        for (index, values) in tile.chunks_exact(width).take(place.rows).enumerate() {
            let row = place.row + index;
            let (x_sure, x_maybe) = (self.x_bounds.sure[row], self.x_bounds.maybe[row]);
            let near = |value: f32, y_maybe: f32| value <= x_maybe.max(y_maybe);
            if !values.iter().zip(y_maybe).fold(false, |any, (&value, &y_maybe)| any | near(value, y_maybe)) {
                continue;
            }
            for (offset, (&value, &y_maybe)) in values.iter().zip(y_maybe).enumerate() {
                if near(value, y_maybe) {
                    let column = place.column + offset;
                    let y_sure = self.y_bounds.sure[column];
                    let is_doubtful = (y_sure..=y_maybe).contains(&value) || (x_sure..=x_maybe).contains(&value);
                    let within = if is_doubtful {
                        let squared = squared_distance(self.x.0.row(row), self.y.0.row(column));
                        (squared < self.x.1[row], squared < self.y.1[column])
                    } else {
                        (value < x_sure, value < y_sure)
                    };
                    self.overlaps.add((row - self.first_row, column), self.weights[row], within);
                }
            }
        }
    }

    #[inline(always)]
    fn end_panel(&mut self, _: usize, _: usize) {}
}
