//! What is done with tiles: sums by row and column, values, neighbours, counts of balls.

use super::lanes::Arithmetic;
use super::squared_distance;
use super::tiles::{Leaf, Place};
use crate::features::Rows;

/// The most rows and columns of a register tile.
const ROWS: usize = 12;
const COLUMNS: usize = 32;

/// Sums by row and by column of one sweep. Within a panel they are kept in single precision, a few additions a lane; from
/// there on in double precision.
pub(super) struct Sums {
    first_row: usize,
    first_column: usize,
    pub(super) rows: Vec<f64>,
    pub(super) columns: Vec<f64>,
    /// What all sums are to be multiplied by.
    pub(super) unit: f64,
    panel: [[f32; COLUMNS]; ROWS],
}

impl Sums {
    pub(super) fn new(rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> Self {
        Self {
            first_row: rows.start,
            first_column: columns.start,
            rows: vec![0.0; rows.len()],
            // Whole tiles, so that inner loops have a fixed length; what is beyond the columns is zero.
            columns: vec![0.0; columns.len().next_multiple_of(COLUMNS)],
            unit: 1.0,
            panel: [[0.0; COLUMNS]; ROWS],
        }
    }
}

impl Leaf for Sums {
    #[inline(always)]
    fn tile<A: Arithmetic>(&mut self, tile: &mut [f32], width: usize, place: Place, unit: f64) {
        let mut columns = [0.0f32; COLUMNS];
        let columns = &mut columns[..width];
        for (values, lanes) in tile.chunks_exact(width).zip(&mut self.panel) {
            for (lane, value) in lanes[..width].iter_mut().zip(values) {
                *lane += value;
            }
            for (column, value) in columns.iter_mut().zip(values) {
                *column += value;
            }
        }
        self.unit = unit;
        let sums = &mut self.columns[place.column - self.first_column..][..width];
        for (sum, &value) in sums.iter_mut().zip(&*columns) {
            *sum += f64::from(value);
        }
    }

    #[inline(always)]
    fn end_panel(&mut self, row: usize, rows: usize) {
        for (sum, lanes) in self.rows[row - self.first_row..][..rows].iter_mut().zip(&mut self.panel) {
            // Halved in pairs, which vectorises, down to eight.
            for half in [16, 8] {
                let (left, right) = lanes.split_at_mut(half);
                left.iter_mut().zip(right).for_each(|(left, right)| *left += *right);
            }
            *sum += lanes[..8].iter().map(|&lane| f64::from(lane)).sum::<f64>();
            *lanes = [0.0; COLUMNS];
        }
    }
}

/// Kernel values, weighted and added: of column after column, `stride` apart.
pub(super) struct Values<'a> {
    pub(super) stride: usize,
    pub(super) weight: f64,
    pub(super) out: &'a mut [f64],
}

impl Leaf for Values<'_> {
    #[inline(always)]
    fn tile<A: Arithmetic>(&mut self, tile: &mut [f32], width: usize, place: Place, unit: f64) {
        for column in 0..place.columns {
            let out = &mut self.out[(place.column + column) * self.stride + place.row..][..place.rows];
            for (out, values) in out.iter_mut().zip(tile.chunks_exact(width)) {
                *out += self.weight * unit * f64::from(values[column]);
            }
        }
    }

    #[inline(always)]
    fn end_panel(&mut self, _: usize, _: usize) {}
}

/// How far a squared distance from products in single precision can be from the truth: the depth's roundings, and those of
/// the centring and the norms, all relative to (‖x‖ + ‖y‖)².
pub(super) fn distance_error(width: usize, x_norm: f32, y_norm: f32) -> f32 {
    let sum = x_norm + y_norm;
    (2 * width + 32) as f32 * f32::EPSILON / 2.0 * sum * sum
}

/// The `k` nearest other rows of each row. Tiles only propose; who is proposed is measured in double precision, so that
/// the answer is exact.
pub(super) struct Nearest<'a> {
    pub(super) rows: Rows<'a>,
    pub(super) first_row: usize,
    pub(super) k: usize,
    pub(super) norms: &'a [f32],
    pub(super) largest_norm: f32,
    /// The `k` least squared distances so far of each row, ascending.
    pub(super) least: Vec<f64>,
}

impl Leaf for Nearest<'_> {
    #[inline(always)]
    fn tile<A: Arithmetic>(&mut self, tile: &mut [f32], width: usize, place: Place, _: f64) {
        for (index, values) in tile.chunks_exact(width).take(place.rows).enumerate() {
            let row = place.row + index;
            let least = &mut self.least[(row - self.first_row) * self.k..][..self.k];
            let error = distance_error(self.rows.width(), self.norms[row], self.largest_norm);
            let values = &values[..place.columns];
            let mut limit = least[self.k - 1] as f32 * (1.0 + f32::EPSILON) + error;
            if !values.iter().fold(false, |any, &value| any | (value <= limit)) {
                continue;
            }
            for (offset, &value) in values.iter().enumerate() {
                let column = place.column + offset;
                if value <= limit && column != row {
                    let distance = squared_distance(self.rows.row(row), self.rows.row(column));
                    if distance < least[self.k - 1] {
                        let at = least.partition_point(|&other| other <= distance);
                        least[at..].rotate_right(1);
                        least[at] = distance;
                        limit = least[self.k - 1] as f32 * (1.0 + f32::EPSILON) + error;
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn end_panel(&mut self, _: usize, _: usize) {}
}

/// How many balls around the columns hold each row. What a tile leaves in doubt is measured in double precision.
pub(super) struct Balls<'a> {
    pub(super) points: Rows<'a>,
    pub(super) centres: Rows<'a>,
    pub(super) first_row: usize,
    pub(super) squared_radii: &'a [f64],
    /// Radii that surely hold and radii that may hold a point, with the error taken off and added.
    pub(super) sure: &'a [f32],
    pub(super) maybe: &'a [f32],
    pub(super) counts: Vec<u32>,
}

impl Leaf for Balls<'_> {
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
