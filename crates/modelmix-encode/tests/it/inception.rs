//! FID's Inception against torch's run of the same layers, with few channels, and files that are another network.

use std::collections::BTreeMap;

use modelmix_encode::inception::{self, INPUT, OUTPUT, SIDE};
use modelmix_encode::runtime::{Input, Model, ModelSource, Options, Values};
use modelmix_encode::torch_file::{self, Tensor};

use crate::models::{fixture, golden, pattern, runtimes};

fn thin() -> BTreeMap<String, Tensor> {
    torch_file::tensors(&fixture("thin_inception.pth")).unwrap()
}

#[track_caller]
fn problem(tensors: &BTreeMap<String, Tensor>) -> String {
    inception::onnx(tensors).unwrap_err().to_string()
}

#[test]
fn features_are_those_of_torch_under_both_namings() {
    let images = pattern(2 * 3 * SIDE * SIDE);
    for (file, golden) in golden("thin_inception.json") {
        let bytes = inception::onnx(&torch_file::tensors(&fixture(&file)).unwrap()).unwrap();
        for &runtime in runtimes() {
            let options = Options { threads: 1, ..Options::default() };
            let model = Model::open(&ModelSource::Bytes(bytes.clone()), runtime, &options).unwrap();
            assert_eq!(model.inputs()[0].shape, [None, Some(3), Some(SIDE), Some(SIDE)]);
            assert_eq!(model.outputs()[0].shape, [None, Some(golden.shape[1])]);
            let input = Input { name: INPUT, shape: &[2, 3, SIDE, SIDE], values: Values::Floats(&images) };
            let outputs = model.run(&[input]).unwrap();
            assert_eq!(outputs[0].name, OUTPUT);
            golden.assert_close(&outputs[0].shape, &outputs[0].values, 2e-6);
        }
    }
}

#[test]
fn weights_may_lie_below_other_keys() {
    let nested = thin().into_iter().map(|(name, tensor)| (format!("model.{name}"), tensor)).collect();
    assert_eq!(inception::onnx(&nested).unwrap(), inception::onnx(&thin()).unwrap());
}

#[test]
fn missing_tensors_are_listed() {
    let mut tensors = thin();
    tensors.retain(|name, _| !name.starts_with("Mixed_6c.branch7x7_1"));
    let said = problem(&tensors);
    assert!(said.contains("Mixed_6c.branch7x7_1.conv.weight, Mixed_6c.branch7x7_1.bn.weight"), "{said}");
    assert!(said.contains(" and 2 more are missing"), "{said}");
}

#[test]
fn other_networks_are_refused() {
    let said = problem(&torch_file::tensors(&fixture("state.pth")).unwrap());
    assert!(said.contains("it has neither Conv2d_1a_3x3.conv.weight nor layers.conv.weight"), "{said}");
    assert!(said.contains("list.0, list.1.0, state_dict.empty, …"), "{said}");
    assert!(problem(&BTreeMap::new()).contains("no tensors"));

    // torchvision's own Inception has tensors of the same names, and two heads.
    let mut imagenet = thin();
    let weight = imagenet["Mixed_5b.branch1x1.conv.weight"].clone();
    imagenet.insert("AuxLogits.conv0.conv.weight".to_owned(), weight);
    let said = problem(&imagenet);
    assert!(said.contains("ImageNet"), "{said}");
}

#[test]
fn unexpected_shapes_are_refused() {
    let change = |name: &str, by: &str| {
        let mut tensors = thin();
        tensors.insert(name.to_owned(), tensors[by].clone());
        problem(&tensors)
    };
    // A kernel of 1 × 1 where 5 × 5 is expected.
    let said = change("Mixed_5b.branch5x5_2.conv.weight", "Mixed_5b.branch1x1.conv.weight");
    assert!(said.contains("Mixed_5b.branch5x5_2.conv.weight has shape"), "{said}");
    assert!(said.contains("[outputs, inputs, 5, 5]"), "{said}");
    // A normalisation of another width.
    let said = change("Mixed_5b.branch1x1.bn.bias", "Mixed_7c.branch3x3_1.bn.bias");
    assert!(said.contains("Mixed_5b.branch1x1.bn.bias has shape"), "{said}");
    // A vector in place of a kernel.
    let said = change("Conv2d_1a_3x3.conv.weight", "Conv2d_1a_3x3.bn.bias");
    assert!(said.contains("Conv2d_1a_3x3.conv.weight has shape"), "{said}");
    // A whole layer that takes other channels than the ones before it give.
    let mut tensors = thin();
    for part in ["conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"] {
        tensors.insert(format!("Mixed_6b.branch1x1.{part}"), tensors[&format!("Mixed_7c.branch1x1.{part}")].clone());
    }
    let said = problem(&tensors);
    assert!(said.contains("Mixed_6b.branch1x1 takes"), "{said}");
}
