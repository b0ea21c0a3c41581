//! Token ids against those of transformers, for tokenizers of three families and difficult texts.

use std::path::{Path, PathBuf};

use modelmix_encode::tokens::Tokenizer;
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokens").join(name)
}

fn golden() -> Value {
    serde_json::from_slice(&std::fs::read(fixture("golden.json")).unwrap()).unwrap()
}

fn numbers(list: &Value) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

/// The texts, and which of them are written in full.
fn texts(golden: &Value) -> Vec<(String, bool)> {
    let text = |value: &Value| match value {
        Value::String(text) => (text.clone(), true),
        piece => (piece[0].as_str().unwrap().repeat(piece[1].as_u64().unwrap() as usize), false),
    };
    golden["texts"].as_array().unwrap().iter().map(text).collect()
}

const FAMILIES: [&str; 3] = ["wordpiece", "byte-level", "unigram"];

fn open(family: &str, max_length: Option<usize>) -> Tokenizer {
    Tokenizer::open(&fixture(&format!("{family}.json")), max_length).unwrap()
}

#[test]
fn ids_are_those_of_transformers() {
    let golden = golden();
    for family in FAMILIES {
        let tokenizer = open(family, None);
        let alone = golden["families"][family]["alone"].as_array().unwrap();
        let texts: Vec<String> = texts(&golden).into_iter().filter(|(_, full)| *full).map(|(text, _)| text).collect();
        assert_eq!(texts.len(), alone.len());
        assert!(texts.len() > 30);
        for (text, expected) in texts.iter().zip(alone) {
            let tokens = tokenizer.batch(&[text]).unwrap();
            assert_eq!(tokens.ids, numbers(expected), "{family}: {text:?}");
            assert_eq!(tokens.shape, [1, tokens.ids.len()]);
            assert!(tokens.mask.iter().all(|&mask| mask == 1));
        }
    }
}

#[test]
fn batches_are_truncated_padded_and_prefixed_as_in_transformers() {
    let golden = golden();
    let texts = texts(&golden);
    let texts: Vec<&str> = texts.iter().map(|(text, _)| text.as_str()).collect();
    for family in FAMILIES {
        let expected = &golden["families"][family];
        let pad = expected["pad"].as_i64().unwrap();
        for batch in expected["batches"].as_array().unwrap() {
            let max_length = batch["max_length"].as_u64().unwrap() as usize;
            let tokenizer = open(family, Some(max_length)).with_prefix(batch["prefix"].as_str().unwrap());
            let tokens = tokenizer.batch(&texts).unwrap();
            let longest = batch["longest"].as_u64().unwrap() as usize;
            assert_eq!(tokens.shape, [texts.len(), longest]);
            assert!(longest <= max_length);
            assert!(tokens.types.iter().all(|&kind| kind == 0) && tokens.types.len() == tokens.ids.len());
            for (row, ids) in batch["ids"].as_array().unwrap().iter().enumerate() {
                let mut ids = numbers(ids);
                let mut mask = vec![1; ids.len()];
                ids.resize(longest, pad);
                mask.resize(longest, 0);
                let range = row * longest..(row + 1) * longest;
                assert_eq!(tokens.ids[range.clone()], ids, "{family}, {max_length}: {:?}", texts[row]);
                assert_eq!(tokens.mask[range], mask, "{family}, {max_length}: {:?}", texts[row]);
            }
        }
    }
}

#[test]
fn padding_does_not_depend_on_the_other_texts() {
    let golden = golden();
    let texts = texts(&golden);
    for family in FAMILIES {
        let tokenizer = open(family, Some(20));
        let all = tokenizer.batch(&texts.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>()).unwrap();
        for (row, (text, _)) in texts.iter().enumerate() {
            let one = tokenizer.batch(&[text]).unwrap();
            let start = row * all.shape[1];
            assert_eq!(all.ids[start..start + one.shape[1]], one.ids, "{family}: {text:?}");
        }
    }
    let none = open("wordpiece", Some(20)).batch(&[]).unwrap();
    assert_eq!((none.ids.len(), none.shape), (0, [0, 0]));
}

/// The wordpiece file has settings of padding; the others have none, so the token is found by its name.
#[test]
fn the_padding_token_is_found_or_named() {
    let golden = golden();
    for family in FAMILIES {
        let expected = &golden["families"][family];
        let tokenizer = open(family, None);
        assert_eq!(tokenizer.pad(), expected["pad"].as_i64().unwrap(), "{family}");
        let named = tokenizer.with_pad_token(expected["pad_token"].as_str().unwrap());
        assert_eq!(named.pad(), expected["pad"].as_i64().unwrap());
        assert_eq!(named.with_pad_token("no such token").pad(), expected["pad"].as_i64().unwrap());
    }
    let other = open("byte-level", None).with_pad_token("</s>");
    let tokens = other.batch(&["a", "a longer text"]).unwrap();
    assert_eq!(tokens.ids[tokens.shape[1] - 1], other.pad());
    assert_eq!(other.pad(), 2);
}

#[test]
fn lower_case_comes_before_the_normalizer() {
    // Unigram is the family here that keeps case.
    let tokenizer = open("unigram", None);
    let upper = tokenizer.batch(&["THE KERNEL DISTANCE"]).unwrap();
    let lower = tokenizer.batch(&["the kernel distance"]).unwrap();
    assert_ne!(upper.ids, lower.ids);
    let lowered = tokenizer.with_lower_case().unwrap();
    assert_eq!(lowered.batch(&["THE KERNEL DISTANCE"]).unwrap(), lower);
    let byte_level = open("byte-level", None);
    let lower = byte_level.batch(&["straße"]).unwrap();
    assert_eq!(byte_level.with_lower_case().unwrap().batch(&["STRAßE"]).unwrap(), lower);
}

#[test]
fn unusable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let refused = |max_length: Option<usize>| {
        let message = Tokenizer::open(&path, max_length).unwrap_err().to_string();
        assert!(message.contains("tokenizer.json") && !message.contains('\n') && message.len() < 500, "{message}");
        message
    };
    assert!(refused(None).contains("cannot read"));
    std::fs::create_dir(&path).unwrap();
    assert!(refused(None).contains("not a file"));
    std::fs::remove_dir(&path).unwrap();
    for content in ["", "{}", "[]", "{\"model\": {\"type\": \"\n\"}}", "\u{0}\u{1}"] {
        std::fs::write(&path, content).unwrap();
        assert!(refused(None).contains("this is not a tokenizer"), "{content:?}");
    }
    std::fs::copy(fixture("wordpiece.json"), &path).unwrap();
    for max_length in 0..=2 {
        assert!(refused(Some(max_length)).contains("2 are special tokens of every text; allow at least 3"));
    }
    let shortest = Tokenizer::open(&path, Some(3)).unwrap();
    assert_eq!(shortest.batch(&["a text of several words"]).unwrap().shape, [1, 3]);
}

/// Every prefix of a tokenizer file, and every file with one damaged byte, is refused or usable, without a panic.
#[test]
fn damaged_files_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    for family in FAMILIES {
        let bytes = std::fs::read(fixture(&format!("{family}.json"))).unwrap();
        for at in (0..bytes.len()).step_by(bytes.len() / 150) {
            std::fs::write(&path, &bytes[..at]).unwrap();
            assert!(Tokenizer::open(&path, Some(16)).is_err(), "{family}, cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x11;
            std::fs::write(&path, damaged).unwrap();
            if let Ok(tokenizer) = Tokenizer::open(&path, Some(16)) {
                let _ = tokenizer.batch(&["some text, naïve 👍🏽", ""]);
            }
        }
    }
}
