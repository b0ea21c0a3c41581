//! Nearest neighbours within one set, each pair met once. Tiles propose candidates by distances in single precision;
//! whoever can be among the nearest, given the error of those, is measured in double precision, so that the answer is exact.

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

/// How many candidates a row may have before they are thinned out.
const MAX_CANDIDATES: usize = 48;

/// Candidates of every row, so far.
pub(super) struct Candidates<'a> {
    rows: Rows<'a>,
    k: usize,
    lists: Vec<List>,
    /// By row: what is farther, as tiles measure, cannot be among the nearest.
    limits: Vec<f32>,
    /// By row: how far a tile's distances can be off.
    errors: Vec<f32>,
}

/// Candidates of a row, as tiles measure them.
#[derive(Clone, Default)]
struct List {
    /// The `k` least distances, ascending.
    least: Vec<f32>,
    near: Vec<(f32, u32)>,
}

/// A row as a key: equal where the distance is zero.
struct Values<'a>(&'a [f32]);

impl PartialEq for Values<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

// Features are finite, so that every value equals itself.
impl Eq for Values<'_> {}

impl Hash for Values<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // −0 equals 0.
        self.0.iter().for_each(|value| (value + 0.0).to_bits().hash(state));
    }
}

impl<'a> Candidates<'a> {
    /// None yet. `norms` are those of the rows as tiles see them.
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
                // Both the k-th and the newcomer may be off.
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

    /// Many are too near to be told apart by tiles: only the nearest, measured, are kept.
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

    /// A row's candidates, measured, the nearest first; those at the same distance in the order of rows.
    #[inline(always)]
    fn measured(&self, row: usize) -> Vec<Neighbour> {
        let List { near, .. } = &self.lists[row];
        let limit = self.limits[row];
        let mut exact = Vec::with_capacity(near.len());
        // A loop, since a closure would not be compiled for the vectors of the function that this is inlined into.
        for &(distance, other) in near {
            if distance <= limit || limit == f32::NEG_INFINITY {
                exact.push(Neighbour::of(self.rows, row, other as usize));
            }
        }
        exact.sort_by(|a, b| a.squared_distance.total_cmp(&b.squared_distance).then(a.row.cmp(&b.row)));
        exact
    }

    /// Takes another thread's candidates of the same rows.
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

    /// A row with so many copies that tiles did not look at all of them: of copies the first rows count, as of other ties.
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

    /// The `k` nearest of a row.
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

/// The nearest of a run of rows, measured with the processor's vectors.
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
