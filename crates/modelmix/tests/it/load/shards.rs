//! Files read in parts have the values that NumPy and pyarrow wrote, and that reading them whole gives.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use modelmix::load::{ArmSource, Shard, ShardColumns, arrays, shards};
use modelmix::{Error, Features, Result};

use super::hostile::npy;
use super::{expected, fixture, folder, refused};

fn at(path: &Path) -> ArmSource {
    ArmSource { name: None, path: path.into(), key: None }
}

fn named(name: &str, path: &Path) -> ArmSource {
    ArmSource { name: Some(name.into()), ..at(path) }
}

/// The width and the values of each arm.
pub(super) type Arms = BTreeMap<String, (usize, Vec<f32>)>;

fn read_all(shards: &[Shard]) -> Result<Arms> {
    let mut arms = Arms::new();
    for shard in shards {
        let mut rows = 0;
        shard.read(|batch| {
            let arm = arms.entry(batch.arm.to_string()).or_insert((batch.rows.width(), Vec::new()));
            assert_eq!(arm.0, batch.rows.width());
            assert!(shard.width().is_none_or(|width| width == arm.0));
            assert!(shard.arm().is_none_or(|arm| arm == batch.arm));
            arm.1.extend(batch.rows.values());
            rows += batch.rows.len() as u64;
            Ok(())
        })?;
        assert_eq!(rows, shard.rows(), "{}", shard.name());
    }
    Ok(arms)
}

/// The arms of a file that is read in parts.
pub(super) fn rows_of(path: &Path) -> Result<Arms> {
    read_all(&shards(&[at(path)], &ShardColumns::new())?)
}

fn features_of((width, values): &(usize, Vec<f32>)) -> Features {
    Features::new(*width, values.clone()).unwrap()
}

#[test]
fn every_file_that_is_read_whole_is_also_read_in_parts() {
    let mut found = 0;
    for entry in std::fs::read_dir(fixture("")).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().unwrap().to_str().unwrap().to_ascii_lowercase();
        let Ok(arrays) = arrays(&path) else { continue };
        if ["csv", "tsv"].contains(&extension.as_str()) {
            refused(rows_of(&path), &["convert it to .parquet or .npy"]);
            continue;
        }
        let read = rows_of(&path).unwrap();
        assert_eq!(read.len(), arrays.len(), "{path:?}");
        for (name, features) in arrays {
            assert_eq!(features_of(&read[&name]), features, "{path:?} {name}");
            found += 1;
        }
    }
    assert!(found > if cfg!(feature = "parquet") { 50 } else { 25 }, "{found}");
}

