//! Comma-separated values: with and without a header, and what is rejected.

use modelmix::load::{arms, arrays, features};
use modelmix::{Error, Features};
use proptest::prelude::*;

use super::{expected, fixture, folder, refused, source};

/// Reads `text` as a `.csv` file.
fn read(test: &str, text: impl AsRef<[u8]>) -> Result<Features, Error> {
    let folder = folder(test);
    let path = folder.join("file.csv");
    std::fs::write(&path, text).unwrap();
    features(path, None)
}

fn rows(rows: &[[f32; 2]]) -> Features {
    Features::from_rows(rows).unwrap()
}

#[test]
fn csv_with_and_without_names() {
    for name in ["plain.csv", "header.csv", "tabs.tsv"] {
        assert_eq!(features(fixture(name), None).unwrap(), expected(0.0), "{name}");
    }
    assert_eq!(arrays(fixture("header.csv")).unwrap(), [("header".to_string(), expected(0.0))]);
    let path = fixture("plain.csv").display().to_string();
    assert_eq!(arms(&[source(&path), source(&format!("flow={path}"))]).unwrap().names(), ["plain", "flow"]);
    refused(features(fixture("plain.csv"), Some("a")), &["plain.csv", "leave out the name \"a\""]);
    refused(arms(&[source(&format!("{path}:a"))]), &["leave out the name"]);
}

#[test]
fn what_may_surround_numbers() {
    let two = rows(&[[1.0, -2.5], [3e-3, 4.0]]);
    for text in [
        "1,-2.5\n3e-3,4",
        "1,-2.5\r\n3e-3,4\r\n",
        "\n\n1, -2.5\n  \n3e-3 ,+4.0\n\n",
        "\"1\",\"-2.5\"\n0.003,4\n",
        "a,b\n1,-2.5\n3e-3,4\n",
        "\n\"x, y\",\"p\nq\"\n1,-2.5\n3e-3,4\n",
        "\u{feff}1,-2.5\n3e-3,4\n",
        "\u{feff}größe,b\n1,-2.5\n3e-3,4\n",
        "label,1\n1,-2.5\n3e-3,4\n",
    ] {
        assert_eq!(read("around", text).unwrap(), two, "{text:?}");
    }
    let three = Features::from_rows([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).unwrap();
    assert_eq!(read("around", "0,1,2\n1,2,3\n4,5,6\n").unwrap(), three, "pandas' names for columns without one");
    assert_eq!(read("around", "0,1\n1,0\n").unwrap(), rows(&[[0.0, 1.0], [1.0, 0.0]]), "two columns may be data");
}

#[test]
fn csv_that_is_none() {
    for (text, words) in [
        ("1,2\n3\n", ["line 2 has 1 values", "line 1 has 2"]),
        ("a,b\n\n1,2\n3,4,5\n", ["line 4 has 3 values", "line 1 has 2"]),
        ("a,b\n1,2\n3,cat\n", ["line 3, column 2 is \"cat\"", "numbers only"]),
        ("1,2\n3,\n", ["line 2, column 2 is empty", "fill it"]),
        ("1,2\n,\n", ["line 2, column 1 is empty", "fill it"]),
        (",0,1\n0,1,2\n1,3,4\n", ["line 1, column 1 is empty", "index=False"]),
        ("1.5,x\n1,2\n3,4\n", ["line 1, column 2 is \"x\"", "not a number"]),
        ("1;2\n3;4\n5;6\n", ["line 2, column 1 is \"3;4\"", "separate values with commas"]),
        ("1,2\n\u{1b}[2J,4\n", ["line 2, column 1", "not a number"]),
        ("a,b\n", ["there are no rows", "one line of numbers per sample"]),
        ("\n\n", ["there are no rows", "file.csv"]),
        ("1,2\n", ["1 row", "at least 2"]),
        ("a,b\n1,2\n", ["1 row", "at least 2"]),
    ] {
        refused(read("none", text), &[&["file.csv"], words.as_slice()].concat());
    }
    refused(read("none", b"1,2\n\xff\xfe,4\n"), &["line 2, column 1", "not a number"]);
    refused(read("none", "x".repeat(100_000) + "\n" + &"y".repeat(100_000)), &["line 2, column 1", "not a number"]);
    refused(features(fixture("spaces.csv"), None), &["spaces.csv", "line 2, column 1", "separate values with commas"]);
    refused(read("none", ""), &["empty"]);
    refused(read("none", "\"1,2\n3,4\n"), &["there are no rows"]);
}

#[test]
fn csv_that_is_not_finite() {
    for (cell, is) in [("nan", f64::NAN), ("-inf", f64::NEG_INFINITY), ("1e39", 1e39), ("1e999", f64::INFINITY)] {
        let error = read("finite", format!("a,b\n1,2\n\n3,{cell}\n")).unwrap_err();
        match &error {
            Error::NotFinite { row: 1, column: 1, value, .. } => {
                assert!(*value == is || value.is_nan() && is.is_nan(), "{cell}: {value}");
            }
            other => panic!("{cell}: {other:?}"),
        }
        refused::<()>(Err(error), &["file.csv (line 4)", "row 1, column 1"]);
    }
}

proptest! {
    #![proptest_config(crate::config(64))]

    #[test]
    fn what_is_written_comes_back(
        (width, values) in (1_usize..6)
            .prop_flat_map(|width| (Just(width), prop::collection::vec(-1e30_f32..1e30, width * 2..width * 20))),
        names in any::<bool>(),
        quoted in any::<bool>(),
        ending in prop::sample::select(vec!["\n", "\r\n", "\n\n"]),
    ) {
        let values = values[..values.len() / width * width].to_vec();
        let mut text = String::new();
        if names {
            text += &(0..width).map(|column| format!("feature {column}")).collect::<Vec<_>>().join(",");
            text += ending;
        }
        for row in values.chunks(width) {
            let cell = |value: &f32| if quoted { format!("\"{value:e}\"") } else { value.to_string() };
            text += &row.iter().map(cell).collect::<Vec<_>>().join(",");
            text += ending;
        }
        prop_assert_eq!(read("property", text).unwrap(), Features::new(width, values).unwrap());
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        cells in prop::collection::vec("[-0-9eE.,;\"\n\r a\u{e9}]{0,12}", 0..20),
        bytes in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        for content in [cells.concat().into_bytes(), bytes] {
            if let Err(error) = read("bytes", content) {
                let text = error.to_string();
                prop_assert!(!text.contains('\n') && text.len() < 600, "{:?}", text);
            }
        }
    }
}
