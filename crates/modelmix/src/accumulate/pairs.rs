//! Exact sums of kernels over all pairs of rows, one pair of blocks at a time. Every sum of the engine is rounded once to a whole
//! number of the plan's quanta, so the order of pairs and the tree of merges do not matter.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::PairPlan;
use super::sample::priority;
use super::{Accumulator, Plan};
use crate::compute::{Engine, Resident, Set};
use crate::error::{Error, Result};
use crate::features::Features;
use crate::kernel::Kernel;
use crate::objective::{Measure, Objective};

/// The largest sum over a pair of blocks, in quanta: 2²⁶ such sums fit into 127 bits.
const LARGEST_SUM: f64 = (1_u128 << 100) as f64;

/// Rows that are paired as one unit, of any arms and of the reference.
///
/// ```
/// # use modelmix::{Features, accumulate::Block};
/// let rows = Features::from_rows([[0.0, 1.0], [1.0, 0.0]])?;
/// let block = Block::new("part-0").arm("flux", rows.clone()).reference(rows);
/// assert_eq!(block.name(), "part-0");
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Block {
    name: String,
    arms: Vec<(String, Features)>,
    reference: Vec<Features>,
}

impl Block {
    /// Creates an empty block. Its name is unique among all blocks, and the same for every worker.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), arms: Vec::new(), reference: Vec::new() }
    }

    /// Adds rows of an arm.
    #[must_use]
    pub fn arm(mut self, name: impl Into<String>, rows: Features) -> Self {
        self.arms.push((name.into(), rows));
        self
    }

    /// Adds rows of the reference.
    #[must_use]
    pub fn reference(mut self, rows: Features) -> Self {
        self.reference.push(rows);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A quadratic term: κ with its weight.
#[derive(Clone, Debug)]
pub(super) struct PairKernel {
    pub(super) kernel: Kernel,
    pub(super) weight: f64,
    pub(super) has_reference: bool,
    /// Whether sums are in double precision, as those of `kid`.
    is_precise: bool,
}

/// The kernels of all quadratic terms, in the order of terms; squared for RKE.
pub(super) fn pair_kernels(objective: &Objective, width: usize) -> Result<Vec<PairKernel>> {
    let terms = objective.terms().iter().filter_map(|term| Some((term, term.measure.quadratic_kernel()?)));
    terms
        .map(|(term, spec)| {
            let kernel = spec.resolve(Some(width), &mut || Err(Error::missing("a plan", "bandwidths as numbers")))?;
            let is_squared = matches!(term.measure, Measure::Rke { .. });
            Ok(PairKernel {
                kernel: if is_squared { kernel.squared() } else { kernel },
                weight: term.weight,
                has_reference: !is_squared,
                is_precise: term.measure == Measure::Kid,
            })
        })
        .collect()
}

/// The rows of a block: their number per side, and a checksum.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BlockRows {
    pub(super) counts: Vec<u64>,
    pub(super) checksum: u64,
}

/// Sums of the sampled rows with one priority, which are copies of each other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowSums {
    pub(super) copies: u64,
    /// Σκ of all copies toward every side, with weighted terms added.
    pub(super) toward: Vec<i128>,
}

/// Sums over the pairs of blocks that are included. A side is an arm, by its index in the plan, or the reference, which is last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PairTotals {
    pub(super) blocks: BTreeMap<String, BlockRows>,
    /// Per block, the blocks of the same name or a later one that it was paired with.
    pub(super) done: BTreeMap<String, BTreeSet<String>>,
    /// Per kernel and pair of sides, Σκ over pairs of different rows: both orders count if the sides are the same.
    pub(super) sums: Vec<Vec<i128>>,
    /// Per kernel and side, Σκ(x, x).
    pub(super) own: Vec<Vec<i128>>,
    /// Per side, the sums of sampled rows by priority.
    pub(super) rows: Vec<BTreeMap<u64, RowSums>>,
}

/// The position of a pair of sides.
pub(super) fn position(i: usize, j: usize) -> usize {
    let (low, high) = (i.min(j), i.max(j));
    high * (high + 1) / 2 + low
}

/// Rows of a block that belong to one side.
struct SideRows<'a> {
    side: usize,
    rows: &'a Features,
    held: Box<dyn Resident>,
    /// The rows that are part of the plan's sample, with their priorities.
    sampled: Vec<(usize, u64)>,
}

impl PairTotals {
    pub(super) fn new(plan: &Plan) -> Self {
        let Some(pairs) = &plan.pairs else { return Self::default() };
        let sides = plan.arms.len() + 1;
        Self {
            sums: vec![vec![0; sides * (sides + 1) / 2]; pairs.quanta.len()],
            own: vec![vec![0; sides]; pairs.quanta.len()],
            rows: vec![BTreeMap::new(); sides],
            ..Self::default()
        }
    }

    pub(super) fn has(&self, first: &str, second: &str) -> bool {
        self.done.get(first).is_some_and(|seconds| seconds.contains(second))
    }