#[test]
fn arrays_are_split_into_ranges() {
    let folder = folder("ranges");
    let (rows, width) = (150_000, 2);
    let values: Vec<f32> = (0..rows * width).map(|at| (at % 65_521) as f32 / 4.0).collect();
    let little: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let big: Vec<u8> = values.iter().flat_map(|&value| f64::from(value).to_be_bytes()).collect();
    let columns = (0..width).flat_map(|column| values.iter().skip(column).step_by(width));
    let fortran: Vec<u8> = columns.flat_map(|value| value.to_le_bytes()).collect();
    for (name, descr, order, bytes) in
        [("little", "<f4", "False", &little), ("big", ">f8", "False", &big), ("fortran", "<f4", "True", &fortran)]
    {
        // A header of another length makes the elements unaligned, so that they cannot be mapped.
        for padding in [0, 1] {
            let header = format!(
                "{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({rows}, {width}), }}{}\n",
                " ".repeat(padding)
            );
            let path = folder.join(format!("{name}.npy"));
            std::fs::write(&path, npy(&header, bytes)).unwrap();
            let found = shards(&[at(&path)], &ShardColumns::new()).unwrap();
            let names: Vec<String> = found.iter().map(|shard| shard.name().to_string()).collect();
            let ranges = ["rows 0 to 65,535", "rows 65,536 to 131,071", "rows 131,072 to 149,999"];
            assert_eq!(names, ranges.map(|range| format!("{}, {range}", path.display())));
            assert_eq!(found.iter().map(Shard::rows).collect::<Vec<_>>(), [65_536, 65_536, 18_928]);
            assert!(found.iter().all(|shard| shard.width() == Some(2) && shard.arm() == Some(name)));
            assert_eq!(read_all(&found).unwrap()[name], (width, values.clone()), "{name} {padding}");
        }
    }

    // A value that is not finite is named by its row in the file.
    for (name, bytes, value) in [("little", &little, f32::NAN), ("fortran", &fortran, f32::INFINITY)] {
        let order = if name == "fortran" { "True" } else { "False" };
        let header = format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': ({rows}, {width}), }}\n");
        let mut bytes = bytes.clone();
        let place = if name == "fortran" { rows + 70_000 } else { 70_000 * width + 1 };
        bytes[4 * place..][..4].copy_from_slice(&value.to_le_bytes());
        let path = folder.join(format!("{name}.npy"));
        std::fs::write(&path, npy(&header, &bytes)).unwrap();
        let found = shards(&[at(&path)], &ShardColumns::new()).unwrap();
        found[0].read(|_| Ok(())).unwrap();
        refused(found[1].read(|_| Ok(())), &[&format!("{name}.npy: row 70000, column 1 is")]);
    }

    // Rows of 1 MiB: 64 per range.
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': (130, {}), }}\n", 1 << 18);
    let path = folder.join("long.npy");
    std::fs::write(&path, npy(&header, &vec![0; 130 << 20])).unwrap();
    let found = shards(&[at(&path)], &ShardColumns::new()).unwrap();
    assert_eq!(found.iter().map(Shard::rows).collect::<Vec<_>>(), [64, 64, 2]);
}

/// As dated folders of a pipeline are nested.
#[test]
fn folders_are_read_to_the_bottom() {
    let folder = folder("deep");
    let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/fashion/reference.npy")).expect("a file");
    let deep = folder.join("date=1/hour=2");
    std::fs::create_dir_all(deep.join("_hidden")).expect("folders");
    for place in [folder.join("a.npy"), deep.join("b.npy"), deep.join("_hidden/c.npy")] {
        std::fs::write(place, &file).expect("a file");
    }
    let of = |shards: Vec<Shard>| shards.iter().map(|shard| shard.path().to_path_buf()).collect::<BTreeSet<_>>();
    let found = of(shards(&[at(&folder)], &ShardColumns::new()).expect("shards"));
    assert_eq!(found, BTreeSet::from([folder.join("a.npy"), deep.join("b.npy")]));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&*folder, deep.join("back")).expect("a link");
        let refusal = shards(&[at(&folder)], &ShardColumns::new()).expect_err("a circle").to_string();
        assert!(refusal.contains("link"), "{refusal}");
    }
}

