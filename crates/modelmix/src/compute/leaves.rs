//! Reductions of tiles of kernel values: sums per row and column, or the values themselves.

use super::integers::{MAX_COLUMNS as COLUMNS, MAX_ROWS as ROWS, TileSums};
use super::lanes::Arithmetic;
use super::tiles::{Leaf, Place};

/// Sums per row and per column of one sweep. Within a panel they are in single precision, a few additions per lane;
/// after that in double precision.
pub(super) struct Sums {
    first_row: usize,
    first_column: usize,
    pub(super) rows: Vec<f64>,
    pub(super) columns: Vec<f64>,
    /// The factor for all sums.
    pub(super) unit: f64,
    panel: [[f32; COLUMNS]; ROWS],
}

impl Sums {
    pub(super) fn new(rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> Self {
        Self {
            first_row: rows.start,
            first_column: columns.start,
            rows: vec![0.0; rows.len()],
            // Whole tiles, so that inner loops have a fixed length; entries beyond the columns are zero.
            columns: vec![0.0; columns.len().next_multiple_of(COLUMNS)],
            unit: 1.0,
            panel: [[0.0; COLUMNS]; ROWS],
        }
    }

    /// The sums to which a tile adds that begins at this column.
    pub(super) fn of_tile(&mut self, column: usize) -> TileSums<'_> {
        TileSums { rows: &mut self.panel, columns: &mut self.columns[column - self.first_column..] }
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
            // Added in pairs, which vectorises, down to eight.
            for half in [16, 8] {
                let (left, right) = lanes.split_at_mut(half);
                left.iter_mut().zip(right).for_each(|(left, right)| *left += *right);
            }
            *sum += lanes[..8].iter().map(|&lane| f64::from(lane)).sum::<f64>();
            *lanes = [0.0; COLUMNS];
        }
    }
}

/// Adds weighted kernel values to `out`, column by column from `first` on, `stride` apart.
pub(super) struct Values<'a> {
    pub(super) stride: usize,
    pub(super) first: usize,
    pub(super) weight: f64,
    pub(super) out: &'a mut [f64],
}

impl Leaf for Values<'_> {
    #[inline(always)]
    fn tile<A: Arithmetic>(&mut self, tile: &mut [f32], width: usize, place: Place, unit: f64) {
        for column in 0..place.columns {
            let out = &mut self.out[(place.column - self.first + column) * self.stride + place.row..][..place.rows];
            for (out, values) in out.iter_mut().zip(tile.chunks_exact(width)) {
                *out += self.weight * unit * f64::from(values[column]);
            }
        }
    }

    #[inline(always)]
    fn end_panel(&mut self, _: usize, _: usize) {}
}
