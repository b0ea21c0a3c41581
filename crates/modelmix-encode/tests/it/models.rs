//! What tests of models share: fixtures, golden values, and the runtimes that can be had here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use modelmix_encode::runtime::{Model, ModelSource, Options, Runtime};
use serde::Deserialize;

/// A fixture made by `tools/golden_models.py`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models").join(name)
}

/// An array of golden values.
#[derive(Debug, Deserialize)]
pub(crate) struct Golden {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

/// The golden values of a JSON file, by name.
pub(crate) fn golden(name: &str) -> BTreeMap<String, Golden> {
    serde_json::from_slice(&std::fs::read(fixture(name)).unwrap()).unwrap()
}

impl Golden {
    /// Asserts that values are these, up to a part of the largest.
    #[track_caller]
    pub(crate) fn assert_close(&self, shape: &[usize], values: &[f32], tolerance: f64) {
        assert_eq!(self.shape, shape);
        assert_eq!(self.values.len(), values.len());
        let largest = self.values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        let error = |(value, golden): (&f32, &f64)| (f64::from(*value) - golden).abs();
        let worst = values.iter().zip(&self.values).map(error).fold(0.0, f64::max);
        assert!(worst <= tolerance * largest, "the largest error is {worst:e} for values up to {largest}");
    }
}

/// The values of `pattern` in `tools/golden_models.py`.
pub(crate) fn pattern(count: usize) -> Vec<f32> {
    (0..count as i64).map(|index| (((index * index + 7 * index) % 251) as f64 / 125.5 - 1.0) as f32).collect()
}

/// rten, and onnxruntime if it is installed. If it is not, one line says that its part of the tests was skipped.
pub(crate) fn runtimes() -> &'static [Runtime] {
    static RUNTIMES: OnceLock<Vec<Runtime>> = OnceLock::new();
    RUNTIMES.get_or_init(|| {
        let source = ModelSource::Path(fixture("fixed_batch.onnx"));
        match Model::open(&source, Runtime::OnnxRuntime, &Options::default()) {
            Ok(_) => vec![Runtime::Rten, Runtime::OnnxRuntime],
            Err(problem) if problem.to_string().starts_with("onnxruntime was not found") => {
                eprintln!("skipped: tests with onnxruntime, which is not installed");
                vec![Runtime::Rten]
            }
            Err(problem) => panic!("{problem}"),
        }
    })
}
