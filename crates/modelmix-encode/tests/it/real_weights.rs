//! A slice of the real all-MiniLM-L6-v2, made by `tools/golden_minilm.py`: its tokenizer, settings and embeddings, without its
//! layers. The whole weights are compared in `make test-peers`.

use std::path::Path;

use modelmix::load::ArmSource;
use modelmix_encode::encode::{self, EncoderSettings, RunSettings};
use modelmix_encode::samples::Samples;
use modelmix_encode::weights::{Environment, Platform};
use serde::Deserialize;

use crate::models::runtimes;

#[derive(Deserialize)]
struct Sentences {
    texts: Vec<String>,
    features: Vec<Vec<f32>>,
}

#[test]
fn minilm_has_the_features_of_sentence_transformers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/minilm");
    let golden: Sentences = serde_json::from_slice(&std::fs::read(folder.join("golden.json")).unwrap()).unwrap();
    let texts = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
    let lines: Vec<String> = golden.texts.iter().map(|text| serde_json::json!({ "text": text }).to_string()).collect();
    std::fs::write(texts.path(), lines.join("\n")).unwrap();
    let source = ArmSource { name: None, path: texts.path().into(), key: None };
    let samples = Samples::open(&source).unwrap().remove(0).1;
    for &runtime in runtimes() {
        let mut settings = EncoderSettings::new("all-minilm-l6-v2", Environment::new(Platform::Unix, []));
        (settings.weights, settings.runtime) = (Some(folder.clone()), runtime);
        let encoder = encode::open(&settings).unwrap();
        let encoded = encode::encode(&encoder, &samples, &RunSettings::default(), None, &|_| {}).unwrap();
        assert_eq!(encoded.features.len(), golden.texts.len());
        for (row, golden) in encoded.features.view().iter().zip(&golden.features) {
            let error = row.iter().zip(golden).map(|(found, golden)| (found - golden).abs()).fold(0.0, f32::max);
            assert!(error < 1e-6, "the largest error is {error:e}");
        }
    }
}
