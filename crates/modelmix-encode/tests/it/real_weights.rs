//! A slice of the real all-MiniLM-L6-v2, made by `tools/golden_minilm.py`: its tokenizer, settings and embeddings, without its
//! layers. The whole weights are compared in `make test-peers`.

use std::path::{Path, PathBuf};

use modelmix::load::ArmSource;
use modelmix_encode::encode::{self, Encoded, Encoder, EncoderSettings, OnError, RunSettings};
use modelmix_encode::runtime::Runtime;
use modelmix_encode::samples::Samples;
use modelmix_encode::weights::{Environment, Platform};
use serde::Deserialize;
use tempfile::TempDir;

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
    Samples::open_with_problems(&ArmSource { name: None, path: path.into(), key: None }).unwrap().remove(0).1
}

/// A folder with the model and its tokenizer, changed.
fn with_tokenizer(change: impl FnOnce(&mut serde_json::Value)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["model.onnx", "modules.json", "sentence_bert_config.json"] {
        std::fs::copy(fixture().join(name), folder.path().join(name)).unwrap();
    }
    let mut tokenizer: serde_json::Value =
        serde_json::from_slice(&std::fs::read(fixture().join("tokenizer.json")).unwrap()).unwrap();
    change(&mut tokenizer);
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    folder
}

fn encoded(encoder: &Encoder, path: &Path, on_error: OnError) -> modelmix::Result<Encoded> {
    let mut settings = RunSettings::default();
    settings.on_error = on_error;
    encode::encode(encoder, &open_texts(path), &settings, None, &|_| {})
}

/// Lines that are not texts, and texts without tokens, are named, or skipped and counted, like images.
#[test]
fn broken_texts_are_refused_or_skipped() {
    // Without special tokens, an empty text has none.
    let folder = with_tokenizer(|tokenizer| tokenizer["post_processor"] = serde_json::Value::Null);
    let encoder = open_with(folder.path(), Runtime::Rten);
    let run = |name: &str, text: &[u8], on_error: OnError| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        encoded(&encoder, &path, on_error)
    };
    let lines: &[u8] = b"\"a cat\"\n{\"other\": \"b\"}\n\"\"\n\"\xff\"\n{\"text\": \"a dog\"}\n";
    let refused = run("a.jsonl", lines, OnError::Refuse).unwrap_err().to_string();
    assert!(refused.contains("a.jsonl: line 2 is neither") && refused.contains("skip"), "{refused}");
    let kept = run("a.jsonl", lines, OnError::Skip).unwrap();
    assert_eq!(kept.rows, [0, 4]);
    assert_eq!(kept.skipped.iter().map(|skipped| skipped.id.as_str()).collect::<Vec<_>>(), ["2", "3", "4"]);
    let problems: Vec<String> = kept.skipped.iter().map(|skipped| skipped.problem.to_string()).collect();
    assert!(problems[1].starts_with("line 3: the text has no tokens; "), "{problems:?}");
    assert!(problems[2].starts_with("line 4 is not UTF-8; "), "{problems:?}");
    let refused = run("b.jsonl", b"\"\"\n\"a\"\n", OnError::Refuse).unwrap_err().to_string();
    assert!(refused.contains("b.jsonl: line 1: the text has no tokens; "), "{refused}");
    let source = ArmSource { name: None, path: folder.path().join("a.jsonl"), key: None };
    let strict = Samples::open(&source).unwrap_err().to_string();
    assert!(strict.contains("a.jsonl: line 2 is neither"), "{strict}");
    let none = run("c.txt", b"\xff\n", OnError::Skip).unwrap_err().to_string();
    assert!(none.contains("no sample could be read") && none.contains("line 1 is not UTF-8"), "{none}");
}

/// A tokenizer without a token for unknown words refuses some texts, which are skipped like broken images.
#[test]
fn texts_that_cannot_be_tokenized_are_refused_or_skipped() {
    let folder = with_tokenizer(|tokenizer| tokenizer["model"]["unk_token"] = "no such token".into());
    let golden: Sentences = serde_json::from_slice(&std::fs::read(fixture().join("golden.json")).unwrap()).unwrap();
    let known = golden.texts.iter().find(|text| text.is_ascii() && text.len() > 3).unwrap();
    let path = folder.path().join("texts.txt");
    std::fs::write(&path, format!("{known}\n\u{1f9ff}\u{16a0}\n{known}\n")).unwrap();
    let encoder = open_with(folder.path(), Runtime::Rten);
    let run = |on_error: OnError| encoded(&encoder, &path, on_error);
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