#[test]
fn arms_are_named_as_when_files_are_read_whole() {
    let folder = folder("names");
    let of = |sources: &[ArmSource]| -> Result<Vec<String>> {
        let found = shards(sources, &ShardColumns::new())?;
        Ok(found.iter().map(|shard| shard.arm().unwrap().to_string()).collect())
    };
    let (npz, tensors, npy) = (fixture("stored.npz"), fixture("f32.safetensors"), fixture("f4_little_c.npy"));
    assert_eq!(of(&[at(&npz), at(&tensors), at(&npy)]).unwrap(), ["zebra", "ant", "f32", "f4_little_c"]);
    let key = ArmSource { key: Some("ant".into()), ..at(&npz) };
    assert_eq!(of(&[key.clone(), ArmSource { name: Some("x".into()), ..key }]).unwrap(), ["ant", "x"]);
    assert_eq!(of(&[named("x", &tensors), named("x", &npy)]).unwrap(), ["x", "x"]);
    refused(of(&[named("x", &npz)]), &["stored.npz", "2 arrays", "cannot name them all"]);
    refused(of(&[ArmSource { key: Some("a".into()), ..at(&npy) }]), &["leave out the name \"a\""]);
    refused(of(&[ArmSource { key: Some("aunt".into()), ..at(&npz) }]), &["did you mean \"ant\"?"]);
    refused(of(&[at(&fixture("no_rows.npy"))]), &["no_rows.npy", "no rows"]);
    refused(of(&[at(&fixture("no_columns.npy"))]), &["no_columns.npy", "no columns"]);
    refused(of(&[at(&folder.join("missing.npy"))]), &["missing.npy"]);
    assert_eq!(of(&[at(&fixture("one_row.npy"))]).unwrap(), ["one_row"]);

    // A folder is one arm.
    refused(of(&[at(&folder)]), &["the folder has no files of type .npy"]);
    std::fs::create_dir(folder.join("a")).unwrap();
    for (from, to) in
        [(&npy, "b.npy"), (&npz, "a/z.npz"), (&tensors, "c.safetensors"), (&npy, "_d.npy"), (&npy, "e.md")]
    {
        std::fs::copy(from, folder.join(to)).unwrap();
    }
    let found = shards(&[named("flux", &folder)], &ShardColumns::new()).unwrap();
    let files: Vec<&Path> = found.iter().map(|shard| shard.path().strip_prefix(&*folder).unwrap()).collect();
    assert_eq!(files, ["a/z.npz", "a/z.npz", "b.npy", "c.safetensors"].map(Path::new));
    let values = [expected(0.0), expected(1.0), expected(0.0), expected(0.0)];
    let values: Vec<f32> = values.iter().flat_map(|features| features.values().to_vec()).collect();
    assert_eq!(read_all(&found).unwrap(), BTreeMap::from([("flux".to_string(), (3, values))]));
    let last = folder.file_name().unwrap().to_str().unwrap().to_string();
    assert_eq!(of(&[at(&folder)]).unwrap(), vec![last; 4]);
}

