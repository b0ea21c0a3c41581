//! Texts of every file type, and what is said of files that cannot be used.

use std::path::{Path, PathBuf};

use modelmix_encode::samples::texts::{TextSamples, holds_texts};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/texts").join(name)
}

/// A folder with one file.
fn written(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    (folder, path)
}

/// The texts of a file with one arm, each with its id.
fn read(path: &Path, key: Option<&str>) -> Vec<(String, String)> {
    let mut arms = TextSamples::open(path, key).unwrap();
    assert_eq!(arms.len(), 1);
    let (_, samples) = arms.remove(0);
    assert!(!samples.is_empty());
    (0..samples.len()).map(|i| (samples.id(i), samples.text(i).to_string())).collect()
}

fn read_content(name: &str, content: impl AsRef<[u8]>, key: Option<&str>) -> Vec<(String, String)> {
    let (_folder, path) = written(name, content);
    read(&path, key)
}

/// The message of a file that is refused; it names the file and is one line.
fn refused(path: &Path, key: Option<&str>) -> String {
    let message = TextSamples::open(path, key).unwrap_err().to_string();
    let name = path.file_name().unwrap().to_string_lossy();
    assert!(message.contains(&*name) && !message.contains('\n') && message.len() < 900, "{message:?}");
    message
}

fn refused_content(name: &str, content: impl AsRef<[u8]>, key: Option<&str>) -> String {
    let (_folder, path) = written(name, content);
    refused(&path, key)
}

fn pairs<const N: usize>(expected: [(&str, &str); N]) -> Vec<(String, String)> {
    expected.map(|(id, text)| (id.to_string(), text.to_string())).to_vec()
}

const TOO_LONG: usize = (16 << 20) + 1;

#[test]
fn lines_of_text() {
    let content = "\u{feff}first\r\n\n second, naïve 👍🏽 \r\n \t\u{3000}\r\nthird\rwith a bare return\n\nlast";
    let (_folder, path) = written("some.texts.txt", content);
    let expected = [("1", "first"), ("3", " second, naïve 👍🏽 "), ("5", "third\rwith a bare return"), ("7", "last")];
    assert_eq!(read(&path, None), pairs(expected));
    let arms = TextSamples::open(&path, None).unwrap();
    assert_eq!(arms[0].0, "some.texts");
    assert_eq!(arms[0].1.blank_lines(), 3);
    // A byte order mark is one at the start alone, and NUL is a character.
    assert_eq!(read_content("a.txt", "a\n\u{feff}b\n\0\n", None), pairs([("1", "a"), ("2", "\u{feff}b"), ("3", "\0")]));
}

#[test]
fn lines_that_are_refused() {
    assert!(
        refused_content("a.txt", b"good\nbad \xff\n", None).contains("line 2 is not UTF-8; save the texts as UTF-8")
    );
    assert!(refused_content("a.txt", b"\xff\xfea\0\n\0", None).contains("line 1 is not UTF-8"));
    for nothing in ["", "\n \n", "\u{feff}"] {
        assert!(refused_content("a.txt", nothing, None).contains("there are no texts; give at least one"));
    }
    assert!(refused_content("a.txt", "a", Some("b")).contains("leave out the name \"b\""));
    assert!(refused_content("a.md", "a", None).contains("texts come from .txt, .jsonl"));
    let folder = tempfile::tempdir().unwrap();
    assert!(refused(&folder.path().join("none.txt"), None).contains("cannot read"));
    std::fs::create_dir(folder.path().join("folder.txt")).unwrap();
    assert!(refused(&folder.path().join("folder.txt"), None).contains("not a regular file"));
}

