//! One new row against all rows held: a pass at the speed of memory. Squared distances come from differences, so that no
//! centre is needed.

use super::dispatch::Job;
use super::lanes::{Arithmetic, Map, fma, is_centred};
use super::micro::Micro;
use crate::features::{HalfRows, Rows};
use crate::kernel::Kernel;

/// Rows that share each load of the new one.
const GROUP: usize = 4;
/// Partial sums of a row.
pub(super) const LANES: usize = 16;
/// Rows whose geometry is collected before the kernel is taken of all of them.
const BATCH: usize = 64;

/// Adds `weight` · k(x, row) to `out`; says no, and adds nothing, where squares would leave single precision.
pub(super) struct RowPass<'a, H> {
    pub(super) kernel: &'a Kernel,
    pub(super) weight: f64,
    pub(super) x: &'a [f32],
    pub(super) held: H,
    pub(super) out: &'a mut [f64],
}

/// Rows held, in either precision.
pub(super) trait Held: Copy {
    fn len(&self) -> usize;
    fn slice(&self, start: usize, end: usize) -> Self;
    /// `LANES` values of a row, or as many as there are and then zeros.
    fn lanes<A: Arithmetic>(&self, row: usize, start: usize) -> [f32; LANES];
}

impl Held for Rows<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        Rows::len(self)
    }

    #[inline(always)]
    fn slice(&self, start: usize, end: usize) -> Self {
        Rows::slice(self, start, end)
    }

    #[inline(always)]
    fn lanes<A: Arithmetic>(&self, row: usize, start: usize) -> [f32; LANES] {
        padded(&self.row(row)[start..])
    }
}

impl Held for HalfRows<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        HalfRows::len(self)
    }

    #[inline(always)]
    fn slice(&self, start: usize, end: usize) -> Self {
        HalfRows::slice(self, start, end)
    }

    #[inline(always)]
    fn lanes<A: Arithmetic>(&self, row: usize, start: usize) -> [f32; LANES] {
        A::widen(&padded(&self.row(row)[start..]))
    }
}

/// The first `LANES` values, or as many as there are and then zeros.
#[inline(always)]
fn padded<T: Copy + Default>(values: &[T]) -> [T; LANES] {
    match values.first_chunk() {
        Some(chunk) => *chunk,
        None => std::array::from_fn(|lane| values.get(lane).copied().unwrap_or_default()),
    }
}

impl<H: Held> Job for RowPass<'_, H> {
    type Output = bool;

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> bool {
        let norm = squared_norm(self.x, None).sqrt();
        let is_ordinary = norm == 0.0 || (1e-15..1e15).contains(&norm);
        if is_ordinary {
            pass::<M, H>(self.kernel, self.weight, self.x, self.held, self.out);
        }
        is_ordinary
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

/// Σ of every column, in double precision.
pub(super) struct ColumnSums<'a> {
    pub(super) rows: Rows<'a>,
}

impl Job for ColumnSums<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> Vec<f64> {
        let mut sums = vec![0.0f64; self.rows.width()];
        for row in self.rows.iter() {
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

#[inline(always)]
fn pass<A: Arithmetic, H: Held>(kernel: &Kernel, weight: f64, x: &[f32], held: H, out: &mut [f64]) {
    let distance = is_centred(kernel);
    let norm = squared_norm(x, None);
    let own = Map::term(kernel, norm);
    for (start, out) in (0..held.len()).step_by(BATCH).zip(out.chunks_mut(BATCH)) {
        let rows = held.slice(start, start + out.len());
        let mut geometry = [0.0f32; BATCH];
        let mut terms = [0.0f32; BATCH];
        let mut largest = norm;
        for (group, values) in (0..rows.len()).step_by(GROUP).zip(geometry.chunks_exact_mut(GROUP)) {
            let rows = rows.slice(group, (group + GROUP).min(rows.len()));
            values.copy_from_slice(&if distance {
                inner::<A, H, true>(rows, x)
            } else {
                inner::<A, H, false>(rows, x)
            });
        }
        if !distance {
            for (row, term) in terms.iter_mut().enumerate().take(rows.len()) {
                let squared = held_norm::<A, H>(rows, row, x.len());
                largest = largest.max(squared);
                *term = Map::term(kernel, squared);
            }
        }
        let (map, unit) = Map::new(kernel, distance, largest);
        map.apply::<A>(&mut geometry, own, &terms);
        for (out, &value) in out.iter_mut().zip(&geometry) {
            *out += weight * unit * f64::from(value);
        }
    }
}

/// The squared norm of a row held, in double precision.
#[inline(always)]
fn held_norm<A: Arithmetic, H: Held>(rows: H, row: usize, width: usize) -> f64 {
    let mut lanes = [0.0f64; LANES];
    for start in (0..width).step_by(LANES) {
        for (lane, value) in lanes.iter_mut().zip(rows.lanes::<A>(row, start)) {
            *lane += f64::from(value) * f64::from(value);
        }
    }
    lanes.iter().sum()
}

/// The geometry of up to [`GROUP`] rows against one; a short group reads its last row again.
#[inline(always)]
fn inner<A: Arithmetic, H: Held, const DISTANCE: bool>(group: H, x: &[f32]) -> [f32; GROUP] {
    let mut sums = [[0.0f32; LANES]; GROUP];
    let last = group.len() - 1;
    for start in (0..x.len()).step_by(LANES) {
        let other = padded(&x[start..]);
        for (index, sums) in sums.iter_mut().enumerate() {
            let chunk = group.lanes::<A>(index.min(last), start);
            for lane in 0..LANES {
                let (a, b) = (chunk[lane], other[lane]);
                let (left, right) = if DISTANCE { (a - b, a - b) } else { (a, b) };
                sums[lane] = fma::<A>(left, right, sums[lane]);
            }
        }
    }
    sums.map(|mut lanes| {
        // Pairwise, so that the error does not grow with the number of lanes.
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                lanes[lane] += lanes[lane + width];
            }
            width /= 2;
        }
        lanes[0]
    })
}
