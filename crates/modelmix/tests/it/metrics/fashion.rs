//! Sets of the fashion features, as named in the golden values; see `tools/golden_sets.py`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use modelmix::metrics::Pool;
use modelmix::{Features, load};
use serde_json::Value;

/// Every array of the data, by file and name; the reference has an empty name.
static ARRAYS: LazyLock<BTreeMap<(String, String), Features>> = LazyLock::new(|| {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion");
    let mut arrays = BTreeMap::new();
    for file in ["specialists", "generators", "truncated", "categories", "quality"] {
        for (name, features) in load::arrays(data.join(format!("{file}.npz"))).unwrap() {
            arrays.insert((file.to_string(), name), features);
        }
    }
    let reference = load::features(data.join("reference.npy"), None).unwrap();
    arrays.insert(("reference".into(), String::new()), reference);
    arrays
});

pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

pub(super) fn whole(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count")) as usize
}

/// The sets of a case, as defined in `tools/golden_sets.py`.
pub(super) struct Set {
    parts: Vec<Features>,
    weights: Option<Vec<f64>>,
    pub(super) name: String,
}

impl Set {
    pub(super) fn read(value: &Value) -> Self {
        let file = value["file"].as_str().unwrap();
        let mut arms: Vec<&str> = value["arms"].as_array().unwrap().iter().map(|arm| arm.as_str().unwrap()).collect();
        if arms.is_empty() {
            arms.push("");
        }
        let (rows, columns) = (whole(&value["rows"]), whole(&value["columns"]));
        let repeat = value.get("repeat").map_or(1, whole);
        let features = |arm: &str| {
            let stored = &ARRAYS[&(file.to_string(), arm.to_string())];
            let row = |index: usize| {
                let mut row = stored.row(index)[..columns].to_vec();
                if let Some(column) = value.get("constant_column") {
                    row[whole(column)] = 1.0;
                }
                row
            };
            Features::from_rows((0..rows * repeat).map(|index| row(index / repeat))).unwrap()
        };
        Self {
            parts: arms.iter().map(|arm| features(arm)).collect(),
            weights: value.get("weights").map(|weights| weights.as_array().unwrap().iter().map(number).collect()),
            name: format!("{file} {} ({rows} × {columns})", arms.join("+")),
        }
    }

    pub(super) fn pool(&self) -> Pool<'_> {
        match &self.weights {
            None => Pool::of(self.one()),
            Some(weights) => Pool::mixture(self.parts.iter().zip(weights.iter().copied())).unwrap(),
        }
    }

    pub(super) fn one(&self) -> &Features {
        assert_eq!(self.parts.len(), 1, "{} is a mixture", self.name);
        &self.parts[0]
    }

    /// tr Σ; Fréchet distances are differences of such values.
    pub(super) fn trace(&self) -> f64 {
        let features = self.one();
        let column = |column: usize| {
            let values = || (0..features.len()).map(|row| f64::from(features.row(row)[column]));
            let mean = values().sum::<f64>() / features.len() as f64;
            values().map(|value| (value - mean).powi(2)).sum::<f64>() / (features.len() - 1) as f64
        };
        (0..features.width()).map(column).sum()
    }
}
