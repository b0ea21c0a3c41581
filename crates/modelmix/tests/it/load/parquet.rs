//! Parquet files written by pyarrow, and the arms in them.

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_so() {
    let result = modelmix::load::features(super::fixture("f32.parquet"), None);
    super::refused(result, &["f32.parquet", ".parquet needs a build with the parquet feature"]);
}

#[cfg(feature = "parquet")]
mod with {
    use modelmix::load::{arms, arrays, features};
    use modelmix::{Error, Features};

    use crate::load::{expected, fixture, refused, source};

    #[test]
    fn parquet_of_every_float_compression_and_encoding() {
        for name in [
            "f16",
            "f32",
            "f64",
            "columns_f16",
            "columns_f32",
            "columns_f64",
            "fixed",
            "required",
            "codec_none",
            "codec_snappy",
            "codec_gzip",
            "codec_zstd",
            "codec_lz4",
            "version2",
            "plain",
            "split16",
            "split32",
            "split64",
            "groups",
            "columns_groups",
            "schema_kept",
            "beside",
        ] {
            let file = fixture(&format!("{name}.parquet"));
            assert_eq!(features(&file, None).unwrap(), expected(0.0), "{name}");
            assert_eq!(arrays(&file).unwrap(), [(name.to_string(), expected(0.0))]);
        }
    }

    #[test]
    fn parquet_of_many_pages() {
        let many = Features::new(6, (0..700 * 6).map(|at| (at % 1001) as f32 / 8.0).collect()).unwrap();
        for encoding in ["dictionary", "plain"] {
            for version in [1, 2] {
                let file = fixture(&format!("many_{encoding}_{version}.parquet"));
                assert_eq!(features(file, None).unwrap(), many, "{encoding} {version}");
            }
        }
    }

    #[test]
    fn a_column_is_picked_by_its_name() {
        let file = fixture("two_lists.parquet");
        assert_eq!(features(&file, Some("ant")).unwrap(), expected(1.0));
        assert_eq!(features(fixture("beside.parquet"), Some("features")).unwrap(), expected(0.0));
        for result in [features(&file, None).map(drop), arrays(&file).map(drop)] {
            refused(result, &["two_lists.parquet", "2 arrays (zebra, ant)", "two_lists.parquet:zebra"]);
        }
        refused(features(&file, Some("bee")), &["\"bee\"", "pick one of zebra, ant"]);
        refused(features(fixture("columns_f32.parquet"), Some("a")), &["leave out the name \"a\""]);

        let file = file.display().to_string();
        let named = arms(&[source(&format!("{file}:ant")), source(&format!("x={file}:zebra"))]).unwrap();
        assert_eq!(named.names(), ["two_lists", "x"], "a column of an arm's file does not name the arm");
        refused(arms(&[source(&file)]), &["2 arrays (zebra, ant)"]);
        refused(arms(&[source(&format!("x={file}"))]), &["2 arrays", "x=", ":zebra"]);
    }

    #[test]
    fn columns_that_are_no_features_come_with_a_remedy() {
        for (name, words) in [
            ("mixed", ["2 float columns", "name (text or bytes), label (integers); keep only the float columns"]),
            ("no_floats", ["name (text or bytes), flag (truth values)", "write a column of lists of floats"]),
            ("nested", ["features (nested)", "write a column of lists of floats"]),
            ("structure", ["features (nested)", "write a column of lists of floats"]),
            ("null_row", [":features", "row 2 (counted from 0) is null"]),
            ("empty_row", [":features", "row 2 (counted from 0) is an empty list"]),
            ("null_value", [":features", "row 2 (counted from 0) holds a null"]),
            ("null_cell", ["row 2 (counted from 0) of column a is null", "fill the null"]),
            ("ragged", [":features", "row 3 has 2 values, but row 0, the first, has 3"]),
            ("ragged_end", [":features", "row 4 has 4 values, but row 0, the first, has 3"]),
            ("no_rows", [":features", "no rows"]),
            ("one_row", [":features", "1 row"]),
        ] {
            let error = features(fixture(&format!("{name}.parquet")), None).unwrap_err();
            assert!(matches!(error, Error::Array { .. }), "{error:?}");
            refused::<()>(Err(error), &[&[name], words.as_slice()].concat());
        }
        refused(features(fixture("codec_brotli.parquet"), None), &["not Snappy, gzip, Zstandard or LZ4_RAW"]);
        for (name, at) in [("nan", (3, 1)), ("too_large", (2, 1))] {
            match features(fixture(&format!("{name}.parquet")), None).unwrap_err() {
                Error::NotFinite { row, column, .. } => assert_eq!((row, column), at, "{name}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
