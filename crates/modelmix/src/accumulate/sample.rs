//! A random sample of rows that does not depend on how rows are split or ordered: every row has a priority, a hash of its values,
//! and the rows with the lowest priorities are kept. The sample of a union is found from the samples of its parts.

use crate::features::Rows;

/// Odd constants of the hash: the fractional parts of the golden ratio and of square roots.
const MULTIPLIERS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

/// The product of two numbers, its halves folded together.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The priority of a row: a hash of its bits. It stays the same in later releases.
pub(super) fn priority(seed: u64, row: &[f32]) -> u64 {
    let mut lanes = MULTIPLIERS.map(|multiplier| multiplier ^ fold(seed ^ multiplier, MULTIPLIERS[0]));
    let (blocks, rest) = row.as_chunks::<8>();
    let word = |pair: &[f32]| {
        let high = pair.get(1).map_or(0, |value| u64::from(value.to_bits()));
        u64::from(pair[0].to_bits()) | high << 32
    };
    for block in blocks {
        for (lane, pair) in lanes.iter_mut().zip(block.chunks_exact(2)) {
            *lane = fold(*lane ^ word(pair), MULTIPLIERS[1]);
        }
    }
    for (lane, pair) in lanes.iter_mut().zip(rest.chunks(2)) {
        *lane = fold(*lane ^ word(pair), MULTIPLIERS[2]);
    }
    let joined = lanes.into_iter().fold(row.len() as u64, |joined, lane| fold(joined ^ lane, MULTIPLIERS[3]));
    fold(joined ^ seed, MULTIPLIERS[0])
}

/// A row of a sample.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SampledRow {
    pub(super) priority: u64,
    pub(super) row: Box<[f32]>,
    /// Its scores, then its values of the linear terms of the plan.
    pub(super) values: Box<[f64]>,
}

impl SampledRow {
    /// The order in which rows are kept; rows that compare equal are copies.
    fn before(&self, other: &Self) -> std::cmp::Ordering {
        let bits = |row: &Self| row.row.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let values = |row: &Self| row.values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        self.priority
            .cmp(&other.priority)
            .then_with(|| bits(self).cmp(&bits(other)))
            .then_with(|| values(self).cmp(&values(other)))
    }
}

/// The rows with the lowest priorities, at most `limit`, and none above `highest`.
#[derive(Clone, Debug)]
pub(super) struct RowSample {
    limit: usize,
    highest: u64,
    rows: Vec<SampledRow>,
}

impl RowSample {
    pub(super) fn new(limit: usize, highest: u64) -> Self {
        Self { limit, highest, rows: Vec::new() }
    }

    /// Whether a row of this priority may be kept.
    pub(super) fn accepts(&self, priority: u64) -> bool {
        priority <= self.highest
    }

    /// Adds a row that was accepted.
    pub(super) fn add(&mut self, row: SampledRow) {
        self.rows.push(row);
        if self.rows.len() / 2 > self.limit {
            self.shrink();
        }
    }

    /// Adds rows one by one; `values` gives those of a row.
    pub(super) fn extend(&mut self, seed: u64, rows: Rows<'_>, mut values: impl FnMut(usize) -> Box<[f64]>) {
        for (at, row) in rows.iter().enumerate() {
            let priority = priority(seed, row);
            if self.accepts(priority) {
                self.add(SampledRow { priority, row: row.into(), values: values(at) });
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for row in &other.rows {
            if self.accepts(row.priority) {
                self.add(row.clone());
            }
        }
    }

    /// Leaves out all rows beyond the limit, and sorts the others.
    fn shrink(&mut self) {
        self.rows.sort_by(SampledRow::before);
        if self.rows.len() > self.limit {
            self.rows.truncate(self.limit);
            self.highest = self.rows.last().map_or(0, |row| row.priority);
        }
    }

    /// The sampled rows, by priority.
    pub(super) fn sorted(&self) -> Vec<SampledRow> {
        let mut sample = self.clone();
        sample.shrink();
        sample.rows
    }
}
