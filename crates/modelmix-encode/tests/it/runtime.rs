//! Models in rten and in onnxruntime: golden outputs, element types, batches, and models and inputs that do not fit.

mod refused;

use std::path::Path;

use modelmix_encode::runtime::{Element, Input, Model, ModelSource, Options, Output, Runtime, Values};

use crate::models::{fixture, golden, pattern, runtimes};

fn open(name: &str, runtime: Runtime) -> Model {
    Model::open(&ModelSource::Path(fixture(name)), runtime, &Options { threads: 1, ..Options::default() }).unwrap()
}

/// The product with the weights of the small models: (0, …, 5) of shape [3, 2], minus 2, divided by 4.
fn product(rows: &[f32]) -> Vec<f32> {
    let weight = |row: usize, column: usize| ((row * 2 + column) as f32 - 2.0) / 4.0;
    let entry = |row: &[f32], column| row.iter().enumerate().map(|(index, x)| x * weight(index, column)).sum();
    rows.chunks(3).flat_map(|row| [entry(row, 0), entry(row, 1)]).collect()
}

/// Multiples of 1/8, which every float type and every order of summation has exactly.
fn eighths(count: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 5) % 17) as f32 / 8.0 - 1.0).collect()
}

fn floats<'a>(shape: &'a [usize], values: &'a [f32]) -> Input<'a> {
    Input { name: "x", shape, values: Values::Floats(values) }
}

#[test]
fn the_shipped_encoder_has_its_golden_features() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion/models/encoder.onnx");
    let golden = &golden("encoder.json")["features"];
    let rows = pattern(3 * 28 * 28);
    for &runtime in runtimes() {
        for threads in [1, 2] {
            let options = Options { threads, ..Options::default() };
            let model = Model::open(&ModelSource::Path(path.clone()), runtime, &options).unwrap();
            let input = Input { name: "image", shape: &[3, 1, 28, 28], values: Values::Floats(&rows) };
            let outputs = model.run(&[input]).unwrap();
            golden.assert_close(&outputs[0].shape, &outputs[0].values, 2e-6);
            // One row at a time gives the same features, up to the order of sums.
            let row = Input { shape: &[1, 1, 28, 28], values: Values::Floats(&rows[..784]), ..input };
            let first = model.run(&[row]).unwrap();
            let largest = outputs[0].values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
            let near = |(one, other): (&f32, &f32)| (one - other).abs() <= 4e-6 * largest;
            assert!(first[0].values.iter().zip(&outputs[0].values).all(near));
        }
    }
}

#[test]
fn every_float_type_is_converted() {
    let rows = eighths(15);
    for &runtime in runtimes() {
        for name in ["half.onnx", "double.onnx", "external.onnx"] {
            let model = open(name, runtime);
            assert_eq!(model.inputs()[0].element, Element::Floats);
            let outputs = model.run(&[floats(&[5, 3], &rows)]).unwrap();
            let expected = Output { name: "y".to_owned(), shape: vec![5, 2], values: product(&rows) };
            assert_eq!(outputs, [expected], "{name} in {runtime}");
        }
    }
}

#[test]
fn integers_are_passed_and_outputs_are_chosen() {
    let (ids, mask) = ([1, 2, 9, 0], [1, 0, 1, 1]);
    for &runtime in runtimes() {
        let model = open("tokens.onnx", runtime);
        assert!(model.inputs().iter().all(|input| input.element == Element::Integers && input.shape == [None, None]));
        let input = |name, values| Input { name, shape: &[2, 2], values: Values::Integers(values) };
        // Inputs in another order than the model's.
        let inputs = [input("mask", &mask), input("ids", &ids)];
        let outputs = model.run_for(&inputs, &["sum"]).unwrap();
        // Row i of the table is (2 i, 2 i + 1).
        let sum = Output { name: "sum".to_owned(), shape: vec![2, 2], values: vec![2.0, 3.0, 18.0, 20.0] };
        assert_eq!(outputs, std::slice::from_ref(&sum), "{runtime}");
        let hidden = vec![2.0, 3.0, 0.0, 0.0, 18.0, 19.0, 0.0, 1.0];
        let hidden = Output { name: "hidden".to_owned(), shape: vec![2, 2, 2], values: hidden };
        assert_eq!(model.run(&inputs).unwrap(), [hidden, sum], "{runtime}");
    }
}