#[test]
fn texts_and_files_have_a_largest_size() {
    let mut longest = vec![b'a'; TOO_LONG - 1];
    longest.extend(b"\r\nb\n");
    let (_folder, path) = written("a.txt", &longest);
    let texts = read(&path, None);
    assert_eq!(texts.iter().map(|(_, text)| text.len()).collect::<Vec<_>>(), [TOO_LONG - 1, 1]);
    let long = "a".repeat(TOO_LONG);
    let message = "of more than 16 MiB";
    assert!(refused_content("a.txt", format!("b\n{long}\n"), None).contains("line 2 has more than 16 MiB"));
    assert!(refused_content("a.txt", format!("b\n{long}"), None).contains("line 2 has more than 16 MiB"));
    assert!(
        refused_content("a.json", format!("[\"b\", \"{long}\"]"), None)
            .contains(&format!("text 1 of \"a\" is a text {message}"))
    );
    assert!(
        refused_content("a.csv", format!("t\nb\n\"{long}\"\n"), Some("t"))
            .contains(&format!("line 3 is a text {message}"))
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.txt");
    // A file without blocks, so that the disk does not fill.
    std::fs::File::create(&path).unwrap().set_len((4 << 30) + 1).unwrap();
    assert!(refused(&path, None).contains("4294967297 bytes are more than the 4 GiB allowed"));
}

#[test]
fn lines_of_json() {
    let content = "\u{feff}\"a \\u00e9\\n\"\n\n{\"id\": [1, {\"text\": 2}], \"text\": \"b\"}\r\n  \n{\"text\": \"\"}";
    assert_eq!(read_content("a.jsonl", content, None), pairs([("1", "a é\n"), ("3", "b"), ("5", "")]));
    let content = "{\"text\": 1, \"answer\": \"yes\"}\n\"plain\"\n";
    assert_eq!(read_content("a.jsonl", content, Some("answer")), pairs([("1", "yes"), ("2", "plain")]));
    let wrong = [
        ("{\"other\": \"a\"}", "an object has no \"text\""),
        ("{\"text\": null}", "invalid type: null"),
        ("{\"text\": \"a\", \"text\": \"b\"}", "\"text\" is there twice"),
        ("5", "invalid type: integer"),
        ("null", "invalid type: null"),
        ("\"a\" \"b\"", "trailing characters"),
        ("\"a", "EOF"),
        ("\"\\ud800\"", "hex escape"),
    ];
    for (line, reason) in wrong {
        let message = refused_content("a.jsonl", format!("\"fine\"\n{line}\n"), None);
        assert!(message.contains("line 2 is neither") && message.contains("named \"text\""), "{message}");
        assert!(message.contains(reason), "{line}: {message}");
        assert!(!message.contains("line 1"), "{message}");
    }
    // Fields that are not texts may be anything.
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let content = format!("{{\"a\": {nested}, \"text\": \"b\"}}");
    assert_eq!(read_content("a.jsonl", content, None), pairs([("1", "b")]));
}

#[test]
fn documents_of_json() {
    let content = "\u{feff} {\"left\": [\"a\", {\"text\": \"b\", \"x\": 1}], \"right\": [\"c\"]} ";
    let (_folder, path) = written("arms.json", content);
    let arms = TextSamples::open(&path, None).unwrap();
    let all: Vec<(&str, Vec<&str>)> =
        arms.iter().map(|(name, texts)| (name.as_str(), (0..texts.len()).map(|i| texts.text(i)).collect())).collect();
    assert_eq!(all, [("left", vec!["a", "b"]), ("right", vec!["c"])]);
    let picked = TextSamples::open(&path, Some("right")).unwrap();
    assert_eq!((picked.len(), picked[0].0.as_str(), picked[0].1.text(0)), (1, "right", "c"));
    assert!(
        refused(&path, Some("rigth"))
            .contains("no arm named \"rigth\" (did you mean \"right\"?); give one of left, right")
    );
    assert_eq!(
        read_content("a.json", "[\"a\", \"\", {\"text\": \"b\"}]", None),
        pairs([("0", "a"), ("1", ""), ("2", "b")])
    );
    assert_eq!(read_content("a.json", "[{\"answer\": \"a\"}]", Some("answer")), pairs([("0", "a")]));
    for (content, reason) in [
        ("[\"a\", 1]", "nor a list of texts"),
        ("{\"a\": \"b\"}", "invalid type: string"),
        ("[\"a\"] x", "trailing characters"),
        ("[\"a\"", "EOF"),
        ("5", "neither an object"),
        ("", "EOF"),
        ("[]", "there are no texts; give at least one"),
        ("{}", "there are no texts; give at least one"),
        ("{\"a\": [\"b\"], \"c\": []}", "there are no texts in \"c\""),
        ("{\"a\": [\"b\"], \"a\": [\"c\"]}", "two arms are named \"a\""),
        ("[[\"a\"]]", "invalid type: sequence"),
    ] {
        let message = refused_content("a.json", content, None);
        assert!(message.contains(reason), "{content}: {message}");
    }
    assert!(refused_content("a.json", "[".repeat(1 << 20), None).contains("list of texts"));
    assert!(refused_content("a.json", b"[\"\xff\"]", None).contains("list of texts"));
}

#[test]
fn columns_of_tables() {
    let content =
        "\u{feff}id, text ,label\r\n1,plain,x\r\n2,\"comma, \"\"quote\"\"\r\nand line\",y\r\n3,,z\r\n\r\n4, kept ,\r\n";
    let expected = [("0", "plain"), ("1", "comma, \"quote\"\r\nand line"), ("2", ""), ("3", " kept ")];
    assert_eq!(read_content("a.csv", content, Some("text")), pairs(expected));
    let last = "id,text\r\n1,\"a\"\r\n\r\n2,b\r\n3,\"\"\r\n4,c";
    assert_eq!(read_content("a.csv", last, Some("text")), pairs([("0", "a"), ("1", "b"), ("2", ""), ("3", "c")]));
    let alone = "text\n\"\"\n\na\n";
    assert_eq!(read_content("a.csv", alone, Some("text")), pairs([("0", ""), ("1", "a")]));
    let tabs = "id\ttext\n1\ta, b\n2\tc";
    assert_eq!(read_content("a.tsv", tabs, Some("text")), pairs([("0", "a, b"), ("1", "c")]));
    for (content, key, reason) in [
        ("id,text\n1,a", None, "a.csv:COLUMN, one of id, text"),
        ("id,text\n1,a", Some("texts"), "no column named \"texts\" (did you mean \"text\"?); give one of id, text"),
        ("text,text\n1,a", Some("text"), "2 columns are named \"text\"; rename all but one"),
        ("id,text\n1,a\n2\n", Some("text"), "line 3 ends before cell 2, which is column \"text\""),
        ("id,text\n", Some("text"), "there are no texts; give at least one"),
        ("", Some("text"), "there are no lines; give a header"),
        ("id,text\n1,\"a\n2,b\n", Some("text"), "line 2: a quote is not closed; close it"),
        ("id,text\n\n\"1\n\",\"a\n2,b", Some("text"), "line 4: a quote is not closed; close it"),
        ("id,\"text\n1,a\n", Some("text"), "line 1: a quote is not closed; close it"),
    ] {
        let message = refused_content("a.csv", content, key);
        assert!(message.contains(reason), "{content:?}: {message}");
    }
    assert!(refused_content("a.csv", b"text\na\n\xff\n", Some("text")).contains("line 3 is not UTF-8"));
    let after_blank_lines = b"id,text\r\n\r\n1,\"two\r\nlines\"\r\n\r\n2,\"\xff\r\n\"";
    assert!(refused_content("a.csv", after_blank_lines, Some("text")).contains("line 6 is not UTF-8"));
}

fn expected(name: &str) -> Vec<String> {
    let all: serde_json::Value = serde_json::from_slice(&std::fs::read(fixture("expected.json")).unwrap()).unwrap();
    all[name].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_string()).collect()
}