    /// Checks that no pair of blocks is in both, and that blocks of the same name have the same rows.
    pub(super) fn check_apart(&self, other: &Self) -> Result<()> {
        for (first, seconds) in &other.done {
            if let Some(second) = seconds.iter().find(|second| self.has(first, second)) {
                return Err(Error::setting(
                    "the pair of blocks",
                    format!("{first} × {second}, which is already included"),
                    "included once; leave one of its accumulators out",
                ));
            }
        }
        match other.blocks.iter().find(|(name, rows)| self.blocks.get(*name).is_some_and(|own| own != *rows)) {
            Some((name, _)) => Err(other_rows(name)),
            None => Ok(()),
        }
    }

    /// Adds sums that were checked.
    pub(super) fn merge(&mut self, other: &Self) {
        self.blocks.extend(other.blocks.iter().map(|(name, rows)| (name.clone(), rows.clone())));
        for (first, seconds) in &other.done {
            self.done.entry(first.clone()).or_default().extend(seconds.iter().cloned());
        }
        for (own, other) in [(&mut self.sums, &other.sums), (&mut self.own, &other.own)] {
            let sums = own.iter_mut().flatten().zip(other.iter().flatten());
            sums.for_each(|(sum, more)| *sum += more);
        }
        for (own, other) in self.rows.iter_mut().zip(&other.rows) {
            for (priority, row) in other {
                match own.get_mut(priority) {
                    Some(own) => {
                        own.copies += row.copies;
                        own.toward.iter_mut().zip(&row.toward).for_each(|(sum, more)| *sum += more);
                    }
                    None => drop(own.insert(*priority, row.clone())),
                }
            }
        }
    }

    /// Adds sums of one kernel between rows of two sides.
    fn add_rows(&mut self, plan: &PairPlan, weight: f64, from: &SideRows<'_>, to: usize, sums: &[f64]) -> Result<()> {
        let sides = self.rows.len();
        if from.side == to && to + 1 == sides {
            return Ok(());
        }
        for &(row, priority) in &from.sampled {
            let value = whole(weight * sums[row], plan.row_quantum)?;
            let empty = || RowSums { copies: 0, toward: vec![0; sides] };
            self.rows[from.side].entry(priority).or_insert_with(empty).toward[to] += value;
        }
        Ok(())
    }

    /// Adds the pairs within a block, and κ(x, x).
    fn add_within(
        &mut self,
        plan: &PairPlan,
        index: usize,
        term: &PairKernel,
        engine: &Engine,
        sides: &[&SideRows<'_>],
    ) -> Result<()> {
        let sets: Vec<Set<'_>> = sides.iter().map(|side| Set::Resident(&*side.held)).collect();
        for (s, sums) in engine.kernel_sums_among(&term.kernel, &sets)?.into_iter().enumerate() {
            let own = Set::from(sides[s].rows).self_values(&term.kernel)?;
            self.own[index][sides[s].side] += whole(own.iter().sum(), plan.quanta[index])?;
            for (t, sums) in sums.into_iter().enumerate() {
                let (i, j) = (sides[s].side, sides[t].side);
                // The sums of different sides are there in both directions.
                if i == j || s < t {
                    self.sums[index][position(i, j)] += whole(sums.iter().sum(), plan.quanta[index])?;
                }
                self.add_rows(plan, term.weight, sides[s], j, &sums)?;
            }
        }
        Ok(())
    }

    /// Adds the pairs between two blocks.
    fn add_between(
        &mut self,
        plan: &PairPlan,
        index: usize,
        term: &PairKernel,
        engine: &Engine,
        sides: (&[&SideRows<'_>], &[&SideRows<'_>]),
    ) -> Result<()> {
        for a in sides.0 {
            for b in sides.1 {
                let sums = engine.kernel_sums(&term.kernel, Set::Resident(&*a.held), Set::Resident(&*b.held))?;
                let orders = if a.side == b.side { 2.0 } else { 1.0 };
                let sum = orders * sums.rows.iter().sum::<f64>();
                self.sums[index][position(a.side, b.side)] += whole(sum, plan.quanta[index])?;
                self.add_rows(plan, term.weight, a, b.side, &sums.rows)?;
                self.add_rows(plan, term.weight, b, a.side, &sums.columns)?;
            }
        }
        Ok(())
    }
}

fn other_rows(name: &str) -> Error {
    Error::setting(
        "the block",
        format!("{name}, with other rows than before"),
        "the same rows in all its pairs; give other rows another name",
    )
}

/// A sum as a whole number of quanta.
fn whole(sum: f64, quantum: f64) -> Result<i128> {
    let whole = (sum / quantum).round_ties_even();
    if whole.abs() < LARGEST_SUM {
        return Ok(whole as i128);
    }
    Err(Error::setting(
        "the sum of a kernel over pairs of rows",
        sum,
        "a number near those of the sampled rows; remove rows with extreme values, or scale the features down",
    ))
}

impl Accumulator {
    /// Adds the pairs of rows of two blocks, or all pairs within a block if it is given twice; for [`Method::Pairs`](super::Method::Pairs).
    ///
    /// Every block is paired once with itself and once with every other block, in any order and by any worker. This does not
    /// count rows: every row is also passed once to [`Accumulator::update`] or [`Accumulator::update_reference`], and
    /// [`Accumulator::solve`] refuses sums whose pairs do not fit the rows. An accumulator has no rows of its blocks, only one sum per
    /// sampled row and arm. Sums are rounded only after the engine has computed
    /// them, so bits are the same on machines whose engines compute the same bits.
    ///
    /// # Errors
    /// If the plan has another method, if the pair is already included, if a block of this name has other rows, if an arm was not
    /// in the survey, or those of the engine; then nothing is added.
    pub fn update_pairs(&mut self, a: &Block, b: &Block) -> Result<()> {
        let Some(plan) = self.plan.pairs.clone() else {
            return Err(Error::setting(
                "the method of the plan",
                self.plan.method.name(),
                "pairs for sums over pairs of blocks; plan with this method",
            ));
        };
        // The order of rows within an engine's sum may matter, so there is one.
        let (a, b) = if a.name <= b.name { (a, b) } else { (b, a) };
        let mut part = PairTotals::new(&self.plan);
        let (first, rows) = self.sides(a)?;
        part.blocks.insert(a.name.clone(), rows);
        let second = match a.name == b.name {
            true if std::ptr::eq(a, b) => None,
            true => {
                let (_, rows) = self.sides(b)?;
                if part.blocks[&a.name] != rows {
                    return Err(other_rows(&a.name));
                }
                None
            }
            false => {
                let (sides, rows) = self.sides(b)?;
                part.blocks.insert(b.name.clone(), rows);
                Some(sides)
            }
        };
        part.done.insert(a.name.clone(), [b.name.clone()].into());
        self.pairs.check_apart(&part)?;
        let sides = self.plan.arms.len() + 1;
        for (index, term) in self.terms.kernels.iter().enumerate() {
            let engine = if term.is_precise { self.terms.engine.precise() } else { self.terms.engine.clone() };
            let usable = |all: &'_ [SideRows<'_>]| -> Vec<usize> {
                (0..all.len()).filter(|&at| term.has_reference || all[at].side + 1 < sides).collect()
            };
            let own: Vec<&SideRows<'_>> = usable(&first).into_iter().map(|at| &first[at]).collect();
            match &second {
                None if own.is_empty() => {}
                None => part.add_within(&plan, index, term, &engine, &own)?,
                Some(second) => {
                    let others: Vec<&SideRows<'_>> = usable(second).into_iter().map(|at| &second[at]).collect();
                    part.add_between(&plan, index, term, &engine, (&own, &others))?;
                }
            }
        }
        if second.is_none() {
            for side in &first {
                for (_, priority) in &side.sampled {
                    let empty = || RowSums { copies: 0, toward: vec![0; sides] };
                    part.rows[side.side].entry(*priority).or_insert_with(empty).copies += 1;
                }
            }
        }
        self.pairs.merge(&part);
        Ok(())
    }

