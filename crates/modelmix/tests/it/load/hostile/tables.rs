//! Damaged Parquet files whose arms and scores are read in lockstep with the features.

use std::path::Path;

use modelmix::Result;
use modelmix::load::{ArmSource, ShardColumns, shards};

use super::{fixture, folder};

fn columns() -> ShardColumns {
    ShardColumns::new().features("embedding").arm("model").scores(["reward", "price", "rank", "votes", "level"])
}

/// Reads all shards; the batches are complete, and every error names the file.
fn read(path: &Path) -> Result<u64> {
    let source = ArmSource { name: None, path: path.into(), key: None };
    let (mut rows, mut claimed) = (0, 0);
    let result = shards(&[source], &columns()).and_then(|shards| {
        for shard in shards {
            claimed += shard.rows();
            shard.read(|batch| {
                assert!(!batch.rows.is_empty() && !batch.arm.is_empty());
                assert!(batch.rows.values().iter().all(|value| value.is_finite()));
                assert!(batch.scores.len() == 5 && batch.scores.values().all(|score| score.len() == batch.rows.len()));
                rows += batch.rows.len() as u64;
                Ok(())
            })?;
        }
        Ok(())
    });
    match result {
        Ok(()) => assert_eq!(rows, claimed),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("file.parquet") && !text.contains('\n') && text.len() < 600, "{text:?}");
            return Err(error);
        }
    }
    Ok(rows)
}

#[test]
fn damaged_tables_never_panic() {
    let folder = folder("tables");
    let path = folder.join("file.parquet");
    let mut refused = 0;
    for name in ["shard_dictionary", "shard_plain", "shard_version2"] {
        let good = std::fs::read(fixture(&format!("{name}.parquet"))).unwrap();
        std::fs::write(&path, &good).unwrap();
        assert_eq!(read(&path).unwrap(), 300);
        for length in (0..good.len()).step_by(397) {
            std::fs::write(&path, &good[..length]).unwrap();
            read(&path).expect_err(&format!("{name} of {length} bytes"));
        }
        // Every eleventh byte, and another bit of each.
        for at in (0..good.len()).step_by(11) {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bytes).unwrap();
            refused += u32::from(read(&path).is_err());
        }
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn a_table_that_changes_is_refused() {
    let folder = folder("changes");
    let path = folder.join("file.parquet");
    let good = std::fs::read(fixture("shard_plain.parquet")).unwrap();
    std::fs::write(&path, &good).unwrap();
    let source = ArmSource { name: None, path: path.clone(), key: None };
    let found = shards(&[source], &columns()).unwrap();
    std::fs::write(&path, &good[..1000]).unwrap();
    super::refused(found[0].read(|_| Ok(())), &["file.parquet", "now has 1000", "do not change"]);
    std::fs::write(&path, vec![0; good.len()]).unwrap();
    super::refused(found[1].read(|_| Ok(())), &["file.parquet", "row group 1 cannot be read"]);
}
