//! The features of the samples held, appended row after row, in single or half precision.

use half::f16;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::features::{Features, HalfRows, Rows};
use crate::loss::Loss;

/// How the features of told samples are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// As they are told: 4 bytes a value.
    #[default]
    Single,
    /// Rounded to half precision: 2 bytes a value, so that a round reads half as much memory. Values from 6e-5 up are
    /// rounded by 0.05% at most, smaller ones by 3e-8; the largest is 65,504.
    Half,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Store {
    Single(Vec<f32>),
    /// The bits of half-precision values.
    Half(Vec<u16>),
}

impl Store {
    pub(super) fn new(storage: Storage) -> Self {
        match storage {
            Storage::Single => Store::Single(Vec::new()),
            Storage::Half => Store::Half(Vec::new()),
        }
    }

    /// How many values are held.
    pub(super) fn len(&self) -> usize {
        match self {
            Store::Single(values) => values.len(),
            Store::Half(values) => values.len(),
        }
    }

    pub(super) fn is_finite(&self) -> bool {
        match self {
            Store::Single(values) => values.iter().all(|value| value.is_finite()),
            Store::Half(values) => values.iter().all(|&bits| f16::from_bits(bits).is_finite()),
        }
    }

    /// Rows as they will be held; nothing where they are held as they are.
    pub(super) fn rounded(&self, rows: Rows<'_>) -> Option<Vec<f32>> {
        let round = |&value: &f32| f16::from_f32(value).to_f32();
        matches!(self, Store::Half(_)).then(|| rows.iter().flatten().map(round).collect())
    }

    /// κ of new rows against all rows held, new row after new row.
    pub(super) fn kappa(&self, loss: &Loss, rows: Rows<'_>, out: &mut Vec<f64>) {
        match self {
            Store::Single(values) => loss.kappa_rows(rows, Rows::new(rows.width(), values), out),
            Store::Half(values) => loss.kappa_rows_half(rows, HalfRows::new(rows.width(), values), out),
        }
    }

    pub(super) fn push(&mut self, row: &[f32]) {
        match self {
            Store::Single(values) => values.extend_from_slice(row),
            Store::Half(values) => values.extend(row.iter().map(|&value| f16::from_f32(value).to_bits())),
        }
    }

    /// A row, as it is held.
    pub(super) fn row(&self, row: usize, width: usize) -> Vec<f32> {
        let range = row * width..(row + 1) * width;
        match self {
            Store::Single(values) => values[range].to_vec(),
            Store::Half(values) => values[range].iter().map(|&bits| f16::from_bits(bits).to_f32()).collect(),
        }
    }

    /// Drops a row; the last one takes its place.
    pub(super) fn swap_remove(&mut self, row: usize, width: usize) {
        fn take<T: Copy>(values: &mut Vec<T>, row: usize, width: usize) {
            let last = values.len() - width;
            values.copy_within(last.., row * width);
            values.truncate(last);
        }
        match self {
            Store::Single(values) => take(values, row, width),
            Store::Half(values) => take(values, row, width),
        }
    }

    /// Keeps the rows that stay, in their order.
    pub(super) fn retain(&mut self, keep: &[bool], width: usize) {
        fn stay<T: Copy>(values: &mut Vec<T>, keep: &[bool], width: usize) {
            *values = values
                .chunks_exact(width)
                .zip(keep)
                .filter(|(_, keep)| **keep)
                .flat_map(|(row, _)| row)
                .copied()
                .collect();
        }
        match self {
            Store::Single(values) => stay(values, keep, width),
            Store::Half(values) => stay(values, keep, width),
        }
    }

    pub(super) fn features(&self, width: usize) -> Result<Features> {
        match self {
            Store::Single(values) => Features::new(width, values.clone()),
            Store::Half(values) => {
                Features::new(width, values.iter().map(|&bits| f16::from_bits(bits).to_f32()).collect())
            }
        }
    }
}