    /// Whether the pairs of rows of these two blocks are included.
    pub fn has_pair(&self, a: &str, b: &str) -> bool {
        self.pairs.has(a.min(b), a.max(b))
    }

    /// The rows of a block by side, and what identifies them.
    fn sides<'a>(&self, block: &'a Block) -> Result<(Vec<SideRows<'a>>, BlockRows)> {
        let plan = &self.plan;
        let arms = block.arms.iter().map(|(arm, rows)| {
            let side = plan.arms.iter().position(|known| known == arm);
            let side = side.ok_or_else(|| {
                Error::setting(
                    &format!("the arm of block {}", block.name),
                    arm,
                    format!("one of the survey: {}", plan.arms.join(", ")),
                )
            })?;
            Ok((side, format!("block {}, arm {arm}", block.name), rows))
        });
        let origin = || format!("block {}, the reference", block.name);
        let reference = block.reference.iter().map(|rows| Ok((plan.arms.len(), origin(), rows)));
        let mut identity = BlockRows { counts: vec![0; plan.arms.len() + 1], checksum: 0 };
        let mut sides = Vec::new();
        for part in arms.chain(reference) {
            let (side, origin, rows) = part?;
            if let Some(expected) = plan.width.filter(|&expected| expected != rows.width()) {
                return Err(Error::Width { origin, found: rows.width(), other: "the survey".into(), expected });
            }
            let is_reference = side == plan.arms.len();
            let highest = plan.highest_of(plan.arms.get(side).map(String::as_str));
            for term in self.terms.kernels.iter().filter(|term| term.has_reference || !is_reference) {
                term.kernel.check_features(rows).map_err(|error| error.of(&origin))?;
            }
            identity.counts[side] += rows.len() as u64;
            let mut sampled = Vec::new();
            for (at, row) in rows.host()?.iter().enumerate() {
                let priority = priority(plan.seed, row);
                identity.checksum = identity.checksum.wrapping_add(priority.rotate_left(side as u32));
                if priority <= highest {
                    sampled.push((at, priority));
                }
            }
            sides.push(SideRows { side, rows, held: self.terms.engine.hold(rows)?, sampled });
        }
        Ok((sides, identity))
    }
}
