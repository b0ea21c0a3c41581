//! Files written by NumPy, safetensors and pyarrow (`tools/make_load_fixtures.py`), and the arms in them.

mod about;
mod csv;
mod galleries;
mod hostile;
mod parquet;
mod shards;

use std::path::{Path, PathBuf};

use modelmix::load::{ArmSource, arms, arrays, features};
use modelmix::{Error, Features};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/load").join(name)
}

/// A temporary folder, removed at the end of the test.
struct Folder(PathBuf);

fn folder(test: &str) -> Folder {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("load-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    Folder(folder)
}

impl std::ops::Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The values that the script writes, increased by `shift`.
fn expected(shift: f32) -> Features {
    Features::from_rows((0..5).map(|i| [0, 1, 2].map(|j| ((i * 7 + j * 3) % 11) as f32 / 4.0 - 1.25 + shift))).unwrap()
}

/// The error message, which must contain all of `words` and be a single line.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &[&str]) -> String {
    let text = result.expect_err(&format!("{words:?}")).to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(!text.contains('\n') && text.len() < 600, "{text:?}");
    text
}

fn source(text: &str) -> ArmSource {
    text.parse().unwrap()
}

#[test]
fn npy_of_every_float_and_order() {
    for kind in ["f2", "f4", "f8"] {
        for bytes in ["little", "big"] {
            for order in ["c", "fortran"] {
                let name = format!("{kind}_{bytes}_{order}.npy");
                assert_eq!(features(fixture(&name), None).unwrap(), expected(0.0), "{name}");
            }
        }
    }
}

#[test]
fn npy_of_every_version_and_extension() {
    for name in ["version2.npy", "version3.npy", "UPPER.NPY"] {
        assert_eq!(features(fixture(name), None).unwrap(), expected(0.0), "{name}");
    }
    assert_eq!(arrays(fixture("f8_big_c.npy")).unwrap(), [("f8_big_c".to_string(), expected(0.0))]);
    refused(features(fixture("f4_little_c.npy"), Some("a")), &["f4_little_c.npy", "leave out the name \"a\""]);
}

#[test]
fn npz_stored_deflated_and_streamed() {
    let both = [("zebra".to_string(), expected(0.0)), ("ant".to_string(), expected(1.0))];
    for name in ["stored.npz", "deflated.npz", "streamed.npz"] {
        assert_eq!(arrays(fixture(name)).unwrap(), both, "{name}");
        assert_eq!(features(fixture(name), Some("ant")).unwrap(), expected(1.0), "{name}");
        refused(features(fixture(name), None), &[name, "2 arrays (zebra, ant)", ":zebra"]);
        refused(features(fixture(name), Some("bee")), &[name, "\"bee\"", "pick one of zebra, ant"]);
    }
    assert_eq!(features(fixture("single.npz"), None).unwrap(), expected(0.0));
    assert_eq!(arrays(fixture("single.npz")).unwrap()[0].0, "only");
    refused(arrays(fixture("empty.npz")), &["empty.npz", "no arrays"]);
    refused(arrays(fixture("bzip2.npz")), &["bzip2.npz", "zebra", "compression", "numpy.savez"]);
}

#[test]
fn safetensors_of_every_float() {
    for name in ["f16", "bf16", "f32", "f64"] {
        let file = fixture(&format!("{name}.safetensors"));
        assert_eq!(features(&file, None).unwrap(), expected(0.0), "{name}");
        assert_eq!(features(&file, Some("features")).unwrap(), expected(0.0), "{name}");
        assert_eq!(arrays(&file).unwrap(), [(name.to_string(), expected(0.0))]);
    }
    let file = fixture("several.safetensors");
    let names: Vec<String> = arrays(&file).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["ant", "bee", "cow", "zebra"]);
    assert_eq!(features(&file, Some("ant")).unwrap(), expected(1.0));
    for key in ["zebra", "bee", "cow"] {
        assert_eq!(features(&file, Some(key)).unwrap(), expected(0.0), "{key}");
    }
    refused(features(&file, None), &["several.safetensors", "4 arrays (ant, bee, cow, zebra)"]);
    refused(arrays(fixture("empty.safetensors")), &["empty.safetensors", "no arrays"]);
}

#[test]
fn arrays_of_the_wrong_shape_come_with_a_remedy() {
    let wrong = |name: &str, words: &[&str]| {
        let error = features(fixture(name), None).unwrap_err();
        assert!(matches!(error, Error::Array { .. }), "{error:?}");
        refused::<()>(Err(error), &[&[name], words].concat());
    };
    wrong("one_dimension.npy", &["(15)", "1 dimensions", "array.reshape(-1, width)"]);
    wrong("scalar.npy", &["0 dimensions", "reshape"]);
    wrong("three_dimensions.npy", &["(4, 2, 2)", "flatten", "array.reshape(len(array), -1)"]);
    wrong("one_dimension.safetensors", &[":features", "1 dimensions", "reshape"]);
    wrong("one_row.npy", &["1 row", "at least 2"]);
    wrong("no_rows.npy", &["no rows"]);
    wrong("no_columns.npy", &["no columns"]);
}

