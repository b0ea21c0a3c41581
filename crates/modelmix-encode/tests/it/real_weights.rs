//! A slice of the real all-MiniLM-L6-v2, made by `tools/golden_minilm.py`: its tokenizer, settings and embeddings, without its
//! layers. The whole weights are compared in `make test-peers`.

use std::path::{Path, PathBuf};

use modelmix::load::ArmSource;
use modelmix_encode::encode::{self, Encoder, EncoderSettings, OnError, RunSettings};
use modelmix_encode::runtime::Runtime;
use modelmix_encode::samples::Samples;
use modelmix_encode::weights::{Environment, Platform};
use serde::Deserialize;

use crate::models::runtimes;

#[derive(Deserialize)]
struct Sentences {
    texts: Vec<String>,
    features: Vec<Vec<f32>>,
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/minilm")
}

fn open_with(folder: &Path, runtime: Runtime) -> Encoder {
    let mut settings = EncoderSettings::new("all-minilm-l6-v2", Environment::new(Platform::Unix, []));
    (settings.weights, settings.runtime) = (Some(folder.into()), runtime);
    encode::open(&settings).unwrap()
}

fn open_texts(path: &Path) -> Samples {
    Samples::open(&ArmSource { name: None, path: path.into(), key: None }).unwrap().remove(0).1
}

/// A tokenizer without a token for unknown words refuses some texts, which are skipped like broken images.
#[test]
fn texts_that_cannot_be_tokenized_are_refused_or_skipped() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["model.onnx", "modules.json", "sentence_bert_config.json"] {
        std::fs::copy(fixture().join(name), folder.path().join(name)).unwrap();
    }
    let mut tokenizer: serde_json::Value =
        serde_json::from_slice(&std::fs::read(fixture().join("tokenizer.json")).unwrap()).unwrap();
    tokenizer["model"]["unk_token"] = "no such token".into();
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let golden: Sentences = serde_json::from_slice(&std::fs::read(fixture().join("golden.json")).unwrap()).unwrap();
    let known = golden.texts.iter().find(|text| text.is_ascii() && text.len() > 3).unwrap();
    let path = folder.path().join("texts.txt");
    std::fs::write(&path, format!("{known}\n\u{1f9ff}\u{16a0}\n{known}\n")).unwrap();
    let encoder = open_with(folder.path(), Runtime::Rten);
    let run = |on_error: OnError| {
        let mut settings = RunSettings::default();
        settings.on_error = on_error;
        encode::encode(&encoder, &open_texts(&path), &settings, None, &|_| {})
    };
    let refused = run(OnError::Refuse).unwrap_err().to_string();
    assert!(refused.contains("cannot be tokenized") && refused.contains("skip"), "{refused}");
    let encoded = run(OnError::Skip).unwrap();
    assert_eq!((encoded.rows, encoded.skipped.len()), (vec![0, 2], 1));
    assert_eq!(encoded.features.row(0), encoded.features.row(1));
}

#[test]
fn minilm_has_the_features_of_sentence_transformers() {
    let golden: Sentences = serde_json::from_slice(&std::fs::read(fixture().join("golden.json")).unwrap()).unwrap();
    let texts = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
    let lines: Vec<String> = golden.texts.iter().map(|text| serde_json::json!({ "text": text }).to_string()).collect();
    std::fs::write(texts.path(), lines.join("\n")).unwrap();
    let samples = open_texts(texts.path());
    for &runtime in runtimes() {
        let encoder = open_with(&fixture(), runtime);
        let encoded = encode::encode(&encoder, &samples, &RunSettings::default(), None, &|_| {}).unwrap();
        assert_eq!(encoded.features.len(), golden.texts.len());
        for (row, golden) in encoded.features.view().iter().zip(&golden.features) {
            let error = row.iter().zip(golden).map(|(found, golden)| (found - golden).abs()).fold(0.0, f32::max);
            assert!(error < 1e-6, "the largest error is {error:e}");
        }
    }
}