#[test]
fn columns_of_parquet_in_every_encoding_and_compression() {
    let few = [
        "plain_none",
        "plain_snappy",
        "plain_gzip",
        "plain_zstd",
        "plain_lz4",
        "dictionary",
        "dictionary_version2",
        "required",
        "large",
        "view",
        "categories",
        "groups",
        "lengths",
        "polars",
        "beside",
    ];
    let many = ["many_plain", "many_lengths", "many_fallback"];
    let long = ["long_header"];
    for (names, expected) in [(&few[..], expected("few")), (&many[..], expected("many")), (&long[..], expected("long"))]
    {
        let expected: Vec<(String, String)> =
            expected.into_iter().enumerate().map(|(row, text)| (row.to_string(), text)).collect();
        for name in names {
            let path = fixture(&format!("{name}.parquet"));
            assert_eq!(read(&path, Some("text")), expected, "{name}");
            assert_eq!(TextSamples::open(&path, Some("text")).unwrap()[0].0, *name);
        }
    }
}

#[test]
fn columns_of_parquet_that_are_refused() {
    let refused = |name: &str, key: Option<&str>| refused(&fixture(&format!("{name}.parquet")), key);
    let text = Some("text");
    assert!(refused("null", text).contains("row 2 (counted from 0) of column text is null; drop the row or fill"));
    assert!(refused("not_utf8", text).contains("row 1 (counted from 0) of column text is not UTF-8"));
    assert!(refused("prefixes", text).contains("not PLAIN, RLE_DICTIONARY or DELTA_LENGTH_BYTE_ARRAY"));
    assert!(refused("beside", None).contains("beside.parquet:COLUMN, one of text, other"));
    assert!(refused("beside", Some("txt")).contains("no column of texts named \"txt\" (did you mean \"text\"?)"));
    assert!(refused("beside", Some("features")).contains("\"features\" is not one of texts; give one of text, other"));
    assert!(refused("bomb", text).contains("the texts take more than 67108864 bytes"));
}

