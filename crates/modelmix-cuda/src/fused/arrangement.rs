//! Layout and plan of a call, with their arrays on the device. The last one is kept: sums of the same sets with several
//! kernels, or of sets of the same sizes, need it again.

use std::sync::{Arc, Mutex, PoisonError};

use modelmix::Result;

use crate::device::{Buffer, Queue};
use crate::layout::{BLOCK, LARGEST_TILE, Layout};
use crate::plan::{Pairs, Plan, SQUARE};

/// Layout and plan, and their arrays on the device.
#[derive(Debug)]
pub(crate) struct Arrangement {
    pub(super) layout: Layout,
    pub(super) plan: Plan,
    pub(super) group_first: Buffer<i32>,
    pub(super) group_rows: Buffer<i32>,
    pub(super) block_group: Buffer<i32>,
    pub(super) set_group: Buffer<i32>,
    pub(super) target: Buffer<u32>,
    pub(super) tiles: Buffer<[u32; 2]>,
}

/// What an arrangement without labels depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) sizes: Vec<usize>,
    pub(super) pairs: Pairs,
    /// Rows per tile.
    pub(super) unit: usize,
}

impl Arrangement {
    pub(super) fn new(queue: &Queue<'_>, shape: &Shape, labels: Option<&[u32]>) -> Result<Self> {
        let alignment = if shape.pairs == Pairs::Between { LARGEST_TILE } else { BLOCK };
        let layout = Layout::new(&shape.sizes, labels, alignment);
        let plan = Plan::new(&layout, &shape.pairs, shape.unit, SQUARE);
        let what = "the layout of rows";
        Ok(Self {
            group_first: queue.upload(what, &layout.group_first)?,
            group_rows: queue.upload(what, &layout.group_rows)?,
            block_group: queue.upload(what, &layout.block_group)?,
            set_group: queue.upload(what, &layout.set_group)?,
            target: queue.upload(what, &layout.target)?,
            tiles: queue.upload(what, &plan.tiles)?,
            layout,
            plan,
        })
    }
}

/// The last arrangement without labels.
#[derive(Debug, Default)]
pub(crate) struct Arrangements(Mutex<Option<(Shape, Arc<Arrangement>)>>);

impl Arrangements {
    pub(super) fn of(&self, queue: &Queue<'_>, shape: &Shape) -> Result<Arc<Arrangement>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((old, arrangement)) = &*last
            && old == shape
        {
            return Ok(Arc::clone(arrangement));
        }
        *last = None;
        let arrangement = Arc::new(Arrangement::new(queue, shape, None)?);
        *last = Some((shape.clone(), Arc::clone(&arrangement)));
        Ok(arrangement)
    }
}
