//! Exact sums over all pairs of rows that are on disk: two blocks of shards are in memory at a time.

use std::collections::BTreeMap;

use modelmix::Features;
use modelmix::accumulate::{Accumulator, Block};
use modelmix::load::Shard;

use super::{Checkpoint, Input};
use crate::error::{Failure, Result};
use crate::terminal::{Terminal, count};
use crate::values::Task;

/// The size of a block without a memory budget, and the share of the budget that it may have otherwise: two blocks, each once more
/// while it is read, and what the engine needs beside them.
const BLOCK_BYTES: u64 = 256 << 20;
const BLOCKS_PER_BUDGET: u64 = 6;

/// Consecutive shards whose rows are paired as one unit.
struct Group<'a> {
    name: String,
    last: String,
    shards: Vec<(&'a Shard, bool)>,
    rows: u64,
}

/// The groups of all shards: the same for every task of a run.
fn groups<'a>(input: &'a Input, width: usize, memory: Option<u64>) -> Result<Vec<Group<'a>>> {
    let most = rows_per_block(width, memory);
    let mut groups: Vec<Group<'a>> = Vec::new();
    let references = input.reference.iter().map(|shard| (shard, true));
    for (shard, is_reference) in references.chain(input.arms.iter().map(|shard| (shard, false))) {
        let name = if is_reference { format!("the reference, {}", shard.name()) } else { shard.name().to_string() };
        check_size(shard.name(), shard.rows(), most, width, memory)?;
        match groups.last_mut().filter(|group| group.rows + shard.rows() <= most) {
            Some(group) => {
                group.rows += shard.rows();
                group.last = name;
                group.shards.push((shard, is_reference));
            }
            None => {
                let last = name.clone();
                groups.push(Group { name, last, rows: shard.rows(), shards: vec![(shard, is_reference)] });
            }
        }
    }
    // The name states all rows, so that groups of other sizes are not taken for these.
    for group in groups.iter_mut().filter(|group| group.shards.len() > 1) {
        group.name = format!("{} to {}", group.name, group.last);
    }
    Ok(groups)
}

/// The largest number of rows of a block.
fn rows_per_block(width: usize, memory: Option<u64>) -> u64 {
    memory.map_or(BLOCK_BYTES, |memory| memory / BLOCKS_PER_BUDGET) / (4 * width as u64).max(1)
}

/// Checks that the rows of a shard fit into a block, and otherwise says which budget suffices, rounded up to 10 MB.
fn check_size(name: &str, rows: u64, most: u64, width: usize, memory: Option<u64>) -> Result<()> {
    if rows <= most {
        return Ok(());
    }
    let limit = if memory.is_some() { "a sixth of --memory" } else { "a block of 256 MiB" };
    let needed = rows.saturating_mul(4 * width as u64).saturating_mul(BLOCKS_PER_BUDGET).div_ceil(10_000_000);
    Err(Failure::input(format!(
        "{name}: its {} rows are read at once, but {limit} has room for {}; give --memory {}.{:02}GB, or write smaller row groups",
        count(rows as usize),
        count(most as usize),
        needed / 100,
        needed % 100
    )))
}

impl Group<'_> {
    fn read(&self) -> Result<Block> {
        let (mut arms, mut reference): (BTreeMap<String, Vec<f32>>, Vec<f32>) = Default::default();
        let mut width = 0;
        for (shard, is_reference) in &self.shards {
            shard.read(|batch| {
                width = batch.rows.width();
                let values = match is_reference {
                    true => &mut reference,
                    false => arms.entry(batch.arm.to_string()).or_default(),
                };
                values.extend_from_slice(batch.rows.values());
                Ok(())
            })?;
        }
        let mut block = Block::new(&self.name);
        for (arm, values) in arms {
            block = block.arm(arm, Features::new(width, values)?);
        }
        if reference.is_empty() { Ok(block) } else { Ok(block.reference(Features::new(width, reference)?)) }
    }
}

/// Adds the pairs of all blocks that are this task's and not yet included.
pub(super) fn add_pairs(
    sums: &mut Accumulator,
    input: &Input,
    task: Task,
    memory: Option<u64>,
    checkpoint: &mut Checkpoint,
    terminal: &Terminal,
) -> Result<()> {
    let width = sums.width().ok_or_else(|| Failure::input("there are no rows; give at least one"))?;
    let groups = groups(input, width, memory)?;
    let pairs = (0..groups.len()).flat_map(|i| (i..groups.len()).map(move |j| (i, j)));
    let pairs: Vec<(usize, usize)> = pairs.enumerate().filter(|(at, _)| task.has(*at)).map(|(_, pair)| pair).collect();
    let size = |&(i, j): &(usize, usize)| groups[i].rows * groups[j].rows;
    let bar = terminal.progress("summing pairs", pairs.iter().map(size).sum());
    let mut first: Option<(usize, Block)> = None;
    for pair @ (i, j) in pairs {
        if !sums.has_pair(&groups[i].name, &groups[j].name) {
            if first.as_ref().is_none_or(|(at, _)| *at != i) {
                // Before the next one is read.
                drop(first.take());
                first = Some((i, groups[i].read()?));
            }
            let Some((_, block)) = &first else { continue };
            if i == j {
                sums.update_pairs(block, block)?;
            } else {
                sums.update_pairs(block, &groups[j].read()?)?;
            }
            checkpoint.write_if_due(sums)?;
        }
        bar.inc(size(&pair));
    }
    bar.finish_and_clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row groups of 122,880 rows of width 768, as DuckDB writes them, are larger than a block without a budget.
    #[test]
    fn a_large_row_group_states_the_memory_that_suffices() {
        let (rows, width) = (122_880, 768);
        let check = |memory| check_size("big.parquet, row group 0", rows, rows_per_block(width, memory), width, memory);
        let refusal = |memory| match check(memory) {
            Err(Failure::Input(sentence)) => sentence,
            _ => panic!("not refused"),
        };
        let default = refusal(None);
        assert!(default.contains("a block of 256 MiB has room for 87,381"), "{default}");
        assert!(default.contains("--memory 2.27GB") && check(Some(2_270_000_000)).is_ok(), "{default}");
        let small = refusal(Some(1_000_000_000));
        assert!(small.contains("a sixth of --memory has room for 54,253") && small.contains("2.27GB"), "{small}");
    }
}