/// Whole numbers are read if none of them changes in single precision.
#[test]
fn integers_are_read_if_they_are_exact() {
    // Fixtures are the floats with their fractions cut off; uint8 takes them modulo 256.
    let cut: Vec<f32> = expected(0.0).values().iter().map(|value| value.trunc()).collect();
    assert!(cut.iter().any(|value| *value != 0.0));
    for name in ["int64.npy", "int32.safetensors"] {
        assert_eq!(features(fixture(name), None).unwrap().values(), cut, "{name}");
    }
    let bytes = features(fixture("uint8.npy"), None).unwrap();
    let wrapped: Vec<f32> = cut.iter().map(|value| value.rem_euclid(256.0)).collect();
    assert_eq!(bytes.values(), wrapped);

    let folder = folder("integers");
    let write = |kind: &str, payload: &[u8]| {
        let size: usize = kind[2..].parse().unwrap();
        let mut header =
            format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}, 1), }}", payload.len() / size);
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(payload);
        let path = folder.join("x.npy");
        std::fs::write(&path, bytes).unwrap();
        features(path, None)
    };
    let of = |values: [i64; 2]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(write("<i8", &of([-(1 << 24), 1 << 40])).unwrap().values(), [-16_777_216.0, 1_099_511_627_776.0]);
    let error = write("<i8", &of([0, (1 << 24) + 1]));
    refused(error, &["row 1, column 0 (counted from 0) is 16777217", "not exact", "astype(numpy.float32)"]);
    refused(write("<u8", &of([0, -1])), &["is 18446744073709551615", "not exact"]);
    let big: Vec<u8> = [-2i16, 300].iter().flat_map(|value| value.to_be_bytes()).collect();
    assert_eq!(write(">i2", &big).unwrap().values(), [-2.0, 300.0]);
    assert_eq!(write("|i1", &[0xff, 0x7f]).unwrap().values(), [-1.0, 127.0]);
    refused(write("|i8", &of([1, 2])), &["'|i8'"]);
}

#[test]
fn arrays_of_the_wrong_type_come_with_a_remedy() {
    for (name, words) in [
        ("bool.npy", ["'|b1'", "astype(numpy.float32)"]),
        ("complex.npy", ["'<c8'", "array.real"]),
        ("text.npy", ["'<U8'", "the encoder's output"]),
        ("date.npy", ["'<M8[s]'", "astype(numpy.float32)"]),
        ("extended.npy", ["'<f16'", "astype(numpy.float32)"]),
        ("bfloat16.npy", ["bfloat16", "astype(numpy.float32), or write a .safetensors"]),
        ("object.npy", ["never unpickled", "plain array"]),
        ("object.npz", [":thing", "never unpickled"]),
        ("structured.npy", ["structured", "numpy.save"]),
    ] {
        refused(features(fixture(name), None), &[&[name], words.as_slice()].concat());
    }
}

