//! Which tiles of pairs the fused kernels compute, in squares whose partial sums fit in a small buffer.
//!
//! Squares have a fixed size, so that sums are added in the same order whatever the memory, the grid and the device.

use std::ops::Range;

use crate::layout::{BLOCK, Layout};

/// The number of rows and columns of a square: its partial sums take 64 MB per side, and it has enough tiles for all
/// multiprocessors. Squares of twice the size were not faster.
pub(crate) const SQUARE: usize = 32_768;
/// Tiles are listed in squares of this many, whose rows the second-level cache holds.
const CACHED: usize = 8;
/// The bit of a tile's column that says that a row of it is padding, or that it has rows on the diagonal.
const MASKED: u32 = 1 << 31;

/// Pairs of rows to be computed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pairs {
    /// Every pair of different rows.
    All,
    /// Rows of the first set with those of the second.
    Between,
}

/// A square of tiles.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Square {
    /// Padded rows.
    pub(crate) rows: Range<usize>,
    /// Padded columns; the same as `rows` on the diagonal.
    pub(crate) columns: Range<usize>,
    /// Its tiles in [`Plan::tiles`].
    pub(crate) tiles: Range<usize>,
}

impl Square {
    pub(crate) fn is_diagonal(&self) -> bool {
        self.rows == self.columns
    }

    /// Blocks of its columns.
    pub(crate) fn column_blocks(&self) -> usize {
        self.columns.len() / BLOCK
    }

    /// Blocks of its rows.
    pub(crate) fn row_blocks(&self) -> usize {
        self.rows.len() / BLOCK
    }
}

/// All squares with their tiles.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) squares: Vec<Square>,
    /// (row, column) in units of tiles, with [`MASKED`] in the column.
    pub(crate) tiles: Vec<[u32; 2]>,
}

impl Plan {
    /// Squares of at most `square` rows, with tiles of `unit` rows; `square` must be a multiple of `unit`.
    pub(crate) fn new(layout: &Layout, pairs: &Pairs, unit: usize, square: usize) -> Self {
        let padded: Vec<bool> = (0..layout.rows() / unit).map(|tile| layout.is_padded(tile, unit)).collect();
        let mut plan = Self { squares: Vec::new(), tiles: Vec::new() };
        let mut push = |rows: Range<usize>, columns: Range<usize>| {
            let first = plan.tiles.len();
            let (r, c) = (rows.start / unit..rows.end / unit, columns.start / unit..columns.end / unit);
            let diagonal = r == c;
            for r0 in r.clone().step_by(CACHED) {
                for c0 in c.clone().step_by(CACHED).filter(|&c0| !diagonal || c0 >= r0) {
                    for i in r0..(r0 + CACHED).min(r.end) {
                        let start = if diagonal { c0.max(i) } else { c0 };
                        for j in start..(c0 + CACHED).min(c.end) {
                            let mask = if i == j || padded[i] || padded[j] { MASKED } else { 0 };
                            plan.tiles.push([i as u32, j as u32 | mask]);
                        }
                    }
                }
            }
            plan.squares.push(Square { rows, columns, tiles: first..plan.tiles.len() });
        };
        match pairs {
            Pairs::All => {
                let strips: Vec<Range<usize>> = strips(0..layout.rows(), square).collect();
                for (index, rows) in strips.iter().enumerate() {
                    strips[index..].iter().for_each(|columns| push(rows.clone(), columns.clone()));
                }
            }
            Pairs::Between => {
                // Sets are aligned to tiles, so no tile has rows of both.
                let middle = layout.set_block[1] as usize * BLOCK;
                for rows in strips(0..middle, square) {
                    strips(middle..layout.rows(), square).for_each(|columns| push(rows.clone(), columns));
                }
            }
        }
        plan
    }

    /// The number of partial sums of the largest square, for its rows and for its columns.
    pub(crate) fn largest(&self) -> (usize, usize) {
        let most = |of: &dyn Fn(&Square) -> usize| self.squares.iter().map(of).max().unwrap_or(0);
        (
            most(&|square| square.column_blocks() * square.rows.len()),
            most(&|square| if square.is_diagonal() { 0 } else { square.row_blocks() * square.columns.len() }),
        )
    }
}

fn strips(rows: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    let end = rows.end;
    rows.step_by(length).map(move |start| start..(start + length).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{LARGEST_TILE, PADDING};

    /// How often every pair of padded rows is computed, by row and by column.
    fn counts(plan: &Plan, layout: &Layout, unit: usize) -> Vec<Vec<u32>> {
        let mut counts = vec![vec![0; layout.rows()]; layout.rows()];
        for square in &plan.squares {
            for &[row, column] in &plan.tiles[square.tiles.clone()] {
                let (masked, column) = (column & MASKED != 0, (column & !MASKED) as usize);
                let (rows, columns) = (row as usize * unit.., column * unit..);
                assert!(square.rows.contains(&rows.start) && square.columns.contains(&columns.start));
                for i in rows.take(unit) {
                    for j in columns.clone().take(unit) {
                        let is_padding = layout.target[i] == PADDING || layout.target[j] == PADDING;
                        assert!(masked || (!is_padding && i != j), "a tile that must be masked");
                        counts[i][j] += 1;
                        // Off the diagonal tile, sums by column are those of the mirror image.
                        if row as usize != column {
                            counts[j][i] += 1;
                        }
                    }
                }
            }
        }
        counts
    }

    #[test]
    fn every_pair_among_sets_is_computed_once_in_either_direction() {
        for (unit, square) in [(256, 1024), (128, 512), (256, 256), (128, SQUARE)] {
            let layout = Layout::new(&[700, 1, 500], None, BLOCK);
            let plan = Plan::new(&layout, &Pairs::All, unit, square);
            assert!(counts(&plan, &layout, unit).iter().flatten().all(|&count| count == 1), "{unit} {square}");
        }
    }

    #[test]
    fn every_pair_between_two_sets_is_computed_once() {
        for (unit, square) in [(256, 512), (128, SQUARE)] {
            let layout = Layout::new(&[300, 600], None, LARGEST_TILE);
            let middle = layout.set_block[1] as usize * BLOCK;
            let counts = counts(&Plan::new(&layout, &Pairs::Between, unit, square), &layout, unit);
            for (i, line) in counts.iter().enumerate() {
                for (j, &count) in line.iter().enumerate() {
                    assert_eq!(count, u32::from((i < middle) != (j < middle)), "{i} {j}");
                }
            }
        }
    }

    #[test]
    fn partial_sums_of_a_square_are_bounded() {
        let layout = Layout::new(&[100_000], None, BLOCK);
        let plan = Plan::new(&layout, &Pairs::All, 256, SQUARE);
        let (rows, columns) = plan.largest();
        assert!(rows <= SQUARE * SQUARE / BLOCK && columns <= rows);
        assert_eq!(plan.squares.len(), 4 * 5 / 2);
        let none = Plan::new(&Layout::new(&[], None, BLOCK), &Pairs::All, 256, SQUARE);
        assert_eq!((none.largest(), none.tiles.len()), ((0, 0), 0));
    }
}
