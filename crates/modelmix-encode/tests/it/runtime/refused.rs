//! Models that cannot be run and inputs that do not fit: a sentence each, and never a panic.

use std::path::PathBuf;

use modelmix_encode::runtime::{Device, Input, Model, ModelSource, Options, Runtime, Values};

use super::{eighths, floats, open};
use crate::models::{fixture, runtimes};

#[track_caller]
fn unopened(source: &ModelSource, runtime: Runtime, because: &str) {
    let said = Model::open(source, runtime, &Options::default()).unwrap_err().to_string();
    assert!(said.contains(because), "{said}");
}

#[test]
fn an_operator_that_rten_lacks_is_named_with_the_remedy() {
    let source = ModelSource::Path(fixture("determinant.onnx"));
    unopened(&source, Runtime::Rten, "Det");
    unopened(&source, Runtime::Rten, "use the runtime onnxruntime");
    if runtimes().contains(&Runtime::OnnxRuntime) {
        let outputs = open("determinant.onnx", Runtime::OnnxRuntime).run(&[floats(&[1, 2, 2], &[1.0, 2.0, 3.0, 5.0])]);
        assert!((outputs.unwrap()[0].values[0] + 1.0).abs() < 1e-6);
    }
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    for &runtime in runtimes() {
        let model = open("external.onnx", runtime);
        let refused = |input: Input<'_>, because: &str| {
            let said = model.run(&[input]).unwrap_err().to_string();
            assert!(said.contains(because), "{said}");
        };
        let rows = eighths(6);
        refused(floats(&[2, 4], &rows), "6 elements, which do not fill the shape [2, 4]");
        refused(floats(&[0, 3], &[]), "do not fill the shape [0, 3]");
        refused(floats(&[usize::MAX, usize::MAX], &rows), "do not fill the shape");
        refused(floats(&[3, 2], &rows), "input x has shape [n, 3], but [3, 2] was given");
        refused(floats(&[6], &rows), "input x has shape [n, 3], but [6] was given");
        refused(Input { name: "z", ..floats(&[2, 3], &rows) }, "the model has no input z; its inputs are x");
        let integers = Input { values: Values::Integers(&[0; 6]), ..floats(&[2, 3], &rows) };
        refused(integers, "takes floats, but integers were given");
        let said = model.run(&[]).unwrap_err().to_string();
        assert!(said.contains("needs the input x"), "{said}");
        let said = model.run_for(&[floats(&[2, 3], &rows)], &["w"]).unwrap_err().to_string();
        assert!(said.contains("no output w; its outputs are y"), "{said}");

        let tokens = open("tokens.onnx", runtime);
        let input = |name, values| Input { name, shape: &[1, 2], values: Values::Integers(values) };
        // The table has ten rows.
        let said = tokens.run(&[input("ids", &[3, 10]), input("mask", &[1, 1])]).unwrap_err().to_string();
        assert!(said.contains("cannot run the model"), "{said}");
        if runtime == Runtime::Rten {
            let said = tokens.run(&[input("ids", &[3, 1 << 40]), input("mask", &[1, 1])]).unwrap_err().to_string();
            assert!(said.contains("1099511627776") && said.contains("use the runtime onnxruntime"), "{said}");
        }
    }
}

#[test]
fn damaged_models_are_refused() {
    let whole = std::fs::read(fixture("tokens.onnx")).unwrap();
    for &runtime in runtimes() {
        for bytes in [Vec::new(), b"hello".to_vec(), vec![0xff; 100], whole[..whole.len() / 2].to_vec()] {
            assert!(Model::open(&ModelSource::Bytes(bytes), runtime, &Options::default()).is_err());
        }
        let missing = ModelSource::Path(PathBuf::from("/nowhere/model.onnx"));
        assert!(Model::open(&missing, runtime, &Options::default()).is_err());
    }
    // A field of negative length after the graph, which would send a reader back to its start.
    let backwards = [whole.as_slice(), b"\xa2\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"].concat();
    unopened(&ModelSource::Bytes(backwards), Runtime::Rten, "it is not an ONNX model, or it is cut off");
    // Changed bytes: rten may refuse the model or run it, and its panics must not get out. Few are tried, as a panic with
    // a backtrace takes seconds.
    let ids = Input { name: "ids", shape: &[1, 2], values: Values::Integers(&[1, 2]) };
    let mask = Input { name: "mask", ..ids };
    let options = Options { threads: 1, ..Options::default() };
    for place in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        if let Ok(model) = Model::open(&ModelSource::Bytes(bytes), Runtime::Rten, &options) {
            let _ = model.run(&[ids, mask]);
        }
    }
}

