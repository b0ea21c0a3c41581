//! Accumulators as bytes: a magic number with a version, a header in JSON, arrays of little-endian numbers, and a checksum. The
//! bytes of equal accumulators are equal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::exact::{ExactSum, LIMBS};
use super::moments::MomentSums;
use super::pairs::{BlockRows, PairTotals, RowSums};
use super::sample::{RowSample, SampledRow};
use super::{Accumulator, ArmSums, Plan, Terms, empty};
use crate::compute::WAVE_UNIT;
use crate::error::{Error, Result};
use crate::features::Features;

/// More rows than any data has, and few enough that sums of counts stay in range.
const MOST_ROWS: u64 = 1 << 48;

/// The first bytes; the last of them is the version.
const MAGIC: [u8; 8] = *b"mmixacc\x03";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    plan: Plan,
    arms: Vec<Part>,
    reference: Part,
    shards: BTreeMap<String, u64>,
    reference_shards: BTreeMap<String, u64>,
    blocks: Vec<BlockPart>,
    /// Per side, the number of sampled rows with sums over pairs.
    pair_rows: Vec<usize>,
}

/// The rows of a block.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockPart {
    name: String,
    rows: Vec<u64>,
    checksum: u64,
}

/// The sizes of an arm's sums.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    name: String,
    count: u64,
    sampled: usize,
    values: usize,
}

fn refused(problem: &str) -> Error {
    Error::setting("the accumulator", problem, "bytes that this release has written; write it again")
}

impl Accumulator {
    /// The accumulator as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let part = |name: &str, sums: &ArmSums| {
            let sample = sums.sample.sorted();
            let values = sample.first().map_or(0, |row| row.values.len());
            (Part { name: name.into(), count: sums.count, sampled: sample.len(), values }, sample)
        };
        let arms: Vec<_> = self.arms.iter().map(|(name, sums)| (part(name, sums), sums)).collect();
        let reference = (part("", &self.reference), &self.reference);
        let block = |(name, rows): (&String, &BlockRows)| BlockPart {
            name: name.clone(),
            rows: rows.counts.clone(),
            checksum: rows.checksum,
        };
        let header = Header {
            plan: (*self.plan).clone(),
            arms: arms.iter().map(|((part, _), _)| part.clone()).collect(),
            reference: reference.0.0.clone(),
            shards: self.shards.clone(),
            reference_shards: self.reference_shards.clone(),
            blocks: self.pairs.blocks.iter().map(block).collect(),
            pair_rows: self.pairs.rows.iter().map(BTreeMap::len).collect(),
        };
        let header = serde_json::to_vec(&header).expect("a header is plain data");
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&header);
        for ((_, sample), sums) in arms.iter().chain([&reference]) {
            for row in sample {
                bytes.extend_from_slice(&row.priority.to_le_bytes());
                bytes.extend(row.row.iter().flat_map(|value| value.to_le_bytes()));
                bytes.extend(row.values.iter().flat_map(|value| value.to_le_bytes()));
            }
            bytes.extend(sums.waves.iter().flatten().flat_map(|sum| sum.to_le_bytes()));
            bytes.extend(sums.linear.iter().flat_map(|sum| sum.carried()).flat_map(|limb| limb.to_le_bytes()));
            for moments in sums.moments.iter().chain(&sums.directions) {
                bytes.extend(moments.sums.iter().chain(&moments.products).flat_map(|sum| sum.to_le_bytes()));
            }
        }
        self.pairs.write(&mut bytes);
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads an accumulator. `reference` is the whole reference, which only precision and density need, to add more rows or to
    /// solve from sampled rows.
    ///
    /// # Errors
    /// If the bytes are damaged, or if another release wrote them.
    pub fn from_bytes(bytes: &[u8], reference: Option<Features>) -> Result<Self> {
        let (plan, header, payload) = open(bytes)?;
        // Sums can be merged and solved without the reference; only new rows need it.
        let terms = match (&plan.reference, &reference) {
            (Some(_), None) => Terms::new(&Plan { reference: None, ..plan.clone() }, None, Default::default())?,
            _ => Terms::new(&plan, reference, Default::default())?,
        };
        Self::read(plan, Arc::new(terms), &header, payload)
    }

    /// Reads an accumulator of the same plan, and shares what the plan is prepared with.
    ///
    /// # Errors
    /// As [`Accumulator::from_bytes`], and if the plan is another one.
    pub fn like_from_bytes(&self, bytes: &[u8]) -> Result<Self> {
        let (plan, header, payload) = open(bytes)?;
        if plan != *self.plan {
            return Self::from_bytes(bytes, None);
        }
        Self::read(plan, Arc::clone(&self.terms), &header, payload)
    }

    fn read(plan: Plan, terms: Arc<Terms>, header: &Header, payload: &[u8]) -> Result<Self> {
        let mut reader = Reader(payload);
        let mut arms = BTreeMap::new();
        // Of each sampled row: scores and, if terms are summed over all rows, those that are means.
        let values = plan.scores.len() + terms.linear.len();
        for part in &header.arms {
            plan.check_arm(&part.name).map_err(|error| refused(&format!("damaged: {error}")))?;
            let sums = reader.part(&plan, &terms, (part, Some(&part.name)), values)?;
            if arms.insert(part.name.clone(), sums).is_some() {
                return Err(refused("damaged: it has an arm twice"));
            }
        }
        let reference = reader.part(&plan, &terms, (&header.reference, None), 0)?;
        let pairs = reader.pairs(&plan, header)?;
        if !reader.0.is_empty() {
            return Err(refused("damaged: it has bytes left over"));
        }
        Ok(Self {
            plan: Arc::new(plan),
            terms,
            arms,
            reference,
            pairs,
            shards: header.shards.clone(),
            reference_shards: header.reference_shards.clone(),
        })
    }
}