#[test]
fn a_fixed_batch_size_takes_any_number_of_samples() {
    for &runtime in runtimes() {
        let model = open("fixed_batch.onnx", runtime);
        assert_eq!(model.fixed_batch(), Some(4));
        assert_eq!(model.inputs()[0].shape, [Some(4), Some(3)]);
        for samples in [1, 3, 4, 5, 8, 11] {
            let rows = eighths(samples * 3);
            let outputs = model.run(&[floats(&[samples, 3], &rows)]).unwrap();
            assert_eq!(outputs[0].shape, [samples, 2], "{runtime}");
            assert_eq!(outputs[0].values, product(&rows), "{samples} samples in {runtime}");
        }
        assert_eq!(open("half.onnx", runtime).fixed_batch(), None);
        // An output without rows per sample is right for whole batches only.
        let mean = open("fixed_mean.onnx", runtime);
        assert!(mean.run(&[floats(&[4, 3], &eighths(12))]).is_ok());
        let said = mean.run(&[floats(&[3, 3], &eighths(9))]).unwrap_err().to_string();
        assert!(said.contains("output y has shape [1, 3] for 4 samples"), "{said}");
    }
}

#[test]
fn threads_share_a_model() {
    let rows = eighths(60);
    for &runtime in runtimes() {
        let model = open("fixed_batch.onnx", runtime);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        assert_eq!(model.run(&[floats(&[20, 3], &rows)]).unwrap()[0].values, product(&rows));
                    }
                });
            }
        });
    }
}

/// The Hugging Face cache holds links to files that have other names and lie in another folder.
#[cfg(unix)]
#[test]
fn data_files_are_found_through_links() {
    let folder = tempfile::TempDir::new().unwrap();
    let (blobs, snapshot) = (folder.path().join("blobs"), folder.path().join("snapshots"));
    std::fs::create_dir(&blobs).unwrap();
    std::fs::create_dir(&snapshot).unwrap();
    for (name, blob) in [("external.onnx", "1a"), ("external.onnx_data", "2b")] {
        std::fs::copy(fixture(name), blobs.join(blob)).unwrap();
        std::os::unix::fs::symlink(blobs.join(blob), snapshot.join(name)).unwrap();
    }
    let rows = eighths(6);
    for &runtime in runtimes() {
        let source = ModelSource::Path(snapshot.join("external.onnx"));
        let model = Model::open(&source, runtime, &Options::default()).unwrap();
        assert_eq!(model.run(&[floats(&[2, 3], &rows)]).unwrap()[0].values, product(&rows), "{runtime}");
    }
}

/// Features of another version are another cache, so the version must be the one that is compiled in.
#[test]
fn the_runtime_is_described_with_its_version() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = std::fs::read_to_string(lock).unwrap();
    let version = lock.split("name = \"rten\"\nversion = \"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(open("half.onnx", Runtime::Rten).describe(), format!("rten {version} on cpu"));
    if runtimes().contains(&Runtime::OnnxRuntime) {
        let described = open("half.onnx", Runtime::OnnxRuntime).describe();
        assert!(described.starts_with("onnxruntime 1.") && described.ends_with(" on cpu"), "{described}");
    }
}

/// rten would resize with a linear filter, and the features of DINOv2 would be a few percent off.
#[test]
fn cubic_filters_have_their_golden_outputs() {
    let golden = golden("cubic.json");
    let pixels = pattern(2 * 7 * 10);
    let image = floats(&[1, 2, 7, 10], &pixels);
    for &runtime in runtimes() {
        let outputs = open("cubic.onnx", runtime).run(&[image]).unwrap();
        assert_eq!(outputs.len(), 5);
        for output in outputs {
            golden[&output.name].assert_close(&output.shape, &output.values, 2e-6);
        }
        let within = open("cubic_branch.onnx", runtime).run(&[image]).unwrap();
        golden["scaled"].assert_close(&within[0].shape, &within[0].values, 2e-6);
    }
}

/// Such a model has no meaning in ONNX; onnxruntime refuses it, too.
#[test]
fn cubic_filters_do_not_change_the_number_of_channels() {
    let pixels = pattern(2 * 7 * 10);
    let model = open("cubic_channels.onnx", Runtime::Rten);
    let refused = model.run(&[floats(&[1, 2, 7, 10], &pixels)]).unwrap_err().to_string();
    assert!(refused.starts_with("rten cannot run the model (operator \"y/cubic/Reshape"), "{refused}");
}

#[test]
fn rten_refuses_cubic_filters_that_it_cannot_run() {
    let source = ModelSource::Path(fixture("cubic_excluding.onnx"));
    let refused = Model::open(&source, Runtime::Rten, &Options::default()).unwrap_err().to_string();
    assert_eq!(
        refused,
        "it resizes with a cubic filter with exclude_outside, which rten cannot run; use the runtime onnxruntime"
    );
    if runtimes().contains(&Runtime::OnnxRuntime) {
        open("cubic_excluding.onnx", Runtime::OnnxRuntime);
    }
}
