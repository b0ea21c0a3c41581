//! Nearest neighbours within one set; each pair is visited once. Tiles propose candidates by distances in single
//! precision. Rows that can be among the nearest, given the error of those distances, are recomputed in double
//! precision, so the result is exact.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::Neighbour;
use super::balls::distance_error;
use super::dispatch::Job;
use super::lanes::Arithmetic;
use super::micro::Micro;
use super::tiles::{Leaf, Place};
use crate::features::Rows;

/// The maximum number of candidates of a row before they are pruned.
const MAX_CANDIDATES: usize = 48;

/// The candidates of every row so far.
pub(super) struct Candidates<'a> {
    rows: Rows<'a>,
    k: usize,
    lists: Vec<List>,
    /// Per row: a row whose distance in a tile is larger cannot be among the nearest.
    limits: Vec<f32>,
    /// Per row: the maximum error of a tile's distances.
    errors: Vec<f32>,
}

/// The candidates of a row, with the distances of tiles.
#[derive(Clone, Default)]
struct List {
    /// The `k` smallest distances, ascending.
    least: Vec<f32>,
    near: Vec<(f32, u32)>,
}

/// A row as a hash key: equal if the distance is zero.
struct Values<'a>(&'a [f32]);

impl PartialEq for Values<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

// Features are finite, so every value equals itself.
impl Eq for Values<'_> {}

impl Hash for Values<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // −0 equals 0.
        self.0.iter().for_each(|value| (value + 0.0).to_bits().hash(state));
    }
}

impl<'a> Candidates<'a> {
    /// Starts without candidates. `norms` are those of the rows in tiles.
    pub(super) fn new(rows: Rows<'a>, k: usize, norms: &[f32]) -> Self {
        let largest = norms.iter().fold(0.0f32, |most, &norm| most.max(norm));
        Self {
            rows,
            k,
            lists: vec![List::default(); rows.len()],
            limits: vec![f32::INFINITY; rows.len()],
            errors: norms.iter().map(|&norm| distance_error(rows.width(), norm, largest)).collect(),
        }
    }

    fn propose(&mut self, row: usize, other: usize, distance: f32) {
        let List { least, near } = &mut self.lists[row];
        near.push((distance, other as u32));
        if least.len() < self.k || distance < least[self.k - 1] {
            let at = least.partition_point(|&value| value <= distance);
            least.insert(at, distance);
            least.truncate(self.k);
            if least.len() == self.k {
                // Both the k-th distance and the new one have an error.
                self.limits[row] =
                    self.limits[row].min(least[self.k - 1] * (1.0 + f32::EPSILON) + 2.0 * self.errors[row]);
            }
        }
        if near.len() >= MAX_CANDIDATES.max(4 * self.k) {
            let limit = self.limits[row];
            near.retain(|&(distance, _)| distance <= limit);
            if near.len() >= MAX_CANDIDATES.max(2 * self.k) {
                self.settle(row);
            }
        }
    }

    /// Prunes the candidates of a row that tiles cannot distinguish: only the nearest, in double precision, are kept.
    fn settle(&mut self, row: usize) {
        let mut exact = self.measured(row);
        exact.truncate(self.k);
        let farthest = exact[self.k - 1].squared_distance;
        // Nothing is nearer than a copy.
        let limit =
            if farthest == 0.0 { f32::NEG_INFINITY } else { farthest as f32 * (1.0 + f32::EPSILON) + self.errors[row] };
        self.limits[row] = self.limits[row].min(limit);
        let kept = |other: u32| exact.iter().any(|neighbour| neighbour.row == other);
        self.lists[row].near.retain(|&(_, other)| kept(other));
    }

    /// The candidates of a row with exact distances, nearest first; ties in the order of rows.
    #[inline(always)]
    fn measured(&self, row: usize) -> Vec<Neighbour> {
        let List { near, .. } = &self.lists[row];
        let limit = self.limits[row];
        let mut exact = Vec::with_capacity(near.len());
        // A loop, because a closure would not be compiled for the vectors of the function that this is inlined into.
        for &(distance, other) in near {
            if distance <= limit || limit == f32::NEG_INFINITY {
                exact.push(Neighbour::of(self.rows, row, other as usize));
            }
        }
        exact.sort_by(|a, b| a.squared_distance.total_cmp(&b.squared_distance).then(a.row.cmp(&b.row)));
        exact
    }

    /// Merges the candidates of another thread for the same rows.
    pub(super) fn merge(&mut self, other: Self) {
        for (row, (list, limit)) in other.lists.into_iter().zip(other.limits).enumerate() {
            self.limits[row] = self.limits[row].min(limit);
            for (distance, neighbour) in list.near {
                if distance <= self.limits[row] || limit == f32::NEG_INFINITY {
                    self.propose(row, neighbour as usize, distance);
                }
            }
        }
    }

    /// Handles a row with more copies than tiles examined: the first copies count, as for other
    /// ties.
    pub(super) fn first_copies(&self, nearest: &mut [Neighbour]) {
        if !self.limits.contains(&f32::NEG_INFINITY) {
            return;
        }
        let mut copies: HashMap<Values<'_>, Vec<u32>> = HashMap::new();
        for (row, values) in self.rows.iter().enumerate() {
            copies.entry(Values(values)).or_default().push(row as u32);
        }
        for (row, nearest) in nearest.chunks_exact_mut(self.k).enumerate() {
            if self.limits[row] == f32::NEG_INFINITY {
                let copies = &copies[&Values(self.rows.row(row))];
                let others = copies.iter().filter(|&&other| other != row as u32);
                nearest.iter_mut().zip(others).for_each(|(neighbour, &other)| neighbour.row = other);
            }
        }
    }

    /// The `k` nearest neighbours of a row.
    #[inline(always)]
    fn nearest(&self, row: usize) -> Vec<Neighbour> {
        let mut nearest = self.measured(row);
        nearest.truncate(self.k);
        nearest
    }
}

impl Leaf for Candidates<'_> {
    #[inline(always)]
    fn tile<A: Arithmetic>(&mut self, tile: &mut [f32], width: usize, place: Place, _: f64) {
        let columns = place.column..place.column + place.columns;
        for (index, values) in tile.chunks_exact(width).take(place.rows).enumerate() {
            let row = place.row + index;
            let limit = self.limits[row];
            let limits = &self.limits[columns.clone()];
            let near = values.iter().zip(limits).fold(false, |any, (&value, &other)| any | (value <= limit.max(other)));
            // Each pair of different rows once: the row before the column.
            if near && row < columns.end {
                for (offset, &value) in values[..place.columns].iter().enumerate() {
                    let column = columns.start + offset;
                    if row < column {
                        if value <= self.limits[row] {
                            self.propose(row, column, value);
                        }
                        if value <= self.limits[column] {
                            self.propose(column, row, value);
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn end_panel(&mut self, _: usize, _: usize) {}
}

/// The nearest neighbours of a range of rows, computed with the processor's vectors.
pub(super) struct Measure<'a> {
    pub(super) candidates: &'a Candidates<'a>,
    pub(super) rows: Range<usize>,
}

impl Job for Measure<'_> {
    type Output = Vec<Neighbour>;

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> Vec<Neighbour> {
        let mut nearest = Vec::with_capacity(self.rows.len() * self.candidates.k);
        for row in self.rows {
            nearest.extend(self.candidates.nearest(row));
        }
        nearest
    }
}
