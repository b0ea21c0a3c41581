//! Where rows stand for the fused kernels: in groups with one centre each, which start at multiples of [`BLOCK`] rows.

/// The number of rows of a block: the smallest unit that has one group.
pub(crate) const BLOCK: usize = 64;
/// The total is a multiple of this, the largest tile.
pub(crate) const LARGEST_TILE: usize = 256;
/// The mark of padding in [`Layout::target`].
pub(crate) const PADDING: u32 = u32::MAX;

/// Rows of sets in groups. Padded rows count from 0 over all sets; targets are rows in the order of the caller.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    /// For every padded row, its target, or [`PADDING`].
    pub(crate) target: Vec<u32>,
    /// The first padded row of every group.
    pub(crate) group_first: Vec<i32>,
    /// The number of rows of every group.
    pub(crate) group_rows: Vec<i32>,
    /// The group of every block of 64 padded rows.
    pub(crate) block_group: Vec<i32>,
    /// The first block of every set, and the number of blocks of all.
    pub(crate) set_block: Vec<i32>,
    /// The first group of every set, and the number of groups.
    pub(crate) set_group: Vec<i32>,
}

impl Layout {
    /// Sets of these sizes. `labels`, if given, splits them into groups: one label per row of all sets. `alignment` is
    /// the number of rows at whose multiples sets start.
    pub(crate) fn new(sizes: &[usize], labels: Option<&[u32]>, alignment: usize) -> Self {
        let total: usize = sizes.iter().sum();
        let mut layout = Self {
            target: Vec::with_capacity(total + sizes.len() * alignment + LARGEST_TILE),
            group_first: Vec::new(),
            group_rows: Vec::new(),
            block_group: Vec::new(),
            set_block: vec![0],
            set_group: vec![0],
        };
        let mut first = 0;
        for &size in sizes {
            let rows = first..first + size;
            match labels {
                None => layout.push_group(rows.map(|row| row as u32)),
                Some(labels) => {
                    let kinds = labels[rows.clone()].iter().max().map_or(0, |label| label + 1);
                    for kind in 0..kinds {
                        layout.push_group(rows.clone().filter(|&row| labels[row] == kind).map(|row| row as u32));
                    }
                }
            }
            layout.pad(alignment);
            layout.set_block.push((layout.target.len() / BLOCK) as i32);
            layout.set_group.push(layout.group_rows.len() as i32);
            first += size;
        }
        layout.pad(LARGEST_TILE);
        layout
    }

    fn push_group(&mut self, rows: impl Iterator<Item = u32>) {
        let first = self.target.len();
        self.target.extend(rows);
        let count = self.target.len() - first;
        if count > 0 {
            self.group_first.push(first as i32);
            self.group_rows.push(count as i32);
            self.pad(BLOCK);
        }
    }

    /// Padding belongs to the last group, so that every block has one.
    fn pad(&mut self, multiple: usize) {
        self.target.resize(self.target.len().next_multiple_of(multiple), PADDING);
        self.block_group.resize(self.target.len() / BLOCK, self.group_rows.len() as i32 - 1);
    }

    /// The number of padded rows.
    pub(crate) fn rows(&self) -> usize {
        self.target.len()
    }

    pub(crate) fn groups(&self) -> usize {
        self.group_rows.len()
    }

    /// Whether a tile of `unit` rows has padding.
    pub(crate) fn is_padded(&self, tile: usize, unit: usize) -> bool {
        self.target[tile * unit..(tile + 1) * unit].contains(&PADDING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_stands_once_in_a_group_of_its_set() {
        let sizes = [70, 0, 1, 300, 64];
        let labels: Vec<u32> = (0..435).map(|row| [0, 2, 2, 5][row % 4]).collect();
        for (labels, alignment) in [(None, BLOCK), (Some(&labels[..]), BLOCK), (Some(&labels[..]), LARGEST_TILE)] {
            let layout = Layout::new(&sizes, labels, alignment);
            assert_eq!(layout.rows() % LARGEST_TILE, 0);
            assert_eq!(layout.block_group.len() * BLOCK, layout.rows());
            let mut seen: Vec<u32> = layout.target.iter().copied().filter(|&row| row != PADDING).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..435).collect::<Vec<u32>>());
            let mut first = 0;
            for (set, &size) in sizes.iter().enumerate() {
                let blocks = layout.set_block[set] as usize..layout.set_block[set + 1] as usize;
                assert_eq!(blocks.start * BLOCK % alignment, 0);
                let rows = &layout.target[blocks.start * BLOCK..blocks.end * BLOCK];
                let mut rows: Vec<u32> = rows.iter().copied().filter(|&row| row != PADDING).collect();
                rows.sort_unstable();
                assert_eq!(rows, (first..first + size as u32).collect::<Vec<u32>>(), "set {set}");
                first += size as u32;
                for group in layout.set_group[set] as usize..layout.set_group[set + 1] as usize {
                    let start = layout.group_first[group] as usize;
                    let rows = &layout.target[start..start + layout.group_rows[group] as usize];
                    assert!(start.is_multiple_of(BLOCK) && !rows.contains(&PADDING));
                    assert_eq!(layout.block_group[start / BLOCK], group as i32);
                    if let Some(labels) = labels {
                        assert!(rows.iter().all(|&row| labels[row as usize] == labels[rows[0] as usize]));
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_know_their_padding() {
        let layout = Layout::new(&[256, 10], None, BLOCK);
        assert_eq!((layout.rows(), layout.is_padded(0, 256), layout.is_padded(1, 256)), (512, false, true));
    }
}
