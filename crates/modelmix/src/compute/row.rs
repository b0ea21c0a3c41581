//! One new row against all held rows: a pass at memory bandwidth. Squared distances are computed from differences, so
//! no centre is needed.

use super::dispatch::Job;
use super::lanes::{Arithmetic, Map, is_centred};
use super::micro::Micro;
use super::squared_distance;
use crate::features::Rows;
use crate::kernel::Kernel;

/// The number of independent partial sums per row.
const SUMS_IN_FLIGHT: usize = 4;
/// The number of lanes of a partial sum.
pub(super) const LANES: usize = 16;
/// The number of rows whose geometry is collected before the kernel is applied to all of them.
const ROWS_PER_KERNEL_CALL: usize = 64;

/// Adds `weight` · k(x, row) to `out`; returns `false`, and adds nothing, if squares would overflow single precision.
pub(super) struct RowPass<'a, V> {
    pub(super) kernel: &'a Kernel,
    pub(super) weight: f64,
    pub(super) x: &'a [f32],
    pub(super) held: Rows<'a, V>,
    pub(super) out: &'a mut [f64],
}

/// A stored value, in either precision.
pub(super) trait Value: Copy + Default {
    unsafe fn load<A: Arithmetic>(values: &[Self; LANES]) -> A::Lanes;
}

impl Value for f32 {
    #[inline(always)]
    unsafe fn load<A: Arithmetic>(values: &[f32; LANES]) -> A::Lanes {
        // SAFETY: as the caller guarantees.
        unsafe { A::load(values) }
    }
}

impl Value for u16 {
    #[inline(always)]
    unsafe fn load<A: Arithmetic>(bits: &[u16; LANES]) -> A::Lanes {
        // SAFETY: as the caller guarantees.
        unsafe { A::load_half(bits) }
    }
}

/// The values after the last whole chunk of a row, padded with zeros.
#[inline(always)]
fn rest<T: Copy + Default>(values: &[T]) -> [T; LANES] {
    std::array::from_fn(|lane| values.get(lane).copied().unwrap_or_default())
}

impl<V: Value> Job for RowPass<'_, V> {
    type Output = bool;

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> bool {
        let norm = squared_norm(self.x, None).sqrt();
        let is_ordinary = norm == 0.0 || (1e-15..1e15).contains(&norm);
        if is_ordinary {
            // SAFETY: as the caller guarantees.
            unsafe { pass::<M, V>(self.kernel, self.weight, self.x, self.held, self.out) };
        }
        is_ordinary
    }
}

/// x·row of every row x and every held row: sums in single precision of [`LANES`] · [`SUMS_IN_FLIGHT`] parts each.
pub(super) struct Products<'a> {
    pub(super) x: Rows<'a>,
    pub(super) held: Rows<'a>,
}

impl Job for Products<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> Vec<f64> {
        let mut out = vec![0.0; self.x.len() * self.held.len()];
        // A few rows at a time, which are still in the cache for the next x.
        for start in (0..self.held.len()).step_by(ROWS_PER_KERNEL_CALL) {
            let rows = self.held.slice(start, (start + ROWS_PER_KERNEL_CALL).min(self.held.len()));
            for (index, x) in self.x.iter().enumerate() {
                let out = &mut out[index * self.held.len() + start..][..rows.len()];
                for (out, row) in out.iter_mut().zip(rows.iter()) {
                    // SAFETY: as the caller guarantees.
                    *out = f64::from(unsafe { inner::<M, f32, false>(row, x) });
                }
            }
        }
        out
    }
}

/// ‖x − row‖² of every row x and every held row, in double precision.
pub(super) struct Distances<'a> {
    pub(super) x: Rows<'a>,
    pub(super) held: Rows<'a>,
}

impl Job for Distances<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> Vec<f64> {
        let mut out = Vec::with_capacity(self.x.len() * self.held.len());
        for x in self.x.iter() {
            for row in self.held.iter() {
                out.push(squared_distance(x, row));
            }
        }
        out
    }
}

/// ‖x − centre‖² of every row, in double precision.
pub(super) struct SquaredNorms<'a> {
    pub(super) rows: Rows<'a>,
    pub(super) centre: Option<&'a [f32]>,
}

impl Job for SquaredNorms<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> Vec<f64> {
        self.rows.iter().map(|row| squared_norm(row, self.centre)).collect()
    }
}

/// Σ of every column over every `step`-th row, in double precision.
pub(super) struct ColumnSums<'a> {
    pub(super) rows: Rows<'a>,
    pub(super) step: usize,
}

impl Job for ColumnSums<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> Vec<f64> {
        let mut sums = vec![0.0f64; self.rows.width()];
        for row in self.rows.iter().step_by(self.step) {
            sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        sums
    }
}