#[test]
fn values_that_are_not_finite_are_named() {
    for (name, key, origin, at, is) in [
        ("nan.npy", None, "nan.npy", (3, 1), f64::NAN),
        ("nan_fortran.npy", None, "nan_fortran.npy", (3, 1), f64::NAN),
        ("infinite.npy", None, "infinite.npy", (3, 1), f64::NEG_INFINITY),
        ("too_large.npy", None, "too_large.npy", (3, 1), 1e300),
        ("nan.npz", Some("broken"), "nan.npz:broken", (2, 2), f64::NAN),
        ("too_large.safetensors", None, "too_large.safetensors:features", (3, 1), 1e300),
    ] {
        match features(fixture(name), key).unwrap_err() {
            Error::NotFinite { origin: named, row, column, value } => {
                assert_eq!(named, fixture(origin).display().to_string());
                assert_eq!((row, column), at, "{name}");
                assert!(value == is || value.is_nan() && is.is_nan(), "{name}: {value}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    features(fixture("nan.npz"), Some("fine")).unwrap();
}

#[test]
fn an_array_of_many_chunks_arrives_in_both_orders() {
    let (rows, columns) = (41_000, 7);
    let value = |row: usize, column: usize| (row * columns + column) as f32;
    let folder = folder("chunks");
    for fortran in [false, true] {
        let header = format!(
            "{{'descr': '>f8', 'fortran_order': {}, 'shape': ({rows}, {columns})}}\n",
            ["False", "True"][usize::from(fortran)]
        );
        let mut payload = Vec::new();
        for at in 0..rows * columns {
            let (row, column) = if fortran { (at % rows, at / rows) } else { (at / columns, at % columns) };
            payload.extend(f64::from(value(row, column)).to_be_bytes());
        }
        let npy = hostile::npy(&header, &payload);
        for (name, bytes) in [
            ("a.npy", npy.clone()),
            ("a.npz", hostile::archive("a.npy", &npy, zip::CompressionMethod::Deflated)),
            ("b.npz", hostile::archive("a.npy", &npy, zip::CompressionMethod::Stored)),
        ] {
            std::fs::write(folder.join(name), bytes).unwrap();
            let read = features(folder.join(name), None).unwrap();
            assert_eq!((read.len(), read.width()), (rows, columns));
            assert!((0..rows).all(|row| (0..columns).all(|column| read.row(row)[column] == value(row, column))));
        }
    }
}

#[test]
fn files_that_are_none() {
    let folder = folder("none");
    let file = |name: &str| {
        std::fs::write(folder.join(name), b"").unwrap();
        folder.join(name)
    };
    assert!(matches!(features(folder.join("missing.npy"), None).unwrap_err(), Error::Io { .. }));
    refused(features(folder.join("missing.npy"), None), &["cannot read", "missing.npy"]);
    refused(features(&*folder, None), &["directory", ".npy, .npz, .safetensors"]);
    for name in ["a.pkl", "npy", "b."] {
        refused(features(file(name), None), &[name, "not known", ".npy, .npz, .safetensors"]);
    }
    for name in ["a.npy", "a.npz", "a.safetensors"] {
        refused(features(file(name), None), &[name, "empty"]);
    }
}

#[test]
fn arm_sources_are_read_as_typed() {
    let is = |text: &str, name: Option<&str>, path: &str, key: Option<&str>| {
        let wanted = ArmSource { name: name.map(Into::into), path: path.into(), key: key.map(Into::into) };
        assert_eq!(source(text), wanted, "{text}");
    };
    is("a.npy", None, "a.npy", None);
    is("a.npz:key", None, "a.npz", Some("key"));
    is("flow=a.npz:key", Some("flow"), "a.npz", Some("key"));
    is("flow=a.npy", Some("flow"), "a.npy", None);
    is("A.NPZ:deep/key.0:b=c", None, "A.NPZ", Some("deep/key.0:b=c"));
    is(r"C:\data\a.npz", None, r"C:\data\a.npz", None);
    is(r"flow=C:\data\a.npz:key", Some("flow"), r"C:\data\a.npz", Some("key"));
    is("runs/rate=0.1/a.npz:key", None, "runs/rate=0.1/a.npz", Some("key"));
    is("flow=runs/rate=0.1/a.npz", Some("flow"), "runs/rate=0.1/a.npz", None);
    is("12:30/a.npy", None, "12:30/a.npy", None);
    for (text, at) in [("", 1), ("=a.npy", 1), ("flöw=", 6), ("a.npz:", 7)] {
        match text.parse::<ArmSource>().unwrap_err() {
            Error::Parse { at: found, .. } => assert_eq!(found, at, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[cfg(unix)]
#[test]
fn a_path_that_exists_is_taken_as_it_is_written() {
    let folder = folder("literal");
    for name in ["a=b.npy", "a.npz:b.npy", "c=d.npz"] {
        std::fs::write(folder.join(name), b"").unwrap();
        let text = folder.join(name).display().to_string();
        assert_eq!(source(&text), ArmSource { name: None, path: folder.join(name), key: None });
        assert_eq!(source(&format!("x={text}")).name.as_deref(), Some("x"));
        assert_eq!(source(&format!("x={text}")).path, folder.join(name));
    }
    let picked = source(&format!("{}:key", folder.join("c=d.npz").display()));
    assert_eq!(picked, ArmSource { name: None, path: folder.join("c=d.npz"), key: Some("key".into()) });
}

#[test]
fn arms_are_named_by_file_key_or_user() {
    let from = |texts: &[&str]| {
        let sources: Vec<ArmSource> = texts
            .iter()
            .map(|text| {
                let (name, rest) = text.split_once('=').map_or((None, *text), |(name, rest)| (Some(name), rest));
                let path = fixture(rest).display().to_string();
                source(&name.map_or(path.clone(), |name| format!("{name}={path}")))
            })
            .collect();
        arms(&sources)
    };
    let mixed =
        from(&["stored.npz", "f4_big_c.npy", "flow=single.npz", "several.safetensors:cow", "x=deflated.npz:ant"]);
    assert_eq!(mixed.unwrap().names(), ["zebra", "ant", "f4_big_c", "flow", "cow", "x"]);
    assert_eq!(from(&["bf16.safetensors", "y=f16.safetensors"]).unwrap().names(), ["bf16", "y"]);
    assert_eq!(from(&["several.safetensors"]).unwrap().names(), ["ant", "bee", "cow", "zebra"]);
    refused(from(&["flow=stored.npz"]), &["stored.npz", "2 arrays", "flow=", ":zebra"]);
    refused(from(&["stored.npz", "deflated.npz"]), &["zebra", "two arms have this name"]);
    refused(from(&["f4_big_c.npy:key"]), &["leave out the name"]);
    refused(from(&[]), &["at least one arm"]);
}