impl PairTotals {
    /// One bit per pair of blocks, in the order of their names, and then the sums.
    fn write(&self, payload: &mut Vec<u8>) {
        let names: Vec<&String> = self.blocks.keys().collect();
        let pairs =
            names.iter().enumerate().flat_map(|(at, first)| names[at..].iter().map(move |second| (first, second)));
        let bits: Vec<bool> = pairs.map(|(first, second)| self.has(first, second)).collect();
        payload.extend(bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit))));
        payload.extend(self.sums.iter().chain(&self.own).flatten().flat_map(|sum| sum.to_le_bytes()));
        for (priority, row) in self.rows.iter().flatten() {
            payload.extend_from_slice(&priority.to_le_bytes());
            payload.extend_from_slice(&row.copies.to_le_bytes());
            payload.extend(row.toward.iter().flat_map(|sum| sum.to_le_bytes()));
        }
    }
}

impl Plan {
    /// The plan as bytes, for workers.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a plan is plain data")
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// If the bytes are not those of a plan.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes)
            .map_err(|error| Error::setting("the plan", error, "bytes that this release has written"))
    }
}

/// Checks the frame, and returns the plan, the header and the arrays.
fn open(bytes: &[u8]) -> Result<(Plan, Header, &[u8])> {
    let rest = bytes
        .strip_prefix(&MAGIC[..7])
        .ok_or_else(|| refused("no accumulator: it does not begin with the magic number"))?;
    let (version, rest) = rest.split_first().ok_or_else(|| refused("damaged: it is too short"))?;
    if *version != MAGIC[7] {
        return Err(refused(&format!("of format version {version}, which this release does not read")));
    }
    let body = rest.len().checked_sub(12).ok_or_else(|| refused("damaged: it is too short"))?;
    let (covered, checksum) = bytes.split_at(bytes.len() - 4);
    if checksum != crc32fast::hash(covered).to_le_bytes() {
        return Err(refused("damaged: its checksum does not match"));
    }
    let mut length = [0; 8];
    length.copy_from_slice(&rest[..8]);
    let length = usize::try_from(u64::from_le_bytes(length)).ok().filter(|&length| length <= body);
    let length = length.ok_or_else(|| refused("damaged: its header is too long"))?;
    let (header, payload) = rest[8..8 + body].split_at(length);
    let header: Header = serde_json::from_slice(header).map_err(|error| refused(&format!("damaged: {error}")))?;
    Ok((header.plan.clone(), header, payload))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// Reads numbers of `SIZE` bytes each. Nothing is allocated before the bytes are known to be there.
    fn numbers<const SIZE: usize, T>(&mut self, count: usize, of: impl Fn([u8; SIZE]) -> T) -> Result<Vec<T>> {
        let length = count.checked_mul(SIZE).filter(|&length| length <= self.0.len());
        let length = length.ok_or_else(|| refused("damaged: it ends within its sums"))?;
        let (numbers, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(numbers.as_chunks::<SIZE>().0.iter().map(|bytes| of(*bytes)).collect())
    }

    fn pairs(&mut self, plan: &Plan, header: &Header) -> Result<PairTotals> {
        let sides = plan.arms.len() + 1;
        if plan.pairs.is_some() && sides.saturating_mul(sides) / 2 > self.0.len() / 16 {
            return Err(refused("damaged: it ends within its sums"));
        }
        let mut totals = PairTotals::new(plan);
        let sides = totals.rows.len();
        let names: BTreeSet<&String> = header.blocks.iter().map(|block| &block.name).collect();
        let is_sorted = header.blocks.is_sorted_by(|one, other| one.name < other.name);
        let fits = header.blocks.iter().all(|block| block.rows.len() == sides) && (sides > 0 || names.is_empty());
        if !is_sorted || !fits || header.pair_rows.len() != sides {
            return Err(refused("damaged: its blocks do not fit the plan"));
        }
        let count = names.len();
        let bits = count.checked_mul(count + 1).ok_or_else(|| refused("damaged: it has too many blocks"))? / 2;
        let bytes = self.numbers(bits.div_ceil(8), |[byte]| byte)?;
        let names: Vec<&String> = names.into_iter().collect();
        let mut bit = 0;
        for (at, first) in names.iter().enumerate() {
            for second in &names[at..] {
                if bytes[bit / 8] >> (bit % 8) & 1 == 1 {
                    totals.done.entry((*first).clone()).or_default().insert((*second).clone());
                }
                bit += 1;
            }
        }
        if header.blocks.iter().flat_map(|block| &block.rows).any(|&rows| rows > MOST_ROWS) {
            return Err(refused("damaged: it has more rows than there can be"));
        }
        for block in &header.blocks {
            let rows = BlockRows { counts: block.rows.clone(), checksum: block.checksum };
            totals.blocks.insert(block.name.clone(), rows);
        }
        for sums in totals.sums.iter_mut().chain(&mut totals.own) {
            *sums = self.numbers(sums.len(), i128::from_le_bytes)?;
        }
        for (rows, &count) in totals.rows.iter_mut().zip(&header.pair_rows) {
            for _ in 0..count {
                let [priority, copies] = self.numbers(2, u64::from_le_bytes)?[..] else {
                    return Err(refused("damaged"));
                };
                let toward = self.numbers(sides, i128::from_le_bytes)?;
                if rows.insert(priority, RowSums { copies, toward }).is_some() {
                    return Err(refused("damaged: it has a sampled row twice"));
                }
            }
        }
        Ok(totals)
    }

    fn part(
        &mut self,
        plan: &Plan,
        terms: &Terms,
        (part, arm): (&Part, Option<&str>),
        values: usize,
    ) -> Result<ArmSums> {
        if part.count > MOST_ROWS {
            return Err(refused("damaged: it has more rows than there can be"));
        }
        let moments = terms.moment_values(plan.width.unwrap_or(0));
        if moments.is_none_or(|values| values.saturating_mul(16) > self.0.len()) {
            return Err(refused("damaged: it ends within its sums"));
        }
        let fitting = Plan { width: plan.width.filter(|&width| width <= self.0.len()), ..plan.clone() };
        let mut sums = empty(&fitting, terms, arm);
        sums.count = part.count;
        let width = plan.width.unwrap_or(0);
        if part.sampled as u64 > part.count || part.sampled > plan.sample {
            return Err(refused("damaged: it has more sampled rows than rows"));
        }
        if part.sampled > 0 && part.values != values {
            return Err(refused("damaged: its sampled rows have other values than the plan"));
        }
        let mut sample = RowSample::new(plan.sample, plan.highest_of(arm));
        for _ in 0..part.sampled {
            let priority = self.numbers(1, u64::from_le_bytes)?[0];
            let row = self.numbers(width, f32::from_le_bytes)?;
            let values = self.numbers(values, f64::from_le_bytes)?;
            if row.iter().any(|value| !value.is_finite()) || values.iter().any(|value| !value.is_finite()) {
                return Err(refused("damaged: a sampled value is not finite"));
            }
            sample.add(SampledRow { priority, row: row.into(), values: values.into() });
        }
        sums.sample = sample;
        for waves in &mut sums.waves {
            *waves = self.numbers(waves.len(), i64::from_le_bytes)?;
            // No sum of cosines is larger than the number of rows.
            if waves.iter().any(|sum| sum.unsigned_abs() > part.count.saturating_mul(WAVE_UNIT as u64)) {
                return Err(refused("damaged: its sums are larger than its rows allow"));
            }
        }
        for linear in &mut sums.linear {
            let limbs = self.numbers(LIMBS, i64::from_le_bytes)?;
            *linear = ExactSum::from_carried(limbs.try_into().map_err(|_| refused("damaged"))?);
        }
        for moments in [&mut sums.moments, &mut sums.directions].into_iter().flatten() {
            let own = self.numbers(width, i128::from_le_bytes)?;
            let products = self.numbers(width * (width + 1) / 2, i128::from_le_bytes)?;
            *moments = MomentSums { sums: own, products };
        }
        Ok(sums)
    }
}