/// Σ(x − centre)² in double precision.
#[inline(always)]
fn squared_norm(row: &[f32], centre: Option<&[f32]>) -> f64 {
    let mut lanes = [0.0f64; 8];
    let mut add = |values: [f32; 8]| {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane += f64::from(value) * f64::from(value);
        }
    };
    let (chunks, rest) = row.as_chunks::<8>();
    let mut last = [0.0; 8];
    match centre {
        None => {
            chunks.iter().for_each(|&chunk| add(chunk));
            last[..rest.len()].copy_from_slice(rest);
        }
        Some(centre) => {
            let (centres, centre) = centre.as_chunks::<8>();
            for (chunk, centre) in chunks.iter().zip(centres) {
                add(std::array::from_fn(|lane| chunk[lane] - centre[lane]));
            }
            last.iter_mut().zip(rest.iter().zip(centre)).for_each(|(last, (value, centre))| *last = value - centre);
        }
    }
    add(last);
    lanes.iter().sum()
}

/// # Safety
/// Must be inlined into a function that enables the instructions.
#[inline(always)]
unsafe fn pass<A: Arithmetic, V: Value>(kernel: &Kernel, weight: f64, x: &[f32], held: Rows<'_, V>, out: &mut [f64]) {
    let distance = is_centred(kernel);
    let norm = squared_norm(x, None);
    let own = Map::term(kernel, norm);
    for (start, out) in (0..held.len()).step_by(ROWS_PER_KERNEL_CALL).zip(out.chunks_mut(ROWS_PER_KERNEL_CALL)) {
        let rows = held.slice(start, start + out.len());
        let mut geometry = [0.0f32; ROWS_PER_KERNEL_CALL];
        let mut terms = [0.0f32; ROWS_PER_KERNEL_CALL];
        let mut largest = norm;
        for (value, row) in geometry.iter_mut().zip(rows.iter()) {
            // SAFETY: as the caller guarantees.
            *value = unsafe { if distance { inner::<A, V, true>(row, x) } else { inner::<A, V, false>(row, x) } };
        }
        if !distance {
            for (row, term) in terms.iter_mut().enumerate().take(rows.len()) {
                // SAFETY: as the caller guarantees.
                let squared = unsafe { held_norm::<A, V>(rows, row) };
                largest = largest.max(squared);
                *term = Map::term(kernel, squared);
            }
        }
        let (map, unit) = Map::new(kernel, distance, largest);
        // SAFETY: as the caller guarantees.
        unsafe { map.apply::<A>(&mut geometry, ROWS_PER_KERNEL_CALL, &[own], &terms) };
        for (out, &value) in out.iter_mut().zip(&geometry) {
            *out += weight * unit * f64::from(value);
        }
    }
}

/// The squared norm of a held row, in double precision.
#[inline(always)]
unsafe fn held_norm<A: Arithmetic, V: Value>(rows: Rows<'_, V>, row: usize) -> f64 {
    let (chunks, last) = rows.row(row).as_chunks::<LANES>();
    let mut lanes = [0.0f64; LANES];
    for chunk in chunks.iter().chain([&rest(last)]) {
        let mut values = [0.0; LANES];
        // SAFETY: as the caller guarantees.
        unsafe { A::store(V::load::<A>(chunk), &mut values) };
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane += f64::from(value) * f64::from(value);
        }
    }
    lanes.iter().sum()
}

/// The geometry of one row against another. The row is read from start to end with several partial sums, so that memory
/// is one sequential stream, which the hardware prefetches.
#[inline(always)]
unsafe fn inner<A: Arithmetic, V: Value, const DISTANCE: bool>(row: &[V], x: &[f32]) -> f32 {
    let (others, other_rest) = x.as_chunks::<LANES>();
    let (chunks, chunk_rest) = row.as_chunks::<LANES>();
    // SAFETY, of all blocks: as the caller guarantees.
    let add = |sum: A::Lanes, values: &[V; LANES], other: &[f32; LANES]| unsafe {
        let (values, other) = (V::load::<A>(values), A::load(other));
        if DISTANCE {
            let difference = A::subtract(values, other);
            A::multiply_add(difference, difference, sum)
        } else {
            A::multiply_add(values, other, sum)
        }
    };
    let mut sums = unsafe { [A::splat(0.0); SUMS_IN_FLIGHT] };
    let (groups, others_left) = others.as_chunks::<SUMS_IN_FLIGHT>();
    let (chunk_groups, chunks_left) = chunks.as_chunks::<SUMS_IN_FLIGHT>();
    for (group, other) in chunk_groups.iter().zip(groups) {
        for lane in 0..SUMS_IN_FLIGHT {
            sums[lane] = add(sums[lane], &group[lane], &other[lane]);
        }
    }
    for ((chunk, other), sum) in chunks_left.iter().zip(others_left).zip(&mut sums) {
        *sum = add(*sum, chunk, other);
    }
    if !other_rest.is_empty() {
        sums[0] = add(sums[0], &rest(chunk_rest), &rest(other_rest));
    }
    let mut lanes = [0.0; LANES];
    // Pairwise, so that the error does not grow with the number of sums.
    unsafe { A::store(A::add(A::add(sums[0], sums[1]), A::add(sums[2], sums[3])), &mut lanes) };
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}