/// Truncated and corrupted files are refused, or are texts, but never a panic.
#[test]
fn damaged_parquet_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.parquet");
    let mut refusals = 0;
    for name in ["plain_none", "dictionary", "lengths", "dictionary_version2", "plain_snappy", "plain_lz4"] {
        let bytes = std::fs::read(fixture(&format!("{name}.parquet"))).unwrap();
        for at in 0..bytes.len() {
            std::fs::write(&path, &bytes[..at]).unwrap();
            refused(&path, Some("text"));
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                std::fs::write(&path, damaged).unwrap();
                if TextSamples::open(&path, Some("text")).is_err() {
                    refused(&path, Some("text"));
                    refusals += 1;
                }
            }
        }
    }
    assert!(refusals > 1000, "{refusals}");
}

#[test]
fn files_of_texts_are_told_from_features() {
    let text = Some("text");
    for name in ["a.txt", "A.TXT", "a.jsonl", "a.json"] {
        assert!(holds_texts(Path::new(name), None) && holds_texts(Path::new(name), text), "{name}");
    }
    for name in ["a.csv", "a.tsv"] {
        assert!(!holds_texts(Path::new(name), None) && holds_texts(Path::new(name), text), "{name}");
    }
    for name in ["a.npy", "a.png", "a", "txt", "a.parquet"] {
        assert!(!holds_texts(Path::new(name), None) && !holds_texts(Path::new(name), text), "{name}");
    }
    let beside = fixture("beside.parquet");
    assert!(holds_texts(&beside, text));
    for key in [None, Some("features"), Some("number"), Some("unknown")] {
        assert!(!holds_texts(&beside, key), "{key:?}");
    }
    // There are no features in this file, so that a wrong name is one of texts.
    assert!(holds_texts(&fixture("polars.parquet"), Some("txet")));
    assert!(!holds_texts(&fixture("numbers.parquet"), text));
}
