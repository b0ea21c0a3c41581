//! Tensors of PyTorch files against torch, and files that are damaged, forged or hostile.

mod hostile;

use std::collections::BTreeMap;

use modelmix_encode::torch_file::{Values, tensors};
use serde_json::Value as Json;

use crate::models::fixture;

#[test]
fn every_format_gives_torchs_tensors() {
    let golden: BTreeMap<String, BTreeMap<String, Json>> =
        serde_json::from_slice(&std::fs::read(fixture("tensors.json")).unwrap()).unwrap();
    assert_eq!(golden.len(), 6);
    for (file, golden) in golden {
        let found = tensors(&fixture(&file)).unwrap();
        let names = |keys: Vec<&String>| keys.into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(names(found.keys().collect()), names(golden.keys().collect()), "{file}");
        for (name, tensor) in found {
            let shape: Vec<usize> = serde_json::from_value(golden[&name]["shape"].clone()).unwrap();
            assert_eq!(tensor.shape(), shape, "{file} {name}");
            let expected = golden[&name]["values"].as_array().unwrap();
            let is = |made: Vec<Json>| assert_eq!(&made, expected, "{file} {name}");
            match tensor.values() {
                Values::Floats(values) => is(values.iter().map(|&value| f64::from(value).into()).collect()),
                Values::Doubles(values) => is(values.iter().map(|&value| value.into()).collect()),
                Values::Integers(values) if name == "types.bool" => {
                    is(values.iter().map(|&value| (value != 0).into()).collect());
                }
                Values::Integers(values) => is(values.iter().map(|&value| value.into()).collect()),
            }
        }
    }
}

#[test]
fn element_types_are_kept_apart() {
    let found = tensors(&fixture("state.pth")).unwrap();
    assert!(matches!(found["types.half"].values(), Values::Floats(_)));
    assert!(matches!(found["types.double"].values(), Values::Doubles(_)));
    assert!(matches!(found["types.byte"].values(), Values::Integers(_)));
    assert_eq!(found["types.long"].to_f64(), [2.0_f64.powi(62), -1.0]);
}

#[test]
fn pickles_that_could_run_code_are_refused_by_name() {
    let said = tensors(&fixture("runs.pth")).unwrap_err().to_string();
    assert!(said.contains("posix.system"), "{said}");
    let said = tensors(&fixture("module.pth")).unwrap_err().to_string();
    assert!(said.contains("torch.nn.modules.linear.Linear") && said.contains("state_dict"), "{said}");
}