#[test]
fn missing_data_files_are_refused() {
    let folder = tempfile::TempDir::new().unwrap();
    let model = folder.path().join("external.onnx");
    std::fs::copy(fixture("external.onnx"), &model).unwrap();
    unopened(&ModelSource::Path(model.clone()), Runtime::Rten, "its data file external.onnx_data is not beside it");
    if runtimes().contains(&Runtime::OnnxRuntime) {
        unopened(&ModelSource::Path(model.clone()), Runtime::OnnxRuntime, "cannot load the model");
    }
    // Too short for its tensor of 24 bytes.
    std::fs::write(folder.path().join("external.onnx_data"), [0; 23]).unwrap();
    unopened(&ModelSource::Path(model.clone()), Runtime::Rten, "cannot read the data file");
    // A name that leads out of the folder is not followed.
    let bytes = std::fs::read(&model).unwrap();
    let at = bytes.windows(18).position(|window| window == b"external.onnx_data").unwrap();
    let mut escaping = bytes.clone();
    escaping[at..at + 18].copy_from_slice(b"../al.../onnx_data");
    std::fs::write(&model, escaping).unwrap();
    unopened(&ModelSource::Path(model.clone()), Runtime::Rten, "which is not beside it");
    // A device has no end.
    let mut device = bytes;
    device[at..at + 18].copy_from_slice(b"/dev/../../dev/nul");
    std::fs::write(&model, &device).unwrap();
    unopened(&ModelSource::Path(model), Runtime::Rten, "which is not beside it");
}

#[test]
fn devices_and_libraries_that_cannot_be_had_are_refused() {
    let source = ModelSource::Path(fixture("half.onnx"));
    let cuda = Options { device: Device::Cuda(0), ..Options::default() };
    let said = Model::open(&source, Runtime::Rten, &cuda).unwrap_err().to_string();
    assert_eq!(said, "rten does not run on cuda:0; use the runtime onnxruntime for a GPU");
    let elsewhere = Options { library: Some("/nowhere/libonnxruntime.so".into()), ..Options::default() };
    let installed = runtimes().contains(&Runtime::OnnxRuntime);
    let said = Model::open(&source, Runtime::OnnxRuntime, &elsewhere).unwrap_err().to_string();
    let because = if installed { "can load only one" } else { "there is no such file" };
    assert!(said.contains(because) && said.contains("/nowhere/libonnxruntime.so"), "{said}");
    // A library that is another one, and a file that is none.
    if !installed {
        let folder = tempfile::TempDir::new().unwrap();
        let library = folder.path().join("libonnxruntime.so");
        std::fs::write(&library, "text").unwrap();
        let options = Options { library: Some(library), ..Options::default() };
        let said = Model::open(&source, Runtime::OnnxRuntime, &options).unwrap_err().to_string();
        assert!(said.contains("not a library of onnxruntime that can be used"), "{said}");
    }
}

#[test]
fn names_of_runtimes_and_devices_are_parsed() {
    for runtime in Runtime::ALL {
        assert_eq!(runtime.to_string().parse(), Ok(runtime));
    }
    for device in [Device::Cpu, Device::Cuda(0), Device::Cuda(3)] {
        assert_eq!(device.to_string().parse(), Ok(device));
    }
    assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
    assert!("tensorrt".parse::<Runtime>().unwrap_err().to_string().contains("use rten or onnxruntime"));
    for wrong in ["gpu", "cuda:", "cuda:-1", "cuda:x"] {
        assert!(wrong.parse::<Device>().unwrap_err().to_string().contains("use cpu, cuda"), "{wrong}");
    }
}