#[test]
fn widths_must_agree() {
    let folder = folder("widths");
    let path = folder.join("two.npy");
    std::fs::write(&path, npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n", &[0; 16])).unwrap();
    let result = shards(&[at(&fixture("f4_little_c.npy")), at(&path)], &ShardColumns::new());
    assert!(matches!(result, Err(Error::Width { found: 2, expected: 3, .. })), "{result:?}");
    refused(result, &["two.npy, rows 0 to 1 has 2 columns", "f4_little_c.npy, rows 0 to 4 has 3"]);
}

#[test]
fn arrays_have_no_columns_of_arms_or_scores() {
    for columns in [ShardColumns::new().arm("model"), ShardColumns::new().scores(["reward"])] {
        refused(shards(&[at(&fixture("f4_little_c.npy"))], &columns), &["only .parquet files have columns"]);
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_so() {
    refused(rows_of(&fixture("f32.parquet")), &["f32.parquet", ".parquet needs a build with the parquet feature"]);
}

#[cfg(feature = "parquet")]
mod tables {
    use super::*;

    const ARMS: [&str; 3] = ["ant", "bee", "cow"];

    fn arm_of(row: u64) -> &'static str {
        ARMS[(row * row / 5 % 3) as usize]
    }

    /// The features of a row that the script writes.
    fn row_of(row: u64) -> [f32; 4] {
        [0, 1, 2, 3].map(|column| ((row * 4 + column) % 251) as f32 / 8.0)
    }

    fn fixture_columns() -> ShardColumns {
        ShardColumns::new().features("embedding")
    }

    #[test]
    fn arms_and_scores_are_read_in_lockstep() {
        let columns = fixture_columns().arm("model").scores(["reward", "price", "rank", "votes", "level"]);
        for name in ["shard_dictionary", "shard_plain", "shard_version2"] {
            let path = fixture(&format!("{name}.parquet"));
            let found = shards(&[at(&path)], &columns).unwrap();
            let names: Vec<&str> = found.iter().map(Shard::name).collect();
            assert_eq!(names, [0, 1, 2].map(|group| format!("{}, row group {group}", path.display())));
            assert_eq!(found.iter().map(Shard::rows).collect::<Vec<_>>(), [128, 128, 44]);
            assert!(found.iter().all(|shard| shard.arm().is_none() && shard.width().is_none()));
            for (shard, first) in found.iter().zip([0, 128, 256]) {
                let mut left: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
                for row in first..first + shard.rows() {
                    left.entry(arm_of(row)).or_default().push(row);
                }
                shard
                    .read(|batch| {
                        let rows = left.remove(batch.arm).expect("one batch per arm");
                        assert_eq!(batch.rows.len(), rows.len());
                        for (at, &row) in rows.iter().enumerate() {
                            assert_eq!(batch.rows.row(at), row_of(row), "{name} {row}");
                            let number = row as f64;
                            let scores = [
                                ("level", f64::from(u32::MAX) - number),
                                ("price", number * 0.1),
                                ("rank", number - 150.0),
                                ("reward", number / 4.0),
                                ("votes", number * 1e10),
                            ];
                            let read: Vec<(&str, f64)> =
                                batch.scores.iter().map(|(name, values)| (name.as_str(), values[at])).collect();
                            assert_eq!(read, scores, "{name} {row}");
                        }
                        Ok(())
                    })
                    .unwrap();
                assert!(left.is_empty(), "{left:?}");
            }
        }
    }

    #[test]
    fn files_of_one_arm_are_its_shards() {
        let (one, two) = (fixture("shard_plain.parquet"), fixture("shard_dictionary.parquet"));
        let found = shards(&[named("flux", &one), named("flux", &two)], &fixture_columns()).unwrap();
        assert_eq!(found.len(), 6);
        let values: Vec<f32> = (0..300).chain(0..300).flat_map(row_of).collect();
        assert_eq!(read_all(&found).unwrap(), BTreeMap::from([("flux".to_string(), (4, values))]));
        // The key of a source picks the column.
        let key = ArmSource { key: Some("ant".into()), ..at(&fixture("two_lists.parquet")) };
        let read = read_all(&shards(&[key], &ShardColumns::new().features("zebra")).unwrap()).unwrap();
        assert_eq!(features_of(&read["two_lists"]), expected(1.0));
    }

    #[test]
    fn float_columns_side_by_side_leave_out_scores() {
        let path = fixture("shard_side_by_side.parquet");
        let columns = ShardColumns::new().arm("model").scores(["reward"]);
        let found = shards(&[at(&path)], &columns).unwrap();
        assert!(found.iter().all(|shard| shard.width() == Some(2)));
        let mut rewards = Vec::new();
        for shard in &found {
            let read = shard.read(|batch| {
                for (row, reward) in batch.rows.iter().zip(&batch.scores["reward"]) {
                    let number = (reward * 4.0) as u64;
                    assert_eq!((row, batch.arm), (&row_of(number)[..2], arm_of(number)));
                    rewards.push(number);
                }
                Ok(())
            });
            read.unwrap();
        }
        rewards.sort_unstable();
        assert!(rewards.into_iter().eq(0..300));
        refused(rows_of(&path), &["model (text or bytes)"]);
    }

    #[test]
    fn rows_may_be_longer_than_a_step() {
        let found = shards(&[at(&fixture("shard_wide.parquet"))], &ShardColumns::new()).unwrap();
        let mut rows = 0;
        let read = found[0].read(|batch| {
            assert_eq!((batch.rows.width(), batch.rows.len()), (3_000_000, 1));
            assert!(batch.rows.values().iter().all(|&value| value == rows as f32));
            rows += 1;
            Ok(())
        });
        read.unwrap();
        assert_eq!(rows, 3);
    }

    /// All shards before the last one that is read can be read.
    fn last(name: &str, group: usize) -> Result<()> {
        let found = shards(&[at(&fixture(&format!("{name}.parquet")))], &ShardColumns::new())?;
        found[..group].iter().for_each(|shard| shard.read(|_| Ok(())).unwrap());
        found[group].read(|_| Ok(()))
    }

    #[test]
    fn errors_name_the_file_the_row_group_and_the_row() {
        for (name, group, words) in [
            ("shard_nan", 2, "row group 2: row 0, column 1 is NaN, but"),
            ("shard_too_large", 1, "row group 1: row 1, column 2 is 1e300, but"),
            ("shard_widths", 1, "row group 1 has 2 columns, but "),
            ("shard_long", 1, "row group 1: row 1 has 5 values, but row 0, the first, has 3"),
            ("shard_short", 1, "row group 1: row 1 has 2 values, but row 0, the first, has 3"),
            ("shard_null", 1, "row group 1: row 1 (counted from 0) is null"),
            ("shard_null_value", 1, "row group 1: row 1 (counted from 0) holds a null"),
            ("shard_empty", 1, "row group 1: row 1 (counted from 0) is an empty list"),
            ("ragged_end", 0, "row group 0: row 4 has 4 values, but row 0, the first, has 3"),
        ] {
            refused(last(name, group), &[&format!("{name}.parquet, {words}")]);
        }
        let result = last("shard_nan", 2);
        assert!(matches!(result, Err(Error::NotFinite { row: 0, column: 1, .. })), "{result:?}");
        let result = last("shard_widths", 1);
        assert!(matches!(result, Err(Error::Width { found: 2, expected: 3, .. })), "{result:?}");

        let path = fixture("shard_null_arm.parquet");
        let wrong = "shard_null_arm.parquet, row group 1: row";
        for (columns, words) in [
            (ShardColumns::new().arm("model"), format!("{wrong} 0 (counted from 0) of column model is null")),
            (ShardColumns::new().scores(["reward"]), format!("{wrong} 1 (counted from 0) of column reward is null")),
            (ShardColumns::new().scores(["price"]), format!("{wrong} 0 (counted from 0) of column price is inf")),
            (ShardColumns::new().arm("bad"), "row group 1 cannot be read: the name of an arm is empty".to_string()),
        ] {
            let found = shards(&[at(&path)], &columns).unwrap();
            found[0].read(|_| Ok(())).unwrap();
            refused(found[1].read(|_| Ok(())), &["shard_null_arm.parquet", &words]);
        }
    }

    #[test]
    fn columns_must_exist_and_have_their_type() {
        let path = fixture("shard_plain.parquet");
        for (columns, words) in [
            (ShardColumns::new().features("id"), "no array named \"id\""),
            (ShardColumns::new().arm("rank"), "no column of texts named \"rank\""),
            (ShardColumns::new().arm("modell"), "no column of texts named \"modell\""),
            (ShardColumns::new().scores(["id"]), "no column of numbers named \"id\""),
            (ShardColumns::new().scores(["day"]), "no column of numbers named \"day\""),
        ] {
            refused(shards(&[at(&path)], &columns), &["shard_plain.parquet", words]);
        }
        refused(shards(&[named("x", &path)], &ShardColumns::new().arm("model")), &["leave out the name x"]);
        refused(shards(&[at(&fixture("two_lists.parquet"))], &ShardColumns::new()), &["2 arrays (zebra, ant)"]);
        refused(rows_of(&fixture("no_rows.parquet")), &["no_rows.parquet", "no rows"]);
        refused(rows_of(&fixture("codec_brotli.parquet")), &["row group 0", "compression is not"]);
        assert_eq!(rows_of(&fixture("one_row.parquet")).unwrap()["one_row"].1, expected(0.0).row(0));
    }

    #[test]
    fn an_error_of_the_reader_of_batches_is_passed_on() {
        let found = shards(&[at(&fixture("shard_plain.parquet"))], &fixture_columns()).unwrap();
        let result = found[0].read(|_| Err(Error::Stopped));
        assert!(matches!(result, Err(Error::Stopped)), "{result:?}");
    }
}
